/* Explicit tasks: executed once each, in the order of their dependences, before the barrier or wait that they must. */
#include "check.h"

#include <omp.h>
#include <pthread.h>
#include <string.h>

enum { MOST = 1000 };
static int counts[MOST];

static void check_counts(int count)
{
    for (int i = 0; i < MOST; i++)
        IS(int, counts[i], i < count);
    memset(counts, 0, sizeof counts);
}

static int fibonacci(int n)
{
    int a, b;
    if (n < 2)
        return n;
    #pragma omp task shared(a)
    a = fibonacci(n - 1);
    #pragma omp task shared(b) if (n > 8)
    b = fibonacci(n - 2);
    #pragma omp taskwait
    return a + b;
}

static void test_recursion(void)
{
    int value = 0;
    #pragma omp parallel
    #pragma omp single
    value = fibonacci(14);
    IS(int, value, 377);
}

static void test_barrier(void)
{
    #pragma omp parallel
    {
        #pragma omp for
        for (int i = 0; i < 200; i++) {
            #pragma omp task firstprivate(i) untied
            {
                #pragma omp taskyield
                COUNT_UP(counts, i);
            }
        }
        #pragma omp barrier
        #pragma omp single
        check_counts(200);
        #pragma omp task
        COUNT_UP(counts, 0);
    }
    IS(int, counts[0], omp_get_max_threads());
    counts[0] = 0;
}

static void test_dependences(void)
{
    int x = 0, y = 0, log[8] = {0};
    #pragma omp parallel
    #pragma omp single
    for (int round = 0; round < 30; round++) {
        #pragma omp task depend(out : x)
        x = 4 * round + 1;
        for (int i = 0; i < 4; i++) {
            #pragma omp task depend(in : x) firstprivate(i)
            log[i] = x;
        }
        #pragma omp task depend(inout : x) depend(out : y)
        {
            for (int i = 0; i < 4; i++)
                IS(int, log[i], 4 * round + 1);
            x++;
            y = x;
        }
        #pragma omp task depend(in : y) depend(mutexinoutset : log)
        IS(int, y, 4 * round + 2);
        #pragma omp task depend(in : x, y) if (0)
        IS(int, x, 4 * round + 2);
        #pragma omp taskwait depend(in : y)
        IS(int, y, 4 * round + 2);
        omp_depend_t object;
        #pragma omp depobj(object) depend(inout : x)
        #pragma omp task depend(depobj : object) depend(in : y)
        x++;
        #pragma omp depobj(object) destroy
        #pragma omp task depend(in : x)
        IS(int, x, 4 * round + 3);
    }
}

static void test_chain(void)
{
    int order[100], place = 0;
    #pragma omp parallel
    #pragma omp single
    for (int i = 0; i < 100; i++) {
        #pragma omp task depend(inout : place) shared(place, order) firstprivate(i)
        order[place++] = i;
    }
    for (int i = 0; i < 100; i++)
        IS(int, order[i], i);
}

static void test_taskgroup(void)
{
    #pragma omp parallel
    #pragma omp single
    {
        int deep = 0;
        #pragma omp taskgroup
        for (int i = 0; i < 20; i++) {
            #pragma omp task shared(deep)
            {
                #pragma omp task shared(deep)
                {
                    #pragma omp task shared(deep)
                    COUNT_UP(&deep, 0);
                }
                #pragma omp taskgroup
                {
                    #pragma omp task shared(deep)
                    COUNT_UP(&deep, 0);
                }
            }
        }
        IS(int, deep, 40);
    }
}

static void test_taskloop(void)
{
    #pragma omp parallel
    #pragma omp single
    {
        #pragma omp taskloop
        for (int i = 0; i < 100; i++)
            COUNT_UP(counts, i);
        check_counts(100);
        #pragma omp taskloop grainsize(7)
        for (long i = 99; i >= 0; i--)
            COUNT_UP(counts, i);
        check_counts(100);
        #pragma omp taskloop grainsize(strict : 7)
        for (int i = 0; i < 50; i++)
            COUNT_UP(counts, i);
        check_counts(50);
        #pragma omp taskloop num_tasks(13)
        for (unsigned long long i = 50; i > 0; i -= 2)
            COUNT_UP(counts, (50 - i) / 2);
        check_counts(25);
        #pragma omp taskloop num_tasks(200) if (0)
        for (int i = 0; i < 10; i++)
            COUNT_UP(counts, i);
        check_counts(10);
        int last = 0;
        #pragma omp taskloop lastprivate(last) collapse(2)
        for (int i = 0; i < 10; i++)
            for (int k = 0; k < 3; k++) {
                last = 3 * i + k;
                COUNT_UP(counts, last);
            }
        IS(int, last, 29);
        check_counts(30);
        #pragma omp taskloop nogroup
        for (int i = 5; i < 5; i++)
            abort();
        #pragma omp taskloop nogroup
        for (int i = 0; i < 40; i++)
            COUNT_UP(counts, i);
        #pragma omp taskwait
        check_counts(40);
    }
}

static void test_final(void)
{
    #pragma omp parallel
    #pragma omp single
    {
        IS(int, omp_in_final(), 0);
        #pragma omp task final(1)
        {
            int inner = 0;
            IS(int, omp_in_final(), 1);
            #pragma omp task shared(inner)
            {
                IS(int, omp_in_final(), 1);
                inner = 1;
            }
            IS(int, inner, 1);
        }
        int done = 0;
        #pragma omp task if (0) shared(done)
        done = omp_in_final() + 1;
        IS(int, done, 1);
    }
    int outside = 0;
    #pragma omp task shared(outside)
    outside = 1;
    IS(int, outside, 1);
}

static void *fulfill(void *event)
{
    omp_fulfill_event((omp_event_handle_t)(omp_uintptr_t)event);
    return NULL;
}

static void test_detach(void)
{
    int done = 0;
    #pragma omp parallel
    #pragma omp single
    {
        omp_event_handle_t event;
        #pragma omp task detach(event) shared(done)
        {
            COUNT_UP(&done, 0);
            omp_fulfill_event(event); /* its own copy */
        }
        #pragma omp taskwait
        IS(int, done, 1);
        omp_event_handle_t other;
        #pragma omp task detach(other) depend(out : done) shared(done)
        COUNT_UP(&done, 0);
        #pragma omp task depend(in : done) shared(done)
        COUNT_UP(&done, 0);
        pthread_t thread;
        pthread_create(&thread, NULL, fulfill, (void *)other);
        #pragma omp taskwait
        IS(int, done, 3);
        pthread_join(thread, NULL);
    }
    IS(int, done, 3);
}

/* At a barrier the oldest one begins first, where a task waits for others the youngest one. */
static void test_priority(void)
{
    static const int oldest[2][6] = {{0, 1, 2, 3, 4, 5}, {2, 5, 1, 4, 0, 3}};
    static const int youngest[2][6] = {{5, 4, 3, 2, 1, 0}, {5, 2, 4, 1, 3, 0}};
    for (int waits = 0; waits < 2; waits++) {
        int order[6], place = 0, has_priorities = omp_get_max_task_priority() > 0;
        #pragma omp parallel num_threads(1)
        {
            for (int i = 0; i < 6; i++) {
                #pragma omp task priority(i % 3) shared(order, place) firstprivate(i)
                order[place++] = i;
            }
            if (waits) {
                #pragma omp taskwait
            }
            #pragma omp barrier
        }
        for (int i = 0; i < 6; i++)
            IS(int, order[i], (waits ? youngest : oldest)[has_priorities][i]);
    }
}

struct big {
    char bytes[300];
};

static void test_copies(void)
{
    int length = 40;
    #pragma omp parallel
    #pragma omp single
    for (int i = 0; i < 10; i++) {
        struct big big;
        int variable[length];
        memset(&big, i, sizeof big);
        for (int k = 0; k < length; k++)
            variable[k] = i + k;
        #pragma omp task firstprivate(big, variable, i)
        {
            IS(int, big.bytes[299], i);
            IS(int, variable[39], i + 39);
        }
    }
}

/* Regions, and worksharing in them, within tasks. */
static void test_nested(void)
{
    int count = 0, before = omp_get_max_active_levels();
    omp_set_max_active_levels(2);
    #pragma omp parallel num_threads(2)
    #pragma omp single
    for (int i = 0; i < 5; i++) {
        #pragma omp task shared(count)
        {
            #pragma omp parallel num_threads(3) shared(count)
            {
                #pragma omp for schedule(dynamic)
                for (int k = 0; k < 10; k++) {
                    #pragma omp task shared(count)
                    COUNT_UP(&count, 0);
                }
            }
        }
    }
    IS(int, count, 50);
    omp_set_max_active_levels(before);
}

int main(void)
{
    for (int i = 0; i < 3; i++) {
        test_recursion();
        test_barrier();
        test_dependences();
        test_chain();
        test_taskgroup();
        test_taskloop();
        test_final();
        test_detach();
        test_priority();
        test_copies();
    }
    test_nested();
    return 0;
}
