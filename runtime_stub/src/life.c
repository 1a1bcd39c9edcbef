/* How the runtime ends, and begins again: at the end of the process, when the program pauses it, and after fork(). */
#include "internal.h"

#include <stdlib.h>

bool tool_is_due = true;

/* At exit() the tool hears of the ends of all threads that can be ended: those of the pool, and the caller. One that is in
 * a region, as after exit() within one, stays. Handlers of exit() that come later find a runtime without a tool. */
static void shut_down(void)
{
    if (!told())
        return;
    end_pool();
    end_initial_thread();
    end_tool();
}

static void begin_in_child(void)
{
    lose_threads();
    forget_tool();
    lose_trace();
    tool_is_due = true;
}

void prepare_for_ends(void)
{
    atexit(shut_down);
    pthread_atfork(lock_threads, unlock_threads, begin_in_child);
}

enum { PAUSE_SOFT = 1, PAUSE_HARD = 2 };  /* omp_pause_resource_t */
enum { HOST = 0 };

/* Soft is to keep what has values, which is all that there is. Hard ends the pool, and the tool; both are made anew when the
 * runtime is next met. What other threads than the caller have met cannot be ended for them. */
static int pause_all(int kind)
{
    const struct stub_thread *thread = current_thread();
    if ((kind != PAUSE_SOFT && kind != PAUSE_HARD) || thread->team->level)
        return -1;
    if (kind == PAUSE_SOFT)
        return 0;
    pthread_mutex_lock(&omp_stub_process.mutex);
    bool is_alone = omp_stub_process.teams == thread->team && !thread->team->next;
    pthread_mutex_unlock(&omp_stub_process.mutex);
    if (!is_alone)
        return -1;
    end_pool();
    end_initial_thread();
    end_tool();
    __atomic_store_n(&tool_is_due, true, __ATOMIC_RELEASE);
    return 0;
}

EXPORT int omp_pause_resource_all(int kind) { return pause_all(kind); }
EXPORT int omp_pause_resource_all_(const int32_t *kind) { return pause_all(*kind); }

static int pause_device(int kind, int device)
{
    initialize();
    return device == HOST ? pause_all(kind) : -1;
}
EXPORT int omp_pause_resource(int kind, int device) { return pause_device(kind, device); }
EXPORT int omp_pause_resource_(const int32_t *kind, const int32_t *device) { return pause_device(*kind, *device); }
