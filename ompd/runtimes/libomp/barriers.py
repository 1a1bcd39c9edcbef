"""Barriers of a team: who waits at which of them, by the threads' stacks and by what the runtime counts.

The runtime has words of three kinds of barriers for each thread and each team (``enum barrier_type``): one for the
barrier directive and the ends of worksharing constructs, one for reductions whose parts are added up as a tree, one for
the region's beginning and end. Threads of which some wait at one kind and some at another wait for ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from ompd.contract.code import RUNTIME
from ompd.contract.memory import StructLayout, StructView, read_unsigned, read_words
from ompd.contract.plugin import BarrierState
from ompd.errors import FieldNotFound, LayoutUnavailable, Unavailable
from ompd.runtimes.libomp import constructs

if TYPE_CHECKING:
    from ompd.contract.process import Frame
    from ompd.runtimes.libomp.plugin import Runtime
    from ompd.runtimes.libomp.regions import Region, Team
    from ompd.runtimes.libomp.structures import Structures
    from ompd.runtimes.libomp.threads import Thread

# enum barrier_type of kmp.h; a thread is in one of the first and the last by an entry point of user code.
PLAIN, CLOSING, REDUCTION = 0, 1, 2
_KINDS = 3
# Words of barriers count by 4 (KMP_BARRIER_STATE_BUMP); bit 0 says that somebody sleeps.
STEP, COUNT = 4, ~3

# Routines in which a thread is at a barrier of its team while it executes a region. The first two end by a jump to the
# third in builds by gcc.
_INNER = frozenset(("__kmp_barrier", "__kmp_barrier_gomp_cancel", "__kmp_barrier_template"))
_REDUCTIONS = frozenset(("__kmpc_reduce", "__kmpc_reduce_nowait"))
_LEAVING = "all threads have arrived at the barrier, and some have left it"
_UNCERTAIN = "nothing shows whether a thread that is in the runtime has arrived at the barrier"
_MAX_STACK = 1 << 16


def barriers_of(runtime: Runtime, structures: Structures, region: Region) -> tuple[BarrierState, ...]:
    """See :meth:`ompd.contract.plugin.ParallelHandle.barriers`.

    :raises Unavailable: if it cannot be told where in the region some thread is
    """
    present: dict[int, set[int]] = {}
    doubts: dict[int, str] = {}
    team = []
    for number in range(region.size()):
        thread = region.thread(number)
        native = thread.native_thread_id()
        team.append(native)
        kinds, is_certain = _barrier_of(runtime, structures, thread, region)
        if not is_certain:
            doubts.update(dict.fromkeys(kinds, _UNCERTAIN))
            continue
        for kind in kinds:
            present.setdefault(kind, set()).add(native)
            if runtime.unnamed is not None and runtime.unnamed.has_been_left(region.team, kind):
                doubts[kind] = _LEAVING
    return tuple(BarrierState.gathering(team, here, doubts.get(kind)) for kind, here in sorted(present.items()))


def _barrier_of(
    runtime: Runtime, structures: Structures, thread: Thread, region: Region
) -> tuple[tuple[int, ...], bool]:
    # The kind of barrier at which a thread of a region's team waits for it, none if it waits at none, and whether that
    # is certain: else it may wait at one of these kinds.
    stack = constructs.hosted(thread)
    if region not in stack.places:
        raise Unavailable("the region's frame is not to be told from others on a thread's stack")
    place = stack.places[region]
    if place is None:
        frames = _around_end(stack, region)
        if _is_doubtful(runtime, frames):
            return (CLOSING,), False
        is_there = _is_closing(runtime, structures, thread, region, frames)
        return (CLOSING,) if is_there is not False else (), is_there is not None
    # The first routine that the region's code is in decides, whatever tasks the thread runs within it.
    if runtime.unnamed is not None:
        frames = _called_by(runtime, stack.frames, place)
        if _is_doubtful(runtime, frames):
            return (PLAIN, REDUCTION), False
        if _INNER.isdisjoint(constructs.routine_of(runtime, frame) for frame in frames):
            return (), True
        return tuple(dict.fromkeys(k for k in map(runtime.unnamed.barrier, frames) if k is not None)), True
    names = runtime.called.get((stack.stack.shape, place))
    if names is None:
        frames = _called_by(runtime, stack.frames, place)
        names = frozenset(constructs.routine_of(runtime, frame) for frame in frames)
        runtime.called[stack.stack.shape, place] = names
    if _INNER.isdisjoint(names):
        return (), True
    return _counted(runtime, thread, region, REDUCTION if not _REDUCTIONS.isdisjoint(names) else PLAIN), True


def _is_doubtful(runtime: Runtime, frames: Sequence[Frame]) -> bool:
    return runtime.unnamed is not None and any(map(runtime.unnamed.is_doubtful, frames))


def _called_by(runtime: Runtime, frames: Sequence[Frame], place: int) -> Sequence[Frame]:
    # The runtime's frames that the code of the region with its frame at this place is in.
    owners = [_is_runtimes(runtime, frame) for frame in frames[: place + 1]]
    last = next((index for index in range(place, -1, -1) if owners[index]), None)
    if last is None:
        return ()
    first = last
    while first and owners[first - 1]:
        first -= 1
    return frames[first : last + 1]


def _around_end(stack: constructs.Hosted, region: Region) -> Sequence[Frame]:
    # The frames between the code of the region's construct and what lies inside of the region.
    order = list(stack.places)
    at = order.index(next(known for known in order if known.id == region.id))
    inner = [place for place in map(stack.places.get, order[:at]) if place is not None]
    outer = [place for place in map(stack.places.get, order[at + 1 :]) if place is not None]
    return stack.frames[max(inner, default=-1) + 1 : min(outer, default=len(stack.frames))]


def _is_closing(
    runtime: Runtime, structures: Structures, thread: Thread, region: Region, frames: Sequence[Frame]
) -> bool | None:
    # Whether it waits at the region's end; None if that is not certain. Workers wait for the next region in the second
    # half of that barrier, so that one that was let go, and has not run since, has not begun the region.
    names = {constructs.routine_of(runtime, frame) for frame in frames}
    if constructs.JOIN_BARRIER in names or constructs.FORK_BARRIER not in names:
        return constructs.JOIN_BARRIER in names
    if region.thread(0).address == thread.address:
        return False
    if runtime.unnamed is not None:
        return True
    let_go = _is_let_go(runtime, structures, thread, frames)
    if let_go is None:
        how = runtime.process.progress(thread.native_thread_id())
        return {"blocked": True, "released": False}.get(how or "")
    return not let_go


def _is_let_go(runtime: Runtime, structures: Structures, thread: Thread, frames: Sequence[Frame]) -> bool | None:
    # By the flag on its stack: the address of a word among its own of this barrier, and the count that it waits for.
    try:
        whole = structures.layout("kmp_base_info_t").field("th_bar")
    except FieldNotFound:
        return None
    size = whole.size // _KINDS
    own = range(thread.address + whole.offset + CLOSING * size, thread.address + whole.offset + (CLOSING + 1) * size)
    last = next(index for index in range(len(frames) - 1, -1, -1) if _is_runtimes(runtime, frames[index]))
    found = {at for at, until in words_of(runtime, frames[0].sp, frames[last].cfa) if until == STEP and at in own}
    if len(found) != 1:
        return None
    return read_unsigned(runtime.heap, found.pop(), 8) & COUNT == STEP


def words_of(runtime: Runtime, start: int, end: int | None) -> Iterator[tuple[int, int]]:
    """Yield each word of a part of a stack with the one behind it: a flag has the address of a word, and the count that
    is waited for.
    """
    size = runtime.process.pointer_size
    start += -start % size
    if end is None or not 0 < end - start <= _MAX_STACK:
        return
    yield from pairwise(read_words(runtime.process, start, (end - start) // size))


def _is_runtimes(runtime: Runtime, frame: Frame) -> bool:
    return constructs.owner_at(runtime, frame.call_site) == RUNTIME


def _counted(runtime: Runtime, thread: Thread, region: Region, likely: int) -> tuple[int, ...]:
    # A thread may still be on its way out of the barrier before. Intel's runtime counts, for all but the region's end,
    # how many its team has passed and each worker has reached.
    counters = runtime.counters
    if not counters.are_kept:
        return (likely,)
    kinds = (likely, *(kind for kind in (PLAIN, REDUCTION) if kind != likely))
    return tuple(kind for kind in kinds if counters.has_reached(thread, region, kind))[:1]


class Counters:
    """What Intel's runtime counts for debuggers (``USE_DEBUGGER``), of the barriers within a region."""

    def __init__(self, runtime: Runtime) -> None:
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
        """Tell whether *thread* has arrived at a barrier of a *kind* that its team has not passed."""
        whole = self._team["t_bar"]
        of_team = region.team.address + whole.offset + kind * (whole.size // _KINDS)
        passed = self._passed.get(of_team)
        if passed is None:
            passed = read_unsigned(self._heap, of_team + self._team["t_b_team_arrived"].offset, 8)
            self._passed[of_team] = passed
        if region.thread(0).address == thread.address:
            return read_unsigned(self._heap, of_team + self._team["t_b_master_arrived"].offset, 8) > passed
        whole = self._info["th_bar"]
        of_thread = thread.address + whole.offset + kind * (whole.size // _KINDS)
        return read_unsigned(thread.memory, of_thread + self._info["th_b_worker_arrived"].offset, 8) > passed


class Words:
    """The words by which threads wait for each other (``kmp_bstate``, ``kmp_balign_team``), less the bits that say who
    sleeps.
    """

    def __init__(self, runtime: Runtime, structures: Structures) -> None:
        self._heap = runtime.heap
        self._state = structures.layout("kmp_bstate")
        self._of_team = structures.layout("kmp_barrier_team_union")
        self._sizes = _size(structures.layout("kmp_barrier_union")), _size(self._of_team)
        self._in_thread = structures.layout("kmp_base_info_t.th_bar").field("th_bar").offset
        self._in_team = structures.layout("kmp_base_team_t.t_bar").field("t_bar").offset

    def arrived_at(self, thread: int, kind: int) -> int:
        """Return the address of the word by which a thread tells that it has arrived."""
        return self._bar(thread, kind) + self._state.field("b_arrived").offset

    def go_at(self, thread: int, kind: int) -> int:
        """Return the address of the word by which a thread is let go."""
        return self._bar(thread, kind) + self._state.field("b_go").offset

    def _bar(self, thread: int, kind: int) -> int:
        return thread + self._in_thread + kind * self._sizes[0]

    def arrived(self, thread: int, kind: int) -> int:
        """Return the count up to which a thread, and those it has waited for, have arrived."""
        return StructView(self._heap, self._state, self._bar(thread, kind)).unsigned("b_arrived") & COUNT

    def go(self, thread: int, kind: int) -> int:
        """Return :data:`STEP` of a thread that was let go and does not know yet, else 0."""
        return StructView(self._heap, self._state, self._bar(thread, kind)).unsigned("b_go") & COUNT

    def passed(self, team: Team, kind: int) -> int:
        """Return the count up to which all threads of a team have arrived."""
        start = team.address + self._in_team + kind * self._sizes[1]
        return StructView(self._heap, self._of_team, start).unsigned("b_arrived") & COUNT


def _size(layout: StructLayout) -> int:
    if not layout.size:
        raise LayoutUnavailable(f"the size of {layout.name} is not known")
    return layout.size
