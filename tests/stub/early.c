/* The initial thread and a second one use a threadprivate variable before OpenMP starts; a third thread does not. */
#include <omp_stub.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

int early = 7;
OMP_STUB_THREADPRIVATE(early);
#define early OMP_STUB_PRIVATE(early)

static pthread_barrier_t used;

static void *other(void *uses)
{
    if (uses)
        early = 1234;
    pthread_barrier_wait(&used);
    for (;;)
        pause();
}

int main(void)
{
    pthread_t thread;
    pthread_barrier_init(&used, 0, 3);
    early = -1;
    pthread_create(&thread, 0, other, &thread);
    pthread_create(&thread, 0, other, 0);
    pthread_barrier_wait(&used);
    abort();
}
