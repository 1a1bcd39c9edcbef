"""Programs of 32-bit x86: their own notes are compared with the answers about their cores, alive and in LLDB."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

import ompd
from ompd.binary.core.notes import NT_386_TLS
from ompd.debugger.targets.core import CoreTarget
from ompd.errors import OmpdError, Unavailable
from tests.i386.checks import GLOBALS, check_process, check_stacks, check_variables
from tests.i386.programs import BUILDS, TEAM, Build, Sample, built, compiled, process_of, sample, started, team_of
from tests.stacks import (
    GDB_OPTIONS,
    gdb_stacks,
)
from tests.support import clean_environment, require, tls
from tests.support.build import compiler
from tests.support.cache import entry, key_of
from tests.support.lldb import LldbHost
from tests.support.m32 import m32_flags, m32_version
from tests.support.runs import (
    require_kernel_cores,
    write_gcore,
)

ALL = pytest.mark.parametrize("name", BUILDS)

# Facts of each thread


@ALL
@pytest.mark.quick("gcc-O0-pie", "gcc-O1-gnu2", "gcc-debug_frame", "gcc-static_pie")
def test_a_core_tells_what_each_thread_noted(name: str) -> None:
    taken, build = sample(name), BUILDS[name]
    with ompd.open_core(str(taken.core)) as session:
        check_stacks(session.ask_stacks(raw=True), taken.truth)
        check_variables(session, taken.truth, build.mechanism, opened=not build.is_static)
    with process_of(taken.core) as process:
        check_process(process, taken.truth, no_keys=(500, 1023, 1024, -1, 1 << 40))


@ALL
@pytest.mark.quick("gcc-O2-no_pie-gcore", "gcc-O1-gnu2", "gcc-debug_frame", "clang-emulated")
def test_frames_of_all_threads_are_those_that_gdb_shows(name: str) -> None:
    taken = sample(name)
    stacks = gdb_stacks(taken.program, taken.core)
    with process_of(taken.core) as process:
        assert stacks.keys() == set(process.threads.ids())
        for thread in process.threads.ids():
            theirs = [frame for frame in stacks[thread] if frame.kind in ("normal", "signal")]
            ours = process.stacks.stack(thread).frames
            assert [(f.pc, f.is_signal_frame) for f in ours] == [(f.pc, f.kind == "signal") for f in theirs]
            # gdb shows no CFA for the outermost frame.
            assert [frame.cfa for frame in ours[:-1]] == [frame.cfa for frame in theirs[:-1]]


@ALL
@pytest.mark.quick("gcc-O0-pie", "gcc-static", "clang-O0-no_pie-gcore")
def test_a_snapshot_tells_the_same(name: str, tmp_path: Path) -> None:
    taken, build = sample(name), BUILDS[name]
    path = tmp_path / "snapshot"
    with ompd.open_core(str(taken.core)) as session:
        session.snapshot(path, keep_environment=True)
    assert path.stat().st_size < 2 << 20
    # The snapshot needs no file of the program.
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
        # Floating-point and vector registers are in a note that our cores lack.
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


# A library's accessor returns the address of the third element. Elements are as wide as a pointer.
WITHIN = {name: distance // 2 for name, distance in tls.WITHIN.items()}


@TLS
def test_thread_local_variables_of_all_kinds_and_keys(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "WITHIN", WITHIN)
    taken = thread_local(name)
    with process_of(taken.core) as process:
        tls.check_variables(process, taken.truth, tls.OF_PROGRAM | tls.OF_LIBRARIES)
        tls.check_keys(process, taken.truth)
        assert process.environment.at_start() == tls.ENVIRONMENT


@TLS
def test_without_the_file_of_libc_nothing_is_guessed(name: str) -> None:
    # A relocation without an addend shows that a library was built for static TLS. A note has the thread pointer.
    taken = thread_local(name)
    with process_of(taken.core, tls.Without("libc.so")) as process:
        for thread in taken.truth["threads"]:
            native = thread["id"]
            for variable in ("exe_static", "exe_aligned", "static_own", "static_variable"):
                address = thread["variables"][variable] - WITHIN.get(variable, 0)
                if name.endswith("kernel"):
                    assert process.symbols.find_symbol(variable, thread=native) == address, variable
                else:
                    with pytest.raises(Unavailable, match="does not describe its threads"):
                        process.symbols.find_symbol(variable, thread=native)
            for variable in ("linked_variable", "second_variable", "other_variable"):
                with pytest.raises(Unavailable, match="does not describe its threads"):
                    process.symbols.find_symbol(variable, thread=native)
            with pytest.raises(Unavailable, match="does not describe its threads"):
                process.storage.key_value(native, 1)


# Live


@pytest.mark.parametrize("name", ["gcc-O0-pie", "gcc-O2-no_pie", "gcc-static", "clang-emulated"])
@pytest.mark.quick("gcc-O2-no_pie")
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
        from ompd.debugger.targets.live.live import LiveProcess

        live = LiveProcess(running.pid)
        try:
            moment = live.stop((), lacking=live.thread_ids())
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
    # A far jump to the segment of 64-bit code, where the code jumps to itself.
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
            while process.poll() is None:  # it has not arrived there yet
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
@pytest.mark.quick("gcc-O0-pie")
def test_a_core_in_lldb_tells_what_each_thread_noted(name: str, host: LldbHost, tmp_path: Path) -> None:
    taken, build = sample(name), BUILDS[name]
    in_lldb(host, taken.program, taken.truth, build, tmp_path, core=str(taken.core))


@pytest.mark.xdist_group("lldb")
@pytest.mark.quick()
def test_a_snapshot_in_lldb_tells_what_each_thread_noted(host: LldbHost, tmp_path: Path) -> None:
    taken = sample("gcc-O0-pie")
    with ompd.open_core(str(taken.core)) as session:
        session.snapshot(tmp_path / "snapshot", keep_environment=True)
    in_lldb(host, taken.program, taken.truth, BUILDS["gcc-O0-pie"], tmp_path, core=str(tmp_path / "snapshot"))


@pytest.mark.xdist_group("lldb")
@pytest.mark.parametrize("name", ["gcc-O0-pie", "gcc-O2-no_pie"])
@pytest.mark.quick("gcc-O0-pie")
def test_a_live_program_in_lldb_tells_what_each_thread_noted(name: str, host: LldbHost, tmp_path: Path) -> None:
    build = BUILDS[name]
    with started(build, tmp_path) as running:
        truth = json.loads((tmp_path / "truth.json").read_text())
        in_lldb(host, built(build)[0], truth, build, tmp_path, pid=running.pid)
        assert running.poll() is None


def in_lldb(
    host: LldbHost, program: Path, truth: Mapping[str, Any], build: Build, folder: Path, **which: object
) -> None:
    """Compare the answers in a process that has LLDB with the truth."""
    asked = {"program": str(program), "truth": truth, "mechanism": build.mechanism, "opened": not build.is_static}
    (folder / "asked.json").write_text(json.dumps({**asked, **which}))
    words = [sys.executable, "-m", "tests.i386.in_lldb", str(folder / "asked.json")]
    done = subprocess.run(
        words, env=host.environment, capture_output=True, text=True, check=False, timeout=100, stdin=subprocess.DEVNULL
    )
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["equal"]), done.stdout + done.stderr


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
            function = inspected.symbols.find_symbol(f"main._omp_fn.{number}")
            assert next(inspected.calls.receivers(function, "main")) == routine
        frames = inspected.stacks.stack(process.pid).frames
        called = {inspected.places.locate(f.call_site).symbol: inspected.calls.routine_called(f.pc) for f in frames}
        assert called["main"] == "GOMP_parallel" and called["main._omp_fn.0"] == "pause"


# Built files


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
        program = next(module for module in process.modules if module.record.is_program)
        assert {n: process.symbols.find_symbol(n) - program.bias for n in wanted} == wanted
        for symbol in ("main", "run", "inner"):
            assert process.places.locate(wanted[symbol] + program.bias + 1).symbol == symbol
        for name_, address in taken.truth["globals"].items():
            assert process.symbols.find_symbol(name_) == address
