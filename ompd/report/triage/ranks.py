"""A map of the ranks of one job: a cell for each rank, coloured by its group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ompd.model.triage import JobRecord, TriageRecord
from ompd.render.answers.triage import folded
from ompd.render.words import format_count
from ompd.report import svg

SHADES = ("missing", "waits", "unknown", "works")
"""Colours of the smallest groups, smallest first. All other groups but the largest share a colour."""
LARGEST, OTHERS = "arrived", "mixed"

_CELL, _ACROSS = 20, 40
_LEFT = 52.0  # the x of the first cell, after the number of the line's first rank
_MOST = 1200  # cells; more ranks share cells
_SUMMED = 26  # groups in the description


def letter(number: int) -> str:
    """Return the name of a group on the page: A to Z, then A1 to Z1, and so on."""
    times, index = divmod(number, 26)
    return f"{chr(65 + index)}{times or ''}"


def draw_ranks(job: str | None, rows: Sequence[TriageRecord], jobs: Sequence[JobRecord], key: str) -> str | None:
    """Return the map of a job, None if none of its targets has a rank.

    :param job: the job's name in the groups' rank sets
    """
    groups = _groups_of(job, rows)
    if not groups:
        return None
    record = next((candidate for candidate in jobs if candidate.job == job), None)
    roots = {rank for end in record.ends for rank in end.ranks} if record is not None else set()
    size = max(max(groups) + 1, max(roots, default=0) + 1, record.size or 0 if record is not None else 0)
    shades = _shades(groups)
    ranks_per_cell = -(-size // _MOST)
    cells: dict[int, list[int]] = {}
    for rank in groups:
        cells.setdefault(rank // ranks_per_cell, []).append(rank)
    ends: dict[int, list[int]] = {}
    for rank in roots:
        ends.setdefault(rank // ranks_per_cell, []).append(rank)
    count = -(-size // ranks_per_cell)
    body = [
        _cell(number, cells.get(number, ()), groups, shades, ends.get(number, ()), ranks_per_cell, size)
        for number in range(count)
    ]
    lines = -(-count // _ACROSS)
    for line in range(lines):
        rank, y = line * _ACROSS * ranks_per_cell, 4.0 + line * _CELL + 14
        body.append(svg.text(str(rank), _LEFT - 8, y, text_anchor="end", class_="note"))
    height = 8.0 + lines * _CELL
    if ranks_per_cell > 1:
        height += svg.LINE
        body.append(
            svg.text(f"a cell for {ranks_per_cell} ranks, by the smallest group of them", 8, height - 4, class_="note")
        )
    width = _LEFT + min(count, _ACROSS) * _CELL + 8
    named = f"ranks of job {job}" if job is not None else "ranks"
    return svg.picture(body, max(width, 360.0), height, named, _summary(groups, size), key)


def names_of(rows: Sequence[TriageRecord]) -> list[str | None]:
    """Return the names of the jobs whose ranks are known."""
    return list(dict.fromkeys(ranks.job for row in rows for ranks in row.ranks))


def legend_of(job: str | None, rows: Sequence[TriageRecord]) -> list[tuple[str, str, int]]:
    """Return the groups of a job: colour, letter, number of ranks."""
    groups = _groups_of(job, rows)
    counts = Counter(groups.values())
    return [(shade, letter(number), counts[number]) for number, shade in sorted(_shades(groups).items())]


def _groups_of(job: str | None, rows: Sequence[TriageRecord]) -> dict[int, int]:
    # Return the number of each rank's group. A rank with targets in several groups gets the smallest one, because the
    # groups are sorted by size.
    group_of: dict[int, int] = {}
    for number, row in enumerate(rows):
        for ranks in row.ranks:
            if ranks.job == job:
                for rank in ranks.ranks:
                    group_of.setdefault(rank, number)
    return group_of


def _shades(groups: Mapping[int, int]) -> dict[int, str]:
    counts = Counter(groups.values())
    order = sorted(counts, key=lambda number: (counts[number], number))
    *smaller, largest = order
    shades = {number: SHADES[place] if place < len(SHADES) else OTHERS for place, number in enumerate(smaller)}
    return {**shades, largest: LARGEST}


def _cell(
    number: int,
    ranks: Sequence[int],
    groups: Mapping[int, int],
    shades: Mapping[int, str],
    ends: Sequence[int],
    ranks_per_cell: int,
    size: int,
) -> str:
    # *ends*: the ranks of the cell on which other ranks depend. *size*: the number of ranks of the job.
    first = number * ranks_per_cell
    x, y = _LEFT + number % _ACROSS * _CELL, 4.0 + number // _ACROSS * _CELL
    cell_name = f"rank {first}" if ranks_per_cell == 1 else f"ranks {first}-{min(first + ranks_per_cell, size) - 1}"
    place = {"x": x + 1, "y": y + 1, "width": _CELL - 3, "height": _CELL - 3}
    last = f"; what others wait for in the end: [{folded(ends)}]" if ends else ""
    if not ranks:
        words = svg.title(f"{cell_name}: not inspected{last}")
        return svg.element("rect", words, **place, class_="box root" if ends else "box absent")
    counts = Counter(groups[rank] for rank in ranks)
    group = min(counts)
    words = ", ".join(f"{letter(group)}: {format_count(counts[group], 'rank')}" for group in sorted(counts))
    shade = f"s-{shades[group]}{' root' if ends else ''}"
    shape = svg.element("rect", svg.title(f"{cell_name}: {words}{last}"), **place, class_=shade)
    return shape + svg.text(letter(group), x + _CELL / 2 - 0.5, y + 14, text_anchor="middle", class_="on")


def _summary(groups: Mapping[int, int], size: int) -> str:
    ranks: dict[int, list[int]] = {}
    for rank, group in groups.items():
        ranks.setdefault(group, []).append(rank)
    words = [f"{letter(group)}: [{folded(ranks[group])}]" for group in sorted(ranks)[:_SUMMED]]
    uninspected = size - len(groups)
    words += [f"{format_count(uninspected, 'rank')} not inspected"] * (uninspected > 0)
    return svg.shorten("; ".join(words), 2000)
