/* A team of 9, whose primary thread forms a team of 5, then a team of one when no more level may be active. STOP tells
 * where: 1 in the team of 5, 2 in the serialized region, 3 in the team of 9. */
#include "truth.h"
#include <omp.h>
#include <stdlib.h>

static int stop;

static KEPT void inner(int number)
{
    TRUTH_REGION(region);
    #pragma omp parallel num_threads(5)
    {
        truth_enter(region);
        if (stop == number)
            TRUTH_HOLD();
    }
    truth_leave(region);
}

int main(void)
{
    stop = atoi(getenv("STOP"));
    truth_start(stop == 1 ? 13 : 9);
    omp_set_max_active_levels(2);
    TRUTH_REGION(outer);
    #pragma omp parallel num_threads(9)
    {
        truth_enter(outer);
        if (omp_get_thread_num() == 0) {
            inner(1);
            omp_set_max_active_levels(0);
            inner(2);
        }
        TRUTH_HOLD();
    }
    truth_leave(outer);
    return 0;
}
