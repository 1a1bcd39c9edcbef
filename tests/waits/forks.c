#include "odd.h"
/* A thread that is in a barrier runs a task there, which forks a region: it has arrived all the same. */
static volatile int forked;
int main(void) {
    odd_start(5);
#pragma omp parallel num_threads(3)
    {
        if (omp_get_thread_num() == 0) {
#pragma omp task
            {
#pragma omp parallel num_threads(2)
                {
                    forked = 1;
                    odd_words("{\"tid\": %d}\n", odd_gettid());
                    for (;;) pause();
                }
            }
        } else
            while (!forked) usleep(1000);
        if (omp_get_thread_num() == 2) {
            odd_words("{\"missing\": %d}\n", odd_gettid());
            for (;;) pause();
        }
        odd_words("{\"waits\": %d}\n", odd_gettid());
#pragma omp barrier
    }
}
