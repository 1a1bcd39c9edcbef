"""The memory of the stopped process. Reads have a budget, and pages that the target omits come from modules' files."""

from __future__ import annotations

from functools import cached_property

from ompd.binary.core.notes import NT_OMPD_FILE
from ompd.binary.elf.elf import PF_W, PT_LOAD
from ompd.contract.memory import ByteOrder
from ompd.debugger.modules.modules import ModuleList
from ompd.debugger.targets.base import PageOmitted, Target, page_size
from ompd.errors import CorruptState, MemoryFault, TooMuch

PAGE = 4096
"""The size in bytes of the units in which reads are noted and code is verified. All page sizes are multiples of it."""
# The most bytes of one read of a string. No piece crosses the end of a page, because the mapping may end there.
_STRING_PIECE = 256
# The most reads and bytes of one query, and what each thread adds to these limits. Such a budget ends every query,
# whatever the target's structures contain. A time limit would end it at a different point on each machine. A query
# takes 40 reads and 10 kB for a thread, and 13,000 reads and 340 kB for a thousand queued tasks. So 230,000 tasks are
# possible, for which ompd takes 500 MB of memory.
_MAX_READS, _MAX_READS_PER_THREAD = 3_000_000, 2_000
_MAX_BYTES, _MAX_BYTES_PER_THREAD = 1 << 30, 4 << 20
_MAX_NOTED = 1 << 28  # no larger read succeeds


class TargetMemory:
    """The memory of one target. ``reads_left`` and ``bytes_left`` are the rest of the running query's budget.

    :param modules: the modules of the process, whose files have pages that the target omits
    """

    def __init__(self, target: Target, modules: ModuleList) -> None:
        self._target, self._modules = target, modules
        self._read = target.read
        self.byte_order: ByteOrder = target.architecture.byte_order
        self.pointer_size = target.architecture.pointer_size
        self.is_whole = target.loss is None
        """Whether no part of the target is lost."""
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
        """Allow at most *count* reads from here on."""
        self.max_reads = min(self.max_reads, count)
        self.begin_question()

    @property
    def spent(self) -> TooMuch | None:
        """The error to raise if the running query has exceeded its budget, else None."""
        if self.reads_left >= 0 and self.bytes_left >= 0:
            return None
        return TooMuch(min(self.max_reads - self.reads_left, self.max_reads), self.max_bytes - self.bytes_left)

    def note_reads(self) -> set[int]:
        """Begin to note reads. Return the set to which the numbers of all pages are added that are read from now on."""
        self.noted_pages = set()
        return self.noted_pages

    def read(self, address: int, size: int) -> bytes:
        """Return *size* bytes at *address*, from the target or, for omitted pages, from the file mapped there.

        :raises MemoryFault: if neither the target nor the file has the bytes
        :raises TooMuch: if the query has exceeded its budget
        """
        self.reads_left -= 1
        if self.reads_left < 0 or self.bytes_left < 0:
            raise self.spent or TooMuch(self.max_reads, self.max_bytes)
        if self.noted_pages is not None and 0 < size <= _MAX_NOTED:
            self.noted_pages.update(range(address // PAGE, (address + size - 1) // PAGE + 1))
        try:
            data = self._read(address, size)
        except PageOmitted:
            from_file = self._read_from_file(address, size)
            if from_file is None:
                raise
            data = from_file
        self.bytes_left -= size
        return data

    def _read_from_file(self, address: int, size: int) -> bytes | None:
        module = self._modules.at(address)
        data = module.read_file(address, size) if module is not None else None
        if data is None and module is not None and module.record.fault is not None:
            raise MemoryFault(address, size, f"the target leaves it out, and {module.record.fault}")
        return data

    def read_code(self, address: int, size: int) -> bytes:
        """Return *size* bytes of code at *address*. They are read from the module's verified file if possible.

        That is cheaper, and needs no budget. While reads are noted for a snapshot, the bytes are read from the target,
        because the snapshot needs the pages.
        """
        loaded = self._modules.at(address) if self.noted_pages is None else None
        code = loaded.read_file(address, size) if loaded is not None and not loaded.damaged_bytes else None
        return code if code is not None else self.read(address, size)

    def read_string(self, address: int, limit: int = 4096) -> bytes:
        """Return the bytes at *address* up to the first NUL, without the NUL.

        :raises MemoryFault: if memory ends before the NUL
        :raises CorruptState: if there is no NUL within *limit* bytes
        """
        text = b""
        while len(text) < limit:
            place = address + len(text)
            piece = self.read(place, min(_STRING_PIECE - place % _STRING_PIECE, limit - len(text)))
            end = piece.find(b"\0")
            if end >= 0:
                return text + piece[:end]
            text += piece
        raise CorruptState(address, f"a string of more than {limit} bytes")

    def read_data(self, address: int, size: int) -> bytes:
        """Return *size* bytes of a variable. Unlike :meth:`read`, this returns zeros for pages that were never written.

        If no page of a mapping was ever touched, Linux omits the mapping from a core. Then the module's zeroed data in
        this mapping is still zero.
        """
        try:
            return self.read(address, size)
        except PageOmitted as fault:
            data = b""
            while len(data) < size:
                place = address + len(data)
                count = min(size - len(data), self.page_size - place % self.page_size)
                try:
                    data += self.read(place, count)
                except PageOmitted:
                    if not self._is_unwritten(place, count):
                        raise fault from None
                    data += bytes(count)
            return data

    def _is_unwritten(self, address: int, size: int) -> bool:
        # Return whether the bytes are zeroed data of a module, in a mapping that the core omits because the mapping was
        # never touched. The core must be whole. It must hold other private memory, because the process may be
        # configured to leave all private memory out of cores.
        target, module = self._target, self._modules.at(address)
        if target.kind != "core" or target.loss is not None or module is None or module.elf is None:
            return False
        if any(target.extract(other.start, NT_OMPD_FILE) is not None for other in self._modules):
            return False  # a snapshot omits pages that were not read
        starts, page = set(target.segment_starts()), self.page_size
        regions = [region for region in target.regions() if region.flags & PF_W]
        around = next((region for region in regions if region.start <= address and address + size <= region.end), None)
        files = {mapping.start for mapping in target.mappings()}
        holds_private_memory = any(region.start in starts and region.start not in files for region in regions)
        if around is None or around.start in starts or not holds_private_memory:
            return False
        return any(
            segment.p_type == PT_LOAD
            and -(-(module.bias + segment.p_vaddr + segment.p_filesz) // page) * page <= address
            and address + size <= -(-(module.bias + segment.p_vaddr + segment.p_memsz) // page) * page
            for segment in module.elf.segments
        )

    def check_data(self, address: int) -> None:
        """Check that the module's variable at *address* is not in a lost page, which reads as zeros.

        :raises CorruptState: if the variable is in a lost page
        """
        loaded = self._modules.at(address)
        if loaded is not None and loaded.is_lost(address):
            raise CorruptState(
                address, f"a page of {loaded.name}'s variables is lost: zeros stand where its file has others"
            )
