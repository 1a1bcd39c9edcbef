/* Does all that tools hear of, and counts it. */
#ifndef WORKLOAD_H
#define WORKLOAD_H

#include "watch.h"

#include <omp.h>
#include <string.h>

void GOMP_atomic_start(void);
void GOMP_atomic_end(void);
void ompt_control(uint64_t command, uint64_t modifier);

static omp_lock_t lock;
static omp_nest_lock_t nest;
static int sink;

static void barrier(void)
{
    mine(BARRIER);
    #pragma omp barrier
}

/* Of a region, by each of its threads. */
static void member(void)
{
    mine(IMPLICIT_TASK);
    mine(BARRIER); /* that closes it */
}

static void mutexes(void)
{
    mine(LOCK);
    omp_set_lock(&lock);
    omp_unset_lock(&lock);
    if (omp_test_lock(&lock)) {
        mine(LOCK);
        omp_unset_lock(&lock);
    }
    mine(NEST_FIRST);
    omp_set_nest_lock(&nest);
    mine(NEST_NEXT);
    omp_set_nest_lock(&nest);
    mine(NEST_NEXT);
    CHECK(omp_test_nest_lock(&nest) == 3);
    for (int i = 0; i < 3; i++)
        omp_unset_nest_lock(&nest);
    mine(CRITICAL);
    #pragma omp critical
    COUNT_UP(&sink, 0);
    mine(CRITICAL);
    #pragma omp critical(named)
    COUNT_UP(&sink, 0);
    mine(ATOMIC);
    GOMP_atomic_start();
    GOMP_atomic_end();
}

static void shared_work(void)
{
    int copied = 0;
    mine(LOOP);
    mine(BARRIER);
    #pragma omp for schedule(dynamic)
    for (int i = 0; i < 20; i++)
        COUNT_UP(&sink, 0);
    mine(LOOP);
    #pragma omp for schedule(guided) nowait
    for (int i = 0; i < 20; i++)
        COUNT_UP(&sink, 0);
    mine(SECTIONS);
    mine(BARRIER);
    #pragma omp sections
    {
        #pragma omp section
        COUNT_UP(&sink, 0);
        #pragma omp section
        COUNT_UP(&sink, 0);
    }
    bool is_other = true;
    mine(BARRIER);
    #pragma omp single
    {
        mine(SINGLE);
        is_other = false;
    }
    if (is_other)
        mine(OTHERS);
    is_other = true;
    mine(BARRIER);
    #pragma omp single copyprivate(copied)
    {
        mine(SINGLE_COPY);
        copied = 7;
        is_other = false;
    }
    IS(int, copied, 7);
    if (is_other)
        mine(OTHERS);
    mine(LOOP);
    mine(BARRIER);
    #pragma omp for ordered schedule(dynamic)
    for (int i = 0; i < 20; i++) {
        mine(ORDERED);
        #pragma omp ordered
        COUNT_UP(&sink, 0);
    }
}

static void tasks(void)
{
    int a = 0, b = 0;
    for (int i = 0; i < 5; i++) {
        mine(TASK);
        #pragma omp task shared(a)
        COUNT_UP(&a, 0);
    }
    mine(TASKWAIT);
    #pragma omp taskwait
    IS(int, a, 5);
    mine(TASKGROUP);
    #pragma omp taskgroup
    {
        mine(TASK);
        #pragma omp task shared(a, b)
        {
            mine(TASK);
            #pragma omp task shared(a)
            COUNT_UP(&a, 0);
            mine(UNDEFERRED);
            #pragma omp task if (0) shared(b)
            COUNT_UP(&b, 0);
        }
    }
    IS(int, a, 6);
    mine(UNDEFERRED);
    #pragma omp task if (0) shared(b)
    COUNT_UP(&b, 0);
    mine(TASK), mine(DEPENDENCES);
    #pragma omp task depend(out : a) shared(a)
    COUNT_UP(&a, 0);
    mine(TASK), mine(DEPENDENCES);
    #pragma omp task depend(in : a) depend(out : b) shared(b)
    COUNT_UP(&b, 0);
    mine(TASK), mine(DEPENDENCES);
    #pragma omp task depend(inout : a, b) shared(a, b)
    {
        IS(int, a, 7);
        IS(int, b, 3);
    }
    mine(TASKWAIT);
    #pragma omp taskwait
    mine(TASKGROUP);
    for (int i = 0; i < 3; i++)
        mine(TASK);
    #pragma omp taskloop num_tasks(3) shared(a)
    for (int i = 0; i < 9; i++)
        COUNT_UP(&a, 0);
    IS(int, a, 16);
}

static void region(void)
{
    mine(REGION);
    #pragma omp parallel
    {
        member();
        mutexes();
        barrier();
        shared_work();
        tasks();
    }
}

/* Combined constructs, whose loops and sections begin with the region. */
static void combined(void)
{
    mine(REGION);
    int members = omp_get_max_threads();
    for (int i = 0; i < members; i++)
        member(), mine(LOOP);
    #pragma omp parallel for schedule(dynamic, 2)
    for (int i = 0; i < 50; i++)
        COUNT_UP(&sink, 0);
    mine(REGION);
    for (int i = 0; i < members; i++)
        member(), mine(SECTIONS);
    #pragma omp parallel sections
    {
        #pragma omp section
        COUNT_UP(&sink, 0);
        #pragma omp section
        COUNT_UP(&sink, 0);
    }
}

static void nested(void)
{
    omp_set_max_active_levels(2);
    mine(REGION);
    #pragma omp parallel num_threads(2)
    {
        member();
        mine(REGION);
        #pragma omp parallel num_threads(2)
        {
            member();
            mine(REGION);
            #pragma omp parallel num_threads(2) /* of one */
            member();
        }
    }
}

static void work_on(void)
{
    mine(LOCK_VARIABLE);
    omp_init_lock(&lock);
    mine(LOCK_VARIABLE);
    omp_init_nest_lock(&nest);
    for (int i = 0; i < 3; i++) {
        region();
        combined();
        nested();
    }
    mine(UNDEFERRED); /* outside of all regions no task is deferred */
    #pragma omp task
    COUNT_UP(&sink, 0);
    mine(CONTROL);
    ompt_control(1, 7);
    omp_destroy_lock(&lock);
    omp_destroy_nest_lock(&nest);
}

static void compare_all(bool has_undeferred)
{
    for (enum what what = INITIAL_TASK; what < WHATS; what++)
        if (what != UNDEFERRED && what != SWITCH)
            compare(what, what != INITIAL_TASK && what != IDLE && what != DEPENDENCE && (what < WAIT_BARRIER || what > WAIT_MUTEX));
    compare(THREAD, false);
    compare(UNDEFERRED, has_undeferred);
    IS(uint64_t, begun[SWITCH], expected[TASK] + (has_undeferred ? expected[UNDEFERRED] : 0));
    CHECK(begun[INITIAL_TASK] == 1);
    CHECK(begun[THREAD] > (uint64_t)(omp_get_max_threads() > 1));
}

#endif
