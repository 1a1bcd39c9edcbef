"""From a region to its function, and to the code that encountered it, by the stacks of its team.

The runtime keeps a region's function (``t_pkfn``) only where it formed a team of several threads for clang's code.
gcc's code runs on libomp through a wrapper, and serialized regions leave the field stale. But each region whose code a
thread is in has a frame on its stack: the one that the runtime's invoking routine called, or, for clang's ``if(0)``,
the user's function. These frames lie in the order of the regions. What runs in such a frame need not be the region's
own function: that may have ended by a jump to another one, which then has its frame (a tail call). Only its name shows
that it is the one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from ompd import naming
from ompd.contract.code_owners import UNKNOWN, construct_passed, entry_of
from ompd.contract.helpers.stacks import region_entry
from ompd.contract.process import Frame, Shape, Stack
from ompd.errors import Unavailable
from ompd.runtimes.libomp.stacks.code import CLOSING_BARRIERS, TASK_INVOKERS, Code, is_fork
from ompd.runtimes.libomp.teams.teams import Region
from ompd.runtimes.libomp.teams.threads import Thread, Threads


class Marks(NamedTuple):
    """What the code of a stack's frames tells, the same for all stacks of one shape: the indices of frames of regions'
    functions, and of the user's frames that called the runtime to begin a region.
    """

    places: Sequence[int]
    callers: Sequence[int]


class Hosted(NamedTuple):
    """A thread's stack, and the index of the frame of each region whose code is on it.

    None for a region that the thread is entering or leaving: the runtime has its own frames there, its function has
    none. ``callers`` has the index of the user's frame that called the runtime to begin a region, where it is known.
    """

    stack: Stack
    places: dict[Region, int | None]
    callers: dict[Region, int] = {}  # noqa: RUF012  nobody changes it

    @property
    def stopped(self) -> str | None:
        """Why the stack could not be followed to its end, None if it could."""
        return self.stack.stopped

    @property
    def frames(self) -> tuple[Frame, ...]:
        """The frames of the stack, innermost first."""
        return self.stack.frames


class Stacks:
    """The stacks of the threads of one runtime, with the places of regions on them."""

    def __init__(self, runtime: Threads, code: Code) -> None:
        self._runtime = runtime
        self._process = runtime.process
        self.code = code
        self._hosted: dict[int, Hosted] = {}  # by kmp_info_t
        self._marked: dict[Shape, Marks] = {}  # what the code of their frames tells, by stacks' shapes

    def region_entry(self, region: Region) -> int:
        """Return the entry of a region's function from the stacks of its threads.

        :raises Unavailable: if no thread of the team has it on its stack
        """

        def on_stack(number: int) -> int | None:
            stack = self.hosted(self._runtime.thread_at(region.member(number)))
            return self._outlined_entry(stack.frames, stack.places.get(region))

        def passed() -> int | None:
            return construct_passed(self._process, self.encountering_frames(region)[0].pc, None)

        return region_entry(region, on_stack, passed)

    def encountering_frames(self, region: Region) -> tuple[Frame, ...]:
        """Return the frames outside of *region* on its primary thread, from the user's that encountered the construct
        outwards.

        :raises Unavailable: if that frame is not on the stack, or cannot be told from others
        """
        stack = self.hosted(self._runtime.thread_at(region.member(0)))
        frames = stack.frames
        if region in stack.callers:
            return frames[stack.callers[region] :]
        if region not in stack.places and stack.stopped is not None:
            raise Unavailable(f"the primary thread's stack cannot be followed out of the region: {stack.stopped}")
        if region not in stack.places:
            raise Unavailable("the region's frame is not to be told from others on its primary thread's stack")
        # The encountering code is between the region's frame and that of the enclosing one, which may be it.
        order = list(stack.places)
        at = order.index(region)
        outer = [place for place in map(stack.places.get, order[at + 1 :]) if place is not None]
        last = min(outer, default=len(frames) - 1)
        is_open = False
        for index in range(self._behind(frames, stack.places, at, last), last + 1):
            if self.code.is_users_code(frames, index):
                called = self._process.routine_called(frames[index].pc) if index else None
                if called is not None and not _begins_construct(called):
                    break  # it called the function that met the construct
                return frames[index:]
            is_open = is_open or self._runtime.owners.at(frames[index].call_site) == UNKNOWN
        if is_open:
            raise Unavailable("which frame outside of the region is the user's cannot be told: nothing but names tells")
        raise Unavailable("the function that encountered the region has left the stack by a tail call")

    def _behind(self, frames: tuple[Frame, ...], places: Mapping[Region, int | None], at: int, last: int) -> int:
        # The first frame behind the code of the region *at* this place in the order of *places*.
        order = list(places)
        place = places[order[at]]
        if place is not None:
            return place + 1
        inner = [known for known in map(places.get, order[:at]) if known is not None]
        first = max(inner, default=-1) + 1
        # At the region's end its thread may execute tasks, whose code did not meet the region.
        barriers = [
            index for index in range(first, last + 1) if self.code.routine_of(frames[index]) in CLOSING_BARRIERS
        ]
        if not barriers:
            return first
        left = [region for region in order if places[region] is None]
        return (barriers[0] if len(left) > 1 and left[0] == order[at] else barriers[-1]) + 1

    def executes_explicit_task(self, thread: Thread) -> bool:
        """Return whether the innermost code of regions and tasks on a thread's stack is an explicit task's.

        False where that is unknown.
        """
        stack = self.hosted(thread)
        places = set(stack.places.values())
        for index, frame in enumerate(stack.frames):
            if index in places:
                return False
            called = self.code.routine_of(frame)
            known = (
                naming.parse_outlined(self._process.locate(frame.call_site).symbol or "") if called is None else None
            )
            if called in TASK_INVOKERS or called == "GOMP_task" or (known is not None and known.construct == "task"):
                return None not in places and bool(places)
        return False

    def hosted(self, thread: Thread) -> Hosted:
        """Return where on the stack of *thread* its regions are; no places at all where that is unknown."""
        known = self._hosted
        if thread.address not in known:
            known[thread.address] = self._match(thread)
        return known[thread.address]

    def _match(self, thread: Thread) -> Hosted:
        stack = self._process.stack(thread.native_thread_id())
        marks = self._marks(stack)
        places = marks.places
        regions = thread.hosted_regions()
        if len(regions) != len(places) and stack.stopped is not None:
            return Hosted(stack, {})  # it may be in the part that could not be followed
        callers = _callers(thread, marks.callers, regions)
        if callers is not None:
            known = _between(regions, places, [callers[region] for region in regions if region in callers])
            if known is not None:
                return Hosted(stack, known, callers)
        return Hosted(stack, self._in_order(stack.frames, regions, places))

    def _marks(self, stack: Stack) -> Marks:
        known = self._marked.get(stack.shape)
        if known is None:
            frames = stack.frames
            places = [index for index, pair in enumerate(pairwise(frames)) if self.code.begins_region(*pair)]
            # Code of a region that ended by a jump to the runtime has the place of what it jumped to.
            callers = [
                index + self.code.is_users_code(frames, index + 1)
                for index, (inner, outer) in enumerate(pairwise(frames))
                if (self.code.is_users_code(frames, index + 1) and is_fork(self.code.entry_called(inner, outer)))
                or (is_fork(self.code.routine_of(inner) or "") and self.code.begins_region(inner, outer))
            ]
            known = Marks(places, callers)
            if self.code.has_names:  # else routines are known by what is on the stack, too
                self._marked[stack.shape] = known
        return known

    def _in_order(
        self, frames: tuple[Frame, ...], regions: tuple[Region, ...], places: Sequence[int]
    ) -> dict[Region, int | None]:
        # A region has no frame while its first or last routine runs. That may be so for the innermost region, and for
        # one at whose end the thread runs tasks, in which it may be in further regions.
        gaps = []
        if self._is_forking(frames) or not any(self.code.is_users(frame) for frame in frames):
            gaps.append(0)
        # The task may have begun others, one in the other.
        invoking = (index for index, frame in enumerate(frames) if self.code.routine_of(frame) in TASK_INVOKERS)
        task = next((index for index in invoking if self._is_closing(frames, index)), None)
        if task is not None:
            gaps.append(sum(1 for place in places if place < task) + len(gaps))
        missing = len(regions) - len(places)
        # With no region inside of the task both gaps are that of one and the same region.
        if not 0 <= missing <= len(gaps) or (missing == 1 and len(gaps) == 2 and gaps[1] > 1):
            return {}  # a compiler inlined one of the functions, or it is open which left: nobody can tell
        found: list[int | None] = list(places)
        for gap in gaps[:missing]:
            found.insert(gap, None)
        return dict(zip(regions, found, strict=True))

    def _is_closing(self, frames: tuple[Frame, ...], first: int) -> bool:
        # Whether, from there up to the next frame that is the user's, the routine of a region's closing barrier runs.
        for index in range(first, len(frames)):
            frame = frames[index]
            if self.code.is_users(frame):
                return False
            if self.code.routine_of(frame) in CLOSING_BARRIERS:
                return True
        return False

    def _outlined_entry(self, frames: tuple[Frame, ...], index: int | None) -> int | None:
        # The start of the function of a region's frame, if its name says that it is a construct's.
        if index is None:
            return None
        place = self._process.locate(frames[index].call_site)
        if place.symbol is None or naming.parse_outlined(place.symbol) is None:
            return None
        return entry_of(self._process, frames[index].call_site)

    def _is_forking(self, frames: tuple[Frame, ...]) -> bool:
        # Whether the routine that user code last called is one that starts, or ends, a region.
        last = ""
        for frame in frames:
            routine = self.code.routine_of(frame)
            if routine is not None:
                last = routine
            elif last or self.code.is_users(frame):
                break
        return is_fork(last)


def _callers(thread: Thread, called: Sequence[int], regions: tuple[Region, ...]) -> dict[Region, int] | None:
    # The frames that called the runtime to begin the regions of which the thread is the primary one; None if it is not
    # one for each: code with a false if clause calls the runtime and then the region's function itself.
    begun = [region for region in regions if region.thread(0).address == thread.address]
    return dict(zip(begun, called, strict=True)) if len(begun) == len(called) else None


def _between(regions: tuple[Region, ...], places: Sequence[int], callers: list[int]) -> dict[Region, int | None] | None:
    # The place of each region between the frame that began it and that which began the next inner one, where there is
    # one at most. A region in which the thread is a worker has none that began it, and is the outermost.
    ends = [*callers, *[max([*places, *callers], default=0) + 1] * (len(regions) - len(callers))]
    found: dict[Region, int | None] = {}
    inner = -1
    for region, outer in zip(regions, ends, strict=True):
        here = [place for place in places if inner < place < outer]
        if len(here) > 1:
            return None
        found[region] = here[0] if here else None
        inner = outer - 1
    return found if len(places) == sum(place is not None for place in found.values()) else None


def _begins_construct(called: str) -> bool:
    # Whether a call is one of the runtime, or of the code of a region that clang's code calls itself.
    return naming.is_runtime_symbol(naming.routine_name(called)) or naming.parse_outlined(called) is not None
