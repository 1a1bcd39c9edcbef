"""``check`` as lines: the comparisons, unexplained differences, and the known differences that were seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ompd.model.checks import CheckAnswer, CheckedLibrary, DifferenceRecord, EntrySeen
from ompd.render.words import Line, Table, basename, clean, format_count, format_field

_SHOWN = 40  # unexplained differences, unless all are wanted


def lines_of_library(library: CheckedLibrary) -> Iterator[str]:
    """Yield lines on the comparisons with a library, and their results."""
    yield f"{library.runtime}: {basename(library.file)} ({library.version})"
    known = "not one whose differences were measured"
    if library.what is not None:
        known = library.what
    elif library.vendor is not None:
        known = f"a release of {library.vendor} whose differences were not measured"
    yield f"  library    {library.file}"
    yield f"  known as   {known}"
    yield (
        f"  compared   {format_count(library.facts, 'fact')}: {library.same} the same, {library.explained} differ as"
        f" known, {library.unexplained} unexplained"
    )


def unexplained(answer: CheckAnswer) -> Sequence[DifferenceRecord]:
    """Return the differences that no entry explains."""
    return [row for row in answer.rows if row.entry is None]


def differences_table(rows: Sequence[DifferenceRecord]) -> Table:
    """Return the table of differences, a line for each."""
    lines = tuple(
        Line((_entry(row), clean(row.fact), _subject(row), format_field(row, "library"), format_field(row, "ours")))
        for row in rows
    )
    return Table(("NO.", "FACT", "OF", "LIBRARY", "OURS"), lines)


def shown(answer: CheckAnswer, *, unfold: bool) -> tuple[Sequence[DifferenceRecord], str | None]:
    """Return the differences to show, and a text about the omitted ones.

    :param unfold: show all differences, also explained ones
    """
    rows = answer.rows if unfold else unexplained(answer)
    if unfold or len(rows) <= _SHOWN:
        return rows, None
    return rows[:_SHOWN], f"and {len(rows) - _SHOWN} more (--all)"


def entries_table(entries: Sequence[EntrySeen], *, many: bool) -> Table:
    """Return the table of known differences that were seen or should have been seen.

    :param many: whether there is more than one library
    """
    lines = []
    for entry in entries:
        if entry.state not in ("seen", "gone"):
            continue
        text = str(entry.explains) if entry.state == "seen" else "GONE"
        cells = (str(entry.number), text, entry.title)
        lines.append(Line((clean(entry.runtime), *cells) if many else cells, "failed" if entry.state == "gone" else ""))
    titles = ("NO.", "SEEN", "KNOWN DIFFERENCE")
    return Table(("RUNTIME", *titles) if many else titles, tuple(lines))


def gone_lines(entries: Sequence[EntrySeen]) -> Iterator[str]:
    """Yield lines on known differences that should have been seen, but were not."""
    for entry in entries:
        if entry.state == "gone":
            yield f"{entry.number} is not seen, and this release should have it: {entry.title}"


def _entry(row: DifferenceRecord) -> str:
    return "none" if row.entry is None else str(row.entry)


def _subject(row: DifferenceRecord) -> str:
    if row.subject == "process":
        return "process"
    whose = "" if row.subject == "thread" else f" (thread {row.native_thread_id})"
    return f"{row.subject} {row.id}{whose}"
