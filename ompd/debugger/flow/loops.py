"""The loops of a function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ompd.errors import Unavailable

_MOST = 1 << 12  # blocks of a function


class Loop(NamedTuple):
    """A loop. ``code`` are the addresses of its instructions.

    ``ends`` are the addresses of the first instruction, and of the jumps and branches back to it.
    """

    code: tuple[int, ...]
    ends: tuple[int, ...]


def loop_around(block: int, entry: int, following: Mapping[int, Sequence[int]]) -> tuple[int, frozenset[int]] | None:
    """Return the head and all blocks of the innermost loop around a block, None without a loop.

    Every way into a loop goes through its head, and a jump leads back to the head. Other cycles are not loops.

    :param entry: the function's first block
    :param following: the successors of each block
    :raises Unavailable: if there are too many blocks
    """
    if len(following) > _MOST:
        raise Unavailable("the function has too many branches")
    order = _order(entry, following)
    before: dict[int, list[int]] = {}
    for predecessor in order:
        for successor in following[predecessor]:
            before.setdefault(successor, []).append(predecessor)
    dominator = _dominators(entry, order, before)
    loops: dict[int, set[int]] = {}  # by head
    for end in order:
        for head in following[end]:
            if _dominates(head, end, dominator):
                loops.setdefault(head, {head}).update(_leading_to(end, head, before))
    around = [(len(blocks), head) for head, blocks in loops.items() if block in blocks]
    if not around:
        return None
    head = min(around)[1]
    return head, frozenset(loops[head])


def _order(entry: int, following: Mapping[int, Sequence[int]]) -> list[int]:
    # Reverse postorder: each block before its successors, except in loops.
    visited = {entry}
    done: list[int] = []
    work = [(entry, iter(following.get(entry, ())))]
    while work:
        successor = next((block for block in work[-1][1] if block not in visited), None)
        if successor is None:
            done.append(work.pop()[0])
        else:
            visited.add(successor)
            work.append((successor, iter(following.get(successor, ()))))
    return done[::-1]


def _dominators(entry: int, order: Sequence[int], before: Mapping[int, Sequence[int]]) -> dict[int, int]:
    # The immediate dominator of each block, by the algorithm of Cooper, Harvey and Kennedy.
    place = {block: number for number, block in enumerate(order)}
    dominators = {entry: entry}
    is_changed = True
    while is_changed:
        is_changed = False
        for block in order[1:]:
            processed = [predecessor for predecessor in before[block] if predecessor in dominators]
            common = processed[0]
            for other in processed[1:]:
                while common != other:
                    if place[common] > place[other]:
                        common = dominators[common]
                    else:
                        other = dominators[other]
            if dominators.get(block) != common:
                dominators[block] = common
                is_changed = True
    return dominators


def _dominates(head: int, block: int, dominator: Mapping[int, int]) -> bool:
    while block != head and dominator[block] != block:
        block = dominator[block]
    return block == head


def _leading_to(end: int, head: int, before: Mapping[int, Sequence[int]]) -> set[int]:
    # The blocks that reach the end of the loop without passing its head.
    blocks = {head, end}
    waiting = [end] if end != head else []
    while waiting:
        for predecessor in before.get(waiting.pop(), ()):
            if predecessor not in blocks:
                blocks.add(predecessor)
                waiting.append(predecessor)
    return blocks
