#include "odd.h"
/* A league of two teams on the host. The initial thread of one is outside of parallel regions, the other one has a region. */
int main(void) {
    odd_start(3);
#pragma omp teams num_teams(2)
    {
        if (omp_get_team_num() == 0) STAY(NULL);
        struct at one = AT(NULL);
#pragma omp parallel num_threads(2)
        STAY(&one);
    }
}
