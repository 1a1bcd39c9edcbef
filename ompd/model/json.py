"""Answers as JSON: one object, whose keys are a public format (``schema``).

Answers import this module to write themselves. To avoid a cycle, it imports none of their classes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from functools import cache
from operator import attrgetter, is_
from typing import Any

from ompd.model.base import addresses_of

_SCALARS = frozenset((str, int, float, bool, type(None)))
_COMMON = 6  # fields of every answer: target, runtimes, rows, complete, warnings, query


@cache
def _names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


@cache
def _others(kind: type[Any]) -> Callable[[Any], tuple[Any, ...]]:
    # Returns a function that returns the values of all fields of a record but the first.
    names = [field.name for field in fields(kind)][1:]
    return attrgetter(*names) if len(names) > 1 else lambda record: tuple(getattr(record, name) for name in names)


def _plain(record: Any) -> dict[str, Any]:
    members: dict[str, Any] = {}
    addresses = addresses_of(record.__class__)
    for name in _names(record.__class__):
        value = getattr(record, name)
        if value.__class__ in _SCALARS:
            if name in addresses and value is not None:
                value = f"{value:#x}"
        elif hasattr(value, "__dataclass_fields__"):
            value = _plain(value)
        elif isinstance(value, Mapping):
            value = dict(value)
        elif isinstance(value, tuple) and value and hasattr(value[0], "__dataclass_fields__"):
            value = [_plain(item) for item in value]
        members[name] = value
    return members


def format_answer(command: str, answer: Any, extra: Callable[[Any], Mapping[str, object]] | None = None) -> str:
    """Return *answer* to *command* as the text of one JSON object, with a line for each key and each row.

    :param extra: returns additional keys of a row
    """
    members: dict[str, Iterable[str]] = {
        "schema": (_dump(f"ompd/{command}/1"),),
        "target": (_dump(_plain(answer.target)),),
        "runtimes": _rows(answer.runtimes),
        "complete": (_dump(answer.complete),),
        "warnings": (_dump(list(answer.warnings)),),
        command: _rows(answer.rows, extra),
    }
    for name in [field.name for field in fields(answer)][_COMMON:]:
        value = getattr(answer, name)
        plain = _plain(value) if hasattr(value, "__dataclass_fields__") else value
        if isinstance(value, tuple) and value and hasattr(value[0], "__dataclass_fields__"):
            members[name] = _rows(value)
        else:
            members[name] = _parts(value) if name == "graph" else (_dump(plain),)
    return _joined(members)


def _parts(record: Any) -> Iterator[str]:
    # Yields the text of a record all of whose fields are lists, with one line per item, because the lists may be long.
    yield "{"
    for number, name in enumerate(_names(record.__class__)):
        yield f"{', ' if number else ''}{_dump(name)}: "
        yield from _rows(getattr(record, name))
    yield "}"


def _joined(members: Mapping[str, Iterable[str]]) -> str:
    # All pieces are joined at once: the text may have megabytes, which would be copied at each step.
    pieces: list[str] = []
    for key, texts in members.items():
        pieces += (",\n" if pieces else "{\n", _dump(key), ": ")
        pieces += texts
    return "".join([*pieces, "\n}"])


def _dump(value: object) -> str:
    text = json.dumps(value, ensure_ascii=True)
    if "\\ud" in text:
        # Lone surrogates are replaced. Python uses them for undecodable bytes (PEP 383), and other JSON readers reject
        # them.
        replaced = (
            json.dumps(value, ensure_ascii=False).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        )
        text = json.dumps(json.loads(replaced), ensure_ascii=True)
    return text


def _dump_text(text: str) -> str:
    return f'"{text}"' if text.isalnum() and text.isascii() else _dump(text)


def _rows(rows: Iterable[object], extra: Callable[[Any], Mapping[str, object]] | None = None) -> Iterator[str]:
    # Yields the text of a list of rows in pieces.
    yield "["
    yield from _pieces(rows) if extra is None else _separated({**_plain(row), **extra(row)} for row in rows)
    yield "]"


def _separated(rows: Iterable[Mapping[str, object]]) -> Iterator[str]:
    comma = ""
    for row in rows:
        yield f"{comma}\n  {_dump(row)}"
        comma = ","


def _pieces(rows: Iterable[Any]) -> Iterator[str]:
    # Thousands of rows may be equal except for the id in their first field. Their common rest is formatted once.
    kind: type[Any] | None = None
    before: tuple[Any, ...] = ()
    comma = start = common = name = ""
    for row in rows:
        if row.__class__ is not kind:
            kind, before = row.__class__, ()
            name, values_of = _names(row.__class__)[0], _others(row.__class__)
            start = f"\n  {{{_dump(name)}: "
        values, key = values_of(row), getattr(row, name)
        is_text = key.__class__ is str
        if before and is_text and all(map(is_, values, before)):
            yield f",{start}{_dump_text(key)}"
            yield common
            continue
        text = f"\n  {_dump(_plain(row))}"
        before = values if is_text else ()
        common = text[len(start) + len(_dump_text(key)) :] if is_text else ""
        yield comma + text
        comma = ","


def format_snapshot(taken: Any) -> str:
    """Return a snapshot's record as the text of one JSON object."""
    return _dump({"schema": "ompd/snapshot/1", **_plain(taken)})


def format_layouts(answer: Any) -> str:
    """Return the tables of layouts as the text of one JSON object, with a line for each table and each structure."""
    members: dict[str, Iterable[str]] = {
        "schema": (_dump("ompd/layout/1"),),
        "complete": (_dump(answer.complete),),
        "warnings": (_dump(list(answer.warnings)),),
        "layout": _rows(answer.rows),
        "structs": _rows(answer.structs) if answer.structs is not None else ("null",),
    }
    return _joined(members)


def format_triage(answer: Any) -> str:
    """Return the groups as the text of one JSON object, with a line for each group, failed target and node."""
    members: dict[str, Iterable[str]] = {
        "schema": (_dump("ompd/triage/1"),),
        "key": (_dump(answer.key),),
        "inspected": (_dump(answer.inspected),),
        "complete": (_dump(answer.complete),),
        "warnings": (_dump(list(answer.warnings)),),
        "triage": _rows(answer.rows),
        "failed": _rows(answer.failed),
        "gone": _rows(answer.gone),
        "tree": _rows(answer.tree),
        "jobs": _rows(answer.jobs),
    }
    return _joined(members)


def format_conformance(answer: Any) -> str:
    """Return a library's conformance as the text of one JSON object, with a line for each finding."""
    names = [field.name for field in fields(answer) if field.name != "rows"]
    facts = {name: (_dump(getattr(answer, name)),) for name in names}
    members: dict[str, Iterable[str]] = {"schema": (_dump("ompd/conformance/1"),), "conformance": _rows(answer.rows)}
    return _joined({**members, **facts})
