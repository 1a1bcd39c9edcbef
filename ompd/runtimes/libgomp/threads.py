"""Threads (``struct gomp_thread``, one in the thread-local storage of each thread)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from ompd.contract.memory import StructView, read_pointer
from ompd.contract.ompd import ThreadIdKind
from ompd.contract.plugin import ConstructCode, LockState, Outside, ThreadState
from ompd.errors import BadInput, CorruptState, OmpdError, Unavailable, Unsupported
from ompd.runtimes.libgomp import locks, stacks, states, targets
from ompd.runtimes.libgomp.structures import NO_TOOL_DATA, WANTED, copied
from ompd.runtimes.libgomp.tasks import InitialTask, Task

if TYPE_CHECKING:
    from ompd.runtimes.libgomp.plugin import Runtime
    from ompd.runtimes.libgomp.regions import Region

# Each region takes some of the stack of its primary thread, and of the heap; a chain has each team once.
MAX_NESTING = 1 << 20


class Membership(NamedTuple):
    """A thread in a team: ``team`` is its address, ``number`` the thread's in it."""

    team: int
    number: int


class Context(NamedTuple):
    """What a thread is inside of a target region that it executes, or inside of none: ``claims`` are the teams that it
    says it is in, innermost first. ``target`` is the target region inside of this, None for the innermost.
    """

    target: targets.Target | None
    claims: tuple[Membership, ...]


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

    def native_thread_id(self) -> int:
        """See :meth:`ThreadHandle.native_thread_id`."""
        return self.native

    @cached_property
    def claims(self) -> tuple[Membership, ...]:
        """The teams that it says it is in, innermost first, those outside of target regions that it executes included.

        It is the primary thread of all but the last; what encloses a team in which it is a worker is the matter of
        that team's primary thread. A worker goes on saying so when the region is over.

        :raises CorruptState: if the chain of ``prev_ts`` does not end, or contradicts itself
        """
        contexts = self.contexts
        if len(contexts) == 1:
            return contexts[0].claims
        return tuple(claim for known in contexts for claim in known.claims)

    @cached_property
    def contexts(self) -> tuple[Context, ...]:
        """What it is, innermost first: what its ``gomp_thread`` says; and, for each target region that it executes,
        what it is outside of that.

        :raises CorruptState: as :attr:`claims`
        :raises Unavailable: if it executes a target region, and what it is outside of that cannot be told
        """
        view = self.view
        own = self._chain(view.pointer("ts.team"), view.unsigned("ts.team_id"), view.unsigned("ts.level"))
        found = [Context(None, own)]
        start, claims = 0, own
        while not claims or claims[-1].number == 0:  # a target region begins with an initial thread
            target = targets.around(self, start, len(claims))
            if target is None:
                break
            level = self.runtime.team_at(target.team).level() if target.team is not None else 0
            start, claims = target.group + 1, self._chain(target.team, target.number, level)
            found.append(Context(target, claims))
        return tuple(found)

    def _chain(self, team: int | None, number: int, level: int) -> tuple[Membership, ...]:
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

        A worker is in a team from when its primary thread says so until that has left it, also while it waits in the
        pool before it begins, or after it is done.

        :raises OmpdError: as :attr:`claims`; or if it cannot be told whether it is idle
        """
        claims = self.claims
        if claims and claims[-1].number and not self._is_in(claims[-1]):
            claims = claims[:-1]
        return claims

    def _is_in(self, claim: Membership) -> bool:
        # A team is live while its primary thread has it in its own chain, or has been lost from it.
        if claim.team not in self.runtime.live_teams:
            # Its primary thread may be one that could not be read.
            if self.runtime.unread is not None and not stacks.is_docked(self):
                raise self.runtime.unread
            if stacks.is_in_region(self):
                raise CorruptState(claim.team, "it is in the code of a region whose primary thread is not seen in it")
            return False
        other = self.runtime.members(claim.team).get(claim.number)
        if other is not None and other is not self:
            raise CorruptState(claim.team, f"threads {self.native} and {other.native} are both number {claim.number}")
        return True

    @cached_property
    def _is_docked(self) -> bool:
        # Whether a worker of a team waits in the pool, before it begins the region's code or after it has done it.
        try:
            return bool(self.memberships) and self.memberships[-1].number != 0 and stacks.is_docked(self)
        except OmpdError:
            return False

    def has_left_region(self) -> bool:
        """Tell whether it waits in the pool though the team goes on: it is over for this thread, but the primary thread
        has not left it.
        """
        return self._is_docked and not self.is_about_to_begin()

    def is_about_to_begin(self) -> bool:
        """See :meth:`ThreadHandle.is_about_to_begin`.

        The primary thread sets ``fn`` of those that wait in the pool before it wakes them up, and they clear it
        (team.c, ``gomp_team_start``, ``gomp_thread_start``). Of one that was made for the team it is not set; but while
        the primary thread is in the region's code, or not all have arrived at its end, nobody can have left it.
        """
        if not self._is_docked:
            return False
        try:
            if self.view.pointer("fn") is not None:
                return True
            region = self.runtime.team_at(self.memberships[0].team)
            awaited, total = (region.barrier.unsigned(f"barrier.{name}") for name in ("awaited_final", "total"))
            return 0 < awaited < total or stacks.is_in_code(region.thread(0), region)
        except OmpdError:
            return False

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
        if self.inner:
            return self.inner[0].number
        return None if self.is_idle else 0

    @cached_property
    def numbers(self) -> Mapping[int, int]:
        """Its number in each of :attr:`memberships`, by the team's address."""
        return dict(self.memberships)

    @cached_property
    def inner(self) -> tuple[Membership, ...]:
        """Those of :attr:`memberships` that are inside of the innermost target region that it executes; all if it
        executes none.
        """
        return self.memberships[: len(self.contexts[0].claims)]

    def current_parallel(self) -> Region | None:
        """See :meth:`ThreadHandle.current_parallel`."""
        return self.runtime.team_at(self.inner[0].team) if self.inner else None

    def outside_of_target(self) -> Outside | None:
        """See :meth:`ThreadHandle.outside_of_target`: what ``gomp_target_fallback`` has put aside."""
        if len(self.contexts) == 1:
            return None
        claims = self.contexts[1].claims
        region = self.runtime.team_at(claims[0].team) if claims else None
        return Outside(region, claims[0].number if claims else 0, self.task_outside(1))

    def hosted_regions(self) -> tuple[Region, ...]:
        """Return the regions whose code lies on this thread's own stack, innermost first."""
        return tuple(self.runtime.team_at(membership.team) for membership in self.memberships)

    def current_task(self) -> Task | InitialTask | None:
        """Return ``task``, None while the thread is idle. Outside of all regions it may have no ``gomp_task``."""
        if self.is_idle:
            return None
        address = self.view.pointer("task")
        if address is not None:
            return self.runtime.task_at(address)
        if self.inner:
            raise CorruptState(self.address, "a thread of a team has no task")
        return self.initial_task(None)

    def task_outside(self, depth: int) -> Task | InitialTask:
        """Return the task that met a target region that it executes, the *depth*-th from the innermost, from 1 on.

        :raises Unavailable: if that is not known
        """
        target = self.contexts[depth].target
        if target is not None and target.task is not None:
            return self.runtime.task_at(target.task)
        if target is None or target.team is not None:
            raise Unavailable("which explicit task met the target region is not to be told from the stack")
        return InitialTask(self, len(self.contexts) - 1 - depth)

    def initial_task(self, team: int | None) -> InitialTask:
        """Return its initial task, outside of all regions: that of the target region around the region of *team*, if
        there is one; of the innermost target region where *team* is None.
        """
        contexts = self.contexts
        inside = (at for at, known in enumerate(contexts) if any(claim.team == team for claim in known.claims))
        return InitialTask(self, len(contexts) - 1 - next(inside, 0))

    def state(self) -> ThreadState:
        """See :meth:`ThreadHandle.state`: always derived."""
        return states.thread_state(self)

    def tool_data(self) -> int:
        """Not kept: see :data:`NO_TOOL_DATA`."""
        raise Unavailable(NO_TOOL_DATA)

    def lock(self) -> LockState | None:
        """See :meth:`ThreadHandle.lock`: by the routine that it called.

        :raises Unavailable: if its registers show none, or several
        """
        return locks.lock_of(self)

    def barrier_source(self) -> None:
        """See :meth:`ThreadHandle.barrier_source`: gcc's code records nothing of constructs."""

    def construct_code(self) -> Sequence[ConstructCode]:
        """See :meth:`ThreadHandle.construct_code`."""
        return stacks.construct_code(self)

    def threadprivate_address(self, address: int) -> int | None:
        """libgomp keeps no copies: threadprivate variables are thread-local ones."""
        raise BadInput("libgomp keeps no copies of threadprivate variables: thread-local storage has them")


class NewThread(Thread):
    """A worker that has just been made, before it has noted what its place is."""

    reason = "the runtime has just made the thread, which has not noted yet what its place is"
    contexts = (Context(None, ()),)

    def thread_type(self) -> str:
        """It is a worker."""
        return "worker"

    @property
    def memberships(self) -> tuple[Membership, ...]:
        """Not known yet."""
        raise Unavailable(self.reason)

    def current_parallel(self) -> None:
        """It has not begun any."""

    def current_task(self) -> None:
        """It has not begun any."""

    def state(self) -> ThreadState:
        """It is in the runtime, on its way to a region."""
        raise Unavailable(self.reason)


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
        """Unknown: no handle of the runtime is known to be this thread's."""
        raise self.fault

    def native_thread_id(self) -> int:
        """Unknown, too."""
        raise self.fault
