"""The programs of ``tests/walking``. Each compiler builds ``sums.c``, for libgomp or for a stripped libomp."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.support.build import compiler
from tests.support.cache import CHECKOUT, entry, key_of
from tests.support.debs import deb_folder
from tests.support.m32 import m32_flags
from tests.support.machine import clean_environment

SOURCE = CHECKOUT / "tests" / "walking" / "sums.c"
ENDS = SOURCE.with_name("ends.cc")
ALONE = SOURCE.with_name("alone.c")
CALLS = SOURCE.with_name("calls.c")
# The compiler and its optimisation level. gcc's code runs on libgomp, clang's code on a libomp without symbols.
BUILDS = (("gcc", "-O0"), ("gcc", "-O2"), ("clang", "-O0"), ("clang", "-O2"))


def build_sums(name: str = "gcc", level: str = "-O0") -> Path:
    """Return the program of ``sums.c``."""
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


def build_ends() -> Path:
    """Return the program of ``ends.cc``, on this machine's libgomp."""
    return _build("g++", ENDS)


def build_alone() -> Path:
    """Return the program of ``alone.c``, on this machine's libgomp."""
    return _build("gcc", ALONE)


def build_calls() -> Path:
    """Return the program of ``calls.c``, on this machine's libgomp.

    ``rest.c`` becomes a library with debug information that has the name of one of the C library's files.
    """
    found = compiler("gcc")
    library = CALLS.with_name("rest.c")

    def make(folder: Path) -> None:
        run = [str(found.path), "-g", "-O0"]
        for source, options in (
            (library, ("-shared", "-fPIC", "-Wl,-soname,librt.so.1", "-o", "librt.so.1")),
            (CALLS, ("-fopenmp", "./librt.so.1", "-Wl,-rpath,$ORIGIN", "-o", "calls")),
        ):
            shutil.copy(source, folder)
            subprocess.run([*run, source.name, *options], cwd=folder, check=True, env=clean_environment())

    return entry("walking", key_of([CALLS.read_text(), library.read_text()], found.version), make) / "calls"


def build_small() -> Path:
    """Return the program of ``sums.c`` for 32-bit x86, on the libgomp of gcc's 32-bit packages."""
    flags = m32_flags()
    return _build("gcc", SOURCE, flags.compile, flags.link)


def _build(name: str, source: Path, compiling: Sequence[str] = (), linking: Sequence[str] = ()) -> Path:
    found = compiler(name)

    def make(folder: Path) -> None:
        shutil.copy(source, folder)
        command = [str(found.path), "-g", "-O0", "-fopenmp", *compiling, source.name, "-o", source.stem, *linking]
        subprocess.run(command, cwd=folder, check=True, env=clean_environment())

    return entry("walking", key_of([source.read_text()], found.version, compiling, linking), make) / source.stem


def line_of(text: str, source: Path = SOURCE) -> int:
    """Return the number of the first line that contains *text*."""
    return next(number for number, line in enumerate(source.read_text().splitlines(), 1) if text in line)
