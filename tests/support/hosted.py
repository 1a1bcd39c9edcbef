"""OMPD libraries written for tests, and an invented process for them to read."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ompd.contract.callbacks import TypeRef, TypeSizes
from ompd.contract.memory import ByteOrder
from ompd.contract.ompd import ThreadIdKind
from ompd.errors import BadInput, CorruptState, FieldNotFound, MemoryFault, SymbolNotFound, TypeNotFound
from ompd.runtimes.hosted.client import HostedLibrary, Limits, Loadable
from ompd.runtimes.hosted.process import WorkerProcess
from tests.support.cache import CHECKOUT

SOURCES = CHECKOUT / "tests" / "hosted"


def compiled(folder: Path, source: str, *options: str) -> Path:
    """Return a library made of a C file of ``tests/hosted``."""
    made = folder / f"lib{source.removesuffix('.c')}.so"
    command = ["gcc", "-shared", "-fPIC", "-g", "-O1", "-w", "-pthread", *options]
    subprocess.run([*command, "-o", str(made), str(SOURCES / source)], check=True, timeout=120)
    return made


class Invented:
    """Callbacks for an invented process: bytes at addresses, and symbols. A thread is its own identifier."""

    byte_order: ByteOrder = "big" if sys.byteorder == "big" else "little"
    pointer_size = 8

    def __init__(self, memory: Mapping[int, bytes], symbols: Mapping[str, int]) -> None:
        self._memory, self._symbols = memory, symbols
        self.reads: list[tuple[int, int]] = []
        self.lookups: list[tuple[str, int | None]] = []
        self.failure: BaseException | None = None

    def read(self, address: int, size: int) -> bytes:
        """Return bytes within one piece of memory."""
        if self.failure is not None:
            raise self.failure
        self.reads.append((address, size))
        for start, data in self._memory.items():
            if start <= address and address + size <= start + len(data):
                return data[address - start : address - start + size]
        raise MemoryFault(address, size)

    def read_string(self, address: int, limit: int = 4096) -> bytes:
        """Return bytes up to a NUL."""
        found = b""
        while len(found) < limit:
            one = self.read(address + len(found), 1)
            if one == b"\0":
                return found
            found += one
        raise CorruptState(address, "a string without end")

    def find_symbol(self, name: str, *, thread: int | None = None) -> int:
        """Return a symbol's address; for a thread the thread's number is added."""
        self.lookups.append((name, thread))
        try:
            return self._symbols[name] + (thread or 0)
        except KeyError:
            raise SymbolNotFound(name) from None

    def type_sizes(self) -> TypeSizes:
        """Return the sizes of most machines."""
        return TypeSizes(1, 2, 4, 8, 8, self.pointer_size)

    def find_type(self, name: str) -> TypeRef:
        """Raise :exc:`TypeNotFound`: the process has no types."""
        raise TypeNotFound(name)

    def sizeof(self, type_ref: TypeRef) -> int:
        """Raise :exc:`TypeNotFound`: the process has no types."""
        raise TypeNotFound(str(type_ref))

    def field_offset(self, type_ref: TypeRef, field: str) -> int:
        """Raise :exc:`TypeNotFound`: the process has no types."""
        raise FieldNotFound(str(type_ref), field)

    def pthread_key(self, thread: int, key: int) -> int | None:
        """Return None: the process has no keys."""
        return None

    def thread_for_id(self, kind: ThreadIdKind, identifier: int) -> int:
        """Return the identifier itself."""
        if identifier > 1 << 20:
            raise BadInput("no such thread")
        return identifier

    def to_host(self, raw: bytes, unit_size: int) -> bytes:
        """Return *raw* unchanged."""
        return raw


def invented() -> Invented:
    """Return a process with a counter, a text and the start of a page."""
    page = (305419896).to_bytes(4, sys.byteorder) + bytes(4090) + b"\x01\x02"
    return Invented({0x1000: page + b"\x03\x04text" + b"\0" * 90}, {"counter": 0x1000})


@contextmanager
def loadable(library: Path) -> Iterator[Loadable]:
    """Yield a file as a worker loads it: a copy in memory without a name."""
    descriptor = os.memfd_create(library.name)
    try:
        os.write(descriptor, library.read_bytes())
        yield Loadable(library.name, [(library.name, descriptor, False)])
    finally:
        os.close(descriptor)


@contextmanager
def hosted(library: Path, *, seconds: float = 20.0, memory: int = 1 << 30) -> Iterator[tuple[HostedLibrary, list[str]]]:
    """Yield a running library and the list of its warnings."""
    warnings: list[str] = []
    limits = Limits(seconds=seconds, memory=memory)
    with loadable(library) as found, HostedLibrary(found, limits=limits, warnings=warnings) as made:
        yield made, warnings


class NoHandles:
    """A library without handles, for references that are numbers only."""

    def release(self, number: int) -> None:
        """Do nothing."""


NO_HANDLES: Any = NoHandles()


def time_passes_in(monkeypatch: pytest.MonkeyPatch, *functions: str) -> None:
    """Make the clock of libraries' processes advance only in *functions*, by 0.4 s each time it is read. So a time
    limit strikes the call that does not return, however slow this machine is.
    """
    clocks: defaultdict[int, float] = defaultdict(float)

    def now(process: WorkerProcess) -> float:
        if process.progress.function in functions:
            clocks[process.process_id] += 0.4
        return clocks[process.process_id]

    monkeypatch.setattr(WorkerProcess, "_now", now)


def unconfined_command(lost: Mapping[str, str]) -> Callable[..., list[str]]:
    """Return a replacement for ``process.worker_command``, which starts an unconfined worker. The worker in Python
    reports *lost*.
    """
    code = "import sys; sys.path.append(sys.argv[1])\nfrom ompd.runtimes.hosted.worker import main\n"
    code += f"main.confine = lambda memory: {dict(lost)!r}\nmain.main(sys.argv[2:])"

    def command(interpreter: str, _: int, program: Path | None) -> list[str]:
        return [str(program)] if program is not None else [interpreter, "-I", "-S", "-c", code, str(CHECKOUT)]

    return command
