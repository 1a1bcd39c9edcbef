/* A program with regions, queued tasks, a lock that somebody waits for and a threadprivate variable, of which it then
 * has the runtime make one thing wrong: the word in its argument. */
#include "settled.h"
#include <omp.h>
#include <omp_stub.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int own = 3;
OMP_STUB_THREADPRIVATE(own);
#define own OMP_STUB_PRIVATE(own)

static omp_lock_t lock;
static volatile int waits;

static void inner(const char *what)
{
    #pragma omp parallel num_threads(2)
    {
        own++;
        if (omp_get_thread_num() == 1) {
            __atomic_add_fetch(&waits, 1, __ATOMIC_SEQ_CST);
            omp_set_lock(&lock);
        }
        while (waits < 2)
            usleep(1000);
        until_settled(2); /* that it is in line */
        for (int i = 0; i < 5; i++)
            #pragma omp task
            own += i;
        if (omp_stub_break(what))
            fprintf(stderr, "nothing could be made wrong: %s\n", what);
        abort();
    }
}

int main(int argc, char **argv)
{
    omp_init_lock(&lock);
    omp_set_lock(&lock);
    omp_set_max_active_levels(2);
    #pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 1) {
            while (waits < 1)
                usleep(1000);
            __atomic_add_fetch(&waits, 1, __ATOMIC_SEQ_CST);
            omp_set_lock(&lock);
        } else {
            inner(argc > 1 ? argv[1] : "");
        }
    }
    return 0;
}
