#include "odd.h"
/* A worker of a nested region crashes. */
static int *nowhere;
static void crash(const struct at *up) {
    odd_say(up, __func__, __LINE__ + 2, NULL);
    until_settled(3);
    *nowhere = 1;
}
int main(void) {
    omp_set_max_active_levels(20);
    odd_start(1000);
    struct at one = AT(NULL);
#pragma omp parallel num_threads(2)
    {
        struct at two = AT(&one);
#pragma omp parallel num_threads(2)
        if (omp_get_ancestor_thread_num(1) == 1 && omp_get_thread_num() == 1) crash(&two); else STAY(&two);
    }
}
