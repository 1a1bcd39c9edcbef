/* OMPT as the report of 2015 and the draft before it have it: which callback is called with what. */
#include "ask.h"
#include "ompt.h"

#include "report.h"

#include <stdlib.h>

ompt_callback_t callbacks_2015[EVENTS_2015];

#define CALL(event, type, ...)                                                                                         \
    do {                                                                                                               \
        ompt_callback_t callback_ = REGISTERED(callbacks_2015, event);                                                             \
        if (callback_)                                                                                                 \
            ((type)callback_)(__VA_ARGS__);                                                                            \
    } while (0)

/* A degenerate task is none: its code is that of the task that met it. */
static uint64_t task_id(const struct stub_task *task)
{
    while (task->type == STUB_TASK_DEGENERATE)
        task = task->generating;
    return task->id;
}

static uint64_t region_id(const struct stub_task *task)
{
    return task->team->level ? task->team->id : 0;
}

static const ompt_frame_t *frame_of(const struct stub_task *task)
{
    return (const ompt_frame_t *)&task->frame;
}

static uint64_t wait_id(const void *wait)
{
    return (uintptr_t)wait;
}

static void tell_thread(struct stub_thread *thread, bool begins)
{
    CALL(begins ? ompt_event_thread_begin : ompt_event_thread_end, ompt_thread_type_callback_t,
         (ompt_thread_type_t)thread->type, thread->id);
}

static void tell_initial_task(struct stub_thread *thread, bool begins)
{
    CALL(begins ? ompt_event_initial_task_begin : ompt_event_initial_task_end, ompt_task_callback_t, thread->task->id);
}

static void tell_idle(struct stub_thread *thread, bool begins)
{
    CALL(begins ? ompt_event_idle_begin : ompt_event_idle_end, ompt_thread_callback_t, thread->id);
}

static void tell_parallel(struct stub_thread *thread, struct stub_team *team, unsigned wanted, bool begins)
{
    ompt_invoker_t invoker = whole_team(team)->program_invokes ? ompt_invoker_program : ompt_invoker_runtime;
    if (begins)
        CALL(ompt_event_parallel_begin, ompt_parallel_begin_callback_t, task_id(thread->task), frame_of(thread->task),
             team->id, wanted, (const void *)(uintptr_t)team->function, invoker);
    else
        CALL(ompt_event_parallel_end, ompt_parallel_end_callback_t, team->id, task_id(thread->task), invoker);
}

static void tell_implicit_task(struct stub_thread *thread, bool begins)
{
    CALL(begins ? ompt_event_implicit_task_begin : ompt_event_implicit_task_end, ompt_parallel_callback_t,
         region_id(thread->task), thread->task->id);
}

static void tell_task_create(struct stub_thread *thread, struct stub_task *task)
{
    if (task->type == STUB_TASK_TARGET)
        CALL(ompt_event_target_task_begin, ompt_target_task_begin_callback_t, task_id(thread->task), frame_of(thread->task),
             task->id, THE_DEVICE,
             whole_task(task)->target_kind == TARGET_REGION ? (const void *)(uintptr_t)task->function : NULL,
             (ompt_target_task_type_t)whole_task(task)->target_kind);
    else if (task->type != STUB_TASK_DEGENERATE)
        CALL(ompt_event_task_begin, ompt_task_begin_callback_t, task_id(thread->task), frame_of(thread->task), task->id,
             (const void *)(uintptr_t)task->function);
}

static void tell_task_switch(struct stub_task *from, struct stub_task *to, enum task_change change)
{
    const struct stub_task *other = change == TASK_BEGINS ? to : from;
    if (other->type != STUB_TASK_DEGENERATE)
        CALL(ompt_event_task_switch, ompt_task_pair_callback_t, change == TASK_ENDS ? 0 : task_id(from), task_id(to));
}

static void tell_task_end(struct stub_task *task)
{
    if (task->type == STUB_TASK_TARGET)
        CALL(ompt_event_target_task_end_sync, ompt_target_task_end_callback_t, task->id);
    else if (task->type != STUB_TASK_DEGENERATE)
        CALL(ompt_event_task_end, ompt_task_callback_t, task->id);
}

static void tell_task_fulfill(struct stub_task *task, bool is_late)
{
    if (is_late)
        tell_task_end(task);
}

static void tell_dependences(struct stub_task *task)
{
    if (!REGISTERED(callbacks_2015, ompt_event_task_dependences) || task->type == STUB_TASK_DEGENERATE)
        return;
    ompt_task_dependence_t *list = allocate((size_t)(task->dependence_count + 1) * sizeof *list);
    for (int32_t at = 0; at < task->dependence_count; at++) {
        uint32_t kind = task->dependences[at].kind;
        list[at].variable_addr = task->dependences[at].address;
        list[at].dependence_flags = kind == STUB_DEPEND_IN    ? ompt_task_dependence_type_in
                                    : kind == STUB_DEPEND_OUT ? ompt_task_dependence_type_out
                                                              : ompt_task_dependence_type_inout;
    }
    CALL(ompt_event_task_dependences, ompt_task_dependences_callback_t, task->id, list, task->dependence_count);
    free(list);
}

static void tell_dependence(struct stub_task *first, struct stub_task *second)
{
    if (first->type != STUB_TASK_DEGENERATE && second->type != STUB_TASK_DEGENERATE)
        CALL(ompt_event_task_dependence_pair, ompt_task_pair_callback_t, first->id, second->id);
}

/* Of each kind: where it begins and ends, and where a wait in it does. */
static const struct {
    uint8_t begin, end, wait_begin, wait_end;
} syncs[] = {
    [SYNC_BARRIER] = {39, 40, 11, 12},  [SYNC_WORKSHARE] = {39, 40, 11, 12}, [SYNC_CLOSING] = {39, 40, 11, 12},
    [SYNC_COPY] = {0, 0, 11, 12},       [SYNC_TASKWAIT] = {41, 42, 13, 14},  [SYNC_TASKGROUP] = {43, 44, 15, 16},
};

static void tell_sync(struct stub_thread *thread, enum sync_kind kind, bool begins)
{
    uint64_t region = region_id(thread->task), task = task_id(thread->task);
    if (begins)
        CALL(syncs[kind].begin, ompt_sync_callback_t, region, task, codeptr_of(thread->task));
    else
        CALL(syncs[kind].end, ompt_parallel_callback_t, region, task);
}

static void tell_wait(struct stub_thread *thread, enum sync_kind kind, bool begins)
{
    CALL(begins ? syncs[kind].wait_begin : syncs[kind].wait_end, ompt_parallel_callback_t, region_id(thread->task),
         task_id(thread->task));
}

static void tell_work(struct stub_thread *thread, enum work_kind kind, uint64_t count, const void *codeptr, bool begins)
{
    static const uint8_t first[] = {[WORK_LOOP] = 27, [WORK_SECTIONS] = 29, [WORK_SINGLE] = 31, [WORK_SINGLE_OTHERS] = 33};
    uint64_t region = region_id(thread->task), task = task_id(thread->task);
    (void)count;
    if (begins && kind != WORK_SINGLE_OTHERS)
        CALL(first[kind], ompt_workshare_begin_callback_t, region, task, codeptr);
    else
        CALL(begins ? first[kind] : first[kind] + 1, ompt_parallel_callback_t, region, task);
}

static void tell_lock_init(enum mutex_kind kind, const void *wait, unsigned hint, const void *codeptr)
{
    (void)codeptr;
    CALL(kind == MUTEX_LOCK ? ompt_event_init_lock : ompt_event_init_nest_lock, ompt_lock_callback_t, wait_id(wait), hint,
         lock_type(kind));
}

static void tell_lock_destroy(enum mutex_kind kind, const void *wait, const void *codeptr)
{
    (void)codeptr;
    CALL(kind == MUTEX_LOCK ? ompt_event_destroy_lock : ompt_event_destroy_nest_lock, ompt_wait_callback_t, wait_id(wait));
}

static void tell_mutex_acquire(enum mutex_kind kind, const void *wait, const void *codeptr)
{
    (void)kind, (void)wait, (void)codeptr; /* this generation is told only of waits that are ones */
}

/* Of each kind: wait, acquired, released. */
static const struct {
    uint8_t wait, acquired, released;
} mutexes[] = {
    [MUTEX_LOCK] = {46, 51, 17},      [MUTEX_TEST_LOCK] = {46, 51, 17}, [MUTEX_NEST_LOCK] = {47, 52, 18},
    [MUTEX_TEST_NEST_LOCK] = {47, 52, 18}, [MUTEX_CRITICAL] = {48, 54, 19},  [MUTEX_CRITICAL_UNNAMED] = {48, 54, 19},
    [MUTEX_ATOMIC] = {49, 55, 20},    [MUTEX_ORDERED] = {50, 56, 21},
};

static void tell_mutex_wait(enum mutex_kind kind, const void *wait)
{
    if (kind == MUTEX_CRITICAL || kind == MUTEX_CRITICAL_UNNAMED)
        CALL(mutexes[kind].wait, ompt_lock_callback_t, wait_id(wait), 0, lock_type(kind)); /* gcc passes no hint */
    else if (kind == MUTEX_ATOMIC)
        CALL(mutexes[kind].wait, ompt_atomic_callback_t, wait_id(wait), (uint32_t)atomic_types[0].number);
    else
        CALL(mutexes[kind].wait, ompt_wait_callback_t, wait_id(wait));
}

static void tell_mutex_acquired(enum mutex_kind kind, const void *wait, const void *codeptr, bool is_again)
{
    (void)codeptr;
    CALL(is_again ? ompt_event_acquired_nest_lock_next : mutexes[kind].acquired, ompt_wait_callback_t, wait_id(wait));
}

static void tell_mutex_released(enum mutex_kind kind, const void *wait, const void *codeptr, bool is_kept)
{
    (void)codeptr;
    CALL(is_kept ? ompt_event_release_nest_lock_prev : mutexes[kind].released, ompt_wait_callback_t, wait_id(wait));
}

/* It is told of devices when it asks for them, and of target constructs by their tasks. */
static void tell_device(bool begins)
{
    (void)begins;
}

static void tell_target(struct stub_thread *thread, struct stub_task *task, bool begins)
{
    (void)thread, (void)task, (void)begins;
}

static void tell_target_submit(struct stub_task *task, bool begins)
{
    (void)task, (void)begins;
}

static void tell_target_data(struct stub_thread *thread, bool begins)
{
    if (begins)
        CALL(ompt_event_target_data_begin, ompt_target_data_begin_callback_t, task_id(thread->task), THE_DEVICE,
             codeptr_of(thread->task));
    else
        CALL(ompt_event_target_data_end, ompt_task_callback_t, task_id(thread->task));
}

static uint32_t map_flag(uint32_t flags)
{
    return (flags & (MAP_TO | MAP_FROM)                 ? flags & (MAP_TO | MAP_FROM)
            : flags & MAP_RELEASE                       ? ompt_target_map_flag_release
            : flags & MAP_DELETE                        ? ompt_target_map_flag_delete
                                                        : ompt_target_map_flag_alloc) | ompt_target_map_flag_sync;
}

static void tell_map(struct stub_thread *thread, struct stub_task *task, const struct mapped *items, unsigned count,
                     uint64_t id, bool begins)
{
    if (!begins)
        CALL(ompt_event_target_data_map_end, ompt_target_data_map_end_callback_t, THE_DEVICE, id);
    if (!begins || !REGISTERED(callbacks_2015, ompt_event_target_data_map_begin))
        return;
    ompt_target_map_entry_t *entries = allocate(count * sizeof *entries);
    for (unsigned at = 0; at < count; at++)
        entries[at] = (ompt_target_map_entry_t){items[at].address, items[at].address, items[at].bytes,
                                                map_flag(items[at].flags)};
    CALL(ompt_event_target_data_map_begin, ompt_target_data_map_begin_callback_t, task ? task->id : task_id(thread->task),
         THE_DEVICE, entries, count, id);
    free(entries);
}

static int tell_control(uint64_t command, uint64_t modifier, void *argument, const void *codeptr)
{
    (void)argument, (void)codeptr;
    if (!REGISTERED(callbacks_2015, ompt_event_control))
        return CONTROL_NO_CALLBACK;
    CALL(ompt_event_control, ompt_control_callback_t, command, modifier);
    return CONTROL_SUCCESS;
}

static void tell_shutdown(void)
{
    ompt_callback_t callback = REGISTERED(callbacks_2015, ompt_event_runtime_shutdown);
    if (callback)
        callback();
}

const struct tool_events events_2015 = {
    .thread = tell_thread, .initial_task = tell_initial_task, .idle = tell_idle, .parallel = tell_parallel,
    .implicit_task = tell_implicit_task, .task_create = tell_task_create, .task_switch = tell_task_switch,
    .task_end = tell_task_end, .task_fulfill = tell_task_fulfill, .dependences = tell_dependences,
    .dependence = tell_dependence, .sync = tell_sync, .wait = tell_wait, .work = tell_work,
    .lock_init = tell_lock_init, .lock_destroy = tell_lock_destroy, .mutex_acquire = tell_mutex_acquire,
    .mutex_wait = tell_mutex_wait, .mutex_acquired = tell_mutex_acquired, .mutex_released = tell_mutex_released,
    .device = tell_device, .target = tell_target, .target_submit = tell_target_submit,
    .target_data = tell_target_data, .map = tell_map, .control = tell_control, .shutdown = tell_shutdown,
};
