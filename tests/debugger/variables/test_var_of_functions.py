"""``var`` of a variable of functions: as in ``stack --locals``, in the innermost function of each thread."""

from __future__ import annotations

import pytest

import ompd
from ompd.errors import BadInput, NoAnswer
from tests.support import Stopped, stopped


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("name", ["change", "step", "cells"])
def test_each_thread_has_that_of_its_innermost_function(name: str, compiler: str) -> None:
    with ompd.open_core(stopped("hang", compiler=compiler).core) as session:
        expected = {}
        for row in session.stack(locals=True):
            named = [(f.function, v) for f in row.frames if f.kind == "user" for v in f.locals or () if v.name == name]
            if named:
                expected[row.native_thread_id] = named[0]
        if not expected:
            with pytest.raises(NoAnswer, match=f"no variable {name}"):
                session.var(name)
            return
        found = session.var(name, stats=True)
        assert {row.native_thread_id for row in found} == set(expected)
        for row in found:
            function, variable = expected[row.native_thread_id]
            assert (row.mechanism, row.function, row.sharing) == ("local", function, variable.sharing)
            assert (row.text, row.value, row.address) == (variable.text, variable.value, variable.address)
        assert found.stats is not None and found.stats.count == sum(row.text is not None for row in found)
        assert ("SHARING" in str(found)) and all(row.function in str(found) for row in found if row.function)


def hang() -> Stopped:
    return stopped("hang", compiler="gcc")


def test_a_static_variable_comes_first_and_has_formats() -> None:
    with ompd.open_core(hang().core) as session:
        (row, *_) = session.var("last_change")
        assert row.mechanism == "global" and row.function is None
        with pytest.raises(BadInput, match="change is a variable of a function"):
            session.var("change", format="x")


def test_a_qualified_name_is_no_variable_of_a_function() -> None:
    with ompd.open_core(hang().core) as session, pytest.raises(NoAnswer):
        session.var("nowhere::change")
