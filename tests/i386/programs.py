"""Build and start 32-bit programs, and make cores with the programs' own record of the truth."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from ompd.debugger.files.finder import FileFinder
from ompd.debugger.process import StoppedProcess
from ompd.debugger.targets.core import CoreTarget
from tests.i386.checks import ENVIRONMENT
from tests.support import NotReady, clean_environment
from tests.support.build import compiler
from tests.support.cache import entry, key_of
from tests.support.m32 import Flags, m32_flags, m32_version
from tests.support.runs import (
    READY_SECONDS,
    await_pause,
    can_be_read,
    cores_allowed,
    require_kernel_cores,
    write_gcore,
    write_kernel_core,
)

SOURCES = Path(__file__).parent


@dataclass(frozen=True)
class Build:
    """The way to build the program, and to stop it: by a core of the kernel or of gdb."""

    name: str
    compiler: str
    flags: tuple[str, ...]
    kind: str = "kernel"
    mechanism: str = "tls"

    @property
    def is_static(self) -> bool:
        return any(flag.startswith("-static") for flag in self.flags)


BUILDS = {
    build.name: build
    for build in (
        Build("gcc-O0-pie", "gcc", ("-O0", "-fPIE", "-pie")),
        Build("gcc-O0-pie-gcore", "gcc", ("-O0", "-fPIE", "-pie"), "gcore"),
        Build("gcc-O2-no_pie", "gcc", ("-O2", "-fomit-frame-pointer", "-fno-pie", "-no-pie")),
        Build("gcc-O2-no_pie-gcore", "gcc", ("-O2", "-fomit-frame-pointer", "-fno-pie", "-no-pie"), "gcore"),
        Build("gcc-O1-gnu2", "gcc", ("-O1", "-fPIC", "-mtls-dialect=gnu2", "-gdwarf-4")),
        Build("gcc-debug_frame", "gcc", ("-O1", "-fno-asynchronous-unwind-tables", "-fno-pie", "-no-pie")),
        Build("gcc-static", "gcc", ("-O1", "-static")),
        Build("gcc-static_pie", "gcc", ("-O2", "-static-pie", "-fPIE")),
        Build("gcc-no_build_id", "gcc", ("-O1", "-fPIE", "-pie", "-Wl,--build-id=none", "-Wl,-z,now")),
        Build("clang-O1-pie", "clang", ("-O1", "-fPIE", "-pie")),
        Build("clang-O0-no_pie-gcore", "clang", ("-O0", "-fno-pie", "-no-pie"), "gcore"),
        Build("clang-emulated", "clang", ("-O1", "-fPIE", "-pie", "-femulated-tls"), "kernel", "emutls"),
    )
}


@dataclass(frozen=True)
class Sample:
    """A core of the program, and the program's record."""

    program: Path
    core: Path
    truth: dict[str, Any]


def compiled(name: str, flags: Sequence[str], sources: Mapping[str, str], command: Sequence[str], output: str) -> Path:
    """Return the folder with the result of compiling *sources*, which are given by their file names."""
    used = compiler(name)

    def make(folder: Path) -> None:
        for file, text in sources.items():
            (folder / file).write_text(text)
        words = [str(used.path), "-g", "-Wall", "-Wextra", *flags, *command, "-o", output]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, env=clean_environment(), check=False)
        assert done.returncode == 0, done.stderr

    return entry("i386", key_of(name, used.version, m32_version(), flags, sources, command), make)


def flags_of(build: Build) -> Flags:
    flags = m32_flags()
    return replace(flags, link=flags.link_static) if build.is_static else flags


def built(build: Build) -> tuple[Path, Path | None]:
    """Return the program, and the library that it opens, None if it is static."""
    flags = flags_of(build)
    library = None
    if not build.is_static:
        emulated = [flag for flag in build.flags if flag == "-femulated-tls"]
        options = ["-shared", "-fPIC", *emulated, *flags.compile]
        source = {"opened.c": (SOURCES / "opened.c").read_text()}
        library = compiled(build.compiler, options, source, ["opened.c", *flags.link], "opened.so") / "opened.so"
    options = ["-fno-optimize-sibling-calls", *build.flags, *flags.compile]
    options += ["-DSTAND_ALONE"] if build.is_static else []
    source = {"program.c": (SOURCES / "program.c").read_text()}
    linking = ["program.c", *flags.link, "-lpthread", *([] if build.is_static else ["-ldl"])]
    return compiled(build.compiler, options, source, linking, "program") / "program", library


@contextmanager
def started(build: Build, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run the program in *folder* until it has written ``truth.json`` there and all of its threads are at rest."""
    program, library = built(build)
    ready, told = os.pipe()
    process = None
    try:
        with cores_allowed():
            process = subprocess.Popen(
                [str(program), "truth.json", str(told), *([str(library)] if library is not None else [])],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                pass_fds=[told],
                env=ENVIRONMENT,
                start_new_session=True,
            )
        os.close(told)
        if not can_be_read(ready, READY_SECONDS) or not os.read(ready, 1):
            raise NotReady("i386/program.c")
        await_pause(process.pid, process.pid)
        yield process
    finally:
        if process is not None:
            process.kill()
            process.wait()
        os.close(ready)


@cache
def sample(name: str) -> Sample:
    build = BUILDS[name]
    if build.kind == "kernel":
        require_kernel_cores()

    def make(folder: Path) -> None:
        with started(build, folder) as process:
            if build.kind == "gcore":
                write_gcore(process.pid, folder / "core")
            else:
                write_kernel_core(process, folder / "core")

    program, library = built(build)
    folder = entry("i386-cores", key_of(program.parent.name, str(library), build.kind, ENVIRONMENT), make)
    return Sample(program, folder / "core", json.loads((folder / "truth.json").read_text()))


@contextmanager
def process_of(core: Path, finder: FileFinder | None = None) -> Iterator[StoppedProcess]:
    target = CoreTarget(str(core))
    process = StoppedProcess(target, finder or FileFinder())
    try:
        yield process
    finally:
        process.close()
        target.close()


TEAM = """#include <unistd.h>
int sink;
int main(void) {
#pragma omp parallel num_threads(3)
{
#pragma omp barrier
#pragma omp master
(void)!write(1, "ready\\n", 6);
for (;;) pause();
} }
"""


@contextmanager
def team_of(program: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([str(program)], stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        await_pause(process.pid, process.pid)
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
