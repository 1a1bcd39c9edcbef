#include "odd.h"
/* A region is cancelled and waits for the thread that does not notice. */
int main(void) {
    odd_start(4);
    struct at one = AT(NULL);
#pragma omp parallel num_threads(4)
    {
        if (omp_get_thread_num() == 3) STAY(&one);
        SAY(&one, "barrier");
        if (omp_get_thread_num() == 1) {
#pragma omp cancel parallel
        }
        usleep(20000);
#pragma omp barrier
    }
}
