"""Programs of ``tests/var``, whose threads write the addresses and values of their variables."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.build import BuildFailed, Compiler, compiler
from tests.support.cache import CHECKOUT, entry, key_of
from tests.support.debs import deb_folder
from tests.support.machine import Missing, clean_environment, intel_runtime
from tests.support.runs import (
    ENVIRONMENT,
    READY_SECONDS,
    NotReady,
    can_be_read,
    cores_allowed,
    require_kernel_cores,
    write_gcore,
    write_kernel_core,
)
from tests.support.runtimes import INTEL, RUNTIMES

SOURCES = CHECKOUT / "tests" / "var"


@dataclass(frozen=True)
class Recipe:
    """How a program is built and run. *name* is the source file without suffix in *folder*; *compiler* and *flags*
    build it. *environment* has variables to add, and *openmp* is the OpenMP runtime that it is linked with.
    """

    name: str
    compiler: str
    flags: tuple[str, ...] = ()
    folder: Path = SOURCES
    environment: tuple[tuple[str, str], ...] = ()
    openmp: str = INTEL

    @property
    def id(self) -> str:
        """The id of a test with this recipe."""
        return "-".join((self.name, self.compiler, *(flag.strip("-").replace("=", "_") for flag in self.flags)))


@dataclass(frozen=True)
class Told:
    """A program, its process or core, and the words of its threads about themselves."""

    program: Path
    core: Path
    pid: int
    threads: tuple[dict[str, Any], ...]


@cache
def flang(version: int) -> Compiler:
    """Return a version of LLVM's Fortran compiler.

    :raises Missing: if it was not fetched
    """
    home = deb_folder(f"flang-{version}") / "usr" / "lib" / f"llvm-{version}"
    path = home / "bin" / "flang-new"
    done = subprocess.run(
        [path, "--version"], env=_flang_environment(home), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Missing(f"flang-{version}", f"does not run: {done.stderr.strip()}")
    return Compiler(f"flang-{version}", path, done.stdout.splitlines()[0])


def _flang_environment(home: Path) -> dict[str, str]:
    libraries = f"{home.parents[2] / 'usr' / 'lib' / 'x86_64-linux-gnu'}:{home / 'lib'}"
    return {**clean_environment(), "LD_LIBRARY_PATH": libraries}


def build(recipe: Recipe) -> Path:
    """Return the executable, in a folder with the libraries that it is linked with or opens.

    :raises Missing: if a compiler or the runtime is missing
    """
    runtime, gcc = intel_runtime(), compiler("gcc")
    used = flang(int(recipe.compiler[6:])) if recipe.compiler.startswith("flang-") else compiler(recipe.compiler)
    home = used.path.parent.parent
    source = next(recipe.folder.glob(f"{recipe.name}.*"))
    driver, environment, own = (
        str(used.path),
        clean_environment(),
        ["-I", str(SOURCES), "-idirafter", str(runtime / "opt/compiler/include")],
    )
    rest: list[str] = []
    if source.suffix == ".cc":
        plus = used.path.name.replace("gcc", "g++").replace("clang", "clang++")
        driver, rest = str(used.path.with_name(plus)), ["-lstdc++"]
        own += ["-std=c++17"]
    elif source.suffix == ".f90":
        own = []
        if recipe.compiler.startswith("flang-"):
            environment = _flang_environment(home)
            own = [f"-I{home / 'include' / 'flang'}"]
            names = ("libFortranRuntime.a", "libFortranDecimal.a", "libflang_rt.runtime.a")
            rest = [str(path) for name in names for path in sorted((home / "lib").rglob(name))] + ["-lm"]
        else:
            rest = ["-lgfortran", "-lm"]
    openmp = RUNTIMES[recipe.openmp]
    library = openmp.file().parent
    link = [f"-L{library}", f"-Wl,-rpath,{library}", *openmp.options, "-lpthread", "-ldl", *rest]

    def make(folder: Path) -> None:
        def run(command: Sequence[str], env: dict[str, str]) -> None:
            done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
            if done.returncode:
                raise BuildFailed(f"{' '.join(command)}\n{done.stderr}")

        plain = clean_environment()
        run([str(gcc.path), "-g", "-Wall", "-Werror", "-c", str(SOURCES / "truth.c")], plain)
        for library, output in (("linked", "liblinked.so"), ("opened", "opened.so")):
            sources = [str(SOURCES / f"{library}.c"), "-o", output]
            run([str(gcc.path), "-g", "-fPIC", "-shared", *sources], plain)
        # The folder is renamed when it is complete, but readers look for split debug files in the folder of the build.
        moved = (
            [] if "flang" in recipe.compiler else [f"-fdebug-prefix-map={folder}={str(folder).removesuffix('.part')}"]
        )
        options = ["-g", "-fopenmp", *recipe.flags, *own, *moved]
        run([driver, *options, "-c", str(source), "-o", "program.o"], environment)
        libraries = ["-L.", "-llinked", "-Wl,-rpath,$ORIGIN"] if recipe.name == "threads" else []
        run([str(gcc.path), "program.o", "truth.o", "-o", recipe.name, *libraries, *link], plain)

    folders = (SOURCES, recipe.folder)
    sources = {path.name: path.read_text() for folder in folders for path in sorted(folder.iterdir())}
    key = key_of(sources, recipe.id, used.version, gcc.version, own, rest, openmp.version())
    return entry("var", key, make) / recipe.name


@contextmanager
def running(recipe: Recipe, threads: int, folder: Path) -> Iterator[Told]:
    """Run the program in the empty *folder* until all threads have written their words; the context kills it at its
    end.
    """
    program = build(recipe)
    ready, told = os.pipe()
    try:
        with (folder / "output").open("wb") as output, cores_allowed():
            process = subprocess.Popen(
                [str(program), str(program.with_name("opened.so"))],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[told],
                env={
                    **ENVIRONMENT,
                    **dict(recipe.environment),
                    "THREADS": str(threads),
                    "TRUTH_FILE": "truth.json",
                    "TRUTH_FD": str(told),
                },
                start_new_session=True,
            )
    finally:
        os.close(told)
    try:
        if not can_be_read(ready, READY_SECONDS) or not os.read(ready, 1):
            raise NotReady(f"{recipe.id}: {(folder / 'output').read_text(errors='replace')}")
        rows = json.loads((folder / "truth.json").read_text())["threads"]
        yield Told(program, folder / "no core", process.pid, tuple(rows))
    finally:
        os.close(ready)
        process.kill()
        process.wait()


def stopped(recipe: Recipe, threads: int, kind: str = "kernel") -> Told:
    """Return a core of the program, from the cache or from a run.

    :raises Missing: if a tool is not there, or the machine forbids this kind of core
    """
    if kind == "kernel":
        require_kernel_cores()
    program = build(recipe)

    def make(folder: Path) -> None:
        with running(recipe, threads, folder) as told:
            if kind == "gcore":
                write_gcore(told.pid, folder / "core.gcore")
            else:
                process = _Process(told.pid)
                write_kernel_core(process, folder / "core.kernel")  # type: ignore[arg-type]

    folder = entry("var-cores", key_of(program.parent.name, threads, kind, ENVIRONMENT, recipe.environment), make)
    rows = json.loads((folder / "truth.json").read_text())["threads"]
    return Told(program, folder / f"core.{kind}", 0, tuple(rows))


class _Process:
    # A process that another object waits for.

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def send_signal(self, number: int) -> None:
        os.kill(self._pid, number)

    def wait(self) -> None:
        os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)
