"""LLVM's libomp with its own debug information and with OMPD, as Spack and developers build it.

ompd's answers equal what the programs wrote, and the library's layouts equal the table for stripped builds of the same
release. With ``OMPD_FULL=1``; ``make test-full`` builds the library (tests/support/libomp_build.py).
"""

from __future__ import annotations

import pytest

from ompd.binary.elf.elf import ElfFile
from ompd.binary.types.types import TypeInfo
from ompd.inspection import Inspection
from ompd.runtimes.layout import table
from tests.support import FULL, MODES, stopped
from tests.support.libomp_build import NAME, libomp_with_debug_information
from tests.support.programs import ALL_PROGRAMS, modes_of
from tests.truth import compare

pytestmark = pytest.mark.skipif(not FULL, reason="only with OMPD_FULL=1")

CASES = [
    pytest.param(program, compiler, mode, id=f"{program}-{compiler}-{mode}", marks=marks)
    for number, (program, known) in enumerate(ALL_PROGRAMS.items())
    for turn, compiler in enumerate(known.compilers)
    for mode in modes_of(program, compiler)
    if mode == MODES[(number + turn) % len(MODES)]
    for marks in [[pytest.mark.xdist_group("busy")] * known.spins]
]


@pytest.mark.parametrize(("program", "compiler", "mode"), CASES)
def test_what_we_tell_is_what_the_program_wrote(program: str, compiler: str, mode: str) -> None:
    found = compare(stopped(program, compiler=compiler, mode=mode, runtime=NAME))
    assert found.differences == []
    assert found.equal


def test_it_is_llvms_and_tells_its_layouts_itself() -> None:
    with Inspection.open_core(stopped("task_queued", mode="neither", runtime=NAME).core) as session:
        (runtime,) = session.ask_tasks().runtimes
    assert (runtime.kind, runtime.layout, runtime.version) == ("libomp", "published", "5.0.20140926")
    assert "dwarf" in runtime.layouts.values()


def test_its_layouts_are_those_of_the_table_for_stripped_ones() -> None:
    library = libomp_with_debug_information()
    (known,) = (each for each in table.shipped_tables("libomp") if each.name == "libomp-19")
    assert known.releases == ("LLVM 19.1.7",)
    types = TypeInfo(ElfFile(library.read_bytes(), library.name))
    compared = 0
    for name, told in known.structs.items():
        if "<" in name:
            continue  # compilers write template arguments in several ways
        found = types.find(name)
        assert found is not None and found.size == told.size, name
        for path, where in told.fields.items():
            if path == "_vptr":
                continue  # gcc names this member differently
            member = found.member(path)
            assert (member.offset, member.size) == (where.offset, where.size), f"{name}.{path}"
        for path, mask in told.masks.items():
            member = found.member(path)
            assert member.bits is not None and member.first_bit is not None
            assert ((1 << member.bits) - 1) << member.first_bit == mask, f"{name}.{path}"
        compared += len(told.fields) + len(told.masks)
    assert compared > 500
