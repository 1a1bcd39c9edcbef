#include "odd.h"
/* Many short regions are over. */
static double x[64];
static void region(int threads) {
#pragma omp parallel for num_threads(threads)
    for (int i = 0; i < 64; i++) x[i] += i;
}
int main(void) {
    odd_start(1);
    for (int i = 0; i < 2000; i++) region(1 + i % 4);
    STAY(NULL);
}
