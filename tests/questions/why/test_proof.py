"""Waits that something unrecorded can end: programs of ``fixtures/proof`` that look stuck and go on, and stuck twins.

Each program waits at a moment for which no record shows who will free it. There ``why`` is asked about it as a live
process and as a core. Then the program goes on, and ends well. Nothing may be proven of the program; its twin must be.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.support.proof import Proof, asked, at_rest, named, proofs_in
from tests.support.runs import READY_SECONDS
from tests.support.why import GNU, OF_COMPILER

# Nothing is proven of locks without a recorded owner; these locks record one.
WITH_OWNER = {"KMP_LOCK_KIND": "tas"}
CPLUSPLUS = ("g++", "clang++")
NUMBERED = ("-DPASSED", "-no-pie", "-fno-pie")  # with these, addresses of functions are numbers in the code
AWAKE = {"KMP_BLOCKTIME": "infinite"}  # threads that sleep in a barrier do not wake up for tasks

PROOFS = (
    Proof("cancelled", compilers=("gcc",), environment={"OMP_CANCELLATION": "true"}),
    Proof("by_task", ("depends",), compilers=("gcc",), runtimes=(GNU,)),
    Proof("by_task", ("depends",), compilers=("clang",), environment=AWAKE),
    Proof("by_task", ("created",), environment=AWAKE),
    Proof("untied", compilers=("clang",), environment=WITH_OWNER),
    Proof("interrupted", case=(), stuck=("stuck",)),
    Proof("caught", case=("unsets",), stuck=("unsets", "stuck"), signal=signal.SIGHUP),
    Proof("caught", case=("posts",), stuck=None, signal=signal.SIGTERM),
    Proof("caught", case=("ends",), stuck=("ends", "stuck"), flags=("-DENDS",), signal=signal.SIGUSR2),
    Proof("caught", case=("alarm",), stuck=("alarm", "stuck"), signal=signal.SIGALRM),
    Proof("hidden", ("passed",), ("stuck", "passed"), ("gcc",), flags=NUMBERED, signal=signal.SIGUSR1),
    Proof("hidden", ("table",), ("stuck", "table"), flags=("-DTABLE",), signal=signal.SIGUSR1),
    Proof("hidden", ("called",), ("stuck", "called"), flags=("-DCALLED",), signal=signal.SIGUSR1),
    Proof("hidden", ("raised",), ("stuck", "raised"), flags=("-DRAISED", "-O2"), signal=signal.SIGUSR1),
    Proof("ended"),
    Proof("forked"),
    Proof("forked", ("goes-on", "thread"), None),
    Proof("robust"),
    Proof("waitv"),
    Proof("cloned", ways=("live",)),
    Proof("inherits"),
    Proof("streams"),
    Proof("doacross"),
    *(
        Proof("standard", ("goes-on", what), ("stuck", what), CPLUSPLUS, flags=("-std=c++20",))
        for what in ("latch", "barrier", "future", "guard", "once")
    ),
    *(
        Proof("standard", ("goes-on", what), ("stuck", what), CPLUSPLUS, flags=("-std=c++20", "-O2"))
        for what in ("latch", "barrier")
    ),
    *(Proof("counted", ("goes-on", what), ("stuck", what)) for what in ("readers", "barrier")),
    *(Proof("inlined", flags=(level,)) for level in ("-O0", "-O2", "-O3")),
    *(Proof("jumped", flags=(level,)) for level in ("-O0", "-O2")),
)
CASES = [
    (proof, compiler, runtime)
    for proof in PROOFS
    for compiler in proof.compilers
    for runtime in OF_COMPILER[compiler]
    if runtime in proof.runtimes
]


@pytest.mark.parametrize(("proof", "compiler", "runtime"), CASES, ids=named)
@pytest.mark.quick(
    "standard-goes-on-latch-g++-libomp-14",
    "caught-unsets-gcc-intel",
    "untied-goes-on-clang-libomp-19",
    "hidden-passed-gcc-intel",
    "standard-goes-on-guard-clang++-intel",
    "ended-goes-on-gcc-intel",
    "interrupted-gcc-libgomp",
    "cloned-goes-on-clang-libomp-19",
    "caught-posts-clang-libomp-19",
    "forked-goes-on-clang-libomp-19",
    "streams-goes-on-clang-libomp-14",
    "robust-goes-on-clang-libomp-14",
    "standard-goes-on-once-g++-libomp-14",
    "by_task-depends-gcc-libgomp",
    "hidden-called-gcc-libgomp",
    "cancelled-goes-on-gcc-libgomp",
    "inherits-goes-on-gcc-libgomp",
    "standard-goes-on-future-g++-libomp-14",
    "waitv-goes-on-gcc-intel",
    "counted-goes-on-readers-clang-intel",
    "inlined-goes-on-O2-gcc-libgomp",
    "jumped-goes-on-O2-clang-libomp-14",
)
def test_nothing_is_proven_of_a_program_that_can_go_on(
    proof: Proof, compiler: str, runtime: str, tmp_path: Path
) -> None:
    with at_rest(proof, proof.case, compiler, runtime) as (process, process_id):
        proofs = proofs_in(asked(process_id, tmp_path))
        if proof.signal is not None:
            os.kill(process.pid, proof.signal)
        process.communicate(timeout=READY_SECONDS)  # this closes its standard input
        assert process.returncode == 0
    assert {way: proofs[way] for way in proof.ways} == {way: [] for way in proof.ways}


@pytest.mark.parametrize(
    ("proof", "compiler", "runtime"), [case for case in CASES if case[0].stuck is not None], ids=named
)
@pytest.mark.quick(
    "standard-goes-on-barrier-clang++-intel",
    "by_task-depends-clang-libomp-19",
    "doacross-goes-on-gcc-libgomp",
    "by_task-created-clang-libomp-19",
    "hidden-table-clang-libomp-14",
    "hidden-raised-O2-gcc-libgomp",
    "forked-goes-on-gcc-intel",
    "caught-ends-clang-libomp-19",
    "caught-alarm-gcc-libgomp",
    "ended-goes-on-clang-libomp-14",
    "interrupted-gcc-libgomp",
    "inlined-goes-on-O3-clang-libomp-19",
    "jumped-goes-on-O2-gcc-libgomp",
)
def test_its_twin_is_proven_to_be_stuck(proof: Proof, compiler: str, runtime: str, tmp_path: Path) -> None:
    assert proof.stuck is not None
    with at_rest(proof, proof.stuck, compiler, runtime) as (_, process_id):
        answers = asked(process_id, tmp_path)
        assert all(proofs_in(answers).values()), answers


COUNTED = {
    "standard-goes-on-latch": "std::latch &latch (1 to count down)",
    "standard-goes-on-barrier": "std::barrier &barrier (2 of 3 arrived)",
    "counted-goes-on-readers": "read-write lock &table (held by 1 reader)",
    "counted-goes-on-barrier": "POSIX barrier &meeting (1 of 2 arrived)",
}


@pytest.mark.parametrize(
    ("proof", "compiler", "runtime"),
    [case for case in CASES if case[0].name.removesuffix("-O2") in COUNTED],
    ids=named,
)
@pytest.mark.quick(
    "standard-goes-on-latch-clang++-intel",
    "standard-goes-on-barrier-O2-g++-libgomp",
    "counted-goes-on-readers-gcc-libgomp",
    "counted-goes-on-barrier-clang-libomp-19",
)
def test_an_object_that_counts_threads_says_how_many_are_missing(
    proof: Proof, compiler: str, runtime: str, tmp_path: Path
) -> None:
    assert proof.stuck is not None
    with at_rest(proof, proof.stuck, compiler, runtime) as (_, process_id):
        answers = asked(process_id, tmp_path)
    for answer in answers.values():
        objects = {link.object for verdict in answer.rows for link in verdict.cycle}
        assert COUNTED[proof.name.removesuffix("-O2")] in objects
