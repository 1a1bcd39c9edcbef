/* The side of the debugger: what it finds by name, and whether what it needs is kept. */
#include "internal.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

bool debug_wanted, construct_met;

#define LAYOUT_RECORD(structure) {#structure, "", 0, sizeof(struct structure)},
#define LAYOUT_MEMBER(structure, member)                                                                               \
    {#structure, #member, offsetof(struct structure, member), sizeof(((struct structure *)0)->member)},
#define LAYOUT_COUNT_RECORD(structure) +1
#define LAYOUT_COUNT_MEMBER(structure, member) +1
#define LAYOUT_COUNT (0 STUB_LAYOUT(LAYOUT_COUNT_RECORD, LAYOUT_COUNT_MEMBER))

struct layout {
    struct omp_stub_layout_header header;
    struct omp_stub_layout_record records[LAYOUT_COUNT];
};
EXPORT extern const struct layout omp_stub_layout;
const struct layout omp_stub_layout = {
    {"omp_stub_layout", "", 1, LAYOUT_COUNT},
    {STUB_LAYOUT(LAYOUT_RECORD, LAYOUT_MEMBER)},
};
_Static_assert(sizeof(struct omp_stub_layout_header) == sizeof(struct omp_stub_layout_record), "one size");

EXPORT const char **ompd_dll_locations;

/* Debuggers plant breakpoints here. */
#define POINT(name)                                                                                                    \
    EXPORT void name(void);                                                                                            \
    KEPT void name(void)                                                                                               \
    {                                                                                                                  \
        __asm__ volatile("");                                                                                          \
    }

POINT(ompd_bp_thread_begin)
POINT(ompd_bp_thread_end)
POINT(ompd_bp_parallel_begin)
POINT(ompd_bp_parallel_end)
POINT(ompd_bp_task_begin)
POINT(ompd_bp_task_end)
#ifndef STUB_LABEL
void ompd_dll_locations_valid(void);
POINT(ompd_dll_locations_valid)
#endif

static const char **locations_of_environment(const char *names)
{
    size_t count = 1;
    for (const char *c = names; *c; c++)
        count += *c == ':';
    const char **locations = allocate((count + 1) * sizeof *locations);
    char *rest = strdup(names), *name;
    for (size_t i = 0; i < count && (name = strsep(&rest, ":")); i++)
        locations[i] = name;
    return locations;
}

/* Libraries for debuggers of 32 and of 64 bits are built beside this one. What is not there is not named. */
static const char **default_locations(void)
{
    static const char *const names[] = {"libompd_stub32.so", "libompd_stub.so"};
    enum { COUNT = sizeof names / sizeof *names };
    const char **locations = allocate((COUNT + 2) * sizeof *locations);
    Dl_info library;
    const char *file = dladdr((void *)&omp_stub_layout, &library) && library.dli_fname ? library.dli_fname : "";
    char *absolute = realpath(file, NULL);
    const char *slash = absolute ? strrchr(absolute, '/') : NULL;
    size_t found = 0;
    for (size_t at = 0; at < COUNT && slash; at++) {
        size_t length = (size_t)(slash - absolute) + 1, room = length + strlen(names[at]) + 1;
        char *name = allocate(room);
        snprintf(name, room, "%.*s%s", (int)length, absolute, names[at]);
        if (!access(name, R_OK))
            locations[found++] = name;
        else
            free(name);
    }
    free(absolute);
    locations[found] = "ompd-stub";
    return locations;
}

/* In a function of its own: where the label is, there may be only one. */
KEPT void announce_locations(void)
{
    const char *names = getenv("OMP_STUB_DLLS");
    const char **locations = names ? locations_of_environment(names) : default_locations();
    __atomic_store_n(&ompd_dll_locations, locations, __ATOMIC_RELEASE);
    PUBLISH(omp_stub_process.initialized, 1); /* never without the former, and before anybody stops here */
#ifdef STUB_LABEL
    __asm__ volatile(".globl ompd_dll_locations_valid\nompd_dll_locations_valid:\n\tnop" ::: "memory");
#else
    ompd_dll_locations_valid();
#endif
}

void read_debug_environment(void)
{
    const char *value = getenv("OMP_DEBUG");
    bool wanted = value && (!strcasecmp(value, "on") || !strcasecmp(value, "enabled"));
    if (value && *value && !wanted && strcasecmp(value, "off") && strcasecmp(value, "disabled"))
        warn("OMP_DEBUG=%s is none of on, enabled, off, disabled: it is ignored", value);
    omp_stub_process.debug_enabled = wanted || debug_wanted;
}

void ask_stack(struct stub_thread *thread)
{
    pthread_attr_t attributes;
    void *low;
    size_t size;
    if (pthread_getattr_np(thread->pthread, &attributes))
        return;
    if (!pthread_attr_getstack(&attributes, &low, &size)) {
        thread->stack_low = low;
        thread->stack_high = (char *)low + size;
    }
    pthread_attr_destroy(&attributes);
}

void ask_stacks(void)
{
    pthread_mutex_lock(&omp_stub_process.mutex);
    for (struct stub_thread *thread = omp_stub_process.threads; thread; thread = thread->next)
        ask_stack(thread);
    pthread_mutex_unlock(&omp_stub_process.mutex);
}

/* An initializer may come before this library's own: nothing but two words is needed here. Routines like
 * omp_get_max_threads() may have been called; constructs may not. */
EXPORT void omp_debug_enable(void)
{
    if (omp_stub_process.debug_enabled || debug_wanted)
        return;
    if (__atomic_load_n(&construct_met, __ATOMIC_RELAXED)) {
        warn("omp_debug_enable() comes after the first construct: it has no effect");
        return;
    }
    debug_wanted = true;
    if (!omp_stub_process.initialized)
        return;
    ask_stacks();
    omp_stub_process.debug_enabled = 1;
}
