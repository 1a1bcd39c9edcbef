"""README.md and the help show the commands' real output. ``python -m tests.house.test_readme`` writes both anew."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest

from ompd.commands.table import COMMANDS, Command
from tests.support import require
from tests.support.cache import CHECKOUT
from tests.support.demo import alike, build, renumbered, show, take_core

README = CHECKOUT / "README.md"
EXAMPLE = re.compile(r"^\$ ompd (.*)\n(?:(?!\$ |```).*\n)*", re.MULTILINE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder_of_the_page(tmp_path_factory.mktemp("readme"))


def folder_of_the_page(folder: Path) -> Path:
    require("gcc")
    take_core(build(folder), folder).rename(folder / "core.1234")
    return folder


@pytest.mark.quick()
def test_readme_shows_what_the_commands_print(folder: Path) -> None:
    shown = list(EXAMPLE.finditer(README.read_text()))
    assert {found[1].split()[0] for found in shown} == {"core.1234", "stack", "why", "parallel", "tasks", "var"}
    for found in shown:
        assert alike(show(found[1], folder)) == alike(found[0]), found[1]


SHOWN = [command for command in COMMANDS if "   hang   " in command.example and command.argument is None]


@pytest.mark.parametrize("command", SHOWN, ids=lambda command: command.name)
@pytest.mark.quick("threads", "why", "parallel", "stack", "icvs", "doctor")
def test_help_shows_what_the_command_prints(command: Command, folder: Path) -> None:
    words = " ".join((command.name, "core.1234", command.example_words)).rstrip()
    assert alike(show(words, folder).partition("\n")[2]) == alike(command.example)


def write_page() -> None:
    """Write the output in README.md anew."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = folder_of_the_page(Path(temporary))

        def shown(found: re.Match[str]) -> str:
            between = "\n" if found[0].endswith("\n\n") else ""
            return renumbered(show(found[1], folder)).rstrip("\n") + "\n" + between

        README.write_text(EXAMPLE.sub(shown, README.read_text()))


if __name__ == "__main__":
    write_page()
