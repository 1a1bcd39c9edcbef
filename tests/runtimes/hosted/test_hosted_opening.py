"""Loading a library for debuggers: ompd checks all files that are loaded, and the loader searches for none itself.

Each library of these tests leaves a file when any of its code runs.
"""

from __future__ import annotations

import json
import os
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ompd.errors import BadFile
from ompd.isa.processors import NARROW
from ompd.runtimes.hosted.loading.folders import SystemFolders
from ompd.runtimes.hosted.loading.libraries import MAX_LIBRARIES, Opened, open_library, open_named
from tests.support import require
from tests.support.m32 import m32_flags
from tests.support.planted import RAN, build_library, have_run, load_in_worker

STRANGER = 54321
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
ORIGIN = "-Wl,-rpath,$ORIGIN"
NO_SYSTEM = SystemFolders("/nonexistent")


@pytest.fixture
def ran(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    # The folder in which libraries leave a file when they run, in this process or in a worker.
    folder = tmp_path_factory.mktemp("ran")
    monkeypatch.setenv(RAN, str(folder))
    return folder


@pytest.fixture
def here(tmp_path: Path) -> Path:
    folder = tmp_path / "here"
    folder.mkdir(mode=0o755)
    return folder


@pytest.fixture(autouse=True)
def no_descriptor_is_lost() -> Iterator[None]:
    before = len(list(Path("/proc/self/fd").iterdir()))
    yield
    # The garbage collector may meanwhile close descriptors of earlier tests.
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


def narrow_library(folder: Path, name: str) -> Path:
    """Return a new library of 32 bits."""
    m32 = m32_flags()
    return build_library(folder, name, flags=[*m32.compile, *m32.link])


def refusal(path: Path | str, ran: Path, *, without: Path | str | None = None) -> str:
    """Return the reason why a library is not opened. None of its code has run."""
    with pytest.raises(BadFile) as raised:
        open_library(str(path)).close()
    assert have_run(ran) == set()
    text = str(raised.value)
    assert text.startswith(f"{path}: ") and "\n" not in text
    return text.removeprefix(f"{path}: ")


def loaded(opened: Opened, ran: Path, **options: object) -> dict[str, object]:
    """Return the report of a worker that loads the library."""
    done = load_in_worker(opened.steps, ran, **options)  # type: ignore[arg-type]
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


# Loading


@pytest.mark.parametrize("confined", [False, True])
def test_a_library_is_loaded_from_its_copy(here: Path, ran: Path, confined: bool) -> None:
    path = build_library(here, "alone")
    with open_library(str(path)) as opened:
        assert (opened.name, opened.bits, opened.worker) == (str(path), 64, "python")
        assert [file.name for file in opened.files] == ["libalone.so"] and "libc.so.6" in opened.present
        assert have_run(ran) == set()
        found = loaded(opened, ran, confined=confined)
    assert found["version"] == 201811 and found["new"] == ["/memfd:libalone.so (deleted)"]
    # A confined library runs, too, but cannot leave a file.
    assert have_run(ran) == (set() if confined else {"alone"})


def test_what_it_needs_is_loaded_before_it(here: Path, ran: Path) -> None:
    far = build_library(here / "far", "far", entries=False)
    near = build_library(here, "near", needs=[far], entries=False, flags=["-Wl,-rpath,${ORIGIN}/far"])
    other = build_library(here, "other", needs=[near], entries=False, flags=[f"-Wl,-rpath,{here}"])
    path = build_library(here, "all", needs=[other, near], flags=["-Wl,--enable-new-dtags", ORIGIN])
    with open_library(str(path)) as opened:
        assert [file.name for file in opened.files] == ["libfar.so", "libnear.so", "libother.so", "liball.so"]
        assert opened.files[0].path == str(far) and not any(file.is_global for file in opened.files)
        found = loaded(opened, ran)
    assert have_run(ran) == {"far", "near", "other", "all"}
    assert found["new"] == [f"/memfd:lib{name}.so (deleted)" for name in ("all", "far", "near", "other")]


def test_folders_of_rpath_hold_for_what_its_needs_need(here: Path, ran: Path) -> None:
    far = build_library(here / "far", "far", entries=False)
    near = build_library(here / "near", "near", needs=[far], entries=False)
    flags = ["-Wl,--disable-new-dtags", f"-Wl,-rpath,$ORIGIN/near:{here}/far/"]
    path = build_library(here, "old", needs=[near], flags=flags)
    with open_library(str(path)) as opened:
        assert [file.path for file in opened.files] == [str(far), str(near), str(path)]
        loaded(opened, ran)
    flags[0] = "-Wl,--enable-new-dtags"
    path = build_library(here, "new", needs=[near], flags=flags)
    assert f"{near}: is refused: it needs libfar.so, which is in none of its folders" in refusal(path, folder_of(ran))


def folder_of(ran: Path) -> Path:
    for left in ran.iterdir():
        left.unlink()
    return ran


def test_what_the_worker_has_is_not_loaded_again(here: Path, ran: Path) -> None:
    path = build_library(here, "maths", flags=["-lm"])
    with open_library(str(path)) as opened:
        names = [file.name for file in opened.files]
        found = loaded(opened, ran)
    assert names == ["libm.so.6", "libmaths.so"]
    # A Python that is linked with libm has it already. Others load the copy.
    assert set(found["new"]) <= {"/memfd:libm.so.6 (deleted)", "/memfd:libmaths.so (deleted)"}  # type: ignore[call-overload]


def test_the_library_of_cxx_is_found_for_one_that_does_not_name_it(here: Path, ran: Path) -> None:
    # Like Intel's library, it uses exceptions and expects the debugger to have the library of C++.
    source = "extern int __gxx_personality_v0(); void *of_cxx = (void *)__gxx_personality_v0;"
    extra = here / "extra.c"
    extra.write_text(source)
    path = build_library(here, "silent", flags=["-x", "c", str(extra)])
    with open_library(str(path)) as opened:
        assert [file.name for file in opened.files if file.is_global] == ["libstdc++.so.6"]
        assert loaded(opened, ran)["version"] == 201811


def test_the_loader_searches_for_nothing(here: Path, ran: Path, tmp_path: Path) -> None:
    # Not even a worker that is started wrongly takes a library from the environment or the current folder.
    near = build_library(here, "near", entries=False)
    path = build_library(here, "it", needs=[near], flags=[ORIGIN])
    planted = tmp_path / "planted"
    for folder in (planted, planted / "glibc-hwcaps" / "x86-64-v2"):
        build_library(folder, "near", entries=False).rename(folder / "other")
        (folder / "other").rename(folder / "libnear.so")
    environment = {"LD_LIBRARY_PATH": f"{planted}:.:", "LD_DEBUG": "files,libs"}
    with open_library(str(path)) as opened:
        done = load_in_worker(opened.steps, ran, environment=environment, folder=planted)
        process = "/proc/"
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["new"] == ["/memfd:libit.so (deleted)", "/memfd:libnear.so (deleted)"]
    assert str(planted) not in "\n".join(line for line in done.stderr.splitlines() if "generating link map" in line)
    inits = [line.split("calling init: ")[1] for line in done.stderr.splitlines() if "calling init: " in line]
    ours = [line for line in inits if line.startswith(process)]
    assert len(ours) == 2 and inits[-2:] == ours


def test_no_file_is_opened_by_the_loader_behind_a_descriptor(here: Path, ran: Path, tmp_path: Path) -> None:
    near = build_library(here, "near", entries=False)
    path = build_library(here, "it", needs=[near], flags=["-Wl,-rpath,$ORIGIN:relative::."])
    log = tmp_path / "log"
    prefix = [
        str(require("strace")),
        "-f",
        "-qq",
        "-o",
        str(log),
        "-e",
        "trace=open,openat,openat2,memfd_create,mmap",
        "-y",
    ]
    with open_library(str(path)) as opened:
        done = load_in_worker(opened.steps, ran, prefix=prefix)
    if done.returncode != 0 and "ptrace" in done.stderr:
        pytest.skip("strace cannot trace here")
    assert done.returncode == 0, done.stderr
    calls = log.read_text().splitlines()
    start = next(number for number, line in enumerate(calls) if "/fd/" in line and "open" in line)
    opens = [line for line in calls[start:] if "open" in line and "= -1" not in line]
    names = [line.split('"')[1] for line in opens]
    own = {f"{ran}/near", f"{ran}/it", "/proc/self/maps"}
    assert {name for name in names if not name.startswith("/proc/")} <= own
    mapped = [line for line in calls[start:] if "PROT_EXEC" in line and "<" in line]
    assert len(mapped) == 2 and all("memfd:lib" in line for line in mapped)
    assert have_run(ran) == {"near", "it"}


# Changes between the check and the loading


def test_what_takes_the_place_of_a_checked_file_is_not_loaded(here: Path, ran: Path) -> None:
    near = build_library(here, "near", entries=False)
    path = build_library(here, "it", needs=[near], flags=[ORIGIN])
    with open_library(str(path)) as opened:
        for swapped, name in ((path, "swapped"), (near, "near_too")):
            build_library(here / "other", name, version=1).replace(swapped)
        found = loaded(opened, ran)
    assert found["version"] == 201811 and have_run(ran) == {"it", "near"}


def test_what_is_written_into_a_checked_file_is_not_loaded(here: Path, ran: Path) -> None:
    path = build_library(here, "it")
    other = build_library(here / "other", "written", version=1).read_bytes()
    held = os.open(path, os.O_RDWR)  # opened before the check, as by a user who opened it before its mode was corrected
    with open_library(str(path)) as opened:
        os.pwrite(held, other, 0)
        os.ftruncate(held, len(other))
        found = loaded(opened, ran)
    os.close(held)
    assert path.read_bytes() == other
    assert found["version"] == 201811 and have_run(ran) == {"it"}


# Refusals


def test_a_planted_library_is_refused(here: Path, ran: Path, tmp_path: Path) -> None:
    path = build_library(here, "it")
    here.chmod(0o777)
    assert refusal(path, ran) == f"is refused: others may write to {here}"
    here.chmod(0o755)
    path.chmod(0o4755)
    assert "setuid" in refusal(path, ran)
    path.chmod(0o644)
    os.mkfifo(here / "pipe")
    assert refusal(here / "pipe", ran) == "is not a regular file"
    assert refusal(Path("libit.so"), ran) == "is not an absolute path"


@needs_root
def test_a_strangers_library_is_refused(here: Path, ran: Path, tmp_path: Path) -> None:
    path = build_library(here, "it")
    link = tmp_path / "libit.so"
    link.symlink_to(path)
    os.lchown(link, STRANGER, -1)
    assert refusal(link, ran) == f"is refused: {link} belongs to user {STRANGER}"
    os.chown(path, STRANGER, -1)
    assert refusal(path, ran) == f"is refused: {path} belongs to user {STRANGER}"


def test_a_planted_dependency_is_refused(here: Path, ran: Path) -> None:
    near = build_library(here / "near", "near", entries=False)
    path = build_library(here, "it", needs=[near], flags=["-Wl,-rpath,$ORIGIN/near"])
    near.parent.chmod(0o777)
    text = refusal(path, ran)
    assert text == f"is refused: it needs libnear.so, and {near}: is refused: others may write to {near.parent}"


@needs_root
def test_a_strangers_dependency_is_refused_however_deep(here: Path, ran: Path) -> None:
    far = build_library(here / "far", "far", entries=False)
    near = build_library(here, "near", needs=[far], entries=False, flags=["-Wl,-rpath,$ORIGIN/far"])
    path = build_library(here, "it", needs=[near], flags=[ORIGIN])
    os.chown(far, STRANGER, -1)
    assert f"{near}: is refused: it needs libfar.so, and {far}: is refused: {far} belongs to" in refusal(path, ran)


@pytest.mark.parametrize("folders", [".", "", "near", "./near", "::near:", "$LIB/near", "$ORIGINAL", "../here/near"])
@pytest.mark.quick(".", "", "near", "./near", "::near:", "$ORIGINAL", "../here/near")
def test_folders_that_depend_on_the_current_one_are_not_searched(
    here: Path, ran: Path, folders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    near = build_library(here / "near", "near", entries=False)
    build_library(here, "near", entries=False)
    flags = [] if not folders else [f"-Wl,-rpath,{folders}"]
    path = build_library(here / "it", "it", needs=[near], flags=flags)
    monkeypatch.chdir(here)
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{here}/near")
    text = refusal(path, ran)
    assert "it needs libnear.so, which is in none of its folders and the system's" in text
    assert ("relative to the current one" in text) == bool(folders)


@pytest.mark.parametrize("soname", [None, "libelse.so"])
def test_a_need_that_calls_itself_otherwise_is_refused(here: Path, ran: Path, soname: str | None) -> None:
    # The loader would not recognise the loaded library, and would search for it.
    near = build_library(here, "near", entries=False)
    path = build_library(here, "it", needs=[near], flags=[ORIGIN])
    build_library(here, "near", entries=False, soname=soname)
    assert f"it needs libnear.so, and {near} calls itself {soname or 'nothing'}" in refusal(path, ran)


def test_libraries_that_need_each_other_are_refused(here: Path, ran: Path) -> None:
    # One would be loaded before the library that it needs is there.
    near = build_library(here, "near", entries=False)
    it = build_library(here, "it", needs=[near], flags=[ORIGIN])
    build_library(here, "near", needs=[it], flags=[ORIGIN], entries=False)
    assert f"{near}: is refused: it and libit.so need each other" in refusal(it, ran)


def test_a_library_that_needs_itself_is_loaded(here: Path, ran: Path) -> None:
    it = build_library(here, "it")
    build_library(here, "it", needs=[it])
    with open_library(str(it)) as opened:
        assert loaded(opened, ran)["new"] == ["/memfd:libit.so (deleted)"]


@pytest.mark.parametrize(
    "flag", ["-Wl,-f,libnear.so", "-Wl,-F,libnear.so", "-Wl,--audit,libnear.so", "-Wl,--depaudit,libnear.so"]
)
def test_what_has_other_libraries_loaded_in_its_place_is_refused(here: Path, ran: Path, flag: str) -> None:
    path = build_library(here, "it", flags=[flag])
    assert "it has other libraries loaded in its place" in refusal(path, ran)


@pytest.mark.parametrize("soname", ["$ORIGIN/libnear.so", "/tmp/libnear.so", "./libnear.so", "lib\tnear.so"])
def test_what_is_needed_by_more_than_a_name_is_refused(here: Path, ran: Path, soname: str) -> None:
    near = build_library(here, "near", entries=False, soname=soname)
    path = build_library(here, "it", needs=[near], flags=[ORIGIN])
    assert "it needs a library by what is not a plain name" in refusal(path, ran)


def test_what_needs_too_much_is_refused(here: Path, ran: Path) -> None:
    whole = build_library(here, "n000", entries=False).read_bytes()
    flags = [ORIGIN, f"-L{here}"]
    for number in range(1, MAX_LIBRARIES + 2):
        path = here / f"libn{number:03}.so"
        path.write_bytes(whole.replace(b"libn000.so", path.name.encode()))
        flags.append(f"-l:{path.name}")
    path = build_library(here, "it", flags=flags)
    assert refusal(path, ran) == f"is refused: it needs more than {MAX_LIBRARIES} libraries"


def test_what_is_no_library_for_debuggers_is_refused(here: Path, ran: Path) -> None:
    path = build_library(here, "it", entries=False)
    assert refusal(path, ran).startswith("is no library for debuggers: it has none of ompd_initialize, DMPL_initialize")
    # A reference to such a function is not a definition.
    (here / "refers.c").write_text("int ompd_initialize(); int of() { return ompd_initialize(); }")
    path = build_library(here, "it", entries=False, flags=[str(here / "refers.c")])
    assert "is no library for debuggers" in refusal(path, ran)


def test_programs_and_objects_are_refused(here: Path, ran: Path) -> None:
    path = build_library(here, "it", flags=["-c"])
    assert refusal(path, ran) == "is refused: not a shared library"
    assert refusal(os.path.realpath(sys.executable), ran).startswith("is refused: ")


def patched(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


_ORDERS = {"little": 1, "big": 2}


@pytest.mark.parametrize("offset, data", [(18, b"\xf3\x7f"), (5, bytes([3 - _ORDERS[sys.byteorder]])), (4, b"\x01")])
def test_libraries_of_other_machines_are_refused(here: Path, ran: Path, offset: int, data: bytes) -> None:
    path = build_library(here, "it")
    patched(path, offset, data)
    assert refusal(path, ran).startswith("is ")


def test_a_library_of_32_bits_is_one_for_the_other_worker(here: Path, ran: Path) -> None:
    path = narrow_library(here, "it")
    with open_library(str(path)) as opened:
        assert (opened.bits, opened.worker) == (32, "c32") and NARROW


def test_damaged_libraries_are_refused_or_taken_and_nothing_else(here: Path, ran: Path) -> None:
    near = build_library(here, "near", entries=False)
    whole = build_library(here, "it", needs=[near], flags=[ORIGIN]).read_bytes()
    path = here / "libcut.so"
    for size in (1, 15, 16, 63, 64, *range(100, len(whole), 701)):
        path.write_bytes(whole[:size])
        refusal(path, ran)
    for offset in range(0, 0x400, 8):
        for value in (b"\xff\xff\xff\xff", b"\0\0\0\0"):
            path.write_bytes(whole[:offset] + value + whole[offset + 4 :])
            try:
                open_library(str(path)).close()
            except BadFile as error:
                assert "\n" not in str(error)
    assert have_run(ran) == set()


def test_a_huge_one_is_not_read(here: Path, ran: Path) -> None:
    path = build_library(here, "it")
    os.truncate(path, 60 << 20)
    assert refusal(path, ran) == "is refused: it is almost nothing but holes"
    os.truncate(path, 1 << 40)
    assert "no such file has more than" in refusal(path, ran)


# Libraries that a runtime names


def named(names: list[str], runtime: Path | str, **options: object) -> Opened:
    return open_named(names, str(runtime), system=NO_SYSTEM, **options)  # type: ignore[arg-type]


def test_a_bare_name_is_looked_for_beside_the_runtime(here: Path, ran: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = build_library(here, "ompd")
    elsewhere = build_library(here / "elsewhere", "ompd").parent
    monkeypatch.chdir(elsewhere)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(elsewhere))
    with named(["libompd.so"], here / "libomp.so") as opened:
        assert opened.name == str(path) and opened.passed_over == ()
    path.unlink()
    for runtime in (here / "libomp.so", "libomp.so", ""):
        with pytest.raises(BadFile, match=r"libompd\.so: neither beside the runtime nor in a folder of the system"):
            named(["libompd.so"], runtime)
    assert have_run(ran) == set()


def test_the_first_suitable_one_is_taken(here: Path, ran: Path) -> None:
    path = build_library(here / "good", "ompd")
    planted = build_library(here / "planted", "ompd")
    planted.parent.chmod(0o777)
    build_library(here, "none", entries=False)
    names = [
        "",
        "./libompd.so",
        str(planted),
        f"{here}/nothing.so",
        "libnone.so",
        str(path),
        "libompd.so",
    ]
    with named(names, here / "libomp.so") as opened:
        assert opened.name == str(path)
        assert opened.passed_over == (
            "an empty name",
            f"{here}/./libompd.so: no such file",
            f"{planted}: is refused: others may write to {planted.parent}",
            f"{here}/nothing.so: no such file",
            f"{here}/libnone.so: is no library for debuggers: it has none of ompd_initialize, DMPL_initialize,"
            " DMPL_initialise",
        )
    with pytest.raises(BadFile) as raised:
        named(names[:5], here / "libomp.so")
    assert str(raised.value).startswith(
        f"{here}/libomp.so: names no library for debuggers that can be loaded: an empty"
    )
    with pytest.raises(BadFile, match="ompd_dll_locations names none"):
        named([], here / "libomp.so")
    assert have_run(ran) == set()


def test_a_relative_name_begins_in_the_folder_of_the_runtime(
    here: Path, ran: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside, below = build_library(here, "ompd"), build_library(here / "below", "ompd")
    planted = build_library(here / "planted", "ompd")
    planted.parent.chmod(0o777)
    monkeypatch.chdir(build_library(here / "elsewhere" / "below", "ompd").parents[1])
    for name, path in (("./libompd.so", beside), ("below/libompd.so", below), ("below/../libompd.so", beside)):
        with named([name], here / "libomp.so") as opened:
            assert opened.name == f"{here}/{name}" and Path(opened.name).samefile(path)
    with pytest.raises(BadFile, match=f"others may write to {planted.parent}"):
        named(["planted/libompd.so"], here / "libomp.so")
    with pytest.raises(BadFile, match=r"'below/libompd\.so': a relative path, and the folder of the runtime"):
        named(["below/libompd.so"], "libomp.so")
    assert have_run(ran) == set()


class Below:
    """Finds the target's files below a folder of this machine."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def resolve(self, path: str) -> str:
        """Return the path below the folder."""
        return f"{self._folder}{path}"


class Endless(Below):
    """Finds no file."""

    def resolve(self, path: str) -> str:
        """Raise :exc:`BadFile`."""
        raise BadFile(path, "its links do not end")


def test_names_of_the_target_are_those_of_its_files(here: Path, ran: Path) -> None:
    root = here / "root"
    path = build_library(root / "opt", "ompd")
    with named(["/opt/libompd.so"], "/opt/libomp.so", finder=Below(f"{root}")) as opened:
        assert opened.name == str(path)
    with named(["libompd.so"], "/opt/libomp.so", finder=Below(f"{root}")) as opened:
        assert opened.name == str(path)
    with pytest.raises(BadFile, match="as into a container"):
        named(["/opt/libompd.so"], "/opt/libomp.so", finder=Below(f"/proc/{os.getpid()}/root{root}"))
    with pytest.raises(BadFile, match=r"/opt/libompd\.so: no such file"):
        named(["/opt/libompd.so"], "/opt/libomp.so", finder=Endless(""))


def test_a_library_for_this_program_comes_before_one_of_32_bits(here: Path, ran: Path) -> None:
    narrow = narrow_library(here, "ompd32")
    path = build_library(here, "ompd")
    names = [narrow.name, path.name]
    with named(names, here / "libomp.so") as opened:
        assert (opened.name, opened.worker) == (str(path), "python")
    with named(names[:1], here / "libomp.so") as opened:
        assert (opened.name, opened.worker) == (str(narrow), "c32")


def test_a_vector_without_end_is_not_followed(here: Path, ran: Path) -> None:
    with pytest.raises(BadFile) as raised:
        named(["libompd.so"] * (1 << 16), here / "libomp.so")
    assert len(str(raised.value)) < 10_000


def test_a_library_of_ompd_comes_before_one_of_dmpl(here: Path, ran: Path) -> None:
    dmpl = build_library(here, "dmpl", entries=False, flags=["-Wl,--defsym,DMPL_initialise=dmpl"])
    ompd = build_library(here, "ompd")
    with named(["libdmpl.so", "libompd.so"], here / "libomp.so") as opened:
        assert (opened.name, opened.passed_over) == (str(ompd), ())
    with named(["libnone.so", "libdmpl.so"], here / "libomp.so") as opened:
        assert opened.name == str(dmpl) and len(opened.passed_over) == 1
    assert have_run(ran) == set()


# The system's libraries


def cache_of(entries: list[tuple[str, str, int]], *, old: bool = False) -> bytes:
    # dl-cache.h: struct cache_file_new, behind the older header if *old*.
    strings, offsets = b"", []
    at = 48 + 24 * len(entries)
    for name, path, _ in entries:
        offsets.append((at + len(strings), at + len(strings) + len(name) + 1))
        strings += f"{name}\0{path}\0".encode()
    data = struct.pack("=20sIIB3xI12x", b"glibc-ld.so.cache1.1", len(entries), len(strings), 2, 0)
    for (_, _, capabilities), (name_at, path_at) in zip(entries, offsets, strict=True):
        data += struct.pack("=iIIIQ", 0x303, name_at, path_at, 0, capabilities)
    return (b"ld.so-1.7.0\0" + bytes(4) if old else b"") + data + strings


@pytest.mark.parametrize("old", [False, True])
def test_the_systems_libraries_are_those_of_its_cache(here: Path, old: bool) -> None:
    path = here / "cache"
    entries = [("liba.so", "/x/v3/liba.so", 1 << 62), ("liba.so", "/x/liba.so", 0), ("libb.so", "relative/libb.so", 0)]
    path.write_bytes(cache_of([*entries, ("libxa.so", "/y/libxa.so", 0), ("liba.so", "/y/liba.so", 0)], old=old))
    system = SystemFolders(str(path))
    assert list(system.places("liba.so", 64))[:2] == ["/x/liba.so", "/y/liba.so"]
    assert list(system.places("libb.so", 64)) == [
        f"{folder}/libb.so" for folder in ("/lib64", "/usr/lib64", "/lib", "/usr/lib")
    ]
    assert next(system.places("libxa.so", 32)) == "/y/libxa.so"


def test_a_cache_of_somebody_else_or_without_sense_is_not_used(here: Path) -> None:
    path = here / "cache"
    whole = cache_of([("liba.so", "/x/liba.so", 0)])
    path.write_bytes(whole)
    path.chmod(0o666)
    assert "/x/liba.so" not in list(SystemFolders(str(path)).places("liba.so", 64))
    path.chmod(0o644)
    assert "/x/liba.so" in list(SystemFolders(str(path)).places("liba.so", 64))
    for size in range(1, len(whole)):
        path.write_bytes(whole[:size])
        assert all(place.startswith("/") for place in SystemFolders(str(path)).places("liba.so", 64))
    path.write_bytes(whole[:20] + b"\xff\xff\xff\xff" + whole[24:])
    assert "/x/liba.so" not in list(SystemFolders(str(path)).places("liba.so", 64))


def test_this_systems_cache_is_read() -> None:
    found = list(SystemFolders().places("libc.so.6", 64))
    if not Path("/etc/ld.so.cache").exists():
        pytest.skip("this system has no /etc/ld.so.cache")
    assert len(found) > 4 and any(Path(path).exists() for path in found)
