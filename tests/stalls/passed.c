#include "odd.h"
/* A team passes a barrier so often; then one thread does not come to the next, in the region or at its end (AT). */
int main(void) {
    int passes = atoi(getenv("PASSES")), away = atoi(getenv("AWAY"));
    int at_end = !strcmp(getenv("AT"), "end");
    odd_start(3);
    for (int i = 0; i < passes; i++) {
#pragma omp parallel num_threads(3)
        {
#pragma omp barrier
            if (i == passes - 1) {
                odd_words("{\"thread\": %d, \"number\": %d}\n", odd_gettid(), omp_get_thread_num());
                if (omp_get_thread_num() == away)
                    for (;;) pause();
                if (!at_end) {
#pragma omp barrier
                }
            }
        }
    }
}
