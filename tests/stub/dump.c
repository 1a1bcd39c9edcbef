/* What the stub runtime knows, as its own structures have it: written by the program itself, with the layout that its
 * compiler gave them, beside the truth of fixtures/programs/truth.c. Linked in with -Wl,--wrap=rename: the truth is
 * renamed once it is complete, and then all threads are at rest.
 *
 * structures.json has "process", and lists of all "threads", "teams", "tasks" and "locks", each with the members of its
 * structure as numbers and its "address". */
#define _GNU_SOURCE
#include "../../runtime_stub/src/structures.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 1 << 16 };
static const struct stub_task *tasks[MOST];
static int task_count;
static FILE *out;

static void put(const char *name, unsigned long long value)
{
    fprintf(out, "\"%s\": %llu, ", name, value);
}
#define WORD(record, member) put(#member, (unsigned long long)(uintptr_t)(record)->member)
#define NUMBER(record, member) fprintf(out, "\"%s\": %lld, ", #member, (long long)(record)->member)
#define AND(record) fprintf(out, "\"address\": %llu}", (unsigned long long)(uintptr_t)(record))

static void add(const struct stub_task *task)
{
    if (!task)
        return;
    for (int i = 0; i < task_count; i++)
        if (tasks[i] == task)
            return;
    if (task_count == MOST)
        abort();
    tasks[task_count++] = task;
    add(task->generating);
    add(task->scheduling);
    for (const struct stub_task *child = task->first_child; child; child = child->next_sibling)
        add(child);
}

static void put_thread(const struct stub_thread *thread)
{
    fprintf(out, "{");
    WORD(thread, id), NUMBER(thread, type), NUMBER(thread, state), WORD(thread, wait_id), WORD(thread, pthread);
    NUMBER(thread, native_id), NUMBER(thread, thread_num), WORD(thread, team), WORD(thread, task);
    WORD(thread, waits_for), WORD(thread, waits_for_turn), WORD(thread, tool_data);
    WORD(thread, stack_low), WORD(thread, stack_high);
    AND(thread);
}

static void put_team(const struct stub_team *team)
{
    fprintf(out, "{");
    WORD(team, id), WORD(team, parent), WORD(team, encountering), NUMBER(team, size), NUMBER(team, level);
    NUMBER(team, active_level), WORD(team, function), NUMBER(team, queued_count), NUMBER(team, task_count);
    put("arrived", team->barrier.arrived);
    fprintf(out, "\"threads\": [");
    for (int num = 0; num < team->size; num++)
        fprintf(out, "%s%llu", num ? ", " : "", (unsigned long long)(uintptr_t)team->threads[num]);
    fprintf(out, "], \"implicit\": [");
    for (int num = 0; num < team->size; num++)
        fprintf(out, "%s%llu", num ? ", " : "", (unsigned long long)(uintptr_t)team->implicit[num]);
    fprintf(out, "], ");
    AND(team);
}

static void put_task(const struct stub_task *task)
{
    fprintf(out, "{");
    WORD(task, id), NUMBER(task, type), NUMBER(task, status), WORD(task, generating), WORD(task, scheduling);
    WORD(task, team), WORD(task, thread), WORD(task, function), NUMBER(task, is_final), NUMBER(task, at_barrier);
    put("exit_runtime_frame", (uintptr_t)task->frame.exit_runtime_frame);
    put("reenter_runtime_frame", (uintptr_t)task->frame.reenter_runtime_frame);
    put("exit_frame_flags", task->frame.exit_frame_flags);
    put("reenter_frame_flags", task->frame.reenter_frame_flags);
    fprintf(out, "\"icvs\": {\"nthreads\": %d, \"dynamic\": %d, \"max_active_levels\": %d, \"schedule_kind\": %d, "
            "\"schedule_chunk\": %d, \"default_device\": %d, \"thread_limit\": %d, \"proc_bind\": %d}, ",
            task->icvs.nthreads, task->icvs.dynamic, task->icvs.max_active_levels, task->icvs.schedule_kind,
            task->icvs.schedule_chunk, task->icvs.default_device, task->icvs.thread_limit, task->icvs.proc_bind);
    WORD(task, tool_data);
    AND(task);
}

static void put_lock(const struct stub_lock *lock)
{
    fprintf(out, "{");
    WORD(lock, id), NUMBER(lock, kind), NUMBER(lock, count), NUMBER(lock, waiter_count), WORD(lock, variable);
    WORD(lock, owner), WORD(lock, owner_task);
    fprintf(out, "\"waiters\": [");
    for (const struct stub_thread *thread = lock->first_waiter; thread; thread = thread->next_waiter)
        fprintf(out, "%s%llu", thread == lock->first_waiter ? "" : ", ", (unsigned long long)(uintptr_t)thread);
    fprintf(out, "], ");
    AND(lock);
}

#define LIST(kind, type, first)                                                                                        \
    fprintf(out, ", \"%ss\": [", #kind);                                                                               \
    for (const struct type *one = first; one; one = one->next) {                                                       \
        fprintf(out, "%s", one == first ? "" : ", ");                                                                  \
        put_##kind(one);                                                                                               \
    }                                                                                                                  \
    fprintf(out, "]\n")

int __real_rename(const char *old, const char *new);

int __wrap_rename(const char *old, const char *new)
{
    /* A program that named it would have a copy of its own, which the runtime would then use. */
    const struct stub_process *process = dlsym(RTLD_DEFAULT, "omp_stub_process");
    out = fopen("structures.json", "we");
    if (!out || !process)
        abort();
    for (const struct stub_team *team = process->teams; team; team = team->next)
        for (int num = 0; num < team->size; num++)
            add(team->implicit[num]);
    for (const struct stub_thread *thread = process->threads; thread; thread = thread->next)
        add(thread->task);
    fprintf(out, "{\"process\": {");
    WORD(process, version), WORD(process, openmp_version), WORD(process, debug_enabled), WORD(process, initialized);
    NUMBER(process, thread_count), NUMBER(process, idle_count), WORD(process, stack_size);
    NUMBER(process, max_task_priority), NUMBER(process, num_procs), NUMBER(process, cancellation);
    AND(process);
    LIST(thread, stub_thread, process->threads);
    LIST(team, stub_team, process->teams);
    LIST(lock, stub_lock, process->locks);
    fprintf(out, ", \"tasks\": [");
    for (int i = 0; i < task_count; i++) {
        fprintf(out, "%s", i ? ", " : "");
        put_task(tasks[i]);
    }
    fprintf(out, "]}\n");
    if (fclose(out))
        abort();
    return __real_rename(old, new);
}
