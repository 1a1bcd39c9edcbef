"""What a thread's native stack shows: where the runtime's routines called the code of regions and tasks, and for what
the innermost code waits.

libgomp keeps no frames, and no function of a region. But its entry points are exported, user code calls them through
its linkage table, and each calls the code of constructs in one way alone:

- a region's code is called by ``GOMP_parallel`` and its like on the primary thread, and on a worker by the routine with
  which the thread began, which is the outermost of the runtime's;
- ``GOMP_task`` and ``GOMP_taskloop`` themselves call the code of a task that is not deferred;
- all other code that the runtime calls is that of a deferred task, which runs where its thread waits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ompd import outlined
from ompd.contract.code import RUNTIME, SYSTEM, USER, entry_of, owner
from ompd.contract.plugin import ConstructCode, TaskHandle
from ompd.errors import CorruptState, MemoryFault, OmpdError, Unavailable

if TYPE_CHECKING:
    from ompd.contract.process import Frame
    from ompd.plugins.libgomp.plugin import Runtime
    from ompd.plugins.libgomp.regions import Region
    from ompd.plugins.libgomp.tasks import Task
    from ompd.plugins.libgomp.threads import Thread

BEGIN = "(a worker's first routine)"
_FORKS = "GOMP_parallel"
_BEGIN_THREADS = ("start_thread", "clone", "__clone", "__clone3", "clone3")
_UNDEFERRED = ("GOMP_task", "GOMP_taskloop", "GOMP_taskloop_ull")
# These call the code of constructs that are neither regions nor tasks here.
TARGETS = ("GOMP_target", "GOACC_")
_NEITHER = ("GOMP_teams", *TARGETS)
PARALLEL, TASK, UNDEFERRED = "parallel", "task", "undeferred"

_OF_A_RELEASE = re.compile(r"gomp_((?:set|unset|test|init|destroy)_(?:nest_)?lock)_(?:25|30)$")

# Teams have many threads that would all say the same.
_MAX_ASKED = 8
# The part of a stack that one of the runtime's routines takes.
_MAX_WORDS = 1 << 12


class Group(NamedTuple):
    """Frames of the runtime that follow each other on a stack, of which user code called the outermost.

    ``inner`` and ``outer`` are indexes. ``entry`` is the routine that was called, :data:`BEGIN` on a worker for the
    one with which the thread began, None where that cannot be told. ``code`` is what it called: ``parallel``,
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
        return self.entry == BEGIN or (self.entry is not None and self.entry.startswith(_FORKS))


class Parsed(NamedTuple):
    """A thread's frames, innermost first, and the groups of the runtime's among them, innermost first.

    ``stopped`` is why the stack could not be followed to its end.
    """

    frames: tuple[Frame, ...]
    groups: tuple[Group, ...]
    stopped: str | None


def owner_at(runtime: Runtime, address: int) -> str:
    """Return whose code lies at *address*; see :func:`ompd.contract.code.owner`."""
    known = runtime.owners
    if address not in known:
        known[address] = owner(runtime.process, (runtime.module,), address)
    return known[address]


def is_users(runtime: Runtime, frame: Frame) -> bool:
    """Tell whether a frame's code is the user's."""
    return owner_at(runtime, frame.call_site) == USER


def routine_at(runtime: Runtime, address: int) -> str | None:
    """Return the name of the runtime's routine at *address* as user code calls it, None where no symbol covers it."""
    symbol = runtime.process.locate(address).symbol
    return _called(symbol) if symbol is not None else None


def _called(symbol: str) -> str:
    # Where they were not stripped, entry points have names inside of the library, too: for itself, and for releases of
    # the specification (libgomp_g.h, lock.c).
    name = symbol.partition("@")[0].removeprefix("gomp_ialias_")
    return _OF_A_RELEASE.sub(r"omp_\1", name)


def parsed(thread: Thread) -> Parsed:
    """Return the stack of *thread*, read once."""
    known = thread.runtime.stacks
    if thread.native not in known:
        known[thread.native] = _parse(thread.runtime, thread.native)
    return known[thread.native]


def _parse(runtime: Runtime, native: int) -> Parsed:
    stack = runtime.process.stack(native)
    frames = stack.frames
    groups: list[Group] = []
    inside = [_is_runtimes(runtime, frame) for frame in frames]
    index = 0
    while index < len(frames):
        if not inside[index]:
            index += 1
            continue
        inner = index
        while index + 1 < len(frames) and inside[index + 1]:
            index += 1
        groups.append(_group(runtime, frames, inner, index, stack.stopped))
        index += 1
    return Parsed(frames, tuple(groups), stack.stopped)


def _is_runtimes(runtime: Runtime, frame: Frame) -> bool:
    # There may be frames of another runtime, or of another copy of this one, on the stack.
    is_ours = runtime.process.module_at(frame.call_site) is runtime.module
    return is_ours and not frame.is_signal_frame and owner_at(runtime, frame.call_site) == RUNTIME


def _group(runtime: Runtime, frames: Sequence[Frame], inner: int, outer: int, stopped: str | None) -> Group:
    entry, caller = _entry(runtime, frames, outer, stopped)
    called = frames[inner - 1] if inner else None
    if called is None or called.is_signal_frame:
        code = None
    elif inner == outer and entry == BEGIN:
        # A worker's first routine calls nothing of the C library: what it seems to has the code of a region jumped to.
        code = PARALLEL
    elif owner_at(runtime, called.call_site) == SYSTEM:
        # What the runtime calls of the C library is no construct's code, unless that was left by a jump.
        code = None
    else:
        by = routine_at(runtime, frames[inner].call_site) or ""
        code = None if not by and (entry or "").startswith(_NEITHER) else _code_called_by(by)
    return Group(inner, outer, entry, code, caller)


def _code_called_by(routine: str) -> str | None:
    if routine.startswith(_FORKS):
        return PARALLEL
    if routine.startswith(_NEITHER):
        return None
    return UNDEFERRED if routine in _UNDEFERRED else TASK


def _entry(runtime: Runtime, frames: Sequence[Frame], outer: int, stopped: str | None) -> tuple[str | None, int | None]:
    if outer + 1 == len(frames) or _begins_thread(runtime, frames[outer + 1]):
        # The C library's routine that begins a thread called it; or a handler of its, at the end of the program.
        exported = routine_at(runtime, frames[outer].call_site)
        return (BEGIN if stopped is None and not _is_entry(exported) else exported), None
    # A tail call inside of the runtime takes the routine that was called from the stack: the call itself tells. One in
    # user code takes the caller.
    called = runtime.process.routine_called(frames[outer + 1].pc)
    name = _called(called) if called is not None else None
    if name is not None and not _is_entry(name):
        return routine_at(runtime, frames[outer].call_site), None
    return name or routine_at(runtime, frames[outer].call_site), outer + 1


def _begins_thread(runtime: Runtime, frame: Frame) -> bool:
    # In a static program nothing but its name tells that a routine is the C library's.
    return owner_at(runtime, frame.call_site) == SYSTEM or routine_at(runtime, frame.call_site) in _BEGIN_THREADS


def _is_entry(routine: str | None) -> bool:
    return routine is not None and routine.startswith(("GOMP_", "omp_", "GOACC_"))


# What a thread waits for


def innermost_group(thread: Thread) -> Group | None:
    """Return the runtime's frames inside of the innermost user code, None if that runs itself.

    A handler of a signal is no end to the wait in which the signal came.
    """
    frames, groups, _ = parsed(thread)
    handled = 0
    for index, frame in enumerate(frames):
        if frame.is_signal_frame:
            if any(group.code is not None and group.outer < index for group in groups):
                break  # the handler is in a region, or runs a task
            handled = index + 1
    for group in groups:
        if any(is_users(thread.runtime, frame) for frame in frames[handled : group.inner]):
            return None
        if group.outer >= handled:
            return group
    return None


def reaches_user(thread: Thread) -> bool:
    """Tell whether the user's code is on the stack."""
    return any(is_users(thread.runtime, frame) for frame in parsed(thread).frames)


def runs_other_code(thread: Thread) -> bool:
    """Tell whether a thread is neither in the runtime nor in the C library: in the user's code, or in such as was made
    while the program ran, through which no stack can be followed.
    """
    frames = parsed(thread).frames
    return bool(frames) and owner_at(thread.runtime, frames[0].call_site) not in (RUNTIME, SYSTEM)


def is_docked(thread: Thread) -> bool:
    """Tell whether a worker waits in the pool for its next region.

    :raises Unavailable: if its registers do not show at which barrier it waits
    :raises CorruptState: if its stack cannot be followed
    """
    frames, groups, stopped = parsed(thread)
    outermost = groups[-1] if groups else None
    if outermost is None or outermost.entry != BEGIN:
        if runs_other_code(thread):
            return False  # who waits is in the runtime
        if stopped is not None and not any(is_users(thread.runtime, frame) for frame in frames):
            sp = frames[-1].sp if frames else 0
            raise CorruptState(sp, f"whether the thread is idle cannot be told, since its stack cannot: {stopped}")
        return False
    if outermost.code is not None:
        return False
    return waits_at_dock(thread, frames[: outermost.outer + 1])


def is_in_region(thread: Thread) -> bool:
    """Tell whether a worker's stack shows that it has not left the code of its region."""
    groups = parsed(thread).groups
    return bool(groups) and groups[-1].entry == BEGIN and groups[-1].code is not None


def waits_at_dock(thread: Thread, frames: Sequence[Frame]) -> bool:
    """Tell whether a worker that runs none of the user's code is at the pool's barrier and not at its team's.

    :raises Unavailable: if the registers of *frames*, those of the runtime, show neither
    """
    runtime = thread.runtime
    pool, team = thread.thread_pool, thread.claims[-1].team if thread.claims else None
    barrier = runtime.layouts["gomp_team"].field("barrier.total").offset
    generation = runtime.layouts["gomp_team"].field("barrier.generation").offset - barrier
    dock = pool + runtime.dock_offset if pool is not None else None
    at_team = team + barrier + generation if team is not None else None
    awaited = futex_word(thread)
    if awaited is not None:
        return awaited == dock  # else at its team's barrier, or in what its code ended with by a jump: a lock
    # It looks at the word without a system call. Then a register has its address, or that of its barrier.
    innermost = next((frame for frame in frames if owner_at(runtime, frame.call_site) == RUNTIME), None)
    held = set(innermost.registers.values()) if innermost is not None else set()
    for less in (0, generation):
        seen = [word for word in (dock, at_team) if word is not None and word - less in held]
        if len(seen) == 1:
            return seen[0] == dock
    raise Unavailable("the thread's registers do not show whether it waits at its team's barrier or in the pool")


def futex_word(thread: Thread) -> int | None:
    """Return the address of the word that the thread sleeps on, None if it is in no system call of the runtime's."""
    group = innermost_group(thread)
    return thread.runtime.process.futex_word(parsed(thread).frames[group.inner]) if group is not None else None


def waits_for_team(thread: Thread, group: Group, region: Region) -> bool:
    """Tell whether the routine of *group* has the address of the barrier of *region*, or of its counter."""
    barrier = region.view.address_of("barrier.total")
    words = {barrier, region.view.address_of("barrier.generation")}
    awaited = futex_word(thread)
    return awaited in words if awaited is not None else not words.isdisjoint(waiting_words(thread, group))


def waiting_words(thread: Thread, group: Group) -> list[int]:
    """Return the words that may be the address of what the routine of *group* waits for, likely ones first: those that
    its registers hold, then those on its part of the stack.
    """
    return list(dict.fromkeys(_words(thread.runtime, parsed(thread).frames[group.inner : group.outer + 1])))


def _words(runtime: Runtime, frames: Sequence[Frame]) -> list[int]:
    held = [value for frame in frames for value in frame.registers.values()]
    size, order = runtime.process.pointer_size, runtime.process.byte_order
    start, end = frames[0].sp, frames[-1].cfa if frames[-1].cfa is not None else frames[-1].sp
    length = min(end - start, _MAX_WORDS * size)
    if length <= 0:
        return held
    try:
        raw = runtime.process.read(start, length)
    except MemoryFault:
        return held
    return held + [int.from_bytes(raw[at : at + size], order) for at in range(0, length - size + 1, size)]


# Whose code is where


class Hosted(NamedTuple):
    """Whose code is where on a thread's stack, innermost first.

    ``groups`` tells, by the address of a region's team, the number of its group among :attr:`Parsed.groups`; a region
    of the thread is not in it where that is not certain.
    """

    code: tuple[ConstructCode, ...]
    groups: dict[int, int]


def hosted(thread: Thread) -> Hosted:
    """Return whose code is where on the stack of *thread*, worked out once."""
    known = thread.runtime.hosted
    if thread.native not in known:
        known[thread.native] = _match(thread)
    return known[thread.native]


def construct_code(thread: Thread) -> list[ConstructCode]:
    """See :meth:`ThreadHandle.construct_code`."""
    return list(hosted(thread).code)


def _match(thread: Thread) -> Hosted:
    stack = parsed(thread)
    regions = thread.hosted_regions()
    # The runtime's routine that began a region stays on the stack as long as the region does.
    forks = [number for number, group in enumerate(stack.groups) if group.forks]
    certain = len(forks) == len(regions) and stack.stopped is None
    by_group = dict(zip(forks, regions, strict=True)) if certain else {}
    return Hosted(
        tuple(_code(thread, stack, by_group)), {region.address: number for number, region in by_group.items()}
    )


def _code(thread: Thread, stack: Parsed, regions: Mapping[int, Region]) -> list[ConstructCode]:
    # The innermost code is that of the current task. What lies around a region that the thread met, or around a task
    # that was not deferred, is that of the task that generated it. Around deferred ones a task has to be looked for.
    try:
        task = thread.current_task()
    except OmpdError:
        task = None
    found: list[ConstructCode] = []
    likely: dict[int, dict[str, Task]] = {}
    for number, group in enumerate(stack.groups):
        region = regions.get(number)
        place = group.inner - 1
        if group.code in (TASK, UNDEFERRED):
            if task is None or task.kind() != "explicit":
                task = None
                likely[len(found)] = _likely(thread, stack, group)
            found.append(_row(place, "task", None, task))
            undeferred = group.code == UNDEFERRED and task is not None
            task = task.generating() if undeferred and task is not None else None
        if group.forks:
            implicit = _implicit_task(thread, region) if region is not None else None
            if group.code == PARALLEL:
                found.append(_row(place, "parallel", region, implicit))
            task = implicit.generating() if implicit is not None and group.entry != BEGIN else None
    _give(found, likely)
    return found


def _row(place: int, kind: str, region: Region | None, task: TaskHandle | None) -> ConstructCode:
    return ConstructCode(place, kind, region, task, "derived" if task is not None else None)


def _give(found: list[ConstructCode], likely: dict[int, dict[str, Task]]) -> None:
    # A task has one place on a stack. So one of several that may be meant is none that has a place already.
    while likely:
        placed = {code.task.id for code in found if code.task is not None}
        left = {at: [task for name, task in tasks.items() if name not in placed] for at, tasks in likely.items()}
        known = next((at for at, tasks in left.items() if len(tasks) == 1), None)
        if known is None:
            return
        found[known] = found[known]._replace(task=left[known][0], source="derived")
        del likely[known]


def _implicit_task(thread: Thread, region: Region) -> Task:
    return region.implicit_task(next(m.number for m in thread.memberships if m.team == region.address))


def _likely(thread: Thread, stack: Parsed, group: Group) -> dict[str, Task]:
    # Explicit tasks that others were begun for: they have the function, and the runtime's routine that called that has
    # the task's address in its registers or on its part of the stack.
    if group.code == UNDEFERRED:
        # It lies in the frame of the routine that called its code.
        low, high = stack.frames[group.inner].sp, stack.frames[group.inner].cfa
        known = thread.runtime.explicit_tasks.items()
        return {t.id: t for at, t in known if t.is_undeferred and high is not None and low <= at < high}
    entry = _start(thread.runtime, stack.frames[group.inner - 1])
    words = set(_words(thread.runtime, stack.frames[group.inner : group.outer + 1]))
    begun = thread.runtime.begun_tasks.values()
    return {task.id: task for task in begun if task.address in words and task.view.pointer("fn") == entry}


def _start(runtime: Runtime, frame: Frame) -> int | None:
    # Where the function of a frame begins.
    place = runtime.process.locate(frame.call_site)
    return entry_of(runtime.process, frame.call_site) if place.symbol is not None else frame.function_start


def thread_of_suspended(task: Task) -> Thread:
    """Return the thread on whose stack a task lies below others.

    :raises Unavailable: if it is on none that could be read
    """
    for thread in task.runtime.threads():
        try:
            if task.is_undeferred:
                frames = parsed(thread).frames
                if frames and frames[0].sp <= task.address < (frames[-1].cfa or frames[-1].sp):
                    return thread
            elif any(code.task is not None and code.task.id == task.id for code in hosted(thread).code):
                return thread
        except OmpdError:
            continue  # a stack that cannot be read says nothing; the others may
    raise Unavailable("no stack shows on which thread the task was left for another one")


def undeferred_entry(task: Task) -> int | None:
    """Return the entry of the code of a task that was not deferred, which libgomp does not note.

    :raises Unavailable: if it is on no stack that could be read
    """
    thread = task.thread()
    if thread is None:
        raise Unavailable("the task is on no thread")
    frames = parsed(thread).frames
    for code in hosted(thread).code:
        if code.task is not None and code.task.id == task.id:
            entry = _start(task.runtime, frames[code.frame])
            if entry is not None:
                return entry
    raise Unavailable("libgomp does not note the function of a task that is not deferred, nor does the stack show it")


def region_entry(region: Region) -> int:
    """Return the entry of a region's function from the stacks of its threads.

    :raises Unavailable: if no thread of the team has it on its stack
    """
    size = min(region.size(), _MAX_ASKED)
    for number in range(size):
        try:
            thread = region.thread(number)
            at = hosted(thread).groups.get(region.address)
        except OmpdError:
            continue  # a stack that cannot be read says nothing; the others may
        if at is None:
            continue
        frames, groups, _ = parsed(thread)
        if groups[at].code == PARALLEL:
            entry = _region_start(region.runtime, frames[groups[at].inner - 1])
            if entry is not None:
                return entry
    raise Unavailable(f"libgomp does not keep a region's function, and {size} of its threads have left it")


def _region_start(runtime: Runtime, frame: Frame) -> int | None:
    # What runs there may be what the function ended with, by a jump; names tell.
    symbol = runtime.process.locate(frame.call_site).symbol
    if symbol is not None and outlined.parse(symbol) is None:
        return None
    return _start(runtime, frame)


def encountering_frames(region: Region) -> tuple[Frame, ...]:
    """Return the frames outside of *region* on its primary thread, from the user's that encountered it outwards.

    :raises Unavailable: if that frame is not on the stack, or not to be told from others
    """
    thread = region.thread(0)
    at = hosted(thread).groups.get(region.address)
    if at is None:
        raise Unavailable("the region's frame is not to be told from others on its primary thread's stack")
    frames, groups, _ = parsed(thread)
    caller = groups[at].caller
    if caller is None or not is_users(region.runtime, frames[caller]):
        raise Unavailable("the function that encountered the region has left the stack by a tail call")
    return frames[caller:]
