"""``ompd layout``: tables made of debug information say what the compiler did and what runtimes say of themselves; what
lies in the user's folder, whatever it is, never breaks an inspection.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

import ompd
from ompd.binary.types import members as dwarf_members
from ompd.commands.main import cli
from ompd.contract.memory import StructLayout
from ompd.debugger.emulation.decode import Decoder
from ompd.debugger.files.debug_file import DebugFile
from ompd.errors import BadInput, MalformedFile, OmpdError
from ompd.questions import layouts, runtimes, threads
from ompd.runtimes.layout import generate, selfdescribed, table
from ompd.runtimes.libomp.plugin import Runtime
from ompd.session import Session
from tests.builds import undecoded
from tests.support import Stopped, intel_runtime, stopped
from tests.support.command import run
from tests.support.imports import loaded_after
from tests.support.layout_sources import DEBUG_FLAGS, SOURCE, compile_c

SHIPPED = sorted(table.FOLDER.glob("*.json"))
BUILD_ID = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder, which is not there yet."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data" / "ompd" / "layouts"


def user_table(folder: Path, name: str, changes: Mapping[str, Any] | None = None, of: str = "libgomp-12") -> Path:
    told = {**json.loads((table.FOLDER / f"{of}.json").read_text()), **(changes or {})}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(told))
    return path


# The shipped tables


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_table_is_what_the_generator_writes(path: Path) -> None:
    told = json.loads(path.read_text())
    assert generate.format_table(told) == path.read_text()
    family = generate.FAMILIES[told["runtime"]]
    assert [name for name in family.types if name in told["structs"]] != []
    assert set(told["structs"]) <= set(family.types)
    assert set(family.types) - set(told["structs"]) <= family.optional
    for name, struct in told["structs"].items():
        members = list(struct["fields"])
        assert all(map(generate.is_wanted, members)), name
        assert members == sorted(members, key=lambda member: (struct["fields"][member][0], member)), name


def test_a_shipped_table_has_no_name_of_a_members_filling() -> None:
    refused = ("th.th_align", "th.th_pad", "t.pad", "th_suspend_cv.c_cond.__data", "lock._M_b", "_M_b")
    assert not any(map(generate.is_wanted, refused))
    assert all(map(generate.is_wanted, ("pad", "t_pad2b", "align", "_vptr", "th.th_team", "barrier.total")))


class Sources:
    """Writes structures in C whose members lie where a table says, among fillings that a table leaves out."""

    def __init__(self) -> None:
        self.count = 0

    def filling(self, size: int) -> str:
        self.count += 1
        return f"char f{self.count}_pad[{size}];" if size else ""

    def struct(self, tag: str, told: Mapping[str, Any]) -> str:
        return f"struct {tag} {self.body(told['size'], told['fields'], '')};\n"

    def body(self, size: int, fields: Mapping[str, Sequence[int]], prefix: str, base: int = 0) -> str:
        lines = [self.filling(size)]
        for path, (offset, length, *bits) in fields.items():
            name = path.removeprefix(prefix)
            if not path.startswith(prefix) or "." in name:
                continue
            at = self.filling(offset - base)
            if bits:
                unit = {4: "unsigned", 8: "unsigned long"}[length]
                gap = f"unsigned : {bits[0]};" if bits[0] else ""
                lines.append(f"struct __attribute__((packed)) {{ {at} {gap} {unit} {name} : {bits[1]}; }};")
                continue
            inside = any(other.startswith(f"{path}.") for other in fields)
            member = f"char {name}[{length}]"
            if inside:
                member = f"struct {self.body(length, fields, f'{path}.', offset)} {name}"
            lines.append(f"struct __attribute__((packed)) {{ {at} {member}; }};")
        return "{ union { " + "\n".join(filter(None, lines)) + " }; }"


# Compilers differ in how they write a type, not in which one of a runtime's it is.
COMPILED = [pytest.param(path, "gcc", "-gdwarf-5", id=path.stem) for path in SHIPPED] + [
    pytest.param(table.FOLDER / f"{name}.json", compiler, flags, id=f"{name} {compiler} {flags}")
    for name in ("libgomp-13", "libomp-18")
    for compiler, flags in (("gcc", "-gdwarf-4"), ("clang", "-gdwarf-5"))
]


@pytest.mark.parametrize(("path", "compiler", "flags"), COMPILED)
def test_structures_laid_out_as_a_shipped_table_give_that_table(
    path: Path, compiler: str, flags: str, tmp_path: Path, folder: Path
) -> None:
    told = json.loads(path.read_text())
    structs = {name: struct for name, struct in told["structs"].items() if "<" not in name}
    sources = Sources()
    text = "".join(sources.struct(name, struct) for name, struct in structs.items())
    text += "".join(f"struct {name} of_{name};\n" for name in structs)
    made = compile_c(tmp_path, text, flags, "-shared", "-fPIC", compiler=compiler)
    layouts.add(str(made), name="made")
    written = json.loads((folder / f"{told['runtime']}-made.json").read_text())
    assert written["structs"] == structs
    assert list(written["structs"]) == list(structs)


# Debug information: libgomp's names, structures of our own


def printed_by(program: Path) -> dict[str, dict[str, Any]]:
    done = subprocess.run([str(program)], capture_output=True, text=True, check=True)
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return found


def as_printed(layout: StructLayout) -> dict[str, Any]:
    found: dict[str, Any] = {"size": layout.size}
    found |= {name: [where.offset, where.size] for name, where in layout.fields.items()}
    return found | {name: f"{mask:0{2 * (layout.size or 0)}x}" for name, mask in layout.masks.items()}


@pytest.mark.parametrize(
    ("compiler", "flags"),
    [(name, flags) for name in ("gcc", "clang") for flags in DEBUG_FLAGS] + [("gcc", "-gdwarf64")],
)
def test_a_table_says_what_the_program_prints(compiler: str, flags: str, tmp_path: Path, folder: Path) -> None:
    program = compile_c(tmp_path, SOURCE, flags, compiler=compiler)
    layouts.add(str(program), name="of the test")
    made = table.load(folder / "libgomp-of-the-test.json")
    assert {name: as_printed(layout) for name, layout in made.structs.items()} == printed_by(program)


def test_what_is_written_is_what_is_read(tmp_path: Path, folder: Path) -> None:
    answer = layouts.add(str(compile_c(tmp_path, SOURCE, f"-Wl,--build-id=0x{BUILD_ID}")))
    path = folder / f"libgomp-{BUILD_ID[:12]}.json"
    assert [entry.name for entry in folder.iterdir()] == [path.name]
    read = table.load(path)
    assert read == table.parse(path, json.loads(path.read_text()))
    assert (read.name, read.runtime, read.architectures) == (path.stem, "libgomp", ("x86_64",))
    assert list(read.build_ids) == [BUILD_ID] and not read.is_shipped
    assert read in table.tables("libgomp", "x86_64") and read not in table.tables("libgomp", "aarch64")
    assert layouts.known(path.stem).structs == answer.structs
    assert answer.rows == layouts.known(path.stem).rows == layouts.known().rows[len(SHIPPED) :]


def test_the_release_is_that_of_the_compiler_unless_a_name_is_given(tmp_path: Path, folder: Path) -> None:
    program = compile_c(tmp_path, SOURCE)
    version = subprocess.run(["gcc", "-dumpfullversion"], capture_output=True, text=True, check=True).stdout.strip()
    assert layouts.add(str(program)).rows[0].releases == (f"GCC {version}",)
    assert layouts.add(str(program), name="our cluster's").rows[0].releases == ("our cluster's",)


def test_releases_are_told_by_what_debug_information_says() -> None:
    told = generate.release_of
    assert told("libgomp", "GNU C17 12.2.0 -mtune=generic -O2", "/build", None) == "GCC 12.2.0"
    assert told("libgomp", "clang version 18.1.8", "/build/llvm-project-18.1.8", None) is None
    assert told("libomp", "clang", "/build/reproducible-path/llvm-toolchain-14-14.0.6/build/o", None) == "LLVM 14.0.6"
    assert told("libomp", "clang", "/b/llvm-project-18.1.8.src/openmp", None) == "LLVM 18.1.8"
    assert told("libomp", "clang version 18.1.8", "/home/u/b", None) is None
    assert told("libomp", "clang", "", "5.0.20260828") == "Intel 5.0.20260828"


# Separate debug files, and the libraries they belong to


@pytest.fixture
def parts(tmp_path: Path) -> tuple[Path, Path]:
    """A stripped library and its separate debug file."""
    whole = compile_c(tmp_path, SOURCE, "-shared", "-fPIC", f"-Wl,--build-id=0x{BUILD_ID}", name="libgomp.so.1.debug")
    library = tmp_path / "libgomp.so.1"
    for command in (
        ["strip", "-s", "-o", library, whole],
        ["objcopy", "--only-keep-debug", whole],
        ["objcopy", f"--add-gnu-debuglink={whole}", library],
    ):
        subprocess.run([str(word) for word in command], check=True)
    return library, whole


@pytest.mark.parametrize("which", [0, 1], ids=["library", "debug file"])
def test_a_library_and_its_debug_file_give_the_same(which: int, parts: tuple[Path, Path], folder: Path) -> None:
    layouts.add(str(parts[which]))
    made = table.load(folder / f"libgomp-{BUILD_ID[:12]}.json")
    assert list(made.build_ids) == [BUILD_ID]
    assert made.structs["gomp_team"].size == 192
    assert (made.has_exports, made.lacks_exports) == ((), ())  # no name tells releases of libgomp apart


def test_exports_are_those_of_the_library_that_the_debug_file_belongs_to(tmp_path: Path) -> None:
    text = "int exported(void) { return 1; } static int hidden(void) { return 2; } int (*p)(void) = hidden;"
    whole = compile_c(tmp_path, text, "-shared", "-fPIC", f"-Wl,--build-id=0x{BUILD_ID}", name="lib.so.debug")
    subprocess.run(["strip", "-o", str(tmp_path / "lib.so"), str(whole)], check=True)
    subprocess.run(["objcopy", "--only-keep-debug", str(whole)], check=True)
    names = ["exported", "hidden", "absent"]
    assert DebugFile(str(whole)).exported(names) == {"exported"}
    other = compile_c(tmp_path, text + "int more;", "-shared", "-fPIC", "-Wl,--build-id", name="lib.so")
    assert other.exists() and DebugFile(str(whole)).exported(names) is None


def test_a_debug_file_without_its_library_has_no_exports(parts: tuple[Path, Path]) -> None:
    parts[0].unlink()
    assert DebugFile(str(parts[1])).exported(["GOMP_parallel"]) is None


# Intel's runtime: what it says of itself, in its memory


@pytest.fixture
def intels(folder: Path) -> table.Table:
    layouts.add(str(intel_runtime() / "lib" / "libiomp5.dbg"))
    return table.load(folder / "libomp-libiomp5.dbg.json")


# What OMPD and Intel's description call otherwise than debug information does.
TYPES = {
    "kmp_team_p": "kmp_team",
    "ompt_lw_taskteam_t": "ompt_lw_taskteam_s",
    "kmp_thread_data_t": "kmp_base_thread_data",
}
MEMBERS = {
    "th_b_worker_arrived": ("kmp_bstate", "b_worker_arrived"),
    "t_b_master_arrived": ("kmp_barrier_team_union", "b_master_arrived"),
    "t_b_team_arrived": ("kmp_barrier_team_union", "b_team_arrived"),
    "r_uber_thread": ("kmp_base_root", "r_root_thread"),
}


def test_the_table_of_intels_runtime_agrees_with_what_that_publishes(intels: table.Table) -> None:
    with Session.open_core(stopped("lock").core) as session:
        runtime = session.runtimes[0].space
        assert isinstance(runtime, Runtime)
        sources = runtime.layouts, selfdescribed.load(session.process, runtime.module)
    compared = 0
    for name, layout in [row for source in sources for row in source.items()]:
        made = intels.structs[TYPES.get(name) or (name if name in intels.structs else name.removesuffix("_t"))]
        assert layout.size in (None, made.size), name
        for member, where in layout.fields.items():
            struct, known_as = MEMBERS.get(member, (made.name, member))
            assert intels.structs[struct].fields[known_as] == where, f"{name}.{member}"
            compared += 1
        for member, mask in layout.masks.items():
            assert made.masks[member] == mask, f"{name}.{member}"
            compared += 1
    assert compared == 129
    assert re.fullmatch(r"Intel 5\.0\.\d{8}", intels.releases[0])
    assert intels.build_ids == {}  # it has none
    assert "kmp_ext_alloc" in intels.has_exports and len(intels.structs) == len(generate.FAMILIES["libomp"].types)


# Which table is used


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
    """The build-id of this machine's libgomp, and the shipped table that it fits."""
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
    # Distributions' debug files are not here; this one has their build-id and structures.
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
    # Where no table is used, nobody hears of it.
    ran = run("threads", stopped("lock").core, "--json", XDG_DATA_HOME=str(folder.parents[1]))
    assert (ran.returncode, ran.stderr) == (0, "")


# What cannot be made into a table


def refused(path: Path | str, **options: Any) -> str:
    with pytest.raises(OmpdError) as error:
        layouts.add(str(path), **options)
    return str(error.value)


def test_refusals_are_words(tmp_path: Path, folder: Path) -> None:
    assert "no such file" in refused(tmp_path / "nothing")
    assert "is a directory" in refused(tmp_path)
    assert "is not an ELF file" in refused(Path(__file__))
    plain = compile_c(tmp_path, "struct s { int a; } s; int main(void) { return s.a; }", name="plain")
    assert "not that of a known runtime: it has none of gomp_thread (libgomp), kmp_base_info (libomp)" in refused(plain)
    assert "lacks the type gomp_thread" in refused(plain, runtime="libgomp")
    stripped = tmp_path / "stripped"
    subprocess.run(["strip", "-s", "-o", str(stripped), str(plain)], check=True)
    assert "has no debug information (DWARF)" in refused(stripped)
    some = compile_c(tmp_path, "struct gomp_thread { int a; } s; int main(void) { return s.a; }", name="some")
    assert "lacks the type gomp_team" in refused(some)
    both = SOURCE.replace("static int some;", "static int some; struct kmp_base_info { int a; } info;")
    both_file = compile_c(tmp_path, both, name="both")
    assert "is of libgomp and libomp" in refused(both_file)
    assert layouts.add(str(both_file), runtime="libgomp").rows[0].runtime == "libgomp"
    assert "lacks the type ident" in refused(both_file, runtime="libomp")
    raw = bytearray(plain.read_bytes())
    for offset, value in ((18, 243), (4, 1), (5, 2)):
        other = bytearray(raw)
        other[offset] = value
        foreign = tmp_path / "foreign"
        foreign.write_bytes(other)
        assert any(word in refused(foreign) for word in ("another architecture", "damaged ELF file"))
    (tmp_path / "short").write_bytes(raw[:40])
    assert "damaged ELF file" in refused(tmp_path / "short")


def test_two_structures_of_one_name_are_refused(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "other.c").write_text("struct gomp_team { char c[3]; } other_team;")
    program = compile_c(tmp_path, SOURCE, str(tmp_path / "other.c"))
    assert "several of different sizes" in refused(program)


def test_a_structure_that_no_runtime_has_is_not_written(tmp_path: Path, folder: Path) -> None:
    huge = SOURCE.replace("long double ld;", "long double ld; char huge[1 << 21];")
    assert "which no runtime has" in refused(compile_c(tmp_path, huge))
    assert not folder.exists()


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = compile_c(tmp_path, SOURCE)
    for place in ("/dev/null/there", "/proc/1", str(program)):
        monkeypatch.setenv("XDG_DATA_HOME", place)
        assert "cannot be written" in refused(program)
    monkeypatch.setenv("XDG_DATA_HOME", "")
    monkeypatch.setenv("HOME", "")
    assert "neither XDG_DATA_HOME nor HOME" in refused(program)


def test_a_failure_leaves_the_table_that_was_there(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = compile_c(tmp_path, SOURCE)
    layouts.add(str(program), name="mine")
    before = (folder / "libgomp-mine.json").read_bytes()

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    assert "No space left on device" in refused(program, name="mine")
    assert [(entry.name, entry.read_bytes()) for entry in folder.iterdir()] == [("libgomp-mine.json", before)]


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("../../../etc/passwd", "libgomp-etc-passwd"),
        ("/absolute", "libgomp-absolute"),
        ("..", "libgomp-0123456789ab"),
        ("", "libgomp-0123456789ab"),
        (".hidden", "libgomp-hidden"),
        ("libgomp-12", None),
        ("libgomp-12.json/../x", "libgomp-12.json-x"),
        ("GCC 12.2.0", "libgomp-GCC-12.2.0"),
        ("日本", "libgomp-0123456789ab"),
        ("a\nb\x1b[31m", "libgomp-a-b-31m"),
        ("\udcff", "libgomp-0123456789ab"),
        ("x" * 5000, "libgomp-" + "x" * 64),
    ],
)
def test_a_name_never_leads_out_of_the_folder(name: str, file: str | None, tmp_path: Path, folder: Path) -> None:
    program = compile_c(tmp_path, SOURCE, f"-Wl,--build-id=0x{BUILD_ID}")
    before = sorted(tmp_path.rglob("*"))
    if file is None:
        with pytest.raises(BadInput, match="shipped"):
            layouts.add(str(program), name=name)
        return
    layouts.add(str(program), name=name)
    assert [entry.name for entry in folder.iterdir()] == [f"{file}.json"]
    assert set(tmp_path.rglob("*")) - set(before) == {folder, folder.parent, folder.parents[1], folder / f"{file}.json"}


def test_damaged_debug_information_is_refused_in_words(tmp_path: Path, folder: Path) -> None:
    whole = compile_c(tmp_path, SOURCE).read_bytes()
    chance = random.Random(5)
    damaged = tmp_path / "damaged"
    outcomes = {"made": 0, "refused": 0}
    for _ in range(300):
        raw = bytearray(whole)
        for _ in range(chance.choice((1, 4, 40))):
            raw[chance.randrange(len(raw) // 4, len(raw))] = chance.randrange(256)
        damaged.unlink(missing_ok=True)
        damaged.write_bytes(raw[: chance.randrange(len(raw))] if chance.random() < 0.1 else raw)
        try:
            layouts.add(str(damaged), name="damaged")
            outcomes["made"] += 1
        except OmpdError:
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 20
    assert table.user_tables()[1] == []  # what was made can be read


class _Endless:
    # A structure whose members are structures like itself, which no compiler writes.

    class Place:
        class unit:
            offset = 0

        offset = 0

    def __init__(self, width: int, name: str | None) -> None:
        self.width, self.name = width, name
        self.index = self

    def rows(self, place: Any) -> Any:
        names = [f"{self.name}{number}" if self.name else None for number in range(self.width)]
        return [(name, 0x0D, {}) for name in names]

    def location(self, unit: Any, attributes: Any) -> tuple[int, None, None]:
        return 0, None, None

    def type_of(self, unit: Any, attributes: Any) -> Any:
        return self.Place

    inner = staticmethod(lambda place: place)
    size_at = staticmethod(lambda place: 8)
    entry = staticmethod(lambda place: (0x13, {}))


@pytest.mark.parametrize("width", [1, 2, 1000])
@pytest.mark.parametrize("name", ["m", None])
def test_a_structure_that_contains_itself_ends(width: int, name: str | None) -> None:
    endless: Any = _Endless(width, name)
    with pytest.raises(MalformedFile):
        dwarf_members.flat_members(endless, _found(endless), lambda path: True)


def _found(endless: Any) -> Any:
    class Found:
        place = endless.Place

    return Found


# The command


def ask(*arguments: str | Path) -> tuple[int, str, str]:
    done = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    return done.exit_code, done.stdout, done.stderr


def test_show_lists_the_tables_and_how_they_were_made(folder: Path) -> None:
    user_table(folder, "mine", {"build_ids": {BUILD_ID: "ours"}, "provenance": "by hand"})
    ran = run("layout", "show", XDG_DATA_HOME=str(folder.parents[1]))
    assert (ran.returncode, ran.stderr) == (0, "")
    rows = [line.split() for line in ran.stdout.splitlines()]
    assert rows[0] == ["NAME", "RUNTIME", "RELEASES", "ARCHITECTURES", "BUILD-IDS", "FROM"]
    assert [row[0] for row in rows[1 : len(SHIPPED) + 2]] == [*(path.stem for path in SHIPPED), "mine"]
    assert "mine: by hand" in ran.stdout and BUILD_ID not in ran.stdout
    ran = run("layout", "show", "-v", XDG_DATA_HOME=str(folder.parents[1]))
    assert f"mine: build-id {BUILD_ID}: ours" in ran.stdout and f"mine: file {folder / 'mine.json'}" in ran.stdout


def test_show_prints_the_structures_of_a_table() -> None:
    ran = run("layout", "show", "libgomp-13")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "\ngomp_thread   120 bytes\n       0         8  fn\n" in ran.stdout
    ran = run("layout", "show", "libomp-18")
    assert "\n   206:1   15 bits  th_topology_attrs.reserved\n" in ran.stdout


def test_json_is_what_its_schema_says(folder: Path) -> None:
    schema = json.loads(run("schema", "layout").stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["properties"]["schema"] == {"const": "ompd/layout/1"}
    user_table(folder, "mine")
    (folder / "bad.json").write_text("[]")
    for words in (["show"], ["show", "libomp-18"], ["show", "mine"]):
        ran = run("layout", *words, "--json", XDG_DATA_HOME=str(folder.parents[1]))
        answer = json.loads(ran.stdout)
        jsonschema.validate(answer, schema)
        assert ran.returncode == (3 if words == ["show"] else 0)
        assert answer["complete"] == (words != ["show"])
        assert set(answer["layout"][0]) >= {"name", "runtime", "origin", "file", "releases", "architectures"}
    assert answer["structs"][0]["members"][0] == {"name": "fn", "offset": 0, "size": 8, "first_bit": None, "bits": None}


def test_show_says_what_a_bit_field_is(folder: Path) -> None:
    structs = layouts.known("libomp-18").structs or ()
    flags = next(struct for struct in structs if struct.name == "kmp_tasking_flags")
    told = json.loads((table.FOLDER / "libomp-18.json").read_text())["structs"]["kmp_tasking_flags"]["fields"]
    found = {each.name: (each.offset, each.first_bit, each.bits) for each in flags.members}
    assert found == {name: (offset, first, bits) for name, (offset, _, first, bits) in told.items()}


def test_show_of_no_table_is_no_answer(folder: Path) -> None:
    code, out, error = ask("layout", "show", "no-such-table")
    assert (code, out) == (1, "") and "no table with the name 'no-such-table'" in error
    folder.mkdir(parents=True)
    (folder / "bad.json").write_text("[]")
    code, out, error = ask("layout", "show", "bad")
    assert (code, out) == (1, "") and "is not a table of layouts" in error


def test_add_says_what_it_wrote(tmp_path: Path, folder: Path) -> None:
    program = compile_c(tmp_path, SOURCE, f"-Wl,--build-id=0x{BUILD_ID}")
    code, out, error = ask("layout", "add", program)
    assert (code, error) == (0, "")
    assert "10 structures" in out and BUILD_ID in out and str(folder) in out
    code, out, error = ask("layout", "add", program, "--json")
    assert code == 0 and json.loads(out)["layout"][0]["build_ids"].keys() == {BUILD_ID}
    assert "takes the place" in error
    code, _, error = ask("layout", "add", compile_c(tmp_path, SOURCE, "-Wl,--build-id=none", name="bare"))
    assert code == 0 and "has no build-id" in error


def test_wrong_usage_is_2_and_no_answer_is_1(tmp_path: Path) -> None:
    for arguments in (
        ["layout", "add"],
        ["layout", "add", "x", "--runtime", "other"],
        ["layout", "show", "a", "b"],
        ["layout", "no-such"],
    ):
        assert ask(*arguments)[:2] == (2, ""), arguments
    ran = run("layout", "add", tmp_path / "nothing")
    assert (ran.returncode, ran.stdout) == (1, "") and "no such file" in ran.stderr and "Traceback" not in ran.stderr


def test_names_of_tables_reach_no_terminal_as_they_are(folder: Path) -> None:
    changes = {"releases": ["\x1b[31mred"], "provenance": "\x07", "build_ids": {"aa": "\x1b]0;title"}}
    user_table(folder, "mine", changes)
    user_table(folder, "bad\x1b[2J", {"format": 5})
    for words in (["show"], ["show", "-v"], ["show", "mine"]):
        code, out, error = ask("layout", *words)
        assert code in (0, 3) and "\x1b" not in out + error and "\x07" not in out + error


def test_help_lists_the_command() -> None:
    assert "layout" in ask("--help")[1]
    for words in (["layout"], ["layout", "show"], ["layout", "add"]):
        assert "Exit codes:" in ask(*words, "--help")[1]


def test_every_runtime_that_has_tables_can_be_named() -> None:
    parameters = {each.name: each for each in cli.commands["layout"].commands["add"].params}  # type: ignore[attr-defined]
    assert list(parameters["runtime"].type.choices) == list(generate.FAMILIES)


def test_options_are_on_the_page_of_commands() -> None:
    page = (Path(__file__).parents[1] / "docs" / "commands.md").read_text()
    for name, command in cli.commands["layout"].commands.items():  # type: ignore[attr-defined]
        assert f"`layout {name}" in page
        options = [option for each in command.params for option in each.opts if option.startswith("--")]
        assert all(f"`{option}" in page for option in options)


def test_no_other_command_loads_what_makes_tables() -> None:
    loaded = loaded_after("import ompd.commands.main")
    assert not loaded & {
        "ompd.questions.layouts",
        "ompd.session.tables",
        "ompd.runtimes.layout.generate",
        "ompd.debugger.files.debug_file",
        "tempfile",
    }
