#include "odd.h"
/* Tasks within tasks, on one thread: all but the innermost end by waiting for the next one, with a jump to the runtime. */
static __attribute__((noipa)) void crunch(const struct at *up) { STAY(up); }
static __attribute__((noipa)) void nest(const struct at *up, int depth) {
    if (depth == 0) { crunch(up); return; }
#pragma omp task
    nest(up, depth - 1);
#pragma omp taskwait
}
static __attribute__((noipa)) void start(void) {
    struct at here = AT(NULL);
#pragma omp parallel num_threads(1)
    { nest(&here, 6); }
}
int main(void) {
    odd_start(1);
    start();
    return 0;
}
