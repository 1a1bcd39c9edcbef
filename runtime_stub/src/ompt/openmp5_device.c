/* What a tool of OpenMP 5 is told of target constructs, and looks up of the device. */
#include "ask.h"
#include "omp-tools.h"

#include "openmp5.h"
#include "../device/trace.h"

#include <stdlib.h>

/* Of two callbacks for the same a tool that has both gets the one with words of its own. */
static ompt_callback_t callback_of(ompt_callbacks_t first, ompt_callbacks_t otherwise, bool *is_first)
{
    ompt_callback_t callback = REGISTERED(callbacks_5, first);
    *is_first = callback != NULL;
    return callback ? callback : REGISTERED(callbacks_5, otherwise);
}

static ompt_data_t *word_of_target(struct stub_task *task)
{
    return (ompt_data_t *)&whole_task(task)->target_word;
}

static ompt_data_t *word_of_task(struct stub_task *task)
{
    return (ompt_data_t *)&task->tool_data;
}

static void tell(ompt_target_t kind, ompt_scope_endpoint_t endpoint, struct stub_task *encountering, struct stub_task *task,
                 ompt_data_t *target, ompt_id_t id)
{
    bool is_emi;
    ompt_callback_t callback = callback_of(ompt_callback_target_emi, ompt_callback_target, &is_emi);
    const void *codeptr = codeptr_of(encountering);
    if (callback && is_emi)
        ((ompt_callback_target_emi_t)callback)(kind, endpoint, THE_DEVICE, word_of_task(encountering),
                                               task ? word_of_task(task) : NULL, target, codeptr);
    else if (callback)
        ((ompt_callback_target_t)callback)(kind, endpoint, THE_DEVICE, word_of_task(encountering), id, codeptr);
}

void tell_target_5(struct stub_thread *thread, struct stub_task *task, bool begins)
{
    static const ompt_target_t kinds[] = {
        [TARGET_REGION] = ompt_target, [TARGET_ENTER_DATA] = ompt_target_enter_data,
        [TARGET_EXIT_DATA] = ompt_target_exit_data, [TARGET_UPDATE] = ompt_target_update,
    };
    tell(kinds[whole_task(task)->target_kind], begins ? ompt_scope_begin : ompt_scope_end, thread->task, task,
         word_of_target(task), task->id);
}

/* A target data construct is one that enters data, and at its end one that exits it. It has no target task. */
void tell_target_data_5(struct stub_thread *thread, bool begins)
{
    ompt_data_t word = {0};
    tell(begins ? ompt_target_enter_data : ompt_target_exit_data, ompt_scope_beginend, thread->task, NULL, &word, new_id());
}

void tell_target_submit_5(struct stub_task *task, bool begins)
{
    bool is_emi;
    ompt_callback_t callback = callback_of(ompt_callback_target_submit_emi, ompt_callback_target_submit, &is_emi);
    if (callback && is_emi)
        ((ompt_callback_target_submit_emi_t)callback)(begins ? ompt_scope_begin : ompt_scope_end, word_of_target(task),
                                                      &whole_task(task)->operation, 1);
    else if (callback && begins)
        ((ompt_callback_target_submit_t)callback)(task->id, whole_task(task)->operation, 1);
}

/* This generation has one call for it, and flags of ours. */
void tell_map_5(struct stub_thread *thread, struct stub_task *task, const struct mapped *items, unsigned count, uint64_t id,
                bool begins)
{
    bool is_emi;
    ompt_callback_t callback = callback_of(ompt_callback_target_map_emi, ompt_callback_target_map, &is_emi);
    if (!callback || begins)
        return;
    const void *codeptr = codeptr_of(thread->task);
    void **addresses = allocate(count * sizeof *addresses);
    size_t *bytes = allocate(count * sizeof *bytes);
    unsigned *flags = allocate(count * sizeof *flags);
    ompt_data_t none = {0};
    for (unsigned at = 0; at < count; at++) {
        addresses[at] = items[at].address;
        bytes[at] = items[at].bytes;
        flags[at] = items[at].flags;
    }
    if (is_emi)
        ((ompt_callback_target_map_emi_t)callback)(task ? word_of_target(task) : &none, count, addresses, addresses, bytes,
                                                   flags, codeptr);
    else
        ((ompt_callback_target_map_t)callback)(task ? task->id : id, count, addresses, addresses, bytes, flags, codeptr);
    free(addresses);
    free(bytes);
    free(flags);
}
_Static_assert((int)MAP_TO == ompt_target_map_flag_to && (int)MAP_FROM == ompt_target_map_flag_from &&
                   (int)MAP_ALLOC == ompt_target_map_flag_alloc && (int)MAP_RELEASE == ompt_target_map_flag_release &&
                   (int)MAP_DELETE == ompt_target_map_flag_delete, "they are its flags");

/* What the device's own lookup finds. */

static int ompt_get_device_num_procs(ompt_device_t *device)
{
    return device == &the_device ? omp_stub_process.num_procs : 0;
}

static ompt_device_time_t ompt_get_device_time(ompt_device_t *device)
{
    return device == &the_device ? device_time() : ompt_time_none;
}

static double ompt_translate_time(ompt_device_t *device, ompt_device_time_t time)
{
    return device == &the_device ? (double)time / 1e9 : 0;
}

static ompt_set_result_t ompt_set_trace_ompt(ompt_device_t *device, unsigned enable, unsigned type)
{
    unsigned kinds = !type                                    ? TRACE_BEGINS | TRACE_ENDS | TRACE_KERNELS
                     : type == ompt_callback_target           ? TRACE_BEGINS | TRACE_ENDS
                     : type == ompt_callback_target_submit    ? TRACE_KERNELS
                                                              : 0;
    if (device != &the_device || type >= CALLBACKS_5)
        return ompt_set_error;
    want_records(kinds, enable);
    return kinds ? ompt_set_always : ompt_set_never;
}

static ompt_set_result_t ompt_set_trace_native(ompt_device_t *device, int enable, int flags)
{
    static const ompt_set_result_t results[] = {ompt_set_never, ompt_set_sometimes, ompt_set_always};
    int found = device == &the_device ? want_native((unsigned)flags, enable) : -1;
    return found < 0 ? ompt_set_error : results[found];
}

/* Here the tool is told how much of a buffer has been used, and that it is its own again. */
static void complete(void (*callback)(void), void *buffer, size_t bytes, uint64_t begin, uint64_t end)
{
    (void)bytes;
    ((ompt_callback_buffer_complete_t)callback)(THE_DEVICE, buffer, begin == end ? 0 : (size_t)end, begin, 1);
}

static int ompt_start_trace(ompt_device_t *device, ompt_callback_buffer_request_t request,
                            ompt_callback_buffer_complete_t completed)
{
    struct trace_user user = {request, complete, (void (*)(void))completed, false};
    return device == &the_device && start_trace(&user);
}

static int ompt_pause_trace(ompt_device_t *device, int begins)
{
    return device == &the_device && pause_trace(begins);
}

static int ompt_flush_trace(ompt_device_t *device)
{
    return device == &the_device && flush_trace();
}

static int ompt_stop_trace(ompt_device_t *device)
{
    return device == &the_device && stop_trace();
}

static int ompt_advance_buffer_cursor(ompt_device_t *device, ompt_buffer_t *buffer, size_t size, ompt_buffer_cursor_t current,
                                      ompt_buffer_cursor_t *next)
{
    return device == &the_device && size && advance_cursor(buffer, current, next);
}

static ompt_record_t ompt_get_record_type(ompt_buffer_t *buffer, ompt_buffer_cursor_t current)
{
    const struct trace_record *record = record_at(buffer, current);
    return !record ? ompt_record_invalid : record->kind == RECORD_NATIVE ? ompt_record_native : ompt_record_ompt;
}

static ompt_record_ompt_t *ompt_get_record_ompt(ompt_buffer_t *buffer, ompt_buffer_cursor_t current)
{
    static __thread ompt_record_ompt_t shown;
    const struct trace_record *record = record_at(buffer, current);
    if (!record || record->kind == RECORD_NATIVE)
        return NULL;
    shown = (ompt_record_ompt_t){.time = record->begin, .thread_id = record->thread, .target_id = record->task};
    if (record->kind == RECORD_KERNEL) {
        shown.type = ompt_callback_target_submit;
        shown.record.target_kernel = (ompt_record_target_kernel_t){record->activity, 1, 1, record->end};
    } else {
        shown.type = ompt_callback_target;
        shown.record.target = (ompt_record_target_t){
            (ompt_target_t)record->target_kind,
            record->kind == RECORD_TARGET_BEGINS ? ompt_scope_begin : ompt_scope_end,
            THE_DEVICE, record->parent, record->task, record->codeptr,
        };
    }
    return &shown;
}

static void *ompt_get_record_native(ompt_buffer_t *buffer, ompt_buffer_cursor_t current, ompt_id_t *operation)
{
    const struct trace_record *record = record_at(buffer, current);
    if (!record || record->kind != RECORD_NATIVE)
        return NULL;
    *operation = record->activity;
    return (void *)(uintptr_t)record;
}

static ompt_record_abstract_t *ompt_get_record_abstract(void *native)
{
    static __thread ompt_record_abstract_t shown;
    const struct trace_record *record = native;
    if (!record)
        return NULL;
    shown = (ompt_record_abstract_t){
        .rclass = record->native == NATIVE_EXECUTION ? ompt_record_native_event : ompt_record_native_info,
        .type = native_name(record),
        .start_time = record->begin,
        .end_time = record->end == TRACE_NO_TIME ? ompt_time_none : record->end,
        .hwid = record->processor + 1, /* 0 is none */
    };
    return &shown;
}

static const struct entry_point entry_points[] = {
    ENTRY(ompt_get_device_num_procs), ENTRY(ompt_get_device_time), ENTRY(ompt_translate_time), ENTRY(ompt_set_trace_ompt),
    ENTRY(ompt_set_trace_native), ENTRY(ompt_start_trace), ENTRY(ompt_pause_trace), ENTRY(ompt_flush_trace),
    ENTRY(ompt_stop_trace), ENTRY(ompt_advance_buffer_cursor), ENTRY(ompt_get_record_type), ENTRY(ompt_get_record_ompt),
    ENTRY(ompt_get_record_native), ENTRY(ompt_get_record_abstract),
};

static ompt_interface_fn_t lookup(const char *name)
{
    return find_entry(entry_points, sizeof entry_points / sizeof *entry_points, name);
}

void tell_device_5(bool begins)
{
    ompt_callback_t callback =
        REGISTERED(callbacks_5, begins ? ompt_callback_device_initialize : ompt_callback_device_finalize);
    if (callback && begins)
        ((ompt_callback_device_initialize_t)callback)(THE_DEVICE, device_type, &the_device, lookup, device_documentation);
    else if (callback)
        ((ompt_callback_device_finalize_t)callback)(THE_DEVICE);
}
