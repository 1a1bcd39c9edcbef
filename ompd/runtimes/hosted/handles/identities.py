"""Which handles of a library stand for the same thing: OMPD only has a call that compares two of them.

Its result says same or not the same; the libraries cut the difference of two addresses to 32 bits, so that it gives no
order. What is known to be equal for one thing therefore divides the handles first.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

from ompd.errors import CorruptState, Unavailable
from ompd.runtimes.hosted.api import Batch, Pending, Ref
from ompd.runtimes.hosted.client import HostedLibrary
from ompd.runtimes.hosted.handles.asking import Asked

# Where nothing divides the handles, each is compared with each: that takes a second or two.
_MAX_COMPARED = 1 << 19
# More regions, or tasks that threads lead to, than a program has; a library may say of any two that they differ.
_MAX_THINGS = 1 << 16

_Ref = TypeVar("_Ref", bound=Ref)
_Entity = TypeVar("_Entity", bound=Asked)


class Identities(Generic[_Ref, _Entity]):
    """The things of one kind that are known.

    :param compare: puts the comparison of two handles into a batch
    :param make: makes the object of a new one
    """

    def __init__(
        self,
        library: HostedLibrary,
        compare: Callable[[Batch, _Ref, _Ref], Pending[int]],
        make: Callable[[_Ref], _Entity],
    ) -> None:
        self._library, self._compare, self._make = library, compare, make
        self._groups: dict[Hashable, list[_Entity]] = {}
        self._compared = self._count = 0

    def add(self, entity: _Entity, key: Hashable = None) -> None:
        """Add a thing that is known to be a new one."""
        self._count += 1
        self._groups.setdefault(key, []).append(entity)

    def place(self, refs: Sequence[_Ref], keys: Sequence[Hashable] | None = None) -> list[_Entity]:
        """Return the thing that each handle stands for.

        :param keys: something that is equal for handles of the same thing, for each handle
        :raises LibraryError: if the library does not compare them
        :raises Unavailable: if there are too many
        :raises CorruptState: if there is no end of them
        """
        placed: list[_Entity | None] = [None] * len(refs)
        groups: dict[Hashable, list[int]] = {}
        for index in range(len(refs)):
            groups.setdefault(keys[index] if keys is not None else None, []).append(index)
        for key, indices in groups.items():
            # Most stand for one thing: they are compared with each other first, then one of each with what is known.
            for alike in self._alike(refs, indices):
                entity = self._known(key, refs[alike[0]])
                for index in alike:
                    placed[index] = entity
        return [entity for entity in placed if entity is not None]

    def _alike(self, refs: Sequence[_Ref], indices: Sequence[int]) -> list[list[int]]:
        found = []
        waiting = list(indices)
        while waiting:
            first, rest = waiting[0], waiting[1:]
            same = self._equal(refs[first], [refs[index] for index in rest])
            found.append([first, *(index for index, is_same in zip(rest, same, strict=True) if is_same)])
            waiting = [index for index, is_same in zip(rest, same, strict=True) if not is_same]
        return found

    def _known(self, key: Hashable, ref: _Ref) -> _Entity:
        known = self._groups.setdefault(key, [])
        same = self._equal(ref, [entity.ref for entity in known])  # type: ignore[misc]
        found = next((entity for entity, is_same in zip(known, same, strict=True) if is_same), None)
        if found is None:
            if self._count >= _MAX_THINGS:
                raise CorruptState(0, f"{self._library.name}: its regions and tasks do not end")
            found = self._make(ref)
            self.add(found, key)
        return found

    def _equal(self, ref: _Ref, others: Sequence[_Ref]) -> list[bool]:
        self._compared += len(others)
        if self._compared > _MAX_COMPARED:
            raise Unavailable(f"{self._library.name}: there are too many handles to find out which are of one thing")
        batch = self._library.batch()
        pending = [self._compare(batch, ref, other) for other in others]
        return [one.value() == 0 for one in pending]
