"""The manual page in roff, generated from the commands' help."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator, Sequence

import click

import ompd
from ompd.records import record

MARK = "made by `ompd manual`"
"""Text in the head of the page, the same in all releases."""

_VARIABLES = (
    ("OMPD_PLUGINS", "Folders with plugins for other OpenMP runtimes, where no --plugins names some."),
    ("OMPD_LLDB", "The lldb whose Python module starts programs from Python."),
    ("DEBUGINFOD_URLS", "The servers that --debuginfod downloads missing files from."),
    ("NO_COLOR", "If it is set, text has no colours."),
)
_WIDTH = 72


@record
class Switch:
    """An option: its spellings with their dashes, its help, and its value's name in the help, ``""`` for none."""

    words: tuple[str, ...]
    help: str
    metavar: str = ""


@record
class Leaf:
    """A command on the page: its words, its help, its options, and the names of its arguments."""

    words: tuple[str, ...]
    help: str
    switches: tuple[Switch, ...]
    arguments: tuple[str, ...]

    @property
    def name(self) -> str:
        """The command as it is typed."""
        return " ".join(self.words)


HELP = Switch(("-h", "--help"), "Show this message and exit.")


def leaves(group: click.Group, before: Sequence[str] = ()) -> Iterator[Leaf]:
    """Yield the commands of *group* and of its subgroups, in the order of the help."""
    context = click.Context(group)
    for name in group.commands if before else group.list_commands(context):
        command, words = group.get_command(context, name), (*before, name)
        if isinstance(command, click.Group):
            yield from leaves(command, words)
        elif command is not None:
            names = (_argument(param) for param in command.params if isinstance(param, click.Argument))
            yield Leaf(words, _text(command.help or ""), _switches(command), tuple(names))


def _switches(command: click.Command) -> tuple[Switch, ...]:
    # Omit hidden options, which only our scripts use.
    shown = (param for param in command.params if isinstance(param, click.Option) and not param.hidden)
    return (*map(_switch, shown), HELP)


def _switch(option: click.Option) -> Switch:
    metavar = "" if option.is_flag else option.metavar or "|".join(_choices(option)) or "VALUE"
    return Switch(tuple(option.opts), option.help or "", metavar)


def _argument(argument: click.Argument) -> str:
    return argument.metavar or (argument.name or "").upper()


def _choices(parameter: click.Parameter) -> tuple[str, ...]:
    return tuple(map(str, parameter.type.choices)) if isinstance(parameter.type, click.Choice) else ()


def _text(text: str) -> str:
    # Remove click's mark for lines that are not wrapped: they are indented anyway.
    return re.sub(r"^[ \t]*\x08\n", "", inspect.cleandoc(text), flags=re.MULTILINE)


def format_manual(group: click.Group) -> str:
    """Return the manual page of the commands in *group*."""
    commands, own = list(leaves(group)), _switches(group)
    first, _, description = _text(group.help or "").partition("\n\n")
    common = [switch for switch in _common(commands) if switch not in own]
    lines = [
        f'.\\" {MARK}, ompd {ompd.__version__}',
        f'.TH OMPD 1 "" "ompd {ompd.__version__}" "User Commands"',
        ".SH NAME",
        f"ompd \\- {_escaped(first[0].lower() + ' '.join(first.split())[1:].rstrip('.'))}",
        ".SH SYNOPSIS",
        ".B ompd",
        ".I TARGET",
        ".br",
        ".B ompd",
        ".I COMMAND TARGET",
        ".RI [ OPTION ]...",
        ".SH DESCRIPTION",
        *_paragraphs(description),
        ".SH OPTIONS",
        *_options(own),
        ".SS Of all commands that take a TARGET",
        *_options(common),
        ".SH COMMANDS",
    ]
    for leaf in commands:
        lines += _command(leaf, common)
    lines += [".SH EXIT STATUS", *_exits(group.epilog or ""), ".SH ENVIRONMENT"]
    for name, text in _VARIABLES:
        lines += [".TP", f".B {name}", _escaped(text)]
    lines += [".SH SEE ALSO", ".BR gdb (1),", ".BR lldb (1),", ".BR core (5)"]
    return "".join(f"{line}\n" for line in lines)


def _common(commands: Sequence[Leaf]) -> list[Switch]:
    # The options that all commands with a target share.
    targets = ("TARGET", "[TARGET]", "A")
    first, *further = (leaf.switches for leaf in commands if any(name in targets for name in leaf.arguments))
    return [switch for switch in first if all(switch in switches for switches in further)]


def _command(leaf: Leaf, common: Sequence[Switch]) -> Iterator[str]:
    yield f".SS ompd {_escaped(' '.join((*leaf.words, *leaf.arguments)))}"
    yield from _paragraphs(leaf.help)
    yield from _options([switch for switch in leaf.switches if switch not in (*common, HELP)])


def _paragraphs(text: str) -> Iterator[str]:
    # Indented lines are not wrapped.
    for number, paragraph in enumerate(re.split(r"\n\s*\n", text.strip("\n"))):
        if number:
            yield ".PP"
        if all(line.startswith("  ") for line in paragraph.splitlines()):
            yield from (".RS", ".nf")
            yield from (_escaped(line.removeprefix("  ")) for line in paragraph.splitlines())
            yield from (".fi", ".RE")
        else:
            yield from _filled(paragraph)


def _options(switches: Sequence[Switch]) -> Iterator[str]:
    for switch in switches:
        yield ".TP"
        words = ", ".join(f"\\fB{_escaped(word)}\\fR" for word in switch.words)
        yield words + (f" \\fI{_escaped(switch.metavar)}\\fR" if switch.metavar else "")
        yield from _filled(switch.help)


def _exits(text: str) -> Iterator[str]:
    for number, meaning in re.findall(r"^\s+(\d+)\s+(.*)$", text, re.MULTILINE):
        yield from (".TP", f".B {number}", *_filled(meaning))


def _filled(text: str) -> Iterator[str]:
    return map(_escaped, textwrap.wrap(text, _WIDTH, break_on_hyphens=False))


def _escaped(text: str) -> str:
    # In roff a backslash begins an escape, and a dot or an apostrophe at the start of a line begins a request. A plain
    # "-" is a hyphen, which a shell does not accept in a copied option.
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga").replace("'", "\\(aq")
    return f"\\&{text}" if text.startswith((".", "\\(aq")) else text
