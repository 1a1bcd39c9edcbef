/* Two ranks of MPI, of which the second one never does its part: ranks recv|any|send|barrier|allreduce.
 *
 * A thread of the first rank's team is in a call of MPI for ever, and the others are at the barrier behind it.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <omp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TAG = 7 };

static void say(const char *name)
{
    char text[128];
    const char *format = "{\"tid\": %d, \"name\": \"%s\", \"object\": 0, \"owner\": 0}\n";
    int size = snprintf(text, sizeof text, format, (int)syscall(SYS_gettid), name);
    if (write(1, text, size) != size)
        _exit(71);
}

static void communicate(const char *how)
{
    int value = 0, sum;
    if (!strcmp(how, "recv"))
        MPI_Recv(&value, 1, MPI_INT, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else if (!strcmp(how, "any"))
        MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else if (!strcmp(how, "send"))
        MPI_Ssend(&value, 1, MPI_INT, 1, TAG, MPI_COMM_WORLD);
    else if (!strcmp(how, "barrier"))
        MPI_Barrier(MPI_COMM_WORLD);
    else
        MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    int rank, given;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &given);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc < 2 || rank)
        for (;;)
            pause();
    #pragma omp parallel num_threads(3)
    {
        if (omp_get_thread_num() == 1) {
            say("communicates");
            communicate(argv[1]);
        } else if (!omp_get_thread_num()) {
            say("main");
        }
        #pragma omp barrier
    }
    return MPI_Finalize();
}
