"""The OpenMP threads of the process: their runtimes and handles, their places in their teams, and their ancestors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import NamedTuple

from ompd.contract.ompd import ThreadIdKind
from ompd.contract.plugin import ParallelHandle, ThreadHandle
from ompd.errors import CorruptState, NotInitialised, OmpdError, Unavailable
from ompd.model import StackRecord, ThreadRecord, VariableRecord
from ompd.questions.facts.damage import is_damaged, leaves_doubt
from ompd.questions.facts.gathering import Facts, Problems
from ompd.session import LoadedRuntime, Session

MatchedThread = tuple[LoadedRuntime, ThreadHandle]
"""An OpenMP thread: the runtime that knows it, and its handle there."""


class Matching:
    """The threads of one stop and their handles. Each thread is looked up once, when it is first needed."""

    def __init__(self, session: Session, runtimes: Sequence[LoadedRuntime], problems: Problems) -> None:
        self._session = session
        self._runtimes = runtimes
        self._problems = problems
        self._matches: dict[int, MatchedThread | None] = {}
        self._handles: set[tuple[str, int]] = set()
        self._others: dict[int, Sequence[MatchedThread]] = {}

    def of(self, thread: int) -> MatchedThread | None:
        """Return the OpenMP thread with the native id *thread*, None if no runtime knows it."""
        if thread not in self._matches:
            self._matches[thread] = self._find(thread)
        return self._matches[thread]

    def _find(self, thread: int) -> MatchedThread | None:
        matches: list[MatchedThread] = []
        for runtime in self._runtimes:
            if runtime.space is None:
                continue
            try:
                handle = runtime.space.thread_by_native_id(ThreadIdKind.LWP, thread)
            except OmpdError as error:
                self._problems.missing(f"{runtime.id}: threads", error)
                continue
            if handle is not None:
                matches.append((runtime, handle))
                self._handles.add((runtime.id, handle.address))
        # Several runtimes may know a thread, because a runtime keeps threads that have left its regions. Take a runtime
        # in whose region the thread is, and of several the one whose code is innermost on the stack.
        if len(matches) < 2:
            return next(iter(matches), None)
        nearest, *outer = sorted(matches, key=lambda match: self._nearness(thread, match), reverse=True)
        self._others[thread] = outer
        return nearest

    def _nearness(self, thread: int, match: MatchedThread) -> tuple[bool, int]:
        runtime, handle = match
        try:
            is_in_region = handle.current_parallel() is not None
        except OmpdError:
            is_in_region = False
        process, module = self._session.process, runtime.found.module
        frames = process.stacks.stack(thread).frames
        innermost = next(
            (i for i, frame in enumerate(frames) if process.symbols.module_at(frame.call_site) is module), len(frames)
        )
        return is_in_region, -innermost

    def around(self, thread: int) -> Sequence[MatchedThread]:
        """Return the matches of a thread in other runtimes than :meth:`of`.

        A thread in a region of one runtime may have started a region of another.
        """
        self.of(thread)
        return self._others.get(thread, ())

    @cached_property
    def matched(self) -> frozenset[tuple[str, int]]:
        """The runtime's id and the address of each handle that belongs to a thread of the process.

        A thread that two runtimes know has two.
        """
        for thread in self._session.process.threads.ids():
            self.of(thread)
        return frozenset(self._handles)

    @cached_property
    def doubt(self) -> OmpdError | None:
        """The first damaged or lost fact that could show an unmatched thread to be an OpenMP thread.

        None if all facts of the runtimes about threads were read.
        """
        session = self._session
        for runtime in session.runtimes:
            if runtime.space is None and runtime.is_initialised and leaves_doubt(session, runtime.fault):
                return runtime.fault
        # A lost library may have contained a runtime. If no runtime is left, so may the lost file of the program.
        lost = session.stop.lost_libraries if self._runtimes else session.stop.lost_runtimes
        if is_damaged(session) and lost:
            return OmpdError("; ".join(lost))
        return next((OmpdError(doubt) for runtime in self._runtimes for doubt in self._of(runtime)), None)

    def _of(self, runtime: LoadedRuntime) -> Iterator[str]:
        try:
            handles = runtime.space.threads() if runtime.space is not None else ()
            if handles and not any((runtime.id, handle.address) in self.matched for handle in handles):
                yield f"none of the {len(handles)} threads of {runtime.id} is a thread of the process"
            for handle in handles:
                if not handle.native_id(ThreadIdKind.PTHREAD) and handle.current_parallel() is not None:
                    yield f"{runtime.id} has data of a thread in a team at {handle.address:#x} that name no thread"
        except NotInitialised:
            return  # it has no threads yet
        except OmpdError as error:
            yield f"{runtime.id}: {error}"


def team_order(row: StackRecord | ThreadRecord | VariableRecord) -> tuple[bool, str, bool, int, str, int, int]:
    """Return the sort key of rows: OpenMP threads by region and thread number, then idle ones, then others."""
    return (
        row.runtime is None,
        row.runtime or "",
        row.thread_num is None,
        (None if isinstance(row, VariableRecord) else row.level) or 0,
        row.parallel or "",
        row.thread_num or 0,
        row.native_thread_id or 0,
    )


_MAX_LEVELS = 100_000


class Ancestry:
    """The thread numbers of ancestors, as ``omp_get_ancestor_thread_num`` returns them. Each team is read once."""

    def __init__(self) -> None:
        self._members: dict[str, dict[int, int]] = {}
        self._begun_by: dict[str, tuple[ParallelHandle, int] | None] = {}

    def of(self, region: ParallelHandle | None) -> tuple[int, ...]:
        """Return the thread numbers of the ancestors of *region*'s threads, from level 1 inwards.

        Empty at level 1 and outside of all regions.

        :raises OmpdError: if an enclosing region, or the members of its team, cannot be read
        """
        numbers: list[int] = []
        visited: set[str] = set()
        while region is not None:
            if region.id in visited or len(visited) > _MAX_LEVELS:
                raise CorruptState(0, f"{region.id}: the chain of enclosing regions does not end")
            visited.add(region.id)
            around = self._around(region)
            if around is None:
                break
            region, number = around
            numbers.append(number)
        return tuple(reversed(numbers))

    def _around(self, region: ParallelHandle) -> tuple[ParallelHandle, int] | None:
        if region.id not in self._begun_by:
            enclosing = region.enclosing()
            begun = None if enclosing is None else (enclosing, self._number(enclosing, region))
            self._begun_by[region.id] = begun
        return self._begun_by[region.id]

    def _number(self, enclosing: ParallelHandle, region: ParallelHandle) -> int:
        size = enclosing.size()
        if size == 1:
            return 0
        if enclosing.id not in self._members:
            self._members[enclosing.id] = _members(enclosing, size)
        try:
            return self._members[enclosing.id][region.thread(0).address]
        except KeyError:
            raise Unavailable("the primary thread of the team is not found in the team around it") from None


def _members(region: ParallelHandle, size: int) -> dict[int, int]:
    number_of: dict[int, int] = {}
    for number in range(size):
        with suppress(OmpdError):  # the thread's own row reports the error
            number_of.setdefault(region.thread(number).address, number)
    return number_of


class Membership(NamedTuple):
    """A thread's innermost region, and its place in the region's team.

    A member is None if there is no such thing, or if it is unknown and the row's ``unavailable`` has the reason.
    """

    region: ParallelHandle | None = None
    thread_num: int | None = None
    team_size: int | None = None
    level: int | None = None
    active_level: int | None = None
    ancestors: tuple[int, ...] | None = ()
    """The ancestors' thread numbers, None if they are unknown."""


def membership_of(
    handle: ThreadHandle, ancestry: Ancestry, facts: Facts, wanted: Sequence[str] = ("team_size",)
) -> Membership:
    """Return a thread's place in its team.

    A thread with a number but without a region is an initial thread: its team has one thread, at level 0.

    :param wanted: the members to read, of ``team_size``, ``level`` and ``active_level``
    """
    region = facts.get("parallel", handle.current_parallel)
    thread_num = facts.get("thread_num", handle.thread_num)
    reason = facts.unavailable.get("parallel", facts.unavailable.get("thread_num") if region is None else None)
    values: dict[str, int | None] = {}
    ancestors: tuple[int, ...] | None = ()
    if region is not None:
        asks = {"team_size": region.size, "level": region.level, "active_level": region.active_level}
        values = {key: facts.get(key, asks[key]) for key in wanted}
        ancestors = facts.get("ancestors", ancestry.of, region)
    elif reason is not None:
        facts.unavailable.update(dict.fromkeys((*wanted, "ancestors"), reason))
        ancestors = None
    elif thread_num is not None:
        values = {key: 1 if key == "team_size" else 0 for key in wanted}
    return Membership(
        region, thread_num, values.get("team_size"), values.get("level"), values.get("active_level"), ancestors
    )


def unknown_membership(facts: Facts, keys: Sequence[str], reason: str) -> Membership:
    """Return the membership of a thread that may be an OpenMP thread, and note *reason* for it.

    :param keys: the keys of the row that are about OpenMP
    """
    facts.unavailable.update(dict.fromkeys((*keys, "ancestors"), reason))
    return Membership(ancestors=None)
