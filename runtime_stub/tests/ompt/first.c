/* The first call of OpenMP starts a tool, whichever routine it is: each is the first in a process of its own. */
#include "../check.h"
#include "ompt.h"

#include <omp.h>
#include <sys/wait.h>
#include <unistd.h>

static int starts;
static void initialize(const char *name, unsigned version, ompt_function_lookup_t lookup)
{
    (void)name, (void)version, (void)lookup;
    starts++;
}

ompt_initialize_fn_t ompt_tool(void) { return initialize; }

static int ids[8];
static double sum; /* so that no call is left out */
static omp_lock_t lock;

double omp_get_wtime_(void);
int omp_get_num_places_(void);
void omp_set_num_teams_(const int *count);
static const int two = 2;

#define FIRST(call)                                                                                                    \
    do {                                                                                                               \
        pid_t child = fork();                                                                                          \
        if (!child) {                                                                                                  \
            call;                                                                                                      \
            _exit(starts == 1 ? 0 : 1);                                                                                \
        }                                                                                                              \
        int status = 0;                                                                                                \
        CHECK(child > 0 && waitpid(child, &status, 0) == child);                                                       \
        if (status)                                                                                                    \
            fprintf(stderr, "%s starts no tool\n", #call);                                                             \
        CHECK(!status);                                                                                                \
    } while (0)

int main(void)
{
    FIRST(sum += omp_get_wtime());
    FIRST(sum += omp_get_wtime_());
    FIRST(sum += omp_get_wtick());
    FIRST(sum += omp_get_num_places());
    FIRST(sum += omp_get_num_places_());
    FIRST(sum += omp_get_place_num());
    FIRST(sum += omp_get_place_num_procs(0));
    FIRST(omp_get_place_proc_ids(0, ids));
    FIRST(sum += omp_get_partition_num_places());
    FIRST(omp_get_partition_place_nums(ids));
    FIRST(sum += omp_get_supported_active_levels());
    FIRST(sum += omp_get_cancellation());
    FIRST(sum += omp_get_num_teams());
    FIRST(sum += omp_get_team_num());
    FIRST(sum += omp_get_max_teams());
    FIRST(omp_set_num_teams(2));
    FIRST(omp_set_num_teams_(&two));
    FIRST(omp_set_teams_thread_limit(2));
    FIRST(sum += omp_get_teams_thread_limit());
    FIRST(sum += omp_get_num_procs());
    FIRST(sum += omp_get_num_devices());
    FIRST(sum += omp_get_max_threads());
    FIRST(sum += omp_pause_resource(omp_pause_soft, 9));
    FIRST(omp_init_lock(&lock));
    FIRST(_Pragma("omp taskyield"));
    /* What the environment has for a variable does not overwrite what the first call sets. */
    setenv("OMP_NUM_TEAMS", "7", 1);
    FIRST(omp_set_num_teams(2); IS(int, omp_get_max_teams(), 2));
    FIRST(IS(int, omp_get_max_teams(), 7));
    return 0;
}
