"""Verdicts on invented moments: the facts that each verdict needs, and those that weaken it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ompd.analysis import roots
from ompd.analysis.answers import concluded
from ompd.analysis.moment import Moment
from ompd.model import (
    HeldRecord,
    ParallelRecord,
    Place,
    SchedulingRecord,
    SystemWait,
    TaskRecord,
    TaskWaitRecord,
    ThreadRecord,
    Wait,
)
from ompd.model.kinds import Kind
from tests.support.moments import TEAM, UNTIL_WOKEN, barrier, first, holds, judged, lock, queued, task, thread


def test_two_locks_with_recorded_owners() -> None:
    verdict = first(thread(0, lock("&b", 1)), thread(1, lock("&a", 0)), thread(2), thread(3))
    assert (verdict.kind, verdict.stuck, verdict.confidence) == ("lock_cycle", "proven", "proven")
    assert verdict.roots == (0, 1) and verdict.explains == (0, 1)
    assert [link.object for link in verdict.cycle] == ["&b", "&a"]
    assert verdict.what_if == "if &b were released, 2 of 2 waiting threads go on"


def test_of_threads_at_one_place_the_sentence_names_the_one_that_has_the_lock() -> None:
    at_one_place = Place(0x10, "meet", "a.c", 3)
    team = (thread(0, barrier((1,), size=3)), thread(1, lock("&a", 0)), thread(2, barrier((1,), size=3)))
    verdict = first(*(replace(row, where=at_one_place, team_size=3) for row in team))
    assert verdict.cycle[0].threads == (0, 2)
    assert verdict.summary == (
        "deadlock: 2 threads wait at a barrier, which thread 1 (1) has not reached;"
        " thread 1 (1) waits for &a, which thread 0 (0) holds"
    )


def test_a_lock_that_a_search_found_proves_nothing() -> None:
    searched = lock("&b", 1, owner_source="derived")
    verdict = first(thread(0, searched), thread(1, lock("&a", 0)))
    assert (verdict.kind, verdict.stuck, verdict.confidence) == ("lock_cycle", "likely", "likely")
    assert verdict.unknowns == ("&b: a search of the thread's registers and stack found it",)
    verdict = first(thread(0, lock("&a", 0, owner_source="derived")), thread(1, lock("&a", 0)))
    assert (verdict.kind, verdict.stuck, verdict.unknowns) == (
        "self_lock",
        "likely",
        ("&a: its owner may have got it just now",),
    )


def test_an_atomic_update_is_held_by_who_has_begun_one_of_the_same_runtime() -> None:
    begun = (HeldRecord(kind=Kind.ATOMIC, reason="GOMP_atomic_start is not undone"),)
    rows = thread(0, lock("&a")), thread(1, Wait(Kind.ATOMIC, object=0x40, how="blocked"))
    held = {0: begun, 1: holds("&a")}
    assert judged(*rows, held=held) == ("lock_cycle", "proven", "likely")
    other = thread(0, lock("&a"), runtime="libomp")
    assert judged(other, rows[1], held=held)[0] != "lock_cycle"


def test_a_handler_may_want_what_the_interrupted_code_has() -> None:
    unknown = (HeldRecord(kind=Kind.LOCK, reason="omp_set_lock is not undone", is_certain=False),)
    rows, held = (thread(0, lock("&a")), thread(1, barrier((0,), 2))), {0: unknown, 1: ()}
    assert judged(*rows, held=held, handlers=frozenset((0,))) == ("runtime_reentry", "proven", "likely")
    assert judged(*rows, held=held)[0] == "lock_cycle"  # by elimination


def doacross(number: int | None = None, owner: int | None = None) -> Wait:
    facts = {} if number is None else {"object": 0x40 + number, "symbol": f"iteration {number}"}
    return Wait(Kind.DOACROSS, **facts, owner=owner, owner_source=None if owner is None else "runtime", how="spinning")  # type: ignore[arg-type]


def test_an_iteration_of_a_doacross_loop_is_awaited_from_the_thread_that_executes_it() -> None:
    size: dict[str, Any] = {"team_size": 2}
    one, two = thread(0, doacross(1, 1), **size), thread(1, lock("&a", 0), **size)
    verdict = first(one, two)
    assert (verdict.kind, verdict.stuck, verdict.confidence) == ("lock_cycle", "proven", "proven")
    assert verdict.summary.startswith("deadlock: thread 0 (0) waits for iteration 1 of a doacross loop")
    assert judged(one, thread(1, **size)) == ("laggard", "unknown", "proven")
    # Without a record the executing thread is the one that is left, and the iteration may be done.
    verdict = first(thread(0, doacross(), **size), two)
    assert (verdict.kind, verdict.stuck, verdict.confidence) == ("lock_cycle", "likely", "likely")
    assert verdict.unknowns[-1] == "an iteration of a doacross loop: whether it is done is not known"
    three = {"team_size": 3}
    rows = thread(0, doacross(), **three), thread(1, doacross(), **three), thread(2, barrier((0, 1), 3), **three)
    assert judged(*rows)[0] == "undecided"


def test_members_that_await_an_iteration_execute_later_ones() -> None:
    def awaits(iteration: int, loop: int = 0x40) -> Wait:
        name = f"iteration {iteration}"
        return Wait(Kind.DOACROSS, object=0x60, symbol=name, loop=loop, iteration=iteration, how="spinning")

    size: dict[str, Any] = {"team_size": 3}
    two, zero, at_end = thread(2, awaits(1), **size), thread(0, awaits(2), **size), barrier((1, 2), 3)
    assert judged(zero, two, thread(1, lock("&a", 2), **size)) == ("lock_cycle", "proven", "likely")
    assert judged(zero, two, thread(1, **size)) == ("laggard", "unknown", "likely")
    # The member that has left the loop has not reported its iteration.
    assert judged(thread(0, at_end, **size), two, thread(1, barrier((2,), 3), **size))[:2] == ("lock_cycle", "proven")
    # A thread in another loop may execute it.
    other = thread(0, awaits(2, loop=0x80), **size)
    assert judged(other, two, thread(1, barrier((0, 2), 3), **size))[0] == "lock_cycle"
    assert judged(other, two, thread(1, **size))[1] == "unknown"


def test_a_cycle_of_reasoned_holders_is_likely_and_stuck_for_certain_in_a_closed_world() -> None:
    held = {0: holds("&a"), 1: holds("&b")}
    rows = thread(0, lock("&b")), thread(1, lock("&a"))
    assert judged(*rows, held=held) == ("lock_cycle", "proven", "likely")
    # A working thread may release the locks.
    assert judged(*rows, thread(2), held=held) == ("lock_cycle", "likely", "likely")
    # So may an unlisted thread, or something outside of the process.
    assert judged(*rows, held=held, has_all_threads=False) == ("lock_cycle", "likely", "likely")
    assert judged(*rows, held=held, outside=("a timer is armed",)) == ("lock_cycle", "likely", "likely")


def test_a_thread_that_a_signal_or_another_thread_may_take_out_of_its_wait_is_not_proven_to_be_stuck() -> None:
    rows = thread(0, lock("&b", 1)), thread(1, lock("&a", 0)), thread(2)
    assert judged(*rows)[1] == "proven"
    for how in ("signals", "cancels"):
        verdict = first(*rows, **{how: {1: "somebody may"}})
        assert (verdict.kind, verdict.stuck, verdict.confidence) == ("lock_cycle", "likely", "proven")
        assert verdict.unknowns == ("somebody may",)
    # No thread cancels another if none goes on.
    assert judged(*rows[:2], cancels={0: "it may be cancelled"})[1] == "proven"


def test_a_lock_that_nobody_is_seen_to_hold() -> None:
    assert judged(thread(0, lock("&a")), thread(1, lock("&a"))) == ("lock_abandoned", "proven", "possible")
    assert judged(thread(0, lock("&a")), thread(1)) == ("undecided", "possible", "unknown")


def test_who_certainly_holds_a_lock_has_it_though_another_way_may_lead_there() -> None:
    rows = thread(0, lock("&b")), thread(1, lock("&a"))
    maybe = holds("&a", is_certain=False)
    held = {0: (*maybe, *holds("&a")), 1: (*maybe, *holds("&b"))}
    assert judged(*rows, held=held) == ("lock_cycle", "proven", "likely")
    # Two threads may hold the lock, so neither counts as its holder. That the holder has left it is only possible.
    held = {0: maybe, 1: (*maybe, *holds("&b"))}
    assert judged(*rows, held=held) == ("lock_abandoned", "proven", "possible")


def test_an_owner_that_is_gone_may_be_a_thread_that_no_runtime_knows() -> None:
    rows = thread(0, lock("&a", owner_gone="the thread that the runtime has numbered 9"), team_size=1)
    stranger = ThreadRecord(native_thread_id=9, thread_type="other")
    assert judged(rows)[:2] == ("lock_abandoned", "proven")
    assert judged(rows, stranger)[:2] == ("lock_abandoned", "likely")


def test_a_section_was_left_only_if_nobody_may_stand_in_it() -> None:
    section = Wait(Kind.CRITICAL, object=0x2000, how="blocked")
    rows = thread(0, section), thread(1, section)
    stands = {
        "nowhere": ((), "likely"),
        "in a lock": (holds("x", Kind.LOCK), "likely"),
        # Without names, the runtime's object of one section cannot be compared with the variable of another.
        "in a section, by its variable": (holds("x", Kind.CRITICAL), "possible"),
        "in a section that is not seen": ((HeldRecord(kind=Kind.CRITICAL),), "possible"),
    }
    for held, confidence in stands.values():
        assert judged(*rows, held={0: held, 1: ()}) == ("lock_abandoned", "proven", confidence)
    # If the section's variable or name is known, another section is recognised as another.
    other: dict[int, tuple[HeldRecord, ...]] = {0: holds("x", Kind.CRITICAL), 1: ()}
    assert judged(*rows, held=other, variables={0x2000: 0x3000}) == ("lock_abandoned", "proven", "likely")
    named = replace(section, symbol="y")
    assert judged(thread(0, named), thread(1, named), held=other) == ("lock_abandoned", "proven", "likely")


def test_nobody_is_seen_to_leave_a_turn_behind() -> None:
    turn = Wait(Kind.ORDERED, object=0x2000, how="blocked")
    rows = thread(0, turn), thread(1, lock("&a"))
    held: dict[int, tuple[HeldRecord, ...]] = {0: holds("&a"), 1: ()}
    assert judged(*rows, held=held) == ("lock_abandoned", "proven", "possible")


def test_the_turn_is_that_of_the_only_thread_that_does_not_wait_for_its_own() -> None:
    turn = Wait(Kind.ORDERED, how="blocked")
    pauses = {2: SystemWait(kind=Kind.SIGNAL, routine="pause")}
    rows = thread(0, turn), thread(1, replace(turn, object=0x2000)), thread(2), thread(3, barrier((0, 1, 2)))
    verdict = first(*rows, system=pauses)
    assert (verdict.kind, verdict.stuck, verdict.confidence) == ("external_wait", "possible", "likely")
    assert (verdict.roots, verdict.explains) == ((2,), (0, 1, 3))
    assert judged(*rows[:3], thread(3), system=pauses)[0] == "undecided"
    assert judged(*rows[:3], system=pauses)[0] == "undecided"  # the turn may be the fourth thread's


def test_a_region_inside_of_a_critical_section_is_no_orphaned_worksharing() -> None:
    section = Wait(Kind.CRITICAL, object=sum(b"x"), symbol="x", how="blocked")
    held = {0: holds("x", Kind.CRITICAL), 1: ()}
    for more in ({"level": 2}, {"level": 1, "state": "wait_barrier_implicit_parallel"}):
        rows = thread(0, barrier((1,), 2), team_size=2, **more), thread(1, section, team_size=2)
        assert judged(*rows, held=held) == ("lock_cycle", "proven", "likely")


def test_a_thread_that_holds_what_it_waits_for() -> None:
    rows = thread(0, lock("&a", 0)), thread(1, barrier((0,), 2))
    assert judged(*rows) == ("self_lock", "proven", "proven")
    assert judged(*rows, handlers=frozenset((0,)))[0] == "runtime_reentry"


def test_a_thread_that_may_be_awake_is_not_stuck_for_certain() -> None:
    """An unknown event may already have ended the wait of a thread that may be awake."""
    asleep = thread(0, lock("&a")), thread(1, barrier((0,), 2))
    assert judged(*asleep)[1] == "proven"
    for how in ("spinning", None):
        awake = thread(0, lock("&a", how=how)), asleep[1]
        assert judged(*awake)[1] == "possible"
        # A lock with the thread in its queue has not released it, and a lock with an owner is not free.
        assert judged(*awake, queued=frozenset((0,)))[1] == "proven"
        assert judged(thread(0, lock("&a", 1, how=how)), asleep[1])[1] == "proven"
    # Some threads may be leaving a barrier, and the others do not know yet.
    assert judged(thread(0, barrier(None, how=None)), thread(1, barrier((0,), 2)))[1] == "possible"


def test_what_a_thread_slept_on_outside_of_openmp_has_changed() -> None:
    rows = thread(0), thread(1, barrier((0,), 2))
    system = {0: SystemWait(kind=Kind.SEMAPHORE, object=0x1000, is_timed=False, is_shared=False)}
    assert judged(*rows, system=system, how={0: "blocked"})[1] == "proven"
    assert judged(*rows, system=system, how={0: "released"})[1] == "possible"
    assert judged(*rows, system=system)[1] == "possible"
    idle = thread(0, state="idle", parallel=None)
    assert judged(idle, rows[1], how={0: "blocked"})[1] == "proven"
    assert judged(idle, rows[1], how={0: "released"})[1] == "possible"


def test_an_owner_of_which_it_is_not_known_who_it_is_proves_nothing() -> None:
    facts = {"kind": Kind.MUTEX, "object": 0x1000, "is_timed": False, "is_shared": False}
    rows, how = (thread(0), thread(1, barrier((0,), 2))), {0: "blocked"}
    ended = SystemWait(owner=7, is_owner_alive=False, owner_source="runtime", **facts)
    assert judged(*rows, thread(2), system={0: ended}, how=how)[:2] == ("lock_abandoned", "proven")
    lost = {"is_owner_alive": "the target has lost threads, or which of them is 7 inside of the process"}
    unknown = SystemWait(owner=7, unavailable=lost, **facts)
    assert judged(*rows, thread(2), system={0: unknown}, how=how)[1] == "possible"
    # The number of a thread outside of the container proves nothing, either.
    itself = SystemWait(owner=0, unavailable=lost, **facts)
    assert judged(*rows, thread(2), system={0: itself}, how=how)[1] != "proven"


def test_members_that_come_and_go_are_not_lost() -> None:
    region = ParallelRecord("region", "libgomp", 1, 1, 3, None, None, (0, 1, None))
    rows = [thread(n, barrier(None), team_size=3) for n in range(2)]
    assert judged(*rows, regions=(region,), gone={"libgomp": 1}) == ("barrier_absent", "proven", "proven")
    # A thread that is awake may be starting the others, or these may have left after the last barrier.
    assert judged(rows[0], thread(1), regions=(region,), gone={"libgomp": 1})[1] != "proven"
    # The runtime does not know a thread that has just been made.
    assert (
        judged(*rows, thread(7, runtime=None, state=None, parallel=None), regions=(region,), gone={"libgomp": 1})[1]
        != "proven"
    )
    # The runtime lists as many threads as the process has.
    assert judged(*rows, regions=(region,))[0] != "barrier_absent"
    assert (
        judged(*rows, thread(7, state="idle", runtime=None), regions=(region,), gone={"libgomp": 1})[0] == "undecided"
    )


def test_an_idle_thread_in_the_code_of_the_program_may_do_anything() -> None:
    rows = [thread(n, lock("&a", how="blocked")) for n in range(2)]
    assert judged(*rows, thread(2, state="idle"), how={2: "blocked"})[1] == "proven"
    inside = Place(0x1000, "work", "work.c", 1)
    assert judged(*rows, thread(2, state="idle", where=inside))[1] == "possible"


def test_only_a_worker_whose_stack_is_known_is_idle_in_the_pool() -> None:
    # A thread that has just begun or ended a region is in no team, too, and may be in a call that looks like sleep.
    waits = {1: SystemWait(kind=Kind.SEMAPHORE, object=0x1000, symbol="&asked", is_timed=False, is_shared=False)}
    helper = thread(1, runtime=None, parallel=None, state=None)
    idle = {"state": "idle", "parallel": None}
    how: dict[int, str | None] = {0: "blocked", 1: "blocked"}
    assert judged(helper, thread(0, **idle), system=waits, how=how) == ("external_wait", "proven", "likely")
    lost = {"where": "its stack could not be followed to code of the user's"}
    assert judged(helper, thread(0, unavailable=lost, **idle), system=waits, how=how)[1] == "possible"
    assert judged(helper, thread(0, thread_type="initial", **idle), system=waits, how=how)[1] == "possible"
    unknown = {"thread_type": None, "unavailable": {"thread_type": "lost"}}
    assert judged(helper, thread(0, **unknown, **idle), system=waits, how=how)[1] == "possible"


def test_a_laggard_is_no_hang() -> None:
    rows = [thread(n, barrier((3,))) for n in range(3)]
    assert judged(*rows, thread(3)) == ("laggard", "unknown", "proven")
    # Threads that wait for many working threads are no finding.
    assert judged(thread(0, barrier((1, 2, 3))), thread(1), thread(2), thread(3))[0] == "no_stall"


def test_spinning_for_a_processor() -> None:
    rows = [thread(n, barrier((3,), how="spinning")) for n in range(3)]
    assert judged(*rows, thread(3), processors=1)[0] == "oversubscribed"
    assert judged(*rows, thread(3), processors=4)[0] == "laggard"
    assert judged(*rows, thread(3))[0] == "laggard"


def test_barriers_of_one_team_that_wait_for_each_other() -> None:
    rows = [
        thread(0, barrier((2, 3))),
        thread(1, barrier((2, 3))),
        thread(2, barrier((0, 1))),
        thread(3, barrier((0, 1))),
    ]
    verdict = first(*rows)
    assert (verdict.kind, verdict.stuck, verdict.confidence) == ("barrier_mismatch", "proven", "proven")
    assert verdict.explains == (0, 1, 2, 3)
    in_single = {2: (HeldRecord(kind=Kind.SINGLE, reason="it stands in single"),)}
    assert judged(*rows, held=in_single) == ("orphaned_worksharing", "proven", "likely")


def test_a_member_that_has_ended() -> None:
    rows = [thread(n, barrier((3,))) for n in range(3)]
    assert judged(*rows) == ("barrier_absent", "proven", "proven")
    assert judged(*rows, has_all_threads=False)[1] == "possible"


def test_members_that_a_fork_did_not_copy() -> None:
    region = ParallelRecord("region", "libgomp", 1, 1, TEAM, None, None, (0, None, None, None))
    row = thread(0, barrier(None), unavailable={"wait.missing": "the team has 4 threads, the process 1"})
    assert judged(row, regions=(region,), gone={"libgomp": 3}, is_fork=True) == ("fork_child", "proven", "proven")
    # A spinning thread may already be free: its barrier's word was not compared.
    spinning = replace(row, wait=barrier(None, how="spinning"))
    assert judged(spinning, regions=(region,), gone={"libgomp": 3}, is_fork=True)[1:] != ("proven", "proven")


def test_a_member_that_may_be_a_thread_of_which_nothing_is_known_has_not_ended() -> None:
    region = ParallelRecord("region", "libgomp", 1, 1, TEAM, None, None, (0, 1, 2, None))
    rows = [thread(n, barrier(None)) for n in range(3)]
    assert judged(*rows, regions=(region,), gone={"libgomp": 1})[:2] == ("barrier_absent", "proven")
    lost = ThreadRecord(native_thread_id=9, thread_type=None, unavailable={"runtime": "its page is lost"})
    assert judged(*rows, lost, regions=(region,), gone={"libgomp": 1})[1] != "proven"


def test_an_event_that_nobody_fulfils() -> None:
    waits = TaskWaitRecord("event", event=0x50)
    tasks = (
        task("task0", None, 0, "executing", unfinished_children=1),
        task("t", "task0", None, "detached", waits_for=waits),
    )
    rows = thread(0, Wait(Kind.TASKWAIT, how="blocked")), thread(1, barrier((0,), 2))
    assert judged(*rows, tasks=tasks) == ("event_unfulfilled", "proven", "proven")
    assert judged(*rows, thread(2), tasks=tasks) == ("event_unfulfilled", "possible", "likely")


def test_queued_tasks_that_somebody_may_execute_are_no_hang() -> None:
    tasks = (task("task0", None, 0, "executing", unfinished_children=1), queued("q", "task0"))
    assert judged(thread(0, Wait(Kind.TASKWAIT, how="blocked")), tasks=tasks)[1] == "unknown"


def test_a_queued_task_that_somebody_may_execute_may_do_anything() -> None:
    # A barrier that the whole team has reached, with two tasks left: one in a queue, one that was not found.
    rows = [thread(n, barrier((), 2, unfinished_tasks=2), team_size=2) for n in range(2)]
    semaphore = SystemWait(kind=Kind.SEMAPHORE, object=0x80, symbol="&asked", is_timed=False, is_shared=False)
    stranger = ThreadRecord(native_thread_id=9, thread_type="other")
    for tasks, stuck in (((), {"proven"}), ((queued("q", "task0"),), {"possible"})):
        moment = Moment(threads=(*rows, stranger), tasks=tasks, system={9: semaphore}, how={9: "blocked"})
        verdicts, _, _ = concluded(moment)
        assert {row.stuck for row in verdicts if row.kind == "external_wait"} == stuck


@pytest.mark.parametrize(
    ("tasks", "how", "stuck"),
    [
        pytest.param((), "blocked", "proven", id="nobody is awake to have taken it"),
        pytest.param((), "spinning", "possible", id="taken just now"),
        pytest.param((queued("q", "task0"),), "blocked", "possible", id="queued"),
        pytest.param((task("q", "task0", None, "unknown"),), "spinning", "possible", id="of which nothing is known"),
        pytest.param((task("q", "task0", 1, "suspended"),), "spinning", "proven", id="on a thread that waits"),
    ],
)
def test_a_task_for_which_nobody_waits_yet_may_do_anything(tasks: tuple[TaskRecord, ...], how: str, stuck: str) -> None:
    # Thread 0 of a team of two waits for something that a task may do. Thread 1 may execute the task at its barrier.
    semaphore = SystemWait(kind=Kind.SEMAPHORE, object=0x80, symbol="&asked", is_timed=False, is_shared=False)
    rows = thread(0, team_size=2), thread(1, barrier((0,), 2, how=how), team_size=2)
    facts = {"system": {0: semaphore}, "how": {0: "blocked"}, "unfinished": {"region": 1}}
    verdict = first(*rows, tasks=tasks, **facts)
    assert (verdict.kind, verdict.stuck) == ("external_wait", stuck)
    assert any("tasks are in a queue" in text for text in verdict.unknowns) == any(t.status == "queued" for t in tasks)


def test_queued_tasks_that_nobody_can_execute() -> None:
    # The thread at the scheduling point executes only children of its own task.
    tasks = (
        task("task0", None, 0, "executing", unfinished_children=1),
        task("task1", None, 1, "executing", unfinished_children=1),
        task("on1", "task0", 1, "suspended"),
        queued("q", "task1"),
    )
    rows = (
        thread(0, Wait(Kind.TASKWAIT, how="blocked"), team_size=2),
        thread(1, lock("&a", 0), team_size=2),
    )
    kind, stuck, _ = judged(
        *rows,
        tasks=tasks,
        points={0: SchedulingRecord(native_thread_id=0, kind=Kind.TASKWAIT, task="task0", takes="children")},
    )
    assert (kind, stuck) == ("lock_cycle", "proven")


@pytest.mark.parametrize("how", ["spinning", "blocked", None])
def test_a_task_on_no_thread_may_have_been_taken_by_who_is_awake(how: str | None) -> None:
    # A task that a thread has taken from a queue and not yet begun is on no thread and in no queue.
    tasks = [task(f"task{n}", None, n, "executing") for n in range(2)]
    tasks += [task(f"child{n}", f"task{n}", None, "unknown") for n in range(2)]
    rows = [thread(n, Wait(Kind.TASKWAIT, how=how), team_size=2) for n in range(2)]
    points = {
        n: SchedulingRecord(
            native_thread_id=n, kind=Kind.TASKWAIT, task=f"task{n}", takes="any", count=1, tasks=(f"child{n}",)
        )
        for n in range(2)
    }
    assert (judged(*rows, tasks=tuple(tasks), points=points)[1] == "proven") == (how == "blocked")


@pytest.mark.parametrize("executes", [True, False])
def test_who_holds_pythons_lock_is_reasoned_out(executes: bool) -> None:
    waits = SystemWait(kind=Kind.GIL, is_timed=False, unavailable={"owner": "of this release it is not known"})
    found = first(
        thread(0, barrier((1,), 2)),
        thread(1),
        system={1: waits},
        how={1: "blocked"},
        may_hold_interpreter=frozenset((0,) if executes else ()),
    )
    kinds = ("lock_cycle", "likely") if executes else ("external_wait", "likely")
    assert (found.kind, found.confidence, found.stuck) == (*kinds, "proven")


def test_a_lock_for_which_a_thread_waits_that_no_runtime_knows() -> None:
    other = {"runtime": None, "parallel": None, "thread_num": None}
    waits = {n: SystemWait(kind=Kind.FUTEX, object=0x10 * (2 - n), **UNTIL_WOKEN) for n in range(2)}
    held = {n: (HeldRecord(kind=Kind.LOCK, object=0x10 * (n + 1), symbol=f"&lock{n}"),) for n in range(2)}
    found = first(
        *(thread(n, **other) for n in range(2)), system=waits, held=held, how=dict.fromkeys((0, 1), "blocked")
    )
    assert (found.kind, found.stuck, found.confidence) == ("lock_cycle", "proven", "likely")
    assert [link.object for link in found.cycle] == ["&lock1", "&lock0"]


def test_nobody_works() -> None:
    calls = {0: SystemWait(kind=Kind.CHILD, routine="waitpid", peer="process 7")}
    found = first(thread(0), thread(1, state="idle"), system=calls)
    assert (found.kind, found.stuck, found.roots) == ("external_wait", "possible", (0,))
    assert found.summary == "no thread works: thread 0 (0) is in waitpid for process 7"
    assert first(thread(0), thread(1), system=calls).kind == "no_stall"


def test_no_task_waits_for_itself_at_the_end_of_its_own_group() -> None:
    # libomp records a task that has begun a group as a member of this group.
    waiting = thread(0, Wait(Kind.TASKGROUP), task="outer")
    tasks = (task("outer", None, 0, "executing"), task("inner", "outer", 1, "executing"))
    point = SchedulingRecord(
        native_thread_id=0, kind=Kind.TASKGROUP, task="outer", takes="group", count=1, tasks=("outer", "inner")
    )
    assert judged(waiting, thread(1, task="inner"), tasks=tasks, points={0: point}) == ("laggard", "unknown", "proven")


def test_a_root_outside_of_openmp() -> None:
    rows = [thread(n, barrier((3,))) for n in range(3)]
    reading = SystemWait(kind=Kind.IO, routine="read", system_call="read", descriptor=0)
    verdict = first(*rows, thread(3), system={3: reading})
    assert (verdict.kind, verdict.stuck, verdict.confidence, verdict.roots) == (
        "external_wait",
        "possible",
        "proven",
        (3,),
    )
    assert "read" in verdict.summary


def test_a_mutex_of_a_thread_that_has_ended() -> None:
    rows = [thread(n, barrier((3,))) for n in range(3)]
    gone: dict[str, Any] = {"owner": 99, "owner_source": "runtime", "is_owner_alive": False}
    mutex = SystemWait(kind=Kind.MUTEX, object=0x80, **gone, **UNTIL_WOKEN)
    assert judged(*rows, thread(3), system={3: mutex}) == ("lock_abandoned", "proven", "proven")
    timed = replace(mutex, is_timed=True)
    assert judged(*rows, thread(3), system={3: timed})[:2] == ("external_wait", "possible")


@pytest.mark.parametrize("unknown", ["is_timed", "is_shared"])
def test_what_is_not_known_of_a_wait_makes_no_proof(unknown: str) -> None:
    waits = {n: SystemWait(kind=Kind.SEMAPHORE, object=0x80, **UNTIL_WOKEN) for n in range(2)}
    rows, how = [thread(n) for n in range(2)], dict.fromkeys(range(2), "blocked")
    assert judged(*rows, system=waits, how=how)[1] == "proven"
    waits[0] = replace(waits[0], **{unknown: None})
    assert judged(*rows, system=waits, how=how)[1] == "possible"


def test_only_its_owner_ends_the_wait_for_a_lock_that_processes_share() -> None:
    facts: dict[str, Any] = {"kind": Kind.MUTEX, "is_timed": False, "is_shared": True}
    facts.update({"owner_source": "runtime", "is_owner_alive": True})
    waits = {n: SystemWait(object=0x80 + n, owner=1 - n, **facts) for n in range(2)}
    assert judged(*(thread(n) for n in range(2)), system=waits) == ("lock_cycle", "proven", "proven")


def test_an_owner_that_a_forked_process_does_not_have_may_be_its_first_thread() -> None:
    gone: dict[str, Any] = {"owner": 99, "owner_source": "runtime"}
    gone["unavailable"] = {"is_owner_alive": "fork() made the process"}
    waits = {n: SystemWait(kind=Kind.MUTEX, object=0x80, **gone, **UNTIL_WOKEN) for n in (1, 2)}
    rows = [thread(n) for n in range(3)]
    found = first(*rows, system=waits, forked=0)
    assert (found.kind, found.stuck) == ("lock_abandoned", "likely")
    assert "fork() made the process" in found.unknowns
    # The first thread waits for the same mutex, too.
    assert judged(*rows, system={**waits, 0: waits[1]}, forked=0)[1] == "proven"


# A task without a record of its thread, and other members of the team in which its parent waits.
LOOSE = task("child", "task0", None, "executing", unavailable={"thread": "kept only for tools"})
AT_TASKWAIT = thread(0, Wait(Kind.TASKWAIT, how="spinning"))
AT_END = [thread(native, barrier((0,), 3, how="spinning")) for native in (2, 3)]


def of_loose(*others: ThreadRecord, **facts: Any) -> tuple[str, str, str]:
    tasks = (task("task0", None, 0, "suspended", unfinished_children=1), LOOSE)
    own = [task(f"task{row.native_thread_id}", None, row.native_thread_id, "executing") for row in others]
    return judged(AT_TASKWAIT, *others, tasks=(*tasks, *own), **facts)


def test_a_task_that_nothing_leads_to_goes_on_with_the_threads_that_do() -> None:
    assert of_loose(thread(1), *AT_END) == ("laggard", "unknown", "likely")
    assert of_loose(*(thread(native) for native in (1, 2, 3))) == ("no_stall", "unknown", "likely")


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(thread(1, lock("&a")), id="waits for a lock"),
        pytest.param(thread(1, barrier(None, how="spinning"), task="child"), id="is at a barrier inside of a task"),
        pytest.param(thread(1, state=None, unavailable={"state": "its stack is lost"}), id="does what nobody knows"),
        pytest.param(thread(1, parallel="inner"), id="is in a region of its own"),
    ],
)
def test_a_task_that_nothing_leads_to_may_be_on_a_thread_that_something_else_holds_up(other: ThreadRecord) -> None:
    assert of_loose(other, thread(2), thread(3))[0] in ("undecided", "orphaned_worksharing")


def test_a_task_that_nothing_leads_to_does_not_go_on_where_nobody_does() -> None:
    assert of_loose(AT_END[0], AT_END[1], thread(1, barrier((0,), 3, how="spinning")))[:2] == ("undecided", "possible")


def test_a_taskwait_whose_tasks_are_complete_goes_on() -> None:
    tasks = (task("task0", None, 0, "suspended", unfinished_children=0),)
    assert judged(AT_TASKWAIT, thread(1), tasks=tasks) == ("no_stall", "unknown", "proven")


def test_a_lock_of_the_runtime_is_let_go_by_who_is_awake_inside_of_it() -> None:
    rows = [thread(native, Wait(Kind.INTERNAL_LOCK, object=0x1000, how="blocked")) for native in (0, 1)]
    assert judged(*rows, thread(2, state="overhead")) == ("laggard", "unknown", "likely")
    # A thread in the program's own code does not release it.
    assert judged(*rows, thread(2)) == ("undecided", "possible", "unknown")
    assert judged(*rows) == ("lock_abandoned", "proven", "possible")


def test_a_program_that_has_not_begun_with_openmp_does_not_hang() -> None:
    row = ThreadRecord(native_thread_id=0, thread_type=None)
    assert judged(row) == ("no_stall", "unknown", "proven")
    reads = {0: SystemWait(kind=Kind.IO, system_call="read")}
    assert judged(row, system=reads, how={0: "blocked"}) == ("external_wait", "possible", "proven")


def test_two_runtimes_that_wait_for_each_other() -> None:
    verdict = first(thread(0, lock("&b", 1)), thread(1, lock("&a", 0), runtime="libomp"))
    assert (verdict.kind, verdict.stuck, verdict.confidence) == ("duplicate_runtimes", "proven", "likely")


def test_nothing_hangs() -> None:
    assert judged(thread(0), thread(1)) == ("no_stall", "unknown", "proven")


def test_what_could_not_be_read_makes_no_proof() -> None:
    rows = [thread(n, barrier((3,))) for n in range(3)]
    unread = thread(3, state=None, unavailable={"state": "its stack is lost"})
    kind, stuck, confidence = judged(*rows, unread)
    assert (kind, stuck, confidence) == ("undecided", "possible", "unknown")
    assert "its stack is lost" in " ".join(first(*rows, unread).unknowns)


def test_several_causes_are_ranked() -> None:
    rows = (
        thread(0, lock("&b", 1)),
        thread(1, lock("&a", 0)),
        thread(2, barrier((3,), 2), parallel="other"),
        thread(3, parallel="other"),
    )
    verdicts, _, _ = concluded(Moment(threads=rows))
    assert [verdict.kind for verdict in verdicts] == ["lock_cycle", "laggard"]


def test_thousands_of_causes_take_no_more_than_each_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    # Any thread might release a lock without a recorded owner, and then all go on. This is found out only once.
    monkeypatch.setattr(roots, "_MOST_STEPS", 40_000)
    waits = [Wait(Kind.LOCK, object=16 * n, symbol=f"&lock[{n}]", how="blocked") for n in range(1, 4001)]
    verdicts, _, _ = concluded(Moment(threads=tuple(thread(n, wait) for n, wait in enumerate(waits))))
    assert len(verdicts) == len(waits)
    assert {(verdict.what_if or "").partition(", ")[2] for verdict in verdicts} == {
        "4000 of 4000 waiting threads would go on"
    }


def test_what_would_take_too_long_to_find_out_is_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roots, "_MOST_STEPS", -1)
    assert first(thread(0, lock("&b", 1)), thread(1, lock("&a", 0))).what_if is None


# Threads that are not OpenMP's

OUTSIDE: dict[str, Any] = {"runtime": None, "parallel": None, "state": None, "thread_num": None, "task": None}


def condition(symbol: str, **more: Any) -> SystemWait:
    facts = {"kind": Kind.CONDITION, "object": sum(map(ord, symbol)), "symbol": symbol}
    return SystemWait(**{**facts, "is_timed": False, "is_shared": False, **more})


def test_an_idle_thread_of_another_pool_waits_for_nobody() -> None:
    idle = {7: condition("&work", pool="the pool of a library")}
    rows = thread(0), thread(1, barrier((0,), 2)), thread(7, **OUTSIDE)
    assert [row.kind for row in concluded(Moment(threads=rows, system=idle))[0]] == ["laggard"]
    # A thread that joins the idle thread does wait for it.
    joins = {**idle, 0: SystemWait(kind=Kind.JOIN, owner=7, is_timed=False, is_shared=False)}
    verdict = first(*rows, system=joins)
    assert (verdict.kind, verdict.roots, verdict.explains) == ("external_wait", (7,), (0, 1))
    assert verdict.summary == "2 threads wait for thread 7, which waits for work from the pool of a library"


def test_threads_beside_openmp_come_last() -> None:
    rows, waits = (thread(0), thread(7, **OUTSIDE), thread(8, **OUTSIDE)), {7: condition("&a"), 8: condition("&b")}
    kinds = [row.kind for row in concluded(Moment(threads=rows, system=waits))[0]]
    assert kinds == ["no_stall", "external_wait", "external_wait"]
    sleeps = {**waits, 0: SystemWait(kind=Kind.SLEEP, routine="sleep", is_timed=True)}
    assert first(*rows, system=sleeps).summary == "no thread works: thread 0 (0) is in sleep"
    # Other threads count if no OpenMP thread works, if an OpenMP thread waits for them, or if they surely deadlock.
    assert first(*rows[1:], system=waits).explains == (7,)
    joins = {**waits, 0: SystemWait(kind=Kind.JOIN, owner=8, is_timed=False, is_shared=False)}
    assert first(*rows, system=joins).explains == (0, 8)
    facts = {
        "kind": Kind.MUTEX,
        "is_timed": False,
        "is_shared": False,
        "owner_source": "runtime",
        "is_owner_alive": True,
    }
    crossed = {7: SystemWait(object=1, owner=8, **facts), 8: SystemWait(object=2, owner=7, **facts)}
    assert judged(*rows, system=crossed, how=dict.fromkeys((7, 8), "blocked"))[:2] == ("lock_cycle", "proven")


@pytest.mark.parametrize(("processors", "words"), [(1, "take turns on 1 processor"), (2, "at work"), (None, "at work")])
def test_threads_at_work_take_turns_on_few_processors(processors: int | None, words: str) -> None:
    (verdict, *_) = concluded(Moment(threads=(thread(0), thread(1)), processors=processors))[0]
    assert (verdict.kind, verdict.summary) == ("no_stall", f"no hang seen: 2 OpenMP threads {words}, none waits")
    assert verdict.next_step == ("ompd doctor TARGET" if processors == 1 else "ompd threads TARGET")


def test_a_lock_whose_owner_is_idle_is_never_released() -> None:
    rows = thread(0, lock("&a", 1)), thread(1, parallel=None, state="idle"), thread(2, lock("&a", 1))
    verdict = first(*rows)
    assert verdict.kind == "lock_abandoned"
    assert verdict.summary == (
        "thread 0 (0) and thread 2 (2) wait for &a, which was not released: thread 1 (1) held it, and it is idle"
    )


def test_sentences_name_threads_as_tables_do() -> None:
    inner = {"parallel": "inner", "team_size": 2, "level": 2, "ancestors": (1,)}
    rows = thread(0, barrier((1,), 2), team_size=2), thread(1, thread_num=0, **inner)
    rows = *rows, thread(2, barrier((1,), 2), thread_num=1, **inner)
    verdicts = concluded(Moment(threads=(rows[0], *rows[1:], thread(3, parallel=None, state="idle"))))[0]
    assert verdicts[0].summary == "2 threads wait for thread 1.0 (1), which is still computing: slow, or in a loop"
    assert [link.name for link in verdicts[0].cycle] == ["thread 0 (0)", "thread 1.0 (1)"]


def test_all_threads_on_which_others_depend_are_links() -> None:
    rows = thread(0, barrier((1, 2, 3))), thread(1), thread(2, where=thread(1).where), thread(3)
    sleeps = {n: SystemWait(kind=Kind.SLEEP, routine="usleep", is_timed=True) for n in (1, 2, 3)}
    verdict = first(*rows, system=sleeps)
    assert verdict.summary == "1 thread waits for thread 1 (1), thread 2 (2) and thread 3 (3), which are in usleep"
    assert [(link.threads, link.object) for link in verdict.cycle[1:]] == [
        ((1, 2), "they are in usleep"),
        ((3,), "it is in usleep"),
    ]
