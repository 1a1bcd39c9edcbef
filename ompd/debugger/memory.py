"""Memory of the stopped process as a query may read it: within a budget, and with what the target leaves out."""

from __future__ import annotations

from functools import cached_property

from ompd.binary.core.notes import NT_OMPD_FILE
from ompd.binary.elf.elf import PF_W, PT_LOAD
from ompd.contract.callbacks import TypeSizes
from ompd.contract.memory import ByteOrder
from ompd.debugger.modules.modules import ModuleList
from ompd.debugger.targets.base import PageOmitted, Target, page_size
from ompd.errors import CorruptState, MemoryFault, TooMuch

PAGE = 4096
"""The unit in which reads are noted and code is verified, of which the pages of all processors are multiples."""
# A string is read in pieces that end with a page, so that one at the end of a mapping can be read.
_STRING_PIECE = 256
# What one question may read: a budget, so that it ends whatever the target's structures say, and not a clock, so that
# it ends in the same place everywhere. A thread takes 40 reads of 10 kB, a thousand queued tasks 13,000 of 340 kB:
# 230,000 tasks is possible, which take 500 MB here.
_MAX_READS, _MAX_READS_PER_THREAD = 3_000_000, 2_000
_MAX_BYTES, _MAX_BYTES_PER_THREAD = 1 << 30, 4 << 20
_MAX_NOTED = 1 << 28  # what is larger is no read that succeeds


class TargetMemory:
    """The bytes of one target. ``reads_left`` and ``bytes_left`` are what the query that runs may still read.

    :param modules: whose files have the pages that the target leaves out
    """

    def __init__(self, target: Target, modules: ModuleList) -> None:
        self._target, self._modules = target, modules
        self._read = target.read
        self.byte_order: ByteOrder = target.architecture.byte_order
        self.pointer_size = target.architecture.pointer_size
        self.is_whole = target.loss is None
        """Whether the target holds all that it was meant to hold."""
        self.noted_pages: set[int] | None = None
        threads = len(target.thread_ids())
        self.max_reads = _MAX_READS + threads * _MAX_READS_PER_THREAD
        self.max_bytes = _MAX_BYTES + threads * _MAX_BYTES_PER_THREAD
        self.begin_question()

    @cached_property
    def page_size(self) -> int:
        """The size of the target's pages in bytes."""
        return page_size(self._target)

    def begin_question(self) -> None:
        """Allow :attr:`max_reads` reads and :attr:`max_bytes` bytes from here on."""
        self.reads_left, self.bytes_left = self.max_reads, self.max_bytes

    def limit_reads(self, count: int) -> None:
        """Allow a query at most *count* reads from here on."""
        self.max_reads = min(self.max_reads, count)
        self.begin_question()

    @property
    def spent(self) -> TooMuch | None:
        """What ended the query: it has read more than it may. None if it has not."""
        if self.reads_left >= 0 and self.bytes_left >= 0:
            return None
        return TooMuch(min(self.max_reads - self.reads_left, self.max_reads), self.max_bytes - self.bytes_left)

    def note_reads(self) -> set[int]:
        """Return a set to which each page is added, by its number, of which something is read from now on."""
        self.noted_pages = set()
        return self.noted_pages

    def read(self, address: int, size: int) -> bytes:
        """Return *size* bytes at *address*, from the target, or, of pages it left out, from the file that was mapped
        there.

        :raises MemoryFault: if neither has them
        :raises TooMuch: if the query has read more than it may
        """
        self.reads_left -= 1
        if self.reads_left < 0 or self.bytes_left < 0:
            raise self.spent or TooMuch(self.max_reads, self.max_bytes)
        if self.noted_pages is not None and 0 < size <= _MAX_NOTED:
            self.noted_pages.update(range(address // PAGE, (address + size - 1) // PAGE + 1))
        try:
            data = self._read(address, size)
        except PageOmitted:
            found = self._read_from_file(address, size)
            if found is None:
                raise
            data = found
        self.bytes_left -= size
        return data

    def _read_from_file(self, address: int, size: int) -> bytes | None:
        module = self._modules.at(address)
        data = module.read_file(address, size) if module is not None else None
        if data is None and module is not None and module.record.fault is not None:
            raise MemoryFault(address, size, f"the target leaves it out, and {module.record.fault}")
        return data

    def read_code(self, address: int, size: int) -> bytes:
        """Return code: from the module's file, where that is known to be what is mapped, which costs a stopped process
        nothing. Where reads are noted, for a snapshot, from the target, since a snapshot has to have the pages.
        """
        loaded = self._modules.at(address) if self.noted_pages is None else None
        code = loaded.read_file(address, size) if loaded is not None and not loaded.damaged_bytes else None
        return code if code is not None else self.read(address, size)

    def read_string(self, address: int, limit: int = 4096) -> bytes:
        """Return the bytes at *address* up to, and without, the first NUL.

        :raises MemoryFault: if memory ends before the NUL
        :raises CorruptState: if there is none within *limit* bytes
        """
        found = b""
        while len(found) < limit:
            at = address + len(found)
            piece = self.read(at, min(_STRING_PIECE - at % _STRING_PIECE, limit - len(found)))
            end = piece.find(b"\0")
            if end >= 0:
                return found + piece[:end]
            found += piece
        raise CorruptState(address, f"a string of more than {limit} bytes")

    def read_data(self, address: int, size: int) -> bytes:
        """Return *size* bytes of a variable: :meth:`read`, but of pages that no one ever wrote to, too.

        Linux does not write a mapping into a core whose pages were never touched: a module's zeroed data is zero then.
        """
        try:
            return self.read(address, size)
        except PageOmitted as fault:
            found = b""
            while len(found) < size:
                at = address + len(found)
                count = min(size - len(found), self.page_size - at % self.page_size)
                try:
                    found += self.read(at, count)
                except PageOmitted:
                    if not self._is_unwritten(at, count):
                        raise fault from None
                    found += bytes(count)
            return found

    def _is_unwritten(self, address: int, size: int) -> bool:
        # Whether the bytes are zeroed data of a module in a mapping that a whole core leaves out altogether, while it
        # does hold others that are no file's: so it was not meant to leave them out.
        target, module = self._target, self._modules.at(address)
        if target.kind != "core" or target.loss is not None or module is None or module.elf is None:
            return False
        if any(target.extract(other.start, NT_OMPD_FILE) is not None for other in self._modules):
            return False  # a snapshot holds what was requested when it was taken
        held, page = set(target.segment_starts()), self.page_size
        regions = [region for region in target.regions() if region.flags & PF_W]
        own = next((region for region in regions if region.start <= address and address + size <= region.end), None)
        files = {mapping.start for mapping in target.mappings()}
        if own is None or own.start in held or not any(r.start in held and r.start not in files for r in regions):
            return False
        return any(
            segment.p_type == PT_LOAD
            and -(-(module.bias + segment.p_vaddr + segment.p_filesz) // page) * page <= address
            and address + size <= -(-(module.bias + segment.p_vaddr + segment.p_memsz) // page) * page
            for segment in module.elf.segments
        )

    def check_data(self, address: int) -> None:
        """Make sure that what is read at *address* of a module's variables is not the zeros of a page that is lost.

        :raises CorruptState: if it is
        """
        loaded = self._modules.at(address)
        if loaded is not None and loaded.is_lost(address):
            raise CorruptState(
                address, f"a page of {loaded.name}'s variables is lost: zeros stand where its file has others"
            )

    def to_host(self, raw: bytes, unit_size: int) -> bytes:
        """Return units of *unit_size* bytes in this machine's byte order, which is that of all supported targets."""
        return raw

    def type_sizes(self) -> TypeSizes:
        """Return the sizes of fundamental C types: ``long`` is as wide as a pointer (LP64, ILP32)."""
        pointer = self.pointer_size
        return TypeSizes(1, 2, 4, sizeof_long=pointer, sizeof_long_long=8, sizeof_pointer=pointer)
