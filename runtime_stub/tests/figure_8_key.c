/* Figure 8 of the DMPL article with `a` in storage under a POSIX thread key. It stops behind the loop: "abort" or "pause"
 * as its argument; without one it checks that the threads' copies are 3, 3, 2, 2. */
#include "check.h"

#include <omp.h>
#include <omp_stub.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int a = 0;
OMP_STUB_THREADPRIVATE(a);
#define a OMP_STUB_PRIVATE(a)

void foo (int i)
{
    printf ("id=%d, i=%d, a= %d\n", omp_get_thread_num(), i, ++a);
    fflush (stdout);
    return;
}

const int tcount = 4;
const int titers = 10;

int main (int argc, char **argv)
{
    int i;
    omp_set_num_threads (tcount);
    omp_set_dynamic (0);
    #pragma omp parallel for
    for (i = 0; i < titers; i++)
        {foo (i);}
    if (argc > 1 && !strcmp(argv[1], "abort"))
        abort();
    while (argc > 1 && !strcmp(argv[1], "pause"))
        pause();
    #pragma omp parallel
    {
        IS(int, a, omp_get_thread_num() < 2 ? 3 : 2);
    }
    return 0;
}
