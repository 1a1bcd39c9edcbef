/* Threads, parallel regions and tasks: which leads to which. */
#include "internal.h"

#define CHECKED(handle, mark, result)                                                                                  \
    ompd_rc_t rc = check_handle(handle, mark);                                                                         \
    if (rc != ompd_rc_ok)                                                                                              \
        return rc;                                                                                                     \
    if (!(result))                                                                                                     \
    return ompd_rc_bad_input

/* What a member of a structure points to, as a handle. */
static ompd_rc_t lead(const struct any_handle *from, enum member member, enum mark mark, struct any_handle **to)
{
    uint64_t address = 0;
    ompd_rc_t rc = read_pointer(from->space, from->address, member, &address);
    return rc == ompd_rc_ok ? new_handle(from->space, address, mark, to) : rc;
}

#define LEAD(from, member, mark, to) lead((const struct any_handle *)(from), member, mark, (struct any_handle **)(to))

static ompd_rc_t compare(const struct any_handle *one, const struct any_handle *other, enum mark mark, int *result)
{
    CHECKED(one, mark, result);
    rc = check_handle(other, mark);
    if (rc != ompd_rc_ok)
        return rc;
    *result = one->address == other->address ? 0 : one->address < other->address ? -1 : 1;
    return ompd_rc_ok;
}

/* Threads */

/* The eldest thread that has the identifier in that member; the youngest is the first of the list. */
static ompd_rc_t find_thread(ompd_address_space_handle_t *space, enum member member, size_t size, uint64_t wanted,
                             uint64_t *found)
{
    uint64_t thread = 0, marked = 0, identifier = 0;
    size_t until = 1;
    ompd_rc_t rc = read_pointer(space, space->root, stub_process_threads, &thread);
    *found = 0;
    for (size_t count = 0; rc == ompd_rc_ok && thread; count++) {
        if (thread == marked || count >= MAX_THREADS)
            return ompd_rc_error; /* the list does not end */
        if (count + 1 == until) {
            marked = thread;
            until *= 2;
        }
        rc = read_number(space, thread + space->offsets[member], size, &identifier);
        if (rc == ompd_rc_ok && identifier == wanted)
            *found = thread;
        if (rc == ompd_rc_ok)
            rc = read_pointer(space, thread, stub_thread_next, &thread);
    }
    return rc;
}

static uint64_t number_of(const void *bytes, size_t size)
{
    uint32_t narrow;
    uint64_t wide;
    unsigned char *to = size == 4 ? (unsigned char *)&narrow : (unsigned char *)&wide;
    for (size_t at = 0; at < size; at++)
        to[at] = ((const unsigned char *)bytes)[at];
    return size == 4 ? narrow : wide;
}

EXPORT ompd_rc_t ompd_get_thread_handle(ompd_address_space_handle_t *space, ompd_thread_id_t kind, ompd_size_t size,
                                        const void *id, ompd_thread_handle_t **handle)
{
    uint64_t thread = 0;
    CHECKED(space, MARK_SPACE, handle && id);
    if (kind != ompd_thread_id_pthread && kind != ompd_thread_id_lwp)
        return ompd_rc_unsupported;
    if (size != 4 && size != 8)
        return ompd_rc_bad_input;
    bool is_pthread = kind == ompd_thread_id_pthread;
    rc = find_thread(space, is_pthread ? stub_thread_pthread : stub_thread_native_id,
                               is_pthread ? space->pointer_size : 4, number_of(id, (size_t)size), &thread);
    return rc == ompd_rc_ok ? new_handle(space, thread, MARK_THREAD, (struct any_handle **)handle) : rc;
}

EXPORT ompd_rc_t ompd_get_thread_id(ompd_thread_handle_t *thread, ompd_thread_id_t kind, ompd_size_t size, void *id)
{
    uint64_t number = 0;
    CHECKED(thread, MARK_THREAD, id);
    if (kind != ompd_thread_id_pthread && kind != ompd_thread_id_lwp)
        return ompd_rc_unsupported;
    if (size != 4 && size != 8)
        return ompd_rc_bad_input;
    bool is_pthread = kind == ompd_thread_id_pthread;
    ompd_address_space_handle_t *space = thread->space;
    rc = read_number(space,
                               thread->address + space->offsets[is_pthread ? stub_thread_pthread : stub_thread_native_id],
                               is_pthread ? space->pointer_size : 4, &number);
    if (rc == ompd_rc_ok) {
        uint32_t narrow = (uint32_t)number;
        const unsigned char *bytes = size == 4 ? (const unsigned char *)&narrow : (const unsigned char *)&number;
        if (size == 4 && number > UINT32_MAX)
            return ompd_rc_bad_input;
        for (size_t at = 0; at < size; at++)
            ((unsigned char *)id)[at] = bytes[at];
    }
    return rc;
}

EXPORT ompd_rc_t ompd_thread_handle_compare(ompd_thread_handle_t *one, ompd_thread_handle_t *other, int *result)
{
    return compare((struct any_handle *)one, (struct any_handle *)other, MARK_THREAD, result);
}

/* A member of one of a team's arrays. */
static ompd_rc_t member_of_team(ompd_parallel_handle_t *region, enum member array, int number, enum mark mark,
                                struct any_handle **handle)
{
    ompd_address_space_handle_t *space = region->space;
    int32_t size = 0;
    uint64_t start = 0, address = 0;
    ompd_rc_t rc = read_int(space, region->address, stub_team_size, &size);
    if (rc != ompd_rc_ok)
        return rc;
    if (number < 0 || number >= size || size > MAX_THREADS)
        return ompd_rc_bad_input;
    rc = read_pointer(space, region->address, array, &start);
    if (rc == ompd_rc_ok && !start)
        return ompd_rc_error;
    if (rc == ompd_rc_ok)
        rc = read_number(space, start + (uint64_t)number * space->pointer_size, space->pointer_size, &address);
    return rc == ompd_rc_ok ? new_handle(space, address, mark, handle) : rc;
}

EXPORT ompd_rc_t ompd_get_thread_in_parallel(ompd_parallel_handle_t *region, int number, ompd_thread_handle_t **handle)
{
    CHECKED(region, MARK_REGION, handle);
    return member_of_team(region, stub_team_threads, number, MARK_THREAD, (struct any_handle **)handle);
}

/* Regions: that of level 0, which an initial thread is in outside of all others, is one of them. */

EXPORT ompd_rc_t ompd_get_curr_parallel_handle(ompd_thread_handle_t *thread, ompd_parallel_handle_t **handle)
{
    CHECKED(thread, MARK_THREAD, handle);
    return LEAD(thread, stub_thread_team, MARK_REGION, handle);
}

EXPORT ompd_rc_t ompd_get_enclosing_parallel_handle(ompd_parallel_handle_t *region, ompd_parallel_handle_t **handle)
{
    CHECKED(region, MARK_REGION, handle);
    return LEAD(region, stub_team_parent, MARK_REGION, handle);
}

EXPORT ompd_rc_t ompd_get_task_parallel_handle(ompd_task_handle_t *task, ompd_parallel_handle_t **handle)
{
    CHECKED(task, MARK_TASK, handle);
    return LEAD(task, stub_task_team, MARK_REGION, handle);
}

EXPORT ompd_rc_t ompd_parallel_handle_compare(ompd_parallel_handle_t *one, ompd_parallel_handle_t *other, int *result)
{
    return compare((struct any_handle *)one, (struct any_handle *)other, MARK_REGION, result);
}

/* Tasks */

EXPORT ompd_rc_t ompd_get_curr_task_handle(ompd_thread_handle_t *thread, ompd_task_handle_t **handle)
{
    CHECKED(thread, MARK_THREAD, handle);
    return LEAD(thread, stub_thread_task, MARK_TASK, handle);
}

EXPORT ompd_rc_t ompd_get_generating_task_handle(ompd_task_handle_t *task, ompd_task_handle_t **handle)
{
    CHECKED(task, MARK_TASK, handle);
    return LEAD(task, stub_task_generating, MARK_TASK, handle);
}

/* Explicit tasks that have begun were scheduled in place of another one; which is kept for debuggers alone. */
EXPORT ompd_rc_t ompd_get_scheduling_task_handle(ompd_task_handle_t *task, ompd_task_handle_t **handle)
{
    int32_t type = 0, status = 0;
    CHECKED(task, MARK_TASK, handle);
    rc = read_int(task->space, task->address, stub_task_type, &type);
    if (rc == ompd_rc_ok)
        rc = read_int(task->space, task->address, stub_task_status, &status);
    if (rc == ompd_rc_ok && (type < TASK_EXPLICIT || type > TASK_DEGENERATE || status == CREATED))
        rc = ompd_rc_unavailable;
    if (rc == ompd_rc_ok)
        rc = keeps_states(task->space);
    return rc == ompd_rc_ok ? LEAD(task, stub_task_scheduling, MARK_TASK, handle) : rc;
}

EXPORT ompd_rc_t ompd_get_task_in_parallel(ompd_parallel_handle_t *region, int number, ompd_task_handle_t **handle)
{
    CHECKED(region, MARK_REGION, handle);
    return member_of_team(region, stub_team_implicit, number, MARK_TASK, (struct any_handle **)handle);
}

EXPORT ompd_rc_t ompd_task_handle_compare(ompd_task_handle_t *one, ompd_task_handle_t *other, int *result)
{
    return compare((struct any_handle *)one, (struct any_handle *)other, MARK_TASK, result);
}

EXPORT ompd_rc_t ompd_get_task_function(ompd_task_handle_t *task, ompd_address_t *entry)
{
    uint64_t function = 0;
    CHECKED(task, MARK_TASK, entry);
    rc = read_pointer(task->space, task->address, stub_task_function, &function);
    if (rc == ompd_rc_ok && !function)
        rc = ompd_rc_unavailable; /* of an initial task */
    entry->segment = OMPD_SEGMENT_UNSPECIFIED;
    entry->address = function;
    return rc;
}

/* An address that is set is on the stack of the task's thread. */
static ompd_rc_t read_frame(ompd_task_handle_t *task, enum member address, enum member flags, ompd_frame_info_t *frame)
{
    ompd_address_space_handle_t *space = task->space;
    uint64_t within = task->address + space->offsets[stub_task_frame], found = 0, thread = 0, low = 0, high = 0;
    int32_t flag = 0;
    ompd_rc_t rc = read_pointer(space, within, address, &found);
    if (rc == ompd_rc_ok)
        rc = read_int(space, within, flags, &flag);
    if (rc == ompd_rc_ok && found) {
        rc = read_pointer(space, task->address, stub_task_thread, &thread);
        if (rc == ompd_rc_ok && !thread)
            rc = ompd_rc_error;
        if (rc == ompd_rc_ok)
            rc = read_pointer(space, thread, stub_thread_stack_low, &low);
        if (rc == ompd_rc_ok)
            rc = read_pointer(space, thread, stub_thread_stack_high, &high);
        if (rc == ompd_rc_ok && (found < low || found >= high))
            rc = ompd_rc_error;
    }
    frame->frame_address.segment = OMPD_SEGMENT_UNSPECIFIED;
    frame->frame_address.address = found;
    frame->frame_flag = flag;
    return rc;
}

EXPORT ompd_rc_t ompd_get_task_frame(ompd_task_handle_t *task, ompd_frame_info_t *exit, ompd_frame_info_t *enter)
{
    CHECKED(task, MARK_TASK, exit && enter);
    rc = keeps_states(task->space);
    if (rc == ompd_rc_ok)
        rc = read_frame(task, stub_frame_exit_runtime_frame, stub_frame_exit_frame_flags, exit);
    return rc == ompd_rc_ok
               ? read_frame(task, stub_frame_reenter_runtime_frame, stub_frame_reenter_frame_flags, enter)
               : rc;
}
