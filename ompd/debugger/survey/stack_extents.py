"""The memory of the threads' stacks: its extent, overruns, and stacks that the target omits.

The C library allocates the stacks of all threads but the first. At the upper end of such a stack, the library keeps its
data about the thread, to which the thread pointer points. The kernel allocates the first thread's stack, which has the
strings of the auxiliary vector at its upper end.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import NamedTuple

from ompd.binary.core.notes import AT_RANDOM
from ompd.binary.elf.elf import PF_W
from ompd.debugger.process import StoppedProcess
from ompd.debugger.targets.base import MemoryRegion, PageOmitted
from ompd.errors import MemoryFault, OmpdError, Unavailable

# How many pages below the stack pointer code may access: for pushed values, the red zone, and a stack probe.
_PAGES_BELOW = 2
_MAX_FRAME = 1 << 30


class StackExtent(NamedTuple):
    """The mapped memory of one thread's stack, from ``start`` to ``end``. ``is_first`` marks the stack of the process's
    first thread, which the kernel enlarges up to a limit.
    """

    start: int
    end: int
    is_first: bool

    @property
    def size(self) -> int:
        """Its size in bytes, including the C library's data of the thread."""
        return self.end - self.start


class Omitted(NamedTuple):
    """The writable memory that a core omits: numbers of regions and bytes, and the threads whose stacks are omitted."""

    regions: int
    bytes: int
    threads: tuple[int, ...]


class StackExtents:
    """The stacks of one process."""

    def __init__(self, process: StoppedProcess) -> None:
        self._process = process
        self._regions = [region for region in process.target.regions() if region.flags & PF_W]
        self._starts = [region.start for region in self._regions]

    def of(self, thread: int) -> StackExtent:
        """Return the extent of *thread*'s stack.

        :raises Unavailable: if it is unknown
        """
        is_first = thread == self._process.target.process_id
        try:
            if is_first:
                inside = self._process.target.auxiliary_vector().get(AT_RANDOM, 0)
            else:
                inside = self._process.threads.thread_pointer(thread)
        except OmpdError as error:
            raise Unavailable(f"the stack of thread {thread}: {error}") from error
        region = self._around(inside)
        if region is None:
            raise Unavailable(f"the stack of thread {thread}: no mapping is known around {inside:#x}")
        return StackExtent(region.start, region.end, is_first)

    def _around(self, address: int) -> MemoryRegion | None:
        index = bisect_right(self._starts, address) - 1
        if index < 0 or address >= self._regions[index].end:
            return None
        start, end = self._regions[index].start, self._regions[index].end
        # A snapshot splits one mapping into several adjacent ones, which count as one here.
        while index > 0 and self._regions[index - 1].end == start:
            index -= 1
            start = self._regions[index].start
        return MemoryRegion(start, end, PF_W)

    def overrun(self, thread: int, address: int) -> int | None:
        """Return how many bytes *address* is below *thread*'s stack, None if an access there is no overrun.

        An overrun is below the mapping, but at most a few pages below the thread's stack pointer.

        :raises Unavailable: if the stack's extent or the stack pointer is unknown
        """
        extent = self.of(thread)
        try:
            sp = self._process.threads.registers(thread)[self._process.target.architecture.sp]
        except OmpdError as error:
            raise Unavailable(f"the stack pointer of thread {thread}: {error}") from error
        below = extent.start - address
        if 0 < below <= _MAX_FRAME and sp - _PAGES_BELOW * self._process.memory.page_size <= address:
            return below
        return None

    def omitted(self) -> Omitted:
        """Return the writable memory that the target omits, apart from mapped files, and the threads whose stacks it
        omits.
        """
        target, process = self._process.target, self._process
        files = target.mappings()
        starts, ends = [file.start for file in files], list(accumulate((file.end for file in files), max))
        count = total = 0
        for region in self._regions:
            before = bisect_left(starts, region.end) - 1
            if before >= 0 and ends[before] > region.start:
                continue
            try:
                target.read(region.start, 1)
            except PageOmitted:
                count += 1
                total += region.end - region.start
            except MemoryFault:
                continue  # the core is cut off there, which is reported elsewhere
        threads = []
        for thread in process.threads.ids():
            try:
                sp = process.threads.registers(thread)[target.architecture.sp]
                if self._around(sp) is None:
                    continue  # the pointer is below the stack, where nothing was mapped
                process.memory.read(sp - sp % 8, 8)
            except PageOmitted:
                threads.append(thread)
            except OmpdError:
                continue
        return Omitted(count, total, tuple(threads))
