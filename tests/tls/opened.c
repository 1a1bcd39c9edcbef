/* A thread-local variable, NAME, of a library that the program opens, and one, OWN, that no other file can see. */
__thread long NAME[SIZE] = {1, 2, 3};
static __thread long OWN = 4;

void *address(void)
{
    return &NAME[2];
}

void *own_address(void)
{
    return &OWN;
}
