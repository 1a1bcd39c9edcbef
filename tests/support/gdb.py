"""gdbs of two versions in batch mode: this machine's, and one of a later Debian release, which runs with the loader and
the libraries of that release.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ompd.commands.setup.start_files import DEBUGGERS, format_line
from tests.support.debs import deb_folder
from tests.support.machine import clean_environment, require

HERE, NEXT = "gdb", "gdb-16"
"""This machine's gdb, by its row in tools.toml, and Debian 13's."""
NAMES = (HERE, NEXT)
ANSWER_SECONDS = 100
LOAD = format_line(DEBUGGERS["gdb"])
"""The command that loads ours."""
_MARK = "(gdb) "


@dataclass(frozen=True)
class Gdb:
    """A gdb: the command that starts it, and the environment that it needs."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]


def gdb(name: str = HERE) -> Gdb:
    """Return one of :data:`NAMES`.

    :raises Missing: if it is not installed
    """
    environment = {**clean_environment(), "HOME": "/nonexistent", "TERM": "dumb", "LC_ALL": "C.UTF-8"}
    if name == HERE:
        return Gdb(name, (str(require("gdb")),), environment)
    root = deb_folder(name)
    library = root / "usr" / "lib" / "x86_64-linux-gnu"
    start = (str(library / "ld-linux-x86-64.so.2"), "--library-path", str(library), str(root / "usr" / "bin" / "gdb"))
    data = ("--data-directory", str(root / "usr" / "share" / "gdb"))
    return Gdb(name, (*start, *data), {**environment, "PYTHONHOME": str(root / "usr")})


class Replies:
    """gdb's output for each command, in order."""

    def __init__(self, commands: Sequence[str], printed: str) -> None:
        pieces = re.split(r"^\(gdb\) (\d+)\n", printed, flags=re.MULTILINE)
        assert [int(number) for number in pieces[1::2]] == list(range(len(commands))), printed
        self.first = pieces[0]
        self.pairs = list(zip(commands, pieces[2::2], strict=True))

    def all(self, *commands: str) -> list[str]:
        """Return the replies to every use of any of *commands*."""
        return [text for command, text in self.pairs if command in commands]

    def __getitem__(self, command: str) -> str:
        """Return the reply to a command that was used once."""
        (text,) = self.all(command)
        return text


def batch(
    found: Gdb,
    commands: Sequence[str],
    *arguments: str,
    cwd: Path,
    reads_files: bool = False,
    environment: Mapping[str, str] | None = None,
) -> Replies:
    """Run *commands* in gdb, even after one fails, and return the replies.

    :param arguments: arguments of gdb itself, such as the program and its core
    :param reads_files: whether gdb reads the user's command files, with *cwd* as home folder
    """
    words: list[str] = []
    for number, command in enumerate(commands):
        words += ["-ex", f"echo {_MARK}{number}\\n", "-ex", _quoted(command) if found.name == NEXT else command]
    home = {"HOME": str(cwd)} if reads_files else {}
    done = subprocess.run(
        [*found.command, *([] if reads_files else ["-nx"]), "-batch", *words, *arguments],
        cwd=cwd,
        env={**found.environment, **home, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="surrogateescape",
        timeout=ANSWER_SECONDS,
        check=False,
    )
    assert done.returncode >= 0, f"gdb died of signal {-done.returncode}: {done.stdout}"
    return Replies(commands, done.stdout)


def _quoted(command: str) -> str:
    # gdb 13 takes the whole line, with quotes, as the name of the core file; later versions split it at spaces.
    word, _, path = command.partition(" ")
    return f'{word} "{path}"' if word == "core-file" else command


def replies(*commands: str, name: str = HERE, cwd: Path = Path("/tmp")) -> Replies:
    """Return gdb's replies to *commands* after loading ours."""
    return batch(gdb(name), [LOAD, *commands], cwd=cwd)


def open_program(program: Path) -> str:
    """Return gdb's command for a program."""
    return f'file "{program}"'


def open_core(program: Path, core: Path) -> tuple[str, ...]:
    """Return gdb's commands for a core file."""
    return open_program(program), f"core-file {core}"
