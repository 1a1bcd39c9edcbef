"""The right kind of verdict for compiled code: programs of ``fixtures/causes`` at each level of optimisation."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from tests.support.cache import CHECKOUT
from tests.support.live import SOURCES as LIVE
from tests.support.products import sample
from tests.support.proof import SOURCES as PROOFS
from tests.support.proof import Proof, asked, at_rest, named
from tests.support.why import GNU, LLVMS, OF_COMPILER, STEADY

CAUSES = CHECKOUT / "fixtures" / "causes"
LEVELS = ("-O0", "-O1", "-O2", "-O3")
TEST_AND_SET = {"KMP_LOCK_KIND": "tas"}
ANY_STUCK = ("proven", "likely")


def cause(program: str, folder: Path = CAUSES, **options: object) -> Proof:
    return Proof(program, stuck=None, folder=folder, **{"case": (), **options})  # type: ignore[arg-type]


# For each program the right kind, and the accepted certainties that its threads are stuck.
KINDS = (
    (cause("crossed", LIVE), "lock_cycle", ("proven",)),
    (cause("crossed", LIVE, flags=("-fno-inline",)), "lock_cycle", ("proven",)),
    (cause("crossed", LIVE, flags=("-DALLOCA",)), "lock_cycle", ("proven",)),
    (cause("taskgroups", environment=STEADY), "lock_cycle", ("proven",)),
    (cause("atomic"), "lock_cycle", ("proven",)),
    (cause("unnamed"), "lock_cycle", ("proven",)),
    (cause("combiner"), "lock_cycle", ("proven",)),
    (
        cause("combiner", compilers=("clang",), environment={"KMP_FORCE_REDUCTION": "critical"}),
        "lock_cycle",
        ("proven",),
    ),
    *(
        (cause("doacross", PROOFS, case=(what,), runtimes=runtimes), "lock_cycle", sure)
        for what in ("stuck", "never")
        for runtimes, sure in ((LLVMS, ("proven",)), ((GNU,), ANY_STUCK))
    ),
    (cause("jumped"), "lock_abandoned", ("proven",)),
    (cause("twice"), "self_lock", ANY_STUCK),
    (cause("twice", runtimes=LLVMS, environment=TEST_AND_SET), "self_lock", ANY_STUCK),
    (cause("handler", flags=("-g0",)), "runtime_reentry", ANY_STUCK),
)
CASES = [
    (replace(proof, flags=(level, *proof.flags)), compiler, runtime, kind, stuck)
    for (proof, kind, stuck), level in product(KINDS, LEVELS)
    for compiler in proof.compilers
    for runtime in OF_COMPILER[compiler]
    if runtime in proof.runtimes
]


@pytest.mark.parametrize(("proof", "compiler", "runtime", "kind", "stuck"), CASES, ids=named)
@pytest.mark.quick(
    "jumped-O1-clang-libomp-19-*",
    "handler-O0-clang-libomp-14-*",
    "twice-O2-gcc-libomp-19-*",
    "taskgroups-O3-clang-libomp-19-*",
    "atomic-O2-gcc-libgomp-*",
    "unnamed-O0-gcc-intel-*",
    "crossed-O2-gcc-libgomp-*",
    "doacross-never-O0-gcc-libgomp-*",
    "combiner-O1-clang-intel-*",
)
def test_the_kind_is_right_at_each_level(
    proof: Proof, compiler: str, runtime: str, kind: str, stuck: tuple[str, ...], tmp_path: Path
) -> None:
    with at_rest(proof, proof.case, compiler, runtime) as (_, process_id):
        for way, answer in asked(process_id, tmp_path).items():
            first = answer.rows[0]
            assert (first.kind, first.stuck in stuck) == (kind, True), (way, first)


@pytest.mark.parametrize("level", sample(LEVELS[1:]))
@pytest.mark.quick("-O2")
def test_fortran_that_is_optimised_shows_who_holds_what(level: str, tmp_path: Path) -> None:
    with at_rest(cause("crossed_fortran", LIVE, flags=(level,)), (), "gfortran", GNU) as (_, process_id):
        for answer in asked(process_id, tmp_path).values():
            assert [(row.kind, row.stuck) for row in answer.rows] == [("lock_cycle", "proven")]
