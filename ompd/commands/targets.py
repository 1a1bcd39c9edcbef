"""Recognises targets: core files, and processes by their numbers, their programs or their names."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from ompd.errors import BadInput

# Matches words that name a core file, existing or not: no command has such a name.
_LIKE_A_FILE = re.compile(r"core([._-].*)?|.*[/.:].*", re.DOTALL)
_NUMBER = re.compile(r"[0-9]+", re.ASCII)
_FOLDER = re.compile(r"/proc/([0-9]+)/?", re.ASCII)
# ELF, with the type ET_EXEC or ET_DYN in either byte order
_PROGRAM = re.compile(rb"\x7fELF.{12}(?:[\x02\x03]\x00|\x00[\x02\x03])", re.DOTALL)
_MOST_LISTED = 20


def process_id_of(target: str) -> int | None:
    """Return the number of the process that *target* names, None if it names a core file or nothing that exists.

    :raises BadInput: if *target* names several processes, or a program that no process runs
    """
    processes = processes_of(target)
    if len(processes) > 1:
        listed = [str(process_id) for process_id in processes[:_MOST_LISTED]]
        more = ", …" if len(processes) > _MOST_LISTED else ""
        every = f"ompd triage {shlex.quote(target)}"
        raise BadInput(
            f"{len(processes)} processes run {target}: {', '.join(listed)}{more}",
            hint=f"name one by its number; ps -fp {','.join(listed)} shows them, {every} asks them all",
        )
    if not processes and _is_program(target):
        raise BadInput(
            f"{target} is a program or shared library, not a core file, and no process runs it",
            hint="start it, or give a core file: ulimit -c unlimited lets the kernel write one when it aborts",
        )
    return processes[0] if processes else None


@cache
def processes_of(target: str) -> tuple[int, ...]:
    """Return the numbers of the processes that *target* names, in order, empty if it names no process.

    Digits are a process, unless a file has that name; ``/proc/1234`` is always a process. The file of a program stands
    for the processes that run it. A word that is no file stands for the processes whose program, or whose first thread,
    has that name; ``ompd`` itself is left out.
    """
    folder = _FOLDER.fullmatch(target)
    if folder is not None:
        return (_number(folder[1]),)
    if os.path.lexists(target):
        return tuple(_running(target)) if _is_program(target) else ()
    if _NUMBER.fullmatch(target):
        return (_number(target),)
    return tuple(_named(target)) if target and not re.search(r"[/:\0]", target) else ()


def _is_program(path: str) -> bool:
    file = Path(path)
    try:
        if not file.is_file():
            return False
        with file.open("rb") as opened:
            return _PROGRAM.match(opened.read(18)) is not None
    except OSError:
        return False


def _running(path: str) -> Iterator[int]:
    # Yield the numbers of the processes that run the program in the file *path*.
    for process_id in _others():
        try:
            if Path(f"/proc/{process_id}/exe").samefile(path):
                yield process_id
        except OSError:
            continue  # the process has ended, or another user has it


def _named(name: str) -> Iterator[int]:
    for process_id in _others():
        if name in _names_of(process_id):
            yield process_id


def _names_of(process_id: int) -> Iterator[str]:
    # Yield the names of the process's program file and of its first thread. The kernel cuts a thread's name after 15
    # bytes.
    folder = Path(f"/proc/{process_id}")
    with suppress(OSError):  # the process has ended, or another user has it
        yield (folder / "exe").readlink().name.removesuffix(" (deleted)")
    with suppress(OSError):
        yield os.fsdecode((folder / "comm").read_bytes().removesuffix(b"\n"))


def _others() -> list[int]:
    numbers = (int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdecimal())
    return sorted(number for number in numbers if number != os.getpid())


def is_target(word: str) -> bool:
    """Return whether *word* looks like a core file or a process, and not like a mistyped command."""
    return bool(os.path.lexists(word) or _LIKE_A_FILE.fullmatch(word) is not None or processes_of(word))


def _number(digits: str) -> int:
    # No process number has more digits, and Python refuses to convert very long ones.
    return int(digits.lstrip("0")[:20] or "0")
