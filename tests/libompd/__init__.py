"""Programs like those of LLVM's libompd test-suite, and shapes that it lacks. ``truth.h`` describes their output."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.support import Missing, Stopped, clean_environment, intel_runtime
from tests.support.build import PROGRAMS, compiler
from tests.support.cache import entry, key_of
from tests.support.machine import table
from tests.support.runs import ENVIRONMENT, _Prepared, kernel_core_obstacle

SOURCES = Path(__file__).parent


def stop(
    program: str, *, compiler_name: str = "gcc", mode: str = "debug", env: Mapping[str, str] | None = None
) -> Stopped:
    """Return a kernel's core of one of these programs, from the cache or from a run."""
    obstacle = kernel_core_obstacle()
    if obstacle is not None:
        raise Missing("kernel core", obstacle, forbidden=True)
    environment = {**ENVIRONMENT, **(env or {})}
    if mode == "debug":
        environment["OMP_DEBUG"] = "enabled"
    prepared = _Prepared(program, compiler_name, mode, build(program, compiler_name, mode), environment)
    return prepared.stopped(prepared.core_folder("kernel"), "kernel")


def build(program: str, compiler_name: str, mode: str) -> Path:
    """Return the executable of one of these programs."""
    runtime, used = intel_runtime(), compiler(compiler_name)
    sources = [SOURCES / f"{program}.c", PROGRAMS / "truth.c"]
    tool = ["-DTOOL"] if mode != "neither" else []
    compiling = ["-g", "-O0", "-Wall", "-Wextra", "-Werror", "-fopenmp", "-DTRUTH", *tool, "-fPIE"]
    headers = ["-I", str(PROGRAMS), "-idirafter", str(runtime / "opt" / "compiler" / "include")]
    library = runtime / "lib"
    linking = ["-pie", f"-L{library}", f"-Wl,-rpath,{library}", "-liomp5", "-lpthread"]

    def run(folder: Path, *arguments: str) -> None:
        done = subprocess.run(
            [str(used.path), *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=clean_environment(),
            check=False,
        )
        assert done.returncode == 0, done.stderr

    def make(folder: Path) -> None:
        for path in sources:
            run(folder, *compiling, *headers, "-c", str(path), "-o", f"{path.stem}.o")
        run(folder, *(f"{path.stem}.o" for path in sources), "-o", program, *linking)

    text = [path.read_text() for path in (*sources, PROGRAMS / "truth.h")]
    key = key_of("libompd", program, text, used.version, compiling, linking, table()["intel-openmp"].version)
    return entry("programs", key, make) / program
