/* Where a debugger plants breakpoints: the program's own functions take the place of the library's empty ones. What is
 * current there is what OpenMP's chapter on OMPD says. OMP_DEBUG=on. */
#include "check.h"
#include "structures.h"

#include <omp.h>
#include <unistd.h>

static int thread_begins, thread_ends, parallel_begins, parallel_ends, task_begins, task_ends;

static struct stub_thread *self(void)
{
    for (struct stub_thread *thread = omp_stub_process.threads; thread; thread = thread->next)
        if (thread->native_id == gettid())
            return thread;
    abort(); /* at each of them the thread is known */
}

void ompd_bp_thread_begin(void)
{
    CHECK(self()->type == STUB_THREAD_INITIAL || !self()->team);
    COUNT_UP(&thread_begins, 0);
}

void ompd_bp_thread_end(void)
{
    if (self()->type == STUB_THREAD_WORKER)
        CHECK(!self()->team); /* of a worker that ends, as all do before a tool ends */
    else
        IS(int, self()->team->level, 0);
    COUNT_UP(&thread_ends, 0);
}

static void check_region(void)
{
    struct stub_thread *thread = self();
    CHECK(thread->task == thread->team->encountering && thread->team->threads[0] == thread);
    IS(int, thread->team->level, thread->task->team->level + 1);
    struct stub_team *listed = omp_stub_process.teams;
    while (listed != thread->team)
        listed = listed->next;
}

void ompd_bp_parallel_begin(void)
{
    check_region();
    COUNT_UP(&parallel_begins, 0);
}

void ompd_bp_parallel_end(void)
{
    check_region();
    COUNT_UP(&parallel_ends, 0);
}

void ompd_bp_task_begin(void)
{
    struct stub_task *task = self()->task;
    CHECK(task->thread == self() && task->status == STUB_EXECUTING && !task->frame.exit_runtime_frame);
    COUNT_UP(&task_begins, 0);
}

void ompd_bp_task_end(void)
{
    CHECK(self()->task->thread == self() && !self()->task->frame.exit_runtime_frame);
    COUNT_UP(&task_ends, 0);
}

static void *use_openmp(void *unused)
{
    omp_get_thread_num();
    return unused;
}

int main(void)
{
    pthread_t thread;
    omp_set_max_active_levels(2);
    #pragma omp parallel num_threads(3)
    {
        #pragma omp task
        {
            #pragma omp parallel num_threads(2)
            {
                #pragma omp taskyield
            }
        }
    }
    IS(int, parallel_begins, 4);
    IS(int, parallel_ends, 4);
    IS(int, task_begins, 3 + 3 + 6);
    IS(int, task_ends, 3 + 3 + 6);
    IS(int, thread_begins, omp_stub_process.thread_count);
    IS(int, thread_ends, 0);
    pthread_create(&thread, NULL, use_openmp, NULL);
    pthread_join(thread, NULL);
    IS(int, thread_begins, omp_stub_process.thread_count + 1);
    IS(int, thread_ends, 1);
    return 0;
}
