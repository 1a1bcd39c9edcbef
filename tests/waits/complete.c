#include "odd.h"
/* A task that is done, but whose child is not. */
int main(void) {
    odd_start(2);
#pragma omp parallel num_threads(2)
    {
#pragma omp single
        {
#pragma omp task
            {
#pragma omp task
                {
                    until_settled(1);
                    odd_words("{\"child\": %d}\n", odd_gettid());
                    for (;;) pause();
                }
                odd_words("{\"parent\": %d}\n", odd_gettid());
            }
        }
    }
}
