/* What a tool of the report of 2015 looks up. */
#include "ask.h"
#include "ompt.h"

#include "report.h"
#include "../device/trace.h"

static bool may_register;

/* What ompt_set_callback returns; docs/dev/ompt-events.md has the reasons. 4 is "always". */
static const uint8_t set_codes[EVENTS_2015] = {
    [1] = 4,  [2] = 4,  [3] = 4,  [4] = 4,  [5] = 4,  [6] = 4,  [7] = 4,  [8] = 4,  [9] = 4,  [10] = 4,
    [11] = 4, [12] = 4, [13] = 4, [14] = 4, [15] = 4, [16] = 4, [17] = 4, [18] = 4, [19] = 4,
    [20] = ompt2015_set_sometimes, /* atomic constructs are mostly instructions of the processor */
    [21] = 4, [22] = 4, [23] = 4, [24] = 4, [25] = 4, [26] = 4,
    [27] = ompt2015_set_sometimes, [28] = ompt2015_set_sometimes, /* the compiler resolves static schedules */
    [29] = 4, [30] = 4, [31] = 4,
    [32] = ompt2015_set_sometimes, /* only with copyprivate the compiler says where a single construct ends */
    [33] = 4, [34] = 4,
    [35] = ompt2015_set_no_callback, [36] = ompt2015_set_no_callback, /* workshare, master and flush make no call */
    [37] = ompt2015_set_no_callback, [38] = ompt2015_set_no_callback,
    [39] = 4, [40] = 4, [41] = 4, [42] = 4, [43] = 4, [44] = 4, [45] = 4, [46] = 4, [47] = 4, [48] = 4,
    [49] = ompt2015_set_sometimes, [50] = 4, [51] = 4, [52] = 4, [53] = 4, [54] = 4, [55] = ompt2015_set_sometimes,
    [56] = 4, [57] = 4, [58] = 4, [59] = 4, [60] = 4, [61] = ompt2015_set_no_callback,
    [62] = ompt2015_set_never, [63] = ompt2015_set_never, [64] = ompt2015_set_never, [65] = ompt2015_set_never,
    [66] = ompt2015_set_never, [67] = ompt2015_set_never, [68] = ompt2015_set_never, /* there are no devices */
    [69] = 4, [70] = 4,
};

/* A target task is executed where it is met: none ends by itself. */
static int code_of(ompt_event_t event)
{
    bool is_of_device = event >= ompt_event_target_task_begin && event <= ompt_event_target_data_map_end;
    return host_is_device && is_of_device && event != ompt_event_target_task_end_async ? ompt2015_set_always : set_codes[event];
}

static int ompt_set_callback(ompt_event_t event, ompt_callback_t callback)
{
    if (!may_register || (unsigned)event >= EVENTS_2015 || !set_codes[event])
        return ompt2015_set_error;
    int code = code_of(event);
    if (code >= ompt2015_set_sometimes)
        REGISTER(callbacks_2015, event, callback);
    return code;
}

static int ompt_get_callback(ompt_event_t event, ompt_callback_t *callback)
{
    ompt_callback_t registered = (unsigned)event < EVENTS_2015 ? REGISTERED(callbacks_2015, event) : NULL;
    if (registered)
        *callback = registered;
    return registered != NULL;
}

static const struct named states[] = {
    {ompt_state_work_serial, "ompt_state_work_serial"},
    {ompt_state_work_parallel, "ompt_state_work_parallel"},
    {ompt_state_idle, "ompt_state_idle"},
    {ompt_state_overhead, "ompt_state_overhead"},
    {ompt_state_wait_barrier_implicit, "ompt_state_wait_barrier_implicit"},
    {ompt_state_wait_barrier_explicit, "ompt_state_wait_barrier_explicit"},
    {ompt_state_wait_taskwait, "ompt_state_wait_taskwait"},
    {ompt_state_wait_taskgroup, "ompt_state_wait_taskgroup"},
    {ompt_state_wait_lock, "ompt_state_wait_lock"},
    {ompt_state_wait_nest_lock, "ompt_state_wait_nest_lock"},
    {ompt_state_wait_critical, "ompt_state_wait_critical"},
    {ompt_state_wait_atomic, "ompt_state_wait_atomic"},
    {ompt_state_wait_ordered, "ompt_state_wait_ordered"},
    {ompt_state_undefined, "ompt_state_undefined"},
};

static int ompt_enumerate_state(ompt_state_t current, ompt_state_t *next, const char **name)
{
    int number;
    int more = next_of(states, sizeof states / sizeof *states, ompt_state_first, (int)current, &number, name);
    if (more)
        *next = (ompt_state_t)number;
    return more;
}

static int ompt_enumerate_lock_type(ompt_lock_type_t current, ompt_lock_type_t *next, const char **name)
{
    int number;
    int more = next_of(lock_types, LOCK_TYPES, ompt_lock_type_first, (int)current, &number, name);
    if (more)
        *next = (ompt_lock_type_t)number;
    return more;
}

static int ompt_enumerate_atomic_type(ompt_atomic_type_t current, ompt_atomic_type_t *next, const char **name)
{
    int number;
    int more = next_of(atomic_types, ATOMIC_TYPES, ompt_atomic_type_first, (int)current, &number, name);
    if (more)
        *next = (ompt_atomic_type_t)number;
    return more;
}

static ompt_thread_id_t ompt_get_thread_id(void)
{
    const struct stub_thread *thread = known_thread();
    return thread ? thread->id : 0;
}

static ompt_state_t ompt_get_state(ompt_wait_id_t *wait_id)
{
    const struct stub_thread *thread = asking_thread();
    if (wait_id)
        *wait_id = 0;
    if (!thread)
        return known_thread() ? ompt_state_idle : ompt_state_undefined;
    uint32_t state = __atomic_load_n(&thread->state, __ATOMIC_RELAXED);
    if (wait_id && is_waiting(state))
        *wait_id = thread->wait_id;
    return (ompt_state_t)state;
}

static ompt_parallel_id_t ompt_get_parallel_id(int level)
{
    const struct stub_thread *thread = asking_thread();
    const struct stub_team *team = thread ? enclosing(thread->task->team, level) : NULL;
    return team && team->level ? team->id : 0;
}

static int ompt_get_parallel_team_size(int level)
{
    const struct stub_thread *thread = asking_thread();
    const struct stub_team *team = thread ? enclosing(thread->task->team, level) : NULL;
    return team && team->level ? team->size : -1;
}

static ompt_bool ompt_get_task_info(int level, ompt_task_type_t *type, ompt_task_id_t *id, ompt_frame_t **frame,
                                    ompt_parallel_id_t *region)
{
    const struct stub_thread *thread = asking_thread();
    struct stub_task *task = thread ? ancestor(thread->task, level) : NULL;
    if (!task)
        return 0;
    if (type)
        *type = (ompt_task_type_t)task->type;
    if (id)
        *id = task->type == STUB_TASK_DEGENERATE ? 0 : task->id;
    if (frame)
        *frame = (ompt_frame_t *)&task->frame;
    if (region)
        *region = task->team->level ? task->team->id : 0;
    return 1;
}

static int ompt_get_num_devices(void)
{
    return host_is_device;
}

static int ompt_target_get_device_id(void)
{
    const struct stub_thread *thread = asking_thread();
    return thread && is_targeted(thread->task) ? THE_DEVICE : -1;
}

static int ompt_target_get_device_info(int device, const char **type, ompt_target_device_t **object,
                                       ompt_function_lookup_t *lookup, const char **documentation)
{
    if (!host_is_device || device != THE_DEVICE)
        return 1;
    if (type)
        *type = device_type;
    *object = &the_device;
    *lookup = device_lookup_2015;
    if (documentation)
        *documentation = device_documentation;
    return 0;
}

/* The text has two names for each of two of them. */
static const struct entry_point entry_points[] = {
    ENTRY(ompt_set_callback), ENTRY(ompt_get_callback), ENTRY(ompt_enumerate_state), ENTRY(ompt_enumerate_lock_type),
    {"ompt_enumerate_lock_types", (void (*)(void))ompt_enumerate_lock_type}, ENTRY(ompt_enumerate_atomic_type),
    ENTRY(ompt_get_thread_id), ENTRY(ompt_get_state), ENTRY(ompt_get_parallel_id), ENTRY(ompt_get_parallel_team_size),
    ENTRY(ompt_get_task_info), ENTRY(ompt_get_num_devices), ENTRY(ompt_target_get_device_id),
    ENTRY(ompt_target_get_device_info), {"ompt_get_device_info", (void (*)(void))ompt_target_get_device_info},
};

static ompt_interface_fn_t lookup(const char *name)
{
    return find_entry(entry_points, sizeof entry_points / sizeof *entry_points, name);
}

static void forget(void)
{
    FORGET(callbacks_2015);
}

const struct generation generation_2015 = {&events_2015, lookup, forget, &may_register};
