#include "odd.h"
/* Handlers of signals that wait themselves: at a barrier, and for the critical section and the lock that their own
   thread has. */
static omp_lock_t lock;
static int done;
static void critical(int number) {
    odd_words("{\"tid\": %d, \"late\": %d, \"state\": \"wait_critical\", \"wait\": \"critical\"}\n", odd_gettid(), odd_gettid());
#pragma omp critical(log)
    done++;
}
static void set(int number) {
    odd_words("{\"tid\": %d, \"late\": %d, \"state\": \"wait_lock\", \"wait\": \"lock\"}\n", odd_gettid(), odd_gettid());
    omp_set_lock(&lock);
    done++;
}
static void barrier(int number) {
    odd_words("{\"tid\": %d, \"state\": \"wait_barrier\", \"wait\": \"barrier\"}\n", odd_gettid());
#pragma omp barrier
    done++;
}
int main(void) {
    odd_start(4);
    omp_init_lock(&lock);
    signal(SIGUSR1, critical);
    signal(SIGUSR2, set);
    signal(SIGALRM, barrier);
#pragma omp parallel num_threads(4)
    {
        switch (omp_get_thread_num()) {
        case 0:
#pragma omp critical(log)
            raise(SIGUSR1);
            break;
        case 1:
            omp_set_lock(&lock);
            raise(SIGUSR2);
            break;
        case 2:
            raise(SIGALRM);
            break;
        default:
            odd_words("{\"tid\": %d, \"state\": \"wait_barrier\", \"wait\": \"barrier\"}\n", odd_gettid());
        }
#pragma omp barrier
        done++;
    }
}
