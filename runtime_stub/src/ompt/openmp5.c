/* OMPT as OpenMP 5 has it: which callback is called with what. */
#include "ask.h"
#include "omp-tools.h"

#include "openmp5.h"

#include <stdlib.h>

ompt_callback_t callbacks_5[CALLBACKS_5];
ompt_start_tool_result_t *tool_5;

#define CALL(name, ...)                                                                                                \
    do {                                                                                                               \
        ompt_callback_t callback_ = REGISTERED(callbacks_5, ompt_callback_##name);                                                 \
        if (callback_)                                                                                                 \
            ((SIGNATURE_##name)callback_)(__VA_ARGS__);                                                                \
    } while (0)
#define SIGNATURE_thread_begin ompt_callback_thread_begin_t
#define SIGNATURE_thread_end ompt_callback_thread_end_t
#define SIGNATURE_parallel_begin ompt_callback_parallel_begin_t
#define SIGNATURE_parallel_end ompt_callback_parallel_end_t
#define SIGNATURE_task_create ompt_callback_task_create_t
#define SIGNATURE_task_schedule ompt_callback_task_schedule_t
#define SIGNATURE_implicit_task ompt_callback_implicit_task_t
#define SIGNATURE_control_tool ompt_callback_control_tool_t
#define SIGNATURE_sync_region_wait ompt_callback_sync_region_t
#define SIGNATURE_mutex_released ompt_callback_mutex_t
#define SIGNATURE_dependences ompt_callback_dependences_t
#define SIGNATURE_task_dependence ompt_callback_task_dependence_t
#define SIGNATURE_work ompt_callback_work_t
#define SIGNATURE_sync_region ompt_callback_sync_region_t
#define SIGNATURE_lock_init ompt_callback_mutex_acquire_t
#define SIGNATURE_lock_destroy ompt_callback_mutex_t
#define SIGNATURE_mutex_acquire ompt_callback_mutex_acquire_t
#define SIGNATURE_mutex_acquired ompt_callback_mutex_t
#define SIGNATURE_nest_lock ompt_callback_nest_lock_t

static ompt_data_t *word_of_thread(struct stub_thread *thread) { return (ompt_data_t *)&thread->tool_data; }
static ompt_data_t *word_of_team(struct stub_team *team) { return (ompt_data_t *)&team->tool_data; }
static ompt_data_t *word_of_task(struct stub_task *task) { return (ompt_data_t *)&task->tool_data; }
static ompt_scope_endpoint_t endpoint(bool begins) { return begins ? ompt_scope_begin : ompt_scope_end; }

/* The frames are kept as this generation has them, but for the words of its pointers, which have 64 bits everywhere. */
ompt_frame_t *frame_of_task(struct stub_task *task)
{
    if (sizeof(void *) == sizeof(ompt_data_t))
        return (ompt_frame_t *)&task->frame;
    ompt_frame_t *wide = (ompt_frame_t *)whole_task(task)->wide_frame;
    wide->exit_frame.value = (uintptr_t)task->frame.exit_runtime_frame;
    wide->enter_frame.value = (uintptr_t)task->frame.reenter_runtime_frame;
    wide->exit_frame_flags = task->frame.exit_frame_flags;
    wide->enter_frame_flags = task->frame.reenter_frame_flags;
    return wide;
}
_Static_assert(sizeof(ompt_frame_t) <= sizeof((struct whole_task *)0)->wide_frame, "there is room for it");

int flags_of_task(const struct stub_task *task)
{
    switch (task->type) {
    case STUB_TASK_SERIAL: return ompt_task_initial;
    case STUB_TASK_IMPLICIT: return ompt_task_implicit;
    case STUB_TASK_TARGET: return ompt_task_target | ompt_task_undeferred;
    }
    return ompt_task_explicit | (task->is_undeferred ? ompt_task_undeferred : 0) | (task->is_tied ? 0 : ompt_task_untied) |
           (task->is_final ? ompt_task_final : 0);
}

static void tell_thread(struct stub_thread *thread, bool begins)
{
    if (begins)
        CALL(thread_begin, (ompt_thread_t)thread->type, word_of_thread(thread));
    else
        CALL(thread_end, word_of_thread(thread));
}

static void tell_initial_task(struct stub_thread *thread, bool begins)
{
    CALL(implicit_task, endpoint(begins), begins ? word_of_team(thread->team) : NULL, word_of_task(thread->task), 1, 1,
         ompt_task_initial);
}

static void tell_idle(struct stub_thread *thread, bool begins)
{
    (void)thread, (void)begins; /* this generation has a state for it, and no event */
}

static void tell_parallel(struct stub_thread *thread, struct stub_team *team, unsigned wanted, bool begins)
{
    int flags = ompt_parallel_team |
                (whole_team(team)->program_invokes ? ompt_parallel_invoker_program : ompt_parallel_invoker_runtime);
    if (begins)
        CALL(parallel_begin, word_of_task(thread->task), frame_of_task(thread->task), word_of_team(team), wanted, flags,
             codeptr_of(thread->task));
    else
        CALL(parallel_end, word_of_team(team), word_of_task(thread->task), flags, codeptr_of(thread->task));
}

static void tell_implicit_task(struct stub_thread *thread, bool begins)
{
    struct stub_task *task = thread->task;
    CALL(implicit_task, endpoint(begins), begins ? word_of_team(task->team) : NULL, word_of_task(task),
         (unsigned)task->team->size, (unsigned)task->thread_num, ompt_task_implicit);
}

static void tell_task_create(struct stub_thread *thread, struct stub_task *task)
{
    CALL(task_create, word_of_task(thread->task), frame_of_task(thread->task), word_of_task(task), flags_of_task(task),
         task->dependence_count > 0, codeptr_of(thread->task));
}

static void tell_task_switch(struct stub_task *from, struct stub_task *to, enum task_change change)
{
    static const ompt_task_status_t statuses[] = {ompt_task_switch, ompt_task_complete, ompt_task_detach};
    CALL(task_schedule, word_of_task(from), statuses[change], word_of_task(to));
}

static void tell_task_end(struct stub_task *task)
{
    (void)task; /* the switch says it */
}

static void tell_task_fulfill(struct stub_task *task, bool is_late)
{
    CALL(task_schedule, word_of_task(task), is_late ? ompt_task_late_fulfill : ompt_task_early_fulfill, NULL);
}

static void tell_dependences(struct stub_task *task)
{
    static const ompt_dependence_type_t types[] = {
        [STUB_DEPEND_IN] = ompt_dependence_type_in, [STUB_DEPEND_OUT] = ompt_dependence_type_out,
        [STUB_DEPEND_INOUT] = ompt_dependence_type_inout,
        [STUB_DEPEND_MUTEXINOUTSET] = ompt_dependence_type_mutexinoutset,
    };
    if (!REGISTERED(callbacks_5, ompt_callback_dependences))
        return;
    ompt_dependence_t *list = allocate((size_t)(task->dependence_count + 1) * sizeof *list);
    for (int32_t at = 0; at < task->dependence_count; at++) {
        list[at].variable.ptr = task->dependences[at].address;
        list[at].dependence_type = types[task->dependences[at].kind];
    }
    CALL(dependences, word_of_task(task), list, task->dependence_count);
    free(list);
}

static void tell_dependence(struct stub_task *first, struct stub_task *second)
{
    CALL(task_dependence, word_of_task(first), word_of_task(second));
}

static const ompt_sync_region_t syncs[] = {
    [SYNC_BARRIER] = ompt_sync_region_barrier_explicit,
    [SYNC_WORKSHARE] = ompt_sync_region_barrier_implicit_workshare,
    [SYNC_CLOSING] = ompt_sync_region_barrier_implicit_parallel,
    [SYNC_COPY] = ompt_sync_region_barrier_implementation,
    [SYNC_TASKWAIT] = ompt_sync_region_taskwait,
    [SYNC_TASKGROUP] = ompt_sync_region_taskgroup,
};

static void tell_sync(struct stub_thread *thread, enum sync_kind kind, bool begins)
{
    CALL(sync_region, syncs[kind], endpoint(begins), word_of_team(thread->task->team), word_of_task(thread->task),
         codeptr_of(thread->task));
}

static void tell_wait(struct stub_thread *thread, enum sync_kind kind, bool begins)
{
    CALL(sync_region_wait, syncs[kind], endpoint(begins), word_of_team(thread->task->team), word_of_task(thread->task),
         codeptr_of(thread->task));
}

static void tell_work(struct stub_thread *thread, enum work_kind kind, uint64_t count, const void *codeptr, bool begins)
{
    static const ompt_work_t types[] = {
        [WORK_LOOP] = ompt_work_loop, [WORK_SECTIONS] = ompt_work_sections, [WORK_SINGLE] = ompt_work_single_executor,
        [WORK_SINGLE_OTHERS] = ompt_work_single_other,
    };
    CALL(work, types[kind], endpoint(begins), word_of_team(thread->task->team), word_of_task(thread->task), count, codeptr);
}

static const ompt_mutex_t mutexes[] = {
    [MUTEX_LOCK] = ompt_mutex_lock, [MUTEX_NEST_LOCK] = ompt_mutex_nest_lock, [MUTEX_CRITICAL] = ompt_mutex_critical,
    [MUTEX_CRITICAL_UNNAMED] = ompt_mutex_critical, [MUTEX_ATOMIC] = ompt_mutex_atomic, [MUTEX_ORDERED] = ompt_mutex_ordered,
    [MUTEX_TEST_LOCK] = ompt_mutex_test_lock, [MUTEX_TEST_NEST_LOCK] = ompt_mutex_test_nest_lock,
};

static void tell_lock_init(enum mutex_kind kind, const void *wait, unsigned hint, const void *codeptr)
{
    CALL(lock_init, mutexes[kind], hint, lock_type(kind), (uintptr_t)wait, codeptr);
}

static void tell_lock_destroy(enum mutex_kind kind, const void *wait, const void *codeptr)
{
    CALL(lock_destroy, mutexes[kind], (uintptr_t)wait, codeptr);
}

static void tell_mutex_acquire(enum mutex_kind kind, const void *wait, const void *codeptr)
{
    CALL(mutex_acquire, mutexes[kind], 0, lock_type(kind), (uintptr_t)wait, codeptr);
}

static void tell_mutex_wait(enum mutex_kind kind, const void *wait)
{
    (void)kind, (void)wait; /* mutex_acquire was told, whether it would wait or not */
}

static void tell_mutex_acquired(enum mutex_kind kind, const void *wait, const void *codeptr, bool is_again)
{
    if (is_again)
        CALL(nest_lock, ompt_scope_begin, (uintptr_t)wait, codeptr);
    else
        CALL(mutex_acquired, mutexes[kind], (uintptr_t)wait, codeptr);
}

static void tell_mutex_released(enum mutex_kind kind, const void *wait, const void *codeptr, bool is_kept)
{
    if (is_kept)
        CALL(nest_lock, ompt_scope_end, (uintptr_t)wait, codeptr);
    else
        CALL(mutex_released, mutexes[kind], (uintptr_t)wait, codeptr);
}

static int tell_control(uint64_t command, uint64_t modifier, void *argument, const void *codeptr)
{
    ompt_callback_t callback = REGISTERED(callbacks_5, ompt_callback_control_tool);
    return callback ? ((ompt_callback_control_tool_t)callback)(command, modifier, argument, codeptr) : CONTROL_NO_CALLBACK;
}

static void tell_shutdown(void)
{
    if (tool_5->finalize)
        tool_5->finalize(&tool_5->tool_data);
}

const struct tool_events events_5 = {
    .thread = tell_thread, .initial_task = tell_initial_task, .idle = tell_idle, .parallel = tell_parallel,
    .implicit_task = tell_implicit_task, .task_create = tell_task_create, .task_switch = tell_task_switch,
    .task_end = tell_task_end, .task_fulfill = tell_task_fulfill, .dependences = tell_dependences,
    .dependence = tell_dependence, .sync = tell_sync, .wait = tell_wait, .work = tell_work,
    .lock_init = tell_lock_init, .lock_destroy = tell_lock_destroy, .mutex_acquire = tell_mutex_acquire,
    .mutex_wait = tell_mutex_wait, .mutex_acquired = tell_mutex_acquired, .mutex_released = tell_mutex_released,
    .device = tell_device_5, .target = tell_target_5, .target_submit = tell_target_submit_5,
    .target_data = tell_target_data_5, .map = tell_map_5, .control = tell_control, .shutdown = tell_shutdown,
};
