"""``why`` on a rank of Open MPI or MPICH whose other side does not do its part: the call is named, and who is meant."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import pytest

import ompd
from ompd.model import WhyAnswer
from ompd.questions import why as question
from ompd.questions.why.system import system_wait
from tests.support.build import compiler
from tests.support.cache import entry, key_of
from tests.support.debs import deb_folder
from tests.support.machine import clean_environment
from tests.support.outside import LONG, SOURCES, Words, waiting
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
LIBRARIES = ("openmpi", "mpich")  # as the rows of tools.toml


def _of_open_mpi() -> tuple[Path, Path]:
    # Where Open MPI's own libraries are, and all others that it needs.
    shared = deb_folder("openmpi") / "usr" / "lib" / "x86_64-linux-gnu"
    return shared / "openmpi" / "lib", shared


def _of_mpich() -> tuple[Path, Path]:
    folder = deb_folder("mpich")
    return folder / "usr" / "include" / "x86_64-linux-gnu" / "mpich", folder / "usr" / "lib" / "x86_64-linux-gnu"


def environment_of_open_mpi() -> dict[str, str]:
    """Return what Open MPI needs where it was only unpacked, for two ranks on one machine."""
    folder = deb_folder("openmpi")
    own, shared = _of_open_mpi()
    libraries = (own, shared, shared / "pmix2" / "lib", folder / "lib" / "x86_64-linux-gnu")
    return {
        "OPAL_PREFIX": str(folder / "usr"),
        "OPAL_LIBDIR": str(own),
        "OPAL_PKGLIBDIR": str(own / "openmpi3"),
        "OPAL_DATADIR": str(folder / "usr" / "share"),
        "OPAL_PKGDATADIR": str(folder / "usr" / "share" / "openmpi"),
        "OPAL_SYSCONFDIR": str(folder / "etc"),
        "PMIX_INSTALL_PREFIX": str(shared / "pmix2"),
        "LD_LIBRARY_PATH": ":".join(map(str, libraries)),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_pml": "ob1",
        "OMPI_MCA_btl": "self,vader",
        "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
        "OMPI_MCA_mpi_yield_when_idle": "1",
        "OMP_WAIT_POLICY": "passive",
    }


def environment_of_mpich() -> dict[str, str]:
    """Return what MPICH needs where it was only unpacked."""
    shared = _of_mpich()[1]
    also = deb_folder("mpich") / "lib" / "x86_64-linux-gnu"
    return {"LD_LIBRARY_PATH": f"{shared}:{also}", "OMP_WAIT_POLICY": "passive"}


def build(library: str, level: str) -> Path:
    gcc, source = compiler("gcc"), SOURCES / "ranks.c"
    if library == "mpich":
        headers, shared = _of_mpich()
        linking = [f"-L{shared}", f"-Wl,-rpath-link,{shared}", "-l:libmpich.so.12"]
    else:
        own, shared = _of_open_mpi()
        headers = own.parent / "include"
        linking = [f"-L{shared}", f"-Wl,-rpath-link,{own}:{shared}", "-l:libmpi.so.40"]
    compiling = ["-g", level, "-fopenmp", "-I", str(headers)]

    def make(folder: Path) -> None:
        command = [str(gcc.path), *compiling, str(source), "-o", str(folder / "ranks"), *linking]
        subprocess.run(command, check=True, env=clean_environment())

    key = key_of("outside", source.read_text(), gcc.version, compiling, linking)
    return entry("programs", key, make) / "ranks"


@contextmanager
def communicating(library: str, case: str, level: str, folder: Path) -> Iterator[Words]:
    """Run the two ranks until the first one's thread is in its call and its others sleep.

    :raises FileNotFoundError: if they end before
    """
    programs = deb_folder(library) / "usr" / "bin"
    words = ["-n", "2", str(build(library, level)), case]
    if library == "mpich":
        launcher, environment = programs / "mpiexec.hydra", environment_of_mpich()
    else:
        launcher, environment = programs / "mpirun.openmpi", environment_of_open_mpi()
        words = ["--oversubscribe", "--bind-to", "none", *words]
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
