"""Programs on GNU's libgomp, which has neither OMPD nor symbols: ompd's answers equal what the programs wrote.

``tests/facts_libgomp.json`` holds the number of facts of each kind that must be told and equal.
``python -m tests.runtimes.libgomp.test_libgomp`` writes the file anew.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from ompd.session import Session
from tests.support import FULL, running
from tests.support.libgomp import FACTS, facts_told, on_libgomp
from tests.support.machine import require_module
from tests.support.programs import ALL_PROGRAMS
from tests.truth import compare

require_module("unicorn")

# libgomp does not know a thread that was in no region.
PROGRAMS = [
    pytest.param(name, compiler, id=f"{name}-{compiler}", marks=[pytest.mark.xdist_group("busy")] * known.spins)
    for name, known in ALL_PROGRAMS.items()
    for compiler in known.compilers
    if not compiler.startswith("clang") and name != "no_region"
]


@pytest.mark.parametrize(("program", "compiler"), PROGRAMS)
@pytest.mark.quick(
    "serialized_three-gcc",
    "task_queued-gcc",
    "icvs-gcc",
    "lock_kinds-gcc",
    "task_in_barrier-gcc",
    "fortran-gfortran",
    "interrupted-gcc",
    "cplusplus-g++",
    "modules-gfortran",
)
def test_what_we_tell_is_what_the_program_wrote(program: str, compiler: str) -> None:
    found = compare(on_libgomp(program, compiler))
    assert found.differences == []
    assert facts_told(found) == json.loads(FACTS.read_text())[program]


# Programs that a libgomp older than GCC 9 cannot run, or whose variables it does not read from the environment. Its
# max-active-levels-var belongs to the whole process, so a thread that has read it sees another thread change it.
NOT_ON_AN_OLD_ONE = ("task_depend", "icvs_env", "icvs")
WHEEL = [parameter for parameter in PROGRAMS if parameter.values[0] not in NOT_ON_AN_OLD_ONE]


@pytest.mark.parametrize(("program", "compiler"), WHEEL)
@pytest.mark.quick(
    "nested-gcc",
    "critical-gcc",
    "between-gcc",
    "task_tree-gcc",
    "task_queued-gcc",
    "taskloop-gcc",
    "deadlock-gcc",
    "fortran-gfortran",
    "interrupted-gcc",
    "cplusplus-g++",
    "modules-gfortran",
)
def test_of_a_library_of_a_wheel(program: str, compiler: str) -> None:
    # The library is older than any table's release, and no table names it: its routines' reads show which table fits.
    found = compare(on_libgomp(program, compiler, runtime="libgomp-wheel", env={"OMP_NESTED": "true"}))
    assert found.differences == []
    told, known = facts_told(found), json.loads(FACTS.read_text())[program]
    assert {key: count for key, count in known.items() if told.get(key, 0) < count} == {}


@pytest.mark.parametrize("program", ["nested", "task_stack", "nest_lock", "ordered", "shrunk_pool"])
def test_of_gdbs_cores(program: str) -> None:
    assert compare(on_libgomp(program, kind="gcore")).differences == []


@pytest.mark.parametrize("program", ["nested", "lock", "task_tree", "between"])
def test_of_processes_that_run(program: str, tmp_path: Path) -> None:
    with running(program, mode="neither", runtime="libgomp", folder=tmp_path) as alive:
        assert compare(alive).differences == []


@pytest.mark.parametrize("flags", [("-O2",), ("-O2", "-fno-omit-frame-pointer"), ("-O1", "-gdwarf-4")], ids=" ".join)
@pytest.mark.parametrize("program", ["task_stack", "callbacks", "deep", "orphaned"])
@pytest.mark.quick("task_stack--O2", "callbacks--O1 -gdwarf-4", "deep--O2", "orphaned--O2 -fno-omit-frame-pointer")
def test_of_optimised_programs(program: str, flags: tuple[str, ...]) -> None:
    if flags != ("-O2",) and not FULL and program != "task_stack":
        pytest.skip("only with OMPD_FULL=1")
    found = compare(on_libgomp(program, flags=flags))
    assert [text for text in found.differences if ".stack" not in text] == []


def test_before_the_first_region() -> None:
    with Session.open_core(on_libgomp("no_region").core) as session:
        (runtime,) = session.runtimes
        assert not runtime.is_initialised and "no OpenMP construct has run yet" in str(runtime.fault)


def write_facts() -> None:
    """Write the number of facts told of each program anew."""
    facts: dict[str, dict[str, int]] = {}
    for parameter in PROGRAMS:
        program, compiler = map(str, parameter.values)
        found = compare(on_libgomp(program, compiler))
        if found.differences:
            sys.exit(f"{program}: {found.differences}")
        facts[program] = facts_told(found)
    FACTS.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    write_facts()
