/* A library that the program is linked with. */
__thread int linked_variable = 4;

int *linked_address(void)
{
    return &linked_variable;
}
