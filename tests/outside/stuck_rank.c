/* Ranks of MPI. A thread of rank 2 sets an OpenMP lock twice; the other ranks wait for rank 2 at MPI's barrier. */
#define _GNU_SOURCE
#include <mpi.h>
#include <omp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static omp_lock_t gate;

static void say(int rank)
{
    char text[128];
    const char *format = "{\"tid\": %d, \"name\": \"rank %d\", \"object\": 0, \"owner\": 0}\n";
    int size = snprintf(text, sizeof text, format, (int)syscall(SYS_gettid), rank);
    if (write(1, text, size) != size)
        _exit(71);
}

int main(int argc, char **argv)
{
    int rank, given;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &given);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    omp_init_lock(&gate);
    #pragma omp parallel num_threads(2)
    {
        if (!omp_get_thread_num())
            say(rank);
        if (rank == 2 && omp_get_thread_num() == 1) {
            omp_set_lock(&gate);
            omp_set_lock(&gate);
        }
        #pragma omp barrier
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Finalize();
}
