"""Programs of 32-bit x86: what they note of themselves, what gdb shows of them, and what is told of their cores, alive
and in LLDB.
"""

from __future__ import annotations

import io
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

import ompd
from ompd.binary.core.notes import NT_386_TLS
from ompd.debugger.architecture import I386
from ompd.debugger.files.finder import FileFinder
from ompd.debugger.process import StoppedProcess
from ompd.debugger.stacks.unwind import Unwinder
from ompd.debugger.targets.core import CoreTarget
from ompd.errors import MalformedFile, MemoryFault, NoAnswer, OmpdError, SymbolNotFound, Unavailable
from tests.i386.checks import ENVIRONMENT, GLOBALS, check_process, check_stacks, check_variables
from tests.stacks import (
    GDB_OPTIONS,
    GDB_SCRIPT,
    NO_TABLES,
    GdbFrame,
    Kind,
    comparing,
    gdb_stacks,
    stopped_at_work,
    take_core,
)
from tests.stacks import SOURCES as STACKS
from tests.support import NotReady, clean_environment, require, tls
from tests.support.build import compiler
from tests.support.cache import entry, key_of
from tests.support.comparing import as_json, compare
from tests.support.lldb import LldbHost
from tests.support.m32 import Flags, m32_flags, m32_version
from tests.support.machine import Missing
from tests.support.runs import (
    READY_SECONDS,
    await_pause,
    can_be_read,
    cores_allowed,
    require_kernel_cores,
    write_gcore,
    write_kernel_core,
)
from tests.support.unwinding import stack_of

SOURCES = Path(__file__).parent / "i386"
CUTS = 60


@dataclass(frozen=True)
class Build:
    """How the program is built, and how it is stopped: by a core of the kernel, or of gdb."""

    name: str
    compiler: str
    flags: tuple[str, ...]
    kind: str = "kernel"
    mechanism: str = "tls"

    @property
    def is_static(self) -> bool:
        return any(flag.startswith("-static") for flag in self.flags)


BUILDS = {
    build.name: build
    for build in (
        Build("gcc-O0-pie", "gcc", ("-O0", "-fPIE", "-pie")),
        Build("gcc-O0-pie-gcore", "gcc", ("-O0", "-fPIE", "-pie"), "gcore"),
        Build("gcc-O2-no_pie", "gcc", ("-O2", "-fomit-frame-pointer", "-fno-pie", "-no-pie")),
        Build("gcc-O2-no_pie-gcore", "gcc", ("-O2", "-fomit-frame-pointer", "-fno-pie", "-no-pie"), "gcore"),
        Build("gcc-O1-gnu2", "gcc", ("-O1", "-fPIC", "-mtls-dialect=gnu2", "-gdwarf-4")),
        Build("gcc-debug_frame", "gcc", ("-O1", "-fno-asynchronous-unwind-tables", "-fno-pie", "-no-pie")),
        Build("gcc-static", "gcc", ("-O1", "-static")),
        Build("gcc-static_pie", "gcc", ("-O2", "-static-pie", "-fPIE")),
        Build("gcc-no_build_id", "gcc", ("-O1", "-fPIE", "-pie", "-Wl,--build-id=none", "-Wl,-z,now")),
        Build("clang-O1-pie", "clang", ("-O1", "-fPIE", "-pie")),
        Build("clang-O0-no_pie-gcore", "clang", ("-O0", "-fno-pie", "-no-pie"), "gcore"),
        Build("clang-emulated", "clang", ("-O1", "-fPIE", "-pie", "-femulated-tls"), "kernel", "emutls"),
    )
}
ALL = pytest.mark.parametrize("name", BUILDS)


@dataclass(frozen=True)
class Sample:
    """A core of the program, and what it wrote."""

    program: Path
    core: Path
    truth: dict[str, Any]


def compiled(name: str, flags: Sequence[str], sources: Mapping[str, str], command: Sequence[str], output: str) -> Path:
    """Return the folder with what is compiled of *sources*, by their names in it."""
    used = compiler(name)

    def make(folder: Path) -> None:
        for file, text in sources.items():
            (folder / file).write_text(text)
        words = [str(used.path), "-g", "-Wall", "-Wextra", *flags, *command, "-o", output]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, env=clean_environment(), check=False)
        assert done.returncode == 0, done.stderr

    return entry("i386", key_of(name, used.version, m32_version(), flags, sources, command), make)


def flags_of(build: Build) -> Flags:
    flags = m32_flags()
    return replace(flags, link=flags.link_static) if build.is_static else flags


def built(build: Build) -> tuple[Path, Path | None]:
    """Return the program, and the library that it opens."""
    flags = flags_of(build)
    library = None
    if not build.is_static:
        emulated = [flag for flag in build.flags if flag == "-femulated-tls"]
        options = ["-shared", "-fPIC", *emulated, *flags.compile]
        source = {"opened.c": (SOURCES / "opened.c").read_text()}
        library = compiled(build.compiler, options, source, ["opened.c", *flags.link], "opened.so") / "opened.so"
    options = ["-fno-optimize-sibling-calls", *build.flags, *flags.compile]
    options += ["-DSTAND_ALONE"] if build.is_static else []
    source = {"program.c": (SOURCES / "program.c").read_text()}
    linking = ["program.c", *flags.link, "-lpthread", *([] if build.is_static else ["-ldl"])]
    return compiled(build.compiler, options, source, linking, "program") / "program", library


@contextmanager
def started(build: Build, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run the program in *folder* until it has written ``truth.json`` there and all of its threads rest."""
    program, library = built(build)
    ready, told = os.pipe()
    process = None
    try:
        with cores_allowed():
            process = subprocess.Popen(
                [str(program), "truth.json", str(told), *([str(library)] if library is not None else [])],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                pass_fds=[told],
                env=ENVIRONMENT,
                start_new_session=True,
            )
        os.close(told)
        if not can_be_read(ready, READY_SECONDS) or not os.read(ready, 1):
            raise NotReady("i386/program.c")
        await_pause(process.pid, process.pid)
        yield process
    finally:
        if process is not None:
            process.kill()
            process.wait()
        os.close(ready)


@cache
def sample(name: str) -> Sample:
    build = BUILDS[name]
    if build.kind == "kernel":
        require_kernel_cores()

    def make(folder: Path) -> None:
        with started(build, folder) as process:
            if build.kind == "gcore":
                write_gcore(process.pid, folder / "core")
            else:
                write_kernel_core(process, folder / "core")

    program, library = built(build)
    folder = entry("i386-cores", key_of(program.parent.name, str(library), build.kind, ENVIRONMENT), make)
    return Sample(program, folder / "core", json.loads((folder / "truth.json").read_text()))


@contextmanager
def process_of(core: Path, finder: FileFinder | None = None) -> Iterator[StoppedProcess]:
    target = CoreTarget(str(core))
    process = StoppedProcess(target, finder or FileFinder())
    try:
        yield process
    finally:
        process.close()
        target.close()


# What each thread says of itself


@ALL
def test_a_core_tells_what_each_thread_noted(name: str) -> None:
    taken, build = sample(name), BUILDS[name]
    with ompd.open_core(str(taken.core)) as session:
        check_stacks(session.ask_stacks(raw=True), taken.truth)
        check_variables(session, taken.truth, build.mechanism, opened=not build.is_static)
    with process_of(taken.core) as process:
        check_process(process, taken.truth, no_keys=(500, 1023, 1024, -1, 1 << 40))


@ALL
def test_frames_of_all_threads_are_those_that_gdb_shows(name: str) -> None:
    taken = sample(name)
    stacks = gdb_stacks(taken.program, taken.core)
    with process_of(taken.core) as process:
        assert stacks.keys() == set(process.threads())
        for thread in process.threads():
            theirs = [frame for frame in stacks[thread] if frame.kind in ("normal", "signal")]
            ours = process.stack(thread).frames
            assert [(f.pc, f.is_signal_frame) for f in ours] == [(f.pc, f.kind == "signal") for f in theirs]
            # gdb tells no CFA of the outermost frame.
            assert [frame.cfa for frame in ours[:-1]] == [frame.cfa for frame in theirs[:-1]]


@ALL
def test_a_snapshot_tells_the_same(name: str, tmp_path: Path) -> None:
    taken, build = sample(name), BUILDS[name]
    path = tmp_path / "snapshot"
    with ompd.open_core(str(taken.core)) as session:
        session.snapshot(path, keep_environment=True)
    assert path.stat().st_size < 2 << 20
    # Of its own files it needs none.
    with ompd.open_core(str(path), sysroot=str(tmp_path)) as session:
        check_stacks(session.ask_stacks(raw=True), taken.truth)
        check_variables(session, taken.truth, build.mechanism, opened=not build.is_static)
    with process_of(path) as process:
        check_process(process, taken.truth)
    with path.open("rb") as file:
        notes = [note for s in ELFFile(file).iter_segments("PT_NOTE") for note in s.iter_notes()]
    count = len(taken.truth["threads"])
    assert [note["n_type"] for note in notes].count("NT_PRSTATUS") == count
    assert sum(note["n_type"] in (NT_386_TLS, "NT_386_TLS") for note in notes) == count


def test_an_independent_reader_finds_the_same_notes_in_a_snapshot_as_in_the_core(tmp_path: Path) -> None:
    taken = sample("gcc-O0-pie")
    with ompd.open_core(str(taken.core)) as session:
        session.snapshot(tmp_path / "snapshot")
    printed = []
    for core in (taken.core, tmp_path / "snapshot"):
        words = [str(require("gdb")), *GDB_OPTIONS, str(taken.program), str(core)]
        for command in ("info threads", "thread apply all info registers", "thread apply all print own_int"):
            words += ["-ex", command]
        done = subprocess.run(words, capture_output=True, text=True, env=clean_environment(), check=True)
        lines = done.stdout[done.stdout.index("Id ") :].splitlines()
        # Only a note that a core of ours does not have tells of floating point and vectors.
        printed.append(
            [line for line in lines if not re.match(r"(st\d|f\w+|xmm\d|ymm\d|mxcsr|mm\d|k\d|zmm\d)\b", line)]
        )
    assert len(printed[0]) > 9 * 18
    assert printed[0] == printed[1]


# A program by hand, with thread-local storage of all kinds

KINDS_OF_TLS = {
    "gcc-pie-kernel": ("gcc", "kernel", ("-fPIE", "-pie")),
    "gcc-no_pie-gcore": ("gcc", "gcore", ("-fno-pie", "-no-pie")),
    "clang-pie-kernel": ("clang", "kernel", ("-fPIE", "-pie")),
}
TLS = pytest.mark.parametrize("name", KINDS_OF_TLS)


@cache
def thread_local(name: str) -> Sample:
    """Return a core of ``tls/program.c``."""
    used, kind, flags = KINDS_OF_TLS[name]
    if kind == "kernel":
        require_kernel_cores()
    m32, by = m32_flags(), compiler(used)
    sources = {path.name: path.read_text() for path in sorted(tls.SOURCES.iterdir())}

    def make(folder: Path) -> None:
        def run(*arguments: str) -> None:
            command = [str(by.path), "-g", "-O0", *m32.compile, *arguments, *m32.link]
            subprocess.run(command, cwd=folder, env=clean_environment(), check=True)

        run("-fPIC", "-shared", str(tls.SOURCES / "linked.c"), "-o", "liblinked.so")
        for library, options in tls.OPENED.items():
            run("-fPIC", "-shared", *options, str(tls.SOURCES / "opened.c"), "-o", f"{library}.so")
        linked = ("-L.", "-llinked", "-Wl,-rpath,$ORIGIN", "-ldl", "-lpthread")
        run(*flags, str(tls.SOURCES / "program.c"), "-o", "program", *linked)

    folder = entry("i386-tls", key_of(sources, by.version, m32_version(), flags, tls.OPENED), make)
    opened = [str(folder / f"{library}.so") for library in tls.OPENED]
    key = key_of(folder.name, kind, tls.ENVIRONMENT)
    cores = entry("i386-tls-cores", key, lambda f: tls.run(folder / "program", f, kind, opened))
    return Sample(folder / "program", cores / f"core.{kind}", json.loads((cores / "truth.json").read_text()))


# What the accessor of a library returns is the third of its elements, which are as wide as a pointer.
WITHIN = {name: distance // 2 for name, distance in tls.WITHIN.items()}


@TLS
def test_thread_local_variables_of_all_kinds_and_keys(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "WITHIN", WITHIN)
    taken = thread_local(name)
    with process_of(taken.core) as process:
        tls.check_variables(process, taken.truth, tls.OF_PROGRAM | tls.OF_LIBRARIES)
        tls.check_keys(process, taken.truth)
        assert process.environment() == tls.ENVIRONMENT


@TLS
def test_without_the_file_of_libc_nothing_is_guessed(name: str) -> None:
    # A relocation without an addend tells of a library that was built for static TLS; a note of the thread pointer.
    taken = thread_local(name)
    with process_of(taken.core, tls.Without("libc.so")) as process:
        for thread in taken.truth["threads"]:
            native = thread["id"]
            for variable in ("exe_static", "exe_aligned", "static_own", "static_variable"):
                address = thread["variables"][variable] - WITHIN.get(variable, 0)
                if name.endswith("kernel"):
                    assert process.find_symbol(variable, thread=native) == address, variable
                else:
                    with pytest.raises(Unavailable, match="does not describe its threads"):
                        process.find_symbol(variable, thread=native)
            for variable in ("linked_variable", "second_variable", "other_variable"):
                with pytest.raises(Unavailable, match="does not describe its threads"):
                    process.find_symbol(variable, thread=native)
            with pytest.raises(Unavailable, match="does not describe its threads"):
                process.pthread_key(native, 1)


# Stacks that were stopped anywhere


def work(flags: Sequence[str]) -> Kind:
    m32 = m32_flags()
    every = ("-g", *flags, "-pthread", "-lm", *m32.compile, *m32.link, "-lm")
    return Kind("m32", "work.c", "gcc", every)


@pytest.mark.parametrize(
    "flags",
    [("-O2",), ("-O1", "-fno-omit-frame-pointer", "-Wl,-z,lazy"), ("-O2", NO_TABLES, "-no-pie")],
    ids=" ".join,
)
def test_every_frame_of_threads_at_work_is_the_one_that_gdb_shows(flags: tuple[str, ...]) -> None:
    kind, tally = work(flags), comparing.Tally()
    for number in range(8):  # where threads are stopped is chance
        check_threads_at_work(kind, number, tally)
        if len(tally.places) >= 10:
            return
    pytest.fail("too few stacks differ")


def check_threads_at_work(kind: Kind, number: int, tally: comparing.Tally) -> None:
    core = stopped_at_work(kind, number)
    stacks = gdb_stacks(comparing.program_of(kind), core)
    with process_of(core) as process:
        assert stacks.keys() == set(process.threads()) and len(stacks) >= kind.threads
        astray = 0
        for thread, frames in stacks.items():
            ours = process.stack(thread)
            if ours.stopped is not None and process.module_at(ours.frames[-1].pc) is None:
                # Unwind data of glibc's routines in assembly is not right everywhere: it leads to where no code is.
                assert [frame.pc for frame in ours.frames] == [frame.pc for frame in frames[: len(ours.frames)]]
                astray += 1
                continue
            # Where a thread begins gdb shows one more frame, at 0.
            begins = frames[-1].pc == 0 and frames[-1].kind != "unreadable"
            comparing.check(process, thread, frames[: -1 if begins else None], tally)
    assert astray <= len(stacks) // 10


def test_where_the_c_library_makes_threads() -> None:
    assert I386.system_calls is not None
    library = m32_flags().libraries[0] / "libc.so.6"
    assert comparing.uncovered_clones(library, I386) == set(I386.system_calls.clones)


STEPS_32 = (
    ("long answer = 62;", "long answer = 37;"),
    (
        '"syscall" : "+a"(answer) : "D"(number_of_process), "S"((long)SIGUSR1) : "rcx", "r11", "memory"',
        '"int $0x80" : "+a"(answer) : "b"(number_of_process), "c"((long)SIGUSR1) : "memory"',
    ),
)


def changed(path: Path, changes: Sequence[tuple[str, str]]) -> str:
    """Return a source whose machine code is that of 32 bits."""
    text = path.read_text()
    for before, after in changes:
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    return text


@pytest.mark.parametrize("flags", [("-O2",), ("-O1", "-fno-omit-frame-pointer"), ("-O2", NO_TABLES)], ids=" ".join)
def test_frames_at_each_instruction_are_those_that_gdb_shows(flags: tuple[str, ...]) -> None:
    m32 = m32_flags()
    source = {"steps.c": changed(STACKS / "steps.c", STEPS_32)}
    options = ["-w", "-Wl,-z,lazy", "-fPIE", "-pie", *flags, *m32.compile]
    program = compiled("gcc", options, source, ["steps.c", *m32.link], "program") / "program"
    script = comparing.STEP_SCRIPT % (comparing.MAX_STEPS, comparing.STEPS)
    script = re.sub(r'NAMES = ".*"', 'NAMES = "eax ecx edx ebx esp ebp esi edi eip"', script)
    script = script.replace("(1 << 64)", "(1 << 32)").replace('registers["rsp"]', 'registers["esp"]')
    shown: dict[int, list[GdbFrame]] = {}
    stops: dict[int, tuple[dict[str, int], int, bytes]] = {}
    tables: list[tuple[int, int, Path]] = []
    for line in stepped(program, GDB_SCRIPT + script):
        kind, _, rest = line.partition(" ")
        words = rest.split(maxsplit=1 if kind == "STOP" else 3)
        if kind == "MAPPED" and words[3].startswith("/"):
            tables.append((int(words[0], 16), int(words[1], 16), Path(words[3])))
        elif kind == "STOP":
            registers, low, stack = json.loads(words[1])
            stops[int(words[0])] = registers, low, bytes.fromhex(stack)
        elif kind == "FRAME":
            shown.setdefault(int(words[0]), []).append(GdbFrame(int(words[1], 16), int(words[2], 16), words[3]))
    found = comparing.Mapped(tables)
    compared = 0
    thunks: set[int] = set()
    for number, (registers, low, memory) in stops.items():

        def read(address: int, size: int, low: int = low, memory: bytes = memory) -> bytes:
            if not low <= address <= low + len(memory) - size:
                raise MemoryFault(address, size)
            return memory[address - low : address - low + size]

        theirs = [frame for frame in shown[number] if frame.kind in ("normal", "signal")]
        if any(found.table_for(frame.pc) is None for frame in theirs):
            continue  # the vDSO is no file; cores have it
        stack = stack_of(Unwinder(read, I386, found.table_for), registers)
        if stack.stopped == f"{comparing.UNCOVERED}{theirs[0].pc:#x}":
            thunks.add(theirs[0].pc)
            continue
        assert [(f.pc, f.is_signal_frame) for f in stack.frames] == [(f.pc, f.kind == "signal") for f in theirs]
        assert [f.cfa for f in stack.frames[:-1]] == [f.cfa for f in theirs[:-1]]
        assert stack.stopped is None, stack.stopped
        compared += 1
    assert compared >= 200
    # Code of gcc's start files by which a function learns its own address, of two instructions, has no unwind data.
    assert len(thunks) <= 2


def stepped(program: Path, script: str) -> list[str]:
    """What gdb prints while it runs *program* instruction by instruction."""

    def make(folder: Path) -> None:
        (folder / "steps.py").write_text(script)
        words = [require("gdb"), *GDB_OPTIONS, "-iex", "set startup-with-shell off", "-x", "steps.py", program]
        done = subprocess.run(
            words,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=clean_environment(),
            check=False,
        )
        if "Operation not permitted" in done.stderr:
            raise Missing("gdb", "ptrace is not permitted", forbidden=True)
        (folder / "printed").write_text(done.stdout)

    return (entry("i386-steps", key_of(program.parent.name, script), make) / "printed").read_text().splitlines()


# Frames without unwind data

BLIND_32 = (
    ("mov $15, %eax\\n\\tsyscall", "mov $173, %eax\\n\\tint $0x80"),
    ("0x7654321000", "0x54321000"),
)
GONE = 0x54321000


@contextmanager
def blind(build: str, end: str) -> Iterator[tuple[StoppedProcess, comparing.Noted]]:
    name, flags = comparing.BUILDS[build]
    m32 = m32_flags()
    source = {"blind.c": changed(STACKS / "blind.c", BLIND_32)}
    # Prologues that align the stack keep no frame record where it is looked for.
    options = ["-w", "-g0", *flags, "-mpreferred-stack-boundary=2", *m32.compile]
    if name == "clang":
        options = ["-w", "-g0", *flags, "-mstack-alignment=4", *m32.compile]
    program = compiled(name, options, source, ["blind.c", *m32.link], "program") / "program"
    key = key_of(program.parent.name, end)
    folder = entry("i386-cores", key, lambda f: take_core(f, [str(program), end], clean_environment(), is_ready=False))
    with process_of(folder / "core.kernel") as process:
        count = int.from_bytes(process.read(process.find_symbol("note_count"), 4), "little")
        words = struct.unpack(f"<{2 * count}I", process.read(process.find_symbol("notes"), 8 * count))
        registers = struct.unpack("<19I", process.read(process.find_symbol("interrupted"), 4 * 19))
        yield process, comparing.Noted([*zip(words[::2], words[1::2], strict=True)][::-1], registers)


@pytest.mark.parametrize("end", comparing.ENDS)
@pytest.mark.parametrize("build", comparing.BUILDS)
def test_frames_without_unwind_data_are_those_that_the_program_noted(build: str, end: str) -> None:
    with blind(build, end) as (process, noted):
        thread = process.threads()[0]
        certain, guessed = process.stack(thread), process.stack(thread, guess=True)
    assert len(noted.frames) == 9 if end == "signal" else 8
    assert certain.stopped is not None and certain.stopped.startswith(comparing.UNCOVERED)
    last = len(certain.frames) - 1
    assert guessed.stopped is None
    assert all(frame.guessed for frame in guessed.frames[last + 1 :])
    found = {frame.cfa: outer.pc for frame, outer in zip(guessed.frames, guessed.frames[1:], strict=False)}
    assert [(cfa, found.get(cfa)) for cfa, _ in noted.frames] == noted.frames
    if end in ("null", "gone"):
        assert certain.frames[0].pc == (0 if end == "null" else GONE) and last == 0
        assert guessed.frames[0].cfa == guessed.frames[0].sp + 4


@pytest.mark.parametrize("build", ["frame-pointer", "none"])
def test_a_return_from_a_handler_without_unwind_data_restores_all_registers(build: str) -> None:
    with blind(build, "signal") as (process, noted):
        frames = process.stack(process.threads()[0], guess=True).frames
        names = {number: process.locate(frame.call_site).symbol for number, frame in enumerate(frames)}
    at = next(number for number, frame in enumerate(frames) if frame.is_signal_frame)
    assert names[at - 1] == "handler"
    # REG_GS, REG_FS, REG_ES, REG_DS, then REG_EDI … REG_EAX, REG_TRAPNO, REG_ERR, REG_EIP, by their DWARF numbers
    expected = dict(zip((7, 6, 5, 4, 3, 2, 1, 0), noted.interrupted[4:12], strict=True)) | {8: noted.interrupted[14]}
    assert frames[at + 1].registers == expected
    assert frames[at].cfa == noted.interrupted[7] and frames[at + 1].call_site == frames[at + 1].pc


# Live


@pytest.mark.parametrize("name", ["gcc-O0-pie", "gcc-O2-no_pie", "gcc-static", "clang-emulated"])
def test_a_live_program_tells_what_each_thread_noted(name: str, tmp_path: Path) -> None:
    build = BUILDS[name]
    with started(build, tmp_path) as running:
        truth = json.loads((tmp_path / "truth.json").read_text())
        with ompd.attach(running.pid) as session:
            check_stacks(session.ask_stacks(raw=True), truth)
            check_variables(session, truth, build.mechanism, opened=not build.is_static)
            session.snapshot(tmp_path / "snapshot", keep_environment=True)
        assert running.poll() is None
        with process_of(tmp_path / "snapshot") as process:
            check_process(process, truth)
        with ompd.open_core(str(tmp_path / "snapshot")) as session:
            check_stacks(session.ask_stacks(raw=True), truth)


def test_registers_of_a_live_program_are_those_that_gdb_shows(tmp_path: Path) -> None:
    names = ("ebx", "ecx", "edx", "esi", "edi", "ebp", "eax", "eip", "cs", "eflags", "esp", "ss", "gs")
    with started(BUILDS["gcc-O0-pie"], tmp_path) as running:
        truth = json.loads((tmp_path / "truth.json").read_text())
        from ompd.debugger.targets.live.live import LiveProcess  # noqa: PLC0415

        live = LiveProcess(running.pid)
        try:
            moment = live.stop(())
            ours = {thread: dict(moment.registers(thread)) for thread in moment.thread_ids()}
        finally:
            live.close()
        write_gcore(running.pid, tmp_path / "core")
    target = CoreTarget(str(tmp_path / "core"))
    for thread in truth["threads"]:
        found = ours[thread["id"]]
        assert found["gs_base"] == thread["pthread"]
        if thread["name"] not in ("yield", "spin"):
            theirs = target.registers(thread["id"])
            assert {name: found[name] for name in names} == {name: theirs[name] for name in names}
    target.close()


def test_a_thread_of_a_32_bit_program_that_runs_64_bit_code_is_told_as_such(tmp_path: Path) -> None:
    m32 = m32_flags()
    # A far call to the segment of 64-bit code: jmp back to itself.
    source = {
        "far.c": "#include <unistd.h>\n"
        'int main(void) { (void)!write(1, "ready\\n", 6);\n'
        '__asm__ volatile("ljmp $0x33, $1f\\n.code64\\n1: jmp 1b\\n.code32"); }\n'
    }
    options = ["-fno-pie", "-no-pie", *m32.compile]
    program = compiled("gcc", options, source, ["far.c", *m32.link], "program") / "program"
    process = subprocess.Popen([str(program)], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        with pytest.raises(OmpdError, match="runs 64-bit code, which is not supported"):
            while process.poll() is None:  # it has not come there yet
                with ompd.attach(process.pid) as session:
                    session.ask_stacks()
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


# In LLDB


@pytest.fixture(scope="module")
def host() -> Iterator[LldbHost]:
    made = LldbHost(22)
    yield made
    made.close()


@pytest.mark.xdist_group("lldb")
@pytest.mark.parametrize("name", ["gcc-O0-pie", "gcc-O2-no_pie-gcore", "gcc-static"])
def test_a_core_in_lldb_tells_what_each_thread_noted(name: str, host: LldbHost, tmp_path: Path) -> None:
    taken, build = sample(name), BUILDS[name]
    in_lldb(host, taken.program, taken.truth, build, tmp_path, core=str(taken.core))


@pytest.mark.xdist_group("lldb")
def test_a_snapshot_in_lldb_tells_what_each_thread_noted(host: LldbHost, tmp_path: Path) -> None:
    taken = sample("gcc-O0-pie")
    with ompd.open_core(str(taken.core)) as session:
        session.snapshot(tmp_path / "snapshot", keep_environment=True)
    in_lldb(host, taken.program, taken.truth, BUILDS["gcc-O0-pie"], tmp_path, core=str(tmp_path / "snapshot"))


@pytest.mark.xdist_group("lldb")
@pytest.mark.parametrize("name", ["gcc-O0-pie", "gcc-O2-no_pie"])
def test_a_live_program_in_lldb_tells_what_each_thread_noted(name: str, host: LldbHost, tmp_path: Path) -> None:
    build = BUILDS[name]
    with started(build, tmp_path) as running:
        truth = json.loads((tmp_path / "truth.json").read_text())
        in_lldb(host, built(build)[0], truth, build, tmp_path, pid=running.pid)
        assert running.poll() is None


def in_lldb(
    host: LldbHost, program: Path, truth: Mapping[str, Any], build: Build, folder: Path, **which: object
) -> None:
    """Compare what is told in a process that has LLDB with the truth."""
    asked = {"program": str(program), "truth": truth, "mechanism": build.mechanism, "opened": not build.is_static}
    (folder / "asked.json").write_text(json.dumps({**asked, **which}))
    words = [sys.executable, "-m", "tests.i386.in_lldb", str(folder / "asked.json")]
    done = subprocess.run(
        words, env=host.environment, capture_output=True, text=True, check=False, timeout=100, stdin=subprocess.DEVNULL
    )
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["equal"]), done.stdout + done.stderr


# What is damaged, and what cannot be told


def test_a_core_that_is_cut_off_tells_nothing_false(tmp_path: Path) -> None:
    taken = sample("gcc-O0-pie")
    whole = taken.core.read_bytes()
    with ompd.open_core(str(taken.core)) as session:
        intact = {
            "stack": as_json("stack", session.ask_stacks(raw=True)),
            "var": as_json("var", session.ask_variable("own_int")),
        }
    end_of_notes = max(s["p_offset"] + s["p_filesz"] for s in ELFFile(io.BytesIO(whole)).iter_segments("PT_NOTE"))
    chance = random.Random(386)
    sizes = [0, 3, 16, 51, 52, 60, 200, end_of_notes - 1, end_of_notes, len(whole) - 1]
    sizes += [chance.randrange(end_of_notes) for _ in range(CUTS // 2)]
    sizes += [chance.randrange(end_of_notes, len(whole)) for _ in range(CUTS - len(sizes))]
    told = refused = 0
    cut = tmp_path / "core"
    for size in sorted(sizes, reverse=True):
        if not cut.exists():
            shutil.copy(taken.core, cut)
        os.truncate(cut, size)
        for command, whole_answer in intact.items():
            try:
                with ompd.open_core(str(cut), exe=str(taken.program)) as session:
                    asked = session.ask_stacks(raw=True) if command == "stack" else session.ask_variable("own_int")
                    answer = as_json(command, asked)
            except OmpdError:
                answer = None
                refused += 1
            found = compare(command, whole_answer, answer)
            assert not found.wrong, (size, command, found.wrong)
            told += found.told
    assert told and refused


def test_notes_whose_page_is_lost_give_no_thread_the_pointer_of_another(tmp_path: Path) -> None:
    taken = sample("gcc-O0-pie")
    whole = bytearray(taken.core.read_bytes())
    notes = next(ELFFile(io.BytesIO(bytes(whole))).iter_segments("PT_NOTE"))
    pointers = {thread["id"]: thread["pthread"] for thread in taken.truth["threads"]}
    start = -(-notes["p_offset"] // 4096) * 4096
    compared = 0
    for page in range(start, notes["p_offset"] + notes["p_filesz"], 4096):
        damaged = bytes(whole[:page] + bytes(4096) + whole[page + 4096 :])
        (tmp_path / "core").write_bytes(damaged)
        target = CoreTarget(str(tmp_path / "core"))
        for thread in target.thread_ids():
            pointer = target.registers(thread).get(I386.thread_pointer)
            assert pointer in (None, pointers[thread])
            compared += pointer is not None
        target.close()
    assert compared


def test_a_damaged_note_of_descriptors_is_an_error(tmp_path: Path) -> None:
    taken = sample("gcc-O0-pie")
    whole = bytearray(taken.core.read_bytes())
    at = whole.index(struct.pack("<III6s", 6, 48, NT_386_TLS, b"LINUX\0"))
    struct.pack_into("<I", whole, at + 4, 46)  # the padding makes it 48
    (tmp_path / "core").write_bytes(whole)
    with pytest.raises(ompd.errors.BadFile, match="NT_386_TLS note has 46 bytes"):
        CoreTarget(str(tmp_path / "core"))
    with pytest.raises(MalformedFile):
        ompd.binary.core.notes.parse_descriptors(bytes(17), "little")


def test_without_descriptors_glibcs_lists_tell_the_thread_pointers(tmp_path: Path) -> None:
    taken = sample("gcc-O0-pie")
    whole = taken.core.read_bytes()
    unknown = struct.pack("<III6s", 6, 48, 0x2FF, b"LINUX\0")
    changed_core = whole.replace(struct.pack("<III6s", 6, 48, NT_386_TLS, b"LINUX\0"), unknown)
    assert changed_core != whole
    (tmp_path / "core").write_bytes(changed_core)
    with process_of(tmp_path / "core") as process:
        assert all("gs_base" not in process.registers(thread) for thread in process.threads())
        check_process(process, taken.truth)


@pytest.mark.parametrize("name", ["gcc-O0-pie", "clang-O0-no_pie-gcore"])
def test_local_variables_have_the_values_that_they_were_given(name: str) -> None:
    taken = sample(name)
    with process_of(taken.core) as process:
        for thread in taken.truth["threads"][:-1]:
            frame = next(f for f in process.stack(thread["id"]).frames if process.locate(f.pc).symbol == "outer")
            (function,) = process.local_variables(frame, thread["id"])
            told = {row.name: row.shown.text for row in function.variables if row.shown is not None}
            assert {name: told[name] for name in ("number", "wide", "real", "kept")} == {
                "number": str(thread["number"]),
                "wide": str(1 << 33),
                "real": "0.5",
                "kept": str(0.5 + (1 << 33)),
            }


@pytest.mark.parametrize(
    "flags",
    [
        ("-O0", "-fPIE", "-pie", "-Wl,-z,lazy"),
        ("-O2", "-fno-pie", "-no-pie"),
        ("-O2", "-fPIE", "-pie", "-Wl,-z,now", "-fno-plt"),
    ],
    ids=" ".join,
)
def test_machine_code_tells_which_construct_a_function_is_of(flags: tuple[str, ...], tmp_path: Path) -> None:
    m32 = m32_flags()
    text = TEAM.replace("#pragma omp barrier", "#pragma omp single\n#pragma omp task\nsink++;\n#pragma omp barrier")
    options = ["-fopenmp", *flags, *m32.compile]
    program = compiled("gcc", options, {"team.c": text}, ["team.c", *m32.link], "program") / "program"
    with team_of(program) as process:
        write_gcore(process.pid, tmp_path / "core")
    with process_of(tmp_path / "core") as inspected:
        for number, routine in enumerate(("GOMP_parallel", "GOMP_task")):
            function = inspected.find_symbol(f"main._omp_fn.{number}")
            assert next(inspected.receivers(function, "main")) == routine
        frames = inspected.stack(process.pid).frames
        called = {inspected.locate(f.call_site).symbol: inspected.routine_called(f.pc) for f in frames}
        assert called["main"] == "GOMP_parallel" and called["main._omp_fn.0"] == "pause"


def test_routines_are_not_run_and_runtimes_without_layouts_are_not_read() -> None:
    taken = sample("gcc-O0-pie")
    with process_of(taken.core) as process:
        routine = process.find_symbol("main")
        with pytest.raises(Unavailable, match=r"not emulated on this architecture \(i386\)"):
            process.call(routine, process.threads()[0])
        with pytest.raises(SymbolNotFound):
            process.find_symbol("no_such_symbol")
    m32 = m32_flags()
    options = ["-fopenmp", *m32.compile]
    program = compiled("gcc", options, {"team.c": TEAM}, ["team.c", *m32.link], "program") / "program"
    with team_of(program) as running, ompd.attach(running.pid) as session:
        (runtime,) = session.ask_runtimes().rows
        assert runtime.kind == "libgomp" and runtime.layout is None
        for ask in (session.ask_threads, session.ask_parallel, session.ask_tasks, session.ask_icvs):
            with pytest.raises(NoAnswer, match=r"which release .* is not known"):
                ask()
        answer = session.ask_stacks()
    assert not answer.complete and len(answer.rows) == 3
    assert all(row.thread_num is None and row.frames for row in answer.rows)


def test_getters_that_only_load_are_decoded(tmp_path: Path) -> None:
    m32 = m32_flags()
    options = ["-fopenmp", *m32.compile]
    program = compiled("gcc", options, {"team.c": TEAM}, ["team.c", *m32.link], "program") / "program"
    with team_of(program) as process:
        write_gcore(process.pid, tmp_path / "core")
    with process_of(tmp_path / "core") as inspected:

        def answers(name: str) -> list[int]:
            routine = inspected.find_symbol(name)
            return sorted(inspected.evaluate(routine, thread).as_int for thread in inspected.threads())

        assert answers("omp_get_thread_num") == [0, 1, 2]
        assert answers("omp_get_num_threads") == [3, 3, 3]
        assert answers("omp_get_level") == [1, 1, 1]
        assert answers("omp_in_final") == [0, 0, 0]


TEAM = """#include <unistd.h>
int sink;
int main(void) {
#pragma omp parallel num_threads(3)
{
#pragma omp barrier
#pragma omp master
(void)!write(1, "ready\\n", 6);
for (;;) pause();
} }
"""


@contextmanager
def team_of(program: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([str(program)], stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        await_pause(process.pid, process.pid)
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


# What is built


@ALL
def test_symbols_and_notes_are_those_that_readelf_shows(name: str) -> None:
    taken = sample(name)
    printed = subprocess.run(
        [str(require("readelf")), "-sW", str(taken.program)], capture_output=True, text=True, check=True
    ).stdout
    rows = re.findall(r"^ *\d+: ([0-9a-f]+) +\w+ (FUNC|OBJECT) +(?:GLOBAL|LOCAL) +DEFAULT +\d+ (\w+)$", printed, re.M)
    wanted = {n: int(a, 16) for a, _, n in rows if n in (*GLOBALS, "main", "run", "by_mutex", "inner", "zeroed")}
    assert len(wanted) >= 10
    with process_of(taken.core) as process:
        program = next(module for module in process.loaded_modules() if module.record.is_program)
        assert {n: process.find_symbol(n) - program.bias for n in wanted} == wanted
        for symbol in ("main", "run", "inner"):
            assert process.locate(wanted[symbol] + program.bias + 1).symbol == symbol
        for name_, address in taken.truth["globals"].items():
            assert process.find_symbol(name_) == address
