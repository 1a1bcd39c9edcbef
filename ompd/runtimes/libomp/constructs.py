"""From a region to its function, and to the code that encountered it, by the stacks of its team.

The runtime keeps a region's function (``t_pkfn``) only where it formed a team of several threads for clang's code.
gcc's code runs on libomp through a wrapper, and serialized regions leave the field stale. But each region whose code a
thread is in has a frame on its stack: the one that the runtime's invoking routine called, or, for clang's ``if(0)``,
the user's function. These frames lie in the order of the regions. What runs in such a frame need not be the region's
own function: that may have ended by a jump to another one, which then has its frame (a tail call). Only its name shows
that it is the one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from ompd import naming
from ompd.contract.code import RUNTIME, SYSTEM, UNKNOWN, USER, construct_passed, entry_of, owner
from ompd.errors import OmpdError, Unavailable

if TYPE_CHECKING:
    from ompd.contract.process import Frame, Stack
    from ompd.runtimes.libomp.plugin import Runtime
    from ompd.runtimes.libomp.regions import Region
    from ompd.runtimes.libomp.threads import Thread

# Routines that call a region's function: kmp_runtime.cpp, kmp_gsupport.cpp. The wrappers are static C++ functions in
# some builds, and GOMP's entry points carry versions and a prefix in the symbol table: see naming.routine_name().
_INVOKER = re.compile(r"__kmp_invoke_microtask$|__kmp_GOMP_\w*microtask_wrapper$|GOMP_parallel(?!\w*_start)\w*$")
# Routines that user code calls to start a region. Innermost on a stack, they say that its function has not begun or is
# over.
_FORK = re.compile(
    r"GOMP_parallel\w*$|__kmpc_fork_call(?:_if)?$|__kmpc_serialized_parallel$|__kmpc_end_serialized_parallel$"
)

# What gcc's own invoker calls of the entry points that are there for clang's code.
_OWN_CALLS = frozenset(
    (
        *("__kmpc_serialized_parallel", "__kmpc_end_serialized_parallel", "__kmpc_fork_call"),
        *("__kmpc_push_num_threads", "__kmpc_push_proc_bind", "__kmpc_global_thread_num", "GOMP_parallel_end"),
    )
)

# Routines that call the function of an explicit task.
TASK_INVOKERS = frozenset(("__kmp_invoke_task", "__kmp_omp_task", "__kmp_execute_tasks_template"))

# The barrier at a region's end; its second half is where workers wait for the next region.
JOIN_BARRIER, FORK_BARRIER = "__kmp_join_barrier", "__kmp_fork_barrier"
CLOSING_BARRIERS = frozenset((JOIN_BARRIER, FORK_BARRIER))

# Teams have many threads that would all say the same; one that does not tell is seldom alone.
_MAX_ASKED = 8


def owner_at(runtime: Runtime, address: int) -> str:
    """Return whose code lies at *address*; see :func:`ompd.contract.code.owner`."""
    known = runtime.owners
    if address not in known:
        known[address] = owner(runtime.process, (runtime.module,), address)
    return known[address]


def routine_at(runtime: Runtime, address: int) -> str | None:
    """Return the name of the runtime's routine at *address*, None where that is not the runtime's code."""
    known = runtime.routines
    if address not in known:
        inside = owner_at(runtime, address) == RUNTIME
        known[address] = naming.routine_name(runtime.process.locate(address).symbol) if inside else None
    return known[address]


def routine_of(runtime: Runtime, frame: Frame) -> str | None:
    """Return the name of the runtime's routine of a frame, None where that is not the runtime's code.

    ``""`` where it has no symbol, nor is told by what it does.
    """
    at, known = frame.call_site, runtime.routines
    name = known[at] if at in known else routine_at(runtime, at)
    return runtime.unnamed.name(frame) if name == "" and runtime.unnamed is not None else name


def is_fork(routine: str) -> bool:
    """Tell whether a routine is one that user code calls to start a region, or to end it."""
    return _FORK.match(routine) is not None


def calls_user_code(routine: str) -> bool:
    """Tell whether a routine of the runtime is one that calls the function of a region or an explicit task."""
    return _INVOKER.match(routine) is not None or routine in TASK_INVOKERS


def is_wrapper(runtime: Runtime, entry: int) -> bool:
    """Tell whether a microtask is the runtime's own, as the wrapper around the function of gcc's code."""
    return routine_at(runtime, entry) is not None


def region_entry(region: Region) -> int:
    """Return the entry of a region's function from the stacks of its threads.

    :raises Unavailable: if no thread of the team has it on its stack
    """
    size = min(region.size(), _MAX_ASKED)
    # The primary thread last: its stack holds more regions, and with workers there is no need to tell them apart.
    for number in reversed(range(size)):
        try:
            stack = hosted(region.thread(number))
        except OmpdError:
            continue  # a stack that cannot be read says nothing; the others may
        entry = _outlined_entry(region.team.runtime, stack.frames, stack.places.get(region))
        if entry is not None:
            return entry
    try:
        # The call that began it says which function it passed.
        entry = construct_passed(region.team.runtime.process, encountering_frames(region)[0].pc, None)
    except OmpdError:
        entry = None
    if entry is not None:
        return entry
    raise Unavailable(
        f"the runtime does not keep this region's function, and {size} of its threads have left it or its name"
    )


def encountering_frames(region: Region) -> tuple[Frame, ...]:
    """Return the frames outside of *region* on its primary thread, from the user's that encountered the construct
    outwards.

    :raises Unavailable: if that frame is not on the stack, or not to be told from others
    """
    stack = hosted(region.thread(0))
    runtime, frames = region.team.runtime, stack.frames
    if region in stack.callers:
        return frames[stack.callers[region] :]
    if region not in stack.places and stack.stopped is not None:
        raise Unavailable(f"the primary thread's stack cannot be followed out of the region: {stack.stopped}")
    if region not in stack.places:
        raise Unavailable("the region's frame is not to be told from others on its primary thread's stack")
    # The encountering code lies between the region's frame and that of the enclosing one, which may be it.
    order = list(stack.places)
    at = order.index(region)
    outer = [place for place in map(stack.places.get, order[at + 1 :]) if place is not None]
    last = min(outer, default=len(frames) - 1)
    is_open = False
    for index in range(_behind(runtime, frames, stack.places, at, last), last + 1):
        if is_users_code(runtime, frames, index):
            called = runtime.process.routine_called(frames[index].pc) if index else None
            if called is not None and not _begins_construct(called):
                break  # it called the function that met the construct
            return frames[index:]
        is_open = is_open or owner_at(runtime, frames[index].call_site) == UNKNOWN
    if is_open:
        raise Unavailable("which frame outside of the region is the user's cannot be told: nothing but names tells")
    raise Unavailable("the function that encountered the region has left the stack by a tail call")


def _behind(
    runtime: Runtime, frames: tuple[Frame, ...], places: Mapping[Region, int | None], at: int, last: int
) -> int:
    # The first frame behind the code of the region *at* this place in the order of *places*.
    order = list(places)
    place = places[order[at]]
    if place is not None:
        return place + 1
    inner = [known for known in map(places.get, order[:at]) if known is not None]
    first = max(inner, default=-1) + 1
    # At the region's end its thread may execute tasks, whose code did not meet the region.
    barriers = [index for index in range(first, last + 1) if routine_of(runtime, frames[index]) in CLOSING_BARRIERS]
    if not barriers:
        return first
    left = [region for region in order if places[region] is None]
    return (barriers[0] if len(left) > 1 and left[0] == order[at] else barriers[-1]) + 1


def _begins_construct(called: str) -> bool:
    # Whether a call is one of the runtime, or of the code of a region that clang's code calls itself.
    return naming.is_runtime_symbol(naming.routine_name(called)) or naming.parse_outlined(called) is not None


def executes_explicit_task(thread: Thread) -> bool:
    """Tell whether the innermost code of regions and tasks on a thread's stack is an explicit task's.

    False where that cannot be told.
    """
    runtime = thread.runtime
    stack = hosted(thread)
    places = set(stack.places.values())
    for index, frame in enumerate(stack.frames):
        if index in places:
            return False
        called = routine_of(runtime, frame)
        known = naming.parse_outlined(runtime.process.locate(frame.call_site).symbol or "") if called is None else None
        if called in TASK_INVOKERS or called == "GOMP_task" or (known is not None and known.construct == "task"):
            return None not in places and bool(places)
    return False


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


def hosted(thread: Thread) -> Hosted:
    """Return where on the stack of *thread* its regions are; no places at all where that cannot be told."""
    known = thread.runtime.hosted
    if thread.address not in known:
        known[thread.address] = _match(thread)
    return known[thread.address]


def _match(thread: Thread) -> Hosted:
    runtime = thread.runtime
    stack = runtime.process.stack(thread.native_thread_id())
    marks = _marks(runtime, stack)
    places = marks.places
    regions = thread.hosted_regions()
    if len(regions) != len(places) and stack.stopped is not None:
        return Hosted(stack, {})  # it may be in the part that could not be followed
    callers = _callers(thread, marks.callers, regions)
    if callers is not None:
        known = _between(regions, places, [callers[region] for region in regions if region in callers])
        if known is not None:
            return Hosted(stack, known, callers)
    return Hosted(stack, _in_order(runtime, stack.frames, regions, places))


def _marks(runtime: Runtime, stack: Stack) -> Marks:
    known = runtime.marks.get(stack.shape)
    if known is None:
        frames = stack.frames
        places = [index for index, pair in enumerate(pairwise(frames)) if begins_region(runtime, *pair)]
        # Code of a region that ended by a jump to the runtime has the place of what it jumped to.
        callers = [
            index + is_users_code(runtime, frames, index + 1)
            for index, (inner, outer) in enumerate(pairwise(frames))
            if (is_users_code(runtime, frames, index + 1) and is_fork(_entry_called(runtime, inner, outer)))
            or (is_fork(routine_of(runtime, inner) or "") and begins_region(runtime, inner, outer))
        ]
        known = Marks(places, callers)
        if runtime.unnamed is None:  # else routines are told by what is on the stack, too
            runtime.marks[stack.shape] = known
    return known


def _callers(thread: Thread, called: Sequence[int], regions: tuple[Region, ...]) -> dict[Region, int] | None:
    # The frames that called the runtime to begin the regions of which the thread is the primary one; None if it is not
    # one for each: code with a false if clause calls the runtime and then the region's function itself.
    begun = [region for region in regions if region.thread(0).address == thread.address]
    return dict(zip(begun, called, strict=True)) if len(begun) == len(called) else None


def _entry_called(runtime: Runtime, inner: Frame, outer: Frame) -> str:
    # The routine of the runtime that the user's frame called, which may have jumped to another one.
    routine = routine_of(runtime, inner)
    if routine is None or is_entry(routine) or is_fork(routine):
        return routine or ""
    return naming.routine_name(runtime.process.routine_called(outer.pc))


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


def _in_order(
    runtime: Runtime, frames: tuple[Frame, ...], regions: tuple[Region, ...], places: Sequence[int]
) -> dict[Region, int | None]:
    # A region has no frame while its first or last routine runs. That may be so for the innermost region, and for one
    # at whose end the thread runs tasks, in which it may be in further regions.
    gaps = []
    if _is_forking(runtime, frames) or not any(is_users(runtime, frame) for frame in frames):
        gaps.append(0)
    # The task may have begun others, one in the other.
    invoking = (index for index, frame in enumerate(frames) if routine_of(runtime, frame) in TASK_INVOKERS)
    task = next((index for index in invoking if _is_closing(runtime, frames, index)), None)
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


def _is_closing(runtime: Runtime, frames: tuple[Frame, ...], first: int) -> bool:
    # Whether, from there up to the next frame that is the user's, the routine of a region's closing barrier runs.
    for index in range(first, len(frames)):
        frame = frames[index]
        if is_users(runtime, frame):
            return False
        if routine_of(runtime, frame) in CLOSING_BARRIERS:
            return True
    return False


def begins_region(runtime: Runtime, inner: Frame, outer: Frame) -> bool:
    """Tell whether *inner*, called by *outer*, is the frame of a region's function, or of what that jumped to."""
    pair = inner.call_site, outer.call_site
    known = runtime.region_calls.get(pair)
    if known is None:
        known = runtime.region_calls[pair] = _is_region_call(runtime, inner, outer)
    return known


def _is_region_call(runtime: Runtime, inner: Frame, outer: Frame) -> bool:
    caller, callee = routine_of(runtime, outer), routine_of(runtime, inner)
    if caller is not None:
        invoker = _INVOKER.match(caller)
        if invoker is None:
            return False
        if callee is None:
            # Those that are there for this alone call nothing else, so that one of the C library's was jumped to.
            return is_users(runtime, inner) or (
                invoker[0].startswith("__kmp_") and owner_at(runtime, inner.call_site) == SYSTEM
            )
        return was_jumped_to(runtime, callee, outer)
    if not is_users(runtime, inner) or not is_users(runtime, outer):
        return False
    locate = runtime.process.locate
    return _is_called_by_user(locate(inner.call_site).symbol, locate(outer.call_site).symbol)


def is_entry(routine: str) -> bool:
    """Tell whether a routine is one that user code calls, and the runtime's routines that call user code do not."""
    return naming.is_entry(routine) and routine not in _OWN_CALLS


def was_jumped_to(runtime: Runtime, callee: str, outer: Frame) -> bool:
    """Tell whether the runtime's routine *callee* stands where the code of a construct was, which *outer* called.

    That code ended by a jump to one of the runtime's entry points, which may have jumped on.
    """
    if runtime.process.calls_by_pointer(outer.pc):
        is_own = callee.startswith("__kmp_") and (calls_user_code(callee) or is_fork(callee))
        return bool(callee) and not is_own
    # Its own routines that call nothing else; gcc's entry points call clang's.
    return is_entry(callee) and (routine_of(runtime, outer) or "").startswith("__kmp_")


def is_users(runtime: Runtime, frame: Frame) -> bool:
    """Tell whether a frame's code is the user's."""
    return owner_at(runtime, frame.call_site) == USER


def is_users_code(runtime: Runtime, frames: Sequence[Frame], index: int) -> bool:
    """Tell whether the code of a frame of a stack is the user's, also where it is the call of an entry point of the
    runtime alone that shows it: in a static program names do not tell the user's functions from the C library's.
    """
    frame = frames[index]
    if not index or owner_at(runtime, frame.call_site) != UNKNOWN:
        return is_users(runtime, frame)
    return naming.is_entry(_entry_called(runtime, frames[index - 1], frame))


def _outlined_entry(runtime: Runtime, frames: tuple[Frame, ...], index: int | None) -> int | None:
    # The start of the function of a region's frame, if its name says that it is a construct's.
    if index is None:
        return None
    place = runtime.process.locate(frames[index].call_site)
    if place.symbol is None or naming.parse_outlined(place.symbol) is None:
        return None
    return entry_of(runtime.process, frames[index].call_site)


def _is_called_by_user(symbol: str | None, caller: str | None) -> bool:
    # clang calls the function of a region with a false if clause directly. With -g it may be a pair, whose inner one
    # has the body; a task's function is called by its entry.
    known = naming.parse_outlined(symbol or "")
    if known is None or known.construct is not None or naming.is_body(symbol or ""):
        return False
    called_by = naming.parse_outlined(caller or "")
    return called_by is None or called_by.construct != "task"


def _is_forking(runtime: Runtime, frames: tuple[Frame, ...]) -> bool:
    # Whether the routine that user code last called is one that starts, or ends, a region.
    last = ""
    for frame in frames:
        routine = routine_of(runtime, frame)
        if routine is not None:
            last = routine
        elif last or is_users(runtime, frame):
            break
    return _FORK.match(last) is not None
