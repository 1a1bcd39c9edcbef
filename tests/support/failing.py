"""Cores of programs with a failed thread."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import RUNTIMES, clean_environment
from tests.support.build import compiler
from tests.support.cache import entry, key_of
from tests.support.runs import ENVIRONMENT, cores_allowed, require_kernel_cores

SOURCE = Path(__file__).parents[1] / "failed" / "fails.c"
SECONDS = 20
# By way to fail: the signal, whether the thread itself caused it, and the expected address of the fault. This is the
# address that the program wrote ("said"), one in its code ("code"), unknown, or none.
WAYS = {
    "null": (signal.SIGSEGV, True, "said"),
    "near-null": (signal.SIGSEGV, True, "said"),
    "not-canonical": (signal.SIGSEGV, True, "unknown"),
    "division": (signal.SIGFPE, True, "code"),
    "abort": (signal.SIGABRT, True, "none"),
    "raise": (signal.SIGSEGV, True, "none"),
    "breakpoint": (signal.SIGTRAP, True, "none"),
    "kill": (signal.SIGABRT, False, "none"),
    "raised-again": (signal.SIGABRT, False, "none"),
    "raised-inside": (signal.SIGABRT, False, "none"),
    "handler-aborts": (signal.SIGABRT, True, "none"),
}


@dataclass(frozen=True)
class Failed:
    core: Path
    thread: int | None  # None if no thread failed
    address: int | None


def program(runtime: str = "libgomp", compiler_name: str = "gcc") -> Path:
    openmp, used = RUNTIMES[runtime], compiler(compiler_name)
    library = openmp.file().parent
    compiling = ["-g", "-O0", "-fPIE", *openmp.compiling()]
    options = [option for option in openmp.options if "wrap" not in option]
    linking = [*openmp.compiling(), *openmp.linking(), f"-L{library}", f"-Wl,-rpath,{library}", *options, "-lpthread"]

    def make(folder: Path) -> None:
        for command in (
            [*compiling, "-fopenmp", "-c", str(SOURCE), "-o", "fails.o"],
            ["-pie", "fails.o", "-o", "fails", *linking],
        ):
            subprocess.run([str(used.path), *command], cwd=folder, check=True, env=clean_environment())

    key = key_of("fails", SOURCE.read_text(), used.version, compiling, linking, openmp.version())
    return entry("programs", key, make) / "fails"


@contextmanager
def started(executable: Path, way: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / "output").open("wb") as output, cores_allowed():
        process = subprocess.Popen(
            [str(executable), way], cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=ENVIRONMENT
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def until_it_waits(process: subprocess.Popen[bytes], folder: Path) -> int:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        if (folder / "said").exists():
            thread = int((folder / "said").read_text().split()[0])
            stat = Path(f"/proc/{process.pid}/task/{thread}/stat").read_text()
            if stat.rpartition(")")[2].split()[0] == "S":
                return thread
        time.sleep(0.002)
    pytest.fail("the program did not come to its end")


def failed(way: str, runtime: str = "libgomp", compiler_name: str = "gcc") -> Failed:
    """Return the kernel's core of a program that failed in this way, from the cache or from a run."""
    require_kernel_cores()
    executable = program(runtime, compiler_name)

    def make(folder: Path) -> None:
        with started(executable, way, folder) as process:
            if way in WAYS:
                process.wait(SECONDS)
            else:
                until_it_waits(process, folder)
                process.send_signal(signal.SIGABRT)
                process.wait(SECONDS)
        (core,) = (path for path in folder.iterdir() if path.name.startswith("core"))
        core.rename(folder / "core")

    folder = entry("cores", key_of("failed", executable.parent.name, way, ENVIRONMENT), make)
    thread, address = (folder / "said").read_text().split()
    return Failed(folder / "core", int(thread), None if address == "none" else int(address, 16))
