"""Programs of ``tests/odd`` and similar folders, which write OpenMP's answers about themselves, and the comparison."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ompd import naming
from ompd.model import Answer, ParallelRecord, ThreadRecord
from ompd.questions import regions, threads
from ompd.session import Session
from tests.support import RUNTIMES, STRIPPED, Missing, clean_environment, intel_runtime, require
from tests.support.build import SETTLED, WITH_HEADERS, compiler
from tests.support.cache import entry, key_of
from tests.support.machine import table
from tests.support.runs import ENVIRONMENT, cores_allowed, kernel_core_obstacle

SOURCES = Path(__file__).parents[1] / "odd"
END_SECONDS = 25
COMPILERS = ("gcc", "clang")
MODES = ("neither", "debug")
# The possible states of a thread, by the action that it announced. "implicit" is the end of a worksharing construct
# without a barrier directive.
BARRIER = "wait_barrier"
IMPLICIT = {BARRIER, "wait_barrier_implicit", "wait_barrier_implicit_workshare", "wait_barrier_implementation"}
STATES = {
    "barrier": {*IMPLICIT, "wait_barrier_explicit", "wait_barrier_implicit_parallel"},
    "implicit": IMPLICIT,
    "end": {"wait_barrier_implicit_parallel"},
    "taskwait": {"wait_taskwait"},
    "ordered": {"wait_ordered"},
    "critical": {"wait_critical", "wait_lock"},  # the runtime itself keeps wait_lock for its critical sections
    "lock": {"wait_lock"},
    "fork": {"overhead", "work_parallel", "work_serial"},
    "leaving": {"overhead", "work_parallel", "wait_barrier_implicit_parallel"},
}


@dataclass(frozen=True)
class Odd:
    """A program, the folder of its source, and the way it is built and run."""

    name: str
    flags: Sequence[str] = ()
    link: str = "dynamic"
    environment: Mapping[str, str] = field(default_factory=dict)
    strip: bool = False
    signal: int = signal.SIGABRT
    folder: Path = SOURCES


@dataclass(frozen=True)
class Core:
    path: Path
    executable: Path
    words: list[dict[str, Any]]


def _link_flags(link: str) -> list[str]:
    if link in (*STRIPPED, "stub"):
        runtime = RUNTIMES[link]
        folder = runtime.file().parent
        return ["-pie", f"-L{folder}", f"-Wl,-rpath,{folder}", f"-l:{runtime.file().name}", "-lpthread", "-ldl"]
    library = intel_runtime() / "lib"
    shared = [f"-L{library}", f"-Wl,-rpath,{library}", "-liomp5", "-lpthread", "-ldl"]
    static = [str(library / "libiomp5.a"), "-lpthread", "-ldl", "-lm"]
    gnus = ["-l:libgomp.a", "-lpthread", "-ldl"]
    return {
        "libgomp": ["-pie", "-l:libgomp.so.1", "-lpthread", "-ldl"],
        "libgomp in the program": ["-pie", *gnus],
        "static libgomp": ["-static", *gnus],
        "dynamic": ["-pie", *shared],
        "no-pie": ["-no-pie", *shared],
        "static runtime": ["-pie", *static],
        "static": ["-static", *static],
        "static-pie": ["-static-pie", *static],
    }[link]


def _compile(folder: Path, command: list[str]) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=clean_environment(), check=False)
    if done.returncode:
        pytest.skip(f"does not compile here: {done.stderr.strip()[-300:]}")


def build_odd(odd: Odd, compiler_name: str) -> Path:
    source = next(odd.folder.glob(f"{odd.name}.c*"))
    used = compiler(compiler_name)
    driver = str(used.path)
    if source.suffix == ".cc":
        driver = driver.replace("gcc", "g++").replace("clang", "clang++")
    pic = "-fno-pie" if odd.link in ("no-pie", "static", "static libgomp") else "-fPIE"
    include = ["-I", str(SOURCES), *WITH_HEADERS, "-idirafter", str(intel_runtime() / "opt" / "compiler" / "include")]
    compiling = ["-g", "-O0", "-fopenmp", pic, *odd.flags, *include, "-w"]
    linking = _link_flags(odd.link)

    def make(folder: Path) -> None:
        objects = [f"{odd.name}.o"]
        _compile(folder, [driver, *compiling, "-c", str(source), "-o", objects[0]])
        if odd.name == "two_files":
            objects.append("other.o")
            _compile(folder, [driver, *compiling, "-DOTHER", "-c", str(source), "-o", objects[1]])
        if odd.name == "dlopened":
            _compile(folder, [driver, *compiling, "-DLIBRARY", "-fPIC", "-c", str(source), "-o", "library.o"])
            _compile(folder, [driver, "-shared", "library.o", "-o", "library.so", *linking[1:]])
        if odd.name == "libraries":
            _compile(folder, [driver, *compiling, "-DLIBRARY", "-fPIC", "-c", str(source), "-o", "library.o"])
            for library in ("first.so", "second.so"):
                _compile(folder, [driver, "-shared", "library.o", "-o", library, *linking[1:]])
        _compile(folder, [driver, *objects, "-o", odd.name, *linking])
        if odd.strip:
            _compile(folder, ["strip", odd.name])

    headers = [SETTLED, SOURCES / "odd.h", *(path for path in odd.folder.glob("*.h") if path.name != "odd.h")]
    text = [path.read_text() for path in (source, *headers)]
    version = table()["intel-openmp"].version
    key = key_of("odd", odd.name, text, used.version, compiling, linking, version, odd.strip)
    return entry("programs", key, make) / odd.name


def core_of(odd: Odd, compiler_name: str, mode: str = "neither", kind: str = "kernel") -> Core:
    """Return a core of the program at its end, from the cache or from a run."""
    if kind == "kernel" and kernel_core_obstacle() is not None:
        raise Missing("kernel core", str(kernel_core_obstacle()), forbidden=True)
    executable = build_odd(odd, compiler_name)
    environment = {**ENVIRONMENT, "OMP_MAX_ACTIVE_LEVELS": "20", **odd.environment}
    if mode == "debug":
        environment["OMP_DEBUG"] = "enabled"
    if kind == "gcore":
        environment["ODD_WAIT"] = "1"

    def make(folder: Path) -> None:
        for library in executable.parent.glob("*.so"):
            (folder / library.name).symlink_to(library)
        with (folder / "output").open("wb") as output, cores_allowed():
            process = subprocess.Popen(
                [str(executable)],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
            )
        try:
            if kind == "gcore":
                _gcore(folder, process.pid)
            else:
                process.wait(END_SECONDS)
        finally:
            process.kill()
            process.wait()
        cores = [path for path in folder.iterdir() if path.name.startswith("core")]
        assert len(cores) == 1, f"{odd.name}: {process.returncode}: {(folder / 'output').read_text()}"
        cores[0].rename(folder / "core")

    folder = entry("cores", key_of("odd", executable.parent.name, environment, kind), make)
    words = [json.loads(line) for line in (folder / "words").read_text().splitlines()]
    return Core(folder / "core", executable, words)


def _gcore(folder: Path, process_id: int) -> None:
    gdb = require("gdb")
    deadline = time.monotonic() + END_SECONDS
    while not (folder / "ready").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    command = [str(gdb), "-nx", "-batch", "--readnever", "-p", str(process_id), "-ex", f"gcore {folder / 'core'}"]
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, env=clean_environment(), check=False)


class Words:
    """Differences between ompd's answers and a program's words; *missing* lists facts that ompd leaves open."""

    def __init__(self, core: Core, *, lines: bool = True, names: bool = True) -> None:
        self.wrong: list[str] = []
        self.missing: list[str] = []
        self._lines, self._names = lines, names
        with Session.open_core(core.path) as session:
            self.threads: Answer[ThreadRecord] = threads.ask(session)
            self.regions: Answer[ParallelRecord] = regions.ask(session)
        for answer in (self.threads, self.regions):
            if not answer.complete:
                self.wrong.append(f"incomplete: {answer.warnings[:3]}")
        self.rows = {row.native_thread_id: row for row in self.threads.rows}
        self.known = {row.id: row for row in self.regions.rows}
        told: dict[int, dict[str, Any]] = {}
        for word in core.words:
            if "watch" in word:
                self._same(f"thread {word['watch']}", "runtime", self.rows[word["watch"]].runtime, None, {})
            if "thread_num" in word:
                told[word["tid"]] = word  # the last words count
        self.told = told
        live: set[str] = set()
        for word in told.values():
            live |= self._thread(word)
        self._consistent()
        if not told:
            return
        extra = set(self.known) - live
        if extra and not any("others" in word for word in core.words):
            self.wrong.append(f"regions that no thread is in: {sorted(extra)}")

    def _same(self, subject: str, key: str, ours: object, true: object, unavailable: Mapping[str, str]) -> None:
        if ours == true:
            return
        if ours is None and key in unavailable:
            self.missing.append(f"{subject}: {key}: {unavailable[key]}")
        else:
            self.wrong.append(f"{subject}: {key} is {ours!r}, in truth {true!r}")

    def _thread(self, word: dict[str, Any]) -> set[str]:
        row = self.rows.get(word["tid"])
        subject = f"thread {word['tid']} ({word['function']}:{word['line']}, {word['doing']})"
        if row is None:
            self.wrong.append(f"{subject} has no row")
            return set()
        for key in ("thread_num", "team_size", "level", "active_level"):
            self._same(subject, key, getattr(row, key), word[key], row.unavailable)
        states = {"work_parallel" if word["level"] else "work_serial"}
        if word["doing"] != "stay":
            states = STATES[word["doing"]]
        if row.state is None and "state" in row.unavailable:
            self.missing.append(f"{subject}: state: {row.unavailable['state']}")
        elif row.state not in states:
            self.wrong.append(f"{subject}: state is {row.state} ({row.state_source}), in truth {sorted(states)}")
        if word["doing"] == "stay":
            self._place(subject, row, word)
        return self._chain(subject, row, word)

    def _place(self, subject: str, row: ThreadRecord, word: dict[str, Any]) -> None:
        if row.where is None:
            self._same(subject, "where", None, word["function"], row.unavailable)
            return
        self._function(subject, row.where.function, word["function"])
        if self._lines:
            self._same(subject, "where.line", row.where.line, word["line"], {})

    def _function(self, subject: str, ours: str | None, true: str) -> None:
        made = naming.parse_outlined(ours or "")
        if self._names and made is not None and made.parent is None:
            self.missing.append(f"{subject}: function: the compiler calls it {ours}")
        elif self._names:
            self._same(subject, "function", ours, true, {})

    def _chain(self, subject: str, row: ThreadRecord, word: dict[str, Any]) -> set[str]:
        chain: list[ParallelRecord] = []
        region = self.known.get(row.parallel or "")
        while region is not None and region not in chain:
            chain.append(region)
            region = self.known.get(region.enclosing or "")
        if "parallel" in row.unavailable:
            self.missing.append(f"{subject}: parallel: {row.unavailable['parallel']}")
            return set()
        self._same(subject, "number of regions", len(chain), word["level"], {})
        for depth, (region, (number, size), (function, line)) in enumerate(
            zip(chain, word["levels"], word["regions"], strict=False)
        ):
            what = f"{subject}: region {region.id}"
            self._same(what, "level", region.level, word["level"] - depth, region.unavailable)
            self._same(what, "team_size", region.team_size, size, region.unavailable)
            if depth == 0 and (number >= len(region.threads) or region.threads[number] != word["tid"]):
                self.wrong.append(f"{what}: thread {number} is not it: {region.threads}")
            found = region.function
            if found is None or found.function is None:
                if "function" in region.unavailable or found is not None:
                    self.missing.append(f"{what}: function: {region.unavailable.get('function')}")
                else:
                    self.wrong.append(f"{what} has no function, in truth {function}")
                continue
            self._function(what, found.function, function)
            if self._lines and (found.line is None or not line <= found.line <= line + 3):
                self.wrong.append(f"{what}: line is {found.line}, in truth {line}")
        return {region.id for region in chain}

    def _consistent(self) -> None:
        # Both answers are about the same process: they must not contradict each other.
        for row in self.rows.values():
            region = self.known.get(row.parallel or "")
            if region is None or row.thread_num is None:
                continue
            if row.thread_num >= len(region.threads) or region.threads[row.thread_num] != row.native_thread_id:
                self.wrong.append(f"thread {row.native_thread_id} is not number {row.thread_num} of {region.threads}")
        for region in self.known.values():
            inner = {row.enclosing for row in self.known.values()}
            for native in region.threads:
                member = self.rows.get(native) if native is not None else None
                if member is not None and member.parallel is None and not member.unavailable and region.id not in inner:
                    self.wrong.append(f"thread {native} of {region.id} is said to be in no region")

    def check(self, *, missing: bool = False) -> None:
        assert not self.wrong, "\n".join(self.wrong)
        assert missing or not self.missing, "\n".join(self.missing)


AWAKE = {"KMP_BLOCKTIME": "infinite"}  # threads that sleep in a barrier do not wake up for tasks
PLAIN = [
    Odd("after_inner"),
    Odd("cancel", environment={"OMP_CANCELLATION": "true"}),
    Odd("dlopened"),
    Odd("executed"),
    Odd("false_if"),
    Odd("fork_region"),
    Odd("fork_serial"),
    Odd("handler"),
    Odd("implicit"),
    Odd("loops"),
    Odd("mixed"),
    Odd("ordered"),
    Odd("pointers"),
    Odd("roots_gone"),
    Odd("segv", signal=signal.SIGSEGV),
    Odd("serialized_100"),
    Odd("short_regions"),
    Odd("single"),
    Odd("tasks", environment=AWAKE),
    Odd("task_region", environment=AWAKE),
    Odd("two_files"),
    Odd("waits"),
]
