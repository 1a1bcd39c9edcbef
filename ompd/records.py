"""Records: immutable classes of named members.

They are dataclasses: :func:`dataclasses.fields` and :func:`dataclasses.replace` work. The standard decorator compiles
six functions for each frozen class; with some eighty classes that takes a fifth of the time of a command on a small
core. Here a class has its own ``__init__`` and shares the other functions. Only the type checker refuses assignments to
members.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar, overload

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: object) -> Callable[[Any], Any]:
        return lambda function: function


_Class = TypeVar("_Class", bound=type)


@overload
def record(cls: _Class, /) -> _Class: ...


@overload
def record(*, eq: bool = True, kw_only: bool = False, slots: bool = True) -> Callable[[_Class], _Class]: ...


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: Any = None, /, *, eq: bool = True, kw_only: bool = False, slots: bool = True) -> Any:
    """Make a record of a class with annotations.

    :param eq: whether equality and hash use the members; else identity
    :param kw_only: whether the constructor takes keywords only
    :param slots: whether the class has ``__slots__``; with a ``cached_property`` it cannot
    """
    if cls is None:
        return lambda decorated: _make_record(decorated, eq, kw_only, slots)
    return _make_record(cls, eq, kw_only, slots)


def _make_record(cls: Any, eq: bool, kw_only: bool, slots: bool) -> Any:
    own = cls.__dict__
    record_class: Any = dataclass(slots=slots, repr=False, eq=False, kw_only=kw_only)(cls)
    if "__repr__" not in own and record_class.__repr__ is object.__repr__:
        record_class.__repr__ = _repr
    if eq and "__eq__" not in own:
        compared = (member.name for member in record_class.__dataclass_fields__.values() if member.compare)
        record_class.__record_key__ = attrgetter(*compared)
        record_class.__eq__ = _eq
        record_class.__hash__ = _hash
    return record_class


def _repr(self: Any) -> str:
    names = (member.name for member in self.__dataclass_fields__.values() if member.repr)
    return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"


def _eq(self: Any, other: Any) -> bool:
    if other.__class__ is not self.__class__:
        return NotImplemented  # type: ignore[no-any-return]
    return bool(self.__record_key__(self) == self.__record_key__(other))


def _hash(self: Any) -> int:
    return hash(self.__record_key__(self))
