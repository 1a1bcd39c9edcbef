"""Programs of ``tests/team_sizes``, which know how many threads their regions requested and got."""

from __future__ import annotations

import select
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.build import compiler, run_compiler
from tests.support.cache import CHECKOUT, entry, key_of
from tests.support.machine import clean_environment, intel_runtime
from tests.support.runtimes import RUNTIMES

SOURCES = CHECKOUT / "tests" / "team_sizes"
READY_SECONDS = 80


@dataclass(frozen=True)
class Scenario:
    """A scenario of ``tests/team_sizes``: its name, the environment, and what is known of the innermost region.

    *by* is what the request is from. *reduced_by* is the variable that gives the team fewer threads, *reduction* the
    text. *is_known*: the request is known whatever the compiler and its options.
    """

    name: str
    by: str = "num_threads"
    reduced_by: str | None = None
    reduction: str | None = None
    is_known: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)


LIMIT = {"OMP_THREAD_LIMIT": "2"}
SCENARIOS = {
    "constant": Scenario("constant", is_known=True),
    "limit": Scenario("constant", "num_threads", "thread-limit-var", "OMP_THREAD_LIMIT=2", True, LIMIT),
    "limit_variable": Scenario("variable", "num_threads", "thread-limit-var", "OMP_THREAD_LIMIT=2", False, LIMIT),
    "limit_no_clause": Scenario("no_clause", "nthreads-var", "thread-limit-var", "OMP_THREAD_LIMIT=2", True, LIMIT),
    "many": Scenario("many", "num_threads", "dyn-var", "OMP_DYNAMIC=true", True, {"OMP_DYNAMIC": "true"}),
    "dynamic": Scenario("dynamic", "num_threads", "dyn-var", "dyn-var is true", True),
    "variable": Scenario("variable"),
    "computed": Scenario("computed"),
    "global": Scenario("global"),
    "changed": Scenario("changed"),
    "no_clause": Scenario("no_clause", "nthreads-var", is_known=True),
    "from_environment": Scenario("from_environment", "nthreads-var", None, None, True, {"OMP_NUM_THREADS": "3,2"}),
    "repeated": Scenario("repeated"),
    "after_another": Scenario("after_another", "nthreads-var", is_known=True),
    "loop": Scenario("loop", is_known=True),
    "sections": Scenario("sections", is_known=True),
    "condition": Scenario("condition", "if"),
    "either": Scenario("either"),
    "nested": Scenario(
        "nested",
        "num_threads",
        "max-active-levels-var",
        "OMP_MAX_ACTIVE_LEVELS=1",
        True,
        {"OMP_MAX_ACTIVE_LEVELS": "1"},
    ),
    "nested_by_default": Scenario("nested", "num_threads", "max-active-levels-var", "max-active-levels-var is 1", True),
    "nested_limit": Scenario(
        "nested",
        "num_threads",
        "thread-limit-var",
        "OMP_THREAD_LIMIT=3",
        True,
        {"OMP_MAX_ACTIVE_LEVELS": "2", "OMP_THREAD_LIMIT": "3"},
    ),
    "task": Scenario("task", "nthreads-var", None, None, False, {"OMP_MAX_ACTIVE_LEVELS": "2"}),
}


def build_sizes(suffix: str, compiler_name: str, runtime: str, flags: Sequence[str]) -> Path:
    openmp, used = RUNTIMES[runtime], compiler(compiler_name)
    library, source = openmp.file().parent, SOURCES / f"sizes.{suffix}"
    headers = ["-idirafter", str(intel_runtime() / "opt" / "compiler" / "include")]
    compiling = [str(used.path), "-g", "-fopenmp", *flags, *(headers if suffix != "f90" else []), "-c", str(source)]
    linking = [f"-L{library}", f"-Wl,-rpath,{library}", *openmp.options, "-lpthread"]

    def make(folder: Path) -> None:
        run_compiler([*compiling, "-o", str(folder / "sizes.o")], folder)
        run_compiler([str(used.path), str(folder / "sizes.o"), "-o", str(folder / "sizes"), *linking], folder)

    text = [source.read_text(), (SOURCES / "sizes.h").read_text()]
    return entry("programs", key_of(text, used.version, compiling, linking, openmp.version()), make) / "sizes"


@contextmanager
def running_sizes(program: Path, scenario: Scenario) -> Iterator[tuple[int, int, int]]:
    """Yield the process id, and the numbers of threads that its innermost region requested and got."""
    environment = {**clean_environment(), **scenario.environment}
    process = subprocess.Popen([program, scenario.name], stdout=subprocess.PIPE, env=environment)
    try:
        assert process.stdout is not None
        assert select.select([process.stdout], [], [], READY_SECONDS)[0]
        numbers = process.stdout.readline().split()
        assert len(numbers) == 2, (process.poll(), numbers)
        yield process.pid, int(numbers[0]), int(numbers[1])
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
