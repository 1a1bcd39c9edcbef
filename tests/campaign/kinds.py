"""The kinds of target that one moment of a program gives: the process itself, its cores, and snapshots of both."""

from __future__ import annotations

import os
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.runs import write_gcore, write_kernel_core

LIVE, STOPPED, ABORT, OMPT = "live", "stopped", "abort", "ompt"
MOMENTS = (LIVE, STOPPED, ABORT, OMPT)
"""What is done to a program at a moment: nothing; SIGSTOP; SIGABRT, which ends it with a core; or a signal on which the
OMPT tool in the program holds all threads.
"""
GCORE, SNAPSHOT, SNAPSHOT_OF_CORE, LIVE_SNAPSHOT = "gcore", "snapshot", "snapshot of core", "snapshot while it runs"
_SECONDS = 10.0
_LONGEST_BEGIN = 60.0
_RUNTIMES = ("/libgomp", "/libomp", "/libiomp5")
_PAUSE = 0.001


class Gone(Exception):
    """The program ended before the moment came."""


@contextmanager
def standing_still(process_id: int) -> Iterator[None]:
    """Stop a process by SIGSTOP while the context lasts, then resume it.

    :raises Gone: if the process ends meanwhile
    """
    _signal(process_id, signal.SIGSTOP)
    try:
        _await(process_id, lambda states: states <= set("TtD"))
        yield
    finally:
        with suppress(Gone):
            _signal(process_id, signal.SIGCONT)
            _await(process_id, lambda states: not states & set("Tt"))


def goes_on(process_id: int) -> bool:
    """Return whether no thread of a process is stopped."""
    return not set(_states(process_id)) & set("Tt")


def is_gone(process_id: int) -> bool:
    """Return whether a process has ended."""
    return set(_states(process_id)) <= set("ZX")


def await_runtime(process: subprocess.Popen[bytes]) -> None:
    """Wait until a program has loaded an OpenMP runtime: earlier there is nothing to ask about."""
    end = time.monotonic() + _LONGEST_BEGIN
    while time.monotonic() < end and process.poll() is None:
        with suppress(OSError):
            maps = Path(f"/proc/{process.pid}/maps").read_text()
            if any(name in maps for name in _RUNTIMES):
                return
        time.sleep(0.01)


def take_gcore(process_id: int, folder: Path) -> Path:
    """Have gdb write a core of a process.

    :raises Missing: if there is no gdb, or it writes none
    """
    core = folder / "core.gcore"
    write_gcore(process_id, core)
    return core


def take_kernel_core(process: subprocess.Popen[bytes], folder: Path) -> Path:
    """End a process by SIGABRT, move the core that the kernel writes into *folder*, and return the core.

    :raises Gone: if the process ended before
    :raises Missing: if the kernel writes no core
    """
    if process.poll() is not None or is_gone(process.pid):
        raise Gone
    try:
        there = Path(f"/proc/{process.pid}/cwd").readlink() / f"core.kernel.{process.pid}"
    except OSError as error:
        raise Gone from error
    write_kernel_core(process, there)
    return Path(shutil.move(there, folder / "core.kernel"))


def threads_in_core(core: Path) -> list[int]:
    """Return the threads that have registers (NT_PRSTATUS) in a 64-bit ELF core, in the order of its notes.

    This parses the file independently of ``ompd``.
    """
    found = []
    with core.open("rb") as file:
        header = file.read(64)
        (offset,) = struct.unpack_from("<Q", header, 32)
        size, count = struct.unpack_from("<HH", header, 54)
        if count == 0xFFFF:  # there are more headers than this field can count: section header 0 has their number
            file.seek(struct.unpack_from("<Q", header, 40)[0])
            (count,) = struct.unpack_from("<I", file.read(64), 44)
        file.seek(offset)
        headers = file.read(size * count)
        for number in range(count):
            kind, _, start, _, _, length = struct.unpack_from("<IIQQQQ", headers, number * size)
            if kind == 4:
                file.seek(start)
                found += list(_threads_in_notes(file.read(length)))
    return found


def _threads_in_notes(notes: bytes) -> Iterator[int]:
    at = 0
    while at + 12 <= len(notes):
        name, size, kind = struct.unpack_from("<III", notes, at)
        content = at + 12 + (name + 3 & ~3)
        if kind == 1 and notes[at + 12 : at + 16] == b"CORE":
            yield struct.unpack_from("<I", notes, content + 32)[0]
        at = content + (size + 3 & ~3)


def _signal(process_id: int, number: int) -> None:
    try:
        os.kill(process_id, number)
    except ProcessLookupError as error:
        raise Gone from error


def _await(process_id: int, is_reached: Callable[[set[str]], bool]) -> None:
    end = time.monotonic() + _SECONDS
    while not is_reached(states := set(_states(process_id))):
        if not states or states <= set("ZX"):
            raise Gone
        if time.monotonic() > end:
            return  # the laws report what is wrong
        time.sleep(_PAUSE)
    if not states or states <= set("ZX"):
        raise Gone


def _states(process_id: int) -> Iterator[str]:
    try:
        folders = list(Path(f"/proc/{process_id}/task").iterdir())
    except OSError:
        return
    for folder in folders:
        with suppress(OSError):
            yield (folder / "stat").read_text().rpartition(")")[2].split()[0]
