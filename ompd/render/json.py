"""Answers as JSON: one object, whose keys are a public format (``schema``)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from functools import cache
from typing import Any

from ompd.model import Answer, LayoutAnswer, SnapshotRecord

# Addresses are strings: JSON's numbers end at 2**53 in most readers, and people read addresses in hexadecimal.
ADDRESSES = frozenset(("address", "cfa", "wait_id", "object", "tool_data", "si_addr", "event"))
"""Keys whose values are addresses, or words that may be."""


_SCALARS = frozenset((str, int, float, bool, type(None)))
_COMMON = 5  # what every answer has: target, runtimes, rows, complete, warnings


@cache
def _names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def _plain(record: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in _names(record.__class__):
        value = getattr(record, name)
        if value.__class__ in _SCALARS:
            if name in ADDRESSES and value is not None:
                value = f"{value:#x}"
        elif hasattr(value, "__dataclass_fields__"):
            value = _plain(value)
        elif isinstance(value, Mapping):
            value = dict(value)
        elif isinstance(value, tuple) and value and hasattr(value[0], "__dataclass_fields__"):
            value = [_plain(item) for item in value]
        found[name] = value
    return found


def format_answer(command: str, answer: Answer[Any], extra: Callable[[Any], Mapping[str, object]] | None = None) -> str:
    """Return *answer* to *command* as the text of one JSON object, with a line for each key and each row.

    :param extra: returns keys that a row has besides its own
    """
    members = {
        "schema": _dump(f"ompd/{command}/1"),
        "target": _dump(_plain(answer.target)),
        "runtimes": _dump_rows(answer.runtimes),
        "complete": _dump(answer.complete),
        "warnings": _dump(list(answer.warnings)),
        command: _dump_rows(answer.rows, extra),
    }
    for name in [field.name for field in fields(answer)][_COMMON:]:
        value = getattr(answer, name)
        members[name] = _dump(_plain(value) if value is not None else None)
    return "{\n" + ",\n".join(f"{_dump(key)}: {text}" for key, text in members.items()) + "\n}"


def _dump(value: object) -> str:
    text = json.dumps(value, ensure_ascii=True)
    if "\\ud" in text:
        # Python's own stand-ins for bytes that are no text (PEP 383) are half of a pair, which no other reader takes.
        whole = (
            json.dumps(value, ensure_ascii=False).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        )
        text = json.dumps(json.loads(whole), ensure_ascii=True)
    return text


def _dump_rows(rows: Iterable[object], extra: Callable[[Any], Mapping[str, object]] | None = None) -> str:
    if extra is not None:
        return "[" + ",".join(f"\n  {_dump({**_plain(row), **extra(row)})}" for row in rows) + "]"
    return "[" + ",".join(f"\n  {_dump(_plain(row))}" for row in rows) + "]"


def format_snapshot(taken: SnapshotRecord) -> str:
    """Return what was written as the text of one JSON object."""
    return _dump({"schema": "ompd/snapshot/1", **_plain(taken)})


def format_layouts(answer: LayoutAnswer) -> str:
    """Return the tables of layouts as the text of one JSON object, with a line for each of them and each structure."""
    members = {
        "schema": _dump("ompd/layout/1"),
        "complete": _dump(answer.complete),
        "warnings": _dump(list(answer.warnings)),
        "layout": _dump_rows(answer.rows),
        "structs": _dump_rows(answer.structs) if answer.structs is not None else "null",
    }
    return "{\n" + ",\n".join(f"{_dump(key)}: {text}" for key, text in members.items()) + "\n}"
