/* A library that the program opens, with a thread-local variable that is not part of static TLS. */
static __thread int before[50] = {1};
__thread int opened = 77;

int *address(void) { return before[0] ? &opened : 0; }
