"""The stub's own tests in C: as they are, under valgrind, and with ThreadSanitizer.

gcc and clang compile them without a warning.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.stub.tools import GENERATIONS, mirror
from tests.support.cache import entry, key_of
from tests.support.machine import FULL, require
from tests.support.stub import SOURCES, run_make, sources_key, stub_folder


def checked(*targets: str, arguments: Sequence[str] = (), built: Path | None = None) -> str:
    """Return the output of targets of the stub's Makefile, from the cache if nothing has changed since.

    :param built: the folder of the libraries, if they are built already and make need not build them
    """
    files = sorted(path for path in (SOURCES / "tests").rglob("*") if path.is_file())
    tests = [(str(path.relative_to(SOURCES)), path.read_text()) for path in files]

    def make(folder: Path) -> None:
        if built is not None:
            shutil.copytree(built, folder, symlinks=True, dirs_exist_ok=True)
        printed = run_make(folder, *arguments, targets=targets)
        (folder / "printed").write_text(printed)

    return (entry("stub-checks", key_of(sources_key(), tests, targets, arguments), make) / "printed").read_text()


def some(sized: str, single: str) -> list[str]:
    """Return arguments with which the Makefile builds and runs only these tests, *sized* by teams of several sizes."""
    return [] if FULL else [f"SIZED={sized}", f"SINGLE={single}"]


def ran(printed: str) -> int:
    (runs,) = re.findall(r"^(\d+) runs, 0 failed$", printed, re.MULTILINE)
    return int(runs)


def test_its_own_tests() -> None:
    # Constructs, loops, tasks and locks by 1 to 64 threads, and the subjects of single programs.
    arguments = [] if FULL else ["SIZES=1 3 64"]
    assert ran(checked("check", arguments=arguments, built=stub_folder())) >= (60 if FULL else 30)


def test_its_own_tests_as_clang_compiles_it() -> None:
    arguments = [f"CC={require('clang')}", "SIZES=4", *some("constructs tasks", "states points figure_8 ompt/draft")]
    assert ran(checked("check", arguments=arguments)) >= (15 if FULL else 9)


@pytest.mark.skipif(not FULL, reason="takes half a minute: make test-full")
def test_a_profiler_that_samples_for_long(tmp_path: Path) -> None:
    # It samples each of up to nine threads (usually five) a thousand times a second.
    run_make(tmp_path, "SIZED=", "SIZES=", "SINGLE=ompt/sampling", targets=["check"])
    done = subprocess.run([tmp_path / "tests/ompt/sampling", "250000"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not FULL, reason="takes half a minute: make test-full")
@pytest.mark.parametrize("generation", GENERATIONS)
def test_its_own_tests_with_a_tool(generation: int) -> None:
    # The tests without a tool of their own see the same with a tool of each generation.
    tool = f"UNDER=env LD_PRELOAD={mirror(generation)['LD_PRELOAD']}"
    single = "routines initial_threads states picture points locations threadprivate figure_8 figure_8_key faults"
    arguments = [tool, "SIZED=constructs loops tasks locks", "SIZES=1 2 3 16", f"SINGLE={single}"]
    assert ran(checked("check", arguments=arguments)) >= 40


@pytest.mark.timeout(300)
def test_under_valgrind() -> None:
    require("valgrind")
    arguments = some("constructs", "routines states ompt/draft ompt/device_5")
    assert ran(checked("check-valgrind", arguments=arguments, built=stub_folder())) >= (12 if FULL else 6)


@pytest.mark.timeout(300)
def test_with_thread_sanitizer() -> None:
    require("libtsan")
    arguments = some("tasks locks", "initial_threads ompt/leaves")
    assert ran(checked("check-tsan", arguments=arguments)) >= (9 if FULL else 6)


def test_the_label_is_one() -> None:
    # In the second library the place is no function and has no size.
    from ompd.binary.elf.elf import ElfFile
    from ompd.binary.elf.symbols import STT_FUNC, SymbolTable
    from ompd.safety.reading import open_paged

    for name, kind in (("libomp_stub.so", STT_FUNC), ("libomp_stub_label.so", 0)):
        path = str(stub_folder() / name)
        symbol = SymbolTable(ElfFile(open_paged(path), path)).find("ompd_dll_locations_valid")
        assert symbol is not None and symbol.type == kind
