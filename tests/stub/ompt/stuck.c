/* A tool that writes what it is told of the wait of a thread, which then goes on for ever: the program aborts. GENERATION is
 * that of the tool: 1 the draft, 2 the report of 2015, 5 OpenMP 5. */
#include "ompt_generations.h"
#include "settled.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

static omp_lock_t lock;
static ompt_get_thread_id_t get_thread_id;
static ompt2015_get_state_t get_state_2015;
static ompt_get_parallel_id_t get_parallel_id;
static ompt2015_get_task_info_t get_task_info_2015;
static ompt_get_state_t get_state_5;

static void on_wait(ompt_wait_id_t id)
{
    ompt_wait_id_t asked = 0;
    ompt_task_id_t task = 0;
    int state = get_state_2015(&asked);
    get_task_info_2015(0, NULL, &task, NULL, NULL);
    printf("%d %#llx %#llx %llu %llu %llu\n", state, (unsigned long long)id, (unsigned long long)asked,
           (unsigned long long)get_thread_id(), (unsigned long long)get_parallel_id(0), (unsigned long long)task);
    fflush(stdout);
}

static void on_acquire(ompt_mutex_t kind, unsigned hint, unsigned impl, ompt_wait_id_t id, const void *codeptr)
{
    (void)hint, (void)impl, (void)codeptr;
    if (kind == ompt_mutex_lock && omp_get_thread_num() == 1) {
        printf("%d %#llx\n", get_state_5(NULL), (unsigned long long)id); /* before it waits */
        fflush(stdout);
    }
}

static void register_2015(ompt_function_lookup_t lookup)
{
    ompt2015_set_callback_t set = (ompt2015_set_callback_t)lookup("ompt_set_callback");
    get_thread_id = (ompt_get_thread_id_t)lookup("ompt_get_thread_id");
    get_state_2015 = (ompt2015_get_state_t)lookup("ompt_get_state");
    get_parallel_id = (ompt_get_parallel_id_t)lookup("ompt_get_parallel_id");
    get_task_info_2015 = (ompt2015_get_task_info_t)lookup("ompt_get_task_info");
    set(ompt_event_wait_lock, (ompt_callback_t)on_wait);
}

#if GENERATION == 1
int ompt_initialize(ompt_function_lookup_t lookup, const char *runtime, unsigned version)
{
    (void)runtime;
    register_2015(lookup);
    return (int)version;
}
#elif GENERATION == 2
static void initialize(const char *runtime, unsigned version, ompt_function_lookup_t lookup)
{
    (void)runtime, (void)version;
    register_2015(lookup);
}

ompt_initialize_fn_t ompt_tool(void) { return initialize; }
#else
static int initialize(ompt_function_lookup_t lookup, int device, ompt_data_t *tool)
{
    (void)device, (void)tool, (void)register_2015;
    get_state_5 = (ompt_get_state_t)lookup("ompt_get_state");
    ((ompt_set_callback_t)lookup("ompt_set_callback"))(ompt_callback_mutex_acquire, (ompt_callback_t)on_acquire);
    return 1;
}

ompt_start_tool_result_t *ompt_start_tool(unsigned version, const char *runtime)
{
    static ompt_start_tool_result_t result = {initialize, NULL, {0}};
    (void)version, (void)runtime;
    return &result;
}
#endif

int main(void)
{
    (void)on_acquire, (void)on_wait;
    omp_init_lock(&lock);
    omp_set_lock(&lock);
    #pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 1) {
            omp_set_lock(&lock);
        } else {
            until_settled(1);
            abort();
        }
    }
    return 0;
}
