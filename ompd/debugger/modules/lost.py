"""Lost pages of variables, which read as zeros: a full disk or an interrupted copy leaves holes in a core.

No library sets a whole page of its initialised variables to zero. The user's program may do so, except for pages that
are read-only after relocation.
"""

from __future__ import annotations

from ompd.binary.elf.elf import PF_W, PT_GNU_RELRO, PT_LOAD, ElfFile, Segment
from ompd.debugger.targets.base import Target, page_size
from ompd.errors import MemoryFault

_MAX_CHECKED = 1 << 20  # bytes of a segment that are examined
_MIN_NONZERO = 16  # bytes other than 0 that the file has at least for a page that counts as lost


def first_lost_page(target: Target, elf: ElfFile, bias: int, is_program: bool) -> int | None:
    """Return the address of a page of the module's variables that is lost, None without such a page.

    A lost page reads as zeros although the module's file has other initial values for it. In the program only pages
    that are read-only after relocation are examined.
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
    """Return whether the page of the module's variables at the target's *address* is lost.

    A lost page reads as zeros although the module's file has other initial values for it. A program might have set the
    whole page to zero, but that is rare.
    """
    link, size = address - bias, page_size(target)
    for segment in elf.segments:
        if segment.p_type == PT_LOAD and segment.p_flags & PF_W and 0 <= link - segment.p_vaddr < segment.p_filesz:
            return _reads_as_zeros(target, elf, bias, segment, link // size * size, size, 1)
    return False


def _reads_as_zeros(
    target: Target, elf: ElfFile, bias: int, segment: Segment, page: int, size: int, least: int
) -> bool:
    # Return whether a page of *size* bytes reads as zeros although the file has at least *least* bytes other than 0 for
    # it.
    low, high = max(page, segment.p_vaddr), min(page + size, segment.p_vaddr + segment.p_filesz)
    offset = segment.p_offset + low - segment.p_vaddr
    if bytes(elf.data[offset : offset + high - low]).count(0) > high - low - least:
        return False
    try:
        return not any(target.read(bias + low, high - low))
    except MemoryFault:
        return False  # an unreadable page does not read as zeros
