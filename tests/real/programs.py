"""How to build and run the programs of a folder: BOTS, LULESH and XSBench, unpacked in folders of any such name."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.machine import clean_environment, intel_folder, require
from tests.support.runtimes import RUNTIMES

KINDS = ("libgomp", "libomp-19", "intel")
LEVELS = {"O2g": ("-O2", "-g"), "O3": ("-O3",)}
_ABOUT = ("CDATE", "CC", "LD", "CMESSAGE", "LDFLAGS", "CFLAGS")  # what a program of BOTS says of how it was built


@dataclass(frozen=True)
class Recipe:
    """A program by its *name*: the folder of its *project* begins so; *sources* and *includes* are in it.

    *arguments* are what it is run with, ``{folder}`` stands for the project's.
    """

    name: str
    project: str
    sources: tuple[str, ...]
    arguments: tuple[str, ...]
    includes: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


def _bots(name: str, folder: str, sources: Sequence[str], *arguments: str) -> Recipe:
    own = tuple(f"omp-tasks/{folder}/{source}" for source in sources)
    return Recipe(
        name,
        "bots",
        (*own, "common/bots_main.c", "common/bots_common.c"),
        arguments,
        (f"omp-tasks/{folder}", "common"),
        ("-std=gnu89", *(f'-D{key}="-"' for key in _ABOUT)),
    )


RECIPES = (
    _bots("uts", "uts", ("uts.c", "brg_sha1.c"), "-f", "{folder}/inputs/uts/small.input"),
    _bots("strassen", "strassen", ("strassen.c",), "-n", "4096"),
    _bots("sort", "sort", ("sort.c",), "-n", "67108864"),
    _bots("fft", "fft", ("fft.c",), "-n", "33554432"),
    _bots("nqueens", "nqueens", ("nqueens.c",), "-n", "14"),
    _bots("sparselu", "sparselu/sparselu_single", ("sparselu.c",), "-n", "50"),
    Recipe("lulesh", "lulesh", ("*.cc",), ("-s", "30", "-i", "1000", "-q"), options=("-DUSE_MPI=0",)),
    Recipe(
        "xsbench",
        "xsbench",
        ("openmp-threading/*.c",),
        ("-t", "4", "-s", "small", "-l", "300000"),
        options=("-std=gnu99",),
    ),
)


@dataclass(frozen=True)
class Built:
    """A program that is there to be run.

    *words* are its whole command line, *environment* is added to a clean one. *check* takes the exit status and the
    output of a run that ended by itself, and returns what is wrong with its result, None if it is right. *file* is the
    executable that a core of it belongs to.
    """

    name: str
    runtime: str
    compiler: str
    level: str
    words: tuple[str, ...]
    environment: Mapping[str, str]
    check: Callable[[int, str], str | None]
    file: Path


def ends_well(status: int, _output: str) -> str | None:
    """Return what is wrong where a program has to end with 0."""
    return f"it ended with {status}" if status else None


def built(
    folder: Path | None, into: Path, names: Sequence[str] | None = None, runtimes: Sequence[str] = KINDS
) -> Iterator[Built]:
    """Build what *folder* has of the programs *names*, on each of *runtimes*, into the folder *into*.

    :raises Missing: if a compiler or a runtime is not here
    """
    into.mkdir(parents=True, exist_ok=True)
    for recipe in RECIPES if folder is not None else ():
        projects = sorted(path for path in folder.iterdir() if path.name.lower().startswith(recipe.project))
        if (names is not None and recipe.name not in names) or not projects:
            continue
        arguments = tuple(argument.format(folder=projects[0]) for argument in recipe.arguments)
        for runtime in runtimes:
            for level in LEVELS:
                file = into / f"{recipe.name}-{level}.{runtime}"
                if not file.exists():
                    _build(recipe, projects[0], runtime, level, file)
                words, threads = (str(file), *arguments), {"OMP_NUM_THREADS": "4"}
                compiler = "gcc" if runtime == "libgomp" else "clang"
                yield Built(recipe.name, runtime, compiler, level, words, threads, ends_well, file)


def _build(recipe: Recipe, project: Path, runtime: str, level: str, file: Path) -> None:
    sources = [path for source in recipe.sources for path in sorted(project.glob(source))]
    is_cpp = any(path.suffix == ".cc" for path in sources)
    library = RUNTIMES[runtime].file()
    if runtime == "libgomp":
        command = [str(require("g++" if is_cpp else "gcc")), "-fopenmp"]
    else:
        clang = require("clang")
        # The linker asks for libomp.so, which a package that only runs programs does not have.
        links = file.parent / f"lib-{runtime}"
        links.mkdir(exist_ok=True)
        link = links / "libomp.so"
        if not link.is_symlink():
            link.symlink_to(library)
        command = [str(clang), "-fopenmp=libomp", "-idirafter", str(intel_folder() / "opt" / "compiler" / "include")]
        command += [f"-L{links}", f"-Wl,-rpath,{library.parent}", *(["-lstdc++"] if is_cpp else [])]
    command += ["-w", *LEVELS[level], *recipe.options, *(f"-I{project / name}" for name in recipe.includes)]
    command += [*map(str, sources), "-lm", "-o", str(file)]
    subprocess.run(command, check=True, env=clean_environment())
