"""Thread-local variables, POSIX thread keys and the environment, compared with what the programs write."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ompd.debugger.files.finder import FileFinder, FileOptions
from ompd.debugger.process import StoppedProcess
from ompd.debugger.targets.core import CoreTarget
from ompd.errors import BadInput, CorruptState, MemoryFault, OmpdError, Unavailable
from tests.support import clean_environment, require
from tests.support.build import compiler
from tests.support.cache import entry, key_of
from tests.support.runs import (
    require_kernel_cores,
)
from tests.support.tls import (
    ENVIRONMENT,
    OF_LIBRARIES,
    OF_PROGRAM,
    OPENED,
    SOURCES,
    WITHIN,
    Without,
    check_keys,
    check_variables,
    run,
)


@dataclass(frozen=True)
class Sample:
    """A core of ``tls/program.c``, and the program's output."""

    program: Path
    core: Path
    truth: dict[str, Any]

    def process(self, finder: FileFinder | None = None) -> StoppedProcess:
        return opened(StoppedProcess(CoreTarget(str(self.core)), finder or FileFinder()))


_open: list[StoppedProcess] = []


def opened(process: StoppedProcess) -> StoppedProcess:
    """Return *process*, and close it when the test is over."""
    _open.append(process)
    return process


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while _open:
        _open.pop().close()


def sample(name: str, kind: str, *flags: str, libraries: bool = True) -> Sample:
    """Return a core of the program, built by compiler *name* with *flags*."""
    if kind == "kernel":
        require_kernel_cores()
    built = build(name, flags, libraries)
    opened = [str(built / f"{library}.so") for library in OPENED] if libraries else []
    key = key_of(built.name, kind, ENVIRONMENT)
    folder = entry("tls-cores", key, lambda folder: run(built / "program", folder, kind, opened))
    return Sample(built / "program", folder / f"core.{kind}", json.loads((folder / "truth.json").read_text()))


def build(name: str, flags: Sequence[str], libraries: bool) -> Path:
    used = compiler(name)
    sources = {path.name: path.read_text() for path in sorted(SOURCES.iterdir())}

    def make(folder: Path) -> None:
        def compiled(*arguments: str) -> None:
            command = [str(used.path), "-g", "-O0", "-Wall", "-Wextra", *arguments]
            subprocess.run(command, cwd=folder, env=clean_environment(), check=True)

        linked = ["-DSTAND_ALONE"]
        if libraries:
            compiled("-fPIC", "-shared", str(SOURCES / "linked.c"), "-o", "liblinked.so")
            for library, options in OPENED.items():
                compiled("-fPIC", "-shared", *options, str(SOURCES / "opened.c"), "-o", f"{library}.so")
            linked = ["-L.", "-llinked", "-Wl,-rpath,$ORIGIN", "-ldl"]
        compiled(*flags, str(SOURCES / "program.c"), "-o", "program", *linked, "-lpthread")

    return entry("tls", key_of(sources, used.version, flags, OPENED, libraries), make)


KINDS_OF_PROGRAMS = {
    "gcc-pie-kernel": ("gcc", "kernel", "-fPIE", "-pie"),
    "gcc-no_pie-gcore": ("gcc", "gcore", "-fno-pie", "-no-pie"),
    "gcc-bind_now-no_build_id-kernel": ("gcc", "kernel", "-Wl,-z,now", "-Wl,--build-id=none", "-rdynamic"),
    "clang-pie-gcore": ("clang", "gcore", "-fPIE", "-pie"),
    "clang-no_pie-kernel": ("clang", "kernel", "-fno-pie", "-no-pie"),
}
PROGRAMS = pytest.mark.parametrize("program", KINDS_OF_PROGRAMS)


@PROGRAMS
@pytest.mark.quick("gcc-bind_now-no_build_id-kernel", "clang-pie-gcore")
def test_thread_local_variables_are_where_each_thread_says(program: str) -> None:
    taken = sample(*KINDS_OF_PROGRAMS[program])
    check_variables(taken.process(), taken.truth, OF_PROGRAM | OF_LIBRARIES)
    untouched = [t["number"] for t in taken.truth["threads"] if t["variables"]["second_variable"] is None]
    assert untouched == [1, 3, 5]


@pytest.mark.parametrize("flags", [("-static",), ("-static-pie",)], ids=" ".join)
def test_variables_and_keys_of_a_program_without_shared_libraries(flags: tuple[str, ...]) -> None:
    taken = sample("gcc", "kernel", *flags, libraries=False)
    check_variables(taken.process(), taken.truth, OF_PROGRAM)
    check_keys(taken.process(), taken.truth)


@PROGRAMS
@pytest.mark.quick("gcc-pie-kernel", "clang-pie-gcore", "clang-no_pie-kernel")
def test_thread_keys_hold_what_each_thread_stored(program: str) -> None:
    taken = sample(*KINDS_OF_PROGRAMS[program])
    check_keys(taken.process(), taken.truth)


@PROGRAMS
def test_a_deleted_thread_key_is_no_key(program: str) -> None:
    taken = sample(*KINDS_OF_PROGRAMS[program])
    process, thread = taken.process(), taken.truth["threads"][0]["id"]
    for key in (taken.truth["deleted"], 500, -1, 1024, 1 << 40):
        with pytest.raises(BadInput):
            process.storage.key_value(thread, key)


@PROGRAMS
def test_the_environment_is_the_one_that_the_program_was_started_with(program: str) -> None:
    taken = sample(*KINDS_OF_PROGRAMS[program])
    assert taken.process().environment.at_start() == ENVIRONMENT


def test_a_thread_local_variable_has_no_address_without_a_thread() -> None:
    process = sample(*KINDS_OF_PROGRAMS["gcc-pie-kernel"]).process()
    with pytest.raises(BadInput, match="thread-local"):
        process.symbols.find_symbol("exe_initialised")
    with pytest.raises(BadInput, match="no thread"):
        process.symbols.find_symbol("exe_initialised", thread=1)


class Changed:
    """A core target with other memory at some addresses, or without a register."""

    def __init__(self, target: CoreTarget, memory: Mapping[int, bytes | None] = {}, hidden: str = "") -> None:
        self._target = target
        self._memory = memory
        self._hidden = hidden

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def read(self, address: int, size: int) -> bytes:
        raw = bytearray(self._target.read(address, size))
        for at, data in self._memory.items():
            if data is None and at < address + size and address < at + 4096:
                raise MemoryFault(address, size)
            for index, byte in enumerate(data or b""):
                if address <= at + index < address + size:
                    raw[at + index - address] = byte
        return bytes(raw)

    def registers(self, thread: int) -> Mapping[str, int]:
        return {name: value for name, value in self._target.registers(thread).items() if name != self._hidden}


def changed(taken: Sample, memory: Mapping[int, bytes | None] = {}, hidden: str = "") -> StoppedProcess:
    return opened(StoppedProcess(Changed(CoreTarget(str(taken.core)), memory, hidden), FileFinder()))


@PROGRAMS
def test_the_thread_pointer_is_also_in_glibcs_lists(program: str) -> None:
    taken = sample(*KINDS_OF_PROGRAMS[program])
    process = changed(taken, hidden="fs_base")
    for thread in taken.truth["threads"]:
        assert process.threads.thread_pointer(thread["id"]) == thread["pthread"]
    check_variables(process, taken.truth, OF_PROGRAM | OF_LIBRARIES)


@PROGRAMS
def test_without_the_file_of_libc_nothing_is_guessed(program: str) -> None:
    # Neither the program's own variables nor those of a library built for static TLS need that file.
    taken = sample(*KINDS_OF_PROGRAMS[program])
    process = taken.process(Without("libc.so"))
    for thread in taken.truth["threads"]:
        native = thread["id"]
        for name in ("exe_static", "exe_aligned", "static_own", "static_variable"):
            address = thread["variables"][name] - WITHIN.get(name, 0)
            assert process.symbols.find_symbol(name, thread=native) == address, name
        for name in ("linked_variable", "second_variable", "other_variable"):
            with pytest.raises(Unavailable, match=f"{name}: .*does not describe its threads") as raised:
                process.symbols.find_symbol(name, thread=native)
            assert raised.value.hint
        with pytest.raises(Unavailable, match="does not describe its threads"):
            process.storage.key_value(native, 1)
    assert process.environment.at_start() == ENVIRONMENT


def test_lists_that_do_not_end_are_told_as_such() -> None:
    taken = sample(*KINDS_OF_PROGRAMS["gcc-pie-kernel"])
    process = taken.process()
    links = process.loader.link_maps
    following = links[3].address + 3 * 8
    looped = changed(taken, {following: links[1].address.to_bytes(8, "little")})
    with pytest.raises(CorruptState, match="modules does not end"):
        looped.symbols.find_symbol("linked_variable", thread=looped.threads.ids()[0])
    pthreads = list(process.glibc.pthreads().values())
    nodes = [pthread + process.glibc.member("pthread_list").offset for pthread in pthreads]
    looped = changed(taken, {nodes[2]: nodes[1].to_bytes(8, "little")}, hidden="fs_base")
    with pytest.raises(CorruptState, match="threads"):
        looped.threads.thread_pointer(looped.threads.ids()[0])


def test_damaged_memory_is_an_error_and_no_address() -> None:
    taken = sample(*KINDS_OF_PROGRAMS["gcc-pie-kernel"])
    process = taken.process()
    first = taken.truth["threads"][0]
    vector = int.from_bytes(process.memory.read(first["pthread"] + 8, 8), "little")
    link = next(link for link in process.loader.link_maps if process.glibc.tls_module(link.address)[0] > 1)
    for address in (vector, vector - vector % 4096, link.address):
        for data in (None, b"\0" * 16, b"\xff" * 16, b"\x01" * 4000):
            for name in ("linked_variable", "second_variable", "static_variable", "exe_static"):
                with contextlib.suppress(OmpdError):
                    changed(taken, {address: data}).symbols.find_symbol(name, thread=first["id"])


def test_the_environment_is_unavailable_once_it_was_written_over() -> None:
    taken = sample(*KINDS_OF_PROGRAMS["gcc-pie-kernel"])
    process = taken.process()
    arguments = process.target.auxiliary_vector()[31]
    strings = process.memory.read(arguments - 12000, 12000)
    start = arguments - 12000 + strings.index(str(taken.program).encode() + b"\0")
    first_variable = arguments - 12000 + strings.index(b"PATH=")
    assert changed(taken, {start: b"short\0"}).environment.at_start() == ENVIRONMENT
    for title in (b"t" * (first_variable - start), b"t" * (first_variable - start + 3) + b"\0"):
        with pytest.raises(Unavailable, match="written over"):
            changed(taken, {start: title}).environment.at_start()
    with pytest.raises(Unavailable, match="stack is not there"):
        changed(taken, {(arguments - 100) & ~4095: None}).environment.at_start()


def test_debug_information_of_the_c_library_agrees_with_what_it_publishes() -> None:
    # If libc's separate debug file is installed, a second source confirms the layout.
    process = sample(*KINDS_OF_PROGRAMS["gcc-pie-kernel"]).process()
    libc = next(module for module in process.symbols.modules() if "/libc.so" in module.name)
    try:
        layout = process.types.layout(libc, "struct pthread", ["tid", "list", "specific", "header.dtv"])
    except OmpdError:
        pytest.skip("missing: debug information of libc")
    described = process.glibc
    assert layout.size == described.sizeof_pthread
    for name, member in (("pthread_tid", "tid"), ("pthread_list", "list"), ("pthread_specific", "specific")):
        assert described.member(name).offset == layout.field(member).offset
    assert described.member("pthread_dtvp").offset == layout.field("header.dtv").offset


def test_variables_of_another_sysroot_are_found(tmp_path: Path) -> None:
    taken = sample(*KINDS_OF_PROGRAMS["gcc-pie-kernel"])
    for module in taken.process().symbols.modules():
        copy = tmp_path / module.name.lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(module.name, copy)
    check_variables(
        taken.process(FileFinder(FileOptions(sysroot=str(tmp_path)))), taken.truth, OF_PROGRAM | OF_LIBRARIES
    )


@PROGRAMS
@pytest.mark.quick("clang-pie-gcore", "gcc-pie-kernel", "gcc-no_pie-gcore")
def test_gdb_finds_the_same_addresses(program: str) -> None:
    # The programs' output is the truth. gdb with libthread_db knows no more than ompd does.
    taken = sample(*KINDS_OF_PROGRAMS[program])
    gdb = require("gdb")
    command = [gdb, "-nx", "-batch", "-ex", "thread apply all print &exe_initialised", taken.program, taken.core]
    shown = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        env=clean_environment(),
        check=False,
        cwd=taken.core.parent,
    ).stdout
    if "(int *) 0x" not in shown:
        pytest.skip("forbidden here: gdb does not load libthread_db")
    process = taken.process()
    for thread in taken.truth["threads"]:
        assert f"{process.symbols.find_symbol('exe_initialised', thread=thread['id']):#x}" in shown
