#include "odd.h"
/* Regions reached through pointers to functions, and code that the C library calls. */
typedef void function(const struct at *, int);
static int compare(const void *a, const void *b) {
    (void)b;
    const struct at *up = *(const struct at *const *)a;
    STAY(up);
}
static void sorter(const struct at *up, int depth) {
    (void)depth;
    struct at here = AT(up);
#pragma omp parallel num_threads(2)
    {
        const struct at *array[2] = {&here, &here};
        qsort(array, 2, sizeof *array, compare);
    }
}
static void outer(const struct at *up, int depth);
static function *table[] = {sorter, outer};
static void outer(const struct at *up, int depth) {
    struct at here = AT(up);
#pragma omp parallel num_threads(2)
    table[depth > 0](&here, depth - 1);
}
int main(void) {
    omp_set_max_active_levels(20);
    odd_start(8);
    table[1](NULL, 1);
}
