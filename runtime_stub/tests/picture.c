/* The picture in the report's appendix "Task Frame Management and Inspection": an outer region of two threads, of which
 * the second encounters an inner one. Records r1 to r4 are those of the tasks of code A, of B on thread 1, of B on
 * thread 2, and of C on thread 2. OMP_DEBUG=on. */
#include "check.h"
#include "structures.h"

#include <omp.h>
#include <sched.h>

static struct stub_frame *r1, *r2, *r3, *r4;
static void *frame_of_a, *frame_of_b1, *frame_of_b2, *frame_of_c;
static int is_in_c;

static struct stub_thread *thread_at(int level, int thread_num)
{
    for (struct stub_team *team = omp_stub_process.teams; team; team = team->next)
        if (team->level == level)
            return team->threads[thread_num];
    abort();
}

/* The runtime's frame that has called the function whose frame this is. */
static void *caller_of(void *frame)
{
    return *(void **)frame;
}

/* Between the stack pointer at the call and the end of the frame. */
static void check_within(const void *address, const void *frame)
{
    CHECK((const char *)address <= (const char *)frame + 2 * sizeof(void *));
    CHECK((const char *)address >= (const char *)frame - 4096);
}

static void check_records(void)
{
    CHECK(!r1->exit_runtime_frame);
    check_within(r1->reenter_runtime_frame, frame_of_a);       /* f1 */
    CHECK(r2->exit_runtime_frame == caller_of(frame_of_b1));   /* f4 */
    CHECK(!r2->reenter_runtime_frame);
    CHECK(r3->exit_runtime_frame == caller_of(frame_of_b2));   /* f7 */
    check_within(r3->reenter_runtime_frame, frame_of_b2);      /* f8 */
    CHECK(r4->exit_runtime_frame == caller_of(frame_of_c));    /* f11 */
    CHECK(!r4->reenter_runtime_frame);
    /* Stacks grow downwards: on each thread the frames come in this order. */
    CHECK((char *)r1->reenter_runtime_frame > (char *)r2->exit_runtime_frame);
    CHECK((char *)r2->exit_runtime_frame > (char *)frame_of_b1);
    CHECK((char *)r3->exit_runtime_frame > (char *)r3->reenter_runtime_frame);
    CHECK((char *)r3->reenter_runtime_frame > (char *)r4->exit_runtime_frame);
    CHECK((char *)r4->exit_runtime_frame > (char *)frame_of_c);
    /* Three records on the second thread, two on the first. */
    struct stub_task *c = thread_at(2, 0)->task;
    CHECK(&c->frame == r4 && &c->generating->frame == r3 && &c->generating->generating->frame == r1);
    CHECK(!c->generating->generating->generating);
    struct stub_task *b = thread_at(1, 0)->task;
    CHECK(&b->frame == r2 && &b->generating->frame == r1);
}

int main(void)
{
    omp_set_max_active_levels(2);
    frame_of_a = __builtin_frame_address(0);
    r1 = &thread_at(0, 0)->task->frame;
    #pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 0) {
            frame_of_b1 = __builtin_frame_address(0);
            r2 = &thread_at(1, 0)->task->frame;
            while (!__atomic_load_n(&is_in_c, __ATOMIC_ACQUIRE))
                sched_yield();
            check_records();
            __atomic_store_n(&is_in_c, 2, __ATOMIC_RELEASE);
        } else {
            frame_of_b2 = __builtin_frame_address(0);
            r3 = &thread_at(1, 1)->task->frame;
            #pragma omp parallel num_threads(2)
            if (omp_get_thread_num() == 0) {
                frame_of_c = __builtin_frame_address(0);
                r4 = &thread_at(2, 0)->task->frame;
                __atomic_store_n(&is_in_c, 1, __ATOMIC_RELEASE);
                while (__atomic_load_n(&is_in_c, __ATOMIC_ACQUIRE) == 1)
                    sched_yield();
            }
        }
    }
    return 0;
}
