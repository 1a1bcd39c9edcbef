/* What a tool of OpenMP 5 looks up. */
#include "ask.h"
#include "omp-tools.h"

#include "openmp5.h"

#include <sched.h>

static bool may_register;

/* What ompt_set_callback returns; docs/dev/ompt-events.md has the reasons. */
static const uint8_t set_results[CALLBACKS_5] = {
    [ompt_callback_thread_begin] = ompt_set_always,
    [ompt_callback_thread_end] = ompt_set_always,
    [ompt_callback_parallel_begin] = ompt_set_always,
    [ompt_callback_parallel_end] = ompt_set_always,
    [ompt_callback_task_create] = ompt_set_always,
    [ompt_callback_task_schedule] = ompt_set_always,
    [ompt_callback_implicit_task] = ompt_set_always,
    [ompt_callback_target] = ompt_set_never,
    [ompt_callback_target_data_op] = ompt_set_never,
    [ompt_callback_target_submit] = ompt_set_never,
    [ompt_callback_control_tool] = ompt_set_always,
    [ompt_callback_device_initialize] = ompt_set_never,
    [ompt_callback_device_finalize] = ompt_set_never,
    [ompt_callback_device_load] = ompt_set_never,
    [ompt_callback_device_unload] = ompt_set_never,
    [ompt_callback_sync_region_wait] = ompt_set_always,
    [ompt_callback_mutex_released] = ompt_set_sometimes, /* most atomic constructs are instructions */
    [ompt_callback_dependences] = ompt_set_always,
    [ompt_callback_task_dependence] = ompt_set_always,
    [ompt_callback_work] = ompt_set_sometimes, /* static loops make no call, and the end of single none */
    [ompt_callback_masked] = ompt_set_impossible,
    [ompt_callback_target_map] = ompt_set_never,
    [ompt_callback_sync_region] = ompt_set_always,
    [ompt_callback_lock_init] = ompt_set_always,
    [ompt_callback_lock_destroy] = ompt_set_always,
    [ompt_callback_mutex_acquire] = ompt_set_sometimes_paired,
    [ompt_callback_mutex_acquired] = ompt_set_sometimes_paired,
    [ompt_callback_nest_lock] = ompt_set_always,
    [ompt_callback_flush] = ompt_set_impossible,
    [ompt_callback_cancel] = ompt_set_never,
    [ompt_callback_reduction] = ompt_set_impossible,
    [ompt_callback_dispatch] = ompt_set_impossible,
    [ompt_callback_target_emi] = ompt_set_never,
    [ompt_callback_target_data_op_emi] = ompt_set_never,
    [ompt_callback_target_submit_emi] = ompt_set_never,
    [ompt_callback_target_map_emi] = ompt_set_never,
    [ompt_callback_error] = ompt_set_never,
};

/* Of target constructs, where the host is a device. Nothing is allocated or moved there, and no code is loaded. */
static bool is_of_device(ompt_callbacks_t event)
{
    static const uint8_t of_device[] = {
        ompt_callback_target, ompt_callback_target_emi, ompt_callback_target_submit, ompt_callback_target_submit_emi,
        ompt_callback_target_map, ompt_callback_target_map_emi, ompt_callback_device_initialize,
        ompt_callback_device_finalize,
    };
    return host_is_device && memchr(of_device, (int)event, sizeof of_device);
}

static ompt_set_result_t ompt_set_callback(ompt_callbacks_t event, ompt_callback_t callback)
{
    if (!may_register || (unsigned)event >= CALLBACKS_5 || !set_results[event])
        return ompt_set_error;
    ompt_set_result_t result = is_of_device(event) ? ompt_set_always : (ompt_set_result_t)set_results[event];
    if (result >= ompt_set_sometimes)
        REGISTER(callbacks_5, event, callback);
    return result;
}

static int ompt_get_callback(ompt_callbacks_t event, ompt_callback_t *callback)
{
    ompt_callback_t registered = (unsigned)event < CALLBACKS_5 ? REGISTERED(callbacks_5, event) : NULL;
    if (registered)
        *callback = registered;
    return registered != NULL;
}

/* Of each state of ours: a state of this generation. */
static const struct {
    uint8_t ours;
    uint16_t theirs;
    const char *name;
} states[] = {
    {STUB_WORK_SERIAL, ompt_state_work_serial, "ompt_state_work_serial"},
    {STUB_WORK_PARALLEL, ompt_state_work_parallel, "ompt_state_work_parallel"},
    {STUB_WAIT_BARRIER_IMPLICIT, ompt_state_wait_barrier_implicit, "ompt_state_wait_barrier_implicit"},
    {STUB_WAIT_BARRIER_EXPLICIT, ompt_state_wait_barrier_explicit, "ompt_state_wait_barrier_explicit"},
    {STUB_WAIT_TASKWAIT, ompt_state_wait_taskwait, "ompt_state_wait_taskwait"},
    {STUB_WAIT_TASKGROUP, ompt_state_wait_taskgroup, "ompt_state_wait_taskgroup"},
    {STUB_WAIT_LOCK, ompt_state_wait_lock, "ompt_state_wait_lock"},
    {STUB_WAIT_CRITICAL, ompt_state_wait_critical, "ompt_state_wait_critical"},
    {STUB_WAIT_ATOMIC, ompt_state_wait_atomic, "ompt_state_wait_atomic"},
    {STUB_WAIT_ORDERED, ompt_state_wait_ordered, "ompt_state_wait_ordered"},
    {STUB_IDLE, ompt_state_idle, "ompt_state_idle"},
    {STUB_OVERHEAD, ompt_state_overhead, "ompt_state_overhead"},
    {STUB_UNDEFINED, ompt_state_undefined, "ompt_state_undefined"},
};
enum { STATES = sizeof states / sizeof *states };

static int state_of(uint32_t ours)
{
    if (ours == STUB_WAIT_NEST_LOCK)
        return ompt_state_wait_lock;
    for (size_t at = 0; at < STATES; at++)
        if (states[at].ours == ours)
            return states[at].theirs;
    return ompt_state_undefined;
}

/* It begins behind ompt_state_undefined, which is a state here and therefore not told. */
static int ompt_enumerate_states(int current, int *next, const char **name)
{
    size_t at = 0;
    if (current != ompt_state_undefined) {
        while (at < STATES && states[at].theirs != current)
            at++;
        at++;
    }
    if (at >= STATES - 1)
        return 0;
    *next = states[at].theirs;
    *name = states[at].name;
    return 1;
}

static int ompt_enumerate_mutex_impls(int current, int *next, const char **name)
{
    return next_of(lock_types, LOCK_TYPES, ompt_mutex_impl_none, current, next, name);
}

static ompt_data_t *ompt_get_thread_data(void)
{
    struct stub_thread *thread = known_thread();
    return thread ? (ompt_data_t *)&thread->tool_data : NULL;
}

static int ompt_get_num_procs(void)
{
    return omp_stub_process.num_procs;
}

/* No thread is bound to a place, and there are none. */
static int ompt_get_num_places(void)
{
    return 0;
}

static int ompt_get_place_proc_ids(int place, int size, int *ids)
{
    (void)place, (void)size, (void)ids;
    return 0;
}

static int ompt_get_place_num(void)
{
    return -1;
}

static int ompt_get_partition_place_nums(int size, int *places)
{
    (void)size, (void)places;
    return 0;
}

static int ompt_get_proc_id(void)
{
    return known_thread() ? sched_getcpu() : -1;
}

static int ompt_get_state(ompt_wait_id_t *wait_id)
{
    const struct stub_thread *thread = asking_thread();
    if (wait_id)
        *wait_id = ompt_wait_id_none;
    if (!thread)
        return known_thread() ? ompt_state_idle : ompt_state_undefined;
    uint32_t state = __atomic_load_n(&thread->state, __ATOMIC_RELAXED);
    if (wait_id && is_waiting(state))
        *wait_id = thread->wait_id;
    return state_of(state);
}

/* 2: there is such a region, or task, and all that is asked of it is told; 0: there is none. */
static int ompt_get_parallel_info(int level, ompt_data_t **data, int *size)
{
    struct stub_thread *thread = asking_thread();
    struct stub_team *team = thread ? enclosing(thread->task->team, level) : NULL;
    if (!team)
        return 0;
    if (data)
        *data = (ompt_data_t *)&team->tool_data;
    if (size)
        *size = team->size;
    return 2;
}

static int ompt_get_task_info(int level, int *flags, ompt_data_t **data, ompt_frame_t **frame, ompt_data_t **region,
                              int *thread_num)
{
    struct stub_thread *thread = asking_thread();
    struct stub_task *task = thread ? ancestor(thread->task, level) : NULL;
    if (!task)
        return 0;
    if (flags)
        *flags = flags_of_task(task);
    if (data)
        *data = (ompt_data_t *)&task->tool_data;
    if (frame)
        *frame = frame_of_task(task);
    if (region)
        *region = (ompt_data_t *)&task->team->tool_data;
    if (thread_num) {
        const struct stub_task *below = task; /* an explicit task is executed by who executes the one below */
        while (below->thread_num < 0 && below->scheduling)
            below = below->scheduling;
        *thread_num = below->thread_num;
    }
    return 2;
}

static int ompt_get_task_memory(void **address, size_t *size, int block)
{
    const struct stub_thread *thread = asking_thread();
    const struct stub_task *task = thread ? thread->task : NULL;
    *size = !block && task ? whole_task((struct stub_task *)task)->data_size : 0;
    *address = *size ? task->data : NULL;
    return 0; /* there is no other block */
}

static int ompt_get_target_info(uint64_t *device, ompt_id_t *target, ompt_id_t *operation)
{
    const struct stub_thread *thread = asking_thread();
    struct stub_task *task = thread ? target_task_of(thread->task) : NULL;
    if (!task)
        return 0;
    *device = THE_DEVICE;
    *target = task->id;
    *operation = whole_task(task)->operation;
    return 1;
}

static int ompt_get_num_devices(void)
{
    return host_is_device;
}

/* Other numbers than those of threads, regions and tasks, which take a mutex: half of them each. */
static uint64_t ompt_get_unique_id(void)
{
    static uintptr_t last;
    return (uint64_t)1 << 63 | __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}

static void ompt_finalize_tool(void)
{
    end_tool();
}

static const struct entry_point entry_points[] = {
    ENTRY(ompt_enumerate_states), ENTRY(ompt_enumerate_mutex_impls), ENTRY(ompt_set_callback), ENTRY(ompt_get_callback),
    ENTRY(ompt_get_thread_data), ENTRY(ompt_get_num_procs), ENTRY(ompt_get_num_places), ENTRY(ompt_get_place_proc_ids),
    ENTRY(ompt_get_place_num), ENTRY(ompt_get_partition_place_nums), ENTRY(ompt_get_proc_id), ENTRY(ompt_get_state),
    ENTRY(ompt_get_parallel_info), ENTRY(ompt_get_task_info), ENTRY(ompt_get_task_memory), ENTRY(ompt_get_target_info),
    ENTRY(ompt_get_num_devices), ENTRY(ompt_get_unique_id), ENTRY(ompt_finalize_tool),
};

static ompt_interface_fn_t lookup(const char *name)
{
    return find_entry(entry_points, sizeof entry_points / sizeof *entry_points, name);
}

static void forget(void)
{
    FORGET(callbacks_5);
}

const struct generation generation_5 = {&events_5, lookup, forget, &may_register};
