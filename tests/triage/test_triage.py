"""``ompd triage`` on many cores of programs that know their fault, and on files that are no cores."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from jsonschema import validate

from tests.support.damage import cut
from tests.support.machine import FULL, clean_environment
from tests.support.triage import PROGRAMS, Farm, cores, make_farm, spread
from tests.support.why import GNU, WHYS, hung

TOTAL = 1_000 if FULL else 60
pytestmark = [pytest.mark.timeout(3_000)] if FULL else []  # seconds, on a busy machine


def ompd(*words: str | Path, **options: Any) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "ompd", *map(str, words)]
    return subprocess.run(command, capture_output=True, check=False, **{"env": clean_environment(), **options})


def answer_of(*words: str | Path, status: int = 0, **options: Any) -> dict[str, Any]:
    done = ompd("triage", "--json", *words, **options)
    assert done.returncode == status, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Farm:
    return make_farm(tmp_path_factory.mktemp("night") / "farm", TOTAL, varied=FULL)


@pytest.fixture(scope="module")
def triaged(farm: Farm) -> dict[str, Any]:
    return answer_of(*farm.words, "--workers", "2", status=3, env=farm.environment)


def test_each_core_is_in_the_group_of_its_program(farm: Farm, triaged: dict[str, Any]) -> None:
    rows = triaged["triage"]
    assert {frozenset(row["targets"]) for row in rows} == {frozenset(some) for some in farm.names.values()}
    expected = {one.why.name: one.expected["kinds"] for one in cores()}
    for row in rows:
        program = next(name for name, some in farm.names.items() if row["targets"][0] in some)
        assert row["verdict"] in expected[program]
    assert rows[0]["targets"] == sorted(farm.names[PROGRAMS[0]])  # the group with one core
    assert triaged["inspected"] == sum(map(len, farm.names.values())) and not triaged["complete"]
    assert triaged["inspected"] + len(triaged["failed"]) == TOTAL


@pytest.mark.parametrize("number", [signal.SIG_IGN, signal.SIG_DFL])
@pytest.mark.quick("0")
def test_a_parent_that_ignores_the_end_of_children_costs_no_core(number: signal.Handlers, farm: Farm) -> None:
    core = min(farm.names[PROGRAMS[0]])
    done = subprocess.run(
        [sys.executable, "-m", "ompd", "triage", core],
        env=farm.environment,
        capture_output=True,
        check=False,
        preexec_fn=partial(signal.signal, signal.SIGCHLD, number),
        restore_signals=False,
    )
    assert (done.returncode, done.stderr) == (0, b"") and b"1 target" in done.stdout


def test_names_on_standard_input_end_with_a_newline_alone(tmp_path: Path) -> None:
    names = [b"a\rb", b"c\xff", b"d\x0ce"]
    environment = {**clean_environment(), "PYTHONIOENCODING": "utf-8:strict"}
    answer = answer_of("-", status=3, input=b"\n".join(names), cwd=tmp_path, env=environment)
    assert [row["target"] for row in answer["failed"]] == [name.decode(errors="replace") for name in names]


def test_what_is_no_core_or_takes_too_much_fails_with_its_reason(farm: Farm, triaged: dict[str, Any]) -> None:
    said = {row["target"]: row["reason"] for row in triaged["failed"]}
    assert said.keys() == farm.failing.keys()
    assert {name: said[name] for name, reason in farm.failing.items() if not re.search(reason, said[name])} == {}


def test_the_answer_is_as_its_schema_says(triaged: dict[str, Any]) -> None:
    schema = ompd("schema", "triage")
    validate(triaged, json.loads(schema.stdout))


def test_the_tree_has_every_target_and_every_thread(triaged: dict[str, Any]) -> None:
    tree = triaged["tree"]
    below: dict[int | None, list[dict[str, Any]]] = {}
    for node in tree:
        below.setdefault(node["parent"], []).append(node)
    for node in tree:
        threads = dict(node["ends"])
        for child in below.get(node["id"], ()):
            assert child["targets"] <= node["targets"]
            for role, count in child["threads"].items():
                threads[role] = threads.get(role, 0) + count
        assert threads == node["threads"]


def test_results_in_a_file_are_not_made_again_and_one_worker_has_the_same(
    farm: Farm, triaged: dict[str, Any], tmp_path: Path
) -> None:
    results = tmp_path / "results.jsonl"
    part = sorted(farm.names[PROGRAMS[1]])
    answer_of(*part, "--results", results)
    kept = results.read_bytes()
    with results.open("ab") as file:
        file.write(b'{"target":"written in part')
    words = (*farm.words, "--results", results, "--workers", "1")
    assert answer_of(*words, status=3, env=farm.environment) == triaged
    lines = results.read_bytes().splitlines()
    assert results.read_bytes().startswith(kept)
    targets = [json.loads(line)["target"] for line in lines[1:]]
    assert sorted(targets) == sorted([*farm.failing, *(name for some in farm.names.values() for name in some)])
    assert max(map(len, lines)) < 10_500  # a result with the name of its target


def test_a_core_that_was_cut_off_and_shows_a_deadlock_is_in_its_group_with_a_warning(tmp_path: Path) -> None:
    whole = next(one for one in cores() if one.why.name == "self_lock-lock").core
    assert whole is not None
    target = str(cut(whole, tmp_path / "core", whole.stat().st_size * 99 // 100))
    done = answer_of(target, status=3)
    assert [row["verdict"] for row in done["triage"]] == ["self_lock"] and done["failed"] == []
    assert done["warnings"] == [f"cut off, so that threads and waits may be missing: {target}"]


def test_a_program_of_gfortran_that_was_ended_from_outside_is_no_crash() -> None:
    one = hung(WHYS["locks-cycle"], "gfortran", GNU)
    assert one.core is not None
    (row,) = answer_of(one.core)["triage"]
    assert row["verdict"] in one.expected["kinds"]


def test_a_core_of_which_too_little_is_left_fails_and_is_not_called_healthy(tmp_path: Path) -> None:
    whole = next(one for one in cores() if one.why.name == "no_stall-parallel").core
    assert whole is not None
    size = whole.stat().st_size
    targets = [str(cut(whole, tmp_path / f"core.{part}", size * part // 100)) for part in (1, 10, 99)]
    done = answer_of(*targets, status=3)
    assert done["warnings"] == [] and done["triage"] == [] and [row["target"] for row in done["failed"]] == targets
    assert all("the core file is cut off: " in row["reason"] for row in done["failed"])
    for target in targets[1:]:
        why = ompd("why", target, "--json", "--exit-code")
        (first,) = json.loads(why.stdout)["why"]
        assert (why.returncode, first["kind"], first["confidence"]) == (13, "undecided", "unknown")
        assert first["summary"].startswith("cannot say whether anything hangs: the core file is cut off: ")


def test_a_core_that_has_changed_is_inspected_again(tmp_path: Path) -> None:
    first, second = cores()[:2]
    assert first.core is not None and second.core is not None
    core, results = tmp_path / "core", tmp_path / "results"
    for one in (first, second):
        assert one.core is not None
        core.write_bytes(one.core.read_bytes())
        answer = answer_of(core, "--results", results)
        assert answer["triage"][0]["verdict"] in one.expected["kinds"]
    assert len(results.read_bytes().splitlines()) == 3


def test_groups_beside_those_of_an_earlier_triage(tmp_path: Path) -> None:
    found = cores()[:4]
    folders = (tmp_path / "yesterday", tmp_path / "tonight")
    names = []
    for folder, counts in zip(folders, ((1, 2, 1, 0), (1, 1, 2, 1)), strict=True):
        folder.mkdir()
        names.append(spread(found, counts, folder))
    earlier = tmp_path / "earlier.json"
    earlier.write_text(json.dumps(answer_of(folders[0])))
    rows = answer_of(folders[1], "--baseline", earlier)["triage"]
    beside = {frozenset(row["targets"]): (row["baseline"], row["before"]) for row in rows}
    expected = [("same", 1), ("fewer", 2), ("grown", 1), ("new", None)]
    assert beside == {frozenset(names[1][one.why.name]): each for one, each in zip(found, expected, strict=True)}
    only = answer_of(*sorted(names[1][found[3].why.name]), "--baseline", earlier)
    assert sorted(row["before"] for row in only["gone"]) == [1, 1, 2]


@pytest.mark.parametrize("text", ["", "[]", '{"schema": "ompd/why/1"}', '{"schema": "ompd/triage/1", "triage": []}'])
def test_a_file_that_is_no_earlier_triage_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "earlier.json"
    path.write_text(text)
    done = ompd("triage", tmp_path / "core", "--baseline", path)
    assert done.returncode == 1 and done.stderr.startswith(f"ompd: {path}".encode())
    assert b"Traceback" not in done.stderr


def test_a_list_on_standard_input(tmp_path: Path) -> None:
    names = spread(cores()[:2], (2, 1), tmp_path)
    every = sorted(name for some in names.values() for name in some)
    answer = answer_of("-", input="\n".join([*every, every[0], ""]).encode())
    assert sorted(name for row in answer["triage"] for name in row["targets"]) == every
    pattern = answer_of(tmp_path / "core.*")
    assert pattern == answer


def test_what_does_not_end_is_ended_with_all_that_it_has_started(tmp_path: Path) -> None:
    # A coredumpctl that waits for ever: it opens a pipe that has no writer, and holds another one while it lives.
    pipe, said = tmp_path / "pipe", tmp_path / "said"
    os.mkfifo(pipe)
    os.mkfifo(said)
    program = tmp_path / "coredumpctl"
    program.write_text(f"#!/bin/sh\nexec 3> {said}\nread line < {pipe}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    environment = {**clean_environment(), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = [sys.executable, "-m", "ompd", "triage", "--json", "coredumpctl:hang", "--max-time", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process, said.open("rb") as held:
        answer = json.loads(process.communicate()[0])
        assert held.read() == b""
    assert answer["failed"] == [{"target": "coredumpctl:hang", "reason": "it takes more than 1 s"}]


def test_interrupted_it_gives_what_there_is(tmp_path: Path) -> None:
    # One target waits for ever. Send Ctrl-C once the others are in the file.
    (core,) = next(iter(spread(cores()[:1], [1], tmp_path).values()))
    pipe, results = tmp_path / "pipe", tmp_path / "results"
    os.mkfifo(pipe)
    program = tmp_path / "coredumpctl"
    program.write_text(f"#!/bin/sh\nread line < {pipe}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    environment = {**clean_environment(), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    words = ["triage", "--json", core, "coredumpctl:hang", "--workers", "2", "--results", str(results)]
    command = [sys.executable, "-m", "ompd", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        while not results.exists() or results.read_bytes().count(b"\n") < 2:
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        output, said = process.communicate()
    assert process.returncode == 130 and b"interrupted: 1 of 2 targets" in said and b"Traceback" not in said
    assert [row["targets"] for row in json.loads(output)["triage"]] == [[core]]
