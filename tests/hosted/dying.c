/* OMPD libraries that fail: WHERE is the function, HOW what becomes of it. */
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

static void fail(const char *where)
{
    if (where[0] != WHERE[0])
        return;
#if defined(BY_ABORT)
    abort();
#elif defined(BY_EXIT)
    _exit(0);
#else
    for (;;)
        pause();
#endif
}

int ompd_get_api_version(int64_t *version) { *version = 201811; return 0; }
int ompd_get_version_string(const char **text) { *text = "dying"; return 0; }
int ompd_initialize(int64_t version, const void *table) { (void)version, (void)table, fail("initialize"); return 0; }
int ompd_finalize(void) { return 0; }
int ompd_process_initialize(void *context, void **space) { fail("process"); *space = context; return 0; }
int ompd_rel_address_space_handle(void *space) { (void)space; return 0; }

int ompd_get_thread_handle(void *space, uint64_t kind, uint64_t size, const void *id, void **thread)
{
    (void)space, (void)kind, (void)size, (void)id, (void)thread;
    fail("thread");
    return 1;
}
