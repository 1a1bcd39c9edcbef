#include "odd.h"
#include <stdatomic.h>
/* A thread waits for tasks, of which its other tasks are none: AT a taskwait, the end of a taskgroup, before a task that
   is not deferred, or where none of the team may execute what is queued. */
static atomic_int begun;

static void rest(const char *word) {
    odd_words("{\"%s\": %d}\n", word, odd_gettid());
    begun++;
    for (;;) pause();
}

int main(void) {
    const char *at = getenv("AT");
    int x = 0, y[2] = {0};
    int is_starved = !strcmp(at, "starved");
    odd_start(is_starved ? 2 : 4);
#pragma omp parallel num_threads(is_starved ? 2 : 4)
#pragma omp single
    {
        if (!strcmp(at, "taskwait")) {
            for (int i = 0; i < 3; i++) {
#pragma omp task
                rest("awaited");
            }
            while (begun < 3) usleep(1000);
            odd_words("{\"waits\": %d, \"count\": 3}\n", odd_gettid());
#pragma omp taskwait
        } else if (!strcmp(at, "taskgroup")) {
#pragma omp task
            rest("other");
            while (begun < 1) usleep(1000);
#pragma omp taskgroup
            {
                for (int i = 0; i < 2; i++) {
#pragma omp task
                    rest("awaited");
                }
                while (begun < 3) usleep(1000);
                odd_words("{\"waits\": %d, \"count\": 2}\n", odd_gettid());
            }
        } else if (!strcmp(at, "dependence")) {
#pragma omp task depend(out: x)
            rest("awaited");
            while (begun < 1) usleep(1000);
            for (int i = 0; i < 2; i++) {
#pragma omp task depend(out: y[i])
                rest("other");
            }
            while (begun < 3) usleep(1000);
            odd_words("{\"waits\": %d, \"count\": 1}\n", odd_gettid());
#pragma omp task if (0) depend(in: x)
            odd_words("{\"never\": 0}\n");
        } else {
#pragma omp task
            {
#pragma omp task
                odd_words("{\"queued\": 0}\n");
                rest("awaited");
            }
            while (begun < 1) usleep(1000);
            odd_words("{\"waits\": %d, \"count\": 1}\n", odd_gettid());
#pragma omp taskwait
        }
    }
}
