"""Layout of text in the width of a terminal: tables and lines break between words, never inside one that fits.

Breaks are at spaces and after commas, so that addresses, names and numbers stay whole. A table that does not fit
becomes a block of lines for each row.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import compress

from ompd.render.words import Line, Table

_GAP = 2
# Turns the stem of a tree's branch into the stem for the lines below it: a last branch has no line going on below.
_BESIDE = str.maketrans({"├": "│", "└": " ", "─": " ", "`": " ", "-": " "})
_HANG = 4  # spaces before the second and further lines of a broken line
_PIECE = re.compile(r"[^\s,]+,*\s*|,+\s*|\s+")
# The most characters for which a column is kept wide enough. Longer words, such as values without spaces, are broken.
_LONGEST_WORD = 44


def width_of(text: str) -> int:
    """Return the number of terminal columns of *text*."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    marks = sum(unicodedata.combining(character) != 0 for character in text)
    return len(text) + wide - marks


def wrap(text: str, width: int) -> list[str]:
    """Return *text* in lines of at most *width* columns; only a word that is longer is broken."""
    if width_of(text) <= width:
        return [text]
    lines, line = [], ""
    for piece in _PIECE.findall(text):
        if line and width_of(line + piece.rstrip()) > width:
            lines.append(line.rstrip())
            line = ""
        line += piece if line or piece.strip() else ""
        while width_of(line.rstrip()) > width:
            cut = _fitting(line, width)
            lines.append(line[:cut])
            line = line[cut:]
    return [*lines, line.rstrip()] if line.strip() or not lines else lines


def _fitting(text: str, width: int) -> int:
    # Return how many characters of *text* fit into *width* columns, at least one.
    cut = max(1, min(len(text), width))
    while cut > 1 and width_of(text[:cut]) > width:
        cut -= 1
    return cut


def wrap_line(text: str, width: int) -> list[str]:
    """Return an indented line in lines of at most *width* columns; continuation lines are indented more."""
    if width_of(text) <= width:
        return [text]
    indent = len(text) - len(text.lstrip(" "))
    hang = indent + _HANG
    if hang > width // 2:
        indent, hang = 0, _HANG if width > 2 * _HANG else 0
        text = text.lstrip(" ")
    first, *rest = wrap(text.strip(" "), max(width - hang, 1))
    # The first line has more room than the others.
    longer = wrap(text.strip(" "), max(width - indent, 1))[0]
    if rest and longer != first:
        first, rest = longer, wrap(text.strip(" ")[len(longer) :].lstrip(), max(width - hang, 1))
    return [" " * indent + first, *(" " * hang + line for line in rest)]


def wrap_branch(stem: str, text: str, width: int) -> list[str]:
    """Return a line of a tree in lines of at most *width* columns; the branches beside it continue in all of them.

    :param stem: the stem from :func:`~ompd.render.trees.grow`
    """
    beside = stem.translate(_BESIDE) + " " * _HANG
    if not stem or width_of(stem) + width_of(text) <= width or width_of(beside) > width // 2:
        return wrap_line(stem + text, width)
    first, *rest = wrap(text, width - width_of(beside))
    return [stem + first, *(beside + line for line in rest)]


def table_lines(table: Table, width: int) -> Iterator[tuple[str, str]]:
    """Yield the lines of *table*, each with the style of its row, at most *width* columns wide."""
    if not _fits(table, width):
        table = _without_repeated(table)
    widths = _widths(table, width)
    if widths is None and table.least:
        smaller = _without(table, [title in table.least for title in table.titles])
        widths = _widths(smaller, width)
        table = smaller if widths is not None else table
    if widths is None:
        yield from _blocks(table, width)
        return
    yield from ((text, "head") for text in _row(table.titles, widths))
    for line in table.lines:
        yield from ((text, line.style) for text in _row(line.cells, widths))


def _fits(table: Table, width: int) -> bool:
    rows = [table.titles, *(line.cells for line in table.lines)]
    columns = zip(*rows, strict=True)
    return sum(max(map(width_of, column)) + _GAP for column in columns) - _GAP <= width


def _without_repeated(table: Table) -> Table:
    if len(table.lines) < 2:
        return table
    columns = zip(table.titles, *(line.cells for line in table.lines), strict=True)
    return _without(table, [title in table.optional and len(set(cells)) == 1 for title, *cells in columns])


def _without(table: Table, left_out: Sequence[bool]) -> Table:
    is_kept = [not is_left_out for is_left_out in left_out]
    lines = tuple(Line(tuple(compress(line.cells, is_kept)), line.style) for line in table.lines)
    return replace(table, titles=tuple(compress(table.titles, is_kept)), lines=lines)


def _widths(table: Table, width: int) -> list[int] | None:
    # Return the width of each column, None if the table does not fit.
    rows = [table.titles, *(line.cells for line in table.lines)]
    full = [max(map(width_of, column)) for column in zip(*rows, strict=True)]
    room = width - _GAP * (len(full) - 1)
    if sum(full) <= room:
        return full
    widths = [max(map(_longest_word, column)) for column in zip(*rows, strict=True)]
    room -= sum(widths)
    if room < 0:
        return None
    # Share the room that is left. Columns that lack little get it first, because they may then need no break at all.
    order = sorted(range(len(full)), key=lambda number: full[number] - widths[number])
    for position, number in enumerate(order):
        gain = min(full[number] - widths[number], room // (len(order) - position))
        widths[number] += gain
        room -= gain
    return widths


def _longest_word(text: str) -> int:
    return min(max((width_of(piece.rstrip()) for piece in _PIECE.findall(text)), default=0), _LONGEST_WORD)


def _row(cells: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    wrapped = [wrap(cell, width) for cell, width in zip(cells, widths, strict=True)]
    for number in range(max(map(len, wrapped), default=0)):
        parts = (lines[number] if number < len(lines) else "" for lines in wrapped)
        padded = (part + " " * (width - width_of(part)) for part, width in zip(parts, widths, strict=True))
        yield (" " * _GAP).join(padded).rstrip()


def _blocks(table: Table, width: int) -> Iterator[tuple[str, str]]:
    # Yield a line for each cell, with its title before it, or in the line above if there is no room.
    titles = max(map(width_of, table.titles))
    longest = max((_longest_word(cell) for line in table.lines for cell in line.cells), default=0)
    label = titles + (_GAP if titles + _GAP + longest <= width else 1)
    fits_beside = label + min(longest, label) <= width
    for number, line in enumerate(table.lines):
        if number:
            yield "", ""
        for title, cell in zip(table.titles, line.cells, strict=True):
            if not cell:
                continue
            if fits_beside:
                for part_number, part in enumerate(wrap(cell, width - label)):
                    yield f"{title if not part_number else '':<{label}}{part}", line.style
                continue
            indent = " " * _GAP if width > 2 * _GAP else ""
            yield from ((part, line.style) for part in wrap(title, width))
            yield from ((indent + part, line.style) for part in wrap(cell, width - len(indent)))
