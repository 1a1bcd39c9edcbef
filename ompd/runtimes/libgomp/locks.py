"""The lock that a thread waits for: by the routine that it called, and the word that it waits on."""

from __future__ import annotations

from ompd.contract.memory import StructView, read_signed
from ompd.contract.plugin import LockState
from ompd.errors import CorruptState, MemoryFault, Unavailable
from ompd.runtimes.libgomp.handles import Thread
from ompd.runtimes.libgomp.stacks.parsed import Group
from ompd.runtimes.libgomp.structures.gomp import Space
from ompd.runtimes.libgomp.task_walk import AllTasks

# A mutex is 0 while it is free, 1 while it is held, -1 while it is held and somebody waits.
_HELD = (1, -1)
_PLAIN_LOCKS = ("omp_set_lock", "omp_set_lock_")
_NEST_LOCKS = ("omp_set_nest_lock", "omp_set_nest_lock_")


def lock_of(thread: Thread, tasks: AllTasks) -> LockState | None:
    """Return the lock that a thread waits for, by the routine that it called.

    :raises Unavailable: if its registers show none, or several
    """
    group = thread.stack.innermost_group()
    if group is None or group.entry is None:
        return None
    entry = group.entry
    if entry == "GOMP_ordered_start":
        return _ordered(thread)
    if entry in _PLAIN_LOCKS or entry in _NEST_LOCKS:
        address = _mutex(thread, group, users=True)
        owner = _nest_owner(thread, address, tasks) if entry in _NEST_LOCKS else None
        return LockState(address, "lock", owner, (), address)
    if entry == "GOMP_critical_name_start":
        address = _mutex(thread, group, users=True)
        return LockState(address, "critical", None, (), address)
    if entry in ("GOMP_critical_start", "GOMP_atomic_start"):
        address = _mutex(thread, group, users=False)
        kind = "critical" if entry == "GOMP_critical_start" else "atomic"
        return LockState(address, kind, None, (), None, is_unnamed=kind == "critical")
    return None


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


def _nest_owner(thread: Thread, address: int, tasks: AllTasks) -> int | None:
    # omp_nest_lock_t.owner is the address of the ICVs of the task that holds it.
    runtime = thread.runtime
    owner = StructView(runtime.process, runtime.layouts["omp_nest_lock_t"], address).pointer("owner")
    if owner is None:
        return None
    task = owner - runtime.layouts["gomp_task"].field("icv").offset
    if task in tasks.implicit or task in tasks.current or task in tasks.explicit():
        holder = runtime.task_at(task).thread()
        return holder.native if holder is not None else None
    return None


def _ordered(thread: Thread) -> LockState:
    # Threads take their turns by semaphores, each its own; the loop's work share tells whose turn it is.
    semaphore = thread.view.address_of("release")
    share = thread.view.pointer("ts.work_share")
    owner: int | None = None
    if share is not None and thread.memberships:
        view = thread.runtime.view("gomp_work_share", share)
        number = view.signed("ordered_owner")
        region = thread.runtime.team_at(thread.memberships[0].team)
        if 0 <= number < region.nthreads and number != thread.memberships[0].number:
            owner = region.thread(number).native
    return LockState(semaphore, "ordered", owner, ())
