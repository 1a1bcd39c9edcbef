"""The targets of a triage: paths, patterns, folders, lists, processes and the dumps of ``coredumpctl``."""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

from ompd.errors import BadInput
from ompd.records import record

_MOST = 1 << 20
_MOST_FILES = 1 << 22
_LONGEST = 4096 + 64  # PATH_MAX, and a word before the path
_COREDUMPCTL = "coredumpctl:"
_PATTERN = re.compile(r"[*?[]")


@record
class Wanted:
    """A target by its name. ``process_id`` is None for a file."""

    name: str
    process_id: int | None = None

    def identity(self) -> tuple[int, ...] | None:
        """Return the file's size and modification time in ns, which another file of the same name would hardly share.

        None for a process, and for a file whose status is not available.
        """
        if self.process_id is not None:
            return None
        try:
            status = os.stat(self.name)  # noqa: PTH116  a name may hold what Path refuses
        except (OSError, ValueError):
            return None
        return status.st_size, status.st_mtime_ns


def find_targets(
    words: Iterable[str], processes_of: Callable[[str], Sequence[int]], lines: TextIO
) -> tuple[tuple[Wanted, ...], tuple[str, ...]]:
    """Return the targets that *words* name, each once, in natural order, and warnings about folders that could not be
    read.

    A folder stands for all regular files below it that begin as a core may begin.

    :param processes_of: returns the ids of the processes that a word means, empty if it means no process
    :param lines: the input for which ``-`` stands: one word per line
    :raises BadInput: if a pattern or a folder matches no file
    """
    targets: dict[Wanted, None] = {}
    left_out: list[str] = []
    for word in _all_words(words, lines):
        for target in _targets_of(word, processes_of, left_out):
            targets[target] = None
            if len(targets) > _MOST:
                raise BadInput(f"more than {_MOST} targets")
    return tuple(sorted(targets, key=lambda target: natural(target.name))), tuple(left_out)


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return the sort key that puts core.9 before core.10."""
    parts = re.findall(r"[0-9]{1,18}|[^0-9]+", name)
    return tuple((0, int(part), "") if "0" <= part[0] <= "9" else (1, 0, part) for part in parts)


def _all_words(words: Iterable[str], lines: TextIO) -> Iterator[str]:
    for word in words:
        if word != "-":
            yield word
            continue
        while line := _line(lines):
            if len(line) == _LONGEST and not line.endswith("\n"):
                raise BadInput("standard input has a line that is longer than any path")
            if line.strip():
                yield line.rstrip("\n")


def _line(lines: TextIO) -> str:
    try:
        return lines.readline(_LONGEST)
    except OSError as error:
        raise BadInput(f"standard input cannot be read: {error.strerror}") from error


def _targets_of(word: str, processes_of: Callable[[str], Sequence[int]], left_out: list[str]) -> Iterator[Wanted]:
    processes = processes_of(word)
    if processes:
        yield from (Wanted(word if len(processes) == 1 else str(number), number) for number in processes)
    elif word.startswith(_COREDUMPCTL) or not word:
        yield Wanted(word)
    elif Path(word).is_dir():
        cores = _in_folder(word, left_out)
        if not cores:
            raise BadInput(f"{word}: no file in this folder is a core")
        yield from map(Wanted, cores)
    elif _PATTERN.search(word) and not os.path.lexists(word):
        names = sorted(glob.glob(word, recursive=True))  # noqa: PTH207  names stay as they were typed
        if not names:
            raise BadInput(f"{word}: no file has such a name")
        yield from (Wanted(name) for name in names if not Path(name).is_dir())
    else:
        yield Wanted(word)


# First bytes of ELF, zstd, lz4, gzip, bzip2, xz. A file with one of these may be a core; the inspection checks this.
_BEGINNINGS = (b"\x7fELF", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18", b"\x1f\x8b", b"BZh", b"\xfd7zXZ")
_E_TYPE, _ET_CORE = 16, 4


def _in_folder(folder: str, left_out: list[str]) -> list[str]:
    # Skip links to folders, and all files that are not regular, because opening a pipe may block.
    cores: list[str] = []
    count = 0
    for place, folders, names in os.walk(folder, onerror=lambda error: left_out.append(_unread(error))):
        folders.sort()
        for name in sorted(names):
            count += 1
            if count > _MOST_FILES:
                raise BadInput(f"{folder}: more than {_MOST_FILES} files")
            path = os.path.join(place, name)  # noqa: PTH118  a million of them
            if _may_be_core(path):
                cores.append(path)
    return cores


def _unread(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}"


def _may_be_core(path: str) -> bool:
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return False
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return True  # the inspection will report the error
    try:
        head = os.read(descriptor, _E_TYPE + 2)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    if head.startswith(_BEGINNINGS[0]):
        return head[_E_TYPE : _E_TYPE + 2] in (bytes((_ET_CORE, 0)), bytes((0, _ET_CORE)))
    return head.startswith(_BEGINNINGS[1:])
