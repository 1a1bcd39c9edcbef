"""The choice of the table of layouts for a runtime, and files in the user's folder that are no tables."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ompd
from ompd.debugger.emulation.decode import Decoder
from ompd.questions import layouts, runtimes, threads
from ompd.runtimes.layout import table
from ompd.session import Session
from tests.builds import undecoded
from tests.support import Stopped, stopped
from tests.support.command import run
from tests.support.layout_sources import compile_c
from tests.support.layout_tables import SHIPPED, Sources, user_table


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder of tables, which does not exist yet."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data" / "ompd" / "layouts"


# The choice of a table


@pytest.fixture
def nested() -> Stopped:
    pytest.importorskip("unicorn")
    return stopped("nested", mode="neither", runtime="libgomp")


def told_of(core: Stopped) -> tuple[str | None, str | None, tuple[str, ...]]:
    with Session.open_core(core.core) as session:
        answer = runtimes.ask(session)
        return answer.rows[0].version, answer.rows[0].layout, answer.warnings


@pytest.fixture
def truth(nested: Stopped) -> tuple[str, str]:
    """The build-id of this machine's libgomp, and the name of the shipped table that fits it."""
    version, layout, _ = told_of(nested)
    assert layout == "table" and version is not None
    with Session.open_core(nested.core) as session:
        build_id = session.runtimes[0].found.module.build_id
    major = int(version.split()[1])
    return build_id or "", next(f"libgomp-{first}" for first in (13, 12, 11, 9) if major >= first)


def test_a_users_table_of_a_build_id_wins(nested: Stopped, truth: tuple[str, str], folder: Path) -> None:
    user_table(folder, "mine", {"build_ids": {truth[0]: "mine"}, "releases": ["mine"]}, of=truth[1])
    assert told_of(nested) == ("mine", "table", ())


def test_a_users_table_is_read_without_an_emulator(
    nested: Stopped, truth: tuple[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = table.shipped_tables
    monkeypatch.setattr(table, "shipped_tables", lambda *a: [replace(known, build_ids={}) for known in honest(*a)])
    monkeypatch.setitem(sys.modules, "unicorn", None)
    monkeypatch.setattr(Decoder, "call", undecoded)
    assert told_of(nested)[1] is None
    user_table(folder, "mine", {"build_ids": {truth[0]: "mine"}, "releases": ["mine"]}, of=truth[1])
    assert told_of(nested)[:2] == ("mine", "table")


def test_a_build_that_no_table_names_is_read_once_its_debug_file_was_added(
    nested: Stopped, truth: tuple[str, str], tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = table.shipped_tables
    monkeypatch.setattr(table, "shipped_tables", lambda *a: [replace(known, build_ids={}) for known in honest(*a)])
    monkeypatch.setitem(sys.modules, "unicorn", None)
    monkeypatch.setattr(Decoder, "call", undecoded)
    assert told_of(nested)[1] is None
    # The distribution's debug file is not installed. This file has the same build-id and structures.
    structs = json.loads((table.FOLDER / f"{truth[1]}.json").read_text())["structs"]
    sources = Sources()
    text = "".join(sources.struct(name, struct) + f"struct {name} of_{name};\n" for name, struct in structs.items())
    file = compile_c(tmp_path, text, "-shared", "-fPIC", f"-Wl,--build-id=0x{truth[0]}", name="libgomp.so.1.debug")
    subprocess.run(["objcopy", "--only-keep-debug", str(file)], check=True)
    layouts.add(str(file), name="the cluster's")
    assert told_of(nested) == ("the cluster's", "table", ())


def test_debug_information_of_the_very_build_wins(nested: Stopped, truth: tuple[str, str], tmp_path: Path) -> None:
    structs = json.loads((table.FOLDER / f"{truth[1]}.json").read_text())["structs"]
    sources = Sources()
    text = "".join(sources.struct(name, struct) + f"struct {name} of_{name};\n" for name, struct in structs.items())
    flags = ("-shared", "-fPIC", f"-Wl,--build-id=0x{truth[0]}")
    file = compile_c(tmp_path, text, *flags, name="libgomp.so.1.debug")
    subprocess.run(["objcopy", "--only-keep-debug", str(file)], check=True)
    folder = tmp_path / "debug" / ".build-id" / truth[0][:2]
    folder.mkdir(parents=True)
    file.rename(folder / f"{truth[0][2:]}.debug")
    with ompd.open_core(nested.core, debug_dirs=[tmp_path / "debug"]) as session:
        (row,) = runtimes.ask(session).rows
        told = threads.ask(session).rows
    assert (row.layout, row.version, row.layout_proof) == ("dwarf", None, None)
    with Session.open_core(nested.core) as session:
        assert [replace(known, runtime=None) for known in threads.ask(session).rows] == [
            replace(known, runtime=None) for known in told
        ]


def structs_with(truth: tuple[str, str], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {**json.loads((table.FOLDER / f"{truth[1]}.json").read_text())["structs"], **changes}


@pytest.mark.parametrize(
    "changes",
    [
        {"gomp_team": {"size": 0, "fields": {}}},
        {"gomp_thread": {"size": 1 << 20, "fields": {"ts.team": [1 << 19, 1 << 19]}}},
        {"gomp_task": {"size": 8, "fields": {"parent": [0, 8]}}},
        {"gomp_thread": {"size": 8, "fields": {name: [0, 1] for name in ("fn", "ts.team", "ts.level", "task")}}},
    ],
    ids=["empty", "huge", "few members", "wrong sizes"],
)
@pytest.mark.parametrize("named", [True, False])
def test_a_users_table_that_is_wrong_leaves_the_shipped_ones_working(
    changes: Mapping[str, Any], named: bool, nested: Stopped, truth: tuple[str, str], folder: Path
) -> None:
    before = told_of(nested)
    build_ids = {truth[0]: "wrong"} if named else {}
    user_table(folder, "wrong", {"build_ids": build_ids, "structs": structs_with(truth, changes)}, of=truth[1])
    assert len(table.user_tables()[0]) == 1
    assert told_of(nested) == before


@pytest.mark.parametrize("family", ["libgomp-9", "libgomp-13"])
def test_a_users_table_of_another_release_is_rejected(
    family: str, nested: Stopped, truth: tuple[str, str], folder: Path
) -> None:
    before = told_of(nested)
    if family == truth[1]:
        pytest.skip("that is the one of this machine")
    user_table(folder, "wrong", {"build_ids": {truth[0]: "wrong"}, "releases": ["wrong"]}, of=family)
    assert told_of(nested) == before


@pytest.mark.parametrize(
    "releases", [[], ["GCC"], ["GCC x.y"], ["", "\x1b[31m"], ["GCC 12", "mine"], ["GCC " + "9" * 90]]
)
def test_a_users_table_may_call_releases_what_it_likes(
    releases: list[str], nested: Stopped, truth: tuple[str, str], folder: Path
) -> None:
    user_table(folder, "mine", {"build_ids": {truth[0]: "mine"}, "releases": releases}, of=truth[1])
    version, layout, _ = told_of(nested)
    assert (version, layout) == (", ".join(releases) or "mine", "table")


# Files that are no tables


def broken(**changes: Any) -> bytes:
    return json.dumps({**json.loads((table.FOLDER / "libgomp-12.json").read_text()), **changes}).encode()


BROKEN: Mapping[str, bytes] = {
    "empty": b"",
    "no JSON": b"\x7fELF not a table",
    "no text": b"\xff\xfe{}",
    "a list": b"[]",
    "nothing in it": b"{}",
    "of another format": broken(format=2),
    "a float for the format": b'{"format": 1.0e400}',
    "nested without end": b"[" * 200_000,
    "objects without end": b'{"a":' * 100_000,
    "a huge number": b'{"format": ' + b"1" * 1_000_000 + b"}",
    "NaN": b'{"format": NaN}',
    "runtime is a number": broken(runtime=5),
    "releases are no list": broken(releases={"a": 1}),
    "releases are numbers": broken(releases=[1]),
    "build-ids are a list": broken(build_ids=["aa"]),
    "a build-id is no number": broken(build_ids={"../../etc": "x"}),
    "structs are null": broken(structs=None),
    "a struct is a number": broken(structs={"gomp_thread": 5}),
    "a size is text": broken(structs={"gomp_thread": {"size": "5", "fields": {}}}),
    "a size is true": broken(structs={"gomp_thread": {"size": True, "fields": {}}}),
    "a size is negative": broken(structs={"gomp_thread": {"size": -1, "fields": {}}}),
    "a size is huge": broken(structs={"gomp_thread": {"size": 1 << 63, "fields": {}}}),
    "a member is a number": broken(structs={"gomp_thread": {"size": 8, "fields": {"a": 8}}}),
    "a member has three numbers": broken(structs={"gomp_thread": {"size": 8, "fields": {"a": [0, 8, 1]}}}),
    "a member lies outside": broken(structs={"gomp_thread": {"size": 8, "fields": {"a": [8, 8]}}}),
    "a bit field lies outside": broken(structs={"gomp_thread": {"size": 8, "fields": {"a": [7, 4, 0, 9]}}}),
    "a bit field of no bits": broken(structs={"gomp_thread": {"size": 8, "fields": {"a": [0, 4, 0, 0]}}}),
    "a bit field is wider than its type": broken(structs={"s": {"size": 64, "fields": {"a": [0, 4, 0, 33]}}}),
    "bit fields that fill memory": broken(
        structs={"s": {"size": 1 << 20, "fields": {f"a{n}": [(1 << 20) - 4, 4, 0, 1] for n in range(9000)}}}
    ),
    "structures that fill memory": broken(structs={f"s{n}": {"size": 0, "fields": {}} for n in range(5000)}),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_file_that_is_no_table_is_left_out_in_words(what: str, folder: Path) -> None:
    user_table(folder, "good")
    (folder / "bad.json").write_bytes(BROKEN[what])
    found, faults = table.user_tables()
    assert [known.name for known in found] == ["good"]
    (fault,) = faults
    assert str(folder / "bad.json") in str(fault) and "is left out" in str(fault) and len(str(fault)) < 600
    assert len(list(table.tables("libgomp", "x86_64"))) == 5
    answer = layouts.known()
    assert not answer.complete and answer.warnings == (str(fault),) and len(answer.rows) == len(SHIPPED) + 1


def test_what_is_no_file_is_left_out_and_nothing_waits_for_it(folder: Path) -> None:
    user_table(folder, "good")
    os.mkfifo(folder / "pipe.json")
    (folder / "folder.json").mkdir()
    (folder / "loop.json").symlink_to("loop.json")
    (folder / "nowhere.json").symlink_to("/nowhere")
    (folder / "zero.json").symlink_to("/dev/zero")
    (folder / "large.json").write_bytes(b" " * (table.MAX_FILE + 1))
    (folder / "notes.txt").write_text("no table, and none by its name")
    found, faults = table.user_tables()
    assert [known.name for known in found] == ["good"]
    assert all("is left out" in str(fault) for fault in faults)
    names = [Path(fault.path).stem for fault in faults]
    assert names == ["folder", "large", "loop", "nowhere", "pipe", "zero"]


def test_more_tables_than_anyone_has_are_not_all_read(folder: Path) -> None:
    user_table(folder, "good")
    for number in range(400):
        (folder / f"link{number}.json").symlink_to("good.json")
    found, faults = table.user_tables()
    assert len(found) == 256 and "more than 256" in str(faults[0])


def test_a_folder_that_cannot_be_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ompd").write_text("a file")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    found, faults = table.user_tables()
    assert found == [] and "cannot be read" in str(faults[0])
    assert len(list(table.tables("libgomp", "x86_64"))) == 4


@pytest.mark.parametrize(
    ("data", "home", "expected"),
    [
        ("/d", "/h", "/d/ompd/layouts"),
        ("", "/h", "/h/.local/share/ompd/layouts"),
        ("not/absolute", "/h", "/h/.local/share/ompd/layouts"),
        ("", "", None),
    ],
)
def test_the_users_folder_is_where_the_xdg_specification_has_it(
    data: str, home: str, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", data)
    monkeypatch.setenv("HOME", home)
    assert table.user_folder() == (Path(expected) if expected is not None else None)


def test_a_table_that_changes_is_read_again(folder: Path) -> None:
    path = user_table(folder, "mine", {"releases": ["one"]})
    assert table.load(path).releases == ("one",)
    user_table(folder, "mine", {"releases": ["two"]})
    assert table.load(path).releases == ("two",)


def test_an_inspection_names_the_files_that_it_left_out(nested: Stopped, folder: Path) -> None:
    before = told_of(nested)
    folder.mkdir(parents=True)
    (folder / "bad.json").write_bytes(b"{}")
    version, layout, warnings = told_of(nested)
    assert (version, layout) == before[:2]
    assert [str(folder / "bad.json") in warning for warning in warnings] == [True]
    ran = run("threads", nested.core, "--json", XDG_DATA_HOME=str(folder.parents[1]))
    assert ran.returncode == 0 and "note" in ran.stderr and "bad.json" in ran.stderr
    # An inspection that uses no table does not mention the file.
    ran = run("threads", stopped("lock").core, "--json", XDG_DATA_HOME=str(folder.parents[1]))
    assert (ran.returncode, ran.stderr) == (0, "")
