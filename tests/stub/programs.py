"""Small programs of this folder on the stub runtime, which run until they end by themselves, and their cores."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.build import SETTLED, WITH_HEADERS, compiler
from tests.support.cache import CACHE, entry, key_of
from tests.support.machine import Missing, clean_environment, run_in
from tests.support.runs import ENVIRONMENT, cores_allowed, kernel_core_obstacle
from tests.support.stub import INCLUDE, SOURCES, sources_key, stub_folder

FOLDER = Path(__file__).parent
DEBUG = {"OMP_DEBUG": "on"}


def built(
    *sources: str,
    name: str | None = None,
    flags: Sequence[str] = (),
    links: Sequence[str] = (),
    clang: Mapping[str, Sequence[str]] | None = None,
    library: str = "libomp_stub.so",
    machine: tuple[str, ...] = (),
) -> Path:
    """Return a program built from the files *sources*, or a shared object if *name* ends with ``.so``.

    :param name: the name of the program; by default the name of the first source
    :param flags: options for compiling; *links* are for linking
    :param clang: sources that clang compiles without -fopenmp, each with its options
    :param library: the stub's library to link with
    :param machine: options for compiling and linking the program and the stub
    """
    stub = stub_folder(flags=machine)
    name = name or Path(sources[0]).stem
    texts = [*((FOLDER / source).read_text() for source in sources), SETTLED.read_text()]
    by_clang = clang or {}
    used = {source: compiler("clang" if source in by_clang else "gcc") for source in sources}
    options_of = {source: list(options) for source, options in by_clang.items()}
    key = key_of(
        options_of,
        name,
        texts,
        list(flags),
        list(links),
        [c.version for c in used.values()],
        sources_key(),
        library,
        machine,
    )

    def make(folder: Path) -> None:
        objects = []
        for source, by in used.items():
            objects.append(str(folder / f"{Path(source).stem}.o"))
            common = ["-g", "-O0", "-Wall", "-Wextra", "-fPIC", *machine, *flags]
            common += [f"-I{INCLUDE}", f"-I{SOURCES}/src", *WITH_HEADERS]
            openmp = ["-fopenmp"] if by.name == "gcc" else by_clang[source]
            _run([str(by.path), *common, *openmp, "-c", str(FOLDER / source), "-o", objects[-1]])
        shared = ["-shared"] if name.endswith(".so") else ["-pie"]
        linked = [f"-L{stub}", f"-l:{library}", f"-Wl,-rpath,{stub}", "-lpthread", "-ldl", *links]
        _run([str(compiler("gcc").path), *machine, *shared, *objects, "-o", str(folder / name), *linked])

    return entry("stub-programs", key, make) / name


def core_of(program: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> Path:
    """Return the core of a program that ends by a signal. Its folder also has the files that the program wrote, and its
    output in the file ``output``.
    """
    obstacle = kernel_core_obstacle()
    if obstacle is not None:
        raise Missing("kernel core", obstacle, forbidden=True)
    variables = {**clean_environment(), **ENVIRONMENT, **(DEBUG if environment is None else environment)}
    key = key_of("stub-core", program.parent.name, arguments, variables)

    def make(folder: Path) -> None:
        with (folder / "output").open("wb") as output, cores_allowed():
            done = subprocess.run(
                [program, *arguments],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=variables,
                timeout=60,
                check=False,
            )
        cores = list(folder.glob("core*"))
        if len(cores) != 1:
            raise AssertionError(f"{program.name} ended with {done.returncode}: {(folder / 'output').read_text()}")
        cores[0].rename(folder / "core")

    return entry("stub-cores", key, make) / "core"


def _run(command: Sequence[str]) -> None:
    done = run_in(CACHE, command)
    if done.returncode:
        raise AssertionError(f"{' '.join(command)}\n{done.stderr}")
