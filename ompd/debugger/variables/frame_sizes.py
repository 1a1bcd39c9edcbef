"""The frame size of a function without a frame pointer, by its unwind data."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

_WORD, _STACK_ALIGNMENT = 8, 16  # for processors whose code omits the frame pointer and pushes arguments


def kept_frame_size(offsets: Sequence[int]) -> int | None:
    """Return the distance in bytes from stack pointer to CFA that a function keeps between its calls.

    This is for functions without a frame pointer.

    :param offsets: the distance in each row of the function's unwind data
    :returns: None if the function does not make its frame exactly once
    """
    decreases = (number for number in range(1, len(offsets)) if offsets[number] <= offsets[number - 1])
    top = next(decreases, len(offsets)) - 1
    if top + 1 >= len(offsets):
        return offsets[top] if offsets else None  # the function never returns
    # An epilogue undoes the prologue's last step first. Arguments of a call are pushed word by word, up to an aligned
    # stack, and removed in one step.
    last = offsets[top] - offsets[top - 1] if top else 0
    size = offsets[top + 1]
    if offsets[top] - size == last:
        return offsets[top]
    if size not in offsets[:top] or size % _STACK_ALIGNMENT:
        return None
    pushed = offsets[offsets.index(size) : top + 1]
    return size if all(after - before == _WORD for before, after in pairwise(pushed)) else None
