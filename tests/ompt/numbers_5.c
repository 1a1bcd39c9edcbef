/* omp-tools.h has the numbers, sizes, offsets and signatures of its document. It compiles or it does not.
 *
 * Written by `python -m tests.ompt.layouts` from openmp_5.json, and what docs/dev/ompt.md rules. */
#include "omp-tools.h"

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

/* ompt_callbacks_t */
NUMBER(ompt_callback_thread_begin, 0x1);
NUMBER(ompt_callback_thread_end, 0x2);
NUMBER(ompt_callback_parallel_begin, 0x3);
NUMBER(ompt_callback_parallel_end, 0x4);
NUMBER(ompt_callback_task_create, 0x5);
NUMBER(ompt_callback_task_schedule, 0x6);
NUMBER(ompt_callback_implicit_task, 0x7);
NUMBER(ompt_callback_target, 0x8);
NUMBER(ompt_callback_target_data_op, 0x9);
NUMBER(ompt_callback_target_submit, 0xa);
NUMBER(ompt_callback_control_tool, 0xb);
NUMBER(ompt_callback_device_initialize, 0xc);
NUMBER(ompt_callback_device_finalize, 0xd);
NUMBER(ompt_callback_device_load, 0xe);
NUMBER(ompt_callback_device_unload, 0xf);
NUMBER(ompt_callback_sync_region_wait, 0x10);
NUMBER(ompt_callback_mutex_released, 0x11);
NUMBER(ompt_callback_dependences, 0x12);
NUMBER(ompt_callback_task_dependence, 0x13);
NUMBER(ompt_callback_work, 0x14);
NUMBER(ompt_callback_master, 0x15);
NUMBER(ompt_callback_masked, 0x15);
NUMBER(ompt_callback_target_map, 0x16);
NUMBER(ompt_callback_sync_region, 0x17);
NUMBER(ompt_callback_lock_init, 0x18);
NUMBER(ompt_callback_lock_destroy, 0x19);
NUMBER(ompt_callback_mutex_acquire, 0x1a);
NUMBER(ompt_callback_mutex_acquired, 0x1b);
NUMBER(ompt_callback_nest_lock, 0x1c);
NUMBER(ompt_callback_flush, 0x1d);
NUMBER(ompt_callback_cancel, 0x1e);
NUMBER(ompt_callback_reduction, 0x1f);
NUMBER(ompt_callback_dispatch, 0x20);
NUMBER(ompt_callback_target_emi, 0x21);
NUMBER(ompt_callback_target_data_op_emi, 0x22);
NUMBER(ompt_callback_target_submit_emi, 0x23);
NUMBER(ompt_callback_target_map_emi, 0x24);
NUMBER(ompt_callback_error, 0x25);
SIZE(ompt_callbacks_t, 4, 4);

/* ompt_record_t */
NUMBER(ompt_record_ompt, 0x1);
NUMBER(ompt_record_native, 0x2);
NUMBER(ompt_record_invalid, 0x3);
SIZE(ompt_record_t, 4, 4);

/* ompt_record_native_t */
NUMBER(ompt_record_native_info, 0x1);
NUMBER(ompt_record_native_event, 0x2);
SIZE(ompt_record_native_t, 4, 4);

/* ompt_set_result_t */
NUMBER(ompt_set_error, 0x0);
NUMBER(ompt_set_never, 0x1);
NUMBER(ompt_set_impossible, 0x2);
NUMBER(ompt_set_sometimes, 0x3);
NUMBER(ompt_set_sometimes_paired, 0x4);
NUMBER(ompt_set_always, 0x5);
SIZE(ompt_set_result_t, 4, 4);

/* ompt_thread_t */
NUMBER(ompt_thread_initial, 0x1);
NUMBER(ompt_thread_worker, 0x2);
NUMBER(ompt_thread_other, 0x3);
NUMBER(ompt_thread_unknown, 0x4);
SIZE(ompt_thread_t, 4, 4);

/* ompt_scope_endpoint_t */
NUMBER(ompt_scope_begin, 0x1);
NUMBER(ompt_scope_end, 0x2);
NUMBER(ompt_scope_beginend, 0x3);
SIZE(ompt_scope_endpoint_t, 4, 4);

/* ompt_dispatch_t */
NUMBER(ompt_dispatch_iteration, 0x1);
NUMBER(ompt_dispatch_section, 0x2);
NUMBER(ompt_dispatch_ws_loop_chunk, 0x3);
NUMBER(ompt_dispatch_taskloop_chunk, 0x4);
NUMBER(ompt_dispatch_distribute_chunk, 0x5);
SIZE(ompt_dispatch_t, 4, 4);

/* ompt_sync_region_t */
NUMBER(ompt_sync_region_barrier, 0x1);
NUMBER(ompt_sync_region_barrier_implicit, 0x2);
NUMBER(ompt_sync_region_barrier_explicit, 0x3);
NUMBER(ompt_sync_region_barrier_implementation, 0x4);
NUMBER(ompt_sync_region_taskwait, 0x5);
NUMBER(ompt_sync_region_taskgroup, 0x6);
NUMBER(ompt_sync_region_reduction, 0x7);
NUMBER(ompt_sync_region_barrier_implicit_workshare, 0x8);
NUMBER(ompt_sync_region_barrier_implicit_parallel, 0x9);
NUMBER(ompt_sync_region_barrier_teams, 0xa);
SIZE(ompt_sync_region_t, 4, 4);

/* ompt_target_data_op_t */
NUMBER(ompt_target_data_alloc, 0x1);
NUMBER(ompt_target_data_transfer_to_device, 0x2);
NUMBER(ompt_target_data_transfer_from_device, 0x3);
NUMBER(ompt_target_data_delete, 0x4);
NUMBER(ompt_target_data_associate, 0x5);
NUMBER(ompt_target_data_disassociate, 0x6);
NUMBER(ompt_target_data_alloc_async, 0x11);
NUMBER(ompt_target_data_transfer_to_device_async, 0x12);
NUMBER(ompt_target_data_transfer_from_device_async, 0x13);
NUMBER(ompt_target_data_delete_async, 0x14);
SIZE(ompt_target_data_op_t, 4, 4);

/* ompt_work_t */
NUMBER(ompt_work_loop, 0x1);
NUMBER(ompt_work_sections, 0x2);
NUMBER(ompt_work_single_executor, 0x3);
NUMBER(ompt_work_single_other, 0x4);
NUMBER(ompt_work_workshare, 0x5);
NUMBER(ompt_work_distribute, 0x6);
NUMBER(ompt_work_taskloop, 0x7);
NUMBER(ompt_work_scope, 0x8);
NUMBER(ompt_work_loop_static, 0xa);
NUMBER(ompt_work_loop_dynamic, 0xb);
NUMBER(ompt_work_loop_guided, 0xc);
NUMBER(ompt_work_loop_other, 0xd);
SIZE(ompt_work_t, 4, 4);

/* ompt_mutex_t */
NUMBER(ompt_mutex_lock, 0x1);
NUMBER(ompt_mutex_test_lock, 0x2);
NUMBER(ompt_mutex_nest_lock, 0x3);
NUMBER(ompt_mutex_test_nest_lock, 0x4);
NUMBER(ompt_mutex_critical, 0x5);
NUMBER(ompt_mutex_atomic, 0x6);
NUMBER(ompt_mutex_ordered, 0x7);
SIZE(ompt_mutex_t, 4, 4);

/* ompt_native_mon_flag_t */
NUMBER(ompt_native_data_motion_explicit, 0x1);
NUMBER(ompt_native_data_motion_implicit, 0x2);
NUMBER(ompt_native_kernel_invocation, 0x4);
NUMBER(ompt_native_kernel_execution, 0x8);
NUMBER(ompt_native_driver, 0x10);
NUMBER(ompt_native_runtime, 0x20);
NUMBER(ompt_native_overhead, 0x40);
NUMBER(ompt_native_idleness, 0x80);
SIZE(ompt_native_mon_flag_t, 4, 4);

/* ompt_task_flag_t */
NUMBER(ompt_task_initial, 0x1);
NUMBER(ompt_task_implicit, 0x2);
NUMBER(ompt_task_explicit, 0x4);
NUMBER(ompt_task_target, 0x8);
NUMBER(ompt_task_taskwait, 0x10);
NUMBER(ompt_task_undeferred, 0x8000000);
NUMBER(ompt_task_untied, 0x10000000);
NUMBER(ompt_task_final, 0x20000000);
NUMBER(ompt_task_mergeable, 0x40000000);
NUMBER(ompt_task_merged, 0x80000000);
SIZE(ompt_task_flag_t, 4, 4);

/* ompt_task_status_t */
NUMBER(ompt_task_complete, 0x1);
NUMBER(ompt_task_yield, 0x2);
NUMBER(ompt_task_cancel, 0x3);
NUMBER(ompt_task_detach, 0x4);
NUMBER(ompt_task_early_fulfill, 0x5);
NUMBER(ompt_task_late_fulfill, 0x6);
NUMBER(ompt_task_switch, 0x7);
NUMBER(ompt_taskwait_complete, 0x8);
SIZE(ompt_task_status_t, 4, 4);

/* ompt_target_t */
NUMBER(ompt_target, 0x1);
NUMBER(ompt_target_enter_data, 0x2);
NUMBER(ompt_target_exit_data, 0x3);
NUMBER(ompt_target_update, 0x4);
NUMBER(ompt_target_nowait, 0x9);
NUMBER(ompt_target_enter_data_nowait, 0xa);
NUMBER(ompt_target_exit_data_nowait, 0xb);
NUMBER(ompt_target_update_nowait, 0xc);
SIZE(ompt_target_t, 4, 4);

/* ompt_parallel_flag_t */
NUMBER(ompt_parallel_invoker_program, 0x1);
NUMBER(ompt_parallel_invoker_runtime, 0x2);
NUMBER(ompt_parallel_league, 0x40000000);
NUMBER(ompt_parallel_team, 0x80000000);
SIZE(ompt_parallel_flag_t, 4, 4);

/* ompt_target_map_flag_t */
NUMBER(ompt_target_map_flag_to, 0x1);
NUMBER(ompt_target_map_flag_from, 0x2);
NUMBER(ompt_target_map_flag_alloc, 0x4);
NUMBER(ompt_target_map_flag_release, 0x8);
NUMBER(ompt_target_map_flag_delete, 0x10);
NUMBER(ompt_target_map_flag_implicit, 0x20);
NUMBER(ompt_target_map_flag_always, 0x40);
NUMBER(ompt_target_map_flag_present, 0x80);
NUMBER(ompt_target_map_flag_close, 0x100);
NUMBER(ompt_target_map_flag_shared, 0x200);
SIZE(ompt_target_map_flag_t, 4, 4);

/* ompt_dependence_type_t */
NUMBER(ompt_dependence_type_in, 0x1);
NUMBER(ompt_dependence_type_out, 0x2);
NUMBER(ompt_dependence_type_inout, 0x3);
NUMBER(ompt_dependence_type_mutexinoutset, 0x4);
NUMBER(ompt_dependence_type_source, 0x5);
NUMBER(ompt_dependence_type_sink, 0x6);
NUMBER(ompt_dependence_type_inoutset, 0x7);
NUMBER(ompt_dependence_type_out_all_memory, 0x22);
NUMBER(ompt_dependence_type_inout_all_memory, 0x23);
SIZE(ompt_dependence_type_t, 4, 4);

/* ompt_severity_t */
NUMBER(ompt_warning, 0x1);
NUMBER(ompt_fatal, 0x2);
SIZE(ompt_severity_t, 4, 4);

/* ompt_cancel_flag_t */
NUMBER(ompt_cancel_parallel, 0x1);
NUMBER(ompt_cancel_sections, 0x2);
NUMBER(ompt_cancel_loop, 0x4);
NUMBER(ompt_cancel_taskgroup, 0x8);
NUMBER(ompt_cancel_activated, 0x10);
NUMBER(ompt_cancel_detected, 0x20);
NUMBER(ompt_cancel_discarded_task, 0x40);
SIZE(ompt_cancel_flag_t, 4, 4);

/* ompt_frame_flag_t */
NUMBER(ompt_frame_runtime, 0x0);
NUMBER(ompt_frame_application, 0x1);
NUMBER(ompt_frame_cfa, 0x10);
NUMBER(ompt_frame_framepointer, 0x20);
NUMBER(ompt_frame_stackaddress, 0x30);
SIZE(ompt_frame_flag_t, 4, 4);

/* ompt_state_t */
NUMBER(ompt_state_work_serial, 0x0);
NUMBER(ompt_state_work_parallel, 0x1);
NUMBER(ompt_state_work_reduction, 0x2);
NUMBER(ompt_state_wait_barrier, 0x10);
NUMBER(ompt_state_wait_barrier_implicit_parallel, 0x11);
NUMBER(ompt_state_wait_barrier_implicit_workshare, 0x12);
NUMBER(ompt_state_wait_barrier_implicit, 0x13);
NUMBER(ompt_state_wait_barrier_explicit, 0x14);
NUMBER(ompt_state_wait_barrier_implementation, 0x15);
NUMBER(ompt_state_wait_barrier_teams, 0x16);
NUMBER(ompt_state_wait_taskwait, 0x20);
NUMBER(ompt_state_wait_taskgroup, 0x21);
NUMBER(ompt_state_wait_mutex, 0x40);
NUMBER(ompt_state_wait_lock, 0x41);
NUMBER(ompt_state_wait_critical, 0x42);
NUMBER(ompt_state_wait_atomic, 0x43);
NUMBER(ompt_state_wait_ordered, 0x44);
NUMBER(ompt_state_wait_target, 0x80);
NUMBER(ompt_state_wait_target_map, 0x81);
NUMBER(ompt_state_wait_target_update, 0x82);
NUMBER(ompt_state_idle, 0x100);
NUMBER(ompt_state_overhead, 0x101);
NUMBER(ompt_state_undefined, 0x102);
SIZE(ompt_state_t, 4, 4);

SAME(ompt_id_t, uint64_t);
SAME(ompt_device_time_t, uint64_t);
SAME(ompt_buffer_cursor_t, uint64_t);
SAME(ompt_hwid_t, uint64_t);
SAME(ompt_wait_id_t, uint64_t);
SAME(ompt_device_t, void);
SAME(ompt_buffer_t, void);
SAME(ompt_callback_master_t, ompt_callback_masked_t);

SIZE(ompt_data_t, 8, 8);
OFFSET(ompt_data_t, value, 0, 0);
TYPE(ompt_data_t, value, uint64_t);
OFFSET(ompt_data_t, ptr, 0, 0);
TYPE(ompt_data_t, ptr, void *);

SIZE(ompt_frame_t, 24, 24);
OFFSET(ompt_frame_t, exit_frame, 0, 0);
TYPE(ompt_frame_t, exit_frame, ompt_data_t);
OFFSET(ompt_frame_t, enter_frame, 8, 8);
TYPE(ompt_frame_t, enter_frame, ompt_data_t);
OFFSET(ompt_frame_t, exit_frame_flags, 16, 16);
TYPE(ompt_frame_t, exit_frame_flags, int);
OFFSET(ompt_frame_t, enter_frame_flags, 20, 20);
TYPE(ompt_frame_t, enter_frame_flags, int);

SIZE(ompt_start_tool_result_t, 24, 16);
OFFSET(ompt_start_tool_result_t, initialize, 0, 0);
TYPE(ompt_start_tool_result_t, initialize, ompt_initialize_t);
OFFSET(ompt_start_tool_result_t, finalize, 8, 4);
TYPE(ompt_start_tool_result_t, finalize, ompt_finalize_t);
OFFSET(ompt_start_tool_result_t, tool_data, 16, 8);
TYPE(ompt_start_tool_result_t, tool_data, ompt_data_t);

SIZE(ompt_record_abstract_t, 40, 32);
OFFSET(ompt_record_abstract_t, rclass, 0, 0);
TYPE(ompt_record_abstract_t, rclass, ompt_record_native_t);
OFFSET(ompt_record_abstract_t, type, 8, 4);
TYPE(ompt_record_abstract_t, type, const char *);
OFFSET(ompt_record_abstract_t, start_time, 16, 8);
TYPE(ompt_record_abstract_t, start_time, ompt_device_time_t);
OFFSET(ompt_record_abstract_t, end_time, 24, 16);
TYPE(ompt_record_abstract_t, end_time, ompt_device_time_t);
OFFSET(ompt_record_abstract_t, hwid, 32, 24);
TYPE(ompt_record_abstract_t, hwid, ompt_hwid_t);

SIZE(ompt_dependence_t, 16, 12);
OFFSET(ompt_dependence_t, variable, 0, 0);
TYPE(ompt_dependence_t, variable, ompt_data_t);
OFFSET(ompt_dependence_t, dependence_type, 8, 8);
TYPE(ompt_dependence_t, dependence_type, ompt_dependence_type_t);

SIZE(ompt_dispatch_chunk_t, 16, 16);
OFFSET(ompt_dispatch_chunk_t, start, 0, 0);
TYPE(ompt_dispatch_chunk_t, start, uint64_t);
OFFSET(ompt_dispatch_chunk_t, iterations, 8, 8);
TYPE(ompt_dispatch_chunk_t, iterations, uint64_t);

SIZE(ompt_record_thread_begin_t, 4, 4);
OFFSET(ompt_record_thread_begin_t, thread_type, 0, 0);
TYPE(ompt_record_thread_begin_t, thread_type, ompt_thread_t);

SIZE(ompt_record_parallel_begin_t, 32, 28);
OFFSET(ompt_record_parallel_begin_t, encountering_task_id, 0, 0);
TYPE(ompt_record_parallel_begin_t, encountering_task_id, ompt_id_t);
OFFSET(ompt_record_parallel_begin_t, parallel_id, 8, 8);
TYPE(ompt_record_parallel_begin_t, parallel_id, ompt_id_t);
OFFSET(ompt_record_parallel_begin_t, requested_parallelism, 16, 16);
TYPE(ompt_record_parallel_begin_t, requested_parallelism, unsigned int);
OFFSET(ompt_record_parallel_begin_t, flags, 20, 20);
TYPE(ompt_record_parallel_begin_t, flags, int);
OFFSET(ompt_record_parallel_begin_t, codeptr_ra, 24, 24);
TYPE(ompt_record_parallel_begin_t, codeptr_ra, const void *);

SIZE(ompt_record_parallel_end_t, 32, 24);
OFFSET(ompt_record_parallel_end_t, parallel_id, 0, 0);
TYPE(ompt_record_parallel_end_t, parallel_id, ompt_id_t);
OFFSET(ompt_record_parallel_end_t, encountering_task_id, 8, 8);
TYPE(ompt_record_parallel_end_t, encountering_task_id, ompt_id_t);
OFFSET(ompt_record_parallel_end_t, flags, 16, 16);
TYPE(ompt_record_parallel_end_t, flags, int);
OFFSET(ompt_record_parallel_end_t, codeptr_ra, 24, 20);
TYPE(ompt_record_parallel_end_t, codeptr_ra, const void *);

SIZE(ompt_record_work_t, 40, 36);
OFFSET(ompt_record_work_t, work_type, 0, 0);
TYPE(ompt_record_work_t, work_type, ompt_work_t);
OFFSET(ompt_record_work_t, endpoint, 4, 4);
TYPE(ompt_record_work_t, endpoint, ompt_scope_endpoint_t);
OFFSET(ompt_record_work_t, parallel_id, 8, 8);
TYPE(ompt_record_work_t, parallel_id, ompt_id_t);
OFFSET(ompt_record_work_t, task_id, 16, 16);
TYPE(ompt_record_work_t, task_id, ompt_id_t);
OFFSET(ompt_record_work_t, count, 24, 24);
TYPE(ompt_record_work_t, count, uint64_t);
OFFSET(ompt_record_work_t, codeptr_ra, 32, 32);
TYPE(ompt_record_work_t, codeptr_ra, const void *);

SIZE(ompt_record_dispatch_t, 32, 28);
OFFSET(ompt_record_dispatch_t, parallel_id, 0, 0);
TYPE(ompt_record_dispatch_t, parallel_id, ompt_id_t);
OFFSET(ompt_record_dispatch_t, task_id, 8, 8);
TYPE(ompt_record_dispatch_t, task_id, ompt_id_t);
OFFSET(ompt_record_dispatch_t, kind, 16, 16);
TYPE(ompt_record_dispatch_t, kind, ompt_dispatch_t);
OFFSET(ompt_record_dispatch_t, instance, 24, 20);
TYPE(ompt_record_dispatch_t, instance, ompt_data_t);

SIZE(ompt_record_task_create_t, 32, 28);
OFFSET(ompt_record_task_create_t, encountering_task_id, 0, 0);
TYPE(ompt_record_task_create_t, encountering_task_id, ompt_id_t);
OFFSET(ompt_record_task_create_t, new_task_id, 8, 8);
TYPE(ompt_record_task_create_t, new_task_id, ompt_id_t);
OFFSET(ompt_record_task_create_t, flags, 16, 16);
TYPE(ompt_record_task_create_t, flags, int);
OFFSET(ompt_record_task_create_t, has_dependences, 20, 20);
TYPE(ompt_record_task_create_t, has_dependences, int);
OFFSET(ompt_record_task_create_t, codeptr_ra, 24, 24);
TYPE(ompt_record_task_create_t, codeptr_ra, const void *);

SIZE(ompt_record_dependences_t, 32, 24);
OFFSET(ompt_record_dependences_t, task_id, 0, 0);
TYPE(ompt_record_dependences_t, task_id, ompt_id_t);
OFFSET(ompt_record_dependences_t, dep, 8, 8);
TYPE(ompt_record_dependences_t, dep, ompt_dependence_t);
OFFSET(ompt_record_dependences_t, ndeps, 24, 20);
TYPE(ompt_record_dependences_t, ndeps, int);

SIZE(ompt_record_task_dependence_t, 16, 16);
OFFSET(ompt_record_task_dependence_t, src_task_id, 0, 0);
TYPE(ompt_record_task_dependence_t, src_task_id, ompt_id_t);
OFFSET(ompt_record_task_dependence_t, sink_task_id, 8, 8);
TYPE(ompt_record_task_dependence_t, sink_task_id, ompt_id_t);

SIZE(ompt_record_task_schedule_t, 24, 20);
OFFSET(ompt_record_task_schedule_t, prior_task_id, 0, 0);
TYPE(ompt_record_task_schedule_t, prior_task_id, ompt_id_t);
OFFSET(ompt_record_task_schedule_t, prior_task_status, 8, 8);
TYPE(ompt_record_task_schedule_t, prior_task_status, ompt_task_status_t);
OFFSET(ompt_record_task_schedule_t, next_task_id, 16, 12);
TYPE(ompt_record_task_schedule_t, next_task_id, ompt_id_t);

SIZE(ompt_record_implicit_task_t, 40, 32);
OFFSET(ompt_record_implicit_task_t, endpoint, 0, 0);
TYPE(ompt_record_implicit_task_t, endpoint, ompt_scope_endpoint_t);
OFFSET(ompt_record_implicit_task_t, parallel_id, 8, 4);
TYPE(ompt_record_implicit_task_t, parallel_id, ompt_id_t);
OFFSET(ompt_record_implicit_task_t, task_id, 16, 12);
TYPE(ompt_record_implicit_task_t, task_id, ompt_id_t);
OFFSET(ompt_record_implicit_task_t, actual_parallelism, 24, 20);
TYPE(ompt_record_implicit_task_t, actual_parallelism, unsigned int);
OFFSET(ompt_record_implicit_task_t, index, 28, 24);
TYPE(ompt_record_implicit_task_t, index, unsigned int);
OFFSET(ompt_record_implicit_task_t, flags, 32, 28);
TYPE(ompt_record_implicit_task_t, flags, int);

SIZE(ompt_record_masked_t, 32, 24);
OFFSET(ompt_record_masked_t, endpoint, 0, 0);
TYPE(ompt_record_masked_t, endpoint, ompt_scope_endpoint_t);
OFFSET(ompt_record_masked_t, parallel_id, 8, 4);
TYPE(ompt_record_masked_t, parallel_id, ompt_id_t);
OFFSET(ompt_record_masked_t, task_id, 16, 12);
TYPE(ompt_record_masked_t, task_id, ompt_id_t);
OFFSET(ompt_record_masked_t, codeptr_ra, 24, 20);
TYPE(ompt_record_masked_t, codeptr_ra, const void *);

SIZE(ompt_record_sync_region_t, 32, 28);
OFFSET(ompt_record_sync_region_t, kind, 0, 0);
TYPE(ompt_record_sync_region_t, kind, ompt_sync_region_t);
OFFSET(ompt_record_sync_region_t, endpoint, 4, 4);
TYPE(ompt_record_sync_region_t, endpoint, ompt_scope_endpoint_t);
OFFSET(ompt_record_sync_region_t, parallel_id, 8, 8);
TYPE(ompt_record_sync_region_t, parallel_id, ompt_id_t);
OFFSET(ompt_record_sync_region_t, task_id, 16, 16);
TYPE(ompt_record_sync_region_t, task_id, ompt_id_t);
OFFSET(ompt_record_sync_region_t, codeptr_ra, 24, 24);
TYPE(ompt_record_sync_region_t, codeptr_ra, const void *);

SIZE(ompt_record_mutex_acquire_t, 32, 24);
OFFSET(ompt_record_mutex_acquire_t, kind, 0, 0);
TYPE(ompt_record_mutex_acquire_t, kind, ompt_mutex_t);
OFFSET(ompt_record_mutex_acquire_t, hint, 4, 4);
TYPE(ompt_record_mutex_acquire_t, hint, unsigned int);
OFFSET(ompt_record_mutex_acquire_t, impl, 8, 8);
TYPE(ompt_record_mutex_acquire_t, impl, unsigned int);
OFFSET(ompt_record_mutex_acquire_t, wait_id, 16, 12);
TYPE(ompt_record_mutex_acquire_t, wait_id, ompt_wait_id_t);
OFFSET(ompt_record_mutex_acquire_t, codeptr_ra, 24, 20);
TYPE(ompt_record_mutex_acquire_t, codeptr_ra, const void *);

SIZE(ompt_record_mutex_t, 24, 16);
OFFSET(ompt_record_mutex_t, kind, 0, 0);
TYPE(ompt_record_mutex_t, kind, ompt_mutex_t);
OFFSET(ompt_record_mutex_t, wait_id, 8, 4);
TYPE(ompt_record_mutex_t, wait_id, ompt_wait_id_t);
OFFSET(ompt_record_mutex_t, codeptr_ra, 16, 12);
TYPE(ompt_record_mutex_t, codeptr_ra, const void *);

SIZE(ompt_record_nest_lock_t, 24, 16);
OFFSET(ompt_record_nest_lock_t, endpoint, 0, 0);
TYPE(ompt_record_nest_lock_t, endpoint, ompt_scope_endpoint_t);
OFFSET(ompt_record_nest_lock_t, wait_id, 8, 4);
TYPE(ompt_record_nest_lock_t, wait_id, ompt_wait_id_t);
OFFSET(ompt_record_nest_lock_t, codeptr_ra, 16, 12);
TYPE(ompt_record_nest_lock_t, codeptr_ra, const void *);

SIZE(ompt_record_flush_t, 8, 4);
OFFSET(ompt_record_flush_t, codeptr_ra, 0, 0);
TYPE(ompt_record_flush_t, codeptr_ra, const void *);

SIZE(ompt_record_cancel_t, 24, 16);
OFFSET(ompt_record_cancel_t, task_id, 0, 0);
TYPE(ompt_record_cancel_t, task_id, ompt_id_t);
OFFSET(ompt_record_cancel_t, flags, 8, 8);
TYPE(ompt_record_cancel_t, flags, int);
OFFSET(ompt_record_cancel_t, codeptr_ra, 16, 12);
TYPE(ompt_record_cancel_t, codeptr_ra, const void *);

SIZE(ompt_record_target_data_op_t, 72, 44);
OFFSET(ompt_record_target_data_op_t, host_op_id, 0, 0);
TYPE(ompt_record_target_data_op_t, host_op_id, ompt_id_t);
OFFSET(ompt_record_target_data_op_t, optype, 8, 8);
TYPE(ompt_record_target_data_op_t, optype, ompt_target_data_op_t);
OFFSET(ompt_record_target_data_op_t, src_addr, 16, 12);
TYPE(ompt_record_target_data_op_t, src_addr, void *);
OFFSET(ompt_record_target_data_op_t, src_device_num, 24, 16);
TYPE(ompt_record_target_data_op_t, src_device_num, int);
OFFSET(ompt_record_target_data_op_t, dest_addr, 32, 20);
TYPE(ompt_record_target_data_op_t, dest_addr, void *);
OFFSET(ompt_record_target_data_op_t, dest_device_num, 40, 24);
TYPE(ompt_record_target_data_op_t, dest_device_num, int);
OFFSET(ompt_record_target_data_op_t, bytes, 48, 28);
TYPE(ompt_record_target_data_op_t, bytes, size_t);
OFFSET(ompt_record_target_data_op_t, end_time, 56, 32);
TYPE(ompt_record_target_data_op_t, end_time, ompt_device_time_t);
OFFSET(ompt_record_target_data_op_t, codeptr_ra, 64, 40);
TYPE(ompt_record_target_data_op_t, codeptr_ra, const void *);

SIZE(ompt_record_target_t, 40, 32);
OFFSET(ompt_record_target_t, kind, 0, 0);
TYPE(ompt_record_target_t, kind, ompt_target_t);
OFFSET(ompt_record_target_t, endpoint, 4, 4);
TYPE(ompt_record_target_t, endpoint, ompt_scope_endpoint_t);
OFFSET(ompt_record_target_t, device_num, 8, 8);
TYPE(ompt_record_target_t, device_num, int);
OFFSET(ompt_record_target_t, task_id, 16, 12);
TYPE(ompt_record_target_t, task_id, ompt_id_t);
OFFSET(ompt_record_target_t, target_id, 24, 20);
TYPE(ompt_record_target_t, target_id, ompt_id_t);
OFFSET(ompt_record_target_t, codeptr_ra, 32, 28);
TYPE(ompt_record_target_t, codeptr_ra, const void *);

SIZE(ompt_record_target_map_t, 56, 32);
OFFSET(ompt_record_target_map_t, target_id, 0, 0);
TYPE(ompt_record_target_map_t, target_id, ompt_id_t);
OFFSET(ompt_record_target_map_t, nitems, 8, 8);
TYPE(ompt_record_target_map_t, nitems, unsigned int);
OFFSET(ompt_record_target_map_t, host_addr, 16, 12);
TYPE(ompt_record_target_map_t, host_addr, void **);
OFFSET(ompt_record_target_map_t, device_addr, 24, 16);
TYPE(ompt_record_target_map_t, device_addr, void **);
OFFSET(ompt_record_target_map_t, bytes, 32, 20);
TYPE(ompt_record_target_map_t, bytes, size_t *);
OFFSET(ompt_record_target_map_t, mapping_flags, 40, 24);
TYPE(ompt_record_target_map_t, mapping_flags, unsigned int *);
OFFSET(ompt_record_target_map_t, codeptr_ra, 48, 28);
TYPE(ompt_record_target_map_t, codeptr_ra, const void *);

SIZE(ompt_record_target_kernel_t, 24, 24);
OFFSET(ompt_record_target_kernel_t, host_op_id, 0, 0);
TYPE(ompt_record_target_kernel_t, host_op_id, ompt_id_t);
OFFSET(ompt_record_target_kernel_t, requested_num_teams, 8, 8);
TYPE(ompt_record_target_kernel_t, requested_num_teams, unsigned int);
OFFSET(ompt_record_target_kernel_t, granted_num_teams, 12, 12);
TYPE(ompt_record_target_kernel_t, granted_num_teams, unsigned int);
OFFSET(ompt_record_target_kernel_t, end_time, 16, 16);
TYPE(ompt_record_target_kernel_t, end_time, ompt_device_time_t);

SIZE(ompt_record_control_tool_t, 24, 20);
OFFSET(ompt_record_control_tool_t, command, 0, 0);
TYPE(ompt_record_control_tool_t, command, uint64_t);
OFFSET(ompt_record_control_tool_t, modifier, 8, 8);
TYPE(ompt_record_control_tool_t, modifier, uint64_t);
OFFSET(ompt_record_control_tool_t, codeptr_ra, 16, 16);
TYPE(ompt_record_control_tool_t, codeptr_ra, const void *);

SIZE(ompt_record_error_t, 32, 16);
OFFSET(ompt_record_error_t, severity, 0, 0);
TYPE(ompt_record_error_t, severity, ompt_severity_t);
OFFSET(ompt_record_error_t, message, 8, 4);
TYPE(ompt_record_error_t, message, const char *);
OFFSET(ompt_record_error_t, length, 16, 8);
TYPE(ompt_record_error_t, length, size_t);
OFFSET(ompt_record_error_t, codeptr_ra, 24, 12);
TYPE(ompt_record_error_t, codeptr_ra, const void *);

SIZE(ompt_record_ompt_t, 104, 72);
OFFSET(ompt_record_ompt_t, type, 0, 0);
TYPE(ompt_record_ompt_t, type, ompt_callbacks_t);
OFFSET(ompt_record_ompt_t, time, 8, 4);
TYPE(ompt_record_ompt_t, time, ompt_device_time_t);
OFFSET(ompt_record_ompt_t, thread_id, 16, 12);
TYPE(ompt_record_ompt_t, thread_id, ompt_id_t);
OFFSET(ompt_record_ompt_t, target_id, 24, 20);
TYPE(ompt_record_ompt_t, target_id, ompt_id_t);
OFFSET(ompt_record_ompt_t, record, 32, 28);
TYPE(ompt_record_ompt_t, record.thread_begin, ompt_record_thread_begin_t);
TYPE(ompt_record_ompt_t, record.parallel_begin, ompt_record_parallel_begin_t);
TYPE(ompt_record_ompt_t, record.parallel_end, ompt_record_parallel_end_t);
TYPE(ompt_record_ompt_t, record.work, ompt_record_work_t);
TYPE(ompt_record_ompt_t, record.dispatch, ompt_record_dispatch_t);
TYPE(ompt_record_ompt_t, record.task_create, ompt_record_task_create_t);
TYPE(ompt_record_ompt_t, record.dependences, ompt_record_dependences_t);
TYPE(ompt_record_ompt_t, record.task_dependence, ompt_record_task_dependence_t);
TYPE(ompt_record_ompt_t, record.task_schedule, ompt_record_task_schedule_t);
TYPE(ompt_record_ompt_t, record.implicit_task, ompt_record_implicit_task_t);
TYPE(ompt_record_ompt_t, record.masked, ompt_record_masked_t);
TYPE(ompt_record_ompt_t, record.sync_region, ompt_record_sync_region_t);
TYPE(ompt_record_ompt_t, record.mutex_acquire, ompt_record_mutex_acquire_t);
TYPE(ompt_record_ompt_t, record.mutex, ompt_record_mutex_t);
TYPE(ompt_record_ompt_t, record.nest_lock, ompt_record_nest_lock_t);
TYPE(ompt_record_ompt_t, record.flush, ompt_record_flush_t);
TYPE(ompt_record_ompt_t, record.cancel, ompt_record_cancel_t);
TYPE(ompt_record_ompt_t, record.target, ompt_record_target_t);
TYPE(ompt_record_ompt_t, record.target_data_op, ompt_record_target_data_op_t);
TYPE(ompt_record_ompt_t, record.target_map, ompt_record_target_map_t);
TYPE(ompt_record_ompt_t, record.target_kernel, ompt_record_target_kernel_t);
TYPE(ompt_record_ompt_t, record.control_tool, ompt_record_control_tool_t);

FUNCTION(ompt_get_unique_id_t, uint64_t, void);
FUNCTION(ompt_interface_fn_t, void, void);
FUNCTION(ompt_function_lookup_t, ompt_interface_fn_t, const char *);
FUNCTION(ompt_callback_t, void, void);
FUNCTION(ompt_callback_buffer_request_t, void, int, ompt_buffer_t **, size_t *);
FUNCTION(ompt_callback_buffer_complete_t, void, int, ompt_buffer_t *, size_t, ompt_buffer_cursor_t, int);
FUNCTION(ompt_finalize_t, void, ompt_data_t *);
FUNCTION(ompt_initialize_t, int, ompt_function_lookup_t, int, ompt_data_t *);
FUNCTION(ompt_enumerate_states_t, int, int, int *, const char **);
FUNCTION(ompt_enumerate_mutex_impls_t, int, int, int *, const char **);
FUNCTION(ompt_set_callback_t, ompt_set_result_t, ompt_callbacks_t, ompt_callback_t);
FUNCTION(ompt_get_callback_t, int, ompt_callbacks_t, ompt_callback_t *);
FUNCTION(ompt_get_thread_data_t, ompt_data_t *, void);
FUNCTION(ompt_get_num_procs_t, int, void);
FUNCTION(ompt_get_num_places_t, int, void);
FUNCTION(ompt_get_place_proc_ids_t, int, int, int, int *);
FUNCTION(ompt_get_place_num_t, int, void);
FUNCTION(ompt_get_partition_place_nums_t, int, int, int *);
FUNCTION(ompt_get_proc_id_t, int, void);
FUNCTION(ompt_get_state_t, int, ompt_wait_id_t *);
FUNCTION(ompt_get_parallel_info_t, int, int, ompt_data_t **, int *);
FUNCTION(ompt_get_task_info_t, int, int, int *, ompt_data_t **, ompt_frame_t **, ompt_data_t **, int *);
FUNCTION(ompt_get_task_memory_t, int, void **, size_t *, int);
FUNCTION(ompt_get_target_info_t, int, uint64_t *, ompt_id_t *, ompt_id_t *);
FUNCTION(ompt_get_num_devices_t, int, void);
FUNCTION(ompt_finalize_tool_t, void, void);
FUNCTION(ompt_get_device_num_procs_t, int, ompt_device_t *);
FUNCTION(ompt_get_device_time_t, ompt_device_time_t, ompt_device_t *);
FUNCTION(ompt_translate_time_t, double, ompt_device_t *, ompt_device_time_t);
FUNCTION(ompt_set_trace_ompt_t, ompt_set_result_t, ompt_device_t *, unsigned int, unsigned int);
FUNCTION(ompt_set_trace_native_t, ompt_set_result_t, ompt_device_t *, int, int);
FUNCTION(ompt_start_trace_t, int, ompt_device_t *, ompt_callback_buffer_request_t, ompt_callback_buffer_complete_t);
FUNCTION(ompt_pause_trace_t, int, ompt_device_t *, int);
FUNCTION(ompt_flush_trace_t, int, ompt_device_t *);
FUNCTION(ompt_stop_trace_t, int, ompt_device_t *);
FUNCTION(ompt_advance_buffer_cursor_t, int, ompt_device_t *, ompt_buffer_t *, size_t, ompt_buffer_cursor_t, ompt_buffer_cursor_t *);
FUNCTION(ompt_get_record_type_t, ompt_record_t, ompt_buffer_t *, ompt_buffer_cursor_t);
FUNCTION(ompt_get_record_native_t, void *, ompt_buffer_t *, ompt_buffer_cursor_t, ompt_id_t *);
FUNCTION(ompt_get_record_abstract_t, ompt_record_abstract_t *, void *);
FUNCTION(ompt_callback_thread_begin_t, void, ompt_thread_t, ompt_data_t *);
FUNCTION(ompt_callback_thread_end_t, void, ompt_data_t *);
FUNCTION(ompt_callback_parallel_begin_t, void, ompt_data_t *, const ompt_frame_t *, ompt_data_t *, unsigned int, int, const void *);
FUNCTION(ompt_callback_parallel_end_t, void, ompt_data_t *, ompt_data_t *, int, const void *);
FUNCTION(ompt_callback_work_t, void, ompt_work_t, ompt_scope_endpoint_t, ompt_data_t *, ompt_data_t *, uint64_t, const void *);
FUNCTION(ompt_callback_dispatch_t, void, ompt_data_t *, ompt_data_t *, ompt_dispatch_t, ompt_data_t);
FUNCTION(ompt_callback_task_create_t, void, ompt_data_t *, const ompt_frame_t *, ompt_data_t *, int, int, const void *);
FUNCTION(ompt_callback_dependences_t, void, ompt_data_t *, const ompt_dependence_t *, int);
FUNCTION(ompt_callback_task_dependence_t, void, ompt_data_t *, ompt_data_t *);
FUNCTION(ompt_callback_task_schedule_t, void, ompt_data_t *, ompt_task_status_t, ompt_data_t *);
FUNCTION(ompt_callback_implicit_task_t, void, ompt_scope_endpoint_t, ompt_data_t *, ompt_data_t *, unsigned int, unsigned int, int);
FUNCTION(ompt_callback_masked_t, void, ompt_scope_endpoint_t, ompt_data_t *, ompt_data_t *, const void *);
FUNCTION(ompt_callback_sync_region_t, void, ompt_sync_region_t, ompt_scope_endpoint_t, ompt_data_t *, ompt_data_t *, const void *);
FUNCTION(ompt_callback_mutex_acquire_t, void, ompt_mutex_t, unsigned int, unsigned int, ompt_wait_id_t, const void *);
FUNCTION(ompt_callback_mutex_t, void, ompt_mutex_t, ompt_wait_id_t, const void *);
FUNCTION(ompt_callback_nest_lock_t, void, ompt_scope_endpoint_t, ompt_wait_id_t, const void *);
FUNCTION(ompt_callback_flush_t, void, ompt_data_t *, const void *);
FUNCTION(ompt_callback_cancel_t, void, ompt_data_t *, int, const void *);
FUNCTION(ompt_callback_device_initialize_t, void, int, const char *, ompt_device_t *, ompt_function_lookup_t, const char *);
FUNCTION(ompt_callback_device_finalize_t, void, int);
FUNCTION(ompt_callback_device_load_t, void, int, const char *, int64_t, void *, size_t, void *, void *, uint64_t);
FUNCTION(ompt_callback_device_unload_t, void, int, uint64_t);
FUNCTION(ompt_callback_target_data_op_emi_t, void, ompt_scope_endpoint_t, ompt_data_t *, ompt_data_t *, ompt_id_t *, ompt_target_data_op_t, void *, int, void *, int, size_t, const void *);
FUNCTION(ompt_callback_target_data_op_t, void, ompt_id_t, ompt_id_t, ompt_target_data_op_t, void *, int, void *, int, size_t, const void *);
FUNCTION(ompt_callback_target_emi_t, void, ompt_target_t, ompt_scope_endpoint_t, int, ompt_data_t *, ompt_data_t *, ompt_data_t *, const void *);
FUNCTION(ompt_callback_target_t, void, ompt_target_t, ompt_scope_endpoint_t, int, ompt_data_t *, ompt_id_t, const void *);
FUNCTION(ompt_callback_target_map_emi_t, void, ompt_data_t *, unsigned int, void **, void **, size_t *, unsigned int *, const void *);
FUNCTION(ompt_callback_target_map_t, void, ompt_id_t, unsigned int, void **, void **, size_t *, unsigned int *, const void *);
FUNCTION(ompt_callback_target_submit_emi_t, void, ompt_scope_endpoint_t, ompt_data_t *, ompt_id_t *, unsigned int);
FUNCTION(ompt_callback_target_submit_t, void, ompt_id_t, ompt_id_t, unsigned int);
FUNCTION(ompt_callback_control_tool_t, int, uint64_t, uint64_t, void *, const void *);
FUNCTION(ompt_callback_error_t, void, ompt_severity_t, const char *, size_t, const void *);
FUNCTION(ompt_get_record_ompt_t, ompt_record_ompt_t *, ompt_buffer_t *, ompt_buffer_cursor_t);
GLOBAL(ompt_start_tool, ompt_start_tool_result_t *, unsigned int, const char *);
_Static_assert(ompt_id_none == 0 && sizeof(ompt_id_none) == sizeof(0), "ompt_id_none");
_Static_assert(ompt_time_none == 0 && sizeof(ompt_time_none) == sizeof(0), "ompt_time_none");
_Static_assert(ompt_hwid_none == 0 && sizeof(ompt_hwid_none) == sizeof(0), "ompt_hwid_none");
_Static_assert(ompt_addr_none == ~0 && sizeof(ompt_addr_none) == sizeof(~0), "ompt_addr_none");
_Static_assert(ompt_mutex_impl_none == 0 && sizeof(ompt_mutex_impl_none) == sizeof(0), "ompt_mutex_impl_none");
_Static_assert(ompt_wait_id_none == 0 && sizeof(ompt_wait_id_none) == sizeof(0), "ompt_wait_id_none");
