"""gdb's side of the commands: the methods that gdb calls, and completion."""

from __future__ import annotations

from contextlib import suppress

import gdb  # type: ignore[import-not-found, import-untyped, unused-ignore]

from ompd.frontends.commands import PromptCommand, Refused, reply_to
from ompd.gdb.debugger import Gdb, writable
from ompd.safety.isolation import Isolation


def add_command(name: str, command: PromptCommand[Gdb], debugger: Gdb, isolation: Isolation) -> None:
    """Add *command* to gdb."""

    class Added(gdb.Command):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            # gdb shows the first line of this text in lists of commands.
            self.__doc__ = f"{command.summary}\n\n{command.help(debugger.prompt)}"
            super().__init__(name, gdb.COMMAND_DATA)

        @isolation
        def invoke(self, argument: str, from_tty: bool) -> None:
            try:
                text = reply_to(command, debugger, argument)
            except Refused as error:
                raise gdb.GdbError(writable(str(error))) from None
            with suppress(KeyboardInterrupt):  # the user quit gdb's pager
                if text:
                    gdb.write(writable(text.rstrip("\n")) + "\n")

        @isolation
        def complete(self, text: str, word: str | None) -> list[str]:
            return _complete(command, debugger, text, word)

    Added()


def _complete(command: PromptCommand[Gdb], debugger: Gdb, text: str, word: str | None) -> list[str]:
    # Return the completions of the last word of *text*. gdb begins its *word* after a `-`, so for `--js` it wants
    # completions of `js`: the part of each completion before *word* is cut off. In gdb's first call, *word* is None.
    if word is None:
        return []
    *before, last = text.split(" ")
    option = next((flag.long for flag in command.flags if before and before[-1] == f"--{flag.long}"), None)
    choices = command.option_values(debugger, option) if option is not None else ()
    if not choices and last.startswith("-"):
        choices = [*(f"--{flag.long}" for flag in command.flags), "--help"]
    elif not choices:
        choices = command.argument_values(debugger)
    skipped = len(last) - len(word)
    return [choice[skipped:] for choice in choices if choice.startswith(last)]
