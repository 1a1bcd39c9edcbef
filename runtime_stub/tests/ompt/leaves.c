/* A thread that is in a region ends the process, while others go on to do what the tool is told of: what is registered is
 * forgotten under their hands. */
#include "../check.h"
#include "ompt.h"

#include <omp.h>

enum { ENOUGH = 2000 };

static int acquired, shutdowns;
static omp_lock_t lock;

static void on_acquired(ompt_wait_id_t id)
{
    (void)id;
    COUNT_UP(&acquired, 0);
}

static void on_shutdown(void)
{
    IS(int, ++shutdowns, 1);
}

static void initialize(const char *name, unsigned version, ompt_function_lookup_t lookup)
{
    ompt_set_callback_t set = (ompt_set_callback_t)lookup("ompt_set_callback");
    (void)name, (void)version;
    set(ompt_event_acquired_lock, (ompt_callback_t)on_acquired);
    set(ompt_event_runtime_shutdown, on_shutdown);
}

ompt_initialize_fn_t ompt_tool(void) { return initialize; }

int main(void)
{
    omp_init_lock(&lock);
    #pragma omp parallel num_threads(4)
    for (;;) {
        omp_set_lock(&lock);
        omp_unset_lock(&lock);
        if (omp_get_thread_num() == 1 && __atomic_load_n(&acquired, __ATOMIC_RELAXED) > ENOUGH)
            exit(0);
    }
}
