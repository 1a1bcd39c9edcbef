"""The barriers of a team at which threads wait, by the threads' stacks and by the runtime's counts.

For each thread and each team, the runtime has words for three kinds of barriers (``enum barrier_type``): one for the
barrier directive and the ends of worksharing constructs, one for reductions that are combined as a tree, and one for
the beginning and the end of a region. If threads of a team wait at different kinds, they wait forever.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from ompd.contract.code_owners import RUNTIME
from ompd.contract.helpers.stacks import words_on
from ompd.contract.memory import read_unsigned
from ompd.contract.waits import BarrierState
from ompd.errors import FieldNotFound, LayoutUnavailable, Unavailable
from ompd.runtimes.libomp.stacks.code import CLOSING_BARRIERS, FORK_BARRIER, JOIN_BARRIER, REDUCTION_ENTRIES, is_wait
from ompd.runtimes.libomp.waits.barrier_words import CLOSING, COUNT, KINDS, PLAIN, REDUCTION, STEP, BarrierWords

if TYPE_CHECKING:
    from ompd.contract.process import Frame
    from ompd.runtimes.libomp.handles import Parallel, Thread
    from ompd.runtimes.libomp.plugin import Runtime

# Routines of a barrier inside of a region. In builds by gcc, the first two end by a jump to the third.
_INNER = frozenset(("__kmp_barrier", "__kmp_barrier_gomp_cancel", "__kmp_barrier_template"))
_LEAVING = "all threads have arrived at the barrier, and some have left it"
_UNCERTAIN = "nothing shows whether a thread that is in the runtime has arrived at the barrier"


def barriers_of(region: Parallel) -> tuple[BarrierState, ...]:
    """Return the barriers of a region's team at which threads wait: :meth:`ParallelHandle.barriers`.

    :raises Unavailable: if the stack of a thread does not show where in the region the thread is
    :raises LayoutUnavailable: if the place of the counts is unknown
    """
    return _Barriers(region).states()


class _Barriers:
    # The barriers of the team of one region.

    def __init__(self, region: Parallel) -> None:
        self._region = region
        self._team = region.team.address
        self._runtime = region.team.runtime
        self._structures = self._runtime.details
        self._unnamed = self._runtime.unnamed
        self._stacks = self._runtime.stacks
        self._code = self._stacks.code
        # For each kind of barrier, whether all threads may have arrived, and the addresses of the words with which
        # threads announce their arrival.
        self._all_arrived: dict[int, bool] = {}
        self._arrival_words: dict[int, frozenset[int]] = {}

    @cached_property
    def _counters(self) -> _Counters:
        return _Counters(self._runtime)

    @cached_property
    def _words(self) -> BarrierWords | None:
        # The words for barriers, None if their places are unknown.
        try:
            return BarrierWords(self._runtime.heap, self._structures)
        except LayoutUnavailable:
            return None

    def states(self) -> tuple[BarrierState, ...]:
        region = self._region
        present: dict[int, set[int]] = {}
        doubts: dict[int, str] = {}
        team = []
        for number in range(region.size()):
            thread = region.thread(number)
            native = thread.native_thread_id()
            team.append(native)
            kinds, is_certain = self._barrier_of(thread)
            if not is_certain:
                doubts.update(dict.fromkeys(kinds, _UNCERTAIN))
                continue
            for kind in kinds:
                present.setdefault(kind, set()).add(native)
                if self._unnamed is not None and self._unnamed.has_been_left(region.team, kind):
                    doubts[kind] = _LEAVING
        return tuple(
            BarrierState.gathering(
                team,
                natives,
                doubts.get(kind),
                word=self._count_of_team(kind, [number for number, native in enumerate(team) if native in natives]),
            )
            for kind, natives in sorted(present.items())
        )

    def _count_of_team(self, kind: int, present: Sequence[int]) -> tuple[int, int, int] | None:
        # The team's count of passed barriers (address, value, generation), None if the count's place is unknown.
        # Intel's counts for debuggers leave out the ends of regions. Distributed barriers
        # (KMP_PLAIN_BARRIER_PATTERN=dist) do not use these words. The words are in use if a present worker's count is
        # one step ahead of its team's count.
        if self._counters.are_kept and kind != CLOSING:
            return self._counters.passed(self._region, kind)
        words = self._words
        if words is None:
            return None
        address = words.passed_at(self._team, kind)
        value = read_unsigned(self._runtime.heap, address, 8)
        is_full = len(present) == self._region.size()
        ahead = any(words.arrived(self._region.member(number), kind) == (value & COUNT) + STEP for number in present)
        return (address, value, value // STEP) if ahead or (is_full and value >= STEP) else None

    def _barrier_of(self, thread: Thread) -> tuple[tuple[int, ...], bool]:
        # The kind of barrier at which a thread of the team waits, empty if it waits at no barrier, and whether that is
        # certain. If it is uncertain, the thread may wait at one of these kinds.
        stack = self._stacks.hosted(thread)
        if self._region not in stack.places:
            raise Unavailable("the region's frame is not to be told from others on a thread's stack")
        place = stack.places[self._region]
        if place is None:
            frames = stack.frames_around_end(self._region)
            if self._is_doubtful(frames):
                return (CLOSING,), False
            is_present = self._is_at_end(thread, frames)
            return (CLOSING,) if is_present is not False else (), is_present is not None
        # The barrier must be in the routine that the region's code itself has called. Further inside, the thread may
        # execute tasks, whose routines do not count.
        if self._unnamed is not None:
            frames = self._stacks.frames_called(stack, place)
            if self._is_doubtful(frames):
                return (PLAIN, REDUCTION), False
            if _INNER.isdisjoint(self._code.routine_of(frame) for frame in frames):
                return (), True
            return tuple(dict.fromkeys(k for k in map(self._unnamed.barrier, frames) if k is not None)), True
        names = self._stacks.routines_called(stack, place)
        if _INNER.isdisjoint(names):
            return (), True
        likely = REDUCTION if not REDUCTION_ENTRIES.isdisjoint(names) else PLAIN
        if self._counters.are_kept:
            return self._counted(thread, likely), True
        is_present = self._is_present(thread, likely, names, place)
        return (likely,) if is_present is not False else (), is_present is not None

    def _is_doubtful(self, frames: Sequence[Frame]) -> bool:
        return self._unnamed is not None and any(map(self._unnamed.is_doubtful, frames))

    def _is_at_end(self, thread: Thread, frames: Sequence[Frame]) -> bool | None:
        # Whether the thread waits at the region's end, None if that is uncertain. Workers stay in the second half of
        # the barrier at a region's end, the fork barrier, until the next region begins.
        names = {self._code.routine_of(frame) for frame in frames}
        if CLOSING_BARRIERS.isdisjoint(names):
            return False
        if self._region.member(0) == thread.address:
            return JOIN_BARRIER in names
        if self._is_beginning():
            # The primary thread is still releasing the workers one after the other. This worker has not begun the
            # region yet, or is already at the region's end.
            return None
        return self._is_present(thread, CLOSING, names, None) if self._unnamed is None else True

    def _is_present(self, thread: Thread, kind: int, names: Set[str | None], place: int | None) -> bool | None:
        # Whether a thread in routines with these *names* waits at a barrier. None if that is uncertain, because the
        # thread may not have arrived yet, or may have been released. *place* is the index of the region's frame.
        is_waiting = any(is_wait(name) for name in names if name)
        words = self._words
        if words is None or not words.are_used_by(self._team):
            is_released = self._is_released(thread, kind, place)
            return not is_released if is_released is not None and (is_released or is_waiting) else self._sleeps(thread)
        is_primary, reached = self._region.member(0) == thread.address, words.passed(self._team, kind) + STEP
        if not is_primary and words.arrived(thread.address, kind) == reached:
            return True
        flags = self._flags(self._frames_at_barrier(thread, place))
        if any(count == reached and self._is_arrival_word(kind, words, address) for address, count in flags):
            return True  # the thread waits for the threads below it in the tree
        if not self._may_have_all_arrived(kind, words):
            return False if FORK_BARRIER in names else None
        # All threads may have arrived. The primary thread then keeps the workers waiting until tasks are complete, or
        # releases them.
        if is_primary:
            return True if is_waiting else None
        if words.go(thread.address, kind):
            return False
        return True if is_waiting else self._sleeps(thread)

    def _frames_at_barrier(self, thread: Thread, place: int | None) -> Sequence[Frame]:
        # Frames are made on demand, because making them takes long, and few threads need them.
        stack = self._stacks.hosted(thread)
        return stack.frames_around_end(self._region) if place is None else self._stacks.frames_called(stack, place)

    def _sleeps(self, thread: Thread) -> bool | None:
        # Whether the thread still sleeps in the kernel, None if unknown. Its word does not show this, because a thread
        # that was released may have cleared the word.
        progress = self._runtime.process.progress(thread.native_thread_id())
        return {"blocked": True, "released": False}.get(progress or "")

    def _is_arrival_word(self, kind: int, words: BarrierWords, address: int) -> bool:
        # Whether *address* is the word with which a thread of the region announces its arrival.
        if kind not in self._arrival_words:
            members = map(self._region.member, range(self._region.size()))
            self._arrival_words[kind] = frozenset(words.arrived_at(member, kind) for member in members)
        return address in self._arrival_words[kind]

    def _may_have_all_arrived(self, kind: int, words: BarrierWords) -> bool:
        # Whether all threads may have arrived: the primary thread is at the barrier, and no worker's count is ahead of
        # the team's.
        if kind not in self._all_arrived:
            stack = self._stacks.hosted(self._region.thread(0))
            place = stack.places.get(self._region)
            called = () if place is None else self._stacks.frames_called(stack, place)
            is_present = place is None if kind == CLOSING else any(self._code.routine_of(f) in _INNER for f in called)
            reached = words.passed(self._team, kind) + STEP
            workers = map(self._region.member, range(1, self._region.size()))
            self._all_arrived[kind] = is_present and not any(
                words.arrived(worker, kind) == reached for worker in workers
            )
        return self._all_arrived[kind]

    def _is_beginning(self) -> bool:
        stack = self._stacks.hosted(self._region.thread(0))
        if self._region not in stack.places or stack.places[self._region] is not None:
            return False
        names = {self._code.routine_of(frame) for frame in stack.frames_around_end(self._region)}
        return FORK_BARRIER in names and JOIN_BARRIER not in names

    def _is_released(self, thread: Thread, kind: int, place: int | None) -> bool | None:
        # Whether a thread was released from a barrier, None if unknown. A flag on the thread's stack has the awaited
        # count, and the address of one of the thread's own words for this barrier.
        try:
            bars = self._structures.layout("kmp_base_info_t").field("th_bar")
        except FieldNotFound:
            return None
        size = bars.size // KINDS
        first = thread.address + bars.offset + kind * size
        own_words = range(first, first + size)
        flags = self._flags(self._frames_at_barrier(thread, place))
        addresses = {address for address, count in flags if count == STEP and address in own_words}
        if len(addresses) != 1:
            return None
        return read_unsigned(self._runtime.heap, addresses.pop(), 8) & COUNT == STEP

    def _flags(self, frames: Sequence[Frame]) -> Iterable[tuple[int, int]]:
        # All pairs of adjacent words on the stack of *frames*. A flag is such a pair: the address of a word, then the
        # awaited count.
        last = next(index for index in range(len(frames) - 1, -1, -1) if self._is_runtimes(frames[index]))
        return pairwise(words_on(self._runtime.process, frames[0].sp, frames[last].cfa))

    def _is_runtimes(self, frame: Frame) -> bool:
        return self._runtime.owners.at(frame.call_site) == RUNTIME

    def _counted(self, thread: Thread, likely: int) -> tuple[int, ...]:
        # The kind of barrier that the thread has reached and its team has not passed. Empty if there is none, because
        # the thread is still leaving the last barrier. Only Intel's runtime has these counts, and not for the ends of
        # regions.
        kinds = (likely, *(kind for kind in (PLAIN, REDUCTION) if kind != likely))
        return tuple(kind for kind in kinds if self._counters.has_reached(thread, self._region, kind))[:1]


class _Counters:
    # The counts of barriers within a region that Intel's runtime keeps for debuggers (USE_DEBUGGER).

    def __init__(self, runtime: Runtime) -> None:
        self._heap = runtime.heap
        self._passed: dict[int, int] = {}  # values of the team's counts, by address
        self._info = runtime.structures.layout("kmp_base_info_t").fields
        self._team = runtime.structures.layout("kmp_base_team_t").fields

    @cached_property
    def are_kept(self) -> bool:
        # Whether this build of the runtime has these counts.
        thread_fields, team_fields = (
            ("th_bar", "th_b_worker_arrived"),
            ("t_bar", "t_b_master_arrived", "t_b_team_arrived"),
        )
        return all(name in self._info for name in thread_fields) and all(name in self._team for name in team_fields)

    def has_reached(self, thread: Thread, region: Parallel, kind: int) -> bool:
        # Whether a thread has arrived at a barrier that its team has not passed yet.
        counts = self._counts_of_team(region, kind)
        passed = self._passed.get(counts)
        if passed is None:
            passed = read_unsigned(self._heap, counts + self._team["t_b_team_arrived"].offset, 8)
            self._passed[counts] = passed
        if region.thread(0).address == thread.address:
            return read_unsigned(self._heap, counts + self._team["t_b_master_arrived"].offset, 8) > passed
        bars = self._info["th_bar"]
        counts_of_thread = thread.address + bars.offset + kind * (bars.size // KINDS)
        return read_unsigned(thread.memory, counts_of_thread + self._info["th_b_worker_arrived"].offset, 8) > passed

    def passed(self, region: Parallel, kind: int) -> tuple[int, int, int]:
        # The address and the value of the team's count, and the generation, which equals the value, because the count's
        # step is one.
        address = self._counts_of_team(region, kind) + self._team["t_b_team_arrived"].offset
        value = read_unsigned(self._heap, address, 8)
        return address, value, value

    def _counts_of_team(self, region: Parallel, kind: int) -> int:
        bars = self._team["t_bar"]
        return region.team.address + bars.offset + kind * (bars.size // KINDS)
