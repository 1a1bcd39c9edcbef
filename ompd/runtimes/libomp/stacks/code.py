"""Whose code frames of stacks are in: the user's, or which routine's of the runtime; which of them begin a construct's
code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ompd import naming
from ompd.contract.code_owners import RUNTIME, SYSTEM, UNKNOWN
from ompd.contract.process import Frame
from ompd.runtimes.libomp.teams.reading import Reading

# Routines that call a region's function: kmp_runtime.cpp, kmp_gsupport.cpp. The wrappers are static C++ functions in
# some builds, and GOMP's entry points carry versions and a prefix in the symbol table: see naming.routine_name().
_INVOKER = re.compile(r"__kmp_invoke_microtask$|__kmp_GOMP_\w*microtask_wrapper$|GOMP_parallel(?!\w*_start)\w*$")
# Routines that user code calls to start a region. Innermost on a stack, they say that its function has not begun or is
# over.
_FORK = re.compile(
    r"GOMP_parallel\w*$|__kmpc_fork_call(?:_if)?$|__kmpc_serialized_parallel$|__kmpc_end_serialized_parallel$"
)

# What gcc's own invoker calls of the entry points that are there for clang's code.
_OWN_CALLS = frozenset(
    (
        *("__kmpc_serialized_parallel", "__kmpc_end_serialized_parallel", "__kmpc_fork_call"),
        *("__kmpc_push_num_threads", "__kmpc_push_proc_bind", "__kmpc_global_thread_num", "GOMP_parallel_end"),
    )
)

# Routines that call the function of an explicit task.
TASK_INVOKERS = frozenset(("__kmp_invoke_task", "__kmp_omp_task", "__kmp_execute_tasks_template"))

# The barrier at a region's end; its second half is where workers wait for the next region.
JOIN_BARRIER, FORK_BARRIER = "__kmp_join_barrier", "__kmp_fork_barrier"
CLOSING_BARRIERS = frozenset((JOIN_BARRIER, FORK_BARRIER))

# Routines in which threads wait until a word has some value: methods of flags (kmp_wait_release.h), z_Linux_util.cpp.
_WAIT = re.compile(r"__kmp_(?:suspend|wait)\w*$|_ZN\d+kmp_(?:atomic_)?flag_\w+?4waitE")

# Routines that call a task's function at once, where it is not deferred. Another name for clang's: its code calls the
# function itself, between two of the runtime's routines.
_UNDEFERRED = "GOMP_task"


def is_fork(routine: str) -> bool:
    """Return whether a routine is one that user code calls to start a region, or to end it."""
    return _FORK.match(routine) is not None


def is_wait(routine: str) -> bool:
    """Return whether a routine is one in which threads wait until a word has some value."""
    return _WAIT.match(routine) is not None


def calls_user_code(routine: str) -> bool:
    """Return whether a routine of the runtime is one that calls the function of a region or an explicit task."""
    return _INVOKER.match(routine) is not None or routine in TASK_INVOKERS


def is_entry(routine: str) -> bool:
    """Return whether a routine is one that user code calls, and the runtime's routines that call user code do not."""
    return naming.is_entry(routine) and routine not in _OWN_CALLS


class Code:
    """The code of one process, by the names of its functions.

    :param name: returns the name of a routine without a symbol by a frame of it, ``""`` if it is unknown; None for a
        runtime with symbols
    """

    def __init__(self, runtime: Reading, name: Callable[[Frame], str] | None) -> None:
        self._runtime = runtime
        self._process = runtime.process
        self._name = name
        self._routines: dict[int, str | None] = {}
        self._calls: dict[tuple[int, int], bool] = {}

    @property
    def has_names(self) -> bool:
        """Whether routines are known by their code alone, and not by what is on the stack, too."""
        return self._name is None

    def routine_at(self, address: int) -> str | None:
        """Return the name of the runtime's routine at *address*, None where that is not the runtime's code."""
        known = self._routines
        if address not in known:
            inside = self._runtime.owners.at(address) == RUNTIME
            known[address] = naming.routine_name(self._process.locate(address).symbol) if inside else None
        return known[address]

    def routine_of(self, frame: Frame) -> str | None:
        """Return the name of the runtime's routine of a frame, None where that is not the runtime's code.

        ``""`` where it has no symbol, and what it does does not show it.
        """
        at, known = frame.call_site, self._routines
        name = known[at] if at in known else self.routine_at(at)
        return self._name(frame) if name == "" and self._name is not None else name

    def is_users(self, frame: Frame) -> bool:
        """Return whether a frame's code is the user's."""
        return self._runtime.owners.is_users(frame)

    def is_users_code(self, frames: Sequence[Frame], index: int) -> bool:
        """Return whether the code of a frame of a stack is the user's, also where it is the call of an entry point of
        the runtime alone that shows it: in a static program names do not tell the user's functions from the C
        library's.
        """
        frame = frames[index]
        if not index or self._runtime.owners.at(frame.call_site) != UNKNOWN:
            return self.is_users(frame)
        return naming.is_entry(self.entry_called(frames[index - 1], frame))

    def entry_called(self, inner: Frame, outer: Frame) -> str:
        """Return the routine of the runtime that the user's frame called, which may have jumped to another one."""
        routine = self.routine_of(inner)
        if routine is None or is_entry(routine) or is_fork(routine):
            return routine or ""
        return naming.routine_name(self._process.routine_called(outer.pc))

    def begins_region(self, inner: Frame, outer: Frame) -> bool:
        """Return whether *inner*, called by *outer*, is the frame of a region's function, or of what that jumped to."""
        pair = inner.call_site, outer.call_site
        known = self._calls.get(pair)
        if known is None:
            known = self._calls[pair] = self._is_region_call(inner, outer)
        return known

    def _is_region_call(self, inner: Frame, outer: Frame) -> bool:
        caller, callee = self.routine_of(outer), self.routine_of(inner)
        if caller is not None:
            invoker = _INVOKER.match(caller)
            if invoker is None:
                return False
            if callee is None:
                # Those that are there for this alone call nothing else, so that one of the C library's was jumped to.
                return self.is_users(inner) or (
                    invoker[0].startswith("__kmp_") and self._runtime.owners.at(inner.call_site) == SYSTEM
                )
            return self.was_jumped_to(callee, outer)
        if not self.is_users(inner) or not self.is_users(outer):
            return False
        locate = self._process.locate
        return _is_called_by_user(locate(inner.call_site).symbol, locate(outer.call_site).symbol)

    def was_jumped_to(self, callee: str, outer: Frame) -> bool:
        """Return whether the runtime's routine *callee* stands where the code of a construct was, which *outer* called.

        That code ended by a jump to one of the runtime's entry points, which may have jumped on.
        """
        if self._process.calls_by_pointer(outer.pc):
            is_own = callee.startswith("__kmp_") and (calls_user_code(callee) or is_fork(callee))
            return bool(callee) and not is_own
        # Its own routines that call nothing else; gcc's entry points call clang's.
        return is_entry(callee) and (self.routine_of(outer) or "").startswith("__kmp_")

    def begins_task(self, inner: Frame, outer: Frame) -> bool:
        """Return whether *inner*, called by *outer*, is the frame of an explicit task's code, or of what that jumped
        to.
        """
        caller = self.routine_of(outer)
        callee = self.routine_of(inner)
        if caller is not None:
            if caller not in TASK_INVOKERS and caller != _UNDEFERRED:
                return False
            if callee is None:
                is_added = naming.is_added(self._process.locate(inner.call_site).symbol or "")
                return self.is_users(inner) and not is_added
            return self.was_jumped_to(callee, outer)
        if not self.is_users(inner) or not self.is_users(outer):
            return False
        known = naming.parse_outlined(self._process.locate(inner.call_site).symbol or "")
        return known is not None and known.construct == "task"


def _is_called_by_user(symbol: str | None, caller: str | None) -> bool:
    # clang calls the function of a region with a false if clause directly. With -g it may be a pair, whose inner one
    # has the body; a task's function is called by its entry.
    known = naming.parse_outlined(symbol or "")
    if known is None or known.construct is not None or naming.is_body(symbol or ""):
        return False
    called_by = naming.parse_outlined(caller or "")
    return called_by is None or called_by.construct != "task"
