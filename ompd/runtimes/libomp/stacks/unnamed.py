"""Names for those routines on threads' stacks that have no symbols in a stripped runtime.

A stripped library only has the names that it exports: its entry points, ``__kmp_invoke_microtask``,
``__kmp_fork_call``. The routines that these call, or that call the user's code, are recognised as follows:

- A routine that calls the function of a task invokes tasks.
- A routine of the runtime to which a team's ``t_pkfn`` points is the wrapper of gcc's code.
- A routine in which a thread waits at a barrier is recognised by the barrier's words (``kmp_bstate``,
  ``kmp_balign_team``). A worker that has arrived has set its own ``b_arrived`` one step ahead of the team's
  ``b_arrived``. A thread that waits for another thread's arrival has a flag (``kmp_flag_64``) on its stack, with the
  address of the other thread's ``b_arrived`` and the awaited count. Once all threads have arrived, the team's
  ``b_arrived`` is one step further, too. Workers then have a flag for their own word ``b_go`` until the primary thread
  releases them. If these words show that a thread waits, the routine inside of the entry point gets the only name that
  is possible there.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from ompd import naming
from ompd.contract.code_owners import RUNTIME, SYSTEM, USER
from ompd.contract.helpers.stacks import runs, words_on
from ompd.errors import OmpdError
from ompd.runtimes.libomp.stacks.code import (
    FORK_BARRIER,
    JOIN_BARRIER,
    REDUCTION_ENTRIES,
    TASK_INVOKERS,
    Code,
    calls_user_code,
    is_entry,
    is_fork,
)
from ompd.runtimes.libomp.waits import locks
from ompd.runtimes.libomp.waits.barrier_words import CLOSING, PLAIN, REDUCTION, STEP, BarrierWords

if TYPE_CHECKING:
    from ompd.contract.process import Frame
    from ompd.runtimes.layout.table import Table
    from ompd.runtimes.libomp.handles import Parallel, Thread
    from ompd.runtimes.libomp.plugin import Runtime
    from ompd.runtimes.libomp.teams import Team

_WRAPPER, _TASK_INVOKER = "__kmp_GOMP_microtask_wrapper", "__kmp_invoke_task"
_BARRIER, _REDUCTION = "__kmp_barrier", "__kmp_enter_critical_section_reduce_block"
_FORK_CALL = "__kmp_fork_call"
# Entry points that may wait at a barrier of the team.
_WITH_BARRIER = re.compile(
    r"__kmpc_(?:cancel_|end_)?barrier|__kmpc_(?:end_)?reduce|__kmpc_copyprivate"
    r"|GOMP_(?:barrier|single_copy|loop_end|sections_end|workshare_task_reduction)"
)
_MAX_TASKS = 1 << 14
_SYSTEM_CALLERS = (SYSTEM, None)

_Key = tuple["int | None", int]


class _Group(NamedTuple):
    # Consecutive frames of the runtime on a stack: the indices of the first and the last frame, and the entry point
    # that user code called. The entry is "" if it has no name, and None if no user code called it, as on a worker's
    # stack that begins with the runtime.
    first: int
    last: int
    entry: str | None


class _Candidate(NamedTuple):
    # A group of frames with which a thread may wait at a barrier of a team. ``kinds`` are the possible kinds of this
    # barrier. ``name`` is the name of the waiting routine, if the thread does wait there.
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
    """Facts about frames without a symbol, by :func:`_key`.

    ``names`` has the names of the frames' routines, ``kinds`` the kinds of barriers at which frames wait. ``doubtful``
    has the frames that may wait at a barrier, ``between`` the frames that wait for a region. ``left`` has the barriers
    that threads are leaving: the address of the team, and the kind.
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
    """The names of routines in a stripped runtime. Each method but :meth:`has_been_left` takes a frame on a thread's
    stack. The search for all names runs on first use.
    """

    def __init__(self, runtime: Runtime, table: Table) -> None:
        self._runtime = runtime
        self._table = table

    @cached_property
    def _names(self) -> Names:
        return _Search(self._runtime, self._table).names()

    def name(self, frame: Frame) -> str:
        """Return the name of the routine of a frame, ``""`` if it is unknown."""
        return self._names.name(frame)

    def is_doubtful(self, frame: Frame) -> bool:
        """Return whether a frame belongs to a call that may wait at a barrier, but nothing shows whether it does."""
        return _key(frame) in self._names.doubtful

    def barrier(self, frame: Frame) -> int | None:
        """Return the kind of barrier at which the frame's call waits, None if it waits at no barrier."""
        return self._names.kinds.get(_key(frame))

    def is_between_regions(self, frame: Frame) -> bool:
        """Return whether a frame belongs to a worker that waits for a region, or has not noticed yet that a region has
        begun.
        """
        return _key(frame) in self._names.between

    def has_been_left(self, team: Team, kind: int) -> bool:
        """Return whether the primary thread has begun to release threads from the team's barrier of this *kind*."""
        return (team.address, kind) in self._names.left


class _Search:
    # Each step uses the names from previous steps: first the routines that call the code of regions, then the routines
    # that call the code of tasks, last the barriers. _code uses the names that the steps so far have found.

    def __init__(self, runtime: Runtime, table: Table) -> None:
        self._runtime = runtime
        self._result = Names()
        self._code = Code(runtime, self._result)
        self._calls_of_tasks: set[int] = set()
        self._flag = next((layout for name, layout in table.structs.items() if name.startswith("kmp_flag_64<")), None)
        # The addresses of the b_arrived of all threads in a team. The key is the team's address and the kind of
        # barrier.
        self._arrival_words: dict[tuple[int, int], frozenset[int]] = {}
        # Indices of frames on each thread's stack: the frames of regions' code, and the frames that call tasks' code.
        # The key is the address of the thread's kmp_info_t.
        self._region_frames: dict[int, Sequence[int]] = {}
        self._invoker_frames: dict[int, Sequence[int]] = {}

    def names(self) -> Names:
        wrappers = self._wrappers()
        stacks = list(self._stacks(wrappers))
        task_functions = self._task_functions()
        for _, frames, groups in stacks:
            for group in groups:
                self._name_task_invoker(frames, group, task_functions)
        for _, frames, groups in stacks:
            for group in groups:
                self._name_same_call(frames, group)
        # Make a new Code, because the old one has cached which calls begin a region, and did so without the names found
        # since.
        self._code = Code(self._runtime, self._result)
        held: dict[tuple[int, int], list[_Candidate]] = {}
        primaries: list[_Candidate] = []
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
                continue  # each query about this thread reports the error
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
        # Whether *outer* called a construct's code, which at its end jumped to the entry point in the frame *inner*.
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
        # The frame has no name, so the entry point may have jumped to the routine that does the work. The call in the
        # user's frame then shows the entry point, unless the called user function itself jumped to the runtime.
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

    def _task_functions(self) -> set[int]:
        # The functions of all explicit tasks that have begun.
        functions: set[int] = set()
        task_ids: set[str] = set()
        for thread in self._runtime.threads():
            try:
                task = thread.icv_task()
                while (
                    task is not None
                    and task.kind() == "explicit"
                    and task.id not in task_ids
                    and len(task_ids) < _MAX_TASKS
                ):
                    task_ids.add(task.id)
                    function = task.function()
                    if function is not None:
                        functions.add(function)
                    task = task.generating()
            except OmpdError:
                continue
        return functions

    def _name_task_invoker(self, frames: Sequence[Frame], group: _Group, task_functions: set[int]) -> None:
        if not group.first:
            return
        caller, inner = frames[group.first], frames[group.first - 1]
        if self._code.routine_of(caller):
            return
        if inner.function_start in task_functions:
            self._result.names[_key(caller)] = _TASK_INVOKER
            self._calls_of_tasks.add(caller.call_site)

    def _name_same_call(self, frames: Sequence[Frame], group: _Group) -> None:
        # Name a frame whose call instruction calls a task's function elsewhere. In this frame, the function of the task
        # ended by a jump.
        if group.first and frames[group.first].call_site in self._calls_of_tasks:
            self._result.names.setdefault(_key(frames[group.first]), _TASK_INVOKER)

    # Barriers

    def _name_barrier(
        self,
        thread: Thread,
        frames: Sequence[Frame],
        group: _Group,
        held: dict[tuple[int, int], list[_Candidate]],
        primaries: list[_Candidate],
    ) -> None:
        if group.first and self._code.begins_region(frames[group.first - 1], frames[group.first]):
            return  # the thread executes the region
        candidate = self._candidate(thread, frames, group)
        if candidate is None or not self._may_wait(candidate):
            return
        kinds = candidate.kinds
        arrived = next((kind for kind in kinds if self._has_arrived(candidate, kind)), None)
        waits = next((kind for kind in kinds if self._is_held(candidate, kind)), None) if arrived is None else None
        if arrived is not None:
            self._rename(candidate, arrived)
        elif waits is not None:
            held.setdefault((candidate.team.address, waits), []).append(candidate)
        elif group.entry in REDUCTION_ENTRIES and self._asks_for_lock(candidate):
            self._rename(candidate._replace(name=_REDUCTION), None)
        elif candidate.is_primary:
            primaries.append(candidate)
        elif not self._words.are_used_by(candidate.team.address):
            self._doubt(frames, group)
        elif self._waits_for_release(candidate):
            self._mark_between(candidate)
        # otherwise the thread has not arrived, because an arriving worker increases its word, or it was released

    def _candidate(self, thread: Thread, frames: Sequence[Frame], group: _Group) -> _Candidate | None:
        # The barrier at which a thread may wait with a group of frames, None if it cannot wait at a barrier.
        regions = thread.hosted_regions()
        index = len(regions) - self._regions_outside(thread, frames, group.last)
        if not 0 <= index <= len(regions):
            return None
        around: Parallel | None = regions[index] if index < len(regions) else None
        inside: Parallel | None = regions[index - 1] if index else None
        region, name = around, _BARRIER
        kinds: tuple[int, ...] = (PLAIN, REDUCTION)
        if group.entry is None:
            # The worker is in its own routine, outside of all user code. Its barrier at the beginning of the next
            # region is the second half of the barrier at the last region's end.
            region, kinds, name = inside, (CLOSING,), FORK_BARRIER
        elif is_fork(group.entry):
            region, kinds, name = inside, (CLOSING,), JOIN_BARRIER
        elif self._is_in_task(thread, frames, group):
            return None  # an explicit task has no barriers
        if region is None or region.team.t_nproc == 1 or thread.address not in region.team.t_threads:
            return None
        return _Candidate(thread, frames, group, region.team, kinds, name)

    def _regions_outside(self, thread: Thread, frames: Sequence[Frame], first: int) -> int:
        # The number of frames of regions' code from *first* outwards.
        places = self._frames_of_regions(thread, frames)
        return len(places) - bisect_left(places, first)

    def _frames_of_regions(self, thread: Thread, frames: Sequence[Frame]) -> Sequence[int]:
        # The result is cached, because a stack may have many groups of frames.
        if thread.address not in self._region_frames:
            pairs = enumerate(pairwise(frames))
            self._region_frames[thread.address] = [index for index, p in pairs if self._code.begins_region(*p)]
        return self._region_frames[thread.address]

    def _is_in_task(self, thread: Thread, frames: Sequence[Frame], group: _Group) -> bool:
        # Whether an explicit task's code called a group of frames, and not a region's code. The caller is the innermost
        # construct's code outside of the group. All routines that call tasks' code already have their names.
        if thread.address not in self._invoker_frames:
            names = (self._code.routine_of(frame) for frame in frames[:-1])
            self._invoker_frames[thread.address] = [index for index, name in enumerate(names) if name in TASK_INVOKERS]
        invokers, regions = self._invoker_frames[thread.address], self._frames_of_regions(thread, frames)
        first = bisect_left(invokers, group.last + 1)
        if first == len(invokers):
            return False
        region = bisect_left(regions, group.last + 1)
        return region == len(regions) or invokers[first] < regions[region]

    def _may_wait(self, candidate: _Candidate) -> bool:
        # Whether a thread may wait at a barrier in this group of frames, judged by the entry point through which user
        # code entered the runtime. A group that no user code called may always wait.
        entry, frames, group = candidate.group.entry, candidate.frames, candidate.group
        if entry is None:
            return True
        if is_fork(entry):
            # The thread waits only at the region's end. The stack at a region's beginning has a frame of _FORK_CALL,
            # whose symbol is exported.
            names = (self._code.routine_at(frame.call_site) for frame in frames[group.first : group.last + 1])
            return _FORK_CALL not in names
        if entry:
            return _WITH_BARRIER.match(entry) is not None
        return not self._waits_for_tasks(candidate) and not self._asks_for_lock(candidate)

    def _waits_for_tasks(self, candidate: _Candidate) -> bool:
        address = candidate.thread.address
        try:
            number = candidate.team.t_threads.index(address)
            return self._runtime.implicit_task(candidate.team, number).waiting_thread().address == address
        except OmpdError:
            return False

    @cached_property
    def _words(self) -> BarrierWords:
        return BarrierWords(self._runtime.heap, self._runtime.structures)

    def _has_arrived(self, candidate: _Candidate, kind: int) -> bool:
        # Whether the thread is at the barrier while others are missing: it has announced its arrival, or waits for
        # theirs.
        words, team, info = self._words, candidate.team, candidate.thread.address
        reached = words.passed(team.address, kind) + STEP
        if not candidate.is_primary and words.arrived(info, kind) == reached:
            return True
        key = team.address, kind
        if key not in self._arrival_words:
            self._arrival_words[key] = frozenset(words.arrived_at(member, kind) for member in team.t_threads if member)
        return self._has_flag(candidate, self._arrival_words[key] - {words.arrived_at(info, kind)}, reached)

    def _is_held(self, candidate: _Candidate, kind: int) -> bool:
        # Whether all threads have arrived, and this thread, a worker, waits to be released.
        words, team, info = self._words, candidate.team, candidate.thread.address
        if (
            candidate.is_primary
            or words.arrived(info, kind) != words.passed(team.address, kind)
            or words.go(info, kind)
        ):
            return False
        return self._waits_for_release(candidate, kind)

    def _waits_for_release(self, candidate: _Candidate, kind: int = CLOSING) -> bool:
        return self._has_flag(candidate, frozenset((self._words.go_at(candidate.thread.address, kind),)), STEP)

    def _mark_between(self, candidate: _Candidate) -> None:
        group = candidate.group
        if group.entry is None:
            self._result.between.update(map(_key, candidate.frames[group.first : group.last + 1]))

    def _name_held(self, held: dict[tuple[int, int], list[_Candidate]], primaries: Sequence[_Candidate]) -> None:
        # Name the frames of workers that wait to be released, and of their primary threads. While all workers of a team
        # wait, the primary thread is in the barrier, too. It waits for tasks, or combines the parts of a reduction in
        # the user's code.
        for primary in primaries:
            team = primary.team
            kind = next((k for k in primary.kinds if len(held.get((team.address, k), ())) == team.t_nproc - 1), None)
            if kind is not None:
                self._rename(primary, kind)
            else:
                self._doubt(primary.frames, primary.group)
        ending = {primary.team.address for primary in primaries if CLOSING in primary.kinds}
        for (address, kind), candidates in held.items():
            is_whole = len(candidates) == candidates[0].team.t_nproc - 1
            if kind == CLOSING and not (is_whole and address in ending):
                for candidate in candidates:  # these workers have not begun the region
                    self._mark_between(candidate)
                continue
            for candidate in candidates:
                self._rename(candidate, kind)
            if not is_whole:
                self._result.left.add((address, kind))

    def _has_flag(self, candidate: _Candidate, addresses: frozenset[int], reached: int) -> bool:
        # Whether the stack of a group's frames has a kmp_flag_64 with one of *addresses* and with the awaited count
        # *reached*.
        frames, group = candidate.frames, candidate.group
        if self._flag is None:
            return False
        process = self._runtime.process
        loc, checker = self._flag.field("loc").offset, self._flag.field("checker").offset
        words = words_on(process, frames[group.first].sp, frames[group.last].cfa)
        distance = (checker - loc) // process.pointer_size
        pairs = zip(words, words[distance:], strict=False)
        return any(word in addresses and count == reached for word, count in pairs)

    def _asks_for_lock(self, candidate: _Candidate) -> bool:
        return locks.asks_for_lock(candidate.thread, tuple(candidate.frames[: candidate.group.last + 2]))

    def _rename(self, candidate: _Candidate, kind: int | None) -> None:
        # The first frame without a name gets the candidate's name.
        frames = candidate.frames[candidate.group.first : candidate.group.last + 1]
        if kind is not None:
            self._result.kinds.update((_key(frame), kind) for frame in frames)
        for frame in frames:
            is_unnamed = not self._code.routine_at(frame.call_site)
            if is_unnamed and self._result.names.setdefault(_key(frame), candidate.name) == candidate.name:
                return

    def _doubt(self, frames: Sequence[Frame], group: _Group) -> None:
        self._result.doubtful.update(_key(frame) for frame in frames[group.first : group.last + 1])


def _key(frame: Frame) -> _Key:
    return frame.cfa, frame.call_site
