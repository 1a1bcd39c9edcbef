"""The functions of the OMPD interface: their numbers in the protocol, their arguments and their results.

``takes`` and ``gives`` have a letter for each argument, in C's order:

- ``S`` ``T`` ``P`` ``K`` ``*``: a handle of an address space, of a thread, of a parallel region, of a task, or of any
  of these. A function with such a result makes a handle, which the release function of that kind releases.
- ``c``: a context that the host made. ``w``: a signed word of 64 bits. ``u``: an unsigned word. ``i``: an ``int``.
- ``b``: the size of some bytes, and their address. ``z``: the size of a buffer that the function fills; the content is
  returned as ``b``.
- ``s``: a text that the library allocates and the tool frees. ``t``: a text that the library keeps.
- ``a``: an ``ompd_address_t``; only its address is kept. ``f``: an ``ompd_frame_info_t``: two words.
- ``d``: the handle of an address space that the tool already has and must not release.
- ``r``: as a result, rows of numbers and texts, from several calls or from arrays, which the worker reads and releases;
  as an argument, the address of a structure.
"""

from __future__ import annotations

from ompd.runtimes.hosted import protocol

UNWRITTEN = -0x6F6D70645F6E6F6E
"""The worker's value of a frame's flag before a call. A library that never writes the flag leaves it."""

MAX_ENUMERATED = 4096
"""The most states or variables that a library may enumerate."""


class Signature:
    """A function's name in C, its arguments and its results."""

    __slots__ = ("gives", "name", "takes")

    def __init__(self, name: str, takes: str, gives: str) -> None:
        self.name, self.takes, self.gives = name, takes, gives


class Function:
    """The functions' numbers in the protocol. Numbers never change: a new function gets a new number."""

    PROCESS_INITIALIZE = 1
    DEVICE_INITIALIZE = 2
    GET_OMP_VERSION = 3
    GET_OMP_VERSION_STRING = 4
    GET_THREAD_IN_PARALLEL = 5
    GET_THREAD_HANDLE = 6
    THREAD_HANDLE_COMPARE = 7
    GET_THREAD_ID = 8
    GET_CURR_PARALLEL_HANDLE = 9
    GET_ENCLOSING_PARALLEL_HANDLE = 10
    GET_TASK_PARALLEL_HANDLE = 11
    PARALLEL_HANDLE_COMPARE = 12
    GET_CURR_TASK_HANDLE = 13
    GET_GENERATING_TASK_HANDLE = 14
    GET_SCHEDULING_TASK_HANDLE = 15
    GET_TASK_IN_PARALLEL = 16
    TASK_HANDLE_COMPARE = 17
    GET_TASK_FUNCTION = 18
    GET_TASK_FRAME = 19
    ENUMERATE_STATES = 20
    GET_STATE = 21
    GET_DISPLAY_CONTROL_VARS = 22
    ENUMERATE_ICVS = 23
    GET_ICV_FROM_SCOPE = 24
    GET_ICV_STRING_FROM_SCOPE = 25
    GET_TOOL_DATA = 26
    GET_DEVICE_THREAD_ID_KINDS = 27
    GET_DEVICE_FROM_THREAD = 28
    # Functions that only the worker itself calls
    REL_ADDRESS_SPACE_HANDLE = 29
    REL_THREAD_HANDLE = 30
    REL_PARALLEL_HANDLE = 31
    REL_TASK_HANDLE = 32
    REL_DISPLAY_CONTROL_VARS = 33
    GET_API_VERSION = 34
    GET_VERSION_STRING = 35
    INITIALIZE = 36
    FINALIZE = 37
    LOAD = protocol.LOAD


SIGNATURES = {
    Function.PROCESS_INITIALIZE: Signature("ompd_process_initialize", "c", "S"),
    Function.DEVICE_INITIALIZE: Signature("ompd_device_initialize", "Scub", "S"),
    Function.GET_OMP_VERSION: Signature("ompd_get_omp_version", "S", "w"),
    Function.GET_OMP_VERSION_STRING: Signature("ompd_get_omp_version_string", "S", "s"),
    Function.GET_THREAD_IN_PARALLEL: Signature("ompd_get_thread_in_parallel", "Pi", "T"),
    Function.GET_THREAD_HANDLE: Signature("ompd_get_thread_handle", "Sub", "T"),
    Function.THREAD_HANDLE_COMPARE: Signature("ompd_thread_handle_compare", "TT", "i"),
    Function.GET_THREAD_ID: Signature("ompd_get_thread_id", "Tuz", "b"),
    Function.GET_CURR_PARALLEL_HANDLE: Signature("ompd_get_curr_parallel_handle", "T", "P"),
    Function.GET_ENCLOSING_PARALLEL_HANDLE: Signature("ompd_get_enclosing_parallel_handle", "P", "P"),
    Function.GET_TASK_PARALLEL_HANDLE: Signature("ompd_get_task_parallel_handle", "K", "P"),
    Function.PARALLEL_HANDLE_COMPARE: Signature("ompd_parallel_handle_compare", "PP", "i"),
    Function.GET_CURR_TASK_HANDLE: Signature("ompd_get_curr_task_handle", "T", "K"),
    Function.GET_GENERATING_TASK_HANDLE: Signature("ompd_get_generating_task_handle", "K", "K"),
    Function.GET_SCHEDULING_TASK_HANDLE: Signature("ompd_get_scheduling_task_handle", "K", "K"),
    Function.GET_TASK_IN_PARALLEL: Signature("ompd_get_task_in_parallel", "Pi", "K"),
    Function.TASK_HANDLE_COMPARE: Signature("ompd_task_handle_compare", "KK", "i"),
    Function.GET_TASK_FUNCTION: Signature("ompd_get_task_function", "K", "a"),
    Function.GET_TASK_FRAME: Signature("ompd_get_task_frame", "K", "ff"),
    Function.ENUMERATE_STATES: Signature("ompd_enumerate_states", "S", "r"),
    Function.GET_STATE: Signature("ompd_get_state", "T", "wu"),
    Function.GET_DISPLAY_CONTROL_VARS: Signature("ompd_get_display_control_vars", "S", "r"),
    Function.ENUMERATE_ICVS: Signature("ompd_enumerate_icvs", "S", "r"),
    Function.GET_ICV_FROM_SCOPE: Signature("ompd_get_icv_from_scope", "*iu", "w"),
    Function.GET_ICV_STRING_FROM_SCOPE: Signature("ompd_get_icv_string_from_scope", "*iu", "s"),
    Function.GET_TOOL_DATA: Signature("ompd_get_tool_data", "*i", "wa"),
    Function.GET_DEVICE_THREAD_ID_KINDS: Signature("ompd_get_device_thread_id_kinds", "S", "r"),
    Function.GET_DEVICE_FROM_THREAD: Signature("ompd_get_device_from_thread", "T", "d"),
    Function.REL_ADDRESS_SPACE_HANDLE: Signature("ompd_rel_address_space_handle", "S", ""),
    Function.REL_THREAD_HANDLE: Signature("ompd_rel_thread_handle", "T", ""),
    Function.REL_PARALLEL_HANDLE: Signature("ompd_rel_parallel_handle", "P", ""),
    Function.REL_TASK_HANDLE: Signature("ompd_rel_task_handle", "K", ""),
    Function.REL_DISPLAY_CONTROL_VARS: Signature("ompd_rel_display_control_vars", "r", ""),
    Function.GET_API_VERSION: Signature("ompd_get_api_version", "", "w"),
    Function.GET_VERSION_STRING: Signature("ompd_get_version_string", "", "t"),
    Function.INITIALIZE: Signature("ompd_initialize", "wr", ""),
    Function.FINALIZE: Signature("ompd_finalize", "", ""),
    Function.LOAD: Signature("the library's own start", "", ""),
}
