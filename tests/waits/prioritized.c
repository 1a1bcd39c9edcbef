#include "odd.h"
/* Tasks with priorities wait in queues of their own, those without in their thread's. All threads are busy. */
static void work(int number) { (void)number; abort(); }
int main(void) {
    odd_start(3);
#pragma omp parallel num_threads(3)
    {
        if (omp_get_thread_num() == 1) {
            for (int i = 0; i < 7; i++) {
#pragma omp task priority(i % 4) firstprivate(i)
                work(i);
            }
            odd_words("{\"queued\": 7, \"thread\": %d}\n", odd_gettid());
        } else {
            odd_words("{\"busy\": %d}\n", odd_gettid());
        }
        for (;;) pause();
    }
}
