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
    for each in order:
        for other in following[each]:
            before.setdefault(other, []).append(each)
    dominator = _dominators(entry, order, before)
    found: dict[int, set[int]] = {}
    for each in order:
        for head in following[each]:
            if _dominates(head, each, dominator):
                found.setdefault(head, {head}).update(_leading_to(each, head, before))
    around = [(len(blocks), head) for head, blocks in found.items() if block in blocks]
    if not around:
        return None
    head = min(around)[1]
    return head, frozenset(found[head])


def _order(entry: int, following: Mapping[int, Sequence[int]]) -> list[int]:
    # Reverse postorder: each block before its successors, except in loops.
    seen = {entry}
    done: list[int] = []
    work = [(entry, iter(following.get(entry, ())))]
    while work:
        other = next((each for each in work[-1][1] if each not in seen), None)
        if other is None:
            done.append(work.pop()[0])
        else:
            seen.add(other)
            work.append((other, iter(following.get(other, ()))))
    return done[::-1]


def _dominators(entry: int, order: Sequence[int], before: Mapping[int, Sequence[int]]) -> dict[int, int]:
    # The immediate dominator of each block, by the algorithm of Cooper, Harvey and Kennedy.
    place = {block: number for number, block in enumerate(order)}
    found = {entry: entry}
    is_changed = True
    while is_changed:
        is_changed = False
        for block in order[1:]:
            known = [each for each in before[block] if each in found]
            common = known[0]
            for other in known[1:]:
                while common != other:
                    if place[common] > place[other]:
                        common = found[common]
                    else:
                        other = found[other]
            if found.get(block) != common:
                found[block] = common
                is_changed = True
    return found


def _dominates(head: int, block: int, dominator: Mapping[int, int]) -> bool:
    while block != head and dominator[block] != block:
        block = dominator[block]
    return block == head


def _leading_to(end: int, head: int, before: Mapping[int, Sequence[int]]) -> set[int]:
    # The blocks that reach the end of the loop without passing its head.
    seen = {head, end}
    waiting = [end] if end != head else []
    while waiting:
        for each in before.get(waiting.pop(), ()):
            if each not in seen:
                seen.add(each)
                waiting.append(each)
    return seen
