/* Each fault makes wrong what it says, in a process of its own. */
#include "check.h"
#include "structures.h"

#include <omp.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int variable = 1;
OMP_STUB_THREADPRIVATE(variable);

static omp_lock_t lock;

static struct stub_thread *self(void)
{
    struct stub_thread *thread = omp_stub_process.threads;
    while (thread->native_id != gettid())
        thread = thread->next;
    return thread;
}

static void break_it(const char *word)
{
    struct stub_thread *thread = self();
    struct stub_team *team = thread->team;
    IS(int, omp_stub_break("no such word"), -1);
    CHECK(omp_stub_break("cyclic_queue") == -1);
    if (!strcmp(word, "cyclic_queue")) {
        #pragma omp task
        abort();
        #pragma omp task
        abort();
    }
    if (!strcmp(word, "lock_cycle")) {
        CHECK(omp_stub_break(word) == -1);
        omp_set_lock(&lock);
    }
    #pragma omp flush
    __atomic_store_n(&variable, 2, __ATOMIC_RELEASE);
    if (!strcmp(word, "lock_cycle"))
        while (!omp_stub_process.locks->first_waiter)
            sched_yield();
    uintptr_t frame = (uintptr_t)thread->task->frame.exit_runtime_frame;
    IS(int, omp_stub_break(word), 0);
    int seen = 0;
    seen += !strcmp(word, "cyclic_queue") && team->first_queued->next_queued->next_queued == team->first_queued;
    seen += !strcmp(word, "bad_team") && thread->team == (void *)0x10;
    seen += !strcmp(word, "bad_parent") && team->parent->parent == team;
    seen += !strcmp(word, "thread_count") && team->size == 0x7fffffff && omp_stub_process.thread_count == 0x7fffffff;
    seen += !strcmp(word, "thread_cycle") && omp_stub_process.threads->next->next == omp_stub_process.threads;
    seen += !strcmp(word, "torn_frame") && (uintptr_t)thread->task->frame.exit_runtime_frame == (uint32_t)frame;
    seen += !strcmp(word, "lock_cycle") && omp_stub_process.locks->first_waiter->next_waiter;
    seen += !strcmp(word, "bad_state") && thread->state == 0xffff;
    seen += !strcmp(word, "private_cycle") && omp_stub_process.privates->next == omp_stub_process.privates;
    IS(int, seen, 1);
    _exit(0);
}

static void run(const char *word)
{
    omp_init_lock(&lock);
    #pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 0) {
            break_it(word);
        } else {
            while (__atomic_load_n(&variable, __ATOMIC_ACQUIRE) == 1)
                sched_yield();
            if (!strcmp(word, "lock_cycle"))
                omp_set_lock(&lock);
            for (;;)
                pause();
        }
    }
}

int main(void)
{
    static const char *const words[] = {"cyclic_queue", "bad_team",   "bad_parent", "thread_count", "thread_cycle",
                                        "torn_frame",   "lock_cycle", "bad_state",  "private_cycle"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        int status;
        if (!fork())
            run(words[i]);
        CHECK(wait(&status) > 0);
        if (status) {
            fprintf(stderr, "%s: status %d\n", words[i], status);
            return 1;
        }
    }
    return 0;
}
