/* The types of OMPD's interface (OpenMP 5.0 to 5.2) as far as the stub's library needs them, and what its files share.
 * It is linked without a C library. */
#ifndef OMPD_INTERNAL_H
#define OMPD_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t ompd_size_t, ompd_wait_id_t, ompd_addr_t, ompd_seg_t, ompd_thread_id_t, ompd_icv_id_t;
typedef int64_t ompd_word_t;
typedef struct { ompd_seg_t segment; ompd_addr_t address; } ompd_address_t;
typedef struct { ompd_address_t frame_address; ompd_word_t frame_flag; } ompd_frame_info_t;
typedef struct {
    uint8_t sizeof_char, sizeof_short, sizeof_int, sizeof_long, sizeof_long_long, sizeof_pointer;
} ompd_device_type_sizes_t;

typedef enum {
    ompd_rc_ok, ompd_rc_unavailable, ompd_rc_stale_handle, ompd_rc_bad_input, ompd_rc_error, ompd_rc_unsupported,
    ompd_rc_needs_state_tracking, ompd_rc_incompatible, ompd_rc_device_read_error, ompd_rc_device_write_error,
    ompd_rc_nomem, ompd_rc_incomplete, ompd_rc_callback_error
} ompd_rc_t;

typedef enum {
    ompd_scope_global = 1, ompd_scope_address_space, ompd_scope_thread, ompd_scope_parallel, ompd_scope_implicit_task,
    ompd_scope_task
} ompd_scope_t;

enum { ompd_thread_id_pthread = 0, ompd_thread_id_lwp = 1 };
#define OMPD_SEGMENT_UNSPECIFIED 0

typedef struct _ompd_aspace_cont ompd_address_space_context_t;
typedef struct _ompd_thread_cont ompd_thread_context_t;
typedef struct _ompd_aspace_handle ompd_address_space_handle_t;
typedef struct _ompd_thread_handle ompd_thread_handle_t;
typedef struct _ompd_parallel_handle ompd_parallel_handle_t;
typedef struct _ompd_task_handle ompd_task_handle_t;

/* In the standard's order. */
typedef struct {
    ompd_rc_t (*alloc_memory)(ompd_size_t, void **);
    ompd_rc_t (*free_memory)(void *);
    ompd_rc_t (*print_string)(const char *, int);
    ompd_rc_t (*sizeof_type)(ompd_address_space_context_t *, ompd_device_type_sizes_t *);
    ompd_rc_t (*symbol_addr_lookup)(ompd_address_space_context_t *, ompd_thread_context_t *, const char *,
                                    ompd_address_t *, const char *);
    ompd_rc_t (*read_memory)(ompd_address_space_context_t *, ompd_thread_context_t *, const ompd_address_t *,
                             ompd_size_t, void *);
    ompd_rc_t (*write_memory)(ompd_address_space_context_t *, ompd_thread_context_t *, const ompd_address_t *,
                              ompd_size_t, const void *);
    ompd_rc_t (*read_string)(ompd_address_space_context_t *, ompd_thread_context_t *, const ompd_address_t *,
                             ompd_size_t, void *);
    ompd_rc_t (*device_to_host)(ompd_address_space_context_t *, const void *, ompd_size_t, ompd_size_t, void *);
    ompd_rc_t (*host_to_device)(ompd_address_space_context_t *, const void *, ompd_size_t, ompd_size_t, void *);
    ompd_rc_t (*get_thread_context_for_thread_id)(ompd_address_space_context_t *, ompd_thread_id_t, ompd_size_t,
                                                  const void *, ompd_thread_context_t **);
} ompd_callbacks_t;

/* What ompd_initialize was given: all that this part of the library keeps. */
extern const ompd_callbacks_t *ompd_callbacks;

/* The members that are read: of a structure, by name. */
#define MEMBERS(M)                                                                                                     \
    M(stub_process, openmp_version) M(stub_process, debug_enabled) M(stub_process, initialized)                        \
    M(stub_process, threads) M(stub_process, max_task_priority) M(stub_process, cancellation)                          \
    M(stub_process, stack_size) M(stub_process, num_procs) M(stub_process, icvs)                                       \
    M(stub_thread, next) M(stub_thread, state) M(stub_thread, wait_id) M(stub_thread, pthread)                         \
    M(stub_thread, native_id) M(stub_thread, team) M(stub_thread, task) M(stub_thread, stack_low)                      \
    M(stub_thread, stack_high) M(stub_thread, tool_data)                                                               \
    M(stub_team, parent) M(stub_team, size) M(stub_team, level) M(stub_team, active_level) M(stub_team, threads)       \
    M(stub_team, implicit) M(stub_team, tool_data)                                                                     \
    M(stub_task, type) M(stub_task, status) M(stub_task, generating) M(stub_task, scheduling) M(stub_task, team)       \
    M(stub_task, thread) M(stub_task, function) M(stub_task, frame) M(stub_task, tool_data) M(stub_task, is_final)     \
    M(stub_task, icvs)                                                                                                 \
    M(stub_frame, exit_runtime_frame) M(stub_frame, reenter_runtime_frame) M(stub_frame, exit_frame_flags)             \
    M(stub_frame, reenter_frame_flags)                                                                                 \
    M(stub_icvs, nthreads) M(stub_icvs, dynamic) M(stub_icvs, max_active_levels) M(stub_icvs, schedule_kind)           \
    M(stub_icvs, schedule_chunk) M(stub_icvs, default_device) M(stub_icvs, thread_limit) M(stub_icvs, proc_bind)

#define MEMBER_NUMBER(structure, member) structure##_##member,
enum member { MEMBERS(MEMBER_NUMBER) MEMBER_COUNT };

/* What a handle is, in its first word: 0 once it was released. */
enum mark { MARK_SPACE = 0x6f6d7001, MARK_THREAD, MARK_REGION, MARK_TASK };

struct _ompd_aspace_handle {
    uint64_t mark;
    ompd_address_space_context_t *context;
    uint64_t root;                    /* stub_process */
    uint32_t pointer_size;
    uint32_t offsets[MEMBER_COUNT];
};

/* A handle: where the structure is. */
#define HANDLE                                                                                                         \
    uint64_t mark;                                                                                                     \
    ompd_address_space_handle_t *space;                                                                                \
    uint64_t address
struct _ompd_thread_handle { HANDLE; };
struct _ompd_parallel_handle { HANDLE; };
struct _ompd_task_handle { HANDLE; };
struct any_handle { HANDLE; };

/* ompt_task_type_t of 2015, and stub_task_status. */
enum { TASK_SERIAL = 1, TASK_IMPLICIT = 2, TASK_EXPLICIT = 3, TASK_DEGENERATE = 5 };
enum { CREATED = 1 };

/* More than any program has. */
enum { MAX_THREADS = 1 << 20 };

/* space.c */
ompd_rc_t read_number(ompd_address_space_handle_t *space, uint64_t address, size_t size, uint64_t *number);
ompd_rc_t read_pointer(ompd_address_space_handle_t *space, uint64_t structure, enum member member, uint64_t *pointer);
ompd_rc_t read_wide(ompd_address_space_handle_t *space, uint64_t structure, enum member member, uint64_t *number);
ompd_rc_t read_int(ompd_address_space_handle_t *space, uint64_t structure, enum member member, int32_t *number);
ompd_rc_t keeps_states(ompd_address_space_handle_t *space); /* ompd_rc_needs_state_tracking if it does not */
ompd_rc_t allocate(size_t size, void **memory);
ompd_rc_t new_handle(ompd_address_space_handle_t *space, uint64_t address, enum mark mark, struct any_handle **handle);
/* stale_handle unless the handle is of that kind and, with its address space, not released. */
ompd_rc_t check_handle(const void *handle, enum mark mark);

/* facts.c */
ompd_rc_t text_copy(const char *text, const char **copy);

#endif
