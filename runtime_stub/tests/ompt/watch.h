/* What tools of each generation count, and what the program counts of itself: begins and ends of each kind have to be as
 * many as the program says, and no thread hears of anything while it waits or idles. */
#ifndef WATCH_H
#define WATCH_H

#include "../check.h"

#include <stdbool.h>
#include <stdint.h>

enum what {
    THREAD, INITIAL_TASK, IDLE, REGION, IMPLICIT_TASK, TASK, UNDEFERRED, SWITCH, DEPENDENCES, DEPENDENCE, BARRIER, TASKWAIT,
    TASKGROUP, LOOP, SECTIONS, SINGLE, SINGLE_COPY, OTHERS, LOCK_VARIABLE, LOCK, NEST_FIRST, NEST_NEXT, CRITICAL, ATOMIC,
    ORDERED, WAIT_BARRIER, WAIT_TASKWAIT, WAIT_TASKGROUP, WAIT_MUTEX, CONTROL, WHATS
};
static const char *const names[WHATS] = {
    "thread", "initial task", "idle", "region", "implicit task", "task", "undeferred task", "switch", "dependences",
    "dependence", "barrier", "taskwait", "taskgroup", "loop", "sections", "single", "single with copyprivate", "others of single",
    "lock variable", "lock", "nest lock", "nest lock again", "critical", "atomic", "ordered", "wait at a barrier",
    "wait at a taskwait", "wait at a taskgroup", "wait for a mutex", "control",
};
static uint64_t begun[WHATS], ended[WHATS], expected[WHATS];
static int shutdowns;

static __thread struct {
    bool began, ended;
    const char *pauses;               /* what it waits for; nothing else may be told until it has ended */
} here;

static inline void count(uint64_t *counts, enum what what) { __atomic_add_fetch(&counts[what], 1, __ATOMIC_RELAXED); }

/* The program is about to do this. */
static inline void mine(enum what what) { count(expected, what); }

static inline void must(bool is_so, enum what what, const char *text)
{
    if (!is_so) {
        fprintf(stderr, "%s: %s\n", names[what], text);
        abort();
    }
}

static inline void tell_begin(enum what what)
{
    if (what == THREAD) {
        must(!here.began, what, "it begins twice");
        here.began = true;
    }
    must(here.began, what, "told before its thread has begun");
    must(!here.ended, what, "told after its thread has ended");
    must(!here.pauses, what, "begins while its thread waits");
    if (what == IDLE || (what >= WAIT_BARRIER && what <= WAIT_MUTEX))
        here.pauses = names[what];
    count(begun, what);
}

static inline void tell_end(enum what what)
{
    must(here.began && !here.ended, what, "ends outside of its thread's life");
    if (what == IDLE || (what >= WAIT_BARRIER && what <= WAIT_MUTEX)) {
        must(here.pauses == names[what], what, "ends without having begun");
        here.pauses = NULL;
    }
    must(!here.pauses, what, "ends while its thread waits");
    if (what == THREAD)
        here.ended = true;
    count(ended, what);
}

static inline void tell_both(enum what what)
{
    tell_begin(what);
    tell_end(what);
}

/* At the end. `exact`: kinds of which the program has counted all. */
static inline void compare(enum what what, bool exact)
{
    if (begun[what] != ended[what] || (exact && begun[what] != expected[what])) {
        fprintf(stderr, "%s: %llu begun, %llu ended, the program counts %llu\n", names[what], (unsigned long long)begun[what],
                (unsigned long long)ended[what], (unsigned long long)expected[what]);
        abort();
    }
}

#endif
