"""Tables of layouts, shipped or made from debug information, equal what compilers and runtimes themselves tell."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ompd.contract.memory import StructLayout
from ompd.debugger.files.debug_file import DebugFile
from ompd.questions import layouts
from ompd.runtimes.layout import generate, selfdescribed, table
from ompd.runtimes.libomp.plugin import Runtime
from ompd.session import Session
from tests.support import intel_runtime, stopped
from tests.support.layout_sources import DEBUG_FLAGS, SOURCE, compile_c
from tests.support.layout_tables import BUILD_ID, SHIPPED, Sources


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder of tables, which does not exist yet."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data" / "ompd" / "layouts"


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


# How a compiler writes a type does not depend on the runtime's type, so two tables are enough for the other compilers.
COMPILED = [pytest.param(path, "gcc", "-gdwarf-5", id=path.stem) for path in SHIPPED] + [
    pytest.param(table.FOLDER / f"{name}.json", compiler, flags, id=f"{name} {compiler} {flags}")
    for name in ("libgomp-13", "libomp-18")
    for compiler, flags in (("gcc", "-gdwarf-4"), ("clang", "-gdwarf-5"))
]


@pytest.mark.parametrize(("path", "compiler", "flags"), COMPILED)
@pytest.mark.quick("libgomp-11", "libgomp-12", "libomp-19", "libgomp-13 gcc -gdwarf-4", "libomp-18 clang -gdwarf-5")
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


# Debug information of our own structures under libgomp's names


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
@pytest.mark.quick("clang--fdebug-types-section", "clang--gdwarf-2", "gcc--gdwarf64", "gcc--gdwarf-5")
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
    assert (made.has_exports, made.lacks_exports) == ((), ())  # no exported name distinguishes releases of libgomp


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


# Intel's runtime: its description of itself, in its memory


@pytest.fixture
def intels(folder: Path) -> table.Table:
    layouts.add(str(intel_runtime() / "lib" / "libiomp5.dbg"))
    return table.load(folder / "libomp-libiomp5.dbg.json")


# Names in OMPD and in Intel's description that differ from those in debug information.
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


@pytest.mark.quick()
def test_the_table_of_intels_runtime_agrees_with_what_that_publishes(intels: table.Table) -> None:
    with Session.open_core(stopped("lock").core) as session:
        runtime = session.runtimes[0].space
        assert isinstance(runtime, Runtime)
        sources = runtime.layouts, selfdescribed.load(session.process.contract, runtime.module)
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
    assert intels.build_ids == {}  # the library has no build-id
    assert "kmp_ext_alloc" in intels.has_exports and len(intels.structs) == len(generate.FAMILIES["libomp"].types)
