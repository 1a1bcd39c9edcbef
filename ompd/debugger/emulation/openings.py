"""Finds the values of a word that make a thread leave its loop, by trials."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from ompd.records import record

_SMALL = 10  # small numbers that are tried


@record
class Word:
    """A word in memory: its address, its size in bytes, and its value without a sign.

    ``opens`` says which values make the thread leave the loop, such as ``is not 0``. None if no value is known that
    does.
    """

    address: int
    size: int
    value: int
    opens: str | None = None

    @property
    def number(self) -> int:
        """The value with a sign."""
        return _signed(self.value, 8 * self.size)


class Probe:
    """One word of a loop during trials of other values.

    ``code`` and ``reads`` are those of an undisturbed pass, ``stack`` the dead part of the thread's stack.
    ``has_left`` is whether the thread left the loop at the last trial. ``is_address`` becomes True if the word's value
    decides what is read next: then it is hardly what the thread waits for.
    """

    def __init__(
        self, word: Word, code: Mapping[int, None], reads: Collection[tuple[int, int]], stack: Collection[int]
    ) -> None:
        self.word, self.code, self._reads, self._stack = word, code, reads, stack
        self.has_left = self.is_address = False

    def may_read(self, address: int, size: int) -> bool:
        """Return whether the undisturbed loop reads this memory, too."""
        return (address, size) in self._reads or address in self._stack


def opening(word: Word, values: Sequence[int], leaves: Callable[[int], bool | None]) -> str | None:
    """Return which values of *word* make the thread leave the loop, None if no tried value does.

    The text follows the name of the word: ``is not 0``, ``is at least 4``. It is as exact as trials can be.

    :param values: values that the loop may compare the word with
    :param leaves: returns whether the thread leaves the loop with a value of the word, None if that is unknown
    """
    bits = 8 * word.size
    mask, top = (1 << bits) - 1, 1 << (bits - 1)
    tried = {*range(_SMALL), mask, top, top - 1, word.value + 1, word.value - 1, word.value ^ 1}
    tried |= {value + step for value in values if value & mask < 1 << 31 for step in (-1, 0, 1)}
    results: dict[int, bool] = {}
    for value in sorted({each & mask for each in tried} - {word.value}, key=lambda each: (each > top, each)):
        result = leaves(value)
        if result is not None:
            results[value] = result
    opened = [value for value, result in results.items() if result]
    if not opened:
        return None
    closed = sorted(value for value, result in results.items() if not result)
    if not closed:
        return f"is not {word.number}"
    # The one value may be the largest number, above a limit. Then its neighbour opens the loop, too.
    if len(opened) == 1 and not any(leaves(opened[0] + step & mask) for step in (-1, 1)):
        return f"is {_signed(opened[0], bits)}"
    for signed in (True, False):
        bounds = _bounds([_as(v, bits, signed) for v in opened], [_as(v, bits, signed) for v in (*closed, word.value)])
        if bounds is None:
            continue
        low, high, rises = bounds
        while high - low > 1:
            middle = (low + high) // 2
            result = leaves(middle & mask)
            if result is None:
                return f"changes, for example to {_signed(opened[0], bits)}"
            low, high = (low, middle) if result is rises else (middle, high)
        return f"is at least {high}" if rises else f"is at most {low}"
    return f"changes, for example to {_signed(opened[0], bits)}"


def _bounds(opened: Sequence[int], closed: Sequence[int]) -> tuple[int, int, bool] | None:
    # The two neighbours between which the values begin to open the loop, and whether the larger ones open it.
    if min(opened) > max(closed):
        return max(closed), min(opened), True
    if max(opened) < min(closed):
        return max(opened), min(closed), False
    return None


def _as(value: int, bits: int, signed: bool) -> int:
    return _signed(value, bits) if signed else value


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value
