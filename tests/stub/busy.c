/* Executes regions, tasks, locks, barriers and loops as fast as it can, until it is killed. Two threads that are not the
 * runtime's start teams of all sizes, some of them nested or serialized. */
#include <omp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static omp_lock_t lock;
static volatile long sum;

static long some(int depth)
{
    long found = 1;
    if (depth) {
        #pragma omp task shared(found)
        found += some(depth - 1);
        #pragma omp taskwait
    }
    return found;
}

static void work(int round)
{
    int size = 1 + round % 4;
    #pragma omp parallel num_threads(size)
    {
        #pragma omp for schedule(dynamic)
        for (int i = 0; i < 8; i++) {
            omp_set_lock(&lock);
            sum++;
            omp_unset_lock(&lock);
        }
        #pragma omp single
        some(3);
        #pragma omp parallel num_threads(2) if (round % 3)
        {
            #pragma omp critical
            sum++;
            #pragma omp barrier
        }
        #pragma omp for ordered
        for (int i = 0; i < 4; i++) {
            #pragma omp ordered
            sum++;
        }
    }
}

static void *other(void *unused)
{
    (void)unused;
    for (int round = 0;; round++)
        work(round);
    return 0;
}

int main(void)
{
    pthread_t thread;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    omp_init_lock(&lock);
    omp_set_max_active_levels(2);
    work(3);
    pthread_create(&thread, 0, other, 0);
    printf("ready\n");
    fflush(stdout);
    other(0);
    return 0;
}
