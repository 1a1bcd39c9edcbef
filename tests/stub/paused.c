/* Makes a program wait at the end of its region, at the place of the debuggers' breakpoint; see stop.c. */
#include <stdio.h>
#include <unistd.h>

void ompd_bp_parallel_end(void);

void ompd_bp_parallel_end(void)
{
    puts("stopped");
    fflush(stdout);
    for (;;)
        pause();
}
