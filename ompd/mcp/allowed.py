"""The targets that the server may open, fixed when it starts."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

import ompd
from ompd.binary.core.procfs import parse_stat
from ompd.errors import BadInput, BadProcess, MalformedFile
from ompd.inspection import Inspection
from ompd.machine.processes import process_numbers, runtimes_of
from ompd.records import record
from ompd.triage.targets import find_targets

OWN = "own"
_PROC = Path("/proc")
_NUMBER = re.compile(r"[0-9]{1,10}", re.ASCII)
_MOST = 1000


@record
class Allowed:
    """A target that may be opened.

    ``id`` is what callers write. ``path`` is the core's file, None for a process. ``start_time`` is that of a process
    that was allowed by its number: a later process with this number is another one.
    """

    id: str
    path: str | None = None
    process_id: int | None = None
    start_time: int | None = None

    @property
    def name(self) -> str | None:
        """The path of the core, or the program of the process; None if it has ended."""
        if self.path is not None:
            return self.path
        with suppress(OSError):
            return os.fsdecode((_PROC / str(self.process_id) / "exe").readlink())
        return None

    def open(self) -> Inspection:
        """Return a session on the target.

        :raises BadProcess: if another process has its number now
        """
        if self.path is not None:
            return ompd.open_core(self.path)
        if self.start_time is not None and _start_time(self.process_id or 0) != self.start_time:
            raise BadProcess(self.process_id or 0, "has ended since the server was started")
        return ompd.attach(self.process_id or 0)


class AllowedTargets:
    """The targets behind ``--allow``. New cores in an allowed folder, and new own processes, are allowed, too."""

    def __init__(self, words: Sequence[str]) -> None:
        """Fix what is allowed.

        :raises BadInput: if a word is neither ``own`` nor an existing file, folder or process
        """
        self._has_own = OWN in words
        self._processes: list[Allowed] = []
        self._paths: list[str] = []
        self._cores: dict[str, Allowed] = {}
        for word in words:
            if word != OWN:
                self._add(word)

    def _add(self, word: str) -> None:
        if _NUMBER.fullmatch(word) and not os.path.lexists(word):
            start_time = _start_time(int(word))
            if start_time is None:
                raise BadInput(f"--allow {word}: no such process")
            self._processes.append(Allowed(str(int(word)), process_id=int(word), start_time=start_time))
        elif Path(word).exists():
            self._paths.append(str(Path(word).absolute()))
        else:
            raise BadInput(f"--allow {word}: no such file or folder", hint="write a core, a folder, a number, or own")

    def all(self) -> tuple[Allowed, ...]:
        """Return the targets, at most 1000. A core keeps its id for as long as the server runs."""
        for path in islice(self._files(), _MOST):
            self._cores.setdefault(path, Allowed(f"core-{len(self._cores) + 1}", path=path))
        targets = {target.id: target for target in (*self._cores.values(), *self._processes)}
        if self._has_own:
            for number in _own_processes():
                targets.setdefault(str(number), Allowed(str(number), process_id=number))
        return tuple(targets.values())[:_MOST]

    def _files(self) -> Iterator[str]:
        for path in self._paths:
            if not Path(path).is_dir():
                yield path
                continue
            with suppress(BadInput):  # it has no core yet
                targets, _ = find_targets((path,), lambda word: (), io.StringIO())
                yield from (target.name for target in targets)


def _own_processes() -> Iterator[int]:
    for number in process_numbers():
        place = _PROC / str(number)
        with suppress(OSError):  # the process has ended
            if place.stat().st_uid == os.getuid() and runtimes_of(place):
                yield number


def _start_time(process_id: int) -> int | None:
    try:
        return parse_stat((_PROC / str(process_id) / "stat").read_bytes()).start_time
    except (OSError, MalformedFile):
        return None
