"""Two moments of one process: the earlier one strengthens or weakens the verdicts on the later one."""

from __future__ import annotations

from dataclasses import replace

from ompd.analysis.answers import concluded
from ompd.analysis.moment import Moment
from ompd.model import SystemWait, ThreadRecord
from ompd.model.kinds import Kind
from tests.support.moments import barrier, first, holds, lock, thread


def test_a_second_moment_tells_a_laggard_from_a_livelock() -> None:
    rows = [*(thread(n, barrier((3,))) for n in range(3)), thread(3)]
    earlier = Moment(threads=tuple(rows), processor_ns={3: 1_000_000_000})
    later = first(*rows, earlier=earlier, processor_ns={3: 1_500_000_000})
    assert "thread 3 used 0.50 s of processor time in 0.5 s, and is where it was" in [e.text for e in later.evidence]


def test_who_has_moved_was_not_stuck() -> None:
    held = {0: holds("&a"), 1: holds("&b")}
    rows = thread(0, lock("&b")), thread(1, lock("&a")), thread(2)
    earlier = Moment(threads=(thread(0), thread(1), thread(2)))
    verdict = first(*rows, held=held, earlier=earlier)
    assert (verdict.kind, verdict.stuck) == ("lock_cycle", "unknown")


def test_who_has_moved_and_come_back_was_not_stuck() -> None:
    held = {0: holds("&a"), 1: holds("&b")}
    rows = thread(0, lock("&b")), thread(1, lock("&a")), thread(2)
    there = Moment(threads=rows, held=held)
    elsewhere = Moment(threads=(thread(0), thread(1), thread(2)))
    verdicts, _, _ = concluded(there, (there, elsewhere), 1.0)
    assert (verdicts[0].kind, verdicts[0].stuck) == ("lock_cycle", "unknown")
    verdicts, _, _ = concluded(there, (there, there), 1.0)
    assert (verdicts[0].kind, verdicts[0].stuck) == ("lock_cycle", "likely")


def test_a_barrier_that_was_passed_in_between_holds_nobody_up() -> None:
    rows = [tuple(thread(n, barrier((3,), generation=passed)) for n in range(3)) for passed in (4, 5)]
    reading = {3: SystemWait(kind=Kind.IO, routine="read", system_call="read", descriptor=0)}
    earlier = Moment(threads=(*rows[0], thread(3)), system=reading)
    assert first(*rows[1], thread(3), system=reading, earlier=earlier).stuck == "unknown"
    assert first(*rows[0], thread(3), system=reading, earlier=earlier).stuck != "unknown"


def test_who_is_at_a_barrier_that_some_are_leaving_waits_for_one_thing() -> None:
    def there(passed: int) -> list[ThreadRecord]:
        return [thread(n, barrier(None, object=64, generation=passed, how="spinning")) for n in range(4)]

    (verdict, *others), nodes, _ = concluded(Moment(threads=tuple(there(4))), (Moment(threads=tuple(there(4))),), 0.5)
    assert (verdict.kind, verdict.stuck, verdict.explains, others) == ("undecided", "possible", (0, 1, 2, 3), [])
    assert [node.kind for node in nodes].count("barrier") == 1
    assert first(*there(5), earlier=Moment(threads=tuple(there(4)))).stuck == "unknown"


def test_a_wakeup_that_was_lost() -> None:
    rows = tuple(thread(n, barrier((), unfinished_tasks=0, how="released")) for n in range(2))
    used = {0: 10, 1: 10}
    verdict = first(*rows, earlier=Moment(threads=rows, processor_ns=used), processor_ns=used)
    assert (verdict.kind, verdict.stuck, verdict.explains) == ("lost_wakeup", "likely", (0, 1))
    # No thread wakes up while a signal has stopped the process, at one of the moments or at both.
    free = Moment(threads=rows, processor_ns=used)
    for before, after in ((False, True), (True, False), (True, True)):
        verdicts, _, _ = concluded(replace(free, is_held=after), (replace(free, is_held=before),), 0.5)
        assert all(row.stuck != "likely" for row in verdicts) and (not after or verdicts[0].kind == "no_stall")
    # One thread woke up in between.
    moved = first(*rows, earlier=Moment(threads=rows, processor_ns=used), processor_ns={0: 10, 1: 20})
    assert moved.explains == (0,)


def test_what_is_not_known_keeps_no_thread_that_has_moved_since() -> None:
    rows = thread(0, barrier(None)), thread(1, barrier(None)), thread(2)
    elsewhere = thread(0), thread(1), thread(2)
    assert first(*rows, earlier=Moment(threads=rows)).kind == "undecided"
    assert first(*rows, earlier=Moment(threads=(elsewhere[0], *rows[1:]))).kind == "undecided"
    assert first(*rows, earlier=Moment(threads=elsewhere)).kind == "no_stall"
    # Threads that have waited since the earlier moment are proven stuck, threads that have just come only likely.
    assert first(*rows[:2], earlier=Moment(threads=rows)).stuck == "proven"
    assert first(*rows[:2], earlier=Moment(threads=elsewhere)).stuck == "likely"
