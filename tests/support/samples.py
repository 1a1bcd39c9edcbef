"""Programs whose files the tests of file formats read, and damaged copies of these files."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from ompd.binary.elf.elf import ElfFile
from ompd.errors import MalformedFile, Unsupported
from ompd.safety.reading import open_paged
from tests.support import FULL, Missing, clean_environment, intel_runtime, require
from tests.support.cache import entry, key_of
from tests.support.runs import cores_allowed, kernel_core_obstacle

# A signal handler that aborts, in a comparison of qsort, in a recursion, in a parallel region.
SOURCE = """\
#include <signal.h>
#include <stdlib.h>
extern int omp_get_thread_num(void);
__thread int per_thread = 1;
int exported_object[4] = {1, 2, 3, 4};
static int compare(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    if (x == 5)
        raise(SIGUSR1);
    return x < y ? -1 : x > y;
}
static void handler(int number)
{
    volatile int local[10];
    local[0] = number;
    if (local[0])
        abort();
}
__attribute__((noinline)) int recurse(int depth)
{
    volatile char local[64];
    local[0] = depth;
    if (depth == 0) {
        int numbers[] = {9, 4, 5, 2, 1, 7};
        qsort(numbers, 6, sizeof *numbers, compare);
        return numbers[0];
    }
    return recurse(depth - 1) + local[0];
}
__attribute__((weak, alias("recurse"))) int weak_recurse(int depth);
int main(void)
{
    signal(SIGUSR1, handler);
    #pragma omp parallel num_threads(4)
    {
        #pragma omp barrier
        if (omp_get_thread_num() == 2)
            exported_object[0] = recurse(5) + per_thread;
        #pragma omp barrier
    }
    return 0;
}
"""


def run(*command: str | Path) -> str:
    """Return a command's output; its error output and exit status are ignored."""
    done = subprocess.run(
        [str(word) for word in command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        env=clean_environment(),
        check=False,
    )
    return done.stdout


def source(text: str = SOURCE) -> Path:
    """Return the source file with *text*."""
    return entry("samples", key_of(text), lambda folder: _write(folder / "sample.c", text)) / "sample.c"


def _write(path: Path, text: str) -> None:
    path.write_text(text)


def compiled(compiler: str = "gcc", *flags: str, runtime: str = "gomp", text: str = SOURCE) -> Path:
    """Return the executable of *text*, linked with gcc's OpenMP runtime or Intel's ("iomp")."""
    path, linker = require(compiler), require("gcc")
    if runtime == "iomp":
        library = intel_runtime() / "lib"
        libraries = [str(library / "libiomp5.so"), f"-Wl,-rpath,{library}"]
    else:
        libraries = ["-fopenmp"]
    compiling = ["-g", "-O2", "-w", "-fopenmp", *flags]
    linking = [flag for flag in flags if flag.startswith(("-Wl,", "-no-pie", "-gz"))] + libraries

    def make(folder: Path) -> None:
        for command in (
            [path, *compiling, "-c", source(text), "-o", "sample.o"],
            [linker, "sample.o", "-o", "sample", *linking],
        ):
            subprocess.run(command, cwd=folder, env=clean_environment(), check=True)

    version = run(path, "--version").splitlines()[0]
    return entry("samples", key_of(str(source(text)), version, compiling, linking), make) / "sample"


def crashed(program: Path) -> Path:
    """Return the kernel's core of a run of *program*."""
    obstacle = kernel_core_obstacle()
    if obstacle is not None:
        raise Missing("kernel cores", obstacle, forbidden=True)

    def make(folder: Path) -> None:
        environment = {**clean_environment(), "OMP_STACKSIZE": "256k", "MALLOC_ARENA_MAX": "1", "KMP_BLOCKTIME": "0"}
        with cores_allowed():
            process = subprocess.Popen([program], cwd=folder, env=environment)
        assert process.wait() == -signal.SIGABRT
        next(folder.glob("core*")).rename(folder / "core.kernel")

    return entry("samples", key_of("core", program.parent.name), make) / "core.kernel"


@cache
def mapped(path: Path) -> ElfFile:
    """Return the file as ompd reads it."""
    return ElfFile(open_paged(str(path)), path.name)


def libc() -> Path:
    """Return the C library that this Python process uses."""
    with Path(f"/proc/{os.getpid()}/maps").open() as maps:
        # Other C libraries may be mapped for reading; only this one is mapped as code.
        code = (line.rstrip("\n").split(maxsplit=5)[-1] for line in maps if " r-xp " in line)
        return next(Path(name) for name in code if "/libc.so" in name or "/libc-" in name)


def survives(
    original: bytes, use: Callable[[bytes], object], regions: Sequence[tuple[int, int]] = (), *, examples: int = 150
) -> None:
    """Check that *use* returns in time, or raises an expected error, for many damaged copies of *original*. If
    *regions* (start, end) are given, only these are damaged.
    """
    spans = [span for span in regions if span[0] < span[1]] or [(0, len(original))]
    offsets = st.one_of([st.integers(start, end - 1) for start, end in spans])
    interesting = st.one_of(st.integers(0, 255), st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))

    @settings(max_examples=examples if FULL else examples // 3, deadline=10_000, derandomize=True, database=None)
    @given(
        changes=st.lists(st.tuples(offsets, interesting), max_size=4),
        cut=st.one_of(st.none(), st.integers(0, len(original))),
        stretch=st.one_of(st.none(), st.tuples(offsets, st.integers(1, 9))),
    )
    def damage(changes: list[tuple[int, int]], cut: int | None, stretch: tuple[int, int] | None) -> None:
        data = bytearray(original)
        for offset, byte in changes:
            data[offset] = byte
        if stretch is not None:
            start, size = stretch
            data[start : start + size] = b"\xff" * len(data[start : start + size])
        try:
            use(bytes(data[:cut]))
        except MalformedFile:
            pass
        except Unsupported as error:
            assert "zstd" in str(error) or "supplementary" in str(error)

    damage()
