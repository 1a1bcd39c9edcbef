"""The stacks of threads: the frames of regions, the code that encountered the regions, and the routines in which
threads are.

The runtime records a region's function (``t_pkfn``) only if it formed a team of several threads for clang's code. gcc's
code runs on libomp through a wrapper, and serialized regions leave the field stale. But the code of each region has a
frame on the stack of each thread that executes the region. An invoking routine of the runtime called that frame, or,
for clang's ``if(0)``, a user function did. These frames are in the order of the regions. If a region's function ended
by a jump (a tail call), the frame belongs to the function to which it jumped. Only the name of the frame's function
shows whether it is the region's own function.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from ompd import naming
from ompd.contract.code_owners import RUNTIME, UNKNOWN, USER, construct_passed, entry_of
from ompd.contract.helpers.stacks import interrupted_at, region_entry
from ompd.errors import Unavailable
from ompd.runtimes.libomp.stacks.code import CLOSING_BARRIERS, TASK_INVOKERS, Code, calls_user_code, is_entry, is_fork

if TYPE_CHECKING:
    from ompd.contract.process import Frame, Shape, Stack
    from ompd.runtimes.libomp.handles import Parallel, Thread
    from ompd.runtimes.libomp.plugin import Runtime


class _Marks(NamedTuple):
    # Indices of frames on a stack. ``places`` are the frames of regions' functions. ``callers`` are the user's frames
    # that called the runtime to begin a region. Both depend only on the code of the frames, so stacks of the same shape
    # share them.
    places: Sequence[int]
    callers: Sequence[int]


class Hosted(NamedTuple):
    """A thread's stack, and the frame index of each region whose code is on this stack.

    The index is None for a region that the thread is entering or leaving, because the region's code then has no frame.
    ``callers`` has the index of the user's frame that called the runtime to begin a region, if known.
    """

    stack: Stack
    places: dict[Parallel, int | None]
    callers: dict[Parallel, int] = {}  # noqa: RUF012  never modified

    @property
    def stopped(self) -> str | None:
        """The reason why the stack could not be followed to its end, None if it could."""
        return self.stack.stopped

    @property
    def frames(self) -> tuple[Frame, ...]:
        """The frames of the stack, innermost first."""
        return self.stack.frames

    def frames_around_end(self, region: Parallel) -> Sequence[Frame]:
        """Return the frames around the beginning or end of *region*, which has no frame itself. These frames are
        between the frames of the next inner region and of the next outer region.
        """
        regions = list(self.places)
        index = regions.index(next(other for other in regions if other.id == region.id))
        inner = [place for place in map(self.places.get, regions[:index]) if place is not None]
        outer = [place for place in map(self.places.get, regions[index + 1 :]) if place is not None]
        return self.frames[max(inner, default=-1) + 1 : min(outer, default=len(self.frames))]


class Stacks:
    """The stacks of one runtime's threads."""

    def __init__(self, runtime: Runtime, code: Code) -> None:
        self._runtime = runtime
        self._process = runtime.process
        self.code = code
        self._hosted: dict[int, Hosted] = {}  # by the address of kmp_info_t
        self._marks: dict[Shape, _Marks] = {}
        self._called: dict[tuple[Shape, int], frozenset[str | None]] = {}
        # The key is the stack's shape, or, in a stripped runtime, the address of the thread's kmp_info_t.
        self._routines: dict[Shape | int, tuple[list[str], bool]] = {}

    # Regions

    def region_entry(self, region: Parallel) -> int:
        """Return the entry of a region's function, as shown by the stacks of the region's threads.

        :raises Unavailable: if the function is on no stack of the team's threads
        """

        def on_stack(number: int) -> int | None:
            stack = self.hosted(region.thread(number))
            return self._outlined_entry(stack.frames, stack.places.get(region))

        def passed() -> int | None:
            return construct_passed(self._process, self.encountering_frames(region)[0].pc, None)

        return region_entry(region, on_stack, passed)

    def encountering_frames(self, region: Parallel) -> tuple[Frame, ...]:
        """Return the frames outside of *region* on its primary thread, starting with the user function that encountered
        the construct.

        :raises Unavailable: if this function is not on the stack, or if several frames may be its frame
        """
        stack = self.hosted(region.thread(0))
        frames = stack.frames
        if region in stack.callers:
            return frames[stack.callers[region] :]
        if region not in stack.places and stack.stopped is not None:
            raise Unavailable(f"the primary thread's stack cannot be followed out of the region: {stack.stopped}")
        if region not in stack.places:
            raise Unavailable("the region's frame is not to be told from others on its primary thread's stack")
        # The encountering code is between the frames of this region and of the enclosing region, or in the enclosing
        # region's frame.
        regions = list(stack.places)
        index = regions.index(region)
        outer = [place for place in map(stack.places.get, regions[index + 1 :]) if place is not None]
        last = min(outer, default=len(frames) - 1)
        is_open = False
        for place in range(self._first_outside(frames, stack.places, index, last), last + 1):
            if self.code.is_users_code(frames, place):
                called = self._process.routine_called(frames[place].pc) if place else None
                if called is not None and not _begins_construct(called):
                    break  # this frame called the function that encountered the construct
                return frames[place:]
            is_open = is_open or self._runtime.owners.at(frames[place].call_site) == UNKNOWN
        if is_open:
            raise Unavailable("which frame outside of the region is the user's cannot be told: nothing but names tells")
        raise Unavailable("the function that encountered the region has left the stack by a tail call")

    def _first_outside(
        self, frames: tuple[Frame, ...], places: Mapping[Parallel, int | None], index: int, last: int
    ) -> int:
        # The index of the first frame outside of the code of a region. *index* is the region's position in *places*.
        regions = list(places)
        place = places[regions[index]]
        if place is not None:
            return place + 1
        inner = [place for place in map(places.get, regions[:index]) if place is not None]
        first = max(inner, default=-1) + 1
        # At the region's end, the primary thread may execute tasks, whose code did not encounter the region.
        barriers = [
            number for number in range(first, last + 1) if self.code.routine_of(frames[number]) in CLOSING_BARRIERS
        ]
        if not barriers:
            return first
        without_frame = [region for region in regions if places[region] is None]
        is_innermost = len(without_frame) > 1 and without_frame[0] == regions[index]
        return (barriers[0] if is_innermost else barriers[-1]) + 1

    def executes_explicit_task(self, thread: Thread) -> bool:
        """Return whether the innermost code of a construct on a thread's stack belongs to an explicit task.

        False if that is unknown.
        """
        stack = self.hosted(thread)
        places = set(stack.places.values())
        for index, frame in enumerate(stack.frames):
            if index in places:
                return False
            routine = self.code.routine_of(frame)
            outlined = (
                naming.parse_outlined(self._process.locate(frame.call_site).symbol or "") if routine is None else None
            )
            is_task = outlined is not None and outlined.construct == "task"
            if routine in TASK_INVOKERS or routine == "GOMP_task" or is_task:
                return None not in places and bool(places)
        return False

    def hosted(self, thread: Thread) -> Hosted:
        """Return the stack of *thread* with the places of its regions. If the places are unknown, there are none."""
        if thread.address not in self._hosted:
            self._hosted[thread.address] = self._match(thread)
        return self._hosted[thread.address]

    def _match(self, thread: Thread) -> Hosted:
        stack = self._process.stack(thread.native_thread_id())
        marks = self._marks_of(stack)
        places = marks.places
        regions = thread.hosted_regions()
        if len(regions) != len(places) and stack.stopped is not None:
            return Hosted(stack, {})  # the missing frame may be in the part of the stack that could not be followed
        callers = _callers(thread, marks.callers, regions)
        if callers is not None:
            between = _between(regions, places, [callers[region] for region in regions if region in callers])
            if between is not None:
                return Hosted(stack, between, callers)
        return Hosted(stack, self._in_order(stack.frames, regions, places))

    def _marks_of(self, stack: Stack) -> _Marks:
        marks = self._marks.get(stack.shape)
        if marks is None:
            frames = stack.frames
            places = [index for index, pair in enumerate(pairwise(frames)) if self.code.begins_region(*pair)]
            # The caller may be the code of a region that ended by a jump to the runtime. The frame of the runtime's
            # routine then takes the place of the caller's frame.
            callers = [
                index + self.code.is_users_code(frames, index + 1)
                for index, (inner, outer) in enumerate(pairwise(frames))
                if (self.code.is_users_code(frames, index + 1) and is_fork(self.code.entry_called(inner, outer)))
                or (is_fork(self.code.routine_of(inner) or "") and self.code.begins_region(inner, outer))
            ]
            marks = _Marks(places, callers)
            if self.code.has_names:
                self._marks[stack.shape] = marks
        return marks

    def _in_order(
        self, frames: tuple[Frame, ...], regions: tuple[Parallel, ...], places: Sequence[int]
    ) -> dict[Parallel, int | None]:
        # A region has no frame while the runtime is starting or ending the region. This is possible for the innermost
        # region, and for a region at whose end the thread executes tasks, which may have encountered further regions.
        gaps = []
        if self._is_forking(frames) or not any(self.code.is_users(frame) for frame in frames):
            gaps.append(0)
        # The task that the thread executes at a region's end may itself have executed other tasks, so its invoker need
        # not be the innermost.
        invoking = (index for index, frame in enumerate(frames) if self.code.routine_of(frame) in TASK_INVOKERS)
        task = next((index for index in invoking if self._is_closing(frames, index)), None)
        if task is not None:
            gaps.append(sum(1 for place in places if place < task) + len(gaps))
        missing = len(regions) - len(places)
        # If the task has encountered no region, both gaps belong to the same region.
        if not 0 <= missing <= len(gaps) or (missing == 1 and len(gaps) == 2 and gaps[1] > 1):
            return {}  # the compiler inlined a function, or nothing shows which of two regions has no frame
        places_in_order: list[int | None] = list(places)
        for gap in gaps[:missing]:
            places_in_order.insert(gap, None)
        return dict(zip(regions, places_in_order, strict=True))

    def _is_closing(self, frames: tuple[Frame, ...], first: int) -> bool:
        # Whether a frame of a region's closing barrier is between *first* and the next outer user frame.
        for index in range(first, len(frames)):
            frame = frames[index]
            if self.code.is_users(frame):
                return False
            if self.code.routine_of(frame) in CLOSING_BARRIERS:
                return True
        return False

    def _outlined_entry(self, frames: tuple[Frame, ...], index: int | None) -> int | None:
        # The entry of the function at frame *index*, None unless the function has the name of a construct's function.
        if index is None:
            return None
        place = self._process.locate(frames[index].call_site)
        if place.symbol is None or naming.parse_outlined(place.symbol) is None:
            return None
        return entry_of(self._process, frames[index].call_site)

    def _is_forking(self, frames: tuple[Frame, ...]) -> bool:
        # Whether the innermost call from user code calls a routine that starts or ends a region.
        last = ""
        for frame in frames:
            routine = self.code.routine_of(frame)
            if routine is not None:
                last = routine
            elif last or self.code.is_users(frame):
                break
        return is_fork(last)

    # Routines

    def frames_called(self, stack: Hosted, place: int) -> Sequence[Frame]:
        """Return the runtime's frames that the region's code, whose frame is at *place*, has called."""
        frames, owners = stack.frames, self._runtime.owners
        are_runtimes = [owners.at(frame.call_site) == RUNTIME for frame in frames[: place + 1]]
        last = next((index for index in range(place, -1, -1) if are_runtimes[index]), None)
        if last is None:
            return ()
        first = last
        while first and are_runtimes[first - 1]:
            first -= 1
        return frames[first : last + 1]

    def routines_called(self, stack: Hosted, place: int) -> frozenset[str | None]:
        """Return the names of the routines in :meth:`frames_called`, for a runtime with symbols. The result is cached
        for all stacks of the same shape.
        """
        key = stack.stack.shape, place
        if key not in self._called:
            self._called[key] = frozenset(self.code.routine_of(frame) for frame in self.frames_called(stack, place))
        return self._called[key]

    def routines_inside(self, thread: Thread) -> tuple[list[str], bool]:
        """Return the runtime's routines that the innermost user's frame on a stack has called, outermost first, and
        whether there is a user's frame. If a signal interrupted a routine of the runtime, the frames of the signal's
        handler are skipped.
        """
        stack = self._process.stack(thread.native_thread_id())
        key = stack.shape if self.code.has_names else thread.address
        routines = self._routines.get(key)
        if routines is None:
            routines = self._routines[key] = self._routines_on(stack.frames)
        return routines

    def _routines_on(self, frames: Sequence[Frame]) -> tuple[list[str], bool]:
        routines: tuple[list[str], bool] = [], True
        for first in interrupted_at(frames, lambda index: calls_user_code(self.code.routine_of(frames[index]) or "")):
            routines = self._routines_in(frames[first:])
            if routines != ([], True):
                break
        return routines

    def _routines_in(self, frames: Sequence[Frame]) -> tuple[list[str], bool]:
        names: list[str] = []
        has_unknown = False
        for index, frame in enumerate(frames):
            routine = self.code.routine_of(frame)
            outer = frames[index + 1] if index + 1 < len(frames) else None
            if outer is not None and self._was_jumped_to(frame, outer):
                # The innermost code has left the stack by a jump to this routine.
                return (names if routine is None else [*names, routine])[::-1], True
            if routine is not None:
                if has_unknown and not names and calls_user_code(routine):
                    return [], True  # a routine that calls user code has called this code of unknown owner
                names.append(routine)
                continue
            owner = self._runtime.owners.at(frame.call_site)
            if owner == USER:
                # The entry point may have jumped to the routine that does the work.
                called = naming.routine_name(self._process.routine_called(frame.pc)) if names else ""
                return [called, *names[::-1]] if is_entry(called) and called != names[-1] else names[::-1], True
            has_unknown = has_unknown or owner == UNKNOWN
            if names:
                break
        return names[::-1], False

    def _was_jumped_to(self, frame: Frame, outer: Frame) -> bool:
        # Whether *outer* called a construct's code, which then jumped to the function that *frame* executes.
        if self._runtime.owners.at(frame.call_site) == USER:
            return False
        return self.code.begins_region(frame, outer) or self.code.begins_task(frame, outer)


def _callers(thread: Thread, callers: Sequence[int], regions: tuple[Parallel, ...]) -> dict[Parallel, int] | None:
    # For each region whose primary thread this is, the index of the frame that called the runtime to begin the region.
    # None if the thread has more or fewer callers than regions. This is possible because code with a false if clause
    # calls the runtime, then calls the region's function itself.
    begun = [region for region in regions if region.thread(0).address == thread.address]
    return dict(zip(begun, callers, strict=True)) if len(begun) == len(callers) else None


def _between(
    regions: tuple[Parallel, ...], places: Sequence[int], callers: list[int]
) -> dict[Parallel, int | None] | None:
    # The place of each region: the only one between the frame that began the region and the frame that began the next
    # inner region. The place is None if there is none. The result is None if there are several, or if a place belongs
    # to no region. A region in which the thread is a worker was begun by another thread, and is the outermost.
    ends = [*callers, *[max([*places, *callers], default=0) + 1] * (len(regions) - len(callers))]
    place_of: dict[Parallel, int | None] = {}
    inner = -1
    for region, outer in zip(regions, ends, strict=True):
        inside = [place for place in places if inner < place < outer]
        if len(inside) > 1:
            return None
        place_of[region] = inside[0] if inside else None
        inner = outer - 1
    return place_of if len(places) == sum(place is not None for place in place_of.values()) else None


def _begins_construct(called: str) -> bool:
    # Whether *called* is a routine of the runtime, or a region's function. Code by clang may call the latter directly.
    return naming.is_runtime_symbol(naming.routine_name(called)) or naming.parse_outlined(called) is not None
