"""``ompd triage`` on threads that run in a loop: their lines within the loop do not split a group."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ompd.debugger.files.finder import FileOptions
from ompd.debugger.flow.loops import loop_around
from ompd.errors import Unavailable
from ompd.triage.inspect import inspect
from ompd.triage.targets import Wanted
from tests.support.build import SETTLED, WITH_HEADERS, compiler
from tests.support.cache import entry, key_of
from tests.support.gdb import HERE, batch, gdb
from tests.support.machine import clean_environment
from tests.support.outside import SOURCES
from tests.support.products import sample
from tests.support.runtimes import RUNTIMES
from tests.support.why import GNU, LLVM, WHYS, hung

SOURCE = SOURCES / "loops.c"
# The loop of each line, by the text of the line's comment.
PLACES = {
    "one": "loop",
    "another": "loop",
    "inside": "inner",
    "inside, too": "inner",
    "one of later": "later",
    "another of later": "later",
}
LEVELS = ("-O0", "-O1", "-O2")
RUNTIME_OF = {"gcc": GNU, "clang": LLVM}


def line_of(words: str) -> int:
    return next(n for n, line in enumerate(SOURCE.read_text().splitlines(), 1) if line.endswith(f"/* {words} */"))


def cores(compiler_name: str, level: str) -> dict[str, Path]:
    """Return a core for each place, which gdb writes when the running thread gets there."""
    used = compiler(compiler_name)
    library = RUNTIMES[RUNTIME_OF[compiler_name]]
    where = library.file().parent
    compiling = [str(used.path), "-g", level, "-fopenmp", *WITH_HEADERS, "-c", str(SOURCE), "-o", "loops.o"]
    linking = [str(used.path), "loops.o", f"-L{where}", f"-Wl,-rpath,{where}", *library.options, "-lpthread"]

    def build(made: Path) -> None:
        for command in (compiling, [*linking, "-o", "loops"]):
            subprocess.run(command, check=True, env=clean_environment(), cwd=made)

    def make(made: Path) -> None:
        commands = ["set breakpoint pending off"]
        for number, words in enumerate(PLACES):
            if words == "one of later":
                commands.append("set var turn = 1")
            begin = "continue" if number else "run"
            commands += [f"tbreak loops.c:{line_of(words)}", begin, f"gcore core.{number}"]
        said = batch(gdb(HERE), [*commands, "kill"], str(program), cwd=made)
        assert len(list(made.glob("core.*"))) == len(PLACES), said.pairs

    key = key_of("loops", SOURCE.read_text(), SETTLED.read_text(), used.version, compiling, linking)
    program = entry("programs", key, build) / "loops"
    made = entry("cores", key, make)
    return {words: made / f"core.{number}" for number, words in enumerate(PLACES)}


def triaged(*paths: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "ompd", "triage", "--json", *map(str, paths)]
    done = subprocess.run(command, capture_output=True, check=False, env=clean_environment())
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(("compiler_name", "level"), sample([(c, o) for c in ("gcc", "clang") for o in LEVELS]))
@pytest.mark.quick("clang--O1")
def test_lines_of_one_loop_are_one_group(compiler_name: str, level: str) -> None:
    made = cores(compiler_name, level)
    answer = triaged(*made.values())
    rows = {frozenset(Path(name).name for name in row["targets"]): row for row in answer["triage"]}
    for loop in ("loop", "inner", "later"):
        words = [each for each, its in PLACES.items() if its == loop]
        row = rows[frozenset(made[each].name for each in words)]
        lines = ", ".join(str(line_of(each)) for each in words)
        first = line_of(loop)
        assert row["joined"] == [f"work is at lines {lines} of the loop of line {first}"]
        assert row["stack"][0]["loop"] == first


def test_who_waits_in_a_loop_is_where_it_waits() -> None:
    # Two barriers of one loop: the fault is that threads wait at different ones.
    found = hung(WHYS["barrier_mismatch-loop"], "gcc", GNU)
    assert found.core is not None
    result = inspect(Wanted(str(found.core)), FileOptions(), max_size=1 << 30)
    stacks = [result["stacks"][number]["frames"] for number in result["about"]]
    assert stacks and {loop for frames in stacks for _, _, _, loop, *_ in frames} == {None}


@pytest.mark.parametrize(
    ("following", "expected"),
    [
        ({1: [2], 2: [3], 3: []}, {1: None, 2: None, 3: None}),
        ({1: [2], 2: [2, 3], 3: []}, {1: None, 2: {2}, 3: None}),
        # A loop within another, with two ways back to its head.
        (
            {1: [2], 2: [3], 3: [4, 5], 4: [3], 5: [3, 6], 6: [2, 7], 7: []},
            {1: None, 2: {2, 3, 4, 5, 6}, 3: {3, 4, 5}, 4: {3, 4, 5}, 5: {3, 4, 5}, 6: {2, 3, 4, 5, 6}, 7: None},
        ),
        # One loop after another.
        ({1: [2], 2: [1, 3], 3: [4], 4: [3, 5], 5: []}, {1: {1, 2}, 2: {1, 2}, 3: {3, 4}, 4: {3, 4}, 5: None}),
        # A cycle with two entries is no loop, but there may be a loop around it.
        ({1: [2, 3], 2: [3], 3: [2, 4], 4: []}, {2: None, 3: None}),
        ({1: [2, 3], 2: [3], 3: [2, 4], 4: [1, 5], 5: []}, {2: {1, 2, 3, 4}, 3: {1, 2, 3, 4}, 5: None}),
        ({1: [1]}, {1: {1}}),
    ],
)
def test_loops_are_entered_by_their_heads_alone(
    following: dict[int, list[int]], expected: dict[int, set[int] | None]
) -> None:
    found = {block: loop_around(block, 1, following) for block in expected}
    assert {block: loop and loop[1] for block, loop in found.items()} == expected
    assert all(loop is None or loop[0] == min(loop[1]) for loop in found.values())


def test_a_function_of_very_many_blocks_is_not_looked_at() -> None:
    with pytest.raises(Unavailable):
        loop_around(1, 0, {number: [number + 1] for number in range(10_000)})
