#include "odd.h"
/* A thread waits for one of the runtime's own locks, which the program holds: the runtime is linked into it. */
#ifdef LIBGOMP
extern __thread char gomp_tls_data[]; /* of GCC 12 */
int main(void) {
    odd_start(1);
#pragma omp parallel num_threads(2)
    {
        char *team = *(char **)(gomp_tls_data + 16);
#pragma omp barrier
        if (omp_get_thread_num() == 0) {
            *(volatile int *)(team + 1280) = 1; /* task_lock */
            odd_words("{\"waits\": %d}\n", odd_gettid());
#pragma omp task
            pause();
        }
        for (;;) pause();
    }
}
#else
extern char __kmp_forkjoin_lock[];
extern int __kmp_acquire_ticket_lock(void *, int);
int main(void) {
    odd_start(1);
    omp_get_max_threads();
    __kmp_acquire_ticket_lock(__kmp_forkjoin_lock, 0);
    odd_words("{\"waits\": %d}\n", odd_gettid());
#pragma omp parallel num_threads(2)
    pause();
}
#endif
