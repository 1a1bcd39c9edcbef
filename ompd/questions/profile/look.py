"""One look at a running process: what each OpenMP thread does. Everything that a look reads takes time of the target's
processors, so it reads addresses and numbers only.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from ompd.analysis.profile.seen import SeenLock, SeenMoment, SeenRegion, SeenThread
from ompd.contract.ompt import State, state_name
from ompd.contract.plugin import ParallelHandle, ThreadHandle
from ompd.contract.waits import LockState
from ompd.errors import OmpdError
from ompd.model import RegionFunction
from ompd.questions import places
from ompd.questions.facts.answers import begin, readable_runtimes
from ompd.questions.facts.openmp_threads import Matching
from ompd.session import Session

_BARRIERS = range(State.WAIT_BARRIER, State.WAIT_TASKWAIT)
_LOCKS = range(State.WAIT_MUTEX, State.WAIT_TARGET)
_WORKS = (State.WORK_PARALLEL, State.WORK_REDUCTION)


class Looks:
    """Looks at one process. ``constructs`` are the constructs of all regions so far, by the address of their code."""

    def __init__(self) -> None:
        self.constructs: dict[int, RegionFunction] = {}
        self.begun_from: dict[int, int] = {}  # the code of a region, by the call site that began it

    def at(self, session: Session, seconds: float) -> SeenMoment:
        """Return what the threads do at the session's present moment.

        :param seconds: the time of the moment
        :raises NoAnswer: if no OpenMP runtime of the process can be read
        """
        return _Look(self, session).moment(seconds)

    def construct(self, session: Session, region: ParallelHandle, begun_from: int | None) -> int | None:
        """Return the address of a region's code, None if it is unknown. Its name is found when it is first seen.

        :param begun_from: the call that began the region; each such call begins one construct
        """
        if begun_from is not None and begun_from in self.begun_from:
            return self.begun_from[begun_from]
        try:
            entry = region.function()
        except OmpdError:
            return None  # no thread is in the code
        if entry is None:
            return None
        if begun_from is not None:
            self.begun_from[begun_from] = entry
        if entry not in self.constructs:
            with suppress(OmpdError):
                function = places.region_function(session, region)
                if function is not None:
                    self.constructs[entry] = function
        return entry


class _Look:
    def __init__(self, looks: Looks, session: Session) -> None:
        self._looks, self._session = looks, session
        self._indices: dict[str, int | None] = {}  # of the regions in `_regions`, by the runtime's and the region's id
        self._regions: list[SeenRegion] = []
        self._handles: list[ParallelHandle] = []

    def moment(self, seconds: float) -> SeenMoment:
        session = self._session
        problems = begin(session)
        matching = Matching(session, list(readable_runtimes(session, problems)), problems)
        threads = []
        for native in session.process.threads.ids():
            match = matching.of(native)
            if match is not None:
                threads.append(self._thread(native, match[0].id, match[1]))
        self._count_barriers(threads)
        return SeenMoment(seconds, tuple(threads), tuple(self._regions))

    def _thread(self, native: int, runtime: str, handle: ThreadHandle) -> SeenThread:
        state: int | None = None
        region, number, lock, in_task = None, None, None, False
        with suppress(OmpdError):
            region, number = self._region(runtime, handle)
        with suppress(OmpdError):
            state = handle.state().state
        if state is not None and state in _LOCKS:
            with suppress(OmpdError):
                lock = _lock(handle.lock())
        if state in _WORKS:
            with suppress(OmpdError):
                task = handle.current_task()
                in_task = task is not None and task.kind() == "explicit"
        target = self._session.live_moment
        return SeenThread(
            native_thread_id=native,
            thread_num=number,
            region=region,
            state=state_name(state) if state is not None else None,
            call=target.call_asleep(native),
            code=tuple(frame.call_site for frame in self._session.process.stacks.stack(native).frames),
            lock=lock,
            lacks_processor=target.lacks_processor(native),
            in_task=in_task,
        )

    def _region(self, runtime: str, handle: ThreadHandle) -> tuple[int | None, int | None]:
        # Return the index of the innermost region with several threads, and the thread's number there.
        region, number = handle.current_parallel(), handle.thread_num()
        while region is not None:
            key = f"{runtime} {region.id}"
            if key not in self._indices:
                self._indices[key] = self._add(region, key)
            index = self._indices[key]
            if index is not None:
                return index, number
            region, number = region.enclosing(), None
        return None, None

    def _add(self, region: ParallelHandle, team: str) -> int | None:
        size = region.size()
        if size == 1:
            return None
        try:
            begun_at = tuple(frame.call_site for frame in region.encountering_frames())
        except OmpdError:
            begun_at = ()
        entry = self._looks.construct(self._session, region, begun_at[0] if begun_at else None)
        self._regions.append(SeenRegion(entry, begun_at, size, team=team))
        self._handles.append(region)
        return len(self._regions) - 1

    def _count_barriers(self, threads: list[SeenThread]) -> None:
        # A barrier's count is read if a thread waits there. Two counts give the time between two barriers.
        waited = {thread.region for thread in threads if thread.state in _BARRIER_STATES}
        for index in waited - {None}:
            assert index is not None
            with suppress(OmpdError):
                barrier = next(iter(self._handles[index].barriers()), None)
                if barrier is not None and barrier.address is not None and barrier.generation is not None:
                    word = barrier.address, barrier.generation
                    self._regions[index] = replace(self._regions[index], barrier=word)


_BARRIER_STATES = frozenset(map(state_name, _BARRIERS))


def _lock(state: LockState | None) -> SeenLock | None:
    if state is None:
        return None
    owner = state.owner if not state.is_searched else None
    return SeenLock(state.kind, state.address, owner, state.variable, state.is_unnamed)
