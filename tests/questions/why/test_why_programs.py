"""Programs that hang for a known reason, see ``fixtures/programs/why/why.h``: threads are where they say they are."""

from __future__ import annotations

import pytest

from ompd.questions import stacks, threads
from ompd.session import Session
from tests.support.products import sample
from tests.support.why import GNU, PAIRS, SOURCES, WHYS, Why, axes_of, hung, named, plain

every_pair = pytest.mark.parametrize(("why", "compiler", "runtime", "mode"), sample(PAIRS, axes_of), ids=named)


def test_every_program_has_its_cases() -> None:
    assert {path.stem for path in SOURCES.iterdir() if path.suffix != ".h"} - {"why"} == {
        why.program for why in WHYS.values()
    }


@every_pair
@pytest.mark.quick(
    "self_lock-lock-clang-libomp-19-debug",
    "lock_abandoned-mutex-clang-libomp-19-neither",
    "external_wait-condition-clang-intel-neither",
    "exception-lock-g++-libgomp-neither",
    "guards-section-clang++-libomp-19-neither",
    "parted-inlined-g++-libomp-14-neither",
    "conditions-state-clang-libomp-14-debug",
    "locks-cycle-gfortran-libgomp-neither",
)
def test_threads_block_where_the_program_says(why: Why, compiler: str, runtime: str, mode: str) -> None:
    core = hung(why, compiler, runtime, mode=mode)
    with Session.open_core(core.core) as session:
        rows = {row.native_thread_id: row for row in threads.ask(session).rows}
        frames = {row.native_thread_id: row.frames for row in stacks.ask(session).rows}
    for thread in core.truth["threads"]:
        native = thread["native_thread_id"]
        row = rows[native]
        if row.runtime is not None and thread["thread_num"] is not None and why.second is None:
            assert row.thread_num == thread["thread_num"]
        if thread["line"] is not None:
            # For a guard, the innermost frame is in a header.
            assert (thread["function"], thread["line"]) in {
                (plain(frame.function), frame.line) for frame in frames[native]
            }
        # gfortran's locks are smaller than the locks that LLVM's runtime expects, and no variable is found for them.
        is_named = runtime == GNU or compiler != "gfortran"
        if row.wait is not None and thread["object"] is not None and is_named:
            assert thread["object"] in str(row.wait.symbol)
    assert core.truth["watcher"] not in rows
