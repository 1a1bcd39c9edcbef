"""Finds the handles of a library that belong to the same thread, region or task.

Handles are opaque, and each call makes new ones. OMPD compares two handles at a time, so that a thousand handles would
need half a million calls. Most handles need one call, because another fact (an identifier, a frame) distinguishes them.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

from ompd.contract.ompd import Scope, ThreadIdKind
from ompd.errors import OmpdError
from ompd.questions.check.ahead import CallQueue
from ompd.runtimes.hosted.api import Batch, Pending, Ref

_COMPARE: Mapping[Scope, Callable[..., Pending[int]]] = {
    Scope.THREAD: Batch.thread_handle_compare,
    Scope.PARALLEL: Batch.parallel_handle_compare,
    Scope.TASK: Batch.task_handle_compare,
}
# Entities that no other fact distinguishes.
_MAX_ALIKE = 1 << 13
# How many new handles are compared with all others in each round. The first round is small, because most handles often
# belong to one entity. At most _MAX_COMPARED comparisons are sent together.
_CANDIDATES = (1, 8, 64)
_MAX_COMPARED = 1 << 14
# Groups of more than _MANY handles are split by their comparisons with _PIVOTS of them: the standard demands an order,
# in which two handles of one entity compare equally with any third one.
_MANY, _PIVOTS = 64, 32

_Group = tuple[Hashable, ...]
_Part = tuple[_Group, list[Ref]]


class Identities:
    """The handles of one address space.

    :param id_size: returns the size of native identifiers of a kind, None for the usual one
    """

    def __init__(self, calls: CallQueue, id_size: Callable[[ThreadIdKind], int | None]) -> None:
        self._calls = calls
        self._id_size = id_size
        # The key of each handle, by its number. Numbers are not reused.
        self._keys: dict[int, Hashable] = {}
        # One handle of each entity, by group. Only handles of one group can belong to the same entity.
        self._known: dict[_Group, list[Ref]] = defaultdict(list)
        # The pivots of each group that was split.
        self._pivots: dict[_Group, Sequence[Ref]] = {}

    def key(self, scope: Scope, handle: Ref) -> Hashable:
        """Return the key of a handle, which all handles of the same entity share.

        :raises OmpdError: if too many handles differ in no other fact
        """
        if handle.number not in self._keys:
            self.find(scope, [handle])
        if handle.number not in self._keys:
            name = self._calls.client.name
            raise OmpdError(f"{name}: more than {_MAX_ALIKE} handles that differ in nothing else")
        return self._keys[handle.number]

    def expect(self, scope: Scope, handle: Ref | Pending[Any]) -> Pending[Any]:
        """Record the call whose result few entities share, and return its pending result."""
        argument: Any = handle
        if scope == Scope.THREAD:
            kind = ThreadIdKind.PTHREAD
            return self._calls.call(Batch.get_thread_id, argument, kind, self._id_size(kind))
        if scope == Scope.TASK:
            return self._calls.call(Batch.get_task_frame, argument)
        return self._calls.call(Batch.get_tool_data, argument, scope)

    def find(self, scope: Scope, handles: Iterable[Ref]) -> None:
        """Find the keys of handles, in few exchanges."""
        new = {handle.number: handle for handle in handles if handle.number not in self._keys}
        expected = [(handle, self.expect(scope, handle)) for handle in new.values()]
        groups: dict[_Group, list[Ref]] = defaultdict(list)
        for handle, pending in expected:
            value = pending.value() if pending.error() is None else None
            if scope == Scope.THREAD and value is not None:
                self._keys[handle.number] = value
            else:
                groups[scope, value].append(handle)
        parts = self._split(scope, list(groups.items()))
        pairs = [(member, other) for group, members in parts for member in members for other in self._known[group]]
        self._give_keys(self._equal(scope, pairs))
        for most in itertools.chain(_CANDIDATES, itertools.repeat(_CANDIDATES[-1])):
            parts = self._without_keys(parts)
            if not parts:
                return
            if most == _CANDIDATES[-1]:
                parts = self._split_large(scope, parts)
            self._find_among(scope, parts, most)

    def _without_keys(self, parts: Sequence[_Part]) -> list[_Part]:
        remaining = (
            (group, [member for member in members if member.number not in self._keys])
            for group, members in parts
            if len(self._known[group]) < _MAX_ALIKE
        )
        return [part for part in remaining if part[1]]

    def _find_among(self, scope: Scope, parts: Sequence[_Part], most: int) -> None:
        # Compares the first members of each part with those after them.
        pairs = [
            (member, other)
            for _, members in parts
            for place, member in enumerate(members)
            for other in members[: min(place, most)]
        ]
        equal = self._equal(scope, pairs)
        for group, members in parts:
            known = self._known[group]
            for member in members[: min(most, _MAX_ALIKE - len(known))]:
                if member.number not in equal:
                    self._keys[member.number] = member.number
                    known.append(member)
        self._give_keys(equal)

    def _give_keys(self, equal: Mapping[int, Ref]) -> None:
        for number, other in equal.items():
            if other.number in self._keys:
                self._keys[number] = self._keys[other.number]

    # Groups that are too large

    def _split_large(self, scope: Scope, parts: Sequence[_Part]) -> list[_Part]:
        for group, members in parts:
            if len(members) > _MANY and len(group) == 2:
                # Draw at random, so that no pattern makes all pivots equal; with a fixed seed, to be reproducible.
                self._pivots[group] = Random(0).sample(members, _PIVOTS)
                for part, known in self._split(scope, [(group, self._known.pop(group, []))]):
                    self._known[part] = known
        return self._split(scope, parts)

    def _split(self, scope: Scope, parts: Sequence[_Part]) -> list[_Part]:
        result_groups: dict[_Group, list[Ref]] = defaultdict(list)
        signs: dict[int, list[int | None]] = defaultdict(list)
        split = [(group, members) for group, members in parts if group in self._pivots]
        pairs = [(member, pivot) for group, members in split for member in members for pivot in self._pivots[group]]
        for member, _, result in self._results(scope, pairs):
            signs[member.number].append(result)
        for group, members in parts:
            for member in members:
                key = (*group, *signs[member.number]) if group in self._pivots else group
                result_groups[key].append(member)
        return list(result_groups.items())

    # Comparisons

    def _equal(self, scope: Scope, pairs: Iterable[tuple[Ref, Ref]]) -> Mapping[int, Ref]:
        # By the number of the first handle of each pair: the first handle that it equals.
        equal: dict[int, Ref] = {}
        for handle, other, result in self._results(scope, pairs):
            if result == 0:
                equal.setdefault(handle.number, other)
        return equal

    def _results(self, scope: Scope, pairs: Iterable[tuple[Ref, Ref]]) -> Iterator[tuple[Ref, Ref, int | None]]:
        pairs = iter(pairs)
        while chunk := list(itertools.islice(pairs, _MAX_COMPARED)):
            batch = self._calls.client.batch()
            results = [(handle, other, _COMPARE[scope](batch, handle, other)) for handle, other in chunk]
            for handle, other, result in results:
                yield handle, other, result.value() if result.error() is None else None
