#include "odd.h"
/* A hundred serialized regions in one another. */
static void down(const struct at *up, int depth) {
    if (depth == 0) STAY(up);
    struct at here = AT(up);
#pragma omp parallel num_threads(1)
    down(&here, depth - 1);
}
int main(void) {
    odd_start(1);
    down(NULL, 100);
}
