"""Parts of ``triage`` without programs: names, ranks, keys, the file of results, and lost workers."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future
from dataclasses import asdict
from io import StringIO
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from ompd.errors import BadFile, BadInput, OmpdError
from ompd.machine.ranks import rank_of
from ompd.render.answers.triage import describe_triage, folded
from ompd.triage.engine import Engine, Inspecting
from ompd.triage.groups import Groups
from ompd.triage.normal import Frame, function_name, group_id, rolled
from ompd.triage.results import SCHEMA, ResultFile, is_result
from ompd.triage.targets import Wanted, find_targets, natural
from ompd.triage.work import Limits

LIMITS = Limits(10.0, 1 << 30, 1 << 40)


def result(target: str, **members: Any) -> dict[str, Any]:
    """Return a result with two stacks; its verdict names the first."""
    own = [["main", 0, 10, None, 1, None], ["work", 0, 20, None, 1, None]]
    stacks = [{"frames": own, "threads": {"worker": 3}}, {"frames": own[:1], "threads": {"primary": 1}}]
    given = {"verdict": "laggard", "summary": "3 threads wait for thread 1 (77), which works", "about": [0]}
    where = {"rank": None, "size": None, "job": None, "host": None, "files": ["/a/b.c"], "stacks": stacks}
    return {"target": target, "identity": [1, 2], **given, **where, **members}


# Names


def test_numbers_in_names_are_numbers() -> None:
    assert sorted(["core.10", "core.9", "a", "core", "10", "9"], key=natural) == [
        "9",
        "10",
        "a",
        "core",
        "core.9",
        "core.10",
    ]


def test_a_folder_stands_for_its_cores(tmp_path: Path) -> None:
    core = b"\x7fELF" + bytes(12) + b"\x04\x00"
    inner = tmp_path / "b"
    inner.mkdir()
    (inner / "core.1").write_bytes(core)
    (tmp_path / "core.2").write_bytes(core)
    (tmp_path / "program").write_bytes(b"\x7fELF" + bytes(12) + b"\x02\x00")
    (tmp_path / "notes").write_bytes(b"core")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "around").symlink_to(tmp_path)
    found, left_out = find_targets([str(tmp_path), str(inner)], lambda _: (), StringIO())
    assert [target.name for target in found] == [str(inner / "core.1"), str(tmp_path / "core.2")]
    assert left_out == ()


def test_what_means_nothing_is_refused(tmp_path: Path) -> None:
    for word in (str(tmp_path), str(tmp_path / "core.*")):
        with pytest.raises(BadInput):
            find_targets([word], lambda _: (), StringIO())
    with pytest.raises(BadInput, match="longer than any path"):
        find_targets(["-"], lambda _: (), StringIO("x" * 10_000))


def test_processes_are_targets_by_their_numbers() -> None:
    found, _ = find_targets(["12", "-"], lambda word: (int(word),) if word.isdigit() else (), StringIO("7\n\n12\n"))
    assert found == (Wanted("7", 7), Wanted("12", 12))


# Ranks


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "8", "SLURM_PROCID": "0"}, (3, 8, None, None)),
        ({"PMI_RANK": "1", "PMI_SIZE": "2", "HOSTNAME": "n1"}, (1, 2, None, "n1")),
        (
            {"SLURM_PROCID": "5", "SLURM_NTASKS": "6", "SLURM_JOB_ID": "12", "SLURM_STEP_ID": "0"},
            (5, 6, "12.0", None),
        ),
        ({"PMIX_RANK": "x", "PMI_RANK": "4"}, (4, None, None, None)),
        ({"PMI_RANK": "9" * 40, "PBS_JOBID": "j" * 400}, (None, None, "j" * 64, None)),
        ({}, (None, None, None, None)),
    ],
)
def test_ranks_are_those_of_the_environment(environment: dict[str, str], expected: tuple[object, ...]) -> None:
    assert tuple(asdict(rank_of(environment)).values()) == expected


def test_sets_of_ranks_are_folded() -> None:
    assert folded([*range(17), *range(18, 20), 30]) == "0-16,18-19,30"


# Keys


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("f.constprop.0.isra.1", "f"),
        ("std::vector<std::pair<int, int>, A<int>>::at(unsigned long)", "std::vector::at"),
        ("operator<<", "operator<<"),
        ("a::operator()(int)", "a::operator()(int)"),
        ("g[abi:cxx11]", "g"),
        ("__module_MOD_solve", "__module_MOD_solve"),
        (None, "?"),
    ],
)
def test_names_of_functions(name: str | None, expected: str) -> None:
    assert function_name(name) == expected


def frames(*names: str) -> list[Frame]:
    return [Frame(name, "a.c", number) for number, name in enumerate(names)]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("m w w w", "m w3"),
        ("m w", "m w"),
        ("m a b a b c", "m a2 b2 c"),
        ("m a b c d a b c d", "m a2 b2 c2 d2"),
        ("a b c d e a b c d e", "a b c d e a b c d e"),
        ("", ""),
    ],
)
def test_recursion_is_one_level_that_says_how_deep_it_was(names: str, expected: str) -> None:
    found = [f"{frame.function}{frame.depth if frame.depth > 1 else ''}" for frame in rolled(frames(*names.split()))]
    assert " ".join(found) == expected


def test_deep_recursion_takes_one_pass() -> None:
    (only,) = rolled([Frame("f", None, 1)] * 100_000)
    assert only.depth == 100_000


def test_what_chance_decides_is_not_in_the_key() -> None:
    stack = [Frame("main", "/a/x.c", 5), Frame("f.isra.0", "/a/x.c", 7, loop=6)]
    key = group_id("laggard", [stack])
    assert key == group_id("laggard", [[Frame("main", "/b/x.c", 5), Frame("f", "/b/x.c", 8, loop=6, depth=3)]])
    others = [[stack[0]], [stack[0], Frame("f", "/a/x.c", 7)], [stack[0], Frame("f", "/a/x.c", 7, 6, 1, "task")]]
    assert len({key, group_id("lock_cycle", [stack]), *(group_id("laggard", [other]) for other in others)}) == 5
    two = [stack, stack[:1]]
    assert group_id("laggard", two) == group_id("laggard", reversed(two)) != key


def test_in_what_order_results_come_makes_no_difference() -> None:
    deep = [["main", 0, 10, None, 1, None], ["work", 0, 20, None, 7, None]]
    other = {"stacks": [{"frames": deep, "threads": {"worker": 1}}], "files": ["/b/b.c"]}
    some = [
        result("c.10", rank=1),
        result("c.9", rank=3, **other),
        {"target": "x", "failed": "no"},
        result("d", verdict="x"),
    ]
    answers = []
    for order in permutations(some):
        groups = Groups()
        for each in order:
            groups.add(each)
        answers.append(groups.answer())
    assert all(answer == answers[0] for answer in answers)
    assert {node.file for node in answers[0].tree} == {"/a/b.c"}
    last = answers[0].rows[-1]
    assert last.targets == ("c.9", "c.10") and last.joined == ("work calls itself, 1 to 7 deep",)
    assert last.summary == "3 threads wait for thread 1, which works"
    assert [(each.job, each.ranks) for each in last.ranks] == [(None, (1, 3))]


def test_text_from_a_target_does_a_terminal_no_harm() -> None:
    groups = Groups()
    evil = "\x1b[2J"
    stack = [{"frames": [[evil, 0, 1, 2, 1, evil]], "threads": {"worker": 1}}]
    groups.add(result(evil, summary=evil, verdict=evil, files=[evil], stacks=stack, rank=1, job=evil))
    groups.add(result("b", rank=2, job="b", stacks=stack, files=[evil]))
    groups.add({"target": evil, "failed": evil})
    assert not [line for line in describe_triage(groups.answer()) if "\x1b" in line]


def test_lines_of_one_loop_are_said() -> None:
    groups = Groups()
    for name, line in (("a", 22), ("b", 24), ("c", 22)):
        own = [["main", 0, 10, None, 1, None], ["work", 0, line, 21, 1, None]]
        groups.add(result(name, stacks=[{"frames": own, "threads": {"worker": 1}}]))
    (row,) = groups.answer().rows
    assert row.joined == ("work is at lines 22, 24 of the loop of line 21",)
    assert [(frame.line, frame.loop) for frame in row.stack] == [(22, 21), (10, None)]
    assert [node.line for node in groups.answer().tree] == [10, 21]
    assert "    #0 work  b.c:22  in the loop of line 21" in describe_triage(groups.answer())


# The results file


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"target": 1},
        {"target": "a", "failed": 1},
        result("a", identity="x"),
        result("a", rank="1"),
        result("a", rank=-1),
        result("a", about=[2]),
        result("a", about=[True]),
        result("a", files=[1]),
        result("a", stacks=[{"frames": [], "threads": {"king": 1}}]),
        result("a", stacks=[{"frames": [["f", 1, 1, None, 1, None]], "threads": {}}]),
        result("a", stacks=[{"frames": [["f", 0, 1, None, 0, None]], "threads": {}}]),
        result("a", stacks=[{"frames": [["f", 0]], "threads": {}}]),
        result("a", stacks=[{"frames": [["f", 0, 1, "2", 1, None]], "threads": {}}]),
        result("a", stacks=[{"frames": [], "threads": {"idle": 1.5}}]),
    ],
)
def test_what_is_no_result_is_not_taken_for_one(members: dict[str, Any], tmp_path: Path) -> None:
    assert not is_result(members) and is_result(result("a"))
    path = tmp_path / "results"
    path.write_text(json.dumps({"schema": "ompd/triage-results/2"}) + "\n" + json.dumps(members) + "\n")
    with ResultFile(str(path)) as file, pytest.raises(BadFile, match="line 2"):
        list(file.kept([]))


def test_no_other_file_is_written_to(tmp_path: Path) -> None:
    path = tmp_path / "letter"
    path.write_text("dear\n")
    with ResultFile(str(path)) as file, pytest.raises(BadFile, match="no file of results"):
        list(file.kept([]))
    assert path.read_text() == "dear\n"
    os.mkfifo(tmp_path / "pipe")
    for name in (".", "no/such", "pipe"):
        with pytest.raises(BadFile):
            ResultFile(str(tmp_path / name))


def test_results_that_others_could_have_written_are_not_believed(tmp_path: Path) -> None:
    # A core's size and time are public, and a forger needs nothing else.
    core, path = tmp_path / "core", tmp_path / "results"
    core.write_text("core")
    target = Wanted(str(core))
    path.write_text(
        "\n".join(map(json.dumps, ({"schema": SCHEMA}, result(target.name, identity=target.identity())))) + "\n"
    )
    with ResultFile(str(path)) as file:
        assert len(list(file.kept([target]))) == 1
    path.chmod(0o602)
    with pytest.raises(BadFile, match="is not believed: others may write to it"):
        ResultFile(str(path))
    path.chmod(0o600)
    if os.geteuid() == 0:
        os.chown(path, 54321, 54321)
        with pytest.raises(BadFile, match="is not believed: it belongs to user 54321"):
            ResultFile(str(path))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give links away")
def test_results_are_not_written_behind_a_link_of_others(tmp_path: Path) -> None:
    (tmp_path / "behind").mkdir()
    (tmp_path / "link").symlink_to("behind")
    os.chown(tmp_path / "link", 54321, 54321, follow_symlinks=False)
    with pytest.raises(BadFile, match="link on the way to it is a link of user 54321"):
        ResultFile(str(tmp_path / "link" / "results"))
    assert not list((tmp_path / "behind").iterdir())


def test_two_do_not_write_to_one_file(tmp_path: Path) -> None:
    path = str(tmp_path / "results")
    with ResultFile(path), pytest.raises(BadFile, match="another triage"):
        ResultFile(path)


# Lost workers


class Lost(Exception):
    """Stands for the exception of another engine for a lost worker."""


class Chance(Executor):
    """Workers that answer or are lost, as *fate* decides for each target."""

    def __init__(self, fate: Callable[[str], str]) -> None:
        self._fate, self._waiting, self._is_broken = fate, [], False  # type: ignore[var-annotated]

    def submit(self, function: Any, /, name: str, *arguments: Any, **_: Any) -> Future[Any]:
        if self._is_broken:
            raise BrokenExecutor("broken")
        future: Future[Any] = Future()
        fate = self._fate(name)
        if fate == "breaks":
            self._is_broken = True
            for each in (*self._waiting, future):
                each.set_exception(BrokenExecutor("broken"))
            self._waiting = []
        elif fate == "lost":
            future.set_exception(Lost("gone"))
        elif fate == "late":
            self._waiting.append(future)
        else:
            future.set_result({"target": name, "fate": fate})
        return future


@pytest.mark.parametrize("fate", ["breaks", "lost"])
@pytest.mark.parametrize("times", [1, 2, 9])
def test_no_target_is_lost_with_a_worker_or_counted_twice(fate: str, times: int) -> None:
    sent: Counter[str] = Counter()
    made = []

    def decide(name: str) -> str:
        sent[name] += 1
        if name == "core.3" and sent[name] <= times:
            return fate
        # Another target is being inspected when the workers are lost.
        return "late" if name == "core.2" and fate == "breaks" and sent[name] == 1 else "ready"

    def make() -> Executor:
        made.append(Chance(decide))
        return made[-1]

    names = [f"core.{number}" for number in range(9)]
    found = list(Inspecting(Engine(make, lambda _: (), 2), LIMITS).results(map(Wanted, names)))
    assert sorted(each["target"] for each in found) == names
    failed = [each["target"] for each in found if "failed" in each]
    assert failed == (["core.3"] if times > 2 else [])
    # All other targets are inspected once, or twice if they were in flight.
    assert all(count <= 2 for name, count in sent.items() if name != "core.3")
    assert sent["core.3"] == min(times + 1, 3)


@pytest.mark.parametrize(
    "error", [BlockingIOError(11, "Resource temporarily unavailable"), RuntimeError("can't start new thread")]
)
@pytest.mark.parametrize("method", ["submit", "__init__"])
def test_workers_that_cannot_be_started_are_an_error(
    error: Exception, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(Chance, method, refuse)
    ended: list[Executor] = []
    with pytest.raises(OmpdError, match="no worker can be started"):
        list(Inspecting(Engine(lambda: Chance(str), ended.append, 2), LIMITS).results([Wanted("core")]))
    assert len(ended) == (method == "submit")


def test_a_list_without_end_is_not_held() -> None:
    taken = 0

    def endless() -> Any:
        nonlocal taken
        while True:
            taken += 1
            yield Wanted(f"core.{taken}")

    results = Inspecting(Engine(lambda: Chance(lambda _: "ready"), lambda _: (), 2), LIMITS).results(endless())
    for _ in range(50):
        next(results)
    assert taken < 70


@pytest.mark.quick()
def test_workers_end_with_the_one_that_started_them() -> None:
    # A child process starts two workers and is killed. The workers hold the child's end of the pipe open.
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            from ompd.triage.engine import local

            executor = local(2).make()
            for _ in range(2):
                executor.submit(os.getpid).result()
            os.write(writing, b"x")
            signal.pause()
        finally:
            os._exit(1)
    os.close(writing)
    assert os.read(reading, 1) == b"x"
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert os.read(reading, 1) == b""  # the read ends when no process holds the other end
    os.close(reading)
