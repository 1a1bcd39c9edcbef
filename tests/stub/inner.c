/* A library with a region of two threads, on another OpenMP runtime than the program that opens it. */
#include <omp.h>
#include <stdlib.h>
#include <unistd.h>

/* `begun` counts threads that are in the code of regions. */
void inner(volatile int *begun)
{
    #pragma omp parallel num_threads(2)
    {
        __atomic_add_fetch(begun, 1, __ATOMIC_SEQ_CST);
        if (omp_get_thread_num() == 1) {
            while (*begun < 5)
                usleep(1000);
            abort();
        }
        #pragma omp barrier
    }
}
