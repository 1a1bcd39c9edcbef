"""Compares moments of one process: finds threads that have moved, and threads that have only used processor time."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from ompd.analysis.moment import Moment
from ompd.analysis.verdicts.sentences import next_step
from ompd.analysis.words import counted
from ompd.model import Evidence, ThreadRecord, VerdictRecord
from ompd.model.kinds import Confidence, Kind, VerdictKind
from ompd.records import record


@record
class Progress:
    """The changes from an earlier moment to a later one.

    ``moved`` are the native ids of threads that are elsewhere, wait for something else, or are new. ``used_ns`` has the
    processor times used in between, where known, in nanoseconds. ``asleep_though_free`` are the threads that slept at
    both moments although the futex word of their sleep had changed. ``was_held`` is whether the process was stopped at
    one of the moments. If so, threads that have not moved prove nothing.
    """

    moved: frozenset[int]
    used_ns: dict[int, int]
    asleep_though_free: frozenset[int]
    was_held: bool

    @classmethod
    def between(cls, earlier: Moment, later: Moment) -> Progress:
        """Return the changes between two moments of one process."""
        was_held = earlier.is_held or later.is_held
        before = {row.native_thread_id: row for row in earlier.threads}
        moved, used, asleep = set(), {}, set()
        for row in later.threads:
            native = row.native_thread_id
            if native is None:
                continue
            old = before.get(native)
            if native in later.processor_ns and native in earlier.processor_ns:
                used[native] = later.processor_ns[native] - earlier.processor_ns[native]
            if old is None or (_doing(old, earlier) != _doing(row, later) and not _came_to_spin(old, row, later)):
                moved.add(native)
            elif not was_held and _is_free(old) and _is_free(row) and not used.get(native, 1):
                asleep.add(native)
        return cls(frozenset(moved), used, frozenset(asleep), was_held)

    @classmethod
    def over(cls, moments: Sequence[Moment]) -> Progress:
        """Return the changes over several moments of one process, the latest last.

        A thread has moved if it moved between any two successive moments. It is asleep though free only if it was so
        between all of them.
        """
        steps = [cls.between(earlier, later) for earlier, later in pairwise(moments)]
        asleep = frozenset.intersection(*(step.asleep_though_free for step in steps))
        used = cls.between(moments[0], moments[-1]).used_ns
        was_held = any(moment.is_held for moment in moments)
        return cls(frozenset().union(*(step.moved for step in steps)), used, asleep, was_held)


def _doing(row: ThreadRecord, moment: Moment) -> Hashable:
    # Return a value that is equal at both moments for a thread that has not moved.
    wait = row.wait
    system = moment.system.get(row.native_thread_id or 0)
    return (
        (row.state, row.parallel, row.task, row.where and row.where.address, row.innermost and row.innermost.address),
        (wait.kind, wait.object, wait.symbol, wait.generation) if wait is not None else None,
        (system.kind, system.object, system.descriptor) if system is not None else None,
    )


def _came_to_spin(old: ThreadRecord, row: ThreadRecord, later: Moment) -> bool:
    # Return whether a thread is in a loop that it does not leave, which is examined only at the later moment. The
    # thread is at any place of the loop, so a difference in place is no move.
    system = later.system.get(row.native_thread_id or 0)
    is_same = (old.state, old.parallel, old.task, old.wait) == (row.state, row.parallel, row.task, row.wait)
    return system is not None and system.kind is Kind.SPIN and is_same


def _is_free(row: ThreadRecord) -> bool:
    return row.wait is not None and row.wait.how == "released"


def weighed(
    verdicts: Sequence[VerdictRecord], moment: Moment, progress: Progress, seconds: float | None = None
) -> tuple[VerdictRecord, ...]:
    """Return the verdicts on the later *moment*, corrected by the changes since an earlier one.

    If threads of a verdict have moved, they are hardly stuck: ``proven`` becomes ``likely``, all else becomes
    ``unknown``. If none has moved or used processor time, ``possible`` becomes ``likely``, except for waits that
    something outside of the process ends.

    :param seconds: the time between the moments, None if it is unknown
    """
    passing = [verdict for verdict in verdicts if _has_passed(verdict, progress)]
    remaining = [_weighed(verdict, progress, seconds) for verdict in verdicts if verdict not in passing]
    of_openmp = {row.native_thread_id for row in moment.threads if row.runtime is not None}
    if passing and all(of_openmp.isdisjoint(verdict.explains) for verdict in remaining):
        remaining.insert(0, _passing(passing))
    if progress.asleep_though_free:
        remaining.insert(0, _lost_wakeup(moment, progress))
        remaining = [verdict for verdict in remaining if verdict.kind is not VerdictKind.NO_STALL]
    return tuple(remaining)


def _weighed(verdict: VerdictRecord, progress: Progress, seconds: float | None) -> VerdictRecord:
    span = f" in {seconds:g} s" if seconds is not None else ""
    if verdict.kind.has_workers or verdict.kind is VerdictKind.NO_STALL:
        return replace(verdict, evidence=(*verdict.evidence, *_of_workers(verdict.roots, progress, span)))
    moved = [thread for thread in verdict.explains if thread in progress.moved]
    if moved:
        text = f"{counted(len(moved), 'thread')} of these did something else at the earlier moment"
        evidence = (*verdict.evidence, Evidence(text, "derived"))
        if verdict.stuck is Confidence.PROVEN:
            unknowns = (f"whether they stay where they are: {text}", *verdict.unknowns)
            return replace(verdict, stuck=Confidence.LIKELY, evidence=evidence, unknowns=unknowns)
        return replace(verdict, stuck=Confidence.UNKNOWN, confidence=Confidence.UNKNOWN, evidence=evidence)
    if progress.was_held:
        text = "none of these threads has moved, which tells nothing: the process did not run"
        return replace(verdict, evidence=(*verdict.evidence, Evidence(text, "runtime")))
    text = f"none of these threads has moved{span}"
    stuck = verdict.stuck
    used = [progress.used_ns.get(thread, 1) for thread in verdict.explains]
    if stuck is Confidence.POSSIBLE and used and not any(used):
        text += ", nor used any processor time"
        # What ends a wait outside of the process may come at any time, so waiting for it makes nothing likely.
        stuck = stuck if verdict.kind is VerdictKind.EXTERNAL_WAIT else Confidence.LIKELY
    return replace(verdict, stuck=stuck, evidence=(*verdict.evidence, Evidence(text, "derived")))


def _has_passed(verdict: VerdictRecord, progress: Progress) -> bool:
    is_open = (
        verdict.kind is VerdictKind.UNDECIDED and verdict.stuck is not Confidence.PROVEN and bool(verdict.explains)
    )
    return is_open and progress.moved.issuperset(verdict.explains)


def _passing(verdicts: Sequence[VerdictRecord]) -> VerdictRecord:
    # Return the verdict that replaces *verdicts*, of which all threads have gone on between the moments.
    count = len({thread for verdict in verdicts for thread in verdict.explains})
    wait = f"{counted(count, 'thread')} {'waits' if count == 1 else 'wait'}"
    return VerdictRecord(
        kind=VerdictKind.NO_STALL,
        stuck=Confidence.UNKNOWN,
        confidence=Confidence.LIKELY,
        summary=f"no hang seen: {wait}, and did something else at the earlier moment",
        evidence=tuple(item for verdict in verdicts for item in verdict.evidence),
        next_step=next_step(VerdictKind.NO_STALL, ()),
    )


def _of_workers(threads: Iterable[int], progress: Progress, span: str) -> Iterable[Evidence]:
    for thread in threads:
        used = progress.used_ns.get(thread)
        if used is None:
            continue
        time = f"used {used / 1e9:.2f} s of processor time{span}"
        place = "is elsewhere than before" if thread in progress.moved else "is where it was"
        yield Evidence(f"thread {thread} {time}, and {place}", "runtime")


def _lost_wakeup(moment: Moment, progress: Progress) -> VerdictRecord:
    threads = tuple(sorted(progress.asleep_though_free))
    places = (row.where for row in moment.threads if row.native_thread_id in progress.asleep_though_free)
    return VerdictRecord(
        kind=VerdictKind.LOST_WAKEUP,
        stuck=Confidence.LIKELY,
        confidence=Confidence.LIKELY,
        summary=f"{counted(len(threads), 'thread')} could go on, and sleep: what they wait for has happened, and nobody"
        " woke them up",
        roots=threads,
        explains=threads,
        evidence=(Evidence("at both moments the word on which they sleep had changed already", "runtime"),),
        place=next((place for place in places if place is not None), None),
    )
