"""Hanging programs of ``fixtures/programs/why``, alive or as a core with its truth."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.build import C_COMPILERS, PROGRAMS, SETTLED, SUFFIXES, WITH_HEADERS, compiler, run_compiler
from tests.support.cache import entry, key_of
from tests.support.machine import intel_runtime
from tests.support.runs import (
    ENVIRONMENT,
    READY_SECONDS,
    NotReady,
    can_be_read,
    cores_allowed,
    require_kernel_cores,
    write_gcore,
)
from tests.support.runtimes import INTEL, RUNTIMES

SOURCES = PROGRAMS / "why"
GNU, LLVM, OLD_LLVM = "libgomp", "libomp-19", "libomp-14"
ALL_RUNTIMES = (GNU, LLVM, OLD_LLVM, INTEL)
LLVMS = (LLVM, OLD_LLVM, INTEL)
# The runtimes that a compiler's code can be linked with; libgomp lacks functions that clang's code calls.
OF_COMPILER = {
    "gcc": ALL_RUNTIMES,
    "g++": ALL_RUNTIMES,
    "gfortran": ALL_RUNTIMES,
    "clang": LLVMS,
    "clang++": LLVMS,
}
STEADY = {"KMP_BLOCKTIME": "infinite"}  # threads asleep in a barrier do not wake up for tasks

SPINNING = {**STEADY, "OMP_WAIT_POLICY": "active", "KMP_USE_YIELD": "0"}


@dataclass(frozen=True)
class Why:
    """A program that hangs, in one of its cases.

    It hangs on *runtimes*, but for the compilers in *own_runtimes* only on the runtimes there. *compilers* are those
    whose code can be in this state. *environment* is added to the environment of all programs. *second* is the compiler
    and the runtime of the program's second half, if it has one.
    """

    program: str
    case: str
    compilers: tuple[str, ...] = ("gcc", "clang")
    runtimes: tuple[str, ...] = ALL_RUNTIMES
    own_runtimes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    second: tuple[str, str] | None = None

    @property
    def name(self) -> str:
        return f"{self.program}-{self.case}"

    def pairs(self) -> list[tuple[str, str]]:
        """Return the pairs of compiler and runtime that the program is built with."""
        return [
            (name, runtime)
            for name in self.compilers
            for runtime in OF_COMPILER[name]
            if runtime in self.own_runtimes.get(name, self.runtimes)
        ]


def _cases(program: str, cases: str, **options: Any) -> list[Why]:
    return [Why(program, case, **options) for case in cases.split()]


WHYS: Mapping[str, Why] = {
    why.name: why
    for why in (
        *_cases("lock_cycle", "two three nested section sections barrier mutex"),
        Why("lock_cycle", "spinning", runtimes=(GNU,), own_runtimes={"clang": ()}, environment=SPINNING),
        *_cases("self_lock", "lock section mutex"),
        *_cases("lock_abandoned", "idle returned jumped mutex"),
        *_cases("barrier_absent", "exited joins"),
        *_cases("barrier_mismatch", "branch loop once both"),
        # LLVM's runtime lacks the functions that gcc's code calls for a detach clause.
        *_cases("event_unfulfilled", "taskwait barrier", own_runtimes={"gcc": (GNU,)}),
        # LLVM's runtime initialises anew in a forked child.
        *_cases("fork_child", "region lock", compilers=("gcc",), runtimes=(GNU,)),
        *_cases("laggard", "barrier section"),
        *_cases("laggard", "task", environment=STEADY),
        *_cases("external_wait", "read receive sleep condition semaphore flag"),
        *_cases("orphaned_worksharing", "single master task critical"),
        *_cases("task_dependence_cycle", "lock group", environment=STEADY),
        Why("taskwait_starved", "semaphore"),
        # gcc's code does not split untied tasks, and libgomp executes only children at a taskwait.
        Why("taskwait_starved", "untied", compilers=("clang",), runtimes=LLVMS, environment=STEADY),
        *_cases("runtime_reentry", "section lock"),
        Why("runtime_reentry", "malloc", compilers=("gcc",), runtimes=(GNU,)),
        Why("lost_wakeup", "lock", compilers=("gcc",), runtimes=(GNU,)),
        Why("oversubscribed", "barrier", environment=SPINNING),
        *_cases("no_stall", "parallel serial"),
        Why("small_team", "counts", environment={"OMP_THREAD_LIMIT": "2"}),
        Why("duplicate_runtimes", "mutex", compilers=("gcc",), runtimes=(GNU,), second=("clang", LLVM)),
        Why("exception", "lock", compilers=("g++", "clang++")),
        *_cases("guards", "mutexes section", compilers=("g++", "clang++")),
        *_cases("parted", "reference inlined jumped thrown twice", compilers=("g++", "clang++")),
        *_cases("conditions", "lines macro call address state result fraction called"),
        *_cases("locks", "cycle branch", compilers=("gfortran",)),
    )
}

PAIRS = [
    (why, compiler_name, runtime, mode)
    for why in WHYS.values()
    for compiler_name, runtime in why.pairs()
    for mode in (("neither",) if runtime == GNU else ("neither", "debug"))
]


def axes_of(why: Why, compiler_name: str, runtime: str, mode: str) -> list[Any]:
    """Return the values of a case that a sample of PAIRS must have: its name, compiler with runtime, compiler with
    mode.
    """
    return [why.name, (compiler_name, runtime), (compiler_name, mode)]


def named(value: object) -> str:
    """Return the part of a test's id for a case, a compiler or a runtime."""
    return value.name if isinstance(value, Why) else str(value)


@dataclass(frozen=True)
class Hung:
    """A program that hangs; *core* is None if it is alive."""

    why: Why
    compiler: str
    runtime: str
    executable: Path
    truth: dict[str, Any]
    core: Path | None = None

    @property
    def pid(self) -> int:
        return int(self.truth["pid"])

    @property
    def expected(self) -> dict[str, Any]:
        """The expected verdict on this runtime: its kinds, the certainty that it is stuck, and the certainty of the
        cause.
        """
        verdicts = self.truth["verdicts"]
        found: dict[str, Any] = verdicts.get(RUNTIMES[self.runtime].kind, verdicts[""])
        return found

    def threads(self, **flags: bool) -> set[int]:
        """Return the native ids of the threads in the truth that have these flags."""
        return {
            thread["native_thread_id"]
            for thread in self.truth["threads"]
            if all(thread[name] is value for name, value in flags.items())
        }


def build_why(why: Why, compiler_name: str, runtime: str, level: str = "-O0") -> Path:
    """Return the executable of a program with debug information.

    :param level: the compiler's option for optimization
    :raises Missing: if the compiler or the runtime is missing
    """
    program, openmp, used = why.program, RUNTIMES[runtime], compiler(compiler_name)
    c_compiler = compiler(C_COMPILERS.get(compiler_name, compiler_name))
    source = next(path for suffix in SUFFIXES if (path := SOURCES / f"{program}{suffix}").exists())
    compiling = ["-g", level, "-Wall", "-Wextra", "-fopenmp", "-fPIE"]
    headers = [*WITH_HEADERS, "-idirafter", str(intel_runtime() / "opt" / "compiler" / "include")]
    parts = {f"{program}.o": (used, source, () if source.suffix == ".F90" else headers)}
    parts["why.o"] = (c_compiler, SOURCES / "why.c", headers)
    linked = [openmp]
    if why.second is not None:
        parts["second.o"] = (compiler(why.second[0]), source, [*headers, "-DSECOND"])
        linked.append(RUNTIMES[why.second[1]])
    linking = ["-pie"]
    for library in linked:
        folder = library.file().parent
        linking += [f"-L{folder}", f"-Wl,-rpath,{folder}", *library.options]
    linking.append("-lpthread")

    texts = [path.read_text() for path in (source, SOURCES / "why.c", SOURCES / "why.h", SETTLED)]

    def compiled(name: str) -> Path:
        # Cases and runtimes share most object files.
        by, path, options = parts[name]
        command = [str(by.path), *compiling, *options, "-c", str(path), "-o", name]
        key = key_of(command, by.version, path.read_text(), texts[1:], RUNTIMES[INTEL].version())
        return entry("objects", key, lambda folder: run_compiler(command, folder)) / name

    def make(folder: Path) -> None:
        objects = [str(compiled(name)) for name in parts]
        run_compiler([str(used.path), *objects, "-o", program, *linking], folder)

    versions = [by.version for by, _, _ in parts.values()] + [library.version() for library in linked]
    return entry("programs", key_of("why", program, texts, versions, compiling, linking), make) / program


def _environment(why: Why, mode: str, more: Mapping[str, str]) -> dict[str, str]:
    debug = {"OMP_DEBUG": "enabled"} if mode == "debug" else {}
    return {**ENVIRONMENT, **why.environment, **debug, "WHY_CASE": why.case, **more}


def hung(
    why: Why,
    compiler_name: str,
    runtime: str,
    *,
    mode: str = "neither",
    kind: str = "kernel",
    level: str = "-O0",
    environment: Mapping[str, str] | None = None,
) -> Hung:
    """Return a core of a hanging program, from the cache or from a run.

    :param mode: ``debug`` if the runtime keeps states for debuggers, else ``neither``
    :param kind: ``kernel``, or ``gcore`` for gdb's
    :param level: the compiler's option for optimization
    :param environment: variables to add
    """
    if kind == "kernel":
        require_kernel_cores()
    executable = build_why(why, compiler_name, runtime, level)
    variables = _environment(why, mode, environment or {})

    def make(folder: Path) -> None:
        with _at_rest(why, executable, variables, folder) as (process, truth):
            if kind == "gcore":
                write_gcore(truth["pid"], folder / "core")
                return
            before = set(folder.iterdir())
            os.kill(truth["pid"], signal.SIGABRT)  # in fork_child this is the child; the parent waits for it
            process.wait()
            (core,) = set(folder.iterdir()) - before
            core.rename(folder / "core")

    folder = entry("cores", key_of("why", executable.parent.name, variables, kind), make)
    truth = json.loads((folder / "truth.json").read_text())
    return Hung(why, compiler_name, runtime, executable, truth, folder / "core")


@contextmanager
def hanging(
    why: Why,
    compiler_name: str,
    runtime: str,
    *,
    folder: Path,
    mode: str = "neither",
    environment: Mapping[str, str] | None = None,
) -> Iterator[Hung]:
    """Run a program in the empty *folder* until it hangs; the context kills it at its end."""
    executable = build_why(why, compiler_name, runtime)
    with _at_rest(why, executable, _environment(why, mode, environment or {}), folder) as (_, truth):
        yield Hung(why, compiler_name, runtime, executable, truth)


@contextmanager
def _at_rest(
    why: Why, executable: Path, environment: Mapping[str, str], folder: Path
) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, Any]]]:
    ready, told = os.pipe()
    output = folder / "output"
    try:
        with output.open("wb") as file, cores_allowed():
            process = subprocess.Popen(
                [str(executable)],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                pass_fds=[told],
                env={**environment, "TRUTH_FILE": "truth.json", "TRUTH_FD": str(told)},
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
            raise NotReady(f"{why.name} ({executable}), status {status}: {output.read_text(errors='replace')}")
        truth = json.loads((folder / "truth.json").read_text())
        _await_watcher(truth, stays="WHY_OUTSIDER" in environment)
        yield process, truth
    finally:
        os.close(ready)
        process.kill()
        process.wait()


def _await_watcher(truth: Mapping[str, Any], *, stays: bool) -> None:
    # The watcher thread has reported that the program hangs. Wait until this thread has ended or, with *stays*, sleeps.
    path = Path(f"/proc/{truth['pid']}/task/{truth['watcher']}/stat")
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            state = path.read_text().rpartition(")")[2].split()[0]
        except OSError:  # also ProcessLookupError, if the thread ends meanwhile
            state = None
        if state == "S" if stays else state is None:
            return
        if time.monotonic() > deadline:
            raise NotReady(f"the watcher is in state {state}")
        time.sleep(0.0005)


def plain(function: str | None) -> str | None:
    """Return a function's name without namespaces and classes."""
    return function.rpartition("::")[2] if function is not None else None
