/* States, wait ids and the four cases of frames, as a paused thread shows them: the main thread looks at the others,
 * which wait. OMP_DEBUG=on. */
#include "check.h"
#include "structures.h"

#include <omp.h>
#include <sched.h>
#include <unistd.h>

#define OUTSIDE __attribute__((noipa))

static volatile int stage; /* what the looking thread has reached */

static void await(volatile int *place, int value)
{
    while (__atomic_load_n(place, __ATOMIC_ACQUIRE) < value)
        sched_yield();
}

static struct stub_thread *thread_of(int thread_num)
{
    for (struct stub_team *team = omp_stub_process.teams; team; team = team->next)
        if (team->level == 1)
            return team->threads[thread_num];
    abort();
}

/* Until a thread is in a state; it has then a while to fall asleep in it. */
static struct stub_thread *await_state(int thread_num, uint32_t state)
{
    struct stub_thread *thread = thread_of(thread_num);
    while (__atomic_load_n(&thread->state, __ATOMIC_ACQUIRE) != state)
        sched_yield();
    usleep(2000);
    IS(uint32_t, thread->state, state);
    return thread;
}

static void check_reenter(const struct stub_task *task, const void *low, const void *high)
{
    const char *address = task->frame.reenter_runtime_frame;
    IS(int, task->frame.reenter_frame_flags, 0x31);
    CHECK(address >= (const char *)low && address < (const char *)high);
}

static void check_outside(const struct stub_task *task)
{
    CHECK(!task->frame.reenter_runtime_frame);
    IS(int, task->frame.reenter_frame_flags, 0);
}

static omp_lock_t lock;
static omp_nest_lock_t nest;
static void *waiting_low, *waiting_high; /* of the frame that waits */

/* In the code of a region or task, as an outlined function: its caller is the runtime. */
#define CALLERS_FRAME() __builtin_frame_address(1)
#define BOUNDS()                                                                                                       \
    (waiting_low = (char *)__builtin_frame_address(0) - 4096,                                                          \
     waiting_high = (char *)__builtin_frame_address(0) + 2 * sizeof(void *))

/* Thread 1 of a region of two comes to wait somewhere, thread 0 looks at it and lets it go. */
static void while_waiting(void (*look)(void), void (*wait)(void))
{
    stage = 0;
    #pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 0)
            look();
        else
            wait();
    }
}

static struct stub_thread *look_at(uint32_t state)
{
    struct stub_thread *thread = await_state(1, state);
    check_reenter(thread->task, waiting_low, waiting_high);
    IS(int, thread->task->type, STUB_TASK_IMPLICIT);
    IS(int, thread->task->frame.exit_frame_flags, 0x20);
    CHECK((char *)thread->task->frame.exit_runtime_frame > (char *)waiting_low);
    return thread;
}

#define IS_WAITING_FOR(thread, id) CHECK((thread)->wait_id == (uintptr_t)(id))

static struct stub_lock *find_lock(uint32_t kind, const void *variable)
{
    for (struct stub_lock *found = omp_stub_process.locks; found; found = found->next)
        if (found->kind == kind && (!variable || found->variable == variable))
            return found;
    abort();
}

static void check_waiter(const struct stub_lock *found, const struct stub_thread *thread)
{
    CHECK(found->owner && found->owner->team == thread->team && found->owner->thread_num == 0);
    CHECK(found->first_waiter == thread && !thread->next_waiter && thread->waits_for == found);
    IS(int, found->waiter_count, 1);
    IS(int, found->count, 1);
}

static OUTSIDE void look_lock(void)
{
    struct stub_lock *found = find_lock(STUB_LOCK, &lock);
    struct stub_thread *thread = look_at(STUB_WAIT_LOCK);
    IS_WAITING_FOR(thread, found);
    check_waiter(found, thread);
    IS(uint32_t, found->number, *(uint32_t *)&lock);
    omp_unset_lock(&lock);
}

static OUTSIDE void wait_lock(void)
{
    BOUNDS();
    omp_set_lock(&lock);
    check_outside(thread_of(1)->task);
    IS(uint32_t, thread_of(1)->state, STUB_WORK_PARALLEL);
    IS(uint64_t, thread_of(1)->wait_id, 0);
    omp_unset_lock(&lock);
}

static OUTSIDE void look_nest_lock(void)
{
    struct stub_lock *found = find_lock(STUB_NEST_LOCK, &nest);
    struct stub_thread *thread = look_at(STUB_WAIT_NEST_LOCK);
    IS_WAITING_FOR(thread, found);
    check_waiter(found, thread);
    CHECK(found->owner_task == thread->team->encountering);
    omp_unset_nest_lock(&nest);
}

static OUTSIDE void wait_nest_lock(void)
{
    BOUNDS();
    omp_set_nest_lock(&nest);
    omp_unset_nest_lock(&nest);
}

static OUTSIDE void look_critical(void)
{
    #pragma omp critical(named)
    {
        stage = 1;
        struct stub_thread *thread = look_at(STUB_WAIT_CRITICAL);
        IS_WAITING_FOR(thread, find_lock(STUB_CRITICAL, NULL));
        check_waiter(find_lock(STUB_CRITICAL, NULL), thread);
    }
}

static OUTSIDE void wait_critical(void)
{
    BOUNDS();
    await(&stage, 1);
    #pragma omp critical(named)
    stage = 2;
}

static OUTSIDE void look_unnamed(void)
{
    #pragma omp critical
    {
        stage = 1;
        struct stub_thread *thread = look_at(STUB_WAIT_CRITICAL);
        IS_WAITING_FOR(thread, find_lock(STUB_CRITICAL_UNNAMED, NULL));
        check_waiter(find_lock(STUB_CRITICAL_UNNAMED, NULL), thread);
    }
}

static OUTSIDE void wait_unnamed(void)
{
    BOUNDS();
    await(&stage, 1);
    #pragma omp critical
    stage = 2;
}

void GOMP_atomic_start(void);
void GOMP_atomic_end(void);

static OUTSIDE void look_atomic(void)
{
    GOMP_atomic_start();
    stage = 1;
    struct stub_thread *thread = look_at(STUB_WAIT_ATOMIC);
    IS_WAITING_FOR(thread, find_lock(STUB_ATOMIC, NULL));
    GOMP_atomic_end();
}

static OUTSIDE void wait_atomic(void)
{
    BOUNDS();
    await(&stage, 1);
    GOMP_atomic_start();
    GOMP_atomic_end();
}

static OUTSIDE void look_barrier(void)
{
    struct stub_thread *thread = look_at(STUB_WAIT_BARRIER_EXPLICIT);
    IS_WAITING_FOR(thread, &thread->team->barrier);
    IS(int, thread->team->barrier.arrived, 1);
    IS(int, thread->task->at_barrier, STUB_BARRIER_EXPLICIT);
    IS(int, thread_of(0)->task->at_barrier, 0);
    IS(uint32_t, thread->team->barrier.kind, STUB_BARRIER_EXPLICIT);
    #pragma omp barrier
}

static OUTSIDE void wait_barrier(void)
{
    BOUNDS();
    #pragma omp barrier
    check_outside(thread_of(1)->task);
}

static OUTSIDE void look_closing(void)
{
    struct stub_thread *thread = await_state(1, STUB_WAIT_BARRIER_IMPLICIT);
    IS_WAITING_FOR(thread, &thread->team->barrier);
    IS(uint32_t, thread->team->barrier.kind, STUB_BARRIER_CLOSING);
    CHECK(!thread->task->frame.exit_runtime_frame && !thread->task->frame.reenter_runtime_frame);
    struct stub_task *encountering = thread->team->encountering;
    IS(int, encountering->type, STUB_TASK_SERIAL);
    IS(int, encountering->status, STUB_SUSPENDED);
    IS(int, encountering->frame.reenter_frame_flags, 0x31);
}

static OUTSIDE void wait_closing(void)
{
}

static void test_workshare(void)
{
    int both = 0;
    #pragma omp parallel num_threads(2)
    {
        #pragma omp for schedule(dynamic)
        for (int i = 0; i < 2; i++) {
            if (omp_get_thread_num() == 1)
                BOUNDS();
            COUNT_UP(&both, 0);
            await(&both, 2); /* one iteration each */
            if (omp_get_thread_num() == 0) {
                struct stub_thread *thread = look_at(STUB_WAIT_BARRIER_IMPLICIT);
                IS_WAITING_FOR(thread, &thread->team->barrier);
                IS(uint32_t, thread->team->barrier.kind, STUB_BARRIER_IMPLICIT);
                IS(uint32_t, thread_of(0)->work->kind, 1);
                CHECK(thread->team->works == thread_of(0)->work && !thread->work);
            }
        }
    }
}

static void test_ordered(void)
{
    int entered = 0;
    #pragma omp parallel for ordered schedule(static, 1) num_threads(2)
    for (int i = 0; i < 2; i++) {
        if (i == 1)
            BOUNDS();
        if (i == 0) {
            struct stub_work *work = thread_of(0)->work;
            IS_WAITING_FOR(look_at(STUB_WAIT_ORDERED), work);
            IS(int64_t, work->ordered_next, 0);
        }
        #pragma omp ordered
        entered++;
    }
    IS(int, entered, 2);
}

static OUTSIDE void serve(void)
{
    #pragma omp barrier
}

/* Thread 1 waits for a task that thread 0 executes, while it waits at the barrier. */
static OUTSIDE void wait_taskwait(void)
{
    #pragma omp task
    {
        struct stub_thread *thread = thread_of(0);
        struct stub_task *task = thread->task;
        IS(int, task->type, STUB_TASK_EXPLICIT);
        IS(uint32_t, thread->state, STUB_WORK_PARALLEL);
        CHECK(task->frame.exit_runtime_frame == CALLERS_FRAME());
        check_outside(task);
        struct stub_task *left = task->scheduling;
        CHECK(left == thread->team->implicit[0] && left->status == STUB_SUSPENDED);
        IS(int, left->frame.reenter_frame_flags, 0x31); /* at the barrier */
        stage = 1;
        struct stub_thread *waiting = look_at(STUB_WAIT_TASKWAIT);
        IS_WAITING_FOR(waiting, waiting->task);
        IS(int, waiting->task->child_count, 1);
        CHECK(waiting->task->first_child == task && task->generating == waiting->task);
    }
    BOUNDS();
    await(&stage, 1);
    #pragma omp taskwait
    #pragma omp barrier
}

static OUTSIDE void wait_taskgroup(void)
{
    BOUNDS();
    #pragma omp taskgroup
    {
        #pragma omp task
        {
            stage = 1;
            struct stub_thread *waiting = look_at(STUB_WAIT_TASKGROUP);
            IS_WAITING_FOR(waiting, waiting->task->taskgroup);
            IS(int, waiting->task->taskgroup->count, 1);
        }
        await(&stage, 1);
    }
    #pragma omp barrier
}

/* The table of the report: exit and reenter, null and not. */
static void test_cases(void)
{
    struct stub_thread *self = omp_stub_process.threads;
    while (self->type != STUB_THREAD_INITIAL)
        self = self->next;
    struct stub_task *initial = self->task;
    CHECK(!initial->frame.exit_runtime_frame && !initial->frame.reenter_runtime_frame);
    IS(uint32_t, self->state, STUB_WORK_SERIAL);
    CHECK(!self->idle_frame);
    stage = 0;
    BOUNDS();
    void *low = waiting_low, *high = waiting_high;
    #pragma omp parallel num_threads(2)
    {
        CHECK(!initial->frame.exit_runtime_frame);
        check_reenter(initial, low, high);
        struct stub_task *task = thread_of(omp_get_thread_num())->task;
        CHECK(task->frame.exit_runtime_frame == CALLERS_FRAME());
        check_outside(task);
        IS(uint32_t, thread_of(omp_get_thread_num())->state, STUB_WORK_PARALLEL);
        #pragma omp barrier
        if (omp_get_thread_num() == 0) {
            #pragma omp task
            stage = 1;
            struct stub_task *queued = task->first_child; /* thread 1 may have begun it */
            if (queued && queued->status == STUB_CREATED)
                CHECK(!queued->frame.exit_runtime_frame && !queued->frame.reenter_runtime_frame);
            void *frame = __builtin_frame_address(0);
            #pragma omp parallel num_threads(2)
            {
                IS(int, task->status, STUB_SUSPENDED);
                CHECK(task->frame.exit_runtime_frame);
                CHECK((char *)task->frame.reenter_runtime_frame <= (char *)frame);
                IS(int, task->frame.reenter_frame_flags, 0x31);
            }
        }
    }
    check_outside(initial);
    IS(uint32_t, self->state, STUB_WORK_SERIAL);
    for (struct stub_thread *thread = omp_stub_process.pool; thread; thread = thread->next_idle) {
        IS(uint32_t, thread->state, STUB_IDLE);
        CHECK(!thread->team && !thread->task && !thread->wait_id);
        CHECK(thread->stack_low < thread->stack_high);
        CHECK(thread->idle_frame > thread->stack_low && thread->idle_frame < thread->stack_high);
    }
}

int main(void)
{
    omp_get_max_threads();
    IS(int, omp_stub_process.debug_enabled, 1);
    test_cases();
    for (int i = 0; i < 5; i++) {
        omp_init_lock(&lock);
        omp_init_nest_lock(&nest);
        omp_set_lock(&lock);
        while_waiting(look_lock, wait_lock);
        omp_set_nest_lock(&nest);
        while_waiting(look_nest_lock, wait_nest_lock);
        omp_destroy_lock(&lock);
        omp_destroy_nest_lock(&nest);
        while_waiting(look_critical, wait_critical);
        while_waiting(look_unnamed, wait_unnamed);
        while_waiting(look_atomic, wait_atomic);
        while_waiting(look_barrier, wait_barrier);
        while_waiting(look_closing, wait_closing);
        while_waiting(serve, wait_taskwait);
        while_waiting(serve, wait_taskgroup);
        test_workshare();
        test_ordered();
    }
    return 0;
}
