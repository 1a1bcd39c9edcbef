#include "odd.h"
/* Constructs of all kinds for which gcc makes functions of one kind of name. */
static __attribute__((noipa)) void loop(const struct at *up) {
#pragma omp taskloop num_tasks(2)
    for (int i = 0; i < 2; i++) {
        odd_words("{\"construct\": \"taskloop\", \"construct_tid\": %d, \"at\": %d}\n", odd_gettid(), __LINE__ - 2);
        SAY(up, "stay");
        for (;;) pause();
    }
}
static __attribute__((noipa)) void task(const struct at *up) {
#pragma omp task
    {
        odd_words("{\"construct\": \"task\", \"construct_tid\": %d, \"at\": %d}\n", odd_gettid(), __LINE__ - 2);
        STAY(up);
    }
#pragma omp taskwait
}
int main(void) {
    odd_start(4);
    struct at here = AT(NULL);
#pragma omp parallel num_threads(3)
    {
        if (omp_get_thread_num() == 1) loop(&here);
        if (omp_get_thread_num() == 0) task(&here);
    }
    return 0;
}
