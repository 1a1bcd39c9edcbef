"""Barriers of a team: who waits at which of them, by the threads' stacks and by what the runtime counts.

The runtime has words of three kinds of barriers for each thread and each team (``enum barrier_type``): one for the
barrier directive and the ends of worksharing constructs, one for reductions whose parts are added up as a tree, one for
the region's beginning and end. Threads of which some wait at one kind and some at another wait for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from functools import cached_property
from itertools import pairwise

from ompd.contract.code_owners import RUNTIME
from ompd.contract.helpers.stacks import words_on
from ompd.contract.memory import read_unsigned
from ompd.contract.process import Frame, Shape
from ompd.contract.waits import BarrierState
from ompd.errors import FieldNotFound, LayoutUnavailable, Unavailable
from ompd.runtimes.libomp.stacks.code import CLOSING_BARRIERS, FORK_BARRIER, JOIN_BARRIER, is_wait
from ompd.runtimes.libomp.stacks.regions import Hosted, Stacks
from ompd.runtimes.libomp.stacks.unnamed import Unnamed
from ompd.runtimes.libomp.teams.reading import Reading
from ompd.runtimes.libomp.teams.teams import Region
from ompd.runtimes.libomp.teams.threads import Thread, Threads
from ompd.runtimes.libomp.teams.words import CLOSING, COUNT, KINDS, PLAIN, REDUCTION, STEP, Words

# Routines in which a thread is at a barrier of its team while it executes a region. The first two end by a jump to the
# third in builds by gcc.
_INNER = frozenset(("__kmp_barrier", "__kmp_barrier_gomp_cancel", "__kmp_barrier_template"))
_REDUCTIONS = frozenset(("__kmpc_reduce", "__kmpc_reduce_nowait"))
_LEAVING = "all threads have arrived at the barrier, and some have left it"
_UNCERTAIN = "nothing shows whether a thread that is in the runtime has arrived at the barrier"


class Barriers:
    """The barriers of one runtime's teams.

    :raises LayoutUnavailable: if the place of what the runtime counts is unknown
    """

    def __init__(self, runtime: Threads, stacks: Stacks, unnamed: Unnamed | None) -> None:
        self._runtime = runtime
        self._structures = runtime.details
        self._stacks = stacks
        self._code = stacks.code
        self._unnamed = unnamed
        # The routines that the code of the region whose frame is at some index has called, by stacks' shapes.
        self._called: dict[tuple[Shape, int], frozenset[str | None]] = {}
        # By teams' addresses and the kind of barrier.
        self._gathered: dict[tuple[int, int], bool] = {}
        self._arrivals: dict[tuple[int, int], frozenset[int]] = {}

    @cached_property
    def _counters(self) -> Counters:
        return Counters(self._runtime)

    @cached_property
    def _words(self) -> Words | None:
        # None if their places are unknown.
        try:
            return Words(self._runtime.heap, self._structures)
        except LayoutUnavailable:
            return None

    def of(self, region: Region) -> tuple[BarrierState, ...]:
        """See :meth:`ompd.contract.plugin.ParallelHandle.barriers`.

        :raises Unavailable: if it is unknown where in the region some thread is
        """
        present: dict[int, set[int]] = {}
        doubts: dict[int, str] = {}
        team = []
        for number in range(region.size()):
            thread = self._runtime.thread_at(region.member(number))
            native = thread.native_thread_id()
            team.append(native)
            kinds, is_certain = self._barrier_of(thread, region)
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
                here,
                doubts.get(kind),
                word=self._word(region, kind, [number for number, native in enumerate(team) if native in here]),
            )
            for kind, here in sorted(present.items())
        )

    def _word(self, region: Region, kind: int, present: Sequence[int]) -> tuple[int, int, int] | None:
        # What a team counts of the barriers that it has passed, None if nothing tells where it does. Intel's runtime
        # leaves out regions' ends there; distributed barriers (KMP_PLAIN_BARRIER_PATTERN=dist) leave out all in the
        # words that the others have, which then show no step between a worker that is here and its team.
        if self._counters.are_kept and kind != CLOSING:
            return self._counters.passed(region, kind)
        words = self._words
        if words is None:
            return None
        address = words.passed_at(region.team.address, kind)
        value = read_unsigned(self._runtime.heap, address, 8)
        is_full = len(present) == region.size()
        ahead = any(words.arrived(region.member(number), kind) == (value & COUNT) + STEP for number in present)
        return (address, value, value // STEP) if ahead or (is_full and value >= STEP) else None

    def _barrier_of(self, thread: Thread, region: Region) -> tuple[tuple[int, ...], bool]:
        # The kind of barrier at which a thread of a region's team waits for it, none if it waits at none, and whether
        # that is certain: else it may wait at one of these kinds.
        stack = self._stacks.hosted(thread)
        if region not in stack.places:
            raise Unavailable("the region's frame is not to be told from others on a thread's stack")
        place = stack.places[region]
        if place is None:
            frames = _around_end(stack, region)
            if self._is_doubtful(frames):
                return (CLOSING,), False
            is_there = self._is_closing(thread, region, frames)
            return (CLOSING,) if is_there is not False else (), is_there is not None
        # The first routine that the region's code is in decides, whatever tasks the thread runs within it.
        if self._unnamed is not None:
            frames = self._called_by(stack.frames, place)
            if self._is_doubtful(frames):
                return (PLAIN, REDUCTION), False
            if _INNER.isdisjoint(self._code.routine_of(frame) for frame in frames):
                return (), True
            return tuple(dict.fromkeys(k for k in map(self._unnamed.barrier, frames) if k is not None)), True
        names = self._called.get((stack.stack.shape, place))
        if names is None:
            frames = self._called_by(stack.frames, place)
            names = frozenset(self._code.routine_of(frame) for frame in frames)
            self._called[stack.stack.shape, place] = names
        if _INNER.isdisjoint(names):
            return (), True
        likely = REDUCTION if not _REDUCTIONS.isdisjoint(names) else PLAIN
        if self._counters.are_kept:
            return self._counted(thread, region, likely), True
        is_there = self._is_there(thread, region, likely, names, lambda: self._called_by(stack.frames, place))
        return (likely,) if is_there is not False else (), is_there is not None

    def _is_doubtful(self, frames: Sequence[Frame]) -> bool:
        return self._unnamed is not None and any(map(self._unnamed.is_doubtful, frames))

    def _called_by(self, frames: Sequence[Frame], place: int) -> Sequence[Frame]:
        # The runtime's frames that the code of the region with its frame at this place is in.
        owners = [self._is_runtimes(frame) for frame in frames[: place + 1]]
        last = next((index for index in range(place, -1, -1) if owners[index]), None)
        if last is None:
            return ()
        first = last
        while first and owners[first - 1]:
            first -= 1
        return frames[first : last + 1]

    def _is_closing(self, thread: Thread, region: Region, frames: Sequence[Frame]) -> bool | None:
        # Whether it waits at the region's end; None if that is not certain. Workers wait for the next region in the
        # second half of that barrier.
        names = {self._code.routine_of(frame) for frame in frames}
        if CLOSING_BARRIERS.isdisjoint(names):
            return False
        if region.member(0) == thread.address:
            return JOIN_BARRIER in names
        if self._is_beginning(region):
            # Its primary thread lets one after the other go: this one has not begun it, or has come to its end already.
            return None
        return self._is_there(thread, region, CLOSING, names, lambda: frames) if self._unnamed is None else True

    def _is_there(
        self, thread: Thread, region: Region, kind: int, names: Set[str | None], frames: Callable[[], Sequence[Frame]]
    ) -> bool | None:
        # Whether a thread waits at a barrier whose routines, of these names, it is in; None if that is not certain: it
        # may not have come to it, or may have been let go. To make frames takes long, and most threads need none.
        is_waiting = any(is_wait(name) for name in names if name)
        words, team = self._words, region.team.address
        if words is None or not words.are_used_by(team):
            let_go = self._is_let_go(thread, kind, frames())
            return not let_go if let_go is not None and (let_go or is_waiting) else self._sleeps(thread)
        is_primary, until = region.member(0) == thread.address, words.passed(team, kind) + STEP
        if not is_primary and words.arrived(thread.address, kind) == until:
            return True
        on_stack = self._flags(frames())
        if any(count == until and self._is_arrival(region, kind, words, at) for at, count in on_stack):
            return True  # it waits for those behind it in the tree
        if not self._may_be_gathered(region, kind, words):
            return False if FORK_BARRIER in names else None
        # All have come, and the primary thread has them wait until tasks are done, or lets them go.
        if is_primary:
            return True if is_waiting else None
        if words.go(thread.address, kind):
            return False
        return True if is_waiting else self._sleeps(thread)

    def _sleeps(self, thread: Thread) -> bool | None:
        # It may have seen that it was let go, and cleared the word.
        how = self._runtime.process.progress(thread.native_thread_id())
        return {"blocked": True, "released": False}.get(how or "")

    def _is_arrival(self, region: Region, kind: int, words: Words, address: int) -> bool:
        # Whether this is the word of one of the region's threads by which it tells that it has arrived.
        key = region.team.address, kind
        if key not in self._arrivals:
            members = map(region.member, range(region.size()))
            self._arrivals[key] = frozenset(words.arrived_at(member, kind) for member in members)
        return address in self._arrivals[key]

    def _may_be_gathered(self, region: Region, kind: int, words: Words) -> bool:
        # Whether all may have come to a barrier: the primary thread is there, and no worker has counted on to more than
        # the team has passed.
        key = region.team.address, kind
        if key not in self._gathered:
            primary = self._runtime.thread_at(region.member(0))
            stack = self._stacks.hosted(primary)
            place = stack.places.get(region)
            inside = () if place is None else self._called_by(stack.frames, place)
            is_there = place is None if kind == CLOSING else any(self._code.routine_of(f) in _INNER for f in inside)
            until = words.passed(region.team.address, kind) + STEP
            workers = map(region.member, range(1, region.size()))
            self._gathered[key] = is_there and not any(words.arrived(worker, kind) == until for worker in workers)
        return self._gathered[key]

    def _is_beginning(self, region: Region) -> bool:
        stack = self._stacks.hosted(self._runtime.thread_at(region.member(0)))
        if region not in stack.places or stack.places[region] is not None:
            return False
        names = {self._code.routine_of(frame) for frame in _around_end(stack, region)}
        return FORK_BARRIER in names and JOIN_BARRIER not in names

    def _is_let_go(self, thread: Thread, kind: int, frames: Sequence[Frame]) -> bool | None:
        # By the flag on its stack: the address of a word among its own of this barrier, and the count that it waits
        # for.
        try:
            whole = self._structures.layout("kmp_base_info_t").field("th_bar")
        except FieldNotFound:
            return None
        size = whole.size // KINDS
        first = thread.address + whole.offset + kind * size
        own = range(first, first + size)
        found = {at for at, count in self._flags(frames) if count == STEP and at in own}
        if len(found) != 1:
            return None
        return read_unsigned(self._runtime.heap, found.pop(), 8) & COUNT == STEP

    def _flags(self, frames: Sequence[Frame]) -> Iterable[tuple[int, int]]:
        # A flag has the address of a word, and behind that the count that is waited for.
        last = next(index for index in range(len(frames) - 1, -1, -1) if self._is_runtimes(frames[index]))
        return pairwise(words_on(self._runtime.process, frames[0].sp, frames[last].cfa))

    def _is_runtimes(self, frame: Frame) -> bool:
        return self._runtime.owners.at(frame.call_site) == RUNTIME

    def _counted(self, thread: Thread, region: Region, likely: int) -> tuple[int, ...]:
        # A thread may still be on its way out of the barrier before. Intel's runtime counts, for all but the region's
        # end, how many its team has passed and each worker has reached.
        counters = self._counters
        kinds = (likely, *(kind for kind in (PLAIN, REDUCTION) if kind != likely))
        return tuple(kind for kind in kinds if counters.has_reached(thread, region, kind))[:1]


def _around_end(stack: Hosted, region: Region) -> Sequence[Frame]:
    # The frames between the code of the region's construct and what is inside of the region.
    order = list(stack.places)
    at = order.index(next(known for known in order if known.id == region.id))
    inner = [place for place in map(stack.places.get, order[:at]) if place is not None]
    outer = [place for place in map(stack.places.get, order[at + 1 :]) if place is not None]
    return stack.frames[max(inner, default=-1) + 1 : min(outer, default=len(stack.frames))]


class Counters:
    """What Intel's runtime counts for debuggers (``USE_DEBUGGER``), of the barriers within a region."""

    def __init__(self, runtime: Reading) -> None:
        self._heap = runtime.heap
        self._passed: dict[int, int] = {}  # by where a team keeps it
        self._info = runtime.structures.layout("kmp_base_info_t").fields
        self._team = runtime.structures.layout("kmp_base_team_t").fields

    @cached_property
    def are_kept(self) -> bool:
        """Whether this build has them."""
        ours, teams = ("th_bar", "th_b_worker_arrived"), ("t_bar", "t_b_master_arrived", "t_b_team_arrived")
        return all(name in self._info for name in ours) and all(name in self._team for name in teams)

    def has_reached(self, thread: Thread, region: Region, kind: int) -> bool:
        """Return whether *thread* has arrived at a barrier of a *kind* that its team has not passed."""
        of_team = self._of_team(region, kind)
        passed = self._passed.get(of_team)
        if passed is None:
            passed = read_unsigned(self._heap, of_team + self._team["t_b_team_arrived"].offset, 8)
            self._passed[of_team] = passed
        if region.thread(0).address == thread.address:
            return read_unsigned(self._heap, of_team + self._team["t_b_master_arrived"].offset, 8) > passed
        whole = self._info["th_bar"]
        of_thread = thread.address + whole.offset + kind * (whole.size // KINDS)
        return read_unsigned(thread.memory, of_thread + self._info["th_b_worker_arrived"].offset, 8) > passed

    def passed(self, region: Region, kind: int) -> tuple[int, int, int]:
        """Return the address of the count of barriers of a *kind* that a team has passed, what it holds, and the same
        once more: it counts by one.
        """
        address = self._of_team(region, kind) + self._team["t_b_team_arrived"].offset
        value = read_unsigned(self._heap, address, 8)
        return address, value, value

    def _of_team(self, region: Region, kind: int) -> int:
        whole = self._team["t_bar"]
        return region.team.address + whole.offset + kind * (whole.size // KINDS)
