"""Reads of a process's memory around unreadable pages, and the buffer that a stop fills."""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
from collections.abc import Collection, Iterator
from contextlib import contextmanager

import pytest

from ompd.debugger.targets.live import copying, ptrace
from ompd.debugger.targets.live.copying import _ranges

PAGE = mmap.PAGESIZE
LIBC = ctypes.CDLL(None, use_errno=True)


@contextmanager
def memory_of(pages: int, unreadable: Collection[int]) -> Iterator[int]:
    """Map *pages* pages, each full of its number, and make some unreadable; yield their address."""
    block = mmap.mmap(-1, pages * PAGE)
    for number in range(pages):
        block[number * PAGE : (number + 1) * PAGE] = bytes([number]) * PAGE
    start = ctypes.addressof(ctypes.c_char.from_buffer(block))
    for number in unreadable:
        assert LIBC.mprotect(ctypes.c_void_p(start + number * PAGE), PAGE, 0) == 0
    yield start
    for number in unreadable:
        assert LIBC.mprotect(ctypes.c_void_p(start + number * PAGE), PAGE, 3) == 0


def pages_read(start: int, ranges: list[tuple[int, int]]) -> tuple[list[int], list[int], int]:
    """Read *ranges* of pages from *start* on and check their content; return the pages that were read, the pages that
    were tried, and how many ranges there was time for.
    """
    rows = [(start + first * PAGE, count * PAGE) for first, count in ranges]
    buffer = bytearray(sum(size for _, size in rows))
    got, tried, done = ptrace.read_memory(os.getpid(), rows, buffer)
    read = []
    for address, size, at in got:
        for offset in range(0, size, PAGE):
            number = (address + offset - start) // PAGE
            assert buffer[at + offset : at + offset + PAGE] == bytes([number]) * PAGE
            read.append(number)
    return read, [(a - start + o) // PAGE for a, size in tried for o in range(0, size, PAGE)], done


def test_what_lies_behind_an_unreadable_page_is_read() -> None:
    with memory_of(12, {0, 3, 4, 9}) as start:
        read, tried, done = pages_read(start, [(0, 6), (6, 2), (8, 4)])
    assert (read, tried, done) == ([1, 2, 5, 6, 7, 8, 10, 11], list(range(12)), 3)


def test_a_range_of_nothing_but_holes_is_left_and_not_said_to_be_tried() -> None:
    with memory_of(40, set(range(2, 30))) as start:
        read, tried, done = pages_read(start, [(0, 38), (38, 2)])
    assert read == [0, 1, 38, 39]
    assert tried == [*range(ptrace._MAX_HOLES + 3), 38, 39]
    assert done == 2


def test_no_row_of_pages_is_in_two_mappings() -> None:
    assert list(_ranges([1, 2, 3, 4, 7], [0, 3 * PAGE, 9 * PAGE])) == [
        *((PAGE, 2 * PAGE), (3 * PAGE, 2 * PAGE), (7 * PAGE, PAGE))
    ]


@pytest.mark.parametrize("advice", [copying._MADV_POPULATE_WRITE, 0x7FFF], ids=["populate", "of an old kernel"])
def test_what_a_stop_copies_into_is_there_before(advice: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "_MADV_POPULATE_WRITE", advice)
    # With huge pages there would be too few faults to notice missing pages.
    monkeypatch.setattr(mmap, "MADV_HUGEPAGE", mmap.MADV_NOHUGEPAGE)
    with copying._buffer(1024 * PAGE) as buffer:
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
        for at in range(0, len(buffer), PAGE):
            buffer[at] = 1
        faults = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before
    assert faults < 100
