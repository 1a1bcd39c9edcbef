"""Optimised code from each release of gcc and clang: places and names of constructs, and functions that left the stack
by a tail call. ``tests/compilers/places.c`` has one of each, and marks the lines in its comments.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest

import ompd
from ompd import naming
from ompd.binary.dwarf.calls import Call
from ompd.debugger.stacks.tail_calls import Chain, ChainLink, find_chain
from ompd.model import StackFrame
from ompd.render.answers.stacks import stack_lines
from ompd.render.json import format_answer
from tests.support import FULL, INTEL, RUNTIMES, Missing, clean_environment, intel_runtime, require
from tests.support.build import RELEASES, compiler
from tests.support.cache import CHECKOUT, entry, key_of
from tests.support.runs import ENVIRONMENT, cores_allowed, kernel_core_obstacle

SOURCE = CHECKOUT / "tests" / "compilers" / "places.c"
COPIES, TEMPLATES = SOURCE.with_name("copies.cc"), SOURCE.with_name("templates.cc")
CLANG, GCC = RELEASES["clang"], RELEASES["gcc"]
# Names that compilers make must never be shown.
MARKS = re.compile(r"omp_outlined|_omp_fn|_omp_cpyfn|omp_task_entry|__omp_offloading|_debug__")
BUILDS = [
    *[(name, INTEL, ("-O2",)) for name in (*CLANG, *GCC)],
    *[(name, "libgomp", ("-O2",)) for name in GCC],
    ("clang-22", "libomp-19", ("-O2",)),
    *[(name, "libomp-19", ("-O2",)) for name in (*CLANG[:-1], *GCC) if FULL],
    *[(name, INTEL, (level,)) for name in (*CLANG, *GCC) for level in ("-O1", "-O3", "-Os") if FULL],
    *[(name, INTEL, ("-O2", "-gdwarf-4")) for name in (("clang-22", "gcc-12") if not FULL else (*CLANG, *GCC))],
]


class Taken(NamedTuple):
    """A core of the program at its end, and the program."""

    core: Path
    program: Path


def taken(name: str, runtime: str, flags: tuple[str, ...], source: Path = SOURCE) -> Taken:
    """Return a core of a program built by the compiler, from the cache or from a run."""
    if kernel_core_obstacle() is not None:
        raise Missing("kernel core", str(kernel_core_obstacle()), forbidden=True)
    used, openmp = compiler(name), RUNTIMES[runtime]
    library = openmp.file().parent
    more = ["-DTARGET"] if has_target(name, runtime) else []
    headers = ["-idirafter", str(intel_runtime() / "opt" / "compiler" / "include")]
    compiling = ["-g", "-fopenmp", "-Wall", "-Wextra", "-Werror", "-fPIE", *more, *flags, *headers]
    linking = [f"-L{library}", f"-Wl,-rpath,{library}", *openmp.options, "-lpthread"]
    linking += ["-lstdc++"] if source.suffix == ".cc" else []

    def build(folder: Path) -> None:
        for command in (
            [str(used.path), *compiling, "-c", str(source), "-o", "places.o"],
            [str(compiler("gcc").path), "-pie", "places.o", "-o", "places", *linking],
        ):
            subprocess.run(command, cwd=folder, env=clean_environment(), check=True, capture_output=True)

    key = key_of(source.read_text(), used.version, compiling, linking, openmp.version())
    program = entry("programs", key, build) / "places"

    def run(folder: Path) -> None:
        with cores_allowed():
            subprocess.run(
                [str(program)],
                cwd=folder,
                env={**ENVIRONMENT, "OMP_MAX_ACTIVE_LEVELS": "4"},
                check=False,
                timeout=60,
                capture_output=True,
            )
        (core,) = folder.iterdir()
        core.rename(folder / "core")

    return Taken(entry("cores", key_of("places", key), run) / "core", program)


def has_target(name: str, runtime: str) -> bool:
    # libiomp5 has no entry point for gcc's target constructs.
    return name.startswith("clang") or runtime == "libgomp"


def line(mark: str, source: Path = SOURCE) -> int:
    """Return the line of a source that ends with the mark."""
    (found,) = [n for n, text in enumerate(source.read_text().splitlines(), 1) if text.endswith(f"// {mark}")]
    return found


class Seen(NamedTuple):
    """An expected frame: function, line, whether it left the stack, and the line of its construct."""

    function: str | None
    line: int | None
    has_left: bool = False
    construct: int | None = None


def body(function: str) -> tuple[Seen, ...]:
    return (Seen(function, line(f"{function} body"), True, line(function)),)


LEFT = {
    "jumping": body("jumping"),
    "inlining": (Seen("first", line("first"), True), *body("inlining")),
    "chaining": (Seen("second", line("second"), True), Seen("third", line("third"), True), *body("chaining")),
    "choosing": body("choosing"),
    "plain": (Seen("second", line("second"), True), Seen("third", line("third"), True), Seen("plain", line("plain"))),
    "choice": (Seen("either", None, True), Seen("choice", line("choice"))),
}
REGIONS = ("jumping", "inlining", "chaining", "choosing", "tasking", "nesting", "nested")


@pytest.mark.parametrize(("name", "runtime", "flags"), BUILDS, ids=lambda value: str(value).strip("()"))
@pytest.mark.quick("gcc-11-libgomp-'-O2',", "clang-22-libomp-19-'-O2',", "gcc-12-intel-'-O2', '-gdwarf-4'")
def test_constructs_are_where_the_source_has_them(name: str, runtime: str, flags: tuple[str, ...]) -> None:
    core = taken(name, runtime, flags)
    with ompd.open_core(core.core) as session:
        regions, tasks = session.ask_parallel(), session.ask_tasks()
        threads, stacks = session.ask_threads(), session.ask_stacks()
    places = {("nesting" if mark == "nested" else mark, line(mark)) for mark in REGIONS}
    found = {(row.function.function, row.function.line) for row in regions.rows if row.function is not None}
    # If clang ended the code of a region of one thread by a jump into the runtime, the region's function is unknown.
    nesting = [row for row in regions.rows if row.team_size == 1]
    untold = {("nesting", line("nesting"))} if nesting[0].function is None else set()
    assert untold == set() or ("function" in nesting[0].unavailable and name.startswith("clang"))
    assert found == places - untold
    explicit = [row.function for row in tasks.rows if row.kind == "explicit"]
    assert {(f.function, f.line) for f in explicit if f is not None} == {("tasking", line("task"))}
    assert len(explicit) == 2
    # A construct has one name in all answers.
    constructs = {
        (f.function, f.construct.line)
        for row in stacks.rows
        for f in row.frames
        if f.construct is not None and f.construct.kind != "target"
    }
    assert constructs - {("tasking", line("task"))} <= places
    for answer in (regions, tasks, threads, stacks):
        assert MARKS.search(format_answer("any", answer)) is None
    assert MARKS.search("\n".join(text for text, _ in stack_lines(stacks, verbose=True))) is None
    # At -O1 gcc compiles no call as a jump, and not every clang does.
    left, checked = {} if "-O1" in flags else LEFT, set()
    for row in stacks.rows:
        frames = [f for f in row.frames if f.kind == "user"]
        assert frames[0].function == "rest" or row.native_thread_id == min(r.native_thread_id for r in threads.rows)
        for function, expected in left.items():
            if any(f.function == function for f in frames):
                inner = frames[1 : 1 + len(expected)]
                assert [seen(frame) for frame in inner] == list(expected), function
                checked.add(function)
        if left and any(f.function == "choosing" for f in frames):
            assert frames[1].unavailable["callee"]
        if left and any(f.function == "choice" for f in frames):
            assert set(frames[1].unavailable) == {"address", "file", "line", "callee"}
    assert checked == set(left)
    targets = [
        (f.function, f.line, f.construct.line)
        for row in stacks.rows
        for f in row.frames
        if f.construct is not None and f.construct.kind == "target"
    ]
    expected_targets = [("targeting", line("target body"), line("target"))]
    assert targets == (expected_targets if has_target(name, runtime) else [])


def seen(frame: StackFrame) -> Seen:
    construct = frame.construct.line if frame.construct is not None else None
    return Seen(frame.function, frame.line, frame.how == "tail-call", construct)


@pytest.mark.parametrize("name", [*(CLANG if FULL else CLANG[-1:]), *(GCC if FULL else GCC[:1])])
def test_without_debug_information_no_mark_of_a_compiler_is_shown(name: str) -> None:
    with ompd.open_core(taken(name, INTEL, ("-O2", "-g0")).core) as session:
        answers = (session.ask_parallel(), session.ask_tasks(), session.ask_threads(), session.ask_stacks())
        shown = [format_answer("any", answer) for answer in answers]
        lines = "\n".join(text for text, _ in stack_lines(answers[-1], verbose=True))
    assert [MARKS.search(text) for text in (*shown, lines)] == [None] * 5
    for row in answers[1].rows:
        if row.function is not None and row.function.function is None:
            assert "function.function" in row.unavailable
    for stack in answers[-1].rows:
        assert all(f.function is not None or "function" in f.unavailable for f in stack.frames if f.kind == "user")


@pytest.mark.parametrize("name", ["g++-12", *(FULL * ["g++-11", "clang++-22"])])
def test_what_copies_for_a_task_is_no_code_of_the_source(name: str) -> None:
    core = taken(name, "libgomp" if name.startswith("g++") else INTEL, ("-O0",), COPIES)
    with ompd.open_core(core.core) as session:
        stacks, threads = session.ask_stacks(), session.ask_threads()
    assert len(stacks.rows) == 2
    for row in stacks.rows:
        frames = [f for f in row.frames if f.kind == "user"]
        assert [f.function for f in frames] == ["rest", "Copied::Copied", "main", "main"]
        assert [f.construct.kind for f in frames if f.construct is not None] == ["parallel"]
        assert frames[1].line == line("copying", COPIES)
        assert frames[2].construct is not None and frames[2].construct.line == line("region", COPIES)
    for answer in (stacks, threads):
        assert MARKS.search(format_answer("any", answer)) is None


@pytest.mark.parametrize("flags", [("-O2",), *FULL * [("-O0",), ("-O1",)]], ids=" ".join)
@pytest.mark.parametrize("name", ["g++-12", "clang++-22", *(FULL * ["g++-11", "clang++-14"])])
def test_a_region_in_a_template_over_a_lambda_has_one_readable_name(name: str, flags: tuple[str, ...]) -> None:
    core = taken(name, "libgomp" if name.startswith("g++") else INTEL, flags, TEMPLATES)
    with ompd.open_core(core.core) as session:
        (region,), stacks, tasks = session.ask_parallel().rows, session.ask_stacks().rows, session.ask_tasks().rows
    names = {region.function and region.function.function}
    names |= {row.function and row.function.function for row in tasks if row.kind == "implicit"}
    names |= {f.function for row in stacks for f in row.frames if f.construct is not None}
    (shown,) = names
    assert shown is not None and re.match(r"Numbers<double>::each<.*lambda.*>", shown), shown


@cache
def frames_of_gdb(core: Path, program: Path) -> Mapping[int, list[tuple[str, int]]]:
    """Return the function and line of gdb's frames in the program's source by thread, innermost first."""
    command = [*(str(require("gdb")), "-nx", "-batch", "-ex", "set debuginfod enabled off"), str(program), str(core)]
    text = subprocess.run(
        [*command, "-ex", "thread apply all bt -frame-arguments none"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=clean_environment(),
        check=True,
    ).stdout
    found: dict[int, list[tuple[str, int]]] = {}
    frames: list[tuple[str, int]] = []
    for row in text.splitlines():
        if thread := re.match(r"Thread \d+ \(.*LWP (\d+)\)", row):
            frames = found.setdefault(int(thread[1]), [])
        elif frame := re.match(rf"#\d+ +(?:0x[0-9a-f]+ in )?(\S+) .* at .*{SOURCE.name}:(\d+)$", row):
            frames.append((frame[1], int(frame[2])))
    return found


@pytest.mark.parametrize("name", ["gcc-12", "clang-22", *(FULL * ["gcc-11", *CLANG[:-1]])])
def test_every_frame_that_gdb_recovers_is_there(name: str) -> None:
    # gdb 13 does not understand clang's descriptions of calls in DWARF 5.
    core = taken(name, INTEL, ("-O2", "-gdwarf-4"))
    theirs = frames_of_gdb(core.core, core.program)
    with ompd.open_core(core.core) as session:
        rows = session.ask_stacks().rows
    recovered = 0
    for row in rows:
        native = row.native_thread_id
        ours = [
            (f.function, f.line)
            for f in row.frames
            if f.kind == "user" and f.thread == native and f.function is not None and f.line is not None
        ]
        rest = iter(ours)
        for function, at in theirs[native or 0]:
            known = naming.parse_outlined(function)
            if known is None and not naming.is_added(function):
                # In a frame that met a region, ompd gives the line of the construct.
                assert any(mine[0] == function and (mine[1] == at or function in LEFT) for mine in rest), (ours, native)
        recovered += sum(f.how == "tail-call" for f in row.frames)
    assert recovered >= 14
    plain = [frames for frames in theirs.values() if any(function == "plain" for function, _ in frames)]
    (frames,) = plain
    assert [function for function, _ in frames[1:4]] == ["second", "third", "plain"]


# Functions between two frames, from invented calls


def calls(*rows: tuple[int, int | None]) -> list[Call]:
    return [Call(inside, None, True, start, None, 0) for inside, start in rows]


@pytest.mark.parametrize(
    ("described", "expected"),
    [
        ({1: calls((10, 9))}, Chain((ChainLink(1, 10),), 1, True)),
        ({1: calls((10, 2)), 2: calls((20, 9))}, Chain((ChainLink(2, 20), ChainLink(1, 10)), 2, True)),
        # Two paths with a common end, with a common start, and with neither.
        (
            {1: calls((10, 2), (11, 3)), 2: calls((20, 4)), 3: calls((30, 4)), 4: calls((40, 9))},
            Chain((ChainLink(4, 40), ChainLink(1, None)), 1, False),
        ),
        (
            {1: calls((10, 2)), 2: calls((20, 9), (21, 3)), 3: calls((30, 9))},
            Chain((ChainLink(1, 10),), 0, False),
        ),
        ({1: calls((10, 9), (11, 9))}, Chain((ChainLink(1, None),), 0, False)),
        # No path, a jump through a pointer, a jump from undescribed code, a cycle.
        ({1: calls((10, 2)), 2: []}, Chain((ChainLink(1, None),), 0, False)),
        ({1: calls((10, 9), (11, None))}, Chain((ChainLink(1, None),), 0, False)),
        ({1: calls((10, 9), (11, 2)), 2: None}, Chain((ChainLink(1, None),), 0, False)),
        ({1: calls((10, 1), (11, 9))}, Chain((ChainLink(1, 11),), 1, False)),
        # Like gdb, never follow a jump twice.
        ({1: calls((10, 2)), 2: calls((20, 1), (21, 9))}, Chain((ChainLink(2, 21), ChainLink(1, 10)), 2, True)),
    ],
)
def test_what_all_ways_have_in_common_is_certain(described: Mapping[int, list[Call] | None], expected: Chain) -> None:
    assert find_chain(SimpleNamespace(calls_of=described.get), 1, 9) == expected  # type: ignore[arg-type]


def test_ways_without_number_end() -> None:
    # 2 to the power of 64 ways.
    described = {at: calls((2 * at, at + 1), (2 * at + 1, at + 1)) for at in range(1, 65)}
    calls_of = SimpleNamespace(calls_of=lambda function: described.get(function, []))
    assert find_chain(calls_of, 1, 65) == Chain((ChainLink(1, None),), 0, False)  # type: ignore[arg-type]


@pytest.mark.skipif(not FULL, reason="apt's lists change with Debian's releases alone")
def test_every_release_that_the_distribution_has_is_listed() -> None:
    text = subprocess.run(
        ["apt-cache", "--names-only", "search", r"^(clang|gcc)-[0-9]+$"], capture_output=True, text=True, check=False
    ).stdout
    known = {*CLANG, *GCC, "clang-13", "clang-15"}  # those two have nothing that their neighbours lack
    assert set(re.findall(r"^(?:clang|gcc)-\d+", text, re.MULTILINE)) <= known or not is_debian_12()


def is_debian_12() -> bool:
    version = Path("/etc/debian_version")
    return version.exists() and version.read_text().startswith("12.")
