"""Programs of ``tests/var``, and the answers about their variables."""

from __future__ import annotations

from typing import Any

import pytest

from ompd.errors import NoAnswer
from ompd.inspection import Inspection
from ompd.model import VariableRecord
from tests.support.variables import Recipe, Told

RECIPES = {
    recipe.id: (recipe, mechanism)
    for recipe, mechanism in (
        (Recipe("threads", "gcc"), "tls"),
        (Recipe("threads", "gcc", ("-O2",)), "tls"),
        (Recipe("threads", "gcc", ("-fPIC", "-mtls-dialect=gnu2")), "tls"),
        (Recipe("threads", "gcc", ("-O2", "-flto")), "tls"),
        (Recipe("threads", "gcc", ("-gsplit-dwarf",)), "tls"),
        (Recipe("threads", "gcc", ("-gdwarf-4", "-fdebug-types-section", "-gz")), "tls"),
        (Recipe("threads", "clang"), "tls"),
        (Recipe("threads", "clang", ("-gsplit-dwarf", "-fnoopenmp-use-tls")), "cached"),
        (Recipe("threads", "clang", ("-O2",)), "tls"),
        (Recipe("threads", "clang", ("-fnoopenmp-use-tls",)), "cached"),
        (Recipe("threads", "clang", ("-O2", "-fnoopenmp-use-tls")), "cached"),
        (Recipe("threads", "clang", ("-femulated-tls",)), "emutls"),
        (Recipe("threads", "clang", ("-O2", "-femulated-tls")), "emutls"),
        (Recipe("members", "gcc"), "tls"),
        (Recipe("members", "gcc", ("-O2",)), "tls"),
        (Recipe("members", "clang"), "tls"),
        (Recipe("members", "clang", ("-O2",)), "tls"),
        (Recipe("fortran", "gfortran"), "tls"),
        (Recipe("fortran", "gfortran", ("-O2",)), "tls"),
        (Recipe("fortran", "flang-19"), "cached"),
        (Recipe("fortran", "flang-22"), "cached"),
        (Recipe("fortran", "flang-22", ("-O2",)), "cached"),
    )
}


# Variables other than the program's own threadprivate ones.
OTHER_MECHANISMS = {
    "global": "global",
    "linked_variable": "tls",
    "opened_variable": "tls",
    "ns::Base::common": "global",
    "m::shared": "global",
    "/ordinary/plain": "global",
}


NATIVE_IN_CACHED = ("native", "small")
# LLVM's Fortran compiler gives a location only to the first member of a COMMON block, and release 19 to none.
UNTOLD = {
    "flang-19": ("/block/first", "/block/three", "/block/last", "/ordinary/plain"),
    "flang-22": ("/block/three", "/block/last"),
}


COMPARED = {"threads": 8, "members": 9, "fortran": 9}  # least number of values per thread of a team


def check(session: Inspection, told: Told, name: str, *, lacking: str | None = None) -> None:
    recipe, mechanism = RECIPES[name]
    variables = dict.fromkeys(key for thread in told.threads for key in thread["variables"])
    compared = 0
    for variable in variables:
        if variable == lacking:
            continue
        if variable in UNTOLD.get(recipe.compiler, ()) or variable in UNTOLD.get(name, ()):
            with pytest.raises(NoAnswer):
                session.ask_var(variable)
            continue
        answer = session.ask_var(variable)
        assert answer.complete, answer.warnings
        rows = {row.native_thread_id: row for row in answer.rows}
        expected = OTHER_MECHANISMS.get(variable, mechanism)
        if mechanism == "cached" and variable in NATIVE_IN_CACHED:
            expected = "tls"
        for thread in told.threads:
            row = rows[thread["id"]]
            assert row.mechanism == expected, (variable, row)
            assert (row.thread_num if row.runtime is not None else -1) == thread["number"]
            fact = thread["variables"].get(variable)
            if fact is not None:
                compared += compare(variable, row, fact)
    teams = sum(thread["number"] >= 0 for thread in told.threads)
    assert compared >= (COMPARED[recipe.name] - len(UNTOLD.get(name, ()))) * teams, compared


def compare(variable: str, row: VariableRecord, fact: dict[str, Any]) -> int:
    if fact["address"] is None:
        # Variables in the program's own block have storage in every thread.
        if row.mechanism != "tls" or variable == "opened_variable":
            assert (row.address, row.value, row.text) == (None, None, None), (variable, row)
            assert not row.unavailable
        return 1
    assert row.value == fact["value"], (variable, row, fact)
    if variable != "m::mal":  # its value is behind a descriptor
        assert row.address == fact["address"], (variable, row, fact)
    return 1
