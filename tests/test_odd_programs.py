"""Programs that the fixtures do not have: what ompd says of their cores is compared with what they wrote themselves.

Each thread of a program in ``tests/odd`` writes what ``omp_get_*`` tells it, which regions it is in and where, then
stays there or does what it said it would; see ``odd.h``.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from ompd import naming
from ompd.model import Answer, ParallelRecord, ThreadRecord
from ompd.questions import regions, threads
from ompd.session import Session
from tests.support import FULL, Missing, clean_environment, intel_runtime, require
from tests.support.build import compiler
from tests.support.cache import entry, key_of
from tests.support.machine import table
from tests.support.products import sample
from tests.support.runs import ENVIRONMENT, cores_allowed, kernel_core_obstacle

SOURCES = Path(__file__).parent / "odd"
END_SECONDS = 25
COMPILERS = ("gcc", "clang")
MODES = ("neither", "debug")

# The states that a thread may have which said that it was about to do something. "implicit" is a worksharing
# construct's end, where the source has no barrier directive.
BARRIER = "wait_barrier"
IMPLICIT = {BARRIER, "wait_barrier_implicit", "wait_barrier_implicit_workshare", "wait_barrier_implementation"}
STATES = {
    "barrier": {*IMPLICIT, "wait_barrier_explicit", "wait_barrier_implicit_parallel"},
    "implicit": IMPLICIT,
    "end": {"wait_barrier_implicit_parallel"},
    "taskwait": {"wait_taskwait"},
    "ordered": {"wait_ordered"},
    "critical": {"wait_critical", "wait_lock"},  # the runtime itself says wait_lock of its own critical sections
    "lock": {"wait_lock"},
    "fork": {"overhead", "work_parallel", "work_serial"},
    "leaving": {"overhead", "work_parallel", "wait_barrier_implicit_parallel"},
}


@dataclass(frozen=True)
class Odd:
    """A program, the folder of its source, and how it is built and run."""

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


def _build(odd: Odd, compiler_name: str) -> Path:
    source = next(odd.folder.glob(f"{odd.name}.c*"))
    used = compiler(compiler_name)
    driver = str(used.path)
    if source.suffix == ".cc":
        driver = driver.replace("gcc", "g++").replace("clang", "clang++")
    pic = "-fno-pie" if odd.link in ("no-pie", "static", "static libgomp") else "-fPIE"
    include = ["-I", str(SOURCES), "-idirafter", str(intel_runtime() / "opt" / "compiler" / "include")]
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

    headers = [SOURCES / "odd.h", *(path for path in odd.folder.glob("*.h") if path.name != "odd.h")]
    text = [path.read_text() for path in (source, *headers)]
    version = table()["intel-openmp"].version
    key = key_of("odd", odd.name, text, used.version, compiling, linking, version, odd.strip)
    return entry("programs", key, make) / odd.name


def core_of(odd: Odd, compiler_name: str, mode: str = "neither", kind: str = "kernel") -> Core:
    """Return a core of the program at its end, from the cache or from a run."""
    if kind == "kernel" and kernel_core_obstacle() is not None:
        raise Missing("kernel core", str(kernel_core_obstacle()), forbidden=True)
    executable = _build(odd, compiler_name)
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


def stopped_at(odd: Odd, compiler_name: str, breakpoint: str, condition: str, tmp_path: Path) -> Core:
    """Return gdb's core of the program where a thread reaches a routine of the runtime."""
    gdb = require("gdb")
    executable = _build(odd, compiler_name)
    command = [str(gdb), "-nx", "-batch", "-iex", "set debuginfod enabled off", "-ex", "set startup-with-shell off"]
    for line in ("set breakpoint pending on", f"break {breakpoint} if {condition}", "run", "gcore core", "kill"):
        command += ["-ex", line]
    environment = {**ENVIRONMENT, "OMP_MAX_ACTIVE_LEVELS": "20", **odd.environment}
    done = subprocess.run(
        [*command, str(executable)],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
        check=False,
    )
    if not (tmp_path / "core").exists():
        raise Missing("gdb", f"cannot stop the program: {done.stderr.strip()[-300:]}", forbidden=True)
    words = [json.loads(line) for line in (tmp_path / "words").read_text().splitlines()]
    return Core(tmp_path / "core", executable, words)


# The comparison


class Words:
    """Differences between what ompd says and a program's words; what ompd leaves open is listed apart."""

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
                told[word["tid"]] = word  # its last words
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
        # Both answers are of one process: they must not contradict each other.
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


# Programs that tell all

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
# clang 14 names a task's function after nothing.
UNTOLD = {("waits", "clang")}


def _cases() -> Iterator[Any]:
    for number, odd in enumerate(PLAIN):
        for compiler_name, mode in product(COMPILERS, MODES):
            # What a compiler makes of a program does not depend on what the runtime keeps.
            if not FULL and mode == "debug" and (compiler_name != "gcc" or number % 3):
                continue
            yield pytest.param(odd, compiler_name, mode, id=f"{odd.name}-{compiler_name}-{mode}")


@pytest.mark.parametrize(("odd", "compiler_name", "mode"), sample(_cases()))
def test_words_of_the_program(odd: Odd, compiler_name: str, mode: str) -> None:
    core = core_of(odd, compiler_name, mode)
    Words(core).check(missing=(odd.name, compiler_name) in UNTOLD)


@pytest.mark.parametrize(
    ("name", "compiler_name"), sample(product(["mixed", "dlopened", "loops", "handler"], COMPILERS))
)
def test_words_in_a_core_of_gdb(name: str, compiler_name: str) -> None:
    Words(core_of(Odd(name), compiler_name, kind="gcore")).check()


@pytest.mark.parametrize("compiler_name", COMPILERS)
def test_regions_of_cplusplus(compiler_name: str) -> None:
    Words(core_of(Odd("lambdas"), compiler_name), names=False).check()


@pytest.mark.parametrize("compiler_name", COMPILERS)
def test_names_of_cplusplus_read_like_the_source(compiler_name: str) -> None:
    words = Words(core_of(Odd("lambdas"), compiler_name), names=False)
    for word in words.told.values():
        where = words.rows[word["tid"]].where
        assert where is not None and word["function"] in str(where.function)


def test_the_signal_and_its_thread() -> None:
    core = core_of(Odd("segv"), "gcc")
    words = Words(core)
    assert words.threads.target.signal_name == "SIGSEGV"
    (crashed,) = (word for word in core.words if word.get("function") == "crash")
    row = words.rows[crashed["tid"]]
    assert row.where is not None and (row.where.function, row.where.line) == ("crash", crashed["line"])
    assert (row.level, row.thread_num) == (2, 1)


# Teams


@pytest.mark.parametrize("compiler_name", COMPILERS)
def test_a_league_of_teams_is_no_parallel_region(compiler_name: str) -> None:
    # With KMP_TEAMS_THREAD_LIMIT alone each team would have one thread on a small machine.
    environment = {"KMP_TEAMS_THREAD_LIMIT": "8", "OMP_TEAMS_THREAD_LIMIT": "4"}
    words = Words(core_of(Odd("teams", environment=environment), compiler_name))
    for region in words.known.values():
        construct = region.function.construct if region.function is not None else None
        assert region.level != 0 or construct != "parallel"
    # The league may be told as a region of its own kind, but not be counted as a level.
    wrong = [text for text in words.wrong if not text.startswith("regions that no thread is in")]
    # In a league libomp's omp_get_num_threads() tells how many threads are kept ready; its initial thread is alone.
    wrong = [text for text in wrong if not re.search(r"team_size is 1, in truth", text)]
    assert not [text for text in wrong if "number of regions" not in text], "\n".join(wrong)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("compiler_name", COMPILERS)
def test_a_team_that_is_still_forming(compiler_name: str, mode: str) -> None:
    # The system refused a thread in the middle of it, which ended the process: its primary thread is in the new region.
    core = core_of(Odd("no_more_threads", environment={"OMP_STACKSIZE": "64M"}), compiler_name, mode)
    words = Words(core)
    (forking,) = [word for word in words.told.values() if word["doing"] == "fork"]
    row = words.rows[forking["tid"]]
    assert (row.team_size, row.level, row.active_level, row.thread_num) == (64, 2, 2, 0)
    region = words.known[row.parallel]
    assert (region.team_size, region.level) == (64, 2) and region.threads[0] == forking["tid"]
    assert None in region.threads and len(region.threads) == 64
    others = [word for word in words.told.values() if word is not forking]
    assert others and all(words.rows[word["tid"]].level == 1 for word in others)


# Other ways to build


WAYS = {
    "no-pie": ((), "no-pie"),
    "no-g": (("-g0",), "dynamic"),
    "dwarf-3": (("-gdwarf-3",), "dynamic"),
    "dwarf-4-compressed": (("-gdwarf-4", "-gz"), "dynamic"),
    "no-frame-pointer": (("-fomit-frame-pointer", "-O1", "-fno-inline", "-fno-optimize-sibling-calls"), "dynamic"),
    "O2": (("-O2", "-fno-inline", "-fno-optimize-sibling-calls"), "dynamic"),
    "O3": (("-O3", "-fno-inline", "-fno-optimize-sibling-calls"), "dynamic"),
}


@pytest.mark.parametrize(
    ("flags", "link", "compiler_name"),
    [pytest.param(*WAYS[way], name, id=f"{way}-{name}") for way, name in sample(product(WAYS, COMPILERS))],
)
def test_ways_to_build(compiler_name: str, flags: tuple[str, ...], link: str) -> None:
    for name in ("mixed", "handler"):
        words = Words(core_of(Odd(name, flags=flags, link=link), compiler_name), lines="-g0" not in flags)
        words.check()


@pytest.mark.parametrize("compiler_name", COMPILERS)
@pytest.mark.parametrize("name", ["mixed", "pointers", "single", "segv"])
def test_tail_calls_leave_facts_open_but_not_wrong(compiler_name: str, name: str) -> None:
    flags = ("-O2", "-fno-inline")
    words = Words(core_of(Odd(name, flags=flags), compiler_name), lines=False, names=compiler_name == "gcc")
    words.check(missing=True)


@pytest.mark.parametrize("compiler_name", COMPILERS)
def test_an_inlined_function_is_not_called_by_the_name_of_another(compiler_name: str) -> None:
    Words(core_of(Odd("single", flags=("-O2",)), compiler_name)).check(missing=True)


@pytest.mark.parametrize("compiler_name", COMPILERS)
def test_a_stripped_program(compiler_name: str) -> None:
    words = Words(core_of(Odd("mixed", strip=True), compiler_name), lines=False, names=False)
    words.check(missing=True)
    for row in words.rows.values():
        assert row.where is None or (row.where.function, row.where.file, row.where.line) == (None, None, None)
    for region in words.known.values():
        found = region.function
        # clang writes down where a construct is, and stripping leaves that.
        noted = compiler_name == "clang" and found is not None and found.line is not None
        assert found is None or noted or (found.function, found.file, found.line) == (None, None, None)


# The runtime inside of the program


@pytest.mark.parametrize(
    ("link", "compiler_name"), sample(product(["static runtime", "static", "static-pie"], COMPILERS))
)
def test_a_runtime_linked_into_the_program(compiler_name: str, link: str) -> None:
    for odd in (Odd("segv", link=link), Odd("tasks", link=link, environment=AWAKE)):
        words = Words(core_of(odd, compiler_name), names=link == "static runtime", lines=link == "static runtime")
        words.check(missing=link != "static runtime")


@pytest.mark.parametrize("compiler_name", COMPILERS)
@pytest.mark.parametrize("link", ["dynamic", "static", "static-pie"])
def test_a_thread_in_code_of_the_kernels_own(compiler_name: str, link: str) -> None:
    odd = Odd("vdso", link=link, flags=("-fomit-frame-pointer",))
    core = core_of(odd, compiler_name)
    Words(core, names=link == "dynamic", lines=link == "dynamic").check(missing=link != "dynamic")
    (asking,) = (word for word in core.words if word.get("function") == "ask")
    with Session.open_core(core.path) as session:
        process = session.process
        stack = process.stack(asking["tid"])
        first = process.locate(stack.frames[0].call_site)
        assert first.module is not None and first.module.name == "[vdso]"
        assert first.symbol in ("__vdso_getcpu", "getcpu")
        names = [process.locate(frame.call_site).symbol for frame in stack.frames]
        assert stack.stopped is None and names[1] == "ask" and "__kmp_invoke_microtask" in names
        (row,) = (row for row in threads.ask(session).rows if row.native_thread_id == asking["tid"])
        assert row.where is not None and (row.where.function, row.where.line) == ("ask", asking["line"])


# Between two states


@pytest.mark.parametrize("compiler_name", COMPILERS)
def test_a_thread_that_leaves_an_inner_region_is_not_idle(tmp_path: Path, compiler_name: str) -> None:
    core = stopped_at(Odd("leaving"), compiler_name, "__kmp_free_team", "$_thread > 1", tmp_path)
    words = Words(core)
    (leaving,) = (word for word in core.words if word.get("doing") == "leaving")
    row = words.rows[leaving["tid"]]
    # It is on its way from number 0 of level 2 back to number 3 of level 1.
    assert (row.level, row.thread_num, row.team_size) == (1, 3, 4)
    assert row.state != "idle"


# gdb


@pytest.mark.parametrize("compiler_name", COMPILERS)
@pytest.mark.parametrize("name", ["handler", "pointers", "mixed"])
def test_gdb_finds_the_same_functions(compiler_name: str, name: str) -> None:
    core = core_of(Odd(name), compiler_name)
    command = [str(require("gdb")), "-nx", "-batch", "-iex", "set debuginfod enabled off"]
    command += [str(core.executable), str(core.path), "-ex", "thread apply all bt"]
    done = subprocess.run(command, capture_output=True, text=True, env=clean_environment(), check=False)
    stacks = re.split(r"\nThread \d+ ", done.stdout)[1:]
    assert len(stacks) == len(Words(core).rows)
    for text in stacks:
        native = re.search(r"LWP (\d+)", text)
        assert native is not None
        row = Words(core).rows[int(native[1])]
        ours = row.where
        users = re.findall(r"^#\d+ .* at .*?(\w+\.[ch]):(\d+)$", text, re.MULTILINE)
        users = [(file, int(line)) for file, line in users if file in (f"{name}.c", "odd.h")]
        assert ours is not None and (Path(str(ours.file)).name, ours.line) == users[0], text
