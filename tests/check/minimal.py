"""The minimal programs for known differences, ``fixtures/programs/check``. Each ends itself where it shows one."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.build import PROGRAMS, SETTLED, WITH_HEADERS, compiler
from tests.support.cache import entry, key_of
from tests.support.machine import Missing
from tests.support.runs import ENVIRONMENT, READY_SECONDS, cores_allowed, require_kernel_cores
from tests.support.runtimes import INTEL, RUNTIMES

SOURCES = PROGRAMS / "check"
NAMES = tuple(sorted(path.stem for path in SOURCES.glob("*.c")))


def built(name: str, compiler_name: str, runtime: str = INTEL) -> Path:
    """Return the executable of ``NAME.c``.

    :param compiler_name: ``gcc`` or ``clang``
    :raises Missing: if it or the runtime is not there
    """
    used, by = RUNTIMES[runtime], compiler(compiler_name)
    source, library = SOURCES / f"{name}.c", used.file().parent
    compiling = [str(by.path), "-g", "-O0", "-Wall", "-Wextra", "-Werror", "-fopenmp", *WITH_HEADERS, "-c", str(source)]
    # -fopenmp would link the compiler's own runtime, too.
    linking = [f"-L{library}", f"-Wl,-rpath,{library}", *used.options, "-lpthread"]

    def make(folder: Path) -> None:
        subprocess.run([*compiling, "-o", str(folder / "made.o")], check=True)
        subprocess.run([str(by.path), str(folder / "made.o"), "-o", str(folder / name), *linking], check=True)

    text = source.read_text() + SETTLED.read_text()
    return entry("programs", key_of(name, text, by.version, compiling, linking, used.version()), make) / name


def core_of(name: str, compiler_name: str = "clang", *, is_debugged: bool = True, runtime: str = INTEL) -> Path:
    """Return the core of a program.

    :param compiler_name: ``gcc`` or ``clang``
    :param is_debugged: whether it is started with ``OMP_DEBUG=enabled``
    :raises Missing: if a compiler, a runtime or the kernel's cores are missing
    """
    require_kernel_cores()
    executable = built(name, compiler_name, runtime)
    environment = {**ENVIRONMENT, **({"OMP_DEBUG": "enabled"} if is_debugged else {})}

    def run(folder: Path) -> None:
        with cores_allowed():
            subprocess.run(
                [str(executable)],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=READY_SECONDS,
                check=False,
            )
        written = list(folder.iterdir())
        if len(written) != 1:
            raise Missing("kernel core", f"the kernel wrote {len(written)} files and no core", forbidden=True)
        written[0].rename(folder / "core.kernel")

    return entry("cores", key_of(executable.parent.name, environment), run) / "core.kernel"
