#include "odd.h"
/* Explicit tasks run where their threads wait: in a taskwait and in a barrier. */
static void task_body(const struct at *up) { STAY(up); }
int main(void) {
    odd_start(4);
    struct at one = AT(NULL);
#pragma omp parallel num_threads(3)
    {
#pragma omp single
        {
            for (int i = 0; i < 3; i++) {
#pragma omp task
                task_body(&one);
            }
            SAY(&one, "taskwait");
#pragma omp taskwait
        }
    }
}
