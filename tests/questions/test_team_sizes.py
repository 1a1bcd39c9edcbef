"""The number of threads that a region requested, and what gave its team fewer, compared with what programs know."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from ompd.model import ParallelRecord
from ompd.questions import regions
from ompd.session import Session
from tests.support.products import sample
from tests.support.runs import write_gcore
from tests.support.runtimes import INTEL
from tests.support.team_sizes import SCENARIOS, Scenario, build_sizes, running_sizes

OF_CPLUSPLUS = {name: Scenario(name, is_known=name == "constant") for name in ("member", "constant", "lambda")}
OF_FORTRAN = {name: SCENARIOS[name] for name in ("constant", "variable", "no_clause")}
# The compiler, and the runtime that its code uses.
BUILDS = (("gcc", "libgomp"), ("clang", INTEL), ("clang", "libomp-19"), ("gcc", INTEL), ("clang", "libomp-14"))


BUILDS_OF_CPLUSPLUS = (("g++", "libgomp"), ("clang++", INTEL))
OPTIONS, KINDS = ("-O0", "-O2"), ("live", "core")


def innermost(session: Session) -> ParallelRecord:
    answer = session.ask(regions.ask)
    assert answer.complete, answer.warnings
    return max(answer.rows, key=lambda row: row.level or 0)


def check(row: ParallelRecord, scenario: Scenario, requested: int, got: int, *, is_known: bool) -> None:
    assert row.team_size == got
    assert row.requested in (None, requested), row
    if row.requested is None:
        assert not is_known, row.unavailable
        assert row.unavailable["requested"] and row.unavailable["reduced_by"]
        assert row.requested_by is row.reduced_by is row.reduction is None
        return
    assert row.requested_by in (scenario.by, "num_threads" if scenario.by == "if" else scenario.by)
    if requested == got:
        assert row.reduced_by is None
        assert "reduced_by" not in row.unavailable
    else:
        assert (row.reduced_by, row.reduction) == (scenario.reduced_by, scenario.reduction), row.unavailable


@pytest.mark.parametrize(("name", "built", "flags", "kind"), sample(product(SCENARIOS, BUILDS, OPTIONS, KINDS)))
def test_request_is_that_of_the_program(
    name: str, built: tuple[str, str], flags: str, kind: str, tmp_path: Path
) -> None:
    ask_and_check("c", SCENARIOS[name], built, flags, kind, tmp_path)


@pytest.mark.parametrize(("name", "built", "flags"), sample(product(OF_CPLUSPLUS, BUILDS_OF_CPLUSPLUS, OPTIONS)))
def test_request_of_a_program_in_cplusplus(name: str, built: tuple[str, str], flags: str, tmp_path: Path) -> None:
    ask_and_check("cc", OF_CPLUSPLUS[name], built, flags, "live", tmp_path)


@pytest.mark.parametrize(("name", "flags"), sample(product(OF_FORTRAN, OPTIONS)))
def test_request_of_a_program_in_fortran(name: str, flags: str, tmp_path: Path) -> None:
    ask_and_check("f90", OF_FORTRAN[name], ("gfortran", "libgomp"), flags, "live", tmp_path)


def ask_and_check(suffix: str, scenario: Scenario, built: tuple[str, str], flags: str, kind: str, folder: Path) -> None:
    compiler_name, runtime = built
    program = build_sizes(suffix, compiler_name, runtime, (flags,))
    # Without optimisation the frames keep the values of parameters. Fortran passes addresses.
    is_known = scenario.is_known or (suffix, flags, scenario.name) == ("c", "-O0", "variable")
    with running_sizes(program, scenario) as (process_id, requested, got):
        if kind == "live":
            with Session.attach(process_id) as session:
                check(innermost(session), scenario, requested, got, is_known=is_known)
            return
        write_gcore(process_id, folder / "core")
    with Session.open_core(folder / "core") as session:
        check(innermost(session), scenario, requested, got, is_known=is_known)
