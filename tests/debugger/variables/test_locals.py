"""``ompd stack --locals``: the variables of frames, compared with the programs' output and with gdb; and how constructs
share them, compared with the source's clauses.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

import ompd
from ompd.commands.main import cli
from ompd.debugger.files.finder import FileOptions
from ompd.model import LocalRecord, StackFrame, StackRecord
from ompd.questions import stacks
from ompd.session import Session
from tests.support import FULL, clean_environment, require
from tests.support.local_variables import recipe
from tests.support.variables import Told, running, stopped

C = ("gcc", "gcc -O2", "clang", "clang -O2")


def rows_of(session: Session, **asked: Any) -> dict[int, StackRecord]:
    # A running program is queried before it is stopped, too. Only the final answer must be complete.
    answer = session.ask(lambda stopped: stacks.ask(stopped, locals=True, **asked))
    assert answer.complete, answer.warnings
    return {row.native_thread_id or 0: row for row in answer.rows}


def locals_of(told: Told, **asked: Any) -> dict[int, StackRecord]:
    with Session.open_core(told.core) as session:
        return rows_of(session, **asked)


def frame_of(row: StackRecord, function: str, *, body: bool) -> StackFrame:
    return next(
        f
        for f in row.frames
        if (f.function or "").rpartition("::")[2] == function and (f.construct is not None) == body
    )


def named(frame: StackFrame, name: str) -> list[LocalRecord]:
    assert frame.locals is not None, frame.unavailable
    return [variable for variable in frame.locals if variable.name == name]


def check_truth(rows: dict[int, StackRecord], told: Told, functions: dict[str, bool]) -> dict[str, int]:
    """Compare the innermost variable of each name with the thread's output; return how often each had a value."""
    seen: dict[str, int] = {}
    for thread in told.threads:
        for key, fact in thread["variables"].items():
            function, _, name = key.partition(":")
            if name == "iteration":
                continue
            found = named(frame_of(rows[thread["id"]], function, body=functions[function]), name)
            seen.setdefault(key, 0)
            if not found or found[0].text is None:
                assert not found or found[0].unavailable["value"], found
                continue
            assert found[0].value == fact["value"], (key, found, fact)
            if fact["address"] is not None and found[0].address is not None:
                assert found[0].address == fact["address"], (key, found, fact)
            seen[key] += 1
    return seen


# The number of threads. In loops, each of two threads has one half of a loop with constant bounds.
COUNT = {"region": 3, "loops": 2, "generate7": 3}
BODIES = {"region": True, "values": False, "loops": True, "generate": True}


@pytest.mark.parametrize("compilation", C)
@pytest.mark.parametrize("what", ["region", "loops", "generate7"])
@pytest.mark.quick(
    "region-gcc -O2", "region-clang", "loops-gcc", "loops-gcc -O2", "generate7-gcc", "generate7-clang -O2"
)
def test_every_thread_has_the_values_that_it_says(compilation: str, what: str) -> None:
    told = stopped(recipe(compilation, what), COUNT[what])
    seen = check_truth(locals_of(told), told, BODIES)
    assert len(seen) >= 2
    if "-O2" in compilation:
        return  # the compiler decides which variables are left, but no answer is wrong
    expected = dict.fromkeys(seen, COUNT[what])
    if compilation == "clang":
        expected.pop("region:i", None)  # see test_the_loop_of_clang
        expected.pop("generate:b", None)  # clang's debug information lacks a task's shared variables
    assert {key: count for key, count in seen.items() if key in expected} == expected


@pytest.mark.parametrize("compilation", ["gcc -O2", "gcc -O2 -gdwarf-4", "clang -O2"])
@pytest.mark.quick("gcc -O2")
def test_a_snapshot_has_the_values_of_its_core(compilation: str, tmp_path: Path) -> None:
    told = stopped(recipe(compilation), 3)
    with ompd.open_core(told.core) as session:
        assert not session.snapshot(tmp_path / "small", keep_environment=True).problems
    with Session.open_core(tmp_path / "small", FileOptions(sysroot="/nonexistent")) as session:
        assert rows_of(session) == locals_of(told)


@pytest.mark.parametrize("compilation", ["gcc", "clang"])
@pytest.mark.quick("clang")
def test_alive_and_by_gdbs_core(compilation: str, tmp_path: Path) -> None:
    with running(recipe(compilation), 3, tmp_path) as told, ompd.attach(told.pid) as session:
        assert sum(check_truth(rows_of(session), told, BODIES).values()) > 40
    told = stopped(recipe(compilation), 3, "gcore")
    assert sum(check_truth(locals_of(told), told, BODIES).values()) > 40


@pytest.mark.parametrize(
    "compilation",
    [
        "gcc -gsplit-dwarf -gdwarf-4 -O2",
        "gcc -gsplit-dwarf -O2",
        "clang -gsplit-dwarf",
        "clang -gsplit-dwarf -O2",
        "gcc -Os",
        "gcc -O3",
        "clang -O1",
        "clang -Os",
        "clang -O3",
    ],
)
@pytest.mark.quick("clang -gsplit-dwarf")
def test_split_debug_information_and_other_optimisers(compilation: str) -> None:
    told = stopped(recipe(compilation), 2)
    assert sum(check_truth(locals_of(told), told, BODIES).values()) >= 20


# The source's clauses for the variables of each construct, innermost first, if the compiler records them. gcc does not
# record which clause made a copy.
SHARING = {
    ("region", "gcc"): {
        "local": ["private"],
        "i": ["private"],
        "sum": ["copy", "shared"],
        "last": ["copy", "shared"],
        "number": ["private"],
        "inside": ["private"],
        "fixed": ["private"],
        "own": ["copy"],
        "first": ["copy"],
        "firsts": ["copy"],
        "together": ["shared"],
        "plain": ["shared"],
        "pair": ["shared"],
        "list": ["shared"],
        "n": ["copy"],
        "v": ["copy"],
    },
    ("region", "clang"): {
        "local": ["private"],
        "i": ["loop"],
        "sum": ["private", "shared"],
        "last": ["private", "shared"],
        "number": ["private"],
        "inside": ["private"],
        "fixed": ["shared"],
        "own": ["private"],
        "first": ["firstprivate"],
        "firsts": ["private", "shared"],
        "together": ["shared"],
        "plain": ["shared"],
        "pair": ["shared"],
        "list": ["shared"],
        "n": ["shared"],
        "v": ["shared"],
    },
    ("loops", "gcc"): {"number": ["private"], "j": ["private"], "chunk": ["shared"], "among": ["shared"]},
    ("loops", "clang"): {"number": ["private"], "j": ["loop"], "chunk": ["shared"], "among": ["shared"]},
    ("generate", "gcc"): {
        "number": ["private"],
        "here": ["private"],
        "a": ["copy"],
        "k": ["copy"],
        "c": ["firstprivate"],
        "b": ["shared"],
    },
    ("generate", "clang"): {"number": ["private"], "here": ["private"], "a": [None], "k": [None], "c": [None]},
}


@pytest.mark.parametrize(("function", "compiler"), SHARING)
def test_sharing_is_what_the_clauses_say(function: str, compiler: str) -> None:
    what = {"generate": "generate7"}.get(function, function)
    told = stopped(recipe(compiler, what), COUNT[what])
    for thread, row in locals_of(told).items():
        frame = frame_of(row, function, body=True)
        found: dict[str, list[str | None]] = {}
        for variable in frame.locals or ():
            found.setdefault(variable.name, []).append(variable.sharing)
        expected = SHARING[function, compiler]
        if (function, compiler) == ("generate", "clang") and "b" in found:
            # clang from 17 on records that a variable is shared, but not how the task has it.
            expected = {**expected, "b": [None]}
        assert found == expected, thread
        # Nothing is shared outside of a construct.
        assert all(v.sharing is None for f in row.frames if f.construct is None for v in f.locals or ())


@pytest.mark.parametrize("compilation", ["gcc -O2", "clang -O2"])
def test_sharing_is_not_told_otherwise_with_optimisation(compilation: str) -> None:
    told = stopped(recipe(compilation), 3)
    known = SHARING["region", compilation.split()[0]]
    found = [each for row in locals_of(told).values() for each in frame_of(row, "region", body=True).locals or ()]
    assert len({each.name for each in found if each.sharing is not None}) > 10
    for variable in found:
        assert variable.sharing in (None, *known[variable.name]), variable


def test_the_loop_of_clang() -> None:
    # If a loop's number of iterations is known only at run time, clang's debug information locates a copy that keeps
    # the first value for ever. The number of the iteration is still known.
    told = stopped(recipe("clang"), 3)
    for thread in told.threads:
        (variable,) = named(frame_of(locals_of(told)[thread["id"]], "region", body=True), "i")
        value = thread["variables"]["region:i"]["value"]
        assert variable.text is None and "a copy that the loop does not use" in variable.unavailable["value"]
        iteration = variable.iteration
        assert iteration is not None and iteration.number == value
        assert (iteration.first, iteration.last) == (value - 2, value + 1)
    told = stopped(recipe("clang", "loops"), 2)
    for thread in told.threads:
        (variable,) = named(frame_of(locals_of(told)[thread["id"]], "loops", body=True), "j")
        assert variable.value == thread["variables"]["loops:j"]["value"]
        iteration = variable.iteration
        assert iteration is not None and iteration.number == thread["variables"]["loops:iteration"]["value"]
        assert iteration.last - iteration.first == 7


# Against gdb


def gdbs(told: Told) -> dict[int, list[tuple[str, list[tuple[str, str]]]]]:
    """Return gdb's output for each thread's frames, innermost first: the function, and names and values of its
    variables.
    """
    found: dict[int, list[tuple[str, list[tuple[str, str]]]]] = {}
    for what in ("locals", "args"):
        words = [
            "set width 0",
            "set height 0",
            "set print frame-arguments none",
            f"thread apply all frame apply all info {what}",
        ]
        done = subprocess.run(
            [require("gdb"), "-nx", "-batch", *(w for word in words for w in ("-ex", word)), told.program, told.core],
            capture_output=True,
            text=True,
            env=clean_environment(),
            check=False,
        )
        frames: list[tuple[str, list[tuple[str, str]]]] = []
        number = 0
        for line in done.stdout.splitlines():
            if thread := re.match(r"Thread .*\(LWP (\d+)\)", line):
                frames = found.setdefault(int(thread[1]), [])
            elif frame := re.match(r"#(\d+)\s+(?:0x[0-9a-f]+ in )?([^ (]+)", line):
                number = int(frame[1])
                if number == len(frames):
                    frames.append((frame[2], []))
            elif variable := re.match(r"(\S+) = (.*)", line):
                frames[number][1].append((variable[1], re.sub(r"^(?:\(.*\) )?@0x[0-9a-f]+: ", "", variable[2])))
    assert len(found) >= len(told.threads), done.stderr
    return found


def own_frames(rows: dict[int, StackRecord], thread: int) -> Sequence[StackFrame]:
    return rows[thread].frames


def by_name(pairs: Iterator[tuple[str, str | None]]) -> dict[str, list[str | None]]:
    found: dict[str, list[str | None]] = {}
    for name, text in pairs:
        found.setdefault(name, []).append(text)
    return found


def compare_with_gdb(told: Told, *, optimised: bool) -> int:
    rows = locals_of(told, raw=True)
    compared = 0
    for thread, frames in gdbs(told).items():
        for frame, (function, variables) in zip(own_frames(rows, thread), frames, strict=False):
            if frame.locals is None:
                continue
            ours = by_name((v.name, v.text) for v in frame.locals)
            theirs = by_name((n, None if t == "<optimized out>" else t) for n, t in variables)
            loops = {v.name for v in frame.locals if v.sharing == "loop" and v.text is None}
            theirs = {n: texts for n, texts in theirs.items() if not n.startswith((".", "__context", "__vla_expr"))}
            # With optimisation, gdb's info locals omits some constants.
            assert theirs.keys() <= ours.keys() if optimised else theirs.keys() == ours.keys(), (function, frame)
            for name, expected in theirs.items():
                texts = ours[name]
                if name in loops:
                    continue
                # The last texts are gcc's second variable of a loop, and parameters. gdb looks these up by name, and
                # finds the variable that hides them.
                parameters = sum(v.parameter for v in frame.locals if v.name == name)
                count = len(texts) - (parameters if len(texts) > 1 else 0)
                texts, expected = texts[:count], expected[:count]
                if optimised:  # gdb knows more, from arguments of callers and from vector registers
                    texts = texts[: len(expected)]
                    expected = [text if mine is not None else None for mine, text in zip(texts, expected, strict=True)]
                assert texts == expected, (function, name)
                compared += sum(text is not None for text in texts)
    return compared


VALUES = ("region", "loops", "generate7")
COMPILATIONS = (
    "gcc",
    "gcc -O2",
    "gcc -gdwarf-4 -O2",
    "gcc -Og",
    "gcc -gsplit-dwarf -O2",
    "gcc -gsplit-dwarf -gdwarf-4 -O2",
    "clang",
    "clang -gdwarf-4",
)


@pytest.mark.parametrize(
    ("compilation", "what"),
    [
        (compilation, what)
        for number, compilation in enumerate(COMPILATIONS)
        for turn, what in enumerate(VALUES)
        if FULL or (number % 2 == 0 and turn == number // 2 % 3) or (compilation == "gcc -O2" and what == "loops")
    ],
)
@pytest.mark.quick("gcc-region")
def test_values_are_gdbs(compilation: str, what: str) -> None:
    told = stopped(recipe(compilation, what), 2)
    assert compare_with_gdb(told, optimised="-O" in compilation) >= 15


@pytest.mark.parametrize(
    ("name", "compilation"),
    [("cxx", "clang"), ("cxx", "gcc -O2"), ("fortran", "gfortran"), *([("cxx", "gcc")] * FULL)],
)
@pytest.mark.quick("cxx-clang")
def test_other_languages(name: str, compilation: str) -> None:
    told = stopped(recipe(compilation, name=name), 2)
    seen = check_truth(locals_of(told), told, {"region": True, "inner": False})
    assert len(seen) == 7 and all(count == 2 for count in seen.values())
    assert compare_with_gdb(told, optimised="-O" in compilation) >= 20


# Output for people and programs


def test_text_and_json() -> None:
    told = stopped(recipe("gcc"), 2)
    text = CliRunner().invoke(cli, ["stack", "--locals", str(told.core)]).stdout
    lines = [line.strip() for line in text.splitlines()]
    for line in ("together = 7   (shared)", "plain = 8   (shared)", "firsts = {5, 1, 7}   (copy)", "calls = 3"):
        assert line in lines, text
    result = CliRunner().invoke(cli, ["stack", "--locals", "--json", str(told.core)])
    answer = json.loads(result.stdout)
    schema = json.loads(CliRunner().invoke(cli, ["schema", "stack"]).stdout)
    jsonschema.validate(answer, schema)
    frames = [frame for row in answer["stack"] for frame in row["frames"] if frame["function"] == "values"]
    assert len(frames) == 2
    bits = next(v for v in frames[0]["locals"] if v["name"] == "bits")
    assert bits["value"]["pairs"][1] == {"x": 2, "y": -1.25} and bits["type"] == "struct bits"
    plain = json.loads(CliRunner().invoke(cli, ["stack", "--json", str(told.core)]).stdout)
    assert all(frame["locals"] is None for row in plain["stack"] for frame in row["frames"])


def test_threads_share_a_row_only_if_their_variables_are_equal() -> None:
    told = stopped(recipe("gcc"), 3)
    assert len(locals_of(told, fold=True)) == 3


def test_functions_without_debug_information_say_so() -> None:
    told = stopped(recipe("gcc -g0"), 2)
    rows = locals_of(told)
    functions = ("stop", "values", "region", "main")
    frames = [frame for row in rows.values() for frame in row.frames if frame.function in functions]
    assert len(frames) == 10
    assert all(f.locals is None and "no debug information" in f.unavailable["locals"] for f in frames)
