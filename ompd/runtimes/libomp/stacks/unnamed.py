"""Names for the routines on threads' stacks that a stripped runtime has no names for.

A stripped library names what it exports: its entry points, ``__kmp_invoke_microtask``, ``__kmp_fork_call``. What is
between is distinguished by what it does. A routine that calls the function which its own structures name as a task's
invokes tasks; one whose start a team has as its microtask is the wrapper of gcc's code. That a thread waits at a
barrier is shown by the words of the barrier (``kmp_bstate``, ``kmp_balign_team``): a worker that has arrived has
counted its own (``b_arrived``) on to one more than its team passed; one that waits for another thread's has, on its
stack, a flag (``kmp_flag_64``) with the address of that word and the count it waits for. When all have arrived the team
has passed that count, too, and workers have a flag for their own word ``b_go`` until the primary thread lets them go.
Then the routines between the entry point and that wait have the name of the one that can only be among them.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from ompd import naming
from ompd.contract.code_owners import RUNTIME, SYSTEM, USER
from ompd.contract.helpers.stacks import runs, words_on
from ompd.contract.process import Frame
from ompd.errors import OmpdError
from ompd.runtimes.layout.table import Table
from ompd.runtimes.libomp.stacks.code import (
    FORK_BARRIER,
    JOIN_BARRIER,
    TASK_INVOKERS,
    Code,
    calls_user_code,
    is_entry,
    is_fork,
)
from ompd.runtimes.libomp.teams.teams import Region, Team
from ompd.runtimes.libomp.teams.threads import Thread, Threads
from ompd.runtimes.libomp.teams.words import CLOSING, PLAIN, REDUCTION, STEP, Words

_WRAPPER, _TASK_INVOKER = "__kmp_GOMP_microtask_wrapper", "__kmp_invoke_task"
_BARRIER, _REDUCTION = "__kmp_barrier", "__kmp_enter_critical_section_reduce_block"
_FORK_CALL = "__kmp_fork_call"
# Entry points with which a reduction begins, which may ask for a lock.
_REDUCTIONS = frozenset(("__kmpc_reduce", "__kmpc_reduce_nowait"))
# Those that user code calls, and which of them may wait at a barrier of the team.
_MEETS = re.compile(
    r"__kmpc_(?:cancel_|end_)?barrier|__kmpc_(?:end_)?reduce|__kmpc_copyprivate"
    r"|GOMP_(?:barrier|single_copy|loop_end|sections_end|workshare_task_reduction)"
)
_MAX_TASKS = 1 << 14
_SYSTEM_CALLERS = (SYSTEM, None)

_Key = tuple["int | None", int]


class _Group(NamedTuple):
    # Consecutive frames that are the runtime's: their indexes, and the entry point by which they were called: "" where
    # that has no name, None on the stack of a worker, which begins with the runtime.
    first: int
    last: int
    entry: str | None


class _Place(NamedTuple):
    # A group of frames of a thread that may wait at a barrier of a team, of one of some kinds, and the name of the
    # routine then.
    thread: Thread
    frames: Sequence[Frame]
    group: _Group
    team: Team
    kinds: tuple[int, ...]
    name: str

    @property
    def is_primary(self) -> bool:
        return self.team.t_threads[0] == self.thread.address


class Names:
    """What was found out about frames: by ``_key`` their routines' names, the kinds of barriers at which their threads
    wait, and whether they may be at one, or wait for a region to begin; and the barriers that threads leave.
    """

    def __init__(self) -> None:
        self.names: dict[_Key, str] = {}
        self.kinds: dict[_Key, int] = {}
        self.doubtful: set[_Key] = set()
        self.between: set[_Key] = set()
        self.left: set[tuple[int, int]] = set()

    def name(self, frame: Frame) -> str:
        """Return the name of the routine of a frame, ``""`` if it is unknown."""
        return self.names.get(_key(frame), "")


class Unnamed:
    """The names of unnamed routines by the frames that they have on the stacks of a stripped runtime's threads. They
    are found when one is first needed.

    :param asks_for_lock: returns whether frames hold the address of a lock that a thread waits for
    """

    def __init__(
        self, runtime: Threads, table: Table, asks_for_lock: Callable[[Thread, tuple[Frame, ...]], bool]
    ) -> None:
        self._runtime = runtime
        self._table = table
        self._asks_for_lock = asks_for_lock

    @cached_property
    def _found(self) -> Names:
        return _Search(self._runtime, self._table, self._asks_for_lock).found()

    def name(self, frame: Frame) -> str:
        """Return the name of the routine of a frame, ``""`` if it is unknown."""
        return self._found.name(frame)

    def is_doubtful(self, frame: Frame) -> bool:
        """Return whether a frame is inside of a call that may wait at a barrier, and nothing shows whether it does."""
        return _key(frame) in self._found.doubtful

    def barrier(self, frame: Frame) -> int | None:
        """Return the kind of barrier at which the thread of a frame waits in the call that the frame is of, or None."""
        return self._found.kinds.get(_key(frame))

    def is_between_regions(self, frame: Frame) -> bool:
        """Return whether a frame is of a worker that waits for a region to begin, or has not seen yet that it has."""
        return _key(frame) in self._found.between

    def has_been_left(self, team: Team, kind: int) -> bool:
        """Return whether the primary thread has begun to let threads go from a barrier of a *kind*."""
        return (team.address, kind) in self._found.left


class _Search:
    # Each step names routines by what the steps before it have named: first what calls the code of regions, then what
    # calls that of tasks, last the barriers. Its own Code has the names that are known up to there.

    def __init__(
        self, runtime: Threads, table: Table, asks_for_lock: Callable[[Thread, tuple[Frame, ...]], bool]
    ) -> None:
        self._runtime = runtime
        self._asked = asks_for_lock
        self._result = Names()
        self._code = Code(runtime, self._result.name)
        self._calls_of_tasks: set[int] = set()
        self._flag = next((layout for name, layout in table.structs.items() if name.startswith("kmp_flag_64<")), None)
        # Where the words of all threads of a team are, by the team and the kind of barrier.
        self._words: dict[tuple[int, int], frozenset[int]] = {}
        # The frames of regions' code on each thread's stack (by its kmp_info_t), and those that call tasks' code.
        self._begun: dict[int, Sequence[int]] = {}
        self._invoking: dict[int, Sequence[int]] = {}

    def found(self) -> Names:
        wrappers = self._wrappers()
        stacks = list(self._stacks(wrappers))
        routines = self._task_routines()
        for _, frames, groups in stacks:
            for group in groups:
                self._name_caller(frames, group, routines)
        for _, frames, groups in stacks:
            for group in groups:
                self._name_known_caller(frames, group)
        # What calls a region's code was judged without the names that are known now.
        self._code = Code(self._runtime, self._result.name)
        held: dict[tuple[int, int], list[_Place]] = {}
        primaries: list[_Place] = []
        for thread, frames, groups in stacks:
            for group in groups:
                try:
                    self._name_barrier(thread, frames, group, held, primaries)
                except OmpdError:
                    self._doubt(frames, group)
        self._name_held(held, primaries)
        return self._result

    # Stacks

    def _stacks(self, wrappers: set[int]) -> Iterator[tuple[Thread, tuple[Frame, ...], list[_Group]]]:
        for thread in self._runtime.threads():
            try:
                frames = self._runtime.process.stack(thread.native_thread_id()).frames
            except OmpdError:
                continue  # whoever asks for that thread gets the error
            for frame in frames:
                is_unnamed = self._code.routine_at(frame.call_site) == ""
                if is_unnamed and frame.function_start in wrappers:
                    self._result.names[_key(frame)] = _WRAPPER
            yield thread, frames, list(self._groups(frames))

    def _groups(self, frames: Sequence[Frame]) -> Iterator[_Group]:
        owners = [self._runtime.owners.of(frame) for frame in frames]

        def is_divided(last: int) -> bool:
            pair = frames[last], frames[last + 1]
            return self._is_jumped_to(*pair) or self._code.begins_region(*pair)

        for first, last in runs([owner == RUNTIME for owner in owners], is_divided):
            yield _Group(first, last, self._entry(frames, last, owners))

    def _is_jumped_to(self, inner: Frame, outer: Frame) -> bool:
        # Whether it is an entry point to which the code of a construct, which *outer* had called, ended by a jump.
        callee = self._code.routine_at(inner.call_site) or ""
        caller = self._code.routine_at(outer.call_site) or ""
        return is_entry(callee) and (
            calls_user_code(caller) or self._runtime.process.calls_by_pointer(outer.pc) is True
        )

    def _entry(self, frames: Sequence[Frame], last: int, owners: Sequence[str]) -> str | None:
        outer = owners[last + 1] if last + 1 < len(frames) else None
        name = self._code.routine_at(frames[last].call_site)
        if name or outer != USER:
            return name or (None if outer in _SYSTEM_CALLERS else "")
        # The entry point jumped to the routine that does its work; what called it may have left by a jump as well.
        called = naming.routine_name(self._runtime.process.routine_called(frames[last + 1].pc))
        return called if naming.is_entry(called) else ""

    # Routines that call the user's code

    def _wrappers(self) -> set[int]:
        entries = {team.t_pkfn for team in self._teams()}
        return {entry for entry in entries if entry is not None and self._runtime.owners.at(entry) == RUNTIME}

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

    def _name_caller(self, frames: Sequence[Frame], group: _Group, routines: set[int]) -> None:
        if not group.first:
            return
        caller, inner = frames[group.first], frames[group.first - 1]
        if self._code.routine_of(caller):
            return
        if inner.function_start in routines:
            self._result.names[_key(caller)] = _TASK_INVOKER
            self._calls_of_tasks.add(caller.call_site)

    def _name_known_caller(self, frames: Sequence[Frame], group: _Group) -> None:
        # The very instruction that called another task's function: this one's was left by a jump.
        if group.first and frames[group.first].call_site in self._calls_of_tasks:
            self._result.names.setdefault(_key(frames[group.first]), _TASK_INVOKER)

    # Barriers

    def _name_barrier(
        self,
        thread: Thread,
        frames: Sequence[Frame],
        group: _Group,
        held: dict[tuple[int, int], list[_Place]],
        primaries: list[_Place],
    ) -> None:
        if group.first and self._code.begins_region(frames[group.first - 1], frames[group.first]):
            return  # it executes the region
        place = self._place(thread, frames, group)
        if place is None or not self._may_wait(place):
            return
        arrived = next((kind for kind in place.kinds if self._has_arrived(place, kind)), None)
        waits = next((kind for kind in place.kinds if self._is_held(place, kind)), None) if arrived is None else None
        if arrived is not None:
            self._rename(place, arrived)
        elif waits is not None:
            held.setdefault((place.team.address, waits), []).append(place)
        elif group.entry in _REDUCTIONS and self._asks_for_lock(place):
            self._rename(place._replace(name=_REDUCTION), None)
        elif place.is_primary:
            primaries.append(place)
        elif not self._bars.are_used_by(place.team.address):
            self._doubt(frames, group)
        elif self._waits_to_go(place):
            self._mark_between(place)
        # else it has not arrived, or was let go: a worker that has counts its word on

    def _place(self, thread: Thread, frames: Sequence[Frame], group: _Group) -> _Place | None:
        # At which team's barriers a group of frames may wait, of which kinds, and what the routine is called then.
        regions = thread.hosted_regions()
        index = len(regions) - self._regions_outside(thread, frames, group.last)
        if not 0 <= index <= len(regions):
            return None
        around: Region | None = regions[index] if index < len(regions) else None
        met: Region | None = regions[index - 1] if index else None
        region, name = around, _BARRIER
        kinds: tuple[int, ...] = (PLAIN, REDUCTION)
        if group.entry is None:
            # The worker's own routine, in whose barrier that of its region ends too.
            region, kinds, name = met, (CLOSING,), FORK_BARRIER
        elif is_fork(group.entry):
            region, kinds, name = met, (CLOSING,), JOIN_BARRIER
        elif self._is_in_task(thread, frames, group):
            return None  # an explicit task meets no barrier
        if region is None or region.team.t_nproc == 1 or thread.address not in region.team.t_threads:
            return None
        return _Place(thread, frames, group, region.team, kinds, name)

    def _regions_outside(self, thread: Thread, frames: Sequence[Frame], first: int) -> int:
        # How many frames of regions' code there are from *first* on.
        places = self._frames_of_regions(thread, frames)
        return len(places) - bisect_left(places, first)

    def _frames_of_regions(self, thread: Thread, frames: Sequence[Frame]) -> Sequence[int]:
        # A stack is gone through once for all its groups.
        if thread.address not in self._begun:
            pairs = enumerate(pairwise(frames))
            self._begun[thread.address] = [at for at, p in pairs if self._code.begins_region(*p)]
        return self._begun[thread.address]

    def _is_in_task(self, thread: Thread, frames: Sequence[Frame], group: _Group) -> bool:
        # Whether the code that called a group of frames is an explicit task's, and not that of a region itself: which
        # of the two begins first outside of it. All that call tasks' code have their names by now.
        if thread.address not in self._invoking:
            invokers = TASK_INVOKERS
            names = (self._code.routine_of(frame) for frame in frames[:-1])
            self._invoking[thread.address] = [at for at, name in enumerate(names) if name in invokers]
        invoking, begun = self._invoking[thread.address], self._frames_of_regions(thread, frames)
        first = bisect_left(invoking, group.last + 1)
        if first == len(invoking):
            return False
        region = bisect_left(begun, group.last + 1)
        return region == len(begun) or invoking[first] < begun[region]

    def _may_wait(self, place: _Place) -> bool:
        # Whether it may be at a barrier at all, by the routine that user code called.
        entry, frames, group = place.group.entry, place.frames, place.group
        if entry is None:
            return True
        if is_fork(entry):
            # What begins the region has a name; what ends it has none.
            names = (self._code.routine_at(f.call_site) for f in frames[group.first : group.last + 1])
            return _FORK_CALL not in names
        if entry:
            return _MEETS.match(entry) is not None
        return not self._waits_for_tasks(place) and not self._asks_for_lock(place)

    def _waits_for_tasks(self, place: _Place) -> bool:
        try:
            number = place.team.t_threads.index(place.thread.address)
            return self._runtime.implicit_task(place.team, number).waiting_thread().address == place.thread.address
        except OmpdError:
            return False

    @cached_property
    def _bars(self) -> Words:
        return Words(self._runtime.heap, self._runtime.structures)

    def _has_arrived(self, place: _Place, kind: int) -> bool:
        # Whether it waits for others to arrive, or has arrived with all those that it waits for.
        bars, team, info = self._bars, place.team, place.thread.address
        reached = bars.passed(team.address, kind) + STEP
        if not place.is_primary and bars.arrived(info, kind) == reached:
            return True
        key = team.address, kind
        if key not in self._words:
            self._words[key] = frozenset(bars.arrived_at(member, kind) for member in team.t_threads if member)
        return self._has_flag(place, self._words[key] - {bars.arrived_at(info, kind)}, reached)

    def _is_held(self, place: _Place, kind: int) -> bool:
        # Whether all have arrived, and it waits to be let go.
        bars, team, info = self._bars, place.team, place.thread.address
        if place.is_primary or bars.arrived(info, kind) != bars.passed(team.address, kind) or bars.go(info, kind):
            return False
        return self._waits_to_go(place, kind)

    def _waits_to_go(self, place: _Place, kind: int = CLOSING) -> bool:
        return self._has_flag(place, frozenset((self._bars.go_at(place.thread.address, kind),)), STEP)

    def _mark_between(self, place: _Place) -> None:
        if place.group.entry is None:
            self._result.between.update(map(_key, place.frames[place.group.first : place.group.last + 1]))

    def _name_held(self, held: dict[tuple[int, int], list[_Place]], primaries: Sequence[_Place]) -> None:
        # While all workers wait to be let go the primary thread is in the barrier, too: it waits for tasks, or adds up
        # the parts of a reduction in the user's code.
        for primary in primaries:
            team = primary.team
            kind = next((k for k in primary.kinds if len(held.get((team.address, k), ())) == team.t_nproc - 1), None)
            if kind is not None:
                self._rename(primary, kind)
            else:
                self._doubt(primary.frames, primary.group)
        ending = {primary.team.address for primary in primaries if CLOSING in primary.kinds}
        for (address, kind), places in held.items():
            is_whole = len(places) == places[0].team.t_nproc - 1
            if kind == CLOSING and not (is_whole and address in ending):
                for place in places:  # they have not begun the region
                    self._mark_between(place)
                continue
            for place in places:
                self._rename(place, kind)
            if not is_whole:
                self._result.left.add((address, kind))

    def _has_flag(self, place: _Place, words: frozenset[int], reached: int) -> bool:
        # Whether the frames of a group hold a flag that waits for one of *words* to become *reached*.
        frames, group = place.frames, place.group
        if self._flag is None:
            return False
        process = self._runtime.process
        where, until = self._flag.field("loc").offset, self._flag.field("checker").offset
        on_stack = words_on(process, frames[group.first].sp, frames[group.last].cfa)
        distance = (until - where) // process.pointer_size
        return any(word in words and then == reached for word, then in zip(on_stack, on_stack[distance:], strict=False))

    def _asks_for_lock(self, place: _Place) -> bool:
        return self._asked(place.thread, tuple(place.frames[: place.group.last + 2]))

    def _rename(self, place: _Place, kind: int | None) -> None:
        # Any of them that has no name stands for it.
        frames = place.frames[place.group.first : place.group.last + 1]
        if kind is not None:
            self._result.kinds.update((_key(frame), kind) for frame in frames)
        for frame in frames:
            is_unnamed = not self._code.routine_at(frame.call_site)
            if is_unnamed and self._result.names.setdefault(_key(frame), place.name) == place.name:
                return

    def _doubt(self, frames: Sequence[Frame], group: _Group) -> None:
        self._result.doubtful.update(_key(frame) for frame in frames[group.first : group.last + 1])


def _key(frame: Frame) -> _Key:
    return frame.cfa, frame.call_site
