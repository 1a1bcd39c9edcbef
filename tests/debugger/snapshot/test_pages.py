"""Structures in memory with lost pages, which read as zeros."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from ompd.contract.helpers.pages import Heap
from ompd.contract.memory import ByteOrder
from ompd.errors import CorruptState

PAGE = 4096
BASE = 0x10000
WORD = b"\1".ljust(8, b"\0")


@dataclass
class Data:
    """Memory that begins at BASE."""

    data: bytes
    byte_order: ByteOrder = "little"
    pointer_size: int = 8

    def read(self, address: int, size: int) -> bytes:
        return self.data[address - BASE :][:size]


def heap(*lost: int) -> Heap:
    """Return three pages with a 1 in each word. Lost pages are zero."""
    return Heap(Data(b"".join(bytes(PAGE) if page in lost else WORD * (PAGE // 8) for page in range(3))))


@pytest.mark.parametrize(("lost", "offset", "size"), [(1, PAGE, 8), (1, PAGE - 64, 128), (1, 2 * PAGE - 64, 128)])
def test_a_part_on_a_lost_page_is_not_taken_for_zeros(lost: int, offset: int, size: int) -> None:
    assert heap().read(BASE + offset, size).count(0) == size * 7 // 8
    with pytest.raises(CorruptState, match="its page is lost"):
        heap(lost).read(BASE + offset, size)


def test_zeros_among_other_data_are_zeros() -> None:
    assert heap().read(BASE + PAGE + 1, 7) == bytes(7)
    assert heap().read(BASE + PAGE - 7, 8) == bytes(7) + b"\1"


def test_zeros_in_what_is_larger_than_a_page_are_zeros() -> None:
    assert heap(1).read(BASE, 3 * PAGE).count(1) == 1024
