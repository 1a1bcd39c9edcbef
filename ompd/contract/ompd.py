"""OMPD's own names and numbers (OpenMP 5.2, chapter 20, and the additions of 6.0; ``omp-tools.h``)."""

from __future__ import annotations

from enum import IntEnum

from ompd.errors import Rc

__all__ = [
    "API_FUNCTIONS",
    "API_VERSION",
    "BREAKPOINTS",
    "CALLBACKS",
    "DLL_LOCATIONS",
    "DLL_LOCATIONS_VALID",
    "SEGMENT_NONE",
    "Rc",
    "Scope",
    "ThreadIdKind",
]

API_VERSION = 201811
"""The only version that the libraries of LLVM and Intel accept; a host asks ``ompd_get_api_version`` first."""

SEGMENT_NONE = 0
"""``ompd_segment_none``: addresses of a host have no segment."""

DLL_LOCATIONS = "ompd_dll_locations"
"""``const char **`` in the target: NULL until the runtime is ready, then a NULL-terminated vector of file names."""

DLL_LOCATIONS_VALID = "ompd_dll_locations_valid"
"""Execution passes this place once the vector is complete; it may be a label and not a function."""


class Scope(IntEnum):
    """``ompd_scope_t``: what kind of handle an ICV or tool data belongs to."""

    GLOBAL = 1
    ADDRESS_SPACE = 2
    THREAD = 3
    PARALLEL = 4
    IMPLICIT_TASK = 5
    TASK = 6
    TEAMS = 7
    TARGET = 8


class ThreadIdKind(IntEnum):
    """Kinds of native thread identifiers (``ompd_thread_id_t``; the ``ompd-types.h`` supplement)."""

    PTHREAD = 0
    LWP = 1
    WINTHREAD = 2


CALLBACKS = (
    "alloc_memory",
    "free_memory",
    "print_string",
    "sizeof_type",
    "symbol_addr_lookup",
    "read_memory",
    "write_memory",
    "read_string",
    "device_to_host",
    "host_to_device",
    "get_thread_context_for_thread_id",
)
"""Members of ``ompd_callbacks_t``, in order."""

API_FUNCTIONS = (
    "ompd_initialize",
    "ompd_get_api_version",
    "ompd_get_version_string",
    "ompd_finalize",
    "ompd_process_initialize",
    "ompd_device_initialize",
    "ompd_rel_address_space_handle",
    "ompd_get_omp_version",
    "ompd_get_omp_version_string",
    "ompd_get_thread_in_parallel",
    "ompd_get_thread_handle",
    "ompd_rel_thread_handle",
    "ompd_thread_handle_compare",
    "ompd_get_thread_id",
    "ompd_get_curr_parallel_handle",
    "ompd_get_enclosing_parallel_handle",
    "ompd_get_task_parallel_handle",
    "ompd_rel_parallel_handle",
    "ompd_parallel_handle_compare",
    "ompd_get_curr_task_handle",
    "ompd_get_generating_task_handle",
    "ompd_get_scheduling_task_handle",
    "ompd_get_task_in_parallel",
    "ompd_rel_task_handle",
    "ompd_task_handle_compare",
    "ompd_get_task_function",
    "ompd_get_task_frame",
    "ompd_enumerate_states",
    "ompd_get_state",
    "ompd_get_display_control_vars",
    "ompd_rel_display_control_vars",
    "ompd_enumerate_icvs",
    "ompd_get_icv_from_scope",
    "ompd_get_icv_string_from_scope",
    "ompd_get_tool_data",
)
"""The interface of an OMPD library, 5.2. 6.0 added ``ompd_get_device_thread_id_kinds`` and
``ompd_get_device_from_thread``.
"""

BREAKPOINTS = (
    "ompd_bp_parallel_begin",
    "ompd_bp_parallel_end",
    "ompd_bp_task_begin",
    "ompd_bp_task_end",
    "ompd_bp_thread_begin",
    "ompd_bp_thread_end",
    "ompd_bp_device_begin",
    "ompd_bp_device_end",
    "ompd_bp_teams_begin",
    "ompd_bp_teams_end",
    "ompd_bp_target_begin",
    "ompd_bp_target_end",
)
"""Places in the target that mark events, those of devices, teams and targets in some runtimes only."""
