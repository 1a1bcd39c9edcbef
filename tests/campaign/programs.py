"""The programs of the campaign: those in a given folder, and those of registries (``registries.toml``).

The folder holds BOTS, LULESH and XSBench, unpacked in folders whose names begin so. Two of the available compilers, in
turn, build each program for each runtime, with ``-O2 -g`` and with ``-O3``. So each compiler, level and runtime occurs,
but not each combination.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from tests.campaign import registries
from tests.campaign.program import KINDS, THREADS, Built, Check, ends_well, has_runtime
from tests.support.cache import key_of
from tests.support.machine import Missing, clean_environment, find, intel_folder, require
from tests.support.runtimes import RUNTIMES

__all__ = ["KINDS", "RECIPES", "Built", "built", "has_runtime"]

LEVELS = {"O2g": ("-O2", "-g"), "O3": ("-O3",)}
# Code that gcc compiles for its own runtime also runs on the other runtimes, which have the same entry points.
COMPILERS = {
    "libgomp": ("gcc-12", "gcc-11"),
    "libomp-19": ("clang-14", "clang-19", "gcc-12", "clang-22", "clang-16"),
    "intel": ("clang-22", "gcc-12", "clang-16", "clang-14", "clang-19"),
}
BUILDS = 2  # of each program on each runtime


@dataclass(frozen=True)
class Recipe:
    """A program called *name*. *sources* and *includes* are in the folder whose name begins with *project*.

    *arguments* are the program's arguments; ``{folder}`` stands for the project's folder. *check* checks its result.
    *rejected_by* has patterns of ``compiler.runtime``. These pairs cannot build the program, or make it fail by a fault
    of the compiler or the runtime.
    """

    name: str
    project: str
    sources: tuple[str, ...]
    arguments: tuple[str, ...]
    includes: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    check: Check = field(default_factory=ends_well)
    rejected_by: tuple[str, ...] = ()


_CPP = {"gcc": "g++", "clang": "clang++"}
_ABOUT = ("CDATE", "CC", "LD", "CMESSAGE", "LDFLAGS", "CFLAGS")  # what a program of BOTS prints about its build


def _bots(
    name: str,
    folder: str,
    sources: Sequence[str],
    arguments: str,
    check: Check | None = None,
    *,
    cutoff: str | None = None,
    rejected_by: tuple[str, ...] = (),
) -> Recipe:
    own = tuple(f"omp-tasks/{folder}/{source}" for source in sources)
    options = ("-std=gnu89", "-fcommon", *(f'-D{key}="-"' for key in _ABOUT))
    # Programs whose own check (-c) needs another run without threads omit it: that run takes most of the time.
    is_checked = "-c" in arguments.split()
    return Recipe(
        name,
        "bots",
        (*own, "common/bots_main.c", "common/bots_common.c"),
        tuple(arguments.split()),
        (f"omp-tasks/{folder}", "common"),
        options if cutoff is None else (*options, f"-D{cutoff}_CUTOFF"),
        check
        or ends_well(r"Verification += +SUCCESSFUL|Verification += +successful" if is_checked else "Time Program"),
        rejected_by,
    )


_INPUTS = "{folder}/inputs"
_FLOORPLAN = f"-c -f {_INPUTS}/floorplan/input.20"
_NO_VLA = ("clang-*",)  # clang rejects private variable-length arrays in untied tasks; clang 14's program crashes
# The runtime asserts that an untied task that is executed at once is at its first part, and aborts otherwise.
_NO_UNTIED_IF = ("clang-*.libomp-19",)
_NO_DEEP = (
    *_NO_VLA,
    "*.libomp-19",
    "*.intel",
)  # and tasks that are executed at once overrun the stacks of libomp's threads
_ALIGNMENT = ("alignment.c", "sequence.c")

RECIPES = (
    _bots("uts", "uts", ("uts.c", "brg_sha1.c"), f"-c -f {_INPUTS}/uts/small.input"),
    _bots("strassen", "strassen", ("strassen.c",), "-n 4096"),
    _bots("strassen-if", "strassen", ("strassen.c",), "-n 4096", cutoff="IF"),
    _bots("strassen-manual", "strassen", ("strassen.c",), "-n 4096", cutoff="MANUAL"),
    _bots("sort", "sort", ("sort.c",), "-c -n 67108864"),
    _bots("fft", "fft", ("fft.c",), "-n 33554432"),
    _bots("nqueens", "nqueens", ("nqueens.c",), "-c -n 14"),
    _bots("nqueens-if", "nqueens", ("nqueens.c",), "-c -n 14", cutoff="IF", rejected_by=_NO_UNTIED_IF),
    _bots("nqueens-final", "nqueens", ("nqueens.c",), "-c -n 14", cutoff="FINAL"),
    _bots("nqueens-manual", "nqueens", ("nqueens.c",), "-c -n 14", cutoff="MANUAL"),
    _bots("sparselu", "sparselu/sparselu_single", ("sparselu.c",), "-n 50"),
    _bots("sparselu-for", "sparselu/sparselu_for", ("sparselu.c",), "-n 50"),
    _bots("alignment", "alignment/alignment_single", _ALIGNMENT, f"-f {_INPUTS}/alignment/prot.100.aa"),
    _bots("alignment-for", "alignment/alignment_for", _ALIGNMENT, f"-f {_INPUTS}/alignment/prot.100.aa"),
    _bots("fib", "fib", ("fib.c",), "-c -n 36"),
    _bots("fib-if", "fib", ("fib.c",), "-c -n 36 -x 12", cutoff="IF", rejected_by=_NO_UNTIED_IF),
    _bots("fib-final", "fib", ("fib.c",), "-c -n 39 -x 12", cutoff="FINAL"),
    _bots("fib-manual", "fib", ("fib.c",), "-c -n 44 -x 20", cutoff="MANUAL"),
    _bots("floorplan", "floorplan", ("floorplan.c",), _FLOORPLAN, rejected_by=_NO_VLA),
    _bots("floorplan-if", "floorplan", ("floorplan.c",), _FLOORPLAN, cutoff="IF", rejected_by=_NO_DEEP),
    _bots("floorplan-final", "floorplan", ("floorplan.c",), _FLOORPLAN, cutoff="FINAL", rejected_by=_NO_VLA),
    _bots("floorplan-manual", "floorplan", ("floorplan.c",), _FLOORPLAN, cutoff="MANUAL", rejected_by=_NO_VLA),
    _bots("health", "health", ("health.c",), f"-c -f {_INPUTS}/health/medium.input"),
    _bots(
        "health-if",
        "health",
        ("health.c",),
        f"-c -f {_INPUTS}/health/medium.input",
        cutoff="IF",
        rejected_by=_NO_UNTIED_IF,
    ),
    _bots("health-manual", "health", ("health.c",), f"-c -f {_INPUTS}/health/medium.input", cutoff="MANUAL"),
    _bots("knapsack", "knapsack", ("knapsack.c",), f"-f {_INPUTS}/knapsack/knapsack-044.input"),
    _bots(
        "knapsack-if",
        "knapsack",
        ("knapsack.c",),
        f"-f {_INPUTS}/knapsack/knapsack-044.input",
        cutoff="IF",
        rejected_by=_NO_UNTIED_IF,
    ),
    _bots("knapsack-manual", "knapsack", ("knapsack.c",), f"-f {_INPUTS}/knapsack/knapsack-044.input", cutoff="MANUAL"),
    Recipe(
        "lulesh",
        "lulesh",
        ("*.cc",),
        ("-s", "30", "-i", "1000"),
        options=("-DUSE_MPI=0",),
        check=ends_well(r"Final Origin Energy = +[\d.]+e\+05"),
    ),
    Recipe(
        "xsbench",
        "xsbench",
        ("openmp-threading/*.c",),
        ("-t", str(THREADS), "-s", "small", "-l", "300000"),
        options=("-std=gnu99",),
        check=ends_well(r"Verification checksum: \d+ \(Valid\)"),
    ),
    Recipe(
        "xsbench-event",
        "xsbench",
        ("openmp-threading/*.c",),
        ("-t", str(THREADS), "-s", "small", "-m", "event"),
        options=("-std=gnu99",),
        check=ends_well(r"Verification checksum: \d+ \(Valid\)"),
    ),
)


def built(
    folder: Path | None, into: Path, names: Sequence[str] | None = None, runtimes: Sequence[str] = KINDS
) -> Iterator[Built]:
    """Build the programs *names* from *folder* on each of *runtimes*, into the folder *into*; then yield those of
    registries, which are fetched if they are missing.

    Programs that cannot be built or fetched are named on standard error and left out.

    :param folder: None if only programs of registries are wanted
    :param names: None means all
    """
    into.mkdir(parents=True, exist_ok=True)
    projects = sorted(folder.iterdir()) if folder is not None else []
    for index, recipe in enumerate(RECIPES):
        project = next((path for path in projects if path.name.lower().startswith(recipe.project)), None)
        if project is None or (names is not None and recipe.name not in names):
            continue
        arguments = tuple(argument.format(folder=project) for argument in recipe.arguments)
        for runtime in runtimes:
            for compiler, level in turns(
                index, [name for name in COMPILERS[runtime] if not _is_rejected(recipe, name, runtime)]
            ):
                try:
                    file = _build(recipe, project, runtime, compiler, level, into)
                except (Missing, subprocess.CalledProcessError) as error:
                    print(f"not built: {recipe.name} by {compiler} on {runtime}: {error}", file=sys.stderr)
                    continue
                words, environment = (str(file), *arguments), {"OMP_NUM_THREADS": str(THREADS)}
                yield Built(recipe.name, runtime, compiler, level, words, environment, recipe.check, file)
    yield from registries.fetched(into, names, runtimes)


def _is_rejected(recipe: Recipe, compiler: str, runtime: str) -> bool:
    return any(fnmatch(f"{compiler}.{runtime}", pattern) for pattern in recipe.rejected_by)


def turns(index: int, compilers: Sequence[str]) -> list[tuple[str, str]]:
    """Return the pairs of available compiler and level that build the recipe of this *index*."""
    here = [name for name in compilers if find(name) is not None] or list(compilers[:1])
    if not here:
        return []
    levels = list(LEVELS)
    return [
        (here[(index * BUILDS + turn) % len(here)], levels[(index // len(here) + turn) % len(levels)])
        for turn in range(BUILDS)
    ]


def _build(recipe: Recipe, project: Path, runtime: str, compiler: str, level: str, into: Path) -> Path:
    """Return the executable, and build it if it is missing.

    :raises Missing: if the compiler or the runtime is missing
    :raises subprocess.CalledProcessError: if it does not compile
    """
    sources = [path for source in recipe.sources for path in sorted(project.glob(source))]
    is_cpp = any(path.suffix == ".cc" for path in sources)
    family, _, release = compiler.partition("-")
    name = f"{_CPP[family]}-{release}" if is_cpp else compiler
    library = RUNTIMES[runtime].file()
    command = [str(require(name)), "-fopenmp", "-w", *LEVELS[level], *recipe.options]
    command += [f"-I{project / include}" for include in recipe.includes]
    if family == "clang":
        # The unpacked compilers have no omp.h.
        command += ["-idirafter", str(intel_folder() / "opt" / "compiler" / "include")]
    key = key_of(command, [(path.name, path.read_text(errors="replace")) for path in sources], str(library))
    folder = into / "programs"
    folder.mkdir(exist_ok=True)
    file = folder / f"{recipe.name}-{compiler}-{level}.{runtime}-{key[:8]}"
    if file.exists():
        return file
    objects = folder / f"{file.name}.objects"
    objects.mkdir(exist_ok=True)
    unfinished = file.with_name(f"{file.name}.part")
    compiling = [*command, "-c", *map(str, sources)]
    subprocess.run(compiling, cwd=objects, check=True, env=clean_environment())
    # Link without -fopenmp, which would add the compiler's own runtime.
    linking = [command[0], *map(str, sorted(objects.glob("*.o"))), "-o", str(unfinished)]
    linking += [f"-L{library.parent}", f"-Wl,-rpath,{library.parent}", *RUNTIMES[runtime].options, "-lm", "-lpthread"]
    subprocess.run(linking, check=True, env=clean_environment())
    unfinished.rename(file)
    for path in objects.iterdir():
        path.unlink()
    objects.rmdir()
    return file
