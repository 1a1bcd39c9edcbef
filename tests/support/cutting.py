"""Cores that are cut off or lack pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ompd.debugger.files.finder import FileFinder
from ompd.debugger.targets.core import CoreTarget
from ompd.errors import BadFile, NoAnswer, OmpdError
from ompd.session import Session
from tests.support import FULL, Stopped
from tests.support.comparing import as_json
from tests.support.damage import QUESTIONS, Told, ask_all, end_of, loads_of, notes_of, segments

PAGE = 4096
LOST = "the core file is cut off: "


def intact_of(core: Stopped) -> Told:
    told = ask_all(core.core)
    assert {told.exit_code(name) for name in QUESTIONS} == {0}
    return told


def wrong(told: Told, intact: Told) -> list[str]:
    return [f"{name}: {fault}" for name, found in told.compared(intact).items() for fault in found.wrong]


def places_to_cut(core: Path) -> set[int]:
    size, notes, loads = core.stat().st_size, notes_of(core), loads_of(core)
    headers = 64 + 56 * len(segments(core))
    edges = {load.p_offset + near for load in loads[:: 4 if FULL else 24] for near in ((-1, 0, 1) if FULL else (-1, 1))}
    inside = {notes.p_offset + notes.p_filesz * part // 6 for part in range(7)}
    return {
        *(1, 16, 63, 64, 65, 64 + 56 * 3, headers - 1, headers, headers + 1),
        *(size * part // 100 for part in range(1, 100, 7 if FULL else 49)),
        *edges,
        *inside,
        *(end_of(core) - 1, end_of(core), size - 1),
    }


def check_cut(told: Told, intact: Told, size: int, core: Path) -> None:
    assert wrong(told, intact) == []
    whole = size >= end_of(core)
    for name in QUESTIONS:
        code = told.exit_code(name)
        assert code == 0 if whole else code in (1, 3), name
        if code == 3:
            warnings = told.answers[name]["warnings"]
            assert warnings[0].startswith(LOST) and f"{size} of " in warnings[0]
            assert sum(LOST in warning for warning in warnings) == 1
            assert told.answers[name]["target"]["incomplete"] == warnings[0]
        elif code == 1:
            error = told.errors[name]
            assert isinstance(error, (BadFile, NoAnswer)) and error.hint
            assert "cut off" in str(error) or size < 4, str(error)


class Holes(CoreTarget):
    """A core in which some pages are zero; it records the pages that are read."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.pages: set[int] = set()
        self.hole: int | None = None

    def read(self, address: int, size: int) -> bytes:
        data = super().read(address, size)
        first, last = address // PAGE, (address + size - 1) // PAGE
        if self.hole is None:
            self.pages.update(range(first, last + 1))
        elif first <= self.hole <= last:
            low, high = max(address, self.hole * PAGE), min(address + size, self.hole * PAGE + PAGE)
            data = data[: low - address] + bytes(high - low) + data[high - address :]
        return data

    def ask_all(self) -> Told:
        answers: dict[str, Any] = {}
        errors: dict[str, OmpdError] = {}
        session = Session(self, FileFinder())
        for name, question in QUESTIONS.items():
            try:
                answers[name] = as_json(name, question(session))
            except OmpdError as error:
                errors[name] = error
        session.process.close()  # the target stays open for the next session
        return Told(answers, errors)
