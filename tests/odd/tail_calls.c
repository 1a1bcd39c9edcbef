#include "odd.h"
/* With optimisation these functions are left by jumps: the code that met the region is not on the stack. */
static struct at here;
__attribute__((noinline)) static void region(void) {
#pragma omp parallel num_threads(2)
    STAY(&here);
}
__attribute__((noinline)) static void user(int k) { if (k) region(); }
int main(int count, char **words) {
    odd_start(2);
    here = (struct at){NULL, "region", 5};
    user(count);
    return 0;
}
