"""The manual page, made of what ``--help`` says: roff, for ``man``."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence

import ompd
from ompd.commands.setup.words import HELP, TARGET, Leaf, Switch

MARK = "made by `ompd manual`"
"""What the head of the page contains, whichever release made it."""

_VARIABLES = (
    ("OMPD_PLUGINS", "Folders with plugins for other OpenMP runtimes, where no --plugins names some."),
    ("OMPD_LLDB", "The lldb whose Python module starts programs from Python."),
    ("DEBUGINFOD_URLS", "The servers that --debuginfod downloads missing files from."),
    ("NO_COLOR", "If it is set, text has no colours."),
)
_WIDTH = 72


def format_manual(about: str, commands: Sequence[Leaf], own: Sequence[Switch], exits: str) -> str:
    """Return the page.

    :param about: what ``ompd --help`` says in front of the options
    :param own: the options of ``ompd`` itself
    :param exits: the exit codes, as the help has them
    """
    first, _, rest = about.partition("\n\n")
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
        *_paragraphs(rest),
        ".SH OPTIONS",
        *_options(own),
        ".SS Of all commands that take a TARGET",
        *_options(common),
        ".SH COMMANDS",
    ]
    for leaf in commands:
        lines += _command(leaf, common)
    lines += [".SH EXIT STATUS", *_exits(exits), ".SH ENVIRONMENT"]
    for name, text in _VARIABLES:
        lines += [".TP", f".B {name}", _escaped(text)]
    lines += [".SH SEE ALSO", ".BR gdb (1),", ".BR lldb (1),", ".BR core (5)"]
    return "".join(f"{line}\n" for line in lines)


def _common(commands: Sequence[Leaf]) -> list[Switch]:
    # The options of all commands that take a target.
    first, *others = (leaf.switches for leaf in commands if any(value.kind == TARGET for _, value in leaf.arguments))
    return [switch for switch in first if all(switch in each for each in others)]


def _command(leaf: Leaf, common: Sequence[Switch]) -> Iterator[str]:
    arguments = " ".join(name for name, _ in leaf.arguments)
    yield f".SS ompd {_escaped(f'{leaf.name} {arguments}'.strip())}"
    yield from _paragraphs(leaf.help)
    yield from _options([switch for switch in leaf.switches if switch not in (*common, HELP)])


def _paragraphs(text: str) -> Iterator[str]:
    # Lines that are indented stay as they are.
    for number, paragraph in enumerate(re.split(r"\n\s*\n", text.strip("\n"))):
        if number:
            yield ".PP"
        if all(line.startswith("  ") for line in paragraph.splitlines()):
            yield from (".RS", ".nf")
            yield from (_escaped(line.removeprefix("  ")) for line in paragraph.splitlines())
            yield from (".fi", ".RE")
        else:
            yield from _filled(paragraph)


def _options(found: Sequence[Switch]) -> Iterator[str]:
    for switch in found:
        yield ".TP"
        words = ", ".join(f"\\fB{_escaped(word)}\\fR" for word in switch.words)
        yield words + (f" \\fI{_escaped(switch.metavar)}\\fR" if switch.value is not None else "")
        yield from _filled(switch.help)


def _exits(text: str) -> Iterator[str]:
    for number, meaning in re.findall(r"^\s+(\d+)\s+(.*)$", text, re.MULTILINE):
        yield from (".TP", f".B {number}", *_filled(meaning))


def _filled(text: str) -> Iterator[str]:
    return map(_escaped, textwrap.wrap(text, _WIDTH, break_on_hyphens=False))


def _escaped(text: str) -> str:
    # A backslash begins what roff acts on, a dot or an apostrophe at the beginning of a line a request, and a plain
    # "-" is a hyphen, which cannot be copied into a shell.
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga").replace("'", "\\(aq")
    return f"\\&{text}" if text.startswith((".", "\\(aq")) else text
