"""A wait is not proven to last if a thread other than the recorded one might end it."""

from __future__ import annotations

from dataclasses import replace

from ompd.model import TaskWaitRecord, ThreadRecord
from tests.support.moments import barrier, first, judged, lock, task, thread


def owner_at_barrier() -> tuple[ThreadRecord, ThreadRecord]:
    return thread(0, barrier((1,), size=2), team_size=2), thread(1, lock("&a", 0), team_size=2)


def test_a_task_that_the_owner_of_a_lock_executes_where_it_waits_may_unset_it() -> None:
    rows = owner_at_barrier()
    assert judged(*rows) == ("lock_cycle", "proven", "proven")
    detached = task("a", "task0", None, "detached", waits_for=TaskWaitRecord("event", None, (), None, 0x10))
    after = task("b", "task0", None, "waiting", waits_for=TaskWaitRecord("dependence", 1, ("a",), None, None))
    outside = ThreadRecord(native_thread_id=9, thread_type="other")
    tasks = (task("task0", None, 0, "executing"), task("task1", None, 1, "executing"), detached, after)
    verdict = first(*rows, outside, tasks=tasks, unfinished={"region": 2})
    assert (verdict.kind, verdict.stuck) == ("lock_cycle", "likely")
    assert "a task that the lock's owner executes where it waits may let go of the lock" in verdict.unknowns
    # No thread is left that might fulfil the event.
    assert first(*rows, tasks=tasks, unfinished={"region": 2}).stuck == "proven"


def test_a_member_that_goes_on_may_create_such_a_task() -> None:
    rows = owner_at_barrier()
    team = (replace(rows[0], team_size=3), replace(rows[1], team_size=3), thread(2, team_size=3))
    assert judged(*team)[:2] == ("lock_cycle", "proven")
    assert judged(*team, makes_tasks=True)[:2] == ("lock_cycle", "likely")
    # A member that is in an inner region comes back.
    assert judged(*team[:2], thread(2, parallel="inner"), makes_tasks=True)[:2] == ("lock_cycle", "likely")
    assert judged(*rows, makes_tasks=True)[:2] == ("lock_cycle", "proven")


def test_an_untied_task_may_hold_the_lock_of_the_thread_on_which_it_was() -> None:
    rows = owner_at_barrier()
    implicit = tuple(task(f"task{n}", None, n, "executing", unfinished_children=n) for n in (0, 1))
    untied = task("u", "task1", 2, "executing", tied=False, unfinished_children=0)
    tied = replace(untied, tied=True)
    beside = thread(2, parallel="other")
    assert first(*rows, beside, tasks=(*implicit, tied), moves_tasks=True).stuck == "proven"
    assert first(*rows, beside, tasks=(*implicit, untied), moves_tasks=True).stuck == "likely"
    # The task is on some thread, even if no record shows which.
    assert first(*rows, beside, tasks=implicit, moves_tasks=True).stuck == "likely"
    assert first(*rows, beside, tasks=(*implicit, untied)).stuck == "proven"


def test_who_may_cancel_the_region_frees_its_barrier() -> None:
    rows = (thread(0, barrier((1, 2), size=3), team_size=3), thread(1, lock("&a", 0), team_size=3))
    assert first(*rows, thread(2, team_size=3)).stuck == "proven"
    assert first(*rows, thread(2, team_size=3), cancels_regions=frozenset(("libgomp",))).stuck == "likely"
