"""One moment of a live process: what was copied while it was stopped, or, of a glance, what it has as it runs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

from ompd.binary.core.notes import FileMapping, ProcessNote, SignalInfo, StatusNote
from ompd.binary.core.procfs import MemoryMapping, file_mappings
from ompd.binary.elf.elf import PF_R, PF_W, PF_X
from ompd.debugger.targets.base import Loss, MemoryRegion, PartialRegisters
from ompd.debugger.targets.live.asleep import Asleep
from ompd.debugger.targets.live.process import PAGE, PAGE_BITS, RunningProcess
from ompd.errors import BadInput, MemoryFault, StaleHandle, TargetGone, Unavailable

# Around a page of the heap that was read once, its neighbours are likely to be read when the program has moved on: so
# many more of them as it has moved on more often.
_BLOCKS = (8, 64, 512)
# Pages, with their neighbours; more would take long to copy. Where the program has moved on, mappings that it did so in
# are copied as a whole, the smallest first, as long as they are no more pages than that.
_MAX_EXPANDED = 8192
_GROWS = 32  # pages that a heap may have grown by when it is copied as a whole
_MAX_READ = 128 << 20
_MAX_GLANCE = 128 << 20
_MAX_CONSTANTS = 4096  # pages
_MAX_WANTED = 1 << 14  # files of /proc


class Moment:
    """A live process at one stop; or, of a glance, as it runs. See :class:`ompd.debugger.targets.base.Target`.

    ``missed`` are the numbers of pages that can change, were asked for and were not copied; they were read as the
    process runs on, so that an answer that depends on them is none. ``left_out`` is how many pages should have been
    copied when the stop had lasted as long as it may. ``lacking`` are threads of which an answer needs registers that
    only a stop tells; ``unread`` those of them that may not be stopped.

    :param threads: the registers of each thread, as far as they are known, None of one that runs
    :param copied: the pages that were copied, by their numbers; None of a glance
    :param asleep: of a glance: how the threads slept when it began, None for those that ran
    :param unstoppable: sleeping threads that may not be stopped
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
    ) -> None:
        self.name = f"process {process.process_id}"
        self.architecture = process.architecture
        self.process_id: int | None = process.process_id
        self.command = process.command
        self.missed: set[int] = set()
        self.lacking: set[int] = set()
        self.unread: set[int] = set()
        self.is_stopped = copied is not None
        """Whether all that it has is of one moment; for a glance :meth:`confirm` says so."""
        self.asleep = asleep or {}
        self.left_out = left_out
        self._process = process
        ordered = sorted(threads, key=lambda thread: (thread != process.process_id, thread))
        self._threads = {thread: self._known(thread, threads[thread], unstoppable) for thread in ordered}
        self._memory = memory
        self._starts = [mapping.start for mapping in memory]
        self._mappings = file_mappings(memory)
        # Of what was copied an answer needs a part, so a page becomes one of `_pages` when it is read.
        self._copied = copied if copied is not None else {}
        self._pages: dict[int, bytes] = {}
        self._room = (_MAX_GLANCE >> PAGE_BITS) - len(self._copied)
        self._asked_for = asked_for
        self._keeps_pages = keeps_pages
        self._texts = dict(texts) if texts is not None else {}
        self._settled: tuple[str, str] | None = None
        self._is_over = False

    def _known(
        self, thread: int, registers: Mapping[str, int] | None, unstoppable: Collection[int]
    ) -> Mapping[str, int] | None:
        if registers is None or all(name in registers for name in self.architecture.dwarf_registers):
            return registers
        lacking = self.unread if thread in unstoppable else self.lacking
        return PartialRegisters(registers, lambda: lacking.add(thread))

    def confirm(self) -> bool:
        """Return whether all threads slept when this glance began, and have not run since: then nothing has changed
        that it has read, and it is as good as a stop.

        Two kinds of writing are presumed not to happen: by the kernel, for a read that goes on, and by another process
        that shares memory.
        """
        if not self.asleep or None in self.asleep.values():
            return False
        try:
            same = set(self._process.thread_ids()) == set(self.asleep)
        except TargetGone:
            return False
        self.is_stopped = same and all(self._process.asleep(t) == how for t, how in self.asleep.items())
        return self.is_stopped

    def read(self, address: int, size: int) -> bytes:
        """Return exactly *size* bytes at *address*; see :meth:`Target.read`."""
        within = address & (PAGE - 1)
        if 0 <= size <= PAGE - within:
            page = self._pages.get(address >> PAGE_BITS)
            if page is None:
                page = self._fetch(address >> PAGE_BITS, address, size)
            return page[within : within + size]
        if not 0 <= size <= _MAX_READ or address < 0:
            raise MemoryFault(address, size, "more than is read of a process at once")
        if not self._keeps_pages and not self._is_over and not self._pages:
            whole = self._process.read_now(address, size)
            if whole is not None:
                return whole
        first, last = address >> PAGE_BITS, (address + size - 1) >> PAGE_BITS
        pages = (self._pages.get(number) or self._fetch(number, address, size) for number in range(first, last + 1))
        return b"".join(pages)[within : within + size]

    def regions(self) -> Sequence[MemoryRegion]:
        """Return the process's mappings, by address, less those that nobody can read."""
        return [
            MemoryRegion(m.start, m.end, PF_R | (PF_W if m.is_writable else 0) | (PF_X if m.is_executable else 0))
            for m in self._memory
            if m.is_readable
        ]

    def segment_starts(self) -> Sequence[int]:
        """Return nothing: all modules have names."""
        return ()

    def extract(self, start: int, kind: int) -> bytes | None:
        """Return None: a process's files are where they were."""
        return None

    def _fetch(self, number: int, address: int, size: int) -> bytes:
        # A page that is read for the first time: if it was not copied, from the process as it is now.
        if self._is_over:
            raise StaleHandle(f"{self.name} ran on since this was asked: handles are of one stop")
        copied = self._copied.get(number)
        if copied is not None:
            return self._pages.setdefault(number, copied.tobytes())
        mapping = self._mapping_at(number << PAGE_BITS)
        is_constant = mapping is not None and not mapping.is_writable
        # What cannot change need not have been copied, and may not have been: what lies before the vDSO cannot be.
        is_gone = number in self._asked_for and not is_constant
        if self.is_stopped and (mapping is None or not mapping.is_readable or is_gone):
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
        page = self._process.read_page(number)
        if page is None:
            if self.is_stopped and number not in self._asked_for:
                self.missed.add(number)  # it was there when the process was stopped
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
        """Never raise: what it holds stays."""

    def thread_ids(self) -> Sequence[int]:
        """Return the threads, the first one of the process first."""
        return tuple(self._threads)

    def registers(self, thread: int) -> Mapping[str, int]:
        """Return the registers of *thread*: some or none of them where it could not be stopped."""
        if thread not in self._threads:
            raise BadInput(f"no thread {thread} in {self.name}")
        return self._threads[thread] or {}

    def unknown_threads(self) -> Sequence[int]:
        """Return the threads without any register: they did not stop, or ran meanwhile."""
        return tuple(thread for thread, registers in self._threads.items() if registers is None)

    def mappings(self) -> Sequence[FileMapping]:
        """Return the mappings that come from files, by address."""
        return self._mappings

    def code_mappings(self) -> Sequence[MemoryMapping]:
        """Return the mappings of files that hold code: as long as these are the same, so are the modules."""
        return [mapping for mapping in self._memory if mapping.is_executable and mapping.is_file]

    def siginfo(self, thread: int) -> SignalInfo | None:
        """Return None: the process runs on."""
        return None

    def proc_text(self, path: str) -> bytes:
        """Return what ``/proc/PID/`` had at *path* when the process was stopped; see :meth:`Target.proc_text`."""
        if self._is_over:
            raise StaleHandle(f"{self.name} ran on since this was asked: handles are of one stop")
        if path not in self._texts:
            # The names of connections stay as long as they have the same number.
            if self.is_stopped and not path.startswith("net/"):
                raise Unavailable(f"/proc/{self.process_id}/{path} was not read while the process was stopped")
            if len(self._process.wanted) < _MAX_WANTED:
                self._process.wanted[path] = None
            self._texts[path] = self._process.text(path)
        found = self._texts[path]
        if found is None:
            raise Unavailable(f"/proc/{self.process_id}/{path} could not be read while the process was stopped")
        return found

    def noted_status(self, thread: int) -> StatusNote | None:
        """Return None: a process has no notes."""
        return None

    def noted_process(self) -> ProcessNote | None:
        """Return None: a process has no notes."""
        return None

    def auxiliary_vector(self) -> Mapping[int, int]:
        """Return ``/proc/PID/auxv``."""
        return self._process.auxiliary_vector

    @cached_property
    def _stacks(self) -> frozenset[int]:
        # Where the mappings begin that threads have their stack pointers in.
        found = (self._mapping_at(known[self.architecture.sp]) for known in self._threads.values() if known)
        return frozenset(mapping.start for mapping in found if mapping is not None)

    @property
    def is_whole(self) -> bool:
        """Whether no page and no register of a sleeping thread was missing for the answer."""
        return not self.missed and not self.lacking

    def misses_stacks(self) -> bool:
        """Tell whether pages of stacks were missed."""
        found = (self._mapping_at(number << PAGE_BITS) for number in self.missed)
        return any(mapping is not None and mapping.start in self._stacks for mapping in found)

    def pages_nearby(self, stops: int) -> Sequence[int]:
        """Return the neighbours of the pages that were missed, where these are not of a stack, likely ones first.

        :param stops: how many stops have missed some: the more, the more of them are returned
        """
        missed: dict[MemoryMapping, set[int]] = {}
        for number in self.missed:
            mapping = self._mapping_at(number << PAGE_BITS)
            if mapping is not None and mapping.start not in self._stacks:
                missed.setdefault(mapping, set()).add(number)
        found: dict[int, None] = {}
        block = _BLOCKS[min(stops, len(_BLOCKS) - 1)]
        while sum(map(len, missed.values())) * block > _MAX_EXPANDED and block > 1:
            block //= 2
        for mapping, numbers in missed.items() if block > 1 else ():
            for low in sorted({number // block * block for number in numbers}):
                # What is behind its end may be part of it by the next stop.
                found.update(dict.fromkeys(range(max(low, mapping.start >> PAGE_BITS), low + block)))
        for mapping in sorted(missed, key=lambda mapping: mapping.end - mapping.start) if stops else ():
            if len(found) + (mapping.end - mapping.start >> PAGE_BITS) > _MAX_EXPANDED:
                break
            found.update(dict.fromkeys(range(mapping.start >> PAGE_BITS, (mapping.end >> PAGE_BITS) + _GROWS)))
        return list(found)

    def settle(
        self,
        why: str = "it was not copied when the process was stopped",
        hint: str = "what is asked within one call of Session.ask() is copied",
    ) -> None:
        """From now on what was not copied is not read: the question is answered by this moment, as far as it goes.

        :param why: what to say of what was not copied, and in *hint* what helps
        """
        self._settled = why, hint
        if self.is_stopped:
            for number in self.missed:
                self._pages.pop(number, None)  # read since, as the process ran on
            self.missed = set()

    def retire(self) -> None:
        """Another stop has begun, or the session is closed: reading raises :class:`~ompd.errors.StaleHandle`."""
        self._is_over = True
        self._pages, self._copied = {}, {}

    def close(self) -> None:
        """Let go of what was copied."""
        self.retire()
