"""An earlier triage. Compared with it, groups are new, grown, fewer, the same or gone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ompd.errors import BadFile
from ompd.model.triage import GoneGroup
from ompd.safety.reading import open_paged
from ompd.triage.normal import KEY

_LARGEST = 1 << 28
_MOST_TEXT = 400


class Baseline:
    """The groups of an earlier triage, by their ids."""

    def __init__(self, groups: Mapping[str, GoneGroup]) -> None:
        self.groups = groups

    def before(self, key: str) -> int | None:
        """Return the group's former number of targets, None if there was no such group."""
        group = self.groups.get(key)
        return group.before if group is not None else None


def read_baseline(path: str) -> Baseline:
    """Return the groups in a file that ``ompd triage --json`` has written.

    :raises BadFile: if it is not such a file, or its groups were made by other rules
    """
    with open_paged(path) as data:
        if len(data) > _LARGEST:
            raise BadFile(path, f"has more than {_LARGEST >> 20} MB, which no answer of ompd triage has")
        try:
            answer = json.loads(bytes(data))
        except (ValueError, RecursionError):
            answer = None
    rows = answer.get("triage") if isinstance(answer, dict) and answer.get("schema") == "ompd/triage/1" else None
    if not isinstance(rows, list):
        raise BadFile(path, "is no answer of ompd triage", hint="write one by `ompd triage --json … > FILE`")
    if answer.get("key") != KEY:
        raise BadFile(
            path,
            f"has groups made by the rules of key {answer.get('key')!r:.20}, not {KEY}",
            hint="inspect those targets again",
        )
    return Baseline({row["id"]: _group(row) for row in rows if _is_row(row)})


def _is_row(row: Any) -> bool:
    return (
        isinstance(row, dict)
        and all(isinstance(row.get(name), str) for name in ("id", "verdict", "summary"))
        and isinstance(row.get("targets"), list)
    )


def _group(row: Mapping[str, Any]) -> GoneGroup:
    return GoneGroup(row["id"], row["verdict"][:_MOST_TEXT], row["summary"][:_MOST_TEXT], len(row["targets"]))
