/* A tool of OpenMP 5 hears as often of everything as the program says, and finds its words again. */
#include "workload.h"
#include "omp-tools.h"

static ompt_get_thread_data_t get_thread_data;
static ompt_get_state_t get_state;
static ompt_get_parallel_info_t get_parallel_info;
static ompt_get_task_info_t get_task_info;
static __thread ompt_wait_id_t acquires;
static uint64_t words;
static ompt_data_t *tool_word;
extern char __executable_start, etext;

static void in_program(const void *codeptr) { CHECK((const char *)codeptr >= &__executable_start && (const char *)codeptr < &etext); }
static void mark(ompt_data_t *data)
{
    IS(uint64_t, data->value, 0);
    data->value = __atomic_add_fetch(&words, 1, __ATOMIC_RELAXED);
}
static void in_context(const ompt_data_t *region, const ompt_data_t *task)
{
    ompt_data_t *of_region = NULL, *of_task = NULL, *again = NULL;
    int num = -1, size = 0;
    IS(int, get_parallel_info(0, &of_region, &size), 2);
    IS(int, get_task_info(0, NULL, &of_task, NULL, &again, &num), 2);
    CHECK(of_task == task && of_region == again && (!region || region == of_region));
    CHECK(task->value && of_region->value && num >= 0 && num < size);
}

static void on_thread_begin(ompt_thread_t type, ompt_data_t *thread)
{
    tell_begin(THREAD);
    mark(thread);
    CHECK(thread == get_thread_data() && (type == ompt_thread_initial || type == ompt_thread_worker));
}
static void on_thread_end(ompt_data_t *thread)
{
    tell_end(THREAD);
    CHECK(thread->value && thread == get_thread_data());
}
static void on_parallel_begin(ompt_data_t *task, const ompt_frame_t *frame, ompt_data_t *region, unsigned wanted, int flags,
                              const void *codeptr)
{
    tell_begin(REGION);
    in_context(NULL, task);
    mark(region);
    in_program(codeptr);
    CHECK(wanted >= 1 && frame->enter_frame.ptr && frame->enter_frame_flags == (ompt_frame_application | ompt_frame_stackaddress));
    IS(int, flags, ompt_parallel_team | ompt_parallel_invoker_runtime);
}
static void on_parallel_end(ompt_data_t *region, ompt_data_t *task, int flags, const void *codeptr)
{
    tell_end(REGION);
    in_context(NULL, task);
    in_program(codeptr);
    CHECK(region->value && flags == (int)(ompt_parallel_team | ompt_parallel_invoker_runtime));
}
static void on_implicit_task(ompt_scope_endpoint_t endpoint, ompt_data_t *region, ompt_data_t *task, unsigned size,
                             unsigned index, int flags)
{
    enum what what = flags & ompt_task_initial ? INITIAL_TASK : IMPLICIT_TASK;
    IS(int, flags, what == INITIAL_TASK ? ompt_task_initial : ompt_task_implicit);
    CHECK(what == INITIAL_TASK ? size == 1 && index == 1 : index < size);
    if (endpoint == ompt_scope_begin) {
        tell_begin(what);
        mark(task);
        if (what == INITIAL_TASK)
            mark(region);
        in_context(region, task);
    } else {
        CHECK(endpoint == ompt_scope_end && !region);
        tell_end(what);
        in_context(NULL, task);
    }
}
static void on_task_create(ompt_data_t *parent, const ompt_frame_t *frame, ompt_data_t *task, int flags, int has_dependences,
                           const void *codeptr)
{
    tell_both(flags & ompt_task_undeferred ? UNDEFERRED : TASK);
    in_context(NULL, parent);
    mark(task);
    in_program(codeptr);
    IS(int, flags & ~ompt_task_undeferred, ompt_task_explicit);
    CHECK(frame->enter_frame.ptr && (has_dependences == 0 || has_dependences == 1));
}
static void on_task_schedule(ompt_data_t *prior, ompt_task_status_t status, ompt_data_t *next)
{
    CHECK(prior->value && next->value && prior != next);
    in_context(NULL, next);
    if (status == ompt_task_switch)
        tell_begin(SWITCH);
    else
        must(status == ompt_task_complete, SWITCH, "neither a switch nor an end"), tell_end(SWITCH);
}
static void on_dependences(ompt_data_t *task, const ompt_dependence_t *list, int count)
{
    tell_both(DEPENDENCES);
    CHECK(task->value && count >= 1 && count <= 2 && list[0].variable.ptr && list[0].dependence_type >= 1);
}
static void on_task_dependence(ompt_data_t *first, ompt_data_t *second)
{
    tell_both(DEPENDENCE);
    CHECK(first->value && second->value && first != second);
}
static void on_work(ompt_work_t type, ompt_scope_endpoint_t endpoint, ompt_data_t *region, ompt_data_t *task, uint64_t count_,
                    const void *codeptr)
{
    enum what what = type == ompt_work_loop              ? LOOP
                     : type == ompt_work_sections        ? SECTIONS
                     : type == ompt_work_single_executor ? SINGLE
                                                         : OTHERS;
    in_context(region, task);
    in_program(codeptr);
    CHECK(count_ > 0);
    if (what == SINGLE && endpoint == ompt_scope_end)
        tell_both(SINGLE_COPY);
    else if (endpoint == ompt_scope_begin)
        tell_begin(what);
    else
        tell_end(what);
}
static void on_sync(ompt_sync_region_t kind, ompt_scope_endpoint_t endpoint, ompt_data_t *region, ompt_data_t *task,
                    const void *codeptr)
{
    enum what what = kind == ompt_sync_region_taskwait ? TASKWAIT : kind == ompt_sync_region_taskgroup ? TASKGROUP : BARRIER;
    in_context(region, task);
    if (kind != ompt_sync_region_barrier_implicit_parallel)
        in_program(codeptr);
    if (endpoint == ompt_scope_begin)
        tell_begin(what);
    else
        tell_end(what);
}
static void on_sync_wait(ompt_sync_region_t kind, ompt_scope_endpoint_t endpoint, ompt_data_t *region, ompt_data_t *task,
                         const void *codeptr)
{
    enum what what = kind == ompt_sync_region_taskwait    ? WAIT_TASKWAIT
                     : kind == ompt_sync_region_taskgroup ? WAIT_TASKGROUP
                                                          : WAIT_BARRIER;
    in_context(region, task);
    (void)codeptr;
    if (endpoint == ompt_scope_begin) {
        ompt_wait_id_t id = 0;
        tell_begin(what);
        CHECK(get_state(&id) >= ompt_state_wait_barrier && id);
    } else {
        tell_end(what);
    }
}
static enum what of_mutex(ompt_mutex_t kind)
{
    switch (kind) {
    case ompt_mutex_lock:
    case ompt_mutex_test_lock: return LOCK;
    case ompt_mutex_nest_lock:
    case ompt_mutex_test_nest_lock: return NEST_FIRST;
    case ompt_mutex_critical: return CRITICAL;
    case ompt_mutex_atomic: return ATOMIC;
    default: return ORDERED;
    }
}
static void on_lock_init(ompt_mutex_t kind, unsigned hint, unsigned impl, ompt_wait_id_t id, const void *codeptr)
{
    tell_begin(LOCK_VARIABLE);
    CHECK((kind == ompt_mutex_lock || kind == ompt_mutex_nest_lock) && !hint && impl && id);
    in_program(codeptr);
}
static void on_lock_destroy(ompt_mutex_t kind, ompt_wait_id_t id, const void *codeptr)
{
    tell_end(LOCK_VARIABLE);
    CHECK((kind == ompt_mutex_lock || kind == ompt_mutex_nest_lock) && id);
    in_program(codeptr);
}
static void on_acquire(ompt_mutex_t kind, unsigned hint, unsigned impl, ompt_wait_id_t id, const void *codeptr)
{
    CHECK(kind && !hint && impl && id && here.began && !here.pauses);
    acquires = id;
    in_program(codeptr);
}
static void on_acquired(ompt_mutex_t kind, ompt_wait_id_t id, const void *codeptr)
{
    IS(uint64_t, id, acquires);
    tell_begin(of_mutex(kind));
    in_program(codeptr);
}
static void on_released(ompt_mutex_t kind, ompt_wait_id_t id, const void *codeptr)
{
    CHECK(id);
    tell_end(of_mutex(kind));
    in_program(codeptr);
}
static void on_nest_lock(ompt_scope_endpoint_t endpoint, ompt_wait_id_t id, const void *codeptr)
{
    CHECK(id);
    in_program(codeptr);
    if (endpoint == ompt_scope_begin)
        tell_begin(NEST_NEXT);
    else
        tell_end(NEST_NEXT);
}
static int on_control(uint64_t command, uint64_t modifier, void *argument, const void *codeptr)
{
    tell_both(CONTROL);
    CHECK(command == 1 && modifier == 7 && !argument);
    in_program(codeptr);
    return 0;
}

#define ON(name, result, function) {ompt_callback_##name, result, (ompt_callback_t)function}
static const struct {
    ompt_callbacks_t event;
    int result;
    ompt_callback_t callback;
} callbacks[] = {
    ON(thread_begin, 5, on_thread_begin), ON(thread_end, 5, on_thread_end), ON(parallel_begin, 5, on_parallel_begin),
    ON(parallel_end, 5, on_parallel_end), ON(task_create, 5, on_task_create), ON(task_schedule, 5, on_task_schedule),
    ON(implicit_task, 5, on_implicit_task), ON(target, 1, on_work), ON(target_data_op, 1, on_work),
    ON(target_submit, 1, on_work), ON(control_tool, 5, on_control), ON(device_initialize, 1, on_work),
    ON(device_finalize, 1, on_work), ON(device_load, 1, on_work), ON(device_unload, 1, on_work),
    ON(sync_region_wait, 5, on_sync_wait), ON(mutex_released, 3, on_released), ON(dependences, 5, on_dependences),
    ON(task_dependence, 5, on_task_dependence), ON(work, 3, on_work), ON(masked, 2, on_work), ON(target_map, 1, on_work),
    ON(sync_region, 5, on_sync), ON(lock_init, 5, on_lock_init), ON(lock_destroy, 5, on_lock_destroy),
    ON(mutex_acquire, 4, on_acquire), ON(mutex_acquired, 4, on_acquired), ON(nest_lock, 5, on_nest_lock),
    ON(flush, 2, on_work), ON(cancel, 1, on_work), ON(reduction, 2, on_sync), ON(dispatch, 2, on_work),
    ON(target_emi, 1, on_work), ON(target_data_op_emi, 1, on_work), ON(target_submit_emi, 1, on_work),
    ON(target_map_emi, 1, on_work), ON(error, 1, on_work),
};
static ompt_set_callback_t set_callback;

static int initialize(ompt_function_lookup_t lookup, int device, ompt_data_t *tool)
{
    ompt_get_callback_t get_callback = (ompt_get_callback_t)lookup("ompt_get_callback");
    set_callback = (ompt_set_callback_t)lookup("ompt_set_callback");
    get_thread_data = (ompt_get_thread_data_t)lookup("ompt_get_thread_data");
    get_state = (ompt_get_state_t)lookup("ompt_get_state");
    get_parallel_info = (ompt_get_parallel_info_t)lookup("ompt_get_parallel_info");
    get_task_info = (ompt_get_task_info_t)lookup("ompt_get_task_info");
    IS(int, device, omp_get_initial_device());
    tool_word = tool;
    IS(uint64_t, tool->value, 42);
    for (size_t at = 0; at < sizeof callbacks / sizeof *callbacks; at++) {
        ompt_callback_t kept = NULL;
        IS(int, (int)callbacks[at].event, (int)at + 1);
        IS(int, set_callback(callbacks[at].event, callbacks[at].callback), callbacks[at].result);
        IS(int, get_callback(callbacks[at].event, &kept), callbacks[at].result > 2);
        CHECK(kept == (callbacks[at].result > 2 ? callbacks[at].callback : NULL));
    }
    IS(int, set_callback((ompt_callbacks_t)0, (ompt_callback_t)on_work), 0);
    IS(int, set_callback((ompt_callbacks_t)38, (ompt_callback_t)on_work), 0);
    return 1;
}

static void finalize(ompt_data_t *tool)
{
    IS(int, ++shutdowns, 1);
    CHECK(here.ended && tool == tool_word && tool->value == 42);
    ended[SINGLE] = begun[SINGLE] - begun[SINGLE_COPY]; /* only with copyprivate its end is told */
    begun[SINGLE] -= begun[SINGLE_COPY];
    compare_all(true);
    printf("told of all\n");
}

ompt_start_tool_result_t *ompt_start_tool(unsigned version, const char *name)
{
    static ompt_start_tool_result_t result = {initialize, finalize, {42}};
    CHECK(version == _OPENMP && name);
    return &result;
}

int main(void)
{
    work_on();
    IS(int, set_callback(ompt_callback_flush, (ompt_callback_t)on_work), 0); /* too late */
    return 0;
}
