#include "odd.h"
/* A program that has used OpenMP starts another one, itself, in its place. */
int main(int argc, char **argv) {
    if (argc == 1) {
#pragma omp parallel num_threads(3)
        getppid();
        execl("/proc/self/exe", argv[0], "again", NULL);
        return 70;
    }
    odd_start(3);
    struct at one = AT(NULL);
#pragma omp parallel num_threads(3)
    STAY(&one);
}
