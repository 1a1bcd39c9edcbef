"""The commands in real LLDBs print what the shell prints, in any state of the debugger.

Each test has one run of a debugger, or shares it with others, since the start takes most of the time.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import ompd
from ompd.commands.main import cli
from ompd.commands.table import COMMANDS
from ompd.render.json import format_answer
from ompd.session import Session
from tests.support import FULL, require, stopped
from tests.support.lldb import (
    LOAD,
    VERSIONS,
    batch,
    build_regions,
    lldb,
    target_create,
    without_origin_of_signals,
)
from tests.support.lldb_replies import (
    DEBUG,
    INNER,
    LOOKING,
    WORDS,
    Replies,
    create_live,
    replies,
    stop_at,
)
from tests.support.products import each_version

pytestmark = pytest.mark.xdist_group("lldb")
every_version = each_version()

SCRIPT = Path(ompd.__file__).with_name("lldb_script.py")
OPTIONS = ("", "--all", "-v", "--json")
NO_PROCESS = "error: ompd: there is no process\nompd: run the program, attach to it, or load a core file\n"


TOGETHER = stop_at("return omp_get_num_threads")


def create_core(name: str) -> str:
    core = stopped(name)
    return target_create(core.executable, core.core)


@cache
def of_a_worker() -> int:
    """Return LLDB's number of a team's thread that LLDB does not select by itself.

    LLDB counts the threads of a core from 1, in the kernel's order, which may be any.
    """
    core = stopped("hang")
    team = [t["native_thread_id"] for t in core.truth["threads"] if t["role"] == "team" and t["thread_num"] > 0]
    with Session.open_core(core.core) as session:
        return list(session.process.threads.ids()).index(team[0]) + 1


@cache
def of_hang(version: int) -> Replies:
    """Return the replies to all commands of one run on a core."""
    team = [f"ompd thread {n}" for n in range(4)]
    return replies(
        version,
        *(create_core("hang"), "thread list", "ompd threads --json", "ompd threads --all"),
        *(f"thread select {of_a_worker()}", "frame select 4", "frame info", *LOOKING, "frame info", "thread info"),
        *(part for command in team for part in (command, "thread info")),
        *WRONG,
        *("ompd threads --bogus", "help ompd", *(f"help ompd {c.name}" for c in COMMANDS), "ompd icvs --help"),
    )


# Wrong commands, and their errors.
WRONG = {
    "ompd thread 4": "ompd: the team has 4 threads, 0 to 3, and no 4",
    "ompd thread two": "ompd: 'two' is not an OpenMP thread number",
    "ompd thread 1 2": "ompd: thread takes the OpenMP number of a thread\nompd: ompd thread N; ompd threads shows them",
    "ompd thread --level 7 0": "ompd: thread N is in no region of level 7",
    "ompd thread --level 0 0": "ompd: regions have levels from 1 on",
    "ompd auto maybe": "ompd: expected on or off\nompd: ompd auto on",
}


def numberless(text: str) -> str:
    return re.sub(r"(thread|process) \d+", r"\1 N", text)


@every_version
def test_text_and_json_are_those_of_the_shell(version: int) -> None:
    core = stopped("task_tree").core
    asked = [(c.name, option) for option in OPTIONS for c in COMMANDS if option != "--all" or c.folds]
    told = replies(
        version, create_core("task_tree"), *(f"ompd {WORDS[name]} {option}".rstrip() for name, option in asked)
    )
    for name, option in asked:
        printed = told[f"ompd {WORDS[name]} {option}".rstrip()]
        words = [name, str(core), *WORDS[name].split()[1:], *option.split()]
        expected = CliRunner().invoke(cli, words).output
        if option == "--json":
            there, here = json.loads(printed), json.loads(expected)
            for one, other in zip(there["runtimes"], here["runtimes"], strict=True):
                # In LLDB earlier commands have used layouts, too.
                assert one["layouts"].items() >= other["layouts"].items()
                one["layouts"] = other["layouts"]
            assert without_lldb(there, version) == without_lldb(here, version)
        elif name in ("threads", "var"):
            assert any("  LLDB  " in line for line in printed.splitlines()[2:4])
        else:
            # LLDB before 17 does not know the core's file, which is in the first line, nor the origin of a signal.
            first = 0 if version >= 17 else 1
            if version < 17:
                printed = re.sub(r"\n+unknown: (?:failed|si_code): .*$", "", printed, flags=re.MULTILINE)
            if name == "why":
                expected = expected.replace(
                    f" {shlex.quote(str(core))}", ""
                )  # the suggested command needs no target in LLDB
            assert bare(printed)[first:] == bare(expected)[first:]


@every_version
@pytest.mark.quick()
def test_stacks_are_those_of_the_shell(version: int) -> None:
    core = stopped("task_tree", compiler="clang")
    team = [t["native_thread_id"] for t in core.truth["threads"] if t["role"] == "team"]
    asked = ("--raw", "--fold", "--thread 1", f"--thread {team[-1]}", f"--raw --thread {team[0]} --json", "--thread 99")
    create = target_create(core.executable, core.core)
    told = replies(version, create, *(f"ompd stack {words}" for words in asked), "ompd stack --thread one")
    for words in asked:
        printed = told[f"ompd stack {words}"]
        shell = CliRunner().invoke(cli, ["stack", str(core.core), *words.split()])
        if "--json" in words:
            answer = without_lldb(json.loads(printed), version)
            assert answer == without_lldb(json.loads(shell.stdout), version) and len(answer["stack"]) == 1
        elif shell.exit_code:
            assert printed.startswith("error: ompd: ")
            assert printed.partition(": no thread with")[2] == shell.stderr.partition(": no thread with")[2] != ""
        else:
            first = 0 if version >= 17 else 1
            assert bare(printed)[first:] == bare(shell.stdout)[first:] and len(bare(printed)) > 2
    assert "one" in told["ompd stack --thread one"] and told["ompd stack --thread one"].startswith("error: ")


def bare(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().splitlines()]


def without_lldb(answer: dict[str, Any], version: int) -> dict[str, Any]:
    answer["target"] = {k: v for k, v in answer["target"].items() if k not in ("kind", "command", "file")}
    for row in (*answer.get("threads", ()), *answer.get("var", ())):
        row.pop("lldb_index", None)
    return without_origin_of_signals(answer, version)


@every_version
def test_threads_have_the_numbers_of_lldb(version: int) -> None:
    told = of_hang(version)
    indices = {int(tid, 0): int(n) for n, tid in re.findall(r"thread #(\d+): tid = (\w+)", told["thread list"])}
    rows = json.loads(told["ompd threads --json"])["threads"]
    assert {row["native_thread_id"]: row["lldb_index"] for row in rows} == indices
    for row in rows:
        line = next(x for x in told["ompd threads --all"].splitlines() if f"  {row['native_thread_id']} " in x)
        assert f"  {row['lldb_index']} " in line


@every_version
@pytest.mark.quick()
def test_looking_keeps_the_selection(version: int) -> None:
    told = of_hang(version)
    # LLDB 14 may print the place of a stop late, beside an answer.
    before, after = (
        [line for line in text.splitlines() if line.startswith("frame #")] for text in told.all("frame info")
    )
    assert before == after and len(before) == 1 and before[0].startswith("frame #4: ")
    assert told.all("thread info")[0].startswith(f"thread #{of_a_worker()}: ")


@every_version
@pytest.mark.quick()
def test_a_thread_is_selected_by_its_number(version: int) -> None:
    told = of_hang(version)
    team = {t["thread_num"]: t["native_thread_id"] for t in stopped("hang").truth["threads"] if t["role"] == "team"}
    for number, selected in zip(range(4), told.all("thread info")[1:], strict=True):
        assert f"OpenMP thread {number}/4 at level 1 is LLDB's thread #" in told[f"ompd thread {number}"]
        assert int(re.findall(r"tid = (\w+)", selected)[0], 0) == team[number]


@every_version
def test_wrong_words_are_answered(version: int) -> None:
    told = of_hang(version)
    assert {command: numberless(told[command]) for command in WRONG} == {
        command: f"error: {words}\n" for command, words in WRONG.items()
    }
    assert re.search(r"error: (unknown or ambiguous option|.*--bogus)", told["ompd threads --bogus"])


@every_version
def test_help_is_of_the_table(version: int) -> None:
    told = of_hang(version)
    for command in COMMANDS:
        assert re.search(rf"{command.name} +-- {re.escape(command.summary[:30])}", told["help ompd"])
        page = " ".join(told[f"help ompd {command.name}"].split())
        assert command.help[:60] in page and "--json" in page
    assert "--changed" in told["ompd icvs --help"] and "thread-num-var" in told["ompd icvs --help"]


# Live programs


@every_version
def test_a_thread_of_an_enclosing_team_is_selected(version: int) -> None:
    told = replies(version, create_live(), DEBUG, INNER, "run", "ompd threads --json", "ompd thread 1",
                   "ompd thread --level 1 0", "ompd thread 1 --level 1")  # fmt: skip
    rows = json.loads(told["ompd threads --json"])["threads"]
    inner, outer = ({r["thread_num"]: r["lldb_index"] for r in rows if r["level"] == level} for level in (2, 1))
    assert f"OpenMP thread 1/2 at level 2 is LLDB's thread #{inner[1]}" in told["ompd thread 1"]
    assert f"OpenMP thread 0/2 at level 1 is LLDB's thread #{outer[0]}" in told["ompd thread --level 1 0"]
    # Now thread 0 of the outer team is selected. Thread 1 of the outer team is thread 0 of the inner team.
    assert f"OpenMP thread 1/2 at level 1 is LLDB's thread #{inner[0]}" in told["ompd thread 1 --level 1"]


@pytest.mark.parametrize(
    ("pie", "version"),
    [(pie, version) for pie in (True, False) for version in VERSIONS if FULL or version == (14 if pie else 22)],
)
@pytest.mark.quick()
def test_a_line_at_each_stop_of_every_run(version: int, pie: bool) -> None:
    told = replies(
        version,
        *("ompd auto on", create_live(pie), DEBUG, TOGETHER, "run", "continue", "kill", "run", "ompd auto off"),
        *("continue", "ompd auto on", "continue", "kill", "breakpoint list"),
    )
    first, second, third, silent, again = told.all("run", "continue")
    for text in (first, third):
        assert text.count("OpenMP:") == 2 and "OpenMP: libiomp5.so has begun\n" in text
        assert re.search("OpenMP: 2 threads in 1 region: .*1 work_parallel.*; this is thread 0/2 at level 1\n", text)
    assert second.count("OpenMP:") == 1 and "OpenMP: 3 threads in 1 region: 2 wait_barrier" in second
    assert "OpenMP" not in silent
    assert again.count("OpenMP:") == 1 and "OpenMP: 4 threads in 1 region: 3 wait_barrier" in again
    # The breakpoint is at the symbol's address. By name, LLDB would put it behind a function's beginning.
    assert "ompd_dll_locations_valid" in told["breakpoint list"]
    assert "ompd_dll_locations_valid +" not in told["breakpoint list"]


@every_version
@pytest.mark.quick()
def test_a_runtime_that_is_loaded_later_is_seen(version: int) -> None:
    folder = build_regions()
    told = replies(
        version,
        *(target_create(folder / "opener"), DEBUG, "ompd auto on", "breakpoint set -n main", "run"),
        *("ompd status", TOGETHER, "continue", "ompd status"),
        cwd=folder,
    )
    before, after = told.all("ompd status")
    assert "runtime   none is loaded\n" in before
    assert re.search(r"runtime   libiomp5 \S+, keeps states\n", after)
    assert "OpenMP: libiomp5.so has begun\n" in told["continue"]
    assert "OpenMP: 3 threads in 1 region" in told["continue"]
    assert "OpenMP: no OpenMP runtime among its" in told["run"]


@every_version
@pytest.mark.quick()
def test_two_targets_are_told_apart(version: int) -> None:
    told = replies(
        version,
        *(create_live(), DEBUG, TOGETHER, "run", create_core("barrier"), "ompd threads --json", "target select 0"),
        *("ompd threads --json", "continue", "ompd threads --json", "target select 1", "ompd threads --json"),
    )
    of_core, of_two, of_three, of_core_again = (json.loads(t)["threads"] for t in told.all("ompd threads --json"))
    assert of_core == of_core_again
    assert {r["native_thread_id"] for r in of_core} == {
        t["native_thread_id"] for t in stopped("barrier").truth["threads"]
    }
    assert {row["team_size"] for row in of_two if row["parallel"]} == {2}
    assert {row["team_size"] for row in of_three if row["parallel"]} == {3}


@every_version
def test_each_situation_has_its_words(version: int, tmp_path: Path) -> None:
    small = tmp_path / "small"
    subprocess.run(
        [require("gcc"), "-m32", "-nostdlib", "-static", "-x", "assembler", "-", "-o", small],
        input=".globl _start\n_start: int3\n",
        text=True,
        check=True,
    )
    told = replies(
        version,
        *("ompd threads", "ompd auto on", "ompd auto off", create_live(), "ompd threads", "ompd thread 1"),
        *("run", "ompd threads", "breakpoint set -n main", "run", "process detach", "ompd threads"),
        *(target_create(small), "run", "ompd threads", "kill"),
        *("target create /bin/true", "breakpoint set -n __libc_start_main", "run", "ompd threads", "ompd runtimes"),
    )
    no_target, not_run, ended, detached, small_one, without = map(numberless, told.all("ompd threads"))
    assert no_target == not_run == told["ompd thread 1"] == NO_PROCESS
    assert ended.endswith("error: ompd: process N has ended\nompd: run it again\n")
    # LLDB's view of a detached process varies, and depends on how fast the process ends.
    gone = "(LLDB (has detached|does not hold) .*\nompd: attach to it again|process N has ended\nompd: run it again)\n"
    # LLDB 14 may report the detachment at any time.
    assert re.search(f"error: ompd: {gone}", re.sub(r"Process \w+ detached\n", "", detached))
    assert "error: ompd: process N: no OpenMP runtime among its" in small_one
    assert "error: ompd: process N: no OpenMP runtime among its" in without
    assert "no OpenMP runtime among the" in told["ompd runtimes"]


@every_version
def test_a_core_without_its_program_has_its_words(version: int, tmp_path: Path) -> None:
    # LLDB finds libraries through the program's memory, and finds that memory through the program's file.
    core = stopped("hang")
    name = str(core.executable).encode()
    lost = tmp_path / "core"
    lost.write_bytes(core.core.read_bytes().replace(name, name.replace(b"/programs/", b"/progr-ms/")))
    told = replies(version, f'target create --core "{lost}"', "ompd threads")
    assert re.fullmatch(
        "error: ompd: LLDB has found no file of .*\nompd: name the program: target create PROGRAM --core CORE\n",
        told["ompd threads"],
    )


# Failures that must not happen


@every_version
def test_a_fault_of_ours_is_an_error_and_no_more(version: int) -> None:
    break_it = "script import ompd.frontends.commands; ompd.frontends.commands.format_reply = None"
    told = replies(version, create_core("hang"), break_it, "ompd threads", "ompd threads --debug", "thread info")
    assert told["ompd threads"] == (
        "error: ompd: internal error: TypeError: 'NoneType' object is not callable\n"
        "ompd: --debug shows where; please report it\n"
    )
    assert "Traceback" in told["ompd threads --debug"]
    assert told["thread info"].startswith("thread #1")


@every_version
def test_loading_says_nothing_and_neither_does_loading_again(version: int) -> None:
    told = replies(version, LOAD, "breakpoint list", create_live(), "breakpoint list")
    assert told.all(LOAD) == ["", ""]
    assert told.all("breakpoint list") == 2 * ["No breakpoints currently set.\n"]


@every_version
def test_what_is_missing_is_named(version: int, tmp_path: Path) -> None:
    look = "script import importlib.util; print([n for n in ('click', 'rich') if importlib.util.find_spec(n) is None])"
    shutil.copytree(SCRIPT.parent, tmp_path / "ompd")
    load = f'command script import "{tmp_path / "ompd" / "lldb_script.py"}"'
    found = lldb(version)  # an activated environment would also be used by LLDB's Python
    system = replace(found, environment={**found.environment, "PATH": "/usr/bin:/bin"})
    told = Replies(batch(system, [look, load, "version"], cwd=tmp_path))
    if "['click', 'rich']" not in told[look]:
        pytest.skip("LLDB's own Python has click and rich")
    assert "ompd needs the Python packages click and rich, and they are not in" in told[load]
    assert "`ompd lldb-init` names" in told[load]
    assert f"lldb version {version}." in told["version"]


@every_version
def test_the_line_of_lldb_init_loads_it(version: int, tmp_path: Path) -> None:
    ompd_command = str(Path(sys.executable).with_name("ompd"))
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    settings = tmp_path / ".lldbinit"
    settings.write_text("settings set prompt '(debug) '\ncommand script import /old/ompd/lldb_script.py\n")

    def run(*arguments: str) -> str:
        return subprocess.run(
            [ompd_command, "lldb-init", *arguments], env=environment, capture_output=True, text=True, check=True
        ).stdout

    assert run() == LOAD + "\n"
    assert run("--install") == f"{settings}: added: {LOAD}\n"
    assert run("--install") == f"{settings}: has it already: {LOAD}\n"
    assert settings.read_text() == f"settings set prompt '(debug) '\n{LOAD}\n"
    found = lldb(version)
    done = subprocess.run(
        [found.command, "-b", "-o", "ompd status"],
        env={**found.environment, "HOME": str(tmp_path)},
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"ompd      {ompd.__version__}, {SCRIPT}" in done.stdout


@every_version
@pytest.mark.quick()
def test_a_snapshot_of_a_core_and_of_a_process(version: int, tmp_path: Path) -> None:
    core = stopped("nested")
    told = replies(
        version,
        *(create_core("nested"), "ompd snapshot of.core", "ompd snapshot", "ompd snapshot /nowhere/file"),
        *(create_live(), TOGETHER, "run", "ompd snapshot of.process", "ompd threads --json", "kill"),
        cwd=tmp_path,
    )
    assert re.fullmatch(
        r"of\.core: \d+\.\d MB, 13 threads; .* of the files of \d modules\n+", told["ompd snapshot of.core"]
    )
    assert "snapshot takes the name of the file to write" in told["ompd snapshot"]
    assert "cannot be written" in told["ompd snapshot /nowhere/file"]
    with ompd.open_core(tmp_path / "of.core", sysroot="/nonexistent") as small, ompd.open_core(core.core) as whole:
        kept = without_origin_of_signals(json.loads(format_answer("threads", small.ask_threads())), version)
        answer = without_origin_of_signals(json.loads(format_answer("threads", whole.ask_threads())), version)
        assert kept["threads"] == answer["threads"]
        assert small.ask_tasks().rows == whole.ask_tasks().rows
    lived = json.loads(told["ompd threads --json"])
    with ompd.open_core(tmp_path / "of.process", sysroot="/nonexistent") as small:
        rows = small.ask_threads().rows
    numbers = {(row["native_thread_id"], row["thread_num"], row["state"]) for row in lived["threads"]}
    assert {(row.native_thread_id, row.thread_num, row.state) for row in rows} == numbers and len(numbers) > 1


@every_version
def test_lldb_opens_a_snapshot(version: int, tmp_path: Path) -> None:
    core = stopped("nested")
    with ompd.open_core(core.core) as session:
        session.snapshot(tmp_path / "snapshot")
    told = [
        Replies(batch(lldb(version), [target_create(core.executable, path), "bt all"], cwd=tmp_path))["bt all"]
        for path in (core.core, tmp_path / "snapshot")
    ]
    assert told[0] == told[1] and told[0].count("thread #") == 13
