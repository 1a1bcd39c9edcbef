"""The commands as they are at a debugger's prompt: the same words and options as in the shell, of the same table.

There the target is the process that is being debugged, so no command names one, or where its files are.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import click

from ompd.commands.main import cli
from ompd.commands.table import Command
from ompd.errors import BadInput
from ompd.model import ThreadRecord
from ompd.render.json import format_answer
from ompd.session import Session

_OPTIONS = ("as_json", "unfold", "verbose", "debug")


@dataclass(frozen=True, slots=True)
class Flag:
    """An option without a value: ``name`` of the parameter, its words, and what it does."""

    name: str
    long: str
    short: str | None
    help: str


@dataclass(frozen=True, slots=True)
class Screen:
    """How an answer can be shown: with colours, and how wide, None without an end."""

    color: bool
    width: int | None


def flags_of(command: Command) -> tuple[Flag, ...]:
    """Return the options that *command* has at a prompt, in the shell's words."""
    return tuple(
        Flag(
            parameter.name,
            next(word[2:] for word in parameter.opts if word.startswith("--")),
            next((word[1:] for word in parameter.opts if not word.startswith("--")), None),
            parameter.help or "",
        )
        for parameter in cli.commands[command.name].params
        if isinstance(parameter, click.Option)
        and parameter.name is not None
        and (parameter.name in _OPTIONS or parameter.name.startswith("select_"))
    )


def parse_words(command: Command, words: Sequence[str]) -> set[str]:
    """Return the names of the flags that *words* switch on.

    :raises BadInput: if there is a word that *command* does not have
    """
    found: set[str] = set()
    for word in words:
        flag = next((f for f in flags_of(command) if word in (f"--{f.long}", f"-{f.short}")), None)
        if flag is None:
            raise BadInput(
                f"{command.name} has no option {word}" if word.startswith("-") else f"{command.name} takes no {word!r}",
                hint=f"it has {', '.join(f'--{f.long}' for f in flags_of(command))}",
            )
        found.add(flag.name)
    return found


def format_help(command: Command, prompt: str) -> str:
    """Return the help of *command*: what it answers, what it prints, its options."""
    example = "\n".join(f"  {line}" for line in command.example.splitlines())
    options = "\n".join(
        f"  {f'-{f.short}, ' if f.short else '    '}--{f.long:<10} {f.help}".rstrip() for f in flags_of(command)
    )
    return f"{command.help}\n\n  {prompt}ompd {command.name}\n{example}\n\nOptions:\n{options}\n"


def format_reply(
    command: Command, session: Session, given: set[str], screen: Screen, indices: Mapping[int, int]
) -> str:
    """Return what *command* answers, as JSON if that was asked for, else as text with what there is to note.

    :param indices: the debugger's numbers of the threads, by native id
    """
    answer = command.ask(session)
    for option in command.options:
        if f"select_{option.name}" in given:
            answer = option.select(answer)
    if "as_json" in given:
        return format_answer(
            command.name,
            answer,
            lambda row: {"lldb_index": indices.get(row.native_thread_id or 0)} if isinstance(row, ThreadRecord) else {},
        )
    import ompd.render.terminal as terminal  # noqa: PLC0415  rich costs as much as the whole answer

    text = io.StringIO()
    console = terminal.make_console("always" if screen.color else "never", file=text, width=screen.width)
    numbered = {"indices": indices} if command.name == "threads" else {}
    getattr(terminal, command.printer)(
        console, answer, unfold="unfold" in given, verbose="verbose" in given, **numbered
    )
    notes = [f"ompd: {'note' if answer.complete else 'warning'}: {warning}" for warning in answer.warnings]
    return "\n".join([text.getvalue().rstrip("\n"), *notes])
