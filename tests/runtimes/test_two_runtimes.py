"""Two runtimes in one process: no structure of one runtime is read with a layout of the other."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ompd.contract.memory import StructView
from ompd.questions import icvs, regions, runtimes, stacks, tasks, threads
from ompd.session import Session
from tests.support import Missing, clean_environment, intel_runtime
from tests.support.build import compiler
from tests.support.machine import require_module
from tests.support.runs import ENVIRONMENT, cores_allowed, kernel_core_obstacle

require_module("unicorn")

# The library is built for each runtime, without debug information: only the compiler's notes could give lines.
LIBRARY = """
#include <omp.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>
static int here;
void spread(int stop) {
    #pragma omp parallel num_threads(3)
    {
        #pragma omp barrier
        if (stop && omp_get_thread_num() == 0) {
            // Who has not left the barrier yet could execute the task.
            while (__atomic_load_n(&here, __ATOMIC_SEQ_CST) < 2) sched_yield();
            #pragma omp task
            abort();
            #pragma omp taskwait
        } else if (stop) {
            __atomic_add_fetch(&here, 1, __ATOMIC_SEQ_CST);
            for (;;) pause();
        }
    }
}
"""
PROGRAM = """
#include <dlfcn.h>
int main(int count, char **names) {
    void (*spread[2])(int);
    for (int i = 0; i < 2; i++)
        spread[i] = (void (*)(int))dlsym(dlopen(names[i + 1], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND), "spread");
    for (int i = 0; i < 4; i++)
        spread[i % 2](i == 3);
}
"""
QUESTIONS: Sequence[Any] = (runtimes, threads, regions, tasks, stacks, icvs)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two")
    (folder / "library.c").write_text(LIBRARY)
    (folder / "program.c").write_text(PROGRAM)
    intel = intel_runtime() / "lib"
    gcc = [str(compiler("gcc").path), "-O1"]
    for command in (
        [*gcc, "program.c", "-o", "program", "-ldl"],
        [*gcc, "-fPIC", "-shared", "-fopenmp", "library.c", "-o", "gnu.so"],
        [*gcc, "-fPIC", "-fopenmp", "-c", "library.c"],
        [*gcc, "-shared", "library.o", "-o", "intel.so", f"-L{intel}", f"-Wl,-rpath,{intel}", "-liomp5"],
    ):
        subprocess.run(command, cwd=folder, check=True, env=clean_environment())
    return folder


@pytest.fixture(params=["libgomp", "libiomp5"])
def active(request: pytest.FixtureRequest, built: Path, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The kind of the runtime that has a region, and a core of the process."""
    obstacle = kernel_core_obstacle()
    if obstacle is not None:
        raise Missing("kernel core", obstacle, forbidden=True)
    names = ["gnu", "intel"] if request.param == "libiomp5" else ["intel", "gnu"]
    libraries = [built / f"{name}.so" for name in names]
    with cores_allowed():
        environment = {**clean_environment(), **ENVIRONMENT}
        subprocess.run([built / "program", *libraries], cwd=tmp_path, env=environment, check=False)
    (core,) = tmp_path.glob("core*")
    yield request.param, core


def test_each_structure_is_read_by_one_runtime_alone(active: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    runtime, core = active
    read: dict[bool, dict[int, str]] = {True: {}, False: {}}  # structures by address; True: libgomp's
    for name in ("unsigned", "signed"):
        usual = getattr(StructView, name)

        def noting(view: StructView, member: str, usual: Any = usual) -> int:
            is_gnus = view.layout.name.startswith(("gomp_", "omp_"))
            read[is_gnus].setdefault(view.address, view.layout.name)
            return int(usual(view, member))

        monkeypatch.setattr(StructView, name, noting)
    with Session.open_core(core) as session:
        assert {known.found.kind for known in session.runtimes} == {"libgomp", "libiomp5"}
        rows = {question: question.ask(session).rows for question in QUESTIONS}
    (region,) = rows[regions]
    assert region.runtime == runtime and region.team_size == 3
    assert [row.kind for row in rows[tasks] if row.runtime == runtime].count("explicit") == 1
    assert read[True] and read[False]
    both = {hex(at): (read[True][at], read[False][at]) for at in read[True].keys() & read[False].keys()}
    assert both == {}
