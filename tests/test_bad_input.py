"""Whatever is handed in: a sentence that names the file, the fault and a way out, the right exit code, never a wrong
fact.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ompd import open_core
from ompd.binary.elf.elf import ElfFile
from ompd.commands import main
from ompd.errors import BadFile, OmpdError
from ompd.model import Answer, ParallelRecord, RuntimeRecord, ThreadRecord
from ompd.questions import regions, runtimes, threads
from ompd.session import Session
from tests.support import (
    KINDS,
    RUNTIMES,
    Missing,
    Stopped,
    build,
    clean_environment,
    intel_runtime,
    require,
    running,
    stopped,
)
from tests.support.builds import altered
from tests.support.command import (
    EHDR,
    NT_FILE,
    NT_PRSTATUS,
    OMPD,
    PN_XNUM,
    PT_NOTE,
    abort_process,
    facts,
    inside,
    mapped_files,
    notes,
    ompd,
    patched,
    program_headers,
    refused,
    same_or_unavailable,
)
from tests.support.runs import ENVIRONMENT, cores_allowed, kernel_core_obstacle

PRSTATUS_PID = 32


# The command


# Cores, damaged


def put(layout: str, at: int, *values: int) -> Callable[[bytearray], None]:
    return lambda data: struct.pack_into(layout, data, at, *values)


@pytest.fixture(scope="module")
def good() -> Stopped:
    return stopped("uneven")


@pytest.fixture(scope="module")
def both() -> Mapping[str, Stopped]:
    return {kind: stopped("uneven", kind=kind) for kind in KINDS}


# Files that are no cores


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
    # The unprivileged user cannot be expected to reach the checkout: it gets a copy of the package.
    folder = Path(subprocess.run(["mktemp", "-d"], capture_output=True, text=True, check=True).stdout.strip())
    try:
        folder.chmod(0o755)
        shutil.copytree(Path(__file__).parents[1] / "ompd", folder / "ompd")
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
    refused("threads", good.executable, names=good.executable, fault="executable", way_out="core file")


def test_a_shared_library() -> None:
    library = intel_runtime() / "lib" / "libiomp5.so"
    refused("threads", library, names=library, fault="shared library, not a core file", way_out="core file")


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
    # Ones that are whole: an Elf32_Ehdr of machine arm, or i386, with one note of nothing.
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
    # As the kernel writes it from 65,535 segments on: PN_XNUM, the number in section header 0 (gABI, "e_phnum").
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


# In-process, for what would take too long as a command each


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


# Programs without a runtime that could be read


def _crash(folder: Path, source: str, *flags: str) -> Path:
    """Return the kernel's core of a program that is compiled and run in *folder*."""
    obstacle = kernel_core_obstacle()
    if obstacle is not None:
        raise Missing("kernel core", obstacle, forbidden=True)
    (folder / "program.c").write_text(source)
    command = [str(require("gcc")), "-g", str(folder / "program.c"), "-o", str(folder / "program"), *flags]
    subprocess.run(command, check=True, env=clean_environment(), capture_output=True)
    run = folder / "run"
    run.mkdir()

    with cores_allowed():
        subprocess.run([str(folder / "program")], cwd=run, env=ENVIRONMENT, check=False)
    (core,) = run.iterdir()
    return core


def test_a_program_without_openmp(tmp_path: Path) -> None:
    core = _crash(tmp_path, "#include <stdlib.h>\nint main(void) { abort(); }\n")
    for command in ("threads", "parallel"):
        refused(command, core, names=core, fault="no OpenMP runtime", way_out="linked")
    ran = ompd("runtimes", core, "--json")
    assert (ran.code, ran.json["runtimes"]) == (0, [])
    assert "no OpenMP runtime" in ran.err


def test_a_runtime_that_no_plugin_is_for(tmp_path: Path) -> None:
    source = (
        "#include <stdlib.h>\n"
        'static const char *const libraries[] = {"libompd_vendor.so", 0};\n'
        "const char *const *ompd_dll_locations = libraries;\n"
        "int main(void) { abort(); }\n"
    )
    core = _crash(tmp_path, source, "-rdynamic")
    for command in ("threads", "parallel"):
        refused(command, core, names="program", fault="no plugin", way_out="ompd runtimes")
    ran = ompd("runtimes", core, "--json")
    (runtime,) = ran.json["runtimes"]
    assert (runtime["kind"], runtime["dll_locations"]) == ("unknown", ["libompd_vendor.so"])
    assert "no plugin" in runtime["unavailable"]["version"] and "ompd_ symbols" not in str(runtime)


def test_a_libgomp_that_is_not_known_and_cannot_be_asked(tmp_path: Path) -> None:
    # A build that no table names, whose omp_get_thread_num() begins with an instruction that is not decoded (lfence),
    # on a machine without an emulator.
    source = "#include <stdlib.h>\nint main(void) {\n#pragma omp parallel num_threads(2)\n    abort();\n}\n"
    library = RUNTIMES["libgomp"].file()
    build_id = ElfFile(library.read_bytes(), str(library)).build_id() or b""
    raw = altered(library.read_bytes(), "omp_get_thread_num", b"\xf3\x0f\x1e\xfa", b"\x0f\xae\xe8\x90")
    (tmp_path / "libgomp.so.1").write_bytes(raw.replace(build_id, build_id[::-1]))
    core = _crash(tmp_path, source, "-fopenmp", f"-Wl,-rpath,{tmp_path}")
    (tmp_path / "unicorn.py").write_text("raise ImportError('not here')\n")
    without = {"PYTHONPATH": str(tmp_path)}
    for command in ("threads", "parallel"):
        refused(command, core, names=core, fault="libgomp", way_out="ompd[emulate]", environment=without)
    ran = ompd("runtimes", core, "--json", environment=without)
    (runtime,) = ran.json["runtimes"]
    assert (ran.code, runtime["kind"], runtime["layout"]) == (0, "libgomp", None)
    assert "build-id" in runtime["unavailable"]["layout"] and "libgomp.so" in runtime["file"]
    ran = ompd("stack", core, environment=without)
    assert ran.code == 3 and "main" in ran.out and "libgomp" in ran.err
    assert ompd("threads", core).code == 0


def test_not_initialised() -> None:
    core = stopped("not_initialised")
    ran = ompd("threads", core.core, "--json")
    assert ran.code == 0 and "no OpenMP construct or routine has run yet" in ran.err
    assert [row["runtime"] for row in ran.json["threads"]] == [None] * len(core.truth["threads"])
    assert ompd("parallel", core.core, "--json").json["parallel"] == []
    (runtime,) = ompd("runtimes", core.core, "--json").json["runtimes"]
    assert runtime["dll_locations"] is None and "dll_locations" not in runtime["unavailable"]
    assert runtime["keeps_states"] is None and "keeps_states" in runtime["unavailable"]


# Files that are gone, moved or replaced


@pytest.fixture
def elsewhere(tmp_path: Path, good: Stopped) -> Path:
    """The folder with the files of the run, as if of another machine: copies that a test may replace."""
    root = tmp_path / "machine"
    for path in mapped_files(good.core):
        if path.exists():
            copy = root / path.relative_to("/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
    return root


def runtime_of(good: Stopped) -> Path:
    (path,) = (path for path in mapped_files(good.core) if path.name == "libiomp5.so")
    return path


def replace(file: Path, content: bytes | None) -> None:
    file.unlink()
    if content is not None:
        file.write_bytes(content)


def test_files_found_by_sysroot(good: Stopped, elsewhere: Path) -> None:
    ran = ompd("threads", good.core, "--json", "--sysroot", elsewhere)
    assert (ran.code, ran.err) == (0, "")
    assert same_or_unavailable(ran.json["threads"], good) == facts(good.truth)
    assert ran.json["threads"] == ompd("threads", good.core, "--json").json["threads"]


def test_an_empty_sysroot(tmp_path: Path, good: Stopped) -> None:
    refused("threads", good.core, "--sysroot", tmp_path, names="libiomp5.so", fault="no such file", way_out="--sysroot")


def test_the_runtime_is_missing(good: Stopped, elsewhere: Path) -> None:
    runtime = inside(elsewhere, runtime_of(good))
    replace(runtime, None)
    for command in ("threads", "parallel"):
        refused(command, good.core, "--sysroot", elsewhere, names=runtime, fault="no such file", way_out="--sysroot")
    ran = ompd("runtimes", good.core, "--sysroot", elsewhere, "--json")
    assert ran.code == 3 and str(runtime) in ran.err


def _another_header(data: bytearray) -> None:
    for at in range(0x300, 0x340):
        data[at] ^= 0x55  # in the first page, which every core holds


def _another_dynamic_section(data: bytearray) -> None:
    # Tables lie elsewhere: relinked.
    for header in program_headers(data):
        if header.p_type == 2:
            for entry in (5, 6):
                data[header.p_offset + 8 + entry * 16] ^= 0x10


@pytest.mark.parametrize("patch", [_another_header, _another_dynamic_section])
def test_the_runtime_is_another_build(good: Stopped, elsewhere: Path, patch: Callable[[bytearray], None]) -> None:
    runtime = inside(elsewhere, runtime_of(good))
    data = bytearray(runtime.read_bytes())
    patch(data)
    replace(runtime, bytes(data))
    refused("threads", good.core, "--sysroot", elsewhere, names=runtime, fault="another build", way_out="--sysroot")


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        pytest.param(b"", "is empty", id="empty"),
        pytest.param(b"not a library\n", "", id="text"),
        pytest.param(b"\x7fELF" + bytes(100), "", id="damaged"),
    ],
)
def test_the_runtime_is_no_library(good: Stopped, elsewhere: Path, content: bytes, fault: str) -> None:
    runtime = inside(elsewhere, runtime_of(good))
    replace(runtime, content)
    refused("threads", good.core, "--sysroot", elsewhere, names=runtime, fault=fault, way_out="--sysroot")


def test_the_runtime_is_another_library(good: Stopped, elsewhere: Path) -> None:
    runtime = inside(elsewhere, runtime_of(good))
    (libc,) = (path for path in mapped_files(good.core) if path.name.startswith("libc.so"))
    replace(runtime, libc.read_bytes())
    refused("threads", good.core, "--sysroot", elsewhere, names=runtime, fault="another build", way_out="--sysroot")


def test_the_runtime_is_cut(good: Stopped, elsewhere: Path) -> None:
    runtime = inside(elsewhere, runtime_of(good))
    whole = runtime.read_bytes()
    for part in (len(whole) // 2, len(whole) - 4096, 4096):
        replace(runtime, whole[:part])
        ran = ompd("threads", good.core, "--sysroot", elsewhere)
        assert ran.code == 1 and ran.out == "" and str(runtime) in ran.err, part


def test_the_program_is_missing(good: Stopped, elsewhere: Path) -> None:
    program = inside(elsewhere, good.executable)
    replace(program, None)
    ran = ompd("threads", good.core, "--sysroot", elsewhere, "--json")
    assert ran.code == 3 and str(program) in ran.err and "no such file" in ran.err
    assert same_or_unavailable(ran.json["threads"], good) == facts(good.truth)
    for row in ran.json["threads"]:
        assert row["where"] is None or row["where"]["function"] is None or "libc" in str(row["where"]["file"])
    # Named by hand, wherever it lies.
    ran = ompd("threads", good.core, "--sysroot", elsewhere, "--exe", good.executable, "--json")
    assert (ran.code, ran.err) == (0, "")
    assert ran.json["threads"] == ompd("threads", good.core, "--json").json["threads"]


def test_the_program_is_another_build(good: Stopped, elsewhere: Path) -> None:
    program = inside(elsewhere, good.executable)
    replace(program, build("nested").read_bytes())
    ran = ompd("threads", good.core, "--sysroot", elsewhere, "--json")
    assert ran.code == 3 and str(program) in ran.err and "another build" in ran.err
    assert same_or_unavailable(ran.json["threads"], good) == facts(good.truth)
    assert all(row["where"] is None or row["where"]["function"] is None for row in ran.json["threads"])


@pytest.mark.parametrize("given", ["other", "missing", "text", "directory", "core"])
def test_a_wrong_program_given(tmp_path: Path, good: Stopped, given: str) -> None:
    path = {"other": build("nested"), "missing": tmp_path / "gone", "directory": tmp_path, "core": good.core}.get(
        given, tmp_path / "program"
    )
    if given == "text":
        path.write_text("#!/bin/sh\n")
    ran = ompd("threads", good.core, "--exe", path, "--json")
    assert ran.code in (1, 3) and str(path) in ran.err, ran
    if ran.code == 3:
        assert same_or_unavailable(ran.json["threads"], good) == facts(good.truth)
        assert all(row["where"] is None or row["where"]["function"] is None for row in ran.json["threads"])


# Runtimes without symbols


@dataclass(frozen=True)
class Bare:
    """A run with a runtime that was stripped; *debug* holds its symbols, in a folder that nobody searches."""

    core: Path
    runtime: Path
    debug: Path
    truth: dict[str, Any]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Bare:
    obstacle = kernel_core_obstacle()
    if obstacle is not None:
        raise Missing("kernel core", obstacle, forbidden=True)
    if shutil.which("objcopy") is None:
        raise Missing("binutils", "no objcopy")
    folder = tmp_path_factory.mktemp("bare")
    library, run = folder / "lib", folder / "run"
    library.mkdir()
    run.mkdir()
    runtime, debug = library / "libiomp5.so", folder / "kept" / "libiomp5.so.symbols"
    debug.parent.mkdir()
    original = intel_runtime() / "lib" / "libiomp5.so"
    for command in (
        ["objcopy", "--only-keep-debug", original, debug],
        ["objcopy", "--strip-all", "--remove-section=.gnu_debuglink", original, runtime],
        ["objcopy", f"--add-gnu-debuglink={debug}", runtime],
    ):
        subprocess.run([str(word) for word in command], check=True, capture_output=True)
    with running("uneven", folder=run, env={"LD_LIBRARY_PATH": str(library)}) as process:
        abort_process(process.pid)
        (core,) = (path for path in run.iterdir() if path.name.startswith("core"))
        found = Bare(core, runtime, debug, process.truth)
        assert runtime in mapped_files(core), "the program took another runtime"
        return found


def _truth(bare: Bare) -> Stopped:
    return Stopped(bare.core, bare.core, bare.truth, "uneven", "gcc", "debug", "kernel")


def test_a_runtime_without_symbols(bare: Bare) -> None:
    for command in ("threads", "parallel"):
        refused(command, bare.core, names=bare.runtime, fault="ompd_access__ symbols", way_out="--debug-dir")
    ran = ompd("runtimes", bare.core, "--json")
    (runtime,) = ran.json["runtimes"]
    assert (ran.code, runtime["file"], runtime["layout"]) == (0, str(bare.runtime), None)
    assert "layout" in runtime["unavailable"]


@pytest.mark.parametrize("place", ["beside", "in .debug", "under --debug-dir"])
def test_symbols_in_a_debug_file(tmp_path: Path, bare: Bare, place: str) -> None:
    folder = {"beside": bare.runtime.parent, "in .debug": bare.runtime.parent / ".debug"}.get(
        place, tmp_path / bare.runtime.parent.relative_to("/")
    )
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / bare.debug.name
    shutil.copy(bare.debug, file)
    try:
        ran = ompd("threads", bare.core, "--json", "--debug-dir", tmp_path)
        assert (ran.code, ran.err) == (0, "")
        assert same_or_unavailable(ran.json["threads"], _truth(bare)) == facts(bare.truth)
        assert ran.json["runtimes"][0]["layout"] == "published"
    finally:
        file.unlink()


def test_a_debug_file_of_another_build_is_refused(tmp_path: Path, bare: Bare) -> None:
    folder = tmp_path / bare.runtime.parent.relative_to("/")
    folder.mkdir(parents=True)
    data = bytearray(bare.debug.read_bytes())
    data[-1] ^= 1  # the CRC of .gnu_debuglink no longer agrees
    (folder / bare.debug.name).write_bytes(data)
    arguments = ("threads", bare.core, "--debug-dir", tmp_path)
    refused(*arguments, names=bare.runtime, fault="ompd_access__ symbols", way_out="--debug-dir")


# Usage, pipes, interrupts


@pytest.mark.parametrize(
    "arguments", [["threads"], ["thread"], ["threads", "core", "--nonsense"], ["threads", "core", "--color", "red"]]
)
def test_wrong_usage(arguments: list[str]) -> None:
    ran = ompd(*arguments)
    assert (ran.code, ran.out) == (2, "")


def test_no_command_at_all_gets_the_list_of_them() -> None:
    ran = ompd()
    assert "Usage: ompd" in ran.out + ran.err and "threads " in ran.out + ran.err  # which one is click's choice


def test_output_to_a_closed_pipe(good: Stopped) -> None:
    for options in (["--json"], ["--all", "-v"]):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(
            [str(OMPD), "threads", str(good.core), *options],
            stdin=subprocess.DEVNULL,
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            env=clean_environment(),
            check=False,
        )
        os.close(writer)
        assert done.stderr == "" and done.returncode in (0, 141)


def test_output_that_does_not_fit(good: Stopped) -> None:
    for options in (["--json"], ["--all"]):
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                [str(OMPD), "threads", str(good.core), *options],
                stdin=subprocess.DEVNULL,
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                env=clean_environment(),
                check=False,
            )
        assert done.returncode == 1 and "Traceback" not in done.stderr
        assert "No space left" in done.stderr


@pytest.mark.parametrize("delay", [0.04, 0.07, 0.1, 0.15])
def test_an_interrupt(good: Stopped, delay: float) -> None:
    process = subprocess.Popen(
        [str(OMPD), "threads", str(good.core)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment(),
    )
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    # 1 and -2: the interpreter was not up yet, or on its way down, and nothing of ompd was running.
    assert process.returncode in (0, 1, 130, -signal.SIGINT)
    assert "in _run" not in err and (process.returncode != 130 or "Traceback" not in err)


INTERRUPTED_AT = """
import functools, os, signal, sys
left = int(sys.argv[1])
usual = functools.cached_property.__set_name__
def counting(self, owner, name):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGINT)
    usual(self, owner, name)
functools.cached_property.__set_name__ = counting
sys.argv = ["ompd", "threads", sys.argv[2]]
from ompd.start import main
main()
"""


@pytest.mark.parametrize("at", [1, 20, 60, 100])
def test_an_interrupt_where_python_makes_another_exception_of_it(good: Stopped, at: int) -> None:
    # A class that is being made, of the first modules to be imported as of those that only an answer needs.
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_AT, str(at), str(good.core)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


# What is found by name before the command has taken the signal; Python's own start comes before all of it.
FIRST_IMPORTS = """
import _signal, sys
class Noting:
    def find_spec(self, name, path=None, target=None):
        if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
            sys.stderr.write(name + "\\n")
sys.meta_path.insert(0, Noting())
from ompd.start import main
"""

INTERRUPTED_LATE = """
import atexit, os, signal, sys
atexit.register(os.kill, os.getpid(), signal.SIGINT)
sys.argv = ["ompd", "threads", sys.argv[1], "--json"]
from ompd.start import main
main()
"""


def test_an_interrupt_during_the_first_imports_and_at_the_end(good: Stopped) -> None:
    done = subprocess.run([sys.executable, "-c", FIRST_IMPORTS], capture_output=True, text=True, check=True)
    assert set(done.stderr.split()) <= {"ompd", "__future__", "ompd.start", "_signal"}
    for ignored in ("", "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"):
        late = subprocess.run(
            [sys.executable, "-c", ignored + INTERRUPTED_LATE, str(good.core)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (late.returncode, late.stderr) == (0, "") and json.loads(late.stdout)["threads"]


def test_an_interrupt_during_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], good: Stopped
) -> None:
    def interrupted(self: Session) -> Iterator[None]:
        raise KeyboardInterrupt

    monkeypatch.setattr(Session, "runtimes", property(interrupted))
    monkeypatch.setattr(sys, "argv", ["ompd", "threads", str(good.core)])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 130
    captured = capsys.readouterr()
    assert captured.out == "" and "Traceback" not in captured.err


# What a core names is data


def test_names_do_not_reach_the_terminal_as_they_are(tmp_path: Path, good: Stopped) -> None:
    def patch(data: bytearray) -> None:
        at = data.find(b"libiomp5.so\0", notes(data, NT_FILE)[0])
        while at >= 0:
            data[at : at + 4] = b"\x1b[2J"
            at = data.find(b"libiomp5.so\0", at)

    core = patched(good.core, tmp_path / "core", patch)
    for command in ("runtimes", "threads"):
        ran = ompd(command, core)
        assert "\x1b" not in ran.out + ran.err
        assert ran.code in (1, 3) or command == "runtimes"


def test_a_file_name_that_is_no_text(tmp_path: Path) -> None:
    core = Path(os.fsdecode(os.fsencode(tmp_path / "core.") + b"\xff\x1b[31m"))
    core.write_bytes(b"text\n")
    ran = ompd("threads", core)
    assert ran.code == 1 and "is not an ELF file" in ran.err and "\x1b" not in ran.err
    with pytest.raises(BadFile):
        Session.open_core(core)
