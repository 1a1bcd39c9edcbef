/* A team of two, of which one thread waits at the barrier for the other, which runs: a debugger stops it at any line.
 *
 * The loops have no end, unless somebody sets turn.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/prctl.h>
#include "settled.h"

int omp_get_thread_num(void);

static volatile unsigned long turn, first, second, third;

static void step(void)
{
    third++; /* called */
}

static void work(void)
{
    while (!turn) { /* loop */
        first++; /* one */
        second++; /* another */
        step(); /* a call */
        step(); /* another call */
        for (int n = 0; n < 100; n++) { /* inner */
            third++; /* inside */
            first += third; /* inside, too */
        }
    }
    while (turn) { /* later */
        second--; /* one of later */
        third--; /* another of later */
    }
}

int main(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    #pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num()) {
            until_settled(0);
            work();
        }
        #pragma omp barrier
    }
    return 0;
}
