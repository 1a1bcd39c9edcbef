/* A team that waits for one of its threads, in one of these ways:
 *
 *     barrier   at a barrier
 *     lock      for a lock that it holds
 *     task      the first of two threads at a taskwait, for a task that the second one executes at a barrier
 *     serial    in the pool, for the end of the serial code; the laggard is thread 0
 *
 *     straggler WAY THREADS LAGGARD [hang]
 *
 * The laggard begins to work once all others have come to where they wait, and says so; with "hang" it works for ever. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WORK 0.15 /* seconds of processor time */

static int arrived, is_begun, is_for_ever;
static omp_lock_t lock;
volatile double total;

static double processor_time(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

__attribute__((noinline)) void heavy_work(void)
{
    double begin = processor_time();
    while (is_for_ever || processor_time() - begin < WORK)
        total += 0.5;
}

__attribute__((noinline)) void lag(int others)
{
    while (__atomic_load_n(&arrived, __ATOMIC_ACQUIRE) < others)
        usleep(100);
    puts("at work");
    fflush(stdout);
    heavy_work();
}

static void at_barrier(int laggard)
{
    #pragma omp parallel
    {
        if (omp_get_thread_num() == laggard)
            lag(omp_get_num_threads() - 1);
        else
            __atomic_fetch_add(&arrived, 1, __ATOMIC_ACQ_REL);
        #pragma omp barrier
    }
}

static void at_lock(int laggard)
{
    #pragma omp parallel
    {
        if (omp_get_thread_num() == laggard) {
            omp_set_lock(&lock);
            __atomic_store_n(&is_begun, 1, __ATOMIC_RELEASE);
            lag(omp_get_num_threads() - 1);
        } else {
            while (!__atomic_load_n(&is_begun, __ATOMIC_ACQUIRE))
                usleep(100);
            __atomic_fetch_add(&arrived, 1, __ATOMIC_ACQ_REL);
            omp_set_lock(&lock);
        }
        omp_unset_lock(&lock);
    }
}

static void at_taskwait(void)
{
    #pragma omp parallel
    {
        if (omp_get_thread_num() == 0) {
            #pragma omp task
            {
                __atomic_store_n(&is_begun, 1, __ATOMIC_RELEASE);
                lag(1);
            }
            while (!__atomic_load_n(&is_begun, __ATOMIC_ACQUIRE))
                usleep(100);
            __atomic_fetch_add(&arrived, 1, __ATOMIC_ACQ_REL);
            #pragma omp taskwait
        }
    }
}

static void in_serial_code(void)
{
    #pragma omp parallel
    __atomic_fetch_add(&arrived, 1, __ATOMIC_ACQ_REL);
    lag(omp_get_max_threads());
}

int main(int count, char **words)
{
    if (count < 4) {
        fputs("straggler barrier|lock|task|serial THREADS LAGGARD [hang]\n", stderr);
        return 2;
    }
    omp_set_num_threads(atoi(words[2]));
    omp_init_lock(&lock);
    is_for_ever = count > 4 && !strcmp(words[4], "hang");
    if (!strcmp(words[1], "lock"))
        at_lock(atoi(words[3]));
    else if (!strcmp(words[1], "task"))
        at_taskwait();
    else if (!strcmp(words[1], "serial"))
        in_serial_code();
    else
        at_barrier(atoi(words[3]));
    omp_destroy_lock(&lock);
    return 0;
}
