#include "odd.h"
/* Every thread of a region executes a task at the region's end, where it has left the region's code. */
static __attribute__((noipa)) void crunch(const struct at *up) { STAY(up); }
static __attribute__((noipa)) void start(void) {
    struct at here = AT(NULL);
#pragma omp parallel num_threads(3)
    {
#pragma omp for nowait
        for (int i = 0; i < 3; i++) {
#pragma omp task
            crunch(&here);
        }
    }
}
int main(void) {
    odd_start(3);
    start();
    return 0;
}
