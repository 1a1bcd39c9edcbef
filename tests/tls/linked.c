/* Thread-local variables of a library that the program is linked with. */
__thread int linked_variable = 5;
static __thread char padding[3];
static __thread int linked_hidden_variable = 6;

int *linked_hidden(void)
{
    padding[0] = 1;
    return &linked_hidden_variable;
}
