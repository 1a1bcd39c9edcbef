/* What the programs of locks share: one thread holds all locks, each other one waits for one of them. */
#ifndef LOCKS_H
#define LOCKS_H
#include "odd.h"

/* A place that holds a lock, as the debug information has to name it. */
#define PLACE(expression) odd_words("{\"place\": \"%s\", \"address\": \"%p\"}\n", #expression, (void *)&(expression))

/* *name* is what the lock has to be called, NULL if nothing may be told. */
static void wait_for(omp_lock_t *lock, const char *name) {
    odd_words("{\"tid\": %d, \"address\": \"%p\", \"name\": \"%s\"}\n", odd_gettid(), (void *)lock, name ? name : "");
    omp_set_lock(lock);
}
static void wait_for_nest(omp_nest_lock_t *lock, const char *name) {
    odd_words("{\"tid\": %d, \"address\": \"%p\", \"name\": \"%s\"}\n", odd_gettid(), (void *)lock, name ? name : "");
    omp_set_nest_lock(lock);
}
static void take(omp_lock_t *lock) {
    omp_init_lock(lock);
    omp_set_lock(lock);
}
#define HOLD() for (;;) pause()
#endif
