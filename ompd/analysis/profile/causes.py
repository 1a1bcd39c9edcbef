"""The causes of lost time in a profile, each with the part of the time that it costs and a bound of the gain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from ompd.analysis.profile.regions import Regions
from ompd.analysis.words import listed
from ompd.model import Evidence, Place
from ompd.model.kinds import Activity, VerdictKind
from ompd.model.profile import Estimate, ObjectShare, ProfileVerdict, RegionProfile, SlowThreads

LEAST = 0.1
"""A cause is reported if it certainly costs more than this part of the time."""
_LOCKS = ("lock", "nest_lock", "critical", "atomic", "mutex", "internal")
TINY = 1e-3
"""Seconds between two barriers below which beginning and ending regions is the cause of the time lost there."""
_ADVICE = {
    VerdictKind.SERIAL: (
        "let more threads share this code, or overlap it with a region (nowait, tasks); more threads alone do not help",
    ),
    VerdictKind.CONVOY: (
        "do less while holding it; let each thread collect its own result, and combine them once (reduction)",
        "use several locks, each for a part of the data",
    ),
    VerdictKind.TINY_REGIONS: (
        "put the parallel construct outside of the loop around it, with omp for inside",
        "leave small cases serial: if(n > ...) on the construct",
    ),
    VerdictKind.ORDERED_SERIAL: (
        "move work out of the ordered block; or write the results into an array, and use them in order after the loop",
    ),
}
_SAME = "give the threads equal work: another partition, or schedule(dynamic) or schedule(guided)"
_CHANGING = "let idle threads take over work: schedule(dynamic) with smaller chunks, or tasks"


def causes(regions: Regions, records: Sequence[RegionProfile]) -> tuple[ProfileVerdict, ...]:
    """Return the causes that certainly cost more than :data:`LEAST` of the time, those with the largest gain first."""
    possible = _all(regions, records)
    certain = [cause for cause in possible if cause.share.low is not None and cause.share.low > LEAST]
    return tuple(sorted(certain, key=lambda cause: -cause.gain))


def _all(regions: Regions, records: Sequence[RegionProfile]) -> Iterator[ProfileVerdict]:
    # The causes of throttled and missing processors will be made elsewhere, from the processors' own counters.
    yield _serial(regions)
    tiny = [region for region in records if region.length is not None and region.length <= TINY]
    if tiny:
        yield _tiny(regions, tiny)
    for key, region in zip(regions.keys, records, strict=True):
        if region not in tiny:
            yield _imbalance(regions, key, region)
        for share, waited in regions.waits(key):
            if waited.kind in _LOCKS:
                yield _convoy(region, share, waited)
            elif waited.kind == Activity.ORDERED:
                yield _ordered(region, share, waited)


def gain_of(lost: float) -> float:
    """Return how many times as fast the run is at most without the part *lost* of its thread time."""
    return 1 / (1 - lost) if lost < 1 else float("inf")


def _upper(share: Estimate) -> float:
    # The bound of the gain is that of the largest share in the interval. A part of 1 has no bound.
    return min(share.high if share.high is not None else share.mean, 0.999)


def _serial(regions: Regions) -> ProfileVerdict:
    lines, size = regions.serial_lines(), regions.team_size
    place = lines[0].place if lines else None
    upper = _upper(regions.serial)
    where = f", most of it at {_where(place)}" if place is not None else ""
    share = regions.serial if size > 1 else Estimate(0.0)
    return ProfileVerdict(
        kind=VerdictKind.SERIAL,
        share=share,
        gain=gain_of(upper * (1 - 1 / size)),
        summary=f"only one of {size} threads works in the serial part{where}",
        advice=_ADVICE[VerdictKind.SERIAL],
        place=place,
        lines=lines,
        evidence=(Evidence(f"no parallel region is executed at {_percent(share.mean)} of the moments", "derived"),),
        next_step="ompd stack TARGET",
    )


def _imbalance(regions: Regions, key: int, region: RegionProfile) -> ProfileVerdict:
    share, slow = regions.wasted([key], Activity.IMBALANCE), region.slow
    whom, advice = "slower members of their team", _CHANGING
    roots: tuple[int, ...] = ()
    evidence = [Evidence(f"{_own(region, Activity.IMBALANCE)} of its thread time is such waiting", "derived")]
    if slow is not None:
        whom, advice = _late(slow), _SAME if slow.are_same else _CHANGING
        roots = slow.native_thread_ids if slow.are_same else ()
        evidence.append(Evidence(f"{_members(slow)} caused {_percent(slow.part)} of the waiting", "derived"))
    lines = slow.lines if slow is not None else region.lines
    return ProfileVerdict(
        kind=VerdictKind.IMBALANCE,
        share=share,
        gain=gain_of(_upper(share)),
        summary=f"threads of {_name(region)} wait for {whom}",
        advice=(advice,),
        region=region.id,
        place=_place_of(region),
        lines=lines,
        roots=roots,
        evidence=tuple(evidence),
        next_step=f"ompd stack TARGET --thread {roots[0]}" if roots else "ompd stack TARGET",
    )


def _late(slow: SlowThreads) -> str:
    if not slow.are_same:
        return "slower members of their team, others each time"
    return f"{_members(slow)}, always the same"


def _members(slow: SlowThreads) -> str:
    numbers = [str(number) if number >= 0 else "?" for number in slow.thread_nums]
    names = listed(numbers)
    return names if names.endswith("threads") else f"thread{'s' * (len(numbers) > 1)} {names}"


def _tiny(regions: Regions, tiny: Sequence[RegionProfile]) -> ProfileVerdict:
    keys = [regions.keys[region.id - 1] for region in tiny]
    share = regions.wasted(keys, Activity.OVERHEAD, Activity.IMBALANCE)
    region = max(tiny, key=lambda region: region.share.mean * _lost(region))
    assert region.length is not None
    who = f"{_name(region)} is too short"
    if len(tiny) > 1:
        who = f"{len(tiny)} parallel regions are too short, first of all {_name(region)}"
    return ProfileVerdict(
        kind=VerdictKind.TINY_REGIONS,
        share=share,
        gain=gain_of(_upper(share)),
        summary=f"{who}: a barrier comes every {_time(region.length)}, of which beginning, ending and waiting take"
        f" {_time(region.length * _lost(region))}",
        advice=_ADVICE[VerdictKind.TINY_REGIONS],
        region=region.id,
        place=_place_of(region),
        lines=region.lines,
        evidence=(
            Evidence(f"its team passes {1 / region.length:,.0f} barriers a second, by the runtime's count", "runtime"),
        ),
        next_step="ompd parallel TARGET",
    )


def _lost(region: RegionProfile) -> float:
    # Return the part of a region's thread time that beginning, ending and waiting take.
    return _mean(region, Activity.OVERHEAD) + _mean(region, Activity.IMBALANCE)


def _convoy(region: RegionProfile, share: Estimate, lock: ObjectShare) -> ProfileVerdict:
    name = lock.symbol or lock.kind
    holder = f"; the holder is at {_where(lock.holders[0].place)}" if lock.holders else ""
    return ProfileVerdict(
        kind=VerdictKind.CONVOY,
        share=share,
        gain=gain_of(_upper(share)),
        summary=f"threads queue for {name}{_at(lock.place)}{holder}",
        advice=_ADVICE[VerdictKind.CONVOY],
        region=region.id,
        place=lock.place,
        lines=lock.holders,
        evidence=(
            Evidence(
                f"at {_percent(lock.waiting.mean)} of the moments of {_name(region)} at least one thread waits for it",
                "derived",
            ),
        ),
        next_step="ompd threads TARGET",
    )


def _ordered(region: RegionProfile, share: Estimate, turn: ObjectShare) -> ProfileVerdict:
    return ProfileVerdict(
        kind=VerdictKind.ORDERED_SERIAL,
        share=share,
        gain=gain_of(_upper(share)),
        summary=f"threads of {_name(region)} wait for their turn in ordered{_at(turn.place)}",
        advice=_ADVICE[VerdictKind.ORDERED_SERIAL],
        region=region.id,
        place=turn.place,
        lines=region.lines,
        evidence=(Evidence(f"{_own(region, Activity.ORDERED)} of its thread time is such waiting", "derived"),),
        next_step="ompd threads TARGET",
    )


# Words


def _place_of(region: RegionProfile) -> Place | None:
    return Place(None, region.function, region.file, region.line) if region.file is not None else None


def _name(region: RegionProfile) -> str:
    place = _place_of(region)
    return f"parallel {_where(place)}" if place is not None else f"parallel region {region.id}"


def _where(place: Place) -> str:
    if place.file is None or place.line is None:
        return place.function or "an unknown place"
    return f"{PurePosixPath(place.file).name}:{place.line}"


def _at(place: Place | None) -> str:
    return f" at {_where(place)}" if place is not None else ""


def _mean(region: RegionProfile, activity: Activity) -> float:
    return next((each.share.mean for each in region.activities if each.activity is activity), 0.0)


def _own(region: RegionProfile, activity: Activity) -> str:
    return _percent(_mean(region, activity))


def _percent(part: float) -> str:
    return f"{100 * part:.0f} %"


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"
