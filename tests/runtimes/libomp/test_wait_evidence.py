"""The evidence for waits: the words of owners, counts and generations that ompd read.

The truth is what the programs of ``tests/stalls`` wrote. If the holder of a lock is gone, ompd tells what the runtime
names as the owner, and never names another thread.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from ompd.contract.waits import BarrierState
from ompd.model import ThreadRecord, Wait
from ompd.questions import threads, why
from ompd.session import Session
from tests.support.cache import CHECKOUT
from tests.support.damage import overwritten
from tests.support.odd import Core, Odd, core_of
from tests.support.products import sample

FOLDER = CHECKOUT / "tests" / "stalls"
# Each runtime (how the program is linked), and the compiler of the code that it runs.
RUNTIMES = [("libgomp", "gcc"), ("dynamic", "gcc"), ("dynamic", "clang"), ("libomp-14", "clang"), ("libomp-19", "gcc")]


def stalled(name: str, link: str, compiler: str, **environment: str) -> Core:
    return core_of(Odd(name, link=link, environment=environment, folder=FOLDER), compiler)


def told(core: Core) -> dict[int, ThreadRecord]:
    with Session.open_core(core.path) as session:
        return {row.native_thread_id: row for row in threads.ask(session).rows if row.native_thread_id is not None}


def waits_of(core: Core, word: str = "waits") -> list[Wait]:
    rows = told(core)
    found = [rows[words[word]].wait for words in core.words if word in words]
    return [wait for wait in found if wait is not None]


def word_at(core: Core, address: int, size: int) -> int:
    with Session.open_core(core.path) as session:
        return int.from_bytes(session.process.memory.read(address, size), "little", signed=size == 4)


# Locks


@pytest.mark.parametrize(
    ("runtime", "holder"), sample(product(RUNTIMES, ["works", "idle", "region", "outside", "task"]))
)
def test_the_holder_of_a_nestable_lock(runtime: tuple[str, str], holder: str) -> None:
    link, compiler = runtime
    core = stalled("holders", link, compiler, HOLDER=holder)
    (holding,) = {words["holder"] for words in core.words if "holder" in words}
    waits = [wait for wait in waits_of(core) if wait.kind == "lock"]
    assert waits
    for wait in waits:
        assert wait.owner_address is not None
        assert wait.owner_value == word_at(core, wait.owner_address, 8 if link == "libgomp" else 4)
        if link != "libgomp":
            # libomp's locks belong to thread numbers, and a new thread gets the number of one that has ended.
            assert wait.owner is not None and wait.owner_gone is None
            assert holding is None or wait.owner == holding
        elif holder == "works":
            assert (wait.owner, wait.owner_source, wait.owner_gone) == (holding, "runtime", None)
        elif holder == "idle":
            assert (wait.owner, wait.owner_source) == (holding, "runtime")
            assert wait.owner_gone == "the implicit task of thread 2 in a region that is over"
        else:  # libgomp's locks belong to tasks, and these tasks are over
            assert wait.owner is None and wait.owner_gone is not None and "no thread has it" in wait.owner_gone


@pytest.mark.parametrize("holder", ["works", "idle"])
def test_the_stub_names_the_thread(holder: str) -> None:
    core = stalled("holders", "stub", "gcc", HOLDER=holder)
    (holding,) = {words["holder"] for words in core.words if "holder" in words}
    for wait in waits_of(core):
        assert (wait.kind, wait.owner, wait.owner_gone) == ("lock", holding, None)
        assert wait.owner_address is not None and wait.owner_value == word_at(core, wait.owner_address, 8)


@pytest.mark.parametrize("kind", [None, "tas", "futex", "ticket", "queuing", "drdpa"])
@pytest.mark.parametrize("runtime", [("dynamic", "gcc"), ("libomp-14", "gcc"), ("libomp-19", "clang")], ids="-".join)
@pytest.mark.quick(
    "dynamic-gcc-None",
    "dynamic-gcc-futex",
    "dynamic-gcc-ticket",
    "dynamic-gcc-drdpa",
    "libomp-14-gcc-None",
    "libomp-14-gcc-tas",
    "libomp-14-gcc-queuing",
    "libomp-19-clang-futex",
    "libomp-19-clang-ticket",
    "libomp-19-clang-queuing",
    "libomp-19-clang-drdpa",
)
def test_the_holder_of_a_lock_has_ended(runtime: tuple[str, str], kind: str | None) -> None:
    core = stalled("holders", *runtime, HOLDER="alone", **({"KMP_LOCK_KIND": kind} if kind else {}))
    (wait,) = waits_of(core)
    assert (wait.kind, wait.symbol, wait.owner) == ("lock", "&lock", None)
    assert wait.owner_gone is not None and "which it does not have any more" in wait.owner_gone
    assert wait.owner_address is not None and wait.owner_value == word_at(core, wait.owner_address, 4)


def test_a_task_whose_thread_cannot_be_read_is_not_said_to_be_over(monkeypatch: pytest.MonkeyPatch) -> None:
    core = stalled("holders", "libgomp", "gcc", HOLDER="task")
    monkeypatch.setattr("ompd.questions.threads.waits.is_damaged", lambda _: True)
    assert {wait.owner_gone for wait in waits_of(core)} == {None}


# Barriers


@pytest.mark.parametrize(("runtime", "at", "away"), sample(product(RUNTIMES, ["inside", "end"], ["0", "1"])))
def test_how_often_a_team_has_passed_its_barrier(runtime: tuple[str, str], at: str, away: str) -> None:
    link, compiler = runtime
    generations = []
    for passes in (2, 4):
        core = stalled("passed", link, compiler, PASSES=str(passes), AT=at, AWAY=away)
        rows = told(core)
        waits = {rows[words["thread"]].wait for words in core.words if words.get("number", int(away)) != int(away)}
        (wait,) = waits
        assert wait is not None and (wait.kind, wait.arrived, wait.expected) == ("barrier", 2, 3)
        assert wait.object is not None and wait.value is not None and wait.generation is not None
        assert wait.value == word_at(core, wait.object, 4)
        generations.append(wait.generation)
    assert generations[1] - generations[0] == (4 if link == "libgomp" else 2)  # libgomp counts both barriers of a team


@pytest.mark.parametrize("link", ["dynamic", "libomp-14", "libomp-19"])
def test_who_was_let_go_into_a_region_does_not_wait_at_its_end(link: str, tmp_path: Path) -> None:
    # A released worker that has cleared its b_go and is not in the region yet looks like a worker that has come back.
    # Only the count of the latter is one step ahead of the team's. Here the team gets this count, too.
    core = stalled("passed", link, "clang", PASSES="2", AT="end", AWAY="0")
    waits = {native: row.wait for native, row in told(core).items() if row.wait is not None and row.wait.missing}
    (address, value) = next((wait.object, wait.value) for wait in waits.values())
    assert len(waits) == 2 and address is not None and value is not None
    later = overwritten(core.path, tmp_path / "core", address, (value + 4).to_bytes(8, "little"))
    with Session.open_core(later) as session:
        rows = {row.native_thread_id: row for row in threads.ask(session).rows}
    for native in waits:
        found = rows[native]
        assert found.wait is None or (found.wait.arrived is None and "wait.arrived" in found.unavailable), found


def test_a_barrier_that_some_are_just_leaving_is_named(tmp_path: Path) -> None:
    # libgomp has counted one thread more than are seen at the barrier. Two looks that find different generations still
    # show that the team has gone on.
    core = stalled("passed", "libgomp", "gcc", PASSES="2", AT="inside", AWAY="0")
    before = {native: row.wait for native, row in told(core).items() if row.wait is not None and row.wait.missing}
    (address, value) = next((wait.object, wait.value) for wait in before.values())
    assert len(before) == 2 and address is not None and value is not None
    later = overwritten(core.path, tmp_path / "core", address, (value - 1).to_bytes(4, "little"))
    with Session.open_core(later) as session:
        rows = {row.native_thread_id: row for row in threads.ask(session).rows}
        verdicts = [row for row in why.ask(session).rows if set(row.explains) & set(before)]
    for native, wait in before.items():
        found = rows[native].wait
        assert wait is not None and found is not None and (found.arrived, found.expected, found.missing) == (None,) * 3
        assert (found.object, found.value, found.generation) == (address, value - 1, wait.generation)
        assert "2 threads are seen at the barrier, which has counted 3" in rows[native].unavailable["wait.arrived"]
    (verdict,) = verdicts
    assert set(verdict.explains) == set(before) and verdict.stuck in ("possible", "unknown")


def test_distributed_barriers_count_elsewhere() -> None:
    environment = {"PASSES": "4", "AT": "inside", "AWAY": "1", "KMP_PLAIN_BARRIER_PATTERN": "dist,dist"}
    core = stalled("passed", "libomp-19", "gcc", **environment)
    rows = told(core)
    waits = [rows[words["thread"]].wait for words in core.words if "thread" in words]
    assert {wait.generation for wait in waits if wait is not None} <= {None}


def test_a_barrier_has_its_word_or_none() -> None:
    assert BarrierState.gathering((1, 2, 3), {3, 1}, word=(64, 2, 7)) == BarrierState((1, 3), (2,), None, 0, 64, 2, 7)
    assert BarrierState.gathering((1, 2), {2}) == BarrierState((2,), (1,))


# The runtime's own locks


@pytest.mark.parametrize(
    ("link", "flags", "name"),
    [("libgomp in the program", ("-DLIBGOMP",), "gomp_team.task_lock"), ("static runtime", (), "__kmp_forkjoin_lock")],
    ids=["libgomp", "libiomp5"],
)
def test_a_lock_of_the_runtimes_own(link: str, flags: tuple[str, ...], name: str) -> None:
    core = core_of(Odd("internal", flags=flags, link=link, folder=FOLDER), "gcc")
    (wait,) = waits_of(core)
    assert (wait.kind, wait.symbol) == ("internal_lock", name)
    rows = told(core)
    assert [row.state for row in rows.values() if row.wait is not None] == ["overhead"]
