"""Programs under LLDB, as a core file and alive, in every version of LLDB: the same facts as from the core alone."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ompd
from ompd.render.json import format_answer
from tests.support import FULL, PROGRAMS, STACK_PROGRAMS, require, running, stopped
from tests.support.facts import expected
from tests.support.lldb import VERSIONS, LldbHost, lldb_hosts, without_origin_of_signals
from tests.support.lldb_replies import replies
from tests.support.products import each_version, sample
from tests.support.programs import ALL_PROGRAMS

pytestmark = pytest.mark.xdist_group("lldb")

# The programs whose questions to the target differ most. The newest LLDB gets more.
SOME = ("nested", "hang", "two_initial", "not_initialised", "extra_pthread", "task_tree", "icvs")
FEW = SOME if FULL else ("nested", "two_initial", "task_tree")
MORE = [name for name in ALL_PROGRAMS if FULL or name in (*SOME, *STACK_PROGRAMS, "nest_lock", "ordered")]
CORES = sample([(22, name) for name in MORE] + [(version, name) for version in VERSIONS[1:] for name in FEW])
LIVE = sample(
    [(22, name) for name in ((*PROGRAMS, "task_tree", "icvs") if FULL else SOME)]
    + [(version, name) for version in VERSIONS[1:] for name in FEW]
)


@pytest.fixture(scope="module")
def host() -> Iterator[Callable[[int], LldbHost]]:
    with lldb_hosts() as of:
        yield of


def told(answer: Any) -> dict[str, int]:
    return {key: count for key, count in sorted(answer["equal"].items()) if key != "address"}


def answer_of_core(core: Path, command: str) -> Any:
    with ompd.open_core(core) as session:
        return json.loads(format_answer(command, getattr(session, f"ask_{command}")()))


def without_target(answer: dict[str, Any]) -> dict[str, Any]:
    # LLDB has the whole command line. The core's own notes have 80 bytes of it.
    target = {key: value for key, value in answer["target"].items() if key not in ("kind", "command")}
    return {**answer, "target": target}


def numberless(text: str) -> str:
    return re.sub(r"process \d+", "process N", text)


@pytest.mark.parametrize(("version", "program"), CORES)
@pytest.mark.quick("22-cplusplus")
def test_a_core_in_lldb_tells_what_the_program_wrote(
    version: int, program: str, host: Callable[[int], LldbHost]
) -> None:
    compiler = ALL_PROGRAMS[program].compilers[0]
    core = stopped(program, compiler=compiler)
    answer = host(version).compare_core(core)
    assert f" {version}." in answer["version"]
    assert answer["differences"] == []
    assert told(answer) == expected(program, "debug")
    for command, ours in answer["answers"].items():
        alone = answer_of_core(core.core, command)
        if version < 17:  # LLDB before 17 does not know its file
            alone["target"]["file"] = ours["target"]["file"] = ""
        assert without_origin_of_signals(without_target(ours), version) == without_origin_of_signals(
            without_target(alone), version
        )


@pytest.mark.parametrize(("version", "program"), LIVE)
@pytest.mark.quick("22-not_initialised")
def test_a_live_program_in_lldb_tells_what_it_wrote(
    version: int, program: str, host: Callable[[int], LldbHost], tmp_path: Path
) -> None:
    with running(program, compiler=ALL_PROGRAMS[program].compilers[0], folder=tmp_path) as live:
        answer = host(version).compare_live(live)
        assert answer["differences"] == []
        assert told(answer) == expected(program, "debug")
        assert answer["answers"]["threads"]["target"]["kind"] == "lldb"


@each_version()
def test_every_state_of_a_process_has_its_words(version: int, host: Callable[[int], LldbHost]) -> None:
    executable = stopped("hang").executable
    said = host(version).ask("situations", executable=str(executable), function="simulate")
    assert {key: numberless(text) for key, text in said.items()} == {
        "no process": "TargetGone: there is no process; run the program, attach to it, or load a core file",
        "stopped": "no error",
        "has run": "StaleHandle: process N has run since this session was made",
        "handle": "StaleHandle: process N has run since this session was made",
        "closed": "TargetGone: the session on process N was closed",
        "running": "TargetError: process N is running; stop it first: process interrupt",
        "killed": "TargetGone: process N has ended; run it again",
        "again": "no error",
        "the first, again": "TargetGone: the session on process N was closed",
    }
    gone = host(version).ask("detached", executable=str(executable))["said"]
    # LLDB may report the end of a process that it has let go and no longer sees.
    assert numberless(gone) in (
        "TargetGone: LLDB has detached from the process; attach to it again",
        "TargetGone: process N has ended; run it again",
    )


@each_version()
def test_a_program_without_openmp_is_said_to_be_one(version: int, host: Callable[[int], LldbHost]) -> None:
    said = host(version).ask("at_entry", executable="/bin/true")["said"]
    assert re.sub(r"\d modules", "N modules", numberless(said)) == (
        "NoAnswer: process N: no OpenMP runtime among its N modules;"
        " the program was not linked with one, or ended before it was loaded"
    )


@each_version()
def test_the_wrong_program_of_a_core_is_said_to_be_one(version: int) -> None:
    opening = f'target create /bin/true --core "{stopped("hang").core}"'
    said = replies(version, opening, "ompd threads")["ompd threads"]
    assert "LLDB may have another program than the one that ran: target create FILE --core CORE" in said


@each_version()
def test_a_32_bit_process_is_asked(version: int, host: Callable[[int], LldbHost], tmp_path: Path) -> None:
    source = ".globl _start\n_start: int3\n"
    program = tmp_path / "small"
    subprocess.run(
        [require("gcc"), "-m32", "-nostdlib", "-static", "-x", "assembler", "-", "-o", program],
        input=source,
        text=True,
        check=True,
    )
    said = host(version).ask("at_entry", executable=str(program))["said"]
    assert numberless(said) == (
        "NoAnswer: process N: no OpenMP runtime among its 1 modules;"
        " the program was not linked with one, or ended before it was loaded"
    )
