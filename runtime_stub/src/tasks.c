/* Explicit tasks: a queue for each team, which is served at barriers and where a task waits for others. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

/* What compilers say in `flags`. */
enum {
    FLAG_UNTIED = 1, FLAG_FINAL = 2, FLAG_DEPEND = 8, FLAG_PRIORITY = 16, FLAG_UP = 1 << 8, FLAG_GRAINSIZE = 1 << 9,
    FLAG_IF = 1 << 10, FLAG_NOGROUP = 1 << 11, FLAG_REDUCTION = 1 << 12, FLAG_DETACH = 1 << 13, FLAG_STRICT = 1 << 14
};

typedef void task_code(void *);
typedef void copy_code(void *, void *);

static struct stub_task *allocate_task(enum stub_task_type type, struct stub_task *generating, struct stub_team *team,
                                       size_t more)
{
    struct stub_task *task = allocate(sizeof(struct whole_task) + more);
    task->id = new_id();
    task->type = type;
    task->status = STUB_CREATED;
    task->generating = generating;
    task->team = team;
    task->is_tied = 1;
    task->thread_num = -1;
    whole_task(task)->references = 1;
    whole_task(task)->is_targeted = generating && is_targeted(generating);
    return task;
}

struct stub_task *new_task(enum stub_task_type type, struct stub_task *generating, struct stub_team *team)
{
    return allocate_task(type, generating, team, 0);
}

void free_task(struct stub_task *task)
{
    free(task->dependences);
    free(whole_task(task)->successors);
    free(task);
}

static bool descends(const struct stub_task *task, const struct stub_task *ancestor)
{
    while (task->type >= STUB_TASK_EXPLICIT) {
        task = task->generating;
        if (task == ancestor)
            return true;
    }
    return false;
}

static void queue_task(struct stub_task *task)
{
    struct stub_team *team = task->team;
    struct whole_team *whole = whole_team(team);
    struct stub_task **place = &team->first_queued;
    if (*place && whole->last_queued->priority >= task->priority)
        place = &whole->last_queued->next_queued;
    while (*place && (*place)->priority >= task->priority)
        place = &(*place)->next_queued;
    task->next_queued = *place;
    if (!*place)
        whole->last_queued = task;
    PUBLISH(*place, task);
    team->queued_count++;
    team_wake(team);
}

/* The next task that the caller may begin, out of the queue. A task that waits begins none but those that it, or they,
 * have generated, because others might have to wait for it, and of these the youngest of the highest priority.
 * `ancestor` is that task, NULL at a barrier. */
struct stub_task *take_task(struct stub_team *team, struct stub_task *ancestor)
{
    struct stub_task *before = NULL, *task = team->first_queued;
    if (ancestor) {
        task = NULL;
        for (struct stub_task *last = NULL, *here = team->first_queued; here; last = here, here = here->next_queued) {
            if (task && here->priority < task->priority)
                break;
            if (descends(here, ancestor)) {
                before = last;
                task = here;
            }
        }
    }
    if (!task)
        return NULL;
    if (whole_team(team)->last_queued == task)
        whole_team(team)->last_queued = before;
    if (before)
        PUBLISH(before->next_queued, task->next_queued);
    else
        PUBLISH(team->first_queued, task->next_queued);
    task->next_queued = NULL;
    team->queued_count--;
    return task;
}

static void add_child(struct stub_task *task)
{
    struct stub_task *parent = task->generating;
    task->next_sibling = parent->first_child;
    if (parent->first_child)
        whole_task(parent->first_child)->previous_sibling = task;
    PUBLISH(parent->first_child, task);
    parent->child_count++;
    whole_task(parent)->references++;
    task->team->task_count++;
    if (task->taskgroup)
        task->taskgroup->count++;
}

static void remove_child(struct stub_task *task)
{
    struct stub_task *previous = whole_task(task)->previous_sibling;
    if (previous)
        PUBLISH(previous->next_sibling, task->next_sibling);
    else
        PUBLISH(task->generating->first_child, task->next_sibling);
    if (task->next_sibling)
        whole_task(task->next_sibling)->previous_sibling = previous;
    task->next_sibling = NULL;
    task->generating->child_count--;
}

static void drop_task(struct stub_task *task)
{
    while (--whole_task(task)->references == 0) {
        struct stub_task *parent = task->generating;
        free_task(task);
        task = parent;
    }
}

/* team.mutex is locked. */
static void complete_task(struct stub_task *task)
{
    struct stub_team *team = task->team;
    struct whole_task *whole = whole_task(task);
    task->status = STUB_COMPLETE;
    task->thread = NULL;
    task->scheduling = NULL;
    remove_child(task);
    for (int32_t i = 0; i < whole->successor_count; i++) {
        struct stub_task *successor = whole->successors[i];
        if (--successor->predecessor_count == 0 && !successor->is_undeferred)
            queue_task(successor);
    }
    if (task->taskgroup)
        task->taskgroup->count--;
    team->task_count--;
    team_wake(team);
    drop_task(task);
}

static void begin_group(struct stub_thread *thread);
static void end_group(struct stub_thread *thread);

/* The frame of this function is what separates the task's code from the runtime. A target region is over when all tasks
 * are that its code has created. */
static KEPT void call_task(struct stub_thread *thread, struct stub_task *task)
{
    if (debugging())
        ompd_bp_task_begin();
    bool has_group = whole_task(task)->target_kind == TARGET_REGION;
    if (has_group)
        begin_group(thread);
    set_working(thread);
    set_exit_frame(task, __builtin_frame_address(0), FRAME_RUNTIME);
    task->function(task->data);
    set_exit_frame(task, NULL, 0);
    if (has_group)
        end_group(thread);
    set_state(thread, STUB_OVERHEAD, NULL);
    if (debugging())
        ompd_bp_task_end();
}

/* team.mutex is locked, but not meanwhile. A task that waits for its event may be over when this is. */
static void tell_switch_back(struct stub_task *task, struct stub_task *left, bool is_over)
{
    struct stub_team *team = task->team;
    whole_task(task)->references++;
    pthread_mutex_unlock(&team->mutex);
    if (is_over)
        TELL(task_end, task);
    TELL(task_switch, task, left, is_over ? TASK_ENDS : TASK_DETACHES);
    pthread_mutex_lock(&team->mutex);
    drop_task(task);
}

void run_task(struct stub_thread *thread, struct stub_task *task)
{
    struct stub_team *team = task->team;
    struct stub_task *left = thread->task;
    bool is_over;
    set_state(thread, STUB_OVERHEAD, NULL);
    left->status = STUB_SUSPENDED;
    task->status = STUB_EXECUTING;
    task->thread = thread;
    if (debugging())
        task->scheduling = left;
    PUBLISH(thread->task, task);
    pthread_mutex_unlock(&team->mutex);
    TELL(task_switch, left, task, TASK_BEGINS);
    call_task(thread, task);
    pthread_mutex_lock(&team->mutex);
    PUBLISH(thread->task, left);
    left->status = STUB_EXECUTING;
    is_over = !whole_task(task)->is_detachable || whole_task(task)->is_fulfilled;
    if (!is_over) {
        task->thread = NULL;
        task->scheduling = NULL;
        task->status = STUB_DETACHED;
    }
    if (told())
        tell_switch_back(task, left, is_over);
    if (is_over)
        complete_task(task);
}

/* Until is_over(task, what), the caller's task executes its descendants, or sleeps; team.mutex is locked. */
static void wait_for_tasks(struct stub_thread *thread, bool (*is_over)(const struct stub_task *, const void *),
                           const void *what, uint32_t state, const void *wait)
{
    struct stub_team *team = thread->team;
    enum sync_kind kind = state == STUB_WAIT_TASKGROUP ? SYNC_TASKGROUP : SYNC_TASKWAIT;
    bool is_told = false;
    while (!is_over(thread->task, what)) {
        struct stub_task *task = take_task(team, thread->task);
        if (task) {
            wait_ends(thread, kind, &is_told, &team->mutex);
            run_task(thread, task);
        } else {
            set_state(thread, state, wait);
            if (!wait_begins(thread, kind, &is_told, &team->mutex))
                team_sleep(team);
        }
    }
    wait_ends(thread, kind, &is_told, &team->mutex);
}

static bool has_no_children(const struct stub_task *task, const void *unused)
{
    (void)unused;
    return task->child_count == 0;
}

static bool group_is_over(const struct stub_task *unused, const void *group)
{
    (void)unused;
    return ((const struct stub_taskgroup *)group)->count == 0;
}

static bool may_begin(const struct stub_task *unused, const void *task)
{
    (void)unused;
    return ((const struct stub_task *)task)->predecessor_count == 0;
}

static bool is_complete(const struct stub_task *unused, const void *task)
{
    (void)unused;
    return ((const struct stub_task *)task)->status == STUB_COMPLETE;
}

/* Compilers pass addresses in one of two forms: {count, count of outputs, outputs, inputs}, or, with more kinds of
 * dependence, {0, count, outputs, mutexinoutset, inputs, addresses, pointers to omp_depend_t}. */
static void read_dependences(struct stub_task *task, void **depend)
{
    uintptr_t count = (uintptr_t)depend[0];
    uintptr_t outputs = (uintptr_t)depend[1], plain = count, outs = outputs;
    void **address = depend + 2;
    if (!count) {
        count = (uintptr_t)depend[1];
        outs = (uintptr_t)depend[2];
        outputs = outs + (uintptr_t)depend[3]; /* to exclude and to order is to exclude */
        plain = outputs + (uintptr_t)depend[4];
        address = depend + 5;
    }
    task->dependences = allocate((count + 1) * sizeof *task->dependences);
    uintptr_t first_input = 0;
    for (uintptr_t i = 0; i < count; i++) {
        struct stub_dependence dependence = {address[i], i < outputs, STUB_DEPEND_IN};
        if (i < outputs)
            dependence.kind = i < outs ? STUB_DEPEND_OUT : STUB_DEPEND_MUTEXINOUTSET;
        if (i >= plain) {
            void **object = address[i];
            dependence.address = object[0];
            dependence.is_out = (uintptr_t)object[1] != STUB_DEPEND_IN;
            dependence.kind = (uint32_t)(uintptr_t)object[1];
        }
        uintptr_t place = i;
        if (dependence.is_out) {
            place = first_input++;
            memmove(&task->dependences[place + 1], &task->dependences[place], (i - place) * sizeof dependence);
        }
        task->dependences[place] = dependence;
    }
    task->dependence_count = (int32_t)count;
}

static bool depends(const struct stub_task *later, const struct stub_task *earlier)
{
    for (int32_t i = 0; i < later->dependence_count; i++)
        for (int32_t k = 0; k < earlier->dependence_count; k++)
            if (later->dependences[i].address == earlier->dependences[k].address &&
                (later->dependences[i].is_out || earlier->dependences[k].is_out))
                return true;
    return false;
}

static bool has_no_predecessor(const struct stub_task *task, const void *later)
{
    for (const struct stub_task *child = task->first_child; child; child = child->next_sibling)
        if (depends(later, child))
            return false;
    return true;
}

static void find_predecessors(struct stub_task *task)
{
    for (struct stub_task *earlier = task->generating->first_child; earlier; earlier = earlier->next_sibling) {
        if (!depends(task, earlier))
            continue;
        struct whole_task *whole = whole_task(earlier);
        if (whole->successor_count == whole->successor_room) {
            whole->successor_room = 2 * whole->successor_room + 4;
            whole->successors = realloc(whole->successors, whole->successor_room * sizeof *whole->successors);
            if (!whole->successors)
                fail("no memory for a task's successors");
        }
        whole->successors[whole->successor_count++] = task;
        task->predecessor_count++;
        TELL(dependence, earlier, task);
    }
}

/* The first place from `memory` on that is aligned so; there is room for `alignment` bytes more than are needed. */
static void *aligned(char *memory, long alignment)
{
    uintptr_t excess = alignment > 1 ? (uintptr_t)memory % (uintptr_t)alignment : 0;
    return excess ? memory + (alignment - excess) : memory;
}

/* What a task's code gets: a copy of the data that its creator has put together, or that itself. */
static struct stub_task *make_task(struct stub_thread *thread, task_code *function, void *data, copy_code *copy,
                                   long size, long alignment, bool is_deferred, unsigned flags, int priority)
{
    if (alignment < 1)
        alignment = 1;
    struct stub_task *parent = thread->task;
    bool is_final = parent->is_final || flags & FLAG_FINAL;
    bool is_undeferred = !is_deferred || is_final || thread->team->level == 0;
    struct stub_task *task = allocate_task(is_undeferred ? STUB_TASK_DEGENERATE : STUB_TASK_EXPLICIT, parent,
                                           thread->team, size + alignment);
    task->data = aligned((char *)task + sizeof(struct whole_task), alignment);
    whole_task(task)->data_size = (size_t)size;
    task->function = function;
    task->is_final = is_final;
    task->is_tied = !(flags & FLAG_UNTIED);
    task->is_undeferred = is_undeferred;
    task->priority = priority < omp_stub_process.max_task_priority ? priority : omp_stub_process.max_task_priority;
    task->taskgroup = parent->taskgroup;
    task->icvs = parent->icvs;
    if (flags & FLAG_DETACH) {
        whole_task(task)->is_detachable = true;
        if (data)
            *(void **)data = task; /* the data begins with the event's handle */
    }
    if (copy)
        copy(task->data, data);
    else if (is_undeferred)
        task->data = data;
    else if (size)
        memcpy(task->data, data, size);
    return task;
}

static void tell_created(struct stub_thread *thread, struct stub_task *task)
{
    TELL(task_create, thread, task);
    if (task->dependence_count)
        TELL(dependences, task);
}

/* team.mutex is locked. */
static void launch_task(struct stub_thread *thread, struct stub_task *task)
{
    if (task->dependence_count)
        find_predecessors(task);
    add_child(task);
    if (!task->is_undeferred) {
        if (!task->predecessor_count)
            queue_task(task);
        return;
    }
    struct whole_task *whole = whole_task(task);
    wait_for_tasks(thread, may_begin, task, STUB_WAIT_TASKWAIT, thread->task);
    whole->references++; /* it is asked whether it is complete */
    run_task(thread, task);
    wait_for_tasks(thread, is_complete, task, STUB_WAIT_TASKWAIT, thread->task);
    drop_task(task);
}

struct stub_task *new_target_task(struct stub_thread *thread, enum target_kind kind, void (*function)(void *), void *data)
{
    struct stub_task *parent = thread->task, *task = new_task(STUB_TASK_TARGET, parent, thread->team);
    task->function = function;
    task->data = data;
    task->is_final = parent->is_final;
    task->is_undeferred = 1;
    task->taskgroup = parent->taskgroup;
    task->icvs = parent->icvs;
    whole_task(task)->target_kind = kind;
    return task;
}

void run_target_task(struct stub_thread *thread, struct stub_task *task)
{
    struct stub_team *team = thread->team;
    pthread_mutex_lock(&team->mutex);
    add_child(task);
    whole_task(task)->references++;
    run_task(thread, task);
    pthread_mutex_unlock(&team->mutex);
}

void release_task(struct stub_task *task)
{
    struct stub_team *team = task->team;
    pthread_mutex_lock(&team->mutex);
    drop_task(task);
    pthread_mutex_unlock(&team->mutex);
}

EXPORT void GOMP_task(task_code *function, void *data, copy_code *copy, long size, long alignment, bool if_clause,
                      unsigned flags, void **depend, int priority, void *detach)
{
    struct stub_thread *thread = enter(CALLERS_STACK());
    set_state(thread, STUB_OVERHEAD, NULL);
    struct stub_task *task = make_task(thread, function, data, copy, size, alignment, if_clause, flags,
                                       flags & FLAG_PRIORITY ? priority : 0);
    if (flags & FLAG_DETACH)
        *(void **)detach = task;
    if (flags & FLAG_DEPEND)
        read_dependences(task, depend);
    if (told())
        tell_created(thread, task);
    pthread_mutex_lock(&thread->team->mutex);
    launch_task(thread, task);
    pthread_mutex_unlock(&thread->team->mutex);
    leave(thread);
}

EXPORT void omp_fulfill_event(uintptr_t event)
{
    struct stub_task *task = (struct stub_task *)event;
    struct stub_team *team = task->team;
    if (told())
        current_thread(); /* it may be any thread, and is told of it first */
    pthread_mutex_lock(&team->mutex);
    if (whole_task(task)->is_fulfilled)
        warn("an event is fulfilled for the second time");
    whole_task(task)->is_fulfilled = true;
    if (task->status != STUB_DETACHED) {
        TELL(task_fulfill, task, false); /* without the mutex it might be gone */
    } else {
        if (told()) {
            pthread_mutex_unlock(&team->mutex);
            TELL(task_fulfill, task, true);
            pthread_mutex_lock(&team->mutex);
        }
        complete_task(task);
    }
    pthread_mutex_unlock(&team->mutex);
}

EXPORT void omp_fulfill_event_(intptr_t event);
void omp_fulfill_event_(intptr_t event)
{
    omp_fulfill_event((uintptr_t)event);
}

static void taskwait(struct stub_thread *thread)
{
    pthread_mutex_lock(&thread->team->mutex);
    wait_for_tasks(thread, has_no_children, NULL, STUB_WAIT_TASKWAIT, thread->task);
    pthread_mutex_unlock(&thread->team->mutex);
}

EXPORT void GOMP_taskwait(void)
{
    struct stub_thread *thread = enter(CALLERS_STACK());
    TELL(sync, thread, SYNC_TASKWAIT, true);
    taskwait(thread);
    TELL(sync, thread, SYNC_TASKWAIT, false);
    leave(thread);
}

void wait_for_dependences(struct stub_thread *thread, void **depend)
{
    struct stub_task *later = new_task(STUB_TASK_DEGENERATE, thread->task, thread->team); /* no one sees it */
    read_dependences(later, depend);
    TELL(sync, thread, SYNC_TASKWAIT, true);
    pthread_mutex_lock(&thread->team->mutex);
    wait_for_tasks(thread, has_no_predecessor, later, STUB_WAIT_TASKWAIT, thread->task);
    pthread_mutex_unlock(&thread->team->mutex);
    TELL(sync, thread, SYNC_TASKWAIT, false);
    free_task(later);
}

EXPORT void GOMP_taskwait_depend(void **depend)
{
    struct stub_thread *thread = enter(CALLERS_STACK());
    wait_for_dependences(thread, depend);
    leave(thread);
}

EXPORT void GOMP_taskyield(void)
{
    initialize();
}

static void begin_group(struct stub_thread *thread)
{
    struct stub_taskgroup *group = allocate(sizeof *group);
    TELL(sync, thread, SYNC_TASKGROUP, true);
    group->enclosing = thread->task->taskgroup;
    group->task = thread->task;
    PUBLISH(thread->task->taskgroup, group);
}

static void end_group(struct stub_thread *thread)
{
    struct stub_taskgroup *group = thread->task->taskgroup;
    pthread_mutex_lock(&thread->team->mutex);
    wait_for_tasks(thread, group_is_over, group, STUB_WAIT_TASKGROUP, group);
    pthread_mutex_unlock(&thread->team->mutex);
    PUBLISH(thread->task->taskgroup, group->enclosing);
    free(group);
    TELL(sync, thread, SYNC_TASKGROUP, false);
}

EXPORT void GOMP_taskgroup_start(void)
{
    struct stub_thread *thread = enter(CALLERS_STACK());
    begin_group(thread);
    leave(thread);
}

EXPORT void GOMP_taskgroup_end(void)
{
    struct stub_thread *thread = enter(CALLERS_STACK());
    end_group(thread);
    leave(thread);
}

/* How many tasks a taskloop construct makes of its iterations, which are at least one. `wanted` is the value of its
 * grainsize or num_tasks clause, 0 if it has neither. */
static uint64_t count_tasks(uint64_t iterations, uint64_t wanted, unsigned flags, int32_t team_size)
{
    uint64_t count = wanted ? wanted : (uint64_t)team_size;
    if (flags & FLAG_GRAINSIZE) {
        uint64_t grainsize = wanted ? wanted : 1;
        count = iterations / grainsize + (flags & FLAG_STRICT && iterations % grainsize);
    }
    return count < 1 ? 1 : count > iterations ? iterations : count;
}

struct taskloop {
    task_code *function;
    void *data;
    copy_code *copy;
    long size, alignment;
    unsigned flags;
    int priority;
    uint64_t iterations, count, wanted;
};

/* The caller writes a task's bounds into its data: iterations `first` up to, not including, `last`. */
static uint64_t task_size(const struct taskloop *loop, uint64_t num, uint64_t first)
{
    if (loop->flags & FLAG_GRAINSIZE && loop->flags & FLAG_STRICT)
        return loop->wanted < loop->iterations - first ? loop->wanted : loop->iterations - first;
    return loop->iterations / loop->count + (num < loop->iterations % loop->count);
}

static struct stub_task *loop_task(struct stub_thread *thread, const struct taskloop *loop, void *copied)
{
    if (loop->copy)
        return make_task(thread, loop->function, loop->data, loop->copy, loop->size, loop->alignment,
                         loop->flags & FLAG_IF, loop->flags, loop->priority);
    memcpy(copied, loop->data, loop->size); /* an undeferred task gets this one itself */
    return make_task(thread, loop->function, copied, NULL, loop->size, loop->alignment, loop->flags & FLAG_IF,
                     loop->flags, loop->priority);
}

/* The data begins with the task's bounds, of the type of the loop. */
#define TASKLOOP(name, type, unsigned_type, counted_up)                                                                \
    EXPORT void name(task_code *function, void *data, copy_code *copy, long size, long alignment, unsigned flags,      \
                     unsigned long wanted, int priority, type begin, type end, type step)                             \
    {                                                                                                                  \
        struct stub_thread *thread = enter(CALLERS_STACK());                                                           \
        set_state(thread, STUB_OVERHEAD, NULL);                                                                        \
        unsigned_type b = begin, e = end, s = step;                                                                    \
        bool up = counted_up;                                                                                          \
        struct taskloop loop = {function, data, copy, size, alignment, flags, flags & FLAG_PRIORITY ? priority : 0,    \
                                0, 0, wanted};                                                                         \
        if (up ? begin < end : begin > end)                                                                            \
            loop.iterations = up ? (unsigned_type)(e - b - 1) / s + 1                                                  \
                                 : (unsigned_type)(b - e - 1) / (unsigned_type)(0 - s) + 1;                           \
        if (flags & FLAG_REDUCTION)                                                                                    \
            fail(#name " with reductions is not supported");                                                          \
        if (!(flags & FLAG_NOGROUP))                                                                                   \
            begin_group(thread);                                                                                       \
        if (loop.iterations)                                                                                           \
            loop.count = count_tasks(loop.iterations, wanted, flags, thread->team->size);                              \
        char *memory = allocate(size + alignment + 1);                                                                 \
        void *copied = aligned(memory, alignment);                                                                     \
        uint64_t first = 0;                                                                                            \
        for (uint64_t num = 0; num < loop.count; num++) {                                                              \
            uint64_t last = first + task_size(&loop, num, first);                                                      \
            struct stub_task *task = loop_task(thread, &loop, copied);                                                 \
            ((type *)task->data)[0] = (type)(b + (unsigned_type)first * s);                                            \
            ((type *)task->data)[1] = last == loop.iterations ? end : (type)(b + (unsigned_type)last * s);             \
            first = last;                                                                                              \
            if (told())                                                                                                \
                tell_created(thread, task);                                                                            \
            pthread_mutex_lock(&thread->team->mutex);                                                                  \
            launch_task(thread, task);                                                                                 \
            pthread_mutex_unlock(&thread->team->mutex);                                                                \
        }                                                                                                              \
        free(memory);                                                                                                  \
        if (!(flags & FLAG_NOGROUP))                                                                                   \
            end_group(thread);                                                                                         \
        leave(thread);                                                                                                 \
    }

TASKLOOP(GOMP_taskloop, long, unsigned long, step > 0)
TASKLOOP(GOMP_taskloop_ull, unsigned long long, unsigned long long, (flags & FLAG_UP) != 0)
