"""Programs of ``fixtures/live``, which keep running during inspections, and the kernel's view of a process."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ompd.debugger.targets.live import live as live_process
from ompd.debugger.targets.live.moment import Moment
from tests.support.build import compiler
from tests.support.cache import CHECKOUT, entry, key_of
from tests.support.machine import clean_environment, intel_runtime
from tests.support.runs import ENVIRONMENT, READY_SECONDS, can_be_read
from tests.support.runtimes import INTEL, RUNTIMES

SOURCES = CHECKOUT / "fixtures" / "live"
OMPD = Path(sys.executable).with_name("ompd")
# Threads need a processor to stop, and a machine that is busy with other tests may give it late.
# tests/debugger/targets/test_stop_time_limits.py tests the length of stops.
PATIENT = ("--max-stop", "60000")


def build_live(
    name: str,
    *,
    openmp: bool = True,
    runtime: str = INTEL,
    flags: Sequence[str] = (),
    compiler_name: str = "gcc",
    folder: Path = SOURCES,
) -> Path:
    """Return the executable of ``fixtures/live/NAME.c``, ``NAME.cc`` or ``NAME.f90``.

    :param runtime: one of RUNTIMES, to link an OpenMP program with
    :param folder: another folder of sources
    :raises Missing: if the compiler or the runtime is not there
    """
    gcc = compiler(compiler_name)
    suffixes = (".f90",) if compiler_name == "gfortran" else (".c", ".cc")
    source = next(path for suffix in suffixes if (path := folder / f"{name}{suffix}").exists())
    command = [str(gcc.path), "-g", "-O1", "-Wall", "-Wextra", "-Werror", *flags]
    linking = ["-lpthread"]
    version = ""
    if openmp:
        used = RUNTIMES[runtime]
        library, version = used.file().parent, used.version()
        command += ["-fopenmp", "-idirafter", str(intel_runtime() / "opt" / "compiler" / "include")]
        linking += [f"-L{library}", f"-Wl,-rpath,{library}", *used.options]

    def make(into: Path) -> None:
        objects = into / f"{name}.o"
        environment = clean_environment()
        subprocess.run([*command, "-c", str(source), "-o", str(objects)], check=True, env=environment)
        # -fopenmp would link gcc's own runtime, too.
        link = [str(gcc.path), *flags, str(objects), "-o", str(into / name), *linking]
        subprocess.run(link, check=True, env=environment)

    headers = [header.read_text() for header in sorted(folder.glob("*.h"))]
    key = key_of(name, source.read_text(), headers, gcc.version, command, linking, version)
    return entry("programs", key, make) / name


@dataclass(frozen=True)
class Worker:
    """A program that keeps working. *process* is its ``Popen``; its standard output reports how it ended."""

    process: subprocess.Popen[str]
    executable: Path

    @property
    def pid(self) -> int:
        """The process id."""
        return self.process.pid

    def finish(self) -> str:
        """Make the program end, check its exit code (0 if its results are right), and return its last output."""
        self.process.send_signal(signal.SIGTERM)
        said, _ = self.process.communicate(timeout=READY_SECONDS)
        assert self.process.returncode == 0, (self.process.returncode, said)
        return said


@contextmanager
def working(
    name: str,
    *arguments: str,
    executable: Path | None = None,
    env: Mapping[str, str] | None = None,
    openmp: bool = True,
) -> Iterator[Worker]:
    """Run a program of ``fixtures/live`` and yield it once it has printed a line; the context kills it at its end."""
    program = executable or build_live(name, openmp=openmp)
    process = subprocess.Popen(
        [str(program), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        env={**ENVIRONMENT, **(env or {})},
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        assert can_be_read(process.stdout.fileno(), READY_SECONDS), "it does not begin to work"
        assert process.stdout.readline() == "ready\n"
        yield Worker(process, program)
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def status_of(process_id: int, key: str) -> list[str]:
    """Return the value of *key* in ``/proc/PID/task/*/status``, for each thread of the process."""
    found = []
    for folder in Path(f"/proc/{process_id}/task").iterdir():
        try:
            lines = (folder / "status").read_text().splitlines()
        except OSError:
            continue  # the thread has ended meanwhile
        found += [line.partition(":")[2].strip() for line in lines if line.startswith(f"{key}:")]
    return found


def is_let_go(process_id: int) -> bool:
    """Return whether nothing traces the process and no thread of it is stopped."""
    return set(status_of(process_id, "TracerPid")) == {"0"} and not any(
        state[:1] in "tT" for state in status_of(process_id, "State")
    )


def wait_until(condition: Any, seconds: float = READY_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def run(
    *arguments: str | int | Path, prefix: tuple[str, ...] = (), **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the command ``ompd`` with *arguments*, preceded by the words of *prefix*."""
    patient = PATIENT if arguments[0] != "schema" else ()
    return subprocess.run(
        [*prefix, str(OMPD), *map(str, arguments), *patient],
        capture_output=True,
        text=True,
        env={**clean_environment(), **environment},
        stdin=subprocess.DEVNULL,
        timeout=60,
    )


# Python code that makes ompd stop all threads of a process, even sleeping ones.
STOPS_ALL = """
from ompd.debugger.targets.live import live, moment
live.Sleepers.leave = lambda self, thread: None
moment.Moment.confirm = lambda self: False
"""


def stop_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make sessions stop all threads of a process, even sleeping ones, and never use the answers of the rehearsal."""
    monkeypatch.setattr(live_process.Sleepers, "leave", lambda self, thread: None)
    monkeypatch.setattr(Moment, "confirm", lambda self: False)
