/* Loops of all schedules: each iteration once, and ordered regions in order. */
#include "check.h"

#include <limits.h>
#include <omp.h>
#include <stdbool.h>
#include <string.h>

typedef unsigned long long ull;
bool GOMP_loop_dynamic_start(long, long, long, long, long *, long *);
bool GOMP_loop_dynamic_next(long *, long *);
bool GOMP_loop_static_start(long, long, long, long, long *, long *);
bool GOMP_loop_static_next(long *, long *);
bool GOMP_loop_guided_start(long, long, long, long, long *, long *);
bool GOMP_loop_guided_next(long *, long *);
bool GOMP_loop_ull_dynamic_start(bool, ull, ull, ull, ull, ull *, ull *);
bool GOMP_loop_ull_dynamic_next(ull *, ull *);
bool GOMP_loop_ull_static_start(bool, ull, ull, ull, ull, ull *, ull *);
bool GOMP_loop_ull_static_next(ull *, ull *);
bool GOMP_loop_ull_guided_start(bool, ull, ull, ull, ull, ull *, ull *);
bool GOMP_loop_ull_guided_next(ull *, ull *);
void GOMP_loop_end(void);
void GOMP_loop_end_nowait(void);
void GOMP_parallel_loop_dynamic(void (*)(void *), void *, unsigned, long, long, long, long, unsigned);
void GOMP_parallel_loop_static_start(void (*)(void *), void *, unsigned, long, long, long, long);
void GOMP_parallel_end(void);

enum { MOST = 1000 };
static int counts[MOST];

static void check_counts(int count)
{
    for (int i = 0; i < MOST; i++)
        IS(int, counts[i], i < count);
    memset(counts, 0, sizeof counts);
}

#define PRAGMA(...) _Pragma(#__VA_ARGS__)

#define TEST_SCHEDULE(clause)                                                                                          \
    do {                                                                                                               \
        _Pragma("omp parallel")                                                                                        \
        {                                                                                                              \
            PRAGMA(omp for clause) for (int i = 0; i < 100; i++) COUNT_UP(counts, i);                                  \
            PRAGMA(omp for nowait clause) for (long i = 299; i >= 100; i -= 1) COUNT_UP(counts, i);                    \
            PRAGMA(omp for nowait clause) for (ull i = 300; i < 400; i += 1) COUNT_UP(counts, i);                      \
            PRAGMA(omp for clause) for (ull i = 1000; i > 800; i -= 2) COUNT_UP(counts, 400 + (1000 - i) / 2);         \
            PRAGMA(omp for clause) for (int i = -30; i < 20; i += 7) COUNT_UP(counts, 500 + (i + 30) / 7);             \
            PRAGMA(omp for clause) for (int i = 20; i > 20; i--) abort();                                              \
            PRAGMA(omp for collapse(2) clause) for (int i = 0; i < 9; i++) for (int k = 0; k < 5; k++)                 \
                COUNT_UP(counts, 508 + 5 * i + k);                                                                     \
        }                                                                                                              \
        check_counts(553);                                                                                             \
        int last = -1;                                                                                                 \
        PRAGMA(omp parallel for lastprivate(last) clause) for (int i = 0; i < 77; i++) {                               \
            last = i;                                                                                                  \
            COUNT_UP(counts, i);                                                                                       \
        }                                                                                                              \
        IS(int, last, 76);                                                                                             \
        check_counts(77);                                                                                              \
    } while (0)

static void test_schedules(void)
{
    TEST_SCHEDULE();
    TEST_SCHEDULE(schedule(static, 1));
    TEST_SCHEDULE(schedule(static, 7));
    TEST_SCHEDULE(schedule(dynamic));
    TEST_SCHEDULE(schedule(dynamic, 7));
    TEST_SCHEDULE(schedule(dynamic, 1000000));
    TEST_SCHEDULE(schedule(monotonic: dynamic, 2));
    TEST_SCHEDULE(schedule(guided));
    TEST_SCHEDULE(schedule(guided, 5));
    TEST_SCHEDULE(schedule(monotonic: guided));
    TEST_SCHEDULE(schedule(auto));
    for (int kind = 1; kind <= 4; kind++)
        for (int chunk = 0; chunk < 9; chunk += 4) {
            omp_set_schedule((omp_sched_t)kind, chunk);
            TEST_SCHEDULE(schedule(runtime));
            TEST_SCHEDULE(schedule(monotonic: runtime));
            TEST_SCHEDULE(schedule(nonmonotonic: runtime));
        }
}

#define TEST_ORDERED(clause)                                                                                           \
    do {                                                                                                               \
        int next = 0;                                                                                                  \
        PRAGMA(omp parallel for ordered clause) for (int i = 0; i < 90; i++) {                                         \
            COUNT_UP(counts, i);                                                                                       \
            if (i % 3 != 1) {                                                                                          \
                _Pragma("omp ordered")                                                                                 \
                {                                                                                                      \
                    CHECK(next <= i && i - next < 2);                                                                  \
                    next = i + 1;                                                                                      \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
        check_counts(90);                                                                                              \
        IS(int, next, 90);                                                                                             \
        ull place = 40;                                                                                                \
        PRAGMA(omp parallel for ordered clause) for (ull i = 40; i > 4; i -= 4) {                                      \
            _Pragma("omp ordered")                                                                                     \
            {                                                                                                          \
                CHECK(place == i);                                                                                     \
                place -= 4;                                                                                            \
            }                                                                                                          \
        }                                                                                                              \
    } while (0)

static void test_ordered(void)
{
    TEST_ORDERED();
    TEST_ORDERED(schedule(static, 1));
    TEST_ORDERED(schedule(static, 4));
    TEST_ORDERED(schedule(dynamic));
    TEST_ORDERED(schedule(dynamic, 4));
    TEST_ORDERED(schedule(guided));
    TEST_ORDERED(schedule(runtime));
}

static void count_part(void *unused)
{
    (void)unused;
    long first, last;
    while (GOMP_loop_dynamic_next(&first, &last))
        for (long i = first; i < last; i++)
            COUNT_UP(counts, i);
    GOMP_loop_end_nowait();
}

/* What older compilers call. */
static void test_combined(void)
{
    GOMP_parallel_loop_dynamic(count_part, NULL, 0, 0, 333, 1, 4, 0);
    check_counts(333);
    GOMP_parallel_loop_static_start(count_part, NULL, 3, 0, 333, 1, 5);
    count_part(NULL);
    GOMP_parallel_end();
    check_counts(333);
}

#define TEST_EDGE(kind, begin, end, step, chunk, expected)                                                             \
    do {                                                                                                               \
        _Pragma("omp parallel")                                                                                        \
        {                                                                                                              \
            long first, last;                                                                                          \
            bool more = GOMP_loop_##kind##_start(begin, end, step, chunk, &first, &last);                              \
            for (; more; more = GOMP_loop_##kind##_next(&first, &last))                                                \
                for (long i = first;; i += step) {                                                                     \
                    COUNT_UP(counts, ((ull)i - (ull)(begin)) / (ull)(step));                                           \
                    if (step > 0 ? (ull)last - (ull)i <= (ull)(step) : (ull)i - (ull)last <= (ull) - (step))           \
                        break;                                                                                         \
                }                                                                                                      \
            GOMP_loop_end();                                                                                           \
        }                                                                                                              \
        check_counts(expected);                                                                                        \
    } while (0)

#define TEST_UNSIGNED_EDGE(kind, up, begin, end, step, chunk, expected)                                                \
    do {                                                                                                               \
        _Pragma("omp parallel")                                                                                        \
        {                                                                                                              \
            ull first, last;                                                                                           \
            bool more = GOMP_loop_ull_##kind##_start(up, begin, end, step, chunk, &first, &last);                      \
            for (; more; more = GOMP_loop_ull_##kind##_next(&first, &last))                                            \
                for (ull i = first;; i += step) {                                                                      \
                    COUNT_UP(counts, up ? (i - (begin)) / (step) : ((begin)-i) / (0 - (step)));                        \
                    if (up ? last - i <= (step) : i - last <= 0 - (step))                                              \
                        break;                                                                                         \
                }                                                                                                      \
            GOMP_loop_end();                                                                                           \
        }                                                                                                              \
        check_counts(expected);                                                                                        \
    } while (0)

#define TEST_EDGES(kind)                                                                                               \
    do {                                                                                                               \
        TEST_EDGE(kind, LONG_MAX - 10, LONG_MAX, 3, 1, 4);                                                             \
        TEST_EDGE(kind, LONG_MAX - 100, LONG_MAX, 1, 7, 100);                                                          \
        TEST_EDGE(kind, LONG_MIN, LONG_MAX, LONG_MAX / 8, 1, 17);                                                      \
        TEST_EDGE(kind, LONG_MIN, LONG_MIN + 50, 1, LONG_MAX, 50);                                                     \
        TEST_UNSIGNED_EDGE(kind, true, 0ull, ULLONG_MAX, ULLONG_MAX / 9, 1ull, 10);                                    \
        TEST_UNSIGNED_EDGE(kind, true, ULLONG_MAX - 20, ULLONG_MAX, 3ull, 2ull, 7);                                    \
        TEST_UNSIGNED_EDGE(kind, true, 0ull, ULLONG_MAX, ULLONG_MAX / 9, ULLONG_MAX / 2, 10);                          \
        TEST_UNSIGNED_EDGE(kind, false, ULLONG_MAX, 0ull, 0 - ULLONG_MAX / 9, 2ull, 10);                               \
        TEST_UNSIGNED_EDGE(kind, false, 20ull, 0ull, -3ull, 1ull, 7);                                                  \
    } while (0)

static void test_edges(void)
{
    TEST_EDGES(static);
    TEST_EDGES(dynamic);
    TEST_EDGES(guided);
}

static void test_conditional(void)
{
    int last = -1;
    #pragma omp parallel for lastprivate(conditional : last) schedule(dynamic)
    for (int i = 0; i < 200; i++)
        if (i % 50 == 7)
            last = i;
    IS(int, last, 157);
}

int main(void)
{
    test_schedules();
    test_ordered();
    test_combined();
    test_edges();
    test_conditional();
    return 0;
}
