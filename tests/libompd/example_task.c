/* A team of 8 and one section, whose thread makes three tasks, of which each makes three, four levels deep. Each thread
 * stops in a task of the last level, which it made or took from another one. */
#include "truth.h"
#include <omp.h>

static KEPT void grow(int levels)
{
    if (levels == 0)
        TRUTH_HOLD();
    for (int i = 0; i < 3; i++) {
        TRUTH_TASK(task);
        #pragma omp task
        {
            truth_begins(task);
            grow(levels - 1);
            truth_ends(task);
        }
    }
    TRUTH_BLOCKS(TRUTH_TASKWAIT, 0);
    #pragma omp taskwait
    TRUTH_PASSED();
}

int main(void)
{
    truth_start(8);
    TRUTH_REGION(region);
    #pragma omp parallel num_threads(8)
    {
        truth_enter(region);
        #pragma omp sections nowait
        {
            grow(4);
        }
        truth_finishes();
    }
    truth_leave(region);
    return 0;
}
