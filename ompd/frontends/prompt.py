"""Options, help and output of the commands at a debugger's prompt.

Commands of the shell's table have the names and options of the shell. The target is the process in the debugger, so
there are no options for the target or its files.
"""

from __future__ import annotations

import io
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import click

from ompd.commands.ending import format_warnings
from ompd.commands.formats import SHARED, TEXT, render
from ompd.commands.loading import load
from ompd.commands.options import OWN
from ompd.commands.shell.questions import make
from ompd.commands.table import Command
from ompd.errors import BadInput
from ompd.model import Answer, RuntimeRecord
from ompd.records import record
from ompd.render.words import Indices, clean
from ompd.session import Session

OMPD_LIBRARY = "ompd_library"
"""The parameter that names an OMPD library."""

_OPTIONS = (*(row.parameter for row in SHARED), "unfold", "verbose", "debug", OMPD_LIBRARY)


@record
class Flag:
    """An option: the parameter's ``name``, its long and short spelling, its help, and its value's name in the help.

    ``short`` is None without a short spelling, ``metavar`` None without a value; a value ``N`` is a number. ``choices``
    are all possible values, empty if any value is possible. ``former`` is an earlier long spelling that still works.
    """

    name: str
    long: str
    short: str | None
    help: str
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    former: str | None = None

    @property
    def takes_number(self) -> bool:
        """Whether the value is a number."""
        return self.metavar == "N"

    @property
    def spellings(self) -> list[str]:
        """The option as it may be typed."""
        dashed = [f"--{word}" for word in (self.long, self.former) if word is not None]
        return dashed if self.short is None else [*dashed, f"-{self.short}"]


@record
class Screen:
    """How to show an answer: with colours or not, and its width in columns, None for no limit."""

    color: bool
    width: int | None


def flags_of(command: Command) -> tuple[Flag, ...]:
    """Return the options that *command* has at a prompt, spelled as in the shell."""
    own = {OWN + option.name: option for option in command.options}
    of_shell = {name for name, option in own.items() if option.status is not None or option.is_of_look}
    return tuple(
        Flag(
            parameter.name,
            next(word[2:] for word in parameter.opts if word.startswith("--")),
            next((word[1:] for word in parameter.opts if not word.startswith("--")), None),
            parameter.help or "",
            None if parameter.is_flag else parameter.metavar or "VALUE",
            own[parameter.name].choices if parameter.name in own else (),
        )
        for parameter in make(command).params
        if isinstance(parameter, click.Option)
        and parameter.name is not None
        and parameter.name not in of_shell
        and (parameter.name in _OPTIONS or parameter.name in own)
    )


def split_options(command: str, flags: Sequence[Flag], words: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """Return the words that are no options, and the values of the options by parameter name, True for an option without
    a value.

    :raises BadInput: if *command* has no such option, or its value is missing or wrong
    """
    arguments: list[str] = []
    values: dict[str, Any] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        option, equals, value = word.partition("=")
        flag = next((flag for flag in flags if option in flag.spellings), None)
        if flag is not None and flag.metavar is not None:
            values[flag.name] = _value_of(command, flag, value if equals else rest.pop(0) if rest else None)
        elif flag is not None and not equals:
            values[flag.name] = True
        elif word.startswith("-") and word != "--debug":
            longs = ", ".join(f"--{flag.long}" for flag in flags)
            raise BadInput(f"{command} has no option {word}", hint=f"it has {longs or 'none'}")
        elif word != "--debug":
            arguments.append(word)
    return arguments, values


def _value_of(command: str, flag: Flag, text: str | None) -> Any:
    is_number = text is not None and text.isascii() and text.isdecimal()
    if flag.takes_number and not is_number:
        raise BadInput(f"--{flag.long} of {command} needs a number: --{flag.long} 1")
    if text is None:
        raise BadInput(f"--{flag.long} of {command} needs a value: --{flag.long} {flag.metavar}")
    if flag.choices and text not in flag.choices:
        raise BadInput(f"--{flag.long}: {text!r} is not one of {', '.join(flag.choices)}")
    return int(text) if flag.takes_number else text


def split_words(text: str) -> list[str]:
    """Return the words of a line, split as a shell does.

    :raises BadInput: if a closing quote is missing
    """
    try:
        return shlex.split(text)
    except ValueError as error:
        raise BadInput(str(error).lower()) from error


def clean_lines(text: str) -> str:
    """Return *text* with control characters escaped, except newlines."""
    return "\n".join(clean(line) for line in text.split("\n"))


def format_runtimes(answer: Answer[RuntimeRecord]) -> list[str]:
    """Return a line for each runtime, for ``status``."""
    states = {True: "keeps states", False: "keeps no states", None: "not initialised yet, or unreadable"}
    lines = [f"{row.id} {row.version or ''}".rstrip() + f", {states[row.keeps_states]}" for row in answer.rows]
    return lines or ["none is loaded"]


def format_help(prompt: str, description: str, examples: Sequence[tuple[str, str]], flags: Sequence[Flag]) -> str:
    """Return the help of a command: description, examples, options.

    :param examples: the words after ``ompd``, and what the command prints, ``""`` to leave it out
    """
    sections = [description]
    if examples:
        lines = [line for words, output in examples for line in (f"{prompt}ompd {words}", *output.splitlines())]
        sections.append("\n".join(f"  {line}" for line in lines))
    if flags:
        rows = [
            (f"{f'-{flag.short}, ' if flag.short else '    '}--{flag.long} {flag.metavar or ''}".rstrip(), flag.help)
            for flag in flags
        ]
        width = max(16, *(len(option) for option, _ in rows))
        sections.append("\n".join(["Options:", *(f"  {option:<{width}} {text}".rstrip() for option, text in rows)]))
    return "\n\n".join(sections) + "\n"


def format_reply(
    command: Command, session: Session, values: Mapping[str, Any], screen: Screen, indices: Indices
) -> str:
    """Return the output of *command* in the format that *values* choose; text is followed by notes.

    :param values: the values of options and argument by parameter name
    :param indices: the debugger's numbers of the threads
    :raises BadInput: if options exclude each other
    """
    own_values = {name.removeprefix(OWN): value for name, value in values.items() if name.startswith(OWN)}
    chosen = command.format_of({**values, **own_values})
    answer = session.ask(partial(command.answer, given=own_values))
    shows_indices = {"indices": indices} if command.name in ("threads", "var") else {}
    if chosen == TEXT:
        from ompd.render.terminal import make_console

        # A core is in the debugger, too, so a suggested command does not name it.
        answer = replace(answer, target=replace(answer.target, kind=indices.debugger.lower()))
        file = io.StringIO()
        console = make_console("always" if screen.color else "never", file=file, width=screen.width)
        load(command.printer)(console, answer, unfold="unfold" in values, verbose="verbose" in values, **shows_indices)
        text = file.getvalue()
    else:
        text = render(chosen, command.name, answer, **shows_indices)
    states_completeness = chosen in {shared_format.name for shared_format in SHARED}
    notes = [] if states_completeness else format_warnings(answer)
    return "\n".join([text.rstrip("\n"), *notes])
