"""Names for the routines on threads' stacks that a stripped runtime has no names for.

A stripped library names what it exports: its entry points, ``__kmp_invoke_microtask``, ``__kmp_fork_call``. What lies
between is told apart by what it does. A routine that calls the function which its own structures name as a task's
invokes tasks; one whose start a team has as its microtask is the wrapper of gcc's code. That a thread waits at a
barrier is told by the words of the barrier (``kmp_bstate``, ``kmp_balign_team``): a worker that has arrived has
counted its own (``b_arrived``) on to one more than its team passed; one that waits for another thread's has, on its
stack, a flag (``kmp_flag_64``) with the address of that word and the count it waits for. Then the routines between the
entry point and that wait have the name of the one that can only be among them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ompd.contract.code import RUNTIME, SYSTEM, USER
from ompd.contract.memory import StructView, read_words
from ompd.contract.ompd import ThreadIdKind
from ompd.errors import LayoutUnavailable, OmpdError
from ompd.plugins.libomp import constructs, states

if TYPE_CHECKING:
    from ompd.contract.memory import StructLayout
    from ompd.contract.process import Frame
    from ompd.plugins.layout.table import Table
    from ompd.plugins.libomp.plugin import Runtime
    from ompd.plugins.libomp.regions import Region, Team
    from ompd.plugins.libomp.threads import Thread

_WRAPPER, _TASK_INVOKER = "__kmp_GOMP_microtask_wrapper", "__kmp_invoke_task"
_FORK_BARRIER, _JOIN_BARRIER, _BARRIER = "__kmp_fork_barrier", "__kmp_join_barrier", "__kmp_barrier"
_REDUCTION = "__kmp_enter_critical_section_reduce_block"
# Entry points with which a reduction begins, which may ask for a lock.
_REDUCTIONS = frozenset(("__kmpc_reduce", "__kmpc_reduce_nowait"))
# enum barrier_type of kmp.h
_PLAIN, _FORK_JOIN, _REDUCE = 0, 1, 2
# Barriers count by 4; bit 0 says that somebody sleeps.
_STEP, _COUNT = 4, ~3
_MAX_TASKS = 1 << 14
_MAX_STACK = 1 << 16
_SYSTEM_CALLERS = (SYSTEM, None)


class _Group(NamedTuple):
    # Consecutive frames that are the runtime's: their indexes, and the entry point by which they were called: "" where
    # that has no name, None on the stack of a worker, which begins with the runtime.
    first: int
    last: int
    entry: str | None


class Unnamed:
    """The names of unnamed routines by the frames that they have on the stacks of a stripped runtime's threads."""

    def __init__(self, runtime: Runtime, table: Table) -> None:
        self._runtime = runtime
        self._table = table
        self._names: dict[tuple[int | None, int], str] = {}
        self._doubtful: set[tuple[int | None, int]] = set()
        self._calls_of_tasks: set[int] = set()
        self._flag = next((layout for name, layout in table.structs.items() if name.startswith("kmp_flag_64<")), None)
        # Where the words of all threads of a team lie, by the team and the kind of barrier.
        self._words: dict[tuple[int, int], frozenset[int]] = {}
        self._is_complete = False

    def name(self, frame: Frame) -> str:
        """Return the name of the routine of a frame, ``""`` where it cannot be told."""
        self._look()
        return self._names.get(_key(frame), "")

    def is_doubtful(self, frame: Frame) -> bool:
        """Tell whether a frame is inside of a call that may wait at a barrier, and nothing shows whether it does."""
        self._look()
        return _key(frame) in self._doubtful

    def _look(self) -> None:
        if self._is_complete:
            return
        self._is_complete = True  # from here on, since what is asked below asks again
        stacks = list(self._stacks())
        wrappers = self._wrappers()
        routines = self._task_routines()
        for _, frames, groups in stacks:
            for group in groups:
                self._name_caller(frames, group, wrappers, routines)
        for _, frames, groups in stacks:
            for group in groups:
                self._name_known_caller(frames, group)
        for thread, frames, groups in stacks:
            for group in groups:
                try:
                    self._name_barrier(thread, frames, group)
                except OmpdError:
                    self._doubt(frames, group)

    # Stacks

    def _stacks(self) -> Iterator[tuple[Thread, tuple[Frame, ...], list[_Group]]]:
        process = self._runtime.process
        for thread in self._runtime.threads():
            try:
                native = process.thread_for_id(ThreadIdKind.PTHREAD, thread.native_id(ThreadIdKind.PTHREAD))
                frames = process.stack(native).frames
            except OmpdError:
                continue  # whoever asks for that thread is told
            yield thread, frames, list(self._groups(frames))

    def _groups(self, frames: Sequence[Frame]) -> Iterator[_Group]:
        owners = [constructs.owner_at(self._runtime, frame.call_site) for frame in frames]
        first = 0
        while first < len(frames):
            if owners[first] != RUNTIME:
                first += 1
                continue
            last = first
            while last + 1 < len(frames) and owners[last + 1] == RUNTIME:
                last += 1
            yield _Group(first, last, self._entry(frames, last, owners))
            first = last + 1

    def _entry(self, frames: Sequence[Frame], last: int, owners: Sequence[str]) -> str | None:
        outer = owners[last + 1] if last + 1 < len(frames) else None
        name = constructs.routine_at(self._runtime, frames[last].call_site)
        if name or outer != USER:
            return name or (None if outer in _SYSTEM_CALLERS else "")
        # The entry point jumped to the routine that does its work.
        return constructs.routine_name(self._runtime.process.routine_called(frames[last + 1].pc))

    # Routines that call the user's code

    def _wrappers(self) -> set[int]:
        entries = {team.t_pkfn for team in self._teams()}
        return {entry for entry in entries if entry is not None and constructs.is_wrapper(self._runtime, entry)}

    def _teams(self) -> Iterator[Team]:
        try:
            yield from self._runtime.live_teams()
        except OmpdError:
            return

    def _task_routines(self) -> set[int]:
        # Of all explicit tasks that have begun.
        found: set[int] = set()
        seen: set[str] = set()
        for thread in self._runtime.threads():
            try:
                task = thread.icv_task()
                while task is not None and task.kind() == "explicit" and task.id not in seen and len(seen) < _MAX_TASKS:
                    seen.add(task.id)
                    routine = task.function()
                    if routine is not None:
                        found.add(routine)
                    task = task.generating()
            except OmpdError:
                continue
        return found

    def _name_caller(self, frames: Sequence[Frame], group: _Group, wrappers: set[int], routines: set[int]) -> None:
        if not group.first:
            return
        caller, inner = frames[group.first], frames[group.first - 1]
        if constructs.routine_at(self._runtime, caller.call_site):
            return
        if caller.function_start in wrappers:
            self._names[_key(caller)] = _WRAPPER
        elif inner.function_start in routines:
            self._names[_key(caller)] = _TASK_INVOKER
            self._calls_of_tasks.add(caller.call_site)

    def _name_known_caller(self, frames: Sequence[Frame], group: _Group) -> None:
        # The very instruction that called another task's function: this one's was left by a jump.
        if group.first and frames[group.first].call_site in self._calls_of_tasks:
            self._names.setdefault(_key(frames[group.first]), _TASK_INVOKER)

    # Barriers

    def _name_barrier(self, thread: Thread, frames: Sequence[Frame], group: _Group) -> None:
        if group.first and constructs.begins_region(self._runtime, frames[group.first - 1], frames[group.first]):
            return  # it executes the region
        team, kinds, name = self._barrier(thread, frames, group)
        if team is None or states.waits_for_no_barrier(group.entry or ""):
            return
        if any(self._waits(thread, team, kind, frames, group) for kind in kinds):
            self._rename(frames, group, name)
        elif group.entry in _REDUCTIONS and self._asks_for_lock(thread, frames, group):
            self._rename(frames, group, _REDUCTION)
        else:
            self._doubt(frames, group)

    def _barrier(
        self, thread: Thread, frames: Sequence[Frame], group: _Group
    ) -> tuple[Team | None, tuple[int, ...], str]:
        # At which team's barriers a group of frames may wait, of which kinds, and what the routine is called then.
        regions = thread.hosted_regions()
        index = len(regions) - sum(
            1
            for at in range(group.last + 1, len(frames) - 1)
            if constructs.begins_region(self._runtime, *frames[at : at + 2])
        )
        if not 0 <= index <= len(regions):
            return None, (), ""
        around: Region | None = regions[index] if index < len(regions) else None
        met: Region | None = regions[index - 1] if index else None
        if group.entry is None:
            # The worker's own routine, in whose barrier that of its region ends too.
            return (met.team if met is not None else None), (_FORK_JOIN,), _FORK_BARRIER
        if constructs.is_fork(group.entry):
            return (met.team if met is not None else None), (_FORK_JOIN,), _JOIN_BARRIER
        return (around.team if around is not None else None), (_PLAIN, _REDUCE), _BARRIER

    def _waits(self, thread: Thread, team: Team, kind: int, frames: Sequence[Frame], group: _Group) -> bool:
        if team.t_nproc == 1 or thread.address not in team.t_threads:
            return False
        bars = _Bars(self._runtime, self._table)
        reached = bars.of_team(team, kind) + _STEP
        is_primary = team.t_threads[0] == thread.address
        if not is_primary and bars.of_thread(thread.address, kind) == reached:
            return True
        key = team.address, kind
        if key not in self._words:
            self._words[key] = frozenset(bars.arrived_at(member, kind) for member in team.t_threads if member)
        return self._has_flag(frames, group, self._words[key] - {bars.arrived_at(thread.address, kind)}, reached)

    def _has_flag(self, frames: Sequence[Frame], group: _Group, words: frozenset[int], reached: int) -> bool:
        # Whether the frames of a group hold a flag that waits for one of *words* to become *reached*.
        if self._flag is None:
            return False
        process, size = self._runtime.process, self._runtime.process.pointer_size
        where, until = self._flag.field("loc").offset, self._flag.field("checker").offset
        start, end = frames[group.first].sp, frames[group.last].cfa
        if end is None or not 0 < end - start <= _MAX_STACK:
            return False
        start += -start % size
        on_stack = read_words(process, start, (end - start) // size)
        distance = (until - where) // size
        return any(word in words and then == reached for word, then in zip(on_stack, on_stack[distance:], strict=False))

    def _asks_for_lock(self, thread: Thread, frames: Sequence[Frame], group: _Group) -> bool:
        return self._runtime.internals().asks_for_lock(thread, tuple(frames[: group.last + 2]))

    def _rename(self, frames: Sequence[Frame], group: _Group, name: str) -> None:
        # Any of them that has no name stands for it.
        for frame in frames[group.first : group.last + 1]:
            is_unnamed = not constructs.routine_at(self._runtime, frame.call_site)
            if is_unnamed and self._names.setdefault(_key(frame), name) == name:
                return

    def _doubt(self, frames: Sequence[Frame], group: _Group) -> None:
        self._doubtful.update(_key(frame) for frame in frames[group.first : group.last + 1])


class _Bars:
    # The counts of barriers, without the bits that say who sleeps.

    def __init__(self, runtime: Runtime, table: Table) -> None:
        self._heap = runtime.heap
        self._union = table.layout("kmp_barrier_union")
        self._state = table.layout("kmp_bstate")
        self._of_team = table.layout("kmp_barrier_team_union")
        self._in_thread = table.offset("kmp_base_info", "th_bar")
        self._in_team = table.offset("kmp_base_team", "t_bar")

    def arrived_at(self, thread: int, kind: int) -> int:
        # Where a thread's word is.
        start = thread + self._in_thread + kind * _size(self._union)
        return start + self._state.field("b_arrived").offset

    def of_thread(self, thread: int, kind: int) -> int:
        start = thread + self._in_thread + kind * _size(self._union)
        return StructView(self._heap, self._state, start).unsigned("b_arrived") & _COUNT

    def of_team(self, team: Team, kind: int) -> int:
        start = team.address + self._in_team + kind * _size(self._of_team)
        return StructView(self._heap, self._of_team, start).unsigned("b_arrived") & _COUNT


def _size(layout: StructLayout) -> int:
    if not layout.size:
        raise LayoutUnavailable(f"the size of {layout.name} is not known")
    return layout.size


def _key(frame: Frame) -> tuple[int | None, int]:
    return frame.cfa, frame.call_site
