"""One fact: the answers of both sides, and their comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ompd.errors import LibraryError, OmpdError, Rc, StaleHandle, TargetGone, TooMuch
from ompd.records import record
from ompd.runtimes.hosted.signatures import SIGNATURES, Function

VALUE, NONE, REFUSED = "value", "none", "refused"

# The routine behind each fact. Facts about variables, states and settings contain a name: see _FORMS.
FUNCTIONS: Mapping[str, str] = {
    "omp_version": "ompd_get_omp_version",
    "omp_version_string": "ompd_get_omp_version_string",
    "handle by pthread": "ompd_get_thread_handle",
    "handle by lwp": "ompd_get_thread_handle",
    "id as pthread": "ompd_get_thread_id",
    "id as lwp": "ompd_get_thread_id",
    "state": "ompd_get_state",
    "wait_id": "ompd_get_state",
    "regions": "ompd_get_enclosing_parallel_handle",
    "end of regions": "ompd_get_enclosing_parallel_handle",
    "tasks": "ompd_get_generating_task_handle",
    "end of tasks": "ompd_get_generating_task_handle",
    "thread tool data": "ompd_get_tool_data",
    "region tool data": "ompd_get_tool_data",
    "task tool data": "ompd_get_tool_data",
    "thread in region": "ompd_get_thread_in_parallel",
    "region of a thread in it": "ompd_get_curr_parallel_handle",
    "task in region": "ompd_get_task_in_parallel",
    "number outside of the team": "ompd_get_thread_in_parallel",
    "function": "ompd_get_task_function",
    "exit frame": "ompd_get_task_frame",
    "enter frame": "ompd_get_task_frame",
    "exit frame flag": "ompd_get_task_frame",
    "enter frame flag": "ompd_get_task_frame",
    "region of task": "ompd_get_task_parallel_handle",
    "scheduling task": "ompd_get_scheduling_task_handle",
    "same thread": "ompd_thread_handle_compare",
    "same region": "ompd_parallel_handle_compare",
    "same task": "ompd_task_handle_compare",
    "variable of another scope": "ompd_get_icv_from_scope",
}
ROUTINES = tuple(signature.name for number, signature in SIGNATURES.items() if number != Function.LOAD)
"""All routines of OMPD (OpenMP 5.2, 20.5)."""

_FORMS: Mapping[str, str] = {
    "state ": "ompd_enumerate_states",
    "listed ": "ompd_enumerate_icvs",
    "setting ": "ompd_get_display_control_vars",
    "number of ": "ompd_get_icv_from_scope",
    "text of ": "ompd_get_icv_string_from_scope",
}


def function_of(fact: str) -> str:
    """Return the routine of OMPD that answers a fact."""
    if fact in FUNCTIONS:
        return FUNCTIONS[fact]
    if fact.startswith("routine "):
        return fact.removeprefix("routine ")
    return next(function for start, function in _FORMS.items() if fact.startswith(start))


@record
class Outcome:
    """The answer of one side."""

    kind: str
    """``value``, ``none`` (there is no such thing), or ``refused`` (with ``rc`` and ``reason``)."""
    value: Any = None
    text: str = "none"
    """The value as people read it."""
    rc: int | None = None
    """The return code of a refusal."""
    reason: str = ""
    is_part: bool = False
    """Whether the value is only the first of a list."""


def ask(question: Callable[..., Any], *arguments: Any, write: Callable[[Any], str] = str) -> Outcome:
    """Return the outcome of a question.

    :param write: returns a value as text
    :raises TargetGone: if no further question can succeed; likewise :exc:`StaleHandle`, :exc:`TooMuch`, and a
        :exc:`LibraryError` if the library has ended
    """
    try:
        value = question(*arguments)
    except (TargetGone, StaleHandle, TooMuch):
        raise
    except LibraryError as error:
        if error.has_ended:
            raise
        return refused(error)
    except OmpdError as error:
        return refused(error)
    return Outcome(NONE) if value is None else Outcome(VALUE, value, write(value))


def refused(error: OmpdError) -> Outcome:
    """Return the outcome of a question that failed."""
    return Outcome(REFUSED, None, rc_name(int(error.rc)), int(error.rc), str(error))


def rc_name(rc: int) -> str:
    """Return the name of a return code without ``ompd_rc_``."""
    try:
        return Rc(rc).name.lower()
    except ValueError:
        return f"return code {rc}"


def same(library: Outcome, ours: Outcome) -> bool:
    """Return whether both answers are the same. If both refuse, only codes about wrong arguments must be equal."""
    if ours.kind == REFUSED:
        if ours.rc in (Rc.BAD_INPUT, Rc.UNSUPPORTED, Rc.INCOMPATIBLE):
            return library.kind == REFUSED and library.rc == ours.rc
        return library.kind in (REFUSED, NONE)  # the standard has one code for "there is none" and "unknown"
    return (library.kind, library.value, library.is_part) == (ours.kind, ours.value, ours.is_part)
