/* A tool of OMPT that the runtime loads (OMP_TOOL_LIBRARIES). On a signal a thread writes down what the runtime tells
 * it of itself, and stays in the handler until it is let go, so that the moment lasts. tests/campaign/witnesses/ompt.py has
 * the same layout of what is shared, and sends the signals. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <omp-tools.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_THREADS 512
#define MAX_LEVELS 8

enum { FREE, GATHER, WRITE };

struct level {
    int32_t has_parallel, team_size;
    int32_t has_task, flags, thread_num, unused;
    uint64_t parallel, task;
};

struct slot { /* of one thread at one moment */
    _Atomic int32_t tid;
    int32_t state;
    uint64_t wait_id, thread;
    struct level levels[MAX_LEVELS]; /* of regions and of tasks, which are not the same where tasks are nested */
};

struct shared {
    _Atomic uint32_t phase; /* FREE, GATHER until all threads are held, WRITE */
    _Atomic uint32_t count, done, ready;
    struct slot slots[MAX_THREADS];
};

static struct shared *shared;
static ompt_get_state_t get_state;
static ompt_get_parallel_info_t get_parallel_info;
static ompt_get_task_info_t get_task_info;
static ompt_get_thread_data_t get_thread_data;
static _Atomic uint64_t next_id = 1;

static int the_signal(void)
{
    return SIGRTMAX - 3;
}

static void write_down(struct slot *slot)
{
    ompt_wait_id_t wait_id = 0;
    slot->state = get_state(&wait_id);
    slot->wait_id = wait_id;
    ompt_data_t *data = get_thread_data();
    slot->thread = data ? data->value : 0;
    for (int i = 0; i < MAX_LEVELS; i++) {
        struct level *level = &slot->levels[i];
        ompt_data_t *parallel = NULL, *task = NULL, *of_task = NULL;
        ompt_frame_t *frame = NULL;
        int size = 0, flags = 0, number = 0;
        level->has_parallel = get_parallel_info(i, &parallel, &size);
        if (level->has_parallel == 2) {
            level->team_size = size;
            level->parallel = parallel ? parallel->value : 0;
        }
        level->has_task = get_task_info(i, &flags, &task, &frame, &of_task, &number);
        if (level->has_task == 2) {
            level->flags = flags;
            level->thread_num = number;
            level->task = task ? task->value : 0;
        }
    }
}

static void wait_while(uint32_t phase)
{
    while (atomic_load(&shared->phase) == phase)
        syscall(SYS_futex, &shared->phase, FUTEX_WAIT, phase, NULL, NULL, 0);
}

static void on_signal(int number)
{
    (void)number;
    int saved = errno;
    if (atomic_load(&shared->phase) == GATHER) {
        uint32_t index = atomic_fetch_add(&shared->count, 1);
        if (index < MAX_THREADS) {
            struct slot *slot = &shared->slots[index];
            atomic_store(&slot->tid, (int32_t)syscall(SYS_gettid));
            wait_while(GATHER);
            if (atomic_load(&shared->phase) == WRITE) {
                write_down(slot);
                atomic_fetch_add(&shared->done, 1);
            }
        }
    }
    /* Also one that came too late, or had no slot. */
    wait_while(WRITE);
    errno = saved;
}

static uint64_t new_id(void)
{
    return atomic_fetch_add(&next_id, 1);
}

static void on_thread_begin(ompt_thread_t type, ompt_data_t *thread)
{
    (void)type;
    thread->value = (uint64_t)syscall(SYS_gettid);
}

static void on_parallel_begin(ompt_data_t *task, const ompt_frame_t *frame, ompt_data_t *parallel, unsigned size, int flags,
                              const void *code)
{
    (void)task, (void)frame, (void)size, (void)flags, (void)code;
    parallel->value = new_id();
}

static void on_implicit_task(ompt_scope_endpoint_t endpoint, ompt_data_t *parallel, ompt_data_t *task, unsigned size,
                             unsigned index, int flags)
{
    (void)parallel, (void)size, (void)index, (void)flags;
    if (endpoint == ompt_scope_begin)
        task->value = new_id();
}

static void on_task_create(ompt_data_t *task, const ompt_frame_t *frame, ompt_data_t *made, int flags, int has_dependences,
                           const void *code)
{
    (void)task, (void)frame, (void)flags, (void)has_dependences, (void)code;
    if (made)
        made->value = new_id();
}

static int initialize(ompt_function_lookup_t lookup, int device, ompt_data_t *data)
{
    (void)device, (void)data;
    const char *folder = getenv("OMPT_WITNESS");
    char name[4096];
    if (!folder || snprintf(name, sizeof name, "%s/%d", folder, (int)getpid()) >= (int)sizeof name)
        return 0;
    int file = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, sizeof *shared))
        return 0;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (shared == MAP_FAILED)
        return 0;
    get_state = (ompt_get_state_t)lookup("ompt_get_state");
    get_parallel_info = (ompt_get_parallel_info_t)lookup("ompt_get_parallel_info");
    get_task_info = (ompt_get_task_info_t)lookup("ompt_get_task_info");
    get_thread_data = (ompt_get_thread_data_t)lookup("ompt_get_thread_data");
    ompt_set_callback_t set = (ompt_set_callback_t)lookup("ompt_set_callback");
    if (!get_state || !get_parallel_info || !get_task_info || !get_thread_data || !set)
        return 0;
    set(ompt_callback_thread_begin, (ompt_callback_t)on_thread_begin);
    set(ompt_callback_parallel_begin, (ompt_callback_t)on_parallel_begin);
    set(ompt_callback_implicit_task, (ompt_callback_t)on_implicit_task);
    set(ompt_callback_task_create, (ompt_callback_t)on_task_create);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigfillset(&action.sa_mask);
    if (sigaction(the_signal(), &action, NULL))
        return 0;
    atomic_store(&shared->ready, 1);
    return 1;
}

static void finalize(ompt_data_t *data)
{
    (void)data; /* The runtime's routines are not to be called any more. */
    signal(the_signal(), SIG_IGN);
    atomic_store(&shared->ready, 0);
}

ompt_start_tool_result_t *ompt_start_tool(unsigned version, const char *runtime)
{
    static ompt_start_tool_result_t result = {initialize, finalize, {0}};
    (void)version, (void)runtime;
    return &result;
}
