/* A tool as the draft of 2015 has it, and details that all tools of that year hear of: hints, detached tasks, what a
 * dependence is, who calls a region's code. */
#include "../check.h"
#include "ompt.h"

#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>

void GOMP_parallel_start(void (*function)(void *), void *data, unsigned threads);
void GOMP_parallel_end(void);

static uint64_t begun[64], ended[64], pairs[64][2], foreign;
static int begins, ends, pair_count, kinds[8], kind_count, hints[4], hint_count, invokers[2], foreign_ends, controls;
static ompt_get_thread_id_t get_thread_id;

static void on_begin(uint64_t parent, const ompt_frame_t *frame, uint64_t task, const void *function)
{
    (void)parent, (void)frame, (void)function;
    begun[__atomic_fetch_add(&begins, 1, __ATOMIC_RELAXED)] = task;
}
static void on_end(uint64_t task) { ended[__atomic_fetch_add(&ends, 1, __ATOMIC_RELAXED)] = task; }
static void on_pair(uint64_t first, uint64_t second)
{
    int at = __atomic_fetch_add(&pair_count, 1, __ATOMIC_RELAXED);
    pairs[at][0] = first;
    pairs[at][1] = second;
}
static void on_dependences(uint64_t task, const ompt_task_dependence_t *list, int count)
{
    (void)task;
    for (int i = 0; i < count; i++)
        kinds[kind_count++] = (int)list[i].dependence_flags;
}
static void on_init(uint64_t id, ompt_lock_hint_t hint, ompt_lock_type_t type)
{
    CHECK(id && type);
    hints[hint_count++] = (int)hint;
}
static void on_parallel_begin(uint64_t parent, const ompt_frame_t *frame, uint64_t region, uint32_t wanted,
                              const void *function, ompt_invoker_t invoker)
{
    (void)parent, (void)frame, (void)region, (void)wanted, (void)function;
    invokers[invoker]++;
}
static void on_thread_begin(ompt_thread_type_t type, uint64_t id)
{
    if (type == ompt_thread_initial)
        foreign = id; /* the last one */
}
static void on_thread_end(ompt_thread_type_t type, uint64_t id)
{
    if (type == ompt_thread_initial && id == foreign)
        foreign_ends++;
}
static void on_control(uint64_t command, uint64_t modifier)
{
    static const uint64_t expected[][2] = {{1, 0}, {2, 0}, {3, 0}, {4, 0}, {64, 5}, {~0ull, ~0ull - 1}};
    CHECK(command == expected[controls][0] && modifier == expected[controls][1]);
    controls++;
}

int ompt_initialize(ompt_function_lookup_t lookup, const char *name, unsigned version)
{
    ompt_set_callback_t set = (ompt_set_callback_t)lookup("ompt_set_callback");
    CHECK(version == 1 && strstr(name, "libomp_stub"));
    get_thread_id = (ompt_get_thread_id_t)lookup("ompt_get_thread_id");
    IS(int, set(ompt_event_task_begin, (ompt_callback_t)on_begin), 4);
    IS(int, set(ompt_event_task_end, (ompt_callback_t)on_end), 4);
    IS(int, set(ompt_event_task_dependences, (ompt_callback_t)on_dependences), 4);
    IS(int, set(ompt_event_task_dependence_pair, (ompt_callback_t)on_pair), 4);
    IS(int, set(ompt_event_init_lock, (ompt_callback_t)on_init), 4);
    IS(int, set(ompt_event_init_nest_lock, (ompt_callback_t)on_init), 4);
    IS(int, set(ompt_event_parallel_begin, (ompt_callback_t)on_parallel_begin), 4);
    IS(int, set(ompt_event_thread_begin, (ompt_callback_t)on_thread_begin), 4);
    IS(int, set(ompt_event_thread_end, (ompt_callback_t)on_thread_end), 4);
    IS(int, set(ompt_event_control, (ompt_callback_t)on_control), 4);
    return 1;
}

static void test_hints(void)
{
    omp_lock_t lock;
    omp_nest_lock_t nest;
    omp_init_lock_with_hint(&lock, omp_lock_hint_contended);
    omp_init_nest_lock_with_hint(&nest, omp_lock_hint_speculative);
    omp_destroy_lock(&lock);
    omp_destroy_nest_lock(&nest);
    omp_init_lock(&lock);
    omp_destroy_lock(&lock);
    CHECK(hint_count == 3 && hints[0] == omp_lock_hint_contended && hints[1] == omp_lock_hint_speculative && !hints[2]);
}

static void code(void *sum) { COUNT_UP((int *)sum, 0); }

/* Older compilers call the code of the primary thread's task themselves. */
static void test_invokers(void)
{
    int sum = 0;
    invokers[0] = invokers[1] = 0;
    GOMP_parallel_start(code, &sum, 2);
    code(&sum);
    GOMP_parallel_end();
    #pragma omp parallel num_threads(2)
    COUNT_UP(&sum, 0);
    CHECK(sum == 4 && invokers[ompt_invoker_program] == 1 && invokers[ompt_invoker_runtime] == 1);
}

/* The kind of a dependence reaches the runtime in a depobj object alone; otherwise out and inout are the same. */
static void test_dependences(void)
{
    int a = 0, b = 0;
    omp_depend_t first, second, third;
    begins = ends = kind_count = pair_count = 0;
    #pragma omp depobj(first) depend(in : a)
    #pragma omp depobj(second) depend(inout : a)
    #pragma omp depobj(third) depend(mutexinoutset : a)
    #pragma omp parallel num_threads(1)
    {
        #pragma omp task depend(out : a) depend(in : b)
        a++;
        #pragma omp task depend(depobj : first)
        b = a;
        #pragma omp task depend(depobj : second)
        a++;
        #pragma omp task depend(depobj : third)
        a++;
    }
    IS(int, kind_count, 5);
    CHECK(kinds[0] == ompt_task_dependence_type_out && kinds[1] == ompt_task_dependence_type_in);
    CHECK(kinds[2] == ompt_task_dependence_type_in && kinds[3] == ompt_task_dependence_type_inout);
    IS(int, kinds[4], ompt_task_dependence_type_inout);
    /* By one thread no task is over before the next one is made: each waits for all that are before it. */
    IS(int, pair_count, 6);
    for (int at = 0; at < pair_count; at++) {
        bool is_known = false;
        for (int i = 0; i < 4; i++)
            for (int k = i + 1; k < 4; k++)
                is_known |= pairs[at][0] == begun[i] && pairs[at][1] == begun[k];
        CHECK(is_known);
    }
    for (int i = 0; i < 4; i++)
        CHECK(begun[i] && ended[i] == begun[i]);
}

static void *fulfill(void *event)
{
    omp_fulfill_event((omp_event_handle_t)(omp_uintptr_t)event);
    CHECK(get_thread_id() != 0); /* it is one of the runtime's now, and was told of before */
    return NULL;
}

/* A task ends when its code is over and its event is fulfilled, whichever is later. */
static void test_detach(void)
{
    for (int round = 0; round < 20; round++) {
        begins = ends = 0;
        int before = foreign_ends;
        #pragma omp parallel num_threads(2)
        #pragma omp single
        {
            omp_event_handle_t early, late;
            pthread_t thread;
            #pragma omp task detach(early)
            omp_fulfill_event(early);
            #pragma omp taskwait
            IS(int, ends, 1);
            int is_over = 0;
            #pragma omp task detach(late) shared(is_over)
            __atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
            while (!__atomic_load_n(&is_over, __ATOMIC_ACQUIRE)) {
                #pragma omp taskgroup
                {
                    #pragma omp task if (0)
                    ;
                }
                sched_yield();
            }
            IS(int, ends, 1);
            pthread_create(&thread, NULL, fulfill, (void *)late);
            #pragma omp taskwait
            IS(int, ends, 2);
            pthread_join(thread, NULL);
        }
        IS(int, begins, 2);
        CHECK(ended[0] == begun[0] && ended[1] == begun[1]);
        IS(int, foreign_ends, before + 1);
    }
}

static void test_control(void)
{
    void ompt_control_(const int64_t *, const int64_t *);
    for (uint64_t command = 1; command <= 4; command++)
        ompt_control(command, 0);
    ompt_control(64, 5);
    ompt_control_(&(int64_t){-1}, &(int64_t){-2});
    IS(int, controls, 6);
    CHECK(omp_get_num_devices() == 0);
}

int main(void)
{
    test_hints();
    test_invokers();
    test_dependences();
    test_detach();
    test_control();
    return 0;
}
