"""Each bad input gets a sentence with the file, the fault and a way out, the right exit code, and no wrong fact."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ompd import open_core
from ompd.errors import OmpdError
from ompd.model import Answer, ParallelRecord, RuntimeRecord, ThreadRecord
from ompd.questions import regions, runtimes, threads
from tests.support import (
    KINDS,
    Missing,
    Stopped,
    intel_runtime,
    stopped,
)
from tests.support.cache import CHECKOUT
from tests.support.command import (
    EHDR,
    NT_FILE,
    NT_PRSTATUS,
    PN_XNUM,
    PT_NOTE,
    notes,
    ompd,
    patched,
    program_headers,
    refused,
    same_or_unavailable,
)

PRSTATUS_PID = 32


def put(layout: str, at: int, *values: int) -> Callable[[bytearray], None]:
    return lambda data: struct.pack_into(layout, data, at, *values)


@pytest.fixture(scope="module")
def good() -> Stopped:
    return stopped("uneven")


@pytest.fixture(scope="module")
def both() -> Mapping[str, Stopped]:
    return {kind: stopped("uneven", kind=kind) for kind in KINDS}


# Files that are not cores


def test_no_such_file(tmp_path: Path) -> None:
    missing = tmp_path / "core.1"
    for command in ("runtimes", "threads", "parallel"):
        refused(command, missing, names=missing, fault="no such file", way_out="core file")


def test_a_directory(tmp_path: Path) -> None:
    refused("threads", tmp_path, names=tmp_path, fault="is a directory", way_out="core file")


def test_an_empty_file(tmp_path: Path) -> None:
    core = tmp_path / "core"
    core.touch()
    refused("threads", core, names=core, fault="is empty", way_out="core file")


def test_no_permission(tmp_path: Path, good: Stopped) -> None:
    if os.geteuid() != 0:
        core = tmp_path / "core"
        shutil.copy(good.core, core)
        core.chmod(0)
        refused("threads", core, names=core, fault="no permission", way_out="readable")
        return
    if shutil.which("setpriv") is None:
        raise Missing("setpriv", "not found (Debian package util-linux)")
    # The unprivileged user may not be able to reach the checkout, and gets a copy of the package.
    folder = Path(subprocess.run(["mktemp", "-d"], capture_output=True, text=True, check=True).stdout.strip())
    try:
        folder.chmod(0o755)
        shutil.copytree(CHECKOUT / "ompd", folder / "ompd")
        packages = folder / "packages"
        packages.mkdir()
        for name in ("click", "rich", "elftools"):
            module = __import__(name)
            shutil.copytree(Path(str(module.__file__)).parent, packages / name)
        core = folder / "core"
        shutil.copy(good.core, core)
        core.chmod(0o600)
        paths = [str(folder), str(packages)]
        code = f"import sys; sys.path[:0] = {paths!r}; from ompd.commands.main import main; main()"
        unprivileged = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        done = subprocess.run(
            [*unprivileged, "/usr/bin/python3", "-I", "-c", code, "threads", str(core)],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
            check=False,
        )
        assert (done.returncode, done.stdout) == (1, ""), done
        assert done.stderr.splitlines()[0] == f"ompd: {core}: no permission to read it"
        assert "readable" in done.stderr.splitlines()[1]
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        pytest.param(b"a core is what is left of a program\n", "is not an ELF file", id="text"),
        pytest.param(bytes(range(256)) * 64, "is not an ELF file", id="noise"),
        pytest.param(bytes(1 << 16), "is not an ELF file", id="zeros"),
        pytest.param(b"\x7f", "is not an ELF file", id="one-byte"),
        pytest.param(b"\x7fELF", "", id="magic-alone"),
        pytest.param(b"\x7fELF" + bytes(60), "", id="magic-and-zeros"),
        pytest.param(b"\x7fELF" + b"\xff" * 4096, "", id="magic-and-ones"),
    ],
)
def test_files_of_other_kinds(tmp_path: Path, content: bytes, fault: str) -> None:
    file = tmp_path / "core"
    file.write_bytes(content)
    refused("threads", file, names=file, fault=fault, way_out="core")


def test_an_executable(good: Stopped) -> None:
    fault = "is a program or shared library, not a core file, and no process runs it"
    refused("threads", good.executable, names=good.executable, fault=fault, way_out="core file")


def test_a_shared_library() -> None:
    library = intel_runtime() / "lib" / "libiomp5.so"
    refused("threads", library, names=library, fault="program or shared library, not a core file", way_out="core file")


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/tty", "/proc/self/mem", "/dev/full"])
def test_devices(device: str) -> None:
    if not Path(device).exists():
        pytest.skip(f"no {device} here")
    refused("threads", device, names=device, fault="", way_out="core file")


def test_a_pipe_that_nobody_writes_to(tmp_path: Path) -> None:
    pipe = tmp_path / "core"
    os.mkfifo(pipe)
    refused("threads", pipe, names=pipe, fault="is not a regular file", way_out="core file")


# Cores of other machines


def test_a_32_bit_core(tmp_path: Path, good: Stopped) -> None:
    core = patched(good.core, tmp_path / "core", put("<B", 4, 1))
    ran = ompd("threads", core)
    assert (ran.code, ran.out) == (1, "") and str(core) in ran.err
    # Complete cores: an Elf32_Ehdr of machine arm or i386, with one empty segment of notes.
    for machine, fault, way_out in ((40, "arm", "can be read: x86_64, i386"), (3, "names no threads", "copy the core")):
        header = struct.pack("<16sHHIIIIIHHHHHH", b"\x7fELF\1\1\1", 4, machine, 1, 0, 52, 0, 0, 52, 32, 1, 0, 0, 0)
        core.write_bytes(header + struct.pack("<8I", PT_NOTE, 84, 0, 0, 0, 0, 0, 4))
        refused("threads", core, names=core, fault=fault, way_out=way_out)


def test_a_32_bit_core_of_a_64_bit_machine(tmp_path: Path) -> None:
    core = tmp_path / "core"
    core.write_bytes(struct.pack("<16sHHIIIIIHHHHHH", b"\x7fELF\1\1\1", 4, 62, 1, 0, 52, 0, 0, 52, 32, 0, 0, 0, 0))
    refused("threads", core, names=core, fault="32-bit little-endian", way_out="can be read: x86")


@pytest.mark.parametrize(("machine", "name"), [(183, "aarch64"), (243, "riscv"), (0, "machine number 0")])
def test_a_core_of_another_machine(tmp_path: Path, good: Stopped, machine: int, name: str) -> None:
    core = patched(good.core, tmp_path / "core", put("<H", 18, machine))
    refused("threads", core, names=core, fault=name, way_out="can be read: x86")


def test_a_core_of_the_other_byte_order(tmp_path: Path) -> None:
    core = tmp_path / "core"
    core.write_bytes(struct.pack(EHDR.replace("<", ">"), b"\x7fELF\2\2\1", 4, 62, 1, 0, 64, 0, 0, 64, 56, 0, 0, 0, 0))
    refused("threads", core, names=core, fault="64-bit big-endian", way_out="can be read: x86")


# Cores that are damaged


def test_a_core_without_notes(tmp_path: Path, good: Stopped) -> None:
    def empty(data: bytearray) -> None:
        for header in program_headers(data):
            if header.p_type == PT_NOTE:
                struct.pack_into("<Q", data, header.at + 32, 0)

    core = patched(good.core, tmp_path / "core", empty)
    refused("threads", core, names=core, fault="names no threads", way_out="core again")


def test_a_core_without_program_headers(tmp_path: Path, good: Stopped) -> None:
    core = patched(good.core, tmp_path / "core", put("<H", 56, 0))
    refused("threads", core, names=core, fault="names no threads", way_out="core again")


@pytest.mark.parametrize("count", [1 << 8, 1 << 32, 1 << 60, (1 << 64) - 1])
def test_more_files_named_than_there_are(tmp_path: Path, good: Stopped, count: int) -> None:
    core = patched(good.core, tmp_path / "core", lambda data: put("<Q", notes(data, NT_FILE)[0], count)(data))
    refused("threads", core, names=core, fault="NT_FILE", way_out="core again")


def test_no_files_named(tmp_path: Path, good: Stopped) -> None:
    core = patched(good.core, tmp_path / "core", lambda data: put("<Q", notes(data, NT_FILE)[0], 0)(data))
    refused("threads", core, names=core, fault="names none of", way_out="core")


@pytest.mark.parametrize("size", [0, 1, 1 << 40, (1 << 64) - 1])
@pytest.mark.quick("1", "1099511627776", "18446744073709551615")
def test_absurd_pages(tmp_path: Path, good: Stopped, size: int) -> None:
    core = patched(good.core, tmp_path / "core", lambda data: put("<Q", notes(data, NT_FILE)[0] + 8, size)(data))
    ran = ompd("threads", core, "--json")
    if ran.code != 1:
        same_or_unavailable(ran.json["threads"], good)
    ran = ompd("runtimes", core, "--json")
    if ran.code != 1:
        (runtime,) = ran.json["runtimes"]
        (true,) = ompd("runtimes", good.core, "--json").json["runtimes"]
        assert {key: value for key, value in runtime.items() if value is not None and value != true[key]} == {
            **({"unavailable": runtime["unavailable"]} if runtime["unavailable"] else {})
        }


def test_two_notes_for_one_thread(tmp_path: Path, good: Stopped) -> None:
    def double(data: bytearray) -> None:
        first, second = notes(data, NT_PRSTATUS)[:2]
        data[second + PRSTATUS_PID : second + PRSTATUS_PID + 4] = data[first + PRSTATUS_PID : first + PRSTATUS_PID + 4]

    core = patched(good.core, tmp_path / "core", double)
    refused("threads", core, names=core, fault="two NT_PRSTATUS notes", way_out="core again")


def with_many_program_headers(data: bytearray) -> None:
    # From 65,535 segments on, the kernel writes PN_XNUM, and the number in section header 0 (gABI, "e_phnum").
    headers = program_headers(data)
    e_shoff = len(data)
    data += struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, 1, 0, len(headers), 0, 0)
    struct.pack_into("<Q", data, 40, e_shoff)
    struct.pack_into("<HHHH", data, 56, PN_XNUM, 64, 1, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_the_number_of_segments_in_section_0(tmp_path: Path, both: Mapping[str, Stopped], kind: str) -> None:
    original = both[kind]
    core = patched(original.core, tmp_path / "core", with_many_program_headers)
    ran = ompd("threads", core, "--json")
    assert (ran.code, ran.err) == (0, "")
    assert ran.json["threads"] == ompd("threads", original.core, "--json").json["threads"]


@pytest.mark.parametrize("count", [(1 << 32) - 1, 1 << 24, 1 << 20])
def test_more_segments_than_there_are(tmp_path: Path, good: Stopped, count: int) -> None:
    def patch(data: bytearray) -> None:
        with_many_program_headers(data)
        struct.pack_into("<I", data, len(data) - 64 + 44, count)

    core = patched(good.core, tmp_path / "core", patch)
    refused("threads", core, names=core, fault="", way_out="core again")


# In-process cases, which would take too long as commands


@dataclass(frozen=True)
class Asked:
    threads: Answer[ThreadRecord]
    regions: Answer[ParallelRecord]
    runtimes: Answer[RuntimeRecord]


def ask(core: Path, **options: Any) -> Asked:
    with open_core(core, **options) as session:
        return Asked(threads.ask(session), regions.ask(session), runtimes.ask(session))


@pytest.mark.parametrize("kind", KINDS)
def test_a_core_cut_anywhere_tells_nothing_wrong(tmp_path: Path, both: Mapping[str, Stopped], kind: str) -> None:
    good = both[kind]
    core = tmp_path / "core"
    shutil.copy(good.core, core)
    size = core.stat().st_size
    whole = same_or_unavailable(ask(core).threads.rows, good)
    assert whole
    cuts = {size - 1, size - 4096, 4096, 1000, 200, 65, 64, 63, 20, 16, 15, 5, 4, 3, 1, *range(0, size, size // 30)} - {
        0
    }
    answered = 0
    hints: list[str] = []
    for cut in sorted(cuts, reverse=True):
        os.truncate(core, cut)
        try:
            asked = ask(core)
        except OmpdError as error:
            assert str(core) in str(error), f"cut at {cut}: {error}"
            hints.append(error.hint)
            continue
        answered += 1
        told = same_or_unavailable(asked.threads.rows, good)
        assert told <= whole
        if told < whole:
            assert not asked.threads.complete and asked.threads.warnings, f"cut at {cut}: {told} of {whole} facts"
        for region in asked.regions.rows:
            true = [r for r in good.truth["regions"] if r["level"] == region.level]
            assert region.level in (None, *(r["level"] for r in good.truth["regions"]))
            assert not true or region.team_size in (None, *(r["team_size"] for r in true))
    assert answered or kind == "gcore"
    assert all(hints)


def test_a_cut_core_is_called_so(tmp_path: Path, both: Mapping[str, Stopped]) -> None:
    core = tmp_path / "core"
    shutil.copy(both["gcore"].core, core)
    os.truncate(core, core.stat().st_size // 2)
    refused("threads", core, names=core, fault="is cut off", way_out="copy the core again")
    shutil.copy(both["kernel"].core, core)
    os.truncate(core, core.stat().st_size // 2)
    ran = ompd("threads", core)
    assert ran.code in (1, 3) and "cut off" in ran.err
