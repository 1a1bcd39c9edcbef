#include "odd.h"
/* Threads that a cancellation let out of a barrier wait in the one at the region's end for the one that was never there. */
int main(void) {
    odd_start(4);
#pragma omp parallel num_threads(4)
    {
        int number = omp_get_thread_num();
        odd_words("{\"%s\": %d}\n", number == 1 ? "missing" : "waits", odd_gettid());
        if (number == 1)
            for (;;) pause();
        if (number == 3) {
            until_settled(3);
#pragma omp cancel parallel
        }
#pragma omp barrier
    }
}
