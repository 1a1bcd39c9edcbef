/* A tool that keeps what it is told of each thread where a debugger finds it, for any program. GENERATION is that of the tool:
 * 1 the draft, 2 the report of 2015, 5 OpenMP 5, whose tools number threads, regions and tasks themselves. */
#define _GNU_SOURCE
#if GENERATION == 5
#include "omp-tools.h"
#else
#include "ompt.h"
#endif

#include <stdlib.h>
#include <unistd.h>

enum { MOST = 512, DEEPEST = 64 };

struct mirrored {
    uint64_t native, thread, type, idle, region, task, mutex, barrier, taskwait, taskgroup;
};
struct mirrored mirrored[MOST];
uint64_t mirrored_count;

static __thread struct mirrored *own;
static __thread struct {
    uint64_t region, task;
} left[DEEPEST]; /* that its thread executes again once what it has begun is over */
static __thread int depth;

static void add_thread(uint64_t number, uint64_t type)
{
    uint64_t at = __atomic_fetch_add(&mirrored_count, 1, __ATOMIC_RELAXED);
    if (at >= MOST)
        abort();
    own = &mirrored[at];
    own->native = (uint64_t)gettid();
    own->thread = number;
    own->type = type;
}
static void begin(uint64_t region, uint64_t task)
{
    if (depth == DEEPEST)
        abort();
    left[depth].region = own->region;
    left[depth++].task = own->task;
    own->region = region;
    own->task = task;
}
static void end(uint64_t task)
{
    if (!depth || own->task != task)
        abort();
    own->region = left[--depth].region;
    own->task = left[depth].task;
}

#if GENERATION == 5
static void number(ompt_data_t *word)
{
    static uint64_t last;
    word->value = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}
static void on_thread_begin(ompt_thread_t type, ompt_data_t *word)
{
    number(word);
    add_thread(word->value, type);
}
static void on_thread_end(ompt_data_t *word)
{
    (void)word;
    own->native = 0;
}
static void on_parallel_begin(ompt_data_t *task, const ompt_frame_t *frame, ompt_data_t *region, unsigned wanted, int flags,
                              const void *codeptr)
{
    (void)task, (void)frame, (void)wanted, (void)flags, (void)codeptr;
    number(region);
}
static void on_implicit(ompt_scope_endpoint_t endpoint, ompt_data_t *region, ompt_data_t *task, unsigned size, unsigned index,
                        int flags)
{
    (void)size, (void)index;
    if (endpoint == ompt_scope_end) {
        end(task->value);
        return;
    }
    if (flags & ompt_task_initial)
        number(region);
    number(task);
    begin(region->value, task->value);
}
static void on_create(ompt_data_t *task, const ompt_frame_t *frame, ompt_data_t *created, int flags, int depends,
                      const void *codeptr)
{
    (void)task, (void)frame, (void)flags, (void)depends, (void)codeptr;
    number(created);
}
static void on_schedule(ompt_data_t *before, ompt_task_status_t status, ompt_data_t *after)
{
    (void)before, (void)status;
    if (after)
        own->task = after->value;
}
static void on_wait(ompt_sync_region_t kind, ompt_scope_endpoint_t endpoint, ompt_data_t *region, ompt_data_t *task,
                    const void *codeptr)
{
    uint64_t *place = kind == ompt_sync_region_taskwait    ? &own->taskwait
                      : kind == ompt_sync_region_taskgroup ? &own->taskgroup
                                                           : &own->barrier;
    (void)region, (void)codeptr;
    *place = endpoint == ompt_scope_begin ? task->value : 0;
}
/* Before each attempt. One of omp_test_lock, which never waits, may have no end. */
static void on_acquire(ompt_mutex_t kind, unsigned hint, unsigned impl, ompt_wait_id_t id, const void *codeptr)
{
    (void)hint, (void)impl, (void)codeptr;
    if (kind != ompt_mutex_test_lock && kind != ompt_mutex_test_nest_lock)
        own->mutex = id;
}
static void on_acquired(ompt_mutex_t kind, ompt_wait_id_t id, const void *codeptr)
{
    (void)kind, (void)id, (void)codeptr;
    own->mutex = 0;
}
static void on_nest_lock(ompt_scope_endpoint_t endpoint, ompt_wait_id_t id, const void *codeptr)
{
    (void)endpoint, (void)id, (void)codeptr;
    own->mutex = 0;
}

static int initialize(ompt_function_lookup_t lookup, int device, ompt_data_t *tool)
{
    ompt_set_callback_t set = (ompt_set_callback_t)lookup("ompt_set_callback");
    (void)device, (void)tool;
#define ON(name, function) set(ompt_callback_##name, (ompt_callback_t)function)
    ON(thread_begin, on_thread_begin), ON(thread_end, on_thread_end), ON(parallel_begin, on_parallel_begin);
    ON(implicit_task, on_implicit), ON(task_create, on_create), ON(task_schedule, on_schedule);
    ON(sync_region_wait, on_wait), ON(mutex_acquire, on_acquire), ON(mutex_acquired, on_acquired);
    ON(nest_lock, on_nest_lock);
    return 1;
}

ompt_start_tool_result_t *ompt_start_tool(unsigned version, const char *runtime)
{
    static ompt_start_tool_result_t result = {initialize, NULL, {0}};
    (void)version, (void)runtime;
    return &result;
}
#else
static void on_thread_begin(ompt_thread_type_t type, uint64_t id)
{
    add_thread(id, type);
}
static void on_thread_end(ompt_thread_type_t type, uint64_t id)
{
    (void)type, (void)id;
    own->native = 0;
}
static void on_initial_begin(uint64_t task) { begin(0, task); }
static void on_initial_end(uint64_t task) { end(task); }
static void on_implicit_end(uint64_t region, uint64_t task)
{
    (void)region;
    end(task);
}
static void on_switch(uint64_t first, uint64_t second)
{
    (void)first;
    own->task = second;
}
static void on_idle_begin(uint64_t id) { own->idle = id; }
static void on_idle_end(uint64_t id)
{
    (void)id;
    own->idle = 0;
}
#define WAIT(name)                                                                                                     \
    static void on_##name##_begin(uint64_t region, uint64_t task) { own->name = task + 0 * region; }                   \
    static void on_##name##_end(uint64_t region, uint64_t task) { own->name = 0 * (region + task); }
WAIT(barrier)
WAIT(taskwait)
WAIT(taskgroup)
static void on_wait(uint64_t id) { own->mutex = id; }
static void on_wait_critical(uint64_t id, ompt_lock_hint_t hint, ompt_lock_type_t type)
{
    (void)hint, (void)type;
    own->mutex = id;
}
static void on_wait_atomic(uint64_t id, uint32_t type)
{
    (void)type;
    own->mutex = id;
}
static void on_acquired(uint64_t id)
{
    (void)id;
    own->mutex = 0;
}

static void set_all(ompt_function_lookup_t lookup)
{
    ompt_set_callback_t set = (ompt_set_callback_t)lookup("ompt_set_callback");
#define ON(name, function) set(ompt_event_##name, (ompt_callback_t)function)
    ON(thread_begin, on_thread_begin), ON(thread_end, on_thread_end);
    ON(initial_task_begin, on_initial_begin), ON(initial_task_end, on_initial_end);
    ON(implicit_task_begin, begin), ON(implicit_task_end, on_implicit_end), ON(task_switch, on_switch);
    ON(idle_begin, on_idle_begin), ON(idle_end, on_idle_end);
    ON(wait_barrier_begin, on_barrier_begin), ON(wait_barrier_end, on_barrier_end);
    ON(wait_taskwait_begin, on_taskwait_begin), ON(wait_taskwait_end, on_taskwait_end);
    ON(wait_taskgroup_begin, on_taskgroup_begin), ON(wait_taskgroup_end, on_taskgroup_end);
    ON(wait_lock, on_wait), ON(wait_nest_lock, on_wait), ON(wait_ordered, on_wait);
    ON(wait_critical, on_wait_critical), ON(wait_atomic, on_wait_atomic);
    ON(acquired_lock, on_acquired), ON(acquired_nest_lock_first, on_acquired), ON(acquired_critical, on_acquired);
    ON(acquired_atomic, on_acquired), ON(acquired_ordered, on_acquired);
}

#if GENERATION == 1
int ompt_initialize(ompt_function_lookup_t lookup, const char *runtime, unsigned version)
{
    (void)runtime;
    set_all(lookup);
    return version == ompt2015_version_of_initialize;
}
#else
static void initialize(const char *runtime, unsigned version, ompt_function_lookup_t lookup)
{
    (void)runtime, (void)version;
    set_all(lookup);
}

ompt_initialize_fn_t ompt_tool(void) { return initialize; }
#endif
#endif
