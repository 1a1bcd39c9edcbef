/* Two threads that are not OpenMP's, then a team of 4. */
#include "truth.h"
#include <omp.h>
#include <pthread.h>

static KEPT void *wait_outside(void *unused)
{
    TRUTH_HOLD_PLAIN();
    return unused;
}

int main(void)
{
    pthread_t outside[2];
    truth_start(6);
    for (int i = 0; i < 2; i++)
        pthread_create(&outside[i], 0, wait_outside, 0);
    TRUTH_REGION(region);
    #pragma omp parallel num_threads(4)
    {
        truth_enter(region);
        TRUTH_HOLD();
    }
    truth_leave(region);
    return 0;
}
