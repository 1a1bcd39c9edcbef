#include "odd.h"
/* All threads have left the function of their region, which is not over: a task of it runs in the closing barrier. */
int main(void) {
    odd_start(1);
#pragma omp parallel num_threads(3)
    {
#pragma omp single nowait
        {
#pragma omp task
            {
                until_settled(2);
                odd_words("{\"function\": \"%s\", \"line\": %d}\n", __func__, __LINE__ - 7);
                for (;;) pause();
            }
        }
    }
}
