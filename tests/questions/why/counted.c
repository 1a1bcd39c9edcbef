/* A team waits at a barrier of the program's own, which counts to 4. It writes "ready" at the start. */
#include <omp.h>
#include <stdio.h>

static int arrived;

int main(void)
{
    puts("ready");
    fflush(stdout);
    #pragma omp parallel num_threads(4)
    {
        __atomic_fetch_add(&arrived, 1, __ATOMIC_ACQ_REL);
        while (__atomic_load_n(&arrived, __ATOMIC_ACQUIRE) < 4)
            ;
    }
    return 0;
}
