"""Records: classes of named members without methods of their own, which nobody changes.

They are dataclasses, for which :func:`dataclasses.fields` and :func:`dataclasses.replace` work as for any. The standard
decorator writes and compiles six functions for each frozen class; with some eighty classes that takes a fifth of the
time of a command that reads a small core. Here a class has its own ``__init__`` and shares the others. That nobody
assigns to a member is for the type checker to see: at run time it is not refused.
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

    :param eq: whether records are equal, and hash alike, if their members do; else each is equal to itself alone
    :param kw_only: whether members are given by their names alone
    :param slots: whether it has nothing but its members; a class with a ``cached_property`` keeps more
    """
    if cls is None:
        return lambda given: _made(given, eq, kw_only, slots)
    return _made(cls, eq, kw_only, slots)


def _made(cls: Any, eq: bool, kw_only: bool, slots: bool) -> Any:
    own = cls.__dict__
    made: Any = dataclass(slots=slots, repr=False, eq=False, kw_only=kw_only)(cls)
    if "__repr__" not in own and made.__repr__ is object.__repr__:
        made.__repr__ = _repr
    if eq and "__eq__" not in own:
        made.__record_key__ = attrgetter(*(known.name for known in made.__dataclass_fields__.values() if known.compare))
        made.__eq__ = _eq
        made.__hash__ = _hash
    return made


def _repr(self: Any) -> str:
    members = (known for known in self.__dataclass_fields__.values() if known.repr)
    return f"{type(self).__qualname__}({', '.join(f'{known.name}={getattr(self, known.name)!r}' for known in members)})"


def _eq(self: Any, other: Any) -> bool:
    if other.__class__ is not self.__class__:
        return NotImplemented  # type: ignore[no-any-return]
    return bool(self.__record_key__(self) == self.__record_key__(other))


def _hash(self: Any) -> int:
    return hash(self.__record_key__(self))
