/* Regions of 2, 3 and 4 threads, one after another. In each, thread 1 has an inner region of 2 threads. */
#include <omp.h>
#include <stdio.h>
#include <unistd.h>
static int slowness = 1; /* the number of the program's arguments, and one */
static double inner(double x) {
    double sum = 0;
#pragma omp parallel num_threads(2) reduction(+ : sum)
    sum += x + omp_get_thread_num();
    return sum;
}

/* Thread 0 is here while the others wait for it. */
static int together(void) {
    usleep(100000 * slowness * omp_get_num_threads());
    return omp_get_num_threads();
}

double work(int threads) {
    double sum = 0;
#pragma omp parallel num_threads(threads) reduction(+ : sum)
    {
        if (omp_get_thread_num() == 1)
            sum += inner(threads);
#pragma omp barrier
        if (omp_get_thread_num() == 0)
            sum += together();
#pragma omp barrier
        sum += omp_get_team_size(1);
    }
    return sum;
}

int main(int argc, char **argv) {
    (void)argv;
    slowness = argc;
    double sum = 0;
    omp_set_max_active_levels(2);
    for (int threads = 2; threads <= 4; threads++)
        sum += work(threads);
    printf("%g\n", sum);
    return 0;
}
