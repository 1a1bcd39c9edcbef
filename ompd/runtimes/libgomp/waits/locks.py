"""The lock that a thread waits for: by the routine that it called, and the word that it waits on."""

from __future__ import annotations

from typing import NamedTuple

from ompd.contract.memory import StructView, read_signed
from ompd.contract.waits import LockState
from ompd.errors import CorruptState, MemoryFault, OmpdError, Unavailable
from ompd.runtimes.libgomp.handles import Registry, Thread
from ompd.runtimes.libgomp.members import Membership
from ompd.runtimes.libgomp.stacks.parsed import Group
from ompd.runtimes.libgomp.structures.gomp import Space
from ompd.runtimes.libgomp.task_walk import AllTasks
from ompd.runtimes.libgomp.waits import doacross

# A mutex is 0 while it is free, 1 while it is held, -1 while it is held and somebody waits.
_HELD = (1, -1)
_PLAIN_LOCKS = ("omp_set_lock", "omp_set_lock_")
_NEST_LOCKS = ("omp_set_nest_lock", "omp_set_nest_lock_")


def lock_of(thread: Thread, tasks: AllTasks) -> LockState | None:
    """Return the lock that a thread waits for, by the routine that it called.

    :raises Unavailable: if its registers show none, or several, or it has got the lock
    """
    group = thread.stack.innermost_group()
    if group is None:
        return None
    if group.entry is None:
        return _internal(thread)
    entry = group.entry
    if entry in doacross.ROUTINES:
        return doacross.iteration_of(thread, group)
    if entry == "GOMP_ordered_start":
        return _ordered(thread)
    if entry in _PLAIN_LOCKS:
        address = _mutex(thread, group, users=True)
        return LockState(address, "lock", None, (), address)
    if entry in _NEST_LOCKS:
        address = _mutex(thread, group, users=True)
        owner = _nest_owner(thread, address, tasks)
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
    # One of the runtime's own, if it sleeps on it: that of the lists of tasks of a live team, or one of its variables.
    # It does not note who holds them.
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
    # The word that it sleeps on; of one that spins, the only held mutex that its registers lead to.
    awaited = thread.stack.futex_word()
    if awaited is not None:
        return awaited
    found = [word for word in thread.stack.waiting_words(group) if _is_held(thread.runtime, word, users)]
    if len(found) != 1:
        raise Unavailable("the thread's registers do not show which lock it asks for")
    return found[0]


def _is_held(space: Space, address: int, users: bool) -> bool:
    if address % 4 or not address:
        return False
    module = space.process.module_at(address)
    if users == (module is space.module) or (module is not None and module.is_system_library):
        return False
    try:
        return read_signed(space.process, address, 4) in _HELD
    except (MemoryFault, CorruptState):
        return False


class _Owner(NamedTuple):
    # Who holds a lock, and the word that says so; see LockState.
    native: int | None
    address: int | None = None
    value: int | None = None
    gone: str | None = None
    fault: CorruptState | None = None


def _nest_owner(thread: Thread, address: int, tasks: AllTasks) -> _Owner:
    # omp_nest_lock_t.owner is the address of the ICVs of the task that holds it.
    runtime = thread.runtime
    view = StructView(runtime.process, runtime.layouts["omp_nest_lock_t"], address)
    value = view.pointer("owner")
    if value is None:
        return _Owner(None)  # it is being given up, or was given up just now
    task, word = value - runtime.layouts["gomp_task"].field("icv").offset, view.address_of("owner")
    if task == thread.view.pointer("task"):
        # The task that has it never waits for it: it got it just now, and is about to return.
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
    fault = _fault_of(runtime, address, value, task, tasks)
    return _Owner(*_over(runtime, task, word, value)) if fault is None else _Owner(None, fault=fault)


def _fault_of(runtime: Registry, lock: int, value: int, task: int, tasks: AllTasks) -> CorruptState | None:
    # Why there cannot have been a task that no thread has.
    if value % runtime.heap.pointer_size:
        return CorruptState(lock, f"owner is {value:#x}, which is no multiple of {runtime.heap.pointer_size}")
    try:
        runtime.process.read(task, runtime.heap.pointer_size)
    except MemoryFault as fault:
        return CorruptState(lock, f"owner is {value:#x}, where no task was: {fault}")
    room = range(1 - runtime.layouts.size("gomp_task"), runtime.layouts.size("gomp_task"))
    for known in (*tasks.implicit, *tasks.current, *tasks.explicit(), *tasks.initial):
        if task - known in room:
            return CorruptState(lock, f"owner is {value:#x}, which is inside of the task at {known:#x}")
    return None


def _over(runtime: Registry, task: int, word: int, value: int) -> tuple[int | None, int, int, str]:
    # Of a task that no thread has: a pool keeps the team of its last region, with what were its implicit tasks.
    for team in runtime.last_teams:
        try:
            number, rest = divmod(task - runtime.team_at(team).first_task, runtime.layouts.size("gomp_task"))
            if rest or not 0 <= number < runtime.team_at(team).nthreads:
                continue
        except OmpdError:
            continue
        was = f"the implicit task of thread {number} in a region that is over"
        holders = [thread for thread in runtime.threads() if _was_in(thread, team, number)]
        return holders[0].native if len(holders) == 1 else None, word, value, was
    return None, word, value, f"task {task:#x}, which is over: no thread has it"


def _was_in(thread: Thread, team: int, number: int) -> bool:
    # A worker goes on saying where it was; whoever began the region does not.
    try:
        return number != 0 and thread.claims[:1] == (Membership(team, number),)
    except OmpdError:
        return False


def _ordered(thread: Thread) -> LockState:
    # Threads take their turns by semaphores, each its own; the loop's work share tells whose turn it is.
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
