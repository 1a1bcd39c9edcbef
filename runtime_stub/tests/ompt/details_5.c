/* Details of OpenMP 5's tools: detached tasks, what they ask, control, and how a tool ends itself. */
#include "../check.h"
#include "omp-tools.h"

#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

/* gcc's omp.h does not have it yet. */
int omp_control_tool(int command, int modifier, void *argument);
int omp_control_tool_(const int32_t *command, const int32_t *modifier);
void ompt_control(uint64_t command, uint64_t modifier);
enum { PAUSE = 2 };

static ompt_function_lookup_t find;
static int statuses[9], finalized, told_after;
static int64_t control_command, control_modifier;
static void *control_argument;
extern char __executable_start, etext;

static void on_schedule(ompt_data_t *prior, ompt_task_status_t status, ompt_data_t *next)
{
    CHECK(prior && (next || status == ompt_task_late_fulfill || status == ompt_task_early_fulfill));
    __atomic_add_fetch(&statuses[status], 1, __ATOMIC_RELAXED);
    if (finalized)
        told_after++;
}
static void on_thread_end(ompt_data_t *thread)
{
    (void)thread;
    if (finalized)
        told_after++;
}
static int on_control(uint64_t command, uint64_t modifier, void *argument, const void *codeptr)
{
    CHECK((const char *)codeptr >= &__executable_start && (const char *)codeptr < &etext);
    control_command = (int64_t)command;
    control_modifier = (int64_t)modifier;
    control_argument = argument;
    return command == 64 ? 17 : 1;
}

static int initialize(ompt_function_lookup_t lookup, int device, ompt_data_t *tool)
{
    (void)device, (void)tool;
    find = lookup;
    ompt_set_callback_t set = (ompt_set_callback_t)lookup("ompt_set_callback");
    set(ompt_callback_task_schedule, (ompt_callback_t)on_schedule);
    set(ompt_callback_thread_end, (ompt_callback_t)on_thread_end);
    set(ompt_callback_control_tool, (ompt_callback_t)on_control);
    return 1;
}
static void finalize(ompt_data_t *tool)
{
    IS(int, ++finalized, 1);
    IS(uint64_t, tool->value, 3);
}
ompt_start_tool_result_t *ompt_start_tool(unsigned version, const char *name)
{
    static ompt_start_tool_result_t result = {initialize, finalize, {3}};
    (void)version, (void)name;
    return &result;
}

static void test_asking(void)
{
    int state = ompt_state_undefined, states = 0, impl = ompt_mutex_impl_none, impls = 0, flags, size, num;
    const char *name;
    ompt_data_t *data, *region;
    ompt_frame_t *frame;
    ompt_get_parallel_info_t parallel_info = (ompt_get_parallel_info_t)find("ompt_get_parallel_info");
    ompt_get_task_info_t task_info = (ompt_get_task_info_t)find("ompt_get_task_info");
    ompt_get_task_memory_t task_memory = (ompt_get_task_memory_t)find("ompt_get_task_memory");
    ompt_get_unique_id_t unique = (ompt_get_unique_id_t)find("ompt_get_unique_id");
    ompt_enumerate_states_t enumerate = (ompt_enumerate_states_t)find("ompt_enumerate_states");
    while (enumerate(state, &state, &name)) {
        CHECK(!strncmp(name, "ompt_state_", 11));
        states++;
    }
    IS(int, states, 12);
    CHECK(!enumerate(0x33, &state, &name));
    while (((ompt_enumerate_mutex_impls_t)find("ompt_enumerate_mutex_impls"))(impl, &impl, &name))
        impls++;
    IS(int, impls, 3);
    CHECK(parallel_info(0, &region, &size) == 2 && size == 1 && parallel_info(1, &region, &size) == 0);
    CHECK(task_info(0, &flags, &data, &frame, &region, &num) == 2 && flags == ompt_task_initial && num == 0);
    CHECK(!frame->exit_frame.ptr && !frame->enter_frame.ptr && task_info(1, &flags, NULL, NULL, NULL, NULL) == 0);
    #pragma omp parallel num_threads(3) private(flags, num, size, frame, region, data)
    {
        CHECK(parallel_info(0, &region, &size) == 2 && size == 3 && parallel_info(1, NULL, &size) == 2 && size == 1);
        CHECK(task_info(0, &flags, &data, &frame, &region, &num) == 2 && flags == ompt_task_implicit);
        CHECK(num == omp_get_thread_num() && frame->exit_frame.ptr && frame->exit_frame_flags == ompt_frame_framepointer);
        #pragma omp task if (0) untied
        {
            CHECK(task_info(0, &flags, &data, &frame, &region, &num) == 2 && num == omp_get_thread_num());
            IS(int, flags, ompt_task_explicit | ompt_task_undeferred | ompt_task_untied);
        }
        long values[4] = {1, 2, 3, 4};
        #pragma omp task firstprivate(values)
        {
            void *address = NULL;
            size_t bytes = 0;
            CHECK(task_info(0, &flags, NULL, NULL, NULL, &num) == 2 && num == omp_get_thread_num());
            IS(int, flags, ompt_task_explicit);
            IS(int, task_memory(&address, &bytes, 0), 0);
            CHECK(bytes >= sizeof values && values[3] == 4);
        }
    }
    CHECK(unique() != unique() && ((ompt_get_num_devices_t)find("ompt_get_num_devices"))() == 0);
    CHECK(((ompt_get_num_procs_t)find("ompt_get_num_procs"))() == omp_get_num_procs());
    CHECK(((ompt_get_num_places_t)find("ompt_get_num_places"))() == 0 && ((ompt_get_place_num_t)find("ompt_get_place_num"))() == -1);
    CHECK(((ompt_get_proc_id_t)find("ompt_get_proc_id"))() >= 0);
    CHECK(!((ompt_get_target_info_t)find("ompt_get_target_info"))(NULL, NULL, NULL));
    CHECK(!find("ompt_get_thread_id") && !find("ompt_enumerate_state") && !find("nothing"));
}

static void *fulfill(void *event)
{
    omp_fulfill_event((omp_event_handle_t)(omp_uintptr_t)event);
    return NULL;
}

static void test_detach(void)
{
    #pragma omp parallel num_threads(2)
    #pragma omp single
    {
        omp_event_handle_t early, late;
        pthread_t thread;
        int is_over = 0;
        #pragma omp task detach(early)
        omp_fulfill_event(early);
        #pragma omp taskwait
        #pragma omp task detach(late) shared(is_over)
        __atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
        while (__atomic_load_n(&statuses[ompt_task_detach], __ATOMIC_ACQUIRE) == 0) {
            #pragma omp taskyield
            sched_yield();
        }
        pthread_create(&thread, NULL, fulfill, (void *)late);
        #pragma omp taskwait
        pthread_join(thread, NULL);
    }
    CHECK(statuses[ompt_task_early_fulfill] == 1 && statuses[ompt_task_late_fulfill] == 1 && statuses[ompt_task_detach] == 1);
}

static void test_control(void)
{
    int here = 0;
    IS(int, omp_control_tool(64, -5, &here), 17);
    CHECK(control_command == 64 && control_modifier == -5 && control_argument == &here);
    IS(int, omp_control_tool_(&(int32_t){PAUSE}, &(int32_t){9}), 1);
    CHECK(control_command == 2 && control_modifier == 9 && !control_argument);
    ompt_control(4, 0);
    CHECK(control_command == 4);
}

int main(void)
{
    IS(int, omp_control_tool(64, 0, NULL), 17); /* any routine wakes the tool */
    test_asking();
    test_detach();
    test_control();
    for (int i = 0; i < 20; i++) { /* within a region, which the others of the team end without it */
        #pragma omp parallel num_threads(4)
        if (i == 5 && omp_get_thread_num() == 2)
            ((ompt_finalize_tool_t)find("ompt_finalize_tool"))();
    }
    IS(int, finalized, 1);
    #pragma omp parallel num_threads(2)
    {
        #pragma omp task
        ;
    }
    IS(int, omp_control_tool(64, 0, NULL), -2); /* there is none any more */
    IS(int, told_after, 0);
    return 0;
}
