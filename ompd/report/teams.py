"""Teams as strips with a coloured cell for each thread. Nested teams stand below the enclosing one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby

from ompd.model import ParallelRecord, ThreadRecord
from ompd.records import record
from ompd.render.words import format_count, format_place, format_ranges
from ompd.report import svg
from ompd.report.states import HEIGHTS, WORDS

_WIDTH = 860
_CELL, _HIGH, _GAP = 14, 18, 4
_NUMBERED = 64  # threads of the largest team whose cells have the threads' numbers
_WIDE_CELL = 24
_ALONE = 360  # the largest team with a cell for each thread
_RUNS = 400  # cells of a larger team, each for a run of equal threads
_TEAMS = 40  # drawn teams
_DEEPEST = 12


@record
class _Team:
    region: ParallelRecord | None
    depth: int
    count: int  # equal teams, drawn as this one
    cells: tuple[tuple[str, str], ...]  # the state and words of each thread


def draw_teams(
    regions: Sequence[ParallelRecord], threads: Sequence[ThreadRecord], states: Mapping[int, str], key: str
) -> str | None:
    """Return the picture of all teams, None if there is no OpenMP thread."""
    rows = {row.native_thread_id: row for row in threads if row.native_thread_id is not None}
    teams = _teams(regions, rows, states)
    inside = {native for region in regions for native in region.threads}
    idle = [row for row in threads if row.state == "idle" and row.native_thread_id not in inside]
    if idle:
        teams.append(_Team(None, 0, 1, tuple(_cell(row.native_thread_id, rows, states) for row in idle)))
    if not teams:
        return None
    body: list[str] = []
    y, width = 4.0, 0.0
    for team in teams[:_TEAMS]:
        x = 8.0 + 20 * min(team.depth, _DEEPEST)
        y += svg.LINE
        body.append(svg.text(_heading(team), x, y - 4))
        parts, right, y = _strip(team, x, y)
        body += parts
        width = max(width, right, x + svg.width_of(_heading(team)))
        y += 8
    if len(teams) > _TEAMS:
        y += svg.LINE
        body.append(svg.text(f"{format_count(len(teams) - _TEAMS, 'more team')} not drawn", 8, y - 4, class_="note"))
    summary = "; ".join(f"{_heading(team)}: {_summary(team.cells)}" for team in teams[:_TEAMS])
    return svg.picture(body, min(width + 8, _WIDTH), y + 4, "teams, a cell for each thread", summary, key)


def _teams(
    regions: Sequence[ParallelRecord], rows: Mapping[int, ThreadRecord], states: Mapping[int, str]
) -> list[_Team]:
    # Return the teams to draw, each enclosing team before those nested in it. Nested teams that look alike and are at
    # one place are drawn as one.
    ids = {region.id for region in regions}
    children: dict[str | None, list[ParallelRecord]] = {}
    for region in regions:
        children.setdefault(region.enclosing if region.enclosing in ids else None, []).append(region)
    waiting = [(0, region) for region in reversed(children.get(None, ()))]
    visited: set[str] = set()
    index_of: dict[object, int] = {}
    teams: list[_Team] = []
    while waiting:
        depth, region = waiting.pop()
        if region.id in visited:
            continue
        visited.add(region.id)
        cells = tuple(_cell(native, rows, states) for native in region.threads)
        place = format_place(region.function) if region.function is not None else None
        look = (depth, place, tuple(state for state, _ in cells)) if depth else region.id
        if look in index_of:
            equal = teams[index_of[look]]
            teams[index_of[look]] = _Team(equal.region, equal.depth, equal.count + 1, equal.cells)
        else:
            index_of[look] = len(teams)
            teams.append(_Team(region, depth, 1, cells))
        waiting += [(depth + 1, inner) for inner in reversed(children.get(region.id, ()))]
    return teams


def _cell(native: int | None, rows: Mapping[int, ThreadRecord], states: Mapping[int, str]) -> tuple[str, str]:
    row = rows.get(native) if native is not None else None
    if row is None:
        return "unknown", "unknown"
    words = [row.state or "?", format_place(row.where) if row.where is not None else ""]
    return states.get(row.native_thread_id or 0, "unknown"), "   ".join(filter(None, words))


def _heading(team: _Team) -> str:
    size = format_count(len(team.cells), "thread")
    if team.region is None:
        return f"pool: {size}"
    place = format_place(team.region.function) if team.region.function is not None else "?"
    times = f"{svg.TIMES}{team.count}  " if team.count > 1 else ""
    return svg.shorten(f"{times}level {team.region.level or '?'}: {size}, parallel {place}", 110)


def _summary(cells: Sequence[tuple[str, str]]) -> str:
    counts = Counter(state for state, _ in cells)
    return ", ".join(f"{counts[state]} {words}" for state, words in WORDS.items() if counts[state])


def _strip(team: _Team, x: float, y: float) -> tuple[list[str], float, float]:
    # Return the cells of a team, the right edge of the longest line, and the lower edge of the last line.
    if len(team.cells) <= _ALONE:
        pieces = [(state, words, [number]) for number, (state, words) in enumerate(team.cells)]
        widths = [float(_WIDE_CELL if len(pieces) <= _NUMBERED else _CELL)] * len(pieces)
    else:
        pieces = _runs(team.cells)
        room = _WIDTH - x - 8
        widths = [max(6.0, room * len(numbers) / len(team.cells)) for _, _, numbers in pieces]
    body: list[str] = []
    left = right = x
    for (state, words, numbers), wide in zip(pieces, widths, strict=True):
        if left + wide > _WIDTH - 8 and left > x:
            left, y = x, y + _HIGH + _GAP
        high = _HIGH * HEIGHTS[state]
        threads_text = f"thread {numbers[0]}" if len(numbers) == 1 else f"threads {_numbers(numbers)} ({len(numbers)})"
        body.append(
            svg.element(
                "rect",
                svg.title(f"{threads_text}: {WORDS[state]}   {words}"),
                x=left,
                y=y + _HIGH - high,
                width=max(wide - 2, 1.0),
                height=high,
                class_=f"s-{state}",
            )
        )
        if len(team.cells) <= _NUMBERED:
            middle, below = left + (wide - 2) / 2, y + _HIGH - 5
            body.append(svg.text(str(numbers[0]), middle, below, class_="cell", text_anchor="middle"))
        left += wide
        right = max(right, left)
    return body, right, y + _HIGH


def _numbers(numbers: Sequence[int]) -> str:
    pieces = format_ranges(numbers).split(",")
    return ",".join(pieces if len(pieces) <= 4 else [*pieces[:2], "…", pieces[-1]])


def _runs(cells: Sequence[tuple[str, str]]) -> list[tuple[str, str, list[int]]]:
    # Return the cells of a large team: one for each run of equal neighbours or, if these are too many, for each state.
    numbered = list(enumerate(cells))
    for is_alike in (lambda item: item[1], lambda item: item[1][0]):
        runs = [
            (members[0][1][0], members[0][1][1], [number for number, _ in members])
            for members in (list(group) for _, group in groupby(numbered, is_alike))
        ]
        if len(runs) <= _RUNS:
            return runs
    by_state: dict[str, list[int]] = {}
    for number, (state, _) in numbered:
        by_state.setdefault(state, []).append(number)
    return [(state, "", by_state[state]) for state in WORDS if state in by_state]
