/* OMPT as the technical report of November 2015 has it, and as the draft before it had its registration.
 *
 * There are three generations of this interface. OpenMP 5 gave nearly all of its names away anew, with other numbers: a
 * lock is waited for in state 0x60 here and in 0x41 there, an explicit task is 3 here and 4 there. So each generation has the
 * names that its document has, in a header of its own, and a tool is written as its document says:
 *
 *     ompt.h               the report of 2015 (a tool defines ompt_tool), and the draft (it defines ompt_initialize),
 *                          which differ in how a tool is started and in nothing else
 *     omp-tools.h          OpenMP 5.2 (it defines ompt_start_tool)
 *     ompt_generations.h   both at once, for who serves more than one: the runtime, a tool for every runtime
 *
 * No name is defined in two places. What the report calls "functions" are no symbols of a runtime: a tool asks `lookup`
 * for them, and so they are types here: what lookup("ompt_get_state") returns is an `ompt_get_state_t`.
 *
 * Names that begin with `ompt2015_` are for numbers that the report leaves without one. Where the report contradicts
 * itself, a comment says "Ruling"; docs/dev/ompt.md has the reasons. */
#ifndef OMPT_H
#define OMPT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OMPT_API
#define OMPT_TARG_API

/* States of a thread. */
typedef enum {
    ompt_state_work_serial = 0x00,
    ompt_state_work_parallel = 0x01,
    ompt_state_work_reduction = 0x02,
    ompt_state_idle = 0x10,
    ompt_state_overhead = 0x20,
    ompt_state_wait_barrier = 0x40,
    ompt_state_wait_barrier_implicit = 0x41,
    ompt_state_wait_barrier_explicit = 0x42,
    ompt_state_wait_taskwait = 0x50,
    ompt_state_wait_taskgroup = 0x51,
    ompt_state_wait_lock = 0x60,
    ompt_state_wait_nest_lock = 0x61,
    ompt_state_wait_critical = 0x62,
    ompt_state_wait_atomic = 0x63,
    ompt_state_wait_ordered = 0x64,
    ompt_state_wait_target = 0x70,
    ompt_state_wait_target_data = 0x71,
    ompt_state_wait_target_update = 0x72,
    ompt_state_undefined = 0x80,
    ompt_state_first = 0x81           /* where an enumeration begins, no thread's state */
} ompt_state_t;

/* Events, in the order of their numbers; the comment is the type of the callback. */
typedef enum {
    ompt_event_parallel_begin = 1,                /* ompt_parallel_begin_callback_t */
    ompt_event_parallel_end = 2,                  /* ompt_parallel_end_callback_t */
    ompt_event_task_begin = 3,                    /* ompt_task_begin_callback_t */
    ompt_event_task_end = 4,                      /* ompt_task_callback_t */
    ompt_event_thread_begin = 5,                  /* ompt_thread_type_callback_t */
    ompt_event_thread_end = 6,                    /* ompt_thread_type_callback_t */
    ompt_event_control = 7,                       /* ompt_control_callback_t */
    ompt_event_runtime_shutdown = 8,              /* ompt_callback_t */
    ompt_event_idle_begin = 9,                    /* ompt_thread_callback_t */
    ompt_event_idle_end = 10,                     /* ompt_thread_callback_t */
    ompt_event_wait_barrier_begin = 11,           /* ompt_parallel_callback_t */
    ompt_event_wait_barrier_end = 12,             /* ompt_parallel_callback_t */
    ompt_event_wait_taskwait_begin = 13,          /* ompt_parallel_callback_t */
    ompt_event_wait_taskwait_end = 14,            /* ompt_parallel_callback_t */
    ompt_event_wait_taskgroup_begin = 15,         /* ompt_parallel_callback_t */
    ompt_event_wait_taskgroup_end = 16,           /* ompt_parallel_callback_t */
    ompt_event_release_lock = 17,                 /* ompt_wait_callback_t */
    ompt_event_release_nest_lock_last = 18,       /* ompt_wait_callback_t */
    ompt_event_release_critical = 19,             /* ompt_wait_callback_t */
    ompt_event_release_atomic = 20,               /* ompt_wait_callback_t */
    ompt_event_release_ordered = 21,              /* ompt_wait_callback_t */
    ompt_event_implicit_task_begin = 22,          /* ompt_parallel_callback_t */
    ompt_event_implicit_task_end = 23,            /* ompt_parallel_callback_t */
    ompt_event_initial_task_begin = 24,           /* ompt_task_callback_t */
    ompt_event_initial_task_end = 25,             /* ompt_task_callback_t */
    ompt_event_task_switch = 26,                  /* ompt_task_pair_callback_t */
    ompt_event_loop_begin = 27,                   /* ompt_workshare_begin_callback_t */
    ompt_event_loop_end = 28,                     /* ompt_parallel_callback_t */
    ompt_event_sections_begin = 29,               /* ompt_workshare_begin_callback_t */
    ompt_event_sections_end = 30,                 /* ompt_parallel_callback_t */
    ompt_event_single_in_block_begin = 31,        /* ompt_workshare_begin_callback_t */
    ompt_event_single_in_block_end = 32,          /* ompt_parallel_callback_t */
    ompt_event_single_others_begin = 33,          /* ompt_parallel_callback_t */
    ompt_event_single_others_end = 34,            /* ompt_parallel_callback_t */
    ompt_event_workshare_begin = 35,              /* ompt_workshare_begin_callback_t */
    ompt_event_workshare_end = 36,                /* ompt_parallel_callback_t */
    ompt_event_master_begin = 37,                 /* ompt_sync_callback_t */
    ompt_event_master_end = 38,                   /* ompt_parallel_callback_t */
    ompt_event_barrier_begin = 39,                /* ompt_sync_callback_t */
    ompt_event_barrier_end = 40,                  /* ompt_parallel_callback_t */
    ompt_event_taskwait_begin = 41,               /* ompt_sync_callback_t */
    ompt_event_taskwait_end = 42,                 /* ompt_parallel_callback_t */
    ompt_event_taskgroup_begin = 43,              /* ompt_sync_callback_t */
    ompt_event_taskgroup_end = 44,                /* ompt_parallel_callback_t */
    ompt_event_release_nest_lock_prev = 45,       /* ompt_wait_callback_t */
    ompt_event_wait_lock = 46,                    /* ompt_wait_callback_t */
    ompt_event_wait_nest_lock = 47,               /* ompt_wait_callback_t */
    ompt_event_wait_critical = 48,                /* ompt_lock_callback_t */
    ompt_event_wait_atomic = 49,                  /* ompt_atomic_callback_t */
    ompt_event_wait_ordered = 50,                 /* ompt_wait_callback_t */
    ompt_event_acquired_lock = 51,                /* ompt_wait_callback_t */
    ompt_event_acquired_nest_lock_first = 52,     /* ompt_wait_callback_t */
    ompt_event_acquired_nest_lock_next = 53,      /* ompt_wait_callback_t */
    ompt_event_acquired_critical = 54,            /* ompt_wait_callback_t */
    ompt_event_acquired_atomic = 55,              /* ompt_wait_callback_t */
    ompt_event_acquired_ordered = 56,             /* ompt_wait_callback_t */
    ompt_event_init_lock = 57,                    /* ompt_lock_callback_t */
    ompt_event_init_nest_lock = 58,               /* ompt_lock_callback_t */
    ompt_event_destroy_lock = 59,                 /* ompt_wait_callback_t */
    ompt_event_destroy_nest_lock = 60,            /* ompt_wait_callback_t */
    ompt_event_flush = 61,                        /* ompt_thread_callback_t */
    ompt_event_target_task_begin = 62,            /* ompt_target_task_begin_callback_t */
    ompt_event_target_task_end_sync = 63,         /* ompt_target_task_end_callback_t */
    ompt_event_target_task_end_async = 64,        /* ompt_target_task_end_callback_t */
    ompt_event_target_data_begin = 65,            /* ompt_target_data_begin_callback_t */
    ompt_event_target_data_end = 66,              /* ompt_task_callback_t */
    ompt_event_target_data_map_begin = 67,        /* ompt_target_data_map_begin_callback_t */
    ompt_event_target_data_map_end = 68,          /* ompt_target_data_map_end_callback_t */
    ompt_event_task_dependences = 69,             /* ompt_task_dependences_callback_t */
    ompt_event_task_dependence_pair = 70,         /* ompt_task_pair_callback_t */

    /* Ruling: the text's one event is the mandatory one of the list's two. */
    ompt_event_target_task_end = ompt_event_target_task_end_sync
} ompt_event_t;

/* What ompt_set_callback returns, and ompt_target_set_trace_ompt. */
enum {
    ompt2015_set_error = 0,           /* not registered: not now, or no such event */
    ompt2015_set_no_callback = 1,     /* the event may occur, and its callback is never called */
    ompt2015_set_never = 2,           /* the event never occurs */
    ompt2015_set_sometimes = 3,       /* it may occur, and its callback is called when that is convenient */
    ompt2015_set_always = 4           /* its callback is called whenever it occurs */
};

/* Identifiers. 0 is no thread, no task, no region, nothing that is waited for. */
typedef uint64_t ompt_thread_id_t;
typedef uint64_t ompt_task_id_t;
typedef uint64_t ompt_parallel_id_t;
typedef uint64_t ompt_wait_id_t;
typedef uint64_t ompt_target_activity_id_t;

typedef uint32_t ompt_lock_type_t;
typedef uint32_t ompt_lock_hint_t;
typedef uint32_t ompt_atomic_type_t;  /* Ruling: used, and defined nowhere; as its callback's parameter */
typedef uint32_t ompt_bool;

typedef void ompt_target_device_t;
typedef void ompt_target_buffer_t;
typedef uint64_t ompt_target_time_t;
typedef uint64_t ompt_target_buffer_cursor_t; /* Ruling: void there, which cannot be passed by value */

typedef enum ompt_thread_type_e {
    ompt_thread_initial = 1,
    ompt_thread_worker = 2,
    ompt_thread_other = 3
} ompt_thread_type_t;

typedef enum ompt_target_task_type_e {
    ompt_target_task_target = 1,
    ompt_target_task_enter_data = 2,
    ompt_target_task_exit_data = 3,
    ompt_target_task_update = 4
} ompt_target_task_type_t;

typedef enum ompt_native_mon_flags_e {
    ompt_native_data_motion_explicit = 1,
    ompt_native_data_motion_implicit = 2,
    ompt_native_kernel_invocation = 4,
    ompt_native_kernel_execution = 8,
    ompt_native_driver = 16,
    ompt_native_runtime = 32,
    ompt_native_overhead = 64,
    ompt_native_idleness = 128
} ompt_native_mon_flags_t;

typedef enum ompt_task_type_e {
    ompt_task_serial = 1,
    ompt_task_implicit = 2,
    ompt_task_explicit = 3,
    ompt_task_target = 4,
    ompt_task_degenerate = 5
} ompt_task_type_t;

typedef enum ompt_invoker_e {
    ompt_invoker_program = 0,         /* the program calls the outlined function of the primary thread's task */
    ompt_invoker_runtime = 1          /* the runtime does */
} ompt_invoker_t;

typedef enum ompt_task_dependence_flag_e {
    ompt_task_dependence_type_out = 1,
    ompt_task_dependence_type_in = 2,
    ompt_task_dependence_type_inout = 3
} ompt_task_dependence_flag_t;

typedef struct ompt_task_dependence_s {
    void *variable_addr;
    uint32_t dependence_flags;
} ompt_task_dependence_t;

/* Three bits for the kind, which are a number, and one for the rest. */
typedef enum ompt_target_map_flag_e {
    ompt_target_map_flag_to = 1,
    ompt_target_map_flag_from = 2,
    ompt_target_map_flag_tofrom = 3,
    ompt_target_map_flag_alloc = 4,
    ompt_target_map_flag_release = 5,
    ompt_target_map_flag_delete = 6,
    ompt_target_map_flag_sync = 8
} ompt_target_map_flag_t;

typedef struct ompt_target_map_entry_s {
    void *host_addr;
    void *device_addr;
    size_t bytes;
    uint32_t mapping_flags;
} ompt_target_map_entry_t;

typedef struct ompt_frame_s {
    void *exit_runtime_frame;         /* of the runtime: what it called is the task's code; NULL outside of it */
    void *reenter_runtime_frame;      /* of the task: the runtime was called from it; NULL while it is not */
} ompt_frame_t;

#define ompt_hwid_none (-1)
#define ompt_dev_task_none (~0ULL)
#define ompt_time_none (~0ULL)
#define ompt_lock_type_first 0
#define ompt_atomic_type_first 0

/* Callbacks. */
typedef void (*ompt_interface_fn_t)(void);
typedef ompt_interface_fn_t (*ompt_function_lookup_t)(const char *entry_point);

typedef void (*ompt_callback_t)(void);
typedef void (*ompt_thread_callback_t)(ompt_thread_id_t thread_id);
typedef void (*ompt_thread_type_callback_t)(ompt_thread_type_t thread_type, ompt_thread_id_t thread_id);
typedef void (*ompt_wait_callback_t)(ompt_wait_id_t wait_id);
typedef void (*ompt_atomic_callback_t)(ompt_wait_id_t wait_id, uint32_t atomic_type);
typedef void (*ompt_sync_callback_t)(ompt_parallel_id_t parallel_id, ompt_task_id_t task_id, const void *codeptr_ra);
typedef void (*ompt_workshare_begin_callback_t)(ompt_parallel_id_t parallel_id, ompt_task_id_t task_id,
                                                const void *codeptr_ra);
typedef void (*ompt_parallel_begin_callback_t)(ompt_task_id_t parent_task_id, const ompt_frame_t *parent_frame,
                                               ompt_parallel_id_t parallel_id, uint32_t requested_team_size,
                                               const void *codeptr_ofn, ompt_invoker_t invoker);
typedef void (*ompt_parallel_callback_t)(ompt_parallel_id_t parallel_id, ompt_task_id_t task_id);
typedef void (*ompt_parallel_end_callback_t)(ompt_parallel_id_t parallel_id, ompt_task_id_t task_id,
                                             ompt_invoker_t invoker);
typedef void (*ompt_task_callback_t)(ompt_task_id_t task_id);
typedef void (*ompt_task_begin_callback_t)(ompt_task_id_t parent_task_id, const ompt_frame_t *parent_frame,
                                           ompt_task_id_t new_task_id, const void *codeptr_ofn);
typedef void (*ompt_target_task_begin_callback_t)(ompt_task_id_t parent_task_id, const ompt_frame_t *parent_frame,
                                                  ompt_task_id_t host_task_id, int device_id,
                                                  const void *target_task_code, ompt_target_task_type_t task_type);
typedef void (*ompt_target_task_end_callback_t)(ompt_task_id_t host_task_id);
typedef void (*ompt_lock_callback_t)(ompt_wait_id_t wait_id, ompt_lock_hint_t lock_hint, ompt_lock_type_t lock_type);
typedef void (*ompt_target_data_begin_callback_t)(ompt_task_id_t task_id, int device_id, const void *codeptr_ra);
typedef void (*ompt_target_data_map_begin_callback_t)(ompt_task_id_t task_id, int device_id,
                                                      const ompt_target_map_entry_t *items, uint32_t nitems,
                                                      ompt_target_activity_id_t map_id);
typedef void (*ompt_target_data_map_end_callback_t)(int device_id, ompt_target_activity_id_t map_id);
typedef void (*ompt_task_dependences_callback_t)(ompt_task_id_t task_id, const ompt_task_dependence_t *deps, int ndeps);
typedef void (*ompt_task_pair_callback_t)(ompt_task_id_t first_task_id, ompt_task_id_t second_task_id);
typedef void (*ompt_control_callback_t)(uint64_t command, uint64_t modifier);

/* Ruling: with `device_id`, which the appendix has left out and the text explains. */
typedef void (*ompt_target_buffer_request_callback_t)(int device_id, ompt_target_buffer_t **buffer, size_t *bytes);
typedef void (*ompt_target_buffer_complete_callback_t)(int device_id, const ompt_target_buffer_t *buffer, size_t bytes,
                                                       ompt_target_buffer_cursor_t begin,
                                                       ompt_target_buffer_cursor_t end);

/* What a tool looks up. */
typedef int (*ompt_set_callback_t)(ompt_event_t event, ompt_callback_t callback);
typedef int (*ompt_get_callback_t)(ompt_event_t event, ompt_callback_t *callback);
typedef int (*ompt_enumerate_state_t)(ompt_state_t current_state, ompt_state_t *next_state,
                                      const char **next_state_name);
typedef int (*ompt_enumerate_lock_type_t)(ompt_lock_type_t current_type, ompt_lock_type_t *next_type,
                                          const char **next_type_name);
typedef ompt_enumerate_lock_type_t ompt_enumerate_lock_types_t; /* Ruling: lookup knows both spellings */
typedef int (*ompt_enumerate_atomic_type_t)(ompt_atomic_type_t current_type, ompt_atomic_type_t *next_type,
                                            const char **next_type_implementation);
typedef ompt_thread_id_t (*ompt_get_thread_id_t)(void);
typedef ompt_state_t (*ompt_get_state_t)(ompt_wait_id_t *wait_id);
typedef ompt_parallel_id_t (*ompt_get_parallel_id_t)(int ancestor_level);
typedef int (*ompt_get_parallel_team_size_t)(int ancestor_level);
typedef ompt_bool (*ompt_get_task_info_t)(int ancestor_level, ompt_task_type_t *type, ompt_task_id_t *task_id,
                                          ompt_frame_t **task_frame, ompt_parallel_id_t *par_id);
typedef int (*ompt_get_num_devices_t)(void);
typedef int (*ompt_target_get_device_id_t)(void);

/* Ruling: `documentation` is one pointer more than there, as it is for the answer. */
typedef int (*ompt_target_get_device_info_t)(int device_id, const char **type, ompt_target_device_t **device,
                                             ompt_function_lookup_t *lookup, const char **documentation);

#include "ompt_records.h"

/* What a device's own lookup knows. */
typedef ompt_target_time_t (*ompt_target_get_time_t)(ompt_target_device_t *device);
typedef double (*ompt_target_translate_time_t)(ompt_target_device_t *device, ompt_target_time_t time);

/* Ruling: `rtype` is the number of an event, 0 for all, although there it has the type ompt_record_type_t. */
typedef int (*ompt_target_set_trace_ompt_t)(ompt_target_device_t *device, ompt_bool enable, uint32_t rtype);
typedef int (*ompt_target_set_trace_native_t)(ompt_target_device_t *device, ompt_bool enable, uint32_t flags);
typedef int (*ompt_target_start_trace_t)(ompt_target_device_t *device, ompt_target_buffer_request_callback_t request,
                                         ompt_target_buffer_complete_callback_t complete);
typedef int (*ompt_target_pause_trace_t)(ompt_target_device_t *device, ompt_bool begin_pause);
typedef int (*ompt_target_stop_trace_t)(ompt_target_device_t *device);
typedef int (*ompt_target_advance_buffer_cursor_t)(ompt_target_buffer_t *buffer, ompt_target_buffer_cursor_t current,
                                                   ompt_target_buffer_cursor_t *next);
typedef ompt_record_type_t (*ompt_target_buffer_get_record_type_t)(ompt_target_buffer_t *buffer,
                                                                   ompt_target_buffer_cursor_t current);
typedef ompt_record_ompt_t *(*ompt_target_buffer_get_record_ompt_t)(ompt_target_buffer_t *buffer,
                                                                    ompt_target_buffer_cursor_t current);
typedef ompt_record_correlation_t *(*ompt_target_buffer_get_record_correlation_t)(ompt_target_buffer_t *buffer,
                                                                                  ompt_target_buffer_cursor_t current);
typedef void *(*ompt_target_buffer_get_record_native_t)(ompt_target_buffer_t *buffer,
                                                        ompt_target_buffer_cursor_t current);
typedef ompt_record_native_abstract_t *(*ompt_target_buffer_get_record_native_abstract_t)(void *native_record);

/* Registration. A tool defines one of the two, the runtime has weak ones that return 0.
 *
 * Ruling: the initializer of ompt_tool is called with the order of the appendix, (runtime_version, ompt_version, lookup),
 * and version 2; ompt_initialize of the draft with its own order and version 1. */
typedef void (*ompt_initialize_fn_t)(const char *runtime_version, unsigned int ompt_version,
                                     ompt_function_lookup_t lookup);
ompt_initialize_fn_t ompt_tool(void);
int ompt_initialize(ompt_function_lookup_t lookup, const char *runtime_version, unsigned int ompt_version);

enum {
    ompt2015_version_of_initialize = 1,
    ompt2015_version_of_tool = 2
};

/* For applications. Commands that are a tool's own begin at ompt2015_control_first_own. */
enum {
    ompt2015_control_start = 1,
    ompt2015_control_pause = 2,
    ompt2015_control_flush = 3,
    ompt2015_control_end = 4,
    ompt2015_control_first_own = 64
};
void ompt_control(uint64_t command, uint64_t modifier);

#ifdef __cplusplus
}
#endif

#endif
