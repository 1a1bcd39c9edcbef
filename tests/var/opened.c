/* A library that the program opens: too large for static thread-local storage. */
static __thread int before[4000];
__thread int opened_variable = 1;

int *opened_address(void)
{
    before[3] = 1;
    return &opened_variable;
}
