"""Threads (``struct gomp_thread``, one in the thread-local storage of each thread)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from ompd.contract.memory import StructView, read_pointer
from ompd.contract.ompd import ThreadIdKind
from ompd.contract.plugin import ConstructCode, ThreadState
from ompd.errors import BadInput, CorruptState, OmpdError, Unavailable, Unsupported
from ompd.plugins.libgomp import stacks, states
from ompd.plugins.libgomp.structures import NO_TOOL_DATA, WANTED, copied
from ompd.plugins.libgomp.tasks import InitialTask, Task

if TYPE_CHECKING:
    from ompd.plugins.libgomp.plugin import Runtime
    from ompd.plugins.libgomp.regions import Region

# Regions nest no deeper in a program that runs.
MAX_NESTING = 1 << 12


class Membership(NamedTuple):
    """A thread in a team: ``team`` is its address, ``number`` the thread's in it."""

    team: int
    number: int


class Thread:
    """One thread that has its ``gomp_thread`` filled in. It is read once, when first asked for."""

    def __init__(self, runtime: Runtime, native: int, address: int) -> None:
        self.runtime = runtime
        self.native = native
        self.address = address

    @cached_property
    def view(self) -> StructView:
        """The ``gomp_thread``."""
        return copied(self.runtime.heap, self.runtime.layouts["gomp_thread"], self.address, WANTED["gomp_thread"])

    @property
    def is_registered(self) -> bool:
        """Whether the runtime has met the thread: it has been in a region, or has a task of its own."""
        return any(self.view.pointer(name) is not None for name in ("ts.team", "task", "thread_pool"))

    @property
    def has_left(self) -> bool:
        """Whether it is a worker that ends: without task and pool, and what it says to be its team may be freed."""
        try:
            has_any = any(self.view.pointer(name) is not None for name in ("task", "thread_pool"))
            return not has_any and self.view.unsigned("ts.team_id") != 0
        except OmpdError:
            return False

    @property
    def is_telling(self) -> bool:
        """Whether it has both a team and a task, so that what it has shows whether its layout is the right one."""
        try:
            return bool(self.claims) and self.view.pointer("task") is not None
        except OmpdError:
            return False

    def native_id(self, kind: ThreadIdKind) -> int:
        """See :meth:`ThreadHandle.native_id`: the runtime keeps none, the thread's own storage holds the structure."""
        if kind == ThreadIdKind.LWP:
            return self.native
        if kind == ThreadIdKind.PTHREAD:
            return self.runtime.process.thread_pointer(self.native)
        raise Unsupported(f"libgomp keeps no thread identifiers of kind {kind!r}")

    @cached_property
    def claims(self) -> tuple[Membership, ...]:
        """The teams that it says it is in, innermost first.

        It is the primary thread of all but the last; what encloses a team in which it is a worker is the matter of
        that team's primary thread. A worker goes on saying so when the region is over.

        :raises CorruptState: if the chain of ``prev_ts`` does not end, or contradicts itself
        """
        team, number = self.view.pointer("ts.team"), self.view.unsigned("ts.team_id")
        level = self.view.unsigned("ts.level")
        found: list[Membership] = []
        seen: set[int] = set()
        while team is not None:
            if team in seen or len(seen) >= MAX_NESTING:
                raise CorruptState(team, "the chain of teams does not end")
            seen.add(team)
            found.append(Membership(team, number))
            around = self.runtime.team_at(team)
            if number >= around.nthreads:
                raise CorruptState(team, f"thread number {number} in a team of {around.nthreads}")
            if number:
                break
            if around.outer_level + 1 != level:
                raise CorruptState(team, f"team at level {level}, its region's at {around.outer_level}")
            team, number, level = around.outer_team, around.outer_number, around.outer_level
        return tuple(found)

    @cached_property
    def memberships(self) -> tuple[Membership, ...]:
        """The teams that it is in, innermost first, none while it is idle or outside of all regions.

        :raises OmpdError: as :attr:`claims`; or if it cannot be told whether it is idle
        """
        claims = self.claims
        if claims and claims[-1].number and not self._is_in(claims[-1]):
            claims = claims[:-1]
        return claims

    def _is_in(self, claim: Membership) -> bool:
        # A team is live while its primary thread has it in its own chain; a worker that waits in the pool for the next
        # region has left it, even if the primary thread has not.
        if claim.team not in self.runtime.live_teams:
            # Its primary thread may be one that could not be read.
            if self.runtime.unread is not None and not stacks.is_docked(self):
                raise self.runtime.unread
            if stacks.is_in_region(self):
                raise Unavailable("it is in the code of a region whose primary thread is not seen in it")
            return False
        other = self.runtime.members(claim.team).get(claim.number)
        if other is not None and other is not self:
            raise CorruptState(claim.team, f"threads {self.native} and {other.native} are both number {claim.number}")
        return not stacks.is_docked(self)

    @cached_property
    def thread_pool(self) -> int | None:
        """The address of the ``gomp_thread_pool`` that it belongs to."""
        return self.view.pointer("thread_pool")

    @property
    def _is_worker(self) -> bool:
        # It began as another number than 0 in some team, and still says so when that is over.
        return bool(self.claims) and self.claims[-1].number != 0

    def pool_owner(self) -> int | None:
        """Return the ``gomp_thread`` of the thread whose pool it is in, None where that cannot be told.

        Some releases leave anything in the first place of the pool, which is its owner's.
        """
        try:
            if self.thread_pool is None:
                return None
            pool = StructView(self.runtime.heap, self.runtime.layouts["gomp_thread_pool"], self.thread_pool)
            threads = pool.pointer("threads")
            return read_pointer(self.runtime.heap, threads) if threads is not None else None
        except OmpdError:
            return None

    def thread_type(self) -> str:
        """See :meth:`ThreadHandle.thread_type`."""
        return "worker" if self._is_worker else "initial"

    @property
    def is_idle(self) -> bool:
        """Whether it is a worker that waits in the pool."""
        return not self.memberships and self._is_worker

    def thread_num(self) -> int | None:
        """Return ``ts.team_id``, None while the thread is idle."""
        if self.memberships:
            return self.memberships[0].number
        return None if self._is_worker else 0

    def current_parallel(self) -> Region | None:
        """See :meth:`ThreadHandle.current_parallel`."""
        return self.runtime.team_at(self.memberships[0].team) if self.memberships else None

    def hosted_regions(self) -> tuple[Region, ...]:
        """Return the regions whose code lies on this thread's own stack, innermost first."""
        return tuple(self.runtime.team_at(membership.team) for membership in self.memberships)

    def current_task(self) -> Task | InitialTask | None:
        """Return ``task``, None while the thread is idle. Outside of all regions it may have no ``gomp_task``."""
        if self.is_idle:
            return None
        address = self.view.pointer("task")
        if address is None:
            if self.memberships:
                raise CorruptState(self.address, "a thread of a team has no task")
            return InitialTask(self)
        return self.runtime.task_at(address)

    def state(self) -> ThreadState:
        """See :meth:`ThreadHandle.state`: always derived."""
        return states.thread_state(self)

    def tool_data(self) -> int:
        """Not kept: see :data:`NO_TOOL_DATA`."""
        raise Unavailable(NO_TOOL_DATA)

    def construct_code(self) -> Sequence[ConstructCode]:
        """See :meth:`ThreadHandle.construct_code`."""
        return stacks.construct_code(self)

    def threadprivate_address(self, address: int) -> int | None:
        """libgomp keeps no copies: threadprivate variables are thread-local ones."""
        raise BadInput("libgomp keeps no copies of threadprivate variables: thread-local storage has them")


class LostThread(Thread):
    """A thread whose ``gomp_thread`` cannot be read: whether it is OpenMP's nobody can tell. *fault* says why."""

    def __init__(self, runtime: Runtime, native: int, address: int, fault: OmpdError) -> None:
        super().__init__(runtime, native, address)
        self.fault = fault

    @property
    def view(self) -> StructView:
        """Not to be read."""
        raise self.fault

    def native_id(self, kind: ThreadIdKind) -> int:
        """Not told: no handle of the runtime's is known to be this thread's."""
        raise self.fault
