"""The loops of a function, as its code has them: blocks that are come through again and again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ompd.errors import Unavailable

_MOST = 1 << 12  # blocks of a function


class Loop(NamedTuple):
    """A loop by its instructions' addresses: all of them, and those with which it begins and goes back to there."""

    code: tuple[int, ...]
    ends: tuple[int, ...]


def loop_around(block: int, entry: int, following: Mapping[int, Sequence[int]]) -> tuple[int, frozenset[int]] | None:
    """Return the first block, and all, of the innermost loop that a block is in, None if it is in none.

    A loop is entered by one block alone, without which no way leads to the others: to go on with it, a way comes back
    to that one. Blocks that are come through again and again in another way are no loop.

    :param entry: the block in which the function begins
    :param following: to which blocks each leads
    :raises Unavailable: if there are too many
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
    # Each block before those that it leads to, as far as there are no loops.
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
    # Of each block the nearest one through which all ways to it lead (Cooper, Harvey and Kennedy's way to find it).
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
    # The blocks from which ways lead to the end of the loop without passing its head.
    seen = {head, end}
    waiting = [end] if end != head else []
    while waiting:
        for each in before.get(waiting.pop(), ()):
            if each not in seen:
                seen.add(each)
                waiting.append(each)
    return seen
