"""Answers as JSON: one object, whose keys are a public format (``schema``)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from ompd.model import Answer

# Addresses are strings: JSON's numbers end at 2**53 in most readers, and people read addresses in hexadecimal.
_ADDRESSES = frozenset(("address", "wait_id", "object"))


def _plain(record: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in (field.name for field in fields(record)):
        value = getattr(record, name)
        if value is not None and name in _ADDRESSES:
            value = f"{value:#x}"
        elif hasattr(value, "__dataclass_fields__"):
            value = _plain(value)
        elif isinstance(value, Mapping):
            value = dict(value)
        found[name] = value
    return found


def format_answer(command: str, answer: Answer[Any]) -> str:
    """Return *answer* to *command* as the text of one JSON object."""
    found = {
        "schema": f"ompd/{command}/1",
        "target": _plain(answer.target),
        "runtimes": [_plain(runtime) for runtime in answer.runtimes],
        "complete": answer.complete,
        "warnings": list(answer.warnings),
        command: [_plain(row) for row in answer.rows],
    }
    return json.dumps(found, indent=2, ensure_ascii=True)
