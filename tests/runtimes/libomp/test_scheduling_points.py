"""The tasks that a thread waits for and the tasks that it may execute meanwhile: they decide whether a team can go on.

The truth is what ``tests/stalls/awaited.c`` wrote: the threads that execute awaited tasks, and the threads that execute
other tasks of the same generating task.
"""

from __future__ import annotations

import pytest

from ompd.errors import Unavailable
from ompd.model import SchedulingRecord, TaskRecord
from ompd.questions import tasks, threads
from ompd.questions.why.collect import gone_threads, scheduling_points
from ompd.runtimes.libgomp.handles import Thread
from ompd.session import Session
from tests.support.cache import CHECKOUT
from tests.support.odd import AWAKE, Core, Odd, core_of
from tests.support.products import sample

FOLDER = CHECKOUT / "tests" / "stalls"
RUNTIMES = [("libgomp", "gcc"), ("dynamic", "gcc"), ("dynamic", "clang"), ("libomp-14", "gcc"), ("libomp-19", "clang")]
TAKES = {"taskwait": "children", "taskgroup": "group", "dependence": "children"}


def stalled(name: str, link: str, compiler: str, **environment: str) -> Core:
    return core_of(Odd(name, link=link, environment={**AWAKE, **environment}, folder=FOLDER), compiler)


def looked(core: Core) -> tuple[dict[int, SchedulingRecord], dict[str, TaskRecord]]:
    with Session.open_core(core.path) as session:
        found, unread = scheduling_points(session)
        assert not unread
        return dict(found), {row.id: row for row in tasks.ask(session).rows}


def said(core: Core, word: str) -> list[int]:
    return sorted(words[word] for words in core.words if word in words)


@pytest.mark.parametrize(
    ("runtime", "at"), sample([(runtime, at) for runtime in RUNTIMES for at in ("taskwait", "taskgroup", "dependence")])
)
@pytest.mark.quick("runtime0-taskwait", "runtime2-dependence", "runtime4-taskgroup")
def test_which_tasks_a_thread_waits_for(runtime: tuple[str, str], at: str) -> None:
    link, compiler = runtime
    core = stalled("awaited", link, compiler, AT=at)
    points, rows = looked(core)
    (waiting,) = said(core, "waits")
    (count,) = said(core, "count")
    point = points[waiting]
    assert point.kind == at and point.is_whole
    # libomp lets an implicit task that waits for dependences execute any task.
    by_libomp = "any" if at == "dependence" else "tied_descendants"
    assert point.takes == (TAKES[at] if link == "libgomp" else by_libomp)
    assert sorted(rows[task].thread or 0 for task in point.tasks) == said(core, "awaited")
    assert {rows[task].generating for task in point.tasks} == {point.task}
    # libgomp keeps no count of children. The list of children is empty when they are done.
    assert point.count == (None if (link, at) == ("libgomp", "taskwait") else count)
    assert point.address is not None
    with Session.open_core(core.path) as session:
        size = 8 if link == "libgomp" else 4
        assert point.value == int.from_bytes(session.process.memory.read(point.address, size), "little")
        (row,) = (row for row in threads.ask(session).rows if row.native_thread_id == waiting)
    assert row.wait is not None and row.wait.kind == at


@pytest.mark.parametrize("at", ["taskwait", "taskgroup"])
def test_the_stub_takes_descendants(at: str) -> None:
    core = stalled("awaited", "stub", "gcc", AT=at)
    points, rows = looked(core)
    (waiting,) = said(core, "waits")
    point = points[waiting]
    assert (point.kind, point.takes, point.is_whole) == (at, "descendants", True)
    assert [point.count] == [point.value] == said(core, "count")
    assert sorted(rows[task].thread or 0 for task in point.tasks) == said(core, "awaited")


@pytest.mark.parametrize("runtime", [("libgomp", "gcc"), ("libomp-14", "gcc")], ids="-".join)
def test_a_core_of_gdb_tells_the_same(runtime: tuple[str, str]) -> None:
    odd = Odd("awaited", link=runtime[0], environment={**AWAKE, "AT": "taskgroup"}, folder=FOLDER)
    core = core_of(odd, runtime[1], kind="gcore")
    points, rows = looked(core)
    (waiting,) = said(core, "waits")
    point = points[waiting]
    assert (point.kind, point.count, point.is_whole) == ("taskgroup", 2, True)
    assert sorted(rows[task].thread or 0 for task in point.tasks) == said(core, "awaited")


def test_a_taskwait_of_libgomp_takes_no_grandchildren() -> None:
    core = stalled("awaited", "libgomp", "gcc", AT="starved")
    points, rows = looked(core)
    (waiting,) = said(core, "waits")
    point = points[waiting]
    assert (point.kind, point.takes) == ("taskwait", "children")
    (queued,) = (row for row in rows.values() if row.status == "queued")
    assert queued.generating in point.tasks and queued.generating != point.task


@pytest.mark.parametrize("runtime", RUNTIMES, ids="-".join)
def test_all_tasks_stay_on_their_threads(runtime: tuple[str, str]) -> None:
    core = stalled("awaited", *runtime, AT="taskgroup")
    with Session.open_core(core.path) as session:
        (space,) = (found.space for found in session.runtimes if found.space is not None)
        for thread in space.threads():
            task = thread.current_task()
            assert task is not None and task.is_tied()


@pytest.mark.parametrize("runtime", RUNTIMES, ids="-".join)
@pytest.mark.parametrize("kind", ["doacross", "copyprivate"])
@pytest.mark.quick(
    "doacross-libgomp-gcc",
    "doacross-dynamic-gcc",
    "doacross-libomp-14-gcc",
    "doacross-libomp-19-clang",
    "copyprivate-libgomp-gcc",
    "copyprivate-dynamic-clang",
    "copyprivate-libomp-14-gcc",
    "copyprivate-libomp-19-clang",
)
def test_what_states_do_not_tell(kind: str, runtime: tuple[str, str]) -> None:
    core = stalled("kinds", *runtime, KIND=kind)
    (away,) = said(core, "away")
    with Session.open_core(core.path) as session:
        rows = {row.native_thread_id: row for row in threads.ask(session).rows}
    waits = [row.wait for native, row in rows.items() if native != away and row.wait is not None]
    if kind == "doacross":
        # Unoptimised code of gcc keeps the number of the iteration in no place that the call preserves.
        number = None if runtime == ("libgomp", "gcc") else 0
        assert [(wait.kind, wait.iteration) for wait in waits] == [("doacross", number)]
    else:
        assert [(wait.kind, wait.construct, wait.missing) for wait in waits] == [("barrier", "copyprivate", (away,))]


def test_who_cannot_be_looked_at_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    core = stalled("awaited", "libgomp", "gcc", AT="taskwait")

    def refuse(self: Thread) -> None:
        raise Unavailable("lost")

    monkeypatch.setattr(Thread, "scheduling_point", refuse)
    with Session.open_core(core.path) as session:
        found, unread = scheduling_points(session, said(core, "waits"))
    assert not found and unread == dict.fromkeys(said(core, "waits"), "lost")


# Threads that fork() has left in the parent


@pytest.mark.parametrize(("where", "numbers"), [("outside", [1, 2]), ("primary", [1, 2]), ("worker", [2])])
def test_a_child_of_libgomps_knows_threads_that_it_does_not_have(where: str, numbers: list[int]) -> None:
    core = stalled("forked", "libgomp", "gcc", WHERE=where)
    with Session.open_core(core.path) as session:
        (gone,) = gone_threads(session).values()
        assert len(session.process.threads.ids()) == 1
    assert sorted(thread.thread_num or 0 for thread in gone) == numbers
    assert {thread.identifier for thread in gone} == {None}


def test_a_child_of_libgomps_that_waits_for_them() -> None:
    core = stalled("forked", "libgomp", "gcc", WHERE="outside", NEXT="1")
    with Session.open_core(core.path) as session:
        (gone,) = gone_threads(session).values()
    assert sorted(thread.thread_num or 0 for thread in gone) == [1, 2]


@pytest.mark.parametrize("runtime", RUNTIMES[1:], ids="-".join)
def test_a_child_of_libomps_begins_anew(runtime: tuple[str, str]) -> None:
    core = stalled("forked", *runtime, WHERE="outside", NEXT="1")
    with Session.open_core(core.path) as session:
        assert not gone_threads(session)
        rows = [row for row in threads.ask(session).rows if row.thread_num is not None]
    assert [(row.thread_num, row.team_size) for row in rows] == [(0, 3), (1, 3), (2, 3)]


def test_libomp_keeps_what_fork_has_left_until_it_is_called() -> None:
    # gcc's code calls the runtime when a construct begins, not when a function begins.
    core = stalled("forked", "dynamic", "gcc", WHERE="worker")
    (child,) = said(core, "child")
    with Session.open_core(core.path) as session:
        (gone,) = gone_threads(session).values()
        assert session.process.threads.ids() == (child,)
    assert len(gone) == 2 and all(thread.identifier for thread in gone)


@pytest.mark.parametrize("runtime", RUNTIMES, ids="-".join)
def test_a_process_that_was_not_forked_has_its_threads(runtime: tuple[str, str]) -> None:
    with Session.open_core(stalled("awaited", *runtime, AT="taskwait").path) as session:
        assert not gone_threads(session)
