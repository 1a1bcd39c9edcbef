"""``ompd profile`` on running programs that lose time in a known way, and on healthy ones."""

from __future__ import annotations

import pytest

from ompd.model import ProfileAnswer
from ompd.model.kinds import Activity
from tests.support import FULL
from tests.support.profiles import GNU, LLVM, Profiled, hurry, line_of, part_of, profiled

# A case of the program, the expected first cause, and the comment at the line where it is.
CASES = (
    ("uneven", "imbalance", "UNEVEN"),
    ("noisy", "imbalance", "UNEVEN"),
    ("serial", "serial", "burns"),
    ("convoy", "convoy", "ACCOUNT"),
    ("tiny", "tiny_regions", "TINY"),
)
SECONDS = 6.0 if FULL else 1.5


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)


def has_causes(answer: ProfileAnswer) -> bool:
    return bool(answer.verdicts)


def has_slow(answer: ProfileAnswer) -> bool:
    # On a busy machine the other thread may be late, too, because it has no processor.
    slow = answer.rows[0].slow if answer.rows else None
    return bool(answer.verdicts) and slow is not None and slow.are_same


@pytest.mark.parametrize("runtime", [GNU, LLVM])
@pytest.mark.parametrize(("case", "kind", "mark"), CASES, ids=[case for case, _, _ in CASES])
@pytest.mark.quick("uneven-libgomp", "convoy-libomp-19", "tiny-libgomp")
def test_the_cause_of_lost_time_is_found(case: str, kind: str, mark: str, runtime: str) -> None:
    accepted, threads = has_slow if case == "uneven" else has_causes, 4 if case == "convoy" else 2
    found = profiled(case, runtime, seconds=SECONDS, accepted=accepted, threads=threads)
    (first, *_) = found.answer.verdicts
    assert first.kind == kind, found.answer
    assert first.place is not None and first.place.line in (line_of(mark), line_of(mark) + 1), first
    assert first.share.low is not None and first.share.low > 0.1 and first.gain > 1
    if case == "uneven":
        slow = found.answer.rows[0].slow
        assert slow is not None and slow.are_same and slow.thread_nums[0] == 1
        assert {line.place.function for line in slow.lines} == {"burn"}


@pytest.mark.quick()
def test_the_turns_of_ordered_are_found() -> None:
    found = profiled("ordered", GNU, seconds=SECONDS, accepted=has_causes, threads=4)
    (first, *_) = found.answer.verdicts
    assert first.kind == "ordered_serial" and first.place is not None and first.place.function == "ordered", first


@pytest.mark.parametrize("runtime", [GNU, LLVM])
@pytest.mark.parametrize("case", ["even", "tasks", "sleeps"])
@pytest.mark.quick("even-libgomp")
def test_a_healthy_program_has_no_cause(case: str, runtime: str) -> None:
    # On a busy machine a thread may really wait for another one that has no processor, but not each time.
    found = profiled(case, runtime, seconds=SECONDS, accepted=lambda answer: not answer.verdicts)
    assert found.kinds == [], found.answer.verdicts
    assert {row.file for row in found.answer.rows} - {None}, "no region was seen"


def is_around(found: Profiled, activity: Activity, own: float) -> bool:
    # Three times the 95 % interval, so that chance does not matter. A thread without a processor may wait, too.
    share, without = part_of(found.answer, activity), part_of(found.answer, Activity.NO_PROCESSOR)
    assert share.low is not None and share.high is not None and without.high is not None
    half = 3 * max(share.high - share.mean, share.mean - share.low, 0.02)
    return share.mean - half <= own <= share.mean + half + without.high


def has_intervals(answer: ProfileAnswer) -> bool:
    return answer.efficiency is not None and answer.efficiency.low is not None


@pytest.mark.parametrize("runtime", [GNU, LLVM])
@pytest.mark.parametrize(
    ("case", "activity", "clock"),
    [("uneven", Activity.IMBALANCE, "wait"), ("convoy", Activity.LOCK, "lock")],
    ids=["uneven", "convoy"],
)
@pytest.mark.quick("uneven-libomp-19")
def test_parts_agree_with_the_programs_own_clocks(case: str, activity: Activity, clock: str, runtime: str) -> None:
    found = profiled(case, runtime, seconds=SECONDS, accepted=has_intervals)
    assert is_around(found, activity, found.own[clock]), (found.answer.activities, found.own)


@pytest.mark.quick()
def test_the_serial_part_agrees_with_the_programs_own_clock() -> None:
    found = profiled("serial", LLVM, seconds=SECONDS, accepted=has_intervals)
    serial = found.answer.serial
    assert serial is not None and serial.low is not None and serial.high is not None
    half = 3 * max(serial.high - serial.mean, 0.02)
    assert abs(serial.mean - found.own["serial"]) <= half, (serial, found.own)


@pytest.mark.quick()
def test_a_look_costs_little() -> None:
    found = profiled("uneven", GNU, seconds=5.0, threads=4)
    sampling = found.answer.sampling
    assert sampling is not None and sampling.moments > 30 and sampling.look_ms < 15
