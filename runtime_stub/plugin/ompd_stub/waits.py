"""What threads wait for: locks and barriers."""

from __future__ import annotations

from collections.abc import Sequence

from ompd.contract.helpers.walks import chain
from ompd.contract.memory import StructView
from ompd.contract.plugin import BarrierState, LockState
from ompd.errors import CorruptState
from ompd_stub.teams import Region
from ompd_stub.threads import Thread, Threads

# enum stub_lock_kind
_LOCK, _NEST_LOCK, _CRITICAL, _UNNAMED, _ATOMIC = 1, 2, 3, 4, 5
_KINDS = {_LOCK: "lock", _NEST_LOCK: "lock", _CRITICAL: "critical", _UNNAMED: "critical", _ATOMIC: "atomic"}


def lock_of(thread: Thread) -> LockState | None:
    """Return what is in ``waits_for``, or, of a thread that waits for its turn, the loop."""
    address = thread.view.pointer("waits_for")
    if address is not None:
        return _lock(thread.runtime, address)
    work = thread.view.pointer("waits_for_turn")
    if work is None:
        return None
    view = thread.runtime.view("stub_work", work)
    owner = view.pointer("ordered_owner")
    return LockState(work, "ordered", thread.runtime.thread_at(owner).native if owner is not None else None, ())


def _lock(runtime: Threads, address: int) -> LockState:
    view = runtime.view("stub_lock", address)
    kind = view.unsigned("kind")
    if kind not in _KINDS:
        raise CorruptState(address, f"lock of kind {kind}")
    owner = view.pointer("owner")
    return LockState(
        address,
        _KINDS[kind],
        runtime.thread_at(owner).native if owner is not None else None,
        _waiters(runtime, view),
        view.pointer("variable"),
        is_unnamed=kind == _UNNAMED,
    )


def _waiters(runtime: Threads, view: StructView) -> tuple[int, ...]:
    def next_waiter(thread: int) -> int | None:
        return runtime.thread_at(thread).view.pointer("next_waiter")

    line = chain(
        view.pointer("first_waiter"), next_waiter, runtime.most_threads, "the line of those who wait for a lock"
    )
    return tuple(runtime.thread_at(thread).native for thread in line)


def barriers_of(runtime: Threads, region: Region) -> Sequence[BarrierState]:
    """Return who is noted to have arrived (``at_barrier``). A team has one barrier, whatever threads come for.

    :raises CorruptState: if it has counted more than there are
    """
    team = region.team
    barrier = runtime.embedded(team.view, "barrier", "stub_barrier")
    arrived, expected = barrier.signed("arrived"), barrier.signed("expected")
    if expected != team.size or not 0 <= arrived <= expected:
        raise CorruptState(
            team.address, f"barrier where {arrived} of {expected} have arrived, of a team of {team.size}"
        )
    members = [runtime.thread_at(thread).native for thread in team.threads]
    here = [runtime.task_at(task).view.signed("at_barrier") for task in team.implicit]
    present = {member for member, is_here in zip(members, here, strict=True) if is_here}
    doubt = None
    if len(present) != arrived:
        doubt = f"{len(present)} threads are at a barrier that has counted {arrived}: one is on its way"
    return (BarrierState.gathering(members, present, doubt),) if present or doubt is not None else ()
