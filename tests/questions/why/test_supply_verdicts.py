"""Verdicts on the supply of processes, made of records: what machines of these tests cannot show, and thresholds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ompd.analysis.verdicts.supply.bindings import binding_settings
from ompd.analysis.verdicts.supply.demand import processors_in_words, settings_in_words
from ompd.analysis.verdicts.supply.spinning import wait_policy
from ompd.analysis.verdicts.supply.verdicts import placed, supply_verdicts
from ompd.model import ThreadRecord, VerdictRecord, Wait
from ompd.model.kinds import Confidence, Kind, VerdictKind
from ompd.model.supply import OtherProcess, ProcessorUse, Quota, RoomForThreads, Settings, Supply, ThreadSupply
from ompd.render.answers.why import notes_on, sureness_of

SECOND = 1_000_000_000
BUSY_PROCESSOR = ProcessorUse(idle_ns=0, stolen_ns=0, total_ns=SECOND)
IDLE_PROCESSOR = ProcessorUse(idle_ns=SECOND, stolen_ns=0, total_ns=SECOND)


def thread(native: int, ran: float = 1.0, delayed: float = 0.0, cpus: str = "01", faults: int = 0) -> ThreadSupply:
    """Make a thread that may use the processors whose digits are in *cpus*. Times are in seconds."""
    return ThreadSupply(
        native_thread_id=native,
        processors=frozenset(map(int, cpus)),
        ran_ns=int(ran * SECOND),
        delayed_ns=int(delayed * SECOND),
        major_faults=faults,
    )


def supply(*threads: ThreadSupply, **facts: Any) -> Supply:
    """Make the supply of process 1 in one second, on two busy processors if *facts* do not say otherwise."""
    usual = {"online": frozenset((0, 1)), "use": {0: BUSY_PROCESSOR, 1: BUSY_PROCESSOR}}
    return Supply(process_id=1, seconds=1.0, threads=threads, **{**usual, **facts})


def other(
    native: int = 50, used: float = 1.0, cpus: str = "01", *, count: int = 1, related: bool = False
) -> OtherProcess:
    return OtherProcess(
        process_id=native,
        program="other",
        used_ns=int(used * SECOND),
        ready=(frozenset(map(int, cpus)),) * count,
        is_related=related,
    )


def row(native: int, state: str = "work_parallel", runtime: str | None = "libgomp", **facts: Any) -> ThreadRecord:
    return ThreadRecord(runtime=runtime, native_thread_id=native, thread_type=None, state=state, **facts)


def rows(*natives: int) -> list[ThreadRecord]:
    return [row(native) for native in natives]


def kinds(given: Supply, *moments: list[ThreadRecord]) -> list[str]:
    return [verdict.kind for verdict in supply_verdicts(given, moments)]


def first(given: Supply, *moments: list[ThreadRecord]) -> VerdictRecord:
    return supply_verdicts(given, moments)[0]


# Placement


def test_an_idle_processor_proves_that_placement_is_the_cause() -> None:
    crowded = (thread(1, 0.5, 0.5, "0"), thread(2, 0.5, 0.5, "0"))
    busy, idle = supply(*crowded), supply(*crowded, use={0: BUSY_PROCESSOR, 1: IDLE_PROCESSOR})
    assert (first(busy, rows(1, 2)).confidence, first(idle, rows(1, 2)).confidence) == ("likely", "proven")
    assert any("processor 1 of the machine was idle" in item.text for item in first(idle, rows(1, 2)).evidence)


@pytest.mark.parametrize(
    ("cpus", "expected"),
    [
        (("0", "0"), ["few_processors"]),
        (("0", "1"), []),
        (("01", "01"), []),
        (("0", "0", "1", "1"), []),  # four on two processors, however they are bound
        (("0", "0", "1"), []),
        (("01", "0", "0"), []),
    ],
)
def test_threads_share_too_few_processors_if_another_one_could_run_some(
    cpus: tuple[str, ...], expected: list[str]
) -> None:
    threads = [thread(number, 0.5, 0.5, mask) for number, mask in enumerate(cpus, 1)]
    assert [kind for kind in kinds(supply(*threads), rows(*range(1, len(cpus) + 1))) if kind != "starved"] == expected


def test_the_union_of_masks_does_not_hide_who_shares_one_processor() -> None:
    idle = [thread(1, 0.0, 0.0, "0"), thread(2, 0.0, 0.0, "1")]
    given = supply(*idle, thread(3, 0.5, 0.5, "0"), thread(4, 0.5, 0.5, "0"))
    verdict = first(given, [*rows(1, 2), row(3, runtime=None), row(4, runtime=None)])
    assert (verdict.kind, verdict.explains) == ("few_processors", (3, 4))


def test_other_processes_are_no_cause_if_the_own_threads_are_too_many() -> None:
    settings = Settings(kinds={"libgomp": "libgomp"}, variables={"GOMP_CPU_AFFINITY": "0"})
    beside = OtherProcess(process_id=50, program="x", used_ns=SECOND, ready=(frozenset((0,)),), is_related=False)
    alone = supply(thread(1, 0.3, 0.7, "0"), others=(beside,), settings=settings)
    two = supply(thread(1, 0.3, 0.7, "0"), thread(2, 0.3, 0.7, "0"), others=(beside,), settings=settings)
    assert "no process knows of the others" in first(alone, rows(1)).summary
    assert first(two, rows(1, 2)).summary.endswith("GOMP_CPU_AFFINITY=0 binds them there")


def test_who_spins_on_processors_of_others_is_not_said_twice() -> None:
    given = supply(thread(1, 0.3, 0.7), thread(2, 0.3, 0.7), others=(other(4),))
    found = placed([verdict(VerdictKind.OVERSUBSCRIBED)], given, [rows(1, 2)])
    assert [each.kind for each in found] == ["oversubscribed"]


def test_a_thread_that_gets_its_time_shares_nothing() -> None:
    assert kinds(supply(thread(1, 0.9, 0.1, "0"), thread(2, 0.9, 0.1, "0")), rows(1, 2)) == []


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"PMI_SIZE": "4"}, "mpiexec"),
        ({"SLURM_CPUS_ON_NODE": "2"}, "Slurm"),
        ({}, "its parent bash may use no others either"),
    ],
)
def test_who_bound_the_process_is_concluded_from_its_environment(variables: dict[str, str], words: str) -> None:
    threads = (thread(1, 0.5, 0.5, "0"), thread(2, 0.5, 0.5, "0"))
    settings = Settings(kinds={"libgomp": "libgomp"}, variables=variables)
    given = supply(*threads, settings=settings, parent="bash", parent_processors=frozenset((0,)))
    assert words in first(given, rows(1, 2)).summary


def test_threads_bound_later_than_the_process_are_the_program_s() -> None:
    threads = (thread(1, 0.0, 0.0), thread(2, 0.5, 0.5, "0"), thread(3, 0.5, 0.5, "0"))
    assert "sched_setaffinity()" in first(supply(*threads), rows(1, 2, 3)).summary


def test_an_unreadable_environment_is_said_to_be_unknown() -> None:
    verdict = first(supply(thread(1, 0.5, 0.5, "0"), thread(2, 0.5, 0.5, "0")), rows(1, 2))
    assert any("environment" in unknown for unknown in verdict.unknowns)


@pytest.mark.parametrize(
    ("variables", "kind", "expected"),
    [
        ({"OMP_PLACES": "{0}"}, "libgomp", {"OMP_PLACES"}),
        ({"OMP_PLACES": "{0}", "OMP_PROC_BIND": "FALSE"}, "libgomp", set()),
        ({"KMP_AFFINITY": "compact"}, "libgomp", set()),
        ({"KMP_AFFINITY": "compact"}, "libomp", {"KMP_AFFINITY"}),
        ({"KMP_AFFINITY": "none", "OMP_PLACES": "{0}"}, "libiomp5", set()),
        ({"KMP_AFFINITY": "verbose", "OMP_PLACES": "{0}"}, "libomp", {"OMP_PLACES"}),
        ({"GOMP_CPU_AFFINITY": "0"}, "libomp", {"GOMP_CPU_AFFINITY"}),
    ],
)
def test_each_runtime_has_its_variables(variables: dict[str, str], kind: str, expected: set[str]) -> None:
    assert set(binding_settings(Settings(kinds={"x": kind}, variables=variables))) == expected


# Shortage


def test_a_quota_counts_if_it_stopped_the_process() -> None:
    def with_quota(stopped: int | None, periods: int | None) -> Supply:
        quota = Quota(file="cpu.max", processors=1.5, periods=periods, throttled_periods=stopped, throttled_ns=SECOND)
        return supply(thread(1, 0.5, 0.5), settings=Settings(processors=64), quotas=(quota,))

    verdict = first(with_quota(9, 10), rows(1))
    assert (verdict.kind, verdict.confidence) == ("throttled", "proven")
    assert verdict.advice[0].startswith("OMP_NUM_THREADS=2, or a larger quota in cpu.max")
    assert any("the runtime counted 64 processors" in item.text for item in verdict.evidence)
    assert "throttled" not in {*kinds(with_quota(0, 10), rows(1)), *kinds(with_quota(None, None), rows(1))}


def test_a_throttled_process_is_not_said_to_be_starved_as_well() -> None:
    quota = Quota(file="cpu.max", processors=1.0, periods=10, throttled_periods=10)
    given = supply(thread(1, 0.2, 0.8), thread(2, 0.2, 0.8), quotas=(quota,), others=(other(count=4),))
    assert kinds(given, rows(1, 2)) == ["throttled"]


def test_who_takes_processors_is_named_or_said_to_be_unseen() -> None:
    threads = (thread(1, 0.5, 0.5), thread(2, 0.5, 0.5))
    seen, unseen = first(supply(*threads, others=(other(),)), rows(1, 2)), first(supply(*threads), rows(1, 2))
    assert seen.kind == unseen.kind == "starved"
    assert "process 50 (other) used 1.0 of them" in seen.summary
    assert "cannot be seen from here" in unseen.summary and "cannot be seen" not in seen.summary


def test_time_that_other_virtual_machines_take_is_named() -> None:
    stolen = ProcessorUse(idle_ns=0, stolen_ns=SECOND // 2, total_ns=SECOND)
    given = supply(thread(1, 0.5, 0.5), thread(2, 0.5, 0.5), use={0: stolen, 1: stolen})
    assert "other virtual machines used 1.0" in first(given, rows(1, 2)).summary


def test_delay_that_nobody_explains_is_no_verdict() -> None:
    idle = {0: IDLE_PROCESSOR, 1: IDLE_PROCESSOR}
    assert kinds(supply(thread(1, 0.5, 0.5), thread(2, 0.5, 0.5), use=idle), rows(1, 2)) == []


def test_pools_of_one_process_are_added_up() -> None:
    threads = [thread(native, 0.5, 0.5) for native in (1, 2, 3, 4)]
    both = [*rows(1, 2), row(3, runtime=None), row(4, runtime=None)]
    verdict = first(supply(*threads), both)
    assert verdict.kind == "oversubscribed" and verdict.is_about_supply
    assert verdict.summary.startswith("2 OpenMP threads and 2 other threads of this process take turns on 2 processors")
    assert any("OPENBLAS_NUM_THREADS" in text for text in verdict.advice)
    assert kinds(supply(*threads), rows(1, 2, 3, 4)) == []  # merely more threads than processors


def test_threads_that_wait_for_pages_are_no_shortage_of_processors() -> None:
    given = supply(thread(1, 0.1, 0.0, faults=300), thread(2, 0.1, 0.0, faults=3), pressure=0.4)
    verdict = first(given, rows(1, 2))
    assert (verdict.kind, verdict.explains) == ("starved", (1,)) and "300 pages came from a disk" in verdict.summary
    assert any("40 %" in item.text for item in verdict.evidence)


@pytest.mark.parametrize("seconds", [0.0, 0.01, 0.2])
def test_looks_that_are_close_together_measure_nothing(seconds: float) -> None:
    threads = (thread(1, 0.5, 0.5, "0"), thread(2, 0.5, 0.5, "0"), thread(3, 0.0, faults=50))
    assert kinds(replace(supply(*threads), seconds=seconds), rows(1, 2, 3)) == []


def test_times_that_could_not_be_read_measure_nothing() -> None:
    unread = ThreadSupply(native_thread_id=1, processors=frozenset((0,)))
    assert kinds(supply(unread, replace(unread, native_thread_id=2)), rows(1, 2)) == []


# Spinning


def test_idle_threads_that_spin_are_no_demand() -> None:
    given = supply(thread(1, 0.5, 0.5, "0"), thread(2, 0.5, 0.5, "0"))
    assert kinds(given, [row(1), row(2, "idle")]) == []  # thread 1 may have begun regions meanwhile


def test_a_lock_that_is_wanted_at_both_looks_may_have_been_held_in_between() -> None:
    wait = Wait(kind=Kind.LOCK, object=16, how="spinning")
    wants = [row(1), row(2, "wait_lock", wait=wait)]
    assert kinds(supply(thread(1, 1.0), thread(2, 1.0)), wants, wants) == []


def test_a_pool_spins_only_if_it_was_idle_at_all_looks() -> None:
    given = supply(thread(1, 0.0), thread(2, 1.0))
    idle, works = [row(1), row(2, "idle")], [row(1), row(2)]
    assert (kinds(given, idle, idle), kinds(given, works, idle)) == (["spin_burn"], [])


def test_waiting_threads_that_spin_have_not_passed_their_barrier() -> None:
    def at_barrier(generation: int) -> list[ThreadRecord]:
        wait = Wait(kind=Kind.BARRIER, object=16, generation=generation, how="spinning")
        return [row(1), row(2, "wait_barrier", wait=wait)]

    given = supply(thread(1, 1.0), thread(2, 1.0), settings=Settings(variables={"OMP_WAIT_POLICY": "active"}))
    assert (kinds(given, at_barrier(3), at_barrier(3)), kinds(given, at_barrier(3), at_barrier(4))) == (
        ["spin_burn"],
        [],
    )


@pytest.mark.parametrize(
    ("variables", "kind", "expected"),
    [
        ({"OMP_WAIT_POLICY": "ACTIVE", "GOMP_SPINCOUNT": "infinity"}, "libgomp", {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}),
        ({"GOMP_SPINCOUNT": "infinity"}, "libomp", set()),
        ({"KMP_BLOCKTIME": "infinite"}, "libgomp", set()),
        (
            {"OMP_WAIT_POLICY": "passive", "KMP_BLOCKTIME": "5s", "KMP_LIBRARY": "throughput"},
            "libomp",
            {"KMP_BLOCKTIME"},
        ),
    ],
)
def test_only_settings_of_the_own_runtime_make_threads_spin(
    variables: dict[str, str], kind: str, expected: set[str]
) -> None:
    assert set(wait_policy(Settings(variables=variables), frozenset((kind,)))) == expected


def test_what_the_runtime_has_stored_counts_before_the_environment() -> None:
    settings = Settings(variables={"KMP_BLOCKTIME": "5"}, displayed={"KMP_BLOCKTIME": "infinite", "KMP_LIBRARY": "x"})
    assert wait_policy(settings, frozenset(("libomp",))) == {"KMP_BLOCKTIME": "infinite"}


# Limits


def narrow(threads: int) -> RoomForThreads:
    """Make a limit that leaves room for some threads."""
    return RoomForThreads(
        name="the user's number of threads", setting="ulimit -u", most=9, used=9 - threads, threads=threads
    )


@pytest.mark.parametrize(
    ("room", "team", "expected"), [(3, 4, []), (2, 4, []), (1, 4, ["limits"]), (0, 2, []), (0, None, [])]
)
def test_a_limit_counts_if_the_next_region_needs_more(room: int, team: int | None, expected: list[str]) -> None:
    given = supply(rooms=(narrow(room),), settings=Settings(team_size=team))
    assert kinds(given, rows(1, 2)) == expected


# Among other verdicts


def verdict(kind: VerdictKind, stuck: Confidence = Confidence.UNKNOWN) -> VerdictRecord:
    return VerdictRecord(kind=kind, stuck=stuck, confidence=Confidence.PROVEN, summary="")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((verdict(VerdictKind.NO_STALL),), ["few_processors", "no_stall", "limits"]),
        ((verdict(VerdictKind.LAGGARD),), ["few_processors", "laggard", "limits"]),
        (
            (verdict(VerdictKind.LOCK_CYCLE, Confidence.PROVEN), verdict(VerdictKind.LAGGARD)),
            ["lock_cycle", "few_processors", "laggard", "limits"],
        ),
        ((verdict(VerdictKind.EXTERNAL_WAIT, Confidence.LIKELY),), ["external_wait", "few_processors", "limits"]),
        ((verdict(VerdictKind.UNDECIDED),), ["undecided", "few_processors", "limits"]),
        ((verdict(VerdictKind.OVERSUBSCRIBED),), ["few_processors", "oversubscribed", "limits"]),
    ],
)
def test_threads_that_may_be_stuck_come_first(given: tuple[VerdictRecord, ...], expected: list[str]) -> None:
    crowded = supply(
        thread(1, 0.5, 0.5, "0"), thread(2, 0.5, 0.5, "0"), rooms=(narrow(0),), settings=Settings(team_size=8)
    )
    found = placed(given, crowded, [rows(1, 2)])
    assert [each.kind for each in found] == expected
    assert all(each.stuck == "unknown" for each in found if each.is_about_supply)


@pytest.mark.parametrize(("delayed", "expected"), [(0.3, ["no_stall", "starved"]), (0.7, ["starved", "no_stall"])])
def test_who_loses_little_time_to_others_has_another_cause_of_slowness(delayed: float, expected: list[str]) -> None:
    threads = [thread(native, 1 - delayed, delayed) for native in (1, 2)]
    found = placed([verdict(VerdictKind.NO_STALL)], supply(*threads, others=(other(),)), [rows(1, 2)])
    assert [each.kind for each in found] == expected


def test_facts_that_could_not_be_read_are_unknowns_of_the_verdict_that_nothing_hangs() -> None:
    (only,) = placed([verdict(VerdictKind.NO_STALL)], supply(unknowns=("the quota: hidden",)), [rows(1)])
    assert only.unknowns == ("the quota: hidden",)


def test_the_text_has_the_measurements_and_does_not_speak_of_stuck_threads() -> None:
    shown = first(supply(thread(1, 0.5, 0.5, "0"), thread(2, 0.5, 0.5, "0")), rows(1, 2))
    notes = list(notes_on(shown, is_first=True, whole=False, verbose=False))
    assert sum(label == "because" for label, _ in notes) >= 2
    assert [label for label, _ in sureness_of(shown)] == ["cause"]


def test_a_long_value_of_a_variable_is_cut() -> None:
    assert len(settings_in_words({"OMP_PLACES": "{0}," * 10_000})) < 100


def test_numbers_of_processors_are_ranges() -> None:
    assert processors_in_words({3}) == "processor 3" and processors_in_words({0, 1, 2, 8}) == "processors 0-2,8"
