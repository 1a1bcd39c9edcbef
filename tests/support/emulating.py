"""Cores of programs that wrote the results of functions, which the emulator then executes on the cores."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ompd.contract.process import CallResult, Module
from ompd.debugger.files.finder import FileFinder
from ompd.debugger.process import StoppedProcess
from ompd.debugger.targets.base import Target
from ompd.debugger.targets.core import CoreTarget
from ompd.errors import MemoryFault, Unavailable
from tests.support import NotReady, clean_environment, intel_runtime
from tests.support.build import compiler
from tests.support.cache import entry, key_of
from tests.support.machine import table
from tests.support.runs import (
    ENVIRONMENT,
    READY_SECONDS,
    can_be_read,
    cores_allowed,
    require_kernel_cores,
    write_kernel_core,
)

SOURCES = Path(__file__).parents[1] / "emulate"


@dataclass(frozen=True)
class Kind:
    """How the program is built: its flags, with or without its libraries, stripped or not, and its runtime."""

    flags: tuple[str, ...] = ("-Wl,-z,lazy",)
    libraries: bool = True
    is_stripped: bool = False
    on_intel: bool = False


KINDS = {
    "lazy": Kind(),
    "now": Kind(("-Wl,-z,now",)),
    "stripped": Kind(is_stripped=True),
    "sysv-hash": Kind(("-Wl,-z,lazy", "-Wl,--hash-style=sysv")),
    "static-pie": Kind(("-static-pie",), libraries=False),
    "intel": Kind(on_intel=True),
}


@dataclass(frozen=True)
class Sample:
    """A core of ``emulate/program.c``, and the results that each of its threads wrote."""

    program: Path
    core: Path
    threads: list[dict[str, Any]]

    def thread(self, where: str) -> int:
        return int(next(thread["id"] for thread in self.threads if thread["where"] == where))


def build(kind: Kind) -> Path:
    used = compiler("gcc")
    sources = {path.name: path.read_text() for path in sorted(SOURCES.iterdir())}
    runtime = intel_runtime() if kind.on_intel else None
    version = table()["intel-openmp"].version if kind.on_intel else ""

    def make(folder: Path) -> None:
        def run(*arguments: str) -> None:
            subprocess.run([str(used.path), "-g", *arguments], cwd=folder, env=clean_environment(), check=True)

        linking = []
        if kind.libraries:
            versions = f"-Wl,--version-script={SOURCES / 'versions.map'}"
            style = [flag for flag in kind.flags if "hash" in flag]
            run("-O1", "-fPIC", "-shared", *style, str(SOURCES / "versions.c"), versions, "-o", "libversions.so")
            run(
                *("-O1", "-fPIC", "-shared", "-Wl,-z,lazy", str(SOURCES / "asking.c"), "-o", "libasking.so"),
                *("-L.", "-lversions"),
            )
            linking += ["-L.", "-Wl,--no-as-needed", "-lasking", "-lversions", "-Wl,-rpath,$ORIGIN"]
        if runtime is not None:
            linking += [f"-L{runtime / 'lib'}", f"-Wl,-rpath,{runtime / 'lib'}", "-liomp5"]
        else:
            linking += ["-fopenmp"]
        run("-O1", "-Wall", "-Wextra", "-fopenmp", "-fPIE", "-c", str(SOURCES / "program.c"))
        run(*kind.flags, "-rdynamic", "program.o", "-o", "program", *linking, "-lpthread")
        if kind.is_stripped:
            subprocess.run(["strip", "program"], cwd=folder, check=True)

    key = key_of(sources, used.version, kind.flags, kind.libraries, kind.is_stripped, version, str(runtime))
    return entry("emulate", key, make)


@contextmanager
def at_rest(program: Path, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run the program until all its threads wait."""
    ready, told = os.pipe()
    try:
        with cores_allowed():
            process = subprocess.Popen(
                [str(program), "truth.json", str(told)],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                pass_fds=[told],
                # With rseq the kernel would write the processor's number into each thread's memory.
                env={**ENVIRONMENT, "GLIBC_TUNABLES": "glibc.pthread.rseq=0"},
                start_new_session=True,
            )
        os.close(told)
        try:
            if not can_be_read(ready, READY_SECONDS) or not os.read(ready, 1):
                raise NotReady("emulate/program.c")
            yield process
        finally:
            process.kill()
            process.wait()
    finally:
        os.close(ready)


@cache
def sample(name: str) -> Sample:
    require_kernel_cores()
    built = build(KINDS[name])

    def make(folder: Path) -> None:
        with at_rest(built / "program", folder) as process:
            write_kernel_core(process, folder / "core")

    folder = entry("emulate-cores", key_of(built.name, ENVIRONMENT), make)
    return Sample(built / "program", folder / "core", json.loads((folder / "truth.json").read_text()))


@contextmanager
def opened(taken: Sample, target: Target | None = None, finder: FileFinder | None = None) -> Iterator[StoppedProcess]:
    target = target or CoreTarget(str(taken.core))
    process = StoppedProcess(target, finder or FileFinder())
    try:
        yield process
    finally:
        process.close()
        target.close()


def runtime_of(process: StoppedProcess) -> Module:
    return next(m for m in process.symbols.modules() if process.symbols.symbol_in(m, "omp_get_thread_num") is not None)


def answer(process: StoppedProcess, call: str, thread: int) -> CallResult:
    name, *arguments = call.split()
    address = process.symbols.symbol_in(runtime_of(process), name)
    assert address is not None, name
    return process.routines.call(address, thread, [int(argument) for argument in arguments])


def compared(process: StoppedProcess, threads: Sequence[Mapping[str, Any]]) -> tuple[int, list[str]]:
    """Return the number of compared results, and the differences."""
    count, differences = 0, []
    for thread in threads:
        for call, truth in thread["calls"].items():
            if not call:
                continue
            count += 1
            told = answer(process, call, thread["id"]).as_int
            if told != truth:
                differences.append(f"{thread['where']}: {call} is {told}, in truth {truth}")
    return count, differences


class Changed:
    """A core target with changed or missing memory at some addresses, or with another changed fact."""

    def __init__(self, taken: Sample, memory: Mapping[int, bytes | None] = {}, **facts: Any) -> None:
        self._target = CoreTarget(str(taken.core))
        self._memory = memory
        self.__dict__.update(facts)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def read(self, address: int, size: int) -> bytes:
        raw = bytearray(self._target.read(address, size))
        for at, data in self._memory.items():
            if data is None and at < address + size and address < at + 4096:
                raise MemoryFault(address, size)
            for index in range(max(0, address - at), min(len(data or b""), address + size - at)):
                raw[at + index - address] = (data or b"")[index]
        return bytes(raw)


class Held(Changed):
    """A core target with added pages that the core lacks."""

    def read(self, address: int, size: int) -> bytes:
        data = self._memory.get(address & ~0xFFF)
        if data is not None and (address & 0xFFF) + size <= 4096:
            return data[address & 0xFFF : (address & 0xFFF) + size]
        return self._target.read(address, size)


def asked(process: StoppedProcess, name: str, thread: int, *arguments: int) -> CallResult:
    """Call a routine of the program or of its libraries."""
    return process.routines.call(process.symbols.find_symbol(name), thread, arguments)


CHANGED = "changed"


def refused(process: StoppedProcess, name: str, thread: int, *arguments: int | str) -> str:
    """Return why a routine of the program cannot be emulated to its end."""
    given = [process.symbols.find_symbol(each) if isinstance(each, str) else each for each in arguments]
    with pytest.raises(Unavailable) as raised:
        asked(process, name, thread, *given)
    text = str(raised.value)
    assert text.startswith(f"{name} cannot be emulated in thread {thread}: it ")
    return text.partition(": it ")[2]


@contextmanager
def changed(taken: Sample, memory: Mapping[int, bytes | None] = {}, **facts: Any) -> Iterator[StoppedProcess]:
    with opened(taken, Changed(taken, memory, **facts)) as process:
        yield process


def word(value: int) -> bytes:
    return (value & (1 << 64) - 1).to_bytes(8, "little")


class Without(FileFinder):
    """A file finder that finds no file whose name contains *name*."""

    def __init__(self, name: str) -> None:
        self._missing = name
        super().__init__()

    def resolve(self, name: str) -> str:
        return "/nonexistent" if self._missing in name else super().resolve(name)
