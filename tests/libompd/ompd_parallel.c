/* 7 x 5 x 3. STOP tells where: 1 in the teams of 3, 2 in those of 5 behind them, 3 in that of 7 behind those. */
#include "truth.h"
#include <omp.h>
#include <stdlib.h>

static int stop;

static KEPT void innermost(void)
{
    TRUTH_REGION(region);
    #pragma omp parallel num_threads(3)
    {
        truth_enter(region);
        if (stop == 1)
            TRUTH_HOLD();
    }
    truth_leave(region);
}

static KEPT void middle(void)
{
    TRUTH_REGION(region);
    #pragma omp parallel num_threads(5)
    {
        truth_enter(region);
        innermost();
        if (stop == 2)
            TRUTH_HOLD();
    }
    truth_leave(region);
}

int main(void)
{
    stop = atoi(getenv("STOP"));
    truth_start(stop == 1 ? 105 : stop == 2 ? 35 : 7);
    omp_set_max_active_levels(3);
    TRUTH_REGION(region);
    #pragma omp parallel num_threads(7)
    {
        truth_enter(region);
        middle();
        TRUTH_HOLD();
    }
    truth_leave(region);
    return 0;
}
