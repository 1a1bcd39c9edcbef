"""Group a library's handles by region or task. OMPD's only help is a call that compares two handles.

The result of this call only shows whether two handles are equal. It does not define an order, because libraries cut the
difference of two addresses to 32 bits. So handles are first grouped by keys that are equal for all handles of one
region or task.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

from ompd.errors import CorruptState, Unavailable
from ompd.runtimes.hosted.api import Batch, Pending, Ref
from ompd.runtimes.hosted.client import HostedLibrary
from ompd.runtimes.hosted.handles.queries import Handle

# The most comparisons of each handle with each other handle, without keys. They take a second or two.
_MAX_COMPARED = 1 << 19
# More regions or tasks than a program has on its threads. The bound is for libraries that report any two handles as
# different.
_MAX_ENTITIES = 1 << 16

_Ref = TypeVar("_Ref", bound=Ref)
_Entity = TypeVar("_Entity", bound=Handle)


class Identities(ABC, Generic[_Ref, _Entity]):
    """The known regions, or the known tasks."""

    def __init__(self, library: HostedLibrary) -> None:
        self._library = library
        self._groups: dict[Hashable, list[_Entity]] = {}
        self._compared = self._count = 0

    @abstractmethod
    def compare(self, batch: Batch, one: _Ref, other: _Ref) -> Pending[int]:
        """Add the comparison of two handles to a batch."""

    @abstractmethod
    def new(self, ref: _Ref) -> _Entity:
        """Return a new region or task, given its handle."""

    @abstractmethod
    def of(self, refs: Sequence[_Ref]) -> list[_Entity]:
        """Return the region or task of each handle."""

    def add(self, entity: _Entity, key: Hashable = None) -> None:
        """Add a new region or task."""
        self._count += 1
        self._groups.setdefault(key, []).append(entity)

    def place(self, refs: Sequence[_Ref], keys: Sequence[Hashable] | None = None) -> list[_Entity]:
        """Return the region or task of each handle.

        :param keys: for each handle, a value that is equal for all handles of the same region or task
        :raises LibraryError: if the library does not compare the handles
        :raises Unavailable: if there are too many handles to compare
        :raises CorruptState: if there are more regions or tasks than a program can have
        """
        placed: list[_Entity | None] = [None] * len(refs)
        groups: dict[Hashable, list[int]] = {}
        for index in range(len(refs)):
            groups.setdefault(keys[index] if keys is not None else None, []).append(index)
        for key, indices in groups.items():
            # Most handles belong to one region or task, so they are first compared with each other.
            for alike in self._alike(refs, indices):
                entity = self._entity(key, refs[alike[0]])
                for index in alike:
                    placed[index] = entity
        return [entity for entity in placed if entity is not None]

    def _alike(self, refs: Sequence[_Ref], indices: Sequence[int]) -> list[list[int]]:
        groups = []
        waiting = list(indices)
        while waiting:
            first, rest = waiting[0], waiting[1:]
            same = self._equal(refs[first], [refs[index] for index in rest])
            groups.append([first, *(index for index, is_same in zip(rest, same, strict=True) if is_same)])
            waiting = [index for index, is_same in zip(rest, same, strict=True) if not is_same]
        return groups

    def _entity(self, key: Hashable, ref: _Ref) -> _Entity:
        candidates = self._groups.setdefault(key, [])
        same = self._equal(ref, [entity.ref for entity in candidates])  # type: ignore[misc]
        for entity, is_same in zip(candidates, same, strict=True):
            if is_same:
                return entity
        if self._count >= _MAX_ENTITIES:
            raise CorruptState(0, f"{self._library.name}: its regions and tasks do not end")
        entity = self.new(ref)
        self.add(entity, key)
        return entity

    def _equal(self, ref: _Ref, others: Sequence[_Ref]) -> list[bool]:
        self._compared += len(others)
        if self._compared > _MAX_COMPARED:
            raise Unavailable(f"{self._library.name}: there are too many handles to find out which are of one thing")
        batch = self._library.batch()
        pending = [self.compare(batch, ref, other) for other in others]
        return [difference.value() == 0 for difference in pending]
