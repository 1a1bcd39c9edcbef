"""Lines of source with what is wrong in one of them, as compilers show errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ompd.model.places import SourceExcerpt
from ompd.render.words import basename, clean

_TAB = 8


def excerpt_lines(excerpt: SourceExcerpt, labels: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the lines of an excerpt, each with its style. Its line is underlined, with *labels* behind that."""
    width = len(str(max(excerpt.line, excerpt.first + len(excerpt.lines) - 1)))
    yield f"{'':{width}}--> {clean(basename(excerpt.file))}:{excerpt.line}", "dim"
    for number, text in enumerate(excerpt.lines, excerpt.first):
        shown = clean(text.expandtabs(_TAB))
        yield f"{number:{width}} | {shown}".rstrip(), "" if number == excerpt.line else "dim"
        if number == excerpt.line:
            code = shown.strip()
            indent = len(shown) - len(shown.lstrip())
            marks = f"{'':{indent}}{'^' * max(len(code), 1)}"
            for label in labels:
                yield f"{'':{width}} | {marks} {label}", "failed"
                marks = " " * len(marks)
    if excerpt.note is not None:
        yield f"{'':{width}} = {clean(excerpt.note)}", "dim"
