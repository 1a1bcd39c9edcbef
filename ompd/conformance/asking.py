"""The question of ``ompd conformance``: opens the library and the programs, tries the library, writes reproducers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

from ompd.conformance.dmpl import exported, try_dmpl
from ompd.conformance.kit import Tried, combined, try_ompd
from ompd.conformance.reproducer import file_name, program
from ompd.conformance.subject import dmpl_subjects, subjects
from ompd.errors import BadFile, BadInput
from ompd.runtimes.hosted.dmpl.protocol import FUNCTIONS, INITIALISE
from ompd.runtimes.hosted.loading.libraries import OMPD_ENTRIES, Opened, open_library
from ompd.safety.writing import Destination, make_folder
from ompd.session import Session

_T = TypeVar("_T")
_MOST_KNOWN = 1 << 20


def ask(
    library: str,
    programs: Sequence[str],
    *,
    plugins: Sequence[str] = (),
    expect: str | None = None,
    first: bool = False,
) -> Tried:
    """Return the findings about the library at a path.

    :param programs: core files whose runtime the library is for
    :param expect: a file of known findings, with one key in each line
    :param first: stop trying a program at its first finding
    :raises OmpdError: if the library cannot be tried
    """
    known_keys = known_in(expect) if expect is not None else ()
    path = str(Path(library).absolute())
    with ExitStack() as opened:
        loads = opened.enter_context(_opened(path))
        sessions = [opened.enter_context(Session.open_core(name, plugins=plugins)) for name in programs]
        has_ompd = not loads.entries.isdisjoint(OMPD_ENTRIES)
        has_dmpl = bool(exported(loads))
        ompd = try_ompd(loads, _subjects_of(sessions, subjects), first=first) if has_ompd else None
        dmpl = None
        if has_dmpl and not (first and ompd is not None and ompd.rows):
            dmpl = try_dmpl(loads, _subjects_of(sessions, dmpl_subjects), first=first)
        return combined(loads.name, [session.target.name for session in sessions], ompd, dmpl, known_keys)


def _subjects_of(sessions: Sequence[Session], find: Callable[[Session], Iterator[_T]]) -> list[_T]:
    return [subject for session in sessions for subject in find(session)]


def _opened(path: str) -> Opened:
    try:
        return open_library(path, (*OMPD_ENTRIES, *INITIALISE, *FUNCTIONS.values()))
    except BadFile as error:
        if "--ompd-library" in error.hint:
            error.hint = "name an OMPD or DMPL library: ompd conformance /path/to/libompd.so"
        raise


def known_in(path: str) -> Sequence[str]:
    """Return the keys in a file: the first word of each line that is not a comment.

    :raises BadInput: if it cannot be read
    """
    try:
        with Path(path).open(encoding="utf-8") as file:
            text = file.read(_MOST_KNOWN)
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: {error}") from error
    return [line.split()[0] for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def write_reproducers(tried: Tried, folder: str) -> Sequence[str]:
    """Write a reproducer for each finding that has a script into a folder, and return the names of their files.

    :raises BadInput: if the folder cannot be created
    :raises BadFile: if a program cannot be written, or would replace a file of another user
    """
    written = []
    try:
        make_folder(folder)
        for row in tried.answer.rows:
            script = tried.scripts.get(row.key)
            if script is not None:
                name = file_name(row.key)
                write_file(os.path.join(folder, name), program(row, script, tried.answers[row.key]))  # noqa: PTH118
                written.append(name)
    except OSError as error:
        raise BadInput(f"{folder}: {error.strerror}") from error
    return written


def write_file(path: str, text: str) -> None:
    """Write a file that the user named.

    :raises BadFile: if it cannot be written, or would replace a file of another user
    """
    with Destination(path) as place, place.written() as file:
        file.write(text.encode("utf-8", "backslashreplace"))
