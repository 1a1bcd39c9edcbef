"""Compilers, and the programs of ``fixtures/programs`` built by them and linked with an OpenMP runtime."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.support.cache import CHECKOUT, entry, key_of
from tests.support.machine import Missing, clean_environment, intel_runtime, require, run_in
from tests.support.runtimes import INTEL, RUNTIMES
from tests.support.stub import INCLUDE

PROGRAMS = CHECKOUT / "fixtures" / "programs"
COMPILERS = ("gcc", "clang")  # of C
# Compilers of other languages, with the C compiler for the sources that these share with C. A name with a release
# (``g++-11``) stands for the C compiler of this release.
C_COMPILERS = {"gfortran": "gcc", "g++": "gcc", "clang++": "clang"}
# All releases in Debian 12, by the name of the compiler that tests use by default.
RELEASES = {"gcc": ("gcc-11", "gcc-12"), "clang": ("clang-14", "clang-16", "clang-19", "clang-22")}
SETTLED = Path(__file__).with_name("settled.h")
# Options for programs that wait until their other threads have settled.
WITH_HEADERS = ("-I", str(SETTLED.parent))
SUFFIXES = (".c", ".cc", ".F90")
MODES = ("debug", "tool", "neither")


class BuildFailed(Exception):
    """A program of the fixtures does not compile; the message is the compiler's."""


@dataclass(frozen=True)
class Compiler:
    """A compiler of this machine; *version* is the first line that its option ``--version`` prints."""

    name: str
    path: Path
    version: str


@cache
def compiler(name: str) -> Compiler:
    """Return the compiler *name*, one of COMPILERS or C_COMPILERS, or such a name with a release (``g++-11``).

    :raises Missing: if this machine does not have the compiler
    """
    path = require(name)
    if not name.startswith("clang"):
        require("libc-headers")
    text = subprocess.run(
        [str(path), "--version"], capture_output=True, text=True, env=clean_environment(), check=True
    ).stdout
    return Compiler(name, path, text.splitlines()[0])


def releases(name: str) -> list[str]:
    """Return the names of all releases of compiler *name*, one of COMPILERS or C_COMPILERS (``g++-11``, ``g++-12``)."""
    return [other.replace(_of_c(name), name) for other in RELEASES[_of_c(name)]]


def _of_c(name: str) -> str:
    family, dash, release = name.partition("-")
    return C_COMPILERS.get(family, family) + dash + release


def source(program: str) -> Path:
    """Return the source of a program."""
    return next(path for suffix in SUFFIXES if (path := PROGRAMS / f"{program}{suffix}").exists())


def build(
    program: str,
    *,
    compiler_name: str = "gcc",
    mode: str = "debug",
    flags: Sequence[str] = (),
    pie: bool = True,
    runtime: str = INTEL,
) -> Path:
    """Return the executable of a program, without optimization and with debug information unless *flags* say otherwise.

    :param runtime: one of RUNTIMES, to link with
    :raises Missing: if the compiler or the runtime is not there
    :raises BuildFailed: if the program does not compile; the file ``warnings`` beside the executable has the warnings
    """
    openmp, used = RUNTIMES[runtime], compiler(compiler_name)
    library = openmp.file().parent
    c_compiler = compiler(_of_c(compiler_name))
    tool = ["-DTOOL"] if mode != "neither" and openmp.has_ompt else []
    # -fopenmp is for compiling only: at the link it would add the compiler's runtime. The compiler's own omp.h wins.
    compiling = [
        "-g",
        "-O0",
        "-Wall",
        "-Wextra",
        "-fopenmp",
        "-DTRUTH",
        *tool,
        "-fPIE" if pie else "-fno-pie",
        *openmp.compiling(),
        *flags,
    ]
    headers = ["-idirafter", str(intel_runtime() / "opt" / "compiler" / "include")]
    linking = [
        *([] if "-static-pie" in flags else ["-pie" if pie else "-no-pie"]),
        *openmp.compiling(),
        *openmp.linking(),
        *flags,
        f"-L{library}",
        # A static-PIE program with a search path ends before main: glibc asserts that there is no path.
        *([] if "-static-pie" in flags else [f"-Wl,-rpath,{library}"]),
        *openmp.options,
        "-lpthread",
    ]
    version = openmp.version()

    by_suffix = {
        ".c": (c_compiler, headers),
        ".cc": (used, headers),
        # Fortran has no word that keeps a procedure from being inlined.
        ".F90": (used, ["-ffree-line-length-none", "-fno-inline"]),
    }
    shared = [(PROGRAMS / name).read_text() for name in ("truth.h", "truth.c", "truth.F90")]

    def compiled(name: str) -> Path:
        # The object files are the same for all runtimes.
        by, options = by_suffix[source(name).suffix]
        command = [str(by.path), *compiling, *options, "-c", str(source(name)), "-o", f"{name}.o"]
        key = key_of(command, by.version, source(name).read_text(), shared, RUNTIMES[INTEL].version())
        return entry("objects", key, lambda folder: run_compiler(command, folder)) / f"{name}.o"

    def make_program(folder: Path) -> None:
        objects = [compiled(program), compiled("truth")]
        (folder / objects[0].name).symlink_to(objects[0])
        (folder / "warnings").write_text("".join(path.with_name("warnings").read_text() for path in objects))
        for path in openmp.sources:
            target = folder / f"{path.stem}.o"
            run_compiler([str(c_compiler.path), *compiling, f"-I{INCLUDE}", "-c", str(path), "-o", str(target)], folder)
            objects.append(target)
        try:
            run_compiler([str(used.path), *map(str, objects), "-o", str(folder / program), *linking], folder)
        except BuildFailed as error:
            if "undefined reference to `__kmpc_" not in str(error):
                raise
            why = f"it has no entry point that the code of {compiler_name} calls, which is of a later release"
            raise Missing(openmp.name, why, forbidden=True) from error

    more = [path.read_text() for path in openmp.sources]
    program_key = key_of(program, source(program).read_text(), shared, used.version, compiling, linking, version, *more)
    return entry("programs", program_key, make_program) / program


def run_compiler(command: list[str], folder: Path) -> None:
    """Run a compiler in *folder* and append its messages to the file ``warnings`` there.

    :raises BuildFailed: if it fails
    """
    done = run_in(folder, command)
    with (folder / "warnings").open("a") as file:
        file.write(done.stderr)
    if done.returncode:
        raise BuildFailed(f"{' '.join(command)}\n{done.stderr}")
