"""A program that is stopped wherever its thread is on the way from one team to another."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.build import compiler
from tests.support.cache import entry, key_of
from tests.support.machine import clean_environment
from tests.support.runtimes import RUNTIMES

SOURCE = Path(__file__).with_name("forks.c")


def forks(runtime: str) -> Path:
    """Return the executable of ``forks.c``, linked with one of RUNTIMES.

    :raises Missing: if the compiler or the runtime is not there
    """
    openmp, gcc = RUNTIMES[runtime], compiler("gcc")
    library = openmp.file().parent
    compiling = [
        str(gcc.path),
        "-g",
        "-O1",
        "-fopenmp",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-c",
        str(SOURCE),
        "-o",
        "forks.o",
    ]
    # -fopenmp would link gcc's own runtime, too.
    linking = [str(gcc.path), "forks.o", "-o", "forks", f"-L{library}", f"-Wl,-rpath,{library}", *openmp.options]

    def make(folder: Path) -> None:
        for command in (compiling, linking):
            subprocess.run(command, check=True, env=clean_environment(), cwd=folder)

    return (
        entry("programs", key_of(SOURCE.read_text(), gcc.version, compiling, linking, openmp.version()), make) / "forks"
    )
