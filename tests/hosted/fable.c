#include "fable.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char **ompd_dll_locations;

struct fable_process fable_process;
int fable_waiting;

static const char *locations[] = {"libfable_missing.so", "libfable_ompd.so", 0};
static __thread struct fable_thread *me;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;

void ompd_dll_locations_valid(void)
{
}

static struct fable_thread *enter(struct fable_team *team, int number)
{
    me = calloc(1, sizeof *me);
    me->self = (uint64_t)pthread_self();
    me->tool = 7000 + number;
    me->state = FABLE_WORKING;
    me->team = team;
    me->number = number;
    me->task = &team->tasks[number];
    pthread_mutex_lock(&guard);
    me->next = fable_process.threads;
    fable_process.threads = me;
    pthread_mutex_unlock(&guard);
    return me;
}

static struct fable_team *team_of(struct fable_team *outer, int size, struct fable_task *creator, void (*code)(void *))
{
    struct fable_team *team = calloc(1, sizeof *team);
    team->outer = outer;
    team->size = size;
    team->level = outer ? outer->level + 1 : 0;
    team->active_level = outer ? outer->active_level + (size > 1) : 0;
    team->threads = calloc(size, sizeof *team->threads);
    team->tasks = calloc(size, sizeof *team->tasks);
    team->tool = 9000 + team->level;
    for (int n = 0; n < size; n++) {
        team->tasks[n].creator = creator;
        team->tasks[n].team = team;
        team->tasks[n].code = code;
        team->tasks[n].tool = 100 * team->level + n;
    }
    return team;
}

void fable_begin(int debug)
{
    fable_process.debug = debug;
    memcpy(fable_process.sizes, (int32_t[]){3, 2}, 2 * sizeof(int32_t));
    fable_process.processors = 64;
    strcpy(fable_process.schedule, "dynamic,4");
    struct fable_team *team = team_of(0, 1, 0, 0);
    team->threads[0] = enter(team, 0);
    fable_process.begun = 1;
    ompd_dll_locations = locations;
    ompd_dll_locations_valid();
}

struct start {
    struct fable_team *team;
    int number;
    void *argument;
};

/* The frame of this function is the one around a task's code. */
__attribute__((noinline)) static void run(struct fable_task *task, void *argument)
{
    task->exit_frame = __builtin_frame_address(0);
    task->code(argument);
    __asm__ volatile("" ::: "memory");
    task->exit_frame = 0;
}

static void *worker(void *given)
{
    struct start *start = given;
    start->team->threads[start->number] = enter(start->team, start->number);
    run(me->task, start->argument);
    me->state = FABLE_IDLE;
    me->team = 0;
    me->task = 0;
    for (;;)
        pause();
    return 0;
}

__attribute__((noinline)) void fable_parallel(void (*code)(void *), void *argument, int size)
{
    struct fable_task *task = me->task;
    struct fable_team *outer = me->team, *team = team_of(outer, size, task, code);
    int number = me->number;

    task->enter_frame = __builtin_frame_address(0);
    for (int n = 1; n < size; n++) {
        pthread_t thread;
        struct start *start = malloc(sizeof *start);
        *start = (struct start){team, n, argument};
        pthread_create(&thread, 0, worker, start);
    }
    team->threads[0] = me;
    me->team = team;
    me->task = &team->tasks[0];
    me->number = 0;
    run(me->task, argument);
    me->team = outer;
    me->task = task;
    me->number = number;
    task->enter_frame = 0;
}

__attribute__((noinline)) void fable_task(void (*code)(void *), void *argument)
{
    struct fable_task *outer = me->task, *task = calloc(1, sizeof *task);

    *task = (struct fable_task){outer, outer, me->team, code, 0, 0, 1, 1, 4242};
    outer->enter_frame = __builtin_frame_address(0);
    me->task = task;
    run(task, argument);
    me->task = outer;
    outer->enter_frame = 0;
}

static void wait_in(int state, void *what, void *frame)
{
    me->task->enter_frame = frame;
    me->wait = (uint64_t)what;
    __atomic_store_n(&me->state, state, __ATOMIC_SEQ_CST);
    for (__atomic_add_fetch(&fable_waiting, 1, __ATOMIC_SEQ_CST);;)
        pause();
}

__attribute__((noinline)) void fable_barrier(void)
{
    wait_in(FABLE_AT_BARRIER, me->team, __builtin_frame_address(0));
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) void fable_set_lock(int *lock)
{
    wait_in(FABLE_IN_LOCK, lock, __builtin_frame_address(0));
    __asm__ volatile("" ::: "memory");
}

int fable_number(void)
{
    return me->number;
}
