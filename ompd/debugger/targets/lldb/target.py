"""A process in LLDB, live or from a core file, through LLDB's ``SBProcess``.

LLDB provides memory, registers, threads, and the loaded files with their addresses. Symbols, unwinding, thread-local
storage and lines come from ompd, as for every kind of target, so that the kinds cannot disagree.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from ompd.binary.core.notes import AT_NULL, AT_PHDR, FileMapping, ProcessNote, SignalInfo, StatusNote, parse_auxv
from ompd.binary.elf.elf import PF_R, PF_W, PF_X, parse_header
from ompd.debugger.targets.base import Loss, MemoryRegion, PageOmitted
from ompd.debugger.targets.core import CoreTarget
from ompd.debugger.targets.lldb.files import path_of, target_name
from ompd.debugger.targets.lldb.loading import load_lldb
from ompd.errors import (
    BadInput,
    MalformedFile,
    MemoryFault,
    OmpdError,
    StaleHandle,
    TargetError,
    TargetGone,
    Unavailable,
    Unsupported,
)
from ompd.isa.architecture import Architecture
from ompd.isa.processors import ARCHITECTURES, architecture_by_triple

_PAGE = 4096
# LLDB allocates the memory of a read before it checks whether the address is readable.
_MAX_READ = 1 << 28
# The most bytes of a Linux program's arguments, environment and auxiliary vector (fs/exec.c), and bounds of their
# parts.
_MAX_STACK_TOP = 6 << 20
_MAX_AUXV_KEY = 1 << 10
_MAX_ARGUMENTS = 1 << 12
# Members of LLDB's own siginfo_t, in the order of SignalInfo's.
_SIGINFO = (".si_signo", ".si_code", "._sifields._kill.si_pid", "._sifields._sigfault.si_addr")


class LldbTarget:
    """The process *process*, an ``SBProcess``, at its present stop.

    :param lasting: whether the target may be used at later stops, too, for facts about files and their places
    :raises TargetGone: if there is no process, or it has ended
    :raises TargetError: if the process is running, or if it is a core and LLDB has found none of its files
    :raises Unsupported: if the process's architecture is not supported
    """

    kind = "lldb"
    loss: Loss | None = None  # LLDB does not show that a core was cut off

    def __init__(self, process: Any, *, lasting: bool = False) -> None:
        self._lldb = load_lldb()
        self._is_lasting = lasting
        self.process = process
        check_stopped(self._lldb, process)
        self._target = process.GetTarget()
        self._stop = stop_of(process)
        self._is_open = True
        self._registers: dict[int, dict[str, int]] = {}
        self._layouts: dict[int, tuple[tuple[str, int], ...]] = {}
        self.is_core = process.GetPluginName().endswith("-core")
        self.process_id: int | None = process.GetProcessID() or None
        core = process.GetCoreFile() if self.is_core and hasattr(process, "GetCoreFile") else None
        self.name = (path_of(core) if core is not None else "") or f"process {self.process_id}"
        self.architecture = self._find_architecture()
        if self.is_core and not self.mappings():
            raise TargetError(
                f"LLDB has found no file of {self.name}", hint="name the program: target create PROGRAM --core CORE"
            )
        if not self.is_core and not self._is_held():
            raise TargetGone(f"LLDB does not hold {self.name} any more", hint="attach to it again")

    def _is_held(self) -> bool:
        # LLDB may report a process as stopped after it has detached from it. It answers small reads from its cache.
        stack = self.process.GetThreadAtIndex(0).GetFrameAtIndex(0).GetSP()
        return self._read(stack - stack % _PAGE, _PAGE // 2) is not None

    def _find_architecture(self) -> Architecture:
        machine = (self._target.GetTriple() or "unknown").partition("-")[0]
        architecture = architecture_by_triple(machine, self.process.GetAddressByteSize())
        if architecture is not None:
            return architecture
        supported = ", ".join(a.name for a in ARCHITECTURES.values())
        raise Unsupported(
            f"{self.name} is of {machine}, which is not supported", hint=f"supported architectures: {supported}"
        )

    @property
    def is_current(self) -> bool:
        """Whether the process is still at the stop at which this target was created."""
        return stop_of(self.process) == self._stop

    def check(self) -> None:
        """Check that the process is still at the stop at which this target was created.

        :raises TargetGone: if the target was closed
        :raises StaleHandle: if the process has run
        """
        if not self._is_open:
            raise TargetGone(f"the session on {self.name} was closed")
        if not self.is_current and not self._is_lasting:
            raise StaleHandle(f"{self.name} has run since this session was made")

    @cached_property
    def signal(self) -> int | None:
        """The signal that LLDB reports as the reason of the stop; for a core, the one that ended the program."""
        return next(iter(self._signals.values()), None)

    def siginfo(self, thread: int) -> SignalInfo | None:
        """Return LLDB's details of the signal that *thread* took (:meth:`Target.siginfo`).

        For a core, LLDB 14 and 19 have only the number. So the details are read from the notes of the core file.
        """
        self.check()
        number = self._signals.get(thread)
        if number is None:
            return None
        # A core that gdb wrote has a signal for every thread: the signal of gdb's stop.
        is_stop = not self.is_core or len(self._signals) > 1
        if number == signal.SIGSTOP or (is_stop and number == signal.SIGTRAP):
            return None
        lldb_thread = self.process.GetThreadByID(thread)
        info = lldb_thread.GetSiginfo() if hasattr(lldb_thread, "GetSiginfo") else None
        values = [self._siginfo_part(info, path) for path in _SIGINFO] if info is not None else []
        if None in values or not values or values[0] != number:
            noted = self._noted_signals.get(thread)
            return noted if noted is not None and noted.number == number else SignalInfo(number)
        return SignalInfo(number, *values[1:])

    @cached_property
    def _signals(self) -> dict[int, int]:
        # Return the number of the signal that stopped each thread.
        numbers = {}
        for thread in self.process:
            if thread.GetStopReason() == self._lldb.eStopReasonSignal and thread.GetStopReasonDataCount():
                number = int(thread.GetStopReasonDataAtIndex(0))
                if number:
                    numbers[thread.GetThreadID()] = number
        return numbers

    @cached_property
    def _noted_signals(self) -> dict[int, SignalInfo]:
        # Return the signals in the notes of a core, by thread.
        signals: dict[int, SignalInfo] = {}
        if self.is_core and os.path.isfile(self.name):  # noqa: PTH113
            with suppress(OmpdError):
                core = CoreTarget(self.name)
                try:
                    for thread in self._signals:
                        with suppress(Unavailable):
                            info = core.siginfo(thread)
                            if info is not None:
                                signals[thread] = info
                finally:
                    core.close()
        return signals

    def _siginfo_part(self, info: Any, path: str) -> int | None:
        value = info.GetValueForExpressionPath(path)
        error = self._lldb.SBError()
        unsigned = value.GetValueAsUnsigned(error, 0) if path.endswith("addr") else value.GetValueAsSigned(error, 0)
        return int(unsigned) if value.IsValid() and value.GetValue() is not None and error.Success() else None

    @cached_property
    def command(self) -> str | None:
        """The arguments on the initial stack, joined by spaces; None if they are not readable."""
        try:
            top = self._initial_stack
            count = self._word(top) if top is not None else 0
            if top is None or not 0 < count <= _MAX_ARGUMENTS:
                return None
            size = self.architecture.pointer_size
            if self._word(top + (1 + count) * size):
                return None
            return " ".join(self._string(self._word(top + (1 + n) * size)) for n in range(count))
        except MemoryFault:
            return None

    # Memory

    def read(self, address: int, size: int) -> bytes:
        """Return exactly *size* bytes at *address* (:meth:`Target.read`)."""
        self.check()
        data = self._read(address, size) if 0 < size <= _MAX_READ else b"" if size == 0 else None
        return data if data is not None else self._read_in_pages(address, size)

    def _read(self, address: int, size: int) -> bytes | None:
        error = self._lldb.SBError()
        try:
            data = self.process.ReadMemory(address, size, error)
        except (OverflowError, ValueError):  # the address is impossible
            return None
        return bytes(data) if error.Success() and data is not None and len(data) == size else None

    def _read_in_pages(self, address: int, size: int) -> bytes:
        # Read across segments of a core, or find the page that is unreadable.
        if not 0 <= address < address + size <= 1 << 8 * self.architecture.pointer_size or size > _MAX_READ:
            raise MemoryFault(address, size, "no process has this")
        pieces = []
        place, end = address, address + size
        while place < end:
            count = min(end - place, _PAGE - place % _PAGE)
            data = self._read(place, count)
            if data is None and self.is_core and any(m.start <= place < m.end for m in self.mappings()):
                raise PageOmitted(address, size, f"the core file leaves out the page of {place:#x}")
            if data is None:
                raise MemoryFault(address, size, f"LLDB cannot read the page of {place:#x}")
            pieces.append(data)
            place += count
        return b"".join(pieces)

    def _word(self, address: int) -> int:
        return int.from_bytes(self.read(address, self.architecture.pointer_size), self.architecture.byte_order)

    def _string(self, address: int) -> str:
        text = b""
        while b"\0" not in text and len(text) < _MAX_STACK_TOP:
            place = address + len(text)
            text += self.read(place, 256 - place % 256)
        return text.partition(b"\0")[0].decode("utf-8", "replace")

    # Threads

    def thread_ids(self) -> Sequence[int]:
        """Return the threads in the order of LLDB's index numbers."""
        return self._thread_ids

    @cached_property
    def _thread_ids(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(thread.GetThreadID() for thread in self.process))

    def registers(self, thread: int) -> Mapping[str, int]:
        """Return LLDB's registers of *thread*. LLDB 14 lacks ``fs_base``."""
        self.check()
        if thread not in self._registers:
            self._registers[thread] = self._read_registers(thread)
        return self._registers[thread]

    def _read_registers(self, thread: int) -> dict[str, int]:
        lldb_thread = self.process.GetThreadByID(thread)
        if not lldb_thread.IsValid():
            raise BadInput(f"no thread {thread} in {self.name}")
        sets = lldb_thread.GetFrameAtIndex(0).GetRegisters()
        general = sets.GetValueAtIndex(0)
        registers: dict[str, int] = {}
        error = self._lldb.SBError()
        for name, position in self._positions(general):
            value = general.GetChildAtIndex(position).GetValueAsUnsigned(error, 0)
            if error.Success():
                registers[name] = value
        if self.architecture.pc not in registers:
            raise TargetError(f"LLDB has no registers of thread {thread}")
        return registers

    def _positions(self, general: Any) -> tuple[tuple[str, int], ...]:
        # The names of our registers, with their positions among LLDB's general registers. They are read once, because
        # LLDB takes long for the names, and they are the same for all threads.
        count = general.GetNumChildren()
        if count not in self._layouts:
            names = (general.GetChildAtIndex(position).GetName() for position in range(count))
            our_names = self.architecture.lldb_registers
            renamed = ((our_names.get(name, name), position) for position, name in enumerate(names))
            our_registers = set(self.architecture.registers)
            self._layouts[count] = tuple((name, position) for name, position in renamed if name in our_registers)
        return self._layouts[count]

    # Modules

    def mappings(self) -> Sequence[FileMapping]:
        """Return the loaded segments of LLDB's modules, by address, without the vDSO, which is no file."""
        return self._mappings

    @cached_property
    def _mappings(self) -> tuple[FileMapping, ...]:
        rows = (row for module in self._target.module_iter() for row in self._segments(module))
        return tuple(sorted(rows, key=lambda m: m.start))

    def _segments(self, module: Any) -> Iterator[FileMapping]:
        name = target_name(module)
        if not name.startswith("/"):
            return
        for section in module.section_iter():
            start = section.GetLoadAddress(self._target)
            size = section.GetFileByteSize()
            if start == self._lldb.LLDB_INVALID_ADDRESS or not size or not section.GetName().startswith("PT_LOAD"):
                continue
            before = start % _PAGE
            end = -(-(start + size) // _PAGE) * _PAGE
            yield FileMapping(start - before, end, section.GetFileOffset() - before, name)

    # The initial stack

    @cached_property
    def _initial_stack(self) -> int | None:
        # Return the address of argc. The loader stores it in a variable when it runs.
        for context in self._target.FindSymbols("__libc_stack_end"):
            address = context.GetSymbol().GetStartAddress().GetLoadAddress(self._target)
            if address != self._lldb.LLDB_INVALID_ADDRESS:
                try:
                    if stack_end := self._word(address):
                        return stack_end
                except MemoryFault:
                    continue
        # At the program's first instruction the stack pointer is this address. Later, in a program without a loader,
        # the address is above the stack pointer, so a search upwards from the stack pointer still finds the vector.
        threads = self.thread_ids()
        return self.registers(threads[0])[self.architecture.sp] if len(threads) == 1 else None

    def regions(self) -> Sequence[MemoryRegion]:
        """Return LLDB's readable memory regions, by address."""
        regions, row = [], self._lldb.SBMemoryRegionInfo()
        rows = self.process.GetMemoryRegions()
        for index in range(rows.GetSize()):
            if rows.GetMemoryRegionAtIndex(index, row) and row.IsMapped() and row.IsReadable():
                flags = PF_R | (PF_W if row.IsWritable() else 0) | (PF_X if row.IsExecutable() else 0)
                regions.append(MemoryRegion(row.GetRegionBase(), row.GetRegionEnd(), flags))
        return sorted(regions, key=lambda region: region.start)

    def segment_starts(self) -> Sequence[int]:
        """Return nothing, because LLDB names all modules."""
        return ()

    def extract(self, start: int, kind: int) -> bytes | None:
        """Return None: LLDB does not show the notes of a core."""
        return None

    def kept_source(self) -> bytes | None:
        """Return None: LLDB does not show the notes of a core."""
        return None

    def proc_text(self, path: str) -> bytes:
        """Return the contents of *path* in ``/proc/PID/`` if the process runs here (:meth:`Target.proc_text`)."""
        self.check()
        platform = self._target.GetPlatform()
        if self.is_core or not platform.IsValid() or platform.GetName() != "host" or self.process_id is None:
            raise Unavailable("the process does not run on this machine")
        folder = Path("/proc", str(self.process_id))
        try:
            return os.fsencode((folder / path).readlink()) if path.startswith("fd/") else (folder / path).read_bytes()
        except OSError as error:
            raise Unavailable(f"{folder / path} could not be read: {error.strerror}") from error

    def noted_status(self, thread: int) -> StatusNote | None:
        """Return None: LLDB does not show the notes of a core."""
        return None

    def noted_process(self) -> ProcessNote | None:
        """Return None: LLDB does not show the notes of a core."""
        return None

    def auxiliary_vector(self) -> Mapping[int, int]:
        """Return the auxiliary vector from the initial stack, because LLDB's Python does not have it."""
        return self._auxiliary_vector

    @cached_property
    def _auxiliary_vector(self) -> dict[int, int]:
        headers = self._program_headers
        if headers is None:
            return {}
        try:
            vector = self._find_auxiliary_vector(headers)
        except MemoryFault:
            vector = {}
        # Without the vector, only the place of the program's headers is returned: LLDB knows which module is the
        # program.
        return vector or {AT_PHDR: headers}

    @cached_property
    def _program_headers(self) -> int | None:
        program = self._target.FindModule(self._target.GetExecutable())
        first = min(self._segments(program), key=lambda m: m.start, default=None) if program.IsValid() else None
        if first is None:
            return None
        try:
            return first.start + parse_header(self.read(first.start, 64), first.name).e_phoff
        except (MemoryFault, MalformedFile):
            return first.start + 64

    def _find_auxiliary_vector(self, headers: int) -> dict[int, int]:
        # The vector follows arguments and environment, whose size is unknown because programs rewrite them. So search
        # for the one entry whose value is known, then go back to the first entry.
        top = self._initial_stack
        if top is None:
            return {}
        size, order = self.architecture.pointer_size, self.architecture.byte_order
        entry = AT_PHDR.to_bytes(size, order) + headers.to_bytes(size, order)
        raw, place = b"", -1
        while place < 0 and len(raw) < _MAX_STACK_TOP:
            raw += self._rest_of_page(top + len(raw))
            place = raw.find(entry)
            while place >= 0 and place % size:
                place = raw.find(entry, place + 1)
        if place < 0:
            return {}
        while place >= 2 * size:
            key = int.from_bytes(raw[place - 2 * size : place - size], order)
            if not AT_NULL < key < _MAX_AUXV_KEY:
                break
            place -= 2 * size
        with suppress(MemoryFault):  # memory may end with the page
            raw += self._rest_of_page(top + len(raw))
        return parse_auxv(raw[place:], size, order)

    def _rest_of_page(self, address: int) -> bytes:
        return self.read(address, _PAGE - address % _PAGE)

    def close(self) -> None:
        """Close the target. LLDB keeps the process."""
        self._is_open = False


def stop_of(process: Any) -> tuple[int, int]:
    """Return a value that stays the same until something runs in *process*, which includes the user's expressions."""
    return process.GetUniqueID(), process.GetStopID(True)


def check_stopped(lldb: ModuleType, process: Any) -> None:
    """Check that *process*, an ``SBProcess``, can be inspected now.

    :raises TargetGone: if there is no process, or it has ended
    :raises TargetError: if it is running
    """
    if not process.IsValid() or process.GetState() in (lldb.eStateInvalid, lldb.eStateUnloaded, lldb.eStateConnected):
        raise TargetGone("there is no process", hint="run the program, attach to it, or load a core file")
    state = process.GetState()
    if state == lldb.eStateExited:
        raise TargetGone(f"process {process.GetProcessID()} has ended", hint="run it again")
    if state == lldb.eStateDetached:
        raise TargetGone("LLDB has detached from the process", hint="attach to it again")
    if state not in (lldb.eStateStopped, lldb.eStateCrashed, lldb.eStateSuspended):
        raise TargetError(f"process {process.GetProcessID()} is running", hint="stop it first: process interrupt")
