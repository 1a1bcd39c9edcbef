/* What a tool of 2015 may ask, at any place: threads, regions, tasks of each type and their frames, enumerations, devices. */
#include "../check.h"
#include "ompt.h"

#include <omp.h>
#include <pthread.h>
#include <string.h>

static ompt_function_lookup_t find;
static ompt_get_thread_id_t get_thread_id;
static ompt_get_state_t get_state;
static ompt_get_parallel_id_t get_parallel_id;
static ompt_get_parallel_team_size_t get_team_size;
static ompt_get_task_info_t get_task_info;

static void initialize(const char *name, unsigned version, ompt_function_lookup_t lookup)
{
    CHECK(strstr(name, "libomp_stub") && version == 2);
    find = lookup;
    get_thread_id = (ompt_get_thread_id_t)lookup("ompt_get_thread_id");
    get_state = (ompt_get_state_t)lookup("ompt_get_state");
    get_parallel_id = (ompt_get_parallel_id_t)lookup("ompt_get_parallel_id");
    get_team_size = (ompt_get_parallel_team_size_t)lookup("ompt_get_parallel_team_size");
    get_task_info = (ompt_get_task_info_t)lookup("ompt_get_task_info");
}

ompt_initialize_fn_t ompt_tool(void) { return initialize; }

struct task {
    ompt_task_type_t type;
    ompt_task_id_t id;
    ompt_frame_t *frame;
    ompt_parallel_id_t region;
};

static struct task task_at(int level)
{
    struct task task = {0};
    CHECK(get_task_info(level, &task.type, &task.id, &task.frame, &task.region));
    CHECK(get_task_info(level, NULL, NULL, NULL, NULL));
    return task;
}

static void ends_at(int tasks, int regions)
{
    struct task task = {.id = 7};
    CHECK(!get_task_info(tasks, &task.type, &task.id, &task.frame, &task.region));
    CHECK(!get_task_info(tasks + 1, NULL, NULL, NULL, NULL) && !get_task_info(-1, NULL, NULL, NULL, NULL));
    IS(uint64_t, task.id, 7);
    CHECK(get_parallel_id(regions) == 0 && get_parallel_id(regions + 1) == 0 && get_parallel_id(-1) == 0);
    CHECK(get_team_size(regions) == -1 && get_team_size(regions + 1) == -1 && get_team_size(-1) == -1);
}

#define WORKS(state)                                                                                                   \
    do {                                                                                                               \
        ompt_wait_id_t id_ = 7;                                                                                        \
        IS(int, get_state(&id_), state);                                                                               \
        IS(uint64_t, id_, 0);                                                                                          \
        IS(int, get_state(NULL), state);                                                                               \
    } while (0)

/* exit and reenter, null and not: the four cases of the report's table. */
static void test_outside(void)
{
    struct task initial = task_at(0);
    WORKS(ompt_state_work_serial);
    CHECK(initial.type == ompt_task_serial && initial.id && !initial.region && get_thread_id());
    CHECK(!initial.frame->exit_runtime_frame && !initial.frame->reenter_runtime_frame);
    ends_at(1, 0);
    char *own = __builtin_frame_address(0);
    #pragma omp task /* is not deferred, and so is none */
    {
        char *reenter = initial.frame->reenter_runtime_frame; /* in the frame of the function that made the call */
        CHECK(reenter <= own && reenter > (char *)__builtin_frame_address(0));
        struct task task = task_at(0);
        CHECK(task.type == ompt_task_degenerate && task.id == 0 && !task.region && task.frame->exit_runtime_frame);
        CHECK(task_at(1).id == initial.id && initial.frame->reenter_runtime_frame);
        ends_at(2, 0);
    }
}

/* The report's picture: the initial task, an outer region, and an inner one that the second thread has met. */
static void test_picture(void)
{
    struct task initial = task_at(0);
    ompt_parallel_id_t outer = 0;
    ompt_thread_id_t threads[2] = {0};
    omp_set_max_active_levels(2);
    #pragma omp parallel num_threads(2)
    {
        int number = omp_get_thread_num();
        struct task own = task_at(0);
        threads[number] = get_thread_id();
        if (number == 0)
            outer = get_parallel_id(0);
        #pragma omp barrier
        WORKS(ompt_state_work_parallel);
        CHECK(threads[0] && threads[1] && threads[0] != threads[1]);
        CHECK(outer && outer == get_parallel_id(0) && get_team_size(0) == 2);
        CHECK(own.type == ompt_task_implicit && own.id && own.id != initial.id && own.region == outer);
        CHECK(own.frame->exit_runtime_frame && !own.frame->reenter_runtime_frame);
        CHECK(task_at(1).id == initial.id && task_at(1).region == 0 && task_at(1).type == ompt_task_serial);
        CHECK(task_at(1).frame->reenter_runtime_frame && !task_at(1).frame->exit_runtime_frame);
        ends_at(2, 1);
        if (number == 1) {
            #pragma omp parallel num_threads(2)
            {
                CHECK(get_parallel_id(0) != outer && get_parallel_id(1) == outer && get_team_size(1) == 2);
                struct task inner = task_at(0);
                CHECK(inner.type == ompt_task_implicit && inner.id != own.id && inner.region == get_parallel_id(0));
                CHECK(task_at(1).id == own.id && task_at(1).region == outer && task_at(2).id == initial.id);
                CHECK(own.frame->exit_runtime_frame && own.frame->reenter_runtime_frame);
                ends_at(3, 2);
            }
            CHECK(!own.frame->reenter_runtime_frame);
        }
    }
}

static void test_tasks(void)
{
    #pragma omp parallel num_threads(3)
    {
        struct task own = task_at(0);
        #pragma omp task if (0)
        {
            struct task task = task_at(0);
            CHECK(task.type == ompt_task_degenerate && task.id == 0 && task.region == own.region && task.region);
            CHECK(task.frame->exit_runtime_frame && task_at(1).id == own.id);
            ends_at(3, 1);
        }
        for (int i = 0; i < 10; i++) {
            #pragma omp task firstprivate(own)
            {
                struct task task = task_at(0), below = task_at(1);
                CHECK(task.type == ompt_task_explicit && task.id && task.id != own.id && task.region == own.region);
                CHECK(below.type == ompt_task_implicit && below.region == own.region);
                /* its code waits, or is over where the region is closed */
                CHECK(below.frame->reenter_runtime_frame || !below.frame->exit_runtime_frame);
                WORKS(ompt_state_work_parallel);
                ends_at(3, 1);
            }
        }
    }
}

static void *ask_from_elsewhere(void *unused)
{
    ompt_wait_id_t id = 7;
    CHECK(get_thread_id() == 0 && get_state(&id) == ompt_state_undefined && id == 0 && get_state(NULL) == ompt_state_undefined);
    ends_at(0, 0);
    return unused;
}

static void test_enumerations(void)
{
    ompt_enumerate_state_t enumerate_state = (ompt_enumerate_state_t)find("ompt_enumerate_state");
    ompt_enumerate_lock_type_t enumerate_lock_type = (ompt_enumerate_lock_type_t)find("ompt_enumerate_lock_type");
    ompt_enumerate_atomic_type_t enumerate_atomic_type = (ompt_enumerate_atomic_type_t)find("ompt_enumerate_atomic_type");
    CHECK(find("ompt_enumerate_lock_types") == (ompt_interface_fn_t)enumerate_lock_type);
    ompt_state_t state = ompt_state_first;
    const char *name = NULL;
    unsigned char seen[0x82] = {0};
    int states = 0, types = 0, atomics = 0;
    while (enumerate_state(state, &state, &name)) {
        CHECK(state < sizeof seen && !seen[state]++ && !strncmp(name, "ompt_state_", 11));
        states++;
    }
    IS(int, states, 14);
    IS(int, state, ompt_state_undefined); /* the last one, at which it has ended */
    CHECK(seen[ompt_state_work_serial] && seen[ompt_state_idle] && seen[ompt_state_wait_nest_lock]);
    CHECK(!seen[ompt_state_first] && !seen[ompt_state_wait_target] && !seen[ompt_state_work_reduction]);
    CHECK(!enumerate_state((ompt_state_t)0x7f, &state, &name)); /* no such state */
    ompt_lock_type_t type = ompt_lock_type_first;
    while (enumerate_lock_type(type, &type, &name)) {
        CHECK(type && *name);
        types++;
    }
    IS(int, types, 3);
    ompt_atomic_type_t atomic = ompt_atomic_type_first;
    while (enumerate_atomic_type(atomic, &atomic, &name)) {
        CHECK(atomic && *name);
        atomics++;
    }
    IS(int, atomics, 1);
}

static void test_devices(void)
{
    static const char *const of_devices[] = {
        "ompt_target_get_time", "ompt_target_translate_time", "ompt_target_set_trace_ompt", "ompt_target_set_trace_native",
        "ompt_target_start_trace", "ompt_target_pause_trace", "ompt_target_stop_trace", "ompt_target_advance_buffer_cursor",
        "ompt_target_buffer_get_record_type", "ompt_target_buffer_get_record_ompt",
        "ompt_target_buffer_get_record_correlation", "ompt_target_buffer_get_record_native",
        "ompt_target_buffer_get_record_native_abstract",
    };
    const char *text = NULL;
    ompt_target_device_t *device = NULL;
    ompt_function_lookup_t lookup = NULL;
    ompt_target_get_device_info_t info = (ompt_target_get_device_info_t)find("ompt_target_get_device_info");
    IS(int, ((ompt_get_num_devices_t)find("ompt_get_num_devices"))(), 0);
    IS(int, ((ompt_target_get_device_id_t)find("ompt_target_get_device_id"))(), -1);
    CHECK(info(0, &text, &device, &lookup, &text) != 0 && info(-1, &text, &device, &lookup, &text) != 0);
    for (size_t at = 0; at < sizeof of_devices / sizeof *of_devices; at++)
        CHECK(!find(of_devices[at]));
    CHECK(!find("ompt_get_thread") && !find("ompt_get_thread_data") && !find("") && !find(NULL));
}

int main(void)
{
    pthread_t thread;
    omp_get_max_threads();
    test_outside();
    test_picture();
    test_tasks();
    pthread_create(&thread, NULL, ask_from_elsewhere, NULL);
    pthread_join(thread, NULL);
    test_enumerations();
    test_devices();
    return 0;
}
