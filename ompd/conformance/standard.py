"""The routines of OMPD in OpenMP 5.2: their sections and arguments.

``takes`` has a word for each argument, in C's order. Inputs:

- ``S`` ``T`` ``P`` ``K``: a handle of an address space, a thread, a region, a task
- ``any``: a handle that goes with the scope
- ``context``, ``scope``, ``icv``, ``state``
- ``num``: a thread number
- ``kind``, ``size``, ``id``: the kind, size and value of a native thread's identifier
- ``vector``: the result of ompd_get_display_control_vars

Results begin with ``>``:

- ``>S`` ``>T`` ``>P`` ``>K``: a handle
- ``>w``: a word; ``>i``: an int; ``>?``: a word that the routine omits if the pointer is null
- ``>s``: a text that the tool frees; ``>t``: a text that the library owns
- ``>a``: an address; ``>f``: a frame; ``>b``: an identifier; ``>v``: a vector
"""

from __future__ import annotations

from collections.abc import Mapping

from ompd.errors import Rc
from ompd.records import record

VERSION = "OpenMP 5.2"

FIRST_WITH_KINDS = 202111
"""The first version of the interface whose libraries must have the routines that OpenMP 5.2 added."""


@record
class Routine:
    """A routine: its section and its arguments."""

    section: str
    takes: tuple[str, ...]


def _routine(section: str, takes: str = "") -> Routine:
    return Routine(section, tuple(takes.split()))


ROUTINES: Mapping[str, Routine] = {
    "ompd_initialize": _routine("20.5.1.1", "version table"),
    "ompd_get_api_version": _routine("20.5.1.2", ">w"),
    "ompd_get_version_string": _routine("20.5.1.3", ">t"),
    "ompd_finalize": _routine("20.5.1.4"),
    "ompd_process_initialize": _routine("20.5.2.1", "context >S"),
    "ompd_device_initialize": _routine("20.5.2.2", "S context device size id >S"),
    "ompd_rel_address_space_handle": _routine("20.5.2.3", "S"),
    "ompd_get_device_thread_id_kinds": _routine("20.5.2.4", "S >k >k >i"),
    "ompd_get_omp_version": _routine("20.5.4.1", "S >w"),
    "ompd_get_omp_version_string": _routine("20.5.4.2", "S >s"),
    "ompd_get_thread_in_parallel": _routine("20.5.5.1", "P num >T"),
    "ompd_get_thread_handle": _routine("20.5.5.2", "S kind size id >T"),
    "ompd_rel_thread_handle": _routine("20.5.5.3", "T"),
    "ompd_thread_handle_compare": _routine("20.5.5.4", "T T >i"),
    "ompd_get_thread_id": _routine("20.5.5.5", "T kind size >b"),
    "ompd_get_device_from_thread": _routine("20.5.5.6", "T >d"),
    "ompd_get_curr_parallel_handle": _routine("20.5.6.1", "T >P"),
    "ompd_get_enclosing_parallel_handle": _routine("20.5.6.2", "P >P"),
    "ompd_get_task_parallel_handle": _routine("20.5.6.3", "K >P"),
    "ompd_rel_parallel_handle": _routine("20.5.6.4", "P"),
    "ompd_parallel_handle_compare": _routine("20.5.6.5", "P P >i"),
    "ompd_get_curr_task_handle": _routine("20.5.7.1", "T >K"),
    "ompd_get_generating_task_handle": _routine("20.5.7.2", "K >K"),
    "ompd_get_scheduling_task_handle": _routine("20.5.7.3", "K >K"),
    "ompd_get_task_in_parallel": _routine("20.5.7.4", "P num >K"),
    "ompd_rel_task_handle": _routine("20.5.7.5", "K"),
    "ompd_task_handle_compare": _routine("20.5.7.6", "K K >i"),
    "ompd_get_task_function": _routine("20.5.7.7", "K >a"),
    "ompd_get_task_frame": _routine("20.5.7.8", "K >f >f"),
    "ompd_enumerate_states": _routine("20.5.8.1", "S state >w >s >w"),
    "ompd_get_state": _routine("20.5.8.2", "T >w >?"),
    "ompd_get_display_control_vars": _routine("20.5.9.1", "S >v"),
    "ompd_rel_display_control_vars": _routine("20.5.9.2", "vector"),
    "ompd_enumerate_icvs": _routine("20.5.10.1", "S icv >w >s >i >i"),
    "ompd_get_icv_from_scope": _routine("20.5.10.2", "any scope icv >w"),
    "ompd_get_icv_string_from_scope": _routine("20.5.10.3", "any scope icv >s"),
    "ompd_get_tool_data": _routine("20.5.10.4", "any scope >w >a"),
}

SINCE_5_2 = ("ompd_get_device_thread_id_kinds", "ompd_get_device_from_thread")

RELEASES = {
    "S": "ompd_rel_address_space_handle",
    "T": "ompd_rel_thread_handle",
    "P": "ompd_rel_parallel_handle",
    "K": "ompd_rel_task_handle",
}

FLAGS = frozenset(first | second for first in (0, 1) for second in (0, 0x10, 0x20, 0x30))
"""The flags of frames: ``ompt_frame_flag_t``, 19.4.4.29."""


def code_name(code: int) -> str:
    """Return the standard's name of a return code."""
    try:
        return f"ompd_rc_{Rc(code).name.lower()}"
    except ValueError:
        return f"{code}, which is no ompd_rc_t"
