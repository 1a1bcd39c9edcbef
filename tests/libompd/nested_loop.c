/* 3 x 2 x 2 with a loop of ITERATIONS in the innermost regions, by the schedule of the environment. All threads stop
 * in the loop or, if AFTER is set, behind it. */
#include "truth.h"
#include <omp.h>
#include <stdlib.h>

static int iterations, after;

static KEPT void step(void)
{
    if (!after)
        TRUTH_HOLD();
}

static KEPT void innermost(void)
{
    TRUTH_REGION(inner);
    #pragma omp parallel num_threads(2)
    {
        truth_enter(inner);
        #pragma omp for schedule(runtime)
        for (int i = 0; i < iterations; i++)
            step();
        TRUTH_HOLD();
    }
    truth_leave(inner);
}

int main(void)
{
    truth_start(12);
    iterations = atoi(getenv("ITERATIONS"));
    after = getenv("AFTER") != 0;
    omp_set_max_active_levels(3);
    TRUTH_REGION(outer);
    #pragma omp parallel num_threads(3)
    {
        truth_enter(outer);
        TRUTH_REGION(middle);
        #pragma omp parallel num_threads(2)
        {
            truth_enter(middle);
            innermost();
        }
        truth_leave(middle);
    }
    truth_leave(outer);
    return 0;
}
