"""Functions that left the stack by a tail call, found by the calls that debug information describes.

If a caller called one function and its callee's frame is another one's, the first ended by a jump to the second, or
to a function that did. As in gdb (``call_site_find_chain``), all ways between the two are followed; the steps that all
of them share are certain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ompd.binary.dwarf.source.calls import Call
from ompd.errors import OmpdError

_MAX_STEPS = 4096
_MAX_CHAIN = 256


class Step(NamedTuple):
    """A function that was called by the one before it: its entry, and an address in the jump at its end, None if only
    the function is certain.
    """

    start: int
    jump: int | None


class Chain(NamedTuple):
    """The functions between one that was called and the one that runs, innermost first.

    Unless it ``is_whole``, unknown functions are missing behind the first *inner* ones: there are several ways, or none
    is described.
    """

    steps: tuple[Step, ...]
    inner: int
    is_whole: bool


class TailCalls:
    """Finds such functions in one process.

    :param calls_of: returns the calls of the function at an address, None where nothing describes it; with addresses
        of the target, and the called function's as ``start`` where it is known
    """

    def __init__(self, calls_of: Callable[[int], Sequence[Call] | None]) -> None:
        self._calls_of = calls_of
        self._known: dict[tuple[int, int], Chain] = {}

    def between(self, called: int, runs: int) -> Chain:
        """Return the functions from that at *called*, which is the outermost, inwards to that at *runs*, which is none
        of them. Both are where functions begin.
        """
        key = called, runs
        if key not in self._known:
            self._known[key] = self._find(called, runs)
        return self._known[key]

    def _find(self, called: int, runs: int) -> Chain:
        found: list[tuple[Step, ...]] | None
        try:
            found = self._ways(called, runs)
        except OmpdError:
            found = None  # damaged debug information says nothing
        if not found:
            return Chain((Step(called, None),), 0, False)
        first, others = found[0], found[1:]
        if not others:
            return Chain(first[::-1], len(first), True)
        outer = min(_common(first, way) for way in others)
        inner = min(_common(first[::-1], way[::-1]) for way in others)
        inner = min(inner, min(map(len, found)) - outer)
        steps = first[::-1][:inner]
        if outer:
            return Chain((*steps, *first[:outer][::-1]), inner, False)
        # That it was called is certain, if not with which jump it ended.
        is_there = bool(steps) and steps[-1].start == called
        return Chain(steps if is_there else (*steps, Step(called, None)), inner, False)

    def _ways(self, called: int, runs: int) -> list[tuple[Step, ...]] | None:
        # All ways, outermost step first; None where nothing is certain. No call is twice in one way.
        ways: list[tuple[Step, ...]] = []
        way: list[Step] = []
        tails = self._tails(called)
        if tails is None:
            return None
        open_, at = [tails], [called]
        steps = 0
        while open_:
            if not open_[-1]:
                open_.pop()
                at.pop()
                if way:
                    way.pop()
                continue
            steps += 1
            if steps > _MAX_STEPS or len(way) > _MAX_CHAIN:
                return None
            call = open_[-1].pop()
            step = Step(at[-1], call.inside)
            if call.start is None:
                return None  # a jump to what a pointer says may lead anywhere
            if step in way:
                continue
            if call.start == runs:
                ways.append((*way, step))
                continue
            tails = self._tails(call.start)
            if tails is None:
                return None
            way.append(step)
            at.append(call.start)
            open_.append(tails)
        return ways

    def _tails(self, function: int) -> list[Call] | None:
        # None where that is not described: it may end by any jump.
        calls = self._calls_of(function)
        return None if calls is None else [call for call in calls if call.is_tail]


def _common(one: Sequence[Step], other: Sequence[Step]) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count
