"""Programs and libraries of ``stub/ompt``: tools on the stub runtime."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.support.build import compiler
from tests.support.cache import entry, key_of
from tests.support.machine import clean_environment
from tests.support.spaces import without_spaces
from tests.support.stub import INCLUDE, sources_key, stub_folder

SOURCES = Path(__file__).parent / "ompt"
RUNTIME = "-l:libomp_stub.so"
GENERATIONS = (1, 2, 5)
"""The generations of tools by the runtime's numbers: the draft, the report of 2015, OpenMP 5."""


def compiled(source: str, *flags: str, name: str = "program", links: Sequence[str | Path] = (RUNTIME,)) -> Path:
    """Return the program that gcc makes of a file of ``tests/stub/ompt``, or a shared object if *name* ends with
    ``.so``.

    The result needs all libraries of the command line in their order, even unused ones.
    """
    gcc, stub = compiler("gcc"), stub_folder()
    texts = [path.read_text() for path in sorted(SOURCES.iterdir())]
    key = key_of(source, flags, name, [str(link) for link in links], texts, gcc.version, sources_key())

    def make(folder: Path) -> None:
        code = folder / "code.o"
        compiling = ["-g", "-O1", "-Wall", "-Wextra", "-Werror", "-fopenmp", "-fPIC", f"-I{INCLUDE}", *flags]
        shared = ["-shared", f"-Wl,-soname,{name}"] if name.endswith(".so") else []
        folders = [*(Path(link).parent for link in links if "/" in str(link)), stub]
        linking = ["-Wl,--no-as-needed", f"-L{stub}", *(f"-Wl,-rpath,{place}" for place in folders), *map(str, links)]
        made([str(gcc.path), *compiling, "-c", str(SOURCES / source), "-o", str(code)])
        made([str(gcc.path), *shared, str(code), "-o", str(folder / name), *linking])

    return entry("stub-ompt", key, make) / name


def mirror(generation: int) -> dict[str, str]:
    """Return the environment in which a program loads the tool ``mirror.c`` of a generation."""
    library = compiled("mirror.c", f"-DGENERATION={generation}", name="mirror.so", links=())
    return {"LD_PRELOAD": str(without_spaces(library))}


def made(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, env=clean_environment(), check=False)
    assert done.returncode == 0, done.stderr
