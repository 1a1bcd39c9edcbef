"""Estimates, activities and causes of a profile, from made-up moments."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import pytest

from ompd.analysis.profile.causes import causes, gain_of
from ompd.analysis.profile.estimates import estimate
from ompd.analysis.profile.regions import Regions
from ompd.analysis.profile.seen import Named, SeenLock, SeenMoment, SeenRegion, SeenThread
from ompd.model import Place, RegionFunction
from ompd.model.kinds import Activity

ENTRY, CALL, HOT, WAIT, OUT = 0x1000, 0x500, 0x1010, 0x1020, 0x600
NAMED = Named(
    frames={
        (HOT,): (Place(HOT, "f", "/src/a.c", 12),),
        (WAIT,): (Place(WAIT, "f", "/src/a.c", 14),),
        (OUT,): (Place(OUT, "main", "/src/a.c", 30),),
        (CALL,): (Place(CALL, "f", "/src/a.c", 10),),
        (): (),
    },
    constructs={ENTRY: RegionFunction(ENTRY, "f", "/src/a.c", 10, "parallel")},
    calls={230: "clock_nanosleep"},
    locks={0x99: "&lock"},
)
AT_END = "wait_barrier_implicit_parallel"


def thread(number: int, state: str | None, **more: object) -> SeenThread:
    code = (HOT,) if state == "work_parallel" else (WAIT,) if state and "wait_c" in state else ()
    given: dict[str, object] = {"native_thread_id": 100 + number, "thread_num": number, "region": 0, "code": code}
    return SeenThread(state=state, **given | more)  # type: ignore[arg-type]


def moment(
    at: int, *states: str | None, barrier: tuple[int, int] | None = None, entry: int | None = ENTRY
) -> SeenMoment:
    threads = tuple(thread(number, state) for number, state in enumerate(states))
    return SeenMoment(at * 0.05, threads, (SeenRegion(entry, (CALL,), len(states), barrier),))


def outside(at: int, size: int = 2) -> SeenMoment:
    first = SeenThread(native_thread_id=100, thread_num=0, state="work_serial", code=(OUT,))
    others = (SeenThread(native_thread_id=100 + number, state="idle") for number in range(1, size))
    return SeenMoment(at * 0.05, (first, *others), ())


def regions(moments: Sequence[SeenMoment], delays: Mapping[int, float] | None = None) -> Regions:
    return Regions(moments, NAMED, delays or {})


def found(moments: Sequence[SeenMoment]) -> list[str]:
    made = regions(moments)
    return [str(cause.kind) for cause in causes(made, made.records())]


def parts(moments: Sequence[SeenMoment], delays: Mapping[int, float] | None = None) -> dict[str, float]:
    (record,) = regions(moments, delays).records()
    return {str(each.activity): round(each.share.mean, 3) for each in record.activities}


# Estimates


def test_there_is_no_interval_for_few_moments() -> None:
    few, enough = estimate([0.0, 1.0] * 14), estimate([0.0, 1.0] * 15)
    assert (few.mean, few.low, few.high) == (0.5, None, None)
    assert enough.low is not None and enough.high is not None


def test_equal_moments_have_the_interval_of_the_rule_of_three() -> None:
    never, always = estimate([0.0] * 60), estimate([1.0] * 60)
    assert (never.low, never.high) == (0.0, 0.05) and (always.low, always.high) == (0.95, 1.0)


@pytest.mark.parametrize("phase", [1, 5], ids=["independent", "phases"])
def test_nineteen_of_twenty_intervals_have_the_truth(phase: int) -> None:
    # A program is in one of two phases, each some moments long, as the next throw of a coin says.
    draw = random.Random(7)
    hits = 0
    for _ in range(400):
        values = [float(value) for _ in range(400 // phase) for value in [draw.random() < 0.3] * phase]
        interval = estimate(values)
        assert interval.low is not None and interval.high is not None
        hits += interval.low <= 0.3 <= interval.high
    assert hits >= 0.91 * 400


# Activities


def test_waiting_at_a_barrier_is_imbalance_only_while_a_member_works() -> None:
    assert parts([moment(0, AT_END, "work_parallel")]) == {"imbalance": 0.5, "work": 0.5}
    assert parts([moment(0, AT_END, "overhead")]) == {"overhead": 1.0}
    assert parts([moment(0, AT_END, AT_END)]) == {"overhead": 1.0}


def test_waiting_at_a_barrier_for_tasks_is_no_imbalance() -> None:
    executing = thread(1, "work_parallel", in_task=True)
    seen = SeenMoment(0.0, (thread(0, AT_END), executing), (SeenRegion(ENTRY, (CALL,), 2),))
    assert parts([seen]) == {"tasks": 0.5, "work": 0.5}


def test_user_code_that_sleeps_does_not_work() -> None:
    seen = SeenMoment(0.0, (thread(0, "work_parallel", call=230), thread(1, "work_parallel")), moment(0, None).regions)
    (record,) = regions([seen]).records()
    assert parts([seen]) == {"asleep": 0.5, "work": 0.5}
    assert [(each.kind, each.symbol) for each in record.objects] == [("call", "clock_nanosleep")]


def test_time_without_a_processor_is_counted_once() -> None:
    # Thread 1 lacks a processor at half of the moments; by the kernel's count it waited for one half of its time.
    lacking = thread(1, None, lacks_processor=True)
    seen = [
        moment(0, "work_parallel", "work_parallel"),
        SeenMoment(0.05, (thread(0, "work_parallel"), lacking), moment(0, None).regions),
    ]
    assert parts(seen, {101: 0.5}) == {"work": 0.75, "no_processor": 0.25}
    assert parts(seen, {101: 0.75}) == {"work": 0.625, "no_processor": 0.375}


def test_a_region_without_code_is_found_by_the_call_that_began_it() -> None:
    seen = [moment(0, AT_END, "overhead", entry=None), moment(1, "work_parallel", AT_END)]
    (record,) = regions(seen).records()
    assert (record.moments, record.line) == (2, 10)


def test_a_region_that_nothing_shows_is_the_only_one_of_its_team() -> None:
    def of_team(at: int, entry: int | None, begun_at: tuple[int, ...]) -> SeenMoment:
        lacking = thread(0, None, lacks_processor=True), thread(1, None, lacks_processor=True)
        return SeenMoment(at * 0.05, lacking, (SeenRegion(entry, begun_at, 2, team="libgomp 0x1"),))

    hidden = of_team(0, None, ())
    assert [record.line for record in regions([hidden, of_team(1, ENTRY, (CALL,))]).records()] == [10]
    several = [hidden, of_team(1, ENTRY, (CALL,)), of_team(2, 0x3000, (0x700,))]
    assert len(regions(several).records()) == 3


def test_the_beginning_of_a_region_belongs_to_it() -> None:
    begins = SeenThread(native_thread_id=100, thread_num=0, state="overhead", code=(0x2000, CALL))
    idle = SeenThread(native_thread_id=101, state="idle")
    made = regions([moment(0, "work_parallel", "work_parallel"), SeenMoment(0.05, (begins, idle), ())])
    (record,) = made.records()
    assert record.moments == 2 and made.serial.mean == 0
    assert {str(each.activity): each.share.mean for each in record.activities} == {"work": 0.5, "overhead": 0.5}


def test_an_unknown_lock_is_the_one_of_its_place() -> None:
    known = thread(0, "wait_critical", lock=SeenLock("critical", 0x99))
    seen = [
        SeenMoment(
            number * 0.05,
            (thread(0, "wait_critical") if number % 2 else known, thread(1, "work_parallel")),
            moment(0, None).regions,
        )
        for number in range(40)
    ]
    (record,) = regions(seen).records()
    (lock,) = record.objects
    assert (lock.kind, lock.symbol, lock.share.mean, lock.waiting.mean) == ("critical", "&lock", 0.5, 1.0)
    assert [line.place.line for line in lock.holders] == [12]


# Causes


def test_a_healthy_program_has_no_cause() -> None:
    work = [moment(number, "work_parallel", "work_parallel") for number in range(95)]
    assert found([*work, *(moment(95 + number, AT_END, "work_parallel") for number in range(5))]) == []


def test_a_cause_needs_a_certain_tenth_of_the_time() -> None:
    def share(late: int) -> list[SeenMoment]:
        return [moment(n, AT_END if n % 100 < late else "work_parallel", "work_parallel") for n in range(400)]

    assert found(share(22)) == [] and found(share(60)) == ["imbalance"]
    assert found(share(100)[:29]) == []  # too few moments


def test_the_slow_members_are_the_same_or_change() -> None:
    same = [moment(number, AT_END, AT_END, AT_END, "work_parallel") for number in range(40)]
    turns = [moment(n, *("work_parallel" if n % 4 == m else AT_END for m in range(4))) for n in range(40)]
    (slow,) = (record.slow for record in regions(same).records())
    assert slow is not None and (slow.thread_nums, slow.are_same, slow.native_thread_ids) == ((3,), True, (103,))
    assert [(line.place.line, line.part) for line in slow.lines] == [(12, 1.0)]
    (slow,) = (record.slow for record in regions(turns).records())
    assert slow is not None and not slow.are_same and len(slow.thread_nums) == 4
    (verdict,) = causes(regions(same), regions(same).records())
    assert verdict.roots == (103,) and "thread 3, always the same" in verdict.summary


def test_the_serial_part_follows_amdahl() -> None:
    made = regions([outside(n) if n % 2 else moment(n, "work_parallel", "work_parallel") for n in range(200)])
    (verdict,) = causes(made, made.records())
    assert verdict.kind == "serial" and verdict.place is not None and verdict.place.line == 30
    assert verdict.share.mean == 0.5 and verdict.share.high is not None
    assert verdict.gain == gain_of(verdict.share.high / 2) > 1 / (0.5 + 0.5 / 2)
    assert made.efficiency.mean == 0.75


def test_regions_are_tiny_by_the_count_of_their_barriers() -> None:
    def region(passed: int) -> list[SeenMoment]:
        return [moment(n, AT_END, "overhead", barrier=(0x700, passed * n)) for n in range(60)]

    assert found(region(1000)) == ["tiny_regions"]  # 50 us each
    assert found(region(1)) == []
    assert regions(region(1000)).records()[0].length == pytest.approx(50e-6)


def test_the_causes_with_the_largest_gain_come_first() -> None:
    waits = [moment(n, "wait_ordered", "wait_ordered", "work_parallel") for n in range(90)]
    made = regions([*waits, *(outside(n, 3) for n in range(90, 180))])
    assert [str(cause.kind) for cause in causes(made, made.records())] == ["serial", "ordered_serial"]


def test_the_activities_of_the_run_are_of_the_largest_team() -> None:
    made = regions([outside(0, 4), moment(1, "work_parallel", "work_parallel")])
    assert {str(each.activity): each.share.mean for each in made.activities_of_run()} == {
        "work": 0.5,
        "serial": 0.25,
        "idle": 0.25,
    }


def test_a_run_without_regions_is_serial() -> None:
    made = regions([SeenMoment(n * 0.05, (), ()) for n in range(40)])
    assert made.serial.mean == 1.0 and made.team_size == 1 and causes(made, made.records()) == ()
    assert made.activities_of_run()[0].activity is Activity.SERIAL
