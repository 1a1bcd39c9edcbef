/* Optimised, the code of its region ends in jumps: to a routine of the C library on one thread, to one with a barrier on
 * another. Nothing of the region's own code is left on their stacks. */
#include "settled.h"
#include <omp.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((noinline)) static void meet(void)
{
    #pragma omp barrier
}

static void *stop(void *unused)
{
    (void)unused;
    until_settled(3);
    abort();
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, 0, stop, 0);
    #pragma omp parallel num_threads(3)
    {
        if (omp_get_thread_num() == 1)
            pause();
        else
            meet();
    }
    return 0;
}
