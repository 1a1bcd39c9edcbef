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

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ompd import naming
from ompd.contract.code import RUNTIME, SYSTEM, UNKNOWN, USER, construct_passed, entry_of, owner
from ompd.contract.helpers.entries import asks_only
from ompd.contract.plugin import ConstructCode, TaskHandle
from ompd.errors import CorruptState, MemoryFault, OmpdError, Unavailable

if TYPE_CHECKING:
    from ompd.contract.process import Frame
    from ompd.runtimes.libgomp.plugin import Runtime
    from ompd.runtimes.libgomp.regions import Region
    from ompd.runtimes.libgomp.tasks import Task
    from ompd.runtimes.libgomp.threads import Thread

BEGIN = "(a worker's first routine)"
_FORKS = "GOMP_parallel"
_BEGIN_THREADS = ("start_thread", "clone", "__clone", "__clone3", "clone3")
_UNDEFERRED = ("GOMP_task", "GOMP_taskloop", "GOMP_taskloop_ull")
# GOMP_taskwait and GOMP_taskwait_depend execute children of the task that called them (task.c: both take tasks of its
# children_queue alone), and none of a task that has ended: its children have no parent any more.
_WAITS_FOR_CHILDREN = "GOMP_taskwait"
# These call the code of constructs that are neither regions nor tasks here.
TARGETS = ("GOMP_target", "GOACC_")
_NEITHER = ("GOMP_teams", *TARGETS)
PARALLEL, TASK, UNDEFERRED = "parallel", "task", "undeferred"
# The barriers of a team: that at its region's end, and the one that is for all others.
FINAL, INNER = "final", "inner"

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
    return naming.routine_name(symbol) if symbol is not None else None


def parsed(thread: Thread) -> Parsed:
    """Return the stack of *thread*, read once."""
    return parsed_of(thread.runtime, thread.native)


def parsed_of(runtime: Runtime, native: int) -> Parsed:
    """Return the stack of the thread with that native id, read once."""
    known = runtime.stacks
    if native not in known:
        known[native] = _parse(runtime, native)
    return known[native]


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
            if _is_code_left(runtime, frames, index, stack.stopped):
                break
            index += 1
        groups.append(_group(runtime, frames, inner, index, stack.stopped))
        index += 1
    return Parsed(frames, tuple(groups), stack.stopped)


def _is_runtimes(runtime: Runtime, frame: Frame) -> bool:
    # There may be frames of another runtime, or of another copy of this one, on the stack.
    is_ours = runtime.process.module_at(frame.call_site) is runtime.module
    return is_ours and not frame.is_signal_frame and owner_at(runtime, frame.call_site) == RUNTIME


def _is_code_left(runtime: Runtime, frames: Sequence[Frame], inner: int, stopped: str | None) -> bool:
    # Whether the code of a construct stood between two of the runtime's frames, and ended by a jump to what is the
    # inner one now. Routines call that code by a pointer, and nothing else that is the runtime's.
    outer = frames[inner + 1]
    name = routine_at(runtime, outer.call_site)
    inner_routine = routine_at(runtime, frames[inner].call_site)
    if name is None and not is_entry(inner_routine) and not _is_first(runtime, frames, inner + 1, stopped):
        return False
    if name is not None and not name.startswith((_FORKS, *_UNDEFERRED)):
        # Any other that waits executes tasks, which may end by waiting as well; or it has called the code of a teams or
        # target construct.
        return is_entry(inner_routine) and runtime.process.calls_by_pointer(outer.pc) is True
    return runtime.process.calls_by_pointer(outer.pc) is True


def _is_first(runtime: Runtime, frames: Sequence[Frame], index: int, stopped: str | None) -> bool:
    # Whether it is the frame of the routine with which a worker began.
    is_last = index + 1 == len(frames) and stopped is None
    return is_last or (index + 1 < len(frames) and _begins_thread(runtime, frames[index + 1]))


def _group(runtime: Runtime, frames: Sequence[Frame], inner: int, outer: int, stopped: str | None) -> Group:
    if outer + 1 < len(frames) and _is_runtimes(runtime, frames[outer + 1]):
        entry, caller = _jumped_to(runtime, frames, outer), None
    else:
        entry, caller = _entry(runtime, frames, outer, stopped)
    called = frames[inner - 1] if inner else None
    if called is None or called.is_signal_frame:
        code = None
    elif _is_runtimes(runtime, called):
        # Further inside than a worker's first routine are those that wait at the region's end, and execute tasks.
        is_first = inner == outer and entry == BEGIN
        code = PARALLEL if is_first else _code_within(runtime, frames[inner], entry)
    elif inner == outer and entry == BEGIN:
        # A worker's first routine calls nothing of the C library: what it seems to has the code of a region jumped to.
        code = PARALLEL
    elif naming.is_added(runtime.process.locate(called.call_site).symbol or ""):
        code = None  # it copies the arguments of a task
    elif owner_at(runtime, called.call_site) == SYSTEM:
        # What the runtime calls of the C library is no construct's code, unless that was left by a jump.
        code = None
    else:
        code = _code_within(runtime, frames[inner], entry)
    return Group(inner, outer, entry, code, caller)


def _jumped_to(runtime: Runtime, frames: Sequence[Frame], index: int) -> str | None:
    # The entry point to which the code of a construct ended by a jump, which may have jumped on to what is there now.
    name = routine_at(runtime, frames[index].call_site)
    function = runtime.process.function_called(frames[index + 1])
    if is_entry(name) or function is None:
        return name
    ways = runtime.process.tail_calls(function, frames[index].function_start or 0)
    targets = (next((jump.target for jump in way if owner_at(runtime, jump.target) == RUNTIME), None) for way in ways)
    found = {routine_at(runtime, target) for target in targets if target is not None}
    return found.pop() if len(found) == 1 else name


def _code_within(runtime: Runtime, frame: Frame, entry: str | None) -> str | None:
    # What a frame of the runtime's has called. A routine without a name in that of a teams or target construct calls
    # the code of that.
    by = routine_at(runtime, frame.call_site) or ""
    return None if not by and (entry or "").startswith(_NEITHER) else _code_called_by(by)


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
        return (BEGIN if stopped is None and not is_entry(exported) else exported), None
    # A tail call inside of the runtime takes the routine that was called from the stack: the call itself tells. One in
    # user code takes the caller.
    called = runtime.process.routine_called(frames[outer + 1].pc)
    name = naming.routine_name(called) if called is not None else None
    if name is not None and not is_entry(name):
        return routine_at(runtime, frames[outer].call_site), None
    return name or routine_at(runtime, frames[outer].call_site), outer + 1


def _begins_thread(runtime: Runtime, frame: Frame) -> bool:
    # In a static program nothing but its name tells that a routine is the C library's.
    return owner_at(runtime, frame.call_site) == SYSTEM or routine_at(runtime, frame.call_site) in _BEGIN_THREADS


def is_entry(routine: str | None) -> bool:
    """Tell whether a routine is one of the runtime's that user code calls."""
    return naming.is_entry(routine)


# What a thread waits for


def innermost_group(thread: Thread) -> Group | None:
    """Return the runtime's frames inside of the innermost user code, None if that runs itself.

    A handler of a signal is no end to the wait in which the signal came, but it may wait itself.
    """
    frames, groups, _ = parsed(thread)
    handled = 0
    for index, frame in enumerate(frames):
        if frame.is_signal_frame:
            if any(group.code is not None and group.outer < index for group in groups):
                break  # the handler is in a region, or runs a task
            group = _innermost_from(thread, handled)
            if group is not None and group.outer < index and not asks_only(group.entry or ""):
                return group
            handled = index + 1
    return _innermost_from(thread, handled)


def _innermost_from(thread: Thread, first: int) -> Group | None:
    # The first group from that frame on, None if the user's code is inside of it.
    frames, groups, _ = parsed(thread)
    group = next((group for group in groups if group.outer >= first), None)
    if group is None or any(is_users(thread.runtime, frame) for frame in frames[first : group.inner]):
        return None
    return group


def is_interrupted(thread: Thread, group: Group) -> bool:
    """Tell whether a signal came while the thread was in *group*, and its handler has not ended."""
    return group.inner > 0 and parsed(thread).frames[group.inner - 1].is_signal_frame


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
    # What a handler of a signal waits for is not what the thread waited for before.
    first = outermost.inner if is_interrupted(thread, outermost) else 0
    return waits_at_dock(thread, frames[first : outermost.outer + 1])


def is_in_region(thread: Thread) -> bool:
    """Tell whether a worker's stack shows that it has not left the code of its region."""
    groups = parsed(thread).groups
    return bool(groups) and groups[-1].entry == BEGIN and groups[-1].code is not None


def is_in_code(thread: Thread, region: Region) -> bool:
    """Tell whether the code of *region* is on the stack of *thread*, or ended by a jump to what is there."""
    at = hosted(thread).get(region.address)
    return at is not None and parsed(thread).groups[at].code == PARALLEL


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
    is_whole = frames[:1] == parsed(thread).frames[:1]
    awaited = futex_word(thread) if is_whole else runtime.process.futex_word(frames[0])
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
    awaited = thread.runtime.process.futex_word(parsed(thread).frames[group.inner])
    return awaited in words if awaited is not None else not words.isdisjoint(waiting_words(thread, group))


def barrier_at_end(thread: Thread, group: Group, region: Region) -> str | None:
    """Return the barrier at which a thread waits that has left the code of *region*, None if it waits at none.

    It is that of the region's end, unless the code ended with a jump to a routine that has a barrier of its own: then
    the runtime's outermost routine has called the code by its address, and not a routine of its own.
    """
    if group.code != TASK and not waits_for_team(thread, group, region):
        return None
    direct = calls_its_own(thread, group)
    if direct is None:  # then the barrier at which anybody has arrived
        total = region.barrier.unsigned("barrier.total")
        inner, final = (region.barrier.unsigned(f"barrier.{name}") != total for name in ("awaited", "awaited_final"))
        return INNER if inner and not final else FINAL
    return FINAL if direct else INNER


def calls_its_own(thread: Thread, group: Group) -> bool | None:
    """Tell whether the outermost routine of *group* has called one of the runtime, and not code whose address it was
    given. None if the code does not tell.
    """
    if group.outer == group.inner:
        return None
    by_pointer = thread.runtime.process.calls_by_pointer(parsed(thread).frames[group.outer].pc)
    return not by_pointer if by_pointer is not None else None


def is_at_unnamed_barrier(thread: Thread, group: Group, region: Region) -> bool:
    """Tell whether a thread waits at the barrier of *region* in a routine of the runtime that user code has jumped
    to, so that nothing says which that is.
    """
    if group.entry is not None:
        return False
    words = {region.view.address_of(f"barrier.{name}") for name in ("total", "generation")}
    awaited = futex_word(thread)
    if awaited is None:
        return not words.isdisjoint(parsed(thread).frames[group.inner].registers.values())
    return awaited in words


def waiting_words(thread: Thread, group: Group) -> list[int]:
    """Return the words that may be the address of what the routine of *group* waits for, likely ones first: those that
    its registers hold, then those on its part of the stack.
    """
    return list(dict.fromkeys(_words(thread.runtime, parsed(thread).frames[group.inner : group.outer + 1])))


def _words(runtime: Runtime, frames: Sequence[Frame]) -> list[int]:
    return [value for frame in frames for value in frame.registers.values()] + words_of(runtime, frames)[1]


def words_of(runtime: Runtime, frames: Sequence[Frame]) -> tuple[int, list[int]]:
    """Return where the part of a stack begins that *frames* have, and its words, as far as it can be read."""
    size, order = runtime.process.pointer_size, runtime.process.byte_order
    start, end = frames[0].sp, frames[-1].cfa if frames[-1].cfa is not None else frames[-1].sp
    length = min(end - start, _MAX_WORDS * size)
    if length <= 0:
        return start, []
    try:
        raw = runtime.process.read(start, length)
    except MemoryFault:
        return start, []
    return start, [int.from_bytes(raw[at : at + size], order) for at in range(0, length - size + 1, size)]


# Whose code is where


def hosted(thread: Thread) -> Mapping[int, int]:
    """Return, by the address of a region's team, the number of its group among :attr:`Parsed.groups`, worked out once.

    A region of the thread is not in it where that is not certain. No task is looked for.
    """
    return _once(thread.runtime.hosted, thread, _match)


def code_of(thread: Thread) -> Sequence[ConstructCode]:
    """Return whose code is where on the stack of *thread*, innermost first, worked out once."""
    return _once(thread.runtime.codes, thread, _code)


_T = TypeVar("_T")


def _once(known: dict[int, _T | OmpdError], thread: Thread, work: Callable[[Thread], _T]) -> _T:
    found = known.get(thread.native)
    if found is None:
        known[thread.native] = Unavailable("whose code is on the stack depends on itself")  # in damaged structures
        try:
            found = work(thread)
        except OmpdError as error:
            found = error
        known[thread.native] = found
    if isinstance(found, OmpdError):
        raise found
    return found


def is_told_apart(thread: Thread, group: Group) -> bool:
    """Tell whether it is known which region *group* stands for, or that it stands for one that is none yet, or any
    more: then the thread is not at its end.
    """
    groups, regions = parsed(thread).groups, thread.hosted_regions()
    if groups.index(group) in hosted(thread).values():
        return True
    return parsed(thread).stopped is None and sum(1 for each in groups if each.forks) == len(regions) + 1


def construct_code(thread: Thread) -> list[ConstructCode]:
    """See :meth:`ThreadHandle.construct_code`."""
    return list(code_of(thread))


def _match(thread: Thread) -> Mapping[int, int]:
    stack = parsed(thread)
    regions = thread.hosted_regions()
    # The runtime's routine that began a region stays on the stack as long as the region does.
    forks = [number for number, group in enumerate(stack.groups) if group.forks]
    if len(forks) == len(regions) - 1 and stack.groups and not stack.groups[0].forks:
        # At the end of the innermost region that routine has left the stack by a jump, as has the code that called it.
        group = stack.groups[0]
        if group.code is None and thread.thread_num() == 0 and is_at_unnamed_barrier(thread, group, regions[0]):
            forks.insert(0, 0)
    elif len(forks) == len(regions) + 1 and forks[0] == 0 and stack.groups[0].code is None:
        # That routine has no region yet, or none any more: gomp_team_end() lets go of the team before it waits until
        # the others of a nested one have left its barrier.
        del forks[0]
    certain = len(forks) == len(regions) and stack.stopped is None
    return {region.address: number for number, region in zip(forks, regions, strict=True)} if certain else {}


def _code(thread: Thread) -> Sequence[ConstructCode]:
    stack = parsed(thread)
    regions = {number: thread.runtime.team_at(team) for team, number in hosted(thread).items()}
    # The innermost code is that of the current task. What lies around a region that the thread met, or around a task
    # that was not deferred, is that of the task that generated it; so is what lies around one that a routine has begun
    # that waits for children and begins no others. Around other deferred ones a task has to be looked for.
    try:
        task: TaskHandle | None = thread.current_task()
    except OmpdError:
        task = None
    found: list[ConstructCode] = []
    likely: dict[int, dict[str, Task]] = {}
    outside = _met_targets(thread)
    numbers = {membership.team: membership.number for membership in thread.memberships[::-1]} if regions else {}
    for number, group in enumerate(stack.groups):
        region = regions.get(number)
        place = group.inner - 1
        if number in outside:
            if group.code is None:
                found.append(_row(place, "target", None, task))
            task = outside[number]
        if group.code in (TASK, UNDEFERRED):
            if task is None or task.kind() != "explicit":
                task = None
                likely[len(found)] = _likely(thread, stack, group)
            found.append(_row(place, "task", None, task))
            by_parent = group.code == UNDEFERRED or (group.entry or "").startswith(_WAITS_FOR_CHILDREN)
            task = task.generating() if by_parent and task is not None else None
        if group.forks:
            implicit = region.implicit_task(numbers[region.address]) if region is not None else None
            if group.code == PARALLEL:
                found.append(_row(place, "parallel", region, implicit))
            task = implicit.generating() if implicit is not None and group.entry != BEGIN else None
    _give(found, likely)
    return found


def _met_targets(thread: Thread) -> dict[int, TaskHandle | None]:
    # By the groups that called the code of target regions: the tasks that met these.
    found: dict[int, TaskHandle | None] = {}
    for depth, context in enumerate(thread.contexts):
        if context.target is not None:
            try:
                found[context.target.group] = thread.task_outside(depth)
            except OmpdError:
                found[context.target.group] = None
    return found


def _row(place: int, kind: str, region: Region | None, task: TaskHandle | None) -> ConstructCode:
    return ConstructCode(place, kind, region, task, "derived" if task is not None else None)


def _give(found: list[ConstructCode], likely: dict[int, dict[str, Task]]) -> None:
    # A task has one place on a stack. So one of several that may be meant is none that has a place already.
    meant: dict[str, list[int]] = {}
    for at, tasks in likely.items():
        for name in tasks:
            meant.setdefault(name, []).append(at)
    for code in found:
        if code.task is not None:
            for at in meant.pop(code.task.id, ()):
                del likely[at][code.task.id]
    clear = [at for at, tasks in likely.items() if len(tasks) == 1]
    heapify(clear)
    while clear:
        at = heappop(clear)
        if len(likely[at]) != 1:
            continue  # it was the last one that another place could mean, too
        ((name, task),) = likely[at].items()
        found[at] = found[at]._replace(task=task, source="derived")
        for other in meant.pop(name):
            del likely[other][name]
            if len(likely[other]) == 1:
                heappush(clear, other)


def _likely(thread: Thread, stack: Parsed, group: Group) -> dict[str, Task]:
    # Explicit tasks that others were begun for: they have the function, and the runtime's routine that called that has
    # the task's address in its registers or on its part of the stack.
    if group.code == UNDEFERRED:
        # It lies in the frame of the routine that called its code.
        low, high = stack.frames[group.inner].sp, stack.frames[group.inner].cfa
        known = thread.runtime.undeferred_tasks
        if high is None:
            return {}
        tasks = (thread.runtime.task_at(at) for at in known[bisect_left(known, low) : bisect_left(known, high)])
        return {task.id: task for task in tasks}
    place = stack.frames[group.inner - 1]
    entry = _start(thread.runtime, place)
    begun = thread.runtime.begun_tasks
    words = set(_words(thread.runtime, stack.frames[group.inner : group.outer + 1]))
    meant = (begun[word] for word in words if word in begun)
    # Where the runtime's own routine is there, a task's code ended by a jump to it, and it may be any task's.
    is_left = _is_runtimes(thread.runtime, place)
    return {task.id: task for task in meant if is_left or task.view.pointer("fn") == entry}


def _start(runtime: Runtime, frame: Frame) -> int | None:
    # Where the function of a frame begins.
    place = runtime.process.locate(frame.call_site)
    return entry_of(runtime.process, frame.call_site) if place.symbol is not None else frame.function_start


def thread_of_suspended(task: Task) -> Thread:
    """Return the thread on whose stack a task lies below others.

    :raises Unavailable: if it is on none that could be read
    """
    found = _thread_around(task.runtime, task.address) if task.is_undeferred else task.runtime.suspended.get(task.id)
    if found is None:
        raise Unavailable("no stack shows on which thread the task was left for another one")
    return found


def _thread_around(runtime: Runtime, address: int) -> Thread | None:
    # The thread on whose stack an address lies.
    extents = runtime.stack_extents
    for low, high, furthest, thread in reversed(extents[: bisect_right(extents, address, key=lambda e: e[0])]):
        if low <= address < high:
            return thread
        if furthest <= address:
            break
    return None


def undeferred_entry(task: Task) -> int | None:
    """Return the entry of the code of a task that was not deferred, which libgomp does not note.

    :raises Unavailable: if it is on no stack that could be read
    """
    thread = task.thread()
    if thread is None:
        raise Unavailable("the task is on no thread")
    frames = parsed(thread).frames
    code_of(thread)  # which says so if the stack cannot be read
    for code in task.runtime.code_of_tasks[thread.native].get(task.id, ()):
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
            at = hosted(thread).get(region.address)
        except OmpdError:
            continue  # a stack that cannot be read says nothing; the others may
        if at is None:
            continue
        frames, groups, _ = parsed(thread)
        if groups[at].code == PARALLEL:
            inner = groups[at].inner
            entry = _called_by_pointer(region.runtime, frames[inner])
            entry = entry if entry is not None else _region_start(region.runtime, frames[inner - 1])
            if entry is not None:
                return entry
    try:
        # The call that began it says which function it passed.
        entry = _passed(region)
    except OmpdError:
        entry = None
    if entry is not None:
        return entry
    raise Unavailable(f"libgomp does not keep a region's function, and {size} of its threads have left it")


def _passed(region: Region) -> int | None:
    thread, process = region.thread(0), region.runtime.process
    at = hosted(thread).get(region.address)
    frames, groups, _ = parsed(thread)
    if at is None or groups[at].entry == BEGIN or groups[at].outer + 1 >= len(frames):
        return None
    routine = entry_of(process, frames[groups[at].outer].call_site)
    return construct_passed(process, frames[groups[at].outer + 1].pc, routine)


def _called_by_pointer(runtime: Runtime, frame: Frame) -> int | None:
    # The user's function that one of the runtime's routines called, whatever that ended with.
    function = runtime.process.function_called(frame)
    return function if function is not None and owner_at(runtime, function) == USER else None


def _region_start(runtime: Runtime, frame: Frame) -> int | None:
    # What runs there may be what the function ended with, by a jump; names tell.
    if not is_users(runtime, frame):
        return None
    symbol = runtime.process.locate(frame.call_site).symbol
    if symbol is not None and naming.parse_outlined(symbol) is None:
        return None
    return _start(runtime, frame)


def encountering_frames(region: Region) -> tuple[Frame, ...]:
    """Return the frames outside of *region* on its primary thread, from the user's that encountered it outwards.

    :raises Unavailable: if that frame is not on the stack, or not to be told from others
    """
    thread = region.thread(0)
    at = hosted(thread).get(region.address)
    frames, groups, stopped = parsed(thread)
    if at is None and stopped is not None:
        raise Unavailable(f"the primary thread's stack cannot be followed out of the region: {stopped}")
    if at is None:
        raise Unavailable("the region's frame is not to be told from others on its primary thread's stack")
    caller, outer = groups[at].caller, groups[at].outer
    if caller is None and outer + 1 < len(frames) and _is_runtimes(region.runtime, frames[outer + 1]):
        return frames[outer:]  # the code of another region ended by the jump to it
    whose = owner_at(region.runtime, frames[caller].call_site) if caller is not None else None
    # In a static program names do not tell the user's functions from the C library's; a call of an entry point does.
    if whose == USER or (whose == UNKNOWN and is_entry(groups[at].entry)):
        return frames[caller:]
    if whose == UNKNOWN:
        raise Unavailable("which frame outside of the region is the user's cannot be told: nothing but names tells")
    raise Unavailable("the function that encountered the region has left the stack by a tail call")
