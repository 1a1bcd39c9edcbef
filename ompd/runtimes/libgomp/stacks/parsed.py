"""Where the runtime's routines called the code of regions and tasks.

libgomp keeps no frames, and no function of a region. But its entry points are exported, user code calls them through
its linkage table, and each calls the code of constructs in one way alone:

- a region's code is called by ``GOMP_parallel`` and its like on the primary thread, and on a worker by the routine with
  which the thread began, which is the outermost of the runtime's;
- ``GOMP_task`` and ``GOMP_taskloop`` themselves call the code of a task that is not deferred;
- all other code that the runtime calls is that of a deferred task, which runs where its thread waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from ompd import naming
from ompd.contract.code_owners import RUNTIME, SYSTEM, construct_passed, entry_of
from ompd.contract.helpers.entries import asks_only
from ompd.contract.helpers.stacks import CodeOwners, interrupted_at, runs
from ompd.contract.process import Frame
from ompd.errors import MemoryFault
from ompd.runtimes.libgomp.stacks import routines
from ompd.runtimes.libgomp.stacks.routines import BEGIN, PARALLEL

# The part of a stack that one of the runtime's routines takes.
_MAX_WORDS = 1 << 12


class Group(NamedTuple):
    """Frames of the runtime that follow each other on a stack, of which user code called the outermost.

    ``inner`` and ``outer`` are indexes. ``entry`` is the routine that was called, :data:`BEGIN` on a worker for the
    one with which the thread began, None where that is unknown. ``code`` is what it called: ``parallel``,
    ``task`` or ``undeferred``, None if nothing; the frame of that is the one before ``inner``. ``caller`` is the index
    of the frame that called it, None for a worker's first routine.
    """

    inner: int
    outer: int
    entry: str | None
    code: str | None
    caller: int | None

    @property
    def forks(self) -> bool:
        """Whether it stands for a region: this thread is in it, be it in its code or at its end."""
        return self.entry == BEGIN or (self.entry is not None and self.entry.startswith(routines.FORKS))


class Parsed:
    """A thread's frames, innermost first, and the groups of the runtime's among them, innermost first.

    ``stopped`` is why the stack could not be followed to its end.
    """

    def __init__(self, owners: CodeOwners, native: int) -> None:
        stack = owners.process.stack(native)
        self.owners = owners
        self.process = owners.process
        self.frames = stack.frames
        self.stopped = stack.stopped
        inside = [self.is_runtimes(frame) for frame in self.frames]
        self.groups = tuple(self._group(inner, outer) for inner, outer in runs(inside, self._is_code_left))

    def is_runtimes(self, frame: Frame) -> bool:
        """Return whether a frame is the runtime's, and not of another one, or of another copy of this one."""
        is_ours = self.process.module_at(frame.call_site) is self.owners.module
        return is_ours and not frame.is_signal_frame and self.owners.of(frame) == RUNTIME

    def _routine(self, address: int) -> str | None:
        # The runtime's routine as user code calls it, None where no symbol covers it.
        symbol = self.process.locate(address).symbol
        return naming.routine_name(symbol) if symbol is not None else None

    def _is_code_left(self, inner: int) -> bool:
        # Whether the code of a construct stood between two of the runtime's frames, and ended by a jump to what is the
        # inner one now. Routines call that code by a pointer, and nothing else that is the runtime's.
        outer = self.frames[inner + 1]
        name, inner_routine = self._routine(outer.call_site), self._routine(self.frames[inner].call_site)
        if name is None and not naming.is_entry(inner_routine) and not self._is_first(inner + 1):
            return False
        if name is not None and not name.startswith((routines.FORKS, *routines.UNDEFERRED_TASKS)):
            # Any other that waits executes tasks, which may end by waiting as well; or it has called the code of a
            # teams or target construct.
            return naming.is_entry(inner_routine) and self.process.calls_by_pointer(outer.pc) is True
        return self.process.calls_by_pointer(outer.pc) is True

    def _is_first(self, index: int) -> bool:
        # Whether it is the frame of the routine with which a worker began.
        is_last = index + 1 == len(self.frames)
        return self.stopped is None if is_last else self._begins_thread(self.frames[index + 1])

    def _begins_thread(self, frame: Frame) -> bool:
        # In a static program nothing but its name tells that a routine is the C library's.
        return self.owners.of(frame) == SYSTEM or self._routine(frame.call_site) in routines.BEGIN_THREADS

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
            # It calls nothing of the runtime's and of the C library's: what it seems to has the code jumped to. Further
            # inside are those that wait at the region's end, and execute tasks.
            code = PARALLEL
        elif not self.is_runtimes(called) and self._is_no_code(called):
            code = None
        else:
            code = routines.code_called(self._routine(frames[inner].call_site) or "", entry)
        return Group(inner, outer, entry, code, caller)

    def _is_no_code(self, called: Frame) -> bool:
        # Whether it copies the arguments of a task, or is one of the C library: what the runtime calls of that is no
        # construct's code, unless that was left by a jump.
        return self.owners.of(called) == SYSTEM or naming.is_added(self.process.locate(called.call_site).symbol or "")

    def _jumped_to(self, index: int) -> str | None:
        # The entry point to which the code of a construct ended by a jump, which may have jumped on to what is there.
        name = self._routine(self.frames[index].call_site)
        function = self._construct_called(index + 1) if not naming.is_entry(name) else None
        if function is None:
            return name
        ways = self.process.tail_calls(function, self.frames[index].function_start or 0)
        targets = (next((jump.target for jump in way if self.owners.at(jump.target) == RUNTIME), None) for way in ways)
        found = {self._routine(target) for target in targets if target is not None}
        return found.pop() if len(found) == 1 else name

    def _construct_called(self, index: int) -> int | None:
        # Return the function that a frame of the runtime called by a pointer. An entry point got it from its caller,
        # whose code shows it. Otherwise the register has it.
        frames, process = self.frames, self.process
        if index + 1 < len(frames) and not self.is_runtimes(frames[index + 1]):
            passed = construct_passed(process, frames[index + 1].pc, entry_of(process, frames[index].call_site))
            if passed is not None:
                return passed
        return process.function_called(frames[index])

    def _entry(self, outer: int) -> tuple[str | None, int | None]:
        exported = self._routine(self.frames[outer].call_site)
        if outer + 1 == len(self.frames) or self._begins_thread(self.frames[outer + 1]):
            # The C library's routine that begins a thread called it; or a handler of its, at the end of the program.
            return (BEGIN if self.stopped is None and not naming.is_entry(exported) else exported), None
        # A tail call inside of the runtime takes the routine that was called from the stack: the call itself tells. One
        # in user code takes the caller.
        called = self.process.routine_called(self.frames[outer + 1].pc)
        name = naming.routine_name(called) if called is not None else None
        if name is not None and not naming.is_entry(name):
            return exported, None
        return name or exported, outer + 1

    # What the thread does

    def innermost_group(self) -> Group | None:
        """Return the runtime's frames inside of the innermost user code, None if that runs itself.

        A handler of a signal is no end to the wait in which the signal came, but it may wait itself.
        """
        # A handler that is in a region, or runs a task, does that.
        calls = {group.outer for group in self.groups if group.code is not None}
        starts = list(interrupted_at(self.frames, calls.__contains__))
        for first, behind in pairwise(starts):
            group = self._innermost_from(first)
            if group is not None and group.outer < behind - 1 and not asks_only(group.entry or ""):
                return group
        return self._innermost_from(starts[-1])

    def _innermost_from(self, first: int) -> Group | None:
        # The first group from that frame on, None if the user's code is inside of it.
        group = next((group for group in self.groups if group.outer >= first), None)
        if group is None or any(map(self.owners.is_users, self.frames[first : group.inner])):
            return None
        return group

    def is_interrupted(self, group: Group) -> bool:
        """Return whether a signal came while the thread was in *group*, and its handler has not ended."""
        return group.inner > 0 and self.frames[group.inner - 1].is_signal_frame

    @property
    def reaches_user(self) -> bool:
        """Whether the user's code is on the stack."""
        return any(map(self.owners.is_users, self.frames))

    @property
    def runs_other_code(self) -> bool:
        """Whether the thread is neither in the runtime nor in the C library: in the user's code, or in such as was made
        while the program ran, through which no stack can be followed.
        """
        return bool(self.frames) and self.owners.of(self.frames[0]) not in (RUNTIME, SYSTEM)

    @property
    def is_beginning(self) -> bool:
        """Whether it is a worker's in its first routine, which has called no code of a region."""
        return bool(self.groups) and self.groups[-1].entry == BEGIN and self.groups[-1].code is None

    @property
    def is_in_region(self) -> bool:
        """Whether it is a worker's that has not left the code of its region."""
        return bool(self.groups) and self.groups[-1].entry == BEGIN and self.groups[-1].code is not None

    def calls_its_own(self, group: Group) -> bool | None:
        """Return whether the outermost routine of *group* has called one of the runtime, and not code whose address it
        was given. None if the code does not show it.
        """
        if group.outer == group.inner:
            return None
        by_pointer = self.process.calls_by_pointer(self.frames[group.outer].pc)
        return not by_pointer if by_pointer is not None else None

    # What is in its frames

    def futex_word(self) -> int | None:
        """Return the address of the word that the thread sleeps on, None if it is in no system call of the runtime."""
        group = self.innermost_group()
        return self.process.futex_word(self.frames[group.inner]) if group is not None else None

    def waiting_words(self, group: Group) -> list[int]:
        """Return the words that may be the address of what the routine of *group* waits for, likely ones first: those
        that its registers hold, then those on its part of the stack.
        """
        frames = self.frames[group.inner : group.outer + 1]
        held = (value for frame in frames for value in frame.registers.values())
        return list(dict.fromkeys([*held, *self._words(frames)]))

    def _words(self, frames: Sequence[Frame]) -> list[int]:
        # Those of the part of the stack that the frames have, none if it cannot be read.
        size, order = self.process.pointer_size, self.process.byte_order
        start, end = frames[0].sp, frames[-1].cfa if frames[-1].cfa is not None else frames[-1].sp
        length = min(end - start, _MAX_WORDS * size)
        try:
            raw = self.process.read(start, length) if length > 0 else b""
        except MemoryFault:
            return []
        return [int.from_bytes(raw[at : at + size], order) for at in range(0, len(raw) - size + 1, size)]
