/* A team of 2: thread 0 stops, thread 1 calls a function that has a loop on a team of 2. */
#include "truth.h"
#include <omp.h>

static KEPT void loop(void)
{
    TRUTH_REGION(inner);
    #pragma omp parallel num_threads(2)
    {
        truth_enter(inner);
        #pragma omp for
        for (int i = 0; i < 4; i++)
            TRUTH_HOLD();
    }
    truth_leave(inner);
}

int main(void)
{
    truth_start(3);
    omp_set_max_active_levels(2);
    TRUTH_REGION(outer);
    #pragma omp parallel num_threads(2)
    {
        truth_enter(outer);
        if (omp_get_thread_num() == 0)
            TRUTH_HOLD();
        loop();
    }
    truth_leave(outer);
    return 0;
}
