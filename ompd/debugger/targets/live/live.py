"""Live processes of Linux: stopped while what an answer reads is copied, and not while it is worked out.

A :class:`LiveProcess` gives :class:`Moment` after :class:`Moment`, each a target of its own. The first kind is a
glance: nothing is stopped, memory is read as it changes, registers are as far as ``/proc`` tells them. A question that
is asked of a glance answers nothing that may be shown, but the pages that it reads are, nearly all, those that it will
read. The second kind is of a stop: registers of all threads, the tops of their stacks and those pages, copied within
milliseconds. A page that is asked for and was not copied is noted, so that another stop can copy it as well.
"""

from __future__ import annotations

import errno
import mmap
import os
import time
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from ompd.binary.core.notes import FileMapping, SignalInfo, parse_auxv
from ompd.binary.core.procfs import (
    MemoryMapping,
    file_mappings,
    parse_maps,
    parse_status,
    parse_syscall,
)
from ompd.binary.elf.elf import PF_R, PF_W, PF_X
from ompd.debugger.architecture import Architecture, ThreadDescriptors
from ompd.debugger.targets.base import Loss, MemoryRegion
from ompd.debugger.targets.live import ptrace
from ompd.debugger.targets.live.refusals import examine, living_thread, refusal
from ompd.debugger.targets.live.tracer import LONGER_STOPS, NotStopped, Stop, stop_error
from ompd.errors import BadInput, BadProcess, MemoryFault, StaleHandle, TargetGone

PAGE = mmap.PAGESIZE
_SHIFT = PAGE.bit_length() - 1
# What is copied of all stacks together, from the stack pointers on: each is copied as far as it is used, and of the
# deepest, where that is too much, as much as of one another, but never less than so much of each. The outermost frames
# lie at a stack's end, behind what the program, or the runtime (it spreads stacks over cache lines), has left between.
_ALL_STACKS, _LEAST_STACK = 8 << 20, 8 << 10
_STACK_END = 2 * PAGE
_DEEP_STACKS = 64 << 20  # if it is seen that more of them is needed
_SPARE = 16  # stacks, of threads that are made meanwhile
# Below the stack pointer a function that calls none may keep data (x86-64: 128 bytes; others none).
_RED_ZONE = 128
# Around a page of the heap that was read once, its neighbours are likely to be read when the program has moved on: so
# many more of them as it has moved on more often.
_BLOCKS = (8, 64, 512)
# Pages, with their neighbours; more would take long to copy. Where the program has moved on, mappings that it did so in
# are copied as a whole, the smallest first, as long as they are no more pages than that.
_MAX_EXPANDED = 8192
_GROWS = 32  # pages that a heap may have grown by when it is copied as a whole
_MAX_CAPTURE = 128 << 20
_MAX_GLANCE = 128 << 20
_MAX_CONSTANTS = 4096  # pages
_MOST_TRIES, _PAUSE = 200, 1e-3
# How long a stop may last: threads beyond so many are allowed some more each. A busy machine may not give its threads
# the processors in time that they need to stop on; another moment may be better.
DEFAULT_STOP_NS, _THREADS_INCLUDED, _EACH_FURTHER_NS = 50_000_000, 256, 200_000
STOP_TRIES = 3
# What is copied because it may be needed is no reason to hold a process for much longer, until it was seen to be: parts
# of how long a stop may last.
_NEARBY_PART, _LIKELY_PART = 0.2, 0.6
# Bytes of maps that are read in no time, before anything else: without them nothing can be said of what was copied.
_SHORT_MAPS = 64 << 10


class Moment:
    """A live process at one stop; or, of a glance, as it runs. See :class:`ompd.debugger.targets.base.Target`.

    ``missed`` are the numbers of pages that can change, were asked for and were not copied; they were read as the
    process runs on, so that an answer that depends on them is none. ``left_out`` is how many pages should have been
    copied when the stop had lasted as long as it may.
    """

    kind = "live"
    signal: int | None = None
    loss: Loss | None = None

    def __init__(
        self,
        process: LiveProcess,
        threads: Mapping[int, Mapping[str, int] | None],
        memory: Sequence[MemoryMapping],
        pages: dict[int, bytes] | None = None,
        *,
        asked_for: Collection[int] = (),
        left_out: int = 0,
        keeps_pages: bool = True,
    ) -> None:
        self.name = f"process {process.process_id}"
        self.architecture = process.architecture
        self.process_id: int | None = process.process_id
        self.command = process.command
        self.missed: set[int] = set()
        self.is_stopped = pages is not None
        self.left_out = left_out
        self._process = process
        self._threads = dict(sorted(threads.items(), key=lambda item: (item[0] != process.process_id, item[0])))
        self._memory = memory
        self._starts = [mapping.start for mapping in memory]
        self._mappings = file_mappings(list(memory))
        self._pages = pages if pages is not None else {}
        self._room = (_MAX_GLANCE >> _SHIFT) - len(self._pages)
        self._asked_for = asked_for
        self._keeps_pages = keeps_pages
        self._settled: tuple[str, str] | None = None
        self._is_over = False

    def read(self, address: int, size: int) -> bytes:
        """Return exactly *size* bytes at *address*; see :meth:`Target.read`."""
        within = address & (PAGE - 1)
        if 0 <= size <= PAGE - within:
            page = self._pages.get(address >> _SHIFT)
            if page is None:
                page = self._fetch(address >> _SHIFT, address, size)
            return page[within : within + size]
        if not 0 <= size <= _MAX_CAPTURE or address < 0:
            raise MemoryFault(address, size, "more than is read of a process at once")
        if not self._keeps_pages and not self._is_over and not self._pages:
            whole = self._process.read_now(address, size)
            if whole is not None:
                return whole
        first, last = address >> _SHIFT, (address + size - 1) >> _SHIFT
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
        # A page that was not copied, from the process as it is now.
        if self._is_over:
            raise StaleHandle(f"{self.name} ran on since this was asked: handles are of one stop")
        mapping = self._mapping_at(number << _SHIFT)
        is_constant = mapping is not None and not mapping.is_writable
        # What cannot change need not have been copied, and may not have been: what lies before the vDSO cannot be.
        is_gone = number in self._asked_for and not is_constant
        if self.is_stopped and (mapping is None or not mapping.is_readable or is_gone):
            raise MemoryFault(address, size, f"the process has nothing to read at {number << _SHIFT:#x}")
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
            raise MemoryFault(address, size, f"the process does not have {number << _SHIFT:#x}, or has ended")
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

    def unstopped_threads(self) -> Sequence[int]:
        """Return the threads that sleep in the kernel and could not be stopped."""
        return tuple(thread for thread, known in self._threads.items() if known is None or len(known) < 3)

    def mappings(self) -> Sequence[FileMapping]:
        """Return the mappings that come from files, by address."""
        return self._mappings

    def code_mappings(self) -> Sequence[MemoryMapping]:
        """Return the mappings of files that hold code: as long as these are the same, so are the modules."""
        return [mapping for mapping in self._memory if mapping.is_executable and mapping.is_file]

    def siginfo(self, thread: int) -> SignalInfo | None:
        """Return None: the process runs on."""
        return None

    def auxiliary_vector(self) -> Mapping[int, int]:
        """Return ``/proc/PID/auxv``."""
        return self._process.auxiliary_vector

    @cached_property
    def _stacks(self) -> frozenset[int]:
        # Where the mappings begin that threads have their stack pointers in.
        found = (self._mapping_at(known[self.architecture.sp]) for known in self._threads.values() if known)
        return frozenset(mapping.start for mapping in found if mapping is not None)

    def misses_stacks(self) -> bool:
        """Tell whether pages of stacks were missed."""
        found = (self._mapping_at(number << _SHIFT) for number in self.missed)
        return any(mapping is not None and mapping.start in self._stacks for mapping in found)

    def pages_nearby(self, stops: int) -> Sequence[int]:
        """Return the neighbours of the pages that were missed, where these are not of a stack, likely ones first.

        :param stops: how many stops have missed some: the more, the more of them are returned
        """
        missed: dict[MemoryMapping, set[int]] = {}
        for number in self.missed:
            mapping = self._mapping_at(number << _SHIFT)
            if mapping is not None and mapping.start not in self._stacks:
                missed.setdefault(mapping, set()).add(number)
        found: dict[int, None] = {}
        block = _BLOCKS[min(stops, len(_BLOCKS) - 1)]
        while sum(map(len, missed.values())) * block > _MAX_EXPANDED and block > 1:
            block //= 2
        for mapping, numbers in missed.items() if block > 1 else ():
            for low in sorted({number // block * block for number in numbers}):
                # What is behind its end may be part of it by the next stop.
                found.update(dict.fromkeys(range(max(low, mapping.start >> _SHIFT), low + block)))
        for mapping in sorted(missed, key=lambda mapping: mapping.end - mapping.start) if stops else ():
            if len(found) + (mapping.end - mapping.start >> _SHIFT) > _MAX_EXPANDED:
                break
            found.update(dict.fromkeys(range(mapping.start >> _SHIFT, (mapping.end >> _SHIFT) + _GROWS)))
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
        self._pages = {}

    def close(self) -> None:
        """Let go of what was copied."""
        self.retire()


class LiveProcess:
    """A process that runs, and is stopped when it is told to be.

    ``stops_ns`` are the lengths of the stops so far, in nanoseconds; ``note`` is what to tell the user about the number
    that was given, or None; ``constants`` pages that nobody writes to, which are the same at every stop.

    :param max_stop_ns: how long a stop may last; if None, 50 ms, and 0.2 ms more for each thread above 256
    :param clock: the time in nanoseconds, by which stops end
    :raises BadProcess: if it cannot be looked into
    """

    def __init__(
        self, process_id: int, *, max_stop_ns: int | None = None, clock: Callable[[], int] = time.monotonic_ns
    ) -> None:
        findings = examine(process_id)
        self._max_stop_ns = max_stop_ns
        self._clock = clock
        self.process_id = findings.process_id
        self.note = findings.note
        self.architecture: Architecture = findings.architecture
        self.stops_ns: list[int] = []
        self.constants: dict[int, bytes] = {}
        self._pages = ptrace.Reader(ptrace.MAX_PIECE)
        self._reader = self.process_id
        # The folder is of this process for ever, and not of another one that gets its number.
        self._folder = _open(f"/proc/{self.process_id}", None, os.O_DIRECTORY, self.process_id)
        try:
            self.refresh()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the process; it is not stopped."""
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1

    def refresh(self) -> None:
        """Read anew what stays the same until a library is loaded or another program executed."""
        self.constants.clear()
        arguments = self._read("cmdline").rstrip(b"\0").replace(b"\0", b" ")
        self.command: str | None = arguments.decode("utf-8", "surrogateescape") or None
        auxv = self._read_of_program("auxv")
        self.auxiliary_vector: Mapping[int, int] = parse_auxv(
            auxv, self.architecture.pointer_size, self.architecture.byte_order
        )

    def _read(self, name: str) -> bytes:
        descriptor = _open(name, self._folder, 0, self.process_id)
        try:
            pieces = []
            while piece := os.read(descriptor, 1 << 16):
                pieces.append(piece)
            return b"".join(pieces)
        except OSError as error:
            raise stop_error(error, self.process_id) from error
        finally:
            os.close(descriptor)

    def _read_of_program(self, name: str) -> bytes:
        # The first thread may have ended before the others, and only one that has not has these. While a thread
        # executes another program no thread may have them, for a moment.
        for _ in range(_MOST_TRIES):
            with suppress(TargetGone):
                found = self._read(f"task/{self._reader}/{name}")
                if found:
                    return found
            try:
                alive = living_thread(Path(f"/proc/{self.process_id}"))
            except OSError:
                break
            if alive is None:
                break
            if alive == self._reader:
                time.sleep(_PAUSE)
            self._reader = alive
        raise TargetGone(f"process {self.process_id} ended while it was looked at")

    def _thread_ids(self) -> list[int]:
        descriptor = _open("task", self._folder, os.O_DIRECTORY, self.process_id)
        try:
            return sorted(map(int, os.listdir(descriptor)))  # noqa: PTH208  Path has no descriptors
        except OSError as error:
            raise stop_error(error, self.process_id) from error
        finally:
            os.close(descriptor)

    def _maps(self) -> bytes:
        return self._read_of_program("maps")

    def _maps_of(self, thread: int, is_over: Callable[[], bool]) -> bytes | None:
        # As a thread has them that stands still; None where there is no time for it.
        try:
            descriptor = _open(f"task/{thread}/maps", self._folder, 0, self.process_id)
        except TargetGone:
            return None
        try:
            pieces: list[bytes] = []
            while not is_over():
                piece = os.read(descriptor, 1 << 16)
                if not piece:
                    return b"".join(pieces)
                pieces.append(piece)
            return None
        except OSError as error:
            raise stop_error(error, self.process_id) from error
        finally:
            os.close(descriptor)

    def read_page(self, number: int) -> bytes | None:
        """Return a page as it is now, None if there is none or the process has ended."""
        return self.read_now(number << _SHIFT, PAGE)

    def read_now(self, address: int, size: int) -> bytes | None:
        """Return bytes as they are now, at most :data:`ptrace.MAX_PIECE`; None if some are not there or the process has
        ended.
        """
        return self._pages.read(self._reader, address, size)

    def own_thread_ids(self) -> dict[int, int]:
        """Return the numbers that the threads have in their own namespace, empty if that is ours."""
        found = {}
        with suppress(TargetGone):
            for thread in self._thread_ids():
                with suppress(TargetGone, ValueError):
                    numbers = parse_status(self._read(f"task/{thread}/status")).get("NSpid", "").split()
                    if len(numbers) < 2:
                        return {}
                    found[thread] = int(numbers[-1])
        return found

    # Moments

    def glance(self) -> Moment:
        """Return the process as it is told while it runs. Of threads that run now the registers are not known."""
        return Moment(self, {t: self._blocked_at(t) for t in self._thread_ids()}, parse_maps(self._maps()))

    def surface(self) -> Moment:
        """Return the process for reading what nobody writes to: no threads, and nothing that is read is kept."""
        return Moment(self, {}, parse_maps(self._maps()), keeps_pages=False)

    def _blocked_at(self, thread: int) -> Mapping[str, int] | None:
        try:
            blocked = parse_syscall(self._read(f"task/{thread}/syscall"))
        except (TargetGone, BadProcess):
            return None
        return {self.architecture.sp: blocked[0], self.architecture.pc: blocked[1]} if blocked is not None else None

    def limit_ns(self, threads: int) -> int:
        """Return how long a stop of so many threads may last, in nanoseconds."""
        if self._max_stop_ns is not None:
            return self._max_stop_ns
        return DEFAULT_STOP_NS + max(0, threads - _THREADS_INCLUDED) * _EACH_FURTHER_NS

    def stop(
        self, pages: Collection[int], nearby: Collection[int] = (), *, deep: bool = False, are_likely: bool = False
    ) -> Moment:
        """Stop all threads, copy the tops of the stacks, *pages*, and if there is time *nearby*, and let them go.

        What could not be copied within the limit is left out.

        :param nearby: pages that may be needed, the likely ones first
        :param are_likely: whether some of these are known to be: then there is more time for them
        :param deep: whether the stacks are copied as far as they reach, if there are not too many
        :raises NotStopped: if they did not all stop within the limit, three times
        :raises BadProcess: if the process may not be stopped
        :raises TargetGone: if it has ended
        """
        tries = 0
        while True:
            tries += 1
            try:
                return self._stop(pages, nearby, deep, are_likely)
            except NotStopped as error:
                if tries == STOP_TRIES:
                    raise NotStopped(self.process_id, error.running, error.threads, error.limit_ns, tries) from error
                time.sleep(min(error.limit_ns, DEFAULT_STOP_NS) / 1e9)  # in which it works on
            except _UnknownMappings:
                if tries == STOP_TRIES:
                    raise

    def _stop(self, pages: Collection[int], nearby: Collection[int], deep: bool, are_likely: bool) -> Moment:
        copying = _Copy(self, pages, nearby, len(self._thread_ids()), deep, are_likely)
        stop = Stop(self.process_id, self._folder, copying.run, limit_ns=self.limit_ns, clock=self._clock)
        try:
            stop.run()
        finally:
            if stop.duration_ns:
                self.stops_ns.append(stop.duration_ns)
        return copying.moment()


class _UnknownMappings(BadProcess):
    # There was no time to read them, and they are not what they were.
    pass


class _Copy:
    # What is done while the threads stand still is as little as can be: system calls, and no parsing.

    def __init__(
        self,
        process: LiveProcess,
        pages: Collection[int],
        nearby: Collection[int],
        threads: int,
        deep: bool,
        are_likely: bool,
    ) -> None:
        self._process = process
        self._part = _LIKELY_PART if are_likely else _NEARBY_PART
        room = _MAX_CAPTURE >> _SHIFT
        needed = sorted(pages)[:room]
        others = [number for number in dict.fromkeys(nearby) if number not in pages][: room - len(needed)]
        # What is needed first: the stop may end before all is copied.
        self._ranges, self._nearby = list(_ranges(needed)), list(_ranges(others))
        self._before = process._maps()
        self._memory = parse_maps(self._before)
        self._starts = [mapping.start for mapping in self._memory]
        self._all_stacks = _DEEP_STACKS if deep else _ALL_STACKS
        of_stacks = self._all_stacks + (threads + _SPARE) * (max(_LEAST_STACK, PAGE) + _STACK_END)
        self._buffer, self._buffer_nearby = _buffer(len(needed) * PAGE + of_stacks), _buffer(len(others) * PAGE)
        self._got: list[ptrace.Copied] = []
        self._got_nearby: list[ptrace.Copied] = []
        self._tried: list[tuple[int, int]] = []
        self._left_out: list[tuple[int, int]] = []
        self._maps: bytes | None = None
        self._registers: dict[int, Mapping[str, int] | None] = {}

    def run(self, registers: dict[int, bytes | None], is_over: Callable[[], bool]) -> None:
        arch, process = self._process.architecture, self._process
        soon = process._clock() + int(process.limit_ns(len(registers)) * self._part)
        for thread, raw in registers.items():
            if raw is not None and len(raw) == arch.prstatus_words.size:
                known = dict(zip(arch.registers, arch.prstatus_words.unpack(raw), strict=True))
                if arch.descriptors is not None:
                    pointer = arch.described_thread_pointer(known, _descriptors(thread, arch.descriptors))
                    if pointer is not None:
                        known[arch.thread_pointer] = pointer
                self._registers[thread] = known
            elif raw is None:
                self._registers[thread] = process._blocked_at(thread)
            else:
                other = 64 if arch.elf_class == 32 else 32
                raise BadProcess(process.process_id, f"thread {thread} runs {other}-bit code, which is not supported")
        # The first thread may have ended before the others, and only one that has not has the memory.
        reader = next((thread for thread, raw in registers.items() if raw is not None), process._reader)
        if len(self._before) <= _SHORT_MAPS:
            self._maps = process._maps_of(reader, is_over)
        ranges = [*self._stacks([known[arch.sp] for known in self._registers.values() if known]), *self._ranges]
        size = sum(size for _, size in ranges)
        if size > len(self._buffer):  # many threads were made meanwhile
            self._buffer = _buffer(size)
        self._got, tried = ptrace.read_memory(reader, ranges, self._buffer, is_over)
        self._tried, self._left_out = ranges[:tried], ranges[tried:]
        if self._maps is None:
            self._maps = process._maps_of(reader, is_over)
        if self._nearby:
            self._got_nearby, tried = ptrace.read_memory(
                reader, self._nearby, self._buffer_nearby, lambda: is_over() or process._clock() >= soon
            )
            self._tried += self._nearby[:tried]

    def _stacks(self, pointers: Collection[int]) -> Iterator[tuple[int, int]]:
        # The shallow ones first: what they leave of their shares is the deep ones'.
        used = []
        for sp in pointers:
            index = bisect_right(self._starts, sp) - 1
            end = self._memory[index].end if index >= 0 else 0
            start = max(sp - _RED_ZONE, 0) // PAGE * PAGE
            used.append((max(end - start, 0), start))
        room, left = self._all_stacks, len(used)
        for size, start in sorted(used):
            share = max(room // left // PAGE * PAGE, _LEAST_STACK, PAGE)
            left -= 1
            if not size:  # a stack that was made meanwhile
                yield start, _LEAST_STACK
            elif size <= share + _STACK_END:
                yield from _split(start, size)
                room -= size
            else:
                yield from _split(start, share)
                yield start + size - _STACK_END, _STACK_END
                room -= share
            room = max(room, 0)

    def moment(self) -> Moment:
        pages: dict[int, bytes] = {}
        for got, buffer in ((self._got_nearby, self._buffer_nearby), (self._got, self._buffer)):
            for address, size, at in got:
                for offset in range(0, size - PAGE + 1, PAGE):
                    pages[(address + offset) >> _SHIFT] = buffer[at + offset : at + offset + PAGE]
        tried = frozenset(_pages(self._tried))
        left_out = len(set(_pages(self._left_out)) - tried)
        maps = self._maps
        if maps is None:  # There was no time. As a rule they are what they were.
            maps = self._process._maps()
            if maps != self._before:
                raise _UnknownMappings(
                    self._process.process_id,
                    "it changes its mappings, and what they were was not read within the limit of the stop",
                    hint=LONGER_STOPS,
                )
        return Moment(self._process, self._registers, parse_maps(maps), pages, asked_for=tried, left_out=left_out)


def _split(start: int, size: int) -> Iterator[tuple[int, int]]:
    # A range in pieces that are read at once.
    for at in range(start, start + size, ptrace.MAX_PIECE):
        yield at, min(ptrace.MAX_PIECE, start + size - at)


def _pages(ranges: Sequence[tuple[int, int]]) -> Iterator[int]:
    for address, size in ranges:
        yield from range(address >> _SHIFT, (address + size - 1 >> _SHIFT) + 1)


def _descriptors(thread: int, descriptors: ThreadDescriptors) -> bytes | None:
    try:
        return ptrace.register_set(thread, descriptors.note, descriptors.size)
    except OSError:
        return None  # the C library's list of threads tells, too


def _buffer(size: int) -> mmap.mmap:
    # Its pages are there before the stop begins.
    populate: int = getattr(mmap, "MAP_POPULATE", 0)
    return mmap.mmap(-1, max(size, PAGE), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | populate)


def _ranges(pages: Sequence[int]) -> Iterator[tuple[int, int]]:
    # Addresses and sizes of rows of neighbouring pages, in the order given, none of them longer than is read at once.
    start = end = None
    for number in pages:
        if number != end or (start is not None and (number - start) << _SHIFT >= ptrace.MAX_PIECE):
            if start is not None and end is not None:
                yield start << _SHIFT, (end - start) << _SHIFT
            start = number
        end = number + 1
    if start is not None and end is not None:
        yield start << _SHIFT, (end - start) << _SHIFT


def _open(name: str, folder: int | None, flags: int, process_id: int) -> int:
    try:
        return os.open(name, os.O_RDONLY | os.O_CLOEXEC | flags, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ESRCH):
            raise TargetGone(f"process {process_id} ended while it was looked at") from error
        if error.errno in (errno.EACCES, errno.EPERM):
            raise refusal(process_id) from error
        raise BadProcess(process_id, f"cannot be looked into: {os.strerror(error.errno or 0)}") from error
