"""The main job, shown (`make demo`): a real program hangs, its core is taken, `ompd` says why, and that is true."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from ompd.commands.table import COMMANDS
from tests.support import clean_environment, require
from tests.support.build import PROGRAMS
from tests.support.runs import ENVIRONMENT, cores_allowed, kernel_core_obstacle

README = (Path(__file__).parents[1] / "README.md").read_text()
README_EXAMPLES = re.findall(r"^\$ ompd .*?(?=\n\n\$|\n```)", README, re.MULTILINE | re.DOTALL)
SOURCE = PROGRAMS / "hang.c"
OMPD = Path(sys.executable).with_name("ompd")


def line_with(text: str) -> int:
    return next(number for number, line in enumerate(SOURCE.read_text().splitlines(), 1) if text in line)


def build(folder: Path) -> Path:
    program = folder / "hang"
    subprocess.run(["gcc", "-g", "-fopenmp", str(SOURCE), "-o", str(program), "-lm"], check=True)
    return program


def wait_until_stuck(process: subprocess.Popen[bytes]) -> None:
    # Three of four threads sleep in the barrier, the fourth for the lock: on another word. Threads that begin may look
    # like that, too, but not for long.
    deadline = time.monotonic() + 20
    since = 0.0
    while time.monotonic() < deadline and process.poll() is None:
        tasks = list(Path(f"/proc/{process.pid}/task").iterdir())
        calls = [(task / "syscall").read_text().split()[:2] for task in tasks]
        words = Counter(call[1] for call in calls if call[0] == "202")  # futex
        if sorted(words.values()) != [1, 3]:
            since = 0.0
        elif not since:
            since = time.monotonic()
        elif time.monotonic() - since > 0.1:
            return
        time.sleep(0.01)
    pytest.fail(f"the program did not hang: status {process.poll()}")


def take_core(program: Path, folder: Path) -> Path:
    environment = {**clean_environment(), **ENVIRONMENT}
    with cores_allowed():
        process = subprocess.Popen([str(program)], cwd=folder, env=environment)
    try:
        wait_until_stuck(process)
        if kernel_core_obstacle() is None:
            process.send_signal(signal.SIGABRT)
            process.wait()
            return next(folder.glob("core*"))
        require("gdb")
        command = ["gdb", "-nx", "-batch", "-p", str(process.pid), "-ex", "generate-core-file core"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        return folder / "core"
    finally:
        process.kill()
        process.wait()


def alike(text: str) -> list[str]:
    # Without what differs from run to run: ids, addresses, and the width of columns that they make.
    text = re.sub(r"0x[0-9a-f]+", "ADDRESS", text)
    text = re.sub(r"\b(?<!core\.)\d{3,}\b", "ID", text)
    return [re.sub(r" {2,}", "  ", line).rstrip() for line in text.strip().splitlines()]


def show(command: str, core: Path, *options: str) -> str:
    run = subprocess.run(
        [str(OMPD), command, core.name, *options],
        cwd=core.parent,
        capture_output=True,
        text=True,
        env=clean_environment(),
        check=True,
    )
    return f"$ {' '.join(('ompd', command, core.name, *options))}\n{run.stdout}"


def ask(command: str, core: Path) -> dict[str, object]:
    run = subprocess.run(
        [str(OMPD), command, "--json", str(core)], capture_output=True, check=True, env=clean_environment()
    )
    answer = json.loads(run.stdout)
    assert answer["complete"] and answer["warnings"] == []
    return answer


def test_a_hung_program_tells_why_it_hangs(tmp_path: Path) -> None:
    require("gcc")
    core = take_core(build(tmp_path), tmp_path)
    core = core.rename(tmp_path / "core.1234")
    print(f"\n{SOURCE.name} was built with gcc -g -fopenmp, hangs, and left a core.\n")
    print(show("threads", core))
    print(
        "Look at WAITS FOR: three threads wait in a barrier for the fourth, which waits for a lock.\n"
        f"Nobody is left to release it: line {line_with('lock stays set')} returned without doing so.\n"
    )
    print(show("parallel", core))
    print("Look at the region: it is where the four threads, by their native ids, were sent to work.\n")

    print(show("stack", core, "--fold"))
    print("Look at the thread that waits for the lock: its stack goes on in the one that sent it there, out to main.\n")

    threads = ask("threads", core)["threads"]
    assert isinstance(threads, list) and len(threads) == 4
    lock, barrier = line_with("omp_set_lock(&progress_lock)"), line_with("#pragma omp barrier")
    waiting_for_lock = [t for t in threads if t["where"]["function"] == "report_progress"]
    assert [(t["where"]["line"], t["state"], t["wait"]["kind"]) for t in waiting_for_lock] == [
        (lock, "wait_lock", "lock")
    ]
    others = [t for t in threads if t not in waiting_for_lock]
    assert {(t["where"]["function"], t["where"]["line"], t["wait"]["kind"]) for t in others} == {
        ("simulate", barrier, "barrier")
    }
    assert sorted(t["thread_num"] for t in threads) == [0, 1, 2, 3]

    (region,) = ask("parallel", core)["parallel"]  # type: ignore[misc]
    assert region["function"]["function"] == "simulate"
    assert region["function"]["line"] == line_with("#pragma omp parallel")
    assert (region["level"], region["team_size"], region["enclosing"]) == (1, 4, None)
    assert region["threads"] == [t["native_thread_id"] for t in sorted(threads, key=lambda t: t["thread_num"])]

    stacks = ask("stack", core)["stack"]
    assert isinstance(stacks, list) and len(stacks) == 4
    (stuck,) = (s for s in stacks if s["native_thread_id"] == waiting_for_lock[0]["native_thread_id"])
    written = [(f["function"], f["line"]) for f in stuck["frames"] if f["kind"] == "user"]
    parallel, call = line_with("#pragma omp parallel"), line_with("CALL(simulate())")
    assert written == [
        ("report_progress", lock),
        ("simulate", line_with("CALL(report_progress(change))")),
        ("simulate", parallel),
        ("main", call),
    ]
    # What the README and the help show is what was printed.
    for shown in README_EXAMPLES:
        command, *options = shown.splitlines()[0].split()[2:]
        assert alike(show(command, core, *options[1:])) == alike(shown)
    assert len(README_EXAMPLES) == 2
    for command in COMMANDS:
        if "   hang   " in command.example and command.argument is None:
            printed = show(command.name, core, *command.example_words.split())
            assert alike(printed.partition("\n")[2]) == alike(command.example), command.name
    shutil.rmtree(tmp_path)
