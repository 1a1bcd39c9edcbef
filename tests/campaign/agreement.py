"""Compare answers about a stopped process, its core, and snapshots of both. All show one moment and must agree."""

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
"""The fields in which answers about one moment may differ, each with the reason."""
LINES = "snapshots leave out the debug information of the C library's own files"
"""The reason why system frames may differ in ``file``, ``line``, the chosen name of a function, and inlined
functions."""
_NO_LINES: Mapping[str, None] = dict.fromkeys(("function", "file", "line", "unavailable"))

NOT_COMPARED: Mapping[str, str] = {
    "why": "timers and handlers of signals, which may set threads free, are known of a process only",
}
"""The questions whose answers are not compared, with the reason."""

_MOST = 5  # differences to report for two answers


def disagreements(
    one: Mapping[str, Answer], other: Mapping[str, Answer], names: tuple[str, str] = ("one", "other")
) -> list[str]:
    """Return the contradictions between answers to the same questions.

    Two complete answers must be equal except in :data:`DIFFERENT`. If one is incomplete, it may have fewer facts, but
    no other ones; only the questions in ``IDENTITY`` are compared so. Two incomplete answers are not compared.

    :param names: the names of the two targets
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
    # Leave out the facts that may differ anyway.
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
