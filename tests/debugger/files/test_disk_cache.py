"""The cache on disk: an entry answers only for its own file, and a changed entry or folder does no harm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from ompd.binary.dwarf.lines import Function, LineInfo
from ompd.binary.elf.elf import ElfFile
from ompd.binary.elf.symbols import SymbolTable
from ompd.contract.memory import Field, StructLayout
from ompd.debugger.files import cache as disk_cache
from ompd.debugger.files.cache import DiskCache
from ompd.debugger.files.finder import FileFinder
from ompd.debugger.modules.kept_layouts import KeptLayouts
from ompd.debugger.modules.kept_places import KeptPlaces
from ompd.inspection import Inspection
from ompd.model import TaskRecord
from ompd.safety.reading import open_paged
from tests.support import clean_environment, stopped
from tests.support.debug_programs import built
from tests.support.disk_cache import kept_of, settled
from tests.support.samples import libc


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "ompd"


@pytest.fixture
def cache(folder: Path) -> DiskCache:
    return DiskCache(str(folder))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"contents")
    return path


def entries(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir())


def test_what_was_kept_is_found_again(cache: DiskCache, folder: Path, file: Path) -> None:
    kept = kept_of(cache, file)
    assert kept.get("rows") is None
    kept.put("rows", b"one")
    kept.put("rows", b"two")
    kept.put("others", b"")
    assert (kept_of(cache, file).get("rows"), kept.get("others"), kept.get("row")) == (b"two", b"", None)
    assert len(entries(folder)) == 2
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in entries(folder)} == {0o600}


def test_another_file_of_the_same_name_has_nothing(cache: DiskCache, file: Path) -> None:
    kept_of(cache, file).put("rows", b"of the first")
    other = file.with_name("other")
    other.write_bytes(b"contents")
    other.replace(file)
    assert kept_of(cache, file).get("rows") is None
    kept_of(cache, file).put("rows", b"of the second")
    with file.open("r+b") as opened:  # written in place
        opened.write(b"CONTENTS")
    os.utime(file, ns=(1, 1))
    assert kept_of(cache, file).get("rows") is None


def test_of_a_file_written_just_now_nothing_is_kept(cache: DiskCache, folder: Path, file: Path) -> None:
    kept = cache.of(open_paged(str(file)))
    assert kept is not None
    kept.put("rows", b"one")
    assert not folder.exists()
    assert cache.of(b"no file") is None


def test_every_damaged_byte_is_noticed(cache: DiskCache, folder: Path, file: Path) -> None:
    kept = kept_of(cache, file)
    kept.put("rows", bytes(range(64)))
    (path,) = entries(folder)
    good = path.read_bytes()
    for at in range(len(good)):
        for change in (1, 0x80, 0xFF):
            path.write_bytes(good[:at] + bytes([good[at] ^ change]) + good[at + 1 :])
            assert kept.get("rows") is None, at
    for size in range(len(good)):
        path.write_bytes(good[:size])
        assert kept.get("rows") is None, size
    path.write_bytes(good + b"\0")
    assert kept.get("rows") is None
    path.write_bytes(good)
    assert kept.get("rows") == bytes(range(64))
    path.write_bytes(b"")
    kept.put("rows", b"again")
    assert kept.get("rows") == b"again"


def test_an_entry_is_of_what_it_says(cache: DiskCache, folder: Path, file: Path) -> None:
    kept = kept_of(cache, file)
    kept.put("rows", b"rows")
    (path,) = entries(folder)
    path.rename(path.with_name(path.name.replace("-rows", "-others")))
    assert kept.get("others") is None


def test_entries_that_others_could_write_are_not_read(cache: DiskCache, folder: Path, file: Path) -> None:
    kept = kept_of(cache, file)
    kept.put("rows", b"rows")
    (path,) = entries(folder)
    for mode in (0o620, 0o602, 0o666):
        path.chmod(mode)
        assert kept.get("rows") is None
    path.chmod(0o644)
    assert kept.get("rows") == b"rows"
    for mode in (0o777, 0o770, 0o703):
        folder.chmod(mode)
        assert kept.get("rows") is None
        kept.put("others", b"others")
        assert entries(folder) == [path]
    folder.chmod(0o700)
    target = path.with_name("target")
    path.rename(target)
    path.symlink_to(target)
    assert kept.get("rows") is None
    path.unlink()
    os.mkfifo(path)
    assert kept.get("rows") is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_entries_of_others_are_not_read(cache: DiskCache, folder: Path, file: Path) -> None:
    kept = kept_of(cache, file)
    kept.put("rows", b"rows")
    (path,) = entries(folder)
    os.chown(path, 12345, -1)
    assert kept.get("rows") is None
    kept.put("rows", b"ours")  # the folder is our own, so that the entry is replaced
    assert kept.get("rows") == b"ours"
    os.chown(folder, 12345, -1)
    assert kept.get("rows") is None


def test_a_folder_that_cannot_be_written_is_as_if_there_was_none(tmp_path: Path, file: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    for folder in (tmp_path / "taken", tmp_path / "taken" / "ompd", Path("/proc/nowhere/ompd"), Path("/dev/null")):
        kept = kept_of(DiskCache(str(folder)), file)
        kept.put("rows", b"rows")
        assert kept.get("rows") is None


def test_it_may_be_deleted_at_any_time(
    cache: DiskCache, folder: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = kept_of(cache, file)
    kept.put("rows", b"rows")
    rename = os.rename

    def delete_first(source: str, target: str, **folders: int) -> None:
        for path in entries(folder):
            path.unlink()
        folder.rmdir()
        rename(source, target, **folders)

    monkeypatch.setattr(disk_cache.os, "rename", delete_first)
    kept.put("rows", b"more")
    monkeypatch.undo()
    assert kept.get("rows") is None
    kept.put("rows", b"again")
    assert kept.get("rows") == b"again"


def test_a_full_disk_leaves_what_was_there(cache: DiskCache, folder: Path, file: Path) -> None:
    kept = kept_of(cache, file)
    kept.put("rows", b"rows")
    program = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from ompd.debugger.files.cache import DiskCache\nfrom tests.support.disk_cache import kept_of\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "kept_of(DiskCache(sys.argv[1]), Path(sys.argv[2])).put('rows', bytes(1000))"
    )
    subprocess.run([sys.executable, "-c", program, folder, file], env=clean_environment(), check=True)
    assert kept.get("rows") == b"rows"
    assert len(entries(folder)) == 1


def test_it_does_not_grow_for_ever(cache: DiskCache, folder: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "_MAX_ENTRIES", 20)
    kept = kept_of(cache, file)
    for number in range(50):
        kept.put(f"rows{number}", b"rows")
        os.utime(entries(folder)[-1], (number, number))
        assert len(entries(folder)) <= 20
    monkeypatch.setattr(disk_cache, "_MAX_TOTAL", 10_000)
    for number in range(50):
        kept.put(f"large{number}", bytes(1000))
        assert sum(path.stat().st_size for path in entries(folder)) <= 10_000
    assert kept.get("large49") is not None
    kept.put("huge", bytes(1 << 25))
    assert kept.get("huge") is None


def test_two_writers_leave_a_whole_entry(folder: Path, file: Path) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from ompd.debugger.files.cache import DiskCache\nfrom tests.support.disk_cache import kept_of\n"
        "kept = kept_of(DiskCache(sys.argv[1]), Path(sys.argv[2])); mark = sys.argv[3].encode()\n"
        "for number in range(300):\n"
        "    kept.put('rows', mark * (1000 + number))\n"
        "    found = kept.get('rows'); assert found is not None and len(set(found)) == 1 and len(found) >= 1000, found"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", program, folder, file, mark], env=clean_environment()) for mark in "ab"
    ]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0]
    assert len(entries(folder)) == 1


def test_the_environment_says_where_it_is(tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def where() -> list[str]:
        kept = DiskCache.of_user().of(settled(file))
        if kept is not None:
            kept.put("rows", b"rows")
        return sorted(str(path.parent.relative_to(tmp_path)) for path in tmp_path.rglob("*-rows"))

    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("OMPD_CACHE", "off")
    assert where() == []
    monkeypatch.delenv("OMPD_CACHE")
    assert where() == ["home/.cache/ompd"]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert where() == ["home/.cache/ompd", "xdg/ompd"]
    for nowhere in ("relative", ""):
        monkeypatch.setenv("XDG_CACHE_HOME", nowhere)
        monkeypatch.setenv("HOME", "")
        assert len(where()) == 2
    assert not Path("relative").exists()


# Contents of entries


def told(path: Path, cache: DiskCache) -> tuple[KeptPlaces, LineInfo]:
    data = settled(path)
    lines = LineInfo(ElfFile(data, str(path)), FileFinder().companions(str(path), str(path)))
    return KeptPlaces(lines, cache.of(data)), lines


def addresses(path: Path) -> Iterator[int]:
    section = ElfFile(path.read_bytes(), "file").section(".text")
    assert section is not None
    yield from range(section.sh_addr - 32, section.sh_addr + section.sh_size, 7)


def answers(places: KeptPlaces | LineInfo, path: Path) -> list[tuple[object, object, list[Function]]]:
    return [(places.locate(a), places.locate(a, entry=True), list(places.functions(a))) for a in addresses(path)]


def test_places_are_told_again_without_the_debug_information(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    path = built("c++", "-O2")
    first, lines = told(path, cache)
    expected = answers(lines, path)
    assert answers(first, path) == expected
    first.save()
    second, _ = told(path, cache)
    for name in ("locate", "functions"):
        monkeypatch.setattr(LineInfo, name, None)  # a call would fail
    assert answers(second, path) == expected


def test_damaged_rows_are_asked_for_again(cache: DiskCache) -> None:
    path = built("c", "-O2")
    _, lines = told(path, cache)
    expected = answers(lines, path)
    kept = kept_of(cache, path)
    address = f"{next(iter(addresses(path))) + 70:x}"
    for rows in (
        *(b"", b"[]", b"{", b"null", b'"text"', b"\xff", b"[" * 100_000, b'{"line 1": 1}'),
        *(
            f'{{"line {address}": {row}}}'.encode()
            for row in ("1", '["file"]', "[1, 2]", '["file", "1"]', '["file", -1]')
        ),
        *(
            f'{{"functions {address}": {row}}}'.encode()
            for row in ("1", "[1]", '[["f", 1, null]]', '[["f", true, []]]', "{}")
        ),
    ):
        kept.put("places", rows)
        assert answers(told(path, cache)[0], path) == expected, rows[:60]


def test_what_a_missing_file_left_is_not_kept(cache: DiskCache, tmp_path: Path) -> None:
    program = built("c", "-O2", "-gdwarf-5", "-gsplit-dwarf", folder=tmp_path)
    away = tmp_path / "away"
    away.mkdir()
    for split in list(tmp_path.glob("*.dwo")):
        split.rename(away / split.name)
    places, _ = told(program, cache)
    assert not any(functions for _, _, functions in answers(places, program))
    places.save()
    for split in away.iterdir():
        split.rename(tmp_path / split.name)
    assert any(functions for _, _, functions in answers(told(program, cache)[0], program))


def test_symbols_are_found_by_what_was_kept(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ompd.binary.elf.symbols._MIN_KEPT", 10)
    path = libc()
    data = settled(path)
    elf = ElfFile(data, "libc")
    section = elf.section(".text")
    assert section is not None
    wanted = range(section.sh_addr, section.sh_addr + section.sh_size, 997)
    expected = [SymbolTable(elf).at(address) for address in wanted]
    assert sum(symbol is not None for symbol in expected) > 100
    for _ in range(2):
        table = SymbolTable(ElfFile(data, "libc"), kept=lambda elf: cache.of(data))
        assert [table.at(address) for address in wanted] == expected
    kept = cache.of(data)
    assert kept is not None
    raw = kept.get("symbols.dynsym")
    assert raw is not None
    mark = sys.byteorder.encode()
    rows = (len(raw) - len(mark)) // 12
    indexes = len(mark) + 8 * rows
    for damaged in (b"", mark, raw[:-1], raw + b"\0" * 12, raw[:indexes] + b"\xff" * 4 * rows, mark + bytes(12 * rows)):
        kept.put("symbols.dynsym", damaged)
        table = SymbolTable(ElfFile(data, "libc"), kept=lambda elf: cache.of(data))
        assert [table.at(address) for address in wanted] == expected


def test_a_moment_passes_before_a_file_is_trusted(file: Path) -> None:
    identity = open_paged(str(file)).identity
    status = file.stat()
    assert identity == (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    assert abs(time.time_ns() - identity[-1]) < 60 * 10**9


def test_layouts_are_told_again_without_the_debug_information(cache: DiskCache) -> None:
    path = built("c", "-O2")
    told = KeptLayouts(kept_of(cache, path))
    members = ("first", "flag", "inner.second", "absent")
    layout = StructLayout("pair", 16, {"first": Field(0, 8), "inner.second": Field(12, 4)}, "dwarf", {"flag": 1 << 70})
    assert told.get("pair", members) is None
    told.put(members, layout)
    told.save()
    again = KeptLayouts(kept_of(cache, path))
    assert again.get("pair", members) == layout
    assert again.get("pair", members[:1]) is None and again.get("other", members) is None


@pytest.mark.parametrize(
    "row",
    [
        *(None, 7, [], [16], [16, {}], {"size": 16}, "16"),
        *([-1, {}, {}], [True, {}, {}], [16.0, {}, {}], [1 << 60, {}, {}], ["16", {}, {}]),
        *([16, [], {}], [16, {"first": 0}, {}], [16, {"first": [0]}, {}], [16, {"first": [0, "8"]}, {}]),
        *([16, {"first": [-8, 8]}, {}], [16, {"first": [True, 8]}, {}], [16, {"more": [0, 8]}, {}]),
        *([16, {}, {"flag": 0}], [16, {}, {"flag": "1"}], [16, {}, {"flag": [1]}], [16, {}, {"other": 1}]),
    ],
)
def test_what_is_no_layout_is_asked_for_again(cache: DiskCache, row: object) -> None:
    kept = kept_of(cache, built("c", "-O2"))
    good, members = [16, {"first": [0, 8]}, {"flag": 1}], ("first", "flag")
    for written in (good, row):
        kept.put("layouts-1", json.dumps({"pair\nfirst\nflag": written}).encode())
        assert (KeptLayouts(kept).get("pair", members) is not None) == (written is good)
    kept.put("layouts-1", b"[" * 100_000)
    assert KeptLayouts(kept).get("pair", members) is None


def test_a_runtimes_layouts_are_looked_up_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMPD_CACHE", "on")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder.parent))
    core = stopped("task_queued", mode="neither").core

    def asked() -> tuple[TaskRecord, ...]:
        with Inspection.open_core(core) as session:
            return session.ask_tasks().rows

    rows = asked()
    assert any(row.status == "queued" for row in rows)

    def opened(*_: object) -> NoReturn:
        raise AssertionError("the debug information was searched again")

    monkeypatch.setattr("ompd.binary.types.types.TypeInfo.find", opened)
    assert asked() == rows
