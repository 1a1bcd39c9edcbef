/* States, internal control variables, and the words of tools. */
#include "internal.h"

/* A text that the tool frees. */
ompd_rc_t text_copy(const char *text, const char **copy)
{
    size_t size = 1;
    void *memory = NULL;
    while (text[size - 1])
        size++;
    ompd_rc_t rc = allocate(size, &memory);
    if (rc == ompd_rc_ok) {
        for (size_t at = 0; at < size; at++)
            ((char *)memory)[at] = text[at];
        *copy = memory;
    }
    return rc;
}

/* States */

/* OpenMP 5's states by those of 2015, in which the stub keeps them. Of both kinds of locks it has one. */
static const struct {
    uint32_t kept, number;
    char name[36];
} STATES[] = {
    {0x00, 0x000, "ompt_state_work_serial"},
    {0x01, 0x001, "ompt_state_work_parallel"},
    {0x02, 0x002, "ompt_state_work_reduction"},
    {0x10, 0x100, "ompt_state_idle"},
    {0x20, 0x101, "ompt_state_overhead"},
    {0x40, 0x010, "ompt_state_wait_barrier"},
    {0x41, 0x013, "ompt_state_wait_barrier_implicit"},
    {0x42, 0x014, "ompt_state_wait_barrier_explicit"},
    {0x50, 0x020, "ompt_state_wait_taskwait"},
    {0x51, 0x021, "ompt_state_wait_taskgroup"},
    {0x60, 0x041, "ompt_state_wait_lock"},
    {0x62, 0x042, "ompt_state_wait_critical"},
    {0x63, 0x043, "ompt_state_wait_atomic"},
    {0x64, 0x044, "ompt_state_wait_ordered"},
    {0x70, 0x080, "ompt_state_wait_target"},
    {0x71, 0x081, "ompt_state_wait_target_map"},
    {0x72, 0x082, "ompt_state_wait_target_update"},
    {0x80, 0x102, "ompt_state_undefined"},
    {0x61, 0x041, ""}, /* a nest lock: not a state of its own */
};
enum { STATE_COUNT = sizeof STATES / sizeof *STATES, STATE_NAMES = STATE_COUNT - 1 };

EXPORT ompd_rc_t ompd_enumerate_states(ompd_address_space_handle_t *space, ompd_word_t current, ompd_word_t *next,
                                       const char **name, ompd_word_t *more)
{
    size_t at = 0;
    ompd_rc_t rc = check_handle(space, MARK_SPACE);
    if (rc != ompd_rc_ok)
        return rc;
    if (!next || !name || !more)
        return ompd_rc_bad_input;
    /* ompt_state_undefined begins; it comes last itself. */
    if (current != 0x102) {
        while (at < STATE_NAMES && STATES[at].number != (uint64_t)current)
            at++;
        if (++at >= STATE_NAMES)
            return ompd_rc_bad_input;
    }
    *next = STATES[at].number;
    *more = at + 1 < STATE_NAMES;
    return text_copy(STATES[at].name, name);
}

EXPORT ompd_rc_t ompd_get_state(ompd_thread_handle_t *thread, ompd_word_t *state, ompd_wait_id_t *wait_id)
{
    int32_t kept = 0;
    ompd_rc_t rc = check_handle(thread, MARK_THREAD);
    if (rc != ompd_rc_ok)
        return rc;
    if (!state)
        return ompd_rc_bad_input;
    rc = keeps_states(thread->space);
    if (rc == ompd_rc_ok)
        rc = read_int(thread->space, thread->address, stub_thread_state, &kept);
    if (rc == ompd_rc_ok && wait_id)
        rc = read_wide(thread->space, thread->address, stub_thread_wait_id, wait_id);
    for (size_t at = 0; rc == ompd_rc_ok && at < STATE_COUNT; at++)
        if (STATES[at].kept == (uint32_t)kept) {
            *state = STATES[at].number;
            return ompd_rc_ok;
        }
    return rc == ompd_rc_ok ? ompd_rc_error : rc;
}

/* Internal control variables */

/* What a variable is read of. */
enum from { OF_PROCESS_WIDE, OF_PROCESS_INT, OF_TASK, OF_THREADS_TASK, OF_TEAM, THREAD_NUM, IS_FINAL, IS_IMPLICIT, SCHEDULE };

static const struct {
    char name[24];
    uint8_t scope, from;
    uint16_t member;
} ICVS[] = {
    {"dyn-var", ompd_scope_thread, OF_THREADS_TASK, stub_icvs_dynamic},
    {"run-sched-var", ompd_scope_task, SCHEDULE, 0},
    {"stacksize-var", ompd_scope_address_space, OF_PROCESS_WIDE, stub_process_stack_size},
    {"cancel-var", ompd_scope_address_space, OF_PROCESS_INT, stub_process_cancellation},
    {"max-task-priority-var", ompd_scope_address_space, OF_PROCESS_INT, stub_process_max_task_priority},
    {"debug-var", ompd_scope_address_space, OF_PROCESS_WIDE, stub_process_debug_enabled},
    {"nthreads-var", ompd_scope_thread, OF_THREADS_TASK, stub_icvs_nthreads},
    {"default-device-var", ompd_scope_thread, OF_THREADS_TASK, stub_icvs_default_device},
    {"thread-limit-var", ompd_scope_task, OF_TASK, stub_icvs_thread_limit},
    {"max-active-levels-var", ompd_scope_task, OF_TASK, stub_icvs_max_active_levels},
    {"bind-var", ompd_scope_task, OF_TASK, stub_icvs_proc_bind},
    {"num-procs-var", ompd_scope_address_space, OF_PROCESS_INT, stub_process_num_procs},
    {"ompd-num-procs-var", ompd_scope_address_space, OF_PROCESS_INT, stub_process_num_procs},
    {"levels-var", ompd_scope_parallel, OF_TEAM, stub_team_level},
    {"active-levels-var", ompd_scope_parallel, OF_TEAM, stub_team_active_level},
    {"thread-num-var", ompd_scope_thread, THREAD_NUM, 0},
    {"ompd-thread-num-var", ompd_scope_thread, THREAD_NUM, 0},
    {"final-task-var", ompd_scope_task, IS_FINAL, 0},
    {"ompd-final-var", ompd_scope_task, IS_FINAL, 0},
    {"ompd-final-task-var", ompd_scope_task, IS_FINAL, 0},
    {"implicit-task-var", ompd_scope_task, IS_IMPLICIT, 0},
    {"ompd-implicit-var", ompd_scope_task, IS_IMPLICIT, 0},
    {"ompd-implicit-task-var", ompd_scope_task, IS_IMPLICIT, 0},
    {"team-size-var", ompd_scope_parallel, OF_TEAM, stub_team_size},
    {"ompd-team-size-var", ompd_scope_parallel, OF_TEAM, stub_team_size},
};
enum { ICV_COUNT = sizeof ICVS / sizeof *ICVS };

/* Numbers begin at 1: 0 stands for none. */
EXPORT ompd_rc_t ompd_enumerate_icvs(ompd_address_space_handle_t *space, ompd_icv_id_t current, ompd_icv_id_t *next,
                                     const char **name, ompd_scope_t *scope, int *more)
{
    ompd_rc_t rc = check_handle(space, MARK_SPACE);
    if (rc != ompd_rc_ok)
        return rc;
    if (!next || !name || !scope || !more || current >= ICV_COUNT)
        return ompd_rc_bad_input;
    *next = current + 1;
    *scope = (ompd_scope_t)ICVS[current].scope;
    *more = current + 1 < ICV_COUNT;
    return text_copy(ICVS[current].name, name);
}

static ompd_rc_t thread_num(const struct any_handle *thread, int32_t *number)
{
    ompd_address_space_handle_t *space = thread->space;
    uint64_t team = 0, threads = 0, found = 0;
    int32_t size = 0;
    ompd_rc_t rc = read_pointer(space, thread->address, stub_thread_team, &team);
    if (rc == ompd_rc_ok && !team)
        return ompd_rc_unavailable;
    if (rc == ompd_rc_ok)
        rc = read_int(space, team, stub_team_size, &size);
    if (rc == ompd_rc_ok)
        rc = read_pointer(space, team, stub_team_threads, &threads);
    if (rc == ompd_rc_ok && (!threads || size < 1 || size > MAX_THREADS))
        return ompd_rc_error;
    for (int32_t at = 0; rc == ompd_rc_ok && at < size; at++) {
        rc = read_number(space, threads + (uint64_t)at * space->pointer_size, space->pointer_size, &found);
        if (rc == ompd_rc_ok && found == thread->address) {
            *number = at;
            return ompd_rc_ok;
        }
    }
    return rc == ompd_rc_ok ? ompd_rc_error : rc;
}

static ompd_rc_t task_icv(ompd_address_space_handle_t *space, uint64_t task, enum member member, int32_t *number)
{
    return task ? read_int(space, task + space->offsets[stub_task_icvs], member, number) : ompd_rc_unavailable;
}

/* Which handles go with a scope, 0 for none of the stub's. */
static enum mark mark_of(ompd_scope_t scope)
{
    switch (scope) {
    case ompd_scope_global:
    case ompd_scope_address_space: return MARK_SPACE;
    case ompd_scope_thread: return MARK_THREAD;
    case ompd_scope_parallel: return MARK_REGION;
    case ompd_scope_implicit_task:
    case ompd_scope_task: return MARK_TASK;
    default: return (enum mark)0;
    }
}

static ompd_rc_t check_scope(const void *handle, ompd_scope_t scope, ompd_icv_id_t id, const void *value)
{
    if (!handle)
        return ompd_callbacks ? ompd_rc_stale_handle : ompd_rc_error;
    if (!value || !id || id > ICV_COUNT || scope != (ompd_scope_t)ICVS[id - 1].scope)
        return ompd_rc_bad_input;
    return check_handle(handle, mark_of(scope));
}

EXPORT ompd_rc_t ompd_get_icv_from_scope(void *handle, ompd_scope_t scope, ompd_icv_id_t id, ompd_word_t *value)
{
    const struct any_handle *of = handle;
    ompd_address_space_handle_t *space = handle;
    uint64_t wide = 0;
    int32_t number = 0;
    ompd_rc_t rc = check_scope(handle, scope, id, value);
    if (rc != ompd_rc_ok)
        return rc;
    enum member member = (enum member)ICVS[id - 1].member;
    switch ((enum from)ICVS[id - 1].from) {
    case OF_PROCESS_WIDE:
        rc = read_wide(space, space->root, member, &wide);
        *value = (ompd_word_t)wide;
        return rc;
    case OF_PROCESS_INT:
        rc = read_int(space, space->root, member, &number);
        break;
    case OF_TASK:
        rc = task_icv(of->space, of->address, member, &number);
        break;
    case OF_THREADS_TASK:
        rc = read_pointer(of->space, of->address, stub_thread_task, &wide);
        if (rc == ompd_rc_ok)
            rc = task_icv(of->space, wide, member, &number);
        break;
    case OF_TEAM:
        rc = read_int(of->space, of->address, member, &number);
        break;
    case THREAD_NUM:
        rc = thread_num(of, &number);
        break;
    case IS_FINAL:
        rc = read_int(of->space, of->address, stub_task_is_final, &number);
        number = number != 0;
        break;
    case IS_IMPLICIT:
        rc = read_int(of->space, of->address, stub_task_type, &number);
        number = number == TASK_SERIAL || number == TASK_IMPLICIT; /* an initial task is an implicit one */
        break;
    default:
        return ompd_rc_incompatible; /* a text */
    }
    *value = number;
    return rc;
}

static char *append(char *at, const char *text)
{
    while (*text)
        *at++ = *text++;
    return at;
}

/* Without a division: of 64 bits that is a function which 32-bit machines have in a library. */
static char *append_number(char *at, int64_t number)
{
    enum { DIGITS = 20 };
    uint64_t rest = number < 0 ? -(uint64_t)number : (uint64_t)number, units[DIGITS];
    const char *start;
    units[0] = 1;
    for (int place = 1; place < DIGITS; place++)
        units[place] = units[place - 1] * 10;
    if (number < 0)
        *at++ = '-';
    start = at;
    for (int place = DIGITS - 1; place >= 0; place--) {
        char digit = '0';
        for (; rest >= units[place]; rest -= units[place])
            digit++;
        if (digit != '0' || at != start || !place)
            *at++ = digit;
    }
    return at;
}

static ompd_rc_t schedule(ompd_address_space_handle_t *space, uint64_t icvs, char *at)
{
    static const char kinds[][8] = {"", "static", "dynamic", "guided", "auto"};
    int32_t kind = 0, chunk = 0;
    ompd_rc_t rc = read_int(space, icvs, stub_icvs_schedule_kind, &kind);
    if (rc == ompd_rc_ok)
        rc = read_int(space, icvs, stub_icvs_schedule_chunk, &chunk);
    if (rc != ompd_rc_ok)
        return rc;
    uint32_t plain = (uint32_t)kind & 0x7fffffffu; /* the highest bit is omp_sched_monotonic */
    if (!plain || plain >= sizeof kinds / sizeof *kinds)
        return ompd_rc_error;
    if (kind < 0)
        at = append(at, "monotonic:");
    at = append(at, kinds[plain]);
    if (chunk > 0) {
        *at++ = ',';
        at = append_number(at, chunk);
    }
    *at = 0;
    return ompd_rc_ok;
}

EXPORT ompd_rc_t ompd_get_icv_string_from_scope(void *handle, ompd_scope_t scope, ompd_icv_id_t id, const char **value)
{
    char text[48];
    const struct any_handle *task = handle;
    ompd_word_t number = 0;
    ompd_rc_t rc = check_scope(handle, scope, id, value);
    if (rc != ompd_rc_ok)
        return rc;
    if (ICVS[id - 1].from == SCHEDULE) {
        rc = schedule(task->space, task->address + task->space->offsets[stub_task_icvs], text);
    } else {
        rc = ompd_get_icv_from_scope(handle, scope, id, &number);
        if (rc == ompd_rc_ok)
            *append_number(text, number) = 0;
    }
    return rc == ompd_rc_ok ? text_copy(text, value) : rc;
}

/* Settings by their names in the environment: those of the process, and the values of a new initial task. */

enum form { NUMBER, BYTES, TRUTH, ENABLED, BINDING, SCHEDULING };

static const struct {
    char name[24];
    uint8_t from, form;
    uint16_t member;
} SETTINGS[] = {
    {"OMP_CANCELLATION", OF_PROCESS_INT, TRUTH, stub_process_cancellation},
    {"OMP_DEBUG", OF_PROCESS_WIDE, ENABLED, stub_process_debug_enabled},
    {"OMP_DEFAULT_DEVICE", OF_TASK, NUMBER, stub_icvs_default_device},
    {"OMP_DYNAMIC", OF_TASK, TRUTH, stub_icvs_dynamic},
    {"OMP_MAX_ACTIVE_LEVELS", OF_TASK, NUMBER, stub_icvs_max_active_levels},
    {"OMP_MAX_TASK_PRIORITY", OF_PROCESS_INT, NUMBER, stub_process_max_task_priority},
    {"OMP_NUM_THREADS", OF_TASK, NUMBER, stub_icvs_nthreads},
    {"OMP_PROC_BIND", OF_TASK, BINDING, stub_icvs_proc_bind},
    {"OMP_SCHEDULE", OF_TASK, SCHEDULING, 0},
    {"OMP_STACKSIZE", OF_PROCESS_WIDE, BYTES, stub_process_stack_size},
    {"OMP_THREAD_LIMIT", OF_TASK, NUMBER, stub_icvs_thread_limit},
};
enum { SETTING_COUNT = sizeof SETTINGS / sizeof *SETTINGS, SETTING_SIZE = 80 };

/* "NAME=value" */
static ompd_rc_t write_setting(ompd_address_space_handle_t *space, size_t index, char *at)
{
    static const char bindings[][8] = {"false", "true", "primary", "close", "spread"};
    uint64_t icvs = space->root + space->offsets[stub_process_icvs], wide = 0;
    int32_t number = 0;
    enum member member = (enum member)SETTINGS[index].member;
    ompd_rc_t rc = ompd_rc_ok;
    at = append(at, SETTINGS[index].name);
    *at++ = '=';
    if (SETTINGS[index].form == SCHEDULING)
        return schedule(space, icvs, at);
    if (SETTINGS[index].from == OF_PROCESS_WIDE)
        rc = read_wide(space, space->root, member, &wide);
    else
        rc = read_int(space, SETTINGS[index].from == OF_TASK ? icvs : space->root, member, &number);
    int64_t value = SETTINGS[index].from == OF_PROCESS_WIDE ? (int64_t)wide : number;
    if (rc != ompd_rc_ok)
        return rc;
    switch ((enum form)SETTINGS[index].form) {
    case TRUTH: at = append(at, value ? "true" : "false"); break;
    case ENABLED: at = append(at, value ? "enabled" : "disabled"); break;
    case BINDING:
        if (value < 0 || value >= (int64_t)(sizeof bindings / sizeof *bindings))
            return ompd_rc_error;
        at = append(at, bindings[value]);
        break;
    default: at = append_number(at, value); break;
    }
    if (SETTINGS[index].form == BYTES)
        *at++ = 'B';
    *at = 0;
    return ompd_rc_ok;
}

/* The vector and its texts are one piece of memory. */
EXPORT ompd_rc_t ompd_get_display_control_vars(ompd_address_space_handle_t *space, const char *const **variables)
{
    void *memory = NULL;
    ompd_rc_t rc = check_handle(space, MARK_SPACE);
    if (rc != ompd_rc_ok)
        return rc;
    if (!variables)
        return ompd_rc_bad_input;
    rc = allocate((SETTING_COUNT + 1) * sizeof(char *) + SETTING_COUNT * SETTING_SIZE, &memory);
    if (rc != ompd_rc_ok)
        return rc;
    char **vector = memory, *texts = (char *)(vector + SETTING_COUNT + 1);
    for (size_t at = 0; rc == ompd_rc_ok && at < SETTING_COUNT; at++) {
        vector[at] = texts + at * SETTING_SIZE;
        rc = write_setting(space, at, vector[at]);
    }
    vector[SETTING_COUNT] = NULL;
    if (rc == ompd_rc_ok)
        *variables = memory;
    else
        ompd_callbacks->free_memory(memory);
    return rc;
}

EXPORT ompd_rc_t ompd_rel_display_control_vars(const char *const **variables)
{
    if (!variables || !*variables)
        return ompd_rc_bad_input;
    return ompd_callbacks ? ompd_callbacks->free_memory((void *)(uintptr_t)*variables) : ompd_rc_error;
}

/* Words of tools */

EXPORT ompd_rc_t ompd_get_tool_data(void *handle, ompd_scope_t scope, ompd_word_t *value, ompd_address_t *pointer)
{
    const struct any_handle *of = handle;
    uint64_t word = 0;
    enum member member;
    if (!handle)
        return ompd_callbacks ? ompd_rc_stale_handle : ompd_rc_error;
    if (!value || !pointer)
        return ompd_rc_bad_input;
    switch (scope) {
    case ompd_scope_thread: member = stub_thread_tool_data; break;
    case ompd_scope_parallel: member = stub_team_tool_data; break;
    case ompd_scope_implicit_task:
    case ompd_scope_task: member = stub_task_tool_data; break;
    default: return ompd_rc_unsupported;
    }
    ompd_rc_t rc = check_handle(handle, mark_of(scope));
    if (rc != ompd_rc_ok)
        return rc;
    rc = keeps_states(of->space);
    if (rc == ompd_rc_ok)
        rc = read_wide(of->space, of->address, member, &word);
    *value = (ompd_word_t)word;
    pointer->segment = OMPD_SEGMENT_UNSPECIFIED;
    pointer->address = word;
    return rc;
}
