"""Runtimes without symbols or layouts, and files that are gone, moved or replaced."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ompd.binary.elf.elf import ElfFile
from tests.support import (
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
    abort_process,
    facts,
    inside,
    mapped_files,
    ompd,
    program_headers,
    refused,
    same_or_unavailable,
)
from tests.support.gdb import replies
from tests.support.runs import ENVIRONMENT, cores_allowed, kernel_core_obstacle


@pytest.fixture(scope="module")
def good() -> Stopped:
    return stopped("uneven")


# Programs without a readable runtime


def _crash(folder: Path, source: str, *flags: str) -> Path:
    """Compile a program in *folder* and run it; return the kernel's core."""
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
    # The build is in no table, its omp_get_thread_num() begins with an instruction that is not decoded (lfence), and
    # the machine has no emulator.
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
    """Return a folder with copies of the run's files, like the root of another machine. A test may replace them."""
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
    # The tables lie elsewhere, as if the library had been linked again.
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
    assert ran.code == 3 and "no such file" in ran.err
    assert ran.err.startswith(f"ompd: warning: the program's file is missing or wrong: {program} no such file; ")
    unknown = ompd("var", good.core, "anything", "--sysroot", elsewhere)
    assert unknown.code == 1 and f"{program} no such file" in unknown.err and "--exe FILE" in unknown.err
    assert same_or_unavailable(ran.json["threads"], good) == facts(good.truth)
    for row in ran.json["threads"]:
        assert row["where"] is None or row["where"]["function"] is None or "libc" in str(row["where"]["file"])
    # --exe names the program, which may lie anywhere.
    ran = ompd("threads", good.core, "--sysroot", elsewhere, "--exe", good.executable, "--json")
    assert (ran.code, ran.err) == (0, "")
    assert ran.json["threads"] == ompd("threads", good.core, "--json").json["threads"]


def test_gdb_says_how_a_missing_program_is_named_there(good: Stopped, elsewhere: Path) -> None:
    replace(inside(elsewhere, good.executable), None)
    said = replies(f"set sysroot {elsewhere}", f"core-file {good.core}", "omp threads")["omp threads"]
    assert "missing or wrong: " in said and "; the command file FILE names the right one\n" in said


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
        first = ran.err.splitlines()[0]
        assert first.startswith(f"ompd: warning: the program's file is missing or wrong: {path} ")
        assert first.endswith("; --exe FILE names the right one")
        assert same_or_unavailable(ran.json["threads"], good) == facts(good.truth)
        assert all(row["where"] is None or row["where"]["function"] is None for row in ran.json["threads"])


# Runtimes without symbols


@dataclass(frozen=True)
class Bare:
    """A run with a stripped runtime. *debug* has its symbols, in a folder that is not searched."""

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
