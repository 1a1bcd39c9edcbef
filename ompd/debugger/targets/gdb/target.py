"""A process under gdb, at one stop.

gdb provides threads, registers, memory and signals. gdb's Python does not list mappings, so they are read from the
kernel: gdb runs on the machine of the process. Symbols, unwinding, thread-local storage and lines come from ompd, as
for every kind of target, so that the kinds cannot disagree.

A core file in gdb needs no target of its own, because ompd reads the core itself. gdb fills pages that a core omits
from any file of the right name; ompd verifies the file first.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import gdb  # type: ignore[import-not-found, import-untyped, unused-ignore]

from ompd.binary.core.notes import FileMapping, ProcessNote, SignalInfo, StatusNote, parse_auxv
from ompd.binary.core.procfs import MemoryMapping, file_mappings, parse_maps
from ompd.debugger.targets.base import Loss, MemoryRegion, readable_regions
from ompd.debugger.targets.gdb.inferior import Stops, check_reached, check_stopped, selection_kept, thread_selected
from ompd.errors import (
    BadInput,
    MalformedFile,
    MemoryFault,
    StaleHandle,
    TargetError,
    TargetGone,
    Unavailable,
    Unsupported,
)
from ompd.isa.architecture import Architecture
from ompd.isa.processors import ARCHITECTURES, architecture_by_gdb_name

# gdb allocates the memory of a read before it checks whether the address is readable.
_MAX_READ = 1 << 28
# Members of gdb's own siginfo_t (linux_get_siginfo_type), in the order of SignalInfo's.
_SIGINFO = (("si_signo",), ("si_code",), ("_sifields", "_kill", "si_pid"), ("_sifields", "_sigfault", "si_addr"))
# A debugger's own stops, which are not signals of the program.
_STOPS = (0, signal.SIGSTOP, signal.SIGTRAP)


class GdbTarget:
    """The process *inferior*, a ``gdb.Inferior`` of this machine, at its present stop.

    :param alone: the only stopped thread, a ``gdb.InferiorThread`` that is selected; the other threads then have no
        registers, and memory may change
    :raises TargetGone: if there is no process
    :raises TargetError: if it is running, or cannot be inspected
    :raises Unsupported: if its architecture is not supported
    """

    kind = "gdb"
    loss: Loss | None = None

    def __init__(self, inferior: Any, stops: Stops, *, alone: Any = None) -> None:
        if alone is None:
            check_stopped(inferior)
        else:
            check_reached(inferior)
        self._inferior, self._stops, self._alone = inferior, stops, alone
        self._stop = stops.of(inferior)
        self._is_open = True
        self._registers: dict[int, dict[str, int]] = {}
        self.process_id: int | None = inferior.pid
        self.name = f"process {inferior.pid}"
        self.architecture = self._find_architecture()

    def _find_architecture(self) -> Architecture:
        name = self._inferior.architecture().name()
        architecture = architecture_by_gdb_name(name)
        if architecture is not None:
            return architecture
        supported = ", ".join(a.name for a in ARCHITECTURES.values())
        raise Unsupported(
            f"{self.name} is of {name}, which is not supported", hint=f"supported architectures: {supported}"
        )

    def check(self) -> None:
        """Check that the process is still at the stop at which this target was created.

        :raises TargetGone: if the target was closed
        :raises StaleHandle: if the process has run
        """
        if not self._is_open:
            raise TargetGone(f"the session on {self.name} was closed")
        is_now = self._alone is not None or self._stops.of(self._inferior) == self._stop
        if not self._inferior.is_valid() or not is_now:
            raise StaleHandle(f"{self.name} has run since this session was made")

    # Memory

    def read(self, address: int, size: int) -> bytes:
        """Return exactly *size* bytes at *address* (:meth:`Target.read`)."""
        self.check()
        if size == 0:
            return b""
        if not 0 <= address < address + size <= 1 << 8 * self.architecture.pointer_size or size > _MAX_READ:
            raise MemoryFault(address, size, "no process has this")
        try:
            return bytes(self._inferior.read_memory(address, size))
        except gdb.error as error:  # gdb.MemoryError is a subclass
            raise MemoryFault(address, size, f"gdb cannot read it: {error}") from error

    # Threads

    def thread_ids(self) -> Sequence[int]:
        """Return the threads in the order of gdb's numbers."""
        return tuple(self._threads)

    @cached_property
    def _threads(self) -> dict[int, Any]:
        threads = sorted(self._inferior.threads(), key=lambda thread: thread.num)
        return {native_id(thread): thread for thread in threads}

    def registers(self, thread: int) -> Mapping[str, int]:
        """Return the registers of *thread*. If *thread* is not selected, this reads the registers of all threads,
        because gdb has to select each thread to read it.
        """
        self.check()
        if thread not in self._threads:
            raise BadInput(f"no thread {thread} in {self.name}")
        if thread not in self._registers:
            self._read_all_registers(thread)
        registers = self._registers[thread]
        if self._alone is not None:
            return registers
        if self.architecture.pc not in registers and self._threads[thread].is_valid():  # otherwise it has just ended
            raise TargetError(f"gdb has no registers of thread {thread}")
        return registers

    def _read_all_registers(self, wanted_thread: int) -> None:
        thread_now = thread_selected()
        selected = native_id(thread_now) if thread_now is not None else None
        if selected in self._threads and (selected == wanted_thread or self._alone is not None):
            self._registers = {thread: {} for thread in self._threads} if self._alone is not None else {}
            self._registers[selected] = self._read_registers()
            return
        with selection_kept():
            for native, thread in self._threads.items():
                with suppress(gdb.error):
                    thread.switch()
                    self._registers[native] = self._read_registers()
                self._registers.setdefault(native, {})

    def _read_registers(self) -> dict[str, int]:
        # Return the registers of the selected thread.
        mask = (1 << 8 * self.architecture.pointer_size) - 1
        registers: dict[str, int] = {}
        try:
            frame = gdb.newest_frame()
        except gdb.error:
            return registers
        for name in self.architecture.registers:
            try:
                registers[name] = int(frame.read_register(name)) & mask
            except (gdb.error, ValueError):  # gdb does not have this register
                continue
        return registers

    # Signals

    @property
    def signal(self) -> int | None:
        """The signal that stopped the process, None if the debugger stopped it."""
        return next((info.number for info in self._signals.values()), None)

    def siginfo(self, thread: int) -> SignalInfo | None:
        """Return the kernel's details of the signal that *thread* took (:meth:`Target.siginfo`)."""
        self.check()
        return self._signals.get(thread)

    @cached_property
    def _signals(self) -> dict[int, SignalInfo]:
        signals: dict[int, SignalInfo] = {}
        with selection_kept():
            for native, thread in self._threads.items():
                try:
                    thread.switch()
                    info = gdb.parse_and_eval("$_siginfo")
                    number, *values = (_member(info, path) for path in _SIGINFO)
                except gdb.error:  # it has no signal
                    continue
                if number not in _STOPS:
                    signals[native] = SignalInfo(number, *values)
        return signals

    # The kernel's facts

    def _proc(self, name: str) -> bytes:
        try:
            return Path("/proc", str(self.process_id), name).read_bytes()
        except OSError as error:
            raise TargetError(f"/proc/{self.process_id}/{name} could not be read: {error.strerror}") from error

    @cached_property
    def command(self) -> str | None:
        """The command line, None if it is empty."""
        arguments = self._proc("cmdline").rstrip(b"\0").replace(b"\0", b" ")
        return arguments.decode("utf-8", "surrogateescape") or None

    @cached_property
    def _maps(self) -> list[MemoryMapping]:
        try:
            return parse_maps(self._proc("maps"))
        except MalformedFile as error:
            raise TargetError(str(error)) from error

    def mappings(self) -> Sequence[FileMapping]:
        """Return the mappings of files, by address."""
        return file_mappings(self._maps)

    def regions(self) -> Sequence[MemoryRegion]:
        """Return the readable mappings, by address."""
        return readable_regions(self._maps)

    def segment_starts(self) -> Sequence[int]:
        """Return nothing, because all modules have names."""
        return ()

    def extract(self, start: int, kind: int) -> bytes | None:
        """Return None: a process needs no extracts, it has its files."""
        return None

    def kept_source(self) -> bytes | None:
        """Return None: gdb does not show the notes of a core."""
        return None

    def proc_text(self, path: str) -> bytes:
        """Return the contents of *path* in ``/proc/PID/`` (:meth:`Target.proc_text`)."""
        self.check()
        place = Path("/proc", str(self.process_id), path)
        try:
            return os.fsencode(place.readlink()) if path.startswith("fd/") else place.read_bytes()
        except OSError as error:
            raise Unavailable(f"{place} could not be read: {error.strerror}") from error

    def noted_status(self, thread: int) -> StatusNote | None:
        """Return None: only cores have notes."""
        return None

    @cached_property
    def _auxv(self) -> Mapping[int, int]:
        return parse_auxv(self._proc("auxv"), self.architecture.pointer_size, self.architecture.byte_order)

    def noted_process(self) -> ProcessNote | None:
        """Return None: only cores have notes."""
        return None

    def auxiliary_vector(self) -> Mapping[int, int]:
        """Return the auxiliary vector."""
        return self._auxv

    def close(self) -> None:
        """Close the target. gdb keeps the process."""
        self._is_open = False


def native_id(thread: Any) -> int:
    """Return the operating system's identifier of *thread*, a ``gdb.InferiorThread``."""
    process, light, other = thread.ptid
    return int(light or other or process)


def _member(value: Any, path: Sequence[str]) -> int:
    for name in path:
        value = value[name]
    return int(value)
