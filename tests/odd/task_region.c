#include "odd.h"
/* Threads that have arrived at the closing barrier run tasks, and these have regions. */
static volatile int busy;
static void inner(const struct at *up) {
    struct at two = AT(up);
#pragma omp parallel num_threads(2)
    STAY(&two);
}
int main(void) {
    odd_start(5);
    struct at one = AT(NULL);
#pragma omp parallel num_threads(3)
    {
        if (omp_get_thread_num() == 0) {
            for (int i = 0; i < 2; i++) {
#pragma omp task
                {
#pragma omp atomic
                    busy++;
                    inner(&one);
                }
            }
            while (busy < 2) usleep(1000);
            STAY(&one);
        }
    }
}
