/* A profiler's signal handler asks for all that there is, wherever it interrupts a thread: no answer is half of two, and
 * nothing hangs. The argument is how often it has to be asked. */
#include "../check.h"
#include "ompt.h"

#include <errno.h>
#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static ompt_get_thread_id_t get_thread_id;
static ompt_get_state_t get_state;
static ompt_get_parallel_id_t get_parallel_id;
static ompt_get_parallel_team_size_t get_team_size;
static ompt_get_task_info_t get_task_info;
static ompt_get_callback_t get_callback;
static ompt_enumerate_lock_type_t enumerate_lock_type;
static ompt_enumerate_atomic_type_t enumerate_atomic_type;
static ompt_get_num_devices_t get_num_devices;
static ompt_target_get_device_id_t get_device_id;
static ompt_enumerate_state_t enumerate_state;
static long samples, of_workers, in_tasks, overheads, waits, idles;
static __thread timer_t timer;

static void say(const char *text) /* stdio is not for signal handlers */
{
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        _exit(2);
    abort();
}
#define MUST(condition) ((condition) ? (void)0 : say("not so: " #condition "\n"))

static void on_control(uint64_t command, uint64_t modifier) { (void)command, (void)modifier; }

/* Each thread is interrupted a thousand times in a second, whether it runs or waits. */
static void on_thread_begin(ompt_thread_type_t type, ompt_thread_id_t id)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGPROF};
    struct itimerspec often = {{0, 1000000}, {0, 1000000}};
    (void)type, (void)id;
    event.sigev_notify_thread_id = gettid();
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 && timer_settime(timer, 0, &often, NULL) == 0);
}

static void on_thread_end(ompt_thread_type_t type, ompt_thread_id_t id)
{
    (void)type, (void)id;
    CHECK(timer_delete(timer) == 0);
}

static void on_sample(int number)
{
    int kept_errno = errno;
    ompt_wait_id_t wait = 0;
    ompt_state_t state = get_state(&wait), next;
    ompt_task_type_t type = 0;
    ompt_task_id_t id = 0;
    ompt_frame_t *frame = NULL;
    ompt_parallel_id_t region = 0, of_task = 0;
    ompt_lock_type_t lock_type;
    ompt_atomic_type_t atomic_type;
    const char *name;
    ompt_callback_t callback = NULL;
    int level = 0;
    (void)number;
    MUST((wait != 0) == (state >= ompt_state_wait_barrier && state < ompt_state_undefined));
    MUST((state == ompt_state_undefined) == (get_thread_id() == 0));
    region = get_parallel_id(0);
    MUST(get_team_size(0) == -1 ? !region : region != 0);
    if (!get_task_info(0, &type, &id, &frame, &of_task)) {
        MUST(state == ompt_state_idle || state == ompt_state_undefined);
        MUST(!region);
    } else {
        MUST(of_task == region && frame && (id != 0) == (type != ompt_task_degenerate));
        MUST(state != ompt_state_work_parallel || region);
        MUST(state != ompt_state_work_serial || !region);
        while (get_task_info(level, &type, NULL, NULL, NULL))
            level++;
        MUST(type == ompt_task_serial && level < 20); /* where all begins */
    }
    MUST(get_callback(ompt_event_control, &callback) == 1 && callback == (ompt_callback_t)on_control);
    MUST(enumerate_state(ompt_state_first, &next, &name) == 1);
    MUST(enumerate_lock_type(ompt_lock_type_first, &lock_type, &name) == 1);
    MUST(enumerate_atomic_type(ompt_atomic_type_first, &atomic_type, &name) == 1);
    MUST(get_num_devices() == 0 && get_device_id() == -1);
    __atomic_add_fetch(&samples, 1, __ATOMIC_RELAXED);
    if (level > 2)
        __atomic_add_fetch(&in_tasks, 1, __ATOMIC_RELAXED);
    if (state == ompt_state_overhead)
        __atomic_add_fetch(&overheads, 1, __ATOMIC_RELAXED);
    if (wait)
        __atomic_add_fetch(&waits, 1, __ATOMIC_RELAXED);
    if (state == ompt_state_idle)
        __atomic_add_fetch(&idles, 1, __ATOMIC_RELAXED);
    if (level && getpid() != gettid())
        __atomic_add_fetch(&of_workers, 1, __ATOMIC_RELAXED);
    errno = kept_errno;
}

static void initialize(const char *version, unsigned number, ompt_function_lookup_t lookup)
{
    (void)version, (void)number;
    ompt_set_callback_t set = (ompt_set_callback_t)lookup("ompt_set_callback");
    struct sigaction action = {.sa_handler = on_sample, .sa_flags = SA_RESTART};
    sigaction(SIGPROF, &action, NULL);
    set(ompt_event_control, (ompt_callback_t)on_control);
    set(ompt_event_thread_begin, (ompt_callback_t)on_thread_begin);
    set(ompt_event_thread_end, (ompt_callback_t)on_thread_end);
    get_callback = (ompt_get_callback_t)lookup("ompt_get_callback");
    get_thread_id = (ompt_get_thread_id_t)lookup("ompt_get_thread_id");
    get_state = (ompt_get_state_t)lookup("ompt_get_state");
    get_parallel_id = (ompt_get_parallel_id_t)lookup("ompt_get_parallel_id");
    get_team_size = (ompt_get_parallel_team_size_t)lookup("ompt_get_parallel_team_size");
    get_task_info = (ompt_get_task_info_t)lookup("ompt_get_task_info");
    enumerate_state = (ompt_enumerate_state_t)lookup("ompt_enumerate_state");
    enumerate_lock_type = (ompt_enumerate_lock_type_t)lookup("ompt_enumerate_lock_type");
    enumerate_atomic_type = (ompt_enumerate_atomic_type_t)lookup("ompt_enumerate_atomic_type");
    get_num_devices = (ompt_get_num_devices_t)lookup("ompt_get_num_devices");
    get_device_id = (ompt_target_get_device_id_t)lookup("ompt_target_get_device_id");
}

ompt_initialize_fn_t ompt_tool(void) { return initialize; }

static omp_lock_t lock;
static int sum;

static void *be_foreign(void *unused)
{
    for (int i = 0; i < 20000; i++)
        COUNT_UP(&sum, 0);
    #pragma omp parallel num_threads(2)
    COUNT_UP(&sum, 0);
    return unused;
}

static void load(void)
{
    pthread_t foreign;
    pthread_create(&foreign, NULL, be_foreign, NULL);
    #pragma omp parallel num_threads(4)
    {
        for (int i = 0; i < 20; i++) {
            omp_set_lock(&lock);
            COUNT_UP(&sum, 0);
            omp_unset_lock(&lock);
            #pragma omp critical
            COUNT_UP(&sum, 0);
            #pragma omp task
            {
                #pragma omp task if (0)
                COUNT_UP(&sum, 0);
                #pragma omp taskwait
            }
            #pragma omp barrier
        }
        #pragma omp parallel num_threads(2)
        COUNT_UP(&sum, 0);
        #pragma omp for ordered schedule(dynamic)
        for (int i = 0; i < 20; i++) {
            #pragma omp ordered
            COUNT_UP(&sum, 0);
        }
    }
    pthread_join(foreign, NULL);
}

int main(int count, char **arguments)
{
    long wanted = count > 1 ? atol(arguments[1]) : 3000;
    omp_set_max_active_levels(2);
    omp_init_lock(&lock);
    while (__atomic_load_n(&samples, __ATOMIC_RELAXED) < wanted)
        load();
    CHECK(of_workers > 0 && overheads > 0 && waits > 0 && idles > 0);
    printf("%ld samples: %ld of workers at work, %ld of waits, %ld of overhead, %ld in tasks or deeper, %ld idle\n", samples,
           of_workers, waits, overheads, in_tasks, idles);
    return 0;
}
