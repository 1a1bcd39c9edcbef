/* Barriers, at which the explicit tasks of a team are executed too. */
#include "internal.h"

/* At the closing barrier of a region all but the primary thread wait until that one opens it. */
void pass_barrier(struct stub_thread *thread, enum stub_barrier_kind kind)
{
    struct stub_team *team = thread->team;
    struct stub_barrier *barrier = &team->barrier;
    uint32_t state = kind == STUB_BARRIER_EXPLICIT ? STUB_WAIT_BARRIER_EXPLICIT : STUB_WAIT_BARRIER_IMPLICIT;
    bool decides = kind != STUB_BARRIER_CLOSING || thread->thread_num == 0;
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
            run_task(thread, task);
            set_state(thread, state, barrier);
        } else if (decides && barrier->arrived == barrier->expected && team->task_count == 0) {
            if (kind == STUB_BARRIER_CLOSING)
                break;
            open_barrier(team);
            team_wake(team);
        } else {
            team_sleep(team);
        }
    }
    pthread_mutex_unlock(&team->mutex);
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
