/* What the runtime does not have says so and ends the program; what comes too late says so. */
#include "check.h"
#include "omp_stub.h"

#include <omp.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void teams(void)
{
    #pragma omp teams
    abort();
}

static void task_reduction(void)
{
    int sum = 0;
    #pragma omp parallel
    #pragma omp single
    #pragma omp taskgroup task_reduction(+ : sum)
    {
        #pragma omp task in_reduction(+ : sum)
        sum++;
    }
}

static void doacross(void)
{
    #pragma omp parallel for ordered(1)
    for (int i = 0; i < 10; i++) {
        #pragma omp ordered depend(sink : i - 1)
        #pragma omp ordered depend(source)
    }
}

static void unset(void)
{
    omp_lock_t lock;
    omp_init_lock(&lock);
    omp_unset_lock(&lock);
}

static void not_initialized(void)
{
    omp_lock_t lock;
    memset(&lock, 0, sizeof lock);
    omp_set_lock(&lock);
}

static void enabled_late(void)
{
    #pragma omp parallel
    {
        #pragma omp taskyield
    }
    omp_debug_enable();
    abort();
}

static void enabled_early(void)
{
    omp_get_max_threads();
    omp_debug_enable();
    #pragma omp parallel
    {
        #pragma omp taskyield
    }
    fputs("in time", stderr);
    abort();
}

static void misspelt(void)
{
    setenv("OMP_DEBUG", "yes", 1);
    omp_get_max_threads();
    abort();
}

static void cancelling(void)
{
    setenv("OMP_CANCELLATION", "true", 1);
    omp_get_max_threads();
    abort();
}

static const struct {
    void (*code)(void);
    const char *said;
} cases[] = {
    {teams, "GOMP_teams_reg is not supported"},
    {task_reduction, "GOMP_taskgroup_reduction_register is not supported"},
    {doacross, "GOMP_loop_doacross_static_start is not supported"},
    {unset, "is not set"},
    {not_initialized, "omp_set_lock: no lock was initialized"},
    {enabled_late, "after the first construct"},
    {enabled_early, "in time"},
    {misspelt, "OMP_DEBUG=yes"},
    {cancelling, "cancellation is not supported"},
};

int main(void)
{
    unsetenv("OMP_DEBUG");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int ends[2], status;
        char said[1000];
        CHECK(!pipe(ends));
        if (!fork()) {
            dup2(ends[1], 2);
            close(ends[1]);
            cases[i].code();
            _exit(0);
        }
        close(ends[1]);
        size_t length = 0;
        for (ssize_t got; (got = read(ends[0], said + length, sizeof said - 1 - length)) > 0;)
            length += got;
        said[length] = 0;
        close(ends[0]);
        CHECK(wait(&status) > 0);
        if (!strstr(said, cases[i].said) || !WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT) {
            fprintf(stderr, "case %zu: status %d, said: %s\n", i, status, said);
            return 1;
        }
    }
    return 0;
}
