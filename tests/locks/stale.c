#include "locks.h"
/* The number of a lock that was destroyed is given to the next one, and remains in the variable of the first. One that
 * was copied has two variables. */
static omp_lock_t destroyed, copy;

int main(void) {
    omp_lock_t *next = malloc(sizeof *next), *original = malloc(sizeof *original);
    take(original);
    memcpy(&copy, original, sizeof copy);
    omp_init_lock(&destroyed);
    omp_destroy_lock(&destroyed);
    take(next);
    odd_start(3);
#pragma omp parallel num_threads(4)
    {
        switch (omp_get_thread_num()) {
        case 1: wait_for(next, NULL); break;
        case 2: wait_for(original, NULL); break;
        case 3: wait_for(&copy, "&copy"); break;
        }
        HOLD();
    }
}
