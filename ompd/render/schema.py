"""The JSON Schema (draft 2020-12) of each command's output, made from the records' types, so that both always
agree.
"""

from __future__ import annotations

import json
import re
import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from ompd import model
from ompd.model import conformance, layouts, triage
from ompd.model.base import addresses_of
from ompd.model.kinds import Word

ROWS: Mapping[str, type[Any]] = {
    "runtimes": model.RuntimeRecord,
    "threads": model.ThreadRecord,
    "parallel": model.ParallelRecord,
    "tasks": model.TaskRecord,
    "stack": model.StackRecord,
    "icvs": model.IcvRecord,
    "var": model.VariableRecord,
    "why": model.VerdictRecord,
    "doctor": model.FindingRecord,
    "check": model.DifferenceRecord,
    "diff": model.ThreadChange,
    "profile": model.RegionProfile,
    "conformance": conformance.ConformanceFinding,
    "layout": layouts.LayoutRecord,
    "triage": triage.TriageRecord,
}
"""The record of each command's rows."""
ANSWERS: Mapping[str, type[Any]] = {
    "var": model.VariableAnswer,
    "why": model.WhyAnswer,
    "doctor": model.DoctorAnswer,
    "check": model.CheckAnswer,
    "diff": model.DiffAnswer,
    "profile": model.ProfileAnswer,
    "conformance": conformance.ConformanceAnswer,
    "layout": layouts.LayoutAnswer,
    "triage": triage.TriageAnswer,
}
"""Answers that have more than rows."""
_WITHOUT_TARGET = frozenset(("conformance", "layout", "triage"))

_PLAIN: Mapping[type[Any], str] = {int: "integer", bool: "boolean", str: "string", float: "number"}
_ADDRESS = {"type": "string", "pattern": "^0x[0-9a-f]+$"}


def format_schema(command: str) -> str:
    """Return the schema of the answer to *command* as the text of a JSON object."""
    definitions: dict[str, Any] = {}
    rows = {"type": "array", "items": _of_record(ROWS[command], definitions)}
    members = {
        "schema": {"const": f"ompd/{command}/1"},
        "target": _of_record(model.TargetRecord, definitions),
        "runtimes": {"type": "array", "items": _of_record(model.RuntimeRecord, definitions)},
        "complete": {"type": "boolean", "description": "False if parts of the target could not be read."},
        "warnings": {"type": "array", "items": {"type": "string"}},
        command: rows,
    }
    if command in ANSWERS:
        if command in _WITHOUT_TARGET:
            del members["target"], members["runtimes"]
        hints, common = typing.get_type_hints(ANSWERS[command]), {field.name for field in fields(model.Answer)}
        names = (field.name for field in fields(ANSWERS[command]) if field.name not in common)
        members |= {name: _of_type(hints[name], definitions) for name in names}
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"ompd {command} --json",
        "type": "object",
        "required": list(members),
        "properties": members,
        "$defs": definitions,
    }
    return json.dumps(schema, indent=2)


def _of_record(record: type[Any], definitions: dict[str, Any]) -> dict[str, Any]:
    name = record.__name__
    if name not in definitions:
        definitions[name] = {}  # it may refer to itself
        hints = typing.get_type_hints(record)
        names = [field.name for field in fields(record)]
        addresses = addresses_of(typing.cast("Any", record))
        # Any later version may add keys.
        definitions[name] = {
            "type": "object",
            "description": _description(record.__doc__ or ""),
            "required": names,
            "properties": {
                field: _of_address(hints[field]) if field in addresses else _of_type(hints[field], definitions)
                for field in names
            },
        }
    return {"$ref": f"#/$defs/{name}"}


def _description(text: str) -> str:
    # The docstring of a record as plain text; it explains the record and then its members.
    plain = re.sub(r":\w+:`~?([^`]*)`", r"\1", text).replace("``", "")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in plain.split("\n\n"))


def _of_address(hint: Any) -> dict[str, Any]:
    return {"anyOf": [_ADDRESS, {"type": "null"}]} if type(None) in typing.get_args(hint) else _ADDRESS


def _of_type(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return {}
    if hint is type(None):
        return {"type": "null"}
    if hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    if isinstance(hint, type) and issubclass(hint, Word):
        return {"type": "string"}
    if is_dataclass(hint):
        return _of_record(typing.cast("type[Any]", hint), definitions)
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [_of_type(argument, definitions) for argument in arguments]}
    if origin is tuple:
        return {"type": "array", "items": _of_type(arguments[0], definitions)}
    return {"type": "object", "additionalProperties": _of_type(arguments[1], definitions)}
