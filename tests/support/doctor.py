"""Programs for ``ompd doctor``: with one runtime, and with two that known chains of libraries load."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.build import compiler
from tests.support.cache import entry, key_of
from tests.support.machine import clean_environment
from tests.support.runs import ENVIRONMENT, READY_SECONDS, can_be_read
from tests.support.runtimes import RUNTIMES

SOURCE = Path(__file__).parents[1] / "doctor" / "program.c"

# A library's region. The region's threads and those of the other library wait until the program ends.
_REGION = """
#include <omp.h>
static int here;
int region(void) {
    #pragma omp parallel num_threads(2)
    {
        #pragma omp barrier
        __atomic_add_fetch(&here, 1, __ATOMIC_SEQ_CST);
    }
    return here;
}
"""
_OUTER = "int region(void); int outer(void) { return region(); }\n"
# Arguments: a library to load, then a variable to set as Python's os.environ sets it.
_TWO = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>
int outer(void);
int main(int count, char **names) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (count > 2)
        setenv("KMP_DUPLICATE_LIB_OK", names[2], 1);
    int threads = outer();
    if (count > 1 && *names[1]) {
        void *library = dlopen(names[1], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
        if (!library) {
            puts(dlerror());
            return 1;
        }
        threads += ((int (*)(void))dlsym(library, "region"))();
    }
    printf("ready %d\\n", getpid());
    fflush(stdout);
    for (;;)
        pause();
}
"""


def program(*, runtime: str = "libgomp", flags: Sequence[str] = ("-g",)) -> Path:
    """Return ``tests/doctor/program.c`` with one runtime."""
    gcc, openmp = compiler("gcc"), RUNTIMES[runtime]
    library = openmp.file().parent
    linking = [f"-L{library}", f"-Wl,-rpath,{library}", *openmp.options, "-lpthread"]

    def make(folder: Path) -> None:
        for words in (
            ["-O0", *flags, "-fopenmp", "-c", str(SOURCE), "-o", "program.o"],
            [*flags, "program.o", "-o", "program", *linking],
        ):
            subprocess.run([str(gcc.path), *words], cwd=folder, check=True, env=clean_environment())

    return entry("programs", key_of("doctor", SOURCE.read_text(), gcc.version, flags, linking), make) / "program"


@dataclass(frozen=True)
class TwoRuntimes:
    """A program with two runtimes. It needs ``libouter.so``, which needs ``libinner.so``, which needs the first
    runtime. No file needs ``plugin.so``, which needs the second runtime.
    """

    program: Path
    first: Path
    second: Path

    @property
    def plugin(self) -> Path:
        """The library that no file needs."""
        return self.program.with_name("plugin.so")


def two_runtimes(first: str, second: str) -> TwoRuntimes:
    """Return a program that loads two runtimes by different chains of libraries."""
    gcc = compiler("gcc")
    files = [RUNTIMES[name].file() for name in (first, second)]
    links = [
        [f"-L{file.parent}", f"-Wl,-rpath,{file.parent}", "-Wl,--no-as-needed", *RUNTIMES[name].options]
        for name, file in zip((first, second), files, strict=True)
    ]
    here = ["-L.", "-Wl,-rpath,$ORIGIN"]

    def make(folder: Path) -> None:
        for name, text in (("region.c", _REGION), ("outer.c", _OUTER), ("main.c", _TWO)):
            (folder / name).write_text(text)
        for words in (
            ["-fPIC", "-g", "-fopenmp", "-c", "region.c"],
            ["-shared", "region.o", "-o", "libinner.so", *links[0]],
            ["-shared", "-fPIC", "-g", "outer.c", "-o", "libouter.so", *here, "-linner"],
            ["-shared", "region.o", "-o", "plugin.so", *links[1]],
            ["-g", "main.c", "-o", "main", *here, "-Wl,-rpath-link,.", "-louter", "-ldl"],
        ):
            subprocess.run([str(gcc.path), *words], cwd=folder, check=True, env=clean_environment())

    key = key_of("doctors-two", _REGION, _OUTER, _TWO, gcc.version, links, [str(file) for file in files])
    return TwoRuntimes(entry("programs", key, make) / "main", *files)


_RESTS = """
#include <stdio.h>
#include <sys/prctl.h>
#include <signal.h>
#include <unistd.h>
void rest(void) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    printf("ready %d\\n", getpid());
    fflush(stdout);
    for (;;)
        pause();
}
"""


def resting_in_library(folder: Path, strip: str) -> tuple[Path, Path]:
    """Make a program in *folder* that waits in a library's function, and return program and library.

    :param strip: the option with which ``strip`` removes the library's debug information
    """
    folder.mkdir(parents=True)
    (folder / "rests.c").write_text(_RESTS)
    (folder / "main.c").write_text("void rest(void); int main(void) { rest(); }\n")
    for words in (
        [str(compiler("gcc").path), "-shared", "-fPIC", "-g", "rests.c", "-o", "librests.so"],
        ["strip", strip, "librests.so"],
        [str(compiler("gcc").path), "-g", "main.c", "-o", "main", "-L.", "-lrests", "-Wl,-rpath,$ORIGIN"],
    ):
        subprocess.run(words, cwd=folder, check=True, env=clean_environment())
    return folder / "main", folder / "librests.so"


@contextmanager
def at_rest(
    command: Sequence[str | Path], environment: Mapping[str, str] | None = None, cpus: Collection[int] | None = None
) -> Iterator[int]:
    """Run *command* until it reports that it is ready, and yield the process id that it prints.

    :param environment: variables to add
    :param cpus: the processors on which it may run, None for all
    """
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, allowed if cpus is None else cpus)  # the child process inherits it
    try:
        process = subprocess.Popen(
            [str(word) for word in command],
            stdout=subprocess.PIPE,
            text=True,
            env={**clean_environment(), **ENVIRONMENT, **(environment or {})},
            start_new_session=True,
        )
    finally:
        os.sched_setaffinity(0, allowed)
    assert process.stdout is not None
    try:
        assert can_be_read(process.stdout.fileno(), READY_SECONDS)
        said, _, number = process.stdout.readline().partition(" ")
        assert said == "ready", said + number
        yield int(number)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
