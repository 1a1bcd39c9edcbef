"""Where the memory of a thread's stack is, whether it was overrun, and which stacks the target does not hold.

A C library keeps the data of a thread that it made at the upper end of that thread's stack, and the thread pointer
leads there; the first thread's stack is the kernel's, with the auxiliary vector's strings at its upper end.
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

# How far below the stack pointer code may have written, in pages: what it pushes, the red zone, a probe of a page.
_PAGES_BELOW = 2
_MAX_FRAME = 1 << 30


class StackExtent(NamedTuple):
    """The memory of one thread's stack, as it is mapped: from *start* to *end*. ``is_first`` is that of the process's
    first thread, which the kernel enlarges up to a limit.
    """

    start: int
    end: int
    is_first: bool

    @property
    def size(self) -> int:
        """Its bytes, with the C library's data of the thread."""
        return self.end - self.start


class Omitted(NamedTuple):
    """What a core leaves out of memory that the program could write to: how many regions and bytes, and the threads
    whose stacks are among it.
    """

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
        """Return where the stack of *thread* is.

        :raises Unavailable: if the target does not say
        """
        is_first = thread == self._process.target.process_id
        try:
            if is_first:
                inside = self._process.target.auxiliary_vector().get(AT_RANDOM, 0)
            else:
                inside = self._process.threads.thread_pointer(thread)
        except OmpdError as error:
            raise Unavailable(f"the stack of thread {thread}: {error}") from error
        found = self._around(inside)
        if found is None:
            raise Unavailable(f"the stack of thread {thread}: no mapping is known around {inside:#x}")
        return StackExtent(found.start, found.end, is_first)

    def _around(self, address: int) -> MemoryRegion | None:
        index = bisect_right(self._starts, address) - 1
        if index < 0 or address >= self._regions[index].end:
            return None
        start, end = self._regions[index].start, self._regions[index].end
        # A snapshot has one mapping as several, one behind the other.
        while index > 0 and self._regions[index - 1].end == start:
            index -= 1
            start = self._regions[index].start
        return MemoryRegion(start, end, PF_W)

    def overrun(self, thread: int, address: int) -> int | None:
        """Return how many bytes below its stack *thread* accessed *address*, None if that was no access of its stack.

        Such an access is below the mapping, and not below what the thread's stack pointer has claimed.

        :raises Unavailable: if where its stack is is unknown
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
        """Return which writable memory, not of a file, the target leaves out, and whose stacks it does not hold."""
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
                continue  # the core is cut off there, which is said elsewhere
        threads = []
        for thread in process.threads.ids():
            try:
                sp = process.threads.registers(thread)[target.architecture.sp]
                if self._around(sp) is None:
                    continue  # below its stack, where nothing ever was
                process.memory.read(sp - sp % 8, 8)
            except PageOmitted:
                threads.append(thread)
            except OmpdError:
                continue
        return Omitted(count, total, tuple(threads))
