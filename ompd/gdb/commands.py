"""The commands that only gdb has, and adding all of them to gdb."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import gdb  # type: ignore[import-not-found, import-untyped, unused-ignore]

import ompd
from ompd.commands.prompt import clean_lines, format_runtimes
from ompd.commands.selecting import without_library
from ompd.commands.table import COMMANDS
from ompd.debugger.targets.gdb.inferior import check_stopped, core_of
from ompd.errors import BadInput, OmpdError
from ompd.gdb.frames import add_filter
from ompd.gdb.functions import add_functions
from ompd.gdb.looking import PrintCommand, ThreadCommand
from ompd.gdb.names import add_names
from ompd.gdb.prompts import LIBRARY_HELP, PROMPT, Prompt, Question, State
from ompd.gdb.stops import AutoCommand, add_stops
from ompd.gdb.walking import COMMANDS as WALKING
from ompd.render.words import describe_snapshot, format_count
from ompd.safety.isolation import Isolation

_PREFIX, _LONG_PREFIX = "omp", "ompd"
_SUMMARY = "What an OpenMP program is doing."


class SnapshotCommand(Prompt):
    """``omp snapshot FILE``: write a small core of the process."""

    name = "snapshot"
    summary = "Write a small core to send to somebody else."

    def run(self, words: Sequence[str]) -> str:
        """Write the file, and say what is in it."""
        words, library = without_library(words)
        rest = [word for word in words if word not in ("--keep-env", "--debug", "-o", "--output")]
        if len(rest) != 1 or rest[0].startswith("-"):
            raise BadInput("snapshot takes the name of the file to write", hint="ompd snapshot small.core")
        taken = self.state.session(library).snapshot(rest[0], keep_environment="--keep-env" in words)
        problems = [f"ompd: warning: {problem}" for problem in taken.problems]
        return "\n".join([describe_snapshot(taken), *problems])

    def options(self) -> Mapping[str, Sequence[str]]:
        """Return the options."""
        return {"--keep-env": (), "--ompd-library": ("named",), "--help": ()}

    def help(self) -> str:
        """Return the help of the command."""
        return (
            "Writes a small ELF core with the memory that ompd needs, and what it needs of the program's files. Every"
            " command works on it, without those files.\n\n"
            f"  {PROMPT}ompd snapshot small.core\n\n"
            f"Options:\n      --keep-env   Keep the whole environment and the folders in arguments.\n{LIBRARY_HELP}"
        )


class StatusCommand(Prompt):
    """``omp status``: what these commands see."""

    name = "status"
    summary = "Versions of ompd and gdb, the process, its runtimes."

    def run(self, words: Sequence[str]) -> str:
        """Return a line for each of it."""
        # Whoever was loaded later may have taken the name.
        ours = [prefix for prefix in self.state.prefixes if _is_taken(f"{prefix} {self.name}")]
        taken = "" if _LONG_PREFIX in ours else "; ompd is another package's here"
        lines = [
            f"ompd      {ompd.__version__}, {Path(ompd.__file__).resolve().with_name('gdb_script.py')}",
            f"gdb       {gdb.VERSION}",
            f"prefix    {' or '.join(ours)}{taken}",
            f"process   {self._of_process()}",
            *(f"runtime   {text}" for text in self._of_runtimes()),
            f"auto      {'on' if self.state.auto else 'off'}",
        ]
        return clean_lines("\n".join(lines))

    def _of_process(self) -> str:
        inferior = gdb.selected_inferior()
        try:
            check_stopped(inferior)
            kind = "core file" if core_of(inferior) is not None else "stopped"
        except OmpdError as error:
            return str(error).removeprefix("process ")
        return f"{inferior.pid}, {kind}, {format_count(len(inferior.threads()), 'thread')}"

    def _of_runtimes(self) -> list[str]:
        try:
            return format_runtimes(self.state.session().ask_runtimes())
        except OmpdError:
            return []


def _is_taken(name: str) -> bool:
    # Python is not told which commands there are. Completing a word lists them.
    with suppress(gdb.error):
        return name in gdb.execute(f"complete {name}", to_string=True).splitlines()
    return False


def _add(name: str, prompt: Prompt, isolation: Isolation) -> None:
    invoke, complete = isolation(prompt.invoke), isolation(prompt.complete)

    class Made(gdb.Command):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            # gdb shows the first line in lists of commands.
            self.__doc__ = f"{prompt.summary}\n\n{prompt.help()}"
            super().__init__(name, gdb.COMMAND_DATA)

        def invoke(self, argument: str, from_tty: bool) -> None:
            invoke(argument)

        def complete(self, text: str, word: str | None) -> list[str]:
            return complete(text, word)  # type: ignore[no-any-return, unused-ignore]

    Made()


def _add_prefix(name: str) -> None:
    made: Callable[[Any, str, int, int, bool], None] = gdb.Command.__init__

    class Made(gdb.Command):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            self.__doc__ = _SUMMARY
            made(self, name, gdb.COMMAND_DATA, gdb.COMPLETE_NONE, True)

    Made()


def add_commands(isolation: Isolation) -> None:
    """Add the commands to gdb: as ``omp threads``, and as ``ompd threads`` unless somebody else has that name."""
    state = State()
    state.prefixes = (_PREFIX, *(() if _is_taken(_LONG_PREFIX) else (_LONG_PREFIX,)))
    add_functions(state, isolation)
    add_filter(state, isolation)
    add_names(state, isolation)
    add_stops(state, isolation)
    made_here = (ThreadCommand, PrintCommand, *WALKING, AutoCommand, SnapshotCommand, StatusCommand)
    others = [made(state) for made in made_here]
    for prefix in state.prefixes:
        _add_prefix(prefix)
        for prompt in (*(Question(state, command) for command in COMMANDS), *others):
            _add(f"{prefix} {prompt.name}", prompt, isolation)
