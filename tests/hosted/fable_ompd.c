/* The OMPD library of the invented runtime, by the standard alone (OpenMP 5.2, chapter 20). */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "fable.h"

typedef uint64_t ompd_size_t, ompd_addr_t, ompd_wait_id_t, ompd_thread_id_t, ompd_device_t, ompd_icv_id_t;
typedef int64_t ompd_word_t;
typedef int ompd_rc_t, ompd_scope_t;
typedef struct { uint64_t segment, address; } ompd_address_t;
typedef struct { ompd_address_t frame_address; ompd_word_t frame_flag; } ompd_frame_info_t;
typedef void context_t;
enum { OK, UNAVAILABLE, STALE, BAD_INPUT, ERROR, UNSUPPORTED, NEEDS_TRACKING, INCOMPATIBLE, NOMEM = 10, INCOMPLETE };
enum { SPACE = 2, THREAD, PARALLEL, IMPLICIT, TASK };

typedef struct {
    ompd_rc_t (*alloc)(ompd_size_t, void **);
    ompd_rc_t (*free)(void *);
    ompd_rc_t (*print)(const char *, int);
    ompd_rc_t (*sizeof_type)(context_t *, void *);
    ompd_rc_t (*symbol)(context_t *, context_t *, const char *, ompd_address_t *, const char *);
    ompd_rc_t (*read)(context_t *, context_t *, const ompd_address_t *, ompd_size_t, void *);
    ompd_rc_t (*write)(context_t *, context_t *, const ompd_address_t *, ompd_size_t, const void *);
    ompd_rc_t (*read_string)(context_t *, context_t *, const ompd_address_t *, ompd_size_t, void *);
    ompd_rc_t (*to_host)(context_t *, const void *, ompd_size_t, ompd_size_t, void *);
    ompd_rc_t (*to_device)(context_t *, const void *, ompd_size_t, ompd_size_t, void *);
    ompd_rc_t (*thread)(context_t *, ompd_thread_id_t, ompd_size_t, const void *, context_t **);
} callbacks_t;

struct space { context_t *context; uint64_t process; };
struct handle { struct space *space; uint64_t address; };

static const callbacks_t *host;

#define TRY(call) do { ompd_rc_t rc_ = (call); if (rc_) return rc_; } while (0)

static ompd_rc_t fetch(struct space *space, uint64_t address, ompd_size_t size, void *into)
{
    ompd_address_t at = {0, address};
    return address ? host->read(space->context, 0, &at, size, into) : UNAVAILABLE;
}

#define FETCH(space, at, type, member, into) \
    TRY(fetch(space, (at) + offsetof(struct type, member), sizeof((struct type *)0)->member, into))

static ompd_rc_t word(struct space *space, uint64_t address, uint64_t *into)
{
    TRY(fetch(space, address, 8, into));
    return host->to_host(space->context, into, 8, 1, into);
}

static ompd_rc_t make(struct space *space, uint64_t address, struct handle **made)
{
    if (!address)
        return UNAVAILABLE;
    TRY(host->alloc(sizeof **made, (void **)made));
    **made = (struct handle){space, address};
    return OK;
}

static ompd_rc_t follow(struct handle *from, size_t offset, struct handle **made)
{
    uint64_t address;
    TRY(word(from->space, from->address + offset, &address));
    return make(from->space, address, made);
}

static ompd_rc_t text(const char *from, const char **made)
{
    TRY(host->alloc(strlen(from) + 1, (void **)made));
    strcpy((char *)*made, from);
    return OK;
}

ompd_rc_t ompd_initialize(ompd_word_t version, const callbacks_t *table)
{
    if (version != 202111)
        return UNSUPPORTED;
    host = table;
    return OK;
}

ompd_rc_t ompd_get_api_version(ompd_word_t *version) { *version = 202111; return OK; }
ompd_rc_t ompd_get_version_string(const char **made) { *made = "fable OMPD 1.0"; return OK; }
ompd_rc_t ompd_finalize(void) { return OK; }

ompd_rc_t ompd_process_initialize(context_t *context, struct space **made)
{
    ompd_address_t at;
    TRY(host->symbol(context, 0, "fable_process", &at, 0));
    TRY(host->alloc(sizeof **made, (void **)made));
    **made = (struct space){context, at.address};
    return OK;
}

ompd_rc_t ompd_rel_address_space_handle(struct space *space) { return host->free(space); }
ompd_rc_t ompd_rel_thread_handle(struct handle *handle) { return host->free(handle); }
ompd_rc_t ompd_rel_parallel_handle(struct handle *handle) { return host->free(handle); }
ompd_rc_t ompd_rel_task_handle(struct handle *handle) { return host->free(handle); }

static ompd_rc_t compare(struct handle *one, struct handle *other, int *result)
{
    *result = (one->address > other->address) - (one->address < other->address);
    return OK;
}

ompd_rc_t ompd_thread_handle_compare(struct handle *a, struct handle *b, int *r) { return compare(a, b, r); }
ompd_rc_t ompd_parallel_handle_compare(struct handle *a, struct handle *b, int *r) { return compare(a, b, r); }
ompd_rc_t ompd_task_handle_compare(struct handle *a, struct handle *b, int *r) { return compare(a, b, r); }

ompd_rc_t ompd_get_omp_version(struct space *space, ompd_word_t *version) { *version = 202111; return OK; }
ompd_rc_t ompd_get_omp_version_string(struct space *space, const char **made) { return text("5.2", made); }

/* Threads */

ompd_rc_t ompd_get_thread_handle(struct space *space, ompd_thread_id_t kind, ompd_size_t size, const void *id,
                                 struct handle **made)
{
    uint64_t wanted, found, here;
    context_t *context;
    if (kind != 0)
        return UNSUPPORTED;
    if (size != 8)
        return BAD_INPUT;
    memcpy(&wanted, id, 8);
    TRY(host->thread(space->context, kind, size, id, &context));
    TRY(word(space, space->process + offsetof(struct fable_process, threads), &here));
    while (here) {
        TRY(word(space, here + offsetof(struct fable_thread, self), &found));
        if (found == wanted)
            return make(space, here, made);
        TRY(word(space, here + offsetof(struct fable_thread, next), &here));
    }
    return UNAVAILABLE;
}

ompd_rc_t ompd_get_thread_id(struct handle *thread, ompd_thread_id_t kind, ompd_size_t size, void *id)
{
    if (kind != 0)
        return UNSUPPORTED;
    return size == 8 ? word(thread->space, thread->address + offsetof(struct fable_thread, self), id) : BAD_INPUT;
}

static ompd_rc_t size_of(struct handle *region, int32_t *size)
{
    FETCH(region->space, region->address, fable_team, size, size);
    return OK;
}

ompd_rc_t ompd_get_thread_in_parallel(struct handle *region, int number, struct handle **made)
{
    int32_t size;
    struct handle array = *region;
    TRY(size_of(region, &size));
    if (number < 0 || number >= size)
        return BAD_INPUT;
    TRY(word(region->space, region->address + offsetof(struct fable_team, threads), &array.address));
    return follow(&array, 8 * number, made);
}

ompd_rc_t ompd_get_state(struct handle *thread, ompd_word_t *state, ompd_wait_id_t *wait)
{
    int32_t debug, value;
    FETCH(thread->space, thread->space->process, fable_process, debug, &debug);
    if (!debug)
        return NEEDS_TRACKING;
    FETCH(thread->space, thread->address, fable_thread, state, &value);
    *state = value;
    if (wait)
        TRY(word(thread->space, thread->address + offsetof(struct fable_thread, wait), wait));
    return OK;
}

static const struct { int value; const char *name; } states[] = {
    {FABLE_WORKING, "ompt_state_work_parallel"}, {FABLE_AT_BARRIER, "ompt_state_wait_barrier_explicit"},
    {FABLE_IN_LOCK, "ompt_state_wait_lock"}, {FABLE_IDLE, "ompt_state_idle"}, {FABLE_OWN, "fable_state_own"},
};

ompd_rc_t ompd_enumerate_states(struct space *space, ompd_word_t current, ompd_word_t *next, const char **name,
                                ompd_word_t *more)
{
    size_t count = sizeof states / sizeof *states, n = 0;
    if (current != 0x102)
        for (n = 1; states[n - 1].value != current; n++)
            if (n == count)
                return BAD_INPUT;
    *next = states[n].value;
    *more = n + 1 < count;
    return text(states[n].name, name);
}

/* Regions and tasks */

ompd_rc_t ompd_get_curr_parallel_handle(struct handle *thread, struct handle **made)
{
    return follow(thread, offsetof(struct fable_thread, team), made);
}

ompd_rc_t ompd_get_enclosing_parallel_handle(struct handle *region, struct handle **made)
{
    return follow(region, offsetof(struct fable_team, outer), made);
}

ompd_rc_t ompd_get_task_parallel_handle(struct handle *task, struct handle **made)
{
    return follow(task, offsetof(struct fable_task, team), made);
}

ompd_rc_t ompd_get_curr_task_handle(struct handle *thread, struct handle **made)
{
    return follow(thread, offsetof(struct fable_thread, task), made);
}

ompd_rc_t ompd_get_generating_task_handle(struct handle *task, struct handle **made)
{
    return follow(task, offsetof(struct fable_task, creator), made);
}

ompd_rc_t ompd_get_scheduling_task_handle(struct handle *task, struct handle **made)
{
    return follow(task, offsetof(struct fable_task, suspended), made);
}

ompd_rc_t ompd_get_task_in_parallel(struct handle *region, int number, struct handle **made)
{
    int32_t size;
    uint64_t tasks;
    TRY(size_of(region, &size));
    if (number < 0 || number >= size)
        return BAD_INPUT;
    TRY(word(region->space, region->address + offsetof(struct fable_team, tasks), &tasks));
    return make(region->space, tasks + number * sizeof(struct fable_task), made);
}

ompd_rc_t ompd_get_task_function(struct handle *task, ompd_address_t *entry)
{
    entry->segment = 0;
    return word(task->space, task->address + offsetof(struct fable_task, code), &entry->address);
}

ompd_rc_t ompd_get_task_frame(struct handle *task, ompd_frame_info_t *exit_frame, ompd_frame_info_t *enter_frame)
{
    exit_frame->frame_address.segment = enter_frame->frame_address.segment = 0;
    exit_frame->frame_flag = enter_frame->frame_flag = 0x20; /* the runtime's frame pointer */
    TRY(word(task->space, task->address + offsetof(struct fable_task, exit_frame), &exit_frame->frame_address.address));
    return word(task->space, task->address + offsetof(struct fable_task, enter_frame),
                &enter_frame->frame_address.address);
}

ompd_rc_t ompd_get_tool_data(void *handle, ompd_scope_t scope, ompd_word_t *value, ompd_address_t *pointer)
{
    struct handle *one = handle;
    size_t offset = scope == THREAD     ? offsetof(struct fable_thread, tool)
                    : scope == PARALLEL ? offsetof(struct fable_team, tool)
                                        : offsetof(struct fable_task, tool);
    TRY(word(one->space, one->address + offset, (uint64_t *)value));
    *pointer = (ompd_address_t){0, *value};
    return OK;
}

/* Variables */

static const struct { const char *name; int scope; } icvs[] = {
    {"levels-var", PARALLEL},      {"active-levels-var", PARALLEL}, {"team-size-var", PARALLEL},
    {"thread-num-var", THREAD},    {"nthreads-var", THREAD},        {"implicit-task-var", TASK},
    {"final-task-var", TASK},      {"run-sched-var", TASK},         {"cancel-var", SPACE},
    {"num-procs-var", 1 /* global */}, {"place-partition-var", IMPLICIT}, {"fable-mood-var", SPACE},
    {"fable-odd-var", 99},
};
enum { LEVELS, ACTIVE, SIZE, NUMBER, SIZES, IS_IMPLICIT, IS_FINAL, SCHEDULE, CANCEL, PROCESSORS, PLACES, MOOD, ODD };

ompd_rc_t ompd_enumerate_icvs(struct space *space, ompd_icv_id_t current, ompd_icv_id_t *next, const char **name,
                              ompd_scope_t *scope, int *more)
{
    size_t count = sizeof icvs / sizeof *icvs;
    if (current >= count)
        return BAD_INPUT;
    *next = current + 1;
    *scope = icvs[current].scope;
    *more = current + 1 < count;
    return text(icvs[current].name, name);
}

ompd_rc_t ompd_get_icv_from_scope(void *handle, ompd_scope_t scope, ompd_icv_id_t id, ompd_word_t *value)
{
    struct handle *one = handle;
    struct space *space = scope <= SPACE ? handle : one->space;
    int32_t found = 0;
    if (id < 1 || id > sizeof icvs / sizeof *icvs || icvs[id - 1].scope != scope)
        return BAD_INPUT;
    switch (id - 1) {
    case LEVELS: FETCH(space, one->address, fable_team, level, &found); break;
    case ACTIVE: FETCH(space, one->address, fable_team, active_level, &found); break;
    case SIZE: FETCH(space, one->address, fable_team, size, &found); break;
    case NUMBER: FETCH(space, one->address, fable_thread, number, &found); break;
    case SIZES: FETCH(space, space->process, fable_process, sizes[0], &found); break;
    case IS_IMPLICIT: FETCH(space, one->address, fable_task, is_explicit, &found); found = !found; break;
    case IS_FINAL: FETCH(space, one->address, fable_task, is_final, &found); break;
    case CANCEL: FETCH(space, space->process, fable_process, cancel, &found); break;
    case PROCESSORS: FETCH(space, space->process, fable_process, processors, &found); break;
    default: return INCOMPATIBLE;
    }
    *value = found;
    return id - 1 == SIZES ? INCOMPLETE : OK;
}

ompd_rc_t ompd_get_icv_string_from_scope(void *handle, ompd_scope_t scope, ompd_icv_id_t id, const char **made)
{
    struct handle *one = handle;
    struct space *space = scope <= SPACE ? handle : one->space;
    ompd_address_t at = {0, space->process + offsetof(struct fable_process, schedule)};
    int32_t sizes[2];
    char found[32] = "";
    if (id < 1 || id > sizeof icvs / sizeof *icvs || icvs[id - 1].scope != scope)
        return BAD_INPUT;
    switch (id - 1) {
    case SCHEDULE: TRY(host->read_string(space->context, 0, &at, sizeof found - 1, found)); break;
    case SIZES:
        TRY(fetch(space, space->process + offsetof(struct fable_process, sizes), sizeof sizes, sizes));
        snprintf(found, sizeof found, "%d,%d", sizes[0], sizes[1]);
        break;
    case PLACES: strcpy(found, "{0:4}"); break;
    case MOOD: strcpy(found, "serene"); break;
    default: return INCOMPATIBLE;
    }
    return text(found, made);
}

ompd_rc_t ompd_get_display_control_vars(struct space *space, const char *const **made)
{
    const char **rows;
    TRY(host->alloc(2 * sizeof *rows, (void **)&rows));
    TRY(text("FABLE_MOOD=serene", &rows[0]));
    rows[1] = 0;
    *made = rows;
    return OK;
}

ompd_rc_t ompd_rel_display_control_vars(const char *const **rows)
{
    TRY(host->free((void *)(*rows)[0]));
    return host->free((void *)*rows);
}
