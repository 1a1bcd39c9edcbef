"""Divides each moment among what its threads do: one :class:`Slot` for each activity of each thread."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from ompd.analysis.profile.seen import Code, SeenLock, SeenMoment, SeenRegion, SeenThread
from ompd.model.kinds import Activity
from ompd.records import record

UNKNOWN_REGION = 0
"""The key of regions of which neither the code nor the place that began them is known."""
_OF_STATE: Mapping[str, Activity] = {
    "work_serial": Activity.SERIAL,
    **dict.fromkeys(
        ("work_parallel", "work_reduction", "work_free_agent", "work_induction"),
        Activity.WORK,
    ),
    **dict.fromkeys(("wait_taskwait", "wait_taskgroup"), Activity.TASKS),
    **dict.fromkeys(("wait_mutex", "wait_lock", "wait_critical", "wait_atomic"), Activity.LOCK),
    "wait_ordered": Activity.ORDERED,
    **dict.fromkeys(("wait_target", "wait_target_map", "wait_target_update", "overhead"), Activity.OVERHEAD),
    "idle": Activity.IDLE,
}
_WAIT, _BARRIER = "wait_", "wait_barrier"
# What members of a team do while others wait for them at a barrier.
_BUSY = frozenset(
    (
        *(Activity.WORK, Activity.SERIAL, Activity.LOCK, Activity.TASKS, Activity.ORDERED),
        *(Activity.NO_PROCESSOR, Activity.ASLEEP, Activity.UNKNOWN),
    )
)
_AT_BARRIER = None


@record(kw_only=True)
class Slot:
    """What a thread does at a moment. ``weight`` is 1, or less for a thread with several possible activities.

    ``region`` is the key of its region, None outside of regions: the address of the region's code, or the call site
    that began it. ``team`` is the index of the region in the moment. ``wait`` is what it waits for, by its state:
    ``critical``, ``lock``, ``taskwait`` and so on; None if it does not wait.
    """

    native_thread_id: int
    thread_num: int | None
    region: int | None
    team: int | None
    activity: Activity
    weight: float = 1.0
    code: Code = ()
    lock: SeenLock | None = None
    call: int | None = None
    wait: str | None = None


@record
class Divided:
    """One moment: its time in ``seconds``, and its slots. ``late`` are, for each team with threads that wait for slower
    members, the number of waiting threads and the slots of the slower members.
    """

    seconds: float
    slots: tuple[Slot, ...]
    late: tuple[tuple[int, tuple[Slot, ...]], ...]

    @property
    def regions(self) -> frozenset[int]:
        """The keys of the regions that are executed."""
        return frozenset(slot.region for slot in self.slots if slot.region is not None)


def divide(moments: Sequence[SeenMoment], delays: Mapping[int, float]) -> list[Divided]:
    """Return the moments, divided among activities.

    :param delays: the part of its running time that each thread waited for a processor, by native id
    """
    keys = _Keys(moments)
    spare = _spare_delays(moments, delays)
    return [_divided(moment, keys, spare) for moment in moments]


def _spare_delays(moments: Sequence[SeenMoment], delays: Mapping[int, float]) -> dict[int, float]:
    # Return the part of its running time that each thread waited for a processor, without the moments at which it was
    # seen to wait for one.
    running: dict[int, int] = {}
    lacking: dict[int, int] = {}
    for moment in moments:
        for thread in moment.threads:
            native = thread.native_thread_id
            running[native] = running.get(native, 0) + (thread.call is None)
            lacking[native] = lacking.get(native, 0) + thread.lacks_processor
    spare = {}
    for native, count in running.items():
        seen = lacking[native] / count if count else 0.0
        spare[native] = max(0.0, delays.get(native, 0.0) - seen) / (1 - seen) if seen < 1 else 0.0
    return spare


class _Keys:
    # The keys of regions. At the end of a region no thread may be in its code; then the call site that began it shows
    # which code it is. If nothing shows it, as while no thread has a processor, it is the only code in which its team
    # was ever seen.
    def __init__(self, moments: Sequence[SeenMoment]) -> None:
        self.begun_from: dict[int, int] = {}
        for moment in moments:
            for region in moment.regions:
                if region.begun_at:
                    site = region.begun_at[0]
                    self.begun_from[site] = region.entry or self.begun_from.get(site, site)
        self._of_teams: dict[str, set[int]] = {}
        for moment in moments:
            for region in moment.regions:
                key = self._shown(region)
                if key is not None and region.team:
                    self._of_teams.setdefault(region.team, set()).add(key)

    def _shown(self, region: SeenRegion) -> int | None:
        if region.entry is not None:
            return region.entry
        return self.begun_from[region.begun_at[0]] if region.begun_at else None

    def of(self, moment: SeenMoment, team: int | None) -> int | None:
        if team is None:
            return None
        region = moment.regions[team]
        key = self._shown(region)
        if key is not None:
            return key
        keys = self._of_teams.get(region.team, set())
        return next(iter(keys)) if len(keys) == 1 else UNKNOWN_REGION

    def beginning(self, thread: SeenThread) -> int | None:
        # Return the key of the region that a thread outside of regions begins or ends, None if it does neither.
        if thread.region is not None or thread.state != "overhead":
            return None
        return next((self.begun_from[site] for site in thread.code if site in self.begun_from), None)


def _divided(moment: SeenMoment, keys: _Keys, delays: Mapping[int, float]) -> Divided:
    begun = {thread.native_thread_id: keys.beginning(thread) for thread in moment.threads}
    beginning = next((key for key in begun.values() if key is not None), None)
    activities = [_activity(thread) for thread in moment.threads]
    waits = _waits(moment, activities)
    slots: list[Slot] = []
    for thread, activity in zip(moment.threads, activities, strict=True):
        region = keys.of(moment, thread.region) if thread.region is not None else begun[thread.native_thread_id]
        if activity is Activity.IDLE and beginning is not None and thread.region is None:
            activity, region = Activity.OVERHEAD, beginning
        chosen = activity if activity is not None else waits[thread.region or 0]
        slot = Slot(
            native_thread_id=thread.native_thread_id,
            thread_num=thread.thread_num,
            region=region,
            team=thread.region,
            activity=chosen,
            code=thread.code,
            lock=thread.lock,
            call=thread.call,
            wait=thread.state.removeprefix(_WAIT)
            if thread.state is not None and thread.state.startswith(_WAIT)
            else None,
        )
        slots += _parts(slot, delays.get(thread.native_thread_id, 0.0))
    return Divided(moment.seconds, tuple(slots), tuple(_late(slots)))


def _activity(thread: SeenThread) -> Activity | None:
    # Return what a thread does, None if it waits at a barrier.
    if thread.lacks_processor:
        return Activity.NO_PROCESSOR
    if thread.state is None:
        return Activity.UNKNOWN
    if thread.state.startswith(_BARRIER):
        return _AT_BARRIER if thread.region is not None else Activity.OVERHEAD
    activity = _OF_STATE.get(thread.state, Activity.UNKNOWN)
    if thread.call is not None and activity in (Activity.WORK, Activity.SERIAL):
        return Activity.ASLEEP
    return activity


def _waits(moment: SeenMoment, activities: Sequence[Activity | None]) -> list[Activity]:
    # Return what the threads of each team that are at a barrier wait for.
    waits = []
    for team, region in enumerate(moment.regions):
        members = [
            (thread, activity)
            for thread, activity in zip(moment.threads, activities, strict=True)
            if thread.region == team
        ]
        busy = [thread for thread, activity in members if activity in _BUSY]
        is_absent = len(members) < region.size  # a member may be in an inner region
        if busy and all(thread.in_task for thread in busy):
            waits.append(Activity.TASKS)
        else:
            waits.append(Activity.IMBALANCE if busy or (is_absent and _has_inner(moment, team)) else Activity.OVERHEAD)
    return waits or [Activity.OVERHEAD]


def _has_inner(moment: SeenMoment, team: int) -> bool:
    return any(other != team for other in {thread.region for thread in moment.threads} - {None})


def _parts(slot: Slot, delay: float) -> Iterator[Slot]:
    if delay and slot.activity in (Activity.WORK, Activity.SERIAL):
        yield replace(slot, weight=1 - delay)
        yield replace(slot, weight=delay, activity=Activity.NO_PROCESSOR)
    else:
        yield slot


def _late(slots: Collection[Slot]) -> Iterator[tuple[int, tuple[Slot, ...]]]:
    for team in sorted({slot.team for slot in slots if slot.team is not None}):
        members = [slot for slot in slots if slot.team == team]
        waiting = sum(slot.activity is Activity.IMBALANCE for slot in members)
        late = tuple(slot for slot in members if slot.activity in _BUSY)
        if waiting and late:
            yield waiting, late
