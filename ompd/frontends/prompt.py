"""The table's commands at a debugger's prompt, with the names and options of the shell.

The target is the process in the debugger, so there are no options for the target or its files.
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
from ompd.model import Answer, RuntimeRecord, WhyAnswer
from ompd.records import record
from ompd.render.words import Indices, clean
from ompd.session import Session

OMPD_LIBRARY = "ompd_library"
"""The parameter that names an OMPD library."""

_OPTIONS = (*(row.parameter for row in SHARED), "unfold", "verbose", "debug", OMPD_LIBRARY)


@record
class Flag:
    """An option: the parameter's ``name``, its long and short spelling, its help, and its value's name in the help.

    ``short`` is None without a short spelling, ``metavar`` None without a value.
    """

    name: str
    long: str
    short: str | None
    help: str
    metavar: str | None = None


@record
class Screen:
    """How to show an answer: with colours or not, and its width in columns, None for no limit."""

    color: bool
    width: int | None


def flags_of(command: Command) -> tuple[Flag, ...]:
    """Return the options that *command* has at a prompt, spelled as in the shell."""
    of_shell = {OWN + option.name for option in command.options if option.status is not None or option.is_of_look}
    return tuple(
        Flag(
            parameter.name,
            next(word[2:] for word in parameter.opts if word.startswith("--")),
            next((word[1:] for word in parameter.opts if not word.startswith("--")), None),
            parameter.help or "",
            None if parameter.is_flag else parameter.metavar or "VALUE",
        )
        for parameter in make(command).params
        if isinstance(parameter, click.Option)
        and parameter.name is not None
        and parameter.name not in of_shell
        and (parameter.name in _OPTIONS or parameter.name.startswith(OWN))
    )


def parse_words(command: Command, words: Sequence[str]) -> dict[str, Any]:
    """Return the values of options and argument in *words*, by parameter name.

    :raises BadInput: if *command* does not take a word, or a required word is missing
    """
    found: dict[str, Any] = {}
    rest = list(words)
    argument = OWN + command.argument.name if command.argument is not None else None
    while rest:
        word = rest.pop(0)
        option, equals, value = word.partition("=")
        flag = next((f for f in flags_of(command) if option in (f"--{f.long}", f"-{f.short}")), None)
        if flag is None and argument is not None and argument not in found and not word.startswith("-"):
            found[argument] = word
        elif flag is None or (equals and flag.metavar is None):
            raise BadInput(
                f"{command.name} has no option {word}" if word.startswith("-") else f"{command.name} takes no {word!r}",
                hint=f"it has {', '.join(f'--{f.long}' for f in flags_of(command))}",
            )
        elif flag.metavar is None:
            found[flag.name] = True
        elif equals or rest:
            found[flag.name] = _value(command, flag, value if equals else rest.pop(0))
        else:
            raise BadInput(f"--{flag.long} of {command.name} needs a value: --{flag.long} {flag.metavar}")
    if command.argument is not None and argument not in found:
        raise BadInput(
            f"{command.name} needs {command.argument.metavar}: {command.argument.help}",
            hint=f"ompd {command.name} {command.argument.example}",
        )
    return found


def _value(command: Command, flag: Flag, text: str) -> Any:
    option = next((option for option in command.options if OWN + option.name == flag.name), None)
    if option is None:
        return text
    if option.kind == "number":
        if not (text.isascii() and text.isdecimal()):
            raise BadInput(f"--{flag.long}: {text!r} is not a number")
        return int(text)
    if option.choices and text not in option.choices:
        raise BadInput(f"--{flag.long}: {text!r} is not one of {', '.join(option.choices)}")
    return text


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
    told = [f"{row.id} {row.version or ''}".rstrip() + f", {states[row.keeps_states]}" for row in answer.rows]
    return told or ["none is loaded"]


def format_help(command: Command, prompt: str) -> str:
    """Return the help of *command*: description, sample output, options."""
    example = "\n".join(f"  {line}" for line in command.example.splitlines())
    words = [
        (f"{f'-{f.short}, ' if f.short else '    '}--{f.long}" + (f" {f.metavar}" if f.metavar else ""), f.help)
        for f in flags_of(command)
    ]
    width = max(16, *(len(word) for word, _ in words))
    options = "\n".join(f"  {word:<{width}} {text}".rstrip() for word, text in words)
    own = command.argument.example if command.argument is not None else ""
    argument = f" {command.example_words or own}".rstrip()
    return f"{command.help}\n\n  {prompt}ompd {command.name}{argument}\n{example}\n\nOptions:\n{options}\n"


def format_reply(command: Command, session: Session, given: Mapping[str, Any], screen: Screen, indices: Indices) -> str:
    """Return the output of *command* in the format that *given* chooses; text is followed by notes.

    :param indices: the debugger's numbers of the threads
    :raises BadInput: if options exclude each other
    """
    own = {name.removeprefix(OWN): value for name, value in given.items() if name.startswith(OWN)}
    chosen = command.format_of({**given, **own})
    answer = session.ask(partial(command.answer, given=own))
    numbered = {"indices": indices} if command.name in ("threads", "var") else {}
    if chosen == TEXT:
        from ompd.render.terminal import make_console

        if isinstance(answer, WhyAnswer):
            # At a debugger's prompt, commands take no target.
            rows = (replace(row, next_step=(row.next_step or "").replace(" TARGET", "") or None) for row in answer.rows)
            answer = replace(answer, rows=tuple(rows))
        file = io.StringIO()
        console = make_console("always" if screen.color else "never", file=file, width=screen.width)
        load(command.printer)(console, answer, unfold="unfold" in given, verbose="verbose" in given, **numbered)
        text = file.getvalue()
    else:
        text = render(chosen, command.name, answer, **numbered)
    # The formats that all commands share state whether the answer is complete.
    notes = [] if chosen in {row.name for row in SHARED} else format_warnings(answer)
    return "\n".join([text.rstrip("\n"), *notes])
