/* A team of 2, whose threads are in serialized regions, as many as REGIONS says, and there in a task; if INNER is set,
 * that has a serialized region of its own. */
#include "truth.h"
#include <omp.h>
#include <stdlib.h>

static KEPT void inside_of_task(void)
{
    TRUTH_REGION(region);
    #pragma omp parallel num_threads(1)
    {
        truth_enter(region);
        TRUTH_HOLD();
    }
    truth_leave(region);
}

static KEPT void make_task(void)
{
    TRUTH_TASK(task);
    #pragma omp task
    {
        truth_begins(task);
        if (getenv("INNER"))
            inside_of_task();
        TRUTH_HOLD();
    }
}

static KEPT void serialized(int regions)
{
    if (regions == 0) {
        make_task();
        return;
    }
    TRUTH_REGION(region);
    #pragma omp parallel num_threads(1)
    {
        truth_enter(region);
        serialized(regions - 1);
    }
    truth_leave(region);
}

int main(void)
{
    truth_start(2);
    TRUTH_REGION(outer);
    #pragma omp parallel num_threads(2)
    {
        truth_enter(outer);
        serialized(atoi(getenv("REGIONS")));
    }
    truth_leave(outer);
    return 0;
}
