#include "odd.h"
/* Data of the user that looks like a lock held by thread 2, next to where a thread waits for a real one. */
static omp_lock_t lock;
static volatile int data[4] = {0x103, 0x103, 0x103, 0x103};
__attribute__((noinline)) static void work(omp_lock_t *wanted, volatile int *p) {
    p[1] += 0;
    omp_set_lock(wanted);
    p[0]++;
}
int main(void) {
    odd_start(3);
    omp_init_lock(&lock);
#pragma omp parallel num_threads(3)
    {
        if (omp_get_thread_num() == 0) omp_set_lock(&lock);
#pragma omp barrier
        odd_words("{\"%s\": %d, \"data\": %lu, \"size\": %lu}\n", omp_get_thread_num() ? "waits" : "holds", odd_gettid(),
                  (unsigned long)data, (unsigned long)sizeof data);
        if (omp_get_thread_num() == 0)
            for (;;) pause();
        work(&lock, data);
    }
}
