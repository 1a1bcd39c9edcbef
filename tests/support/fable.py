"""An invented runtime, a program on it, and the runtime's own OMPD library (``tests/hosted``)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.build import compiler
from tests.support.cache import CHECKOUT, entry, key_of
from tests.support.machine import clean_environment
from tests.support.runs import READY_SECONDS, can_be_read, cores_allowed, require_kernel_cores

SOURCES = CHECKOUT / "tests" / "hosted"
_FILES = ("fable.h", "fable.c", "fable_ompd.c", "program.c")


def folder() -> Path:
    """Return a folder with the ``program``, ``libfable.so`` and ``libfable_ompd.so``."""
    used = compiler("gcc")
    compiling = [str(used.path), "-g", "-O1", "-Wall", "-Werror", "-pthread"]
    commands = (
        [*compiling, "-shared", "-fPIC", str(SOURCES / "fable.c"), "-o", "libfable.so"],
        [*compiling, "-shared", "-fPIC", str(SOURCES / "fable_ompd.c"), "-o", "libfable_ompd.so"],
        [*compiling, str(SOURCES / "program.c"), "libfable.so", "-Wl,-rpath,$ORIGIN", "-o", "program"],
    )
    texts = [(SOURCES / name).read_text() for name in _FILES]

    def make(made: Path) -> None:
        for words in commands:
            subprocess.run(words, cwd=made, check=True, env=clean_environment())

    return entry("programs", key_of(texts, used.version, compiling), make)


def core(mode: str = "debug") -> Path:
    """Return the core of the program.

    :param mode: ``debug`` for a runtime that keeps states, ``neither`` for one that does not
    """
    program = folder() / "program"

    def make(made: Path) -> None:
        with cores_allowed():
            words = [str(program), "abort", *["debug"] * (mode == "debug")]
            subprocess.run(words, cwd=made, check=False, env=clean_environment())
        (written,) = made.glob("core*")
        written.rename(made / "core")

    require_kernel_cores()
    return entry("cores", key_of(str(program), mode), make) / "core"


@contextmanager
def running() -> Iterator[int]:
    """Run the program until it is in its state, and yield its process id."""
    process = subprocess.Popen(
        [str(folder() / "program"), "stay", "debug"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env=clean_environment(),
    )
    assert process.stdout is not None
    try:
        assert can_be_read(process.stdout.fileno(), READY_SECONDS)
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def dying(where: Path, flags: Sequence[str]) -> Path:
    """Return a new library in the folder *where*, which fails as *flags* define."""
    library = where / "libdying.so"
    command = [str(compiler("gcc").path), "-shared", "-fPIC", "-Wall", "-Werror", *flags, str(SOURCES / "dying.c")]
    subprocess.run([*command, "-o", str(library)], check=True, env=clean_environment())
    library.chmod(0o644)
    return library
