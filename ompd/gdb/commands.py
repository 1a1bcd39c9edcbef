"""The commands that only gdb has, and the function that adds all commands to gdb."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import gdb  # type: ignore[import-not-found, import-untyped, unused-ignore]

from ompd.frontends import commands as shared
from ompd.frontends.commands import PromptCommand
from ompd.frontends.walking import WALKS
from ompd.gdb.debugger import Gdb, writable
from ompd.gdb.frames import add_filter
from ompd.gdb.functions import add_functions
from ompd.gdb.names import add_names
from ompd.gdb.prompts import add_command
from ompd.gdb.stops import add_stops
from ompd.gdb.walking import BreakCommand, WalkCommand
from ompd.render.words import clean
from ompd.safety.isolation import Isolation

_PREFIX, _LONG_PREFIX = "omp", "ompd"
_DEFAULT = "threads"  # the command that the prefix alone means
_SUMMARY = "What an OpenMP program is doing."


class StatusCommand(shared.StatusCommand[Gdb]):
    """``omp status``: the versions, the process and its runtimes."""

    summary = explanation = "Versions of ompd and gdb, the process, its runtimes."

    def names(self, debugger: Gdb) -> Mapping[str, str]:
        """Return the prefixes of the commands that are in use."""
        # A package that was loaded later may have taken the prefix.
        ours = [prefix for prefix in debugger.prefixes if _is_taken(f"{prefix} {self.name}")]
        taken = "" if _LONG_PREFIX in ours else "; ompd is another package's here"
        return {"prefix": f"{' or '.join(ours)}{taken}"}


def _is_taken(name: str) -> bool:
    # gdb's Python cannot list commands, but completion of a word shows them.
    with suppress(gdb.error):
        return name in gdb.execute(f"complete {name}", to_string=True).splitlines()
    return False


def _add_prefix(name: str) -> None:
    add: Callable[[Any, str, int, int, bool], None] = gdb.Command.__init__

    class Added(gdb.Command):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            self.__doc__ = _SUMMARY
            add(self, name, gdb.COMMAND_DATA, gdb.COMPLETE_NONE, True)

        def invoke(self, argument: str, from_tty: bool) -> None:
            # gdb calls this for the prefix alone, and for words that are no commands.
            if argument and not argument.startswith("-"):
                word = writable(clean(argument.split()[0]))
                raise gdb.GdbError(f'Undefined {name} command: "{word}".  Try "help {name}".')
            gdb.execute(f"{name} {_DEFAULT} {argument}".rstrip(), from_tty)

    Added()


def add_commands(isolation: Isolation) -> None:
    """Add the commands to gdb: as ``omp threads``, and as ``ompd threads`` if that name is free."""
    debugger = Gdb()
    debugger.prefixes = (_PREFIX, *(() if _is_taken(_LONG_PREFIX) else (_LONG_PREFIX,)))
    add_functions(debugger, isolation)
    add_filter(debugger, isolation)
    add_names(debugger, isolation)
    add_stops(debugger, isolation)
    commands: list[PromptCommand[Gdb]] = [
        *shared.SHARED,
        BreakCommand(),
        *(WalkCommand(name) for name in WALKS),
        StatusCommand(),
    ]
    for prefix in debugger.prefixes:
        _add_prefix(prefix)
        for command in commands:
            add_command(f"{prefix} {command.name}", command, debugger, isolation)
