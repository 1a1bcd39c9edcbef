/* A region of two in which one thread has one of three, by the entry points of GCC before 4.9, which every libgomp has.
   It calls none of the routines that may have been altered. */
#include "settled.h"
#include <stdlib.h>
#include <unistd.h>

void GOMP_parallel_start(void (*)(void *), void *, unsigned);
void GOMP_parallel_end(void);
void GOMP_barrier(void);
void omp_set_nested(int);

static int outside, inside;
static volatile int waiting;

static void wait_for_all(void)
{
    __sync_fetch_and_add(&waiting, 1);
    GOMP_barrier();
}

static void inner(void *unused)
{
    (void)unused;
    if (__sync_fetch_and_add(&inside, 1))
        wait_for_all();
    while (waiting < 3)
        usleep(1000);
    until_settled(3);
    abort();
}

static void outer(void *unused)
{
    (void)unused;
    if (__sync_fetch_and_add(&outside, 1))
        wait_for_all();
    GOMP_parallel_start(inner, 0, 3);
    inner(0);
    GOMP_parallel_end();
}

int main(void)
{
    omp_set_nested(1);
    GOMP_parallel_start(outer, 0, 2);
    outer(0);
    GOMP_parallel_end();
    return 0;
}
