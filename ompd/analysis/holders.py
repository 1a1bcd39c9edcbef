"""Who likely holds a lock whose holder no runtime records."""

from __future__ import annotations

from ompd.analysis.moment import Moment
from ompd.model import HeldRecord, Wait
from ompd.records import record

# A critical section cannot be held by a thread that does not stand in it.
_BY_ELIMINATION = ("lock", "nest_lock", "mutex")
_SAME = {"nest_lock": "lock"}


@record
class Holding:
    """The native ids of the threads that likely hold something, empty if reasoning finds none, and why."""

    threads: tuple[int, ...]
    reason: str | None
    source: str = "stack"


class Holders:
    """Reasoning on one moment: by the code in which threads stand, then by elimination."""

    def __init__(self, moment: Moment) -> None:
        self._moment = moment
        self._by_object: dict[tuple[str, int], dict[int, tuple[str, bool]]] = {}
        for thread, constructs in moment.held.items():
            for held in constructs:
                if held.object is not None:
                    known = self._by_object.setdefault((_SAME.get(held.kind, held.kind), held.object), {})
                    _keep(known, thread, held)
        self._waiting: dict[int, set[int]] = {}
        for row in moment.threads:
            if row.wait is not None and row.wait.object is not None and row.native_thread_id is not None:
                self._waiting.setdefault(row.wait.object, set()).add(row.native_thread_id)

    def of(self, wait: Wait, kind_of: str) -> Holding:
        """Return who likely holds the lock of a wait."""
        if wait.object is None:
            return Holding((), None)
        found = self._named(_SAME.get(kind_of, kind_of), wait)
        if found:
            certain = {thread: why for thread, (why, is_certain) in found.items() if is_certain}
            chosen = certain or {thread: why for thread, (why, _) in found.items()}
            if len(chosen) == 1:
                (thread,) = chosen
                return Holding((thread,), chosen[thread])
            return Holding((), f"{len(chosen)} threads stand in code that holds it")
        if kind_of not in _BY_ELIMINATION:
            return Holding((), None)
        return self._of_some(wait.object) or self._left_over(wait.object)

    def _named(self, kind: str, wait: Wait) -> dict[int, tuple[str, bool]]:
        # libomp's own object of a lock need not be the user's variable: then the name decides.
        assert wait.object is not None
        found = self._by_object.get((kind, wait.object))
        if found is not None or wait.symbol is None:
            return found or {}
        named: dict[int, tuple[str, bool]] = {}
        for thread, constructs in self._moment.held.items():
            for held in constructs:
                if _SAME.get(held.kind, held.kind) == kind and held.symbol == wait.symbol:
                    _keep(named, thread, held)
        return named

    def _of_some(self, lock: int) -> Holding | None:
        # Threads hold a lock of which the code does not show which one it is: this may be it.
        waiting = self._waiting.get(lock, set())
        found = tuple(
            thread
            for thread, constructs in self._moment.held.items()
            if thread not in waiting
            and any(held.object is None and held.is_certain and held.kind in _BY_ELIMINATION for held in constructs)
        )
        if not found:
            return None
        return Holding(found, "it holds a lock, and its code does not show which one", "derived")

    def _left_over(self, lock: int) -> Holding:
        # A thread that waits may hold it, too: only one whose code was looked at does not.
        waiting = self._waiting.get(lock, set())
        if not self._moment.has_all_threads or not waiting <= self._moment.held.keys():
            return Holding((), None)
        others = [row for row in self._moment.threads if row.native_thread_id not in waiting]
        # One that has nothing to do has left the code that set it: it is not what the others wait for.
        if len(others) == 1 and others[0].native_thread_id is not None and others[0].state != "idle":
            return Holding((others[0].native_thread_id,), "every other thread waits for it", "derived")
        return Holding((), None)


def _keep(known: dict[int, tuple[str, bool]], thread: int, held: HeldRecord) -> None:
    # The innermost of those that are certain: that a thread may have come by another call as well takes nothing away.
    if thread not in known or (held.is_certain and not known[thread][1]):
        known[thread] = held.reason, held.is_certain
