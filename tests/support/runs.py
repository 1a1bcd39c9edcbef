"""Programs of the fixtures in their state, alive or as a core file with the truth beside it."""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.support.build import build
from tests.support.cache import entry, key_of
from tests.support.machine import Missing, clean_environment, require
from tests.support.programs import ALL_PROGRAMS, BARRIER_PROGRAMS
from tests.support.runtimes import INTEL

KINDS = ("kernel", "gcore")
READY_SECONDS = 25  # the programs end themselves after 20
# Small stacks and one arena keep cores small. Once the program is ready, only threads at a spinning lock may still run.
ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "OMP_STACKSIZE": "256k",
    "MALLOC_ARENA_MAX": "1",
    "KMP_BLOCKTIME": "0",
    "OMP_WAIT_POLICY": "passive",
}


class NotReady(Exception):
    """A program ended or stood still before it reported that it is in its state; the message is its output."""


@dataclass(frozen=True)
class Stopped:
    """A core of a program. *truth* is the program's output, in the format of ``fixtures/programs/truth.h``."""

    executable: Path
    core: Path
    truth: dict[str, Any]
    program: str
    compiler: str
    mode: str
    kind: str
    runtime: str = INTEL


@dataclass(frozen=True)
class Running:
    """A live program in its state; the context that started it ends it."""

    pid: int
    executable: Path
    truth: dict[str, Any]
    program: str
    compiler: str
    mode: str
    runtime: str = INTEL


def can_be_read(descriptor: int, seconds: float) -> bool:
    """Wait up to *seconds* until *descriptor* is readable, and return whether it is. Its number may be of any size."""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(1000 * seconds))


def kernel_core_obstacle() -> str | None:
    """Return why the kernel cannot write a core into the folder of a run, or None if it can."""
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
    if pattern.startswith("|"):
        return f"kernel.core_pattern is a pipe ({pattern})"
    if "/" in pattern or not pattern:
        return f"kernel.core_pattern is not a plain file name ({pattern})"
    if resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
        return "the hard limit of core files is 0"
    return None


def stopped(
    program: str,
    *,
    compiler: str = "gcc",
    mode: str = "debug",
    kind: str = "kernel",
    flags: Sequence[str] = (),
    env: Mapping[str, str | None] | None = None,
    threads: int | None = None,
    pie: bool = True,
    runtime: str = INTEL,
) -> Stopped:
    """Return a core of *program*, from the cache or from a run.

    :param kind: ``kernel``, or ``gcore`` for gdb's
    :param env: variables to add for the program; None removes a variable
    :param threads: the size of the team, for programs that read THREADS
    :param runtime: the OpenMP runtime, one of RUNTIMES
    :raises Missing: if a tool is not there, or the machine forbids this kind of core
    """
    prepared = _prepare(program, compiler, mode, flags, env, threads, pie, runtime)
    if kind == "kernel":
        require_kernel_cores()
    folder = prepared.core_folder(kind)
    return prepared.stopped(folder, kind)


def stopped_twice(
    program: str,
    *,
    compiler: str = "gcc",
    mode: str = "debug",
    flags: Sequence[str] = (),
    env: Mapping[str, str | None] | None = None,
    threads: int | None = None,
    pie: bool = True,
    runtime: str = INTEL,
) -> tuple[Stopped, Stopped]:
    """Return gdb's and the kernel's core of the same process.

    :raises Missing: as for :func:`stopped`
    """
    require_kernel_cores()
    prepared = _prepare(program, compiler, mode, flags, env, threads, pie, runtime)
    folder = prepared.core_folder("gcore")
    return prepared.stopped(folder, "gcore"), prepared.stopped(folder, "kernel")


@contextmanager
def running(
    program: str,
    *,
    compiler: str = "gcc",
    mode: str = "debug",
    flags: Sequence[str] = (),
    folder: Path,
    env: Mapping[str, str | None] | None = None,
    threads: int | None = None,
    pie: bool = True,
    runtime: str = INTEL,
    executable: Path | None = None,
) -> Iterator[Running]:
    """Run *program* in the empty *folder* until it is in its state; the context kills it at its end.

    :param executable: a copy of the program to run instead
    """
    prepared = _prepare(program, compiler, mode, flags, env, threads, pie, runtime)
    if executable is not None:
        prepared = replace(prepared, executable=executable)
    with prepared.at_rest(folder) as (process, truth):
        yield Running(process.pid, prepared.executable, truth, program, compiler, mode, runtime)


@dataclass(frozen=True)
class _Prepared:
    program: str
    compiler: str
    mode: str
    executable: Path
    environment: dict[str, str]
    runtime: str = INTEL

    def stopped(self, folder: Path, kind: str) -> Stopped:
        truth = json.loads((folder / "truth.json").read_text())
        core = folder / f"core.{kind}"
        return Stopped(self.executable, core, truth, self.program, self.compiler, self.mode, kind, self.runtime)

    def core_folder(self, kind: str) -> Path:
        # The executable's folder is named after its source, compiler, flags and runtime.
        key = key_of(self.executable.parent.name, self.environment, kind)
        return entry("cores", key, lambda folder: self._make(folder, kind))

    def _make(self, folder: Path, kind: str) -> None:
        try:
            self._take(folder, kind)
        except NotReady:
            # Try once more. Under load a program on Intel's runtime ends by SIGSEGV about once in thousands of runs.
            # About once in some hundreds of runs, two programs that create a hundred threads at the same time stand
            # still for 20 s on two processors (Linux 6.18), and the processors spend all of this time in the kernel.
            for path in folder.iterdir():
                path.unlink()
            self._take(folder, kind)

    def _take(self, folder: Path, kind: str) -> None:
        with self.at_rest(folder) as (process, _):
            if kind == "gcore":
                write_gcore(process.pid, folder / "core.gcore")
            if kernel_core_obstacle() is None:
                write_kernel_core(process, folder / "core.kernel")

    @contextmanager
    def at_rest(self, folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, Any]]]:
        ready, told = os.pipe()
        output = folder / "output"
        try:
            with output.open("wb") as file, cores_allowed():
                process = subprocess.Popen(
                    [str(self.executable)],
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=file,
                    pass_fds=[told],
                    env={
                        **self.environment,
                        "TRUTH_FILE": "truth.json",
                        "TRUTH_FD": str(told),
                        "TRUTH_MODE": self.mode,
                    },
                    start_new_session=True,
                )
        except BaseException:
            os.close(ready)
            raise
        finally:
            os.close(told)
        try:
            if not can_be_read(ready, READY_SECONDS) or os.read(ready, 1) == b"":
                process.kill()
                status = process.wait()
                said = output.read_text(errors="replace")
                raise NotReady(f"{self.program} ({self.compiler}, {self.mode}), status {status}: {said}")
            truth = json.loads((folder / "truth.json").read_text())
            await_pause(process.pid, truth["monitor"])
            yield process, truth
        finally:
            os.close(ready)
            process.kill()
            process.wait()


def _prepare(
    program: str,
    compiler: str,
    mode: str,
    flags: Sequence[str],
    env: Mapping[str, str | None] | None,
    threads: int | None,
    pie: bool,
    runtime: str,
) -> _Prepared:
    executable = build(program, compiler_name=compiler, mode=mode, flags=flags, pie=pie, runtime=runtime)
    known = {**ALL_PROGRAMS, **BARRIER_PROGRAMS}[program]
    wanted: dict[str, str | None] = {**ENVIRONMENT, **known.environment}
    if mode == "debug":
        wanted["OMP_DEBUG"] = "enabled"
    if threads is not None:
        wanted["THREADS"] = str(threads)
    wanted.update(env or {})
    environment = {name: value for name, value in wanted.items() if value is not None}
    return _Prepared(program, compiler, mode, executable, environment, runtime)


@contextmanager
def cores_allowed() -> Iterator[None]:
    """Let the kernel write cores of processes that are started in the context.

    ``preexec_fn`` is not used: it would copy all page tables of this process, which takes as long as the program.
    """
    usual = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (usual[1], usual[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, usual)


def limited(command: Sequence[str], option: str, number: int) -> list[str]:
    """Return *command* run under a limit of the shell's ``ulimit`` and with cores disabled."""
    return ["/bin/sh", "-c", f'ulimit -c 0; ulimit {option} {number} && exec "$@"', "sh", *command]


def await_pause(pid: int, thread: int) -> None:
    # The monitor thread reports that the program is at rest; wait until the monitor rests, too.
    path = Path(f"/proc/{pid}/task/{thread}/stat")
    deadline = time.monotonic() + READY_SECONDS
    while path.read_text().rpartition(")")[2].split()[0] != "S":
        if time.monotonic() > deadline:
            raise NotReady(f"thread {thread} does not rest")
        time.sleep(0.0005)


def require_kernel_cores() -> None:
    obstacle = kernel_core_obstacle()
    if obstacle is not None:
        raise Missing("kernel core", obstacle, forbidden=True)


def write_kernel_core(process: subprocess.Popen[bytes], core: Path) -> None:
    """End *process* by SIGABRT and rename the kernel's core in the folder of *core* to *core*.

    :raises Missing: if the kernel writes no core or several
    """
    before = set(core.parent.iterdir())
    process.send_signal(signal.SIGABRT)
    process.wait()
    written = sorted(set(core.parent.iterdir()) - before)
    if len(written) != 1:
        raise Missing(
            "kernel core", f"the kernel wrote {[path.name for path in written]} instead of one core", forbidden=True
        )
    written[0].rename(core)


def write_gcore(pid: int, core: Path) -> None:
    """Have gdb write a core of a process.

    :raises Missing: if gdb is missing or writes no core
    """
    command = [
        str(require("gdb")),
        "-nx",
        "-batch",
        "--readnever",
        "-iex",
        "set debuginfod enabled off",
        "-p",
        str(pid),
        "-ex",
        f"gcore {core}",
    ]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=clean_environment(), check=False
    )
    if not core.exists():
        raise Missing("gdb", f"gcore failed: {done.stderr.strip()}", forbidden="not permitted" in done.stderr)
