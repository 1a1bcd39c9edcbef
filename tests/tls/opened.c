/* A thread-local variable, NAME, of a library that the program opens. */
__thread long NAME[SIZE] = {1, 2, 3};

void *address(void)
{
    return &NAME[2];
}
