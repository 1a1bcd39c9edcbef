/* Stops a program at the end of its region: at the place where debuggers put a breakpoint, of which this is another one
 * that comes before the runtime's. */
#include <stdlib.h>

void ompd_bp_parallel_end(void);

void ompd_bp_parallel_end(void)
{
    abort();
}
