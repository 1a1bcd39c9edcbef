#include "odd.h"
/* A task is suspended on the thread that runs the region it has started; it does not wait for children. */
int main(void) {
    odd_start(4);
#pragma omp parallel num_threads(2)
    {
#pragma omp single
        {
            for (int i = 0; i < 2; i++) {
#pragma omp task
                {
                    int encountering = odd_gettid();
#pragma omp parallel num_threads(2)
                    {
                        odd_words("{\"%s\": %d}\n", encountering == odd_gettid() ? "encountering" : "joined", odd_gettid());
                        for (;;) pause();
                    }
                }
            }
        }
    }
}
