"""Every crafted file by the commands: an answer or a sentence comes of it, within what its bytes justify."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crafted.cases import Folder, Server, check, run_case
from tests.crafted.formats import CASES
from tests.support import FULL


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


def commands_of(name: str) -> tuple[str, ...]:
    """Return the commands that a case is read by: the first, and one of the others unless all are wanted."""
    asked = CASES[name].asked
    if FULL or len(asked) < 3:
        return asked
    return asked[0], asked[1 + sum(name.encode()) % (len(asked) - 1)]


@pytest.mark.parametrize("name", CASES)
def test_a_crafted_file_is_answered_or_refused_within_its_budget(name: str, server: Server, tmp_path: Path) -> None:
    case, folder = CASES[name], Folder(tmp_path / "case")
    folder.path.mkdir()
    case.make(folder)
    # A stranger's files are not mapped, so that what is read of them is counted.
    folder.give_away()
    for command in commands_of(name):
        check(case, folder, command, run_case(server, case, folder, command))
        written = folder.path / "written"
        assert not written.exists() or written.stat().st_uid == os.geteuid()
        written.unlink(missing_ok=True)


def test_there_are_as_many_cases_as_were_promised() -> None:
    assert len(CASES) >= 150
    assert all(case.make for case in CASES.values())
