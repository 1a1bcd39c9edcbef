"""The program of ``tests/walking``, built by each compiler for the machine's libgomp or a stripped libomp."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.support.build import compiler
from tests.support.cache import CHECKOUT, entry, key_of
from tests.support.debs import deb_folder
from tests.support.machine import clean_environment

SOURCE = CHECKOUT / "tests" / "walking" / "sums.c"
# The compiler, and how it optimises. gcc's code runs on libgomp, clang's on a libomp without symbols.
BUILDS = (("gcc", "-O0"), ("gcc", "-O2"), ("clang", "-O0"), ("clang", "-O2"))


def build_sums(name: str = "gcc", level: str = "-O0") -> Path:
    """Return the program."""
    found = compiler(name)
    library = next(deb_folder("libomp-19").rglob("libomp.so.5")) if name == "clang" else None

    def make(folder: Path) -> None:
        shutil.copy(SOURCE, folder)
        run = [str(found.path), "-g", level, "-fopenmp"]
        environment = clean_environment()
        subprocess.run([*run, "-c", "sums.c", "-o", "sums.o"], cwd=folder, check=True, env=environment)
        link = [str(library), f"-Wl,-rpath,{library.parent}"] if library is not None else ["-fopenmp"]
        subprocess.run([str(found.path), "sums.o", "-o", "sums", *link], cwd=folder, check=True, env=environment)

    return entry("walking", key_of([SOURCE.read_text()], found.version, level, str(library)), make) / "sums"


def line_of(text: str) -> int:
    """Return the number of the first line with *text*."""
    return next(number for number, line in enumerate(SOURCE.read_text().splitlines(), 1) if text in line)
