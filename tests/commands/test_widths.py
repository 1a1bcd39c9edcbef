"""No line of any command's text is wider than the terminal, and no word is broken that has room, for any team and name.

The records are invented: teams of up to 2,000 threads, and names of templates with 2,000 characters.
"""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from ompd.commands import ending
from ompd.machine.processes import OpenMpProcess
from ompd.model import (
    Answer,
    CheckAnswer,
    CheckedLibrary,
    ChildRecord,
    CounterChange,
    DiffAnswer,
    DifferenceRecord,
    DifferingVariable,
    DistinctValue,
    DoctorAnswer,
    EntrySeen,
    Evidence,
    FactChange,
    FindingRecord,
    IcvRecord,
    Link,
    LoadChain,
    LocalRecord,
    OtherRanksRecord,
    ParallelRecord,
    Place,
    RegionFunction,
    RuntimeRecord,
    StackFrame,
    StackRecord,
    TargetRecord,
    TaskChange,
    TaskRecord,
    TaskWaitRecord,
    ThreadChange,
    ThreadRecord,
    VariableAnswer,
    VariableRecord,
    VerdictRecord,
    Wait,
    WhyAnswer,
)
from ompd.model.conformance import ConformanceAnswer, ConformanceFinding
from ompd.model.kinds import Confidence, Kind, VerdictKind
from ompd.model.layouts import LayoutAnswer, LayoutRecord, MemberRecord, StructRecord
from ompd.model.places import Construct, SourceExcerpt, SourceMark
from ompd.render import terminal
from ompd.render.answers.triage import describe_triage
from ompd.render.conformance import lines as conformance_lines
from ompd.render.terminal import Console, print_wrapped
from tests.support import FULL, stopped
from tests.support.machine import clean_environment
from tests.support.triage_pages import of_job

WIDTHS, SIZES = (80, 100, 120), (4, 300, 2000)
# A longer word may be broken, even where a line has room for it, because a column is no wider.
LONGEST = 44
ARGUMENTS = "std::vector<std::pair<Key, double>, std::allocator<std::pair<Key, double>>>, "
NAMES = {
    "short": "simulate",
    "template": f"solver::Grid<{(ARGUMENTS * 30)[:1960]}int>::apply_to_all_cells<4>",
    "one word": f"solver::Grid<{(ARGUMENTS * 40).replace(' ', '')[:1960]}>::apply",
}
FILE = "/home/u/projects/simulation/source/a_file_of_the_solver.cc"
FIRST = 1_234_567
CONTROL = re.compile(r"\x1b\[[0-9;]*m")
LOST = {"state": "the memory at 0x7f0012345678 could not be read, and nothing else in the process has this fact"}


def target(size: int) -> TargetRecord:
    name = "/scratch/projects/simulation/cores/core.1234567"
    return TargetRecord("core", name, "/usr/bin/simulation", 1234567, "simulation", 6, "SIGABRT", "x86_64", size)


def runtime(number: int = 0) -> RuntimeRecord:
    return RuntimeRecord(
        f"libgomp{number}", "libgomp", "GCC 12", f"/opt/runtimes/{number}/lib/libgomp.so.1", "ab" * 20, "table",
        ("/opt/libgompd.so",), False, 202011, layout_proof="the state of the process confirms the table " * 3,
    )  # fmt: skip


class Of:
    """The answers about a team of *size* threads in a function of this name."""

    def __init__(self, size: int, name: str) -> None:
        self.size, self.name = size, name
        self.natives = tuple(range(FIRST, FIRST + size))
        self.place = Place(0x55D4A93E33C0, name, FILE, 1059)
        self.function = RegionFunction(0x55D4A93E33C0, name, FILE, 1057, "parallel")

    def answer(self, rows: Sequence[Any], kind: Any = Answer, **more: Any) -> Any:
        return kind(target(self.size), (runtime(), runtime(1)), tuple(rows), False, ("a part is lost",), **more)

    def threads(self) -> Any:
        rows = [
            ThreadRecord(
                runtime="libgomp0", thread_num=number, team_size=self.size, level=2, active_level=1,
                ancestors=(number % 7,), native_thread_id=native, thread_type="worker",
                state=("wait_barrier_implicit_parallel", "wait_lock", "work_parallel")[number % 3],
                wait=(
                    Wait(Kind.BARRIER, arrived=self.size // 3, expected=self.size, missing=self.natives[1::3]),
                    Wait(Kind.LOCK, 0x55D4A93E33C8, f"&{self.name}::gate", owner=FIRST + 2),
                    None,
                )[number % 3],
                parallel=f"0x55d4a93e33c{number % 5}", where=replace(self.place, line=1000 + number % 9),
                tool_data=0x7F0012345678, unavailable=LOST if number % 2 else {},
            )
            for number, native in enumerate(self.natives)
        ]  # fmt: skip
        return self.answer(rows)

    def regions(self) -> Any:
        return self.answer([
            ParallelRecord(f"0x55d4a93e33c{n}", "libgomp0", n + 1, 1, self.size, f"0x55d4a93e33c{n - 1}" if n else None,
                           self.function, self.natives)
            for n in range(3)
        ])  # fmt: skip

    def tasks(self) -> Any:
        wait = TaskWaitRecord("dependence", 3, ("0x1", "0x2", "0x3"), None, 0x55D4A93E33C0)
        return self.answer([
            TaskRecord(f"0x{n + 1:x}", "gomp", ("implicit", "explicit")[n % 2], native, f"0x{n // 3:x}" if n else None,
                       None, "0x55d4a93e33c0", self.function, None, None, ("executing", "waiting")[n % 2],
                       waits_for=wait if n % 2 else None, unfinished_children=n % 4)
            for n, native in enumerate(self.natives)
        ])  # fmt: skip

    def stack(self) -> StackRecord:
        local = LocalRecord("a_local_variable", self.name, 7, "7, " * 60, sharing="firstprivate")
        frames = tuple(
            StackFrame(self.name, FILE, 1059 + n, 0x55D4A93E33C0, 0x7F00, "user", None, FIRST, n == 2,
                       Construct("task", FILE, 1050) if n == 1 else None, "/usr/bin/simulation", locals=(local,))
            for n in range(6)
        )  # fmt: skip
        return StackRecord(
            FIRST, "libgomp0", 0, self.size, 1, "0x55d4a93e33c0", False, "derived", "the caller is unknown", frames,
            self.natives, tuple(range(self.size)), ancestors=((),) * self.size,
        )  # fmt: skip

    def icvs(self) -> Any:
        return self.answer(
            [IcvRecord("libgomp0", "affinity-format-var", "thread", f"{self.name} {n % 3}", str(native))
             for n, native in enumerate(self.natives)]
        )  # fmt: skip

    def variable(self) -> Any:
        rows = [
            VariableRecord(
                native_thread_id=native, thread_num=n, team_size=self.size, name="residual", module="a.out",
                type=self.name, mechanism="tls", value=n, text=f"{{{n % 5}, {n % 3}, {'9, ' * 70}...}}", outlier=n == 2,
                file=FILE, line=12,
            )
            for n, native in enumerate(self.natives)
        ]  # fmt: skip
        return self.answer(rows, VariableAnswer)

    def why(self) -> Any:
        links = (
            Link(FIRST + 1, self.natives[2:], "a barrier", Kind.BARRIER, self.place, "member", 1),
            Link(FIRST, (FIRST,), f"&{self.name}::gate", Kind.LOCK, self.place, f"omp_set_lock at {self.name}", 0),
        )
        values = tuple(DistinctValue(n, str(n), self.natives) for n in range(9))
        mark = SourceMark(1059, f"{self.size} threads wait for &{self.name}::gate, which thread 0 ({FIRST}) holds")
        sentence = f"{self.size} threads wait for &{self.name}::gate, which thread 0 ({FIRST}) never releases"
        verdict = VerdictRecord(
            kind=VerdictKind.LOCK_CYCLE, stuck=Confidence.LIKELY, confidence=Confidence.LIKELY, summary=sentence,
            others=f"{self.size} more threads wait for these", advice=("Take these locks in the same order",),
            roots=(FIRST,), cycle=links, explains=self.natives, what_if=f"if &{self.name}::gate were released, all go",
            evidence=(Evidence(sentence, "read", 0x55D4A93E33C0, 17),) * 3, unknowns=(sentence,) * 5, place=self.place,
            branch=self.place, branch_calls=(self.name,) * 3, stacks=(self.stack(),), next_step="ompd stack TARGET",
            variables=(DifferingVariable(
                name="residual", type="int", function=self.name, line=3, is_read=True, arrived=values, absent=values
            ),),
            sources=(SourceExcerpt(FILE, 1059, 1057, ("#pragma omp parallel", f"{self.name}(x, y);", "}") * 2, FILE,
                                   "the file is newer than the program", (mark,)),),
        )  # fmt: skip
        other = ChildRecord(77, "simulation", VerdictKind.SELF_LOCK, Confidence.PROVEN, sentence, 3)
        ranks = OtherRanksRecord(self.size, 16, (other,) * 16)
        return self.answer((verdict,) * 14, WhyAnswer, children=(replace(other, rank=None),), other_ranks=ranks)

    def diff(self) -> Any:
        facts = (
            FactChange("where", f"{self.name} at line 1", f"{self.name} at line 2"),
            FactChange("state", None, "idle"),
        )
        rows = [
            ThreadChange(
                native_thread_id=native, earlier_thread_id=native, change=("moved", "same", "new")[n % 3], thread_num=n,
                team_size=self.size, state="wait_lock", wait=f"lock &{self.name}::gate", where=f"x.cc:1 {self.name}",
                stuck=bool(n % 2), facts=facts, processor_ns=n * 10**6, unavailable=LOST,
            )
            for n, native in enumerate(self.natives)
        ]  # fmt: skip
        change = TaskChange(kind="explicit", function=self.name, earlier={"queued": 3}, later={"executing": 2}, new=1)
        return self.answer(
            rows, DiffAnswer, earlier_target=target(self.size), differs=True, tasks=(change,) * 4,
            counters=(CounterChange("tasks that were made and are not finished", 1, 2),),
        )  # fmt: skip

    def doctor(self) -> Any:
        chain = LoadChain(
            f"/opt/{self.name}.so", "dlopen", ("simulation", *["/opt/lib/libpart_of_chain.so"] * 9), ("x",)
        )
        text = f"{self.name} has no debug information, and {self.size} threads are in it"
        row = FindingRecord(
            "debug_information", "warning", FILE, text, text, f"apt install {self.name}", "files", (chain,)
        )
        return self.answer((row,) * 4, DoctorAnswer, in_order=("runtime", f"files of {self.name}"))

    def check(self) -> Any:
        rows = [
            DifferenceRecord("thread", "0x1", native, "libgomp0", "the state of the thread", "ompd_get_state",
                             f"{self.name} 1", None, n % 3 or None, {"ours": f"unknown, as {self.name} is lost"})
            for n, native in enumerate(self.natives)
        ]  # fmt: skip
        library = CheckedLibrary("libgomp0", FILE, f"version of {self.name}", "LLVM", "19", "the wheel", 9, 3, 3, 3)
        entries = tuple(EntrySeen("libgomp0", n, f"title {self.name}", ("seen", "gone", "not_seen")[n % 3], 3, 4,
                                  "OpenMP 5.2, 20.5.1.4") for n in range(9))  # fmt: skip
        return self.answer(rows, CheckAnswer, libraries=(library,) * 2, entries=entries)

    def layouts(self, structs: Any) -> LayoutAnswer:
        row = LayoutRecord("libgomp-12", "libgomp", "user", FILE, ("GCC 12",) * 9, ("x86_64",), {"ab" * 20: self.name},
                           ("GOMP_parallel",) * 9, ("GOMP_none",), f"made of {self.name}")  # fmt: skip
        return LayoutAnswer((row,) * 4, structs, False, ("a file was left out",))

    def triage(self) -> Any:
        answer = of_job(self.size, failed=9, baseline=True)
        rows = [replace(row, summary=f"{self.name} {row.summary}", joined=(self.name,) * 2) for row in answer.rows]
        rows = [replace(row, stack=tuple(replace(f, function=self.name) for f in row.stack)) for row in rows]
        tree = tuple(replace(node, function=self.name) for node in answer.tree)
        return replace(answer, rows=tuple(rows), tree=tree)

    def conformance(self) -> ConformanceAnswer:
        row = ConformanceFinding(
            "ompd_finalize/first", "ompd_finalize", f"of {self.name}", "demands", "OpenMP 5.2", "20.5.1.4",
            "to finalise a library that is not initialised is unsupported " * 3, "ompd_rc_unsupported",
            f"returned {self.name}", 9, (self.name,) * 9, (f"ompd_finalize({self.name})",) * 3,
        )  # fmt: skip
        return ConformanceAnswer(
            (row,) * 4, False, (), FILE, self.name, 201811, (FILE,) * 9, 20, 400, (self.name,), ("x",)
        )


def printer(name: str, **options: Any) -> Callable[[Console, Any], None]:
    return lambda console, answer: getattr(terminal, name)(console, answer, **options)


def plain(lines: Callable[[Any], Iterator[str]]) -> Callable[[Console, Any], None]:
    return lambda console, answer: print_wrapped(console, ((line, "") for line in lines(answer)))


STRUCTS = (StructRecord("gomp_thread", 400, tuple(MemberRecord(f"a.member.{n}", n, 4, 1, 2) for n in range(40))),)
ANSWERS: dict[str, tuple[str, Callable[[Of], Any]]] = {
    "threads": ("print_threads", Of.threads),
    "parallel": ("print_parallel", Of.regions),
    "tasks": ("print_tasks", Of.tasks),
    "stack": ("print_stacks", lambda of: of.answer((of.stack(),) * 3)),
    "icvs": ("print_icvs", Of.icvs),
    "var": ("print_variable", Of.variable),
    "runtimes": ("print_runtimes", lambda of: of.answer((runtime(), runtime(1)))),
    "why": ("print_why", Of.why),
    "diff": ("print_diff", Of.diff),
    "doctor": ("print_findings", Of.doctor),
    "check": ("print_check", Of.check),
}
CASES: dict[str, tuple[Callable[[Console, Any], None], Callable[[Of], Any]]] = {
    **{
        f"{command}{way}": (printer(name, unfold=way == " --all", verbose=way == " -v"), made)
        for (command, (name, made)), way in product(ANSWERS.items(), ("", " --all", " -v"))
    },
    "layout": (printer("print_layouts", verbose=True), lambda of: of.layouts(None)),
    "layout show": (printer("print_layouts", verbose=False), lambda of: of.layouts(STRUCTS)),
    "triage": (plain(describe_triage), Of.triage),
    "triage -v": (plain(lambda answer: describe_triage(answer, verbose=True)), Of.triage),
    "conformance": (plain(conformance_lines), Of.conformance),
}


@cache
def whole(case: str, size: int, name: str) -> str:
    return printed(case, size, name, None)


def printed(case: str, size: int, name: str, width: int | None) -> str:
    prints, made = CASES[case]
    file = io.StringIO()
    prints(terminal.make_console("never", file=file, width=width), made(Of(size, NAMES[name])))
    return file.getvalue()


def words_of(text: str) -> set[str]:
    """Return the pieces of a text that must stay whole: those between spaces and commas."""
    return {piece.rstrip(",") for piece in re.findall(r"[^\s,]+,?", text)}


def selected(case: str, name: str) -> list[tuple[int, int]]:
    """Return the sizes and widths to try."""
    if FULL:
        return [*product(SIZES, WIDTHS)]
    few = case.endswith((" --all", " -v"))  # these have very many lines
    if name != "template":
        return [(300, 120)] if few else [(300, 80), (4, 100)]
    return [(4, 80), (300, 100)] if few else [(4, 100), (300, 120), (2000, 80)]


@pytest.mark.parametrize(("case", "name"), [*product(CASES, NAMES)])
def test_no_line_is_wider_than_the_terminal_and_no_word_is_broken(case: str, name: str) -> None:
    for size, width in selected(case, name):
        text = printed(case, size, name, width)
        longest = max(text.splitlines(), key=len)
        assert len(longest) <= width, (size, width, longest)
        known = words_of(whole(case, size, name))
        long = "\n".join(word for word in known if len(word) > LONGEST)
        broken = [word for word in words_of(text) - known if word not in long]
        assert broken == [], (size, width)


REAL = {
    **{command: [command, "CORE"] for command in ("threads", "why", "stack", "tasks", "parallel", "icvs", "runtimes")},
    **{command: [command, "CORE", "-v"] for command in ("doctor", "triage")},
    "diff": ["diff", "CORE", "CORE"],
    "var": ["var", "thread_count", "CORE"],
    "snapshot": ["snapshot", "CORE", "-o", "a_small_core_with_a_name_that_takes_room"],
    "failed": ["triage", "CORE", "a_file_that_is_not_there_and_has_a_name_that_takes_room/core.1234567"],
    "refused": ["threads", "a_file_that_is_not_there_and_has_a_name_that_takes_room/core.1234567"],
    "layout": ["layout"],
    "help of why": ["why", "--help"],
    "help of check": ["check", "--help"],
    "help": ["--help"],
}


def on_a_terminal(words: Sequence[str], width: int, folder: Path) -> str:
    """Run ``ompd`` on a terminal and return what it shows, without colours."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    environment = {**clean_environment(), "TERM": "xterm"}
    command = [sys.executable, "-m", "ompd", *words]
    with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, cwd=folder, env=environment):
        os.close(slave)
        data = b""
        with suppress(OSError):  # all that wrote to the terminal have ended
            while part := os.read(master, 1 << 16):
                data += part
    os.close(master)
    shown = CONTROL.sub("", data.decode())
    return shown.rpartition("\x1b[K")[2]  # a line of progress is erased


@pytest.mark.parametrize("words", REAL.values(), ids=REAL)
def test_the_commands_use_the_width_of_the_terminal(words: Sequence[str], tmp_path: Path) -> None:
    core = str(stopped("cplusplus", compiler="g++").core)
    shown = on_a_terminal([core if word == "CORE" else word for word in words], 80, tmp_path)
    lines = shown.replace("\r", "").splitlines()
    assert lines and max(map(len, lines)) <= 80, max(lines, key=len)
    assert "Traceback" not in shown


@pytest.mark.parametrize("width", WIDTHS)
def test_the_list_of_processes_fits(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from ompd.commands.shell import processes

    rows = [
        OpenMpProcess(FIRST + n, NAMES["one word"][:300], ("libgomp.so.1.0.0", "libiomp5.so") * 3, 2000, 3, 1.5)
        for n in range(9)
    ]
    file = io.StringIO()
    monkeypatch.setattr(processes, "find_processes", lambda: tuple(rows))
    monkeypatch.setattr(processes, "make_console", lambda _: terminal.make_console("never", file=file, width=width))
    processes.list_processes("")
    assert max(map(len, file.getvalue().splitlines())) <= width and "2000" in file.getvalue()


@pytest.mark.parametrize("width", WIDTHS)
def test_messages_fit(width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    message = f"ompd: warning: the stack of thread {FIRST} ends in {NAMES['template']}, because its caller is unknown"
    ending.say(message)
    assert capsys.readouterr().err == f"{message}\n"  # a pipe has no width
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    ending.say(message)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) > 10 and max(map(len, lines)) <= width
    assert words_of(" ".join(lines)) <= words_of(message)
