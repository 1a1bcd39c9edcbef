/* A region of two threads, then the pool has nothing to do: the initial thread rests. With "regions" it goes on with short
   regions, and some work of its own in between. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static volatile double sums[2 * 8], alone;

int main(int count, char **words)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int first = 1;; first = 0) {
        #pragma omp parallel for num_threads(2) schedule(static)
        for (int number = 0; number < 2; number++)
            for (long step = 0; step < 1000000; step++)
                sums[number * 8] += 0.5;
        if (first) {
            puts("ready");
            fflush(stdout);
        }
        if (count > 1 && !strcmp(words[1], "regions"))
            for (long step = 0; step < 200000; step++)
                alone += 0.5;
        else
            pause();
    }
}
