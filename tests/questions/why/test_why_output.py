"""The output of `ompd why`: text in the width of a terminal, JSON, Graphviz, and exit codes."""

from __future__ import annotations

import io
import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import ompd
from ompd.analysis.answers import concluded
from ompd.analysis.moment import Moment
from ompd.commands.main import cli
from ompd.commands.table import COMMANDS
from ompd.frontends.prompt import flags_of
from ompd.model import (
    Evidence,
    GraphRecord,
    Place,
    RuntimeRecord,
    SystemWait,
    TargetRecord,
    ThreadRecord,
    VerdictRecord,
    Wait,
    WhyAnswer,
)
from ompd.model.kinds import Confidence, Kind
from ompd.render import terminal
from ompd.render.answers.why_dot import format_dot
from ompd.render.json import format_answer
from tests.support import running, stopped
from tests.support.damage import cut
from tests.support.proof import await_rest
from tests.support.why import GNU, WHYS, hung

(WHY,) = (command for command in COMMANDS if command.name == "why")
FIRST = 1000  # a native id
TARGET = TargetRecord("core", "core.1234", "/usr/bin/hang", 1234, "hang", 6, "SIGABRT", "x86_64", None)
RUNTIME = RuntimeRecord("libgomp", "libgomp", "GCC 12", "/lib/libgomp.so.1", None, "table", None, False)
HOSTILE = '&lock\x1b[31m\n"];\\N -> x\u202e'


def thread(number: int, wait: Wait | None, *, line: int = 10, size: int = 4, function: str = "work") -> ThreadRecord:
    return ThreadRecord(
        native_thread_id=FIRST + number,
        thread_type="worker",
        runtime="libgomp",
        thread_num=number,
        team_size=size,
        level=1,
        state="wait_lock" if wait is not None else "work_parallel",
        state_source="derived",
        wait=wait,
        parallel="0x1",
        where=Place(0x1234, function, "/home/u/prog.c", line),
        address=0x5000 + number,
    )


def lock(name: str, address: int, owner: int | None) -> Wait:
    native = FIRST + owner if owner is not None else None
    return Wait(Kind.LOCK, object=address, symbol=name, owner=native, owner_source=None if owner is None else "runtime")


def deadlock(size: int, names: tuple[str, str] = ("&a", "&b")) -> list[ThreadRecord]:
    """Return a team whose threads 0 and 1 wait for each other's locks, and all others at a barrier for these two."""
    missing = (FIRST, FIRST + 1)
    waiting = Wait(Kind.BARRIER, arrived=size - 2, expected=size, missing=missing)
    return [
        thread(0, lock(names[1], 0x20, 1), line=10, size=size),
        thread(1, lock(names[0], 0x10, 0), line=20, size=size),
        *(thread(number, waiting, line=30, size=size) for number in range(2, size)),
    ]


def laggard(size: int) -> list[ThreadRecord]:
    waiting = Wait(Kind.BARRIER, arrived=size - 1, expected=size, missing=(FIRST,))
    return [thread(0, None, line=5), *(thread(number, waiting, size=size) for number in range(1, size))]


def answer_of(rows: Sequence[ThreadRecord], **more: Any) -> WhyAnswer:
    verdicts, nodes, edges = concluded(Moment(threads=tuple(rows), **more))
    return WhyAnswer(TARGET, (RUNTIME,), verdicts, True, (), GraphRecord(nodes, edges))


def text_of(answer: WhyAnswer, width: int | None = None, *, verbose: bool = False, dot: bool = False) -> str:
    file = io.StringIO()
    console = terminal.make_console("never", file=file, width=width)
    if dot:
        return f"{format_dot(answer)}\n"
    terminal.print_why(console, answer, unfold=False, verbose=verbose)
    return file.getvalue()


# Text


def test_a_cycle_says_who_waits_for_whom_and_what_to_do() -> None:
    answer = answer_of(deadlock(4))
    lines = text_of(answer).splitlines()
    both = "thread 0 (1000) holds &a and waits for &b; thread 1 (1001) holds &b and waits for &a"
    assert lines[2:8] == [
        f"Deadlock: {both}.",
        "2 more threads wait for these at a barrier, prog.c:30.",
        "Certain: these threads never go on.",
        "",
        "  do this    Take these locks in the same order in all threads, or hold only one of them at a time.",
        "  look at    prog.c:10 work",
    ]
    assert lines[8] == "  next       ompd stack core.1234 --thread 1000 --locals"
    assert lines[10:13] == [
        "  ──────── how this is known",
        "  stuck      certain: nothing that could not be read can change this",
        "  cause      certain: read from the program's memory",
    ]
    assert "  thread 0 (1000)  waits for &b  prog.c:10 work  held by thread 1 (1001)" in lines
    assert "  thread 1 (1001)  waits for &a  prog.c:20 work  held by thread 0 (1000)" in lines
    assert "  2 more threads (1002,1003) depend on these" in lines
    assert any(line.startswith("  free       if &") for line in lines)


def test_all_threads_on_which_others_depend_have_a_line() -> None:
    waiting = Wait(Kind.BARRIER, arrived=3, expected=6, missing=tuple(range(FIRST, FIRST + 3)))
    absent = [thread(number, None, line=5 + number // 2, size=6) for number in range(3)]
    sleeps = {FIRST + n: SystemWait(kind=Kind.SLEEP, routine="usleep", is_timed=True) for n in range(3)}
    rows = [*absent, *(thread(number, waiting, size=6) for number in range(3, 6))]
    lines = text_of(answer_of(rows, system=sleeps)).splitlines()
    names = "thread 0 (1000), thread 1 (1001) and thread 2 (1002)"
    assert lines[2] == f"Possibly stuck: 3 threads wait for {names}, which are in usleep."
    assert [" ".join(line.split()) for line in lines[-3:]] == [
        "3 threads (1003,1004,1005) wait at a barrier prog.c:10 work thread 0 (1000) has not arrived",
        "2 threads (1000,1001) are in usleep prog.c:5 work",
        "thread 2 (1002) is in usleep prog.c:6 work",
    ]


@pytest.mark.parametrize(("name", "word"), [("-v", "./-v"), ("--raw", "./--raw"), ("a b", "'a b'"), ("-", "./-")])
def test_the_next_command_names_the_core_as_no_option(name: str, word: str) -> None:
    answer = replace(answer_of(deadlock(4)), target=replace(TARGET, file=name))
    assert f"  next       ompd stack {word} --thread 1000 --locals\n" in text_of(answer)


def test_waiters_in_the_same_place_are_one_line() -> None:
    (first, *_) = answer_of(laggard(120)).rows
    assert first.kind == "laggard"
    text = text_of(answer_of(laggard(120)))
    assert "  119 threads (1001 … 1119)  wait at a barrier  prog.c:10 work  thread 0 (1000) has not arrived\n" in text
    assert "thread 0 (1000)            works              prog.c:5 work" in text


@pytest.mark.parametrize("width", [40, 80, 120, None])
@pytest.mark.parametrize("rows", [deadlock(120), laggard(120), deadlock(4)], ids=["cycle", "laggard", "small"])
def test_answers_are_short_and_fit_the_terminal(width: int | None, rows: list[ThreadRecord]) -> None:
    lines = text_of(answer_of(rows), width).splitlines()
    assert width is None or max(map(len, lines)) <= width
    assert len(lines) < (40 if width != 40 else 60)


def test_of_many_verdicts_the_rest_has_a_line_each() -> None:
    pairs = [
        replace(row, native_thread_id=row.native_thread_id + 10 * n, wait=lock(f"&lock{n}{k}", 0x100 * n + k, None))
        for n in range(1, 21)
        for k, row in enumerate(deadlock(2))
        if row.native_thread_id is not None
    ]
    owners = {row.native_thread_id: pairs[number ^ 1].native_thread_id for number, row in enumerate(pairs)}
    rows = [
        replace(row, wait=row.wait and replace(row.wait, owner=owners[row.native_thread_id], owner_source="runtime"))
        for row in pairs
    ]
    answer = answer_of(rows)
    assert len(answer.rows) == 20 and {row.kind for row in answer.rows} == {"lock_cycle"}
    lines = text_of(answer).splitlines()
    assert sum(line.startswith("also: deadlock: ") for line in lines) == 8 and len(lines) < 44
    assert lines[-1] == "… 9 more verdicts, shown with --all"
    assert text_of(answer, verbose=True).count("  verdict    lock_cycle") == 20


def test_all_evidence_is_shown_with_address_and_value() -> None:
    item = Evidence("&a is held by thread 0", "runtime", 0x5000, 0xFFFF_FFFF_FFFF_FFF0)
    (verdict,) = answer_of(deadlock(4)).rows
    answer = replace(answer_of(deadlock(4)), rows=(replace(verdict, evidence=(item,) * 7),))
    line = "  evidence   runtime: &a is held by thread 0 [0x5000: 0xfffffffffffffff0]\n"
    assert text_of(answer, verbose=True).count(line) == 7 and line not in text_of(answer)
    parsed = json.loads(format_answer("why", answer))
    assert parsed["why"][0]["evidence"][0] == {
        "text": "&a is held by thread 0",
        "source": "runtime",
        "address": "0x5000",
        "value": "0xfffffffffffffff0",
    }


def test_what_is_not_known_is_listed() -> None:
    rows = [thread(0, lock("&a", 0x10, None)), thread(1, None, line=7)]
    (verdict, *_) = answer_of(rows).rows
    assert verdict.kind == "undecided" and verdict.unknowns
    assert f"  not known  {verdict.unknowns[0]}\n" in text_of(answer_of(rows))


def test_names_in_verdicts_are_cleaned() -> None:
    rows = [replace(row, where=Place(1, HOSTILE, f"/{HOSTILE}.c", 3)) for row in deadlock(4, (HOSTILE, "&b"))]
    answer = answer_of(rows)
    for text in (text_of(answer), text_of(answer, 80), text_of(answer, verbose=True), text_of(answer, dot=True)):
        assert all(line.isprintable() for line in text.split("\n"))
    assert "\\x1b[31m\\n" in text_of(answer)
    assert parsed_dot(text_of(answer, dot=True)).labels
    assert json.loads(format_answer("why", answer))["why"][0]["cycle"][1]["object"] == HOSTILE


# JSON


def test_json_has_the_graph_beside_the_verdicts() -> None:
    parsed = json.loads(format_answer("why", answer_of(deadlock(4))))
    assert parsed["schema"] == "ompd/why/1" and list(parsed)[-4:] == ["why", "graph", "children", "other_ranks"]
    (row,) = parsed["why"]
    assert (row["kind"], row["stuck"], row["confidence"], row["roots"]) == (
        "lock_cycle",
        "proven",
        "proven",
        [1000, 1001],
    )
    assert row["explains"] == [1000, 1001, 1002, 1003] and row["next_step"].startswith("ompd stack TARGET --thread ")
    assert [(link["thread"], link["object"], link["where"]["line"]) for link in row["cycle"]] == [
        (1000, "&b", 10),
        (1001, "&a", 20),
    ]
    nodes = {node["id"]: node for node in parsed["graph"]["nodes"]}
    assert {node["object"] for node in nodes.values() if node["kind"] == "lock"} == {"0x10", "0x20"}
    assert all(edge["origin"] in nodes and edge["target"] in nodes for edge in parsed["graph"]["edges"])


# Graphviz


class Dot:
    """A text in Graphviz's language, parsed strictly: one statement a line."""

    statement = re.compile(
        r'  (?:  )?(n\d+) \[label="((?:[^"\\]|\\["\\n])*)", shape=\w+(?:, \w+=(?:\d+|"[^"]*"))*\];'
        r'|  (n\d+) -> (n\d+) \[label="[\w ]*", style=\w+\];'
        r'|  subgraph (cluster_\d+) \{ label="[^"\\]*"; color="[^"]*";'
        r"|  (?:rankdir=LR|(?:node|edge) \[[^\]]*\]);|  \}"
    )

    def __init__(self, text: str) -> None:
        first, *lines, last = text.rstrip("\n").split("\n")
        assert (first, last) == ("digraph why {", "}")
        self.labels: dict[str, str] = {}
        self.edges: list[tuple[str, str]] = []
        self.clusters: dict[str, list[str]] = {}
        inside: list[str] | None = None
        for line in lines:
            found = self.statement.fullmatch(line)
            assert found is not None, line
            if found[1]:
                assert found[1] not in self.labels
                self.labels[found[1]] = found[2]
                if inside is not None:
                    inside.append(found[1])
            elif found[3]:
                self.edges.append((found[3], found[4]))
            elif found[5]:
                inside = self.clusters.setdefault(found[5], [])
            elif line == "  }":
                inside = None
        assert {name for edge in self.edges for name in edge} <= set(self.labels)


def parsed_dot(text: str) -> Dot:
    return Dot(text)


def test_a_cycle_is_a_ring_and_waiters_are_folded() -> None:
    dot = parsed_dot(text_of(answer_of(deadlock(64)), dot=True))
    (ring,) = dot.clusters.values()
    assert sorted(dot.labels[name] for name in ring) == [
        "&a",
        "&b",
        "thread 0 (1000)\\nprog.c:10 work\\nroot",
        "thread 1 (1001)\\nprog.c:20 work\\nroot",
    ]
    assert sorted(dot.labels[name] for name in dot.labels if name not in ring) == ["a barrier", "threads  x 62"]
    after = {origin: target for origin, target in dot.edges if origin in ring and target in ring}
    walked = [ring[0]]
    while after[walked[-1]] != ring[0]:
        walked.append(after[walked[-1]])
    assert sorted(walked) == sorted(ring)


def test_a_chain_has_no_ring_and_its_root_is_marked() -> None:
    dot = parsed_dot(text_of(answer_of(laggard(63)), dot=True))
    assert not dot.clusters
    assert sorted(dot.labels.values()) == [
        "a barrier",
        "thread 0 (1000)\\nprog.c:5 work\\nroot",
        "threads  x 62\\nprog.c:10 work",
    ]


@pytest.mark.parametrize("size", [100, 4000])
@pytest.mark.quick("100")
def test_graphs_of_many_threads_stay_small(size: int) -> None:
    alone = [thread(number, lock(f"&own{number}", 0x100 + number, number)) for number in range(size)]
    for rows in (deadlock(size), laggard(size), alone):
        text = text_of(answer_of(rows), dot=True)
        parsed_dot(text)
        assert len(text.splitlines()) < 250


# Exit codes


def code_of(kind: str, stuck: str) -> int | None:
    verdict = VerdictRecord(kind=kind, stuck=stuck, confidence=Confidence.LIKELY, summary="")
    answer = WhyAnswer(TARGET, (), (verdict,), False, ())
    assert WHY.status_of(answer, {"exit_code": False}) is None
    return WHY.status_of(answer, {"exit_code": True})


def test_the_first_verdict_decides_the_exit_code() -> None:
    expected: Mapping[tuple[str, str], int] = {
        ("lock_cycle", "proven"): 10,
        ("undecided", "proven"): 10,
        ("lock_cycle", "likely"): 11,
        ("external_wait", "possible"): 11,
        ("no_stall", "unknown"): 12,
        ("laggard", "unknown"): 12,
        ("oversubscribed", "unknown"): 12,
        ("undecided", "possible"): 13,
        ("undecided", "unknown"): 13,
        ("external_wait", "unknown"): 13,
    }
    assert {case: code_of(*case) for case in expected} == expected
    assert WHY.status_of(WhyAnswer(TARGET, (), (), False, ()), {"exit_code": True}) == 13


# Command


def test_the_command_answers_in_each_form() -> None:
    core = stopped("hang", runtime="libgomp")
    (blocked,) = [t["native_thread_id"] for t in core.truth["threads"] if t["blocked_in"] == "lock"]
    ran = {
        option: CliRunner().invoke(cli, ["why", str(core.core), *option.split()])
        for option in ("", "-v", "--json", "--dot", "--exit-code", "--dot --json")
    }
    assert [ran[option].exit_code for option in ("", "-v", "--json", "--dot", "--dot --json")] == [0, 0, 0, 0, 2]
    row = json.loads(ran["--json"].stdout)["why"][0]
    assert ran["--exit-code"].exit_code == (
        10 if row["stuck"] == "proven" else 13 if row["kind"] == "undecided" else 11
    )
    assert ran["--exit-code"].stdout == ran[""].stdout
    assert f"thread 1 ({blocked})" in ran[""].stdout and "hang.c:39 report_progress" in ran[""].stdout
    assert blocked in row["roots"] and len(row["explains"]) == 4
    assert parsed_dot(ran["--dot"].stdout).labels
    assert "exclude each other" in ran["--dot --json"].stderr


def test_a_proof_is_whole_though_facts_that_it_does_not_need_are_unreadable(tmp_path: Path) -> None:
    core = hung(WHYS["fork_child-region"], "gcc", GNU)
    assert core.core is not None
    # In a child without the other threads, the threads that have arrived are unknown.
    assert CliRunner().invoke(cli, ["threads", str(core.core)]).exit_code == 3
    ran = CliRunner().invoke(cli, ["why", str(core.core), "--json"])
    answer = json.loads(ran.stdout)
    assert (ran.exit_code, answer["complete"]) == (0, True)
    assert (answer["why"][0]["stuck"], answer["why"][0]["confidence"]) == ("proven", "proven")
    assert "who has arrived at its barrier" in ran.stderr
    # Without the program's file the place is unknown. A core that was cut off may lack threads.
    small = cut(core.core, tmp_path / "core", core.core.stat().st_size * 99 // 100)
    for words in ([str(core.core), "--exe", "/bin/true"], [str(small)]):
        assert CliRunner().invoke(cli, ["why", *words]).exit_code == 3


def test_stacks_are_of_the_threads_that_the_verdict_names() -> None:
    core = stopped("hang", runtime="libgomp")
    with ompd.open_core(core.core) as session:
        (verdict, *_) = session.ask_why().rows
    named = {*verdict.roots, *(link.thread for link in verdict.cycle)}
    assert [stack.native_thread_id in named for stack in verdict.stacks] == [True, True]
    assert verdict.stacks[0].native_thread_id in verdict.roots
    assert {frame.kind for stack in verdict.stacks for frame in stack.frames} == {"user"}
    assert [stack.frames[0].function for stack in verdict.stacks] == ["report_progress", "simulate"]


def test_the_lines_are_shown_at_which_threads_wait(tmp_path: Path) -> None:
    core = stopped("hang", runtime="libgomp")
    shown = CliRunner().invoke(cli, ["why", str(core.core)]).stdout
    assert re.search(
        r"^  39 \|     omp_set_lock\(&progress_lock\);\n     \|     \^+ thread 1 \(\d+\) waits", shown, re.M
    )
    answer = json.loads(CliRunner().invoke(cli, ["why", str(core.core), "--json"]).stdout)
    assert {source["line"] for source in answer["why"][0]["sources"]} == {39, 59}
    # Sources in another folder.
    with ompd.open_core(core.core) as session:
        named = session.ask_why().rows[0].sources[0]
    (tmp_path / "hang.c").write_text("// moved\n" + Path(named.path).read_text())
    with ompd.open_core(core.core, source_dirs=[tmp_path]) as session:
        moved = session.ask_why().rows[0].sources[0]
    assert (moved.path, moved.lines) != (named.path, named.lines) and moved.note is not None


def test_a_source_file_that_is_not_here_is_a_reason_with_v(tmp_path: Path) -> None:
    source, program = tmp_path / "stuck.c", tmp_path / "stuck"
    source.write_text(
        "#include <pthread.h>\nint main(void)\n{\n    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;\n"
        "    #pragma omp parallel num_threads(2)\n    {\n        pthread_mutex_lock(&lock);\n"
        "        pthread_mutex_lock(&lock);\n    }\n}\n"
    )
    subprocess.run(["gcc", "-g", "-O0", "-fopenmp", str(source), "-o", str(program)], check=True)
    process = subprocess.Popen([str(program)])
    try:
        await_rest(process.pid)
        source.unlink()
        plain, full = (CliRunner().invoke(cli, ["why", str(process.pid), *words]).stdout for words in ((), ("-v",)))
    finally:
        process.kill()
        process.wait()
    assert "-->" not in plain and f"= {source}: no such file" in full


def test_a_running_process_is_named_by_its_number(tmp_path: Any) -> None:
    with running("hang", folder=tmp_path) as live:
        ran = CliRunner().invoke(cli, ["why", str(live.pid)])
    assert ran.exit_code == 0
    assert re.search(rf"^  next       ompd \w+ {live.pid}( |$)", ran.stdout, re.MULTILINE)


def test_a_prompt_has_no_exit_code() -> None:
    words = {flag.long for flag in flags_of(WHY)}
    assert {"dot", "json", "all", "verbose"} <= words and "exit-code" not in words
