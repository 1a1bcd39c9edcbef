#include "locks.h"
/* Locks in all kinds of places, each held by thread 0 and waited for by one other thread. */
enum { PLACES = 3 + 6 + 6 + 3 * 4 + 1 };
typedef omp_lock_t mutex;
typedef const volatile mutex *unused_pointer;
struct row {
    int number;
    union {
        struct { mutex first, second; };
        char bytes[64];
    };
    omp_nest_lock_t nest;
};
omp_lock_t global;
volatile mutex renamed;
omp_lock_t locks[6];
static mutex grid[2][3];
static struct {
    unused_pointer pointer;
    char name[7];
    struct row rows[4];
    struct row *more;
} table;
omp_nest_lock_t nest;
static omp_lock_t *heap;

static omp_lock_t *in_function(void) {
    static omp_lock_t inner;
    if (omp_get_level() == 0) PLACE(inner);
    return &inner;
}

int main(void) {
    omp_lock_t local;
    PLACE(global), PLACE(renamed), PLACE(nest);
    for (int i = 0; i < 6; i++) odd_words("{\"place\": \"locks[%d]\", \"address\": \"%p\"}\n", i, (void *)&locks[i]);
    for (int i = 0; i < 6; i++)
        odd_words("{\"place\": \"grid[%d][%d]\", \"address\": \"%p\"}\n", i / 3, i % 3, (void *)&grid[i / 3][i % 3]);
    for (int i = 0; i < 4; i++) {
        struct row *row = &table.rows[i];
        odd_words("{\"place\": \"table.rows[%d].first\", \"address\": \"%p\"}\n", i, (void *)&row->first);
        odd_words("{\"place\": \"table.rows[%d].second\", \"address\": \"%p\"}\n", i, (void *)&row->second);
        odd_words("{\"place\": \"table.rows[%d].nest\", \"address\": \"%p\"}\n", i, (void *)&row->nest);
    }
    heap = malloc(sizeof *heap);
    take(&local), take(heap);
    take(&global), take((omp_lock_t *)&renamed), take(in_function());
    for (int i = 1; i < 5; i++) take(&locks[i]);
    take(&grid[1][2]), take(&table.rows[2].second), take(&table.rows[3].first);
    omp_init_nest_lock(&nest), omp_set_nest_lock(&nest);
    omp_init_nest_lock(&table.rows[1].nest), omp_set_nest_lock(&table.rows[1].nest);
    odd_start(PLACES + 12);
#pragma omp parallel num_threads(13)
    {
        switch (omp_get_thread_num()) {
        case 1: wait_for(&global, "&global"); break;
        case 2: wait_for((omp_lock_t *)&renamed, "&renamed"); break;
        case 3: wait_for(&locks[1], "&locks[1]"); break;
        case 4: wait_for(&locks[4], "&locks[4]"); break;
        case 5: wait_for(&grid[1][2], "&grid[1][2]"); break;
        case 6: wait_for(&table.rows[2].second, "&table.rows[2].second"); break;
        case 7: wait_for(&table.rows[3].first, "&table.rows[3].first"); break;
        case 8: wait_for(in_function(), "&inner"); break;
        case 9: wait_for_nest(&nest, "&nest"); break;
        case 10: wait_for_nest(&table.rows[1].nest, "&table.rows[1].nest"); break;
        case 11: wait_for(heap, NULL); break;
        case 12: wait_for(&local, NULL); break;
        }
        HOLD();
    }
}
