/* Teams: the parallel construct, and the combined ones that begin with it. */
#include "internal.h"

#include <stdlib.h>

struct stub_team *new_team(struct stub_team *parent, struct stub_task *encountering, int32_t size)
{
    struct whole_team *whole = allocate(sizeof *whole);
    struct stub_team *team = &whole->known;
    team->id = new_id();
    team->parent = parent;
    team->encountering = encountering;
    team->size = size;
    team->level = parent ? parent->level + 1 : 0;
    team->active_level = parent ? parent->active_level + (size > 1) : 0;
    team->threads = allocate(size * sizeof *team->threads);
    team->implicit = allocate(size * sizeof *team->implicit);
    team->barrier.expected = size;
    pthread_mutex_init(&team->mutex, NULL);
    pthread_cond_init(&team->changed, NULL);
    whole->references = size;
    whole->root = parent ? whole_team(parent)->root : whole;
    return team;
}

void list_team(struct stub_team *team)
{
    team->next = omp_stub_process.teams;
    PUBLISH(omp_stub_process.teams, team);
}

void unlist_team(struct stub_team *team)
{
    struct stub_team **place = &omp_stub_process.teams;
    while (*place != team)
        place = &(*place)->next;
    PUBLISH(*place, team->next);
}

void release_team(struct stub_team *team)
{
    if (__atomic_sub_fetch(&whole_team(team)->references, 1, __ATOMIC_ACQ_REL))
        return;
    for (int32_t num = 0; num < team->size; num++)
        free_task(team->implicit[num]);
    pthread_mutex_destroy(&team->mutex);
    pthread_cond_destroy(&team->changed);
    free(team->threads);
    free(team->implicit);
    free(team);
}

void team_sleep(struct stub_team *team)
{
    whole_team(team)->sleepers++;
    pthread_cond_wait(&team->changed, &team->mutex);
    whole_team(team)->sleepers--;
}

void team_wake(struct stub_team *team)
{
    if (whole_team(team)->sleepers)
        pthread_cond_broadcast(&team->changed);
}

/* How many threads a region gets; process.mutex is locked. */
static int32_t choose_size(const struct stub_thread *thread, unsigned wanted)
{
    const struct stub_icvs *icvs = &thread->task->icvs;
    if (wanted == 1 || thread->team->active_level >= icvs->max_active_levels)
        return 1;
    int32_t size = wanted ? (int32_t)wanted : icvs->nthreads;
    if (icvs->dynamic && size > omp_stub_process.num_procs)
        size = omp_stub_process.num_procs;
    int32_t left = icvs->thread_limit - whole_team(thread->team)->root->busy + 1;
    if (size > left)
        size = left;
    return size > 1 ? size : 1;
}

static void new_implicit_tasks(struct stub_team *team)
{
    const struct stub_icvs *icvs = &team->encountering->icvs;
    for (int32_t num = 0; num < team->size; num++) {
        struct stub_task *task = new_task(STUB_TASK_IMPLICIT, team->encountering, team);
        task->function = team->function;
        task->data = team->data;
        task->thread = team->threads[num];
        task->thread_num = num;
        task->icvs = *icvs;
        task->icvs.nthreads = nthreads_of_level(team->level, icvs->nthreads);
        task->icvs.proc_bind = bind_of_level(team->level, icvs->proc_bind);
        PUBLISH(team->implicit[num], task);
    }
}

static void give_place(struct stub_team *team, int32_t num, struct stub_work *work)
{
    struct stub_thread *thread = team->threads[num];
    thread->thread_num = num;
    thread->work = NULL;
    thread->work_number = 0;
    if (work)
        join_work(thread, work);
    PUBLISH(thread->team, team);
}

void begin_region(struct stub_thread *thread, void (*function)(void *), void *data, unsigned wanted,
                  struct stub_work *work, bool program_invokes)
{
    set_state(thread, STUB_OVERHEAD, NULL);
    struct stub_task *encountering = thread->task;
    pthread_mutex_lock(&omp_stub_process.mutex);
    int32_t size = choose_size(thread, wanted);
    whole_team(thread->team)->root->busy += size - 1;
    struct stub_team *team = new_team(thread->team, encountering, size);
    team->function = function;
    team->data = data;
    team->threads[0] = thread;
    take_workers(thread, team, size - 1);
    new_implicit_tasks(team);
    struct whole_team *whole = whole_team(team);
    whole->program_invokes = program_invokes;
    whole->closes_twice = told() != NULL;
    whole->saved.team = thread->team;
    whole->saved.task = encountering;
    whole->saved.thread_num = thread->thread_num;
    whole->saved.work = thread->work;
    whole->saved.work_number = thread->work_number;
    whole->saved.share = whole_thread(thread)->share;
    if (work) {
        work->number = team->work_count = 1;
        work->arrived = size;
        team->works = work;
    }
    list_team(team);
    for (int32_t num = 0; num < size; num++) {
        if (num) {
            set_state(team->threads[num], STUB_OVERHEAD, NULL);
            team->implicit[num]->status = STUB_EXECUTING;
            PUBLISH(team->threads[num]->task, team->implicit[num]);
        }
        give_place(team, num, work);
    }
    pthread_mutex_unlock(&omp_stub_process.mutex);
    if (debugging())
        ompd_bp_parallel_begin();
    TELL(parallel, thread, team, wanted ? wanted : (unsigned)encountering->icvs.nthreads, true);
    encountering->status = STUB_SUSPENDED;
    team->implicit[0]->status = STUB_EXECUTING;
    thread->task = team->implicit[0];
    start_workers(team);
}

void end_region(struct stub_thread *thread)
{
    struct stub_team *team = thread->team;
    struct whole_team *whole = whole_team(team);
    pass_barrier(thread, STUB_BARRIER_CLOSING); /* all others have come, and wait until it opens */
    set_state(thread, STUB_OVERHEAD, NULL);
    team->implicit[0]->status = STUB_COMPLETE;
    thread->task = whole->saved.task;
    thread->task->status = STUB_EXECUTING;
    if (debugging())
        ompd_bp_parallel_end();
    TELL(parallel, thread, team, 0, false);
    pthread_mutex_lock(&team->mutex);
    pthread_mutex_lock(&omp_stub_process.mutex);
    thread->thread_num = whole->saved.thread_num;
    thread->work = whole->saved.work;
    thread->work_number = whole->saved.work_number;
    whole_thread(thread)->share = whole->saved.share;
    thread->team = whole->saved.team;
    retire_workers(team);
    unlist_team(team); /* no thread says any more that it is in it */
    whole->root->busy -= team->size - 1;
    pthread_mutex_unlock(&omp_stub_process.mutex);
    open_barrier(team);
    team_wake(team);
    pthread_mutex_unlock(&team->mutex);
    release_team(team);
}

/* A combined construct is in its loop, or sections, from the beginning. */
static void tell_implicit(struct stub_thread *thread)
{
    TELL(implicit_task, thread, true);
    if (thread->work)
        tell_of_work(thread, thread->work, codeptr_of(thread->team->encountering), true);
}

/* The frame of this function is what separates the region's code from the runtime. */
KEPT void run_implicit(struct stub_thread *thread)
{
    struct stub_task *task = thread->task;
    if (debugging())
        ompd_bp_task_begin();
    if (told())
        tell_implicit(thread);
    set_state(thread, STUB_WORK_PARALLEL, NULL);
    set_exit_frame(task, __builtin_frame_address(0), FRAME_RUNTIME);
    task->function(task->data);
    set_exit_frame(task, NULL, 0);
    set_state(thread, STUB_OVERHEAD, NULL);
    if (debugging())
        ompd_bp_task_end();
}

static void run_region(struct stub_thread *thread, void (*function)(void *), void *data, unsigned wanted,
                       struct stub_work *work)
{
    begin_region(thread, function, data, wanted, work, false);
    run_implicit(thread);
    end_region(thread);
}

/* The caller executes the region's code itself. */
static void run_outside(struct stub_thread *thread, void *callers_stack)
{
    if (debugging())
        ompd_bp_task_begin();
    if (told())
        tell_implicit(thread);
    set_exit_frame(thread->task, callers_stack, FRAME_APPLICATION);
    set_working(thread);
}

typedef void region_code(void *);

/* `flags` is the proc_bind clause: this runtime binds no thread to a place. */

EXPORT void GOMP_parallel(region_code *function, void *data, unsigned threads, unsigned flags)
{
    (void)flags;
    struct stub_thread *thread = enter(CALLERS_STACK());
    run_region(thread, function, data, threads, NULL);
    leave(thread);
}

EXPORT void GOMP_parallel_start(region_code *function, void *data, unsigned threads)
{
    struct stub_thread *thread = enter(CALLERS_STACK());
    begin_region(thread, function, data, threads, NULL, true);
    run_outside(thread, CALLERS_STACK());
}

EXPORT void GOMP_parallel_end(void)
{
    struct stub_thread *thread = current_thread();
    set_exit_frame(thread->task, NULL, 0);
    if (debugging())
        ompd_bp_task_end();
    end_region(thread);
    leave(thread);
}

EXPORT void GOMP_parallel_sections(region_code *function, void *data, unsigned threads, unsigned count, unsigned flags)
{
    (void)flags;
    struct stub_thread *thread = enter(CALLERS_STACK());
    run_region(thread, function, data, threads, new_sections(count));
    leave(thread);
}

EXPORT void GOMP_parallel_sections_start(region_code *function, void *data, unsigned threads, unsigned count)
{
    struct stub_thread *thread = enter(CALLERS_STACK());
    begin_region(thread, function, data, threads, new_sections(count), true);
    run_outside(thread, CALLERS_STACK());
}

#define PARALLEL_LOOP(name, schedule)                                                                                  \
    EXPORT void GOMP_parallel_loop_##name(region_code *function, void *data, unsigned threads, long begin, long end,   \
                                          long step, long chunk, unsigned flags)                                       \
    {                                                                                                                  \
        (void)flags;                                                                                                   \
        struct stub_thread *thread = enter(CALLERS_STACK());                                                           \
        struct stub_work *work = new_parallel_loop(thread, begin, end, step, schedule, chunk);                         \
        run_region(thread, function, data, threads, work);                                                             \
        leave(thread);                                                                                                 \
    }
#define PARALLEL_LOOP_RUNTIME(name)                                                                                    \
    EXPORT void GOMP_parallel_loop_##name(region_code *function, void *data, unsigned threads, long begin, long end,   \
                                          long step, unsigned flags)                                                   \
    {                                                                                                                  \
        (void)flags;                                                                                                   \
        struct stub_thread *thread = enter(CALLERS_STACK());                                                           \
        struct stub_work *work = new_parallel_loop(thread, begin, end, step, SCHEDULE_RUNTIME, 0);                     \
        run_region(thread, function, data, threads, work);                                                             \
        leave(thread);                                                                                                 \
    }
#define PARALLEL_LOOP_START(name, schedule)                                                                            \
    EXPORT void GOMP_parallel_loop_##name##_start(region_code *function, void *data, unsigned threads, long begin,     \
                                                  long end, long step, long chunk)                                     \
    {                                                                                                                  \
        struct stub_thread *thread = enter(CALLERS_STACK());                                                           \
        struct stub_work *work = new_parallel_loop(thread, begin, end, step, schedule, chunk);                         \
        begin_region(thread, function, data, threads, work, true);                                                     \
        run_outside(thread, CALLERS_STACK());                                                                          \
    }

PARALLEL_LOOP(static, 1)
PARALLEL_LOOP(dynamic, 2)
PARALLEL_LOOP(guided, 3)
PARALLEL_LOOP(nonmonotonic_dynamic, 2)
PARALLEL_LOOP(nonmonotonic_guided, 3)
PARALLEL_LOOP_RUNTIME(runtime)
PARALLEL_LOOP_RUNTIME(nonmonotonic_runtime)
PARALLEL_LOOP_RUNTIME(maybe_nonmonotonic_runtime)
PARALLEL_LOOP_START(static, 1)
PARALLEL_LOOP_START(dynamic, 2)
PARALLEL_LOOP_START(guided, 3)

EXPORT void GOMP_parallel_loop_runtime_start(region_code *function, void *data, unsigned threads, long begin, long end,
                                             long step)
{
    struct stub_thread *thread = enter(CALLERS_STACK());
    begin_region(thread, function, data, threads,
                 new_parallel_loop(thread, begin, end, step, SCHEDULE_RUNTIME, 0), true);
    run_outside(thread, CALLERS_STACK());
}
