/* Worksharing constructs: loops, sections, single; and ordered regions.
 *
 * Iterations are counted from 0 on in 64 bits, whatever the loop's variable is and does: iteration n has the value
 * begin + n * step, modulo 2^64. A thread takes chunks; an ordered region is entered chunk by chunk. */
#include "internal.h"

#include <stdlib.h>

enum { KIND_LOOP = 1, KIND_SECTIONS = 2, KIND_SINGLE = 3, KIND_SCOPE = 4 };
enum { SCHEDULE_STATIC = 1, SCHEDULE_DYNAMIC = 2, SCHEDULE_GUIDED = 3, SCHEDULE_AUTO = 4 };

static struct stub_work *new_work(uint32_t kind)
{
    struct stub_work *work = allocate(sizeof(struct whole_work));
    work->kind = kind;
    return work;
}

struct stub_work *new_loop(int64_t begin, int64_t end, int64_t step, bool up, uint32_t schedule, int64_t chunk)
{
    struct stub_work *work = new_work(KIND_LOOP);
    uint64_t b = begin, e = end, s = step;
    work->begin = work->next_iteration = work->ordered_next = begin;
    work->end = end;
    work->step = step;
    work->schedule = schedule & ~SCHEDULE_MONOTONIC;
    work->chunk = chunk;
    whole_work(work)->count = up ? (e - b - 1) / s + 1 : (b - e - 1) / (0 - s) + 1;
    return work;
}

static struct stub_work *new_empty_loop(int64_t begin, int64_t end, int64_t step, uint32_t schedule, int64_t chunk)
{
    struct stub_work *work = new_loop(begin, end, step, true, schedule, chunk);
    whole_work(work)->count = 0;
    return work;
}

/* The schedule of schedule(runtime) is the run-sched-var of the task that meets the loop. */
static void resolve_schedule(const struct stub_thread *thread, uint32_t *schedule, int64_t *chunk)
{
    *schedule &= ~SCHEDULE_MONOTONIC;
    if (*schedule == SCHEDULE_RUNTIME) {
        *schedule = (uint32_t)thread->task->icvs.schedule_kind & ~SCHEDULE_MONOTONIC;
        *chunk = thread->task->icvs.schedule_chunk;
    }
    if (*schedule == SCHEDULE_AUTO) {
        *schedule = SCHEDULE_STATIC;
        *chunk = 0;
    }
    if (*schedule != SCHEDULE_STATIC && *chunk < 1)
        *chunk = 1;
}

static struct stub_work *make_loop(const struct stub_thread *thread, int64_t begin, int64_t end, int64_t step, bool up,
                                   bool is_empty, uint32_t schedule, int64_t chunk)
{
    resolve_schedule(thread, &schedule, &chunk);
    return is_empty ? new_empty_loop(begin, end, step, schedule, chunk)
                    : new_loop(begin, end, step, up, schedule, chunk);
}

struct stub_work *new_parallel_loop(struct stub_thread *thread, long begin, long end, long step, uint32_t schedule,
                                    long chunk)
{
    return make_loop(thread, begin, end, step, step > 0, step > 0 ? begin >= end : begin <= end, schedule, chunk);
}

struct stub_work *new_sections(unsigned count)
{
    struct stub_work *work = new_work(KIND_SECTIONS);
    work->begin = work->next_iteration = work->ordered_next = 1;
    work->end = (int64_t)count + 1;
    work->step = work->chunk = 1;
    work->schedule = SCHEDULE_DYNAMIC;
    whole_work(work)->count = count;
    return work;
}

void tell_of_work(struct stub_thread *thread, const struct stub_work *work, const void *codeptr, bool begins)
{
    TELL(work, thread, work->kind == KIND_LOOP ? WORK_LOOP : WORK_SECTIONS, whole_work((struct stub_work *)work)->count,
         codeptr, begins);
}

static void free_work(struct stub_work *work)
{
    free(whole_work(work)->memory);
    free(work);
}

void join_work(struct stub_thread *thread, struct stub_work *work)
{
    thread->work_number = work->number;
    whole_thread(thread)->share = (struct loop_share){0};
    PUBLISH(thread->work, work);
}

/* The construct that the thread meets, made by `made` if it is the first one there: then `made` is published, otherwise
 * freed. team.mutex is locked. */
static struct stub_work *meet_work(struct stub_thread *thread, struct stub_work *made)
{
    struct stub_team *team = thread->team;
    uint64_t number = thread->work_number + 1;
    struct stub_work *work = team->works;
    while (work && work->number != number)
        work = work->next;
    if (work) {
        free_work(made);
    } else {
        work = made;
        work->number = ++team->work_count;
        work->next = team->works;
        PUBLISH(team->works, work);
    }
    work->arrived++;
    join_work(thread, work);
    return work;
}

static void leave_work(struct stub_thread *thread, struct stub_work *work)
{
    struct stub_team *team = thread->team;
    PUBLISH(thread->work, NULL);
    if (++work->left < team->size)
        return;
    struct stub_work **place = &team->works;
    while (*place != work)
        place = &(*place)->next;
    PUBLISH(*place, work->next);
    free_work(work);
}

/* Waits until the thread's chunk is the one whose turn it is; team.mutex is locked. `enters`: an ordered region, otherwise
 * it only has to pass the turn on, and no tool is told that it waits for a region. */
static void await_turn(struct stub_thread *thread, struct stub_work *work, bool enters)
{
    bool is_told = !enters;
    while (whole_work(work)->ordered_position != whole_thread(thread)->share.first) {
        PUBLISH(thread->waits_for_turn, work);
        set_state(thread, STUB_WAIT_ORDERED, work);
        if (!is_told && told()) {
            is_told = true;
            pthread_mutex_unlock(&thread->team->mutex);
            TELL(mutex_wait, MUTEX_ORDERED, work);
            pthread_mutex_lock(&thread->team->mutex);
            continue;
        }
        team_sleep(thread->team);
    }
    PUBLISH(thread->waits_for_turn, NULL);
}

/* The thread is done with its chunk; team.mutex is locked. */
static void end_chunk(struct stub_thread *thread, struct stub_work *work)
{
    struct loop_share *share = &whole_thread(thread)->share;
    if (work->ordered && share->has_chunk) {
        await_turn(thread, work, false);
        whole_work(work)->ordered_position = share->last;
        work->ordered_next = (int64_t)((uint64_t)work->begin + share->last * (uint64_t)work->step);
        team_wake(thread->team);
    }
    share->has_chunk = false;
}

static bool take_static(const struct stub_thread *thread, const struct stub_work *work, struct loop_share *share)
{
    uint64_t count = whole_work((struct stub_work *)work)->count;
    uint64_t size = thread->team->size, num = thread->thread_num, trip = share->trips;
    if (work->chunk < 1) {
        uint64_t most = count / size, rest = count % size;
        share->first = num * most + (num < rest ? num : rest);
        share->last = share->first + most + (num < rest);
        if (trip || share->first == share->last)
            return false;
    } else {
        if (__builtin_mul_overflow(trip * size + num, (uint64_t)work->chunk, &share->first) || share->first >= count)
            return false;
        uint64_t left = count - share->first;
        share->last = share->first + ((uint64_t)work->chunk < left ? (uint64_t)work->chunk : left);
    }
    share->trips++;
    return true;
}

static bool take_next(const struct stub_thread *thread, struct stub_work *work, struct loop_share *share)
{
    struct whole_work *whole = whole_work(work);
    uint64_t left = whole->count - whole->taken, chunk = work->chunk;
    if (!left)
        return false;
    if (work->schedule == SCHEDULE_GUIDED) {
        uint64_t size = thread->team->size, part = left / size + (left % size != 0);
        chunk = part > chunk ? part : chunk;
    }
    share->first = whole->taken;
    share->last = share->first + (chunk < left ? chunk : left);
    whole->taken = share->last;
    work->next_iteration = share->last == whole->count
                               ? work->end
                               : (int64_t)((uint64_t)work->begin + share->last * (uint64_t)work->step);
    return true;
}

/* Ends the thread's chunk and takes another one; team.mutex is locked. */
static bool take_chunk(struct stub_thread *thread, int64_t *begin, int64_t *end)
{
    struct stub_work *work = thread->work;
    struct loop_share *share = &whole_thread(thread)->share;
    end_chunk(thread, work);
    bool taken = work->schedule == SCHEDULE_STATIC ? take_static(thread, work, share) : take_next(thread, work, share);
    if (!taken)
        return false;
    share->has_chunk = true;
    *begin = (int64_t)((uint64_t)work->begin + share->first * (uint64_t)work->step);
    *end = share->last == whole_work(work)->count
               ? work->end
               : (int64_t)((uint64_t)work->begin + share->last * (uint64_t)work->step);
    return true;
}

/* Memory that the threads share while they are in the construct: `*place` is its size, and becomes its address. */
static void share_memory(struct stub_work *work, void **place)
{
    struct whole_work *whole = whole_work(work);
    if (!whole->memory)
        whole->memory = allocate((uintptr_t)*place + 1);
    *place = whole->memory;
}

static bool start_loop(struct stub_thread *thread, struct stub_work *made, bool is_ordered, void **memory,
                       int64_t *begin, int64_t *end)
{
    set_state(thread, STUB_OVERHEAD, NULL);
    tell_of_work(thread, made, codeptr_of(thread->task), true);
    made->ordered = is_ordered;
    pthread_mutex_lock(&thread->team->mutex);
    struct stub_work *work = meet_work(thread, made);
    if (memory)
        share_memory(work, memory);
    bool taken = begin && take_chunk(thread, begin, end);
    pthread_mutex_unlock(&thread->team->mutex);
    return taken;
}

static bool continue_loop(struct stub_thread *thread, int64_t *begin, int64_t *end)
{
    pthread_mutex_lock(&thread->team->mutex);
    bool taken = take_chunk(thread, begin, end);
    pthread_mutex_unlock(&thread->team->mutex);
    return taken;
}

static void end_work(struct stub_thread *thread)
{
    struct stub_team *team = thread->team;
    pthread_mutex_lock(&team->mutex);
    struct stub_work *work = thread->work;
    if (work) {
        end_chunk(thread, work);
        if (told()) {
            set_state(thread, STUB_OVERHEAD, NULL); /* it may have waited for its turn */
            pthread_mutex_unlock(&team->mutex);
            tell_of_work(thread, work, codeptr_of(thread->task), false);
            pthread_mutex_lock(&team->mutex);
        }
        leave_work(thread, work);
    }
    pthread_mutex_unlock(&team->mutex);
}

#define START_SIGNED(thread, schedule, chunk, is_ordered, memory)                                                      \
    int64_t first, last;                                                                                               \
    struct stub_work *made =                                                                                           \
        make_loop(thread, begin, end, step, step > 0, step > 0 ? begin >= end : begin <= end, schedule, chunk);        \
    bool taken = start_loop(thread, made, is_ordered, memory, chunk_begin ? &first : NULL, &last);                     \
    if (taken) {                                                                                                       \
        *chunk_begin = (long)first;                                                                                    \
        *chunk_end = (long)last;                                                                                       \
    }                                                                                                                  \
    leave(thread);                                                                                                     \
    return taken;

#define START_UNSIGNED(thread, schedule, chunk, is_ordered, memory)                                                    \
    int64_t first, last;                                                                                               \
    struct stub_work *made = make_loop(thread, (int64_t)begin, (int64_t)end, (int64_t)step, up,                        \
                                       up ? begin >= end : begin <= end, schedule, (int64_t)chunk);                    \
    bool taken = start_loop(thread, made, is_ordered, memory, chunk_begin ? &first : NULL, &last);                     \
    if (taken) {                                                                                                       \
        *chunk_begin = (ull)first;                                                                                     \
        *chunk_end = (ull)last;                                                                                        \
    }                                                                                                                  \
    leave(thread);                                                                                                     \
    return taken;

typedef unsigned long long ull;

#define NEXT(name, type)                                                                                               \
    EXPORT bool name##_next(type *chunk_begin, type *chunk_end)                                                       \
    {                                                                                                                  \
        struct stub_thread *thread = enter(CALLERS_STACK());                                                           \
        int64_t first, last;                                                                                           \
        bool taken = continue_loop(thread, &first, &last);                                                             \
        if (taken) {                                                                                                   \
            *chunk_begin = (type)first;                                                                                \
            *chunk_end = (type)last;                                                                                   \
        }                                                                                                              \
        leave(thread);                                                                                                 \
        return taken;                                                                                                  \
    }

#define LOOP(name, schedule, is_ordered)                                                                               \
    EXPORT bool GOMP_loop_##name##_start(long begin, long end, long step, long chunk, long *chunk_begin,               \
                                         long *chunk_end)                                                             \
    {                                                                                                                  \
        struct stub_thread *thread = enter(CALLERS_STACK());                                                           \
        START_SIGNED(thread, schedule, chunk, is_ordered, NULL)                                                        \
    }                                                                                                                  \
    EXPORT bool GOMP_loop_ull_##name##_start(bool up, ull begin, ull end, ull step, ull chunk, ull *chunk_begin,       \
                                             ull *chunk_end)                                                          \
    {                                                                                                                  \
        struct stub_thread *thread = enter(CALLERS_STACK());                                                           \
        START_UNSIGNED(thread, schedule, chunk, is_ordered, NULL)                                                      \
    }                                                                                                                  \
    NEXT(GOMP_loop_##name, long)                                                                                       \
    NEXT(GOMP_loop_ull_##name, ull)

#define LOOP_RUNTIME(name, is_ordered)                                                                                 \
    EXPORT bool GOMP_loop_##name##_start(long begin, long end, long step, long *chunk_begin, long *chunk_end)          \
    {                                                                                                                  \
        struct stub_thread *thread = enter(CALLERS_STACK());                                                           \
        START_SIGNED(thread, SCHEDULE_RUNTIME, 0, is_ordered, NULL)                                                    \
    }                                                                                                                  \
    EXPORT bool GOMP_loop_ull_##name##_start(bool up, ull begin, ull end, ull step, ull *chunk_begin, ull *chunk_end)  \
    {                                                                                                                  \
        struct stub_thread *thread = enter(CALLERS_STACK());                                                           \
        START_UNSIGNED(thread, SCHEDULE_RUNTIME, 0, is_ordered, NULL)                                                  \
    }                                                                                                                  \
    NEXT(GOMP_loop_##name, long)                                                                                       \
    NEXT(GOMP_loop_ull_##name, ull)

LOOP(static, SCHEDULE_STATIC, false)
LOOP(dynamic, SCHEDULE_DYNAMIC, false)
LOOP(guided, SCHEDULE_GUIDED, false)
LOOP(nonmonotonic_dynamic, SCHEDULE_DYNAMIC, false)
LOOP(nonmonotonic_guided, SCHEDULE_GUIDED, false)
LOOP(ordered_static, SCHEDULE_STATIC, true)
LOOP(ordered_dynamic, SCHEDULE_DYNAMIC, true)
LOOP(ordered_guided, SCHEDULE_GUIDED, true)
LOOP_RUNTIME(runtime, false)
LOOP_RUNTIME(nonmonotonic_runtime, false)
LOOP_RUNTIME(maybe_nonmonotonic_runtime, false)
LOOP_RUNTIME(ordered_runtime, true)

/* The form for what the others have no arguments for. */
#define GENERAL_LOOP(name, is_ordered)                                                                                 \
    EXPORT bool GOMP_loop##name##_start(long begin, long end, long step, long schedule, long chunk, long *chunk_begin, \
                                        long *chunk_end, uintptr_t *reductions, void **memory)                        \
    {                                                                                                                  \
        if (reductions)                                                                                                \
            fail("GOMP_loop" #name "_start with task reductions is not supported");                                   \
        struct stub_thread *thread = enter(CALLERS_STACK());                                                           \
        START_SIGNED(thread, (uint32_t)schedule, chunk, is_ordered, memory)                                            \
    }                                                                                                                  \
    EXPORT bool GOMP_loop_ull##name##_start(bool up, ull begin, ull end, ull step, long schedule, ull chunk,           \
                                            ull *chunk_begin, ull *chunk_end, uintptr_t *reductions, void **memory)   \
    {                                                                                                                  \
        if (reductions)                                                                                                \
            fail("GOMP_loop_ull" #name "_start with task reductions is not supported");                               \
        struct stub_thread *thread = enter(CALLERS_STACK());                                                           \
        START_UNSIGNED(thread, (uint32_t)schedule, chunk, is_ordered, memory)                                          \
    }

GENERAL_LOOP(, false)
GENERAL_LOOP(_ordered, true)

#define END(name)                                                                                                      \
    EXPORT void GOMP_##name##_end(void)                                                                                \
    {                                                                                                                  \
        struct stub_thread *thread = enter(CALLERS_STACK());                                                           \
        end_work(thread);                                                                                              \
        pass_barrier(thread, STUB_BARRIER_IMPLICIT);                                                                   \
        leave(thread);                                                                                                 \
    }                                                                                                                  \
    EXPORT bool GOMP_##name##_end_cancel(void)                                                                         \
    {                                                                                                                  \
        struct stub_thread *thread = enter(CALLERS_STACK());                                                           \
        end_work(thread);                                                                                              \
        pass_barrier(thread, STUB_BARRIER_IMPLICIT);                                                                   \
        leave(thread);                                                                                                 \
        return false;                                                                                                  \
    }                                                                                                                  \
    EXPORT void GOMP_##name##_end_nowait(void)                                                                         \
    {                                                                                                                  \
        struct stub_thread *thread = enter(CALLERS_STACK());                                                           \
        end_work(thread);                                                                                              \
        leave(thread);                                                                                                 \
    }

END(loop)
END(sections)

static unsigned next_section(struct stub_thread *thread)
{
    int64_t first, last;
    return continue_loop(thread, &first, &last) ? (unsigned)first : 0;
}

EXPORT unsigned GOMP_sections_start(unsigned count)
{
    struct stub_thread *thread = enter(CALLERS_STACK());
    int64_t first, last;
    unsigned section = start_loop(thread, new_sections(count), false, NULL, &first, &last) ? (unsigned)first : 0;
    leave(thread);
    return section;
}

EXPORT unsigned GOMP_sections2_start(unsigned count, uintptr_t *reductions, void **memory)
{
    if (reductions)
        fail("GOMP_sections2_start with task reductions is not supported");
    struct stub_thread *thread = enter(CALLERS_STACK());
    int64_t first, last;
    unsigned section = start_loop(thread, new_sections(count), false, memory, &first, &last) ? (unsigned)first : 0;
    leave(thread);
    return section;
}

EXPORT unsigned GOMP_sections_next(void)
{
    struct stub_thread *thread = enter(CALLERS_STACK());
    unsigned section = next_section(thread);
    leave(thread);
    return section;
}

static void tell_others(struct stub_thread *thread)
{
    TELL(work, thread, WORK_SINGLE_OTHERS, 1, codeptr_of(thread->task), true);
    TELL(work, thread, WORK_SINGLE_OTHERS, 1, codeptr_of(thread->task), false);
}

/* A thread does not say when it leaves a single construct: it is in none from the beginning. */
EXPORT bool GOMP_single_start(void)
{
    struct stub_thread *thread = enter(CALLERS_STACK());
    pthread_mutex_lock(&thread->team->mutex);
    struct stub_work *work = meet_work(thread, new_work(KIND_SINGLE));
    bool is_first = work->arrived == 1;
    leave_work(thread, work);
    pthread_mutex_unlock(&thread->team->mutex);
    if (is_first)
        TELL(work, thread, WORK_SINGLE, 1, codeptr_of(thread->task), true);
    else
        tell_others(thread);
    leave(thread);
    return is_first;
}

EXPORT void *GOMP_single_copy_start(void)
{
    struct stub_thread *thread = enter(CALLERS_STACK());
    struct stub_team *team = thread->team;
    void *copied = NULL;
    bool is_told = false;
    pthread_mutex_lock(&team->mutex);
    struct stub_work *work = meet_work(thread, new_work(KIND_SINGLE));
    bool is_first = work->arrived == 1;
    if (!is_first) {
        while (!work->copied) {
            set_state(thread, STUB_WAIT_BARRIER_IMPLICIT, &team->barrier);
            if (!wait_begins(thread, SYNC_COPY, &is_told, &team->mutex))
                team_sleep(team);
        }
        copied = work->copied;
        wait_ends(thread, SYNC_COPY, &is_told, &team->mutex);
        leave_work(thread, work);
    }
    pthread_mutex_unlock(&team->mutex);
    if (is_first)
        TELL(work, thread, WORK_SINGLE, 1, codeptr_of(thread->task), true);
    else
        tell_others(thread);
    leave(thread);
    return copied;
}

EXPORT void GOMP_single_copy_end(void *data)
{
    struct stub_thread *thread = enter(CALLERS_STACK());
    struct stub_team *team = thread->team;
    TELL(work, thread, WORK_SINGLE, 1, codeptr_of(thread->task), false);
    pthread_mutex_lock(&team->mutex);
    thread->work->copied = data;
    team_wake(team);
    leave_work(thread, thread->work);
    pthread_mutex_unlock(&team->mutex);
    leave(thread);
}

EXPORT void GOMP_scope_start(uintptr_t *reductions)
{
    if (reductions)
        fail("GOMP_scope_start with task reductions is not supported");
    initialize();
}

EXPORT void GOMP_ordered_start(void)
{
    struct stub_thread *thread = enter(CALLERS_STACK());
    struct stub_work *work = thread->work;
    if (work && work->ordered && whole_thread(thread)->share.has_chunk) {
        TELL(mutex_acquire, MUTEX_ORDERED, work, codeptr_of(thread->task));
        pthread_mutex_lock(&thread->team->mutex);
        await_turn(thread, work, true);
        work->ordered_owner = thread;
        pthread_mutex_unlock(&thread->team->mutex);
        if (told()) {
            set_state(thread, STUB_OVERHEAD, NULL);
            TELL(mutex_acquired, MUTEX_ORDERED, work, codeptr_of(thread->task), false);
        }
    }
    leave(thread);
}

EXPORT void GOMP_ordered_end(void)
{
    struct stub_thread *thread = current_thread();
    struct stub_work *work = thread->work;
    if (work && work->ordered) {
        pthread_mutex_lock(&thread->team->mutex);
        bool is_owner = work->ordered_owner == thread;
        if (is_owner)
            work->ordered_owner = NULL;
        pthread_mutex_unlock(&thread->team->mutex);
        if (is_owner)
            TELL(mutex_released, MUTEX_ORDERED, work, __builtin_return_address(0), false);
    }
}
