"""The stack reading that runtimes share, on invented stacks."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ompd.contract.helpers.stacks import interrupted_at, region_entry, runs, words_on
from ompd.contract.memory import ByteOrder
from ompd.errors import CorruptState, Unavailable


def of(text: str) -> list[bool]:
    return [letter == "r" for letter in text]


@pytest.mark.parametrize(
    ("stack", "found"),
    [
        ("", []),
        ("uu", []),
        ("rruur", [(0, 1), (4, 4)]),
        ("urrr", [(1, 3)]),
    ],
)
def test_frames_that_follow_each_other_are_one_run(stack: str, found: list[tuple[int, int]]) -> None:
    assert list(runs(of(stack), lambda index: False)) == found


def test_a_run_is_divided_where_code_stood_between() -> None:
    asked = []

    def is_divided(index: int) -> bool:
        asked.append(index)
        return index == 2

    assert list(runs(of("urrrru"), is_divided)) == [(1, 2), (3, 4)]
    assert asked == [1, 2, 3]  # only between two frames that are both inside


class Numbers:
    """Memory whose words hold their own addresses."""

    byte_order: ByteOrder = "little"
    pointer_size = 8

    def read(self, address: int, size: int) -> bytes:
        assert address % 8 == size % 8 == 0 and size
        return b"".join(at.to_bytes(8, "little") for at in range(address, address + size, 8))


@pytest.mark.parametrize(
    ("start", "end", "words"),
    [
        (0x10, 0x28, (0x10, 0x18, 0x20)),
        (0x11, 0x2F, (0x18, 0x20)),  # only whole words
        (0x10, 0x17, ()),
        (0x20, 0x10, ()),
        (0x10, None, ()),
        (0x10, 1 << 40, ()),  # no routine of a runtime uses this much stack
    ],
)
def test_words_on_a_part_of_a_stack(start: int, end: int | None, words: tuple[int, ...]) -> None:
    assert tuple(words_on(Numbers(), start, end)) == words


def starts(stack: str, *code: int) -> list[int]:
    # "s" is the kernel's frame below a handler.
    frames = [SimpleNamespace(is_signal_frame=letter == "s") for letter in stack]
    return list(interrupted_at(cast("Any", frames), code.__contains__))


def test_what_a_thread_did_before_a_signal_begins_behind_its_handler() -> None:
    assert starts("uru") == [0]
    assert starts("usrsr") == [0, 2, 4]


def test_a_handler_outside_of_the_innermost_construct_does_not_count() -> None:
    assert starts("usrusr", 3) == [0, 2]
    assert starts("usr", 0) == [0]


class Region:
    def __init__(self, size: int) -> None:
        self.threads = size

    def size(self) -> int:
        return self.threads


def entry(size: int, on_stack: Callable[[int], int | None], passed: Callable[[], int | None]) -> int:
    return region_entry(cast("Any", Region(size)), on_stack, passed)


def fail(number: int = 0) -> int:
    raise CorruptState(number, "a stack")


def test_the_function_of_a_region_is_that_of_the_first_stack_that_shows_it() -> None:
    assert entry(4, {3: None, 2: 0x20, 1: 0x10}.__getitem__, fail) == 0x20  # the primary thread is asked last


def test_stacks_that_cannot_be_read_do_not_hide_the_others() -> None:
    assert entry(3, lambda number: 0x10 if number == 0 else fail(number), fail) == 0x10
    assert entry(3, fail, lambda: 0x30) == 0x30


def test_few_threads_of_a_large_team_are_looked_at() -> None:
    asked: list[int] = []
    with pytest.raises(Unavailable, match="the stacks of 8 of its threads do not show it"):
        entry(1000, lambda number: asked.append(number), lambda: None)  # type: ignore[func-returns-value]
    assert asked == [7, 6, 5, 4, 3, 2, 1, 0]


def test_a_call_that_cannot_be_read_tells_no_function() -> None:
    with pytest.raises(Unavailable):
        entry(1, lambda number: None, fail)
