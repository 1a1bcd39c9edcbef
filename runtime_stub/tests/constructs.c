/* All constructs but loops and tasks, at the team size that OMP_NUM_THREADS says. */
#include "check.h"

#include <omp.h>
#include <string.h>

enum { MOST = 256 };

static int size;

static void test_team(void)
{
    int seen[MOST] = {0};
    #pragma omp parallel
    {
        IS(int, omp_get_num_threads(), size);
        IS(int, omp_get_level(), 1);
        IS(int, omp_in_parallel(), size > 1);
        IS(int, omp_get_active_level(), size > 1);
        COUNT_UP(seen, omp_get_thread_num());
    }
    for (int num = 0; num < MOST; num++)
        IS(int, seen[num], num < size);
}

static void test_barrier(void)
{
    int phase[MOST] = {0};
    #pragma omp parallel
    for (int round = 1; round <= 20; round++) {
        phase[omp_get_thread_num()] = round;
        #pragma omp barrier
        for (int num = 0; num < size; num++)
            IS(int, phase[num], round);
        #pragma omp barrier
    }
}

static void test_critical(void)
{
    int named = 0, unnamed = 0;
    #pragma omp parallel
    for (int i = 0; i < 50; i++) {
        #pragma omp critical(first)
        named++;
        #pragma omp critical
        unnamed++;
    }
    IS(int, named, 50 * size);
    IS(int, unnamed, 50 * size);
}

struct wide {
    double values[5];
};

static void test_atomic(void)
{
    int count = 0;
    struct wide *wide = calloc(1, sizeof *wide);
    long double sum = 0; /* processors have no instruction for this one */
    #pragma omp parallel
    for (int i = 0; i < 50; i++) {
        #pragma omp atomic
        count++;
        #pragma omp atomic
        sum += 1;
        #pragma omp atomic
        wide->values[2] += 2;
    }
    IS(int, count, 50 * size);
    CHECK(sum == 50.0L * size);
    CHECK(wide->values[2] == 100.0 * size);
    free(wide);
}

static void test_single(void)
{
    int count = 0, masters = 0;
    #pragma omp parallel
    {
        for (int i = 0; i < 20; i++) {
            int value = -1;
            #pragma omp single
            COUNT_UP(&count, 0);
            #pragma omp single nowait
            COUNT_UP(&count, 0);
            #pragma omp single copyprivate(value)
            value = 1000 + i;
            IS(int, value, 1000 + i);
        }
        #pragma omp master
        masters++;
    }
    IS(int, count, 40);
    IS(int, masters, 1);
}

static void test_sections(void)
{
    int seen[6] = {0};
    #pragma omp parallel
    {
        #pragma omp sections
        {
            #pragma omp section
            COUNT_UP(seen, 0);
            #pragma omp section
            COUNT_UP(seen, 1);
            #pragma omp section
            COUNT_UP(seen, 2);
        }
        IS(int, seen[2], 1);
        #pragma omp sections nowait
        {
            #pragma omp section
            COUNT_UP(seen, 3);
        }
    }
    int last = 0;
    #pragma omp parallel sections lastprivate(last)
    {
        #pragma omp section
        {
            COUNT_UP(seen, 4);
            last = 1;
        }
        #pragma omp section
        {
            COUNT_UP(seen, 5);
            last = 2;
        }
    }
    IS(int, last, 2);
    for (int i = 0; i < 6; i++)
        IS(int, seen[i], 1);
}

static void test_reduction(void)
{
    long sum = 0, most = 0;
    long array[3] = {0};
    #pragma omp parallel for reduction(+ : sum, array) reduction(max : most)
    for (int i = 1; i <= 1000; i++) {
        sum += i;
        array[i % 3]++;
        most = i > most ? i : most;
    }
    IS(long, sum, 500500);
    IS(long, most, 1000);
    IS(long, array[0] + array[1] + array[2], 1000);
}

static void test_nested(void)
{
    int before = omp_get_max_active_levels();
    int leaves = 0;
    omp_set_max_active_levels(3);
    #pragma omp parallel num_threads(3)
    {
        int outer = omp_get_thread_num();
        #pragma omp parallel num_threads(2)
        {
            IS(int, omp_get_level(), 2);
            IS(int, omp_get_ancestor_thread_num(1), outer);
            IS(int, omp_get_ancestor_thread_num(0), 0);
            IS(int, omp_get_team_size(1), 3);
            IS(int, omp_get_team_size(2), 2);
            int middle = omp_get_thread_num();
            #pragma omp parallel num_threads(2)
            {
                IS(int, omp_get_active_level(), 3);
                IS(int, omp_get_ancestor_thread_num(2), middle);
                #pragma omp parallel num_threads(2)
                {
                    IS(int, omp_get_level(), 4);
                    IS(int, omp_get_active_level(), 3);
                    IS(int, omp_get_num_threads(), 1);
                    COUNT_UP(&leaves, 0);
                }
            }
            IS(int, omp_get_thread_num(), middle);
        }
        IS(int, omp_get_thread_num(), outer);
    }
    IS(int, leaves, 12);
    omp_set_max_active_levels(before);
}

/* Within a loop, a region of its own with a loop; the outer one goes on as if nothing had been. */
static void test_nested_loops(void)
{
    int before = omp_get_max_active_levels();
    int counts[40][30];
    memset(counts, 0, sizeof counts);
    omp_set_max_active_levels(2);
    #pragma omp parallel for schedule(dynamic, 3)
    for (int i = 0; i < 40; i++) {
        #pragma omp parallel for num_threads(2) schedule(guided)
        for (int k = 0; k < 30; k++)
            COUNT_UP(counts[i], k);
    }
    for (int i = 0; i < 40; i++)
        for (int k = 0; k < 30; k++)
            IS(int, counts[i][k], 1);
    omp_set_max_active_levels(before);
}

static void test_serialized(void)
{
    int count = 0;
    #pragma omp parallel if (count)
    {
        IS(int, omp_get_num_threads(), 1);
        IS(int, omp_get_level(), 1);
        IS(int, omp_in_parallel(), 0);
        #pragma omp single
        count++;
        #pragma omp barrier
        #pragma omp for schedule(dynamic)
        for (int i = 0; i < 10; i++)
            count++;
    }
    IS(int, count, 11);
    #pragma omp for schedule(guided) /* outside of all regions */
    for (int i = 0; i < 10; i++)
        count++;
    #pragma omp barrier
    #pragma omp single
    count++;
    IS(int, count, 22);
}

static int own;
#pragma omp threadprivate(own)

/* The threads of a region have the numbers that they had in the one before. */
static void test_threadprivate(void)
{
    #pragma omp parallel
    own = 100 + omp_get_thread_num();
    for (int i = 0; i < 10; i++) {
        #pragma omp parallel
        {
            IS(int, own, 100 + omp_get_thread_num());
        }
        #pragma omp parallel num_threads(2)
        {
            IS(int, own, omp_get_thread_num() < size ? 100 + omp_get_thread_num() : own);
        }
    }
    own = 7;
    #pragma omp parallel copyin(own)
    {
        IS(int, own, 7);
    }
}

static void test_cancel(void)
{
    int count = 0;
    #pragma omp parallel
    {
        #pragma omp for
        for (int i = 0; i < 10; i++) {
            COUNT_UP(&count, 0);
            #pragma omp cancel for
            #pragma omp cancellation point for
        }
        #pragma omp cancel parallel
    }
    IS(int, count, 10); /* cancel-var is false */
}

int main(void)
{
    size = omp_get_max_threads();
    for (int i = 0; i < 3; i++) {
        test_team();
        test_barrier();
        test_critical();
        test_atomic();
        test_single();
        test_sections();
        test_reduction();
        test_serialized();
        test_threadprivate();
        test_cancel();
    }
    test_nested();
    test_nested_loops();
    return 0;
}
