/* A library on another OpenMP runtime than the program that opens it, with a region of two threads. */
#include <omp.h>
#include <stdlib.h>

void inner(void)
{
    #pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 1)
            abort();
        #pragma omp barrier
    }
}
