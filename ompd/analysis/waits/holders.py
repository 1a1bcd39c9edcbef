"""Finds the likely holders of locks without a recorded holder."""

from __future__ import annotations

from collections.abc import Mapping

from ompd.analysis.moment import Moment
from ompd.model import HeldRecord, Wait
from ompd.model.kinds import Kind
from ompd.records import record

# The kinds of a nestable lock, by the owner's code and by the runtime, may differ.
_SAME = {Kind.NEST_LOCK: Kind.LOCK}


@record
class Holding:
    """The native ids of the likely holders of an object, and the reason. Without likely holders, the ids are empty."""

    threads: tuple[int, ...]
    reason: str | None
    source: str = "stack"


class Holders:
    """The likely holders of objects at one moment, found by the code in which threads stand, or by elimination."""

    def __init__(self, moment: Moment) -> None:
        self._moment = moment
        self._by_object: dict[tuple[Kind, int], dict[int, tuple[str, bool]]] = {}
        self._by_symbol: dict[tuple[Kind, str], dict[int, tuple[str, bool]]] = {}
        self._atomic: dict[int, tuple[str, bool]] = {}
        self._runtimes = {row.native_thread_id: row.runtime for row in moment.threads}
        self._of_unknown: list[int] = []  # threads that hold an unidentified lock
        for thread, constructs in moment.held.items():
            for construct in constructs:
                kind = _SAME.get(construct.kind, construct.kind)
                if kind is Kind.ATOMIC and construct.object is None:
                    _keep(self._atomic, thread, construct)
                if construct.object is not None:
                    _keep(self._by_object.setdefault((kind, construct.object), {}), thread, construct)
                if construct.symbol is not None:
                    _keep(self._by_symbol.setdefault((kind, construct.symbol), {}), thread, construct)
            if any(record.object is None and record.is_certain and record.kind.is_passed_on for record in constructs):
                self._of_unknown.append(thread)
        self._waiting: dict[int, set[int]] = {}
        for row in moment.threads:
            if row.wait is not None and row.wait.object is not None and row.native_thread_id is not None:
                self._waiting.setdefault(row.wait.object, set()).add(row.native_thread_id)

    def of(self, wait: Wait, kind_of: Kind) -> Holding:
        """Return the likely holders of the lock for which *wait* waits.

        :param kind_of: the kind of the lock
        """
        if wait.object is None:
            return Holding((), None)
        reasons = self._named(_SAME.get(kind_of, kind_of), wait)
        if kind_of is Kind.ATOMIC:
            # Each runtime has one lock for all unnamed atomic constructs.
            waiting = {self._runtimes.get(thread) for thread in self._waiting.get(wait.object, ())}
            reasons = {thread: why for thread, why in self._atomic.items() if {self._runtimes.get(thread)} == waiting}
        if reasons:
            return self._chosen(reasons)
        # Only a thread inside of the construct can hold a lock of this kind.
        if not kind_of.is_passed_on:
            return Holding((), None)
        return self._of_interrupted(wait.object) or self._of_some(wait.object) or self._left_over(wait.object)

    def at(self, address: int) -> tuple[Kind, str | None, Holding] | None:
        """Return the kind, the name and the likely holders of the lock at *address*.

        None if no thread's code shows that it holds a lock there. For waiting threads that no runtime knows, for
        example because they have not reached a parallel region yet.
        """
        for kind, object in self._by_object:
            if object == address:
                holding = self._chosen(self._by_object[kind, object])
                records = (held for records_of_thread in self._moment.held.values() for held in records_of_thread)
                return kind, next((h.symbol for h in records if h.object == address), None), holding
        return None

    def of_interpreter(self) -> Holding:
        """Return the likely holder of Python's interpreter lock."""
        candidates = tuple(sorted(self._moment.may_hold_interpreter))
        reason = "no other thread that is in Python's code can have it" if len(candidates) == 1 else None
        return Holding(candidates if reason is not None else (), reason, "derived")

    @staticmethod
    def _chosen(reasons: Mapping[int, tuple[str, bool]]) -> Holding:
        certain = {thread: why for thread, (why, is_certain) in reasons.items() if is_certain}
        chosen = certain or {thread: why for thread, (why, _) in reasons.items()}
        if len(chosen) == 1:
            (thread,) = chosen
            return Holding((thread,), chosen[thread])
        return Holding((), f"{len(chosen)} threads stand in code that holds it")

    def _named(self, kind: Kind, wait: Wait) -> dict[int, tuple[str, bool]]:
        # The address that libomp records for a lock may differ from the user's variable. Then the lock's name decides.
        assert wait.object is not None
        reasons = self._by_object.get((kind, wait.object))
        if reasons is not None or wait.symbol is None:
            return reasons or {}
        return self._by_symbol.get((kind, wait.symbol), {})

    def _of_interrupted(self, lock: int) -> Holding | None:
        # Return the thread whose signal handler waits for the lock, if the interrupted code holds this or an unknown
        # lock.
        for thread in sorted(self._waiting.get(lock, set()) & self._moment.handlers):
            for construct in self._moment.held.get(thread, ()):
                if construct.kind.is_passed_on and construct.object in (None, lock):
                    return Holding((thread,), f"its signal handler wants it, and {construct.reason}")
        return None

    def _of_some(self, lock: int) -> Holding | None:
        # Return the threads that hold an unidentified lock, possibly this one, and do not wait for this one.
        waiting = self._waiting.get(lock, set())
        candidates = tuple(thread for thread in self._of_unknown if thread not in waiting)
        if not candidates:
            return None
        return Holding(candidates, "it holds a lock, and its code does not show which one", "derived")

    def _left_over(self, lock: int) -> Holding:
        # Return the only thread that does not wait for the lock. A waiting thread may hold the lock itself, unless its
        # code was examined (``held`` has a key for it).
        waiting = self._waiting.get(lock, set())
        if not self._moment.has_all_threads or not waiting <= self._moment.held.keys():
            return Holding((), None)
        if len(self._moment.threads) > len(waiting) + 1:
            return Holding((), None)
        remaining = [row for row in self._moment.threads if row.native_thread_id not in waiting]
        native = remaining[0].native_thread_id if len(remaining) == 1 else None
        # An idle thread has left the code that set the lock, so it is not the holder.
        if native is None or remaining[0].state == "idle" or self._is_in_pool(native):
            return Holding((), None)
        return Holding((native,), "every other thread waits for it", "derived")

    def _is_in_pool(self, thread: int) -> bool:
        wait = self._moment.system.get(thread)
        return wait is not None and wait.pool is not None


def _keep(reasons: dict[int, tuple[str, bool]], thread: int, record: HeldRecord) -> None:
    # Keep the thread's first record, which is the innermost, unless a later one is the first certain one.
    if thread not in reasons or (record.is_certain and not reasons[thread][1]):
        reasons[thread] = record.reason, record.is_certain
