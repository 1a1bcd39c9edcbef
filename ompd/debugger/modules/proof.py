"""The proof that a file on this machine is the one that was mapped in the target.

Their build-ids agree, or, without one, all read-only pages that the target holds.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from operator import ne
from typing import NamedTuple

from ompd.binary.core.notes import FileMapping
from ompd.binary.elf import elf as gabi
from ompd.binary.elf.elf import ElfFile, Header, Segment, find_build_id, parse_header, parse_segments
from ompd.debugger.targets.base import Loss, Target, page_size
from ompd.errors import MalformedFile, MemoryFault
from ompd.safety import limits

_ANOTHER = "is another build than the one that ran"
_MAX_HEADERS = 64 * 1024
_MAX_NOTES = 64 * 1024
_MANY_PAGES = 16  # pages that are read at once
# A file counts as the mapped one if no more than this number of bytes differs, or one byte in this many. A bad disk or
# cable changes a few bytes of a module in a core. Another build differs in most pages, in most bytes of a page, and in
# all bytes of the build-id.
_MAX_DAMAGED = 2
_DAMAGE_RATIO = 400


class Proof(NamedTuple):
    """The result of the comparison of a file with the target's memory.

    ``fault`` is the reason why the file is not the mapped one, None without a reason. ``has_evidence`` is whether the
    target had anything to compare. ``damaged_bytes`` is the number of bytes that differ, 0 with a fault.
    """

    fault: str | None
    has_evidence: bool = False
    damaged_bytes: int = 0


class MappedImage:
    """A module in the target's memory.

    :param mappings: the mappings of the module's file, by address
    """

    def __init__(self, target: Target, mappings: Sequence[FileMapping]) -> None:
        self._target = target
        self.mappings = mappings
        self.name = mappings[0].name
        self.start = mappings[0].start
        self.end = max(m.end for m in mappings)
        self._page_size = page_size(target)

    @cached_property
    def headers(self) -> tuple[Header, tuple[Segment, ...]] | None:
        """The ELF header and the program headers in the target's memory, None if it does not hold them."""
        try:
            header = parse_header(self._target.read(self.start, 64), self.name)
            size = min(header.e_phnum * header.e_phentsize, _MAX_HEADERS)
            table = self._target.read(self.start + header.e_phoff, size)
            return header, parse_segments(header, table, header.e_phnum, self.name)
        except (MemoryFault, MalformedFile):
            return None

    @cached_property
    def build_id(self) -> bytes | None:
        """The build-id in the target's memory, None if the module has none or the target does not hold it."""
        if self.headers is None:
            return None
        header, segments = self.headers
        bias = bias_of(self.start, header.e_type, segments)
        places = [(s.p_vaddr, s.p_filesz, s.p_align) for s in segments if s.p_type == gabi.PT_NOTE]
        bytes_left = limits.FREE_BYTES
        for address, size, align in dict.fromkeys(places):
            bytes_left -= size
            if bytes_left >= 0 and size <= _MAX_NOTES:
                try:
                    notes = self._target.read(bias + address, size)
                    build_id = find_build_id(notes, header.byte_order, align)
                except (MemoryFault, MalformedFile):
                    continue
                if build_id is not None:
                    return build_id
        return None

    def prove(self, elf: ElfFile) -> Proof:
        """Return the result of comparing *elf* with the mapped file.

        :raises MalformedFile: if the parts to compare are malformed
        """
        in_memory, in_file = self.build_id, elf.build_id()
        if in_memory is not None and in_file is not None:
            if len(in_memory) == len(in_file) and _is_damage(in_memory, in_file):
                return Proof(None, True, _count_different(in_memory, in_file))
            return Proof(f"{_ANOTHER} (build-id {in_file.hex()}, in the target {in_memory.hex()})")
        if self.headers is not None:
            header, segments = self.headers
            of_file, of_image = _table(elf.header, elf.segments), _table(header, segments)
            if of_file != of_image and (len(of_file) != len(of_image) or not _is_damage(of_file, of_image)):
                return Proof(f"{_ANOTHER} (its program headers differ)")
        bias = bias_of(self.start, elf.e_type, elf.segments)
        if any(s.p_type == gabi.PT_LOAD and s.p_offset + s.p_filesz > len(elf.data) for s in elf.segments):
            return Proof("is cut off: its segments are not in it")
        has_evidence, different = False, 0
        for address, page in self._held_pages(elf, bias):
            of_file = bytes(elf.data[address : address + len(page)])
            if page != of_file:
                if not _is_damage(page, of_file):
                    return Proof(f"{_ANOTHER} (its page at offset {address:#x} differs from the target's)")
                different += _count_different(page, of_file)
            has_evidence = True
        difference = self._dynamic_difference(elf, bias, has_pages=has_evidence)
        if difference is None:
            return Proof(None, has_evidence, different)
        if difference > 1:
            return Proof(f"{_ANOTHER} (its dynamic section differs)")
        return Proof(None, True, different + difference)

    def _held_pages(self, elf: ElfFile, bias: int) -> Iterator[tuple[int, bytes]]:
        # Yields the module's read-only pages that the target holds, each after its offset in the file.
        bytes_left, size = limits.pages(elf.disk_size), self._page_size
        many = _MANY_PAGES * size
        for segment in elf.segments:
            if segment.p_type != gabi.PT_LOAD or segment.p_flags & gabi.PF_W:
                continue
            compared = min(segment.p_filesz, bytes_left)
            bytes_left -= compared  # in a crafted file, segments may overlap, or be in holes of the file
            end = min(-(-compared // size) * size, segment.p_filesz)
            for start in range(0, end, many):
                for offset, page in self._pages_read(bias + segment.p_vaddr, start, min(start + many, end)):
                    # Pages of zeros prove nothing: they may be lost pages of a damaged core.
                    if page.count(0) < len(page):
                        yield segment.p_offset + offset, page

    def _pages_read(self, address: int, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        # Yields the pages of a part of a segment that the target holds, each after its offset in the segment. If the
        # target has all of them, they are read at once.
        try:
            content = self._target.read(address + start, end - start)
        except MemoryFault:
            content = None
        for offset in range(start, end, self._page_size):
            size = min(self._page_size, end - offset)
            if content is not None:
                yield offset, content[offset - start : offset - start + size]
                continue
            try:
                yield offset, self._target.read(address + offset, size)
            except MemoryFault:
                continue

    def _dynamic_difference(self, elf: ElfFile, bias: int, *, has_pages: bool) -> int | None:
        # Returns the number of differences in the dynamic section, None if the file or the target lacks it. Every core
        # that is whole has the section, because the loader writes relocated addresses to it. It has the sizes and
        # addresses of all linked tables, so those of two builds hardly ever agree.
        segment = next((s for s in elf.segments if s.p_type == gabi.PT_DYNAMIC), None)
        if segment is None or segment.p_filesz > _MAX_HEADERS:
            return None
        try:
            raw = self._target.read(bias + segment.p_vaddr, segment.p_filesz)
        except MemoryFault:
            return None
        if not any(raw):
            return None  # lost
        different = 0
        size = elf.pointer_size
        ours = elf.segment_data(segment)
        for offset in range(0, len(raw) - 2 * size + 1, 2 * size):
            tag, value = (int.from_bytes(raw[offset + i : offset + i + size], elf.byte_order) for i in (0, size))
            file_tag, file_value = (
                int.from_bytes(ours[offset + i : offset + i + size], elf.byte_order) for i in (0, size)
            )
            if file_tag == tag == 0:
                break
            if tag == file_tag and (not file_value or value in (file_value, file_value + bias)):
                continue
            # In another build several entries differ. A single different byte is damage, if the pages agree.
            likely = file_value + bias if value >= bias else file_value
            different += (tag != file_tag) + _differ_in_bytes(value, likely, size) + (not has_pages)
            if different > 1:
                break
        return different

    def implausibility(self, elf: ElfFile, loss: Loss) -> str | None:
        """Return why *elf* cannot be the mapped file, None if it might be.

        This is for targets that have lost everything that could prove it.

        :param loss: what the target has lost
        """
        try:
            written = os.stat(elf.name).st_mtime  # noqa: PTH116  the hot path knows no pathlib
        except OSError as error:
            return f"cannot be looked at: {error.strerror}"
        if loss.since is not None and written > loss.since:
            return "was written after the core, which has lost what could prove that it is the build that ran"
        bias = bias_of(self.start, elf.e_type, elf.segments)
        loads = [s for s in elf.segments if s.p_type == gabi.PT_LOAD and s.p_filesz]
        size = self._page_size
        for segment in loads:
            low = bias + segment.p_vaddr
            begin, end = low // size * size, -(-(low + segment.p_filesz) // size) * size
            shift = begin - segment.p_offset // size * size
            covered = sum(
                max(0, min(end, m.end) - max(begin, m.start)) for m in self.mappings if m.start - m.offset == shift
            )
            if covered != end - begin:
                return f"{_ANOTHER} (its segments do not fill the mappings of the core)"
        last = max((bias + s.p_vaddr + s.p_filesz for s in loads), default=0)
        if not loads or -(-last // size) * size != self.end:
            return f"{_ANOTHER} (its segments do not fill the mappings of the core)"
        return None


def _count_different(data: bytes, other: bytes) -> int:
    return sum(map(ne, data, other))


def _differ_in_bytes(number: int, other: int, size: int) -> int:
    words = ((word & ((1 << 8 * size) - 1)).to_bytes(size, "little") for word in (number, other))
    return _count_different(*words)


def _is_damage(held: bytes, ours: bytes) -> bool:
    # Return whether the bytes in the target differ from those in the file by damage only, if at all. Another build
    # would differ in more bytes.
    count = _count_different(held, ours)
    return count <= _MAX_DAMAGED or count * _DAMAGE_RATIO <= len(held)


def _table(header: Header, segments: Sequence[Segment]) -> bytes:
    words = [header.e_machine, header.e_type, *(word for segment in segments for word in segment)]
    return b"".join(word.to_bytes(8, "little") for word in words)


def bias_of(start: int, e_type: int, segments: Sequence[Segment]) -> int:
    """Return the load bias of a module: address in the target minus address in the file.

    :param start: the start of the module's first mapping
    """
    if e_type == gabi.ET_EXEC:
        return 0
    # A module's first mapping begins with the start of its file. The first segment shows the link-time address of that.
    first = next((s for s in segments if s.p_type == gabi.PT_LOAD), None)
    return start if first is None else start - (first.p_vaddr - first.p_offset)
