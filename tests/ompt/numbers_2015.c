/* ompt.h has the numbers, sizes, offsets and signatures of its document. It compiles or it does not.
 *
 * Written by `python -m tests.ompt.layouts` from report_2015.json, and what docs/dev/ompt.md rules. */
#include "ompt.h"

#define BY_WIDTH(on_64, on_32) (sizeof(void *) == 8 ? (on_64) : (on_32))
#define NUMBER(name, value) _Static_assert((unsigned int)(name) == (value), #name)
#define SIZE(type, on_64, on_32) _Static_assert(sizeof(type) == BY_WIDTH(on_64, on_32), #type)
#define OFFSET(type, member, on_64, on_32) \
    _Static_assert(offsetof(type, member) == BY_WIDTH(on_64, on_32), #type "." #member)
#define TYPE(type, member, kind) \
    _Static_assert(_Generic(&((type *)0)->member, kind *: 1, default: 0), #type "." #member)
#define SAME(name, type) _Static_assert(_Generic((name *)0, type *: 1, default: 0), #name)
#define FUNCTION(type, returns, ...) \
    _Static_assert(_Generic((type)0, returns (*)(__VA_ARGS__): 1, default: 0), #type)
#define GLOBAL(name, returns, ...) _Static_assert(_Generic(name, returns (*)(__VA_ARGS__): 1, default: 0), #name)

/* ompt_state_t */
NUMBER(ompt_state_work_serial, 0x0);
NUMBER(ompt_state_work_parallel, 0x1);
NUMBER(ompt_state_work_reduction, 0x2);
NUMBER(ompt_state_idle, 0x10);
NUMBER(ompt_state_overhead, 0x20);
NUMBER(ompt_state_wait_barrier, 0x40);
NUMBER(ompt_state_wait_barrier_implicit, 0x41);
NUMBER(ompt_state_wait_barrier_explicit, 0x42);
NUMBER(ompt_state_wait_taskwait, 0x50);
NUMBER(ompt_state_wait_taskgroup, 0x51);
NUMBER(ompt_state_wait_lock, 0x60);
NUMBER(ompt_state_wait_nest_lock, 0x61);
NUMBER(ompt_state_wait_critical, 0x62);
NUMBER(ompt_state_wait_atomic, 0x63);
NUMBER(ompt_state_wait_ordered, 0x64);
NUMBER(ompt_state_wait_target, 0x70);
NUMBER(ompt_state_wait_target_data, 0x71);
NUMBER(ompt_state_wait_target_update, 0x72);
NUMBER(ompt_state_undefined, 0x80);
NUMBER(ompt_state_first, 0x81);
SIZE(ompt_state_t, 4, 4);

/* ompt_event_t */
NUMBER(ompt_event_thread_begin, 0x5);
NUMBER(ompt_event_thread_end, 0x6);
NUMBER(ompt_event_parallel_begin, 0x1);
NUMBER(ompt_event_parallel_end, 0x2);
NUMBER(ompt_event_task_begin, 0x3);
NUMBER(ompt_event_task_end, 0x4);
NUMBER(ompt_event_target_task_begin, 0x3e);
NUMBER(ompt_event_target_task_end_sync, 0x3f);
NUMBER(ompt_event_control, 0x7);
NUMBER(ompt_event_runtime_shutdown, 0x8);
NUMBER(ompt_event_target_task_end_async, 0x40);
NUMBER(ompt_event_idle_begin, 0x9);
NUMBER(ompt_event_idle_end, 0xa);
NUMBER(ompt_event_wait_barrier_begin, 0xb);
NUMBER(ompt_event_wait_barrier_end, 0xc);
NUMBER(ompt_event_wait_taskwait_begin, 0xd);
NUMBER(ompt_event_wait_taskwait_end, 0xe);
NUMBER(ompt_event_wait_taskgroup_begin, 0xf);
NUMBER(ompt_event_wait_taskgroup_end, 0x10);
NUMBER(ompt_event_release_lock, 0x11);
NUMBER(ompt_event_release_nest_lock_last, 0x12);
NUMBER(ompt_event_release_critical, 0x13);
NUMBER(ompt_event_release_atomic, 0x14);
NUMBER(ompt_event_release_ordered, 0x15);
NUMBER(ompt_event_implicit_task_begin, 0x16);
NUMBER(ompt_event_implicit_task_end, 0x17);
NUMBER(ompt_event_initial_task_begin, 0x18);
NUMBER(ompt_event_initial_task_end, 0x19);
NUMBER(ompt_event_task_switch, 0x1a);
NUMBER(ompt_event_loop_begin, 0x1b);
NUMBER(ompt_event_loop_end, 0x1c);
NUMBER(ompt_event_sections_begin, 0x1d);
NUMBER(ompt_event_sections_end, 0x1e);
NUMBER(ompt_event_single_in_block_begin, 0x1f);
NUMBER(ompt_event_single_in_block_end, 0x20);
NUMBER(ompt_event_single_others_begin, 0x21);
NUMBER(ompt_event_single_others_end, 0x22);
NUMBER(ompt_event_workshare_begin, 0x23);
NUMBER(ompt_event_workshare_end, 0x24);
NUMBER(ompt_event_master_begin, 0x25);
NUMBER(ompt_event_master_end, 0x26);
NUMBER(ompt_event_barrier_begin, 0x27);
NUMBER(ompt_event_barrier_end, 0x28);
NUMBER(ompt_event_taskwait_begin, 0x29);
NUMBER(ompt_event_taskwait_end, 0x2a);
NUMBER(ompt_event_taskgroup_begin, 0x2b);
NUMBER(ompt_event_taskgroup_end, 0x2c);
NUMBER(ompt_event_release_nest_lock_prev, 0x2d);
NUMBER(ompt_event_wait_lock, 0x2e);
NUMBER(ompt_event_wait_nest_lock, 0x2f);
NUMBER(ompt_event_wait_critical, 0x30);
NUMBER(ompt_event_wait_atomic, 0x31);
NUMBER(ompt_event_wait_ordered, 0x32);
NUMBER(ompt_event_acquired_lock, 0x33);
NUMBER(ompt_event_acquired_nest_lock_first, 0x34);
NUMBER(ompt_event_acquired_nest_lock_next, 0x35);
NUMBER(ompt_event_acquired_critical, 0x36);
NUMBER(ompt_event_acquired_atomic, 0x37);
NUMBER(ompt_event_acquired_ordered, 0x38);
NUMBER(ompt_event_init_lock, 0x39);
NUMBER(ompt_event_init_nest_lock, 0x3a);
NUMBER(ompt_event_destroy_lock, 0x3b);
NUMBER(ompt_event_destroy_nest_lock, 0x3c);
NUMBER(ompt_event_flush, 0x3d);
NUMBER(ompt_event_target_data_begin, 0x41);
NUMBER(ompt_event_target_data_end, 0x42);
NUMBER(ompt_event_target_data_map_begin, 0x43);
NUMBER(ompt_event_target_data_map_end, 0x44);
NUMBER(ompt_event_task_dependences, 0x45);
NUMBER(ompt_event_task_dependence_pair, 0x46);
NUMBER(ompt_event_target_task_end, 0x3f);
SIZE(ompt_event_t, 4, 4);

/* ompt_thread_type_t */
NUMBER(ompt_thread_initial, 0x1);
NUMBER(ompt_thread_worker, 0x2);
NUMBER(ompt_thread_other, 0x3);
SIZE(ompt_thread_type_t, 4, 4);

/* ompt_target_task_type_t */
NUMBER(ompt_target_task_target, 0x1);
NUMBER(ompt_target_task_enter_data, 0x2);
NUMBER(ompt_target_task_exit_data, 0x3);
NUMBER(ompt_target_task_update, 0x4);
SIZE(ompt_target_task_type_t, 4, 4);

/* ompt_native_mon_flags_t */
NUMBER(ompt_native_data_motion_explicit, 0x1);
NUMBER(ompt_native_data_motion_implicit, 0x2);
NUMBER(ompt_native_kernel_invocation, 0x4);
NUMBER(ompt_native_kernel_execution, 0x8);
NUMBER(ompt_native_driver, 0x10);
NUMBER(ompt_native_runtime, 0x20);
NUMBER(ompt_native_overhead, 0x40);
NUMBER(ompt_native_idleness, 0x80);
SIZE(ompt_native_mon_flags_t, 4, 4);

/* ompt_task_type_t */
NUMBER(ompt_task_serial, 0x1);
NUMBER(ompt_task_implicit, 0x2);
NUMBER(ompt_task_explicit, 0x3);
NUMBER(ompt_task_target, 0x4);
NUMBER(ompt_task_degenerate, 0x5);
SIZE(ompt_task_type_t, 4, 4);

/* ompt_invoker_t */
NUMBER(ompt_invoker_program, 0x0);
NUMBER(ompt_invoker_runtime, 0x1);
SIZE(ompt_invoker_t, 4, 4);

/* ompt_task_dependence_flag_t */
NUMBER(ompt_task_dependence_type_out, 0x1);
NUMBER(ompt_task_dependence_type_in, 0x2);
NUMBER(ompt_task_dependence_type_inout, 0x3);
SIZE(ompt_task_dependence_flag_t, 4, 4);

/* ompt_target_map_flag_t */
NUMBER(ompt_target_map_flag_to, 0x1);
NUMBER(ompt_target_map_flag_from, 0x2);
NUMBER(ompt_target_map_flag_tofrom, 0x3);
NUMBER(ompt_target_map_flag_alloc, 0x4);
NUMBER(ompt_target_map_flag_release, 0x5);
NUMBER(ompt_target_map_flag_delete, 0x6);
NUMBER(ompt_target_map_flag_sync, 0x8);
SIZE(ompt_target_map_flag_t, 4, 4);

/* ompt_record_type_t */
NUMBER(ompt_record_ompt, 0x0);
NUMBER(ompt_record_correlation, 0x1);
NUMBER(ompt_record_native, 0x2);
NUMBER(ompt_record_invalid, 0x3);
SIZE(ompt_record_type_t, 4, 4);

/* ompt_record_native_class_t */
NUMBER(ompt_record_native_class_info, 0x0);
NUMBER(ompt_record_native_class_event, 0x1);
SIZE(ompt_record_native_class_t, 4, 4);

/* numbers without a type */
NUMBER(ompt2015_set_error, 0x0);
NUMBER(ompt2015_set_no_callback, 0x1);
NUMBER(ompt2015_set_never, 0x2);
NUMBER(ompt2015_set_sometimes, 0x3);
NUMBER(ompt2015_set_always, 0x4);
NUMBER(ompt2015_version_of_initialize, 0x1);
NUMBER(ompt2015_version_of_tool, 0x2);
NUMBER(ompt2015_control_start, 0x1);
NUMBER(ompt2015_control_pause, 0x2);
NUMBER(ompt2015_control_flush, 0x3);
NUMBER(ompt2015_control_end, 0x4);
NUMBER(ompt2015_control_first_own, 0x40);

SAME(ompt_thread_id_t, uint64_t);
SAME(ompt_task_id_t, uint64_t);
SAME(ompt_parallel_id_t, uint64_t);
SAME(ompt_wait_id_t, uint64_t);
SAME(ompt_target_activity_id_t, uint64_t);
SAME(ompt_lock_type_t, uint32_t);
SAME(ompt_lock_hint_t, uint32_t);
SAME(ompt_bool, uint32_t);
SAME(ompt_target_device_t, void);
SAME(ompt_target_time_t, uint64_t);
SAME(ompt_target_buffer_t, void);
SAME(ompt_target_buffer_cursor_t, uint64_t);
SAME(ompt_atomic_type_t, uint32_t);
SAME(ompt_enumerate_lock_types_t, ompt_enumerate_lock_type_t);

SIZE(ompt_task_dependence_t, 16, 8);
OFFSET(ompt_task_dependence_t, variable_addr, 0, 0);
TYPE(ompt_task_dependence_t, variable_addr, void *);
OFFSET(ompt_task_dependence_t, dependence_flags, 8, 4);
TYPE(ompt_task_dependence_t, dependence_flags, uint32_t);

SIZE(ompt_frame_t, 16, 8);
OFFSET(ompt_frame_t, exit_runtime_frame, 0, 0);
TYPE(ompt_frame_t, exit_runtime_frame, void *);
OFFSET(ompt_frame_t, reenter_runtime_frame, 8, 4);
TYPE(ompt_frame_t, reenter_runtime_frame, void *);

SIZE(ompt_target_map_entry_t, 32, 16);
OFFSET(ompt_target_map_entry_t, host_addr, 0, 0);
TYPE(ompt_target_map_entry_t, host_addr, void *);
OFFSET(ompt_target_map_entry_t, device_addr, 8, 4);
TYPE(ompt_target_map_entry_t, device_addr, void *);
OFFSET(ompt_target_map_entry_t, bytes, 16, 8);
TYPE(ompt_target_map_entry_t, bytes, size_t);
OFFSET(ompt_target_map_entry_t, mapping_flags, 24, 12);
TYPE(ompt_target_map_entry_t, mapping_flags, uint32_t);

SIZE(ompt_record_native_abstract_t, 48, 40);
OFFSET(ompt_record_native_abstract_t, rclass, 0, 0);
TYPE(ompt_record_native_abstract_t, rclass, ompt_record_native_class_t);
OFFSET(ompt_record_native_abstract_t, type, 8, 4);
TYPE(ompt_record_native_abstract_t, type, const char *);
OFFSET(ompt_record_native_abstract_t, start_time, 16, 8);
TYPE(ompt_record_native_abstract_t, start_time, ompt_target_time_t);
OFFSET(ompt_record_native_abstract_t, end_time, 24, 16);
TYPE(ompt_record_native_abstract_t, end_time, ompt_target_time_t);
OFFSET(ompt_record_native_abstract_t, dev_task_id, 32, 24);
TYPE(ompt_record_native_abstract_t, dev_task_id, ompt_target_activity_id_t);
OFFSET(ompt_record_native_abstract_t, hwid, 40, 32);
TYPE(ompt_record_native_abstract_t, hwid, uint64_t);

SIZE(ompt_record_correlation_t, 16, 16);
OFFSET(ompt_record_correlation_t, host_task_id, 0, 0);
TYPE(ompt_record_correlation_t, host_task_id, ompt_task_id_t);
OFFSET(ompt_record_correlation_t, dev_task_id, 8, 8);
TYPE(ompt_record_correlation_t, dev_task_id, ompt_target_activity_id_t);

SIZE(ompt_record_thread_t, 8, 8);
OFFSET(ompt_record_thread_t, thread_id, 0, 0);
TYPE(ompt_record_thread_t, thread_id, ompt_thread_id_t);

SIZE(ompt_record_thread_type_t, 16, 12);
OFFSET(ompt_record_thread_type_t, thread_type, 0, 0);
TYPE(ompt_record_thread_type_t, thread_type, ompt_thread_type_t);
OFFSET(ompt_record_thread_type_t, thread_id, 8, 4);
TYPE(ompt_record_thread_type_t, thread_id, ompt_thread_id_t);

SIZE(ompt_record_wait_id_t, 8, 8);
OFFSET(ompt_record_wait_id_t, wait_id, 0, 0);
TYPE(ompt_record_wait_id_t, wait_id, ompt_wait_id_t);

SIZE(ompt_record_parallel_t, 16, 16);
OFFSET(ompt_record_parallel_t, parallel_id, 0, 0);
TYPE(ompt_record_parallel_t, parallel_id, ompt_parallel_id_t);
OFFSET(ompt_record_parallel_t, task_id, 8, 8);
TYPE(ompt_record_parallel_t, task_id, ompt_task_id_t);

SIZE(ompt_record_workshare_begin_t, 24, 20);
OFFSET(ompt_record_workshare_begin_t, parallel_id, 0, 0);
TYPE(ompt_record_workshare_begin_t, parallel_id, ompt_parallel_id_t);
OFFSET(ompt_record_workshare_begin_t, task_id, 8, 8);
TYPE(ompt_record_workshare_begin_t, task_id, ompt_task_id_t);
OFFSET(ompt_record_workshare_begin_t, codeptr_ra, 16, 16);
TYPE(ompt_record_workshare_begin_t, codeptr_ra, void *);

SIZE(ompt_record_parallel_begin_t, 40, 28);
OFFSET(ompt_record_parallel_begin_t, parent_task_id, 0, 0);
TYPE(ompt_record_parallel_begin_t, parent_task_id, ompt_task_id_t);
OFFSET(ompt_record_parallel_begin_t, parent_frame, 8, 8);
TYPE(ompt_record_parallel_begin_t, parent_frame, ompt_frame_t *);
OFFSET(ompt_record_parallel_begin_t, parallel_id, 16, 12);
TYPE(ompt_record_parallel_begin_t, parallel_id, ompt_parallel_id_t);
OFFSET(ompt_record_parallel_begin_t, requested_team_size, 24, 20);
TYPE(ompt_record_parallel_begin_t, requested_team_size, uint32_t);
OFFSET(ompt_record_parallel_begin_t, codeptr_ofn, 32, 24);
TYPE(ompt_record_parallel_begin_t, codeptr_ofn, void *);

SIZE(ompt_record_task_t, 8, 8);
OFFSET(ompt_record_task_t, task_id, 0, 0);
TYPE(ompt_record_task_t, task_id, ompt_task_id_t);

SIZE(ompt_record_task_pair_t, 16, 16);
OFFSET(ompt_record_task_pair_t, first_task_id, 0, 0);
TYPE(ompt_record_task_pair_t, first_task_id, ompt_task_id_t);
OFFSET(ompt_record_task_pair_t, second_task_id, 8, 8);
TYPE(ompt_record_task_pair_t, second_task_id, ompt_task_id_t);

SIZE(ompt_record_task_begin_t, 32, 24);
OFFSET(ompt_record_task_begin_t, parent_task_id, 0, 0);
TYPE(ompt_record_task_begin_t, parent_task_id, ompt_task_id_t);
OFFSET(ompt_record_task_begin_t, parent_task_frame, 8, 8);
TYPE(ompt_record_task_begin_t, parent_task_frame, ompt_frame_t *);
OFFSET(ompt_record_task_begin_t, new_task_id, 16, 12);
TYPE(ompt_record_task_begin_t, new_task_id, ompt_task_id_t);
OFFSET(ompt_record_task_begin_t, codeptr_ofn, 24, 20);
TYPE(ompt_record_task_begin_t, codeptr_ofn, void *);

SIZE(ompt_record_target_task_begin_t, 40, 28);
OFFSET(ompt_record_target_task_begin_t, parent_task_id, 0, 0);
TYPE(ompt_record_target_task_begin_t, parent_task_id, ompt_task_id_t);
OFFSET(ompt_record_target_task_begin_t, parent_task_frame, 8, 8);
TYPE(ompt_record_target_task_begin_t, parent_task_frame, ompt_frame_t *);
OFFSET(ompt_record_target_task_begin_t, target_task_id, 16, 12);
TYPE(ompt_record_target_task_begin_t, target_task_id, ompt_task_id_t);
OFFSET(ompt_record_target_task_begin_t, device_id, 24, 20);
TYPE(ompt_record_target_task_begin_t, device_id, int);
OFFSET(ompt_record_target_task_begin_t, target_task_code, 32, 24);
TYPE(ompt_record_target_task_begin_t, target_task_code, void *);

SIZE(ompt_record_target_data_begin_t, 24, 16);
OFFSET(ompt_record_target_data_begin_t, task_id, 0, 0);
TYPE(ompt_record_target_data_begin_t, task_id, ompt_task_id_t);
OFFSET(ompt_record_target_data_begin_t, device_id, 8, 8);
TYPE(ompt_record_target_data_begin_t, device_id, int);
OFFSET(ompt_record_target_data_begin_t, codeptr_ra, 16, 12);
TYPE(ompt_record_target_data_begin_t, codeptr_ra, void *);

SIZE(ompt_record_data_map_begin_t, 56, 32);
OFFSET(ompt_record_data_map_begin_t, task_id, 0, 0);
TYPE(ompt_record_data_map_begin_t, task_id, ompt_task_id_t);
OFFSET(ompt_record_data_map_begin_t, device_id, 8, 8);
TYPE(ompt_record_data_map_begin_t, device_id, int);
OFFSET(ompt_record_data_map_begin_t, host_addr, 16, 12);
TYPE(ompt_record_data_map_begin_t, host_addr, void *);
OFFSET(ompt_record_data_map_begin_t, device_addr, 24, 16);
TYPE(ompt_record_data_map_begin_t, device_addr, void *);
OFFSET(ompt_record_data_map_begin_t, bytes, 32, 20);
TYPE(ompt_record_data_map_begin_t, bytes, size_t);
OFFSET(ompt_record_data_map_begin_t, mapping_flags, 40, 24);
TYPE(ompt_record_data_map_begin_t, mapping_flags, uint32_t);
OFFSET(ompt_record_data_map_begin_t, target_map_code, 48, 28);
TYPE(ompt_record_data_map_begin_t, target_map_code, void *);

SIZE(ompt_record_data_map_done_t, 48, 28);
OFFSET(ompt_record_data_map_done_t, task_id, 0, 0);
TYPE(ompt_record_data_map_done_t, task_id, ompt_task_id_t);
OFFSET(ompt_record_data_map_done_t, device_id, 8, 8);
TYPE(ompt_record_data_map_done_t, device_id, int);
OFFSET(ompt_record_data_map_done_t, host_addr, 16, 12);
TYPE(ompt_record_data_map_done_t, host_addr, void *);
OFFSET(ompt_record_data_map_done_t, device_addr, 24, 16);
TYPE(ompt_record_data_map_done_t, device_addr, void *);
OFFSET(ompt_record_data_map_done_t, bytes, 32, 20);
TYPE(ompt_record_data_map_done_t, bytes, size_t);
OFFSET(ompt_record_data_map_done_t, mapping_flags, 40, 24);
TYPE(ompt_record_data_map_done_t, mapping_flags, uint32_t);

SIZE(ompt_record_task_dependences_t, 24, 16);
OFFSET(ompt_record_task_dependences_t, task_id, 0, 0);
TYPE(ompt_record_task_dependences_t, task_id, ompt_task_id_t);
OFFSET(ompt_record_task_dependences_t, deps, 8, 8);
TYPE(ompt_record_task_dependences_t, deps, ompt_task_dependence_t *);
OFFSET(ompt_record_task_dependences_t, ndeps, 16, 12);
TYPE(ompt_record_task_dependences_t, ndeps, int);

SIZE(ompt_record_ompt_t, 72, 56);
OFFSET(ompt_record_ompt_t, type, 0, 0);
TYPE(ompt_record_ompt_t, type, ompt_event_t);
OFFSET(ompt_record_ompt_t, time, 8, 4);
TYPE(ompt_record_ompt_t, time, ompt_target_time_t);
OFFSET(ompt_record_ompt_t, thread_id, 16, 12);
TYPE(ompt_record_ompt_t, thread_id, ompt_thread_id_t);
OFFSET(ompt_record_ompt_t, dev_task_id, 24, 20);
TYPE(ompt_record_ompt_t, dev_task_id, ompt_target_activity_id_t);
OFFSET(ompt_record_ompt_t, record, 32, 28);
TYPE(ompt_record_ompt_t, record.thread, ompt_record_thread_t);
TYPE(ompt_record_ompt_t, record.type, ompt_record_thread_type_t);
TYPE(ompt_record_ompt_t, record.waitid, ompt_record_wait_id_t);
TYPE(ompt_record_ompt_t, record.parallel, ompt_record_parallel_t);
TYPE(ompt_record_ompt_t, record.new_workshare, ompt_record_workshare_begin_t);
TYPE(ompt_record_ompt_t, record.new_parallel, ompt_record_parallel_begin_t);
TYPE(ompt_record_ompt_t, record.task, ompt_record_task_t);
TYPE(ompt_record_ompt_t, record.task_switch, ompt_record_task_pair_t);
TYPE(ompt_record_ompt_t, record.new_task, ompt_record_task_begin_t);

GLOBAL(ompt_initialize, int, ompt_function_lookup_t, const char *, unsigned int);
FUNCTION(ompt_set_callback_t, int, ompt_event_t, ompt_callback_t);
FUNCTION(ompt_get_callback_t, int, ompt_event_t, ompt_callback_t *);
FUNCTION(ompt_enumerate_state_t, int, ompt_state_t, ompt_state_t *, const char **);
FUNCTION(ompt_enumerate_lock_type_t, int, ompt_lock_type_t, ompt_lock_type_t *, const char **);
FUNCTION(ompt_enumerate_atomic_type_t, int, ompt_atomic_type_t, ompt_atomic_type_t *, const char **);
FUNCTION(ompt_get_thread_id_t, ompt_thread_id_t, void);
FUNCTION(ompt_get_state_t, ompt_state_t, ompt_wait_id_t *);
FUNCTION(ompt_get_parallel_id_t, ompt_parallel_id_t, int);
FUNCTION(ompt_get_parallel_team_size_t, int, int);
FUNCTION(ompt_get_task_info_t, ompt_bool, int, ompt_task_type_t *, ompt_task_id_t *, ompt_frame_t **, ompt_parallel_id_t *);
FUNCTION(ompt_get_num_devices_t, int, void);
FUNCTION(ompt_target_get_device_info_t, int, int, const char **, ompt_target_device_t **, ompt_function_lookup_t *, const char **);
FUNCTION(ompt_target_get_device_id_t, int, void);
FUNCTION(ompt_target_get_time_t, ompt_target_time_t, ompt_target_device_t *);
FUNCTION(ompt_target_translate_time_t, double, ompt_target_device_t *, ompt_target_time_t);
FUNCTION(ompt_target_set_trace_ompt_t, int, ompt_target_device_t *, ompt_bool, uint32_t);
FUNCTION(ompt_target_set_trace_native_t, int, ompt_target_device_t *, ompt_bool, uint32_t);
FUNCTION(ompt_target_buffer_request_callback_t, void, int, ompt_target_buffer_t **, size_t *);
FUNCTION(ompt_target_buffer_complete_callback_t, void, int, const ompt_target_buffer_t *, size_t, ompt_target_buffer_cursor_t, ompt_target_buffer_cursor_t);
FUNCTION(ompt_target_start_trace_t, int, ompt_target_device_t *, ompt_target_buffer_request_callback_t, ompt_target_buffer_complete_callback_t);
FUNCTION(ompt_target_pause_trace_t, int, ompt_target_device_t *, ompt_bool);
FUNCTION(ompt_target_stop_trace_t, int, ompt_target_device_t *);
FUNCTION(ompt_target_advance_buffer_cursor_t, int, ompt_target_buffer_t *, ompt_target_buffer_cursor_t, ompt_target_buffer_cursor_t *);
FUNCTION(ompt_target_buffer_get_record_type_t, ompt_record_type_t, ompt_target_buffer_t *, ompt_target_buffer_cursor_t);
FUNCTION(ompt_target_buffer_get_record_ompt_t, ompt_record_ompt_t *, ompt_target_buffer_t *, ompt_target_buffer_cursor_t);
FUNCTION(ompt_target_buffer_get_record_correlation_t, ompt_record_correlation_t *, ompt_target_buffer_t *, ompt_target_buffer_cursor_t);
FUNCTION(ompt_target_buffer_get_record_native_t, void *, ompt_target_buffer_t *, ompt_target_buffer_cursor_t);
FUNCTION(ompt_target_buffer_get_record_native_abstract_t, ompt_record_native_abstract_t *, void *);
GLOBAL(ompt_tool, ompt_initialize_fn_t, void);
FUNCTION(ompt_initialize_fn_t, void, const char *, unsigned int, ompt_function_lookup_t);
FUNCTION(ompt_function_lookup_t, ompt_interface_fn_t, const char *);
GLOBAL(ompt_control, void, uint64_t, uint64_t);
FUNCTION(ompt_interface_fn_t, void, void);
FUNCTION(ompt_thread_callback_t, void, ompt_thread_id_t);
FUNCTION(ompt_thread_type_callback_t, void, ompt_thread_type_t, ompt_thread_id_t);
FUNCTION(ompt_wait_callback_t, void, ompt_wait_id_t);
FUNCTION(ompt_atomic_callback_t, void, ompt_wait_id_t, uint32_t);
FUNCTION(ompt_sync_callback_t, void, ompt_parallel_id_t, ompt_task_id_t, const void *);
FUNCTION(ompt_workshare_begin_callback_t, void, ompt_parallel_id_t, ompt_task_id_t, const void *);
FUNCTION(ompt_parallel_begin_callback_t, void, ompt_task_id_t, const ompt_frame_t *, ompt_parallel_id_t, uint32_t, const void *, ompt_invoker_t);
FUNCTION(ompt_parallel_callback_t, void, ompt_parallel_id_t, ompt_task_id_t);
FUNCTION(ompt_parallel_end_callback_t, void, ompt_parallel_id_t, ompt_task_id_t, ompt_invoker_t);
FUNCTION(ompt_task_callback_t, void, ompt_task_id_t);
FUNCTION(ompt_task_begin_callback_t, void, ompt_task_id_t, const ompt_frame_t *, ompt_task_id_t, const void *);
FUNCTION(ompt_target_task_begin_callback_t, void, ompt_task_id_t, const ompt_frame_t *, ompt_task_id_t, int, const void *, ompt_target_task_type_t);
FUNCTION(ompt_target_task_end_callback_t, void, ompt_task_id_t);
FUNCTION(ompt_lock_callback_t, void, ompt_wait_id_t, ompt_lock_hint_t, ompt_lock_type_t);
FUNCTION(ompt_target_data_begin_callback_t, void, ompt_task_id_t, int, const void *);
FUNCTION(ompt_target_data_map_begin_callback_t, void, ompt_task_id_t, int, const ompt_target_map_entry_t *, uint32_t, ompt_target_activity_id_t);
FUNCTION(ompt_target_data_map_end_callback_t, void, int, ompt_target_activity_id_t);
FUNCTION(ompt_task_dependences_callback_t, void, ompt_task_id_t, const ompt_task_dependence_t *, int);
FUNCTION(ompt_task_pair_callback_t, void, ompt_task_id_t, ompt_task_id_t);
FUNCTION(ompt_control_callback_t, void, uint64_t, uint64_t);
FUNCTION(ompt_callback_t, void, void);
_Static_assert(ompt_hwid_none == (-1) && sizeof(ompt_hwid_none) == sizeof((-1)), "ompt_hwid_none");
_Static_assert(ompt_dev_task_none == (~0ULL) && sizeof(ompt_dev_task_none) == sizeof((~0ULL)), "ompt_dev_task_none");
_Static_assert(ompt_time_none == (~0ULL) && sizeof(ompt_time_none) == sizeof((~0ULL)), "ompt_time_none");
_Static_assert(ompt_lock_type_first == 0 && sizeof(ompt_lock_type_first) == sizeof(0), "ompt_lock_type_first");
_Static_assert(ompt_atomic_type_first == 0 && sizeof(ompt_atomic_type_first) == sizeof(0), "ompt_atomic_type_first");
