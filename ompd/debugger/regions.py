"""The mappings of a target: their ends, executable code, free ranges of addresses."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property

from ompd.binary.elf.elf import PF_X, PT_LOAD
from ompd.debugger.modules.modules import ModuleList
from ompd.debugger.targets.base import MemoryRegion, Target


class Regions:
    """The mappings that one target lists."""

    def __init__(self, target: Target, modules: ModuleList) -> None:
        self._target, self._modules = target, modules

    @cached_property
    def _all(self) -> list[MemoryRegion]:
        return list(self._target.regions())

    @cached_property
    def _starts(self) -> list[int]:
        return [region.start for region in self._all]

    def _index(self, address: int) -> int | None:
        index = bisect_right(self._starts, address) - 1
        return index if index >= 0 and address < self._all[index].end else None

    def end_of(self, address: int) -> int | None:
        """Return the end of the mapping that contains *address*, None without one."""
        index = self._index(address)
        if index is None:
            return None
        # A snapshot splits one mapping into several adjacent ones, which count as one here.
        containing = self._all[index]
        end = containing.end
        for region in self._all[index + 1 :]:
            if region.start != end or region.flags != containing.flags:
                break
            end = region.end
        return end

    def is_code(self, address: int) -> bool:
        """Return whether the memory at *address* is executable."""
        index = self._index(address)
        if index is not None:
            return bool(self._all[index].flags & PF_X)
        # gdb's cores leave out unmodified mappings of files, so the segments of the module's file decide.
        module = self._modules.at(address)
        segments = module.elf.segments if module is not None and module.elf is not None else ()
        return module is not None and any(
            s.p_type == PT_LOAD and s.p_flags & PF_X and s.p_vaddr <= address - module.bias < s.p_vaddr + s.p_memsz
            for s in segments
        )

    def is_shared(self, address: int) -> bool | None:
        """Return whether another process may map the memory at *address*, too. None if that is unknown."""
        index = self._index(address)
        if index is None or self._all[index].is_shared is not None or self._target.kind != "core":
            return self._all[index].is_shared if index is not None else None
        # A core does not show it. But the loader maps modules privately, and shared memory without a name is listed
        # as a file, too (Linux, mm/shmem.c: shmem_zero_setup).
        if self._modules.at(address) is not None:
            return False
        is_of_file = any(mapping.start <= address < mapping.end for mapping in self._target.mappings())
        return None if is_of_file or self._target.loss is not None else False

    def free_page(self) -> int | None:
        """Return the address of a page in a range without mappings, None if there is none."""
        places = range(0x7000_0000_0000, 0x1000_0000_0000, -(1 << 40))
        return next((place for place in places if self.is_free(place, place + (1 << 24))), None)

    def is_free(self, start: int, end: int) -> bool:
        """Return whether the target lists no mapping between two addresses."""
        return not any(
            place.start < end and start < place.end
            for places in (self._all, self._target.mappings(), self._modules)
            for place in places
        )
