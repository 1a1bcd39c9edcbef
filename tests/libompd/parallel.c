/* A team of 4 and a loop of 100 iterations, of which each makes a task; each thread stops in one, the others are queued.
 */
#include "truth.h"
#include <omp.h>

int main(void)
{
    truth_start(4);
    TRUTH_REGION(region);
    #pragma omp parallel num_threads(4)
    {
        truth_enter(region);
        #pragma omp for
        for (int i = 0; i < 100; i++) {
            TRUTH_TASK(task);
            #pragma omp task
            {
                truth_begins(task);
                TRUTH_HOLD();
            }
            if (i % 25 == 24)
                TRUTH_BLOCKS(TRUTH_WORKSHARE_BARRIER, 0);
        }
        TRUTH_PASSED();
    }
    truth_leave(region);
    return 0;
}
