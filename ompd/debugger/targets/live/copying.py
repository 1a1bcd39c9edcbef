"""The copy of a process's memory and registers that is made while its threads stand still."""

from __future__ import annotations

import mmap
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from ompd.debugger.targets.live import ptrace
from ompd.debugger.targets.live.moment import Moment
from ompd.debugger.targets.live.process import PAGE, PAGE_BITS
from ompd.debugger.targets.live.tracer import LONGER_STOPS, Asleep, Registers, Stop
from ompd.errors import BadProcess, Unavailable
from ompd.isa.architecture import ThreadDescriptors

if TYPE_CHECKING:
    from ompd.debugger.targets.live.live import LiveProcess

# The most bytes of all stacks to copy, from the stack pointers upwards. Each stack is copied to its end if its share
# suffices. The deepest stacks share the rest evenly, but of each at least _LEAST_STACK bytes are copied, and its end.
# The end has the outermost frames. They are far from the other frames if the program or the runtime has left space
# between them, as runtimes do to spread stacks over cache lines.
_ALL_STACKS, _LEAST_STACK = 8 << 20, 8 << 10
_STACK_END = 2 * PAGE
_DEEP_STACKS = 64 << 20  # in place of _ALL_STACKS, after an answer needed more of the stacks
_LIGHT_STACKS = 256 << 10  # in place of _ALL_STACKS, for a look that is repeated: allocating memory would cost most
_SPARE = 16  # room for the stacks of threads that are created meanwhile
_MAX_CAPTURE = 128 << 20
# The parts of the stop's limit after which pages that may be needed are no longer copied, because they do not justify a
# much longer stop: usually, and if some of these pages are likely needed.
_NEARBY_PART, _LIKELY_PART = 0.2, 0.6
_MADV_POPULATE_WRITE = 23  # Linux 5.14 and later
# The most bytes of /proc/PID/maps that are read before the memory, because without maps the copy is useless. Longer
# maps are read afterwards, because that takes long.
_SHORT_MAPS = 64 << 10


class UnknownMappings(BadProcess):
    """The process has changed its mappings, and there was no time to read them during the stop."""


class Copy:
    """The copy of one stop: the tops of the stacks, *pages*, and *nearby* if time is left, the likely ones first.

    :param threads: the approximate number of threads
    :param deep: whether to copy the stacks to their ends, unless they are too large
    :param light: whether to copy less of the stacks than usual, and not to wait for threads without a processor
    :param are_likely: whether some of *nearby* will be needed
    """

    # Do as little as possible while the threads stand still: system calls, and no parsing.

    def __init__(
        self,
        process: LiveProcess,
        pages: Collection[int],
        nearby: Collection[int],
        threads: int,
        *,
        deep: bool,
        light: bool,
        are_likely: bool,
    ) -> None:
        self._process = process
        self.is_light = light
        self._part = _LIKELY_PART if are_likely else _NEARBY_PART
        room = _MAX_CAPTURE >> PAGE_BITS
        needed = sorted(pages)[:room]
        possible = [number for number in dict.fromkeys(nearby) if number not in pages][: room - len(needed)]
        self._before = process.maps()
        self._memory = process.mappings(self._before)
        self._starts = [mapping.start for mapping in self._memory]
        # The needed pages are copied first, because the time of the stop may be over before all pages are copied.
        self._ranges, self._nearby = (list(_ranges(numbers, self._starts)) for numbers in (needed, possible))
        self._all_stacks = _DEEP_STACKS if deep else _LIGHT_STACKS if light else _ALL_STACKS
        of_stacks = self._all_stacks + (threads + _SPARE) * (max(_LEAST_STACK, PAGE) + _STACK_END)
        size = len(needed) * PAGE + of_stacks
        self._buffer = self._light_buffer(size) if light else _buffer(size)
        self._buffer_nearby = _buffer(len(possible) * PAGE) if possible else self._buffer
        self._copied: list[ptrace.Copied] = []
        self._copied_nearby: list[ptrace.Copied] = []
        self._tried: list[tuple[int, int]] = []
        self._left_out: list[tuple[int, int]] = []
        self._maps: bytes | None = None
        self._registers: dict[int, Mapping[str, int] | None] = {}
        self._texts: dict[str, bytes | None] = {}

    def _light_buffer(self, size: int) -> mmap.mmap:
        # Allocating memory would take a third of the time of a light copy. The moment of an earlier one must not read
        # further pages.
        if self._process.light_buffer is None or len(self._process.light_buffer) < size:
            self._process.light_buffer = _buffer(size)
        return self._process.light_buffer

    def run(self, registers: Registers, stop: Stop) -> None:
        """Copy while the threads stand still, until *stop* is over.

        :raises BadProcess: if a thread runs code of another mode of the processor
        """
        arch, process = self._process.architecture, self._process
        end_of_nearby = process.clock() + int(process.limit_ns(len(registers)) * self._part)
        for thread, raw in registers.items():
            if isinstance(raw, Asleep):
                self._registers[thread] = process.registers_asleep(raw)
            elif raw is not None and len(raw) == arch.prstatus_words.size:
                values = dict(zip(arch.registers, arch.prstatus_words.unpack(raw), strict=True))
                if arch.descriptors is not None:
                    pointer = arch.described_thread_pointer(values, _descriptors(thread, arch.descriptors))
                    if pointer is not None:
                        values[arch.thread_pointer] = pointer
                self._registers[thread] = values
            elif raw is None:
                self._registers[thread] = process.blocked_at(thread)
            else:
                other = 64 if arch.elf_class == 32 else 32
                raise BadProcess(process.process_id, f"thread {thread} runs {other}-bit code, which is not supported")
        # The memory is read by the number of a stopped thread, if there is one. The first thread may have ended, and
        # then gives no access to the memory. A sleeping thread may wake up and end.
        reader = next((thread for thread, raw in registers.items() if isinstance(raw, bytes)), process.reader)
        if len(self._before) <= _SHORT_MAPS:
            self._maps = process.maps_of(reader, stop)
        ranges = [*self._stacks([values[arch.sp] for values in self._registers.values() if values]), *self._ranges]
        size = sum(size for _, size in ranges)
        if size > len(self._buffer):  # many threads were created meanwhile
            self._buffer = _buffer(size)
        self._copied, self._tried, done = ptrace.read_memory(reader, ranges, self._buffer, stop.is_over)
        self._left_out = ranges[done:]
        if self._maps is None:
            self._maps = process.maps_of(reader, stop)
        for path in process.wanted:
            if stop.is_over():
                break
            try:
                self._texts[path] = process.text(path)
            except Unavailable:
                self._texts[path] = None

        def is_nearby_over() -> bool:
            return stop.is_over() or process.clock() >= end_of_nearby

        if self._nearby:
            self._copied_nearby, tried, _ = ptrace.read_memory(
                reader, self._nearby, self._buffer_nearby, is_nearby_over
            )
            self._tried += tried

    def _stacks(self, pointers: Collection[int]) -> Iterator[tuple[int, int]]:
        # The shallow stacks come first, so that the deep ones get what remains of their shares.
        used = []
        for sp in pointers:
            index = bisect_right(self._starts, sp) - 1
            end = self._memory[index].end if index >= 0 else 0
            start = max(sp - self._process.architecture.red_zone, 0) // PAGE * PAGE
            used.append((max(end - start, 0), start))
        room, threads_left = self._all_stacks, len(used)
        for size, start in sorted(used):
            share = max(room // threads_left // PAGE * PAGE, _LEAST_STACK, PAGE)
            threads_left -= 1
            if not size:  # a stack that was created meanwhile
                yield start, _LEAST_STACK
            elif size <= share + _STACK_END:
                yield from _split(start, size)
                room -= size
            else:
                yield from _split(start, share)
                yield start + size - _STACK_END, _STACK_END
                room -= share
            room = max(room, 0)

    def moment(self, woken: Collection[int], unstoppable: Collection[int]) -> Moment:
        """Return the copy as a target.

        :param woken: threads that ran meanwhile, so that their registers are unknown
        :param unstoppable: sleeping threads that may not be stopped
        :raises UnknownMappings: if the mappings were not read in time, and have changed
        """
        pages: dict[int, memoryview] = {}
        for pieces, buffer in ((self._copied_nearby, self._buffer_nearby), (self._copied, self._buffer)):
            view = memoryview(buffer)
            for address, size, place in pieces:
                for offset in range(0, size - PAGE + 1, PAGE):
                    pages[(address + offset) >> PAGE_BITS] = view[place + offset : place + offset + PAGE]
        tried = frozenset(_pages(self._tried))
        left_out = len(set(_pages(self._left_out)) - tried)
        maps = self._maps
        if maps is None:  # there was no time; usually they have not changed
            maps = self._process.maps()
            if maps != self._before:
                raise UnknownMappings(
                    self._process.process_id,
                    "it changes its mappings, and what they were was not read within the limit of the stop",
                    hint=LONGER_STOPS,
                )
        return Moment(
            self._process,
            self._registers | dict.fromkeys(woken),
            self._process.mappings(maps),
            pages,
            unstoppable=unstoppable,
            asked_for=tried,
            left_out=left_out,
            texts=self._texts,
            woken=woken,
        )


def _split(start: int, size: int) -> Iterator[tuple[int, int]]:
    # Split a range into pieces that one system call can read.
    for piece in range(start, start + size, ptrace.MAX_PIECE):
        yield piece, min(ptrace.MAX_PIECE, start + size - piece)


def _pages(ranges: Sequence[tuple[int, int]]) -> Iterator[int]:
    for address, size in ranges:
        yield from range(address >> PAGE_BITS, (address + size - 1 >> PAGE_BITS) + 1)


def _descriptors(thread: int, descriptors: ThreadDescriptors) -> bytes | None:
    try:
        return ptrace.register_set(thread, descriptors.note, descriptors.size)
    except OSError:
        return None  # the C library's list of threads has the thread pointer, too


def _buffer(size: int) -> mmap.mmap:
    # Allocate the pages before the stop begins. Huge pages, if the kernel has them, take a quarter of the time.
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    buffer = mmap.mmap(-1, max(size, PAGE), flags=flags)
    try:
        with suppress(OSError):
            buffer.madvise(mmap.MADV_HUGEPAGE)
        buffer.madvise(_MADV_POPULATE_WRITE)
    except OSError:
        buffer.close()
        return mmap.mmap(-1, max(size, PAGE), flags=flags | mmap.MAP_POPULATE)
    return buffer


def _ranges(pages: Sequence[int], starts: Collection[int]) -> Iterator[tuple[int, int]]:
    # Yield addresses and sizes of rows of adjacent pages, in the given order. A row is at most as long as one system
    # call reads. It lies in one mapping, because the next mapping may be unreadable.
    borders = {start >> PAGE_BITS for start in starts}
    start = end = None
    for number in pages:
        is_long = start is not None and (number - start) << PAGE_BITS >= ptrace.MAX_PIECE
        if number != end or is_long or number in borders:
            if start is not None and end is not None:
                yield start << PAGE_BITS, (end - start) << PAGE_BITS
            start = number
        end = number + 1
    if start is not None and end is not None:
        yield start << PAGE_BITS, (end - start) << PAGE_BITS
