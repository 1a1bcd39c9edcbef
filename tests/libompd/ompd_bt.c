/* A team of 5, stopped in a function that is called from its region. */
#include "truth.h"
#include <omp.h>

static KEPT void deepest(void)
{
    TRUTH_HOLD();
}

static KEPT void called(void)
{
    deepest();
}

int main(void)
{
    truth_start(5);
    TRUTH_REGION(region);
    #pragma omp parallel num_threads(5)
    {
        truth_enter(region);
        called();
    }
    truth_leave(region);
    return 0;
}
