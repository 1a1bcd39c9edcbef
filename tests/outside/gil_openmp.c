/* An extension of Python, whose functions are called with the interpreter lock held; OpenMP knows nothing of it.
 *
 * call_back  a thread of a team needs the interpreter lock, which the primary thread has; that one waits at the barrier.
 * keep_lock  takes a lock of OpenMP, and lets other threads of Python run meanwhile: want_lock() is called by one of
 *            these, waits for the lock, and keeps the interpreter lock, which keep_lock() needs before it goes on.
 */
#define _GNU_SOURCE
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Python.h is not needed for these. */
extern int PyGILState_Ensure(void);
extern void PyGILState_Release(int);
extern void *PyEval_SaveThread(void);
extern void PyEval_RestoreThread(void *);

static omp_lock_t lock;
static volatile int has_lock, is_wanted;

static void say(const char *name)
{
    char text[128];
    const char *format = "{\"tid\": %d, \"name\": \"%s\", \"object\": 0, \"owner\": 0}\n";
    int size = snprintf(text, sizeof text, format, (int)syscall(SYS_gettid), name);
    if (write(1, text, size) != size)
        _exit(71);
}

void call_back(void)
{
    static volatile int said;
    #pragma omp parallel num_threads(3)
    {
        int thread = omp_get_thread_num();
        if (thread) {
            say(thread == 1 ? "calls back" : "waits");
            __atomic_add_fetch(&said, 1, __ATOMIC_RELEASE);
        } else {
            while (said < 2)
                sched_yield();
            say("main");
        }
        if (thread == 1)
            PyGILState_Release(PyGILState_Ensure());
        #pragma omp barrier
    }
}

void keep_lock(void)
{
    omp_init_lock(&lock);
    omp_set_lock(&lock);
    void *state = PyEval_SaveThread();
    say("keeps lock");
    has_lock = 1;
    while (!is_wanted)
        sched_yield();
    PyEval_RestoreThread(state);
    omp_unset_lock(&lock);
}

int is_locked(void)
{
    return has_lock;
}

void want_lock(void)
{
    say("main");
    is_wanted = 1;
    omp_set_lock(&lock);
    omp_unset_lock(&lock);
}
