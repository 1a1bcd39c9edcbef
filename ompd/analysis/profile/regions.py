"""The records of a profile: regions, activities, threads, stacks, and the moments themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from ompd.analysis.profile.estimates import FEWEST, estimate
from ompd.analysis.profile.objects import Object, Objects
from ompd.analysis.profile.seen import Code, Named, SeenMoment
from ompd.analysis.profile.slots import UNKNOWN_REGION, Divided, Slot, divide
from ompd.model import Place
from ompd.model.kinds import Activity
from ompd.model.profile import (
    ActivityShare,
    Estimate,
    LineShare,
    ObjectShare,
    ProfiledThread,
    ProfileMoment,
    ProfileStack,
    RegionProfile,
    SlowThreads,
)

_LINES = 5  # lines of a region that are listed
_OBJECTS = 5
_STACKS = 2000
# The part of the waiting that the threads that are called slow have caused.
_MOST_OF_WAITING = 0.8
_NO_COUNT = "the moments do not show how many barriers the team has passed"


class _Counted(NamedTuple):
    """Two moments at which the same word counts barriers: the regions at each, the barriers and seconds in between."""

    regions: tuple[frozenset[int], frozenset[int]]
    passed: int
    seconds: float


class Regions:
    """The moments of a profile, divided, and the records that they give.

    ``team_size`` is the most threads that were in regions at once, at least 1. ``keys`` are the keys of the regions by
    the part of the moments at which they were executed, the largest first.

    :param delays: the part of its running time that each thread waited for a processor, by native id
    """

    def __init__(self, moments: Sequence[SeenMoment], named: Named, delays: Mapping[int, float]) -> None:
        self._seen, self._named = moments, named
        self.moments = divide(moments, delays)
        in_regions = (sum(thread.region is not None for thread in moment.threads) for moment in moments)
        self.team_size = max(1, *in_regions) if moments else 1
        counted = Counter(key for moment in self.moments for key in moment.regions)
        self.keys = [key for key, _ in sorted(counted.items(), key=lambda item: (-item[1], item[0]))]
        self.numbers = {key: number for number, key in enumerate(self.keys, 1)}
        self._waits: dict[int, Sequence[tuple[Estimate, ObjectShare]]] = {}

    # The whole run

    def part_of_run(self, value: Callable[[Divided], float]) -> Estimate:
        """Return the mean of *value* over all moments."""
        return estimate([value(moment) for moment in self.moments])

    def wasted(self, keys: Collection[int], *activities: Activity) -> Estimate:
        """Return the part of the thread time of the whole run that threads of some regions spend in *activities*."""
        return self.part_of_run(
            lambda moment: (
                sum(slot.weight for slot in moment.slots if slot.region in keys and slot.activity in activities)
                / self.team_size
            )
        )

    @cached_property
    def serial(self) -> Estimate:
        """The part of the moments outside of all parallel regions."""
        return self.part_of_run(lambda moment: float(not moment.regions))

    @cached_property
    def efficiency(self) -> Estimate:
        """The parallel efficiency (docs/profile.md)."""
        return self.part_of_run(self._useful)

    def _useful(self, moment: Divided) -> float:
        useful = sum(slot.weight for slot in moment.slots if slot.activity in (Activity.WORK, Activity.SERIAL))
        return min(1.0, (useful if moment.slots else 1.0) / self.team_size)

    def activities_of_run(self) -> tuple[ActivityShare, ...]:
        """Return how the thread time of the whole run divides. Threads that do not exist yet count as idle."""
        return _shares([self._whole(moment) for moment in self.moments])

    def _whole(self, moment: Divided) -> Counter[Activity]:
        parts: Counter[Activity] = Counter()
        for slot in moment.slots:
            parts[slot.activity] += slot.weight  # type: ignore[assignment]
        if not moment.slots:
            parts[Activity.SERIAL] = 1  # no runtime has begun
        others = self.team_size - (sum(parts.values()) - parts[Activity.IDLE])
        parts[Activity.IDLE] = max(0, others)
        return parts

    def serial_lines(self) -> tuple[LineShare, ...]:
        """Return the lines of the serial part, the most frequent first."""
        outside = (moment for moment in self.moments if not moment.regions)
        return self.lines(
            slot for moment in outside for slot in moment.slots if slot.activity in (Activity.SERIAL, Activity.ASLEEP)
        )

    # Regions

    def records(self) -> tuple[RegionProfile, ...]:
        """Return the record of each region."""
        return tuple(self._record(key) for key in self.keys)

    def _record(self, key: int) -> RegionProfile:
        present = [
            [slot for slot in moment.slots if slot.region == key] for moment in self.moments if key in moment.regions
        ]
        construct = self._named.constructs.get(key)
        # Without the region's code, the call that began the region is the best place.
        begun = self._named.frames.get((key,), ()) if construct is None else ()
        place = construct or (begun[0] if begun else None)
        sizes = [
            region.size
            for moment, divided in zip(self._seen, self.moments, strict=True)
            for region in (
                moment.regions[slot.team] for slot in divided.slots if slot.team is not None and slot.region == key
            )
        ]
        length = self._length(key)
        return RegionProfile(
            id=self.numbers[key],
            construct="parallel" if key != UNKNOWN_REGION else None,
            function=place.function if place is not None else None,
            file=place.file if place is not None else None,
            line=place.line if place is not None else None,
            share=self.part_of_run(lambda moment: float(key in moment.regions)),
            moments=len(present),
            got=max(sizes, default=1),
            activities=_shares([_summed(slots) for slots in present]),
            objects=tuple(share for _, share in self.waits(key)),
            slow=self._slow(key),
            lines=self.lines(slot for slots in present for slot in slots if slot.activity is Activity.WORK),
            barriers_per_second=1 / length if length else None,
            length=length,
            unavailable={} if length else dict.fromkeys(("barriers_per_second", "length"), _NO_COUNT),
        )

    def lines(self, slots: Iterable[Slot]) -> tuple[LineShare, ...]:
        """Return the lines in which threads were seen, the most frequent first."""
        counted: dict[tuple[str | None, str | None, int | None], float] = {}
        first: dict[tuple[str | None, str | None, int | None], Place] = {}
        for slot in slots:
            frames = self._named.frames.get(slot.code, ())
            if frames:
                key = frames[0].function, frames[0].file, frames[0].line
                counted[key] = counted.get(key, 0.0) + slot.weight
                first.setdefault(key, frames[0])
        total = sum(counted.values())
        often = sorted(counted, key=lambda key: -counted[key])
        return tuple(LineShare(first[key], counted[key] / total) for key in often[:_LINES])

    def _length(self, key: int) -> float | None:
        # Return the mean time between two barriers of a region, by pairs of moments with counts by the same word.
        # Both moments of a pair are in the region. Without such a pair, as in short regions that take turns, one is.
        for is_in in (all, any):
            pairs = [pair for pair in self._counts if is_in(key in keys for keys in pair.regions)]
            passed, seconds = sum(pair.passed for pair in pairs), sum(pair.seconds for pair in pairs)
            if pairs:
                return seconds / passed if passed else None
        return None

    @cached_property
    def _counts(self) -> Sequence[_Counted]:
        pairs: list[_Counted] = []
        before: tuple[Divided, tuple[int, int]] | None = None
        for seen, moment in zip(self._seen, self.moments, strict=True):
            counts = [region.barrier for region in seen.regions if region.barrier is not None]
            if len(seen.regions) > 1:
                before = None
            if len(seen.regions) != 1 or not counts:
                continue
            (word, count) = counts[0]
            if before is not None and before[1][0] == word and count >= before[1][1]:
                earlier, (_, first) = before
                pairs.append(
                    _Counted((earlier.regions, moment.regions), count - first, moment.seconds - earlier.seconds)
                )
            before = moment, (word, count)
        return pairs

    def waits(self, key: int) -> Sequence[tuple[Estimate, ObjectShare]]:
        """Return what the threads of a region wait for, the longest waits first. Each comes with the part of the thread
        time of the whole run that it costs.
        """
        if key not in self._waits:
            self._waits[key] = list(self._all_waits(key))
        return self._waits[key]

    def _all_waits(self, key: int) -> Iterator[tuple[Estimate, ObjectShare]]:
        moments = [[slot for slot in moment.slots if slot.region == key] for moment in self.moments]
        present = [slots for slots in moments if slots]
        objects = Objects(self._named, present)
        longest = Counter(wanted for slots in present for slot in slots if (wanted := objects.of(slot)) is not None)
        for wanted, _ in longest.most_common(_OBJECTS):
            own = [[slot for slot in slots if objects.of(slot) == wanted] for slots in moments]
            yield (
                estimate([_sum(slots) / self.team_size for slots in own]),
                self._object_share(wanted, objects, present),
            )

    def _object_share(self, wanted: Object, objects: Objects, present: Sequence[Sequence[Slot]]) -> ObjectShare:
        parts = [[slot for slot in slots if objects.of(slot) == wanted] for slots in present]
        names = self._named.locks if wanted.is_lock else self._named.calls
        places = self.lines(slot for own in parts for slot in own)
        return ObjectShare(
            kind=wanted.kind,
            share=estimate([_sum(own) / _sum(slots) for own, slots in zip(parts, present, strict=True)]),
            waiting=estimate([float(bool(own)) for own in parts]),
            object=wanted.number if wanted.is_lock else None,
            symbol=names.get(wanted.number) if wanted.number is not None else None,
            place=places[0].place if places else None,
            holders=self.lines(objects.holders(wanted)) if wanted.is_lock else (),
        )

    def _slow(self, key: int) -> SlowThreads | None:
        late = [(waiting, slots) for moment in self.moments for waiting, slots in moment.late if slots[0].region == key]
        if len(late) < FEWEST:
            return None
        blame: dict[tuple[int, int], float] = {}
        sizes = []
        for waiting, slots in late:
            sizes.append(waiting + len({slot.native_thread_id for slot in slots}))
            total = _sum(slots)
            for slot in slots:
                thread = slot.thread_num if slot.thread_num is not None else -1, slot.native_thread_id
                blame[thread] = blame.get(thread, 0.0) + waiting * slot.weight / total
        whole, caused = sum(blame.values()), 0.0
        chosen: list[tuple[int, int]] = []
        for thread in sorted(blame, key=lambda thread: -blame[thread]):
            if caused >= _MOST_OF_WAITING * whole:
                break
            chosen.append(thread)
            caused += blame[thread]
        natives = {native for _, native in chosen}
        return SlowThreads(
            thread_nums=tuple(number for number, _ in chosen),
            native_thread_ids=tuple(native for _, native in chosen),
            part=caused / whole,
            are_same=2 * len(chosen) <= max(sizes),
            lines=self.lines(slot for _, slots in late for slot in slots if slot.native_thread_id in natives),
        )

    # Threads, moments, stacks

    def threads(self) -> tuple[ProfiledThread, ...]:
        """Return the threads that were seen, by their numbers."""
        numbers: dict[int, Counter[int | None]] = {}
        parts: dict[int, list[Counter[Activity]]] = {}
        for moment in self.moments:
            own: dict[int, list[Slot]] = {}
            for slot in moment.slots:
                own.setdefault(slot.native_thread_id, []).append(slot)
            for native, slots in own.items():
                numbers.setdefault(native, Counter())[slots[0].thread_num] += slots[0].thread_num is not None
                parts.setdefault(native, []).append(_summed(slots))
        often = {native: counts.most_common(1)[0][0] for native, counts in numbers.items()}
        ordered = sorted(often, key=lambda native: (often[native] is None, often[native] or 0, native))
        return tuple(ProfiledThread(native, often[native], _shares(parts[native])) for native in ordered)

    def timeline(self, threads: Sequence[ProfiledThread]) -> tuple[ProfileMoment, ...]:
        """Return each moment, with what each of *threads* did."""
        return tuple(self._moment(moment, [thread.native_thread_id for thread in threads]) for moment in self.moments)

    def _moment(self, moment: Divided, natives: Sequence[int]) -> ProfileMoment:
        main = _main_slots(moment)
        slots = [main.get(native) for native in natives]
        return ProfileMoment(
            round(moment.seconds, 4),
            tuple(slot.activity if slot is not None else None for slot in slots),
            tuple(
                self.numbers[slot.region] if slot is not None and slot.region is not None else None for slot in slots
            ),
        )

    def stacks(self) -> tuple[ProfileStack, ...]:
        """Return the distinct stacks, the most frequent first. A worker's begins with that of the region."""
        begun: dict[int, Code] = {}
        for seen, moment in zip(self._seen, self.moments, strict=True):
            for slot in moment.slots:
                if slot.team is not None and slot.region is not None and seen.regions[slot.team].begun_at:
                    begun.setdefault(slot.region, seen.regions[slot.team].begun_at)
        counted: Counter[tuple[Activity, int | None, tuple[Place, ...]]] = Counter()
        for moment in self.moments:
            for slot in _main_slots(moment).values():
                region = self.numbers[slot.region] if slot.region is not None else None
                outer = begun.get(slot.region, ()) if slot.region is not None and slot.thread_num != 0 else ()
                counted[slot.activity, region, self._frames(slot.code, outer)] += 1
        return tuple(
            ProfileStack(activity, count, region, frames)
            for (activity, region, frames), count in counted.most_common(_STACKS)
        )

    def _frames(self, code: Code, outer: Code) -> tuple[Place, ...]:
        frames = self._named.frames
        inner = tuple(_shown(place) for place in reversed(frames.get(code, ())))
        return (*(_shown(place) for place in reversed(frames.get(outer, ()))), *inner)


def _main_slots(moment: Divided) -> dict[int, Slot]:
    # Return the most likely slot of each thread, by native id.
    main: dict[int, Slot] = {}
    for slot in moment.slots:
        before = main.get(slot.native_thread_id)
        if before is None or slot.weight > before.weight:
            main[slot.native_thread_id] = slot
    return main


def _shown(place: Place) -> Place:
    # Stacks with equal lines are equal, whatever the addresses.
    return Place(None, place.function, place.file, place.line)


def _sum(slots: Iterable[Slot]) -> float:
    return sum(slot.weight for slot in slots)


def _summed(slots: Iterable[Slot]) -> Counter[Activity]:
    parts: Counter[Activity] = Counter()
    for slot in slots:
        parts[slot.activity] += slot.weight  # type: ignore[assignment]
    return parts


def _shares(moments: Sequence[Mapping[Activity, float]]) -> tuple[ActivityShare, ...]:
    seen = [activity for activity in Activity if any(parts.get(activity) for parts in moments)]
    totals = [sum(parts.values()) or 1.0 for parts in moments]
    shares = [
        ActivityShare(
            activity,
            estimate([parts.get(activity, 0.0) / total for parts, total in zip(moments, totals, strict=True)]),
        )
        for activity in seen
    ]
    return tuple(sorted(shares, key=lambda share: -share.share.mean))
