#include "odd.h"
/* Threads wait at implicit barriers of worksharing constructs: there is no barrier directive in the source. */
int main(void) {
    odd_start(12);
    struct at one = AT(NULL);
#pragma omp parallel num_threads(3)
    {
        struct at two = AT(&one);
#pragma omp parallel num_threads(4)
        switch (omp_get_ancestor_thread_num(1)) {
        case 0:
            if (omp_get_thread_num()) SAY(&two, "implicit");
#pragma omp for schedule(dynamic, 1)
            for (int i = 0; i < 1; i++) STAY(&two);
            break;
        case 1:
            if (omp_get_thread_num()) SAY(&two, "implicit");
#pragma omp for schedule(static)
            for (int i = 0; i < 4; i++) if (!omp_get_thread_num()) STAY(&two);
            break;
        case 2:
            if (omp_get_thread_num()) SAY(&two, "implicit");
#pragma omp sections
            {
#pragma omp section
                STAY(&two);
            }
        }
    }
}
