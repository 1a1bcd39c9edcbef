"""LLDB's side of the commands: the methods that LLDB calls, and completion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import lldb  # type: ignore[import-not-found, unused-ignore]

from ompd.frontends.commands import PromptCommand, Refused, reply_to
from ompd.frontends.prompt import Flag
from ompd.lldb.debugger import Lldb, state_of

PARSES = find_spec("lldb.plugins.parsed_cmd") is not None
"""Whether LLDB parses options, as 19 and later do."""

_FIRST_UNPRINTABLE = 2  # stands for the letter of options without a letter
# Keeps LLDB from completing values by itself. LLDB 14 does not have this constant.
_NO_COMPLETION = getattr(lldb, "eNoCompletion", 0)
_MAX_WORD = 1 << 12

_OPTIONS_OF_ALL: Mapping[str, Mapping[str, object]] = {
    "help": {"short_option": "h", "required": False, "help": "Show what the command does."},
    "debug": {"short_option": chr(1), "required": False, "help": "Show the traceback of an error."},
}
_ARGUMENT_TYPES: Mapping[str, object] = {
    "file": lldb.eArgTypeFilename,
    "name": lldb.eArgTypeName,
    "number": lldb.eArgTypeUnsignedInteger,
    "switch": lldb.eArgTypeNone,
}


def _strings(words: Any) -> list[str]:
    # Return the words of a command. LLDB 19 passes them as an SBStructuredData, later versions as a list.
    if hasattr(words, "GetItemAtIndex"):
        return [words.GetItemAtIndex(n).GetStringValue(_MAX_WORD) for n in range(words.GetSize())]
    return list(words)


class Prompt:
    """An LLDB command. LLDB makes one for each debugger and calls its methods.

    LLDB 19 and later parse and complete options by ``get_options_definition``; older versions pass the words as they
    were typed. ``ompd/lldb_script.py`` makes a class for each ``command``. The classes are isolated from the folder
    that LLDB runs in.
    """

    command: PromptCommand[Lldb]

    def __init__(self, debugger: Any, internal_dict: dict[str, Any]) -> None:
        self._state = state_of(internal_dict)
        self._debugger = debugger
        self._words: list[str] = []

    def __call__(self, debugger: Any, typed: str | Sequence[str], exe_ctx: Any, result: Any) -> None:
        """Run the command."""
        words = typed if isinstance(typed, str) else [*self._words, *_strings(typed)]
        self._words = []
        try:
            result.AppendMessage(reply_to(self.command, Lldb(debugger, self._state, exe_ctx), words))
        except Refused as error:
            result.SetError(str(error))

    def handle_option_argument_completion(self, option: str, cursor: int) -> dict[str, list[str]]:
        """Return completions of an option's value, for LLDB 20 and later.

        LLDB has passed the typed part of the value to :meth:`set_option_value` before this call.
        """
        typed = self._words[-1][:cursor] if self._words and not self._words[-1].startswith("--") else ""
        return _completion(self.command.option_values(self._selected(), option), typed)

    def _selected(self) -> Lldb:
        return Lldb(self._debugger, self._state)

    def get_short_help(self) -> str:
        """Return the command's line in the list of commands."""
        return self.command.summary

    def get_long_help(self) -> str:
        """Return the help of the command. For LLDB 19 and later it is without the options, because LLDB adds them."""
        text = self.command.help(Lldb.prompt)
        return text.partition("\n\nOptions:\n")[0] if PARSES else text

    def get_flags(self) -> int:
        """Return 0: LLDB has to check nothing before a call, because ompd's messages are better."""
        return 0

    def get_options_definition(self) -> Mapping[str, Mapping[str, object]]:
        """Return the options, for LLDB 19 and later."""
        own = {flag.long: _describe_option(flag, number) for number, flag in enumerate(self.command.flags)}
        return {**_OPTIONS_OF_ALL, **own}

    def get_args_definition(self) -> list[list[dict[str, object]]]:
        """Return the definition of the argument, for LLDB 19 and later. Empty for a command without an argument."""
        argument = self.command.argument
        return [[{"arg_type": _ARGUMENT_TYPES[argument.kind], "repeat": argument.repeat}]] if argument else []

    def option_parsing_started(self) -> None:
        """Forget the options of the last call."""
        self._words = []

    def set_option_value(self, exe_ctx: Any, option: str, value: str | None) -> bool:
        """Note an option, and return True."""
        self._words += [f"--{option}", value] if value else [f"--{option}"]
        return True


class CompletingPrompt(Prompt):
    """A command that completes its own argument. For all other commands LLDB completes the arguments."""

    def handle_argument_completion(self, words: Sequence[str], position: int, cursor: int) -> dict[str, list[str]]:
        """Return completions of the argument."""
        typed = words[position][:cursor] if position < len(words) else ""
        return _completion(self.command.argument_values(self._selected()), typed)


def _completion(values: Sequence[str], typed: str) -> dict[str, list[str]]:
    return {"values": [value for value in values if value.startswith(typed)]}


def _describe_option(flag: Flag, number: int) -> Mapping[str, object]:
    # LLDB numbers options without a letter from 0, and takes number 0 for an option that was not typed. It treats an
    # option without a type as a flag. By default it completes any word with names of types.
    return {
        "short_option": flag.short or chr(_FIRST_UNPRINTABLE + number),
        "required": False,
        "help": flag.help,
        **(
            {
                "value_type": lldb.eArgTypeUnsignedInteger if flag.takes_number else lldb.eArgTypeName,
                "completion_type": _NO_COMPLETION,
                "dest": flag.long,
            }
            if flag.metavar is not None
            else {}
        ),
    }
