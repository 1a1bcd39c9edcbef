"""Records of what a live process gets from its machine: processors, time on them, and room for threads.

Times are between two looks at the process, in nanoseconds. These records are no answers; ``why`` and ``doctor`` make
verdicts of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ompd.records import record


@record(kw_only=True)
class ThreadSupply:
    """What one thread of the process got.

    ``processors`` are the processors that it may use (``Cpus_allowed_list``). ``ran_ns`` is the time that it ran,
    ``delayed_ns`` the time that it was ready to run and did not, ``major_faults`` the number of its page faults that
    waited for a disk. Each is None if unknown.
    """

    native_thread_id: int
    processors: frozenset[int] | None
    ran_ns: int | None = None
    delayed_ns: int | None = None
    major_faults: int | None = None


@record(kw_only=True)
class OtherProcess:
    """Another process that used processors.

    ``program`` is its name by the kernel. ``used_ns`` is the processor time that it used. ``ready`` has the processors
    that each of its threads may use which runs or is ready to run. ``is_related`` is True for a child, the parent, and
    a process with the same parent. ``runtimes`` are the names of OpenMP runtimes' files in it.
    """

    process_id: int
    program: str
    used_ns: int
    ready: tuple[frozenset[int], ...]
    is_related: bool
    runtimes: tuple[str, ...] = ()


@record(kw_only=True)
class Quota:
    """The limit on processor time of one control group.

    ``file`` has the limit, ``processors`` is the limit in processors. ``periods`` is the number of periods between the
    looks, ``throttled_periods`` the number of those in which the group was stopped. ``throttled_ns`` is how long it was
    stopped, added up over processors. Each of the three is None if unknown.
    """

    file: str
    processors: float
    periods: int | None = None
    throttled_periods: int | None = None
    throttled_ns: int | None = None


@record(kw_only=True)
class RoomForThreads:
    """A limit, and how many more threads fit below it.

    ``name`` is the limit's name in words, ``setting`` the command or file that sets it. ``most`` is the limit and
    ``used`` the present use, in threads, or in bytes for an address space. ``threads`` is the number of further threads
    that fit.
    """

    name: str
    setting: str
    most: int
    used: int
    threads: int


@record(kw_only=True)
class ProcessorUse:
    """How one processor of the machine was used: ``idle_ns`` in idleness, ``stolen_ns`` by other virtual machines,
    ``total_ns`` altogether.
    """

    idle_ns: int
    stolen_ns: int
    total_ns: int


@record(kw_only=True)
class Settings:
    """The settings of OpenMP runtimes in the process.

    ``kinds`` has the kind of each runtime (``libgomp``, ``libomp``, ``libiomp5`` …) by its id. ``variables`` is the
    process's environment, None if it cannot be read. ``displayed`` are settings that a runtime has stored itself, by
    the names of environment variables. ``bind`` is the runtime's bind-var, ``processors`` the number of processors that
    it counted at its start, ``team_size`` the number of threads of the next region. Each is None if unknown.
    """

    kinds: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] | None = None
    displayed: Mapping[str, str] = field(default_factory=dict)
    bind: str | None = None
    processors: int | None = None
    team_size: int | None = None


@record(kw_only=True)
class Supply:
    """What a process got from its machine between two looks, ``seconds`` apart.

    ``online`` are the processors of the machine. ``cpuset`` are the processors of the process's control group, and
    ``cpuset_file`` the file that says so; None without one. ``parent`` is the name of the parent process, and
    ``parent_processors`` are the processors that it may use. ``pressure`` is the share of the last ten seconds in which
    some program of the machine waited for memory, None if unknown. ``unknowns`` are facts that could not be read.
    """

    process_id: int
    seconds: float
    threads: tuple[ThreadSupply, ...] = ()
    online: frozenset[int] = frozenset()
    use: Mapping[int, ProcessorUse] = field(default_factory=dict)
    others: tuple[OtherProcess, ...] = ()
    quotas: tuple[Quota, ...] = ()
    cpuset: frozenset[int] | None = None
    cpuset_file: str | None = None
    parent: str | None = None
    parent_processors: frozenset[int] | None = None
    rooms: tuple[RoomForThreads, ...] = ()
    pressure: float | None = None
    settings: Settings = field(default_factory=Settings)
    unknowns: tuple[str, ...] = ()
