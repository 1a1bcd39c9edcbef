"""libgomp's lists of tasks, in invented memory: a damaged list ends the walk at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ompd.contract.memory import ByteOrder
from ompd.errors import CorruptState, MemoryFault
from ompd.runtimes.libgomp.structures import LIST_TASKS, QUEUE_LIST, queued

QUEUE, FIRST = 0x1000, 0x10000
FAR = 100_000


@dataclass
class Words:
    """Memory of words of 8 bytes, given by their addresses. It counts its reads."""

    words: Mapping[int, int]
    byte_order: ByteOrder = "little"
    pointer_size: int = 8
    reads: int = field(default=0)

    def read(self, address: int, size: int) -> bytes:
        self.reads += 1
        try:
            return b"".join(self.words[at].to_bytes(8, "little") for at in range(address, address + size, 8))
        except KeyError:
            raise MemoryFault(address, size) from None


def node(number: int) -> int:
    return FIRST + 0x100 * number


def ring(count: int, **changed: int) -> dict[int, int]:
    """Return a queue with a ring of *count* nodes. ``next_2`` and ``prev_2`` replace the links of node 2."""
    words = {QUEUE: 0, QUEUE + QUEUE_LIST + LIST_TASKS: node(0)}
    for number in range(count):
        words[node(number)] = changed.get(f"next_{number}", node((number + 1) % count))
        words[node(number) + 8] = changed.get(f"prev_{number}", node((number - 1) % count))
    return words


def walk(heap: Words, *, is_changing: bool = False) -> list[int]:
    runtime = SimpleNamespace(heap=heap, tasks_are_changing=lambda: is_changing)
    return list(queued(cast("Any", runtime), QUEUE))


@pytest.mark.parametrize("count", [1, 2, 3, 500])
def test_a_ring_is_walked_once_with_a_read_for_each_node(count: int) -> None:
    heap = Words(ring(count))
    assert walk(heap) == [node(number) for number in range(count)]
    assert heap.reads <= count + 2


def test_an_empty_list_has_no_nodes() -> None:
    assert walk(Words({QUEUE: 0, QUEUE + QUEUE_LIST + LIST_TASKS: 0})) == []


@pytest.mark.parametrize(
    "changed",
    [
        {"next_3": node(1)},  # a ring without the first node
        {"next_3": node(3)},
        {"next_3": 0},
        {"prev_2": node(7)},  # a node that was removed and inserted elsewhere
        {"prev_0": node(2)},  # a node that is inserted at the end, except for the last link
    ],
    ids=["inner ring", "itself", "end", "moved", "half put in"],
)
@pytest.mark.parametrize("is_changing", [False, True])
def test_a_list_that_contradicts_itself_ends_the_walk(changed: dict[str, int], is_changing: bool) -> None:
    heap = Words(ring(10, **changed))
    reason = "the task queue was being changed" if is_changing else "does not come back to its first one"
    with pytest.raises(CorruptState, match=reason):
        walk(heap, is_changing=is_changing)
    assert heap.reads <= 13


def test_a_list_that_leads_into_other_memory_ends_at_its_first_node_there() -> None:
    # Node 2 links into other memory, whose words point on without end.
    words = ring(4, next_2=node(FAR))
    for number in range(FAR, 2 * FAR):
        words[node(number)], words[node(number) + 8] = node(number + 1), 0
    heap = Words(words)
    with pytest.raises(CorruptState):
        walk(heap, is_changing=True)
    assert heap.reads < 10
