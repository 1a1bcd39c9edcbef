"""Lines of source with what is wrong in one of them, as compilers show errors."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ompd.model.places import SourceExcerpt
from ompd.render.words import basename, clean

_TAB = 8
_LONGEST_MARK = 40  # so that the text behind it is in sight
_COMMENT = re.compile(r"(?<=\S)\s*(?://|/\*).*")  # at the end of a line of C or C++


def excerpt_lines(excerpt: SourceExcerpt) -> Iterator[tuple[str, str]]:
    """Yield the lines of an excerpt, each with its style. Lines with marks are underlined, with the texts behind."""
    width = len(str(max(excerpt.line, excerpt.first + len(excerpt.lines) - 1)))
    yield f"{'':{width}}--> {clean(basename(excerpt.file))}:{excerpt.line}", "dim"
    for number, text in enumerate(excerpt.lines, excerpt.first):
        shown = clean(text.expandtabs(_TAB))
        marks = [mark for mark in excerpt.marks if mark.line == number]
        yield f"{number:{width}} | {shown}".rstrip(), "" if marks else "dim"
        indent, length = len(shown) - len(shown.lstrip()), len(_COMMENT.sub("", shown).strip())
        length = min(max(length, 1), _LONGEST_MARK)
        for place, mark in enumerate(marks):
            sign = " " if place else "^" if mark.is_main else "-"
            yield f"{'':{width}} | {'':{indent}}{sign * length} {clean(mark.text)}", "failed" if mark.is_main else ""
    if excerpt.note is not None:
        yield f"{'':{width}} = {clean(excerpt.note)}", "dim"
