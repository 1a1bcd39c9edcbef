"""A good core to be damaged: mapped copy-on-write, so that memory, notes and headers are all just bytes of the map.

Each byte of the file has a place: an address of the program's memory, a word of a thread's registers, or a place on
which every answer depends. The target logs the places that are read.
"""

from __future__ import annotations

import mmap
import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ompd.binary.core import notes
from ompd.binary.elf.elf import PT_LOAD, PT_NOTE
from ompd.debugger.files.finder import FileFinder
from ompd.debugger.targets.core import CoreTarget
from ompd.errors import MemoryFault, OmpdError
from ompd.session import Session
from tests.fuzz.parses import Memory

# Places that are no addresses: registers of threads, and the bytes on which everything depends.
REGISTERS = 1 << 70
EVERYTHING = 1 << 80
_THREAD_STRIDE = 1 << 12
_READ_NOTES = {notes.NT_PRSTATUS, notes.NT_PRPSINFO, notes.NT_AUXV, notes.NT_SIGINFO, notes.NT_FILE}

Span = tuple[int, int]  # start and end


class Spans:
    """A set of numbers, as spans that do not touch."""

    def __init__(self, spans: Iterable[Span]) -> None:
        joined: list[list[int]] = []
        for start, end in sorted(spans):
            if joined and start <= joined[-1][1]:
                joined[-1][1] = max(joined[-1][1], end)
            else:
                joined.append([start, end])
        self._starts = [start for start, _ in joined]
        self._ends = [end for _, end in joined]

    def __iter__(self) -> Iterator[Span]:
        return iter(zip(self._starts, self._ends, strict=True))

    def __len__(self) -> int:
        return sum(end - start for start, end in self)

    def touches(self, start: int, end: int) -> bool:
        """Return whether the set has a number in [*start*, *end*)."""
        index = bisect_right(self._starts, end - 1) - 1
        return index >= 0 and self._ends[index] > start


@dataclass(frozen=True)
class Segment:
    """A run of bytes of the file, and its first place."""

    offset: int
    size: int
    place: int


class WatchedTarget(CoreTarget):
    """A core that logs reads, and lacks the memory that a case removed."""

    def __init__(self, path: str, data: Any) -> None:
        super().__init__(path, data)
        self.log: list[Span] = []
        self.holes: Sequence[Span] = ()
        self._number = {thread: number for number, thread in enumerate(self.thread_ids())}
        self.bytes = 0

    def read(self, address: int, size: int) -> bytes:
        end = address + size
        self.log.append((address, end))
        for start, stop in self.holes:
            if address < stop and start < end:
                raise MemoryFault(address, size, "the case took it away")
        data = super().read(address, size)
        self.bytes += size
        return data

    def registers(self, thread: int) -> Any:
        found = super().registers(thread)
        start = REGISTERS + self._number[thread] * _THREAD_STRIDE
        self.log.append((start, start + _THREAD_STRIDE))
        return found


class Core:
    """A core file whose bytes can be changed and restored."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            self._data = Memory(file.fileno(), 0, access=mmap.ACCESS_COPY)
        self.size = len(self._data)
        with self.opened() as target:
            self.segments = list(self._segments(target))
        self._by_place = sorted(self.segments, key=lambda s: s.place)
        self._places = [s.place for s in self._by_place]
        self._by_offset = sorted(self.segments, key=lambda s: s.offset)
        self._offsets = [s.offset for s in self._by_offset]

    @contextmanager
    def opened(self) -> Iterator[WatchedTarget]:
        """Parse the core as it is now."""
        target = WatchedTarget(str(self.path), self._data)
        yield target
        target.close()

    def session(self, target: WatchedTarget) -> Session:
        """Return a session on the target, which it does not close."""
        return Session(target, FileFinder())

    @contextmanager
    def damaged(self, patches: Sequence[tuple[int, bytes]]) -> Iterator[None]:
        """Write patches over the file at their offsets, and undo them when the context ends."""
        before = [(offset, self._data[offset : offset + len(patch)]) for offset, patch in patches]
        try:
            for offset, patch in patches:
                self._data[offset : offset + len(patch)] = patch
            yield
        finally:
            for offset, was in reversed(before):
                self._data[offset : offset + len(was)] = was

    def bytes_at(self, offset: int, size: int) -> bytes:
        """Return bytes of the file."""
        return self._data[offset : offset + size]

    def write_to(self, file: Path, patches: Sequence[tuple[int, bytes]]) -> None:
        """Write the file with the patches in it."""
        with self.damaged(patches):
            file.write_bytes(self._data[:])

    # Places

    def _segments(self, target: WatchedTarget) -> Iterator[Segment]:
        elf = target._elf
        yield Segment(0, 64, EVERYTHING)
        yield Segment(elf.e_phoff, len(elf.segments) * 56, EVERYTHING + 64)
        for segment in elf.segments:
            if segment.p_type == PT_LOAD and segment.p_filesz:
                yield Segment(segment.p_offset, segment.p_filesz, segment.p_vaddr)
            elif segment.p_type == PT_NOTE:
                yield from self._notes(target, segment.p_offset, segment.p_filesz)

    def _notes(self, target: WatchedTarget, offset: int, size: int) -> Iterator[Segment]:
        arch = target.architecture
        at, end, thread = offset, offset + size, 0
        while at + 12 <= end:
            n_namesz, n_descsz, n_type = struct.unpack_from("<III", self._data, at)
            desc = at + 12 + -(-n_namesz // 4) * 4
            yield Segment(at, desc - at, EVERYTHING + at)
            if n_type == notes.NT_PRSTATUS:
                words = len(arch.registers) * arch.pointer_size
                registers = desc + arch.prstatus_registers
                yield Segment(desc, arch.prstatus_registers, EVERYTHING + desc)
                yield Segment(registers, words, REGISTERS + thread * _THREAD_STRIDE)
                thread += 1
            elif n_type in _READ_NOTES:
                yield Segment(desc, n_descsz, EVERYTHING + desc)
            at = desc + -(-n_descsz // 4) * 4

    def offset_of(self, place: int) -> int | None:
        """Return the offset of a place in the file, None if the core leaves it out."""
        index = bisect_right(self._places, place) - 1
        if index < 0:
            return None
        segment = self._by_place[index]
        within = place - segment.place
        return segment.offset + within if within < segment.size else None

    def places_of(self, patches: Iterable[tuple[int, bytes]]) -> list[Span]:
        """Return the places of the bytes of patches that differ from the file, without bytes that are never read."""
        found: list[Span] = []
        for start, patch in patches:
            for offset, byte in enumerate(patch, start):
                if self._data[offset] != byte:
                    place = self._place_of(offset)
                    if place is not None:
                        found.append((place, place + 1))
        if any(REGISTERS <= start < EVERYTHING for start, _ in found) and self._seems_lost(patches):
            found.append((EVERYTHING, EVERYTHING + 1))
        return found

    def _seems_lost(self, patches: Iterable[tuple[int, bytes]]) -> bool:
        # If all threads have zeros where values belong, a page of notes seems lost. That concerns every answer.
        with self.damaged(list(patches)), suppress(OmpdError), self.opened() as target:
            return target.loss is not None
        return True

    def _place_of(self, offset: int) -> int | None:
        index = bisect_right(self._offsets, offset) - 1
        if index < 0:
            return None
        segment = self._by_offset[index]
        within = offset - segment.offset
        return segment.place + within if within < segment.size else None
