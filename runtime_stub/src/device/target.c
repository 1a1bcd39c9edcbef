/* Target constructs, and the host as a device: the only one there can be, number 0, where OMP_STUB_DEVICE=host says so. The
 * device has the host's memory, so nothing is moved when something is mapped. The thread that meets a construct executes its
 * target task, at once, also with `nowait`. Without that variable there is no device, and these constructs are not
 * supported. */
#include "../internal.h"

#include <stdlib.h>
#include <string.h>

bool host_is_device;

/* A target construct that the code of a task has encountered and that has not ended: target data, or one with a task. */
struct target_scope {
    struct target_scope *outer;
    bool on_device;
};

void read_device_environment(void)
{
    const char *value = getenv("OMP_STUB_DEVICE");
    host_is_device = value && !strcmp(value, "host");
    if (value && *value && !host_is_device)
        warn("OMP_STUB_DEVICE=%s is not host: there is no device", value);
}

struct stub_task *target_task_of(struct stub_task *task)
{
    while (task && whole_task(task)->target_kind != TARGET_REGION)
        task = task->generating;
    return task;
}

bool is_targeted(struct stub_task *task)
{
    const struct target_scope *scope = whole_task(task)->scopes;
    while (scope && !scope->on_device)
        scope = scope->outer;
    return scope || whole_task(task)->is_targeted;
}

bool on_device(void)
{
    return target_task_of(current_thread()->task) != NULL;
}

/* What compilers say: a device's number, or one of these. */
enum { DEVICE_BY_ICV = -1 };
enum { FLAG_EXIT_DATA = 2 };
/* And of each item: its kind, in the lower half, and the logarithm of its alignment. */
enum {
    KIND_IS_SPECIAL = 0x0c, KIND_DELETE = 0x07, KIND_FIRSTPRIVATE = 0x0c, KIND_SECTION = 0x0f, KIND_RELEASE = 0x17,
    KIND_DELETE_SECTION = 0x1f, KIND_MAP = 0x03
};

static struct stub_thread *meet(void *callers_stack, const char *name)
{
    struct stub_thread *thread = enter(callers_stack);
    if (!host_is_device)
        fail("%s is not supported", name);
    set_state(thread, STUB_OVERHEAD, NULL);
    return thread;
}

/* Every other number than the device's is the host's. */
static bool is_the_device(const struct stub_thread *thread, int device)
{
    return (device == DEVICE_BY_ICV ? thread->task->icvs.default_device : device) == THE_DEVICE;
}

static uint32_t map_flags(unsigned kind)
{
    kind &= 0xff;
    if (!(kind & KIND_IS_SPECIAL))
        return kind & KIND_MAP ? kind & KIND_MAP : MAP_ALLOC;
    return kind == KIND_SECTION                                      ? MAP_ALLOC
           : kind == KIND_RELEASE                                    ? MAP_RELEASE
           : kind == KIND_DELETE || kind == KIND_DELETE_SECTION      ? MAP_DELETE
                                                                     : 0;
}

/* Is told of what the compiler passes; pointers, and values that are passed as such, are none of it. */
static void map(struct stub_thread *thread, struct stub_task *task, size_t count, void **addresses, const size_t *sizes,
                const unsigned short *kinds)
{
    if (!told())
        return;
    struct mapped *items = allocate((count + 1) * sizeof *items);
    unsigned used = 0;
    for (size_t at = 0; at < count; at++) {
        uint32_t flags = map_flags(kinds[at]);
        if (flags && (sizes[at] || (kinds[at] & 0xff) != KIND_SECTION)) /* a pointer that nothing is known of is looked up */
            items[used++] = (struct mapped){addresses[at], sizes[at], flags};
    }
    if (used) {
        uint64_t id = new_id();
        TELL(map, thread, task, items, used, id, true);
        TELL(map, thread, task, items, used, id, false);
    }
    free(items);
}

/* The addresses that the region's code gets: of a firstprivate variable that of a copy. All of it is one block. */
static void **make_private(size_t count, void **addresses, const size_t *sizes, const unsigned short *kinds)
{
    size_t size = (count + 1) * sizeof *addresses;
    for (size_t at = 0; at < count; at++)
        if ((kinds[at] & 0xff) == KIND_FIRSTPRIVATE)
            size += sizes[at] + ((size_t)1 << (kinds[at] >> 8));
    void **private = allocate(size);
    char *free_space = (char *)(private + count + 1);
    for (size_t at = 0; at < count; at++) {
        private[at] = addresses[at];
        if ((kinds[at] & 0xff) != KIND_FIRSTPRIVATE)
            continue;
        size_t alignment = (size_t)1 << (kinds[at] >> 8);
        free_space += -(uintptr_t)free_space & (alignment - 1);
        private[at] = memcpy(free_space, addresses[at], sizes[at]);
        free_space += sizes[at];
    }
    return private;
}

/* Of constructs that move data, which is where it belongs. */
static void move_nothing(void *unused)
{
    (void)unused;
}

static void run_target(struct stub_thread *thread, enum target_kind kind, void (*function)(void *), void *data, size_t count,
                       void **addresses, const size_t *sizes, const unsigned short *kinds)
{
    struct whole_task *encountering = whole_task(thread->task);
    struct target_scope scope = {encountering->scopes, true};
    encountering->scopes = &scope;
    struct stub_task *task = new_target_task(thread, kind, function, data);
    whole_task(task)->operation = kind == TARGET_REGION ? new_id() : 0;
    TELL(task_create, thread, task);
    TELL(target, thread, task, true);
    map(thread, task, count, addresses, sizes, kinds);
    if (kind == TARGET_REGION)
        TELL(target_submit, task, true);
    uint64_t start = trace_begins(thread, task);
    run_target_task(thread, task);
    trace_ends(thread, task, start);
    if (kind == TARGET_REGION)
        TELL(target_submit, task, false);
    TELL(target, thread, task, false);
    release_task(task);
    encountering->scopes = scope.outer;
}

EXPORT void GOMP_target_ext(int device, void (*function)(void *), size_t count, void **addresses, size_t *sizes,
                            unsigned short *kinds, unsigned flags, void **depend, void **arguments)
{
    struct stub_thread *thread = meet(CALLERS_STACK(), "GOMP_target_ext");
    (void)flags, (void)arguments;     /* nowait; num_teams and thread_limit */
    if (depend)
        wait_for_dependences(thread, depend);
    void **private = make_private(count, addresses, sizes, kinds);
    if (is_the_device(thread, device)) {
        run_target(thread, TARGET_REGION, function, private, count, addresses, sizes, kinds);
        leave(thread);
    } else {
        leave(thread);
        function(private);            /* it is code of the task that has met it */
    }
    free(private);
}

EXPORT void GOMP_target_data_ext(int device, size_t count, void **addresses, size_t *sizes, unsigned short *kinds)
{
    struct stub_thread *thread = meet(CALLERS_STACK(), "GOMP_target_data_ext");
    struct target_scope *scope = allocate(sizeof *scope);
    scope->outer = whole_task(thread->task)->scopes;
    scope->on_device = is_the_device(thread, device);
    whole_task(thread->task)->scopes = scope;
    if (scope->on_device) {
        TELL(target_data, thread, true);
        map(thread, NULL, count, addresses, sizes, kinds);
    }
    leave(thread);
}

EXPORT void GOMP_target_end_data(void)
{
    struct stub_thread *thread = meet(CALLERS_STACK(), "GOMP_target_end_data");
    struct target_scope *scope = whole_task(thread->task)->scopes;
    if (!scope)
        fail("GOMP_target_end_data: there is no target data region");
    if (scope->on_device)
        TELL(target_data, thread, false);
    whole_task(thread->task)->scopes = scope->outer;
    free(scope);
    leave(thread);
}

static void move_data(struct stub_thread *thread, enum target_kind kind, int device, size_t count, void **addresses,
                      const size_t *sizes, const unsigned short *kinds, void **depend)
{
    if (depend)
        wait_for_dependences(thread, depend);
    if (is_the_device(thread, device))
        run_target(thread, kind, move_nothing, NULL, count, addresses, sizes, kinds);
    leave(thread);
}

EXPORT void GOMP_target_update_ext(int device, size_t count, void **addresses, size_t *sizes, unsigned short *kinds,
                                   unsigned flags, void **depend)
{
    (void)flags;
    move_data(meet(CALLERS_STACK(), "GOMP_target_update_ext"), TARGET_UPDATE, device, count, addresses, sizes, kinds, depend);
}

EXPORT void GOMP_target_enter_exit_data(int device, size_t count, void **addresses, size_t *sizes, unsigned short *kinds,
                                        unsigned flags, void **depend)
{
    move_data(meet(CALLERS_STACK(), "GOMP_target_enter_exit_data"),
              flags & FLAG_EXIT_DATA ? TARGET_EXIT_DATA : TARGET_ENTER_DATA, device, count, addresses, sizes, kinds, depend);
}
