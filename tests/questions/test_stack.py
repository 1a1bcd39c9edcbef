"""``ompd stack``: which stacks are shown, and how. The programs' own records show whether the stacks are right."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result

from ompd.commands.main import cli
from ompd.model import StackFrame, StackRecord
from ompd.questions import stacks, tasks
from ompd.runtimes.layout import table
from ompd.session import Session
from tests.support import COMPILERS, MODES, Stopped, stopped
from tests.support.build import compiler
from tests.support.machine import clean_environment
from tests.support.odd import PLAIN, Core, Odd, core_of
from tests.support.products import sample
from tests.support.runs import cores_allowed

CONSTRUCTS = ("parallel", "task", "taskloop", None)


def run(*words: object) -> Result:
    return CliRunner().invoke(cli, ["stack", *map(str, words)])


def rows_of(core: Path, **asked: Any) -> dict[int, StackRecord]:
    with Session.open_core(core) as session:
        return {row.native_thread_id or 0: row for row in stacks.ask(session, **asked).rows}


def ids(program: Stopped) -> dict[str, str]:
    """The native ids of a program's threads, each with its placeholder in a text."""
    # In the order of creation: native ids may have restarted from the lowest in between.
    known = sorted(
        (t["role"] != "team", t["native_thread_id"] < program.truth["pid"], t["native_thread_id"])
        for t in program.truth["threads"]
    )
    return {str(native): f"T{number}" for number, (*_, native) in enumerate(known)}


def as_text(program: Stopped, *words: object) -> str:
    result = run(program.core, *words)
    assert result.exit_code == 0, result.output
    text = result.stdout.split("\n", 2)[2]
    for native, name in ids(program).items():
        text = re.sub(rf"\b{native}\b", name, text)
    return "\n".join(line.rstrip() for line in text.strip("\n").split("\n"))


HANG = """\
OMP 0/4   level 1   thread T0
  #0 simulate  hang.c:59   body of parallel hang.c:50
  #1 simulate  hang.c:50
  #2 main      hang.c:70

OMP 1/4   level 1   thread T1
  #0 report_progress  hang.c:39
  #1 simulate         hang.c:57   body of parallel hang.c:50
  region started by thread T0:
  #2 simulate         hang.c:50
  #3 main             hang.c:70

OMP 2/4   level 1   thread T2
  #0 simulate  hang.c:59   body of parallel hang.c:50
  region started by thread T0:
  #1 simulate  hang.c:50
  #2 main      hang.c:70

OMP 3/4   level 1   thread T3
  #0 simulate  hang.c:59   body of parallel hang.c:50
  region started by thread T0:
  #1 simulate  hang.c:50
  #2 main      hang.c:70

thread T4   not OpenMP
  #0 pause  in libc.so.6
"""


@pytest.mark.parametrize("compiler_name", COMPILERS)
def test_what_a_person_sees(compiler_name: str) -> None:
    text = as_text(stopped("hang", compiler=compiler_name, mode="neither"), "--all")
    assert text.startswith(HANG.rstrip("\n"))


def test_threads_with_the_same_stack_share_it() -> None:
    program = stopped("hang", compiler="gcc", mode="neither")
    text = as_text(program)
    assert text == as_text(program, "--fold")
    assert text.startswith("OMP 0,2-3/4   level 1   threads T0,T2,T3 (3 threads)\n  #0 simulate  hang.c:59")
    assert text.count("OMP ") == 2 and text.count("started by") == 1
    (first, *_) = rows_of(program.core, fold=True).values()
    assert first.thread_nums == (0, 2, 3) and len(first.threads) == 3


def test_one_thread_by_native_id_or_by_number() -> None:
    program = stopped("hang", compiler="gcc", mode="neither")
    by_number = rows_of(program.core, thread=1)
    (native,) = by_number
    assert rows_of(program.core, thread=native) == by_number
    assert by_number[native] == rows_of(program.core)[native]
    result = run(program.core, "--thread", "77")
    assert result.exit_code == 1 and "no thread with native id or OpenMP number 77" in result.stderr


def test_threads_of_one_number_in_several_teams() -> None:
    program = stopped("nested", compiler="gcc", mode="tool")
    truth = {t["native_thread_id"] for t in program.truth["threads"] if t["thread_num"] == 1}
    assert len(truth) > 1 and set(rows_of(program.core, thread=1)) == truth


def test_idle_threads_have_no_frames() -> None:
    program = stopped("shrunk_pool", compiler="gcc", mode="neither")
    idle = {t["native_thread_id"] for t in program.truth["threads"] if t["role"] == "idle"}
    rows = rows_of(program.core)
    assert {native for native, row in rows.items() if row.idle} == idle
    assert all(rows[native].frames == () for native in idle)
    assert f"({len(idle)} threads)   idle in the pool" in as_text(program)


@pytest.mark.parametrize("mode", MODES)
def test_raw_frames_say_whose_they_are(mode: str) -> None:
    program = stopped("task_tree", compiler="gcc", mode=mode)
    shown, raw = rows_of(program.core), rows_of(program.core, raw=True)
    for native, row in raw.items():
        assert {frame.thread for frame in row.frames} <= {native}
        cfas = [frame.cfa for frame in row.frames if frame.cfa is not None and not frame.inlined]
        assert cfas == sorted(cfas) and len(cfas) > 3
        own = [f for f in shown[native].frames if f.thread == native and f.kind == "user"]
        assert [f for f in row.frames if f.kind == "user"] == own
        if row.runtime is not None:
            kinds = [frame.kind for frame in row.frames]
            assert {"user", "runtime", "system"} == set(kinds) and kinds[-1] == "system"
            # The runtime calls the code of a task, and that code calls the runtime.
            assert row.boundaries == ("derived" if mode == "neither" else "runtime")


@pytest.mark.parametrize("compiler_name", COMPILERS)
@pytest.mark.parametrize("mode", ["debug", "tool"])
def test_frames_belong_to_the_tasks_that_the_runtime_tells(compiler_name: str, mode: str) -> None:
    # The program noted each task's exit frame by OMPT. It is in the frame that called the task's code.
    program = stopped("task_tree", compiler=compiler_name, mode=mode)
    with Session.open_core(program.core) as session:
        raw = {row.native_thread_id: row for row in stacks.ask(session, raw=True).rows}
        data = {row.id: row.tool_data for row in tasks.ask(session).rows}
    seen = 0
    for thread in program.truth["threads"]:
        frames = [frame for frame in raw[thread["native_thread_id"]].frames if not frame.inlined]
        for task in thread["tasks"] or ():
            if task["exit_frame"] is None:
                continue
            exit_frame = int(task["exit_frame"], 16)
            inner = [frame for frame in frames if frame.cfa is not None and frame.cfa <= exit_frame]
            assert inner and data[inner[-1].task or ""] == task["task_data"]
            seen += 1
    assert seen > 8


def test_json_has_what_the_schema_says() -> None:
    program = stopped("task_tree", compiler="clang", mode="debug")
    told = json.loads(run(program.core, "--json").stdout)
    assert told["schema"] == "ompd/stack/1" and told["complete"] is True
    schema = json.loads(CliRunner().invoke(cli, ["schema", "stack"]).stdout)
    jsonschema.validate(told, schema)
    frames = [frame for row in told["stack"] for frame in row["frames"]]
    assert all(re.fullmatch("0x[0-9a-f]+", frame["address"]) for frame in frames)
    assert any(frame["construct"] is not None for frame in frames)


DEEP = """
#include <omp.h>
#include <stdlib.h>
static void __attribute__((noinline)) dig(volatile int depth) { if (depth) dig(depth - 1); else abort(); }
int main(void)
{
    #pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 1) dig(500);
    return 0;
}
"""


@pytest.fixture(scope="module")
def by_libgomp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("libgomp")
    (folder / "deep.c").write_text(DEEP)
    build = [str(compiler("gcc").path), "-g", "-fopenmp", "deep.c", "-o", "deep"]
    subprocess.run(build, cwd=folder, check=True, env=clean_environment())
    with cores_allowed():
        subprocess.run([folder / "deep"], cwd=folder, check=False, env={"PATH": "/usr/bin:/bin"})
    found = list(folder.glob("core*"))
    if not found:
        pytest.skip("the kernel writes no cores into the folder of a run here")
    return found[0]


def test_a_runtime_that_is_not_known_still_has_stacks(by_libgomp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "tables", lambda runtime, architecture: iter(()))
    result = run(by_libgomp, "--all")
    assert result.exit_code == 3 and "libgomp" in result.stderr
    dug = re.findall(r"#(\d+) +dig +deep.c:4", result.stdout)
    assert dug == [str(number) for number in range(int(dug[0]), int(dug[0]) + 501)]
    assert "main" in result.stdout and "gomp_thread_start" not in result.stdout


def test_very_deep_stacks_are_cut_in_text(by_libgomp: Path) -> None:
    text = run(by_libgomp).stdout
    assert re.search(r"… \d+ more frames, shown with --all", text) and text.count(" dig ") < 110
    assert len([f for row in rows_of(by_libgomp).values() for f in row.frames if f.function == "dig"]) == 501


# Odd programs, whose threads recorded their regions and the places of these regions


def _in_turn(few: list[list[Any]], many: list[list[Any]]) -> bool:
    rest: Iterator[list[Any]] = iter(many)
    return all(any(one == other for other in rest) for one in few)


def check_regions(core: Core) -> int:
    """Compare the constructs on each thread's stack with those that the thread named. Return their number."""
    rows = rows_of(core.path)
    last = {word["tid"]: word for word in core.words if "thread_num" in word}
    constructs = 0
    for native, word in last.items():
        frames: tuple[StackFrame, ...] = rows[native].frames
        if not word["regions"]:
            continue
        assert rows[native].stopped is None
        assert frames[-1].function == "main"
        bodies = [[f.function, f.construct.line] for f in frames if f.construct and f.construct.kind == "parallel"]
        # A thread that waits at a region's end has left the region's code. So may have the task that it runs there.
        assert _in_turn(bodies, word["regions"])
        # A frame met each region, at the region's line or, in gcc's code, at the line before, where a block starts.
        met = [[f.function, line] for f in frames for line in {f.line, f.construct.line if f.construct else f.line}]
        assert all(region in met for region in word["regions"])
        if word["doing"] == "stay":
            top = next(frame for frame in frames if frame.kind == "user")
            assert [top.function, top.line] == [word["function"], word["line"]]
        constructs += len(bodies)
    return constructs


@pytest.mark.parametrize(
    ("odd", "compiler_name"),
    sample(pytest.param(odd, name, id=f"{odd.name}-{name}") for odd in PLAIN for name in COMPILERS),
)
@pytest.mark.quick("mixed-gcc", "ordered-clang", "serialized_100-clang")
def test_stacks_of_odd_programs(odd: Odd, compiler_name: str) -> None:
    for mode in ("neither", "debug"):
        core = core_of(odd, compiler_name, mode)
        told = check_regions(core)
        assert told or not any(word.get("regions") for word in core.words)


@pytest.mark.parametrize("flags", ["-O0", "-O2", "-fno-plt"])
def test_what_gcc_calls_by_one_name_is_told_by_its_calls(flags: str) -> None:
    core = core_of(Odd("gcc_names", flags=(flags,)), "gcc")
    rows = rows_of(core.path)
    words = [word for word in core.words if "construct" in word]
    assert {word["construct"] for word in words} == {"task", "taskloop"}
    for word in words:
        told = [(f.construct.kind, f.construct.line) for f in rows[word["construct_tid"]].frames if f.construct]
        assert told[0] == (word["construct"], word["at"])


@pytest.mark.parametrize("compiler_name", COMPILERS)
@pytest.mark.parametrize("mode", ["neither", "debug"])
def test_tasks_at_the_end_of_a_region_did_not_meet_it(compiler_name: str, mode: str) -> None:
    core = core_of(Odd("end_tasks"), compiler_name, mode)
    rows = rows_of(core.path)
    telling = {word["tid"] for word in core.words if "thread_num" in word}
    assert len(telling) == 3
    for native in telling:
        written = [frame.function for frame in rows[native].frames if frame.kind == "user"]
        assert written[-3:] == ["start", "start", "main"] and written.count("crunch") == 1


@pytest.mark.parametrize("compiler_name", COMPILERS)
def test_functions_that_were_left_by_a_jump_are_not_made_up(compiler_name: str) -> None:
    core = core_of(Odd("tail_calls", flags=("-O2",)), compiler_name)
    rows = rows_of(core.path)
    telling = [word for word in core.words if "thread_num" in word]
    assert len(telling) == 2
    for word in telling:
        row = rows[word["tid"]]
        bodies = [(f.function, f.construct.line) for f in row.frames if f.construct is not None]
        assert bodies in ([], [("region", 5)])
        # main called another function, not the runtime's.
        assert all(frame.line in (12, 13) for frame in row.frames if frame.function == "main")
        if word["thread_num"] and row.frames[-1].function != "main":
            assert row.stopped is not None and "tail call" in row.stopped


@pytest.mark.parametrize("compiler_name", COMPILERS)
def test_a_call_of_nothing_below_a_signal_handler(compiler_name: str) -> None:
    core = core_of(Odd("null_call"), compiler_name)
    rows = rows_of(core.path)
    telling = {word["tid"] for word in core.words if "thread_num" in word}
    assert len(telling) == 2
    for native in telling:
        frames = rows[native].frames
        at = next(number for number, frame in enumerate(frames) if frame.signal)
        assert frames[at + 1].address == 0
        caller = next(frame for frame in frames[at + 2 :] if frame.kind == "user")
        assert (caller.function, caller.line) == ("main", 13) and caller.guessed
