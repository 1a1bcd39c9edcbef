/* A process that is forked while the host, as a device, is traced: the child has the device anew, and a trace of its own. */
#include "../check.h"
#include "ompt.h"

#include <omp.h>
#include <sys/wait.h>
#include <unistd.h>

enum { REGIONS = 40 };

static ompt_function_lookup_t on_device;
static ompt_target_device_t *device;
static int initialized, shutdowns, requests, completes, records;
#define DEVICE(name) ((ompt_target_##name##_t)on_device("ompt_target_" #name))

static void on_request(int number, ompt_target_buffer_t **buffer, size_t *bytes)
{
    (void)number;
    requests++;
    *bytes = 600;
    *buffer = malloc(*bytes);
}

static void on_complete(int number, const ompt_target_buffer_t *given, size_t bytes, uint64_t begin, uint64_t end)
{
    ompt_target_buffer_t *buffer = (ompt_target_buffer_t *)(uintptr_t)given;
    (void)number, (void)bytes;
    completes++;
    if (begin < end)
        do
            records += DEVICE(buffer_get_record_type)(buffer, begin) == ompt_record_ompt;
        while (!DEVICE(advance_buffer_cursor)(buffer, begin, &begin));
    free(buffer);
}

static void on_shutdown(void)
{
    shutdowns++;
    IS(int, requests, completes);
}

static void initialize(const char *name, unsigned version, ompt_function_lookup_t lookup)
{
    (void)name, (void)version;
    initialized++;
    ((ompt_set_callback_t)lookup("ompt_set_callback"))(ompt_event_runtime_shutdown, on_shutdown);
    ompt_target_get_device_info_t info = (ompt_target_get_device_info_t)lookup("ompt_target_get_device_info");
    CHECK(!info(0, NULL, &device, &on_device, NULL));
    IS(int, DEVICE(set_trace_ompt)(device, 1, 0), 4);
    CHECK(DEVICE(start_trace)(device, on_request, on_complete)); /* a tool that traces from the beginning */
}

ompt_initialize_fn_t ompt_tool(void) { return initialize; }

static void work(void)
{
    #pragma omp parallel for schedule(dynamic) num_threads(4)
    for (int i = 0; i < REGIONS; i++) {
        #pragma omp target
        {
        }
    }
}

int main(void)
{
    int status;
    setenv("OMP_STUB_DEVICE", "host", 1);
    work();
    for (int children = 0; children < 5; children++) {
        pid_t child = fork();
        if (!child) {
            requests = completes = records = 0;
            work();
            IS(int, initialized, 2);
            CHECK(DEVICE(stop_trace)(device));
            IS(int, records, 2 * REGIONS);
            exit(0);
        }
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    work();
    CHECK(DEVICE(stop_trace)(device));
    IS(int, records, 4 * REGIONS);
    return 0;
}
