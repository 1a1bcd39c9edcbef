"""Find wrong facts in the answers about a damaged core, by comparison with the answers about the intact core.

A fact is a value in a row: one that is not null, or a null that means absence because the row does not list it as
unavailable. A damaged core may yield fewer facts, but never different ones.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ompd.model import Answer
from ompd.render.json import format_answer

# The members that identify the row of the same thing in both answers.
IDENTITY: Mapping[str, tuple[str, ...]] = {
    "runtimes": ("id",),
    "threads": ("native_thread_id",),
    "parallel": ("id",),
    "tasks": ("id",),
    "stack": ("native_thread_id",),
    "var": ("native_thread_id",),
    "icvs": ("runtime", "name", "scope", "handle"),
}
# Members about the answer, not about the process. Frames are compared apart.
_ABOUT = frozenset(("unavailable", "unproven", "innermost", "stopped", "boundaries", "frames", "thread_nums"))
# Members that every frame has, and members that may be unknown.
_FRAME = ("address", "cfa", "kind", "thread", "signal", "inlined")
_TOLD_OF_FRAME = ("function", "file", "line", "task", "construct", "module")
_TARGET = ("kind", "architecture", "executable", "process_id", "command", "signal", "signal_name", "thread_count")

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Compared:
    """The comparison of one answer: *told* of the intact answer's *of* facts are equal; *wrong* lists the errors."""

    told: int
    of: int
    wrong: tuple[str, ...]


def as_json(command: str, answer: Answer[Any]) -> dict[str, Any]:
    """Return *answer* as a script would read it from JSON."""
    parsed: dict[str, Any] = json.loads(format_answer(command, answer))
    return parsed


def compare(command: str, intact: Mapping[str, Any], damaged: Mapping[str, Any] | None) -> Compared:
    """Compare two answers to *command*, in JSON. None stands for a missing answer, which has no facts.

    Missing rows are no error if the answer calls itself incomplete.
    """
    if command == "why":
        return _compare_verdicts(intact["why"], damaged["why"] if damaged is not None else ())
    if command == "doctor":
        return _compare_findings(intact, damaged)
    every = {_identity(command, row): row for row in intact[command]}
    of = sum(1 for row in every.values() for _ in _leaves(row))
    if damaged is None:
        return Compared(0, of, ())
    wrong = [
        f"target.{key} is {damaged['target'][key]!r}, not {intact['target'][key]!r}"
        for key in _TARGET
        if damaged["target"][key] is not None and not _same(key, damaged["target"][key], intact["target"][key])
    ]
    told = 0
    rows: Sequence[Row] = damaged[command]
    for row in rows:
        true = _find(command, every, row)
        if true is None:
            wrong.append(f"there is no row {_identity(command, row)}")
            continue
        expected = dict(_leaves(true))
        for path, value in _leaves(row):
            if (path in expected and _same(path, value, expected[path])) or (
                path not in expected and value is None and _is_below_none(path, expected)
            ):
                told += 1
            elif not _is_coarser(path, value, expected):
                wrong.append(f"{_identity(command, row)}: {path} is {value!r}, not {expected.get(path, 'unknown')!r}")
        if command == "stack":
            wrong += (f"{_identity(command, row)}: {fault}" for fault in _wrong_frames(row, true))
    if damaged["complete"] and len(rows) != len(intact[command]):
        wrong.append(f"{len(rows)} of {len(intact[command])} rows, and the answer is called complete")
    return Compared(told, of, tuple(wrong))


def _compare_verdicts(intact: Sequence[Row], damaged: Sequence[Row]) -> Compared:
    # A damaged core may have weaker or different verdicts, but it must not prove more than the intact core.
    proven, other = ({native for row in rows if row["stuck"] == "proven" for native in row["explains"]}
                     for rows in (intact, damaged))  # fmt: skip
    wrong = tuple(f"thread {native} is proven to be stuck" for native in sorted(other - proven))
    return Compared(len(other & proven), len(proven), wrong)


def _compare_findings(intact: Row, damaged: Row | None) -> Compared:
    # A damaged core has additional findings on its losses and on files that cannot be verified. Its findings on the
    # process itself must also be findings on the intact core. Numbers may be lower if the finding says so.
    def risks(answer: Row) -> set[str]:
        return {row["kind"] for row in answer["doctor"] if row["finding"] is not None and _is_of_the_process(row)}

    if damaged is None:
        return Compared(0, len(risks(intact)), ())
    wrong = [f"{kind} is found" for kind in sorted(risks(damaged) - risks(intact))]
    wrong += [f"{text!r} is in order" for text in damaged["in_order"] if text not in intact["in_order"]]
    untold = any(row["finding"] is None for row in damaged["doctor"])
    if damaged["complete"] and not untold and risks(damaged) != risks(intact):
        wrong.append(f"{risks(intact) - risks(damaged)} are not found, and the answer is called complete")
    return Compared(len(risks(damaged) & risks(intact)), len(risks(intact)), tuple(wrong))


def _is_of_the_process(row: Row) -> bool:
    return row["area"] == "process" or row["kind"] in ("omp_debug", "debug_information", "no_runtime")


def _wrong_frames(row: Row, true: Row) -> Iterator[str]:
    # Frames may be missing if the row says so, and frames may be marked as guesses. All others must be frames of the
    # intact core. Frames in unknown code have no facts to compare.
    known = [frame for frame in row["frames"] if not frame["guessed"] and frame["kind"] != "unknown"]
    rest = iter(true["frames"])
    for frame in known:
        for other in rest:
            if _is_same_frame(frame, other):
                break
        else:
            yield f"the frame {frame} is none of {true['frames']}"
            return
    if len(row["frames"]) < len(true["frames"]) and row["stopped"] is None:
        yield f"{len(row['frames'])} of {len(true['frames'])} frames, and the stack is called whole"


def _is_same_frame(frame: Row, true: Row) -> bool:
    for key in _FRAME:
        # Only a frame with a known function shows whether it is inlined.
        if frame[key] != true[key] and not (key == "inlined" and frame["function"] is None):
            return False
    told = [key for key in _TOLD_OF_FRAME if frame[key] is not None and not _same(key, frame[key], true[key])]
    return not told or (told == ["construct"] and _is_part(frame["construct"], true["construct"]))


def _is_part(construct: Row, true: Row | None) -> bool:
    return true is not None and all(value is None or value == true[key] for key, value in construct.items())


def _identity(command: str, row: Row) -> tuple[object, ...]:
    return tuple(row[key] for key in IDENTITY[command])


def _find(command: str, every: Mapping[tuple[object, ...], Row], row: Row) -> Row | None:
    if command == "threads" and row["native_thread_id"] is None and "native_thread_id" in row["unavailable"]:
        return next((true for true in every.values() if true["address"] == row["address"]), None)
    return every.get(_identity(command, row))


def _leaves(row: Row) -> Iterator[tuple[str, object]]:
    # Yield each fact of a row by its path. Unavailable members are no facts.
    unavailable = row["unavailable"]

    def walk(path: str, value: Any) -> Iterator[tuple[str, object]]:
        if path in unavailable:
            return
        if isinstance(value, Mapping):
            for key, part in value.items():
                if key not in _ABOUT:
                    yield from walk(f"{path}.{key}", part)
        elif isinstance(value, list):
            for number, part in enumerate(value):
                yield from walk(f"{path}[{number}]", part)
        else:
            yield path, value

    for key, value in row.items():
        if key not in _ABOUT:
            yield from walk(key, value)


def _same(path: str, value: object, true: object) -> bool:
    if value == true:
        return True
    # A file has several names: the loader's list and the kernel's notes may use different ones.
    is_file = path in ("file", "executable", "module") and isinstance(value, str) and isinstance(true, str)
    return is_file and os.path.realpath(str(value)) == os.path.realpath(str(true))


def _is_below_none(path: str, expected: Mapping[str, object]) -> bool:
    return any(path.startswith((f"{known}.", f"{known}[")) and value is None for known, value in expected.items())


def _is_coarser(path: str, value: object, expected: Mapping[str, object]) -> bool:
    # A place may lack its function or line if their file is unknown: that is less, but not wrong.
    return value is None and path.partition(".")[0] in ("where", "function") and path in expected
