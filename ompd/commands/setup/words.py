"""What can be typed after ``ompd``, read off click's declarations, for completion files and the manual."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence

import click

from ompd.records import record

TARGET, FILE, FOLDER, NOTHING = "target", "file", "folder", "nothing"
"""What a word can be that is none of a list: a target, a file, a folder, or something that nobody can know."""


@record
class Value:
    """What a word can be: one of ``choices``, or what ``kind`` says, ``nothing`` for neither."""

    kind: str
    choices: tuple[str, ...] = ()


@record
class Switch:
    """An option: its words with their dashes, its help, what its value is called there, and what it can be; None for
    an option without a value.
    """

    words: tuple[str, ...]
    help: str
    metavar: str = ""
    value: Value | None = None


@record
class Leaf:
    """A command: its words, what it does, its options, and what its arguments can be, by their names in the help."""

    words: tuple[str, ...]
    summary: str
    help: str
    switches: tuple[Switch, ...]
    arguments: tuple[tuple[str, Value], ...]

    @property
    def name(self) -> str:
        """Its words as they are typed."""
        return " ".join(self.words)


HELP = Switch(("-h", "--help"), "Show this message and exit.")


def leaves(group: click.Group, before: Sequence[str] = ()) -> Iterator[Leaf]:
    """Yield the commands of *group* and of the groups in it, in the order of their declaration."""
    for name, command in group.commands.items():
        words = (*before, name)
        if isinstance(command, click.Group):
            yield from leaves(command, words)
            continue
        yield Leaf(
            words,
            command.get_short_help_str(200),
            _text(command.help or ""),
            switches(command),
            tuple(_argument(each) for each in command.params if isinstance(each, click.Argument)),
        )


def about(group: click.Group) -> str:
    """Return what the help of *group* says in front of its options."""
    return _text(group.help or "")


def switches(command: click.Command) -> tuple[Switch, ...]:
    """Return the options of *command* itself, without hidden ones, which only our scripts use."""
    shown = (each for each in command.params if isinstance(each, click.Option) and not each.hidden)
    return (*map(_switch, shown), HELP)


def _text(text: str) -> str:
    # Without the mark by which click is asked to keep lines as they are: those are indented.
    return re.sub(r"^[ \t]*\x08\n", "", inspect.cleandoc(text), flags=re.MULTILINE)


def _switch(option: click.Option) -> Switch:
    # The long word first is not promised by click; as they are declared.
    if option.is_flag:
        return Switch(tuple(option.opts), option.help or "")
    metavar = option.metavar or ("|".join(_choices(option)) if _choices(option) else "VALUE")
    return Switch(tuple(option.opts), option.help or "", metavar, _value(option, metavar))


def _argument(argument: click.Argument) -> tuple[str, Value]:
    if argument.name in ("target", "later"):
        return argument.metavar or "TARGET", Value(TARGET)
    metavar = argument.metavar or (argument.name or "").upper()
    return metavar, _value(argument, metavar)


def _choices(parameter: click.Parameter) -> tuple[str, ...]:
    return tuple(map(str, parameter.type.choices)) if isinstance(parameter.type, click.Choice) else ()


def _value(parameter: click.Parameter, metavar: str) -> Value:
    if _choices(parameter):
        return Value(NOTHING, _choices(parameter))
    if not isinstance(parameter.type, click.Path):
        return Value(NOTHING)
    return Value(FOLDER if metavar == "DIR" else FILE, tuple(word for word in metavar.split("|") if word.islower()))
