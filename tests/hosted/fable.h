/* A runtime that nobody has a plugin for, and whose library for debuggers alone knows these structures. */
#ifndef FABLE_H
#define FABLE_H

#include <stdint.h>

enum { FABLE_WORKING = 0x001, FABLE_AT_BARRIER = 0x014, FABLE_IN_LOCK = 0x041, FABLE_IDLE = 0x100, FABLE_OWN = 0x777 };

struct fable_task {
    struct fable_task *creator, *suspended;
    struct fable_team *team;
    void (*code)(void *);
    void *exit_frame, *enter_frame;
    int32_t is_explicit, is_final;
    uint64_t tool;
};

struct fable_team {
    struct fable_team *outer;
    int32_t size, level, active_level;
    struct fable_thread **threads;
    struct fable_task *tasks; /* an array: the implicit ones */
    uint64_t tool;
};

struct fable_thread {
    uint64_t self; /* pthread_self() */
    struct fable_thread *next;
    struct fable_team *team;
    struct fable_task *task;
    int32_t number, state;
    uint64_t wait, tool;
};

struct fable_process {
    int32_t begun, debug;
    struct fable_thread *threads;
    int32_t sizes[4];
    int32_t cancel, processors;
    char schedule[32];
};

extern int fable_waiting; /* how many threads wait */

void fable_begin(int debug);
void fable_parallel(void (*code)(void *), void *argument, int size);
void fable_task(void (*code)(void *), void *argument);
void fable_barrier(void);
void fable_set_lock(int *lock);
int fable_number(void);

#endif
