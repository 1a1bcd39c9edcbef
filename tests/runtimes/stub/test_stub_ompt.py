"""The registration of a tool with the stub: three generations and their order, ``OMP_TOOL``, libraries, and the
definition that the runtime sees.

``runtime_stub/tests/ompt`` tests in C what registered tools are told.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from ompd_stub.runtime import Runtime

from ompd.binary.elf.elf import ElfFile
from ompd.binary.elf.symbols import SymbolTable
from ompd.questions import runtimes, stacks, threads
from ompd.render.answers.stacks import stack_lines
from ompd.runtimes.guarded import original
from ompd.safety.reading import open_paged
from ompd.session import Session
from tests.stub.costs import MOST, costs, without_ompt
from tests.stub.programs import core_of
from tests.stub.tools import RUNTIME, SOURCES, compiled, made
from tests.support.build import WITH_HEADERS
from tests.support.cache import entry, key_of
from tests.support.machine import clean_environment, require
from tests.support.ompt import openmp_5, report_2015
from tests.support.pages import ROOT
from tests.support.spaces import without_spaces
from tests.support.stub import sources_key, stub_folder

WORKED = "3 threads"


def tool(*answers: str, name: str = "tool.so", as_name: str = "library") -> Path:
    """Return a library with the tool. *answers* are macros like ``START_TOOL=1``: how its functions answer."""
    flags = [*(f"-D{answer}" for answer in answers), f'-DNAME="{as_name}"']
    return compiled("tool.c", *flags, name=name, links=())


def run(program: Path, **variables: str) -> tuple[int, list[str], str]:
    """Run a program. Return its exit code, the lines of its output, and its standard error."""
    environment: Mapping[str, str] = {**clean_environment(), **variables}
    done = subprocess.run([program], capture_output=True, text=True, env=environment, timeout=60, check=False)
    return done.returncode, done.stdout.splitlines(), done.stderr


def told(program: Path, **variables: str) -> list[str]:
    code, lines, errors = run(program, **variables)
    assert (code, errors) == (0, "")
    assert WORKED in lines  # no tool changes the program's work
    return [line for line in lines if line != WORKED]


def with_tool(*answers: str) -> Path:
    """Return a program that is linked with the tool's library before the runtime."""
    flags = [*(f"-D{answer}" for answer in answers), '-DNAME="program"']
    code = compiled("tool.c", *flags, name="tool.so", links=())
    return compiled("plain.c", name="program", links=(code, RUNTIME))


# The order of the generations


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (("START_TOOL=1", "TOOL=1", "INITIALIZE=1"), ["start_tool begins", "start_tool ends"]),
        (("START_TOOL=0", "TOOL=1", "INITIALIZE=1"), ["start_tool is none", "tool begins", "tool ends"]),
        (("START_TOOL=0", "TOOL=0", "INITIALIZE=1"), ["start_tool is none", "tool is none", "initialize begins"]),
        (("START_TOOL=0", "TOOL=0", "INITIALIZE=0"), ["start_tool is none", "tool is none", "initialize is none"]),
        (("START_TOOL=2", "TOOL=1", "INITIALIZE=1"), ["start_tool declines"]),
        (("TOOL=1", "INITIALIZE=1"), ["tool begins", "tool ends"]),
        (("INITIALIZE=1",), ["initialize begins"]),
    ],
    ids=lambda value: "-".join(value).replace(" ", "_"),
)
def test_generations_are_tried_in_their_order(answers: tuple[str, ...], expected: list[str]) -> None:
    assert told(with_tool(*answers)) == [f"program {line}" for line in expected]


# OMP_TOOL


@pytest.mark.parametrize("value", ["enabled", "ENABLED", "Enabled", " enabled", "enabled\t ", "\n eNaBlEd "])
def test_omp_tool_enables(value: str) -> None:
    assert told(with_tool("TOOL=1"), OMP_TOOL=value) == ["program tool begins", "program tool ends"]


@pytest.mark.parametrize("value", ["disabled", "DISABLED", " Disabled ", "\tdisabled"])
@pytest.mark.parametrize("answer", ["START_TOOL=1", "TOOL=1", "INITIALIZE=1"])
def test_omp_tool_disables(value: str, answer: str) -> None:
    library = tool("START_TOOL=1")
    assert told(with_tool(answer), OMP_TOOL=value, OMP_TOOL_LIBRARIES=str(library)) == []


@pytest.mark.parametrize("value", ["", " ", "yes", "1", "enable", "enabled,disabled", "dis abled"])
def test_any_other_omp_tool_ends_the_program(value: str) -> None:
    code, lines, errors = run(with_tool("TOOL=1"), OMP_TOOL=value)
    assert code != 0 and lines == []
    assert errors == f"libomp_stub: OMP_TOOL={value} is neither enabled nor disabled\n"


# OMP_TOOL_LIBRARIES


def test_the_first_library_whose_tool_is_one() -> None:
    none, first, second = (
        tool("START_TOOL=0", name="none.so", as_name="none"),
        tool("START_TOOL=1", name="first.so", as_name="first"),
        tool("START_TOOL=1", name="second.so", as_name="second"),
    )
    program = compiled("plain.c")
    named = f"{none}::{first}:{second}"
    expected = ["none start_tool is none", "first start_tool begins", "first start_tool ends"]
    assert told(program, OMP_TOOL_LIBRARIES=named) == expected


def test_libraries_come_behind_the_program_and_before_the_report_of_2015() -> None:
    library = str(tool("START_TOOL=1"))
    began = ["library start_tool begins", "library start_tool ends"]
    assert told(with_tool("START_TOOL=1"), OMP_TOOL_LIBRARIES=library)[0] == "program start_tool begins"
    assert told(with_tool("START_TOOL=0"), OMP_TOOL_LIBRARIES=library) == ["program start_tool is none", *began]
    assert told(with_tool("TOOL=1"), OMP_TOOL_LIBRARIES=library) == began


def test_a_library_that_is_not_there_or_has_no_tool_is_passed() -> None:
    plain, library = compiled("plain.c", "-DLIBRARY", name="plain.so"), tool("START_TOOL=1")
    code, lines, errors = run(compiled("plain.c"), OMP_TOOL_LIBRARIES=f"/nowhere/tool.so:{plain}:{library}")
    assert code == 0
    assert lines == ["library start_tool begins", WORKED, "library start_tool ends"]
    assert errors.startswith("libomp_stub: OMP_TOOL_LIBRARIES: /nowhere/tool.so: ") and errors.count("\n") == 1


# OMP_TOOL_VERBOSE_INIT


def steps(text: str) -> list[str]:
    """Return the steps of a registration in the text of a log."""
    return re.findall(r"^libomp_stub: tool: (.*)$", text, re.MULTILINE)


NO_TOOL = [
    *("there is no ompt_start_tool in the address space", "there is no ompt_tool in the address space"),
    *("there is no ompt_initialize in the address space", "no tool is active"),
]


@pytest.mark.parametrize(
    ("value", "to_output", "to_errors"),
    [
        *((None, [], []), ("disabled", [], []), (" Disabled ", [], [])),
        *(("stdout", NO_TOOL, []), ("STDERR", [], NO_TOOL), ("/nowhere/log", [], NO_TOOL)),
    ],
)
def test_the_registration_is_logged(value: str | None, to_output: list[str], to_errors: list[str]) -> None:
    variables = {} if value is None else {"OMP_TOOL_VERBOSE_INIT": value}
    code, lines, errors = run(compiled("plain.c"), **variables)
    assert (code, lines[-1]) == (0, WORKED)
    assert (steps("\n".join(lines)), steps(errors)) == (to_output, to_errors)
    assert ("/nowhere/log cannot be opened" in errors) == (value == "/nowhere/log")


def test_a_log_is_a_file_that_has_each_step(tmp_path: Path) -> None:
    log, plain = tmp_path / "log", compiled("plain.c", "-DLIBRARY", name="plain.so")
    none, library = tool("START_TOOL=0", name="none.so"), tool("START_TOOL=1", name="first.so")
    names = f"/nowhere/tool.so:{plain}:{none}:{library}"
    run(compiled("plain.c"), OMP_TOOL_VERBOSE_INIT=str(log), OMP_TOOL_LIBRARIES=names)
    first, lost, *rest = steps(log.read_text())
    assert first == NO_TOOL[0] and lost.startswith("/nowhere/tool.so cannot be loaded: ")
    assert rest == [
        f"{plain} has no ompt_start_tool",
        f"ompt_start_tool of {none} returns NULL",
        f"ompt_start_tool of {library} returns a tool",
        "its initializer succeeds",
        "the tool is active",
    ]
    run(compiled("plain.c"), OMP_TOOL_VERBOSE_INIT=str(log), OMP_TOOL="disabled")
    assert steps(log.read_text())[-2:] == ["tool-var is disabled", "no tool is active"]


def test_a_log_names_the_file_of_each_generations_tool() -> None:
    answers = {
        "START_TOOL=2": ["ompt_start_tool of * returns a tool", "its initializer returns 0", "no tool is active"],
        "TOOL=1": [NO_TOOL[0], "ompt_tool of * returns a tool", "the tool is active"],
        "INITIALIZE=1": [*NO_TOOL[:2], "ompt_initialize of * returns 1", "the tool is active"],
    }
    for answer, expected in answers.items():
        _, lines, _ = run(with_tool(answer), OMP_TOOL_VERBOSE_INIT="stdout")
        assert [re.sub(r"of /.+/tool\.so ", "of * ", step) for step in steps("\n".join(lines))] == expected


# The definition that the runtime sees


KINDS = {"START_TOOL=1": "start_tool", "TOOL=1": "tool", "INITIALIZE=1": "initialize"}


def seen(kind: str, lines: Sequence[str]) -> bool:
    name = KINDS[kind]
    ends = [] if name == "initialize" else [f"library {name} ends"]
    assert lines in ([], [f"library {name} begins", *ends])
    return lines != []


@pytest.mark.parametrize("kind", KINDS)
class TestVisibility:
    def test_in_the_program(self, kind: str) -> None:
        both = compiled("inside.c", f"-D{kind}", '-DNAME="library"')
        assert seen(kind, told(both))

    def test_in_a_library_that_is_preloaded(self, kind: str) -> None:
        assert seen(kind, told(compiled("plain.c"), LD_PRELOAD=str(without_spaces(tool(kind)))))

    def test_in_a_library_before_the_runtime(self, kind: str) -> None:
        assert seen(kind, told(compiled("plain.c", links=(tool(kind), RUNTIME))))

    def test_in_a_library_behind_the_runtime(self, kind: str) -> None:
        # The runtime's weak definition comes first. Only that of OpenMP 5's function looks for one behind itself.
        assert seen(kind, told(compiled("plain.c", links=(RUNTIME, tool(kind))))) is (kind == "START_TOOL=1")

    def test_in_a_library_before_one_that_loads_the_runtime(self, kind: str) -> None:
        inner = compiled("plain.c", "-DLIBRARY", name="inner.so")
        outer = compiled("outer.c", name="outer.so", links=(tool(kind), inner))
        assert seen(kind, told(compiled("plain.c", f'-DLOAD="{outer}"', links=("-ldl",))))

    def test_in_a_library_behind_one_that_loads_the_runtime(self, kind: str) -> None:
        # The load module's own libraries come before those that these need, so the tool is still before the runtime.
        inner = compiled("plain.c", "-DLIBRARY", name="inner.so")
        outer = compiled("outer.c", name="outer.so", links=(inner, tool(kind)))
        assert seen(kind, told(compiled("plain.c", f'-DLOAD="{outer}"', links=("-ldl",))))

    def test_in_a_library_that_was_loaded_for_itself(self, kind: str) -> None:
        # Loaded by dlopen() without RTLD_GLOBAL, the library is seen only by modules that need it.
        loads = compiled("twice.c", f'-DTOOL_LIBRARY="{tool(kind)}"', links=(RUNTIME, "-ldl"))
        assert not seen(kind, told(loads))


# What a tool finds


def test_what_a_tool_looks_up_is_no_symbol() -> None:
    path = str(stub_folder() / "libomp_stub.so")
    symbols = SymbolTable(ElfFile(open_paged(path), path))
    for name in ("omp_control_tool", "omp_control_tool_"):
        assert symbols.find(name) is not None
    printed = subprocess.run([require("nm"), "-D", "--defined-only", path], capture_output=True, text=True, check=True)
    names = {line.split()[-1] for line in printed.stdout.splitlines()}
    assert {name for name in names if name.startswith("ompt_")} == {
        *("ompt_start_tool", "ompt_tool", "ompt_initialize", "ompt_control", "ompt_control_")
    }


def test_the_standards_example() -> None:
    code, lines, errors = run(compiled("start.c"), OMP_NUM_THREADS="5")
    assert (code, lines, errors) == (0, ["5 threads"], "")


def test_fortran_controls_a_tool() -> None:
    gfortran = require("gfortran")
    library = compiled("controlled.c", name="controlled.so", links=())
    stub = stub_folder()

    def make(folder: Path) -> None:
        linking = [f"-L{stub}", f"-Wl,-rpath,{stub}", "-Wl,--no-as-needed", RUNTIME]
        made([gfortran, str(SOURCES / "control.f90"), "-o", str(folder / "control"), *linking])

    key = key_of((SOURCES / "control.f90").read_text(), sources_key())
    program = entry("stub-ompt", key, make) / "control"
    code, lines, errors = run(program, LD_PRELOAD=str(without_spaces(library)))
    assert (code, errors) == (0, "")
    assert lines == ["1 10", "2 20", "3 30", "4 40", "64 -1", "65 7", "0"]
    assert run(program)[1] == ["-2"]  # there is no tool


@pytest.mark.parametrize("generation", [1, 2, 5])
def test_what_a_tool_is_told_of_a_wait_is_what_a_debugger_reads(generation: int) -> None:
    program = compiled("stuck.c", f"-DGENERATION={generation}", *WITH_HEADERS)
    core = core_of(program, environment={})  # without OMP_DEBUG: the tool makes the runtime keep states
    told_of = (core.parent / "output").read_text().split()
    with Session.open_core(core) as session:
        (runtime,) = runtimes.ask(session).rows
        rows = {row.thread_num: row for row in threads.ask(session).rows}
        space = original(session.runtimes[0].space)
        assert isinstance(space, Runtime)
        by_num = {thread.thread_num(): thread for thread in space.threads()}
        waiter, task = by_num[1], by_num[1].current_task()
        assert waiter.team is not None and task is not None
        ids = [str(view.unsigned("id")) for view in (waiter.view, waiter.team.view, task.view)]
        tool = space.root.signed("tool")
        kept = waiter.view.unsigned("state")
        assert by_num[0].view.pointer("idle_frame") is None  # the initial thread has no loop in which it waits for work
        raw, usual = stacks.ask(session, raw=True), stacks.ask(session)
        frames = {frame.thread: frame for row in raw.rows for frame in row.frames if frame.idle_loop}
        assert {native: frame.function for native, frame in frames.items()} == {waiter.native: "work_for_teams"}
        (line,) = (text for text, _ in stack_lines(raw) if "idle loop" in text)
        assert re.match(r" +#\d+ +work_for_teams +threads\.c:\d+   idle loop   runtime   pc 0x", line)
        assert not any(frame.idle_loop for row in usual.rows for frame in row.frames)
    assert runtime.keeps_states and tool == generation
    assert {row.state_source for row in rows.values()} == {"runtime"}
    assert (rows[0].state, rows[1].state) == ("work_parallel", "wait_lock")
    assert int(told_of[1], 16) == rows[1].wait_id
    if generation == 5:
        assert told_of == ["1", told_of[1]]  # its callback comes before the thread waits: ompt_state_work_parallel
    else:
        assert told_of == [str(kept), told_of[1], told_of[1], *ids]


# The page on events

PAGE = (ROOT / "docs" / "dev" / "ompt-events.md").read_text()


def codes(*flags: str) -> dict[int, int]:
    library = compiled("codes.c", *flags, name="codes.so", links=())
    lines = [line.split() for line in told(compiled("plain.c"), LD_PRELOAD=str(without_spaces(library)))]
    return {int(event): int(code) for event, code in lines}


def test_the_page_says_of_each_event_what_a_tool_gets() -> None:
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \| (\d) \| (\S.*) \|$", PAGE, re.MULTILINE)
    assert {int(number): int(code) for number, _, code, _ in rows} == codes("-DREPORT")
    events = report_2015.ENUMERATIONS["ompt_event_t"].numbers()
    known = {value: name for name, value in events.items() if name != "ompt_event_target_task_end"}
    assert {int(number): f"ompt_event_{name}" for number, name, _, _ in rows} == known
    assert len(rows) == 70


def test_the_page_says_of_each_callback_what_a_tool_gets() -> None:
    words = {"always": 5, "sometimes, paired": 4, "sometimes": 3, "impossible": 2, "never": 1}
    section = PAGE.split("## Callbacks of OpenMP 5")[1].split("\n## ")[0]
    said = {
        name: words[result]
        for names, result in re.findall(r"^\| (`.*?) \| ([a-z, ]+) \|", section, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", names)
    }
    numbers = openmp_5.ENUMERATIONS["ompt_callbacks_t"].numbers()
    got = codes()
    assert {name: got[numbers[f"ompt_callback_{name}"]] for name in said} == said
    possible = {name for name, number in numbers.items() if got[number] != words["never"]}
    assert possible - {f"ompt_callback_{name}" for name in said} == {"ompt_callback_master"}  # an older name of masked


# Costs


@pytest.mark.quick()
def test_without_a_tool_events_cost_next_to_nothing() -> None:
    # The report demands negligible overhead without a tool. The test counts instructions, whose number never varies.
    printed = subprocess.run(
        [require("nm"), "-D", str(without_ompt() / "libomp_stub.so")], capture_output=True, text=True, check=True
    ).stdout
    assert "GOMP_parallel" in printed and "ompt" not in printed
    without, with_ompt, with_tool = costs()
    assert without > 1000 and with_ompt <= MOST * without < with_tool
