/* A tool as the report of 2015 has it hears as often of everything as the program says. */
#include "workload.h"
#include "ompt.h"

static ompt_get_state_t get_state;
static ompt_get_thread_id_t get_thread_id;
static ompt_get_parallel_id_t get_parallel_id;
static ompt_get_task_info_t get_task_info;
static __thread uint64_t waits_for, task_here;
extern char __executable_start, etext;

static void in_program(const void *codeptr) { CHECK((const char *)codeptr >= &__executable_start && (const char *)codeptr < &etext); }

/* The ids of a callback are those that the inquiry functions tell; a degenerate task is part of the one that met it. */
static void in_context(uint64_t region, uint64_t task)
{
    uint64_t id = 0, of_task = 0;
    int level = 0;
    IS(uint64_t, region, get_parallel_id(0));
    while (get_task_info(level, NULL, &id, NULL, &of_task) && !id)
        level++;
    IS(uint64_t, task, id);
    IS(uint64_t, region, of_task);
}

static void on_thread_begin(ompt_thread_type_t type, uint64_t id)
{
    tell_begin(THREAD);
    CHECK(id && id == get_thread_id() && (type == ompt_thread_initial || type == ompt_thread_worker));
}
static void on_thread_end(ompt_thread_type_t type, uint64_t id)
{
    (void)type;
    IS(uint64_t, id, get_thread_id());
    tell_end(THREAD);
}
static void on_parallel_begin(uint64_t parent, const ompt_frame_t *frame, uint64_t region, uint32_t wanted, const void *function,
                              ompt_invoker_t invoker)
{
    tell_begin(REGION);
    in_context(get_parallel_id(0), parent);
    CHECK(region && region != get_parallel_id(0) && wanted >= 1 && frame->reenter_runtime_frame);
    IS(int, invoker, ompt_invoker_runtime);
    in_program(function);
}
static void on_parallel_end(uint64_t region, uint64_t task, ompt_invoker_t invoker)
{
    tell_end(REGION);
    in_context(get_parallel_id(0), task);
    CHECK(region && region != get_parallel_id(0));
    IS(int, invoker, ompt_invoker_runtime);
}
static void on_task_begin(uint64_t parent, const ompt_frame_t *frame, uint64_t task, const void *function)
{
    tell_begin(TASK);
    in_context(get_parallel_id(0), parent);
    CHECK(task && task != parent && frame->reenter_runtime_frame);
    in_program(function);
}
static void on_task_end(uint64_t task)
{
    tell_end(TASK);
    CHECK(task == task_here);
}
static void on_task_switch(uint64_t first, uint64_t second)
{
    if (first)
        tell_begin(SWITCH);
    else
        tell_end(SWITCH);
    in_context(get_parallel_id(0), second);
    task_here = second;
}
static void on_initial_begin(uint64_t task) { tell_begin(INITIAL_TASK), in_context(0, task); }
static void on_initial_end(uint64_t task) { tell_end(INITIAL_TASK), in_context(0, task); }
static void on_implicit_begin(uint64_t region, uint64_t task) { tell_begin(IMPLICIT_TASK), in_context(region, task); }
static void on_implicit_end(uint64_t region, uint64_t task) { tell_end(IMPLICIT_TASK), in_context(region, task); }
static void on_idle_begin(uint64_t thread)
{
    tell_begin(IDLE);
    IS(uint64_t, thread, get_thread_id());
    IS(int, get_state(NULL), ompt_state_idle);
    CHECK(!get_parallel_id(0) && !get_task_info(0, NULL, NULL, NULL, NULL));
}
static void on_idle_end(uint64_t thread)
{
    tell_end(IDLE);
    IS(uint64_t, thread, get_thread_id());
}

#define PAIR(name, what)                                                                                               \
    static void on_##name##_begin(uint64_t region, uint64_t task) { tell_begin(what), in_context(region, task); }      \
    static void on_##name##_end(uint64_t region, uint64_t task) { tell_end(what), in_context(region, task); }
#define WORK(name, what)                                                                                               \
    static void on_##name##_begin(uint64_t region, uint64_t task, const void *codeptr)                                 \
    {                                                                                                                  \
        tell_begin(what), in_context(region, task), in_program(codeptr);                                               \
    }                                                                                                                  \
    static void on_##name##_end(uint64_t region, uint64_t task) { tell_end(what), in_context(region, task); }
PAIR(wait_barrier, WAIT_BARRIER)
PAIR(wait_taskwait, WAIT_TASKWAIT)
PAIR(wait_taskgroup, WAIT_TASKGROUP)
PAIR(others, OTHERS)
WORK(loop, LOOP)
WORK(sections, SECTIONS)
WORK(taskwait, TASKWAIT)
WORK(taskgroup, TASKGROUP)

static void on_barrier_begin(uint64_t region, uint64_t task, const void *codeptr)
{
    tell_begin(BARRIER), in_context(region, task);
    if (codeptr) /* there is no call at the end of a region */
        in_program(codeptr);
}
static void on_barrier_end(uint64_t region, uint64_t task) { tell_end(BARRIER), in_context(region, task); }
static void on_single_begin(uint64_t region, uint64_t task, const void *codeptr)
{
    tell_begin(SINGLE), in_context(region, task), in_program(codeptr);
}
static void on_single_end(uint64_t region, uint64_t task) { tell_both(SINGLE_COPY), in_context(region, task); }

static void on_init(uint64_t id, ompt_lock_hint_t hint, ompt_lock_type_t type)
{
    tell_begin(LOCK_VARIABLE);
    CHECK(id && !hint && type);
}
static void on_destroy(uint64_t id) { tell_end(LOCK_VARIABLE); CHECK(id); }

/* Who waits for a mutex hears next that it has got it. */
static void waits(uint64_t id, ompt_state_t state)
{
    uint64_t told = 0;
    tell_begin(WAIT_MUTEX);
    IS(int, get_state(&told), state);
    IS(uint64_t, told, id);
    waits_for = id;
}
static void got(uint64_t id, enum what what)
{
    if (waits_for) {
        IS(uint64_t, id, waits_for);
        waits_for = 0;
        tell_end(WAIT_MUTEX);
    }
    tell_begin(what);
}
static void on_wait_lock(uint64_t id) { waits(id, ompt_state_wait_lock); }
static void on_wait_nest(uint64_t id) { waits(id, ompt_state_wait_nest_lock); }
static void on_wait_critical(uint64_t id, uint32_t hint, uint32_t type) { waits(id, ompt_state_wait_critical); CHECK(!hint && type); }
static void on_wait_atomic(uint64_t id, uint32_t type) { waits(id, ompt_state_wait_atomic); CHECK(type == 1); }
static void on_wait_ordered(uint64_t id) { waits(id, ompt_state_wait_ordered); }
static void on_lock(uint64_t id) { got(id, LOCK); }
static void on_nest_first(uint64_t id) { got(id, NEST_FIRST); }
static void on_nest_next(uint64_t id) { got(id, NEST_NEXT); }
static void on_critical(uint64_t id) { got(id, CRITICAL); }
static void on_atomic(uint64_t id) { got(id, ATOMIC); }
static void on_ordered(uint64_t id) { got(id, ORDERED); }
static void on_release_lock(uint64_t id) { tell_end(LOCK); CHECK(id); }
static void on_release_nest_last(uint64_t id) { tell_end(NEST_FIRST); CHECK(id); }
static void on_release_nest_prev(uint64_t id) { tell_end(NEST_NEXT); CHECK(id); }
static void on_release_critical(uint64_t id) { tell_end(CRITICAL); CHECK(id); }
static void on_release_atomic(uint64_t id) { tell_end(ATOMIC); CHECK(id); }
static void on_release_ordered(uint64_t id) { tell_end(ORDERED); CHECK(id); }

static void on_dependences(uint64_t task, const ompt_task_dependence_t *list, int count)
{
    tell_both(DEPENDENCES);
    CHECK(task && count >= 1 && count <= 2);
    for (int i = 0; i < count; i++)
        CHECK(list[i].variable_addr && list[i].dependence_flags >= 1 && list[i].dependence_flags <= 3);
}
static void on_dependence(uint64_t first, uint64_t second)
{
    tell_both(DEPENDENCE);
    CHECK(first && second && first != second);
}
static void on_control(uint64_t command, uint64_t modifier)
{
    tell_both(CONTROL);
    CHECK(command == 1 && modifier == 7);
}
static void on_shutdown(void)
{
    IS(int, ++shutdowns, 1);
    CHECK(here.ended);
    ended[SINGLE] = begun[SINGLE] - begun[SINGLE_COPY]; /* only with copyprivate its end is told */
    begun[SINGLE] -= begun[SINGLE_COPY];
    compare_all(false);
    printf("told of all\n");
}

#define ON(number, code, function) {ompt_event_##number, code, (ompt_callback_t)function}
static const struct {
    ompt_event_t event;
    int code;
    ompt_callback_t callback;
} callbacks[] = {
    ON(thread_begin, 4, on_thread_begin), ON(thread_end, 4, on_thread_end), ON(parallel_begin, 4, on_parallel_begin),
    ON(parallel_end, 4, on_parallel_end), ON(task_begin, 4, on_task_begin), ON(task_end, 4, on_task_end),
    ON(control, 4, on_control), ON(runtime_shutdown, 4, on_shutdown), ON(idle_begin, 4, on_idle_begin),
    ON(idle_end, 4, on_idle_end), ON(wait_barrier_begin, 4, on_wait_barrier_begin),
    ON(wait_barrier_end, 4, on_wait_barrier_end), ON(wait_taskwait_begin, 4, on_wait_taskwait_begin),
    ON(wait_taskwait_end, 4, on_wait_taskwait_end), ON(wait_taskgroup_begin, 4, on_wait_taskgroup_begin),
    ON(wait_taskgroup_end, 4, on_wait_taskgroup_end), ON(release_lock, 4, on_release_lock),
    ON(release_nest_lock_last, 4, on_release_nest_last), ON(release_critical, 4, on_release_critical),
    ON(release_atomic, 3, on_release_atomic), ON(release_ordered, 4, on_release_ordered),
    ON(implicit_task_begin, 4, on_implicit_begin), ON(implicit_task_end, 4, on_implicit_end),
    ON(initial_task_begin, 4, on_initial_begin), ON(initial_task_end, 4, on_initial_end),
    ON(task_switch, 4, on_task_switch), ON(loop_begin, 3, on_loop_begin), ON(loop_end, 3, on_loop_end),
    ON(sections_begin, 4, on_sections_begin), ON(sections_end, 4, on_sections_end),
    ON(single_in_block_begin, 4, on_single_begin), ON(single_in_block_end, 3, on_single_end),
    ON(single_others_begin, 4, on_others_begin), ON(single_others_end, 4, on_others_end),
    ON(workshare_begin, 1, on_loop_begin), ON(workshare_end, 1, on_loop_end), ON(master_begin, 1, on_loop_begin),
    ON(master_end, 1, on_loop_end), ON(barrier_begin, 4, on_barrier_begin), ON(barrier_end, 4, on_barrier_end),
    ON(taskwait_begin, 4, on_taskwait_begin), ON(taskwait_end, 4, on_taskwait_end),
    ON(taskgroup_begin, 4, on_taskgroup_begin), ON(taskgroup_end, 4, on_taskgroup_end),
    ON(release_nest_lock_prev, 4, on_release_nest_prev), ON(wait_lock, 4, on_wait_lock),
    ON(wait_nest_lock, 4, on_wait_nest), ON(wait_critical, 4, on_wait_critical), ON(wait_atomic, 3, on_wait_atomic),
    ON(wait_ordered, 4, on_wait_ordered), ON(acquired_lock, 4, on_lock), ON(acquired_nest_lock_first, 4, on_nest_first),
    ON(acquired_nest_lock_next, 4, on_nest_next), ON(acquired_critical, 4, on_critical),
    ON(acquired_atomic, 3, on_atomic), ON(acquired_ordered, 4, on_ordered), ON(init_lock, 4, on_init),
    ON(init_nest_lock, 4, on_init), ON(destroy_lock, 4, on_destroy), ON(destroy_nest_lock, 4, on_destroy),
    ON(flush, 1, on_idle_begin), ON(target_task_begin, 2, on_task_begin), ON(target_task_end_sync, 2, on_task_end),
    ON(target_task_end_async, 2, on_task_end), ON(target_data_begin, 2, on_task_begin),
    ON(target_data_end, 2, on_task_end), ON(target_data_map_begin, 2, on_task_begin),
    ON(target_data_map_end, 2, on_task_begin), ON(task_dependences, 4, on_dependences),
    ON(task_dependence_pair, 4, on_dependence),
};
static ompt_set_callback_t set_callback;
static ompt_get_callback_t get_callback;

static void initialize(const char *name, unsigned version, ompt_function_lookup_t lookup)
{
    CHECK(name && version == 2);
    set_callback = (ompt_set_callback_t)lookup("ompt_set_callback");
    get_callback = (ompt_get_callback_t)lookup("ompt_get_callback");
    get_state = (ompt_get_state_t)lookup("ompt_get_state");
    get_thread_id = (ompt_get_thread_id_t)lookup("ompt_get_thread_id");
    get_parallel_id = (ompt_get_parallel_id_t)lookup("ompt_get_parallel_id");
    get_task_info = (ompt_get_task_info_t)lookup("ompt_get_task_info");
    IS(size_t, sizeof callbacks / sizeof *callbacks, 70);
    for (size_t at = 0; at < 70; at++) {
        ompt_callback_t kept = NULL;
        IS(int, set_callback(callbacks[at].event, callbacks[at].callback), callbacks[at].code);
        IS(int, get_callback(callbacks[at].event, &kept), callbacks[at].code > 2);
        CHECK(kept == (callbacks[at].code > 2 ? callbacks[at].callback : NULL));
    }
    IS(int, set_callback((ompt_event_t)0, on_shutdown), 0);
    IS(int, set_callback((ompt_event_t)71, on_shutdown), 0);
}

ompt_initialize_fn_t ompt_tool(void) { return initialize; }

int main(void)
{
    work_on();
    IS(int, set_callback(ompt_event_control, on_shutdown), 0); /* too late */
    if (omp_get_max_threads() == 1)
        CHECK(begun[WAIT_MUTEX] == 0 && begun[WAIT_BARRIER] == ended[WAIT_BARRIER]);
    return 0;
}
