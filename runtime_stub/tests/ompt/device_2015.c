/* The host as a device, for a tool of 2015: what target constructs are told by, and the device's trace. */
#include "../check.h"
#include "ompt.h"

#include <omp.h>
#include <pthread.h>
#include <string.h>

enum { REGIONS = 60, THREADS = 4 };

static ompt_function_lookup_t find, on_device;
static ompt_target_device_t *device;
static ompt_get_thread_id_t get_thread_id;
static ompt_get_task_info_t get_task_info;
static ompt_target_get_device_id_t get_device_id;
#define DEVICE(name) ((ompt_target_##name##_t)on_device("ompt_target_" #name))

/* What the last construct was told by, by this thread. */
static __thread struct {
    char order[64];                   /* B begin, E end of a target task, s switch, m map, M its end, d data, D its end */
    uint64_t parent, task, map;
    const void *code;
    ompt_target_task_type_t type;
    ompt_target_map_entry_t items[4];
    unsigned count;
} heard;
static int shutdowns;

static void add(char what)
{
    size_t length = strlen(heard.order);
    if (length < sizeof heard.order - 1) /* who looks at it has looked before that */
        heard.order[length] = what;
}
static void on_target_begin(ompt_task_id_t parent, const ompt_frame_t *frame, ompt_task_id_t task, int number,
                            const void *code, ompt_target_task_type_t type)
{
    CHECK(number == 0 && task && task != parent && frame->reenter_runtime_frame);
    IS(int, get_device_id(), 0);
    add('B');
    heard.parent = parent, heard.task = task, heard.code = code, heard.type = type;
}
static void on_target_end(ompt_task_id_t task)
{
    CHECK(task == heard.task);
    IS(int, get_device_id(), 0);
    add('E');
}
static void on_switch(ompt_task_id_t first, ompt_task_id_t second)
{
    (void)first, (void)second;
    add('s');
}
static void on_task_end(ompt_task_id_t task) { CHECK(task != heard.task); }
static void on_map_begin(ompt_task_id_t task, int number, const ompt_target_map_entry_t *items, uint32_t count,
                         ompt_target_activity_id_t id)
{
    CHECK(number == 0 && task && count && id);
    IS(int, get_device_id(), 0);
    add('m');
    heard.map = id, heard.count = count;
    for (unsigned at = 0; at < count && at < 4; at++) {
        heard.items[at] = items[at];
        CHECK(items[at].device_addr == items[at].host_addr);
    }
}
static void on_map_end(int number, ompt_target_activity_id_t id)
{
    CHECK(number == 0 && id == heard.map);
    IS(int, get_device_id(), 0);
    add('M');
}
static void on_data_begin(ompt_task_id_t task, int number, const void *codeptr)
{
    CHECK(task && number == 0 && codeptr);
    IS(int, get_device_id(), 0);
    add('d');
}
static void on_data_end(ompt_task_id_t task)
{
    CHECK(task);
    IS(int, get_device_id(), 0);
    add('D');
}

static void on_shutdown(void);

static void initialize(const char *name, unsigned version, ompt_function_lookup_t lookup)
{
    (void)name, (void)version;
    find = lookup;
    ompt_set_callback_t set = (ompt_set_callback_t)lookup("ompt_set_callback");
    IS(int, set(ompt_event_target_task_begin, (ompt_callback_t)on_target_begin), 4);
    IS(int, set(ompt_event_target_task_end, (ompt_callback_t)on_target_end), 4);
    IS(int, set(ompt_event_target_task_end_async, (ompt_callback_t)on_target_end), 2);
    IS(int, set(ompt_event_target_data_begin, (ompt_callback_t)on_data_begin), 4);
    IS(int, set(ompt_event_target_data_end, (ompt_callback_t)on_data_end), 4);
    IS(int, set(ompt_event_target_data_map_begin, (ompt_callback_t)on_map_begin), 4);
    IS(int, set(ompt_event_target_data_map_end, (ompt_callback_t)on_map_end), 4);
    set(ompt_event_task_switch, (ompt_callback_t)on_switch);
    set(ompt_event_task_end, (ompt_callback_t)on_task_end);
    set(ompt_event_runtime_shutdown, on_shutdown);
    get_thread_id = (ompt_get_thread_id_t)lookup("ompt_get_thread_id");
    get_task_info = (ompt_get_task_info_t)lookup("ompt_get_task_info");
    get_device_id = (ompt_target_get_device_id_t)lookup("ompt_target_get_device_id");
}

ompt_initialize_fn_t ompt_tool(void) { return initialize; }

static uint64_t task_at(int level, ompt_task_type_t expected)
{
    ompt_task_type_t type;
    ompt_task_id_t id;
    CHECK(get_task_info(level, &type, &id, NULL, NULL));
    IS(int, type, expected);
    return id;
}

#define HEARD(expected)                                                                                                \
    do {                                                                                                               \
        if (strcmp(heard.order, expected)) {                                                                           \
            fprintf(stderr, "%s:%d: %s, not %s\n", __FILE__, __LINE__, heard.order, expected);                         \
            abort();                                                                                                   \
        }                                                                                                              \
        memset(heard.order, 0, sizeof heard.order);                                                                    \
    } while (0)

static void find_device(void)
{
    const char *type = NULL, *documentation = NULL;
    ompt_target_get_device_info_t info = (ompt_target_get_device_info_t)find("ompt_target_get_device_info");
    CHECK(find("ompt_get_device_info") == (ompt_interface_fn_t)info);
    IS(int, ((ompt_get_num_devices_t)find("ompt_get_num_devices"))(), 1);
    IS(int, get_device_id(), -1);
    IS(int, omp_get_num_devices(), 1);
    CHECK(info(1, &type, &device, &on_device, &documentation) && info(-1, &type, &device, &on_device, &documentation));
    CHECK(!info(0, &type, &device, &on_device, &documentation) && strstr(type, "host") && device && *documentation);
    CHECK(!info(0, NULL, &device, &on_device, NULL));
    CHECK(on_device && !on_device("ompt_get_state") && !on_device("") && !find("ompt_target_get_time"));
    double before = omp_get_wtime(), now = DEVICE(translate_time)(device, DEVICE(get_time)(device));
    CHECK(before <= now && now <= omp_get_wtime());
}

static void test_regions(void)
{
    int plain = 1, array[10] = {0}, copied = 5;
    uint64_t own = task_at(0, ompt_task_serial), *told = &heard.task; /* threadprivate variables cannot be named there */
    #pragma omp target map(tofrom : array[0 : 10], plain) firstprivate(copied, own) is_device_ptr(told)
    {
        copied++;
        plain += copied;
        array[3] = 7;
        IS(int, get_device_id(), 0);
        IS(int, omp_get_device_num(), 0);
        CHECK(task_at(0, ompt_task_target) == *told);
        CHECK(task_at(1, ompt_task_serial) == own && !get_task_info(2, NULL, NULL, NULL, NULL));
    }
    CHECK(plain == 7 && copied == 5 && array[3] == 7 && heard.parent == own && heard.code);
    IS(int, heard.type, ompt_target_task_target);
    CHECK(heard.count == 2 && heard.items[0].mapping_flags == (ompt_target_map_flag_tofrom | ompt_target_map_flag_sync));
    CHECK(heard.items[0].bytes + heard.items[1].bytes == sizeof array + sizeof plain);
    HEARD("BmMsEs");
    IS(int, get_device_id(), -1);
    IS(int, omp_get_device_num(), 1);
    /* Whoever is on the host is told of nothing. */
    #pragma omp target if (0) map(tofrom : plain)
    plain += omp_get_device_num();
    #pragma omp target device(1) map(tofrom : plain)
    plain += get_device_id();
    IS(int, plain, 7);
    HEARD("");
}

static void test_data(void)
{
    int array[10] = {0}, *where = array;
    #pragma omp target data map(alloc : array)
    {
        CHECK(heard.count == 1 && heard.items[0].host_addr == where && heard.items[0].bytes == sizeof array);
        IS(int, heard.items[0].mapping_flags, ompt_target_map_flag_alloc | ompt_target_map_flag_sync);
        HEARD("dmM");
        #pragma omp target update to(array)
        HEARD("BmMsEs");
        IS(int, heard.type, ompt_target_task_update);
        CHECK(!heard.code);
        IS(int, get_device_id(), 0);
        IS(int, omp_get_device_num(), 1); /* it is code of the host nevertheless */
        #pragma omp parallel num_threads(2)
        IS(int, get_device_id(), 0);
        #pragma omp target data if (0) map(alloc : array)
        IS(int, get_device_id(), 0);
    }
    HEARD("D");
    IS(int, get_device_id(), -1);
    #pragma omp target data device(1) map(alloc : array)
    IS(int, get_device_id(), -1);
    HEARD("");
    #pragma omp target enter data map(to : array)
    IS(int, heard.type, ompt_target_task_enter_data);
    IS(int, heard.items[0].mapping_flags, ompt_target_map_flag_to | ompt_target_map_flag_sync);
    #pragma omp target exit data map(release : array)
    IS(int, heard.type, ompt_target_task_exit_data);
    IS(int, heard.items[0].mapping_flags, ompt_target_map_flag_release | ompt_target_map_flag_sync);
    #pragma omp target exit data map(delete : array)
    IS(int, heard.items[0].mapping_flags, ompt_target_map_flag_delete | ompt_target_map_flag_sync);
    HEARD("BmMsEsBmMsEsBmMsEs");
}

/* A task that was created before a target data region is not in it, whenever it is executed. */
static void test_scopes(void)
{
    int before = 0, inside = 0;
    #pragma omp parallel num_threads(2)
    #pragma omp master
    {
        #pragma omp task shared(before)
        before = get_device_id();
        #pragma omp target data map(alloc : before)
        {
            #pragma omp task shared(inside)
            inside = get_device_id() + 1;
            #pragma omp taskwait
        }
    }
    IS(int, before, -1);
    IS(int, inside, 1);
    memset(heard.order, 0, sizeof heard.order);
}

/* A region is over when its tasks are, of whichever depth; a target task waits for what it depends on. */
static void test_tasks(void)
{
    int done = 0, first = 0;
    #pragma omp parallel num_threads(THREADS)
    #pragma omp single
    {
        #pragma omp task depend(out : first) shared(first)
        first = 1;
        #pragma omp target map(tofrom : done) map(to : first) depend(in : first) nowait
        {
            IS(int, first, 1);
            for (int i = 0; i < 20; i++) {
                #pragma omp task shared(done)
                {
                    #pragma omp task shared(done)
                    {
                        IS(int, get_device_id(), 0);
                        COUNT_UP(&done, 0);
                    }
                }
            }
        }
        IS(int, done, 20);
        #pragma omp target map(tofrom : done)
        {
            #pragma omp parallel num_threads(3)
            {
                IS(int, get_device_id(), 0);
                COUNT_UP(&done, 0);
            }
        }
        CHECK(done > 20);
    }
}

/* The trace. */

static size_t buffer_bytes;
static size_t misaligned;
static int requests, completes, empty;
static struct {
    int of[4];                        /* by ompt_record_type_t */
    int begins, ends, executions;
    uint64_t last_activity;
} read_of;
static pthread_t main_thread;
static uint64_t host_of[1 << 16];     /* the target task of an activity */

static void on_request(int number, ompt_target_buffer_t **buffer, size_t *bytes)
{
    CHECK(number == 0 && !pthread_equal(pthread_self(), main_thread) && get_thread_id() == 0);
    requests++;
    *bytes = buffer_bytes;
    *buffer = buffer_bytes ? (char *)malloc(buffer_bytes + misaligned) + misaligned : NULL;
}

static void read_ompt(ompt_target_buffer_t *buffer, uint64_t at)
{
    ompt_record_ompt_t *record = DEVICE(buffer_get_record_ompt)(buffer, at);
    CHECK(record->time && record->thread_id);
    if (record->type == ompt_event_target_task_begin) {
        read_of.begins++;
        CHECK(record->record.new_task.new_task_id && record->record.new_task.parent_task_id);
        CHECK(record->dev_task_id == ompt_dev_task_none || host_of[record->dev_task_id] == record->record.new_task.new_task_id);
    } else {
        read_of.ends++;
        IS(int, record->type, ompt_event_target_task_end_sync);
        CHECK(record->dev_task_id == ompt_dev_task_none || host_of[record->dev_task_id] == record->record.task.task_id);
    }
}

static void read_native(ompt_target_buffer_t *buffer, uint64_t at)
{
    ompt_record_native_abstract_t *record =
        DEVICE(buffer_get_record_native_abstract)(DEVICE(buffer_get_record_native)(buffer, at));
    CHECK(*record->type && record->start_time && host_of[record->dev_task_id]);
    if (record->rclass == ompt_record_native_class_event) {
        read_of.executions++;
        CHECK(record->start_time <= record->end_time && record->end_time != ompt_time_none);
    } else {
        CHECK(record->end_time == ompt_time_none);
    }
}

static void on_complete(int number, const ompt_target_buffer_t *given, size_t bytes, uint64_t begin, uint64_t end)
{
    ompt_target_buffer_t *buffer = (ompt_target_buffer_t *)(uintptr_t)given;
    CHECK(number == 0 && !pthread_equal(pthread_self(), main_thread) && bytes == buffer_bytes && begin <= end);
    completes++;
    empty += begin == end;
    int records = 0;
    if (begin < end) {
        uint64_t at = begin, next;
        do {
            ompt_record_type_t type = DEVICE(buffer_get_record_type)(buffer, at);
            CHECK(type < ompt_record_invalid);
            read_of.of[type]++;
            records++;
            CHECK(!DEVICE(buffer_get_record_ompt)(buffer, at) == (type != ompt_record_ompt));
            CHECK(!DEVICE(buffer_get_record_native)(buffer, at) == (type != ompt_record_native));
            ompt_record_correlation_t *link = DEVICE(buffer_get_record_correlation)(buffer, at);
            CHECK(!link == (type != ompt_record_correlation));
            if (link) {
                CHECK(link->dev_task_id < 1 << 16 && link->host_task_id && !host_of[link->dev_task_id]);
                host_of[link->dev_task_id] = link->host_task_id;
            }
            if (type == ompt_record_ompt)
                read_ompt(buffer, at);
            if (type == ompt_record_native)
                read_native(buffer, at);
            next = at;
        } while (!DEVICE(advance_buffer_cursor)(buffer, at, &at));
        CHECK(at == next && at < end && (end - begin) % (uint64_t)records == 0);
        CHECK(DEVICE(advance_buffer_cursor)(buffer, begin - 1, &next) && DEVICE(advance_buffer_cursor)(buffer, end, &next));
        IS(int, DEVICE(buffer_get_record_type)(buffer, end), ompt_record_invalid);
        IS(int, DEVICE(buffer_get_record_type)(buffer, begin - 1), ompt_record_invalid);
        IS(int, DEVICE(buffer_get_record_type)(buffer, begin + 1), ompt_record_invalid);
    }
    free((char *)buffer - misaligned);
}

static void forget(void)
{
    memset(&read_of, 0, sizeof read_of);
    memset(host_of, 0, sizeof host_of);
    requests = completes = empty = 0;
}

static void work(int regions)
{
    #pragma omp parallel for schedule(dynamic) num_threads(THREADS)
    for (int i = 0; i < regions; i++) {
        #pragma omp target
        {
        }
    }
    memset(heard.order, 0, sizeof heard.order);
}

static void test_what_is_traced(void)
{
    IS(int, DEVICE(set_trace_ompt)(device, 1, 71), 0);
    IS(int, DEVICE(set_trace_ompt)(NULL, 1, 0), 0);
    IS(int, DEVICE(set_trace_ompt)(device, 1, ompt_event_parallel_begin), 2);
    IS(int, DEVICE(set_trace_ompt)(device, 1, ompt_event_target_task_end_async), 2);
    IS(int, DEVICE(set_trace_ompt)(device, 1, ompt_event_target_task_begin), 4);
    IS(int, DEVICE(set_trace_ompt)(device, 1, 0), 4);
    IS(int, DEVICE(set_trace_native)(device, 1, ompt_native_driver), 2);
    IS(int, DEVICE(set_trace_native)(device, 1, ompt_native_driver | ompt_native_kernel_execution), 3);
    IS(int, DEVICE(set_trace_native)(device, 1, ompt_native_kernel_invocation | ompt_native_kernel_execution), 4);
    CHECK(!DEVICE(set_trace_native)(device, 1, 0) && !DEVICE(set_trace_native)(device, 1, 256));
    CHECK(!DEVICE(stop_trace)(device) && !DEVICE(pause_trace)(device, 1) && !DEVICE(start_trace)(device, NULL, NULL));
}

static void test_trace(size_t bytes, size_t off)
{
    forget();
    buffer_bytes = bytes;
    misaligned = off;
    IS(int, DEVICE(start_trace)(device, on_request, on_complete), 1);
    IS(int, DEVICE(start_trace)(device, on_request, on_complete), 0);
    work(REGIONS);
    IS(int, DEVICE(pause_trace)(device, 1), 1);
    work(5);
    IS(int, DEVICE(pause_trace)(device, 0), 1);
    #pragma omp target enter data map(to : bytes)
    HEARD("BmMsEs");
    IS(int, DEVICE(stop_trace)(device), 1);
    CHECK(requests == completes && completes >= 1 && !empty);
    IS(int, read_of.of[ompt_record_correlation], REGIONS);
    IS(int, read_of.begins, REGIONS + 1);
    IS(int, read_of.ends, REGIONS + 1);
    IS(int, read_of.of[ompt_record_native], 2 * REGIONS);
    IS(int, read_of.executions, REGIONS);
    work(1); /* is not traced any more */
    IS(int, requests, completes);
}

static void test_selection(void)
{
    forget();
    IS(int, DEVICE(set_trace_ompt)(device, 0, ompt_event_target_task_end_sync), 4);
    IS(int, DEVICE(set_trace_native)(device, 0, ompt_native_kernel_invocation), 4);
    IS(int, DEVICE(start_trace)(device, on_request, on_complete), 1);
    work(REGIONS);
    IS(int, DEVICE(stop_trace)(device), 1);
    CHECK(read_of.begins == REGIONS && !read_of.ends);
    CHECK(read_of.of[ompt_record_native] == REGIONS && read_of.executions == REGIONS);
}

/* A tool that provides no buffer, or one that is too small, is asked once; then all is dropped until it starts again. */
static void test_refusals(void)
{
    for (size_t bytes = 0; bytes <= 40; bytes += 40) {
        forget();
        buffer_bytes = bytes;
        IS(int, DEVICE(start_trace)(device, on_request, on_complete), 1);
        work(REGIONS);
        IS(int, DEVICE(stop_trace)(device), 1);
        CHECK(requests == 1 && completes == (bytes > 0) && empty == completes);
    }
    forget();
    buffer_bytes = 1000;
    IS(int, DEVICE(start_trace)(device, on_request, on_complete), 1);
    IS(int, DEVICE(stop_trace)(device), 1);
    CHECK(!requests && !completes);
}

/* What is not stopped is at the end, before the tool hears of that. */
static void on_shutdown(void)
{
    shutdowns++;
    CHECK(requests == completes);
    if (buffer_bytes == 4000)
        IS(int, read_of.executions, REGIONS);
}

static void test_end(void)
{
    forget();
    buffer_bytes = 4000;
    CHECK(DEVICE(set_trace_ompt)(device, 1, 0) && DEVICE(start_trace)(device, on_request, on_complete));
    work(REGIONS);
    CHECK(!omp_pause_resource_all(omp_pause_hard));
    IS(int, shutdowns, 1);
    forget();
    buffer_bytes = 4001;
    find_device(); /* of the tool's next life, which traces nothing */
    CHECK(DEVICE(start_trace)(device, on_request, on_complete));
    work(1);
    CHECK(DEVICE(stop_trace)(device) && read_of.of[ompt_record_correlation] == 1 && !read_of.begins && !read_of.executions);
}

int main(void)
{
    setenv("OMP_STUB_DEVICE", "host", 1);
    main_thread = pthread_self();
    omp_get_max_threads();
    find_device();
    test_regions();
    test_data();
    test_scopes();
    test_tasks();
    test_what_is_traced();
    test_trace(100000, 0);
    test_trace(500, 5);
    test_trace(257, 8);
    test_selection();
    test_refusals();
    test_end();
    return 0;
}
