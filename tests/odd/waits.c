#include "odd.h"
/* A thread in each kind of wait. */
/* One thread in each kind of wait, below level 1. */
static omp_lock_t lock;
static omp_nest_lock_t nest;
int main(void) {
    omp_set_max_active_levels(20);
    omp_init_lock(&lock);
    omp_init_nest_lock(&nest);
    omp_set_lock(&lock);
    omp_set_nest_lock(&nest);
    odd_start(8);
    struct at one = AT(NULL);
#pragma omp parallel num_threads(8)
    {
        static _Atomic int held;
        switch (omp_get_thread_num()) {
        case 0:
            STAY(&one);
        case 1:
            SAY(&one, "lock");
            getppid();
            omp_set_lock(&lock);
        case 2:
            SAY(&one, "lock");
            omp_set_nest_lock(&nest);
        case 3:
#pragma omp critical(a)
        {
            held = 1;
            STAY(&one);
        }
        case 4:
            while (!held) usleep(1000);
            SAY(&one, "critical");
#pragma omp critical(a)
            held = 2;
        case 5:
#pragma omp task
            STAY(&one);
            getppid();
        case 6: {
            SAY(&one, "taskgroup");
#pragma omp taskgroup
            {
#pragma omp task if (0)
                getppid();
            }
        }
        }
        SAY(&one, "barrier");
    }
}
