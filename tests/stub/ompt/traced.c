/* A tool of 2015 that traces the device from the beginning and prints each record, and what the host was told of. */
#include "ompt.h"

#include <stdio.h>
#include <stdlib.h>

static ompt_function_lookup_t on_device;
static ompt_target_device_t *device;
#define DEVICE(name) ((ompt_target_##name##_t)on_device("ompt_target_" #name))

static void on_begin(ompt_task_id_t parent, const ompt_frame_t *frame, ompt_task_id_t task, int number, const void *code,
                     ompt_target_task_type_t type)
{
    (void)parent, (void)frame, (void)code;
    printf("begin %d %d %llu\n", number, type, (unsigned long long)task);
    fflush(stdout);
}

static void on_end(ompt_task_id_t task)
{
    printf("end %llu\n", (unsigned long long)task);
    fflush(stdout);
}

static void on_request(int number, ompt_target_buffer_t **buffer, size_t *bytes)
{
    (void)number;
    *bytes = 1000;
    *buffer = malloc(*bytes);
}

static void show(ompt_target_buffer_t *buffer, ompt_target_buffer_cursor_t at)
{
    ompt_record_ompt_t *record;
    ompt_record_correlation_t *link;
    ompt_record_native_abstract_t *native;
    switch (DEVICE(buffer_get_record_type)(buffer, at)) {
    case ompt_record_correlation:
        link = DEVICE(buffer_get_record_correlation)(buffer, at);
        printf("trace %llu is %llu\n", (unsigned long long)link->dev_task_id, (unsigned long long)link->host_task_id);
        break;
    case ompt_record_native:
        native = DEVICE(buffer_get_record_native_abstract)(DEVICE(buffer_get_record_native)(buffer, at));
        printf("trace %llu %s\n", (unsigned long long)native->dev_task_id, native->type);
        break;
    case ompt_record_ompt:
        record = DEVICE(buffer_get_record_ompt)(buffer, at);
        if (record->type == ompt_event_target_task_begin)
            printf("trace begin %llu\n", (unsigned long long)record->record.new_task.new_task_id);
        else
            printf("trace end %llu\n", (unsigned long long)record->record.task.task_id);
        break;
    default:
        printf("trace invalid\n");
    }
}

static void on_complete(int number, const ompt_target_buffer_t *given, size_t bytes, ompt_target_buffer_cursor_t at,
                        ompt_target_buffer_cursor_t end)
{
    ompt_target_buffer_t *buffer = (ompt_target_buffer_t *)given;
    (void)number, (void)bytes;
    if (at < end)
        do
            show(buffer, at);
        while (!DEVICE(advance_buffer_cursor)(buffer, at, &at));
    fflush(stdout);
    free(buffer);
}

static void initialize(const char *runtime, unsigned version, ompt_function_lookup_t lookup)
{
    ompt_set_callback_t set = (ompt_set_callback_t)lookup("ompt_set_callback");
    (void)runtime, (void)version;
    set(ompt_event_target_task_begin, (ompt_callback_t)on_begin);
    set(ompt_event_target_task_end, (ompt_callback_t)on_end);
    if (((ompt_target_get_device_info_t)lookup("ompt_target_get_device_info"))(0, NULL, &device, &on_device, NULL)) {
        printf("no device\n");
        fflush(stdout);
        return;
    }
    DEVICE(set_trace_ompt)(device, 1, 0);
    DEVICE(set_trace_native)(device, 1, ompt_native_kernel_invocation | ompt_native_kernel_execution);
    DEVICE(start_trace)(device, on_request, on_complete);
}

ompt_initialize_fn_t ompt_tool(void) { return initialize; }
