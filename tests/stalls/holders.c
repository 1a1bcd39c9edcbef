#include "odd.h"
/* Threads wait for a nestable lock. Who has it HOLDER says: region, outside: a thread that has ended, in a region or
   outside of all; alone: the same, and no other has begun since; idle: a worker that is in the pool again; works: a thread of the team; task: a task that is over. */
static omp_nest_lock_t lock;

static void *take(void *unused) {
    (void)unused;
#pragma omp parallel num_threads(1)
    omp_set_nest_lock(&lock);
    return NULL;
}

static void *take_outside(void *unused) {
    (void)unused;
    omp_set_nest_lock(&lock);
    return NULL;
}

int main(void) {
    const char *holder = getenv("HOLDER");
    omp_init_nest_lock(&lock);
    odd_start(strcmp(holder, "idle") && strcmp(holder, "alone") ? 3 : 2);
    if (!strcmp(holder, "region") || !strcmp(holder, "outside") || !strcmp(holder, "alone")) {
        pthread_t thread;
        pthread_create(&thread, NULL, holder[0] == 'r' ? take : take_outside, NULL);
        pthread_join(thread, NULL);
        odd_words("{\"holder\": null}\n");
        if (!strcmp(holder, "alone")) {
            odd_words("{\"waits\": %d}\n", odd_gettid());
            omp_set_nest_lock(&lock);
        }
    } else if (!strcmp(holder, "idle")) {
#pragma omp parallel num_threads(3)
        if (omp_get_thread_num() == 2) {
            omp_set_nest_lock(&lock);
            odd_words("{\"holder\": %d}\n", odd_gettid());
        }
        odd_words("{\"waits\": %d}\n", odd_gettid());
        omp_set_nest_lock(&lock);
    } else if (!strcmp(holder, "task")) {
#pragma omp parallel num_threads(2)
#pragma omp single
        {
#pragma omp task
            {
                omp_set_nest_lock(&lock);
                odd_words("{\"holder\": %d}\n", odd_gettid());
            }
        }
    }
#pragma omp parallel num_threads(strcmp(holder, "works") ? 2 : 3)
    {
        if (omp_get_thread_num() == 2) {
            omp_set_nest_lock(&lock);
            odd_words("{\"holder\": %d}\n", odd_gettid());
        }
        if (!strcmp(holder, "works")) {
#pragma omp barrier
        }
        if (omp_get_thread_num() == 2)
            for (;;) pause();
        odd_words("{\"waits\": %d}\n", odd_gettid());
        omp_set_nest_lock(&lock);
    }
}
