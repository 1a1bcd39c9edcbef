"""Pages of variables that a target has lost, which read as zeros: where a disk was full, or a copy was interrupted, a
file has a hole.

A library does not set a whole page of its initialised variables to zero. The user's program may; but not what is
read-only once the loader has relocated it.
"""

from __future__ import annotations

from ompd.binary.elf.elf import PF_W, PT_GNU_RELRO, PT_LOAD, ElfFile, Segment
from ompd.debugger.targets.base import Target, page_size
from ompd.errors import MemoryFault

# Of a module's variables so many bytes are looked at, and pages that begin with so many bytes other than 0 in them.
_MAX_CHECKED = 1 << 20
_MIN_NONZERO = 16


def first_lost_page(target: Target, elf: ElfFile, bias: int, is_program: bool) -> int | None:
    """Return the address of a page that reads as zeros though the module's file has something else to begin with, None
    if there is none.
    """
    size = page_size(target)
    for segment in elf.segments:
        if segment.p_type != (PT_GNU_RELRO if is_program else PT_LOAD) or not (is_program or segment.p_flags & PF_W):
            continue
        end = min(segment.p_vaddr + segment.p_filesz, segment.p_vaddr + _MAX_CHECKED)
        for address in range(segment.p_vaddr // size * size, end, size):
            if _reads_as_zeros(target, elf, bias, segment, address, size, _MIN_NONZERO):
                return bias + max(address, segment.p_vaddr)
    return None


def is_lost_page(target: Target, elf: ElfFile, bias: int, address: int) -> bool:
    """Return whether the page at the target's *address* reads as zeros though the module's file has other values for it
    to begin with. That a program set all of a page to zero is not impossible, but rare.
    """
    link, size = address - bias, page_size(target)
    for segment in elf.segments:
        if segment.p_type == PT_LOAD and segment.p_flags & PF_W and 0 <= link - segment.p_vaddr < segment.p_filesz:
            return _reads_as_zeros(target, elf, bias, segment, link // size * size, size, 1)
    return False


def _reads_as_zeros(
    target: Target, elf: ElfFile, bias: int, segment: Segment, page: int, size: int, least: int
) -> bool:
    # Whether a page of *size* bytes does, of which the file has at least *least* bytes with another value.
    low, high = max(page, segment.p_vaddr), min(page + size, segment.p_vaddr + segment.p_filesz)
    at = segment.p_offset + low - segment.p_vaddr
    if bytes(elf.data[at : at + high - low]).count(0) > high - low - least:
        return False
    try:
        return not any(target.read(bias + low, high - low))
    except MemoryFault:
        return False  # which says so itself
