/* A tool's lives: it hears of the ends once, and registers anew after the runtime was paused, and in a child of fork(). */
#include "../check.h"
#include "ompt.h"

#include <omp.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static int initialized, shutdowns, threads_begun, threads_ended, regions, tasks_begun, tasks_ended;
static int forks;
static uint64_t last_thread;
static ompt_set_callback_t set_callback;

static void count(int *place) { __atomic_add_fetch(place, 1, __ATOMIC_RELAXED); }
static void on_thread_begin(ompt_thread_type_t type, uint64_t id)
{
    count(&threads_begun);
    if (type == ompt_thread_initial) {
        CHECK(id != last_thread); /* of each life another one */
        last_thread = id;
    }
}
static void on_thread_end(ompt_thread_type_t type, uint64_t id)
{
    (void)type, (void)id;
    count(&threads_ended);
}
static void on_parallel_end(uint64_t region, uint64_t task, ompt_invoker_t invoker)
{
    (void)region, (void)task, (void)invoker;
    count(&regions);
}
static void on_initial_begin(uint64_t task) { (void)task, count(&tasks_begun); }
static void on_initial_end(uint64_t task) { (void)task, count(&tasks_ended); }
static void on_shutdown(void)
{
    count(&shutdowns);
    IS(int, threads_begun, threads_ended);
    IS(int, tasks_begun, tasks_ended);
}

static void initialize(const char *name, unsigned version, ompt_function_lookup_t lookup)
{
    (void)name, (void)version;
    count(&initialized);
    set_callback = (ompt_set_callback_t)lookup("ompt_set_callback");
    set_callback(ompt_event_thread_begin, (ompt_callback_t)on_thread_begin);
    set_callback(ompt_event_thread_end, (ompt_callback_t)on_thread_end);
    set_callback(ompt_event_parallel_end, (ompt_callback_t)on_parallel_end);
    set_callback(ompt_event_initial_task_begin, (ompt_callback_t)on_initial_begin);
    set_callback(ompt_event_initial_task_end, (ompt_callback_t)on_initial_end);
    set_callback(ompt_event_runtime_shutdown, on_shutdown);
}

ompt_initialize_fn_t ompt_tool(void) { return initialize; }

static void run_regions(void)
{
    int sum = 0;
    for (int i = 0; i < 3; i++) {
        #pragma omp parallel num_threads(4)
        COUNT_UP(&sum, 0);
    }
    IS(int, sum, 12);
}

static void *meet(void *unused)
{
    #pragma omp parallel num_threads(2)
    CHECK(omp_pause_resource_all(omp_pause_hard) != 0); /* within a region */
    return unused;
}

static pthread_barrier_t both;
static void *stay(void *unused)
{
    omp_set_num_threads(3);
    pthread_barrier_wait(&both);
    pthread_barrier_wait(&both);
    return unused;
}

static void *ask_most(void *most)
{
    *(int *)most = omp_get_max_threads();
    return NULL;
}

static void test_pause(void)
{
    omp_set_num_threads(5);
    IS(int, omp_pause_resource_all(omp_pause_soft), 0);
    CHECK(shutdowns == 0 && threads_ended == 0);
    CHECK(omp_pause_resource_all((omp_pause_resource_t)77) != 0 && omp_pause_resource(omp_pause_hard, 9) != 0);
    for (int life = 1; life <= 3; life++) {
        run_regions();
        IS(int, initialized, life);
        IS(int, regions, 3 * life);
        IS(int, threads_begun - threads_ended, 4);
        IS(int, omp_pause_resource(omp_pause_hard, omp_get_initial_device()), 0);
        IS(int, shutdowns, life);
        IS(int, threads_begun, threads_ended);
        CHECK(set_callback(ompt_event_control, on_shutdown) == 0);
    }
    IS(int, omp_get_max_threads(), 5); /* what was set stays, for the thread that has set it */
    pthread_t other;
    int most = 0;
    pthread_create(&other, NULL, ask_most, &most);
    pthread_join(other, NULL);
    CHECK(most != 5);
    IS(int, initialized, 4); /* by the routine */
}

static void test_others(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, meet, NULL);
    pthread_join(thread, NULL);
    pthread_barrier_init(&both, NULL, 2);
    pthread_create(&thread, NULL, stay, NULL);
    pthread_barrier_wait(&both);
    CHECK(omp_pause_resource_all(omp_pause_hard) != 0); /* it cannot be ended for the other one */
    pthread_barrier_wait(&both);
    pthread_join(thread, NULL);
    run_regions();
}

static void test_fork(void)
{
    int before = initialized, so_far = regions, ended = shutdowns, status;
    pid_t child = fork();
    if (!child) {
        forks++;
        IS(int, initialized, before);
        threads_begun = threads_ended = tasks_begun = tasks_ended = 0;
        run_regions();
        IS(int, omp_get_max_threads(), 5);
        IS(int, initialized, before + 1);
        IS(int, regions, so_far + 3);
        IS(int, threads_begun, 4);
        IS(int, omp_pause_resource_all(omp_pause_hard), 0);
        IS(int, shutdowns, ended + 1);
        run_regions();
        pid_t grandchild = fork();
        if (!grandchild) {
            forks++;
            threads_begun = threads_ended = tasks_begun = tasks_ended = 0;
            run_regions();
            IS(int, initialized, before + 3);
            exit(3);
        }
        CHECK(waitpid(grandchild, &status, 0) == grandchild && WIFEXITED(status) && WEXITSTATUS(status) == 3);
        exit(5);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    IS(int, WEXITSTATUS(status), 5);
    run_regions();
    IS(int, initialized, before);
    IS(int, shutdowns, ended);
}

/* Runs after the tool has ended: the program's regions run on, and nobody is told. */
static void at_last(void)
{
    int so_far = regions, begun = threads_begun;
    run_regions();
    CHECK(regions == so_far && threads_begun == begun);
    IS(int, shutdowns, initialized - forks); /* a tool that was left in the parent ends there */
}

int main(void)
{
    atexit(at_last);
    test_pause();
    test_others();
    test_fork();
    return 0;
}
