"""The lock that a thread waits for, by the routine that it has called and the word on which it waits.

A turn in an ordered or doacross loop also counts as a lock. Its holder executes the preceding iteration.

A doacross loop has counters in ``gomp_doacross_work_share.array`` (``GOMP_doacross_wait``, ordered.c): one for each
thread if the schedule is static, else one for each chunk. A counter is one more than the last posted iteration. The
iterations of nested loops are packed into one number, the outermost in its upper bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ompd.contract.memory import StructView, read_signed, read_unsigned
from ompd.contract.waits import LockState
from ompd.errors import CorruptState, LayoutUnavailable, MemoryFault, OmpdError, Unavailable
from ompd.runtimes.libgomp.members import Membership
from ompd.runtimes.libgomp.stacks import Group

if TYPE_CHECKING:
    from ompd.runtimes.libgomp.handles import Thread
    from ompd.runtimes.libgomp.runtime import Runtime

# A mutex is 0 if it is free, 1 if it is held, -1 if it is held and a thread waits.
_HELD = (1, -1)
_PLAIN_LOCKS = ("omp_set_lock", "omp_set_lock_")
_NEST_LOCKS = ("omp_set_nest_lock", "omp_set_nest_lock_")
_DOACROSS = ("GOMP_doacross_wait", "GOMP_doacross_ull_wait")
_DOACROSS_WORK_SHARE = "gomp_doacross_work_share"
# enum gomp_schedule_type
_STATIC, _GUIDED = 1, 3


def lock_of(thread: Thread) -> LockState | None:
    """Return the lock that a thread waits for, None if it waits for none.

    :raises Unavailable: if the thread's registers show no lock or several, or if the thread has already acquired the
        lock
    """
    group = thread.stack.innermost_group()
    if group is None:
        return None
    entry = group.entry
    if entry in _DOACROSS:
        return _iteration(thread, group)
    if entry == "GOMP_ordered_start":
        return _turn(thread)
    if entry in _PLAIN_LOCKS:
        address = _mutex(thread, group, users=True)
        return LockState(address, "lock", None, (), address)
    if entry in _NEST_LOCKS:
        address = _mutex(thread, group, users=True)
        owner = _nest_owner(thread, address)
        return LockState(
            address, "lock", owner.native, (), address, False, owner.address, owner.value, owner.gone, owner.fault
        )
    if entry == "GOMP_critical_name_start":
        address = _mutex(thread, group, users=True)
        return LockState(address, "critical", None, (), address)
    if entry in ("GOMP_critical_start", "GOMP_atomic_start"):
        address = _mutex(thread, group, users=False)
        kind = "critical" if entry == "GOMP_critical_start" else "atomic"
        return LockState(address, kind, None, (), None, is_unnamed=kind == "critical")
    return _internal(thread)


def _internal(thread: Thread) -> LockState | None:
    # A lock of the runtime itself, if the thread sleeps on it: the lock of a live team's task lists, or a variable. The
    # holder is recorded nowhere.
    runtime, word = thread.runtime, thread.stack.futex_word()
    if word is None:
        return None
    for team in runtime.roster.live_teams:
        if word == runtime.team_at(team).view.address_of("task_lock"):
            return LockState(word, "internal", None, (), name="gomp_team.task_lock")
    place = runtime.process.locate(word)
    symbol = place.symbol if place.symbol_address == word else None
    is_lock = symbol is not None and symbol.endswith("_lock") and place.module is runtime.module
    return LockState(word, "internal", None, (), name=symbol) if is_lock else None


def _mutex(thread: Thread, group: Group, *, users: bool) -> int:
    # The word on which the thread sleeps. If the thread spins, the only held mutex whose address is in its registers or
    # on its stack. If there are several, because the thread holds others, the one that the caller's code passed.
    awaited = thread.stack.futex_word()
    if awaited is not None:
        return awaited
    held = [word for word in thread.stack.waiting_words(group) if _is_held(thread.runtime, word, users)]
    if len(held) > 1 and users and group.caller is not None:
        passed = thread.runtime.process.object_passed(thread.stack.frames[group.caller])
        held = [word for word in held if word == passed]
    if len(held) != 1:
        raise Unavailable("the thread's registers do not show which lock it asks for")
    return held[0]


def _is_held(runtime: Runtime, address: int, users: bool) -> bool:
    if address % 4 or not address:
        return False
    module = runtime.process.module_at(address)
    if users == (module is runtime.module) or (module is not None and module.is_system_library):
        return False
    try:
        return read_signed(runtime.process, address, 4) in _HELD
    except (MemoryFault, CorruptState):
        return False


# Nested locks


class _Owner(NamedTuple):
    # The holder of a lock, and the word that records the holder. The fields mean what LockState's fields ``owner`` and
    # ``owner_*`` mean.
    native: int | None
    address: int | None = None
    value: int | None = None
    gone: str | None = None
    fault: CorruptState | None = None


def _nest_owner(thread: Thread, address: int) -> _Owner:
    # The holder of the nestable lock at *address*. omp_nest_lock_t.owner is the address of the ICVs in the gomp_task
    # that holds the lock.
    runtime, tasks = thread.runtime, thread.runtime.tasks
    view = StructView(runtime.process, runtime.layouts["omp_nest_lock_t"], address)
    value = view.pointer("owner")
    if value is None:
        return _Owner(None)  # the lock is being released
    task, word = value - runtime.layouts["gomp_task"].field("icv").offset, view.address_of("owner")
    if task == thread.view.pointer("task"):
        # A task never waits for a nestable lock that it holds. So the thread has just acquired the lock and is about to
        # return.
        raise Unavailable("the thread has just got the lock")
    if task in tasks.implicit or task in tasks.current or task in tasks.explicit():
        holder = runtime.task_at(task).thread()
        return _Owner(holder.native if holder is not None else None, word, value)
    try:
        initial = tasks.initial.get(task)
        if initial is not None:
            return _Owner(initial.native, word, value)
        tasks.check_all_are_known()
    except OmpdError:
        return _Owner(None, word, value)
    fault = _fault_of_owner(runtime, address, value, task)
    return _Owner(None, fault=fault) if fault is not None else _finished_owner(runtime, task, word, value)


def _fault_of_owner(runtime: Runtime, lock: int, value: int, task: int) -> CorruptState | None:
    # The reason why *value*, from the lock's owner, is wrong: no task, not even one that is over, can have been at
    # *task*. None if a task can have been there.
    tasks, size = runtime.tasks, runtime.layouts.size("gomp_task")
    if value % runtime.heap.pointer_size:
        return CorruptState(lock, f"owner is {value:#x}, which is no multiple of {runtime.heap.pointer_size}")
    try:
        runtime.process.read(task, runtime.heap.pointer_size)
    except MemoryFault as fault:
        return CorruptState(lock, f"owner is {value:#x}, where no task was: {fault}")
    for other in (*tasks.implicit, *tasks.current, *tasks.explicit(), *tasks.initial):
        if abs(task - other) < size:
            return CorruptState(lock, f"owner is {value:#x}, which is inside of the task at {other:#x}")
    return None


def _finished_owner(runtime: Runtime, task: int, word: int, value: int) -> _Owner:
    # The owner of a lock whose owning task is over. If it was an implicit task of a pool's last region, the thread may
    # still be known, because the pool keeps that region's team with its implicit tasks.
    for team in runtime.last_teams:
        try:
            number, remainder = divmod(task - runtime.team_at(team).first_task, runtime.layouts.size("gomp_task"))
            if remainder or not 0 <= number < runtime.team_at(team).nthreads:
                continue
        except OmpdError:
            continue
        gone = f"the implicit task of thread {number} in a region that is over"
        holders = [thread for thread in runtime.threads() if _was_in(thread, team, number)]
        return _Owner(holders[0].native if len(holders) == 1 else None, word, value, gone)
    return _Owner(None, word, value, f"task {task:#x}, which is over: no thread has it")


def _was_in(thread: Thread, team: int, number: int) -> bool:
    # Whether the thread had this number in a region that is over. Only workers keep their old place in their
    # gomp_thread; the primary thread, number 0, does not.
    try:
        return number != 0 and thread.claims[:1] == (Membership(team, number),)
    except OmpdError:
        return False


# Turns of loops


def _turn(thread: Thread) -> LockState:
    # The turn in an ordered loop, as a lock. Each thread waits at its own semaphore. The owner is the thread whose turn
    # it is, which the loop's work share records.
    semaphore = thread.view.address_of("release")
    share = thread.view.pointer("ts.work_share")
    if share is None or not thread.memberships:
        return LockState(semaphore, "ordered", None, ())
    view = thread.runtime.view("gomp_work_share", share)
    number = view.signed("ordered_owner")
    region = thread.runtime.team_at(thread.memberships[0].team)
    if not 0 <= number < region.nthreads or number == thread.memberships[0].number:
        return LockState(semaphore, "ordered", None, ())
    owner, word = region.thread(number).native, view.address_of("ordered_owner")
    return LockState(semaphore, "ordered", owner, (), owner_address=word, owner_value=number)


def _iteration(thread: Thread, group: Group) -> LockState:
    # The iteration of a doacross loop for which the thread waits, as a lock. The owner is known only if the schedule is
    # static.
    runtime, share = thread.runtime, thread.view.pointer("ts.work_share")
    if _DOACROSS_WORK_SHARE not in runtime.layouts.structs:
        raise LayoutUnavailable(f"nothing tells the layout of {_DOACROSS_WORK_SHARE}")
    if share is None or not thread.memberships or group.caller is None:
        raise Unavailable("the thread is in no loop that the runtime knows")
    loop = runtime.view("gomp_work_share", share)
    address = loop.pointer("doacross")
    if address is None:
        raise Unavailable("the loop has no counters: its iterations wait for nothing")
    counters, team = runtime.view(_DOACROSS_WORK_SHARE, address), runtime.team_at(thread.memberships[0].team)
    passed = runtime.process.arguments_passed(thread.stack.frames[group.caller])
    first = passed[0] if passed and passed[0] is not None and passed[0] < loop.unsigned("end") else None
    is_static, count = loop.unsigned("sched") == _STATIC, team.nthreads
    if first is not None:
        index = _counter_of(loop, counters, first, count)
    else:
        index = _counter_in_registers(thread, group, counters, count)
    array = counters.pointer("array")
    if array is None:
        raise Unavailable("the loop has no counters: its iterations wait for nothing")
    counter = array + index * counters.unsigned("elt_sz")
    is_done = _is_done(counters, read_unsigned(runtime.process, counter, 8), first) if first is not None else None
    if is_done:
        raise Unavailable("the iteration for which it waits is done")
    owner = team.thread(index).native if is_static and index < count else None
    is_nest = counters.unsigned("ncounts") > 1
    suffix = " of the outermost loop" if is_nest else ""
    name = f"iteration {first}{suffix}" if first is not None else None
    number = None if is_nest else first
    return LockState(
        counter, "doacross", owner, (), name=name, is_searched=is_done is None, loop=address, iteration=number
    )


def _counter_in_registers(thread: Thread, group: Group, counters: StructView, count: int) -> int:
    # The index of the counter whose address a register holds. The first counter is ignored if there is another, because
    # a register may also hold the start of the array.
    array, size = counters.pointer("array"), counters.unsigned("elt_sz")
    if array is None or not size:
        raise Unavailable("for which iteration of the loop it waits is not known")
    frames = thread.stack.frames[group.inner : group.outer + 1]
    offsets = {value - array for frame in frames for value in frame.registers.values()}
    indexes = {offset // size for offset in offsets if 0 <= offset < count * size and offset % size == 0}
    indexes = indexes - {0} or indexes
    if len(indexes) != 1:
        raise Unavailable("for which iteration of the loop it waits is not known")
    return indexes.pop()


def _counter_of(loop: StructView, counters: StructView, iteration: int, count: int) -> int:
    # The index of an iteration's counter.
    schedule, chunk = loop.unsigned("sched"), loop.unsigned("chunk_size")
    if schedule == _GUIDED:
        return iteration
    if schedule != _STATIC:
        return iteration // max(counters.unsigned("chunk_size"), 1)
    if chunk:
        return iteration // chunk % count
    size, boundary = counters.unsigned("q"), counters.unsigned("boundary")
    if iteration < boundary:
        return iteration // (size + 1)
    return (iteration - boundary) // max(size, 1) + counters.unsigned("t")


def _is_done(counters: StructView, value: int, iteration: int) -> bool | None:
    # Whether *iteration* of the outermost loop has been posted. None if that depends on the iterations of the inner
    # loops.
    if counters.unsigned("ncounts") == 1:
        return value > iteration
    if not counters.unsigned("flattened"):
        return None
    shift = read_unsigned(counters.memory, counters.address_of("shift_counts"), 4)
    outermost = value >> shift
    return None if outermost == iteration else outermost > iteration
