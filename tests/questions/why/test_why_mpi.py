"""``why`` on a rank of Open MPI or MPICH that waits for another rank: the verdict names the call and the other rank."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import pytest

import ompd
from ompd.model import WhyAnswer
from ompd.questions import why as question
from ompd.questions.why.system import system_wait
from tests.support.mpi import build, launch_words
from tests.support.outside import LONG, Words, waiting
from tests.support.products import sample
from tests.support.runs import write_gcore

CALLS = {
    "recv": ("MPI_Recv", "from rank 1, tag 7, of MPI_COMM_WORLD"),
    "any": ("MPI_Recv", "from any rank, any tag, of MPI_COMM_WORLD"),
    "send": ("MPI_Ssend", "to rank 1, tag 7, of MPI_COMM_WORLD"),
    "barrier": ("MPI_Barrier", "of MPI_COMM_WORLD"),
    "allreduce": ("MPI_Allreduce", "of MPI_COMM_WORLD"),
}
LEVELS = ("-O0", "-O2")
LIBRARIES = ("openmpi", "mpich")  # named as in tools.toml


@contextmanager
def communicating(library: str, case: str, level: str, folder: Path) -> Iterator[Words]:
    """Run the two ranks until the first rank's thread is in its call and its other threads sleep.

    :raises FileNotFoundError: if the ranks end before
    """
    launcher, options, environment = launch_words(library)
    words = [*options, "-n", "2", str(build(library, level)), case]
    with waiting(launcher, folder, *words, environment=environment, names=("main", "communicates")) as (_, said):
        rank, thread = said.thread("main"), said.thread("communicates")
        while not (_sleeps(rank) and _is_in_mpi(rank, thread)):
            pass  # each look stops the process for a moment
        yield said


def _sleeps(thread: int) -> bool:
    return Path(f"/proc/{thread}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def _is_in_mpi(process_id: int, thread: int) -> bool:
    with ompd.attach(process_id, max_stop=LONG) as session:
        wait = session.ask(lambda session: system_wait(session, thread))
    return wait is not None and wait.kind == "mpi"


def answer_of(process_id: int, kind: str, folder: Path) -> WhyAnswer:
    if kind == "live":
        with ompd.attach(process_id, max_stop=LONG) as session:
            return session.ask(question.ask)
    write_gcore(process_id, folder / "core")
    with ompd.open_core(folder / "core") as session:
        return question.ask(session)


@pytest.mark.parametrize(
    ("library", "case", "level", "kind"),
    sample([*product(LIBRARIES, CALLS, LEVELS, ("live", "core"))], lambda *case: [case[:2], *case[1:]]),
)
@pytest.mark.quick("openmpi-send--O0-live", "mpich-recv--O2-core")
def test_a_team_waits_for_its_thread_that_waits_for_another_rank(
    library: str, case: str, level: str, kind: str, tmp_path: Path
) -> None:
    with communicating(library, case, level, tmp_path) as words:
        main, thread = words.thread("main"), words.thread("communicates")
        answer = answer_of(main, kind, tmp_path)
    first = answer.rows[0]
    routine, peer = CALLS[case]
    assert (first.kind, first.stuck, first.confidence) == ("external_wait", "possible", "proven")
    assert first.summary == f"2 threads wait for thread 1 ({thread}), which is in {routine} {peer}"
    assert first.roots == (thread,) and main in first.explains
    assert first.place is not None and first.place.function in ("communicate", "main")
    assert [row for row in answer.rows if row.stuck == "proven"] == []
