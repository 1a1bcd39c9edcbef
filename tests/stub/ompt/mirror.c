/* A tool of 2015 that keeps what it is told of each thread where a debugger finds it, for any program. */
#define _GNU_SOURCE
#include "ompt.h"

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

static void on_thread_begin(ompt_thread_type_t type, uint64_t id)
{
    uint64_t at = __atomic_fetch_add(&mirrored_count, 1, __ATOMIC_RELAXED);
    if (at >= MOST)
        abort();
    own = &mirrored[at];
    own->native = (uint64_t)gettid();
    own->thread = id;
    own->type = type;
}
static void on_thread_end(ompt_thread_type_t type, uint64_t id)
{
    (void)type, (void)id;
    own->native = 0;
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

static void initialize(const char *runtime, unsigned version, ompt_function_lookup_t lookup)
{
    ompt_set_callback_t set = (ompt_set_callback_t)lookup("ompt_set_callback");
    (void)runtime, (void)version;
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

ompt_initialize_fn_t ompt_tool(void) { return initialize; }
