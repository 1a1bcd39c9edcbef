"""``throttled``, ``oversubscribed`` and ``starved``: threads that are ready to run, and do not get a processor."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from ompd.analysis.verdicts.supply.demand import (
    LOST,
    SHORTEST,
    WANTS,
    Demand,
    lost,
    percent,
    processes_in_words,
    processors_in_words,
    wanted_ns,
)
from ompd.analysis.words import counted
from ompd.model import Evidence, VerdictRecord
from ompd.model.kinds import Confidence, VerdictKind
from ompd.model.supply import OtherProcess, Quota

# A group that uses its quota up now and then is stopped in some period. One period in ten costs some percent.
_THROTTLED = 0.1
# Processor time of others that explains why threads of this process wait for a processor.
_TAKEN = 0.2
# Threads that lose less than half of their time to others have some other cause of slowness, too.
_MAIN_CAUSE = 0.5
# Pages from a disk, a second. They explain a thread's delay if it was neither running nor ready for half of the time.
_FAULTS = 100
_LISTED = 8


class Shortage:
    """The shortage of processor time of one process."""

    def __init__(self, demand: Demand) -> None:
        self._demand, self._supply = demand, demand.supply

    def throttled(self) -> VerdictRecord | None:
        """Return the verdict on a process that the kernel stops because it has used up its quota, None without one."""
        stopped = [(_throttled_share(quota), quota) for quota in self._supply.quotas]
        share, quota = max(stopped, key=lambda pair: pair[0], default=(0.0, None))
        if quota is None or share < _THROTTLED or not self._demand.threads:
            return None
        threads = self._demand.of_openmp or self._demand.threads
        stop = f"in {quota.throttled_periods} of {quota.periods} periods the kernel stopped it"
        evidence = [Evidence(f"{quota.file} allows {quota.processors:g} processors: {stop}", "runtime")]
        if quota.throttled_ns:
            text = f"its processors were stopped for {quota.throttled_ns / 1e9:.2g} s in {self._supply.seconds:.2g} s"
            evidence.append(Evidence(text, "runtime"))
        counted_by_runtime = self._supply.settings.processors
        if counted_by_runtime is not None and counted_by_runtime > quota.processors:
            text = f"the runtime counted {counted(counted_by_runtime, 'processor')}: it knows of no quota"
            evidence.append(Evidence(text, "runtime"))
        count = max(1, ceil(quota.processors))
        have = "has" if len(threads) == 1 else "have"
        return VerdictRecord(
            kind=VerdictKind.THROTTLED,
            stuck=Confidence.UNKNOWN,
            confidence=Confidence.PROVEN,
            summary=f"{counted(len(threads), 'thread')} {have} a quota of {quota.processors:g} processors, and {stop}",
            advice=(
                f"OMP_NUM_THREADS={count}, or a larger quota in {quota.file} (docker run --cpus, limits.cpu of"
                " Kubernetes, CPUQuota of systemd)",
            ),
            explains=tuple(thread.native_thread_id for thread in threads),
            evidence=tuple(evidence),
            next_step="ompd doctor TARGET",
        )

    def oversubscribed(self) -> VerdictRecord | None:
        """Return the verdict on pools that have more threads together than processors, None without such pools.

        The threads of one OpenMP runtime are no such case: that they take turns is said elsewhere.
        """
        demand, cpus = self._demand, self._demand.processors
        others = [other for other in self._sharing() if other.is_related]
        beside = len(demand.threads) - len(demand.of_openmp)
        foreign = sum(_count_sharing(other, cpus) for other in others)
        count = len(demand.threads) + foreign
        if not demand.threads or count <= len(cpus):
            return None
        if not (others and self._excess() >= LOST) and not (beside and demand.of_openmp and self._lost() >= LOST):
            return None
        parts = [counted(len(demand.of_openmp), "OpenMP thread")] if demand.of_openmp else []
        parts += [f"{counted(beside, 'other thread')} of this process"] if beside else []
        parts += [f"{counted(foreign, 'thread')} of {processes_in_words(others)}"] if foreign else []
        who = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
        where = counted(len(cpus), "processor")
        each = max(1, len(cpus) // (1 + len(others)))
        advice = [f"let all pools together have {where}: OMP_NUM_THREADS={each} in each of these processes"]
        if beside:
            advice.append("for other pools: OPENBLAS_NUM_THREADS, MKL_NUM_THREADS, or threadpoolctl in Python")
        return VerdictRecord(
            kind=VerdictKind.OVERSUBSCRIBED,
            stuck=Confidence.UNKNOWN,
            confidence=Confidence.LIKELY,
            summary=f"{who} take turns on {where}: those of this process wait {percent(self._lost())} of the time",
            advice=tuple(advice),
            explains=tuple(thread.native_thread_id for thread in demand.threads),
            evidence=tuple(self._waiting() + _used(others, demand)),
            next_step="ompd doctor TARGET",
        )

    def starved(self) -> VerdictRecord | None:
        """Return the verdict on threads whose processors others use, None if there are none."""
        demand, cpus = self._demand, self._demand.processors
        if not demand.threads or self._excess() < LOST:
            return None
        others = self._sharing()
        seen = sum(demand.share(other.used_ns) for other in others)
        unseen = self._busy() - demand.share(sum(t.ran_ns or 0 for t in self._supply.threads)) - seen
        stolen = demand.share(sum(use.stolen_ns for cpu, use in self._supply.use.items() if cpu in cpus))
        if max(seen, unseen, stolen) < _TAKEN:
            return None
        takers = [f"{processes_in_words(others)} used {seen:.1f} of them"] if seen >= _TAKEN else []
        takers += (
            [f"processes that have ended, or cannot be seen from here, used {unseen:.1f}"] if unseen >= _TAKEN else []
        )
        takers += [f"other virtual machines used {stolen:.1f}"] if stolen >= _TAKEN else []
        count = len(demand.threads)
        want = "is ready to run, but waits" if count == 1 else "are ready to run, but wait"
        where = processors_in_words(cpus)
        return VerdictRecord(
            kind=VerdictKind.STARVED,
            stuck=Confidence.UNKNOWN,
            confidence=Confidence.LIKELY if self._excess() >= _MAIN_CAUSE else Confidence.POSSIBLE,
            summary=f"{counted(count, 'thread')} {want} {percent(self._lost())} of the time for {where}:"
            f" {', and '.join(takers)}",
            advice=("end or move these processes: at a barrier the whole team waits for the thread that waits most",),
            explains=tuple(thread.native_thread_id for thread in demand.threads),
            evidence=tuple(self._waiting() + _used(others, demand)),
            next_step="ompd doctor TARGET",
        )

    def paging(self) -> VerdictRecord | None:
        """Return the verdict on threads that wait for pages from a disk, None if there are none."""
        seconds = self._supply.seconds
        if seconds < SHORTEST:
            return None
        slow = [
            thread
            for thread in self._supply.threads
            if (thread.major_faults or 0) >= _FAULTS * seconds and wanted_ns(thread) < WANTS * seconds * 1e9
        ]
        if not slow:
            return None
        faults = sum(thread.major_faults or 0 for thread in slow)
        evidence = [
            Evidence(f"{self._demand.name(t)} waited for {t.major_faults} pages from a disk", "runtime")
            for t in slow[:_LISTED]
        ]
        pressure = self._supply.pressure
        if pressure is not None:
            text = f"some program of the machine waited for memory {percent(pressure)} of the last ten seconds"
            evidence.append(Evidence(text, "runtime"))
        verb = "waits" if len(slow) == 1 else "wait"
        return VerdictRecord(
            kind=VerdictKind.STARVED,
            stuck=Confidence.UNKNOWN,
            confidence=Confidence.LIKELY,
            summary=f"{counted(len(slow), 'thread')} {verb} for memory, not for processors: {faults} pages came from a"
            f" disk in {seconds:.2g} s",
            advice=("use less memory than the machine, or the control group, has free; look at swap (vmstat 1)",),
            explains=tuple(thread.native_thread_id for thread in slow),
            evidence=tuple(evidence),
            next_step="ompd doctor TARGET",
        )

    def _lost(self) -> float:
        return lost(self._demand.threads)

    def _excess(self) -> float:
        # Return the lost part of the time beyond what this process's own threads take from each other.
        own, count = len(self._demand.processors), len(self._demand.threads)
        return self._lost() - max(0.0, 1 - own / count if count else 0.0)

    def _sharing(self) -> list[OtherProcess]:
        return [other for other in self._supply.others if _count_sharing(other, self._demand.processors)]

    def _busy(self) -> float:
        # How many of the processors were busy.
        uses = [use for cpu, use in self._supply.use.items() if cpu in self._demand.processors]
        return self._demand.share(sum(use.total_ns - use.idle_ns - use.stolen_ns for use in uses))

    def _waiting(self) -> list[Evidence]:
        return [
            Evidence(
                f"in {self._supply.seconds:.2g} s {self._demand.name(thread)} ran"
                f" {percent(self._demand.share(thread.ran_ns or 0))} of the time, and was ready to run for"
                f" {percent(self._demand.share(thread.delayed_ns or 0))}",
                "runtime",
            )
            for thread in self._demand.threads[:_LISTED]
        ]


def _throttled_share(quota: Quota) -> float:
    return (quota.throttled_periods or 0) / quota.periods if quota.periods else 0.0


def _count_sharing(other: OtherProcess, cpus: frozenset[int]) -> int:
    return sum(bool(mask & cpus) for mask in other.ready)


def _used(others: Sequence[OtherProcess], demand: Demand) -> list[Evidence]:
    return [
        Evidence(
            f"process {other.process_id} ({other.program}{', with ' + other.runtimes[0] if other.runtimes else ''})"
            f" used {demand.share(other.used_ns):.2f} processors",
            "runtime",
        )
        for other in others[:_LISTED]
    ]
