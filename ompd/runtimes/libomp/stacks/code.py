"""The code of stack frames: its owner, the routine of the runtime, and the frames that begin a construct's code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ompd import naming
from ompd.contract.code_owners import RUNTIME, SYSTEM, UNKNOWN

if TYPE_CHECKING:
    from ompd.contract.process import Frame
    from ompd.runtimes.libomp.plugin import Runtime
    from ompd.runtimes.libomp.stacks.unnamed import Names, Unnamed

# Routines that call a region's function (kmp_runtime.cpp, kmp_gsupport.cpp). The wrappers are static C++ functions in
# some builds, and GOMP's entry points have versions and a prefix in the symbol table, which naming.routine_name()
# removes.
_INVOKER = re.compile(r"__kmp_invoke_microtask$|__kmp_GOMP_\w*microtask_wrapper$|GOMP_parallel(?!\w*_start)\w*$")
# Routines that user code calls to start a region. If one of them is innermost on a stack, the function of the region
# has not begun or is over.
_FORK = re.compile(
    r"GOMP_parallel\w*$|__kmpc_fork_call(?:_if)?$|__kmpc_serialized_parallel$|__kmpc_end_serialized_parallel$"
)

# Entry points that are not only called by user code: the runtime's own routines for gcc's code call them, too.
_CALLED_BY_RUNTIME = frozenset(
    (
        "__kmpc_serialized_parallel",
        "__kmpc_end_serialized_parallel",
        "__kmpc_fork_call",
        "__kmpc_push_num_threads",
        "__kmpc_push_proc_bind",
        "__kmpc_global_thread_num",
        "GOMP_parallel_end",
    )
)

# Routines that call the function of an explicit task.
TASK_INVOKERS = frozenset(("__kmp_invoke_task", "__kmp_omp_task", "__kmp_execute_tasks_template"))

# The barrier at a region's end. In its second half, the fork barrier, workers wait for the next region.
JOIN_BARRIER, FORK_BARRIER = "__kmp_join_barrier", "__kmp_fork_barrier"
CLOSING_BARRIERS = frozenset((JOIN_BARRIER, FORK_BARRIER))

# Entry points at the beginning of a reduction, which may acquire a lock.
REDUCTION_ENTRIES = frozenset(("__kmpc_reduce", "__kmpc_reduce_nowait"))

# Routines in which threads wait until a word has a certain value: methods of flags (kmp_wait_release.h), and routines
# of z_Linux_util.cpp.
_WAIT = re.compile(r"__kmp_(?:suspend|wait)\w*$|_ZN\d+kmp_(?:atomic_)?flag_\w+?4waitE")

# The routine that calls the function of a task that is not deferred. clang's code needs no such routine: it calls the
# function itself, between two calls of the runtime.
_UNDEFERRED = "GOMP_task"


def is_fork(routine: str) -> bool:
    """Return whether user code calls *routine* to start or end a region."""
    return _FORK.match(routine) is not None


def is_wait(routine: str) -> bool:
    """Return whether threads wait in *routine* until a word has a certain value."""
    return _WAIT.match(routine) is not None


def calls_user_code(routine: str) -> bool:
    """Return whether a routine of the runtime calls the function of a region or of an explicit task."""
    return _INVOKER.match(routine) is not None or routine in TASK_INVOKERS


def is_entry(routine: str) -> bool:
    """Return whether *routine* is only called by user code, not by the runtime's routines that call user code."""
    return naming.is_entry(routine) and routine not in _CALLED_BY_RUNTIME


class Code:
    """The code of one process. The names of functions show which routine a frame executes and where a construct's code
    begins.

    :param unnamed: the names of the routines of a stripped runtime, None for a runtime with symbols
    """

    def __init__(self, runtime: Runtime, unnamed: Names | Unnamed | None) -> None:
        self._runtime = runtime
        self._process = runtime.process
        self._unnamed = unnamed
        self._routines: dict[int, str | None] = {}
        self._calls: dict[tuple[int, int], bool] = {}

    @property
    def has_names(self) -> bool:
        """Whether a code address is enough to identify the runtime's routine. In a stripped runtime the contents of the
        stack are also needed.
        """
        return self._unnamed is None

    def routine_at(self, address: int) -> str | None:
        """Return the name of the runtime's routine at *address*, None if this is not the runtime's code."""
        routines = self._routines
        if address not in routines:
            is_runtimes = self._runtime.owners.at(address) == RUNTIME
            routines[address] = naming.routine_name(self._process.locate(address).symbol) if is_runtimes else None
        return routines[address]

    def routine_of(self, frame: Frame) -> str | None:
        """Return the name of the runtime's routine that *frame* executes, None if this is not the runtime's code.

        ``""`` if the routine has no symbol and its frame does not show the name.
        """
        address, routines = frame.call_site, self._routines
        name = routines[address] if address in routines else self.routine_at(address)
        return self._unnamed.name(frame) if name == "" and self._unnamed is not None else name

    def is_users(self, frame: Frame) -> bool:
        """Return whether a frame's code is the user's."""
        return self._runtime.owners.is_users(frame)

    def is_users_code(self, frames: Sequence[Frame], index: int) -> bool:
        """Return whether the frame at *index* of a stack executes the user's code. In a static program names do not
        distinguish the user's functions from the C library's, so a call of an entry point also shows user code.
        """
        frame = frames[index]
        if not index or self._runtime.owners.at(frame.call_site) != UNKNOWN:
            return self.is_users(frame)
        return naming.is_entry(self.entry_called(frames[index - 1], frame))

    def entry_called(self, inner: Frame, outer: Frame) -> str:
        """Return the routine of the runtime that the user's frame *outer* called. This routine may have jumped to
        another routine.
        """
        routine = self.routine_of(inner)
        if routine is None or is_entry(routine) or is_fork(routine):
            return routine or ""
        return naming.routine_name(self._process.routine_called(outer.pc))

    def begins_region(self, inner: Frame, outer: Frame) -> bool:
        """Return whether *inner*, called by *outer*, is the frame of a region's function, or of a function to which the
        region's function jumped.
        """
        pair = inner.call_site, outer.call_site
        begins = self._calls.get(pair)
        if begins is None:
            begins = self._calls[pair] = self._is_region_call(inner, outer)
        return begins

    def _is_region_call(self, inner: Frame, outer: Frame) -> bool:
        caller, callee = self.routine_of(outer), self.routine_of(inner)
        if caller is not None:
            invoker = _INVOKER.match(caller)
            if invoker is None:
                return False
            if callee is None:
                # An invoker that is not an entry point only calls the region's function. So if a function of the C
                # library is in its place, the region's function jumped to it.
                return self.is_users(inner) or (
                    invoker[0].startswith("__kmp_") and self._runtime.owners.at(inner.call_site) == SYSTEM
                )
            return self.was_jumped_to(callee, outer)
        if not self.is_users(inner) or not self.is_users(outer):
            return False
        locate = self._process.locate
        return _is_region_called_by_user(locate(inner.call_site).symbol, locate(outer.call_site).symbol)

    def was_jumped_to(self, callee: str, outer: Frame) -> bool:
        """Return whether *outer* called a construct's code, which ended by a jump to the runtime's routine *callee*, or
        to an entry point that jumped to *callee*.
        """
        if self._process.calls_by_pointer(outer.pc):
            is_internal = callee.startswith("__kmp_") and (calls_user_code(callee) or is_fork(callee))
            return bool(callee) and not is_internal
        # The runtime's internal invokers (__kmp_) call only functions of constructs. Entry points for gcc's code do not
        # count, because they also call entry points for clang's code.
        return is_entry(callee) and (self.routine_of(outer) or "").startswith("__kmp_")

    def begins_task(self, inner: Frame, outer: Frame) -> bool:
        """Return whether *inner*, called by *outer*, is the frame of an explicit task's code, or of a function to which
        this code jumped.
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
        outlined = naming.parse_outlined(self._process.locate(inner.call_site).symbol or "")
        return outlined is not None and outlined.construct == "task"


def _is_region_called_by_user(symbol: str | None, caller: str | None) -> bool:
    # clang's code itself calls the function of a region whose if clause is false. With -g there may be two functions
    # for the region. Only the outer one counts; the inner one has the body. A call by the entry of a task does not
    # count either, because the called function is the task's.
    outlined = naming.parse_outlined(symbol or "")
    if outlined is None or outlined.construct is not None or naming.is_body(symbol or ""):
        return False
    outlined_caller = naming.parse_outlined(caller or "")
    return outlined_caller is None or outlined_caller.construct != "task"
