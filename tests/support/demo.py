"""The program of README, help and `make demo`: it hangs, and commands show the core of it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import count
from pathlib import Path

import pytest

from tests.support import clean_environment, require
from tests.support.build import PROGRAMS
from tests.support.runs import ENVIRONMENT, cores_allowed, kernel_core_obstacle

SOURCE = PROGRAMS / "hang.c"
OMPD = Path(sys.executable).with_name("ompd")


def line_with(text: str) -> int:
    return next(number for number, line in enumerate(SOURCE.read_text().splitlines(), 1) if text in line)


def build(folder: Path) -> Path:
    program = folder / "hang"
    subprocess.run(["gcc", "-g", "-fopenmp", str(SOURCE), "-o", str(program), "-lm"], check=True)
    return program


def wait_until_stuck(process: subprocess.Popen[bytes]) -> None:
    # Three of four threads sleep in the barrier; the fourth waits for the lock, on another futex word. Starting threads
    # may look the same, but not for long.
    deadline = time.monotonic() + 100
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
    """Return the lines without ids, addresses and column widths, which differ from run to run."""
    text = re.sub(r"0x[0-9a-f]+", "ADDRESS", text)
    text = re.sub(r"\b(?<!core\.)\d{3,}\b", "ID", text)
    return [re.sub(r" {2,}", "  ", line).rstrip() for line in text.strip().splitlines()]


def show(words: str, folder: Path) -> str:
    """Return the line ``$ ompd WORDS`` and the output of this command in *folder*."""
    run = subprocess.run(
        [str(OMPD), *words.split()],
        cwd=folder,
        capture_output=True,
        text=True,
        env=clean_environment(),
        check=True,
    )
    return f"$ ompd {words}\n{run.stdout}"


def renumbered(text: str) -> str:
    """Return *text* with the thread ids replaced by 1234, 1235 …, and with tables aligned anew."""
    ids = sorted(set(re.findall(r"(?<!core\.)(?<![.:/\dx])\b\d{3,7}\b(?!\.\d)", text)), key=int)
    new = dict(zip(ids, map(str, count(1234)), strict=False))
    text = re.sub(r"(?<!core\.)(?<![.:/\dx])\b\d{3,7}\b(?!\.\d)", lambda found: new[found[0]], text)
    blocks = []
    for block in text.split("\n\n"):
        rows = [re.split(r" {2,}", line) for line in block.splitlines()]
        is_table = re.match(r" *OMP +[A-Z]|  (?:\d+ threads|thread \d+) \(", block)
        if is_table and len({len(row) for row in rows}) == 1:
            widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
            lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
            block = "\n".join(lines) + "\n" * block.endswith("\n")
        blocks.append(block)
    return "\n\n".join(blocks)
