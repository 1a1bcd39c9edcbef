"""Programs that hang for a known reason, see ``fixtures/programs/why/why.h``: they are where they say."""

from __future__ import annotations

from typing import Any

import pytest

from ompd.questions import threads
from ompd.session import Session
from tests.support.products import sample
from tests.support.why import SOURCES, WHYS, Why, hung

CASES = [(why, compiler, runtime) for why in WHYS.values() for compiler, runtime in why.pairs()]


def _pairs(why: Why, compiler: str, runtime: str) -> list[Any]:
    return [why.name, (compiler, runtime), (why.program, runtime)]


every_pair = pytest.mark.parametrize(
    ("why", "compiler", "runtime"), sample(CASES, _pairs), ids=lambda one: getattr(one, "name", one)
)


def test_every_program_has_its_cases() -> None:
    assert {path.stem for path in SOURCES.iterdir() if path.suffix != ".h"} - {"why"} == {
        why.program for why in WHYS.values()
    }


@every_pair
def test_threads_block_where_the_program_says(why: Why, compiler: str, runtime: str) -> None:
    core = hung(why, compiler, runtime)
    with Session.open_core(core.core) as session:
        rows = {row.native_thread_id: row for row in threads.ask(session).rows}
    for thread in core.truth["threads"]:
        row = rows[thread["native_thread_id"]]
        assert thread["thread_num"] in (row.thread_num, None)
        if thread["line"] is not None:
            assert row.where is not None
            assert (row.where.function, row.where.line) == (thread["function"], thread["line"])
        if row.wait is not None and thread["object"] is not None:
            assert thread["object"] in str(row.wait.symbol)
    assert core.truth["watcher"] not in rows
