"""Records: immutable classes of named members.

Records are dataclasses: :func:`dataclasses.fields` and :func:`dataclasses.replace` work. A command loads many record
classes and instantiates few of them, but the standard decorator compiles functions for each class. So a class first
gets slots, and functions that all records share. The standard decorator is applied when the class makes its first
instance, or when its members are listed. Only the type checker refuses assignments to members.
"""

from __future__ import annotations

from _thread import RLock
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
    """Return a record class made from *cls*, a class with annotations. This is a decorator.

    :param eq: whether equality and hash use the members; otherwise they use identity
    :param kw_only: whether the constructor takes keywords only
    :param slots: whether the class has ``__slots__``; with a ``cached_property`` it cannot
    """
    if cls is None:
        return lambda decorated: _make_record(decorated, eq, kw_only, slots)
    return _make_record(cls, eq, kw_only, slots)


def _make_record(declared: Any, eq: bool, kw_only: bool, slots: bool) -> Any:
    members = declared.__annotations__
    namespace = {name: value for name, value in declared.__dict__.items() if name not in members}
    for name in ("__dict__", "__weakref__"):  # the new class has its own
        namespace.pop(name, None)
    if slots:
        inherited = {name for base in declared.__mro__[1:] for name in getattr(base, "__slots__", ())}
        namespace["__slots__"] = tuple(name for name in members if name not in inherited)
    if declared.__repr__ is object.__repr__:
        namespace["__repr__"] = _repr
    if eq and "__eq__" not in namespace:
        namespace.update(__eq__=_eq, __hash__=_hash, __record_key__=_KEY)
    namespace.update(_FROM_DATACLASS)
    namespace["__declared__"] = (declared, kw_only)
    record_class = type(declared)(declared.__name__, declared.__bases__, namespace)
    record_class.__qualname__ = declared.__qualname__
    return record_class


class _Later:
    """An attribute of a record class that is made on first use, together with the other attributes of this kind."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: Any) -> Any:
        for record_class in owner.__mro__:
            if record_class.__dict__.get(self._name) is self:
                _complete(record_class)
        return getattr(owner if instance is None else instance, self._name)


_FROM_DATACLASS = {
    name: _Later(name) for name in ("__init__", "__dataclass_fields__", "__dataclass_params__", "__match_args__")
}
_KEY = _Later("__record_key__")
_COMPLETING = RLock()


def _complete(record_class: Any) -> None:
    with _COMPLETING:
        if "__declared__" not in record_class.__dict__:
            return  # another thread has completed the class
        declared, kw_only = record_class.__declared__
        made: Any = dataclass(repr=False, eq=False, kw_only=kw_only)(declared)
        for name in _FROM_DATACLASS:
            setattr(record_class, name, made.__dict__[name])
        if record_class.__dict__.get("__record_key__") is _KEY:
            compared = (member.name for member in made.__dataclass_fields__.values() if member.compare)
            record_class.__record_key__ = attrgetter(*compared)
        del record_class.__declared__


def _repr(self: Any) -> str:
    names = (member.name for member in self.__dataclass_fields__.values() if member.repr)
    return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"


def _eq(self: Any, other: Any) -> bool:
    if other.__class__ is not self.__class__:
        return NotImplemented  # type: ignore[no-any-return]
    return bool(self.__record_key__(self) == self.__record_key__(other))


def _hash(self: Any) -> int:
    return hash(self.__record_key__(self))
