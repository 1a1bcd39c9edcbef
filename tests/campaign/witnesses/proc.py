"""Compare answers with the kernel's record of the threads of a process stopped by SIGSTOP (``/proc/PID/task``).

Such a thread has the state stopped (``T``), and ``wchan`` shows only this stop. But ``syscall`` still shows the system
call that the signal interrupted, with its arguments; the call is repeated when the process goes on. So a futex shows
whether a thread sleeps, on which word, and for which value.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Answer = Mapping[str, Any]
Row = Mapping[str, Any]

_SYS_FUTEX = {"x86_64": 202, "aarch64": 98}
_WAIT, _WAIT_BITSET, _COMMAND = 0, 9, 0x7F  # FUTEX_*; other bits are flags


@dataclass(frozen=True)
class Futex:
    """A wait for a word in memory. The thread sleeps if *word* equals *expected* when the wait begins, also when it is
    repeated.
    """

    address: int
    expected: int
    word: int | None


@dataclass(frozen=True)
class Task:
    """A thread as the kernel sees it; *call* is the number of its system call, None if it is in none."""

    state: str
    name: str
    call: int | None
    futex: Futex | None


def tasks(process_id: int, architecture: str) -> Mapping[int, Task]:
    """Return the threads of a stopped process."""
    found: dict[int, Task] = {}
    root = Path(f"/proc/{process_id}")
    for folder in sorted(root.glob("task/*")):
        try:
            lines = (folder / "status").read_text(errors="replace").splitlines()
            words = (folder / "syscall").read_text().split()
            status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        except OSError:
            continue  # it has ended
        call = int(words[0]) if words and words[0].lstrip("-").isdigit() else -1
        futex = None
        if call == _SYS_FUTEX.get(architecture):
            address, operation, value = (int(word, 16) for word in words[1:4])
            if operation & _COMMAND in (_WAIT, _WAIT_BITSET):
                futex = Futex(address, value & 0xFFFF_FFFF, _word(root, address))
        found[int(folder.name)] = Task(status["State"][0], status["Name"], call if call >= 0 else None, futex)
    return found


def _word(root: Path, address: int) -> int | None:
    try:
        with (root / "mem").open("rb", buffering=0) as memory:
            memory.seek(address)
            return int(struct.unpack("=I", memory.read(4))[0])
    except (OSError, struct.error):
        return None


def broken(process_id: int, answers: Mapping[str, Answer]) -> list[str]:
    """Return where *answers* contradict the kernel's record of the same stopped process."""
    architecture = next(iter(answers.values()))["target"]["architecture"]
    theirs = tasks(process_id, architecture)
    if not theirs or any(task.state not in "TtZX" for task in theirs.values()):
        return []  # it runs, so this is another moment
    found = list(_of_names(theirs, answers))
    for row in answers["threads"]["threads"] if "threads" in answers else ():
        task = theirs.get(row["native_thread_id"])
        if task is not None and row["wait"] is not None:
            found += (f"/proc: thread {row['native_thread_id']}: {text}" for text in _of_wait(task, row))
    return found


def _of_names(theirs: Mapping[int, Task], answers: Mapping[str, Answer]) -> Iterator[str]:
    alive = {thread for thread, task in theirs.items() if task.state not in "ZX"}
    for command, answer in answers.items():
        if command in ("threads", "stack"):
            told = {row["native_thread_id"] for row in answer[command]}
            if told != alive:
                yield f"/proc: {command} has not the threads of the process: {sorted(told ^ alive, key=str)}"
        if answer["target"]["thread_count"] not in (None, len(alive)):
            yield f"/proc: {command} counts {answer['target']['thread_count']} threads of {len(alive)}"


def _of_wait(task: Task, row: Row) -> Iterator[str]:
    how, futex = row["wait"]["how"], task.futex
    if how == "blocked" and futex is None and task.call is None:
        yield "it is blocked, and in no system call"
    # A thread passes a barrier when the generation changes. The futex word also counts tasks, for which a thread may
    # sleep again.
    is_plain = row["wait"]["kind"] != "barrier"
    if how == "blocked" and is_plain and futex is not None and futex.word not in (None, futex.expected):
        yield f"it is blocked on a word that is {futex.word:#x} and no more {futex.expected:#x}"
    if how == "released" and (futex is None or futex.word == futex.expected):
        yield f"it is released, and {'in no futex' if futex is None else 'its futex has the value that it waits with'}"
    if how == "spinning" and futex is not None and futex.word == futex.expected:
        yield f"it is spinning, and asleep until the word at {futex.address:#x} is no more {futex.expected:#x}"
