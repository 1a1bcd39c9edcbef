/* Scenarios of teams, by the name in argv[1]. When all threads of the last team have begun its region, one of them
   prints the number of threads that the region requested, and the number that it got. Then all wait for ever. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int arrived;
static int requested_globally = 3;

#define WAIT(requested)                                                                                                \
    do {                                                                                                               \
        if (__atomic_add_fetch(&arrived, 1, __ATOMIC_SEQ_CST) == omp_get_num_threads()) {                              \
            printf("%d %d\n", requested, omp_get_num_threads());                                                       \
            fflush(stdout);                                                                                            \
        }                                                                                                              \
        for (;;)                                                                                                       \
            pause();                                                                                                   \
    } while (0)
#define APART __attribute__((noinline))
