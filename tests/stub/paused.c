/* Has a program rest at the end of its region, at the place where debuggers put a breakpoint: see stop.c. */
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
