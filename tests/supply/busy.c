/* A team of two threads, or as many as the second argument says, that compute for ever. With "barrier" they meet all the
   time; with "work" they never meet. */
#include <omp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

static volatile double sums[64 * 8];

int main(int count, char **words)
{
    int meets = count > 1 && !strcmp(words[1], "barrier");
    int threads = count > 2 ? atoi(words[2]) : 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    #pragma omp parallel num_threads(threads)
    {
        #pragma omp barrier
        #pragma omp master
        {
            puts("ready");
            fflush(stdout);
        }
        volatile double *own = &sums[omp_get_thread_num() % 64 * 8];
        for (;;) {
            for (long step = 0; step < 1000000; step++)
                *own += 0.5;
            if (meets) {
                #pragma omp barrier
            }
        }
    }
}
