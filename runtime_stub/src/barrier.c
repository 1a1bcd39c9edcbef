/* Barriers, at which the explicit tasks of a team are executed too. */
#include "internal.h"

/* Where a region is closed, all but the primary thread wait until that one opens the barrier. `tells`: of waits. */
static inline __attribute__((always_inline)) void gather(struct stub_thread *thread, enum stub_barrier_kind kind,
                                                         bool closes, bool tells)
{
    struct stub_team *team = thread->team;
    struct stub_barrier *barrier = &team->barrier;
    uint32_t state = kind == STUB_BARRIER_EXPLICIT ? STUB_WAIT_BARRIER_EXPLICIT : STUB_WAIT_BARRIER_IMPLICIT;
    bool decides = !closes || thread->thread_num == 0;
    bool is_told = false;
    pthread_mutex_lock(&team->mutex);
    uint64_t generation = barrier->generation;
    barrier->kind = kind;
    team->implicit[thread->thread_num]->at_barrier = (int32_t)kind;
    if (++barrier->arrived == barrier->expected)
        team_wake(team);
    set_state(thread, state, barrier);
    while (barrier->generation == generation) {
        struct stub_task *task = take_task(team, NULL);
        if (task) {
            if (tells)
                wait_ends(thread, (enum sync_kind)kind, &is_told, &team->mutex);
            run_task(thread, task);
            set_state(thread, state, barrier);
        } else if (decides && barrier->arrived == barrier->expected && team->task_count == 0) {
            if (closes)
                break;
            open_barrier(team);
            team_wake(team);
        } else if (!tells || !wait_begins(thread, (enum sync_kind)kind, &is_told, &team->mutex)) {
            team_sleep(team);
        }
    }
    if (tells)
        wait_ends(thread, (enum sync_kind)kind, &is_told, &team->mutex);
    pthread_mutex_unlock(&team->mutex);
}

/* Implicit tasks end behind the barrier at which their region is closed, and where they are told of they have to be there
 * still: with a tool that barrier is passed as any other one, and then they gather once more. All of a team do, also if
 * the tool ends itself meanwhile. */
static void tell_barrier(struct stub_thread *thread, enum stub_barrier_kind kind, bool twice)
{
    TELL(sync, thread, (enum sync_kind)kind, true);
    gather(thread, kind, kind == STUB_BARRIER_CLOSING && !twice, true);
    set_state(thread, STUB_OVERHEAD, NULL);
    TELL(sync, thread, (enum sync_kind)kind, false);
    if (!twice)
        return;
    TELL(implicit_task, thread, false);
    if (thread->thread_num) {
        whole_thread(thread)->is_idle = true;
        TELL(idle, thread, true);
    }
    gather(thread, kind, true, false);
}

void pass_barrier(struct stub_thread *thread, enum stub_barrier_kind kind)
{
    bool twice = kind == STUB_BARRIER_CLOSING && whole_team(thread->team)->closes_twice;
    if (__builtin_expect(twice || told(), 0))
        tell_barrier(thread, kind, twice);
    else
        gather(thread, kind, kind == STUB_BARRIER_CLOSING, false);
}

void open_barrier(struct stub_team *team)
{
    struct stub_barrier *barrier = &team->barrier;
    for (int32_t num = 0; num < team->size; num++)
        team->implicit[num]->at_barrier = 0;
    barrier->arrived = 0;
    barrier->kind = STUB_BARRIER_NONE;
    barrier->generation++;
}

/* The compiler calls this also for the barrier at the end of a worksharing loop whose schedule it has resolved itself:
 * nothing tells it from an explicit one. */
EXPORT void GOMP_barrier(void)
{
    struct stub_thread *thread = enter(CALLERS_STACK());
    pass_barrier(thread, STUB_BARRIER_EXPLICIT);
    leave(thread);
}

EXPORT bool GOMP_barrier_cancel(void)
{
    struct stub_thread *thread = enter(CALLERS_STACK());
    pass_barrier(thread, STUB_BARRIER_EXPLICIT);
    leave(thread);
    return false;
}
