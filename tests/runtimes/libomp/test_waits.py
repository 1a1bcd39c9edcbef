"""Waits of threads whose appearance deceives: programs in ``tests/waits`` write which thread is late.

The runtime's counts, and not only the routines on a thread's stack, decide which threads have arrived at a barrier.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from ompd.debugger.files.finder import FileFinder
from ompd.errors import LayoutUnavailable
from ompd.model import Answer, TaskRecord, ThreadRecord, Wait
from ompd.model.kinds import Kind
from ompd.questions import regions, tasks, threads
from ompd.runtimes.libomp.plugin import Runtime
from ompd.session import Session
from tests.support import stopped
from tests.support.cache import CHECKOUT
from tests.support.hostile import Overlaid
from tests.support.odd import COMPILERS, MODES, Core, Odd, core_of
from tests.support.products import sample
from tests.truth import compare

FOLDER = CHECKOUT / "tests" / "waits"
KINDS = [None, "tas", "futex", "ticket", "queuing", "drdpa"]
EVERYWHERE = pytest.mark.parametrize(("compiler", "mode"), sample(product(COMPILERS, MODES)))


def waits(name: str, **environment: str) -> Odd:
    return Odd(name, environment=environment, folder=FOLDER)


def said(core: Core, word: str) -> list[Any]:
    found = sorted(words[word] for words in core.words if word in words)
    assert found, f"the program has not written {word!r}"
    return found


def told(core: Core) -> dict[int, ThreadRecord]:
    with Session.open_core(core.path) as session:
        return {row.native_thread_id: row for row in threads.ask(session).rows}


@EVERYWHERE
@pytest.mark.parametrize(
    ("odd", "team_size"),
    [(waits("forks", KMP_BLOCKTIME="infinite"), 3), (waits("cancelled", OMP_CANCELLATION="true"), 4)],
    ids=["forks", "cancelled"],
)
def test_barriers_name_who_is_late(odd: Odd, team_size: int, compiler: str, mode: str) -> None:
    core = core_of(odd, compiler, mode)
    barriers = [row.wait for row in told(core).values() if row.wait is not None and row.wait.kind == "barrier"]
    assert barriers
    for wait in barriers:
        assert (wait.arrived, wait.expected, list(wait.missing or ())) == (
            team_size - 1,
            team_size,
            said(core, "missing"),
        )


@EVERYWHERE
def test_a_task_whose_child_goes_on_is_complete(compiler: str, mode: str) -> None:
    core = core_of(waits("complete"), compiler, mode)
    with Session.open_core(core.path) as session:
        answer: Answer[TaskRecord] = tasks.ask(session)
    assert answer.complete, answer.warnings
    (child,) = (row for row in answer.rows if row.kind == "explicit" and row.status == "executing")
    (parent,) = (row for row in answer.rows if row.kind == "explicit" and row.status != "executing")
    assert (child.generating, child.thread) == (parent.id, said(core, "child")[0])
    assert (parent.status, parent.thread) == ("complete", None)


@pytest.mark.parametrize(
    ("compiler", "mode", "kind"), sample(product(COMPILERS, MODES, KINDS), lambda compiler, *others: (compiler, others))
)
@pytest.mark.quick("gcc-neither-queuing", "gcc-debug-futex", "clang-neither-tas", "clang-debug-ticket")
def test_data_is_not_taken_for_a_lock(kind: str | None, compiler: str, mode: str) -> None:
    odd = waits("lookalike", **({"KMP_LOCK_KIND": kind} if kind else {}))
    core = core_of(odd, compiler, mode)
    rows = told(core)
    (start,), (size,) = (set(said(core, key)) for key in ("data", "size"))
    (holder,), waiting = said(core, "holds"), said(core, "waits")
    assert len(waiting) == 2
    for row in (rows[thread] for thread in waiting):
        wait = row.wait
        assert wait is not None and wait.kind == "lock"
        if (kind, compiler) == ("tas", "gcc") and wait.object is None:
            # The data are as near to this thread as the lock, and look like a lock of this kind: ompd names neither.
            assert (wait.symbol, wait.owner) == (None, None)
            assert row.unavailable["wait.object"].startswith("none of the runtime's locks proves to be the one")
            continue
        assert wait.symbol == "&lock" and wait.object is not None
        assert not start <= wait.object < start + size
        # Locks of the other kinds do not record their holder.
        assert wait.owner == (holder if kind in ("tas", "futex") else None)
        assert ("wait.owner" in row.unavailable) == (wait.owner is None)


@EVERYWHERE
def test_criticals_of_one_name_in_two_libraries(compiler: str, mode: str) -> None:
    core = core_of(waits("libraries"), compiler, mode)
    rows = told(core)
    found = [rows[thread].wait for thread in said(core, "waits")]
    assert [wait.symbol if wait is not None else None for wait in found] == ["critical(ledger)"] * 2
    assert len({wait.object for wait in found if wait is not None}) == 2


@EVERYWHERE
def test_queued_tasks_with_priorities(compiler: str, mode: str) -> None:
    core = core_of(waits("prioritized", OMP_MAX_TASK_PRIORITY="5"), compiler, mode)
    with Session.open_core(core.path) as session:
        answer: Answer[TaskRecord] = tasks.ask(session)
    assert answer.complete and not answer.warnings
    queued = [row for row in answer.rows if row.status == "queued"]
    assert [len(queued)] == said(core, "queued")
    (thread,) = said(core, "thread")
    assert {row.generating for row in queued} == {row.id for row in answer.rows if row.thread == thread}


def test_without_debug_information_it_is_said_that_priorities_hide_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    # For gcc's code libomp drops the priorities of tasks.
    core = core_of(waits("prioritized", OMP_MAX_TASK_PRIORITY="5"), "clang")
    with Session.open_core(core.path) as session:
        monkeypatch.setattr(session.process.types, "layout", _no_debug_information)
        answer: Answer[TaskRecord] = tasks.ask(session)
    assert any("given a priority are not known" in warning for warning in answer.warnings)
    assert len([row for row in answer.rows if row.status == "queued"]) == 2


def _no_debug_information(*_: Any) -> Any:
    raise LayoutUnavailable("no debug information")


@EVERYWHERE
def test_a_task_that_encountered_a_region_is_on_its_primary_thread(compiler: str, mode: str) -> None:
    core = core_of(waits("encountered"), compiler, mode)
    with Session.open_core(core.path) as session:
        answer: Answer[TaskRecord] = tasks.ask(session)
    assert answer.complete and not answer.warnings
    explicit = [row for row in answer.rows if row.kind == "explicit"]
    assert {row.status for row in explicit} == {"suspended"}
    assert sorted(row.thread or 0 for row in explicit) == said(core, "encountering")


@EVERYWHERE
def test_the_function_of_a_region_that_all_threads_have_left(compiler: str, mode: str) -> None:
    core = core_of(waits("left"), compiler, mode)
    with Session.open_core(core.path) as session:
        (region,) = regions.ask(session).rows
    assert region.function is not None
    assert [region.function.function, region.function.line] == said(core, "function") + said(core, "line")
    assert region.function.construct == "parallel"


@pytest.mark.parametrize("link", ["libgomp", "dynamic"])
def test_handlers_of_signals_wait_themselves(link: str) -> None:
    core = core_of(replace(waits("handled"), link=link), "gcc")
    rows = told(core)
    waiting = [each for each in core.words if "tid" in each]
    assert {words["wait"] for words in waiting} == {"barrier", "critical", "lock"}
    for words in waiting:
        row = rows[words["tid"]]
        assert row.state is not None and row.state.startswith(words["state"]), (words, row.state)
        assert row.wait is not None and row.wait.kind == words["wait"]
        if words["wait"] == "barrier":
            assert (row.wait.arrived, row.wait.expected, sorted(row.wait.missing or ())) == (2, 4, said(core, "late"))
        elif words["wait"] == "critical":
            assert row.wait.object is not None


@pytest.mark.parametrize(("compiler", "kind"), sample(product(COMPILERS, KINDS)))
@pytest.mark.quick("gcc-None", "gcc-queuing", "clang-tas", "clang-ticket")
def test_threads_that_wait_for_each_other_have_a_lock_each(kind: str | None, compiler: str) -> None:
    # Each thread also has in reach the lock that it holds, for which another thread waits.
    program = stopped("deadlock", compiler=compiler, mode="neither", env={"KMP_LOCK_KIND": kind} if kind else {})
    assert compare(program).differences == []
    with Session.open_core(program.core) as session:
        rows = {row.native_thread_id: row for row in threads.ask(session).rows}
    waiting = [thread for thread in program.truth["threads"] if thread["blocked_in"] == "lock"]
    assert len(waiting) == 3
    for thread in waiting:
        wait = rows[thread["native_thread_id"]].wait
        assert wait is not None and wait.symbol == f"&{thread['object_symbol']}"


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("number", [0, 1])
def test_a_thread_still_leaving_the_barrier_before_is_late(number: int, compiler: str) -> None:
    # Overwrite the count of the thread's arrival with 0, so that the thread has not arrived at this barrier.
    program = stopped("barrier", compiler=compiler)
    target = Overlaid(str(program.core))
    with Session(target, FileFinder()) as session:
        before = _barriers(session)
        late = _member(session, number)
        space = session.runtimes[0].space
        assert isinstance(space, Runtime)
        (team,) = (team for team in space.live_teams() if team.t_nproc == 4)
        info, base = (space.details.layout(name).fields for name in ("kmp_base_info_t", "kmp_base_team_t"))
        (thread,) = (thread for thread in space.threads() if thread.native_thread_id() == late)
        if number == 0:
            counts, counted, whole = team.address, base["t_b_master_arrived"], base["t_bar"]
        else:
            counts, counted, whole = thread.address, info["th_b_worker_arrived"], info["th_bar"]
        for kind in range(3):  # plain, fork and join, reduction
            count = counts + whole.offset + kind * (whole.size // 3) + counted.offset
            target.overlay[count] = bytes(counted.size)
    again = Overlaid(str(program.core))
    again.overlay = target.overlay
    with Session(again, FileFinder()) as session:
        after = _barriers(session)
    assert {(len(wait.missing or ()), wait.arrived) for wait in before.values()} == {(1, 3)}
    # The late thread's own wait has no details, because the thread is not counted at the barrier of the others.
    assert after.pop(late) == Wait(Kind.BARRIER, how=before[late].how)
    (missing,) = {wait.missing for wait in before.values()}
    assert {wait.missing for wait in after.values()} == {tuple(sorted({*(missing or ()), late}))}
    assert [wait.arrived for wait in after.values()] == [2, 2]


def _barriers(session: Session) -> dict[int, Wait]:
    waiting = {row.native_thread_id: row.wait for row in threads.ask(session).rows}
    return {thread: wait for thread, wait in waiting.items() if wait is not None and wait.kind == "barrier"}


def _member(session: Session, number: int) -> int:
    (native,) = (
        row.native_thread_id for row in threads.ask(session).rows if row.thread_num == number and row.level == 1
    )
    return native
