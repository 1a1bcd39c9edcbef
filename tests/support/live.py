"""Programs of ``fixtures/live``, which run on during inspections, and the system's view of a process."""

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
# A machine that is busy with other tests may give a program too late the processors that its threads need to stop on.
# How long a stop may last is for tests/debugger/targets/test_stop_time_limits.py.
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

    :param runtime: one of RUNTIMES, with which it is linked if it is a program of OpenMP
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
    """A program that works on. *process* is its ``Popen``, whose standard output says how it ended."""

    process: subprocess.Popen[str]
    executable: Path

    @property
    def pid(self) -> int:
        """Its number."""
        return self.process.pid

    def finish(self) -> str:
        """Have it end by itself; returns what it printed at last, after it made sure that this is right."""
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
    """Run a program of ``fixtures/live`` until it has printed a line; it is killed at the end of the context."""
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
    """Return a value of ``/proc/PID/task/*/status`` of each thread that there is."""
    found = []
    for folder in Path(f"/proc/{process_id}/task").iterdir():
        try:
            lines = (folder / "status").read_text().splitlines()
        except OSError:
            continue  # it ended meanwhile
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
    """Run the command ``ompd`` with *arguments*, behind the words of *prefix*."""
    patient = PATIENT if arguments[0] != "schema" else ()
    return subprocess.run(
        [*prefix, str(OMPD), *map(str, arguments), *patient],
        capture_output=True,
        text=True,
        env={**clean_environment(), **environment},
        stdin=subprocess.DEVNULL,
        timeout=60,
    )


# Python code after which all threads of a process are stopped, those that sleep, too.
STOPS_ALL = """
from ompd.debugger.targets.live import live, moment
live.Sleepers.leave = lambda self, thread: None
moment.Moment.confirm = lambda self: False
"""


def stop_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all threads of a process be stopped, those that sleep, too, and no answer be one of the rehearsal's."""
    monkeypatch.setattr(live_process.Sleepers, "leave", lambda self, thread: None)
    monkeypatch.setattr(Moment, "confirm", lambda self: False)
