#include "locks.h"
/* The first lock has number 0, which is what variables hold that nobody ever set: *unused* is one. Where ON_HEAP, the
 * first lock is in the heap, and no variable is its. */
static omp_lock_t used, unused;
static struct { omp_lock_t lock; } never[3];

int main(void) {
    omp_lock_t *first = &used;
#ifdef ON_HEAP
    first = malloc(sizeof *first);
#endif
    take(first);
    odd_start(3);
#pragma omp parallel num_threads(4)
    {
        if (omp_get_thread_num() > 0) wait_for(first, first == &used ? "&used" : NULL);
        HOLD();
    }
    return sizeof unused + sizeof never;
}
