"""``profile`` as text: the causes of lost time, then a table of the regions; and its stacks in other formats."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ompd.model import Place, ProfileAnswer
from ompd.model.kinds import Activity
from ompd.model.profile import ActivityShare, Estimate, LineShare, ObjectShare, ProfileVerdict, RegionProfile
from ompd.render.words import NONE, Line, Table, basename, clean, format_count, format_place, format_target

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_TITLES: Mapping[Activity, str] = {
    Activity.WORK: "WORK",
    Activity.SERIAL: "SERIAL",
    Activity.IMBALANCE: "WAIT",
    Activity.LOCK: "LOCK",
    Activity.TASKS: "TASKS",
    Activity.ORDERED: "ORDER",
    Activity.OVERHEAD: "RUNTIME",
    Activity.NO_PROCESSOR: "NO CPU",
    Activity.ASLEEP: "ASLEEP",
    Activity.IDLE: "IDLE",
    Activity.UNKNOWN: "?",
}
_LEAST_SHOWN = 0.005  # parts that are 0 % when they are rounded
_LINES = 3
_LARGEST_GAIN = 50.0  # a larger bound is no help
_SERIAL, _ALL = "(serial part)", "(all)"


def cause_lines(answer: ProfileAnswer, *, verbose: bool) -> Iterator[tuple[str, str]]:
    """Yield the causes as sentences, each line with its style."""
    for number, verdict in enumerate(answer.verdicts):
        if number:
            yield "", ""
        yield from _cause(answer, verdict, verbose)
    if not answer.verdicts:
        few = answer.sampling is None or answer.efficiency is None or answer.efficiency.low is None
        yield ("Too few moments to tell causes." if few else "No cause certainly costs more than 10 % of the time."), ""


def _cause(answer: ProfileAnswer, verdict: ProfileVerdict, verbose: bool) -> Iterator[tuple[str, str]]:
    text = verdict.summary[:1].upper() + verdict.summary[1:]
    yield f"{text}.", "head"
    gain = f"Without this the run is at most {verdict.gain:.1f} times as fast."
    if verdict.gain > _LARGEST_GAIN:
        gain = "Nothing bounds what the run gains without this."
    yield f"It costs {_percent(verdict.share, interval=True)} of the time. {gain}", ""
    for advice in verdict.advice:
        yield f"  do this    {advice[:1].upper()}{advice[1:]}.", ""
    if verdict.lines:
        yield f"  look at    {_lines(verdict.lines)}", ""
    if verbose:
        yield from ((f"  known by   {evidence.text}", "dim") for evidence in verdict.evidence)
    if verdict.next_step is not None:
        target = str(answer.target.process_id) if answer.target.process_id is not None else "PID"
        yield f"  next       {verdict.next_step.replace('TARGET', target)}", ""


def sampling_lines(answer: ProfileAnswer) -> Iterator[str]:
    """Yield lines about the moments, and the parallel efficiency."""
    sampling = answer.sampling
    if sampling is not None:
        stops = f"; {sampling.stops} stops of {sampling.stopped_ms:.2f} ms" if sampling.stops else "; not stopped"
        yield (
            f"{format_count(sampling.moments, 'moment')} in {sampling.seconds:.1f} s ({sampling.rate:.1f} a second)"
            f"{stops}; a look costs {sampling.look_ms:.1f} ms"
        )
    if answer.efficiency is not None and answer.team_size is not None:
        yield (
            f"parallel efficiency {_percent(answer.efficiency, interval=True)},"
            f" of {format_count(answer.team_size, 'thread')}"
        )


def region_table(answer: ProfileAnswer, *, verbose: bool) -> Table:
    """Return the table of the regions: the part of the time of each, and how its thread time divides."""
    rows = [*(region.activities for region in answer.rows), answer.activities]
    shown = [
        activity
        for activity in _TITLES
        if any(share.share.mean >= _LEAST_SHOWN for row in rows for share in row if share.activity is activity)
    ]
    titles = ("REGION", "TIME", "THREADS", *(_TITLES[activity] for activity in shown))
    lines = [
        Line(
            (
                _region(region),
                _percent(region.share, interval=verbose),
                f"{region.got}/{region.asked}" if region.asked is not None else str(region.got),
                *_cells(region.activities, shown, verbose),
            )
        )
        for region in answer.rows
    ]
    empty = ("",) * len(shown)
    if answer.serial is not None and answer.serial.mean >= _LEAST_SHOWN:
        lines.append(Line((_SERIAL, _percent(answer.serial, interval=verbose), "1", *empty), "dim"))
    if answer.activities:
        size = str(answer.team_size) if answer.team_size is not None else NONE
        lines.append(Line((_ALL, "100 %", size, *_cells(answer.activities, shown, verbose)), "dim"))
    return Table(titles, tuple(lines))


def detail_lines(answer: ProfileAnswer, *, verbose: bool) -> Iterator[str]:
    """Yield the hottest lines of each region and of the serial part, and what its threads wait for."""
    for region in answer.rows:
        name = _region(region)
        if region.lines:
            yield f"{name}   works at {_lines(region.lines)}"
        if verbose and region.length is not None:
            yield f"{name}   a barrier every {_seconds(region.length)}"
        yield from (f"{name}   {_object(each)}" for each in region.objects if each.share.mean >= _LEAST_SHOWN)
    if answer.serial_lines and answer.serial is not None and answer.serial.mean >= _LEAST_SHOWN:
        yield f"{_SERIAL}   works at {_lines(answer.serial_lines)}"


def _region(region: RegionProfile) -> str:
    if region.file is None or region.line is None:
        return region.function or f"(region {region.id}, place unknown)"
    return format_place(Place(None, region.function, region.file, region.line))


def _cells(shares: Sequence[ActivityShare], shown: Sequence[Activity], verbose: bool) -> Iterator[str]:
    by_activity = {share.activity: share.share for share in shares}
    for activity in shown:
        share = by_activity.get(activity)
        yield _percent(share, interval=verbose) if share is not None and share.mean >= _LEAST_SHOWN else ""


def _percent(share: Estimate, *, interval: bool) -> str:
    text = f"{100 * share.mean:.0f} %"
    if not interval or share.low is None or share.high is None:
        return text
    return f"{text} ({100 * share.low:.0f} to {100 * share.high:.0f})"


def _lines(lines: Sequence[LineShare]) -> str:
    return ", ".join(f"{format_place(line.place)} {100 * line.part:.0f} %" for line in lines[:_LINES])


def _object(waited: ObjectShare) -> str:
    name = waited.symbol or (f"{waited.kind} {waited.object:#x}" if waited.object is not None else waited.kind)
    where = f" at {format_place(waited.place)}" if waited.place is not None else ""
    held = f", held at {_lines(waited.holders)}" if waited.holders else ""
    return f"waits for {name}{where}: {_percent(waited.share, interval=False)}{held}"


def _seconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} us"


# Stacks


def format_folded(answer: ProfileAnswer) -> str:
    """Return a line for each distinct stack: its frames from the outermost inwards and what the thread did, joined by
    semicolons, a space and how often a thread had it.
    """
    counted: Counter[str] = Counter()
    for stack in answer.stacks:
        frames = [_frame(place) for place in stack.frames]
        counted[";".join([*frames, f"({stack.activity})"])] += stack.count
    return "".join(f"{line} {count}\n" for line, count in sorted(counted.items()))


def _frame(place: Place) -> str:
    at = f" ({basename(place.file)}:{place.line})" if place.file is not None and place.line is not None else ""
    return clean((place.function or "?") + at).replace(";", ":")


def format_speedscope(answer: ProfileAnswer) -> str:
    """Return the stacks as a file of speedscope: one profile, in which each stack is a sample. Its innermost frame says
    what the thread did.
    """
    numbers: dict[tuple[str, str | None, int | None], int] = {}
    samples, weights = [], []
    for stack in answer.stacks:
        frames = [(clean(p.function or "?"), clean(p.file) if p.file else None, p.line) for p in stack.frames]
        frames.append((f"({stack.activity})", None, None))
        samples.append([numbers.setdefault(frame, len(numbers)) for frame in frames])
        weights.append(stack.count)
    shared = [
        {"name": name} | ({"file": file} if file is not None else {}) | ({"line": line} if line is not None else {})
        for name, file, line in numbers
    ]
    profile = {
        "type": "sampled",
        "name": "threads",
        "unit": "none",
        "startValue": 0,
        "endValue": sum(weights),
        "samples": samples,
        "weights": weights,
    }
    return json.dumps(
        {
            "$schema": _SCHEMA,
            "exporter": "ompd",
            "name": format_target(answer.target, answer.runtimes),
            "activeProfileIndex": 0,
            "shared": {"frames": shared},
            "profiles": [profile],
        }
    )
