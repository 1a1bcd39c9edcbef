"""Crafted files with further damage: the start of an attack, and its next attempts."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import time
from functools import cache
from pathlib import Path

from ompd.commands.table import COMMANDS
from ompd.errors import OmpdError
from ompd.session import Session
from tests.crafted.cases import Folder
from tests.crafted.formats import CASES
from tests.fuzz.__main__ import Drawn
from tests.fuzz.oracle import Find, as_text

# Left out: compressed cores, whose checksums hide changes; tables and caches, which are no cores; large files.
_NOT = ("compression/", "stored/a_table", "stored/an_entry", "stored/tables", "memory/a_heap", "memory/a_struct")
_MAX_SIZE = 1 << 20
_MAX_SECONDS = 20
_ABSURD = (0, 1, 0x7F, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFF0, 0xFFFFFFFF, 1 << 32, 1 << 62, 1 << 63, (1 << 64) - 1)
NAMES = tuple(name for name in sorted(CASES) if not name.startswith(_NOT))


@cache
def _made(name: str) -> tuple[Folder, dict[Path, bytes]]:
    # The folder of a case, and those of its files that may be changed.
    path = Path(tempfile.mkdtemp(prefix="ompd-fuzz-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    folder = Folder(path)
    CASES[name].make(folder)
    files = [file for file in sorted(path.rglob("*")) if file.is_file() and not file.is_symlink()]
    small = {file: file.read_bytes() for file in files if 0 < file.stat().st_size <= _MAX_SIZE}
    return folder, small


def name_of(data: bytes) -> str:
    """Return the case that the first two bytes select."""
    return NAMES[int.from_bytes(data[:2], "little") % len(NAMES)]


def run(data: bytes) -> None:
    """Damage a case as *data* determines, and ask all questions about its core.

    :raises Find: if the result is neither an answer nor an error of ompd, or takes too long
    """
    name, numbers = name_of(data), Drawn(data[2:])
    folder, files = _made(name)
    if folder.core not in files:
        return
    changed = sorted(files)[numbers.randrange(len(files))]
    raw = bytearray(files[changed])
    for _ in range(numbers.randrange(8)):
        size = numbers.choice((1, 2, 4, 8))
        value = numbers.choice((*_ABSURD, numbers.randrange(1 << 16)))
        # Headers, and what is crafted in them, are at both ends of the file.
        anywhere, first, last = numbers.randrange(len(raw)), numbers.randrange(512), -1 - numbers.randrange(512)
        at = numbers.choice((anywhere, first, last)) % len(raw)
        raw[at : at + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")[: len(raw) - at]
    changed.write_bytes(raw)
    started = time.process_time()
    try:
        _ask(name, folder)
    finally:
        changed.write_bytes(files[changed])
    if time.process_time() - started > _MAX_SECONDS:
        raise Find(f"{name}: took {time.process_time() - started:.0f} s")


def _ask(name: str, folder: Folder) -> None:
    try:
        with Session.open_core(str(folder.core)) as session:
            for command in COMMANDS:
                try:
                    answer = command.answer(session, {"name": "counter"})
                except OmpdError as error:
                    assert str(error)
                    continue
                if command.name in ("threads", "stack"):
                    as_text(command.name if command.name == "threads" else "stacks", answer)
    except OmpdError as error:
        assert str(error)
    except Find:
        raise
    except Exception as error:
        raise Find(f"{name}: {type(error).__name__}: {error}") from error
