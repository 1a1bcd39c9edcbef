/* Registration, and what runtimes say: in the words of OpenMP 5, of the report of 2015, and of the draft before it.
 *
 * A runtime finds the one that it knows and leaves the others alone. BLAME_GENERATION (5, 2015 or draft) has the tool
 * decline the other two, for runtimes that know more than one. */
#include "ompt_generations.h"

#include "blame.h"

#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static char name_of_runtime[256];

static bool is_wanted(const char *generation)
{
    const char *wanted = getenv("BLAME_GENERATION");
    return !wanted || !*wanted || !strcmp(wanted, generation);
}

static void begin(const char *runtime, const char *generation, ompt_function_lookup_t lookup)
{
    snprintf(name_of_runtime, sizeof name_of_runtime, "%s, %s", runtime ? runtime : "?", generation);
    runtime_name = name_of_runtime;
    prepare_report((const void *)lookup);
    start_accounts();
}

/* The four commands have the same numbers in all generations. */
static void obey(uint64_t command)
{
    switch (command) {
    case ompt2015_control_start:
        start_accounts();
        break;
    case ompt2015_control_pause:
        stop_accounts(false);
        break;
    case ompt2015_control_flush:
        print_accounts();
        break;
    case ompt2015_control_end:
        print_accounts();
        stop_accounts(true);
        break;
    }
}

/* OpenMP 5. A task is known by the place of its word, a team by what this tool has put into the region's. */
static const char *version_of_5 = "";

static uint64_t task_of(const ompt_data_t *data)
{
    return (uint64_t)(uintptr_t)data;
}

static void on_thread_begin(ompt_thread_t type, ompt_data_t *data)
{
    (void)data;
    thread_begins(type == ompt_thread_worker);
}

static void on_thread_end(ompt_data_t *data)
{
    (void)data;
    thread_ends();
}

static void on_parallel_begin(ompt_data_t *task, const ompt_frame_t *frame, ompt_data_t *region, unsigned int wanted,
                              int flags, const void *codeptr)
{
    (void)task, (void)frame, (void)wanted, (void)flags, (void)codeptr;
    region->ptr = region_begins(0);
}

static void on_parallel_end(ompt_data_t *region, ompt_data_t *task, int flags, const void *codeptr)
{
    (void)task, (void)flags, (void)codeptr;
    region_ends(region->ptr);
    region->ptr = NULL;
}

static void on_implicit_task(ompt_scope_endpoint_t endpoint, ompt_data_t *region, ompt_data_t *task, unsigned int size,
                             unsigned int number, int flags)
{
    if (endpoint == ompt_scope_end)
        implicit_task_ends();
    else if (flags & ompt_task_initial)
        implicit_task_begins(NULL, 0, 1, task_of(task));
    else
        implicit_task_begins(region ? region->ptr : NULL, (int)number, (int)size, task_of(task));
}

static void on_task_schedule(ompt_data_t *prior, ompt_task_status_t status, ompt_data_t *next)
{
    (void)prior, (void)status;
    if (next)
        task_switches(task_of(next));
}

static void on_sync_region_wait(ompt_sync_region_t kind, ompt_scope_endpoint_t endpoint, ompt_data_t *region,
                                ompt_data_t *task, const void *codeptr)
{
    (void)region, (void)codeptr;
    if (kind == ompt_sync_region_reduction)
        return;
    if (endpoint != ompt_scope_begin)
        wait_ends();
    else
        wait_begins(kind == ompt_sync_region_taskwait || kind == ompt_sync_region_taskgroup ? TASKS : BARRIER, 0, task_of(task));
}

static void on_sync_region(ompt_sync_region_t kind, ompt_scope_endpoint_t endpoint, ompt_data_t *region, ompt_data_t *task,
                           const void *codeptr)
{
    (void)kind, (void)region, (void)task, (void)codeptr;
    if (endpoint == ompt_scope_begin)
        comes_to_wait();
}

/* Whoever only tries does not wait. */
static void on_mutex_acquire(ompt_mutex_t kind, unsigned int hint, unsigned int impl, ompt_wait_id_t id, const void *codeptr)
{
    (void)hint, (void)impl, (void)codeptr;
    if (kind != ompt_mutex_test_lock && kind != ompt_mutex_test_nest_lock)
        wait_begins(kind == ompt_mutex_ordered ? ORDERED : MUTEX, id, 0);
}

static void on_mutex_acquired(ompt_mutex_t kind, ompt_wait_id_t id, const void *codeptr)
{
    (void)kind, (void)codeptr;
    mutex_acquired(id);
}

static void on_mutex_released(ompt_mutex_t kind, ompt_wait_id_t id, const void *codeptr)
{
    (void)kind, (void)codeptr;
    mutex_released(id);
}

static void on_nest_lock(ompt_scope_endpoint_t endpoint, ompt_wait_id_t id, const void *codeptr)
{
    (void)codeptr;
    if (endpoint == ompt_scope_begin)
        mutex_acquired(id);
}

static int on_control_tool(uint64_t command, uint64_t modifier, void *argument, const void *codeptr)
{
    (void)modifier, (void)argument, (void)codeptr;
    obey(command);
    return 0;
}

static int initialize_5(ompt_function_lookup_t lookup, int device, ompt_data_t *tool_data)
{
    (void)device, (void)tool_data;
    ompt_set_callback_t set = (ompt_set_callback_t)lookup("ompt_set_callback");
    if (!set)
        return 0;
    begin(version_of_5, "OpenMP 5", lookup);
    set(ompt_callback_thread_begin, (ompt_callback_t)on_thread_begin);
    set(ompt_callback_thread_end, (ompt_callback_t)on_thread_end);
    set(ompt_callback_parallel_begin, (ompt_callback_t)on_parallel_begin);
    set(ompt_callback_parallel_end, (ompt_callback_t)on_parallel_end);
    set(ompt_callback_implicit_task, (ompt_callback_t)on_implicit_task);
    set(ompt_callback_task_schedule, (ompt_callback_t)on_task_schedule);
    set(ompt_callback_sync_region_wait, (ompt_callback_t)on_sync_region_wait);
    set(ompt_callback_sync_region, (ompt_callback_t)on_sync_region);
    set(ompt_callback_mutex_acquire, (ompt_callback_t)on_mutex_acquire);
    set(ompt_callback_mutex_acquired, (ompt_callback_t)on_mutex_acquired);
    set(ompt_callback_mutex_released, (ompt_callback_t)on_mutex_released);
    set(ompt_callback_nest_lock, (ompt_callback_t)on_nest_lock);
    set(ompt_callback_control_tool, (ompt_callback_t)on_control_tool);
    return 1;
}

static void finalize_5(ompt_data_t *tool_data)
{
    (void)tool_data;
    print_accounts();
    stop_accounts(true);
}

EXPORT ompt_start_tool_result_t *ompt_start_tool(unsigned int version, const char *runtime)
{
    static ompt_start_tool_result_t result = {initialize_5, finalize_5, {0}};
    (void)version;
    version_of_5 = runtime;
    return is_wanted("5") ? &result : NULL;
}

/* The report of 2015, and the draft. Tasks and regions have numbers; the number of a thread in its team is in no event,
 * and is asked of OpenMP itself. */
static ompt_get_parallel_team_size_t team_size;
extern int omp_get_thread_num(void) __attribute__((weak));

static void on_2015_thread_begin(ompt_thread_type_t type, ompt_thread_id_t id)
{
    (void)id;
    thread_begins(type == ompt2015_thread_worker);
}

static void on_2015_thread_end(ompt_thread_type_t type, ompt_thread_id_t id)
{
    (void)type, (void)id;
    thread_ends();
}

static void on_2015_initial_task_begin(ompt_task_id_t task)
{
    implicit_task_begins(NULL, 0, 1, task);
}

static void on_2015_parallel_begin(ompt_task_id_t parent, const ompt2015_frame_t *frame, ompt_parallel_id_t region,
                                   uint32_t wanted, const void *function, ompt_invoker_t invoker)
{
    (void)parent, (void)frame, (void)wanted, (void)function, (void)invoker;
    region_begins(region);
}

static void on_2015_parallel_end(ompt_parallel_id_t region, ompt_task_id_t task, ompt_invoker_t invoker)
{
    (void)task, (void)invoker;
    region_ends(team_of_id(region));
}

static void on_2015_implicit_task_begin(ompt_parallel_id_t region, ompt_task_id_t task)
{
    int size = team_size ? team_size(0) : 0;
    implicit_task_begins(team_of_id(region), omp_get_thread_num ? omp_get_thread_num() : 0, size < 0 ? 0 : size, task);
}

static void on_2015_implicit_task_end(ompt_parallel_id_t region, ompt_task_id_t task)
{
    (void)region, (void)task;
    implicit_task_ends();
}

static void on_2015_task_switch(ompt_task_id_t from, ompt_task_id_t to)
{
    (void)from;
    task_switches(to);
}

static void on_2015_idle_begin(ompt_thread_id_t id)
{
    (void)id;
    wait_begins(IDLE, 0, 0);
}

static void on_2015_idle_end(ompt_thread_id_t id)
{
    (void)id;
    wait_ends();
}

static void on_2015_sync_begin(ompt_parallel_id_t region, ompt_task_id_t task, const void *codeptr)
{
    (void)region, (void)task, (void)codeptr;
    comes_to_wait();
}

static void on_2015_wait_barrier_begin(ompt_parallel_id_t region, ompt_task_id_t task)
{
    (void)region;
    wait_begins(BARRIER, 0, task);
}

static void on_2015_wait_tasks_begin(ompt_parallel_id_t region, ompt_task_id_t task)
{
    (void)region;
    wait_begins(TASKS, 0, task);
}

static void on_2015_wait_end(ompt_parallel_id_t region, ompt_task_id_t task)
{
    (void)region, (void)task;
    wait_ends();
}

static void on_2015_wait_lock(ompt_wait_id_t id)
{
    wait_begins(MUTEX, id, 0);
}

static void on_2015_wait_critical(ompt_wait_id_t id, ompt_lock_hint_t hint, ompt_lock_type_t type)
{
    (void)hint, (void)type;
    wait_begins(MUTEX, id, 0);
}

static void on_2015_wait_atomic(ompt_wait_id_t id, uint32_t type)
{
    (void)type;
    wait_begins(MUTEX, id, 0);
}

static void on_2015_wait_ordered(ompt_wait_id_t id)
{
    wait_begins(ORDERED, id, 0);
}

static void on_2015_control(uint64_t command, uint64_t modifier)
{
    (void)modifier;
    obey(command);
}

static void on_2015_shutdown(void)
{
    print_accounts();
    stop_accounts(true);
}

static const struct {
    ompt_event_t event;
    ompt_callback_t callback;
} callbacks_2015[] = {
    {ompt_event_thread_begin, (ompt_callback_t)on_2015_thread_begin},
    {ompt_event_thread_end, (ompt_callback_t)on_2015_thread_end},
    {ompt_event_initial_task_begin, (ompt_callback_t)on_2015_initial_task_begin},
    {ompt_event_parallel_begin, (ompt_callback_t)on_2015_parallel_begin},
    {ompt_event_parallel_end, (ompt_callback_t)on_2015_parallel_end},
    {ompt_event_implicit_task_begin, (ompt_callback_t)on_2015_implicit_task_begin},
    {ompt_event_implicit_task_end, (ompt_callback_t)on_2015_implicit_task_end},
    {ompt_event_task_switch, (ompt_callback_t)on_2015_task_switch},
    {ompt_event_idle_begin, (ompt_callback_t)on_2015_idle_begin},
    {ompt_event_idle_end, (ompt_callback_t)on_2015_idle_end},
    {ompt_event_barrier_begin, (ompt_callback_t)on_2015_sync_begin},
    {ompt_event_taskwait_begin, (ompt_callback_t)on_2015_sync_begin},
    {ompt_event_taskgroup_begin, (ompt_callback_t)on_2015_sync_begin},
    {ompt_event_wait_barrier_begin, (ompt_callback_t)on_2015_wait_barrier_begin},
    {ompt_event_wait_barrier_end, (ompt_callback_t)on_2015_wait_end},
    {ompt_event_wait_taskwait_begin, (ompt_callback_t)on_2015_wait_tasks_begin},
    {ompt_event_wait_taskwait_end, (ompt_callback_t)on_2015_wait_end},
    {ompt_event_wait_taskgroup_begin, (ompt_callback_t)on_2015_wait_tasks_begin},
    {ompt_event_wait_taskgroup_end, (ompt_callback_t)on_2015_wait_end},
    {ompt_event_wait_lock, (ompt_callback_t)on_2015_wait_lock},
    {ompt_event_wait_nest_lock, (ompt_callback_t)on_2015_wait_lock},
    {ompt_event_wait_critical, (ompt_callback_t)on_2015_wait_critical},
    {ompt_event_wait_atomic, (ompt_callback_t)on_2015_wait_atomic},
    {ompt_event_wait_ordered, (ompt_callback_t)on_2015_wait_ordered},
    {ompt_event_acquired_lock, (ompt_callback_t)mutex_acquired},
    {ompt_event_acquired_nest_lock_first, (ompt_callback_t)mutex_acquired},
    {ompt_event_acquired_nest_lock_next, (ompt_callback_t)mutex_acquired},
    {ompt_event_acquired_critical, (ompt_callback_t)mutex_acquired},
    {ompt_event_acquired_atomic, (ompt_callback_t)mutex_acquired},
    {ompt_event_acquired_ordered, (ompt_callback_t)mutex_acquired},
    {ompt_event_release_lock, (ompt_callback_t)mutex_released},
    {ompt_event_release_nest_lock_last, (ompt_callback_t)mutex_released},
    {ompt_event_release_critical, (ompt_callback_t)mutex_released},
    {ompt_event_release_atomic, (ompt_callback_t)mutex_released},
    {ompt_event_release_ordered, (ompt_callback_t)mutex_released},
    {ompt_event_control, (ompt_callback_t)on_2015_control},
    {ompt_event_runtime_shutdown, (ompt_callback_t)on_2015_shutdown},
};

static bool initialize_2015(const char *runtime, const char *generation, ompt_function_lookup_t lookup)
{
    ompt2015_set_callback_t set = (ompt2015_set_callback_t)lookup("ompt_set_callback");
    if (!set)
        return false;
    team_size = (ompt_get_parallel_team_size_t)lookup("ompt_get_parallel_team_size");
    begin(runtime, generation, lookup);
    for (size_t at = 0; at < sizeof callbacks_2015 / sizeof *callbacks_2015; at++)
        set(callbacks_2015[at].event, callbacks_2015[at].callback);
    return true;
}

static void initialize_report(const char *runtime, unsigned int version, ompt_function_lookup_t lookup)
{
    (void)version;
    initialize_2015(runtime, "report of 2015", lookup);
}

EXPORT ompt_initialize_fn_t ompt_tool(void)
{
    return is_wanted("2015") ? initialize_report : NULL;
}

EXPORT int ompt_initialize(ompt_function_lookup_t lookup, const char *runtime, unsigned int version)
{
    (void)version;
    return is_wanted("draft") && initialize_2015(runtime, "draft", lookup);
}
