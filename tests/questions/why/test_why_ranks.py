"""``why`` on a rank of an MPI job names the other ranks on this host in which threads wait."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from ompd.machine.ranks import RankProcess, other_ranks
from ompd.model import ChildRecord, OtherRanksRecord, TargetRecord, WhyAnswer
from ompd.model.kinds import Confidence, VerdictKind
from ompd.render.answers.why import why_lines
from tests.support.command import ompd as command
from tests.support.moments import first, lock, thread
from tests.support.mpi import build, launch_words
from tests.support.outside import until_it_waits, waiting
from tests.support.why import WHYS, hanging

STAT = "{0} (a) b) S {1} 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 3 0 100"
LIBRARY = "7f0000000000-7f0000001000 r-xp 00000000 08:01 1234   /opt/lib/libgomp.so.1\n"


def shown(folder: Path, number: int, *, parent: int = 1, threads: int = 1, **environment: str) -> None:
    """Make a folder of /proc for a process with this environment."""
    process = folder / str(number)
    for native in range(number, number + threads):
        (process / "task" / str(native)).mkdir(parents=True)
        (process / "task" / str(native) / "stat").write_text(STAT.format(native, parent))
    (process / "stat").write_text(STAT.format(number, parent))
    (process / "maps").write_text(LIBRARY)
    (process / "environ").write_bytes(b"".join(f"{name}={value}\0".encode() for name, value in environment.items()))


def open_mpi(rank: int, job: str) -> dict[str, str]:
    return {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_MCA_ess_base_jobid": job, "PMIX_NAMESPACE": job}


def hydra(rank: int) -> dict[str, str]:
    return {"PMI_RANK": str(rank), "PMI_FD": str(6 + rank)}


def slurm(rank: int, step: str, job: str = "4711") -> dict[str, str]:
    return {"SLURM_PROCID": str(rank), "SLURM_JOB_ID": job, "SLURM_STEP_ID": step}


@pytest.mark.parametrize(
    ("own", "same", "others"),
    [
        (open_mpi(0, "7"), open_mpi(1, "7"), [open_mpi(1, "8"), hydra(1), slurm(1, "0"), {}]),
        (slurm(0, "0"), slurm(1, "0"), [slurm(1, "1"), slurm(1, "0", "4712"), slurm(0, "0")]),
        # Two runs of Open MPI in one batch script inherit the same step.
        ({**slurm(0, "0"), **open_mpi(0, "7")}, {**slurm(0, "0"), **open_mpi(1, "7")},
         [{**slurm(0, "0"), **open_mpi(1, "8")}]),
    ],
)  # fmt: skip
def test_ranks_of_one_job_have_one_name_of_the_run(
    own: Mapping[str, str], same: Mapping[str, str], others: list[Mapping[str, str]], tmp_path: Path
) -> None:
    shown(tmp_path, 10, **own)
    for number, other in enumerate(others, 20):
        shown(tmp_path, number, **other)
    assert other_ranks(10, tmp_path) == ()
    shown(tmp_path, 30, **same)
    assert other_ranks(10, tmp_path) == (RankProcess(30, 1),)


def test_ranks_of_a_launcher_that_names_no_run_are_children_of_one_process(tmp_path: Path) -> None:
    shown(tmp_path, 10, parent=5, **hydra(0))
    shown(tmp_path, 11, parent=5, **hydra(1))
    shown(tmp_path, 12, parent=6, **hydra(2))
    assert other_ranks(10, tmp_path) == (RankProcess(11, 1),)


def test_what_a_rank_has_forked_is_no_other_rank(tmp_path: Path) -> None:
    for number, rank in ((10, 0), (11, 1), (12, 1), (13, 0)):
        shown(tmp_path, number, **open_mpi(rank, "7"))
    assert other_ranks(10, tmp_path) == (RankProcess(11, 1),)
    (tmp_path / "11" / "environ").unlink()  # it has ended, or is of another user
    assert other_ranks(10, tmp_path) == (RankProcess(12, 1),)
    (tmp_path / "10" / "environ").write_bytes(b"OMPI_COMM_WORLD_RANK=many\0PMIX_NAMESPACE=7\0\xff\0=\0")
    assert other_ranks(10, tmp_path) == ()


def test_a_rank_that_is_unlike_the_others_comes_first(tmp_path: Path) -> None:
    for rank in range(6):
        shown(tmp_path, 10 * (rank + 1), threads=5 if rank == 4 else 2, **open_mpi(rank, "7"))
    assert [other.rank for other in other_ranks(10, tmp_path)] == [4, 1, 2, 3, 5]


def text_with(ranks: OtherRanksRecord, **options: bool) -> list[str]:
    target = TargetRecord("live", "process 1", "/usr/bin/solve", 1, "solve", None, None, "x86_64", None)
    verdict = first(thread(0, lock("&a", 0)))
    return [line for line, _ in why_lines(WhyAnswer(target, (), (verdict,), True, (), other_ranks=ranks), **options)]


def test_many_ranks_are_counted() -> None:
    rows = tuple(
        ChildRecord(100 + rank, "solve", VerdictKind.SELF_LOCK, Confidence.PROVEN, "a deadlock", rank)
        for rank in range(1, 9)
    )
    lines = text_with(OtherRanksRecord(20, 16, rows))
    assert "Rank 1, process 101 (solve): a deadlock; certain: these threads never go on." in lines
    assert "… 5 more ranks (4-8) with waiting threads, shown with --all" in lines
    assert "16 of 20 other ranks on this host were looked at." in lines
    assert [line.split()[1:] for line in lines if line.startswith("  next") and " why " in line] == [
        ["ompd", "why", str(number)] for number in (101, 102, 103)
    ]
    whole = text_with(OtherRanksRecord(8, 8, rows), unfold=True)
    assert sum(line.startswith("Rank ") for line in whole) == 8 and not any("--all" in line for line in whole)


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[tuple[int, int, int]]:
    """Run two ranks of one job and one of another: the ranks 1 of both are in a deadlock, rank 0 is slow."""
    with ExitStack() as stack:
        numbers = []
        for number, (case, rank, job) in enumerate(
            (("laggard-barrier", 0, "7"), ("lock_cycle-nested", 1, "7"), ("lock_cycle-nested", 1, "8"))
        ):
            folder = tmp_path / str(number)
            folder.mkdir()
            hung = hanging(WHYS[case], "gcc", "libgomp", folder=folder, environment=open_mpi(rank, job))
            numbers.append(stack.enter_context(hung).pid)
        yield tuple(numbers)  # type: ignore[misc]


def test_the_rank_of_the_same_job_that_is_stuck_is_named(ranks: tuple[int, int, int]) -> None:
    slow, stuck, foreign = ranks
    done = command("why", str(slow))
    assert f"Rank 1, process {stuck} (" in done.out and f"  next       ompd why {stuck}\n" in done.out
    assert str(foreign) not in done.out
    others = command("why", str(slow), "--json").json["other_ranks"]
    (row,) = others.pop("waiting")
    assert others == {"on_host": 1, "inspected": 1}
    assert (row["process_id"], row["rank"], row["kind"], row["stuck"]) == (stuck, 1, "lock_cycle", "proven")
    # The rank that computes is looked at, and no reason to name it.
    assert command("why", str(stuck), "--json").json["other_ranks"] == {"on_host": 1, "inspected": 1, "waiting": []}
    assert command("why", str(foreign), "--json").json["other_ranks"] is None


@pytest.mark.parametrize("library", ["openmpi", "mpich"])
@pytest.mark.quick("mpich")
def test_ranks_at_the_barrier_of_mpi_name_the_one_that_is_stuck(library: str, tmp_path: Path) -> None:
    launcher, words, environment = launch_words(library)
    names = [f"rank {rank}" for rank in range(4)]
    words = [*words, "-n", "4", str(build(library, "-O0", "stuck_rank"))]
    with waiting(launcher, tmp_path, *words, environment=environment, names=names) as (_, said):
        until_it_waits(said.thread("rank 2"))
        others = command("why", str(said.thread("rank 0")), "--json").json["other_ranks"]
        stuck = said.thread("rank 2")
    assert others["on_host"] == others["inspected"] == 3
    row = others["waiting"][0]
    assert (row["process_id"], row["rank"], row["kind"]) == (stuck, 2, "self_lock")
