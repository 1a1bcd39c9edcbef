"""Which handles of a library are of the same thread, region or task.

Handles are opaque, and each call makes new ones. The interface has a routine that compares two of them, so that a
thousand handles would need half a million calls. Most need one, since something else tells them apart.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

from ompd.contract.ompd import Scope, ThreadIdKind
from ompd.errors import OmpdError
from ompd.questions.check.ahead import Ahead
from ompd.runtimes.hosted.api import Batch, Pending, Ref

_COMPARE: Mapping[Scope, Callable[..., Pending[int]]] = {
    Scope.THREAD: Batch.thread_handle_compare,
    Scope.PARALLEL: Batch.parallel_handle_compare,
    Scope.TASK: Batch.task_handle_compare,
}
# So many different handles may be alike in all else.
_MAX_ALIKE = 1 << 13
# Of new handles so many are compared with all the others, in turn: first few, since most are often of one and the same
# thing, then more. So many comparisons are made together.
_CANDIDATES = (1, 8, 64)
_MAX_COMPARED = 1 << 14
# Where more are alike they are told apart by how they compare with so many of them: OpenMP has the routines establish
# an order, in which handles of one thing compare alike with any other.
_MANY, _PIVOTS = 64, 32

_Group = tuple[Hashable, ...]
_Part = tuple[_Group, list[Ref]]


class Identities:
    """The handles of one address space.

    :param id_size: returns the size of native identifiers of a kind, None for the usual one
    """

    def __init__(self, calls: Ahead, id_size: Callable[[ThreadIdKind], int | None]) -> None:
        self._calls, self._id_size = calls, id_size
        # What was found, by the handles' numbers, of which none is used twice.
        self._keys: dict[int, Hashable] = {}
        # A handle of each thing, in groups of which each has those that may be of the same one.
        self._seen: dict[_Group, list[Ref]] = defaultdict(list)
        # Of groups that were split, the handles by which they were.
        self._pivots: dict[_Group, Sequence[Ref]] = {}

    def key(self, scope: Scope, handle: Ref) -> Hashable:
        """Return what handles of the same thing have in common.

        :raises OmpdError: if there are too many that nothing else tells apart
        """
        if handle.number not in self._keys:
            self.find(scope, [handle])
        if handle.number not in self._keys:
            name = self._calls.client.name
            raise OmpdError(f"{name}: more than {_MAX_ALIKE} handles that differ in nothing else")
        return self._keys[handle.number]

    def expect(self, scope: Scope, handle: Ref | Pending[Any]) -> Pending[Any]:
        """Record the call whose result few things have in common, and return it."""
        of_one: Any = handle
        if scope == Scope.THREAD:
            kind = ThreadIdKind.PTHREAD
            return self._calls.call(Batch.get_thread_id, of_one, kind, self._id_size(kind))
        if scope == Scope.TASK:
            return self._calls.call(Batch.get_task_frame, of_one)
        return self._calls.call(Batch.get_tool_data, of_one, scope)

    def find(self, scope: Scope, handles: Iterable[Ref]) -> None:
        """Find the keys of handles, in few exchanges."""
        new = {handle.number: handle for handle in handles if handle.number not in self._keys}
        expected = [(handle, self.expect(scope, handle)) for handle in new.values()]
        groups: dict[_Group, list[Ref]] = defaultdict(list)
        for handle, pending in expected:
            found = pending.value() if pending.error() is None else None
            if scope == Scope.THREAD and found is not None:
                self._keys[handle.number] = found
            else:
                groups[scope, found].append(handle)
        parts = self._split(scope, list(groups.items()))
        pairs = [(one, other) for group, members in parts for one in members for other in self._seen[group]]
        self._give_keys(self._equal(scope, pairs))
        for most in itertools.chain(_CANDIDATES, itertools.repeat(_CANDIDATES[-1])):
            parts = self._left(parts)
            if not parts:
                return
            if most == _CANDIDATES[-1]:
                parts = self._split_large(scope, parts)
            self._find_among(scope, parts, most)

    def _left(self, parts: Sequence[_Part]) -> list[_Part]:
        left = (
            (group, [each for each in members if each.number not in self._keys])
            for group, members in parts
            if len(self._seen[group]) < _MAX_ALIKE
        )
        return [part for part in left if part[1]]

    def _find_among(self, scope: Scope, parts: Sequence[_Part], most: int) -> None:
        # Compares the first members of each part with those after them.
        pairs = [
            (one, other)
            for _, members in parts
            for place, one in enumerate(members)
            for other in members[: min(place, most)]
        ]
        equal = self._equal(scope, pairs)
        for group, members in parts:
            known = self._seen[group]
            for each in members[: min(most, _MAX_ALIKE - len(known))]:
                if each.number not in equal:
                    self._keys[each.number] = each.number
                    known.append(each)
        self._give_keys(equal)

    def _give_keys(self, equal: Mapping[int, Ref]) -> None:
        for number, other in equal.items():
            if other.number in self._keys:
                self._keys[number] = self._keys[other.number]

    # Groups that are too large

    def _split_large(self, scope: Scope, parts: Sequence[_Part]) -> list[_Part]:
        for group, members in parts:
            if len(members) > _MANY and len(group) == 2:
                # By chance, so that no pattern in them makes all of these the same; always by the same one.
                self._pivots[group] = Random(0).sample(members, _PIVOTS)
                for part, known in self._split(scope, [(group, self._seen.pop(group, []))]):
                    self._seen[part] = known
        return self._split(scope, parts)

    def _split(self, scope: Scope, parts: Sequence[_Part]) -> list[_Part]:
        found: dict[_Group, list[Ref]] = defaultdict(list)
        signs: dict[int, list[int | None]] = defaultdict(list)
        split = [(group, members) for group, members in parts if group in self._pivots]
        pairs = [(one, pivot) for group, members in split for one in members for pivot in self._pivots[group]]
        for one, _, result in self._results(scope, pairs):
            signs[one.number].append(result)
        for group, members in parts:
            for one in members:
                found[(*group, *signs[one.number]) if group in self._pivots else group].append(one)
        return list(found.items())

    # Comparisons

    def _equal(self, scope: Scope, pairs: Iterable[tuple[Ref, Ref]]) -> Mapping[int, Ref]:
        # The first of the others that each handle is equal to, by the handle's number.
        found: dict[int, Ref] = {}
        for one, other, result in self._results(scope, pairs):
            if result == 0:
                found.setdefault(one.number, other)
        return found

    def _results(self, scope: Scope, pairs: Iterable[tuple[Ref, Ref]]) -> Iterator[tuple[Ref, Ref, int | None]]:
        pairs = iter(pairs)
        while some := list(itertools.islice(pairs, _MAX_COMPARED)):
            batch = self._calls.client.batch()
            results = [(one, other, _COMPARE[scope](batch, one, other)) for one, other in some]
            for one, other, result in results:
                yield one, other, result.value() if result.error() is None else None
