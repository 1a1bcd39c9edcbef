#include "odd.h"
/* Each thread has its own copy of two variables. */
static int counter = 7;
static double table[600];
#pragma omp threadprivate(counter, table)
int main(void) {
    odd_start(3);
#pragma omp parallel num_threads(3)
    {
        counter = 100 + omp_get_thread_num();
        table[599] = counter + 0.5;
        odd_words("{\"at\": %lu, \"is\": %d, \"end\": %lu}\n", (unsigned long)&counter, counter, (unsigned long)&table[599]);
        for (;;) pause();
    }
}
