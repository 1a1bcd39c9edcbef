"""Programs that go on, at any moment: ``why`` proves nothing of them to be stuck.

30 moments; with ``OMPD_FULL=1`` 1,000, and as many of the campaign's programs. The folder ``OMPD_PROGRAMS`` has the
sources of these programs.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path

import pytest

import ompd
from ompd.errors import BadProcess, NoAnswer, TargetGone
from ompd.model import VerdictRecord
from ompd.questions import why as question
from ompd.questions.snapshot import take_snapshot
from ompd.questions.why.looks import look_before
from tests.campaign import kinds
from tests.campaign.programs import RECIPES, Built, built
from tests.support import FULL, clean_environment
from tests.support.live import build_live, working
from tests.support.machine import Missing
from tests.support.products import sample
from tests.support.why import LLVMS, OF_COMPILER

MOMENTS = 1000 if FULL else 30
PROGRAMS = os.environ.get("OMPD_PROGRAMS")
# LLVM's runtime lacks the functions that gcc calls for a detach clause.
CASES = [
    (program, compiler, runtime, policy)
    for program, compiler in product(("moves", "busy", "serves", "hands_over"), ("gcc", "clang"))
    for runtime in OF_COMPILER[compiler]
    for policy in (("passive", "active") if FULL else ("passive",))  # active is slow
]
CHOSEN = sample(CASES)


def proofs(process_id: int, number: int) -> Iterator[str]:
    """Yield what is proven at this moment, in turn about the process, about the process at two moments, and about a
    small core of it.
    """
    for verdict in _verdicts(process_id, number % 3):
        if verdict.stuck == "proven":
            yield f"moment {number}: {verdict.kind}: {verdict.summary}"


def _verdicts(process_id: int, way: int) -> tuple[VerdictRecord, ...]:
    with ompd.attach(process_id) as session:
        if way == 0:
            return session.ask(question.ask).rows
        if way == 1:
            earlier = look_before(session, 2, 0)
            return session.ask(lambda session: question.ask(session, earlier)).rows
        with tempfile.TemporaryDirectory() as folder:
            take_snapshot(session, Path(folder) / "core")
            with ompd.open_core(Path(folder) / "core") as core:
                return question.ask(core).rows


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("program", "compiler", "runtime", "policy"), CHOSEN)
@pytest.mark.quick("moves-gcc-libgomp-passive", "busy-clang-libomp-19-passive")
def test_nothing_is_proven_of_a_program_that_moves(program: str, compiler: str, runtime: str, policy: str) -> None:
    has_detach = runtime in LLVMS if compiler == "clang" else runtime not in LLVMS
    flags = ("-DDETACHES",) if program == "moves" and has_detach else ()
    executable = build_live(program, runtime=runtime, compiler_name=compiler, flags=flags)
    is_awake = policy == "active" or program == "serves"
    environment = {"OMP_WAIT_POLICY": policy, **({"KMP_BLOCKTIME": "infinite"} if is_awake else {})}
    threads = "2" if program == "serves" else "4"  # of more threads, most are at work most of the time
    with working(program, threads, executable=executable, env=environment) as worker:
        found = [proof for number in range(-(-MOMENTS // len(CHOSEN))) for proof in proofs(worker.pid, number)]
        assert "rounds" in worker.finish()
    assert found == []


# Third-party programs


def of_a_run(program: Built, folder: Path, moments: int) -> tuple[int, list[str]]:
    """Run a third-party program. Return the number of moments looked at before it ended, and the proofs."""
    process = subprocess.Popen(
        program.words,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**clean_environment(), **program.environment},
        start_new_session=True,
    )
    found: list[str] = []
    number = 0
    try:
        kinds.await_runtime(process)
        while number < moments and process.poll() is None:
            with suppress(NoAnswer, TargetGone, BadProcess):  # it has not begun with OpenMP, or it has ended
                found += proofs(process.pid, number)
                number += 1
    finally:
        process.kill()
        process.wait()
    return number, [f"{program.title}: {proof}" for proof in found]


@pytest.mark.skipif(not FULL, reason="takes half an hour: make test-full")
@pytest.mark.timeout(14_400)
def test_nothing_is_proven_of_programs_of_others(tmp_path: Path) -> None:
    if PROGRAMS is None:
        raise Missing("programs of the campaign", "OMPD_PROGRAMS does not name the folder of their sources")
    programs = list(built(Path(PROGRAMS), tmp_path, [recipe.name for recipe in RECIPES]))
    if not programs:
        raise Missing("programs of the campaign", f"{PROGRAMS} has none of their unpacked sources")
    found: list[str] = []
    left = MOMENTS
    for turn, program in enumerate(programs):
        number, proven = of_a_run(program, tmp_path, left // (len(programs) - turn))
        found += proven
        left -= number
    print(f"{MOMENTS - left} moments of {len(programs)} programs")
    assert found == []
    assert left < MOMENTS
