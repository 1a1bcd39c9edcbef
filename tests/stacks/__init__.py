"""Programs whose stacks are compared with gdb's, and gdb's stacks of their cores."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.support import Missing, clean_environment, require
from tests.support.budget import processor_seconds
from tests.support.cache import entry, key_of
from tests.support.machine import run_in, wheel_folder
from tests.support.runs import READY_SECONDS, can_be_read, cores_allowed, kernel_core_obstacle

SOURCES = Path(__file__).parent
WORKING_SECONDS = 0.5  # of processor time, in which the threads spread over the code

# Print a line for each frame: thread, pc, CFA (0 if unknown) and kind. Inlined functions and functions that ended in a
# jump have no frame on the stack. Stop after 500 frames, more than any of these programs has: gdb on a wrong path takes
# word after word of memory as return addresses.
GDB_SCRIPT = """
import gdb
KINDS = {gdb.INLINE_FRAME: "inlined", gdb.TAILCALL_FRAME: "jumped", gdb.SIGTRAMP_FRAME: "signal"}
def show(name):
    frame = gdb.newest_frame()
    for _ in range(500):
        if frame is None:
            break
        kind = KINDS.get(frame.type(), "normal")
        cfa = "0x0"
        if kind in ("normal", "signal"):
            frame.select()
            cfa = gdb.execute("info frame", to_string=True).split("frame at ")[1].split()[0].rstrip(":,")
        print("FRAME", name, hex(frame.pc()), cfa, kind)
        frame = frame.older()
"""
ALL_THREADS = """
for thread in gdb.selected_inferior().threads():
    thread.switch()
    try:
        show(thread.ptid[1])
    except gdb.error:
        print("FRAME", thread.ptid[1], "0x0", "0x0", "unreadable")
"""
GDB_OPTIONS = (
    *("-nx", "-batch", "-iex", "set auto-load no", "-iex", "set debuginfod enabled off"),
    *("-ex", "set backtrace past-main on", "-ex", "set backtrace past-entry on", "-ex", "set width 0"),
)


@dataclass(frozen=True)
class Kind:
    """A program that works until it is stopped. It gets *threads* as its argument and in OMP_NUM_THREADS."""

    name: str
    source: str
    compiler: str = ""
    flags: Sequence[str] = ()
    threads: int = 55
    variables: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class GdbFrame:
    """A frame that gdb shows."""

    pc: int
    cfa: int
    kind: str


def built(source: str, compiler: str, flags: Sequence[str]) -> Path:
    """Return the executable of a source of this folder.

    :raises Missing: if the compiler is missing
    """
    path = require(compiler)
    version = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]

    def make(folder: Path) -> None:
        command = [path, SOURCES / source, "-o", "program", "-w", *flags]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=clean_environment(), check=False)
        assert done.returncode == 0, done.stderr

    return entry("stacks", key_of((SOURCES / source).read_text(), version, flags), make) / "program"


def command_of(kind: Kind) -> list[str]:
    """Return the command that runs a program.

    :raises Missing: if a tool of the program is missing
    """
    if kind.source.endswith(".py"):
        folder = wheel_folder("scikit-learn")
        return ["/usr/bin/env", f"PYTHONPATH={folder}", sys.executable, "-B", str(SOURCES / kind.source)]
    return [str(built(kind.source, kind.compiler, kind.flags))]


def stopped_at_work(kind: Kind, number: int = 0) -> Path:
    """Return the kernel's core of a program that was stopped while its threads worked; *number* distinguishes several
    cores.

    :raises Missing: if a tool of the program is missing, or the machine forbids kernel cores
    """
    command = [*command_of(kind), str(kind.threads)]
    variables = {
        **clean_environment(),
        **{"MALLOC_ARENA_MAX": "2", "OMP_NUM_THREADS": str(kind.threads), "OMP_STACKSIZE": "256k"},
        **dict(kind.variables),
    }
    key = key_of(command, (SOURCES / kind.source).read_text(), kind.threads, kind.variables, number)
    return entry("stacks", key, lambda folder: take_core(folder, command, variables, is_ready=True)) / "core.kernel"


def take_core(folder: Path, command: Sequence[str], variables: Mapping[str, str], *, is_ready: bool) -> None:
    """Run a program and let the kernel write its ``core.kernel`` into the empty *folder*.

    :param is_ready: whether the program reports that it is ready and is then stopped; otherwise it ends by itself
    """
    obstacle = kernel_core_obstacle()
    if obstacle is not None:
        raise Missing("kernel core", obstacle, forbidden=True)
    with cores_allowed():
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=dict(variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
    try:
        assert process.stdout is not None
        if is_ready:
            assert can_be_read(process.stdout.fileno(), 4 * READY_SECONDS), "it does not begin to work"
            assert process.stdout.readline() == b"ready\n"
            began = processor_seconds(process.pid)
            while processor_seconds(process.pid) < began + WORKING_SECONDS and process.poll() is None:
                time.sleep(0.01)
            process.send_signal(signal.SIGTRAP)  # no runtime of these programs handles it
        process.wait()  # a core of 55 threads takes long on a busy machine; the test's time limit applies
    finally:
        process.kill()
        process.wait()
    next(folder.glob("core*")).rename(folder / "core.kernel")


def gdb_steps(kind: str, program: Path, script: str) -> list[str]:
    """Return the lines that gdb prints while *script* has it run *program* instruction by instruction.

    :param kind: the name of the kind of entry in the cache
    """

    def make(folder: Path) -> None:
        (folder / "steps.py").write_text(script)
        words = [require("gdb"), *GDB_OPTIONS, "-iex", "set startup-with-shell off", "-x", "steps.py", program]
        done = run_in(folder, words)
        if "Operation not permitted" in done.stderr:
            raise Missing("gdb", "ptrace is not permitted", forbidden=True)
        (folder / "printed").write_text(done.stdout)

    # The key has the folder's name, a digest of the inputs; the full path differs between checkouts.
    return (entry(kind, key_of(program.parent.name, script), make) / "printed").read_text().splitlines()


@cache
def gdb_stacks(program: Path, core: Path, *options: str) -> Mapping[int, list[GdbFrame]]:
    """Return gdb's frames of all threads, innermost first. If gdb failed in a stack, its last frame has the kind
    "unreadable".

    :param options: more options for gdb
    """
    words = [str(require("gdb")), *GDB_OPTIONS, *options, "-x", "frames.py", str(program), str(core)]
    version = subprocess.run([words[0], "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]

    def make(folder: Path) -> None:
        (folder / "frames.py").write_text(GDB_SCRIPT + ALL_THREADS)
        done = run_in(folder, words)
        rows = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("FRAME ")]
        (folder / "frames.json").write_text(json.dumps(rows))

    # The key has the folder's name, a digest of the inputs; the full path differs between checkouts.
    key = key_of(version, GDB_SCRIPT + ALL_THREADS, options, core.parent.name, core.stat().st_size)
    stacks: dict[int, list[GdbFrame]] = {}
    for thread, pc, cfa, kind in json.loads((entry("stacks", key, make) / "frames.json").read_text()):
        stacks.setdefault(int(thread), []).append(GdbFrame(int(pc, 16), int(cfa, 16), kind))
    return stacks


NO_TABLES = "-fno-asynchronous-unwind-tables"


KINDS = (
    Kind("c", "work.c", "gcc", ("-g", "-O2", "-pthread", "-lm", "-Wl,-z,lazy")),
    Kind("c-debug-frame", "work.c", "gcc", ("-g", "-gz", "-O2", NO_TABLES, "-pthread", "-lm", "-Wl,-z,lazy")),
    Kind("c-clang-debug-frame", "work.c", "clang", ("-g", "-O1", NO_TABLES, "-pthread", "-lm", "-Wl,-z,lazy")),
    Kind("c++", "work.cpp", "g++", ("-g", "-O2", "-pthread")),
    Kind("fortran", "work.f90", "gfortran", ("-g", "-O2", "-fopenmp"), 24),
    Kind("fortran-O0", "work.f90", "gfortran", ("-g", "-O0", "-fopenmp"), 24),
    Kind("scikit-learn", "work.py", threads=18, variables=(("OPENBLAS_NUM_THREADS", "2"), ("OMP_NUM_THREADS", "4"))),
)
