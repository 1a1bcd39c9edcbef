/* The host as a device, for a tool of OpenMP 5: it is initialized, told of target constructs, and traced. In its second life the
 * tool registers the older callbacks alone, which have numbers in place of words. */
#include "../check.h"
#include "omp-tools.h"

#include <omp.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

enum { REGIONS = 40 };

static ompt_function_lookup_t find, on_device;
static ompt_device_t *device;
static bool is_plain;
static int initialized, finalized, targets, older, submits, maps;
static __thread ompt_target_t last_kind;
static __thread unsigned last_flags;
static pthread_t main_thread;
#define count(place) __atomic_add_fetch(&(place), 1, __ATOMIC_RELAXED)
#define HOST(name) ((ompt_##name##_t)find("ompt_" #name))
#define DEVICE(name) ((ompt_##name##_t)on_device("ompt_" #name))

static void on_initialize(int number, const char *type, ompt_device_t *given, ompt_function_lookup_t lookup, const char *text)
{
    CHECK(number == 0 && strstr(type, "host") && given && lookup && *text);
    device = given;
    on_device = lookup;
    initialized++;
}
static void on_finalize(int number) {
    CHECK(number == 0);
    finalized++;
}

static void on_target_emi(ompt_target_t kind, ompt_scope_endpoint_t endpoint, int number, ompt_data_t *task,
                          ompt_data_t *target_task, ompt_data_t *target, const void *codeptr)
{
    CHECK(number == 0 && task && target && codeptr);
    if (endpoint == ompt_scope_beginend) { /* of a target data construct, which has no task */
        CHECK(!target_task && (kind == ompt_target_enter_data || kind == ompt_target_exit_data));
    } else {
        CHECK(target_task && target_task != task);
        if (endpoint == ompt_scope_begin)
            target->value = (uint64_t)(uintptr_t)target_task;
        else
            CHECK(target->value == (uint64_t)(uintptr_t)target_task);
    }
    last_kind = kind;
    count(targets);
}
static void on_submit_emi(ompt_scope_endpoint_t endpoint, ompt_data_t *target, ompt_id_t *operation, unsigned teams)
{
    CHECK((endpoint == ompt_scope_begin || endpoint == ompt_scope_end) && target->value && *operation && teams == 1);
    count(submits);
}
static void on_map_emi(ompt_data_t *target, unsigned count, void **host, void **on, size_t *bytes, unsigned *flags,
                       const void *codeptr)
{
    CHECK(target && count && host[0] == on[0] && bytes[0] && codeptr);
    last_flags = flags[0];
    count(maps);
}

static void on_target(ompt_target_t kind, ompt_scope_endpoint_t endpoint, int number, ompt_data_t *task, ompt_id_t id,
                      const void *codeptr)
{
    static __thread ompt_id_t begun;
    CHECK(is_plain && number == 0 && task && id && codeptr);
    if (endpoint == ompt_scope_begin)
        begun = id;
    else if (endpoint == ompt_scope_end)
        CHECK(id == begun);
    last_kind = kind;
    count(older);
}
static void on_submit(ompt_id_t id, ompt_id_t operation, unsigned teams)
{
    CHECK(is_plain && id && operation && teams == 1);
    count(older);
}
static void on_map(ompt_id_t id, unsigned count, void **host, void **on, size_t *bytes, unsigned *flags, const void *codeptr)
{
    CHECK(is_plain && id && count && host[0] == on[0] && bytes[0] && codeptr);
    last_flags = flags[0];
    count(older);
}

static int initialize(ompt_function_lookup_t lookup, int number, ompt_data_t *tool)
{
    (void)number, (void)tool;
    find = lookup;
    ompt_set_callback_t set = HOST(set_callback);
#define SET(name, function, result) IS(int, set(ompt_callback_##name, (ompt_callback_t)(function)), result)
    SET(device_initialize, on_initialize, ompt_set_always);
    SET(device_finalize, on_finalize, ompt_set_always);
    SET(target, on_target, ompt_set_always);
    SET(target_submit, on_submit, ompt_set_always);
    SET(target_map, on_map, ompt_set_always);
    SET(target_data_op, NULL, ompt_set_never);
    SET(device_load, NULL, ompt_set_never);
    if (!is_plain) {
        SET(target_emi, on_target_emi, ompt_set_always);
        SET(target_submit_emi, on_submit_emi, ompt_set_always);
        SET(target_map_emi, on_map_emi, ompt_set_always);
    }
    return 1;
}

static void on_end(ompt_data_t *tool)
{
    (void)tool;
    CHECK(initialized == finalized);
}

ompt_start_tool_result_t *ompt_start_tool(unsigned version, const char *name)
{
    static ompt_start_tool_result_t result = {initialize, on_end, {0}};
    (void)version, (void)name;
    return &result;
}

static void test_constructs(void)
{
    int value = 1, number = -1, flags = 0;
    ompt_id_t target = 0, operation = 0, none;
    CHECK(!HOST(get_target_info)((uint64_t *)&none, &none, &none));
    ompt_get_target_info_t get_target_info = HOST(get_target_info);
    ompt_get_task_info_t get_task_info = HOST(get_task_info);
    #pragma omp target map(tofrom : value, number, flags, target, operation)
    {
        uint64_t on = 7;
        value++;
        CHECK(get_target_info(&on, &target, &operation));
        number = (int)on;
        CHECK(get_task_info(0, &flags, NULL, NULL, NULL, NULL) == 2);
    }
    CHECK(value == 2 && number == 0 && target && operation && (flags & 0xf) == ompt_task_target);
    CHECK(last_kind == ompt_target && last_flags == (ompt_target_map_flag_to | ompt_target_map_flag_from));
    #pragma omp target data map(alloc : value)
    {
        CHECK(last_kind == ompt_target_enter_data && last_flags == ompt_target_map_flag_alloc);
        #pragma omp target update from(value)
        CHECK(last_kind == ompt_target_update && last_flags == ompt_target_map_flag_from);
    }
    CHECK(last_kind == ompt_target_exit_data);
    #pragma omp target exit data map(delete : value)
    CHECK(last_kind == ompt_target_exit_data && last_flags == ompt_target_map_flag_delete);
}

static size_t buffer_bytes;
static int requests, completes, begins, ends, kernels, natives;

static void on_request(int number, ompt_buffer_t **buffer, size_t *bytes)
{
    CHECK(number == 0 && !pthread_equal(pthread_self(), main_thread) && !HOST(get_thread_data)());
    requests++;
    *bytes = buffer_bytes;
    *buffer = malloc(buffer_bytes);
}

static void read_ompt(const ompt_record_ompt_t *record)
{
    CHECK(record->time && record->thread_id && record->target_id);
    if (record->type == ompt_callback_target_submit) {
        kernels++;
        CHECK(record->record.target_kernel.host_op_id && record->record.target_kernel.end_time >= record->time);
        return;
    }
    IS(int, record->type, ompt_callback_target);
    CHECK(record->record.target.kind == ompt_target && record->record.target.device_num == 0);
    CHECK(record->record.target.task_id && record->record.target.target_id == record->target_id);
    CHECK(record->record.target.codeptr_ra);
    if (record->record.target.endpoint == ompt_scope_begin)
        begins++;
    else
        ends++;
}

static void on_complete(int number, ompt_buffer_t *buffer, size_t bytes, ompt_buffer_cursor_t begin, int owned)
{
    CHECK(number == 0 && owned && bytes && bytes <= buffer_bytes && begin < bytes);
    completes++;
    ompt_buffer_cursor_t at = begin;
    do {
        ompt_id_t operation = 0;
        ompt_record_t type = DEVICE(get_record_type)(buffer, at);
        void *native = DEVICE(get_record_native)(buffer, at, &operation);
        CHECK(type != ompt_record_invalid && !native == (type != ompt_record_native));
        if (native) {
            ompt_record_abstract_t *record = DEVICE(get_record_abstract)(native);
            CHECK(operation && record->start_time && *record->type && record->hwid);
            CHECK((record->rclass == ompt_record_native_event) == (record->end_time != ompt_time_none));
            natives++;
        } else {
            read_ompt(DEVICE(get_record_ompt)(buffer, at));
        }
    } while (DEVICE(advance_buffer_cursor)(device, buffer, bytes, at, &at));
    IS(int, DEVICE(get_record_type)(buffer, bytes), ompt_record_invalid);
    free(buffer);
}

static void work(void)
{
    #pragma omp parallel for schedule(dynamic) num_threads(4)
    for (int i = 0; i < REGIONS; i++) {
        #pragma omp target
        {
        }
    }
}

static void test_trace(void)
{
    CHECK(DEVICE(get_device_num_procs)(device) == omp_get_num_procs() && DEVICE(get_device_num_procs)(NULL) == 0);
    double before = omp_get_wtime(), now = DEVICE(translate_time)(device, DEVICE(get_device_time)(device));
    CHECK(before <= now && now <= omp_get_wtime());
    IS(int, DEVICE(set_trace_ompt)(device, 1, ompt_callback_thread_begin), ompt_set_never);
    IS(int, DEVICE(set_trace_ompt)(device, 1, 99), ompt_set_error);
    IS(int, DEVICE(set_trace_ompt)(device, 1, ompt_callback_target), ompt_set_always);
    IS(int, DEVICE(set_trace_ompt)(device, 1, ompt_callback_target_submit), ompt_set_always);
    IS(int, DEVICE(set_trace_native)(device, 1, ompt_native_idleness), ompt_set_never);
    IS(int, DEVICE(set_trace_native)(device, 1, 0xff), ompt_set_sometimes);
    CHECK(!DEVICE(flush_trace)(device) && !DEVICE(stop_trace)(device));
    buffer_bytes = 700;
    CHECK(DEVICE(start_trace)(device, on_request, on_complete));
    work();
    CHECK(DEVICE(flush_trace)(device));
    CHECK(requests == completes && begins == REGIONS && ends == REGIONS && kernels == REGIONS && natives == 2 * REGIONS);
    CHECK(DEVICE(pause_trace)(device, 1));
    work();
    CHECK(DEVICE(pause_trace)(device, 0) && DEVICE(stop_trace)(device));
    CHECK(requests == completes && begins == REGIONS);
    IS(int, DEVICE(set_trace_ompt)(device, 0, 0), ompt_set_always);
}

int main(void)
{
    setenv("OMP_STUB_DEVICE", "host", 1);
    main_thread = pthread_self();
    omp_get_max_threads();
    CHECK(initialized == 1 && HOST(get_num_devices)() == 1);
    test_constructs();
    CHECK(targets == 2 + 2 + 2 + 2 && submits == 2 && maps == 4 && !older);
    test_trace();
    is_plain = true; /* in its next life */
    CHECK(!omp_pause_resource_all(omp_pause_hard));
    CHECK(finalized == 1);
    targets = submits = maps = 0;
    test_constructs();
    CHECK(initialized == 2 && !targets && !submits && !maps);
    IS(int, older, 8 + 1 + 4);
    return 0;
}
