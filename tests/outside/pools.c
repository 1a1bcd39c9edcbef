/* A team of two that works, beside two threads that are not OpenMP's and wait for work: one in a function that is called
   as that of OpenBLAS's idle threads, the other in a pool that nobody knows. */
#define _GNU_SOURCE
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include "settled.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t blas_work = PTHREAD_COND_INITIALIZER, other_work = PTHREAD_COND_INITIALIZER;
static volatile int count;

static void say(const char *name)
{
    char text[128];
    const char *format = "{\"tid\": %d, \"name\": \"%s\", \"object\": 0, \"owner\": 0}\n";
    int size = snprintf(text, sizeof text, format, (int)syscall(SYS_gettid), name);
    if (write(1, text, size) != size)
        _exit(71);
}

static void *blas_thread_server(void *unused)
{
    (void)unused;
    say("OpenBLAS");
    pthread_mutex_lock(&mutex);
    for (;;)
        pthread_cond_wait(&blas_work, &mutex);
    return NULL;
}

static void *serve(void *unused)
{
    (void)unused;
    say("other pool");
    pthread_mutex_lock(&mutex);
    for (;;)
        pthread_cond_wait(&other_work, &mutex);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (pthread_create(&thread, NULL, blas_thread_server, NULL) || pthread_create(&thread, NULL, serve, NULL))
        return 74;
    until_settled(2);
    #pragma omp parallel num_threads(2)
    {
        #pragma omp barrier
        if (!omp_get_thread_num())
            say("main");
        for (;;)
            count ^= 1;
    }
}
