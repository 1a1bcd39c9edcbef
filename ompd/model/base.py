"""The base of all records that queries return: conversion to dictionaries, readable text and table rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from functools import cache
from typing import TYPE_CHECKING, Any

from ompd.errors import Unsupported

if TYPE_CHECKING:
    from pandas import DataFrame as DataFrame

# In JSON these are hexadecimal strings, because most readers lose digits of numbers above 2**53.
ADDRESSES = frozenset(
    ("address", "cfa", "wait_id", "object", "tool_data", "si_addr", "event", "owner_address", "owner_value")
)
"""Members whose values are addresses or words that may hold addresses."""

WORDS = frozenset((("Evidence", "value"),))
"""Members whose values are words of memory and are written like addresses. Each has its record's name in front."""
# Members that hold a name. In other records, a member called the same holds an address.
_NAMED = frozenset((("Link", "object"),))

_MOST_SHOWN = 8
_UNAVAILABLE = "unavailable"


@cache
def addresses_of(kind: Any) -> frozenset[str]:
    """Return the members of a record of the class *kind* whose values are addresses."""
    names = {name for record, name in WORDS if record == kind.__name__}
    return (ADDRESSES | names) - {name for record, name in _NAMED if record == kind.__name__}


class Record:
    """A record that a query returns."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the members by name. Records among the values become dictionaries, too. Other values are not
        converted: addresses are numbers, and None means the same as in the record.
        """
        return {field.name: _as_dict(getattr(self, field.name)) for field in _fields(self)}

    def __repr__(self) -> str:
        """Return the record as readable text: members other than None and defaults, ``?`` for an unknown value."""
        return f"{type(self).__qualname__}({', '.join(self._shown())})"

    def _shown(self) -> Iterator[str]:
        unknown: Mapping[str, str] = getattr(self, _UNAVAILABLE, {})
        kind: Any = self.__class__
        addresses = addresses_of(kind)
        for field in _fields(self):
            value = getattr(self, field.name)
            if field.name in unknown:
                yield f"{field.name}=?"
            elif field.name != _UNAVAILABLE and field.repr and value is not None and value != _default(field):
                is_address = field.name in addresses and value.__class__ is int
                yield f"{field.name}={value:#x}" if is_address else f"{field.name}={shown(value)}"


@cache
def _fields_of(kind: Any) -> tuple[Field[Any], ...]:
    return fields(kind)


def _fields(record: Any) -> tuple[Field[Any], ...]:
    return _fields_of(record.__class__)


def _default(field: Field[Any]) -> object:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def shown(value: object) -> str:
    """Return a value of a record as readable text: the first items of a list, control characters escaped."""
    if not isinstance(value, tuple):
        return repr(value)
    items = [repr(item) for item in value[:_MOST_SHOWN]]
    if len(value) > _MOST_SHOWN:
        items.append(f"... {len(value)} in all")
    return f"({', '.join(items)})"


def _as_dict(value: Any) -> Any:
    if isinstance(value, Record):
        return value.to_dict()
    if isinstance(value, tuple):
        return [_as_dict(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _as_dict(item) for key, item in value.items()}
    return value


# Tables


# The columns that a person reads first, of all kinds of rows. The others follow in the order of the records' members.
_FIRST = (
    *("thread_num", "team_size", "level", "kind", "name", "scope", "value", "text", "state", "status", "stuck"),
    *("confidence", "summary", "wait.kind", "wait.symbol", "wait.owner", "where", "where.function", "function"),
    *("function.function", "place", "place.function", "native_thread_id", "thread", "id"),
)
_LAST = "unavailable"


def to_dataframe(rows: Sequence[Any]) -> DataFrame:
    """Return a table with one line per record. Each member of an inner record has a separate column, for example
    ``where.line``. A place has its file and line as text, too (``where``).

    :raises Unsupported: if pandas is not installed
    """
    from ompd.safety.isolation import AwayFromHere

    try:
        with AwayFromHere():
            import pandas
    except ImportError as error:
        raise Unsupported(
            "a DataFrame needs pandas, which is not installed for this Python",
            hint="pip install pandas, or use to_dict() of each row",
        ) from error
    lines = [dict(_cells(row)) for row in rows]
    names = _in_order_of_columns(dict.fromkeys(name for line in lines for name in line), rows)
    inner_records = {name.rpartition(".")[0] for name in names}
    columns = {name: [line.get(name) for line in lines] for name in names}
    return pandas.DataFrame(
        {
            name: pandas.Series(cells, dtype=_dtype(cells))
            for name, cells in columns.items()
            # The members of an inner record have columns. The record itself has one only if it is a place with text.
            if name not in inner_records or any(cell is not None for cell in cells)
        }
    )


def _in_order_of_columns(names: Iterable[str], rows: Sequence[Any]) -> list[str]:
    members = [field.name for field in _fields(rows[0])] if rows else []

    def rank(name: str) -> tuple[bool, int, int]:
        # A column of an inner record stands where its member stands, even if the first row has no such record.
        member = name.partition(".")[0]
        return (
            name == _LAST,
            _FIRST.index(name) if name in _FIRST else len(_FIRST),
            members.index(member) if member in members else len(members),
        )

    return sorted(names, key=rank)


def _cells(row: Record, prefix: str = "") -> Iterator[tuple[str, object]]:
    for field in _fields(row):
        value = getattr(row, field.name)
        name = f"{prefix}{field.name}"
        if isinstance(value, Record):
            file, line = getattr(value, "file", None), getattr(value, "line", None)
            if file is not None and line is not None:
                yield name, f"{file.rpartition('/')[2]}:{line}"
            yield from _cells(value, f"{name}.")
        else:
            yield name, _as_dict(value)


def _dtype(cells: Sequence[object]) -> str:
    # Returns a type that has missing values. Without it pandas makes such a column floating point, and addresses lose
    # digits.
    kinds = {cell.__class__ for cell in cells if cell is not None}
    if kinds == {bool}:
        return "boolean"
    if kinds == {float}:
        return "Float64"
    numbers = [cell for cell in cells if isinstance(cell, int)]
    if kinds != {int} or min(numbers) < -(1 << 63) or max(numbers) >= 1 << 64:
        return "object"
    return "Int64" if max(numbers) < 1 << 63 else "UInt64" if min(numbers) >= 0 else "object"
