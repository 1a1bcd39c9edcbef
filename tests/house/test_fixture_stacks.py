"""Stacks of the programs with known truth: the truth equals gdb's backtraces and agrees with the sources."""

from __future__ import annotations

import platform
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support import (
    ALL_PROGRAMS,
    FULL,
    KINDS,
    STACK_PROGRAMS,
    Stopped,
    clean_environment,
    require,
    stopped,
    stopped_twice,
)
from tests.support.build import source
from tests.support.known_truth import PARAMETERS, by_native_id, every_build


class GdbFrame(NamedTuple):
    """A frame of gdb's backtrace: *function* without parameters; *file* and *line*, None if gdb shows no source."""

    function: str
    file: str | None
    line: int | None


def gdb_stacks(core: Stopped) -> dict[int, list[GdbFrame]]:
    """Return all frames of each thread, inlined functions too, innermost first."""
    command = [
        str(require("gdb")),
        "-nx",
        "-batch",
        *("-iex", "set debuginfod enabled off"),
        *("-iex", "set print frame-arguments presence"),
        *("-iex", "set width 0"),
        str(core.executable),
        str(core.core),
        *("-ex", "thread apply all backtrace"),
    ]
    text = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=clean_environment(), check=True
    ).stdout
    stacks: dict[int, list[GdbFrame]] = {}
    frames: list[GdbFrame] = []  # gdb first prints the frame of the selected thread
    for line in text.splitlines():
        if found := re.match(r"Thread \d+ \(.*LWP (\d+)\)", line):
            frames = stacks.setdefault(int(found[1]), [])
        elif found := re.match(
            r"#\d+ +(?:0x[0-9a-f]+ in )?(.+?)(?: \((?:\.\.\.)?\))?(?: at (.+):(\d+))?(?: from .*)?$", line
        ):
            # Some names of compiler-made functions contain parameters.
            name = re.sub(r"(_omp_fn\.\d+|_debug__|operator\(\))\(.*\)(?: const)?$", r"\1", found[1])
            frames.append(GdbFrame(name, found[2] and Path(found[2]).name, int(found[3]) if found[3] else None))
    return stacks


OUTLINED = re.compile(
    r"^(?:(\w+)::)?(\w*)\._omp_fn\.\d+$|^\.omp_(?:outlined|task_entry)\.|^(\w+)(?:\.omp_outlined[\w.]*)+$"
)
# From clang 17 on these names begin with the enclosing function and end with one or more marks.
OF_CLANG = re.compile(r"^\.omp_outlined\.|^\w+\.omp_outlined")
BODY = re.compile(r"_debug__(?:\.\d+)?$")


def user_frames(frames: list[GdbFrame], files: Sequence[str], compiler: str) -> list[GdbFrame]:
    """Return the frames in *files* without those that compilers add. clang's functions of regions and tasks call
    another function with the body, and ``.omp_combiner.`` of a reduction does so, too. gfortran's ``main`` calls the
    program.
    """
    own = []
    for inner, frame in zip([None, *frames], frames, strict=False):
        if frame.file not in files:
            continue
        calls_outlined = inner is not None and OF_CLANG.match(inner.function)
        if frame.function.startswith(".omp_task_entry.") and calls_outlined:
            continue
        is_body = inner is not None and BODY.search(inner.function) and not BODY.search(frame.function)
        if OF_CLANG.match(frame.function) and calls_outlined and is_body:
            continue
        if frame.function == ".omp_combiner." or (compiler == "gfortran" and frame.function == "main"):
            continue
        own.append(frame)
    return own


def is_named(frame: GdbFrame, stated: dict[str, Any], compiler: str) -> bool:
    """Return whether gdb's function name of a frame matches the truth, which names the function around a construct."""
    outlined = OUTLINED.search(frame.function)
    if (outlined is not None) != (stated["construct"] is not None):
        return False
    name = frame.function
    if outlined is not None:
        if outlined[2] is None and outlined[3] is None:
            return True
        # gfortran's names have the procedure first, then its linker symbol.
        name = outlined[1] or outlined[2] or outlined[3]
        if name.startswith("_Z"):
            return _demangled(name) == stated["function"]
    if compiler == "gfortran":
        name = name.rpartition("::")[2]
    # The class of a lambda expression has no name; compilers invent different ones.
    return name == stated["function"] or (stated["function"] == "operator()" and name.endswith("::operator()"))


def _demangled(symbol: str) -> str:
    command = [str(require("c++filt")), "--no-params", symbol]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize(
    ("program", "compiler", "flags"),
    [
        pytest.param(*build.values, flags, id=f"{build.id}-{level}", marks=build.marks)
        for number, build in enumerate(PARAMETERS)
        for level, flags in (("O0", ()), ("O2", ("-O2",)))
        # The other programs' code for stacks is the same for all compilers.
        if FULL or (build.values[0] in STACK_PROGRAMS and (flags or number % 2)) or (number % 8 == 0 and not flags)
    ],
)
@pytest.mark.quick("inlined-gcc-O0", "cplusplus-clang++-O2", "modules-gfortran-O0")
def test_gdb_sees_the_same_threads_at_the_same_lines(program: str, compiler: str, flags: tuple[str, ...]) -> None:
    core = stopped(program, compiler=compiler, mode="tool", flags=flags)
    threads, stacks = by_native_id(core.truth), gdb_stacks(core)
    assert set(stacks) == set(threads)
    for native_thread_id, thread in threads.items():
        found = user_frames(stacks[native_thread_id], (source(program).name, "truth.c"), compiler)
        # The part on other threads does not belong to this thread's stack.
        stated = [frame for frame in thread["stack"] or () if frame["thread"] == native_thread_id]
        assert [frame[1:] for frame in found] == [(frame["file"], frame["line"]) for frame in stated]
        for frame, true in zip(found, stated, strict=True):
            assert is_named(frame, true, compiler), (frame, true)


# The stacks of all threads that execute a region, from the outermost function inwards. "parallel" and the like are the
# bodies of these constructs; ">" marks the step from one thread's stack to another's.
STACKS = {
    "closing_barrier": """
        main
        main > main.parallel straggle
        main >
        main >
    """,
    "nested": """
        main main.parallel main.parallel innermost innermost.parallel
        main main.parallel main.parallel innermost > innermost.parallel
        main main.parallel > main.parallel innermost innermost.parallel
        main main.parallel > main.parallel innermost > innermost.parallel
        main > main.parallel main.parallel innermost innermost.parallel
        main > main.parallel main.parallel innermost > innermost.parallel
        main > main.parallel > main.parallel innermost innermost.parallel
        main > main.parallel > main.parallel innermost > innermost.parallel
        main > main.parallel main.parallel innermost innermost.parallel
        main > main.parallel main.parallel innermost > innermost.parallel
        main > main.parallel > main.parallel innermost innermost.parallel
        main > main.parallel > main.parallel innermost > innermost.parallel
    """,
    "two_initial": """
        main main.parallel
        main > main.parallel
        main > main.parallel
        second second.parallel
        second > second.parallel
    """,
    "extra_pthread": """
        main main.parallel
        main > main.parallel
        main > main.parallel
        listen
    """,
    "task_tree": """
        main main.parallel plant grow_twig.task unfold
        main > plant.task grow_trunk grow_twig.task unfold
        main > grow_trunk.task grow_bough grow_bough.task grow_twig grow_twig.task unfold
        main > grow_trunk.task grow_bough grow_bough.task grow_twig grow_twig.task unfold
    """,
    "task_in_barrier": """
        main main.parallel create
        main > main.parallel
        main > main.parallel create.task
    """,
    "taskloop": """
        main main.parallel loop loop.taskloop step
        main > loop.taskloop step
        main > loop.taskloop step
    """,
    "deep": """
        main set_out A explore B survey dig C work descend descend descend descend
        main set_out A explore B survey dig > C work meet
        main set_out A explore > B survey dig C work descend descend descend descend
        main set_out A explore > B survey dig > C work meet
        main set_out > A explore B survey dig C work descend descend descend descend
        main set_out > A explore B survey dig > C work meet
        main set_out > A explore > B survey dig C work descend descend descend descend
        main set_out > A explore > B survey dig > C work meet
    """.replace("A", "set_out.parallel")
    .replace("B", "explore.parallel")
    .replace("C", "dig.parallel"),
    "task_stack": """
        main main.parallel take take.task take take.task take take.task finish
        main > main.parallel all_at_once all_at_once.task at_once at_once.task finish
        main > main.parallel spread_in_task spread_in_task.task spread spread.parallel finish
        main > main.parallel spread_in_task spread_in_task.task spread > spread.parallel finish
        main > main.parallel group group group group.task take take.task finish
    """,
    "single_taskloop": """
        main main.parallel loop.taskloop step
        main > main.parallel loop loop.taskloop step
        main > main.parallel loop.taskloop step
    """,
    "callbacks": """
        main main.parallel sort compare think
        main > main.parallel prepare_once prepare think
        main > main.parallel be_interrupted handle think
        main > main.parallel fail handle think
        main > main.parallel think
    """,
    "interrupted": """
        main main.parallel meet handle report
        main > main.parallel
        main > main.parallel meet handle report
    """,
    "orphaned": """
        main main.parallel share_evenly share iterate hold
        main > main.parallel share iterate hold
        main > main.parallel share_evenly share hold
        main > main.parallel share hold
    """,
    "inlined": """
        main spread spread.parallel pause_in_task pause_in_task.task hold
        main spread > spread.parallel hold_or_rest hold
        main spread > spread.parallel hold_or_rest rest
    """,
    "cplusplus": """
        main S S.parallel heat::(anonymous namespace)::repeat<3> P::spread P::spread.task P::relax
        main S > S.parallel heat::(anonymous namespace)::Sensor::operator+= heat::(anonymous namespace)::Sensor::read
        main S > S.parallel operator()
        main S > S.parallel P::relax P::relax P::relax
    """.replace("S ", "heat::simulate ")
    .replace("S.", "heat::simulate.")
    .replace("P::", "heat::Plate<double>::"),
    "modules": """
        modules simulate simulate.parallel refine refine refine hold
        modules simulate > simulate.parallel inspect refine hold
        modules simulate > simulate.parallel measure measure.task measured hold
    """,
}


@pytest.mark.parametrize(
    ("program", "compiler"), [(name, compiler) for name in STACKS for compiler in ALL_PROGRAMS[name].compilers]
)
@pytest.mark.quick(
    "nested-clang",
    "two_initial-clang",
    "extra_pthread-gcc",
    "task_tree-gcc",
    "task_in_barrier-clang",
    "task_stack-gcc",
    "callbacks-gcc",
    "interrupted-clang",
    "orphaned-gcc",
    "cplusplus-g++",
    "cplusplus-clang++",
    "modules-gfortran",
)
def test_stacks_are_those_of_the_source(program: str, compiler: str) -> None:
    truth = stopped(program, compiler=compiler).truth
    lines = []
    for thread in truth["threads"]:
        words, on = [], None
        for frame in reversed(thread["stack"] or ()):
            words += [">"] * (on not in (None, frame["thread"]))
            words.append(frame["function"] + (f".{frame['construct']}" if frame["construct"] else ""))
            on = frame["thread"]
        words += [">"] * (thread["stack"] is not None and on != thread["native_thread_id"])
        if thread["native_thread_id"] != truth["monitor"]:
            lines.append(" ".join(words))
    assert sorted(lines) == sorted(line.strip() for line in STACKS[program].strip().splitlines())
    assert all(
        frame["inlined"] == (program == "inlined" and frame["function"] in ("hold", "hold_or_rest", "spread"))
        for thread in truth["threads"]
        for frame in thread["stack"] or ()
        if frame["construct"] is None
    )


# Parts of the function itself, and routines in which none of these programs stops.
NEVER_STOPS = re.compile(
    r"\.text\.unlikely|.*[. ]cold\]?$|truth_\w+$|omp_unset_\w+$|GOMP_\w+_end$|__kmpc_end_(?:critical|reduce)\w*$"
)


def left_by_jumps(program: Path) -> dict[str, list[str]]:
    """Return the functions of a program's object file, each with the targets of its jumps to other functions."""
    command = [
        str(require("objdump")),
        "-d",
        "-r",
        "-C",
        "--no-show-raw-insn",
        str(program.with_name(f"{program.name}.o")),
    ]
    text = subprocess.run(command, capture_output=True, text=True, env=clean_environment(), check=True).stdout
    functions: dict[str, list[str]] = {}
    name = pending = before = ""
    for line in text.splitlines():
        if found := re.match(r"\s+[0-9a-f]+: R_X86_64_\w+\s+(.*?)(?:[-+]0x[0-9a-f]+)?$", line):
            pending = pending and found[1]  # the relocation of the previous jump
            continue
        if pending and pending != name:
            functions[name].append(pending)
        pending = ""
        if found := re.match(r"[0-9a-f]+ <(.*)>:$", line):
            name = found[1]
            functions.setdefault(name, [])
        elif found := re.match(r"\s+[0-9a-f]+:\s+(?:notrack )?j\w+ +(\S.*)$", line):
            target = re.match(r"[0-9a-f]+ <(.*?)(?:\+0x[0-9a-f]+)?>$", found[1])
            # If an addition has just computed the address, the jump goes to a case of a switch.
            pending = target[1] if target else found[1] if not re.search(r"\badd ", before) else ""
        before = line
    return functions


@pytest.mark.skipif(platform.machine() != "x86_64", reason="reads jumps of x86-64")
@every_build
@pytest.mark.quick(
    "shrunk_pool-gcc",
    "between-clang",
    "extra_pthread-clang",
    "inlined-gcc",
    "cplusplus-g++",
    "cplusplus-clang++",
    "modules-gfortran",
)
def test_no_function_of_a_stack_is_left_by_a_jump(program: str, compiler: str) -> None:
    core = stopped(program, compiler=compiler, mode="tool", flags=("-O2",))
    functions = left_by_jumps(core.executable)
    for function in {
        frame["function"]
        for thread in core.truth["threads"]
        for frame in thread["stack"] or ()
        if frame["file"] != "truth.c" and not frame["inlined"] and frame["construct"] is None
    }:
        named = re.compile(
            # Spellings of C, C++, gfortran and compiler-made functions of constructs.
            rf"(?:.*[ :])?(?:__\w+_MOD_)?{re.escape(function)}(?:\(.*|_)?(?: const)?(?:\.\d+)?(?:[. \[].*)?"
            if function != program or compiler != "gfortran"
            else r"MAIN__"
        )
        texts = [name for name in functions if named.fullmatch(name)]
        assert texts != [], (function, list(functions))
        for name in (*texts, *(name for name in functions if name.startswith(".omp_"))):
            assert [target for target in functions[name] if not NEVER_STOPS.match(target)] == [], name


@pytest.mark.parametrize("program", ["nested", "extra_pthread", "not_initialised"])
@pytest.mark.quick("nested")
def test_one_process_gives_two_cores(program: str) -> None:
    cores = stopped_twice(program)
    assert [core.kind for core in cores] == sorted(KINDS)
    assert cores[0].truth == cores[1].truth
    assert set(gdb_stacks(cores[0])) == set(gdb_stacks(cores[1])) == set(by_native_id(cores[0].truth))
