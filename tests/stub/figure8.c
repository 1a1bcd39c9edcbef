/* Figure 8 of the DMPL white paper. As it stands there, the compiler gives each thread its `a`; with BY_KEY the runtime
 * does, under a POSIX thread key, and with EMULATED the compiler's library, in emulated.c. */
#include <omp.h>
#include <stdio.h>
#ifdef BY_KEY
#include <omp_stub.h>
#endif
#ifndef EMULATED
int a = 0;

#ifdef BY_KEY
OMP_STUB_THREADPRIVATE(a);
#define a OMP_STUB_PRIVATE(a)
#else
#pragma omp threadprivate(a)
#endif
void foo (int i)
{
    printf ("id=%d, i=%d, a= %d\n", omp_get_thread_num(), i, ++a);
    fflush (stdout);
    return;
}
#else
void foo (int i);
#endif

const int tcount = 4;
const int titers = 10;

int main (int argc, char **argv)
{
    int i;
    (void)argc, (void)argv;
    omp_set_num_threads (tcount);
    omp_set_dynamic (0);
    #pragma omp parallel for
    for (i = 0; i < titers; i++)
        {foo (i);}
    return 0;
}
