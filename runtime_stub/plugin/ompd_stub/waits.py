"""The locks and barriers that threads wait for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ompd.contract.helpers.walks import chain
from ompd.contract.memory import StructView
from ompd.contract.waits import BarrierState, LockState
from ompd.errors import BadInput, CorruptState

if TYPE_CHECKING:
    from ompd_stub.runtime import Runtime
    from ompd_stub.teams import Region
    from ompd_stub.threads import Thread

# enum stub_lock_kind
_LOCK, _NEST_LOCK, _CRITICAL, _UNNAMED, _ATOMIC = 1, 2, 3, 4, 5
_KINDS = {_LOCK: "lock", _NEST_LOCK: "lock", _CRITICAL: "critical", _UNNAMED: "critical", _ATOMIC: "atomic"}


def lock_of(thread: Thread) -> LockState | None:
    """Return the lock in ``waits_for``, or for a thread that waits for its turn the loop (``waits_for_turn``).

    :raises CorruptState: if the lock is of an unknown kind
    """
    address = thread.view.pointer("waits_for")
    if address is not None:
        return _lock(thread.runtime, address)
    work = thread.view.pointer("waits_for_turn")
    if work is None:
        return None
    view = thread.runtime.view("stub_work", work)
    return _owned(thread.runtime, view, "ordered_owner", LockState(work, "ordered", None, ()))


def _lock(runtime: Runtime, address: int) -> LockState:
    view = runtime.view("stub_lock", address)
    kind = view.unsigned("kind")
    if kind not in _KINDS:
        raise CorruptState(address, f"lock of kind {kind}")
    waiters, variable = _waiters(runtime, view), view.pointer("variable")
    lock = LockState(address, _KINDS[kind], None, waiters, variable, is_unnamed=kind == _UNNAMED)
    return _owned(runtime, view, "owner", lock)


def _owned(runtime: Runtime, view: StructView, member: str, lock: LockState) -> LockState:
    # Return the lock with its owner. The member has the address of the owner's descriptor.
    owner = view.pointer(member)
    if owner is None:
        return lock
    native, gone = None, None
    try:
        native = runtime.thread_at(owner).native
    except BadInput:
        gone = f"the thread of the descriptor {owner:#x}, which has ended"
    return replace(lock, owner=native, owner_address=view.address_of(member), owner_value=owner, owner_gone=gone)


def _waiters(runtime: Runtime, view: StructView) -> tuple[int, ...]:
    def next_waiter(thread: int) -> int | None:
        return runtime.thread_at(thread).view.pointer("next_waiter")

    line = chain(
        view.pointer("first_waiter"), next_waiter, runtime.most_threads, "the line of those who wait for a lock"
    )
    return tuple(runtime.thread_at(thread).native for thread in line)


def barriers_of(region: Region) -> Sequence[BarrierState]:
    """Return the barrier of a region's team with the arrived threads (``at_barrier``), empty if no thread has arrived.

    :raises CorruptState: if the barrier's counts do not fit the size of the team
    """
    team, runtime = region.team, region.team.runtime
    barrier = runtime.embedded(team.view, "barrier", "stub_barrier")
    arrived, expected = barrier.signed("arrived"), barrier.signed("expected")
    if expected != team.size or not 0 <= arrived <= expected:
        raise CorruptState(
            team.address, f"barrier where {arrived} of {expected} have arrived, of a team of {team.size}"
        )
    members = [runtime.thread_at(thread).native for thread in team.threads]
    here = [runtime.task_at(task).view.signed("at_barrier") for task in team.implicit]
    present = {member for member, is_here in zip(members, here, strict=True) if is_here}
    doubt, word = None, (barrier.address_of("arrived"), arrived, barrier.unsigned("generation"))
    if len(present) != arrived:
        doubt = f"{len(present)} threads are at a barrier that has counted {arrived}: one is on its way"
    return (BarrierState.gathering(members, present, doubt, word=word),) if present or doubt is not None else ()
