"""Answers in pages: each is small, and a cursor leads to the next one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from ompd.errors import BadInput
from ompd.mcp.marking import Limits, plain
from ompd.model.base import Record
from ompd.records import record

MOST_BYTES = 8192
"""The largest answer in bytes, its structured content and its text together."""

_AROUND = 400  # bytes for what the protocol adds, and for the cursor
_KEPT = 8  # answers whose further pages can be requested
# A row that does not fit is shortened step by step.
LIMITS = (
    *(Limits(16, 400), Limits(16, 160), Limits(16, 80)),
    *(Limits(8, 60), Limits(4, 40), Limits(2, 30), Limits(1, 20)),
)
_NOTHING = {"omitted": {"row": 1}}


@record
class Row:
    """A row of an answer: a record, and members beside those of the record."""

    record: Record | None
    more: Mapping[str, Any] = field(default_factory=dict)

    def shown(self, limits: Limits) -> dict[str, Any]:
        """Return the members."""
        return {**(plain(self.record, limits) if self.record is not None else {}), **self.more}


@record
class _Kept:
    tool: str
    head: dict[str, Any]
    rows: Sequence[Row]


class BadCall(BadInput):
    """A call that no tool can answer: the tool, an argument, the target or the cursor is wrong."""


class Pages:
    """The pages of the latest answers. All pages of an answer are of one moment of the target."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}
        self._count = 0

    def first(self, tool: str, head: dict[str, Any], rows: Sequence[Row]) -> dict[str, Any]:
        """Return the first page of an answer.

        :param head: what each page begins with
        """
        self._count += 1
        number = str(self._count)
        self._kept[number] = _Kept(tool, head, rows)
        self._kept.pop(str(self._count - _KEPT), None)
        return self._page(number, 0)

    def next(self, tool: str, cursor: str) -> dict[str, Any]:
        """Return the page that *cursor* names.

        :raises BadCall: if there is no such page, or its answer is no longer kept
        """
        number, _, row = cursor.partition("-")
        kept = self._kept.get(number)
        if kept is None or kept.tool != tool or not row.isdecimal() or len(row) > 9 or int(row) >= len(kept.rows):
            raise BadCall("no page of this tool has this cursor, or it is no longer kept: call without it")
        return self._page(number, int(row))

    def _page(self, number: str, start: int) -> dict[str, Any]:
        kept = self._kept[number]
        page: dict[str, Any] = {**kept.head, "all_rows": len(kept.rows), "rows": []}
        left = MOST_BYTES - _AROUND - size_of(page)
        for row in kept.rows[start:]:
            # Only the first row of a page is shortened: any other one can wait for the next page.
            for limits in LIMITS[: 1 if page["rows"] else None]:
                shown = row.shown(limits)
                if size_of(shown) <= left:
                    break
            else:
                if page["rows"]:
                    break
                shown = _NOTHING
            page["rows"].append(shown)
            left -= size_of(shown) + 3
        end = start + len(page["rows"])
        if end < len(kept.rows):
            page["next_cursor"] = f"{number}-{end}"
        return page


def size_of(value: Any) -> int:
    """Return the bytes that a value needs in an answer: once as structured content, once as text inside of JSON."""
    text = text_of(value)
    return len(text.encode()) + len(json.dumps(text, ensure_ascii=False).encode())


def text_of(value: Any) -> str:
    """Return a value as compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
