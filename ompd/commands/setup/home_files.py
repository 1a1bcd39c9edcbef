"""The files that ``ompd setup`` writes into a user's home: completion, the manual page, the debuggers' start files.

Files that ``ompd`` wrote have a mark in their first lines; no other file is replaced or removed. Links out of the home
are not followed, because the files behind them may belong to other users or have other readers.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ompd.commands.setup import completion, manual, start_files
from ompd.debugger.targets.lldb.install import find_commands
from ompd.errors import BadFile, OmpdError
from ompd.records import record
from ompd.safety.writing import Destination, make_folder

_HEAD = 400  # bytes at the start of a file that are searched for the mark


@record
class _File:
    # A file that ompd writes: its text, its mark, the folder that it must be in after links are resolved, and a note
    # with the user's next step.
    path: Path
    text: str
    mark: str
    base: Path
    note: str = ""


def set_up(page: str, *, dry_run: bool = False, undo: bool = False) -> tuple[list[str], list[OmpdError]]:
    """Write all files, or remove them, and return messages about the changes, and the errors.

    :param page: the text of the manual page
    :raises BadFile: if there is no home
    """
    start_files.home()
    reports: list[str] = []
    refused: list[OmpdError] = []
    for file in _files(page, every=undo):
        try:
            done = _removed(file, dry_run) if undo else _written(file, dry_run)
        except OmpdError as error:
            refused.append(error)
            continue
        reports += [done] if done else []
        if file.note and not undo:
            reports.append(f"  {file.note}")
    for debugger in start_files.DEBUGGERS.values():
        if not undo and not _is_here(debugger.name):
            reports.append(f"{debugger.name} is not installed: its own file is left alone")
            continue
        try:
            for file_of_it in start_files.files_of(debugger):
                _check_inside(file_of_it, _base("XDG_CONFIG_HOME", file_of_it))
            reports += start_files.changes(debugger, undo=undo, dry_run=dry_run)
        except OmpdError as error:
            refused.append(error)
    return reports or ["there is nothing of ompd's"], refused


def _folder(variable: str, usual: str) -> Path:
    # The XDG Base Directory Specification: ignore values that are not absolute paths.
    named = Path(os.environ.get(variable, ""))
    return named if named.is_absolute() else start_files.home() / usual


def _base(variable: str, path: Path) -> Path:
    named = Path(os.environ.get(variable, ""))
    return named if named.is_absolute() and named in path.parents else start_files.home()


def _files(page: str, *, every: bool) -> Iterator[_File]:
    data, config = _folder("XDG_DATA_HOME", ".local/share"), _folder("XDG_CONFIG_HOME", ".config")
    site = data / "zsh" / "site-functions"
    places = {
        "bash": data / "bash-completion" / "completions" / "ompd",
        "zsh": site / "_ompd",
        "fish": config / "fish" / "completions" / "ompd.fish",
    }
    notes = {"zsh": f"zsh finds it with this line before compinit in ~/.zshrc: fpath=({shlex.quote(str(site))} $fpath)"}
    for shell, path in places.items():
        if every or shutil.which(shell) is not None:
            variable = "XDG_CONFIG_HOME" if shell == "fish" else "XDG_DATA_HOME"
            text = completion.format_completion(shell)
            yield _File(path, text, completion.MARK, _base(variable, path), notes.get(shell, ""))
    path = data / "man" / "man1" / "ompd.1"
    yield _File(path, page, manual.MARK, _base("XDG_DATA_HOME", path))


def _is_here(debugger: str) -> bool:
    return shutil.which("gdb") is not None if debugger == "gdb" else any(find_commands())


def _check_inside(path: Path, base: Path) -> None:
    # Raises BadFile if links lead out of *base*.
    real, inside = os.path.realpath(path), os.path.realpath(base)
    if os.path.commonpath((real, inside)) != inside:
        raise BadFile(
            str(path),
            f"is not touched: links lead out of {base}, to {real}",
            hint="`ompd completion`, `manual`, `lldb-init` and `gdb-init` print what belongs there",
        )


def _found(place: Destination, file: _File) -> str | None:
    # Return the present text of the file, None without a file. Raises BadFile if ompd did not write it.
    if place.replaced is None:
        return None
    text = place.read()
    if file.mark.encode() not in text[:_HEAD]:
        raise BadFile(
            str(file.path), "is not touched: ompd did not write it", hint="move it away if ompd is to write this file"
        )
    return text.decode("utf-8", "surrogateescape")


def _written(file: _File, dry_run: bool) -> str:
    _check_inside(file.path, file.base)
    if not file.path.parent.is_dir():
        if dry_run:
            return f"{file.path}: would be written"
        try:
            make_folder(str(file.path.parent))
        except OSError as error:
            raise BadFile(str(file.path), f"cannot be written: {error.strerror or error}") from error
    with Destination(file.path) as place:
        before = _found(place, file)
        if before == file.text:
            return f"{file.path}: is so already"
        if dry_run:
            return f"{file.path}: would be written"
        with place.written() as stream:
            stream.write(file.text.encode())
    return f"{file.path}: written"


def _removed(file: _File, dry_run: bool) -> str | None:
    if not os.path.lexists(file.path):
        return None
    _check_inside(file.path, file.base)
    with Destination(file.path) as place:
        if _found(place, file) is None:
            return None
        if not dry_run:
            place.remove()
    if not dry_run:
        _remove_empty(file.path.parent, file.base)
    return f"{file.path}: {'would be removed' if dry_run else 'removed'}"


def _remove_empty(folder: Path, base: Path) -> None:
    # Remove the folder and its parents below *base* while they are empty, even if ompd did not create them.
    while folder != base and base in folder.parents:
        with suppress(OSError):
            folder.rmdir()
        if folder.exists():
            return
        folder = folder.parent
