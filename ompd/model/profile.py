"""Records of ``ompd profile``: where the time of the threads goes, region by region, and the causes of lost time.

A *moment* is one look at all threads. Threads of one moment depend on each other, so all estimates are means over
moments, and never over threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ompd.model.base import Record
from ompd.model.kinds import Activity, VerdictKind
from ompd.model.openmp import Answer
from ompd.model.places import Place
from ompd.model.stalls import Evidence
from ompd.records import record


@record
class Estimate(Record):
    """A part, from 0 to 1, that was estimated from moments. ``low`` and ``high`` are the ends of its 95 % interval.

    Both are None if there are fewer than 30 moments: the interval is then unknown.
    """

    mean: float
    low: float | None = None
    high: float | None = None


@record
class ActivityShare(Record):
    """The part of the thread time that goes to one activity, as in :class:`~ompd.model.kinds.Activity`."""

    activity: Activity
    share: Estimate


@record
class LineShare(Record):
    """A line of user code, and the ``part`` of some sightings of threads that were in it, from 0 to 1.

    ``place`` is the innermost user place; its ``address`` is one of the line's.
    """

    place: Place
    part: float


@record(kw_only=True)
class ObjectShare(Record):
    """What threads of a region wait for, and the part of the region's thread time that they wait for it.

    ``kind`` is a kind of wait: ``lock``, ``nest_lock``, ``critical``, ``atomic``, ``ordered``, ``taskwait`` and so on.
    It is ``call`` for threads asleep in a system call, and ``symbol`` is then the kernel's name of the call. ``object``
    is the address of the lock, None if it is unknown. ``symbol`` is the name of the variable, None if it is unknown.
    ``waiting`` is the part of the region's moments at which at least one thread waits. ``place`` is where most of the
    threads wait. ``holders`` are lines of threads that hold the object, the most frequent first; empty if the holder
    is unknown.
    """

    kind: str
    share: Estimate
    waiting: Estimate
    object: int | None = None
    symbol: str | None = None
    place: Place | None = None
    holders: tuple[LineShare, ...] = ()


@record(kw_only=True)
class SlowThreads(Record):
    """The members of a region's team for which the others wait.

    ``thread_nums`` are the fewest members that cause most of the waiting, the slowest first. ``part`` is the part of
    the waiting that they cause. ``are_same`` is True if they are at most half of the team: the same members are always
    late, as after a bad partition. It is False if all members are late in turn. ``lines`` are the lines in which late
    members were seen, the most frequent first.
    """

    thread_nums: tuple[int, ...]
    native_thread_ids: tuple[int, ...]
    part: float
    are_same: bool
    lines: tuple[LineShare, ...] = ()


@record(kw_only=True)
class RegionProfile(Record):
    """All executions of one parallel construct.

    ``id`` is a number of this answer. ``construct`` is its name in the text, such as ``parallel``, None if unknown.
    ``function`` has the construct, ``file`` and ``line`` are where it begins; each is None if unknown. ``share`` is the
    part of the run's moments at which the region was executed. ``moments`` is the number of these moments. ``asked`` is
    the number of threads that the program asked for, None if it is unknown. ``got`` is the largest team that was seen.
    ``activities`` divide the region's thread time; their means add up to 1. ``objects`` are what threads wait for, the
    longest waits first. ``slow`` are the members for which others wait, None if there are too few such moments.
    ``lines`` are the lines of working members, the most frequent first. ``barriers_per_second`` is how often a team
    passes a barrier of the region while it executes, the region's end included. ``length`` is the mean time in seconds
    between two such barriers. Both are None if they are unknown, with the reason in ``unavailable``.
    """

    id: int
    construct: str | None
    function: str | None
    file: str | None
    line: int | None
    share: Estimate
    moments: int
    got: int
    asked: int | None = None
    activities: tuple[ActivityShare, ...] = ()
    objects: tuple[ObjectShare, ...] = ()
    slow: SlowThreads | None = None
    lines: tuple[LineShare, ...] = ()
    barriers_per_second: float | None = None
    length: float | None = None
    unavailable: Mapping[str, str] = field(default_factory=dict)


@record(kw_only=True)
class ProfileVerdict(Record):
    """One cause of lost time.

    ``kind`` is a verdict of docs/profile.md. ``share`` is the part of the run's time that the cause costs. ``gain`` is
    an upper bound: without the cause the run is at most this many times as fast. ``summary`` is one sentence,
    ``advice`` are sentences on what to change. ``region`` is the ``id`` of the region, None outside of regions.
    ``place`` is the line to look at first. ``lines`` are the lines of the threads for which the others wait. ``roots``
    are the native ids of these threads; empty if they are others each time. ``evidence`` is as in ``why``.
    ``next_step`` is a command to type, in which the word ``TARGET`` stands for the target.
    """

    kind: VerdictKind
    share: Estimate
    gain: float
    summary: str
    advice: tuple[str, ...] = ()
    region: int | None = None
    place: Place | None = None
    lines: tuple[LineShare, ...] = ()
    roots: tuple[int, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    next_step: str | None = None


@record(kw_only=True)
class SamplingRecord(Record):
    """How the moments were taken.

    ``seconds`` is how long it took, ``moments`` the number of moments used, ``lost`` that of moments that could not be
    read. ``asked_rate`` and ``rate`` are moments per second, asked for and reached. ``look_ms`` is the mean processor
    time of a look, in milliseconds. ``stops`` is the number of stops of the target, ``stopped_ms`` the mean stop in
    milliseconds; both are 0 if it was never stopped. ``processor`` is the part of a processor that the profiler used.
    ``ended`` is the reason why sampling ended: ``time``, ``interrupted``, or what happened to the target, in words.
    """

    seconds: float
    moments: int
    lost: int
    asked_rate: float
    rate: float
    look_ms: float
    stops: int
    stopped_ms: float
    processor: float
    ended: str


@record
class ProfiledThread(Record):
    """A thread that was seen in a profile. ``thread_num`` is its number in most of its teams, None if it was in none.

    Threads that do not use OpenMP are not listed.
    """

    native_thread_id: int
    thread_num: int | None
    activities: tuple[ActivityShare, ...] = ()


@record
class ProfileMoment(Record):
    """One moment: its time in ``seconds`` since the beginning, and what each thread did.

    ``activities`` and ``regions`` are in the order of the answer's ``threads``. An activity is None if the thread did
    not exist. A region is the ``id`` of the thread's innermost region, None outside of regions.
    """

    seconds: float
    activities: tuple[Activity | None, ...]
    regions: tuple[int | None, ...]


@record
class ProfileStack(Record):
    """A stack that threads had. ``count`` is how often a thread had it at a moment. ``frames`` are of user code, the
    outermost first; frames of the runtime and the C library are left out. ``region`` is as in :class:`ProfileMoment`.
    """

    activity: Activity
    count: int
    region: int | None
    frames: tuple[Place, ...]


@record
class ProfileAnswer(Answer[RegionProfile]):
    """The answer of ``profile``: the regions, those with the largest share first.

    ``verdicts`` are the causes of lost time, the one with the largest gain first. ``serial`` is the part of the moments
    outside of all parallel regions. ``efficiency`` is the parallel efficiency: the part of the thread time that is
    work, where a moment outside of all regions counts as work of one thread. Both are None without moments.
    ``activities`` divide the thread time of the whole run; their means add up to 1. ``serial_lines`` are the lines of
    the serial part, the most frequent first. ``team_size`` is the number of OpenMP threads that the efficiency counts:
    the most that were seen.
    """

    verdicts: tuple[ProfileVerdict, ...] = ()
    sampling: SamplingRecord | None = None
    efficiency: Estimate | None = None
    serial: Estimate | None = None
    team_size: int | None = None
    activities: tuple[ActivityShare, ...] = ()
    serial_lines: tuple[LineShare, ...] = ()
    threads: tuple[ProfiledThread, ...] = ()
    moments: tuple[ProfileMoment, ...] = ()
    stacks: tuple[ProfileStack, ...] = ()
