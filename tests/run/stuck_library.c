/* A library for tests of Python: two functions with a region each. */
#include <omp.h>

static omp_lock_t a, b;

/* Never returns: two threads hold a lock each and wait for the other's. */
void deadlock(void)
{
    omp_init_lock(&a);
    omp_init_lock(&b);
    #pragma omp parallel num_threads(2)
    {
        omp_lock_t *mine = omp_get_thread_num() ? &a : &b, *others = omp_get_thread_num() ? &b : &a;
        omp_set_lock(mine);
        #pragma omp barrier
        omp_set_lock(others);
    }
}

/* Returns the size of the team. */
int team(void)
{
    int count = 0;
    #pragma omp parallel reduction(+:count) num_threads(2)
    count++;
    return count;
}
