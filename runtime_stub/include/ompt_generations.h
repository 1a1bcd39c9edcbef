/* Both generations of OMPT at once: the report of 2015 (ompt.h) and OpenMP 5.2 (omp-tools.h).
 *
 * A name that both have is OpenMP 5's as it is written there, and the report's with `ompt2015_` in place of `ompt_`:
 * ompt2015_state_wait_lock is 0x60, ompt_state_wait_lock is 0x41. Names of one generation alone stay as they are, and so do
 * the types that both define alike (ompt_callback_t, ompt_function_lookup_t, ompt_get_num_devices_t, ompt_interface_fn_t,
 * ompt_wait_id_t). The definitions stay in the two headers; here are only names, and a test holds the list to be those that
 * both have. */
#ifndef OMPT_GENERATIONS_H
#define OMPT_GENERATIONS_H

#ifdef OMPT_H
#error "include ompt_generations.h before ompt.h, or in its place"
#endif

#define ompt_frame_t ompt2015_frame_t
#define ompt_get_callback_t ompt2015_get_callback_t
#define ompt_get_state_t ompt2015_get_state_t
#define ompt_get_task_info_t ompt2015_get_task_info_t
#define ompt_native_data_motion_explicit ompt2015_native_data_motion_explicit
#define ompt_native_data_motion_implicit ompt2015_native_data_motion_implicit
#define ompt_native_driver ompt2015_native_driver
#define ompt_native_idleness ompt2015_native_idleness
#define ompt_native_kernel_execution ompt2015_native_kernel_execution
#define ompt_native_kernel_invocation ompt2015_native_kernel_invocation
#define ompt_native_overhead ompt2015_native_overhead
#define ompt_native_runtime ompt2015_native_runtime
#define ompt_record_invalid ompt2015_record_invalid
#define ompt_record_native ompt2015_record_native
#define ompt_record_ompt ompt2015_record_ompt
#define ompt_record_ompt_t ompt2015_record_ompt_t
#define ompt_record_parallel_begin_t ompt2015_record_parallel_begin_t
#define ompt_set_callback_t ompt2015_set_callback_t
#define ompt_state_idle ompt2015_state_idle
#define ompt_state_overhead ompt2015_state_overhead
#define ompt_state_t ompt2015_state_t
#define ompt_state_undefined ompt2015_state_undefined
#define ompt_state_wait_atomic ompt2015_state_wait_atomic
#define ompt_state_wait_barrier ompt2015_state_wait_barrier
#define ompt_state_wait_barrier_explicit ompt2015_state_wait_barrier_explicit
#define ompt_state_wait_barrier_implicit ompt2015_state_wait_barrier_implicit
#define ompt_state_wait_critical ompt2015_state_wait_critical
#define ompt_state_wait_lock ompt2015_state_wait_lock
#define ompt_state_wait_ordered ompt2015_state_wait_ordered
#define ompt_state_wait_target ompt2015_state_wait_target
#define ompt_state_wait_target_update ompt2015_state_wait_target_update
#define ompt_state_wait_taskgroup ompt2015_state_wait_taskgroup
#define ompt_state_wait_taskwait ompt2015_state_wait_taskwait
#define ompt_state_work_parallel ompt2015_state_work_parallel
#define ompt_state_work_reduction ompt2015_state_work_reduction
#define ompt_state_work_serial ompt2015_state_work_serial
#define ompt_target_map_flag_alloc ompt2015_target_map_flag_alloc
#define ompt_target_map_flag_delete ompt2015_target_map_flag_delete
#define ompt_target_map_flag_from ompt2015_target_map_flag_from
#define ompt_target_map_flag_release ompt2015_target_map_flag_release
#define ompt_target_map_flag_t ompt2015_target_map_flag_t
#define ompt_target_map_flag_to ompt2015_target_map_flag_to
#define ompt_task_explicit ompt2015_task_explicit
#define ompt_task_implicit ompt2015_task_implicit
#define ompt_task_target ompt2015_task_target
#define ompt_thread_initial ompt2015_thread_initial
#define ompt_thread_other ompt2015_thread_other
#define ompt_thread_worker ompt2015_thread_worker

#include "ompt.h"

#undef ompt_frame_t
#undef ompt_get_callback_t
#undef ompt_get_state_t
#undef ompt_get_task_info_t
#undef ompt_native_data_motion_explicit
#undef ompt_native_data_motion_implicit
#undef ompt_native_driver
#undef ompt_native_idleness
#undef ompt_native_kernel_execution
#undef ompt_native_kernel_invocation
#undef ompt_native_overhead
#undef ompt_native_runtime
#undef ompt_record_invalid
#undef ompt_record_native
#undef ompt_record_ompt
#undef ompt_record_ompt_t
#undef ompt_record_parallel_begin_t
#undef ompt_set_callback_t
#undef ompt_state_idle
#undef ompt_state_overhead
#undef ompt_state_t
#undef ompt_state_undefined
#undef ompt_state_wait_atomic
#undef ompt_state_wait_barrier
#undef ompt_state_wait_barrier_explicit
#undef ompt_state_wait_barrier_implicit
#undef ompt_state_wait_critical
#undef ompt_state_wait_lock
#undef ompt_state_wait_ordered
#undef ompt_state_wait_target
#undef ompt_state_wait_target_update
#undef ompt_state_wait_taskgroup
#undef ompt_state_wait_taskwait
#undef ompt_state_work_parallel
#undef ompt_state_work_reduction
#undef ompt_state_work_serial
#undef ompt_target_map_flag_alloc
#undef ompt_target_map_flag_delete
#undef ompt_target_map_flag_from
#undef ompt_target_map_flag_release
#undef ompt_target_map_flag_t
#undef ompt_target_map_flag_to
#undef ompt_task_explicit
#undef ompt_task_implicit
#undef ompt_task_target
#undef ompt_thread_initial
#undef ompt_thread_other
#undef ompt_thread_worker
#undef ompt_hwid_none
#undef ompt_time_none

#define ompt2015_hwid_none (-1)
#define ompt2015_time_none (~0ULL)

#include "omp-tools.h"

#endif
