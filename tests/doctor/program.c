/* A program in the state that its arguments name; it says "ready" and the number of the process that is in it.
 *
 *   team N        N threads are in a region
 *   nested N M    N threads have begun a region of M threads each
 *   overflow      the stack of thread 1 of 2 is overrun
 *   forked        fork() has made a child in a region of 3 threads
 *   after         fork() has made a child after a region of 3 threads
 */
#define _GNU_SOURCE
#include <omp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static int arrived;

static void rest(int all, int process) {
    if (__atomic_add_fetch(&arrived, 1, __ATOMIC_SEQ_CST) == all) {
        printf("ready %d\n", process);
        fflush(stdout);
    }
    for (;;)
        pause();
}

static __attribute__((noinline)) int deeper(volatile char *outer) {
    volatile char more[1000];
    memset((char *)more, outer[0] + 1, sizeof more);
    return deeper(more) + more[7];
}

int main(int count, char **arguments) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const char *way = count > 1 ? arguments[1] : "team";
    int threads = count > 2 ? atoi(arguments[2]) : 2, inner = count > 3 ? atoi(arguments[3]) : 2;
    if (!strcmp(way, "team")) {
#pragma omp parallel num_threads(threads)
        rest(threads, getpid());
    } else if (!strcmp(way, "nested")) {
        omp_set_max_active_levels(2);
#pragma omp parallel num_threads(threads)
#pragma omp parallel num_threads(inner)
        rest(threads * inner, getpid());
    } else if (!strcmp(way, "overflow")) {
        static volatile int result;
#pragma omp parallel num_threads(2)
        if (omp_get_thread_num() == 1) {
            volatile char first[1] = {1};
            result = deeper(first);
        }
    } else if (!strcmp(way, "after")) {
#pragma omp parallel num_threads(3)
        {
        }
        if (!fork())
            rest(1, getpid());
        for (;;)
            pause();
    } else {
#pragma omp parallel num_threads(3)
        {
#pragma omp barrier
            if (omp_get_thread_num() == 0 && !fork())
                rest(1, getpid());
            for (;;)
                pause();
        }
    }
    return 0;
}
