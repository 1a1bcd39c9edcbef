"""gdb's own ``bt`` without the runtime's frames, and the functions for expressions and conditions."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import ompd
from tests.support import ALL_PROGRAMS, INTEL, Stopped, require, running, stopped
from tests.support.cache import CHECKOUT
from tests.support.gdb import HERE, LOAD, NAMES, batch, gdb, open_core, open_program, replies
from tests.support.lldb import build_regions
from tests.support.lldb_replies import line_with
from tests.support.products import each_gdb, sample

pytestmark = pytest.mark.xdist_group("gdb")

ALL = "thread apply all bt"
PLAIN = "thread apply all bt -no-filters"
_FRAME = re.compile(r"^#(\d+) +(?:0x[0-9a-f]+ in )?(.*?) \(.*?(?:\) at (\S.*)|\) from (\S.*)|\))$", re.MULTILINE)
_RUNTIME = re.compile(r"__kmp|GOMP_|gomp_|kmp_flag|in \?\? \(\) from .*lib(?:gomp|omp)")


def frames_of(text: str) -> dict[int, list[tuple[int, str]]]:
    """Return the number and function of each frame, by the native id of its thread."""
    pieces = re.split(r"^Thread \d+ \(.*?LWP (\d+)\).*:$", text, flags=re.MULTILINE)
    return {
        int(native): [(int(found[1]), found[2]) for found in _FRAME.finditer(piece)]
        for native, piece in zip(pieces[1::2], pieces[2::2], strict=True)
    }


CASES = sample(
    [
        (found, program, compiler, runtime)
        for found in NAMES
        for program in ("hang", "nested", "task_tree")
        for compiler, runtime in (("gcc", INTEL), ("clang", INTEL), ("gcc", "libgomp"), ("clang", "libomp-19"))
        if compiler in ALL_PROGRAMS[program].compilers
    ]
)


@pytest.mark.parametrize(("found", "program", "compiler", "runtime"), CASES)
@pytest.mark.quick("gdb-hang-gcc-intel")
def test_bt_shows_what_the_source_has(found: str, program: str, compiler: str, runtime: str) -> None:
    core = stopped(program, compiler=compiler, mode="debug" if runtime == INTEL else "neither", runtime=runtime)
    told = replies(*open_core(core.executable, core.core), ALL, PLAIN, name=found)
    shown, plain = frames_of(told[ALL]), frames_of(told[PLAIN])
    assert shown.keys() == plain.keys() and _RUNTIME.search(told[PLAIN])
    with ompd.open_core(core.core) as session:
        rows = {row.native_thread_id: row for row in session.ask_stacks().rows}
    bodies = 0
    for native, frames in shown.items():
        # A frame has the same number as in the whole stack.
        numbers = dict(plain[native])
        assert frames[0][0] == 0
        for number, function in frames[1:]:
            assert not _RUNTIME.search(function), function
            name, mark, _ = function.partition(" [body of ")
            bodies += bool(mark)
            assert (name == numbers[number]) != bool(mark), function
            assert mark or "omp_" not in name, function
        ours = [frame for frame in rows[native].frames if frame.thread == native and frame.cfa is not None]
        users = [frame.function for frame in ours if frame.kind == "user" and not frame.inlined]
        assert [name for name in users if name not in {function.partition(" [")[0] for _, function in frames}] == []
    assert bodies > 1


@each_gdb()
def test_the_place_of_the_region_is_shown(found: str) -> None:
    core = stopped("hang")
    bt, limited, full, raw = "bt", "bt 2", "bt -full 2", "bt -no-filters 9"
    off, back = "disable frame-filter global ompd", "enable frame-filter global ompd"
    told = replies(
        *open_core(core.executable, core.core),
        *("omp thread 1", bt, limited, full, raw, "frame 3", off, "bt ", back, "bt  "),
        name=found,
    )
    lines = told[bt].splitlines()
    assert lines[0].startswith("#0 ") and len(lines) == 3
    assert re.search(r" in report_progress \(change=.*\) at .*hang\.c:39$", lines[1])
    assert re.search(r" in simulate \[body of parallel hang\.c:50\] \(\) at .*hang\.c:57$", lines[2])
    assert told[limited].splitlines()[:2] == lines[:2] and "change = " not in told[limited]
    assert "simulate._omp_fn.0" in told[raw] and "#1 " in told[raw]
    assert told["frame 3"].startswith("#3 ")  # gdb also selects hidden frames
    assert "simulate._omp_fn.0" in told["bt "] and told["bt  "] == told[bt]


@each_gdb()
def test_bt_of_a_live_program_keeps_the_selection(found: str, tmp_path: Path) -> None:
    where = "python print(gdb.selected_thread().num, gdb.selected_frame().level())"
    with running("nested", folder=tmp_path) as live:
        told = batch(
            gdb(found), [LOAD, f"attach {live.pid}", "thread 3", "frame 2", where, ALL, "bt", where], cwd=tmp_path
        )
        assert [text.splitlines()[0] for text in told.all(where)] == 2 * ["3 2"]
        assert "[body of parallel nested.c:" in told[ALL] and not re.search(r"^#[1-9]\d* .* __kmp", told[ALL], re.M)


def test_a_program_without_openmp_is_shown_as_ever() -> None:
    told = replies("file /bin/sleep", "break clock_nanosleep", "run 1", "bt", "bt -no-filters")
    assert told["bt"] == told["bt -no-filters"] != ""


def test_what_cannot_be_read_is_shown_as_ever(tmp_path: Path) -> None:
    # The session refuses, so that only gdb's own frames are shown.
    core = stopped("hang")
    told = batch(
        gdb(),
        [LOAD, "file core.program", "core-file core", "shell rm core", "bt", "bt -no-filters", "omp threads"],
        cwd=copied(core, tmp_path),
    )
    numbers = [re.findall(r"^#\d+", told[words], re.MULTILINE) for words in ("bt", "bt -no-filters")]
    assert numbers[0] == numbers[1] and len(numbers[0]) > 10 and told["omp threads"].startswith("ompd: ")


def copied(core: Stopped, folder: Path) -> Path:
    (folder / "core").write_bytes(core.core.read_bytes())
    (folder / "core.program").write_bytes(core.executable.read_bytes())
    return folder


# Convenience functions

NUMBERS = "print $_ompd_thread_num()", "print $_ompd_team_size()", "print $_ompd_level()"


def value(text: str) -> int:
    (found,) = re.findall(r"^\$\d+ = (-?\d+)$", text, re.MULTILINE)
    return int(found)


@each_gdb()
def test_the_functions_say_what_a_thread_is(found: str) -> None:
    core = stopped("nested")
    with ompd.open_core(core.core) as session:
        rows = {row.native_thread_id: row for row in session.ask_threads().rows}
    asked = ", ".join(f"$_ompd_{name}()" for name in ("thread_num", "team_size", "level"))
    each = f'thread apply all -q printf "IS %d %d %d %d\\n", $_gthread, {asked}'
    told = replies(*open_core(core.executable, core.core), "info threads", each, name=found)
    said = [tuple(map(int, line.split()[1:])) for line in told[each].splitlines() if line.startswith("IS ")]
    listed = re.findall(r"^[* ] (\d+) .*\bLWP (\d+)\b", told["info threads"], re.MULTILINE)
    natives = {int(number): int(native) for number, native in listed}
    assert len(said) == len(rows) == 13
    for thread, *numbers in said:
        native = natives[thread]
        row = rows[native]
        known = (row.thread_num, row.team_size, row.level) if row.thread_num is not None else (-1, 0, 0)
        assert tuple(numbers) == known, native


CONDITIONS = sample([(found, runtime) for found in (HERE, *NAMES[1:]) for runtime in (INTEL, "libgomp")])


@pytest.mark.parametrize(("found", "runtime"), CONDITIONS)
@pytest.mark.quick("gdb-intel")
def test_a_breakpoint_stops_one_openmp_thread(found: str, runtime: str, tmp_path: Path) -> None:
    source = CHECKOUT / "tests" / "lldb" / "regions.c"
    if runtime == "libgomp":
        program = tmp_path / "regions"
        subprocess.run([str(require("gcc")), "-g", "-fopenmp", str(source), "-o", str(program)], check=True)
    else:
        program = build_regions() / "regions"
    line = line_with("sum += omp_get_team_size(1)")
    told = replies(
        *(
            open_program(program),
            f"break regions.c:{line} if $_ompd_thread_num() == 1 && $_ompd_team_size() > 2",
            "run",
        ),
        # While gdb calls a function, the other threads run. None of them may stop at the breakpoint.
        *(*NUMBERS, "omp threads", "info breakpoints", "delete", "print (int) omp_get_thread_num()"),
        *("break regions.c:9 if $_ompd_level() == 2 && $_ompd_thread_num() == 0", "continue", "bt"),
        name=found,
    )
    assert "Error in testing" not in told["run"] + told["continue"]
    assert [value(told[words]) for words in NUMBERS] == [1, 3, 1]
    assert value(told["print (int) omp_get_thread_num()"]) == 1
    # Each thread of two teams came to the breakpoint, except those on their way, and the program stopped once.
    assert told["run"].count("Breakpoint 1, ") == 1
    assert "Breakpoint 2, " in told["continue"] and "regions.c:9" in told["bt"]


@each_gdb()
def test_outside_of_openmp_the_functions_say_so(found: str) -> None:
    program = build_regions() / "regions"
    wrong = "print $_ompd_level(1)"
    told = replies(open_program(program), NUMBERS[0], "break main", "run", *NUMBERS[1:], wrong, name=found)
    assert value(told[NUMBERS[0]]) == -1 and [value(told[words]) for words in NUMBERS[1:]] == [0, 0]
    assert "takes no arguments" in told[wrong] and "Traceback" not in told[wrong]
