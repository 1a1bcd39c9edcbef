"""A thread's native stack: libgomp's routines on it, and the constructs' code that they called.

libgomp records no frames, and no functions of regions. But user code calls libgomp's exported entry points through a
linkage table, and each entry point calls the code of constructs in one way only:

- ``GOMP_parallel`` and similar routines call a region's code on the primary thread. On a worker, the worker's first
  routine, which is the runtime's outermost, calls that code.
- ``GOMP_task`` and ``GOMP_taskloop`` call the code of an undeferred task.
- A routine in which a thread waits calls the code of deferred tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from ompd import naming
from ompd.contract.code_owners import RUNTIME, SYSTEM, construct_passed, entry_of
from ompd.contract.helpers.entries import WAITING, asks_only
from ompd.contract.helpers.stacks import CodeOwners, interrupted_at, runs
from ompd.contract.ompt import State
from ompd.contract.process import Frame
from ompd.errors import MemoryFault

BEGIN = "(a worker's first routine)"
# The kind of code that a routine calls: a region's, a deferred task's, an undeferred task's.
PARALLEL, TASK, UNDEFERRED = "parallel", "task", "undeferred"

FORKS = "GOMP_parallel"
BEGIN_THREADS = ("start_thread", "clone", "__clone", "__clone3", "clone3")
UNDEFERRED_TASKS = ("GOMP_task", "GOMP_taskloop", "GOMP_taskloop_ull")
# GOMP_taskwait and GOMP_taskwait_depend execute children of the task that called them: task.c only takes tasks from
# that task's children_queue. When a task has ended, these routines execute no tasks for it, because its children have
# lost their parent.
WAITS_FOR_CHILDREN = "GOMP_taskwait"
# Routines that call the code of target regions.
TARGETS = ("GOMP_target", "GOACC_")
# Routines that call code that belongs neither to a region nor to a task.
_NEITHER = ("GOMP_teams", *TARGETS)

STATES: Mapping[str, State] = {
    **WAITING,
    # Routines with the barriers of a single construct with copyprivate, and of reductions over tasks.
    "GOMP_single_copy_start": State.WAIT_BARRIER_IMPLEMENTATION,
    "GOMP_single_copy_end": State.WAIT_BARRIER_IMPLEMENTATION,
    "GOMP_workshare_task_reduction_unregister": State.WAIT_BARRIER_IMPLICIT_WORKSHARE,
    # Fortran
    "omp_set_lock_": State.WAIT_LOCK,
    "omp_set_nest_lock_": State.WAIT_LOCK,
    "GOMP_doacross_wait": State.WAIT_ORDERED,
    "GOMP_doacross_ull_wait": State.WAIT_ORDERED,
    "GOMP_taskloop": State.WAIT_TASKGROUP,
    "GOMP_taskloop_ull": State.WAIT_TASKGROUP,
}
"""The state of a thread, by the waiting routine in which it is."""
BARRIERS = frozenset(name for name, state in STATES.items() if State.WAIT_BARRIER <= state < State.WAIT_TASKWAIT)
"""Routines that end with a barrier for the team."""

# More words than any routine has on the stack.
_MAX_WORDS = 1 << 12


def code_called(routine: str, entry: str | None) -> str | None:
    """Return the kind of code that *routine* calls: ``parallel``, ``task`` or ``undeferred``, None if the code belongs
    neither to a region nor to a task.

    :param routine: the routine's name, ``""`` if it has none
    :param entry: the entry point that user code called
    """
    if routine.startswith(FORKS):
        return PARALLEL
    # Inside GOMP_teams or GOMP_target, an unnamed routine calls that construct's code.
    if routine.startswith(_NEITHER) or (not routine and (entry or "").startswith(_NEITHER)):
        return None
    return UNDEFERRED if routine in UNDEFERRED_TASKS else TASK


class Group(NamedTuple):
    """Consecutive frames of the runtime on a stack. User code called the outermost frame.

    ``inner`` and ``outer`` are the indexes of the first and the last frame. ``entry`` is the called entry point:
    :data:`BEGIN` for a worker's first routine, None if unknown. ``code`` is the kind of code that the group called
    (:func:`code_called`), None if it called no construct's code. The called code's frame is the one before ``inner``.
    ``caller`` is the index of the frame that called the group, None for a worker's first routine.
    """

    inner: int
    outer: int
    entry: str | None
    code: str | None
    caller: int | None

    @property
    def forks(self) -> bool:
        """Whether the group stands for a region. The thread is then in the region's code, or at the region's end."""
        return self.entry == BEGIN or (self.entry is not None and self.entry.startswith(FORKS))


class ParsedStack:
    """A thread's frames, and the groups of the runtime's frames among them, both innermost first.

    ``stopped`` is the reason why the stack could not be followed to its end, None if it could.
    """

    def __init__(self, owners: CodeOwners, native: int) -> None:
        stack = owners.process.stack(native)
        self.owners = owners
        self.process = owners.process
        self.frames = stack.frames
        self.stopped = stack.stopped
        inside = [self.is_runtimes(frame) for frame in self.frames]
        self.groups = tuple(self._group(inner, outer) for inner, outer in runs(inside, self._is_divided))

    def is_runtimes(self, frame: Frame) -> bool:
        """Return whether a frame belongs to this copy of the runtime."""
        is_ours = self.process.module_at(frame.call_site) is self.owners.module
        return is_ours and not frame.is_signal_frame and self.owners.of(frame) == RUNTIME

    def _routine(self, address: int) -> str | None:
        # The name of the routine at *address*, as in user code that calls it. None if no symbol covers the address.
        symbol = self.process.locate(address).symbol
        return naming.routine_name(symbol) if symbol is not None else None

    def _is_divided(self, inner: int) -> bool:
        # Whether a construct's code has left the stack between the frame *inner* of the runtime and the next outer one,
        # by a tail call. Routines call constructs' code through a pointer, and call no routine in this way.
        outer = self.frames[inner + 1]
        name, inner_routine = self._routine(outer.call_site), self._routine(self.frames[inner].call_site)
        if name is None and not naming.is_entry(inner_routine) and not self._is_first(inner + 1):
            return False
        if name is not None and not name.startswith((FORKS, *UNDEFERRED_TASKS)):
            # The outer routine waits and executes tasks, whose code may have jumped to an entry point. Or it calls the
            # code of a teams or target construct, which may have done the same.
            return naming.is_entry(inner_routine) and self.process.calls_by_pointer(outer.pc) is True
        return self.process.calls_by_pointer(outer.pc) is True

    def _is_first(self, index: int) -> bool:
        # Whether the frame at *index* executes a worker's first routine.
        is_last = index + 1 == len(self.frames)
        return self.stopped is None if is_last else self._begins_thread(self.frames[index + 1])

    def _begins_thread(self, frame: Frame) -> bool:
        # Whether *frame* executes the C library's routine that starts a thread. In a static program, only its name
        # shows this.
        return self.owners.of(frame) == SYSTEM or self._routine(frame.call_site) in BEGIN_THREADS

    def _group(self, inner: int, outer: int) -> Group:
        frames = self.frames
        if outer + 1 < len(frames) and self.is_runtimes(frames[outer + 1]):
            entry, caller = self._jumped_to(outer), None
        else:
            entry, caller = self._entry(outer)
        called = frames[inner - 1] if inner else None
        is_first = inner == outer and entry == BEGIN
        if called is None or called.is_signal_frame:
            code = None
        elif is_first:
            # A worker's first routine itself calls the region's code, which may have jumped into the C library. At the
            # region's end, it calls other routines, which wait and execute tasks.
            code = PARALLEL
        elif not self.is_runtimes(called) and self._is_no_code(called):
            code = None
        else:
            code = code_called(self._routine(frames[inner].call_site) or "", entry)
        return Group(inner, outer, entry, code, caller)

    def _is_no_code(self, called: Frame) -> bool:
        # Whether the runtime called a function that is no construct's code: a function of the C library, or one that
        # copies a task's arguments.
        return self.owners.of(called) == SYSTEM or naming.is_added(self.process.locate(called.call_site).symbol or "")

    def _jumped_to(self, index: int) -> str | None:
        # The entry point to which a construct's code jumped by a tail call, for a group whose outermost frame is at
        # *index*. The entry point may itself have jumped to another routine, so the frame's own routine need not be the
        # entry point.
        name = self._routine(self.frames[index].call_site)
        function = self._construct_called(index + 1) if not naming.is_entry(name) else None
        if function is None:
            return name
        chains = self.process.tail_calls(function, self.frames[index].function_start or 0)
        targets = (
            next((jump.target for jump in jumps if self.owners.at(jump.target) == RUNTIME), None) for jumps in chains
        )
        names = {self._routine(target) for target in targets if target is not None}
        return names.pop() if len(names) == 1 else name

    def _construct_called(self, index: int) -> int | None:
        # The function that a frame of the runtime called through a pointer, None if it is unknown. If user code passed
        # the function to the runtime, the call in the user's frame shows it. Otherwise a register may hold it.
        frames, process = self.frames, self.process
        if index + 1 < len(frames) and not self.is_runtimes(frames[index + 1]):
            passed = construct_passed(process, frames[index + 1].pc, entry_of(process, frames[index].call_site))
            if passed is not None:
                return passed
        return process.function_called(frames[index])

    def _entry(self, outer: int) -> tuple[str | None, int | None]:
        exported = self._routine(self.frames[outer].call_site)
        if outer + 1 == len(self.frames) or self._begins_thread(self.frames[outer + 1]):
            # The C library called the routine as the start of a thread, or as a handler at the end of the program.
            return (BEGIN if self.stopped is None and not naming.is_entry(exported) else exported), None
        # The call instruction in the user's frame shows the entry point, even if a tail call inside the runtime has
        # removed the entry point from the stack. If the call instruction shows another function, that user function has
        # left the stack by a tail call, so the caller is unknown.
        called = self.process.routine_called(self.frames[outer + 1].pc)
        name = naming.routine_name(called) if called is not None else None
        if name is not None and not naming.is_entry(name):
            return exported, None
        return name or exported, outer + 1

    # The activity of the thread

    def innermost_group(self) -> Group | None:
        """Return the runtime's frames inside the innermost user code, None if user code is innermost.

        A signal handler does not end the wait that it interrupted, but the handler may itself wait.
        """
        # If a signal's handler is in a region or executes a task, this region or task is the thread's activity.
        calls = {group.outer for group in self.groups if group.code is not None}
        starts = list(interrupted_at(self.frames, calls.__contains__))
        for first, behind in pairwise(starts):
            group = self._innermost_from(first)
            if group is not None and group.outer < behind - 1 and not asks_only(group.entry or ""):
                return group
        return self._innermost_from(starts[-1])

    def _innermost_from(self, first: int) -> Group | None:
        # The first group from frame *first* outwards, None if user code is inside of the group.
        group = next((group for group in self.groups if group.outer >= first), None)
        if group is None or any(map(self.owners.is_users, self.frames[first : group.inner])):
            return None
        return group

    def is_interrupted(self, group: Group) -> bool:
        """Return whether a signal interrupted the thread in *group*, and the signal's handler has not ended."""
        return group.inner > 0 and self.frames[group.inner - 1].is_signal_frame

    @property
    def reaches_user(self) -> bool:
        """Whether user code is on the stack."""
        return any(map(self.owners.is_users, self.frames))

    @property
    def runs_other_code(self) -> bool:
        """Whether the thread executes neither the runtime nor the C library, but user code or code made at run time.

        Stacks of code made at run time cannot be followed.
        """
        return bool(self.frames) and self.owners.of(self.frames[0]) not in (RUNTIME, SYSTEM)

    @property
    def is_beginning(self) -> bool:
        """Whether the thread is a worker in its first routine, outside of a region's code."""
        return bool(self.groups) and self.groups[-1].entry == BEGIN and self.groups[-1].code is None

    @property
    def is_in_region(self) -> bool:
        """Whether the thread is a worker in a region's code."""
        return bool(self.groups) and self.groups[-1].entry == BEGIN and self.groups[-1].code is not None

    def calls_its_own(self, group: Group) -> bool | None:
        """Return True if the outermost routine of *group* called another routine of the runtime, False if it called a
        construct's code, None if the code does not show which.
        """
        if group.outer == group.inner:
            return None
        by_pointer = self.process.calls_by_pointer(self.frames[group.outer].pc)
        return not by_pointer if by_pointer is not None else None

    # The words in the thread's frames

    def futex_word(self) -> int | None:
        """Return the address of the word on which the thread sleeps, None if the thread is not in a futex call of the
        runtime.
        """
        group = self.innermost_group()
        return self.process.futex_word(self.frames[group.inner]) if group is not None else None

    def waiting_words(self, group: Group) -> list[int]:
        """Return the words that may be the address of the object for which the routine of *group* waits, most likely
        first.

        These are the values of the routine's registers, then the words in the group's part of the stack.
        """
        frames = self.frames[group.inner : group.outer + 1]
        in_registers = (value for frame in frames for value in frame.registers.values())
        return list(dict.fromkeys([*in_registers, *self._words(frames)]))

    def _words(self, frames: Sequence[Frame]) -> list[int]:
        # The words in the part of the stack that *frames* occupy. Empty if the stack cannot be read.
        size, order = self.process.pointer_size, self.process.byte_order
        start, end = frames[0].sp, frames[-1].cfa if frames[-1].cfa is not None else frames[-1].sp
        length = min(end - start, _MAX_WORDS * size)
        try:
            raw = self.process.read(start, length) if length > 0 else b""
        except MemoryFault:
            return []
        return [int.from_bytes(raw[offset : offset + size], order) for offset in range(0, len(raw) - size + 1, size)]
