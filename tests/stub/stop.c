/* Stops a program at the end of its region, in the function where debuggers put a breakpoint. This definition of it
 * precedes the runtime's. */
#include <stdlib.h>

void ompd_bp_parallel_end(void);

void ompd_bp_parallel_end(void)
{
    abort();
}
