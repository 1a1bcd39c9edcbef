/* Threads of the program's own: each is an initial one, with a team of its own at level 0. */
#include "check.h"
#include "structures.h"

#include <omp.h>

enum { COUNT = 5 };
static pthread_barrier_t meeting;

static void *use_openmp(void *result)
{
    int sum = 0;
    for (int round = 0; round < 10; round++) {
        int part = 0;
        #pragma omp parallel num_threads(3) reduction(+ : part)
        {
            IS(int, omp_get_num_threads(), 3);
            IS(int, omp_get_ancestor_thread_num(0), 0);
            #pragma omp for schedule(dynamic)
            for (int i = 0; i < 10; i++)
                part += i;
        }
        #pragma omp critical
        sum += part;
    }
    *(int *)result = sum;
    pthread_barrier_wait(&meeting);
    pthread_barrier_wait(&meeting);
    return NULL;
}

static int count_initial(void)
{
    int count = 0;
    for (struct stub_thread *thread = omp_stub_process.threads; thread; thread = thread->next)
        count += thread->type == STUB_THREAD_INITIAL;
    return count;
}

static int count_outermost(void)
{
    int count = 0;
    for (struct stub_team *team = omp_stub_process.teams; team; team = team->next)
        count += !team->level;
    return count;
}

int main(void)
{
    pthread_t threads[COUNT];
    int sums[COUNT];
    omp_get_max_threads();
    pthread_barrier_init(&meeting, NULL, COUNT + 1);
    for (int i = 0; i < COUNT; i++)
        pthread_create(&threads[i], NULL, use_openmp, &sums[i]);
    pthread_barrier_wait(&meeting);
    IS(int, count_initial(), COUNT + 1);
    IS(int, count_outermost(), COUNT + 1);
    pthread_barrier_wait(&meeting);
    for (int i = 0; i < COUNT; i++) {
        pthread_join(threads[i], NULL);
        IS(int, sums[i], 450);
    }
    IS(int, count_initial(), 1);
    IS(int, count_outermost(), 1);
    IS(int, omp_stub_process.idle_count, omp_stub_process.thread_count - 1);
    pthread_barrier_destroy(&meeting);
    return 0;
}
