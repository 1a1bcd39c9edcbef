"""Cores with the damage that disks, quotas and copies cause, and the answers of all commands about a core."""

from __future__ import annotations

import os
import random
import shutil
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import ompd
from ompd.commands.table import COMMANDS
from ompd.errors import OmpdError
from tests.support.comparing import Compared, as_json, compare

# A variable in every program of the fixtures.
_NAMED = {"name": "truth_held"}
QUESTIONS = {
    command.name: partial(command.answer, given=_NAMED)
    for command in COMMANDS
    if command.name != "check"  # check needs an OMPD library
}

_EHDR_PHOFF, _EHDR_PHNUM = 32, 56
_PHDR = struct.Struct("<IIQQQQQQ")
_PT_LOAD, _PT_NOTE = 1, 4


class Segment(NamedTuple):
    """A program header of a core."""

    p_type: int
    p_flags: int
    p_offset: int
    p_vaddr: int
    p_paddr: int
    p_filesz: int
    p_memsz: int
    p_align: int


def segments(core: Path) -> list[Segment]:
    """Return the program headers of *core*."""
    with core.open("rb") as file:
        header = file.read(64)
        (offset,), (count,) = (
            struct.unpack_from(layout, header, at) for layout, at in (("<Q", _EHDR_PHOFF), ("<H", _EHDR_PHNUM))
        )
        file.seek(offset)
        return [Segment(*row) for row in _PHDR.iter_unpack(file.read(count * _PHDR.size))]


def notes_of(core: Path) -> Segment:
    """Return the segment of the notes of *core*."""
    return next(segment for segment in segments(core) if segment.p_type == _PT_NOTE)


def loads_of(core: Path) -> list[Segment]:
    """Return the segments with memory in *core*, in file order."""
    return sorted((s for s in segments(core) if s.p_type == _PT_LOAD and s.p_filesz), key=lambda s: s.p_offset)


def end_of(core: Path) -> int:
    """Return the file offset of the end of the last segment. Section headers may follow, but no command needs these."""
    return max(s.p_offset + s.p_filesz for s in segments(core) if s.p_filesz)


def cut(core: Path, to: Path, size: int) -> Path:
    """Write the first *size* bytes of *core*, and keep holes as holes."""
    if not to.exists() or to.stat().st_size < size:
        to.unlink(missing_ok=True)
        shutil.copyfile(core, to)
    os.truncate(to, size)
    return to


def zeroed(core: Path, to: Path, address: int, size: int) -> Path:
    """Write *core* with *size* zero bytes as its memory at *address*."""
    return overwritten(core, to, address, bytes(size))


def overwritten(core: Path, to: Path, address: int, data: bytes) -> Path:
    """Write *core* with *data* in its memory at *address*."""
    shutil.copyfile(core, to)
    with to.open("r+b") as file:
        for segment in loads_of(core):
            low = max(address, segment.p_vaddr)
            high = min(address + len(data), segment.p_vaddr + segment.p_filesz)
            if low < high:
                file.seek(segment.p_offset + low - segment.p_vaddr)
                file.write(data[low - address : high - address])
    return to


def noise(core: Path, to: Path, size: int, seed: int) -> Path:
    """Write *core* with *size* successive random bytes in its middle."""
    shutil.copyfile(core, to)
    with to.open("r+b") as file:
        file.seek(core.stat().st_size // 2)
        file.write(random.Random(seed).randbytes(size))
    return to


def flipped(core: Path, to: Path, count: int, seed: int) -> Path:
    """Write *core* with *count* random bytes changed."""
    chance = random.Random(seed)
    data = bytearray(core.read_bytes())
    for _ in range(count):
        data[chance.randrange(len(data))] ^= chance.randrange(1, 256)
    to.write_bytes(data)
    return to


def _to_percent(percent: int) -> Callable[[Path, Path], Path]:
    return lambda core, to: cut(core, to, core.stat().st_size * percent // 100)


DAMAGES: Mapping[str, Callable[[Path, Path], Path]] = {
    **{f"cut at {percent} %": _to_percent(percent) for percent in (98, 90, 50, 20, 10, 1)},
    "4 kB of noise": lambda core, to: noise(core, to, 4096, seed=1),
    "2000 bytes changed": lambda core, to: flipped(core, to, 2000, seed=1),
}
"""Kinds of damage: functions that write a damaged copy of a core to a file."""


@dataclass(frozen=True)
class Told:
    """The results of all commands on a core: answers in JSON, or the error that ended the command."""

    answers: Mapping[str, dict[str, Any]]
    errors: Mapping[str, OmpdError]

    def exit_code(self, command: str) -> int:
        """Return the command's exit code."""
        if command in self.errors:
            return 1
        return 0 if self.answers[command]["complete"] else 3

    def compared(self, intact: Told) -> dict[str, Compared]:
        """Return the comparison of each command's answer with its answer about the intact core."""
        return {name: compare(name, intact.answers[name], self.answers.get(name)) for name in QUESTIONS}


def ask_all(core: Path, **options: Any) -> Told:
    """Ask every question of *core*."""
    answers: dict[str, dict[str, Any]] = {}
    errors: dict[str, OmpdError] = {}
    try:
        session = ompd.open_core(core, **options)
    except OmpdError as error:
        return Told({}, dict.fromkeys(QUESTIONS, error))
    with session:
        for name, ask in QUESTIONS.items():
            try:
                answers[name] = as_json(name, ask(session))
            except OmpdError as error:
                errors[name] = error
    return Told(answers, errors)
