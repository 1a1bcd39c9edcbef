/* Entry points of what this runtime does not have: they say so, and end the program. */
#include "internal.h"

#define UNSUPPORTED(name)                                                                                              \
    EXPORT void name(void);                                                                                            \
    void name(void)                                                                                                    \
    {                                                                                                                  \
        fail(#name " is not supported");                                                                              \
    }

UNSUPPORTED(GOMP_parallel_reductions)
UNSUPPORTED(GOMP_taskgroup_reduction_register)
UNSUPPORTED(GOMP_taskgroup_reduction_unregister)
UNSUPPORTED(GOMP_task_reduction_remap)
UNSUPPORTED(GOMP_workshare_task_reduction_unregister)
UNSUPPORTED(GOMP_doacross_post)
UNSUPPORTED(GOMP_doacross_wait)
UNSUPPORTED(GOMP_doacross_ull_post)
UNSUPPORTED(GOMP_doacross_ull_wait)
UNSUPPORTED(GOMP_loop_doacross_start)
UNSUPPORTED(GOMP_loop_doacross_static_start)
UNSUPPORTED(GOMP_loop_doacross_dynamic_start)
UNSUPPORTED(GOMP_loop_doacross_guided_start)
UNSUPPORTED(GOMP_loop_doacross_runtime_start)
UNSUPPORTED(GOMP_loop_ull_doacross_start)
UNSUPPORTED(GOMP_loop_ull_doacross_static_start)
UNSUPPORTED(GOMP_loop_ull_doacross_dynamic_start)
UNSUPPORTED(GOMP_loop_ull_doacross_guided_start)
UNSUPPORTED(GOMP_loop_ull_doacross_runtime_start)
UNSUPPORTED(GOMP_teams)
UNSUPPORTED(GOMP_teams4)
UNSUPPORTED(GOMP_teams_reg)
UNSUPPORTED(GOMP_target)
UNSUPPORTED(GOMP_target_data)
UNSUPPORTED(GOMP_target_update)
UNSUPPORTED(GOMP_offload_register)
UNSUPPORTED(GOMP_offload_register_ver)
UNSUPPORTED(GOMP_offload_unregister)
UNSUPPORTED(GOMP_offload_unregister_ver)
UNSUPPORTED(GOMP_alloc)
UNSUPPORTED(GOMP_free)
UNSUPPORTED(GOMP_error)
UNSUPPORTED(GOMP_warning)

/* Cancellation is never activated (cancel-var is false), and then these constructs have no effect. */
EXPORT bool GOMP_cancel(int which, bool do_cancel)
{
    (void)which, (void)do_cancel;
    initialize();
    return false;
}

EXPORT bool GOMP_cancellation_point(int which)
{
    (void)which;
    initialize();
    return false;
}
