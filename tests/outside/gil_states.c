/* An extension of Python: a thread takes the interpreter lock with a thread state that the main thread has made, which
 * then wants the lock back.
 *
 * lend(0)  the thread that has it reads until standard input ends, and gives it back.
 * lend(1)  it waits for a mutex that the main thread has.
 */
#define _GNU_SOURCE
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Python.h is not needed for these. */
extern void *PyInterpreterState_Get(void);
extern void *PyThreadState_New(void *);
extern void PyThreadState_Clear(void *);
extern void PyThreadState_DeleteCurrent(void);
extern void *PyEval_SaveThread(void);
extern void PyEval_RestoreThread(void *);

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile int has_lock, is_stuck;

static void say(const char *name)
{
    char text[128];
    const char *format = "{\"tid\": %d, \"name\": \"%s\", \"object\": 0, \"owner\": 0}\n";
    int size = snprintf(text, sizeof text, format, (int)syscall(SYS_gettid), name);
    if (write(1, text, size) != size)
        _exit(71);
}

static void *borrow(void *state)
{
    char byte;
    PyEval_RestoreThread(state);
    say("borrows");
    has_lock = 1;
    if (is_stuck)
        pthread_mutex_lock(&mutex);
    while (read(0, &byte, 1) > 0)
        ;
    PyThreadState_Clear(state);
    PyThreadState_DeleteCurrent();
    return NULL;
}

void lend(int stuck)
{
    pthread_t thread;
    omp_get_max_threads(); /* so that the process has a runtime of OpenMP */
    void *state = PyThreadState_New(PyInterpreterState_Get());
    is_stuck = stuck;
    pthread_mutex_lock(&mutex);
    void *own = PyEval_SaveThread();
    pthread_create(&thread, NULL, borrow, state);
    while (!has_lock)
        sched_yield();
    say("main");
    PyEval_RestoreThread(own);
    pthread_mutex_unlock(&mutex);
    pthread_join(thread, NULL);
}
