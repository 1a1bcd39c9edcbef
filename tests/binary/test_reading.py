"""Files that a stranger may have named or made, or may change while they are read."""

from __future__ import annotations

import gzip
import json
import os
import random
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partialmethod
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import pytest
from click.testing import CliRunner

import ompd.safety.reading
from ompd.binary.dwarf import index as dwarf_index
from ompd.binary.dwarf import sections as dwarf_sections
from ompd.binary.elf.elf import ElfFile
from ompd.commands.main import cli
from ompd.commands.table import COMMANDS
from ompd.debugger.files.coredumps import Coredump
from ompd.debugger.files.dll_files import unsuitable
from ompd.debugger.files.finder import FileFinder, FileOptions
from ompd.debugger.targets.lldb import install as lldb_install
from ompd.errors import BadFile, MalformedFile
from ompd.inspection import Inspection
from ompd.safety.reading import checksum, open_paged, open_regular
from ompd.session import Session
from tests.support import clean_environment, stopped
from tests.support.cache import CHECKOUT
from tests.support.runtimes import INTEL

STRANGER = 54321
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away, and make devices")


@contextmanager
def opens() -> Iterator[list[tuple[str, int]]]:
    """Yield a list to which each ``os.open`` meanwhile appends its path and flags."""
    found: list[tuple[str, int]] = []
    usual = os.open

    def noting(path: Any, flags: int, *arguments: Any, **named: Any) -> int:
        found.append((str(path), flags))
        return usual(path, flags, *arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", noting)
        yield found


def strange_files(folder: Path) -> dict[str, str]:
    """Return the names of files that are not regular, each with the words of its refusal."""
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(folder / "socket"))
    (folder / "link").symlink_to("pipe")
    strange = {str(folder / name): "is not a regular file" for name in ("pipe", "socket", "link")}
    strange |= dict.fromkeys(("/dev/null", "/dev/ptmx", "/dev/zero", "/sys/kernel/mm/ksm/run"), "is not a regular file")
    strange |= {str(folder): "is a directory", "/proc/kmsg": "is empty", "/proc/self/status": "is empty"}
    if os.geteuid() == 0:
        os.mknod(folder / "watchdog", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        strange[str(folder / "watchdog")] = "is not a regular file"
    return {name: words for name, words in strange.items() if os.path.lexists(name)}


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    for path, words in strange_files(tmp_path).items():
        with opens() as found, pytest.raises(BadFile, match=words):
            open_paged(path)
        assert [(name, bool(flags & os.O_PATH)) for name, flags in found] == [(path, True)]
    regular = tmp_path / "regular"
    regular.write_bytes(b"some")
    with opens() as found:
        open_paged(str(regular)).close()
    assert found[0] == (str(regular), os.O_PATH | os.O_CLOEXEC)
    assert found[1][0].startswith("/proc/self/fd/") and found[1][1] & os.O_NOCTTY and len(found) == 2


def test_what_takes_the_place_of_a_file_meanwhile_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"some")
    usual = os.fstat

    def replacing(descriptor: int) -> os.stat_result:
        if path.is_file():
            path.unlink()
            os.mkfifo(path)
        return usual(descriptor)

    monkeypatch.setattr(os, "fstat", replacing)
    descriptor, _ = open_regular(str(path))
    monkeypatch.undo()
    assert path.is_fifo() and os.read(descriptor, 9) == b"some"
    os.close(descriptor)


AUDITED = """
import os, sys
sys.argv[:] = ["ompd", *sys.argv[1:]]
def note(event, arguments):
    if event == "open" and isinstance(arguments[0], str):
        sys.stderr.write(f"OPEN {arguments[2] or 0} {arguments[0]}\\n")
from ompd.start import main
sys.addaudithook(note)
main()
"""


def test_a_core_that_names_devices_and_pipes(tmp_path: Path) -> None:
    core = stopped("hang")
    names = [name for name in strange_files(tmp_path) if not name.endswith(("status", "kmsg"))]
    data = core.core.read_bytes()
    with Inspection.open_core(core.core) as session:
        modules = [
            m.name for m in session.process.symbols.modules() if m.name.startswith("/") and "ld-linux" not in m.name
        ]
    told = dict(zip(modules, sorted(names, key=len), strict=False))
    assert len(told) > 2
    for module, name in told.items():
        # NT_FILE and the loader's list need a name of the same length, so pad it with slashes.
        if len(name) <= len(module):
            data = data.replace(module.encode() + b"\0", ("/" * (len(module) - len(name)) + name).encode() + b"\0")
    hostile = tmp_path / "core"
    hostile.write_bytes(data)
    for command in ("threads", "stack", "runtimes"):
        done = subprocess.run(
            [sys.executable, "-c", AUDITED, command, str(hostile), "--json"],
            capture_output=True,
            text=True,
            check=False,
            env=clean_environment(),
            cwd=CHECKOUT,
        )
        assert done.returncode in (0, 1, 3) and "Traceback" not in done.stderr
        opened = [line.split(" ", 2)[1:] for line in done.stderr.splitlines() if line.startswith("OPEN ")]
        looked = {path for flags, path in opened if int(flags) & os.O_PATH}
        read = {path.lstrip("/") for flags, path in opened if not int(flags) & os.O_PATH}
        assert {name.lstrip("/") for name in names} & {path.lstrip("/") for path in looked}
        assert not {name.lstrip("/") for name in names} & read


def test_a_library_for_debuggers_that_is_a_pipe(tmp_path: Path) -> None:
    for path, words in strange_files(tmp_path).items():
        with opens() as found:
            assert words in (unsuitable(path) or "")
        assert all(flags & os.O_PATH for name, flags in found if name == path)
    assert unsuitable(str(tmp_path / "none")) == "there is no such file here"


# Files that change while they are read


@pytest.fixture
def changing(tmp_path: Path) -> Path:
    path = tmp_path / "changing"
    path.write_bytes(random.Random(5).randbytes(300_000) + b"needle" + bytes(200_000))
    return path


def test_it_reads_as_bytes_do(changing: Path) -> None:
    data, rng = changing.read_bytes(), random.Random(7)
    with open_paged(str(changing)) as file:
        assert len(file) == len(data)
        edges: list[Any] = [0, 1, 4095, 4096, 4097, 65535, 65536, 65537, 131072, -1, -70000, None]
        edges += [len(data) - 1, len(data), len(data) + 5]
        for start, end in [*((a, b) for a in edges for b in edges), *((rng.randrange(506000), None) for _ in range(9))]:
            assert file[start:end] == data[start:end]
        for index in (0, -1, 65536, -len(data), len(data) - 1):
            assert file[index] == data[index]
        for index in (len(data), -len(data) - 1):
            with pytest.raises(IndexError):
                file[index]
        for wanted in (b"needle", b"n", data[65530:65540], data[131000:290000], b"nowhere", b"\0", bytes(200_000)):
            for start, end in ((0, None), (65533, None), (65534, 65540), (300_001, len(data)), (None, -3), (9, 9)):
                assert file.find(wanted, start, end) == data.find(wanted, start, end), (wanted[:9], start, end)
        assert bytes(file) == data and checksum(file) == crc32(data)
    assert file.closed
    with pytest.raises(ValueError, match="closed"):
        file[:5]


def test_it_keeps_little_and_closes_itself(changing: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    file = open_paged(str(changing))
    with pytest.raises(TypeError):
        memoryview(file)  # type: ignore[arg-type]
    for start in range(0, len(file), 100):
        file[start]
    assert sum(map(len, file._blocks.values())) <= 1 << 20
    del file
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_file_that_shrinks_is_said_to(changing: Path) -> None:
    with open_paged(str(changing)) as file:
        head = file[:10]
        os.truncate(changing, 1000)
        assert file[:10] == head  # these bytes were read before
        for read in (
            lambda: file[70_000:70_010],
            lambda: file[400_000],
            lambda: file.find(b"needle"),
            lambda: bytes(file),
        ):
            with pytest.raises(MalformedFile, match="changing: the file shrank while it was read"):
                read()
        with pytest.raises(MalformedFile, match="shrank"):
            checksum(file)
        assert file.has_changed()


@pytest.mark.parametrize("program", ["hang", "nested"])
@pytest.mark.quick("nested")
def test_answers_do_not_depend_on_how_sections_are_read(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    core = stopped(program, runtime="libgomp" if program == "nested" else INTEL)
    monkeypatch.setenv("OMPD_CACHE", "off")
    for command in COMMANDS:
        if command.ompd_library is not None:
            continue  # OMPD libraries do not serve libgomp
        words = [command.name, str(core.core), "--json", *(["truth_held"] if command.argument is not None else [])]
        whole = CliRunner().invoke(cli, words)
        for names in (("_SMALL",), ("_SMALL", "_MAX_COPIED")):  # first copy unit by unit, then copy nothing
            with monkeypatch.context() as patch:
                for name in names:
                    patch.setattr(dwarf_sections, name, 0)
                read = CliRunner().invoke(cli, words)
            assert (whole.exit_code, whole.stdout) == (read.exit_code, read.stdout), (command.name, names)
        assert whole.exit_code == 0 and json.loads(whole.stdout)[command.name]


def test_many_numbers_are_searched_for_across_pieces(changing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dwarf_index, "_PIECE", 4096)
    data = changing.read_bytes()
    places = [0, 3, 4090, 4093, 4094, 4095, 4096, 65533, 299_996]
    wanted = {int.from_bytes(data[at : at + 4], "little") for at in places}
    with open_paged(str(changing)) as file:
        sections: Any = SimpleNamespace(span=lambda _: (file, 0, len(file)), byte_order="little")
        assert dwarf_index._numbers_in(sections, ".debug_info", 4, wanted | {0x1234_5678}) == wanted
        sections.span = lambda _: (file, 1, 4095)
        found = dwarf_index._numbers_in(sections, ".debug_info", 4, wanted)
        assert found == {int.from_bytes(data[at : at + 4], "little") for at in (3, 4090)}


def copied_core(folder: Path) -> Path:
    copy = folder / "core"
    copy.write_bytes(stopped("hang").core.read_bytes())
    return copy


def test_no_file_of_a_target_is_mapped(tmp_path: Path) -> None:
    core = copied_core(tmp_path)
    with Inspection.open_core(core) as session:
        assert session.ask_threads().complete and session.ask_stacks(locals=True).complete
        maps = Path("/proc/self/maps").read_text()
        names = [
            module.name
            for module in session.process.symbols.modules()
            if "libiomp5" in module.name or module.is_program
        ]
        assert len(names) == 2
        assert [name for name in (str(core), *names) if name in maps] == []


@pytest.mark.parametrize("command", ["threads", "stack", "why"])
def test_a_core_that_is_cut_while_it_is_read(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    core = copied_core(tmp_path)
    size = core.stat().st_size
    usual, left = os.pread, 0

    def cutting(*arguments: int) -> bytes:
        nonlocal left
        left -= 1
        if left == 0:
            os.truncate(core, 4096)
        return usual(*arguments)

    monkeypatch.setattr(os, "pread", cutting)
    for left in (2, 5, 20, 30, 60, 100):
        core.write_bytes(stopped("hang").core.read_bytes())
        ran = CliRunner().invoke(cli, [command, str(core)])
        assert left <= 0 and ran.exit_code in (1, 3)
        assert f"{core}: the file changed while it was read" in ran.stderr or (
            ran.exit_code == 1 and "the file shrank while it was read" in ran.stderr
        )
    assert core.stat().st_size == 4096 < size


def test_a_core_that_is_written_to_while_it_is_read(tmp_path: Path) -> None:
    core = copied_core(tmp_path)
    with Inspection.open_core(core) as session:
        assert session.ask_threads().complete
        with core.open("r+b") as file:
            file.seek(0, os.SEEK_END)
            file.write(b"more")
        text = f"{core}: the file changed while it was read"
        for answer in (session.ask_threads(), session.ask_why(), session.ask_runtimes()):
            assert not answer.complete and answer.warnings[0] == text and answer.rows
        assert text in session.snapshot(tmp_path / "small").problems


def test_a_program_that_is_written_to_while_it_is_read(tmp_path: Path) -> None:
    program = stopped("hang").executable
    copy = tmp_path / "program"
    copy.write_bytes(program.read_bytes())
    with Inspection.open_core(stopped("hang").core, FileOptions(exe=copy)) as session:
        assert session.ask_stacks().complete
        os.utime(copy, ns=(1, 1))
        assert session.ask_stacks().warnings[0] == f"{copy}: the file changed while it was read"


def test_a_compressed_core_that_is_written_to_while_it_is_unpacked(tmp_path: Path) -> None:
    packed = tmp_path / "core.gz"
    packed.write_bytes(gzip.compress(stopped("hang").core.read_bytes(), 1))
    files = FileOptions(progress=lambda _: os.utime(packed, ns=(1, 1)))
    with Session.open_core(packed, files) as session:
        assert session.fault == "the file changed while it was unpacked"


# Sparse files


def test_no_checksum_of_holes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sparse = tmp_path / "sparse.debug"
    sparse.write_bytes(Path(sys.executable).resolve().read_bytes()[:4096])
    os.truncate(sparse, 60 << 30)
    read: list[int] = []
    monkeypatch.setattr(ompd.safety.reading, "crc32", lambda data, before: read.append(len(data)) or 0)
    with open_paged(str(sparse)) as file:
        assert checksum(file) is None and not read
    os.truncate(sparse, 5 << 20)
    with open_paged(str(sparse)) as file:
        assert checksum(file) == 0 and sum(read) == len(file) and max(read) <= 1 << 20


def test_a_debug_link_to_holes_is_passed_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "program"
    program.write_bytes(Path(sys.executable).resolve().read_bytes())
    sparse = tmp_path / "holes.debug"
    sparse.write_bytes(program.read_bytes()[:4096])
    os.truncate(sparse, 60 << 30)
    monkeypatch.setattr(ElfFile, "debuglink", lambda self: ("holes.debug", 1))
    monkeypatch.setattr(ElfFile, "build_id", lambda self: None)
    pieces: list[int] = []
    monkeypatch.setattr(ompd.safety.reading, "crc32", lambda data, before: pieces.append(len(data)) or 0)
    with open_paged(str(program)) as file:
        assert FileFinder().debug_file(ElfFile(file, str(program)), str(program), str(program)) is None
    assert not pieces


def test_a_compressed_core_of_holes_is_refused(tmp_path: Path) -> None:
    packed = tmp_path / "core.gz"
    packed.write_bytes(gzip.compress(stopped("hang").core.read_bytes()[:4096]))
    os.truncate(packed, 60 << 30)  # zeros after a member are padding, which is skipped
    with pytest.raises(BadFile, match=r"has 60 GB, almost all of it holes"):
        Inspection.open_core(packed)


# Programs of strangers


def test_no_program_in_a_strangers_folder_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marker = tmp_path / "marker"
    folders = {name: tmp_path / name for name in ("here", "below", "open", "own")}
    for folder in folders.values():
        folder.mkdir()
        for name in ("lldb", "lldb-99", "coredumpctl"):
            (folder / name).write_text(f"#!/bin/sh\necho {folder.name} >> {marker}\n")
            (folder / name).chmod(0o755)
    folders["open"].chmod(0o777)
    folders["below"].rename(folders["here"] / "below")
    monkeypatch.chdir(folders["here"])
    monkeypatch.delenv("OMPD_LLDB", raising=False)
    monkeypatch.setenv("PATH", f":.:below::{folders['open']}")
    monkeypatch.setattr(lldb_install.Path, "glob", partialmethod(own_glob, usual=Path.glob))
    assert not list(lldb_install.find_installs())
    monkeypatch.setenv("PATH", ":.:below:")
    with pytest.raises(BadFile, match="coredumpctl is not installed on this machine"):
        Coredump("", "coredumpctl:")
    assert not marker.exists()
    too_long = f"/{'x' * 300}"
    monkeypatch.setenv("PATH", f":{too_long}:{folders['own']}")
    assert not list(lldb_install.find_installs())  # the program is run, and is no LLDB
    assert Coredump("", "coredumpctl:").stored_file() is None
    assert set(marker.read_text().split()) == {"own"}


def own_glob(folder: Path, pattern: str, usual: Any) -> Any:
    """Find nothing in /usr/lib."""
    return usual(folder, pattern) if str(folder) != "/usr/lib" else ()
