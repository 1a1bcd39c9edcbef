"""What is copied of a process while its threads stand still."""

from __future__ import annotations

import mmap
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress

from ompd.debugger.targets.live import ptrace
from ompd.debugger.targets.live.asleep import Asleep
from ompd.debugger.targets.live.moment import Moment
from ompd.debugger.targets.live.process import PAGE, PAGE_BITS, RunningProcess
from ompd.debugger.targets.live.tracer import LONGER_STOPS, Registers
from ompd.errors import BadProcess, Unavailable
from ompd.isa.architecture import ThreadDescriptors

# What is copied of all stacks together, from the stack pointers on: each is copied as far as it is used, and of the
# deepest, where that is too much, as much as of one another, but never less than so much of each. The outermost frames
# lie at a stack's end, behind what the program, or the runtime (it spreads stacks over cache lines), has left between.
_ALL_STACKS, _LEAST_STACK = 8 << 20, 8 << 10
_STACK_END = 2 * PAGE
_DEEP_STACKS = 64 << 20  # if it is seen that more of them is needed
_SPARE = 16  # stacks, of threads that are made meanwhile
_MAX_CAPTURE = 128 << 20
# What is copied because it may be needed is no reason to hold a process for much longer, until it was seen to be: parts
# of how long a stop may last.
_NEARBY_PART, _LIKELY_PART = 0.2, 0.6
_MADV_POPULATE_WRITE = 23  # of Linux 5.14 and later
# Bytes of maps that are read in no time, before anything else: without them nothing can be said of what was copied.
_SHORT_MAPS = 64 << 10


class UnknownMappings(BadProcess):
    """There was no time to read the mappings, and they are not what they were."""


class Copy:
    """What one stop copies: the tops of the stacks, *pages*, and, if there is time, *nearby*, likely ones first.

    :param threads: how many threads there are, about
    :param deep: whether the stacks are copied as far as they reach, if there are not too many
    :param are_likely: whether some of *nearby* are known to be needed
    :param limit_ns: how long a stop of so many threads may last, by *clock*
    """

    # What is done while the threads stand still is as little as can be: system calls, and no parsing.

    def __init__(
        self,
        process: RunningProcess,
        pages: Collection[int],
        nearby: Collection[int],
        threads: int,
        *,
        deep: bool,
        are_likely: bool,
        limit_ns: Callable[[int], int],
        clock: Callable[[], int],
    ) -> None:
        self._process = process
        self._limit_ns, self._clock = limit_ns, clock
        self._part = _LIKELY_PART if are_likely else _NEARBY_PART
        room = _MAX_CAPTURE >> PAGE_BITS
        needed = sorted(pages)[:room]
        others = [number for number in dict.fromkeys(nearby) if number not in pages][: room - len(needed)]
        self._before = process.maps()
        self._memory = process.mappings(self._before)
        self._starts = [mapping.start for mapping in self._memory]
        # What is needed first: the stop may end before all is copied.
        self._ranges, self._nearby = (list(_ranges(numbers, self._starts)) for numbers in (needed, others))
        self._all_stacks = _DEEP_STACKS if deep else _ALL_STACKS
        of_stacks = self._all_stacks + (threads + _SPARE) * (max(_LEAST_STACK, PAGE) + _STACK_END)
        self._buffer, self._buffer_nearby = _buffer(len(needed) * PAGE + of_stacks), _buffer(len(others) * PAGE)
        self._got: list[ptrace.Copied] = []
        self._got_nearby: list[ptrace.Copied] = []
        self._tried: list[tuple[int, int]] = []
        self._left_out: list[tuple[int, int]] = []
        self._maps: bytes | None = None
        self._registers: dict[int, Mapping[str, int] | None] = {}
        self._texts: dict[str, bytes | None] = {}

    def run(self, registers: Registers, is_over: Callable[[], bool]) -> None:
        """Copy, while the threads stand still: what :class:`Stop` is to do.

        :raises BadProcess: if a thread runs code of another kind
        """
        arch, process = self._process.architecture, self._process
        soon = self._clock() + int(self._limit_ns(len(registers)) * self._part)
        for thread, raw in registers.items():
            if isinstance(raw, Asleep):
                self._registers[thread] = process.registers_asleep(raw)
            elif raw is not None and len(raw) == arch.prstatus_words.size:
                known = dict(zip(arch.registers, arch.prstatus_words.unpack(raw), strict=True))
                if arch.descriptors is not None:
                    pointer = arch.described_thread_pointer(known, _descriptors(thread, arch.descriptors))
                    if pointer is not None:
                        known[arch.thread_pointer] = pointer
                self._registers[thread] = known
            elif raw is None:
                self._registers[thread] = process.blocked_at(thread)
            else:
                other = 64 if arch.elf_class == 32 else 32
                raise BadProcess(process.process_id, f"thread {thread} runs {other}-bit code, which is not supported")
        # The first thread may have ended before the others, and only one that has not has the memory. One that sleeps
        # may wake up and end.
        reader = next((thread for thread, raw in registers.items() if isinstance(raw, bytes)), process.reader)
        if len(self._before) <= _SHORT_MAPS:
            self._maps = process.maps_of(reader, is_over)
        ranges = [*self._stacks([known[arch.sp] for known in self._registers.values() if known]), *self._ranges]
        size = sum(size for _, size in ranges)
        if size > len(self._buffer):  # many threads were made meanwhile
            self._buffer = _buffer(size)
        self._got, self._tried, done = ptrace.read_memory(reader, ranges, self._buffer, is_over)
        self._left_out = ranges[done:]
        if self._maps is None:
            self._maps = process.maps_of(reader, is_over)
        for path in process.wanted:
            if is_over():
                break
            try:
                self._texts[path] = process.text(path)
            except Unavailable:
                self._texts[path] = None
        if self._nearby:
            self._got_nearby, tried, _ = ptrace.read_memory(
                reader, self._nearby, self._buffer_nearby, lambda: is_over() or self._clock() >= soon
            )
            self._tried += tried

    def _stacks(self, pointers: Collection[int]) -> Iterator[tuple[int, int]]:
        # The shallow ones first: what they leave of their shares is the deep ones'.
        used = []
        for sp in pointers:
            index = bisect_right(self._starts, sp) - 1
            end = self._memory[index].end if index >= 0 else 0
            start = max(sp - self._process.architecture.red_zone, 0) // PAGE * PAGE
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

    def moment(self, woken: Collection[int], unstoppable: Collection[int]) -> Moment:
        """Return what was copied.

        :param woken: threads that ran meanwhile, so that their place is unknown
        :param unstoppable: sleeping threads that may not be stopped
        :raises UnknownMappings: if the mappings were not read in time, and have changed
        """
        pages: dict[int, memoryview] = {}
        for got, buffer in ((self._got_nearby, self._buffer_nearby), (self._got, self._buffer)):
            view = memoryview(buffer)
            for address, size, at in got:
                for offset in range(0, size - PAGE + 1, PAGE):
                    pages[(address + offset) >> PAGE_BITS] = view[at + offset : at + offset + PAGE]
        tried = frozenset(_pages(self._tried))
        left_out = len(set(_pages(self._left_out)) - tried)
        maps = self._maps
        if maps is None:  # There was no time. As a rule they are what they were.
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
        )


def _split(start: int, size: int) -> Iterator[tuple[int, int]]:
    # A range in pieces that are read at once.
    for at in range(start, start + size, ptrace.MAX_PIECE):
        yield at, min(ptrace.MAX_PIECE, start + size - at)


def _pages(ranges: Sequence[tuple[int, int]]) -> Iterator[int]:
    for address, size in ranges:
        yield from range(address >> PAGE_BITS, (address + size - 1 >> PAGE_BITS) + 1)


def _descriptors(thread: int, descriptors: ThreadDescriptors) -> bytes | None:
    try:
        return ptrace.register_set(thread, descriptors.note, descriptors.size)
    except OSError:
        return None  # the C library's list of threads tells, too


def _buffer(size: int) -> mmap.mmap:
    # Its pages are there before the stop begins; as large ones, where the kernel has such, in a quarter of the time.
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    found = mmap.mmap(-1, max(size, PAGE), flags=flags)
    try:
        with suppress(OSError):
            found.madvise(mmap.MADV_HUGEPAGE)
        found.madvise(_MADV_POPULATE_WRITE)
    except OSError:
        found.close()
        return mmap.mmap(-1, max(size, PAGE), flags=flags | mmap.MAP_POPULATE)
    return found


def _ranges(pages: Sequence[int], starts: Collection[int]) -> Iterator[tuple[int, int]]:
    # Addresses and sizes of rows of neighbouring pages, in the order given, none of them longer than is read at once,
    # or in two mappings: one of these may be unreadable.
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
