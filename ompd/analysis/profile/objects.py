"""What the threads of a region wait for: locks, turns, tasks and system calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ompd.analysis.profile.seen import Named
from ompd.analysis.profile.slots import Slot
from ompd.model.kinds import Activity

_WAITS = (Activity.LOCK, Activity.ORDERED, Activity.TASKS, Activity.ASLEEP)
_WORKS = (Activity.WORK, Activity.NO_PROCESSOR, Activity.ASLEEP)


class Object(NamedTuple):
    """What threads wait for. ``kind`` is as in :class:`~ompd.model.profile.ObjectShare`. ``number`` is the address of a
    lock or the number of a system call. ``site`` is the call of the user's code, if the lock is unknown.
    """

    kind: str
    number: int | None = None
    site: int | None = None
    is_lock: bool = False


class Objects:
    """What the threads of a region wait for.

    A thread that spins for a lock does not always show which lock it is. Then it is the one for which threads at the
    same call mostly wait.

    :param present: the slots of the region at each moment at which it is executed
    """

    def __init__(self, named: Named, present: Sequence[Sequence[Slot]]) -> None:
        self._named, self._present = named, present
        seen: dict[int | None, Counter[tuple[str, int]]] = {}
        for slots in present:
            for slot in slots:
                if slot.activity is Activity.LOCK and slot.lock is not None and slot.lock.address is not None:
                    lock = slot.lock.kind, slot.lock.address
                    seen.setdefault(self._site(slot), Counter())[lock] += 1
        self._usual = {site: counts.most_common(1)[0][0] for site, counts in seen.items()}

    def of(self, slot: Slot) -> Object | None:
        """Return what a thread waits for, None if it does not wait, or waits at a barrier."""
        if slot.activity not in _WAITS:
            return None
        if slot.activity is Activity.ASLEEP:
            return Object("call", slot.call)
        if slot.activity is not Activity.LOCK:
            return Object(slot.activity.value)
        if slot.lock is not None:
            return Object(slot.lock.kind, slot.lock.address, is_lock=True)
        site = self._site(slot)
        if site in self._usual:
            kind, address = self._usual[site]
            return Object(kind, address, is_lock=True)
        return Object(slot.wait or "lock", None, site, is_lock=True)

    def _site(self, slot: Slot) -> int | None:
        frames = self._named.frames.get(slot.code, ())
        return frames[0].address if frames else None

    def holders(self, wanted: Object) -> Iterator[Slot]:
        """Yield the slots of threads that hold a lock: as the runtime says, or because all others wait for it."""
        for slots in self._present:
            waits = [slot for slot in slots if self.of(slot) == wanted]
            owners = (slot.lock.owner for slot in waits if slot.lock is not None and slot.lock.owner is not None)
            owner = next(owners, None)
            others = [slot for slot in slots if self.of(slot) != wanted]
            if owner is not None:
                yield from (slot for slot in others if slot.native_thread_id == owner)
            elif waits and len({slot.native_thread_id for slot in others}) == 1:
                yield from (slot for slot in others if slot.activity in _WORKS)
