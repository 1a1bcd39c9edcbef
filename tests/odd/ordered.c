#include "odd.h"
/* Threads wait for their turn in an ordered loop. */
int main(void) {
    odd_start(3);
    struct at one = AT(NULL);
#pragma omp parallel num_threads(3)
    {
#pragma omp for ordered schedule(static, 1)
        for (int i = 0; i < 3; i++) {
            if (i) SAY(&one, "ordered");
#pragma omp ordered
            STAY(&one);
        }
    }
}
