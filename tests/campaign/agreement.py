"""A process that stands still, its core, and snapshots of both are one moment: what is told of one is told of all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.support.comparing import IDENTITY, compare

Answer = Mapping[str, Any]

DIFFERENT: Mapping[str, str] = {
    "target.kind": "a process is `live`, all others are cores",
    "target.file": "the core that was read",
    "target.stops_ns": "only a process is stopped",
    "target.command": "gdb writes no arguments of a process that it attached to; snapshots leave folders out",
    "target.signal": "a snapshot of a process has SIGSTOP, since LLDB waits for a signal in a core",
    "target.signal_name": "as `target.signal`",
}
"""Where such answers may differ, and why."""
LINES = "snapshots leave out the debug information of the C library's own files"
"""Why frames of the system may differ in ``file``, ``line``, which of its names a function is called by, and in
functions that are inlined."""
_NO_LINES: Mapping[str, None] = dict.fromkeys(("function", "file", "line", "unavailable"))

NOT_COMPARED: Mapping[str, str] = {
    "why": "timers and handlers of signals, which may set threads free, are known of a process only",
}
"""Which questions may be answered differently, and why."""

_MOST = 5  # differences that are worded of two answers


def disagreements(
    one: Mapping[str, Answer], other: Mapping[str, Answer], names: tuple[str, str] = ("one", "other")
) -> list[str]:
    """Return what answers to the same questions say otherwise.

    Where both are complete, all has to be equal but what :data:`DIFFERENT` names. Else they may tell less than one
    another, and nothing else.

    :param names: what was asked
    """
    found = []
    for command in one:
        if command not in other or command in NOT_COMPARED:
            continue
        first, second = one[command], other[command]
        if command in ("stack", "raw"):
            first, second = _without_lines(first), _without_lines(second)
        if first["complete"] and second["complete"]:
            differences = list(_differences(command, first, second))
        elif command in IDENTITY and (first["complete"] or second["complete"]):
            whole, part = (first, second) if first["complete"] else (second, first)
            differences = list(compare(command, _plain(whole), _plain(part)).wrong)
        else:
            differences = []
        found += [f"{command} of {names[0]} and {names[1]}: {text}" for text in differences[:_MOST]]
        if len(differences) > _MOST:
            found.append(f"{command} of {names[0]} and {names[1]}: {len(differences) - _MOST} further differences")
    return found


def _without_lines(answer: Answer) -> dict[str, Any]:
    # See LINES.
    rows = []
    for row in answer["stack"]:
        frames = [
            {**frame, **_NO_LINES} if frame["kind"] == "system" else frame
            for frame in row["frames"]
            if frame["kind"] != "system" or not frame["inlined"]
        ]
        rows.append({**row, "frames": frames})
    return {**answer, "stack": rows}


def _plain(answer: Answer) -> dict[str, Any]:
    # Without what may differ anyway.
    target = {key: None if f"target.{key}" in DIFFERENT else value for key, value in answer["target"].items()}
    return {**answer, "target": target}


def _differences(path: str, one: Any, other: Any) -> Iterator[str]:
    if path.partition(".")[2] in DIFFERENT:
        return
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in sorted(set(one) | set(other)):
            if key not in one or key not in other:
                yield f"{path}.{key} is told of only one of them"
            else:
                yield from _differences(f"{path}.{key}", one[key], other[key])
    elif isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            yield f"{path} has {len(one)} and {len(other)} rows"
        for number, (first, second) in enumerate(zip(one, other, strict=False)):
            yield from _differences(f"{path}[{number}]", first, second)
    elif one != other:
        yield f"{path} is {one!r} and {other!r}"
