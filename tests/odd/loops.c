#include "odd.h"
/* Threads in iterations and sections. */
int main(void) {
    odd_start(9);
    struct at one = AT(NULL);
#pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 0) {
            struct at two = AT(&one);
#pragma omp parallel for num_threads(3) schedule(dynamic, 1)
            for (int i = 0; i < 3; i++)
                STAY(&two);
        } else {
            struct at two = AT(&one);
#pragma omp parallel num_threads(3)
            {
                struct at three = AT(&two);
#pragma omp parallel sections num_threads(2)
                {
#pragma omp section
                    if (omp_get_ancestor_thread_num(2) == 0) STAY(&three); else SAY(&three, "end");
#pragma omp section
                    STAY(&three);
                }
            }
        }
    }
}
