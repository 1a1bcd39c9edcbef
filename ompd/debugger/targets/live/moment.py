"""One moment of a live process: the copy that a stop made, or a glance at it while it runs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property

from ompd.binary.core.notes import FileMapping, ProcessNote, SignalInfo, StatusNote
from ompd.binary.core.procfs import MemoryMapping, file_mappings
from ompd.debugger.targets.base import Loss, MemoryRegion, PartialRegisters, readable_regions
from ompd.debugger.targets.live.process import PAGE, PAGE_BITS, RunningProcess
from ompd.debugger.targets.live.tracer import Asleep
from ompd.errors import BadInput, MemoryFault, StaleHandle, TargetGone, Unavailable

# The numbers of pages around a missed page that the next stop copies, too, after no stop, one stop, and more stops have
# missed pages. If the program has run on, it likely uses such neighbours of the pages that were read before.
_BLOCKS = (8, 64, 512)
# The most neighbours of missed pages to copy; more would take too long. After a stop that missed pages, the mappings
# with these pages are copied as a whole, the smallest first, within this limit.
_MAX_EXPANDED = 8192
_GROWS = 32  # pages that are copied behind the end of a mapping, because a heap may grow
_MAX_READ = 128 << 20
_MAX_GLANCE = 128 << 20
_MAX_CONSTANTS = 4096  # pages
_MAX_WANTED = 1 << 14  # files of /proc


class Moment:
    """A :class:`ompd.debugger.targets.base.Target`: the copy of a live process that a stop made, or a glance.

    A glance reads the process while it runs. ``missed`` are the numbers of writable pages that an answer has read, but
    that were not copied. They were read while the process ran, so the answer is invalid. ``hoped`` are
    those that another stop should copy, too, because the answer would say more. ``left_out`` is the number of
    pages that were not copied because the time of the stop was over. ``lacking`` are the threads of which an answer
    needs registers that are unknown, except threads that may not be stopped. The latter are in ``unread``. ``woken``
    are threads that were left asleep during a stop, and have run meanwhile.

    :param threads: the known registers of each thread, None for a running thread
    :param copied: the copied pages by their numbers; None for a glance
    :param asked_for: the numbers of the pages that the stop tried to copy
    :param asleep: for a glance, how each thread slept when the glance began, None for a running thread
    :param unstoppable: sleeping threads that may not be stopped
    :param woken: threads that slept and have run during the stop
    """

    kind = "live"
    signal: int | None = None
    loss: Loss | None = None

    def __init__(
        self,
        process: RunningProcess,
        threads: Mapping[int, Mapping[str, int] | None],
        memory: Sequence[MemoryMapping],
        copied: Mapping[int, memoryview] | None = None,
        *,
        asked_for: Collection[int] = (),
        left_out: int = 0,
        keeps_pages: bool = True,
        texts: Mapping[str, bytes | None] | None = None,
        asleep: Mapping[int, Asleep | None] | None = None,
        unstoppable: Collection[int] = (),
        woken: Collection[int] = (),
    ) -> None:
        self.woken = frozenset(woken)
        self.name = f"process {process.process_id}"
        self.architecture = process.architecture
        self.process_id: int | None = process.process_id
        self.command = process.command
        self.missed: set[int] = set()
        self.hoped: set[int] = set()
        self.lacking: set[int] = set()
        self.unread: set[int] = set()
        self.is_stopped = copied is not None
        """Whether all facts are of one moment. For a glance, :meth:`confirm` finds this out."""
        self.asleep = asleep or {}
        self.left_out = left_out
        self._process = process
        ordered = sorted(threads, key=lambda thread: (thread != process.process_id, thread))
        self._threads = {thread: self._registers_of(thread, threads[thread], unstoppable) for thread in ordered}
        self._memory = memory
        self._starts = [mapping.start for mapping in memory]
        self._mappings = file_mappings(memory)
        # An answer reads only some of the copied pages. So a page becomes `bytes` in `_pages` when it is first read.
        self._copied = copied if copied is not None else {}
        self._pages: dict[int, bytes] = {}
        self._room = (_MAX_GLANCE >> PAGE_BITS) - len(self._copied)
        self._asked_for = asked_for
        self._keeps_pages = keeps_pages
        self._texts = dict(texts) if texts is not None else {}
        self._settled: tuple[str, str] | None = None
        self._is_over = False

    def _registers_of(
        self, thread: int, registers: Mapping[str, int] | None, unstoppable: Collection[int]
    ) -> Mapping[str, int] | None:
        # The known registers of a thread, None if it ran. If some are unknown, the result is a PartialRegisters, which
        # notes that an answer needs them.
        if registers is None or all(name in registers for name in self.architecture.dwarf_registers):
            return registers
        return PartialRegisters(registers, thread, self.unread if thread in unstoppable else self.lacking)

    @contextmanager
    def optional(self) -> Iterator[set[int]]:
        """Let reads inside of the ``with`` statement be of use, but not needed: the answer is valid without them.

        Yield the numbers of the pages that these reads miss. What was read from them is not of this moment.
        """
        before, self.missed = self.missed, set()
        try:
            yield self.missed
        finally:
            for number in self.missed:
                self._pages.pop(number, None)
            self.missed = before

    def confirm(self) -> bool:
        """Return whether all threads slept when this glance began, and have not run since.

        If so, the glance is as good as a stop, because the memory that it has read has not changed. This assumes that
        nothing else wrote to the memory: neither the kernel, for a system call in progress, nor another process.
        """
        if not self.asleep or None in self.asleep.values():
            return False
        try:
            is_unchanged = set(self._process.thread_ids()) == set(self.asleep)
        except TargetGone:
            return False
        self.is_stopped = is_unchanged and all(self._process.asleep(t) == how for t, how in self.asleep.items())
        return self.is_stopped

    def read(self, address: int, size: int) -> bytes:
        """Return exactly *size* bytes at *address* (:meth:`Target.read`)."""
        within = address & (PAGE - 1)
        if 0 <= size <= PAGE - within:
            page = self._pages.get(address >> PAGE_BITS)
            if page is None:
                page = self._fetch(address >> PAGE_BITS, address, size)
            return page[within : within + size]
        if not 0 <= size <= _MAX_READ or address < 0:
            raise MemoryFault(address, size, "more than is read of a process at once")
        if not self._keeps_pages and not self._is_over and not self._pages:
            content = self._process.read_now(address, size)
            if content is not None:
                return content
        first, last = address >> PAGE_BITS, (address + size - 1) >> PAGE_BITS
        pages = (self._pages.get(number) or self._fetch(number, address, size) for number in range(first, last + 1))
        return b"".join(pages)[within : within + size]

    def regions(self) -> Sequence[MemoryRegion]:
        """Return the readable mappings, by address."""
        return readable_regions(self._memory)

    def segment_starts(self) -> Sequence[int]:
        """Return nothing, because all modules have names."""
        return ()

    def extract(self, start: int, kind: int) -> bytes | None:
        """Return None: a process needs no extracts, it has its files."""
        return None

    def _fetch(self, number: int, address: int, size: int) -> bytes:
        # Return a page on its first read, from the copy or from the running process.
        if self._is_over:
            raise StaleHandle(f"{self.name} ran on since this was asked: handles are of one stop")
        copied = self._copied.get(number)
        if copied is not None:
            return self._pages.setdefault(number, copied.tobytes())
        mapping = self._mapping_at(number << PAGE_BITS)
        is_constant = mapping is not None and not mapping.is_writable
        # Constant pages need no copy, and some cannot be copied, such as the page before the vDSO.
        was_absent = number in self._asked_for and not is_constant
        if self.is_stopped and (mapping is None or not mapping.is_readable or was_absent):
            raise MemoryFault(address, size, f"the process has nothing to read at {number << PAGE_BITS:#x}")
        constants = self._process.constants
        if is_constant and number in constants:
            return constants[number]
        if not is_constant:
            if self._settled is not None:
                self.missed.add(number)
                why, hint = self._settled
                raise MemoryFault(address, size, why, hint=hint)
            self.missed.add(number)
        page = self._process.read_now(number << PAGE_BITS, PAGE)
        if page is None:
            if self.is_stopped and number not in self._asked_for:
                self.missed.add(number)  # it existed when the process was stopped
            raise MemoryFault(address, size, f"the process does not have {number << PAGE_BITS:#x}, or has ended")
        if self._room <= 0:
            raise MemoryFault(address, size, f"an answer reads no more than {_MAX_GLANCE >> 20} MiB")
        if self._keeps_pages:
            self._room -= 1
            pages = constants if is_constant and len(constants) < _MAX_CONSTANTS else self._pages
            pages[number] = page
        return page

    def _mapping_at(self, address: int) -> MemoryMapping | None:
        index = bisect_right(self._starts, address) - 1
        mapping = self._memory[index] if index >= 0 else None
        return mapping if mapping is not None and address < mapping.end else None

    def check(self) -> None:
        """Do nothing: a copy does not change."""

    def thread_ids(self) -> Sequence[int]:
        """Return the threads. The initial thread of the process is first."""
        return tuple(self._threads)

    def registers(self, thread: int) -> Mapping[str, int]:
        """Return the registers of *thread*. If the thread was not stopped, some or all of them are missing."""
        if thread not in self._threads:
            raise BadInput(f"no thread {thread} in {self.name}")
        return self._threads[thread] or {}

    def unknown_threads(self) -> Sequence[int]:
        """Return the threads without known registers: they did not stop, or ran during the copy."""
        return tuple(thread for thread, registers in self._threads.items() if registers is None)

    def call_asleep(self, thread: int) -> int | None:
        """Return the number of the system call in which *thread* slept and was not stopped. None for any other thread,
        and for a page fault.
        """
        registers, arguments = self._threads.get(thread), self.architecture.kernel_arguments
        is_asleep = isinstance(registers, PartialRegisters) and arguments is not None
        return (
            registers.get(arguments.number) if is_asleep and registers is not None and arguments is not None else None
        )

    def lacks_processor(self, thread: int) -> bool:
        """Return whether *thread* did not stop in time for a light copy, because it had no processor."""
        return self.is_stopped and thread not in self.woken and self._threads.get(thread, {}) is None

    def mappings(self) -> Sequence[FileMapping]:
        """Return the mappings of files, by address."""
        return self._mappings

    def code_mappings(self) -> Sequence[MemoryMapping]:
        """Return the executable mappings of files. As long as they stay the same, so do the loaded modules."""
        return [mapping for mapping in self._memory if mapping.is_executable and mapping.is_file]

    def siginfo(self, thread: int) -> SignalInfo | None:
        """Return None: the process still runs, so no signal has ended it."""
        return None

    def kept_source(self) -> bytes | None:
        """Return None: a process has its source files, if any."""
        return None

    def proc_text(self, path: str) -> bytes:
        """Return the contents of *path* in ``/proc/PID/`` at the stop (:meth:`Target.proc_text`)."""
        if self._is_over:
            raise StaleHandle(f"{self.name} ran on since this was asked: handles are of one stop")
        if path not in self._texts:
            # A connection's addresses do not change while it has the same number.
            if self.is_stopped and not path.startswith("net/"):
                raise Unavailable(f"/proc/{self.process_id}/{path} was not read while the process was stopped")
            if len(self._process.wanted) < _MAX_WANTED:
                self._process.wanted[path] = None
            self._texts[path] = self._process.text(path)
        text = self._texts[path]
        if text is None:
            raise Unavailable(f"/proc/{self.process_id}/{path} could not be read while the process was stopped")
        return text

    def noted_status(self, thread: int) -> StatusNote | None:
        """Return None: only cores have notes."""
        return None

    def noted_process(self) -> ProcessNote | None:
        """Return None: only cores have notes."""
        return None

    def auxiliary_vector(self) -> Mapping[int, int]:
        """Return ``/proc/PID/auxv``."""
        return self._process.auxiliary_vector

    @cached_property
    def _stacks(self) -> frozenset[int]:
        # The start addresses of mappings that contain a thread's stack pointer.
        pointers = (registers[self.architecture.sp] for registers in self._threads.values() if registers)
        mappings = map(self._mapping_at, pointers)
        return frozenset(mapping.start for mapping in mappings if mapping is not None)

    @property
    def is_whole(self) -> bool:
        """Whether the target had all pages, and all registers of sleeping threads, that the answer needs."""
        return not self.missed and not self.lacking

    @property
    def pages_read(self) -> frozenset[int]:
        """The numbers of the pages that an answer has read, without constant pages."""
        return frozenset(self._pages)

    def misses_stacks(self) -> bool:
        """Return whether pages of stacks were missed."""
        mappings = (self._mapping_at(number << PAGE_BITS) for number in self.missed)
        return any(mapping is not None and mapping.start in self._stacks for mapping in mappings)

    def pages_nearby(self, stops: int) -> Sequence[int]:
        """Return the neighbours of the missed pages, the likely ones first. Pages of stacks are left out.

        :param stops: how many stops have missed pages; more stops give more neighbours
        """
        missed: dict[MemoryMapping, set[int]] = {}
        for number in self.missed:
            mapping = self._mapping_at(number << PAGE_BITS)
            if mapping is not None and mapping.start not in self._stacks:
                missed.setdefault(mapping, set()).add(number)
        nearby: dict[int, None] = {}
        block = _BLOCKS[min(stops, len(_BLOCKS) - 1)]
        while sum(map(len, missed.values())) * block > _MAX_EXPANDED and block > 1:
            block //= 2
        for mapping, numbers in missed.items() if block > 1 else ():
            for low in sorted({number // block * block for number in numbers}):
                # Pages behind the mapping's end may be part of it by the next stop.
                nearby.update(dict.fromkeys(range(max(low, mapping.start >> PAGE_BITS), low + block)))
        for mapping in sorted(missed, key=lambda mapping: mapping.end - mapping.start) if stops else ():
            if len(nearby) + (mapping.end - mapping.start >> PAGE_BITS) > _MAX_EXPANDED:
                break
            nearby.update(dict.fromkeys(range(mapping.start >> PAGE_BITS, (mapping.end >> PAGE_BITS) + _GROWS)))
        return list(nearby)

    def settle(
        self,
        why: str = "it was not copied when the process was stopped",
        hint: str = "what is asked within one call of Session.ask() is copied",
    ) -> None:
        """Read no more pages of the running process. The answer is then of this moment, perhaps with gaps.

        :param why: the fault of a page that was not copied, with its *hint*
        """
        self._settled = why, hint
        if self.is_stopped:
            for number in self.missed:
                self._pages.pop(number, None)  # it was read while the process ran
            self.missed = set()

    def retire(self) -> None:
        """Make reading raise :class:`~ompd.errors.StaleHandle`: another stop has begun, or the session is closed."""
        self._is_over = True
        self._pages, self._copied = {}, {}

    def close(self) -> None:
        """Drop the copy."""
        self.retire()
