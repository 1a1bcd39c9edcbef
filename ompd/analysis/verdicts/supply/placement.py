"""``few_processors``: threads that may use fewer processors than they need, and the setting that did it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from ompd.analysis.verdicts.supply.bindings import Causes
from ompd.analysis.verdicts.supply.demand import (
    LOST,
    Demand,
    lost,
    percent,
    processes_in_words,
    processors_in_words,
)
from ompd.analysis.words import counted
from ompd.model import Evidence, VerdictRecord
from ompd.model.kinds import Confidence, VerdictKind
from ompd.model.supply import OtherProcess, ThreadSupply

# A processor that was idle for half of the time would have run one more thread.
_IDLE = 0.5
_LISTED = 8


class Placement:
    """The placement of one process's threads on processors."""

    def __init__(self, demand: Demand) -> None:
        self._demand, self._supply = demand, demand.supply

    def verdict(self) -> VerdictRecord | None:
        """Return the verdict on threads that share too few processors, None if there are no such threads."""
        shared = self._shared
        if shared is None:
            return None
        cpus, threads, others = shared
        cause = Causes(self._demand).of(cpus, threads, others)
        where, share = processors_in_words(cpus), percent(lost(threads))
        beside = f" with threads of {processes_in_words(others)}" if others else ""
        who = self._demand.name(threads[0]) if len(threads) == 1 else counted(len(threads), "thread")
        verbs = ("shares", "waits") if len(threads) == 1 else ("share", "wait")
        idle = self._idle(cpus)
        it = "it" if len(cpus) == 1 else "them"
        return VerdictRecord(
            kind=VerdictKind.FEW_PROCESSORS,
            stuck=Confidence.UNKNOWN,
            confidence=Confidence.PROVEN if idle else Confidence.LIKELY,
            summary=f"{who} {verbs[0]} {where}{beside}, and {verbs[1]} for {it} {share} of the time: {cause.text}",
            advice=cause.advice,
            explains=tuple(thread.native_thread_id for thread in threads),
            evidence=(*self._evidence(threads, others, idle), *cause.evidence),
            unknowns=cause.unknowns,
            next_step="ompd doctor TARGET",
        )

    @cached_property
    def _shared(self) -> tuple[frozenset[int], list[ThreadSupply], list[OtherProcess]] | None:
        # Return the smallest set of processors for which more threads are ready than it has processors, if other
        # processors could run some of them: these processors, this process's threads there, and other processes.
        demand, online = self._demand.threads, self._supply.online
        masks = {thread.processors for thread in demand if thread.processors}
        for cpus in sorted(masks, key=lambda mask: (len(mask), sorted(mask))):
            outside = online - cpus
            inside = [thread for thread in demand if (thread.processors or online) <= cpus]
            others = [other for other in self._supply.others if _count_inside(other, cpus)]
            ready = len(inside) + sum(_count_inside(other, cpus) for other in others)
            # If this process's threads already fill the other processors, moving threads there gains nothing.
            has_room = bool(outside) and len(demand) - len(inside) < len(outside)
            if has_room and ready > len(cpus) and lost(inside) >= LOST:
                return cpus, inside, others
        return None

    def _idle(self, cpus: frozenset[int]) -> list[int]:
        # Return other processors that were idle.
        return [
            cpu
            for cpu, use in sorted(self._supply.use.items())
            if cpu not in cpus and use.total_ns > 0 and use.idle_ns / use.total_ns >= _IDLE
        ]

    def _evidence(
        self, threads: Sequence[ThreadSupply], others: Sequence[OtherProcess], idle: Sequence[int]
    ) -> list[Evidence]:
        evidence = []
        for thread in threads[:_LISTED]:
            name, where = self._demand.name(thread), processors_in_words(thread.processors or ())
            ran, waited = self._demand.share(thread.ran_ns or 0), self._demand.share(thread.delayed_ns or 0)
            text = f"{name} may use {where}; in {self._supply.seconds:.2g} s it ran {percent(ran)} of the time"
            evidence.append(Evidence(f"{text}, and was ready to run for {percent(waited)}", "runtime"))
        for other in others[:_LISTED]:
            used = self._demand.share(other.used_ns)
            text = f"process {other.process_id} ({other.program}), bound to the same, used {used:.2f} processors"
            evidence.append(Evidence(text, "runtime"))
        if idle:
            text = f"{processors_in_words(idle)} of the machine {'was' if len(idle) == 1 else 'were'} idle meanwhile"
            evidence.append(Evidence(text, "runtime"))
        return evidence


def _count_inside(other: OtherProcess, cpus: frozenset[int]) -> int:
    # How many ready threads of another process may use no other processors.
    return sum(bool(mask) and mask <= cpus for mask in other.ready)
