"""Records as plain values of JSON, in which everything that may come from the target is marked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any

from ompd.model.base import Record, addresses_of
from ompd.model.kinds import Word
from ompd.records import record
from ompd.render.words import clean

DATA = "data"
"""The key of a marked text: ``{"data": "the text"}``."""

# Members with a word of a closed vocabulary. Text of all other members is marked.
_WORDS = frozenset(
    (
        *("kind", "state", "state_source", "thread_type", "source", "how", "owner_source", "mechanism", "boundaries"),
        *("sharing", "signal_name", "takes", "runtime"),
    )
)
_WORD = re.compile(r"[\w.#-]{1,40}", re.ASCII)
_NUMBERS = frozenset(("threads", "thread_nums", "roots", "missing"))
# What fewer readers need than it takes space.
_LEFT_OUT: Mapping[str, frozenset[str]] = {
    "VerdictRecord": frozenset(("stacks", "sources", "explains", "next_step")),
    "Link": frozenset(("threads", "ancestors")),
    "StackFrame": frozenset(("cfa", "task", "thread", "idle_loop", "address")),
    "StackRecord": frozenset(("native_thread_id", "thread_num", "parallel", "ancestors", "si_code")),
    "ThreadRecord": frozenset(
        (
            *("wait_id", "task", "parallel", "address", "tool_data", "si_code", "ompt_id", "ompt_state"),
            *("active_level", "native_thread_id", "thread_num"),
        )
    ),
    "Wait": frozenset(("owner_address", "owner_value", "value", "generation", "loop")),
    "VariableRecord": frozenset(("value", "digest", "parallel", "native_thread_id", "thread_num", "ancestors")),
    "LocalRecord": frozenset(("value", "address")),
    "DistinctValue": frozenset(("value",)),
}


@record
class Limits:
    """How much of a record is shown: the most items of a list, and the most characters of a text."""

    items: int
    characters: int


def marked(text: str, limits: Limits) -> dict[str, str]:
    """Return a text as data: control characters are escaped, and its end is left out if it is long."""
    whole = clean(text[: limits.characters + 1]).encode("utf-8", "replace").decode("utf-8")
    return {DATA: whole if len(whole) <= limits.characters else f"{whole[: limits.characters - 1]}…"}


def plain(value: Record, limits: Limits) -> dict[str, Any]:
    """Return a record's members. Members without a value are absent, and those with the default value, too.

    ``omitted`` has the number of items of lists that are left out.
    """
    kind: Any = value.__class__
    left_out = _LEFT_OUT.get(kind.__name__, frozenset())
    members: dict[str, Any] = {}
    omitted: dict[str, int] = {}
    for field in fields(kind):
        name, item = field.name, getattr(value, field.name)
        default = field.default_factory() if field.default_factory is not MISSING else field.default
        if item is None or item == default or name in left_out:
            continue
        if isinstance(item, tuple) and name in _NUMBERS:
            members[name], left = numbers(item, limits.items)
        elif isinstance(item, tuple):
            members[name] = [_plain(each, name, limits) for each in item[: limits.items]]
            left = max(0, len(item) - limits.items)
        elif isinstance(item, Mapping):
            shown = [key for key in item if key.partition(".")[0] not in left_out and _WORD.fullmatch(key)]
            members[name] = {key: marked(item[key], limits) for key in shown[: limits.items]}
            left = max(0, len(shown) - limits.items)
            if not shown:
                del members[name]
        elif name in addresses_of(kind) and isinstance(item, int):
            members[name], left = f"{item:#x}", 0
        else:
            members[name], left = _plain(item, name, limits), 0
        if left:
            omitted[name] = left
    if omitted:
        members["omitted"] = omitted
    return members


def _plain(item: Any, name: str, limits: Limits) -> Any:
    if isinstance(item, Record):
        return plain(item, limits)
    if isinstance(item, Word) or (name in _WORDS and isinstance(item, str) and _WORD.fullmatch(item)):
        return str(item)
    if item is None or isinstance(item, bool | int):
        return item
    return marked(str(item), limits)


def numbers(values: Sequence[int | None], most: int) -> tuple[str, int]:
    """Return numbers in order as text, ``3,5-9``, and how many are left out because there are more than *most* ranges.

    An unknown number is ``?``.
    """
    ranges: list[list[int]] = []
    for value in sorted({value for value in values if value is not None}):
        if ranges and ranges[-1][1] == value - 1:
            ranges[-1][1] = value
        else:
            ranges.append([value, value])
    texts = [f"{first}" if first == last else f"{first}-{last}" for first, last in ranges[:most]]
    left = sum(last - first + 1 for first, last in ranges[most:])
    return ",".join(texts + (["?"] if None in values else [])), left
