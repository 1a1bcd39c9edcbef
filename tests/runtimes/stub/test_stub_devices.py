"""The stub with the host as a device: a tool's callbacks and traces are what the program did.

The tests also cover what ompd reads of a target task. ``runtime_stub/tests/ompt/device_*.c`` tests in C what a tool may
ask of the device.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from ompd.questions import stacks, tasks, threads
from ompd.render.answers.stacks import stack_lines
from ompd.render.answers.tasks import task_lines
from ompd.session import Session
from tests.stub.programs import core_of
from tests.stub.tools import compiled
from tests.support.machine import clean_environment
from tests.support.pages import ROOT
from tests.support.spaces import without_spaces

DEVICE = {"OMP_STUB_DEVICE": "host"}
REGION, UPDATE = "1", "4"  # ompt_target_task_type_t
PAGE = (ROOT / "docs" / "dev" / "ompt-events.md").read_text()


def run(program: Path, library: Path | None = None, **variables: str) -> tuple[int, list[str], str]:
    environment: Mapping[str, str] = {**clean_environment(), **variables}
    if library is not None:
        environment = {**environment, "LD_PRELOAD": str(without_spaces(library))}
    done = subprocess.run([program], capture_output=True, text=True, env=environment, timeout=60, check=False)
    return done.returncode, done.stdout.splitlines(), done.stderr


def tracer() -> Path:
    return compiled("traced.c", name="traced.so", links=())


def test_without_the_variable_there_is_no_device() -> None:
    code, lines, errors = run(compiled("offloads.c"), tracer())
    assert code != 0 and lines == ["no device"]
    assert errors == "libomp_stub: GOMP_target_ext is not supported\n"
    code, _, errors = run(compiled("offloads.c"), OMP_STUB_DEVICE="gpu")
    assert code != 0 and errors.startswith("libomp_stub: OMP_STUB_DEVICE=gpu is not host: there is no device\n")


def test_the_trace_is_what_the_program_did() -> None:
    assert run(compiled("offloads.c"), **DEVICE) == (0, [], "")  # a device needs no tool
    code, lines, errors = run(compiled("offloads.c"), tracer(), **DEVICE)
    assert (code, errors) == (0, "")
    told = [line for line in lines if not line.startswith("trace")]
    begun = [line.split()[1:] for line in told if line.startswith("begin")]
    assert [kind for _, kind, _ in begun] == [REGION] * 3 + [UPDATE]
    identifiers = [task for _, _, task in begun]
    assert told == [line for (_, kind, task) in begun for line in (f"begin 0 {kind} {task}", f"end {task}")]
    traced = [line.removeprefix("trace ") for line in lines if line.startswith("trace")]
    links = (re.fullmatch(r"(\d+) is (\d+)", line) for line in traced)
    activities = {link[2]: link[1] for link in links if link is not None}
    assert list(activities) == identifiers[:3] and len(set(activities.values())) == 3
    expected: list[str] = []
    for task in identifiers[:3]:
        own = activities[task]
        expected += [f"{own} is {task}", f"begin {task}", f"{own} a kernel is invoked", f"{own} a kernel is executed"]
        expected.append(f"end {task}")
    expected += [f"begin {identifiers[3]}", f"end {identifiers[3]}"]
    assert traced == expected


def test_ompd_reads_the_target_task_that_the_tool_was_told_of() -> None:
    program = compiled("offloads.c", "-DSTOP")
    core = core_of(program, environment={**DEVICE, "LD_PRELOAD": str(without_spaces(tracer()))})
    lines = (core.parent / "output").read_text().splitlines()
    last = [line.split() for line in lines if line.startswith("begin")][-1]
    with Session.open_core(core) as session:
        of_tasks, of_threads = tasks.ask(session), threads.ask(session)
        answer = stacks.ask(session)
        rows = [row for row in answer.rows if row.thread_num is not None]
    assert of_tasks.complete and of_threads.complete
    (target,) = (row for row in of_tasks.rows if row.ompt_type == "target")
    titles = [text.partition("   ")[0] for _, text in task_lines(of_tasks)]
    assert (titles.count("target task"), titles.count("explicit task")) == (1, 0)
    assert (str(target.ompt_id), target.kind) == (last[3], "explicit")
    (initial,) = (row for row in of_tasks.rows if row.kind == "initial")
    assert target.generating == target.scheduling == initial.id and target.function is not None
    assert {row.generating for row in of_tasks.rows if row.kind == "implicit"} == {target.id}  # it met this region
    (waiting,) = (row for row in rows if row.thread_num == 0)
    shown = [text for text, _ in stack_lines(answer)]
    assert len(waiting.frames) == 3 and sum("body of target offloads.c:" in line for line in shown) == 2


def codes(flag: str) -> dict[int, int]:
    library = compiled("codes.c", *([flag] if flag else []), name="codes.so", links=())
    _, lines, _ = run(compiled("plain.c"), library, **DEVICE)
    return {int(event): int(code) for event, code in (line.split() for line in lines if "threads" not in line)}


@pytest.mark.parametrize(("flag", "word"), [("-DREPORT", "events"), ("", "callbacks")])
def test_the_page_says_which_events_a_device_adds(flag: str, word: str) -> None:
    section = PAGE.split("## The host as a device")[1].split("\n## ")[0]
    (line,) = (line for line in section.splitlines() if line.startswith(f"| {word} |"))
    always = {int(number) for number in re.findall(r"\d+", line.split("|")[2])}
    without_device = compiled("codes.c", *([flag] if flag else []), name="codes.so", links=())
    _, lines, _ = run(compiled("plain.c"), without_device)
    before = {int(event): int(code) for event, code in (text.split() for text in lines if "threads" not in text)}
    after = codes(flag)
    most = max(after.values())
    assert {event for event in after if after[event] != before[event]} == always
    assert {after[event] for event in always} == {most}
