"""The extents of functions, their exception handlers, references to other code, and words that are never written to."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from ompd import naming
from ompd.binary.cfi.handlers import CallSite, read_call_sites
from ompd.binary.elf.elf import PF_W, PF_X, PT_GNU_RELRO, PT_LOAD, ElfFile
from ompd.contract.memory import read_pointer
from ompd.contract.process import Location
from ompd.debugger.memory import TargetMemory
from ompd.debugger.modules.modules import LoadedModule, ModuleList
from ompd.errors import MalformedFile, OmpdError, Unavailable
from ompd.isa.instructions import Processor

_MAX_BEFORE = 3  # bytes of a call or load before the distance to its target


class Reference(NamedTuple):
    """The address ``place`` in code, at which bytes look like a call, a jump or a load of a word.

    ``address`` is the target of a call or jump. For a load (``is_load``), and for a call or jump through a word in
    memory (``is_through``), it is the address of that word.
    """

    place: int
    address: int
    is_load: bool
    is_through: bool


class Code:
    """The functions of one process. Their extents are from unwind data and symbols.

    :param locate: returns the symbol and module of an address
    """

    def __init__(
        self,
        memory: TargetMemory,
        modules: ModuleList,
        processor: Processor | None,
        locate: Callable[[int], Location],
    ) -> None:
        self._memory, self._modules, self._processor, self._locate = memory, modules, processor, locate
        self._extents: dict[int, tuple[int, int] | None] = {}
        self._pads: dict[int, tuple[CallSite, ...]] = {}
        self._entries: dict[int, int | OmpdError] = {}
        self.taken: set[int] = set()
        """The words that :meth:`constant` has returned."""

    def references(self, elf: ElfFile, bias: int, limit: int) -> Iterator[Reference]:
        """Yield possible calls, jumps and loads in the code of a module that refer to an address in the module.

        :param limit: the number of bytes of code to search
        :raises Unavailable: if there is more code, or if code of this processor is not followed
        """
        loads = [segment for segment in elf.segments if segment.p_type == PT_LOAD]
        lowest = min((segment.p_vaddr for segment in loads), default=0)
        highest = max((segment.p_vaddr + segment.p_memsz for segment in loads), default=0)
        addresses = range(lowest + bias, highest + bias)
        for begin, code in self._parts(elf, bias, limit):
            for is_load, pattern in self._patterns:
                for match in pattern.finditer(code):
                    reference = self._reference(match, begin, is_load)
                    if reference.address in addresses:
                        yield reference

    def references_to(self, addresses: Collection[int], elf: ElfFile, bias: int, limit: int) -> Iterator[Reference]:
        """Yield the :meth:`references` to *addresses*; in large modules a hundred times as fast."""
        for begin, code in self._parts(elf, bias, limit):
            for address in addresses:
                for index in _distances(code, address - begin):
                    for start in range(max(index - _MAX_BEFORE, 0), index):
                        for is_load, pattern in self._patterns:
                            match = pattern.match(code, start)
                            if match is not None and match.start("distance") == index:
                                yield self._reference(match, begin, is_load)

    def words_with(self, values: Collection[int], elf: ElfFile, bias: int) -> dict[int, int]:
        """Return the words of a module's initialised data that have one of *values*, by their addresses.

        :raises MemoryFault: if a part of the data is missing
        """
        size, order = elf.pointer_size, self._memory.byte_order
        words: dict[int, int] = {}
        for segment in elf.segments:
            if segment.p_type == PT_LOAD and segment.p_flags & PF_W:
                begin = segment.p_vaddr + bias
                data = self._memory.read(begin, segment.p_filesz)
                for value in values:
                    pattern, index = value.to_bytes(size, order), -1
                    while (index := data.find(pattern, index + 1)) >= 0:
                        words[begin + index] = value
        return words

    def _parts(self, elf: ElfFile, bias: int, limit: int) -> Iterator[tuple[int, bytes]]:
        # The executable segments of a module, each with its address.
        if self._processor is None:
            raise Unavailable("code of this processor is not followed")
        for segment in elf.segments:
            if segment.p_type == PT_LOAD and segment.p_flags & PF_X:
                limit -= segment.p_filesz
                if limit < 0:
                    raise Unavailable("there is more code than is looked through")
                yield segment.p_vaddr + bias, self._memory.read_code(segment.p_vaddr + bias, segment.p_filesz)

    @cached_property
    def _patterns(self) -> tuple[tuple[bool, re.Pattern[bytes]], ...]:
        # The regular expressions of calls and of loads.
        processor = self._processor
        return ((False, re.compile(processor.calls)), (True, re.compile(processor.loads))) if processor else ()

    def _reference(self, match: re.Match[bytes], begin: int, is_load: bool) -> Reference:
        distance = int.from_bytes(match["distance"], self._memory.byte_order, signed=True)
        is_through = not is_load and match["through"] is not None
        return Reference(begin + match.start(), begin + match.end("distance") + distance, is_load, is_through)

    def module_at(self, address: int) -> LoadedModule | None:
        """Return the module that contains an address, None if there is none."""
        return self._modules.at(address)

    def start(self, address: int) -> int | None:
        """Return the first address of the function, or of the part of one, that contains *address*; None if unknown."""
        if address not in self._extents:
            self._extents[address] = self._modules.function_extent(address)
        extent = self._extents[address]
        return extent[0] if extent is not None else None

    def is_function(self, start: int) -> bool:
        """Return whether a function has its entry at *start*.

        False if only a part of a function begins there, which a compiler has moved away from the rest.
        """
        if naming.without_cold(self._locate(start).symbol or "") is not None:
            return False
        loaded, processor = self._modules.at(start), self._processor
        try:
            row = loaded.row(start - loaded.bias) if loaded is not None else None
        except MalformedFile:
            return False
        if row is None or processor is None or row.cfa.expression:
            return False
        return row.cfa.register == processor.stack_pointer and row.cfa.offset == processor.entry_distance

    def entry(self, address: int) -> int:
        """Return the entry of the function around an address.

        :raises Unavailable: if that is unknown
        """
        if address not in self._entries:
            try:
                self._entries[address] = self._find_entry(address)
            except OmpdError as error:
                self._entries[address] = error
        entry = self._entries[address]
        if isinstance(entry, OmpdError):
            raise entry
        return entry

    def _find_entry(self, address: int) -> int:
        start = self.start(address)
        if start is None:
            raise Unavailable("no unwind data says where its function begins")
        if self.is_function(start):
            return start
        loaded = self._modules.at(start)
        name = naming.without_cold(self._locate(start).symbol or "")
        if name is not None and loaded is not None and loaded.symbols is not None:
            addresses = {symbol.address for symbol in loaded.symbols.find_prefix(name) if symbol.name == name}
            if len(addresses) == 1:
                return addresses.pop() + loaded.bias
        raise Unavailable("it is in a part of a function of which the beginning is unknown")

    def pads_of(self, call: int) -> Sequence[int]:
        """Return the landing pads for exceptions thrown in a call.

        :raises MalformedFile: if the table of landing pads is malformed
        """
        start = self.start(call)
        loaded = self._modules.at(call)
        if start is None or loaded is None:
            return ()
        if start not in self._pads:
            self._pads[start] = tuple(self._read_pads(loaded, start))
        return [pad for begin, end, pad in self._pads[start] if begin <= call < end and pad is not None]

    def _read_pads(self, loaded: LoadedModule, start: int) -> Iterator[CallSite]:
        bias = loaded.bias
        fde = loaded.unwind_table.find_fde(start - bias) if loaded.unwind_table is not None else None
        if fde is None:
            return
        for site in read_call_sites(
            lambda link_address, size: self._memory.read_code(link_address + bias, size),
            fde,
            self._memory.pointer_size,
            self._memory.byte_order,
        ):
            yield CallSite(site.start + bias, site.end + bias, site.pad + bias if site.pad is not None else None)

    def constant(self, address: int) -> int | None:
        """Return the word at *address* if only the loader writes to that address (RELRO), else None.

        Code finds functions of other modules through words of this kind.
        """
        loaded = self._modules.at(address)
        for segment in loaded.elf.segments if loaded is not None and loaded.elf is not None else ():
            begin = segment.p_vaddr + (loaded.bias if loaded is not None else 0)
            if segment.p_type == PT_GNU_RELRO and begin <= address < begin + segment.p_memsz:
                try:
                    word = read_pointer(self._memory, address)
                except OmpdError:
                    return None
                if word is not None:
                    self.taken.add(word)
                return word
        return None


def _distances(code: bytes, target: int) -> Iterator[int]:
    """Yield each index in *code* at which four bytes are the distance from their end to the index *target*.

    The distance is signed and little-endian.
    """
    # With each index the distance becomes one smaller, so its upper 16 bits are the same at 65536 indices in a row.
    # There, a search for these two bytes finds all candidates.
    for high in range((target - len(code)) >> 16, ((target - 4) >> 16) + 1):
        first, last = max(target - 4 - (high << 16) - 0xFFFF, 0), min(target - 4 - (high << 16), len(code) - 4)
        half, place = (high & 0xFFFF).to_bytes(2, "little"), first + 1
        while (place := code.find(half, place + 1, last + 4)) >= 0:
            index = place - 2
            if int.from_bytes(code[index : index + 4], "little", signed=True) == target - 4 - index:
                yield index
