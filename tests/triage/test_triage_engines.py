"""``ompd triage`` with workers of Dask and mpi4py, and on jobs of Open MPI and MPICH."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import ompd
from ompd.questions.why.system import system_wait
from tests.support.clusters import dask, with_wheels
from tests.support.debs import deb_folder
from tests.support.html_page import Page
from tests.support.machine import FULL, clean_environment
from tests.support.mpi import build, environment_of_open_mpi, launch_words
from tests.support.outside import LONG, waiting
from tests.support.triage import PROGRAMS, Farm, make_farm
from tests.support.why import GNU, WHYS, hanging

RANKS = 8 if FULL else 3
TOTAL = 1_000 if FULL else 20
pytestmark = [pytest.mark.timeout(3_000)] if FULL else []  # seconds, on a busy machine
LATE = 1


def ran(*words: str | Path, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "ompd", *map(str, words)]
    return subprocess.run(command, capture_output=True, check=False, env=env or clean_environment())


def run(*words: str | Path, env: Mapping[str, str] | None = None) -> bytes:
    return ran(*words, env=env).stdout


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Farm:
    return make_farm(tmp_path_factory.mktemp("night") / "farm", TOTAL, varied=FULL)


@pytest.fixture(scope="module")
def local(farm: Farm) -> bytes:
    return run("triage", "--json", *farm.words, env=farm.environment)


@pytest.mark.quick()
def test_dask_has_the_same_answer_byte_for_byte(farm: Farm, local: bytes, tmp_path: Path) -> None:
    env = with_wheels("dask")
    with dask(tmp_path, 2, farm.environment) as cluster:
        engine = ("--engine", "dask", "--scheduler", cluster.file)
        found = run("triage", "--json", *farm.words, *engine, env=env)
        core = min(farm.names[PROGRAMS[0]])
        named = ("triage", "--json", f"n1:{core}", *engine)
        there = json.loads(run(*named, env=env))
    assert found and found == local
    assert [row["targets"] for row in there["triage"]] == [[f"n1:{core}"]]


def test_ranks_of_open_mpi_have_the_same_answer_byte_for_byte(farm: Farm, local: bytes, tmp_path: Path) -> None:
    env = with_wheels("mpi4py", farm.environment)
    launcher = deb_folder("openmpi") / "usr" / "bin" / "mpirun.openmpi"
    ours = [sys.executable, "-m", "mpi4py.futures", "-m", "ompd", "triage", "--json", *farm.words, "--engine", "mpi"]
    done = subprocess.run(
        [str(launcher), "--oversubscribe", "--bind-to", "none", "-n", "2", *ours],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        check=False,
        env={**env, **environment_of_open_mpi()},
    )
    assert done.returncode == 3 and done.stdout == local


def test_an_engine_that_is_not_there_is_said(tmp_path: Path) -> None:
    core = str(tmp_path / "core")
    without = ran("triage", core, "--engine", "dask")
    assert without.returncode == 1 and b"--scheduler" in without.stderr
    bare = {**clean_environment(), "PYTHONPATH": str(tmp_path)}
    for module, words, extra in (
        ("distributed", ["dask", "--scheduler", "tcp://127.0.0.1:1"], b"triage-dask"),
        ("mpi4py", ["mpi"], b"triage-mpi"),
    ):
        (tmp_path / f"{module}.py").write_text("raise ImportError('not here')\n")
        done = ran("triage", core, "--engine", *words, env=bare)
        assert done.returncode == 1 and extra in done.stderr and b"Traceback" not in done.stderr, done.stderr


@contextmanager
def job(library: str, count: int, folder: Path) -> Iterator[tuple[int, list[int]]]:
    """Run a job until all ranks but one are in their call. Yield the launcher's process id, and those of the ranks."""
    launcher, options, environment = launch_words(library)
    words = [*options, "-n", str(count), str(build(library, "-O0", "laggard")), str(LATE)]
    names = [f"rank{number}" for number in range(count)]
    with waiting(launcher, folder, *words, environment=environment, names=names) as (started, said):
        processes = [said.thread(name) for name in names]
        for number, process in enumerate(processes):
            while number != LATE and not _is_in_mpi(process):
                pass  # each look stops the process for a moment
        yield started.pid, processes


def hook(kind: str, folder: Path, shared: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the script of ``ompd hook`` in *folder*; the script writes to *shared*."""
    script = folder / "hook"
    script.write_bytes(run("hook", kind))
    programs = folder / "bin"
    programs.mkdir()
    for name, text in (
        ("ompd", f'exec "{sys.executable}" -m ompd "$@"'),
        ("srun", 'shift 3; exec bash "$@"'),  # runs on this host, ignoring its options
    ):
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o700)
    path = f"{programs}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "hook", *words],
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
        env={**clean_environment(), **environment, "PATH": path, "OMPD_HOOK_DIR": str(shared)},
    )


def hooked(kind: str, folder: Path, *words: str, **environment: str) -> dict[str, Any]:
    """Run the script of ``ompd hook`` in its own folder. Return what it found at the later moment."""
    done = hook(kind, folder, folder, *words, **environment)
    assert done.returncode == 0, done.stderr
    (made,) = folder.glob("ompd-hook.*")
    page = (made / "page.txt").read_text()
    assert "SAME" in page and "NEW" not in page
    shown = Page((made / "page.html").read_text())
    assert done.stdout.split()[-1] == str(made / "page.html")
    assert shown.faults == [] and f"{page.count('SAME')} SAME" in shown.words
    found: dict[str, Any] = json.loads(run("triage", "--json", made / "2"))
    assert len(found["triage"]) == page.count("SAME")
    return found


# Jobs without processes: the scripts only make files.
HOOKS = [("pmi", (str(os.getpid()),), {}), ("slurm", (), {"SLURM_JOB_ID": str(os.getpid())})]


@pytest.mark.parametrize(("kind", "words", "environment"), HOOKS)
@pytest.mark.quick("slurm-words1-environment1")
def test_a_hook_writes_through_no_link_that_waits_for_it(
    kind: str, words: tuple[str, ...], environment: dict[str, str], tmp_path: Path
) -> None:
    shared, victim = tmp_path / "shared", tmp_path / "victim"
    shared.mkdir()
    shared.chmod(0o1777)
    victim.write_text("precious")
    waiting = shared / f"ompd-hook.{os.getpid()}"
    waiting.mkdir(mode=0o777)
    for name in ("1.json", "2.jsonl", "page.txt", "page.html"):
        (waiting / name).symlink_to(victim)
    done = hook(kind, tmp_path, shared, *words, **environment)
    assert victim.read_text() == "precious" and sorted(each.name for each in waiting.iterdir()) == [
        *("1.json", "2.jsonl", "page.html", "page.txt")
    ]
    (made,) = (folder for folder in shared.iterdir() if folder != waiting)
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert done.stdout.split() == [str(made / "page.txt")] and (made / "page.txt").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give links away")
@pytest.mark.parametrize(("kind", "words", "environment"), HOOKS)
def test_a_hook_makes_no_folder_behind_a_link_of_others(
    kind: str, words: tuple[str, ...], environment: dict[str, str], tmp_path: Path
) -> None:
    behind, link = tmp_path / "behind", tmp_path / "link"
    behind.mkdir()
    link.symlink_to(behind)
    os.chown(link, 54321, 54321, follow_symlinks=False)
    done = hook(kind, tmp_path, link, *words, **environment)
    assert (done.returncode, done.stdout) == (1, "") and "link on the way to it is a link of user 54321" in done.stderr
    assert not list(behind.iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders away")
def test_a_hook_on_another_host_takes_no_folder_of_others(tmp_path: Path) -> None:
    given, own = tmp_path / "given", tmp_path / "own"
    given.mkdir()
    own.mkdir()
    os.chown(given, 54321, 54321)
    (tmp_path / "link").symlink_to(own)
    for name in ("given", "link", "none"):
        folder = tmp_path / f"for-{name}"
        folder.mkdir()
        done = hook("slurm", folder, folder, "host", str(tmp_path / name), SLURM_JOB_ID="4711")
        assert (done.returncode, done.stdout) == (1, "") and "is not this user's folder" in done.stderr
    assert not list(given.iterdir()) and not list(own.iterdir())


@pytest.mark.quick()
def test_the_hook_for_slurm_takes_the_ranks_of_its_job_alone(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two", "other", "hook")]
    for folder in folders:
        folder.mkdir()
    ranks = [("4711", "0"), ("4711", "1"), ("4712", "0")]
    with ExitStack() as stack:
        live = [
            stack.enter_context(
                hanging(
                    WHYS["lock_cycle-two"],
                    "gcc",
                    GNU,
                    folder=folder,
                    environment={"SLURM_JOB_ID": number, "SLURM_PROCID": rank},
                )
            )
            for folder, (number, rank) in zip(folders[:3], ranks, strict=True)
        ]
        found = hooked("slurm", folders[3], SLURM_JOB_ID="4711")
        states = [Path(f"/proc/{each.pid}/stat").read_text().rpartition(")")[2].split()[0] for each in live]
    (row,) = found["triage"]
    assert row["verdict"] == "lock_cycle" and row["ranks"] == [{"job": "4711", "ranks": [0, 1]}]
    assert "T" not in states and "t" not in states


def _is_in_mpi(process: int) -> bool:
    with ompd.attach(process, max_stop=LONG) as session:
        wait = session.ask(lambda session: system_wait(session, process))
    return wait is not None and wait.kind == "mpi" and wait.routine == "MPI_Allreduce"


def _about_the_job(answer: dict[str, Any], count: int) -> None:
    (found,) = answer["jobs"]
    others = [number for number in range(count) if number != LATE]
    assert (found["size"], found["ranks"]) == (count, [*range(count)])
    assert [(wait["call"], wait["ranks"], wait["missing"]) for wait in found["waits"]] == [
        ("MPI_Allreduce", others, [LATE])
    ]
    (end,) = found["ends"]
    assert (end["ranks"], end["kind"], end["waiting"]) == ([LATE], "rank", others)
    assert "pause" in end["summary"]
    rows = answer["triage"]
    assert [[each["ranks"] for each in row["ranks"]] for row in rows] == [[[LATE]], [others]]


# Each waiting rank of MPICH uses a whole processor, so there are as few as possible.
@pytest.mark.parametrize(("library", "count"), [("openmpi", RANKS), *([("mpich", 3)] if FULL else [])])
@pytest.mark.quick()
def test_a_job_of_mpi_with_a_laggard_is_seen_live_and_by_its_snapshots(
    library: str, count: int, tmp_path: Path
) -> None:
    snapshots = tmp_path / "snapshots"
    snapshots.mkdir()
    hook = tmp_path / "hook"
    hook.mkdir()
    with job(library, count, tmp_path) as (launcher, processes):
        live = json.loads(run("triage", "--json", "--max-stop", str(LONG), *map(str, processes)))
        for number, process in enumerate(processes):
            run("snapshot", str(process), "--max-stop", str(LONG), "-o", snapshots / f"rank.{number}")
        _about_the_job(hooked("pmi", hook, str(launcher)), count)
    _about_the_job(live, count)
    _about_the_job(json.loads(run("triage", "--json", snapshots)), count)
