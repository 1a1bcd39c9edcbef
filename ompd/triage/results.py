"""A file of results, with one JSON object per line. An interrupted triage continues from it."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO

from ompd.errors import BadFile
from ompd.safety.writing import Destination
from ompd.triage.normal import Frame
from ompd.triage.targets import Wanted

SCHEMA = "ompd/triage-results/2"

_LONGEST_LINE = 1 << 16
_ROLES = frozenset(("initial", "primary", "worker", "idle", "other"))
_MOST = 1 << 31
_MOST_ITEMS = 4096


class ResultFile:
    """A file of results, which is read once and then extended. Use it in a ``with`` statement.

    :raises BadFile: if it has another format, another triage writes to it, or another user could have written it
    """

    def __init__(self, path: str) -> None:
        self.path = path
        with Destination(path) as place:
            self._file: BinaryIO = open(place.opened(), "r+b", buffering=0)  # noqa: PTH123, SIM115
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise BadFile(path, "is being written by another triage") from error

    def __enter__(self) -> ResultFile:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._file.close()

    def kept(self, targets: Iterable[Wanted]) -> Iterator[dict[str, Any]]:
        """Yield the file's results for these targets, each once. Call it before ``add``.

        A target's result is not used if the target's file has changed, or if the target is not a file. An unfinished
        last line, which a killed triage leaves, is removed.

        :raises BadFile: if it is not a file of results
        """
        wanted = {target.name: target for target in targets}
        end = 0
        with open(os.dup(self._file.fileno()), "rb") as file:  # noqa: PTH123
            file.seek(0)
            for line, result in _lines(self.path, file):
                if not line.endswith(b"\n"):
                    break
                end += len(line)
                target = wanted.get(result["target"]) if result is not None else None
                identity = target.identity() if target is not None else None
                if result is not None and identity is not None and result["identity"] == list(identity):
                    del wanted[result["target"]]
                    yield result
        self._file.truncate(end)
        if not end:
            self._write({"schema": SCHEMA})

    def add(self, result: Mapping[str, Any]) -> None:
        """Append a result to the file.

        :raises BadFile: if there is no room
        """
        self._write(result)

    def _write(self, members: Mapping[str, Any]) -> None:
        line = json.dumps(members, separators=(",", ":")).encode("ascii") + b"\n"
        try:
            written = self._file.write(line)
        except OSError as error:
            raise BadFile(self.path, f"cannot be written: {error.strerror}") from error
        if written != len(line):
            raise BadFile(self.path, "cannot be written: there is no room")


def _lines(path: str, file: BinaryIO) -> Iterator[tuple[bytes, dict[str, Any] | None]]:
    # Yields each line with its result. The first line is the header, with None.
    number = 0
    while line := file.readline(_LONGEST_LINE):
        number += 1
        if not line.endswith(b"\n") and len(line) < _LONGEST_LINE:
            yield line, None
            return
        try:
            members = json.loads(line) if len(line) < _LONGEST_LINE else None
        except (ValueError, RecursionError):
            members = None
        if number == 1:
            if not isinstance(members, dict) or members.get("schema") != SCHEMA:
                fault = "is no file of results of this version of ompd triage"
                raise BadFile(path, fault, hint="name a file that does not exist yet")
            yield line, None
        elif not is_result(members):
            raise BadFile(path, f"has a line {number} that is no result of ompd triage")
        else:
            yield line, members


def is_result(members: Any) -> bool:
    """Return whether *members* are a valid result: all members that are used exist and have the right types."""
    if not isinstance(members, dict) or not isinstance(members.get("target"), str):
        return False
    identity = members.get("identity")
    if identity is not None and not (isinstance(identity, list) and all(type(number) is int for number in identity)):
        return False
    if "failed" in members:
        return isinstance(members["failed"], str)
    return (
        all(isinstance(members.get(name), str) for name in ("verdict", "summary"))
        and all(_is_count(members.get(name)) for name in ("rank", "size"))
        and all(isinstance(members.get(name), str | None) for name in ("job", "host"))
        and _is_list(members.get("mpi", []), _is_call)
        and _is_list(members.get("files"), lambda file: isinstance(file, str))
        and _is_list(members.get("stacks"), lambda stack: _is_stack(stack, len(members["files"])))
        and _is_list(members.get("about"), lambda index: type(index) is int and 0 <= index < len(members["stacks"]))
    )


def _is_call(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("routine"), str)
        and isinstance(value.get("link"), str | None)
        and _is_count(value.get("rank"))
        and isinstance(value.get("world"), bool | None)
    )


def _is_list(value: Any, is_item: Any) -> bool:
    return isinstance(value, list) and len(value) <= _MOST_ITEMS and all(map(is_item, value))


def _is_count(value: Any) -> bool:
    return value is None or (type(value) is int and 0 <= value < _MOST)


def _is_stack(value: Any, files: int) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("threads"), dict)
        and value["threads"].keys() <= _ROLES
        and all(_is_count(count) and count is not None for count in value["threads"].values())
        and _is_list(value.get("frames"), lambda frame: _is_frame(frame, files))
    )


def _is_frame(value: Any, files: int) -> bool:
    if not isinstance(value, list) or len(value) != len(Frame._fields):
        return False
    function, file, line, loop, depth, construct = value
    return (
        isinstance(function, str | None)
        and (file is None or (type(file) is int and 0 <= file < files))
        and all(map(_is_count, (line, loop)))
        and type(depth) is int
        and 0 < depth < _MOST
        and isinstance(construct, str | None)
    )


def frames_of(result: Mapping[str, Any], number: int) -> tuple[Frame, ...]:
    """Return the frames of the stack with a number in a result, outermost first."""
    files = result["files"]
    return tuple(
        Frame(function, files[file] if file is not None else None, line, loop, depth, construct)
        for function, file, line, loop, depth, construct in result["stacks"][number]["frames"]
    )
