/* Locks and nest locks. */
#include "check.h"

#include <omp.h>

static omp_lock_t lock;
static omp_nest_lock_t nest;

static void test_lock(void)
{
    int count = 0, size = omp_get_max_threads();
    omp_init_lock(&lock);
    IS(int, omp_test_lock(&lock), 1);
    IS(int, omp_test_lock(&lock), 0);
    omp_unset_lock(&lock);
    #pragma omp parallel
    for (int i = 0; i < 100; i++) {
        if (i % 3)
            omp_set_lock(&lock);
        else
            while (!omp_test_lock(&lock)) {
                #pragma omp taskyield
            }
        count++;
        omp_unset_lock(&lock);
    }
    IS(int, count, 100 * size);
    omp_destroy_lock(&lock);
}

static void test_nest_lock(void)
{
    int count = 0, size = omp_get_max_threads();
    omp_init_nest_lock_with_hint(&nest, omp_sync_hint_contended);
    #pragma omp parallel
    for (int i = 0; i < 50; i++) {
        omp_set_nest_lock(&nest);
        count++;
        omp_set_nest_lock(&nest);
        IS(int, omp_test_nest_lock(&nest), 3);
        count++;
        omp_unset_nest_lock(&nest);
        omp_unset_nest_lock(&nest);
        omp_unset_nest_lock(&nest);
    }
    IS(int, count, 100 * size);
    int own = 0;
    omp_set_nest_lock(&nest);
    #pragma omp task if (0) shared(own) /* a task of its own: it does not hold what its parent holds */
    own = omp_test_nest_lock(&nest);
    IS(int, own, 0);
    omp_unset_nest_lock(&nest);
    omp_destroy_nest_lock(&nest);
}

static void test_many(void)
{
    enum { COUNT = 3000 };
    static omp_lock_t many[COUNT];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < COUNT; i++)
            omp_init_lock(&many[i]);
        #pragma omp parallel for
        for (int i = 0; i < COUNT; i++) {
            omp_set_lock(&many[i]);
            omp_unset_lock(&many[(i + 0) % COUNT]);
        }
        for (int i = round; i < COUNT + round; i++)
            omp_destroy_lock(&many[i % COUNT]);
    }
}

int main(void)
{
    test_lock();
    test_nest_lock();
    test_many();
    return 0;
}
