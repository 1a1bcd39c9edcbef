"""The lock that a thread waits for: by the routine that it called, and the word that it waits on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ompd.contract.memory import StructView, read_signed
from ompd.contract.plugin import LockState
from ompd.errors import CorruptState, MemoryFault, Unavailable
from ompd.runtimes.libgomp import stacks

if TYPE_CHECKING:
    from ompd.runtimes.libgomp.plugin import Runtime
    from ompd.runtimes.libgomp.threads import Thread

# A mutex is 0 while it is free, 1 while it is held, -1 while it is held and somebody waits.
_HELD = (1, -1)
_PLAIN_LOCKS = ("omp_set_lock", "omp_set_lock_")
_NEST_LOCKS = ("omp_set_nest_lock", "omp_set_nest_lock_")


def lock_of(thread: Thread) -> LockState | None:
    """Return the lock that a thread waits for, by the routine that it called.

    :raises Unavailable: if its registers show none, or several
    """
    group = stacks.innermost_group(thread)
    if group is None or group.entry is None:
        return None
    entry = group.entry
    if entry == "GOMP_ordered_start":
        return _ordered(thread)
    if entry in _PLAIN_LOCKS or entry in _NEST_LOCKS:
        address = _mutex(thread, group, users=True)
        owner = _nest_owner(thread.runtime, address) if entry in _NEST_LOCKS else None
        return LockState(address, "lock", owner, (), address)
    if entry == "GOMP_critical_name_start":
        address = _mutex(thread, group, users=True)
        return LockState(address, "critical", None, (), address)
    if entry in ("GOMP_critical_start", "GOMP_atomic_start"):
        address = _mutex(thread, group, users=False)
        kind = "critical" if entry == "GOMP_critical_start" else "atomic"
        return LockState(address, kind, None, (), None, is_unnamed=kind == "critical")
    return None


def _mutex(thread: Thread, group: stacks.Group, *, users: bool) -> int:
    # The word that it sleeps on; of one that spins, the only held mutex that its registers lead to.
    awaited = stacks.futex_word(thread)
    if awaited is not None:
        return awaited
    found = [word for word in stacks.waiting_words(thread, group) if _is_held(thread.runtime, word, users)]
    if len(found) != 1:
        raise Unavailable("the thread's registers do not show which lock it asks for")
    return found[0]


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


def _nest_owner(runtime: Runtime, address: int) -> int | None:
    # omp_nest_lock_t.owner is the address of the ICVs of the task that holds it.
    layout = runtime.layouts["omp_nest_lock_t"]
    owner = StructView(runtime.process, layout, address).pointer("owner")
    if owner is None:
        return None
    task = owner - runtime.layouts["gomp_task"].field("icv").offset
    for known in (runtime.implicit_tasks, runtime.current_tasks, runtime.explicit_tasks):
        if task in known:
            holder = runtime.task_at(task).thread()
            return holder.native if holder is not None else None
    return None


def _ordered(thread: Thread) -> LockState:
    # Threads take their turns by semaphores, each its own; the loop's work share tells whose turn it is.
    semaphore = thread.view.address_of("release")
    share = thread.view.pointer("ts.work_share")
    owner: int | None = None
    if share is not None and thread.memberships:
        view = StructView(thread.runtime.heap, thread.runtime.layouts["gomp_work_share"], share)
        number = view.signed("ordered_owner")
        region = thread.runtime.team_at(thread.memberships[0].team)
        if 0 <= number < region.nthreads and number != thread.memberships[0].number:
            owner = region.thread(number).native
    return LockState(semaphore, "ordered", owner, ())
