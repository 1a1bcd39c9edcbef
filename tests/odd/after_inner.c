#include "odd.h"
/* Thread 0's inner region is over and it is back in the outer one; thread 1 is in its second inner region. */
static void inner(const struct at *up, int threads, int stay) {
    struct at here = AT(up);
#pragma omp parallel num_threads(threads)
    if (stay) STAY(&here);
}
int main(void) {
    omp_set_max_active_levels(20);
    odd_start(4);
    struct at one = AT(NULL);
#pragma omp parallel num_threads(2)
    {
        inner(&one, 4, 0);
        if (omp_get_thread_num() == 0) STAY(&one);
        inner(&one, 2, 0);
        inner(&one, 3, 1);
    }
}
