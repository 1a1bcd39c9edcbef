/* A library whose every text obeys terminals and ends lines, and whose numbers are none: NUMBER is each of them. */
#include <stdlib.h>
#include <string.h>
#include "interface.h"

#define EVIL "\033]0;evil\a\033[2J\r\nfake line\xe2\x80\xae\xff"

static const callbacks_t *callbacks;
static char space, region, task, threads[64];
static unsigned made;

static char *text(const char *what)
{
    void *copy = NULL;
    callbacks->alloc_memory(strlen(what) + 1, &copy);
    return strcpy(copy, what);
}

/* ICVs, their scopes and names, from the number that the host has of one. */
static const char *const NAMES[] = {"team-size-var", "num-procs-var" EVIL, "levels-var", "thread-num-var", "nthreads-var"};
static const int SCOPES[] = {4, 2, 4, THREAD_NUM_SCOPE, 3};

int ompd_get_api_version(int64_t *version) { *version = 201811; return OK; }
int ompd_get_version_string(const char **version) { *version = "version" EVIL; return OK; }
int ompd_initialize(int64_t version, const callbacks_t *table) { callbacks = table; return OK; }
int ompd_finalize(void) { return OK; }
int ompd_process_initialize(void *context, void **handle) { *handle = &space; return OK; }
int ompd_get_omp_version(void *of, int64_t *version) { *version = NUMBER; return OK; }
int ompd_get_omp_version_string(void *of, const char **version) { *version = text("5" EVIL); return OK; }
int ompd_get_thread_handle(void *of, uint64_t kind, uint64_t size, const void *id, void **handle)
{
    *handle = &threads[made++ % sizeof threads];
    return OK;
}
int ompd_get_thread_in_parallel(void *of, int number, void **handle) { *handle = &threads[number & 63]; return OK; }
int ompd_get_curr_parallel_handle(void *of, void **handle) { *handle = &region; return OK; }
int ompd_get_enclosing_parallel_handle(void *of, void **handle) { *handle = &region; return ENCLOSING; }
int ompd_get_task_parallel_handle(void *of, void **handle) { *handle = &region; return OK; }
int ompd_get_curr_task_handle(void *of, void **handle) { *handle = &task; return OK; }
int ompd_get_generating_task_handle(void *of, void **handle) { *handle = &task; return OK; }
int ompd_get_scheduling_task_handle(void *of, void **handle) { *handle = &task; return OK; }
int ompd_get_task_in_parallel(void *of, int number, void **handle) { *handle = &task; return OK; }
int ompd_rel_address_space_handle(void *handle) { return OK; }
int ompd_rel_thread_handle(void *handle) { return OK; }
int ompd_rel_parallel_handle(void *handle) { return OK; }
int ompd_rel_task_handle(void *handle) { return OK; }
int ompd_get_task_frame(void *of, void *exit_frame, void *enter_frame)
{
    memset(exit_frame, 255, 24);
    memset(enter_frame, 255, 24);
    return OK;
}
int ompd_get_task_function(void *of, address_t *address) { address->segment = address->address = NUMBER; return OK; }
int ompd_get_state(void *of, int64_t *state, uint64_t *wait) { *state = *wait = NUMBER; return OK; }
int ompd_enumerate_states(void *of, int64_t current, int64_t *next, const char **name, int64_t *more)
{
    *more = current == 0x102;
    *next = *more ? 1 : NUMBER;
    *name = text("state" EVIL);
    return OK;
}
int ompd_enumerate_icvs(void *of, uint64_t current, uint64_t *next, const char **name, int *scope, int *more)
{
    *name = text(NAMES[current % 5]);
    *scope = SCOPES[current % 5];
    *next = current + 1;
    *more = current < 4;
    return OK;
}
int ompd_get_icv_from_scope(void *of, int scope, uint64_t icv, int64_t *value) { *value = NUMBER; return icv == 2 ? 6 : OK; }
int ompd_get_icv_string_from_scope(void *of, int scope, uint64_t icv, const char **value)
{
    *value = text("value" EVIL);
    return OK;
}
int ompd_get_display_control_vars(void *of, const char *const **names)
{
    void *list = NULL;
    callbacks->alloc_memory(2 * sizeof(char *), &list);
    ((const char **)list)[0] = "NAME" EVIL "=" EVIL;
    ((const char **)list)[1] = NULL;
    *names = list;
    return OK;
}
int ompd_rel_display_control_vars(const char *const **names) { return OK; }
