"""Programs of ``tests/outside``, whose threads wait outside of OpenMP: as cores, or alive."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.build import SETTLED, WITH_HEADERS, compiler
from tests.support.cache import CHECKOUT, entry, key_of
from tests.support.machine import clean_environment
from tests.support.runs import cores_allowed, require_kernel_cores, write_gcore, write_kernel_core

READY_SECONDS = 80  # on a busy machine; some programs have spinning threads
LONG = 10_000.0  # limit of a stop on a busy machine, in milliseconds
SOURCES = CHECKOUT / "tests" / "outside"


@dataclass(frozen=True)
class Words:
    """The waits that the threads of a program announced, by native thread id. *place* is the core file or the process
    id.
    """

    place: Path | int
    said: dict[int, dict[str, Any]]

    def thread(self, name: str) -> int:
        """Return the thread that said *name*."""
        return next(thread for thread, words in self.said.items() if words["name"] == name)


def build_outside(name: str, flags: Sequence[str] = ()) -> Path:
    """Return the executable of ``tests/outside/NAME.c``."""
    gcc = compiler("gcc")
    source = SOURCES / f"{name}.c"
    command = [str(gcc.path), "-g", "-O1", "-Wall", "-Wextra", "-Werror", *flags, *WITH_HEADERS, str(source)]

    def make(folder: Path) -> None:
        subprocess.run([*command, "-o", str(folder / name), "-lpthread"], check=True, env=clean_environment())

    key = key_of("outside", name, source.read_text(), SETTLED.read_text(), gcc.version, command)
    return entry("programs", key, make) / name


def read_words(path: Path) -> dict[int, dict[str, Any]]:
    """Return the last words of each thread from the program's file."""
    return {words["tid"]: words for words in map(json.loads, path.read_text().splitlines())}


@contextmanager
def waiting(
    executable: Path,
    folder: Path,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    blocks: bool = False,
    names: Collection[str] = ("main",),
    stdin: int = subprocess.DEVNULL,
) -> Iterator[tuple[subprocess.Popen[bytes], Words]]:
    """Run a program until the threads *names* have announced their waits; the context kills it at its end.

    :param names: the threads whose words are awaited
    :param blocks: whether the first thread then waits in a system call; it may announce this before it enters the call
    :param stdin: its standard input, as for ``Popen``
    """
    words = folder / "words"
    with words.open("wb") as output, cores_allowed():
        process = subprocess.Popen(
            [str(executable), *arguments],
            cwd=folder,
            stdin=stdin,
            stdout=output,
            env={**clean_environment(), **(environment or {})},
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + READY_SECONDS
        awaited = [f'"{name}"'.encode() for name in names]
        while process.poll() is None and time.monotonic() < deadline:
            found = words.read_bytes()
            if all(name in found for name in awaited):
                break
            time.sleep(0.01)
        said = read_words(words)
        assert {word["name"] for word in said.values()} >= {*names}, (process.poll(), said)
        if blocks:
            until_it_waits(process.pid)
        yield process, Words(process.pid, said)
    finally:
        # Kill forked processes, too: some wait for ever.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def interpreters() -> dict[str, Path]:
    """Return the Python interpreters of this machine by release, including the system's."""
    folders = [Path("/usr/bin"), Path("/usr/local/bin"), Path(sys.base_prefix, "bin")]
    folders += sorted(Path.home().glob(".pyenv/versions/3.*/bin"))
    return {
        path.name.removeprefix("python"): path
        for folder in folders
        for path in folder.glob("python3.[0-9]*")
        if path.name.removeprefix("python3.").isdigit()
    }


def until_asleep(process_id: int, restless: int | None = None) -> None:
    """Wait until all threads of a process sleep and have slept since the previous look: no context switch has happened.

    :param restless: a thread that must sleep but may have been switched, such as a CPython thread that waits for the
        GIL
    """
    before: object = None
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        tasks = sorted(Path(f"/proc/{process_id}/task").iterdir())
        now = [
            [
                line
                for line in (task / "status").read_text().splitlines()
                if line.startswith(("State",) if task.name == str(restless) else ("State", "volun", "nonvo"))
            ]
            for task in tasks
        ]
        if now == before and all("S (sleeping)" in status[0] for status in now):
            return
        before = now
        time.sleep(0.01)
    raise AssertionError(f"process {process_id} does not come to rest")


def until_it_waits(thread: int) -> None:
    """Wait until two looks in a row find the thread in the same system call."""
    before = ""
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        now = Path(f"/proc/{thread}/syscall").read_text()
        if now == before and not now.startswith("running"):
            return
        before = now
        time.sleep(0.01)
    raise AssertionError(f"thread {thread} does not wait")


def core_of_outside(name: str, kind: str, flags: Sequence[str] = ()) -> Words:
    """Return a core of the program: ``kernel`` or ``gcore``."""
    if kind == "kernel":
        require_kernel_cores()
    executable = build_outside(name, flags)

    def make(folder: Path) -> None:
        with waiting(executable, folder, blocks=True) as (process, _):
            if kind == "gcore":
                write_gcore(process.pid, folder / "core")
            else:
                write_kernel_core(process, folder / "core")

    folder = entry("cores", key_of("outside", executable.parent.name, kind), make)
    return Words(folder / "core", read_words(folder / "words"))
