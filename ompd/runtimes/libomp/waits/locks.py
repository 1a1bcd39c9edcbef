"""The lock for which a thread waits, the lock's owner, and the user's variable that stands for the lock.

A waiting thread has the address of the lock in a register or on its stack, among stale words and data. A word counts
only if the memory to which it points proves to be the awaited lock:

- A queuing lock holds its own address and has the thread in its queue.
- A ticket or drdpa lock is in the runtime's table of locks, and more threads have drawn a ticket than were served. The
  layout of these locks is only in debug information and in tables of layouts.
- A test-and-set or futex lock is the user's variable itself, and names another thread as its owner.

A variable is reported only if the runtime's table maps it to the lock.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ompd import naming
from ompd.contract.code_owners import RUNTIME
from ompd.contract.helpers.stacks import words_on
from ompd.contract.memory import StructView, read_unsigned
from ompd.contract.waits import LockState
from ompd.errors import BadInput, CorruptState, OmpdError, Unavailable
from ompd.runtimes.libomp.waits import iterations

if TYPE_CHECKING:
    from ompd.contract.process import Frame
    from ompd.runtimes.libomp.handles import Thread

# The kind of lock that a routine acquires, by the routine's name.
_LOCK_ROUTINES = {
    "__kmpc_critical": "critical",
    "__kmpc_critical_with_hint": "critical",
    "__kmpc_reduce": "critical",
    "__kmpc_reduce_nowait": "critical",
    "GOMP_critical_start": "critical",
    "GOMP_critical_name_start": "critical",
    "GOMP_atomic_start": "atomic",
    "__kmpc_set_lock": "lock",
    "__kmpc_set_nest_lock": "lock",
    "omp_set_lock": "lock",
    "omp_set_nest_lock": "lock",
}
_UNNAMED_CRITICAL = "GOMP_critical_start"
_NEST_ROUTINES = ("__kmpc_set_nest_lock", "omp_set_nest_lock")
# Routines that acquire the runtime's own locks.
_BOOTSTRAP = ("__kmp_acquire_ticket_lock", "__kmp_acquire_bootstrap_lock")
# Routines in which a thread is between two attempts to acquire a direct lock.
_BETWEEN_ATTEMPTS = frozenset(("__kmp_spin_backoff", "__kmp_hardware_timestamp", "__kmp_yield"))


def lock_of(thread: Thread) -> LockState | None:
    """Return the lock for which *thread* waits, None if it waits for no lock: :meth:`ThreadHandle.lock`.

    :raises Unavailable: if *thread* waits for a lock that was not found
    :raises LayoutUnavailable: if the layout of locks is unknown
    """
    runtime = thread.runtime
    runtime.lock_objects  # noqa: B018 raises LayoutUnavailable
    code = runtime.stacks.code
    frames = _innermost_frames(thread)
    routines = [code.routine_of(frame) for frame in reversed(frames[:-1])]
    if iterations.ROUTINE in routines:
        return iterations.awaited_iteration(thread, frames[len(routines) - routines.index(iterations.ROUTINE)])
    kind = next((_LOCK_ROUTINES[name] for name in routines if name in _LOCK_ROUTINES), None)
    if kind is None:
        return _internal_lock(thread, frames)
    is_nestable = any(name in _NEST_ROUTINES for name in routines)
    lock = _awaited_lock(thread, frames, kind, is_nestable=is_nestable)
    # gcc passes no variable for the unnamed critical section. The routine that user code called may have jumped to
    # another routine, so it need not be on the stack.
    called = naming.routine_name(runtime.process.routine_called(frames[-1].pc))
    return replace(lock, is_unnamed=True) if _UNNAMED_CRITICAL in (called, *routines) else lock


def asks_for_lock(thread: Thread, frames: tuple[Frame, ...]) -> bool:
    """Return whether a register or stack word of *frames* is the address of a lock that *thread* provably awaits."""
    objects = thread.runtime.lock_objects
    in_registers, on_stack = _candidates(thread, frames)
    candidates = list(dict.fromkeys(in_registers + on_stack))
    return (
        any(thread.address in objects.queue(address) for address in candidates)
        or any(objects.counts_waiting(address) for address in candidates)
        or _direct_lock(thread, "critical", candidates) is not None
    )


def _awaited_lock(thread: Thread, frames: tuple[Frame, ...], kind: str, *, is_nestable: bool) -> LockState:
    # The lock for which the thread waits in a routine that acquires a lock.
    process, objects = thread.runtime.process, thread.runtime.lock_objects
    in_registers, on_stack = _candidates(thread, frames)
    candidates = list(dict.fromkeys(in_registers + on_stack))
    address = next((address for address in candidates if thread.address in objects.queue(address)), None)
    if address is not None:
        return _indirect_state(thread, objects.queuing(address), kind, candidates, is_nestable=is_nestable)
    passed = process.object_passed(frames[-1])
    if passed is not None:
        direct = _passed_lock(thread, kind, frames, passed, is_nestable=is_nestable)
    else:
        direct = _direct_lock(thread, kind, candidates)
    if direct is not None:
        return direct
    damaged = (fault for fault in map(objects.queue_fault, candidates) if fault is not None)
    unproven = Unavailable("none of the runtime's locks proves to be the one that the thread waits for")
    reason: OmpdError = next(damaged, None) or unproven
    try:
        lock = objects.lock_of(passed) if passed is not None else None
        if lock is not None and objects.counts_waiting(lock):
            return _indirect_state(thread, objects.counting(lock), kind, candidates, is_nestable=is_nestable)
        # Search the registers of the runtime's frames first, because they are in use. A word on the stack may be left
        # over from an earlier call.
        for words in (in_registers, on_stack):
            counting = {word for word in words if objects.counts_waiting(word)}
            if len(counting) == 1:
                (address,) = counting
                return _indirect_state(thread, objects.counting(address), kind, candidates, is_nestable=is_nestable)
            if counting:
                break
    except OmpdError as error:
        reason = error
    if kind == "critical":
        variables = {objects.critical_lock(variable): variable for variable in objects.criticals}
        used = [lock for lock in variables if lock is not None and lock in candidates]
        if len(used) == 1:
            return LockState(used[0], kind, None, (), variables[used[0]])
    raise reason


def _internal_lock(thread: Thread, frames: tuple[Frame, ...]) -> LockState | None:
    # The awaited lock if it is one of the runtime's own (kmp_bootstrap_lock_t, a ticket lock), with its symbol as name.
    # None without such a lock, or if several locks are possible. The routine that acquires the lock has the lock's
    # address in a register. The runtime records no owner.
    runtime = thread.runtime
    if not any(runtime.stacks.code.routine_of(frame) in _BOOTSTRAP for frame in frames):
        return None
    names: dict[int, str] = {}
    for address in _candidates(thread, frames)[0]:
        place = runtime.process.locate(address)
        if place.symbol is None or place.symbol_address != address or not place.symbol.startswith("__kmp_"):
            continue
        if runtime.lock_objects.is_awaited_internal(address):
            names[address] = place.symbol
    if len(names) != 1:
        return None
    ((address, name),) = names.items()
    return LockState(address, "internal", None, (), name=name)


# Direct locks


def _direct_lock(thread: Thread, kind: str, candidates: list[int]) -> LockState | None:
    # The direct lock among the words, None unless there is exactly one. None also if the thread itself holds the lock,
    # because a thread's words may have such locks, too.
    objects = thread.runtime.lock_objects
    direct = {objects.direct(candidate) for candidate in candidates} - {None}
    if len(direct) != 1:
        return None
    ((address, gtid),) = filter(None, direct)
    if objects.is_held_by(gtid, thread):
        return None
    variable = objects.variable(address, kind, candidates)
    return _direct_state(thread, kind, address, gtid, variable, is_searched=True)


def _passed_lock(
    thread: Thread, kind: str, frames: tuple[Frame, ...], passed: int, *, is_nestable: bool
) -> LockState | None:
    # The direct lock that user code passed to the routine, None if it passed none. Unlike in _direct_lock(), the thread
    # itself may own the lock.
    objects = thread.runtime.lock_objects
    direct = objects.direct(passed) or objects.direct(objects.lock_of(passed) or 0)
    if direct is None:
        return None
    is_own = objects.is_held_by(direct[1], thread)
    is_searched = is_own and not _waits_inside(thread, frames)
    state = _direct_state(thread, kind, *direct, passed, is_searched=is_searched)
    if not is_own or not is_nestable or is_searched:
        return state
    # The lock's word names this thread as the owner, but the thread waits for the lock. The word must be damaged: the
    # owner of a nestable lock sets it again without waiting.
    fault = f"the lock's word is {state.owner_value:#x}, which names the thread that waits for it"
    return replace(state, owner=None, owner_fault=CorruptState(state.address, fault))


def _direct_state(
    thread: Thread, kind: str, address: int, gtid: int, variable: int | None, *, is_searched: bool
) -> LockState:
    # A direct lock is the user's variable. A nestable lock of the same kinds is an object of the runtime, for which a
    # separate variable of the user stands.
    users_variable = (variable or address) if kind == "lock" else address
    word = read_unsigned(thread.runtime.process, address, 4)
    lock = LockState(address, kind, None, (), users_variable, is_searched=is_searched)
    return _with_owner(thread, lock, gtid, address, word)


def _waits_inside(thread: Thread, frames: tuple[Frame, ...]) -> bool:
    # Whether the thread has failed to acquire the lock and tries again. This is so if it is in a routine between two
    # attempts, or outside of the runtime's code.
    runtime = thread.runtime
    if runtime.owners.of(frames[0]) != RUNTIME:
        return True
    names = {naming.routine_name(runtime.process.locate(frame.call_site).symbol) for frame in frames}
    return not names.isdisjoint(_BETWEEN_ATTEMPTS)


# Locks that the runtime has made


def _indirect_state(
    thread: Thread, lock: StructView, kind: str, candidates: list[int], *, is_nestable: bool
) -> LockState:
    # Nestable locks record owner_id, a gtid + 1. Other locks do so only if the runtime checks programs.
    objects = thread.runtime.lock_objects
    address, owner = lock.address, lock.signed("owner_id")
    waiters = _waiters(thread, address)
    state = LockState(address, kind, None, waiters, objects.variable(address, kind, candidates))
    if owner <= 0:
        return state
    fault = _fault_of_owner(thread, lock, owner - 1, is_nestable=is_nestable)
    if fault is not None:
        return replace(state, owner_fault=fault)
    return _with_owner(thread, state, owner - 1, lock.address_of("owner_id"), owner)


def _fault_of_owner(thread: Thread, lock: StructView, gtid: int, *, is_nestable: bool) -> CorruptState | None:
    # The reason why *gtid*, from the lock's owner_id, cannot be the owner's, None if it can be.
    objects = thread.runtime.lock_objects
    if objects.is_held_by(gtid, thread):
        # A thread does not wait for its own lock. The owner of a nestable lock sets the lock again without waiting. For
        # any other lock, the check that records owners would end the program.
        return CorruptState(lock.address, f"owner_id is {gtid + 1}, the number of the thread that waits for the lock")
    if not is_nestable and not objects.notes_all_owners:
        return CorruptState(lock.address, f"owner_id is {gtid + 1}, though the runtime does not set it for this lock")
    return None


def _waiters(thread: Thread, address: int) -> tuple[int, ...]:
    natives = []
    for waiter in thread.runtime.lock_objects.queue(address):
        try:
            natives.append(thread.runtime.thread_at(waiter).native_thread_id())
        except OmpdError:
            continue  # a waiting thread whose native id is unknown is left out
    return tuple(natives)


def _with_owner(thread: Thread, lock: LockState, gtid: int, address: int, value: int) -> LockState:
    # A copy of *lock* with the owner that *gtid* identifies. *address* and *value* are those of the word that records
    # the owner.
    native, gone = None, None
    try:
        owner = thread.runtime.thread_by_gtid(gtid)
        if owner is None:
            gone = f"the thread that the runtime has numbered {gtid}, which it does not have any more"
        else:
            native = owner.native_thread_id()
    except CorruptState as fault:
        return replace(lock, owner_fault=fault)
    except BadInput:
        gone = f"the thread that the runtime has numbered {gtid}, which the process does not have any more"
    except OmpdError:
        pass  # the owner stays unknown, because its thread cannot be read
    return replace(lock, owner=native, owner_address=address, owner_value=value, owner_gone=gone)


# Words that may be the address of a lock


def _innermost_frames(thread: Thread) -> tuple[Frame, ...]:
    # The innermost frames, up to and including the first frame of the user's code.
    runtime = thread.runtime
    frames = runtime.process.stack(thread.native_thread_id()).frames
    for index, frame in enumerate(frames):
        if runtime.stacks.code.is_users(frame):
            return frames[: index + 1]
    return frames


def _candidates(thread: Thread, frames: tuple[Frame, ...]) -> tuple[list[int], list[int]]:
    # Two lists of words that may be the address of the awaited lock. The first list has OMPT's wait identifier and the
    # registers of the runtime's frames. The second list has the registers of all frames and the words on the stack.
    runtime = thread.runtime
    wait_id = [thread.kept_state()[1]] if runtime.states_are_kept else []
    words = words_on(runtime.process, frames[0].sp, frames[-1].sp)
    inner = [frame for frame in frames if runtime.owners.of(frame) == RUNTIME]
    in_runtime = [value for frame in inner for value in frame.registers.values()]
    in_all = [value for frame in frames for value in frame.registers.values()]
    return _addresses(wait_id + in_runtime), _addresses([*in_all, *words])


def _addresses(words: list[int]) -> list[int]:
    return [word for word in dict.fromkeys(words) if word > 0xFFFF and word % 4 == 0]
