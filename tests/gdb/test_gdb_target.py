"""Programs under gdb, as a core file and alive: the same facts as from the core alone, at every stop anew."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest

import ompd
from ompd.errors import Unsupported
from ompd.render.json import format_answer
from tests.support import ALL_PROGRAMS, FULL, PROGRAMS, RUNTIMES, Running, Stopped, require, running, stopped
from tests.support.cache import CHECKOUT
from tests.support.debs import deb_folder
from tests.support.facts import expected
from tests.support.gdb import LOAD, NAMES, batch, gdb, open_core, open_program, replies
from tests.support.lldb import build_regions
from tests.support.lldb_replies import line_with
from tests.support.products import each_gdb, sample

pytestmark = pytest.mark.xdist_group("gdb")

HOST = CHECKOUT / "tests" / "support" / "gdb_host.py"
# The programs whose questions to the target differ most.
SOME = ("nested", "two_initial", "extra_pthread", "task_tree")
CORES = sample([(found, name) for found in NAMES for name in (ALL_PROGRAMS if FULL else SOME)])
LIVE = sample([(found, name) for found in NAMES for name in ((*PROGRAMS, "task_tree", "icvs") if FULL else SOME)])


def compared(name: str, program: Stopped | Running, *opening: str, cwd: Path) -> Any:
    """Return the differences between gdb's answers and the truth, and all answers."""
    question = {
        "executable": str(program.executable),
        "truth": program.truth,
        "program": program.program,
        "compiler": program.compiler,
        "mode": program.mode,
        "runtime": program.runtime,
    }
    environment = {"OMPD_TEST_QUESTION": json.dumps(question)}
    told = batch(gdb(name), [*opening, f"source {HOST}"], cwd=cwd, environment=environment)
    printed = told[f"source {HOST}"]
    assert "ANSWER" in printed, printed
    return json.loads(printed.rpartition("ANSWER")[2].splitlines()[0])


def facts(answer: Any) -> dict[str, int]:
    return {key: count for key, count in sorted(answer["equal"].items()) if key != "address"}


@pytest.mark.parametrize(("found", "program"), CORES)
@pytest.mark.quick("gdb-16-two_initial")
def test_a_core_in_gdb_tells_what_the_program_wrote(found: str, program: str, tmp_path: Path) -> None:
    core = stopped(program, compiler=ALL_PROGRAMS[program].compilers[0])
    answer = compared(found, core, *open_core(core.executable, core.core), cwd=tmp_path)
    assert answer["differences"] == []
    assert facts(answer) == expected(program, "debug")
    with ompd.open_core(core.core) as session:
        for command, ours in answer["answers"].items():
            alone = json.loads(format_answer(command, getattr(session, f"ask_{command}")()))
            for one in (alone, ours):  # layouts that other questions have loaded
                for runtime in one["runtimes"]:
                    del runtime["layouts"]
            assert ours == alone


@pytest.mark.parametrize(("found", "program"), LIVE)
@pytest.mark.quick("gdb-extra_pthread")
def test_a_live_program_in_gdb_tells_what_it_wrote(found: str, program: str, tmp_path: Path) -> None:
    with running(program, compiler=ALL_PROGRAMS[program].compilers[0], folder=tmp_path) as live:
        answer = compared(found, live, f"attach {live.pid}", cwd=tmp_path)
        assert answer["differences"] == []
        assert facts(answer) == expected(program, "debug")
        assert answer["answers"]["threads"]["target"]["kind"] == "gdb"


@pytest.mark.parametrize("runtime", [name for name in ("libgomp", "libomp-19") if name in RUNTIMES])
@pytest.mark.quick("libgomp")
def test_stripped_runtimes_are_read_in_gdb(runtime: str, tmp_path: Path) -> None:
    compiler = "gcc" if runtime == "libgomp" else "clang"
    with running("nested", compiler=compiler, mode="neither", runtime=runtime, folder=tmp_path) as live:
        answer = compared("gdb", live, f"attach {live.pid}", cwd=tmp_path)
        assert answer["differences"] == [] and answer["equal"]["team_size"] > 4


@each_gdb()
def test_each_stop_has_its_own_answer(found: str) -> None:
    program = build_regions() / "regions"
    again = "ompd parallel"
    told = replies(
        *(
            open_program(program),
            "set environment OMP_DEBUG enabled",
            f"break regions.c:{line_with('return omp_get_num')}",
        ),
        *("run", again, again, "continue", again, "omp threads", "info threads", "kill", again),
        name=found,
    )
    first, second, third, gone = told.all(again)
    assert first == second and "   2 threads   " in first and "   3 threads   " in third
    # gdb marks the selected thread by a star.
    numbers = re.findall(r"^[* ] (\d+) .*\bLWP (\d+)\b", told["info threads"], re.MULTILINE)
    assert len(numbers) >= 4
    for number, native in numbers:
        if f" {native} " in told["omp threads"]:
            assert re.search(rf"  {number} +{native} ", told["omp threads"])
    assert gone == "ompd: there is no process\nompd: run the program, attach to it, or load a core file\n"


@each_gdb()
def test_what_a_user_changes_is_seen(found: str) -> None:
    program = build_regions() / "regions"
    told = replies(
        *(open_program(program), "break together", "run", "up", "omp stack --thread 0 --locals", "set var sum = 12.5"),
        *("omp stack  --thread 0 --locals",),
        name=found,
    )
    assert "12.5" not in told["omp stack --thread 0 --locals"]
    assert re.search(r"\bsum\b.*12\.5", told["omp stack  --thread 0 --locals"])


@each_gdb()
def test_two_inferiors_are_told_apart(found: str) -> None:
    # gdb itself crashes if a second inferior shares the connection of a core file.
    core = stopped("hang")
    told = replies(
        *open_core(core.executable, core.core),
        *("omp threads", "add-inferior -no-connection", "inferior 2", "omp  threads"),
        *(open_program(build_regions() / "regions"), "break together", "run", "omp   threads"),
        *("inferior 1", "omp    threads"),
        name=found,
    )
    assert "   hang   " in told["omp threads"] and told["omp threads"] == told["omp    threads"]
    assert told["omp  threads"].startswith("ompd: there is no process\n")
    assert "   regions   " in told["omp   threads"]


@each_gdb()
def test_a_running_process_has_its_words(found: str) -> None:
    told = replies("set non-stop on", "file /bin/sleep", "run 60 &", "omp threads", "interrupt -a", "kill", name=found)
    assert re.fullmatch(
        r"ompd: process \d+ is running\nompd: stop all of it first: interrupt -a\n", told["omp threads"]
    )


@each_gdb()
def test_the_thread_that_failed_is_told(found: str, tmp_path: Path) -> None:
    source = tmp_path / "fails.c"
    source.write_text("int *at;\nint main(void) {\n#pragma omp parallel num_threads(2)\n    *at = 1;\n}\n")
    program = tmp_path / "fails"
    subprocess.run([str(require("gcc")), "-g", "-fopenmp", str(source), "-o", str(program)], check=True)
    told = replies(open_program(program), "run", "omp threads --json", "omp threads", name=found)
    answer = json.loads(told["omp threads --json"])
    failed = [row for row in answer["threads"] if row["failed"]]
    assert answer["target"]["signal_name"] == "SIGSEGV" and "SIGSEGV" in told["omp threads"].splitlines()[0]
    assert failed and all((row["si_code"], row["si_addr"]) == (1, "0x0") for row in failed)


def test_a_remote_process_is_refused_in_words(tmp_path: Path) -> None:
    server = deb_folder("gdbserver") / "usr" / "bin" / "gdbserver"
    program = build_regions() / "regions"
    told = batch(
        gdb(),
        [LOAD, f"target remote | {shlex.quote(str(server))} - {shlex.quote(str(program))}", "omp threads", "kill"],
        cwd=tmp_path,
    )
    assert re.fullmatch(
        r"ompd: gdb reaches process \d+ by its target 'remote', and ompd inspects processes of this machine and core"
        r" files\nompd: on the machine of the process use `ompd PID`, or write a core in gdb with generate-core-file\n",
        told["omp threads"],
    )


def test_a_replay_is_what_gdb_shows(tmp_path: Path) -> None:
    # `record` keeps the changes of each instruction, so that going back changes memory.
    source, program = tmp_path / "counts.c", tmp_path / "counts"
    source.write_text(
        "#include <omp.h>\nstatic int counted;\nint main(void) {\n#pragma omp parallel num_threads(1)\n"
        "    {\n    counted = 1;\n    counted = 2;\n    counted = 3;\n    }\n    return counted;\n}\n"
    )
    subprocess.run([str(require("gcc")), "-g", "-fopenmp", str(source), "-o", str(program)], check=True)
    told = replies(
        *(open_program(program), "break 6", "run", "record full", "next", "next", "omp var counted", "reverse-next"),
        "omp  var counted",
    )
    assert re.search(r"^0/1 .* 2$", told["omp var counted"], re.MULTILINE)
    assert re.search(r"^0/1 .* 1$", told["omp  var counted"], re.MULTILINE)


@each_gdb()
def test_a_script_in_gdb_has_a_session(found: str, tmp_path: Path) -> None:
    debugger = gdb(found)
    script = CHECKOUT / "examples" / "in_gdb.py"
    # gdb's Python does not see the virtual environment.
    packages = f"python import sys; sys.path.append({str(Path(click.__file__).parents[1])!r})"
    words = ["-nx", "-batch", "-ex", packages, "-ex", "python function = 'together'", "-x", str(script)]
    done = subprocess.run(
        [*debugger.command, *words, str(build_regions() / "regions")],
        env=dict(debugger.environment), cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if re.fullmatch(r"(\d|None) .*", line)]
    assert ["0", "2", "together"] in rows and any(row[:2] == ["1", "2"] for row in rows), done


def test_outside_of_gdb_there_is_no_such_session() -> None:
    with pytest.raises(Unsupported, match="is for gdb's own Python"):
        ompd.from_gdb()
