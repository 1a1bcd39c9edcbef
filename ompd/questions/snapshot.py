"""``snapshot``: a small core that holds what an inspection reads."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from ompd.debugger.snapshot import take
from ompd.errors import BadFile, OmpdError
from ompd.model import SnapshotRecord
from ompd.questions import icvs, regions, runtimes, tasks, threads
from ompd.session import Session

DATA_LIMIT = 1 << 20
"""Bytes of writable data that are kept of each of the user's modules, unless told otherwise."""

_QUESTIONS = (runtimes.ask, threads.ask, regions.ask, tasks.ask, icvs.ask)


def take_snapshot(
    session: Session, path: str | os.PathLike[str], *, data_limit: int = DATA_LIMIT, keep_environment: bool = False
) -> SnapshotRecord:
    """Write an ELF core of the process to *path* with what the questions read, and say what is in it.

    A file of that name is replaced once the new one is whole.

    :raises BadFile: if the file cannot be written
    """
    place = Path(path)
    if place.exists() and Path(session.target.name).exists() and place.samefile(session.target.name):
        raise BadFile(str(path), "is what the snapshot would be taken of", hint="name another file for the snapshot")
    rehearsal = Session(session.target, session.finder, session.exe)
    try:
        pages = rehearsal.process.note_reads()
        for ask in _QUESTIONS:
            with suppress(OmpdError):
                ask(rehearsal)
        try:
            with tempfile.NamedTemporaryFile(dir=place.parent, prefix=f".{place.name}.", delete=False) as stream:
                try:
                    contents = take(
                        session.target,
                        rehearsal.process,
                        pages,
                        stream.file,
                        data_limit=data_limit,
                        keep_environment=keep_environment,
                    )
                    stream.flush()
                    os.chmod(stream.name, 0o600)  # noqa: PTH101  as the kernel's cores: memory is its owner's
                    os.replace(stream.name, place)  # noqa: PTH105
                except BaseException:
                    os.unlink(stream.name)  # noqa: PTH108
                    raise
        except OSError as error:
            raise BadFile(str(path), f"cannot be written: {error.strerror}") from error
    finally:
        rehearsal.process.close()
    return SnapshotRecord(
        file=str(path),
        size=place.stat().st_size,
        threads=contents.threads,
        memory_bytes=contents.memory_bytes,
        extract_bytes=contents.extract_bytes,
        modules=contents.modules,
        problems=contents.problems,
    )
