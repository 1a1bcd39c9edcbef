"""Answers that were saved as JSON, read back as records.

The file may be anybody's: what is not as the schema has it is refused, and nothing in it is taken for more than data.
"""

from __future__ import annotations

import json
import os
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any

from ompd import model
from ompd.errors import BadFile
from ompd.model import Answer
from ompd.model.base import addresses_of
from ompd.safety.reading import open_regular, read_head

_MOST_BYTES = 1 << 28
# Whose rows can be compared.
_ROWS: Mapping[str, type[Any]] = {
    "threads": model.ThreadRecord,
    "tasks": model.TaskRecord,
    "parallel": model.ParallelRecord,
}


class _Wrong(Exception):
    """The file is not as the schema has it; the text says where."""


def is_saved(path: str) -> bool:
    """Return whether the file begins as an object in JSON does."""
    try:
        return read_head(path, 64).lstrip().startswith(b"{")
    except (BadFile, OSError, ValueError):
        return False


def read_answer(path: str) -> tuple[str, Answer[Any]]:
    """Return which command's answer the file at *path* is, and that answer.

    :raises BadFile: if it is not the JSON of ``threads``, ``tasks`` or ``parallel``
    """
    try:
        descriptor, status = open_regular(path)
        with os.fdopen(descriptor, "rb") as stream:
            if status.st_size > _MOST_BYTES:
                raise _Wrong("is larger than any answer")
            text = stream.read(_MOST_BYTES)
        return _answer(json.loads(text))
    except _Wrong as error:
        hint = "compare two files of `ompd threads --json`, of `tasks --json` or of `parallel --json`"
        raise BadFile(path, str(error), hint=hint) from error
    except (ValueError, RecursionError) as error:
        raise BadFile(path, "is not JSON that ompd wrote") from error


def _answer(value: Any) -> tuple[str, Answer[Any]]:
    if not isinstance(value, dict):
        raise _Wrong("is not JSON that ompd wrote")
    schema = value.get("schema")
    command = next((name for name in _ROWS if schema == f"ompd/{name}/1"), None)
    if command is None:
        raise _Wrong("is not an answer that can be compared")
    rows, runtimes = value.get(command), value.get("runtimes")
    if not isinstance(rows, list) or not isinstance(runtimes, list):
        raise _Wrong("is not as its schema has it")
    return command, Answer(
        _record(model.TargetRecord, value.get("target")),
        tuple(_record(model.RuntimeRecord, runtime) for runtime in runtimes),
        tuple(_record(_ROWS[command], row) for row in rows),
        _value(bool, value.get("complete")),
        _value(tuple[str, ...], value.get("warnings")),
        query=command,
    )


def _record(kind: type[Any], value: Any) -> Any:
    if not isinstance(value, dict):
        raise _Wrong(f"has no {kind.__name__} where there should be one")
    hints, addresses = _hints(typing.cast("Any", kind)), addresses_of(typing.cast("Any", kind))
    given: dict[str, Any] = {}
    for member in fields(kind):
        if member.name not in value:
            if member.default is MISSING and member.default_factory is MISSING:
                raise _Wrong(f"has a {kind.__name__} without {member.name}")
            continue  # of an earlier release
        item = value[member.name]
        given[member.name] = _address(item) if member.name in addresses else _value(hints[member.name], item)
    return kind(**given)


@cache
def _hints(kind: type[Any]) -> Mapping[str, Any]:
    return typing.get_type_hints(kind)


def _address(value: Any) -> int | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value.startswith("0x") or len(value) > 18:
        raise _Wrong("has an address that is none")
    return int(value, 16)


def _value(hint: Any, value: Any) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        (hint,) = (argument for argument in arguments if argument is not type(None))
        return _value(hint, value)
    if is_dataclass(hint):
        return _record(typing.cast("type[Any]", hint), value)
    if origin is tuple and isinstance(value, list):
        return tuple(_value(arguments[0], item) for item in value)
    if origin is not None and origin is not tuple and isinstance(value, dict):
        return {name: _value(arguments[1], item) for name, item in value.items()}
    if hint in (int, bool, str) and type(value) is hint:
        return value
    raise _Wrong("is not as its schema has it")
