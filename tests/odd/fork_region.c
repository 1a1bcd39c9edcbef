#include "odd.h"
#include <sys/wait.h>
/* The child of a process that has used OpenMP uses it again: its team is its own. */
int main(void) {
#pragma omp parallel num_threads(3)
    getppid();
    int child = fork();
    if (child == 0) {
        odd_start(2);
        struct at one = AT(NULL);
#pragma omp parallel num_threads(2)
        STAY(&one);
    }
    waitpid(child, NULL, 0);
    _exit(0);
}
