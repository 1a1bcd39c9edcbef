/* What a tool of the report of 2015 looks up of the device. */
#include "ask.h"
#include "ompt.h"

#include "report.h"
#include "../device/trace.h"

static ompt_target_time_t ompt_target_get_time(ompt_target_device_t *device)
{
    return device == &the_device ? device_time() : 0;
}

static double ompt_target_translate_time(ompt_target_device_t *device, ompt_target_time_t time)
{
    return device == &the_device ? (double)time / 1e9 : 0;
}

static int ompt_target_set_trace_ompt(ompt_target_device_t *device, ompt_bool enable, uint32_t event)
{
    static const uint8_t kinds[EVENTS_2015] = {
        [0] = TRACE_BEGINS | TRACE_ENDS,
        [ompt_event_target_task_begin] = TRACE_BEGINS,
        [ompt_event_target_task_end_sync] = TRACE_ENDS,
    };
    if (device != &the_device || event >= EVENTS_2015)
        return ompt2015_set_error;
    want_records(kinds[event], enable);
    return kinds[event] ? ompt2015_set_always : ompt2015_set_never; /* others occur on the host alone */
}

static int ompt_target_set_trace_native(ompt_target_device_t *device, ompt_bool enable, uint32_t flags)
{
    static const uint8_t codes[] = {ompt2015_set_never, ompt2015_set_sometimes, ompt2015_set_always};
    int found = device == &the_device ? want_native(flags, enable) : -1;
    return found < 0 ? ompt2015_set_error : codes[found];
}

static void complete(void (*callback)(void), void *buffer, size_t bytes, uint64_t begin, uint64_t end)
{
    ((ompt_target_buffer_complete_callback_t)callback)(THE_DEVICE, buffer, bytes, begin, end);
}

static int ompt_target_start_trace(ompt_target_device_t *device, ompt_target_buffer_request_callback_t request,
                                   ompt_target_buffer_complete_callback_t completed)
{
    struct trace_user user = {request, complete, (void (*)(void))completed, true};
    return device == &the_device && start_trace(&user);
}

static int ompt_target_pause_trace(ompt_target_device_t *device, ompt_bool begins)
{
    return device == &the_device && pause_trace(begins);
}

static int ompt_target_stop_trace(ompt_target_device_t *device)
{
    return device == &the_device && stop_trace();
}

static int ompt_target_advance_buffer_cursor(ompt_target_buffer_t *buffer, ompt_target_buffer_cursor_t current,
                                             ompt_target_buffer_cursor_t *next)
{
    return !advance_cursor(buffer, current, next);
}

static ompt_record_type_t ompt_target_buffer_get_record_type(ompt_target_buffer_t *buffer,
                                                             ompt_target_buffer_cursor_t current)
{
    const struct trace_record *record = record_at(buffer, current);
    return !record                              ? ompt_record_invalid
           : record->kind == RECORD_CORRELATION ? ompt_record_correlation
           : record->kind == RECORD_NATIVE      ? ompt_record_native
                                                : ompt_record_ompt;
}

static ompt_record_ompt_t *ompt_target_buffer_get_record_ompt(ompt_target_buffer_t *buffer,
                                                              ompt_target_buffer_cursor_t current)
{
    static __thread ompt_record_ompt_t shown;
    const struct trace_record *record = record_at(buffer, current);
    if (!record || (record->kind != RECORD_TARGET_BEGINS && record->kind != RECORD_TARGET_ENDS))
        return NULL;
    shown = (ompt_record_ompt_t){
        .type = record->kind == RECORD_TARGET_BEGINS ? ompt_event_target_task_begin : ompt_event_target_task_end_sync,
        .time = record->begin,
        .thread_id = record->thread,
        .dev_task_id = record->activity ? record->activity : ompt_dev_task_none,
    };
    if (record->kind == RECORD_TARGET_BEGINS)
        shown.record.new_task = (ompt_record_task_begin_t){
            record->parent, (ompt_frame_t *)record->parent_frame, record->task, (void *)(uintptr_t)record->code,
        };
    else
        shown.record.task.task_id = record->task;
    return &shown;
}

static ompt_record_correlation_t *ompt_target_buffer_get_record_correlation(ompt_target_buffer_t *buffer,
                                                                            ompt_target_buffer_cursor_t current)
{
    static __thread ompt_record_correlation_t shown;
    const struct trace_record *record = record_at(buffer, current);
    if (!record || record->kind != RECORD_CORRELATION)
        return NULL;
    shown = (ompt_record_correlation_t){record->task, record->activity};
    return &shown;
}

static void *ompt_target_buffer_get_record_native(ompt_target_buffer_t *buffer, ompt_target_buffer_cursor_t current)
{
    const struct trace_record *record = record_at(buffer, current);
    return record && record->kind == RECORD_NATIVE ? (void *)(uintptr_t)record : NULL;
}

static ompt_record_native_abstract_t *ompt_target_buffer_get_record_native_abstract(void *native)
{
    static __thread ompt_record_native_abstract_t shown;
    const struct trace_record *record = native;
    if (!record)
        return NULL;
    shown = (ompt_record_native_abstract_t){
        .rclass = record->native == NATIVE_EXECUTION ? ompt_record_native_class_event : ompt_record_native_class_info,
        .type = native_name(record),
        .start_time = record->begin,
        .end_time = record->end, /* TRACE_NO_TIME is ompt_time_none */
        .dev_task_id = record->activity,
        .hwid = record->processor,
    };
    return &shown;
}
_Static_assert(TRACE_NO_TIME == ompt_time_none, "they are one");

static const struct entry_point entry_points[] = {
    ENTRY(ompt_target_get_time), ENTRY(ompt_target_translate_time), ENTRY(ompt_target_set_trace_ompt),
    ENTRY(ompt_target_set_trace_native), ENTRY(ompt_target_start_trace), ENTRY(ompt_target_pause_trace),
    ENTRY(ompt_target_stop_trace), ENTRY(ompt_target_advance_buffer_cursor), ENTRY(ompt_target_buffer_get_record_type),
    ENTRY(ompt_target_buffer_get_record_ompt), ENTRY(ompt_target_buffer_get_record_correlation),
    ENTRY(ompt_target_buffer_get_record_native), ENTRY(ompt_target_buffer_get_record_native_abstract),
};

ompt_interface_fn_t device_lookup_2015(const char *name)
{
    return find_entry(entry_points, sizeof entry_points / sizeof *entry_points, name);
}
