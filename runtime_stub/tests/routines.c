/* OpenMP's routines outside of regions and within, and the identifiers of what exists. */
#include "check.h"
#include "structures.h"

#include <omp.h>
#include <string.h>

void omp_set_num_threads_8_(const int64_t *);
int32_t omp_get_ancestor_thread_num_8_(const int64_t *);
void omp_set_schedule_8_(const int32_t *, const int64_t *);
void omp_get_schedule_8_(int32_t *, int64_t *);
int32_t omp_get_max_threads_(void);
double omp_get_wtime_(void);

static void test_outside(void)
{
    omp_sched_t kind;
    int chunk;
    IS(int, omp_get_num_threads(), 1);
    IS(int, omp_get_thread_num(), 0);
    IS(int, omp_get_level(), 0);
    IS(int, omp_get_active_level(), 0);
    IS(int, omp_in_parallel(), 0);
    IS(int, omp_in_final(), 0);
    IS(int, omp_get_ancestor_thread_num(0), 0);
    IS(int, omp_get_ancestor_thread_num(1), -1);
    IS(int, omp_get_team_size(0), 1);
    IS(int, omp_get_team_size(-1), -1);
    IS(int, omp_get_max_active_levels(), 1);
    IS(int, omp_get_nested(), 0);
    IS(int, omp_get_num_devices(), 0);
    IS(int, omp_is_initial_device(), 1);
    IS(int, omp_get_num_teams(), 1);
    IS(int, omp_get_team_num(), 0);
    IS(int, omp_get_cancellation(), 0);
    omp_get_schedule(&kind, &chunk);
    IS(int, kind, omp_sched_dynamic);
    IS(int, chunk, 1);
    CHECK(omp_get_wtick() > 0 && omp_get_wtick() < 0.1);
    double before = omp_get_wtime();
    CHECK(before <= omp_get_wtime_());
}

static void test_setting(void)
{
    omp_sched_t kind;
    int chunk;
    int32_t kind_4 = omp_sched_guided;
    int64_t eight = 8, chunk_8 = 0;
    omp_set_num_threads(5);
    IS(int, omp_get_max_threads(), 5);
    omp_set_num_threads_8_(&eight);
    IS(int, omp_get_max_threads_(), 8);
    omp_set_dynamic(1);
    IS(int, omp_get_dynamic(), 1);
    omp_set_dynamic(0);
    omp_set_schedule(omp_sched_static, 0);
    omp_get_schedule(&kind, &chunk);
    IS(int, kind, omp_sched_static);
    IS(int, chunk, 0);
    omp_set_schedule_8_(&kind_4, &eight);
    omp_get_schedule_8_(&kind_4, &chunk_8);
    IS(int, kind_4, omp_sched_guided);
    IS(int, chunk_8, 8);
    omp_set_default_device(3);
    IS(int, omp_get_default_device(), 3);
    omp_set_max_active_levels(4);
    IS(int, omp_get_max_active_levels(), 4);
    omp_set_nested(0);
    IS(int, omp_get_max_active_levels(), 1);
}

/* A task has its own control variables: what it sets is not seen outside. */
static void test_inheritance(void)
{
    omp_set_num_threads(4);
    #pragma omp parallel
    {
        int64_t zero = 0;
        IS(int, omp_get_max_threads(), 4);
        omp_set_num_threads(10 + omp_get_thread_num());
        #pragma omp barrier
        IS(int, omp_get_max_threads(), 10 + omp_get_thread_num());
        IS(int, omp_get_ancestor_thread_num_8_(&zero), 0);
        #pragma omp task if (0)
        {
            int generating = omp_get_max_threads();
            omp_set_num_threads(99);
            IS(int, generating, 10 + omp_get_thread_num());
        }
        IS(int, omp_get_max_threads(), 10 + omp_get_thread_num());
    }
    IS(int, omp_get_max_threads(), 4);
}

static void keep(uint64_t *ids, int *count, uint64_t id)
{
    CHECK(id);
    for (int i = 0; i < *count; i++)
        CHECK(ids[i] != id);
    ids[(*count)++] = id;
}

static void test_ids(void)
{
    uint64_t teams[100], tasks[100], threads[100], locks[10];
    int team_count = 0, task_count = 0, thread_count = 0, lock_count = 0;
    omp_lock_t first, second;
    omp_init_lock(&first);
    omp_init_lock(&second);
    for (int i = 0; i < 3; i++) {
        #pragma omp parallel num_threads(6)
        #pragma omp single
        {
            struct stub_team *team = omp_stub_process.teams;
            IS(int, team->size, 6);
            IS(int, team->level, 1);
            CHECK(!team->next->parent && !team->next->next && team->parent == team->next);
            keep(teams, &team_count, team->id);
            for (int num = 0; num < 6; num++) {
                keep(tasks, &task_count, team->implicit[num]->id);
                CHECK(team->implicit[num]->thread == team->threads[num]);
                CHECK(team->implicit[num]->generating == team->encountering);
                IS(int, team->implicit[num]->type, STUB_TASK_IMPLICIT);
            }
            for (int k = 0; k < 5; k++) {
                #pragma omp task shared(tasks, task_count)
                {
                    #pragma omp critical
                    for (int num = 0; num < 6; num++)
                        if (team->threads[num]->thread_num == omp_get_thread_num())
                            keep(tasks, &task_count, team->threads[num]->task->id);
                }
            }
            #pragma omp taskwait
        }
    }
    for (struct stub_thread *thread = omp_stub_process.threads; thread; thread = thread->next)
        keep(threads, &thread_count, thread->id);
    for (struct stub_lock *lock = omp_stub_process.locks; lock; lock = lock->next)
        keep(locks, &lock_count, lock->id);
    IS(int, team_count, 3);
    IS(int, task_count, 3 * 11);
    IS(int, thread_count, omp_stub_process.thread_count);
    IS(int, lock_count, 3); /* and the unnamed critical construct */
    omp_destroy_lock(&first);
    omp_destroy_lock(&second);
}

struct layout {
    struct omp_stub_layout_header header;
    struct omp_stub_layout_record records[];
};
extern const struct layout omp_stub_layout;
extern const char omp_stub_version[];

static void test_layout(void)
{
    int seen = 0;
    CHECK(!strcmp(omp_stub_version, "libomp_stub 1.0"));
    CHECK(!strcmp(omp_stub_layout.header.magic, "omp_stub_layout"));
    IS(int, omp_stub_layout.header.version, 1);
    for (uint32_t i = 0; i < omp_stub_layout.header.count; i++) {
        const struct omp_stub_layout_record *record = &omp_stub_layout.records[i];
        CHECK(record->size);
        if (!strcmp(record->structure, "stub_task") && !strcmp(record->member, "icvs")) {
            IS(size_t, record->offset, offsetof(struct stub_task, icvs));
            seen++;
        }
        if (!strcmp(record->structure, "omp_stub_private") && !record->member[0]) {
            IS(size_t, record->size, sizeof(struct omp_stub_private));
            seen++;
        }
    }
    IS(int, seen, 2);
}

int main(void)
{
    test_outside();
    test_ids();
    test_setting();
    test_inheritance();
    test_layout();
    return 0;
}
