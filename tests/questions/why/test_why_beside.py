"""``why`` with waiting threads that are not OpenMP's: in another library's pool, or for anything else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import ompd
from ompd.questions.why.system import system_wait
from tests.support.command import ompd as command
from tests.support.outside import Words, build_outside, waiting
from tests.support.runs import write_gcore

OPENBLAS = "the thread pool of OpenBLAS"


@pytest.fixture(scope="module")
def pools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Words]:
    folder = tmp_path_factory.mktemp("pools")
    with waiting(build_outside("pools", ["-fopenmp"]), folder) as (process, words):
        write_gcore(process.pid, folder / "core")
        yield Words(folder / "core", words.said)


def test_a_thread_of_a_library_s_pool_is_idle(pools: Words) -> None:
    assert isinstance(pools.place, Path)
    with ompd.open_core(pools.place) as session:
        found = {thread: system_wait(session, thread) for thread in pools.said}
    assert {pools.said[thread]["name"]: wait and (wait.kind, wait.pool) for thread, wait in found.items()} == {
        "OpenBLAS": ("condition", OPENBLAS),
        "other pool": ("condition", None),
        "main": None,
    }


def test_what_waits_beside_openmp_comes_last_and_decides_nothing(pools: Words) -> None:
    done = command("why", str(pools.place), "--json", "--exit-code")
    first, other = done.json["why"]
    assert done.code == 12
    assert (first["kind"], first["summary"]) == ("no_stall", "no hang seen: 2 OpenMP threads at work, none waits")
    # The OpenBLAS thread is in no verdict.
    assert (other["kind"], other["explains"]) == ("external_wait", [pools.thread("other pool")])
    assert pools.thread("OpenBLAS") not in [thread for row in (first, other) for thread in row["roots"]]
