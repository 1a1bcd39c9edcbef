"""The stub's DMPL library in C, of 64 and of 32 bits, in its own process.

The tests cover its header, the functions that it uses of other libraries, and its answers, which equal those of the
library in Python.
"""

from __future__ import annotations

import gc
import os
import random
import re
import select
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from ompd_stub.dmpl import NO_MEMORY, StubLibrary

from ompd.contract.dmpl import CallbackTable, Result, TypeFunctions
from ompd.contract.dmpl_debugger import Debugger
from ompd.errors import LibraryError, Unsupported
from ompd.questions import variables
from ompd.runtimes.hosted import process
from ompd.runtimes.hosted.loading.sandbox import UNCONFINED
from ompd.runtimes.hosted.process import Limits
from ompd.session import Session
from tests.stub.programs import DEBUG, core_of
from tests.stub.programs import built as build_stub_program
from tests.support.build import compiler
from tests.support.cache import CHECKOUT
from tests.support.dmpl import (
    TABLE_MUTANTS,
    TYPE_MUTANTS,
    Invented,
    differences,
    file_of,
    hosted,
    hosted_instead,
    of_source,
)
from tests.support.hosted import time_passes_in, unconfined_command
from tests.support.m32 import m32_flags
from tests.support.machine import FULL, Missing, clean_environment, require
from tests.support.stub import INCLUDE, plugin_folder

WIDTHS = (64, 32)
SOURCES = CHECKOUT / "tests" / "dmpl"


# Its answers


@pytest.mark.parametrize("width", WIDTHS)
def test_it_answers_as_the_library_in_python(width: int) -> None:
    with hosted(file_of(width), width) as library:
        assert differences(library) == []


MUTANTS = [*TABLE_MUTANTS, *TYPE_MUTANTS]


@pytest.mark.parametrize("name", MUTANTS if FULL else MUTANTS[::3])
@pytest.mark.quick("get_thread_info", "find_symbol")
def test_a_defect_in_a_callback_is_noticed(name: str) -> None:
    def broken(table: CallbackTable) -> CallbackTable:
        return replace(table, **{name: TABLE_MUTANTS[name](table)}) if name in TABLE_MUTANTS else table

    def broken_types(types: TypeFunctions) -> TypeFunctions:
        return replace(types, **{name: TYPE_MUTANTS[name](types)}) if name in TYPE_MUTANTS else types

    with hosted(file_of(64)) as library:
        assert differences(library, broken, broken_types) != []


PARTS = (
    *("main", "foo_", "._omp_fn.", "0", "12", ".omp_outlined", "_debug__", "._debug__", ".", "_", ".isra"),
    *(".cold", ".part.3", ".clone", ".omp_task_entry.", "__omp_offloading_", "10_abc_", "_l12", "_3", ".1", "\n", "é"),
    *(".gomp_critical_user_", ".var", "__emutls_v.", "__emutls_t.", ".cache.", ".cache", "omp_stub_private_", "at_"),
    *("omp_stub_var_", "omp_stub_at_", "shared_", "firstprivate_", "private_", "reduction_", "copyin_", " ", "-"),
    ".constprop.0",
)


def test_names_mean_the_same_to_both() -> None:
    chance = random.Random(2004)
    names = {"".join(chance.choices(PARTS, k=chance.randint(1, 6))) for _ in range(20_000 if FULL else 4_000)}
    own = StubLibrary()
    changed = 0
    with hosted(file_of(64)) as library:
        library.initialise(Debugger().table, Debugger().types)
        for name in sorted(names):
            source_of = of_source if len(name) % 2 else None
            room = (100, 3)[len(name) % 5 == 0]
            expected = own.demangle_name(name, room, source_of)
            assert library.demangle_name(name, room, source_of) == expected, name
            changed += expected.code != Result.NAME_UNCHANGED
    assert changed > len(names) / 10


@pytest.mark.parametrize("change", ["overlap", "version", "magic", "size", "member"])
def test_a_table_with_a_fault_is_refused_by_both(change: str) -> None:
    codes = []
    with hosted(file_of(64)) as library:
        for each in (StubLibrary(), library):
            process = Invented(8, "big", with_types=False)
            record = process.TABLE + 72 * 2
            if change == "overlap":
                process.word(record + 68, 9, 4)
            elif change == "version":
                process.word(process.TABLE + 64, 2, 4)
            elif change == "magic":
                process.memory[process.TABLE] = 0
            elif change == "size":
                process.word(record + 68, 1 << 17, 4)
            else:
                process.memory[record + 32] = 0x78
            debugger = Debugger()
            each.initialise(debugger.table, debugger.types)
            thread = debugger.thread(debugger.add_process(process), 1)
            codes.append(each.get_tls_address(thread, Invented.VARIABLES["first"][0]))
            assert debugger.allocated == 0
    assert codes[0] == codes[1] and codes[0][0] != Result.OK


def test_a_library_that_was_not_initialised_says_so() -> None:
    debugger = Debugger()
    thread = debugger.thread(debugger.add_process(Invented(8, "little")), 1)
    with hosted(file_of(64)) as library:
        code, _ = library.get_tls_address(thread, 0x6000)
        assert library.error_string(code) == StubLibrary().error_string(code) == "the library has not been initialised"
        assert library.destroy_process_info(bytearray(1)) == code
        assert library.error_string(4711) == StubLibrary().error_string(4711)
        assert library.error_string(NO_MEMORY) == StubLibrary().error_string(NO_MEMORY)


# Programs


@pytest.mark.parametrize("of_program", WIDTHS)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.quick("64-32")
def test_figure_8_of_a_process_that_runs(width: int, of_program: int, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = narrow(of_program)
    program = build_stub_program("figure8.c", "paused.c", name="figure8-paused", flags=("-DBY_KEY",), machine=flags)
    process = subprocess.Popen(
        [program], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env={**clean_environment(), **DEBUG}
    )
    try:
        assert process.stdout is not None
        line = "begun"
        while line and line != "stopped\n":
            line = process.stdout.readline()
        assert line
        with hosted_instead(width) as library, Session.attach(process.pid) as session:
            monkeypatch.setattr("ompd_stub.threadprivate.StubLibrary", library)
            rows = session.ask(lambda stop: variables.ask(stop, "a")).rows
        assert [(row.thread_num, row.value, row.mechanism) for row in rows] == [
            *((0, 3, "key"), (1, 3, "key"), (2, 2, "key"), (3, 2, "key"))
        ]
    finally:
        process.kill()
        process.communicate()


def test_without_packages_of_32_bits_a_test_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Path:
        raise Missing("gcc-m32", "missing for a test")

    monkeypatch.setattr("tests.support.dmpl.host32", missing)
    with pytest.raises(Missing), hosted_instead(32):
        pass


@pytest.mark.parametrize("width", WIDTHS)
def test_a_debugger_that_knows_only_the_paper_is_served(width: int) -> None:
    program = build_stub_program("paper_debugger.c", machine=tuple(narrow(width)))
    done = subprocess.run(
        [program, file_of(width)], capture_output=True, text=True, env=clean_environment(), check=False
    )
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines() == ["version 1", "initialise 0", "address 0 1", "name 0 solve 0"]


# Its symbols and sections


@pytest.mark.parametrize("width", WIDTHS)
def test_it_calls_nothing_of_others_and_keeps_only_what_it_is_given(width: int) -> None:
    nm = require("nm")

    def symbols(*options: str) -> list[list[str]]:
        printed = subprocess.run([nm, *options, file_of(width)], capture_output=True, text=True, check=True).stdout
        return [line.split() for line in printed.splitlines()]

    assert symbols("-u") == []
    exported = {row[-1] for row in symbols("-D")}
    assert {name for name in exported if name.startswith("DMPL_")} == {
        *("DMPL_initialise", "DMPL_initialize", "DMPL_version_compatibility", "DMPL_version_string"),
        *("DMPL_error_string", "DMPL_destroy_process_info", "DMPL_destroy_thread_info", "DMPL_demangle_name"),
        *("DMPL_get_tls_address", "DMPL_get_rtl_names", "DMPL_extend"),
    }
    sections = subprocess.run(
        [require("readelf"), "-SW", file_of(width)], capture_output=True, text=True, check=True
    ).stdout
    # Only three pointers in .bss are writable after loading. The loader protects the sections that hold addresses.
    assert not re.search(r" \.(data|tbss|tdata|init_array|ctors) ", sections)
    pointers = ["dmpl_callbacks", "dmpl_extension", "ompd_callbacks"]
    assert sorted(row[-1] for row in symbols() if row[-2] in "bBC") == pointers
    (size,) = re.findall(r" \.bss +NOBITS +\w+ +\w+ +(\w+)", sections)
    assert int(size, 16) == 3 * width // 8


@pytest.mark.parametrize("name", ["gcc", "clang", "g++"])
def test_the_header_declares_what_the_paper_prints(name: str, tmp_path: Path) -> None:
    language = ["-x", "c++", "-std=c++11"] if name == "g++" else ["-std=c99"]
    command = [str(compiler(name).path), *language, "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{INCLUDE}"]
    subprocess.run([*command, "-c", str(SOURCES / "header.c"), "-o", str(tmp_path / "header.o")], check=True)


# Libraries of others


def narrow(width: int) -> Sequence[str]:
    return (*m32_flags().compile, *m32_flags().link) if width == 32 else ()


def built(name: str, tmp_path: Path, flags: Sequence[str] = ()) -> Path:
    made = tmp_path / f"{name}.so"
    command = [str(compiler("gcc").path), "-shared", "-fPIC", "-O1", f"-I{INCLUDE}", *flags]
    subprocess.run([*command, str(SOURCES / "odd.c"), "-o", str(made)], check=True)
    return made


@pytest.mark.parametrize("width", WIDTHS)
def test_one_of_another_version_is_refused_by_its_name(width: int, tmp_path: Path) -> None:
    flags = ["-DVERSION=2", *(["-m32", "-nostdlib", "-ffreestanding"] if width == 32 else [])]
    library = built("newer", tmp_path, flags)
    expected = r"version 0x2 of DMPL is not known.*'an odd library'"
    with pytest.raises(Unsupported, match=expected), hosted(library, width):
        pass


def test_one_without_the_extension_and_of_the_other_spelling_is_hosted(tmp_path: Path) -> None:
    debugger = Debugger()
    with hosted(built("plain", tmp_path, ["-DDMPL_initialise=DMPL_initialize"])) as library:
        assert library.version_compatibility() == 1
        assert library.initialize(debugger.table, debugger.types) == Result.OK
        assert library.get_rtl_names(0) is None


def test_what_is_no_such_library_is_refused(tmp_path: Path) -> None:
    library = built("short", tmp_path, ["-DDMPL_get_tls_address=other"])
    refused = "not a DMPL library: it has no function DMPL_get_tls_address"
    with pytest.raises(LibraryError, match=refused), hosted(library):
        pass
    text = tmp_path / "text.so"
    text.write_text("no library")
    with pytest.raises(LibraryError, match=r"text.so: cannot be loaded: text.so: file too short"), hosted(text):
        pass


ODD: dict[str, str] = {
    "crash": "crashed (SIGSEGV) in DMPL_get_tls_address",
    "exit": "its process exited with status 3 in DMPL_get_tls_address",
    "loop": "took more than 1 s in DMPL_get_tls_address",
    "call": "took more than 1 s in DMPL_get_tls_address",
}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("what", ODD)
@pytest.mark.quick("crash-64", "exit-64", "call-32")
def test_what_a_library_does_to_itself_is_one_error(
    what: str, width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    time_passes_in(monkeypatch, "DMPL_get_tls_address")
    debugger = Debugger()
    thread = debugger.thread(debugger.add_process(Invented(8, "little")), 1)
    flags = [f"-DODD_{what}", *narrow(width)]
    seconds = 1.0 if what in ("loop", "call") else 20.0
    with hosted(built(what, tmp_path, flags), width, limits=Limits(seconds=seconds, callbacks=1000)) as library:
        library.initialise(debugger.table, debugger.types)
        for _ in range(2):  # later calls fail alike
            with pytest.raises(LibraryError) as caught:
                library.get_tls_address(thread, 1)
            assert str(caught.value) == f"{what}.so: {ODD[what]}" and caught.value.has_ended


@pytest.mark.parametrize("width", WIDTHS)
def test_a_callback_from_another_thread_ends_it(width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "worker_command", unconfined_command({}))  # a confined library cannot start a thread
    debugger = Debugger()
    thread = debugger.thread(debugger.add_process(Invented(8, "little")), 1)
    with hosted(built("thread", tmp_path, ["-DODD_thread", "-pthread", *narrow(width)]), width) as library:
        library.initialise(debugger.table, debugger.types)
        with pytest.raises(LibraryError, match=r"called back from a thread of its own\) in DMPL_get_tls_address"):
            library.get_tls_address(thread, 1)


@pytest.mark.parametrize("width", WIDTHS)
def test_what_it_prints_past_the_debugger_is_a_warning(width: int, tmp_path: Path) -> None:
    warnings: list[str] = []
    debugger = Debugger()
    thread = debugger.thread(debugger.add_process(Invented(8, "little")), 1)
    with hosted(built("print", tmp_path, ["-DODD_print", *narrow(width)]), width, warnings=warnings) as library:
        library.initialise(debugger.table, debugger.types)
        assert library.get_tls_address(thread, 1) == (Result.OK, 42)
    assert warnings == [r"print.so: printed past the \x1b[31mdebugger"]


def test_one_that_nothing_confines_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = dict.fromkeys(("Landlock", "seccomp"), "missing for a test")
    monkeypatch.setattr(process, "worker_command", unconfined_command(lost))
    warnings: list[str] = []
    with hosted(file_of(64), warnings=warnings):
        pass
    assert warnings == [f"libompd_stub.so: {UNCONFINED}"]


def test_garbage_is_answered_by_codes_that_say_so(tmp_path: Path) -> None:
    # The library asks about a process, a thread and a type that do not exist, asks for ten gigabytes, and frees memory
    # that it did not get.
    warnings: list[str] = []
    debugger = Debugger(warnings.append)
    thread = debugger.thread(debugger.add_process(Invented(8, "little")), 1)
    with hosted(built("garbage", tmp_path, ["-DODD_garbage"])) as library:
        library.initialise(debugger.table, debugger.types)
        assert library.get_tls_address(thread, 1) == (Result.OK, 42)
        assert debugger.allocated == 0
        assert debugger.printed == ["\x1b[31mred"] and warnings == ["?[31mred"]


# Its lifetime


def test_nothing_stays_allocated() -> None:
    debugger = Debugger()
    with hosted(file_of(64)) as library:
        library.initialise(debugger.table, debugger.types)
        for _ in range(3):
            process = debugger.add_process(Invented(8, "little"))
            assert library.get_tls_address(debugger.thread(process, 1), 0x6000)[0] == Result.OK
            assert debugger.allocated == 2
            debugger.release(process, library)
            assert debugger.allocated == 0
        process = debugger.add_process(Invented(8, "little"))
        library.get_tls_address(debugger.thread(process, 1), 0x6000)
    debugger.release(process, library)  # the library's process has ended
    assert debugger.allocated == 0


def test_what_the_plugin_had_the_library_keep_goes_with_the_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    core = core_of(build_stub_program("figure8.c", "stop.c", flags=("-DBY_KEY",)))
    debuggers = []

    def new() -> Debugger:
        debuggers.append(Debugger())
        return debuggers[-1]

    monkeypatch.setattr("ompd_stub.threadprivate.Debugger", new)
    with hosted_instead(64) as library:
        monkeypatch.setattr("ompd_stub.threadprivate.StubLibrary", library)
        with Session.open_core(core) as session:
            assert len(variables.ask(session, "a").rows) == 4
            assert sum(debugger.allocated for debugger in debuggers) == 5
        del session
        gc.collect()
        assert sum(debugger.allocated for debugger in debuggers) == 0


HOST = """
import sys
from pathlib import Path
from ompd.contract.dmpl_debugger import Debugger
from tests.support.dmpl import Invented, hosted
debugger = Debugger()
thread = debugger.thread(debugger.add_process(Invented(8, "little")), 1)
with hosted(Path(sys.argv[1]), int(sys.argv[2])) as library:
    library.initialise(debugger.table, debugger.types)
    print(library.process_id, flush=True)
    library.get_tls_address(thread, 1)
"""


@pytest.mark.parametrize("width", WIDTHS)
def test_a_library_that_loops_ends_with_its_host(width: int, tmp_path: Path) -> None:
    flags = ["-DODD_loop", *narrow(width)]
    library = built("loop", tmp_path, flags)
    environment = {**os.environ, "PYTHONPATH": f"{CHECKOUT}:{plugin_folder()}"}
    command = [sys.executable, "-c", HOST, str(library), str(width)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as host:
        assert host.stdout is not None
        worker = os.pidfd_open(int(host.stdout.readline()))
        host.kill()
        assert select.select([worker], [], [], 60)[0] == [worker]
        os.close(worker)
        host.wait(60)
