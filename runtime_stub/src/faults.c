/* Structures made wrong on request, for tests of those that read them. */
#include "internal.h"

#include <string.h>

static int cycle_queue(struct stub_thread *thread)
{
    struct stub_task *task = thread->team->first_queued;
    if (!task)
        return -1;
    while (task->next_queued)
        task = task->next_queued;
    task->next_queued = thread->team->first_queued;
    return 0;
}

static int break_team(struct stub_thread *thread)
{
    thread->team = (struct stub_team *)(uintptr_t)0x10;
    return 0;
}

static int cycle_parents(struct stub_thread *thread)
{
    struct stub_team *outermost = thread->team;
    while (outermost->parent)
        outermost = outermost->parent;
    outermost->parent = thread->team;
    return 0;
}

static int inflate_counts(struct stub_thread *thread)
{
    omp_stub_process.thread_count = thread->team->size = 0x7fffffff;
    return 0;
}

static int cycle_threads(struct stub_thread *thread)
{
    (void)thread;
    struct stub_thread *last = omp_stub_process.threads;
    while (last->next)
        last = last->next;
    last->next = omp_stub_process.threads;
    return 0;
}

static int tear_frame(struct stub_thread *thread)
{
    uintptr_t address = (uintptr_t)thread->task->frame.exit_runtime_frame;
    int half = 4 * sizeof address;
    if (!address)
        return -1;
    thread->task->frame.exit_runtime_frame = (void *)(address & (((uintptr_t)1 << half) - 1));
    return 0;
}

static int cycle_waiters(struct stub_thread *thread)
{
    (void)thread;
    for (struct stub_lock *lock = omp_stub_process.locks; lock; lock = lock->next) {
        struct stub_thread *last = lock->first_waiter;
        if (!last)
            continue;
        while (last->next_waiter)
            last = last->next_waiter;
        last->next_waiter = lock->first_waiter;
        return 0;
    }
    return -1;
}

static int break_state(struct stub_thread *thread)
{
    thread->state = 0xffff;
    return 0;
}

static int cycle_privates(struct stub_thread *thread)
{
    (void)thread;
    struct omp_stub_private *last = omp_stub_process.privates;
    if (!last)
        return -1;
    while (last->next)
        last = last->next;
    last->next = omp_stub_process.privates;
    return 0;
}

static const struct {
    const char *word;
    int (*make)(struct stub_thread *thread);
} faults[] = {
    {"cyclic_queue", cycle_queue}, {"bad_team", break_team},       {"bad_parent", cycle_parents},
    {"thread_count", inflate_counts}, {"thread_cycle", cycle_threads}, {"torn_frame", tear_frame},
    {"lock_cycle", cycle_waiters}, {"bad_state", break_state},     {"private_cycle", cycle_privates},
};

EXPORT int omp_stub_break(const char *what)
{
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        if (!strcmp(what, faults[i].word))
            return faults[i].make(current_thread());
    return -1;
}
