/* A league of two teams on the host, each with a region of two threads. */
#include "truth.h"
#include <omp.h>

int main(void)
{
    truth_start(4);
    #pragma omp teams num_teams(2)
    {
        TRUTH_REGION(region);
        #pragma omp parallel num_threads(2)
        {
            truth_enter(region);
            TRUTH_HOLD();
        }
        truth_leave(region);
    }
    return 0;
}
