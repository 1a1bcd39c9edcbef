/* Ranks of MPI, each with a team of two, of which the one that is named as an argument does not come: laggard RANK.
 *
 * All others are in MPI_Allreduce; that rank's second thread waits for what nobody sends, and its first one for that.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <omp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void say(int rank)
{
    char text[128];
    const char *format = "{\"tid\": %d, \"name\": \"rank%d\", \"object\": 0, \"owner\": 0}\n";
    int size = snprintf(text, sizeof text, format, (int)syscall(SYS_gettid), rank);
    if (write(1, text, size) != size)
        _exit(71);
}

static void lag(void)
{
    for (;;)
        pause();
}

int main(int argc, char **argv)
{
    int rank, given, value = 1, sum;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &given);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    #pragma omp parallel num_threads(2)
    {
        if (!omp_get_thread_num())
            say(rank);
        else if (argc > 1 && rank == atoi(argv[1]))
            lag();
    }
    MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return MPI_Finalize();
}
