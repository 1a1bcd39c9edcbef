"""The teams that threads are in.

A thread records its innermost team and its number there. The team records its primary thread's place outside of the
team's region. When a region is over, the workers' structures still have the address of its team; only the primary
thread's structure does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ompd.contract.helpers.walks import MAX_NESTING
from ompd.errors import CorruptState, OmpdError, Unavailable
from ompd.runtimes.libgomp import barriers, target_regions
from ompd.runtimes.libgomp.stacks import PARALLEL, Group, ParsedStack
from ompd.runtimes.libgomp.structures import GompThread

if TYPE_CHECKING:
    from ompd.runtimes.libgomp.handles import Thread
    from ompd.runtimes.libgomp.runtime import Runtime

_T = TypeVar("_T")


class Membership(NamedTuple):
    """A thread's place in a team: the team's address, and the thread's number in it."""

    team: int
    number: int


class Context(NamedTuple):
    """The teams of a thread in one of its target regions, or outside of all of them. Inside of each target region that
    it executes, the thread begins with no team.

    ``target`` is the target region that was encountered in this context, None for the innermost context. ``claims`` are
    the teams that the thread names in this context, innermost first.
    """

    target: target_regions.Target | None
    claims: tuple[Membership, ...]


class Member(GompThread):
    """A thread and its teams. *Claims* are the teams whose addresses are in the structures of the thread. *Memberships*
    are the teams to which it really belongs.
    """

    def __init__(self, runtime: Runtime, native: int, address: int) -> None:
        super().__init__(runtime, native, address)
        self._results: dict[str, Any] = {}

    @cached_property
    def stack(self) -> ParsedStack:
        """The thread's native stack."""
        return ParsedStack(self.runtime.owners, self.native)

    def once(self, name: str, work: Callable[[], _T]) -> _T:
        """Return the result of *work*, which is called only once for each *name*. If this call raised an error, raise
        the error again.

        :raises Unavailable: if *work* needs its own result, which damaged structures may cause
        """
        if name not in self._results:
            self._results[name] = Unavailable("whose code is on the stack depends on itself")
            try:
                self._results[name] = work()
            except OmpdError as error:
                self._results[name] = error
        result: _T | OmpdError = self._results[name]
        if isinstance(result, OmpdError):
            raise result
        return result

    # The teams that it names

    @cached_property
    def own_claims(self) -> tuple[Membership, ...]:
        """The teams that the thread's ``gomp_thread`` names, innermost first. No stack is read.

        :raises CorruptState: as :attr:`claims`
        """
        view = self.view
        return self._chain(view.pointer("ts.team"), view.unsigned("ts.team_id"), view.unsigned("ts.level"))

    @cached_property
    def claims(self) -> tuple[Membership, ...]:
        """The teams that the thread names in all contexts, innermost first.

        The thread is the primary thread of all but the outermost of these teams. If it is a worker in the outermost
        team, the enclosing teams are not in its structures, but only in those of that team's primary thread. A worker
        still claims a team whose region is over.

        :raises CorruptState: if the chain of ``prev_ts`` does not end, or contradicts itself
        """
        return tuple(claim for context in self.contexts for claim in context.claims)

    @cached_property
    def contexts(self) -> tuple[Context, ...]:
        """The innermost context, from ``gomp_thread``, then one context for each target region that the thread
        executes.

        :raises CorruptState: as :attr:`claims`
        :raises Unavailable: if the thread executes a target region, and its place outside of that region is unknown
        """
        contexts = [Context(None, self.own_claims)]
        start, claims = 0, self.own_claims
        while not claims or claims[-1].number == 0:  # inside of a target region, the outermost claim's number is 0
            target = target_regions.around(self, start, len(claims))
            if target is None:
                break
            level = self.runtime.team_at(target.team).outer_level + 1 if target.team is not None else 0
            start, claims = target.group + 1, self._chain(target.team, target.number, level)
            contexts.append(Context(target, claims))
        return tuple(contexts)

    def _chain(self, team: int | None, number: int, level: int) -> tuple[Membership, ...]:
        claims: list[Membership] = []
        visited: set[int] = set()
        while team is not None:
            if team in visited or len(visited) >= MAX_NESTING:
                raise CorruptState(team, "the chain of teams does not end")
            visited.add(team)
            claims.append(Membership(team, number))
            region = self.runtime.team_at(team)
            if number >= region.nthreads:
                raise CorruptState(team, f"thread number {number} in a team of {region.nthreads}")
            if number:
                break
            if region.outer_level + 1 != level:
                raise CorruptState(team, f"team at level {level}, its region's at {region.outer_level}")
            team, number, level = region.outer_team, region.outer_number, region.outer_level
        return tuple(claims)

    @property
    def is_telling(self) -> bool:
        """Whether the thread has a team and a task, so that its structures can show whether the layout is right."""
        try:
            return bool(self.own_claims) and self.view.pointer("task") is not None
        except OmpdError:
            return False

    # The teams that it is in

    @cached_property
    def memberships(self) -> tuple[Membership, ...]:
        """The teams to which the thread belongs, innermost first. Empty while the thread is idle or outside of all
        regions.

        The code of these teams' regions is on the thread's stack. A worker stays in a team until the primary thread
        leaves the team, even while the worker waits in the pool.

        :raises OmpdError: as :attr:`claims`, or if it is unknown whether the thread is idle
        """
        claims = self.claims
        if claims and claims[-1].number and not self._is_in(claims[-1]):
            claims = claims[:-1]
        return claims

    def _is_in(self, claim: Membership) -> bool:
        # Whether the thread is in the team that it claims, because the team is live. :attr:`Roster.live_teams` has the
        # live teams.
        roster = self.runtime.roster
        if claim.team not in roster.live_teams:
            # The primary thread of a team that seems over may be a thread that could not be read.
            if roster.unread is not None and not self.is_docked:
                raise roster.unread
            if self.stack.is_in_region:
                raise CorruptState(claim.team, "it is in the code of a region whose primary thread is not seen in it")
            if self._sleeps_at_barrier(claim.team):
                raise CorruptState(claim.team, "it waits at a barrier, and its own team is one that is over")
            return False
        other = roster.members(claim.team).get(claim.number)
        if other is not None and other is not self:
            raise CorruptState(claim.team, f"threads {self.native} and {other.native} are both number {claim.number}")
        return True

    def _sleeps_at_barrier(self, claimed: int) -> bool:
        # Whether the thread sleeps at the barrier of a live team, or of the team *claimed*. A released thread that has
        # not woken up yet does not count as blocked.
        word, runtime = self.stack.futex_word(), self.runtime
        if word is None or runtime.process.progress(self.native) != "blocked":
            return False
        teams = (claimed, *runtime.roster.live_teams)
        return any(word == runtime.team_at(team).view.address_of("barrier.generation") for team in teams)

    @property
    def is_docked(self) -> bool:
        """Whether the thread is a worker that waits in the pool for its next region."""
        return barriers.is_docked(self)

    @cached_property
    def inner(self) -> tuple[Membership, ...]:
        """The :attr:`memberships` inside the innermost target region that the thread executes, or all without such a
        region.
        """
        return self.memberships[: len(self.contexts[0].claims)]

    def thread_type(self) -> str:
        """Return ``worker`` if the thread's number in its last claim is not 0. Workers keep this claim when the region
        is over.
        """
        return "worker" if self.claims and self.claims[-1].number else "initial"

    @property
    def is_idle(self) -> bool:
        """Whether the thread is a worker that waits in the pool and is in no team."""
        return not self.memberships and self.thread_type() == "worker"

    def thread_num(self) -> int | None:
        """Return ``ts.team_id``, None while the thread is idle."""
        if self.inner:
            return self.inner[0].number
        return None if self.is_idle else 0

    # Before and after a region's code

    @cached_property
    def _is_docked_member(self) -> bool:
        # Whether the thread is a worker of a live team, and waits in the pool before or after the region's code.
        try:
            return bool(self.memberships) and self.memberships[-1].number != 0 and self.is_docked
        except OmpdError:
            return False

    def has_left_region(self) -> bool:
        """Return whether the thread has finished the region and waits in the pool, while the primary thread has not."""
        return self._is_docked_member and not self.is_about_to_begin()

    def is_about_to_begin(self) -> bool:
        """Return whether the thread has its place in a team, but still waits in the pool to begin the region's code.

        The primary thread sets ``fn`` of workers in the pool before it wakes them up, and the workers clear it (team.c,
        ``gomp_team_start``, ``gomp_thread_start``). A worker that was created for this team has no ``fn``. But it
        cannot have left the region while the primary thread is in the region's code, or while some threads have not
        arrived at the region's end.
        """
        if not self._is_docked_member:
            return False
        try:
            if self.view.pointer("fn") is not None:
                return True
            team = self.runtime.team_at(self.memberships[0].team)
            awaited, total = (team.barrier.unsigned(f"barrier.{name}") for name in ("awaited_final", "total"))
            primary = self.runtime.roster.members(team.address).get(0)
            return 0 < awaited < total or (primary is not None and primary.is_in_code(team.address))
        except OmpdError:
            return False

    # The thread's regions on its stack

    @property
    def hosted(self) -> Mapping[int, int]:
        """The indexes of the groups (:attr:`ParsedStack.groups`) that stand for the thread's regions, by the team's
        address.

        Empty if the groups of the regions are uncertain.
        """
        return self.once("hosted", self._groups_of_regions)

    def _groups_of_regions(self) -> Mapping[int, int]:
        stack, teams = self.stack, [membership.team for membership in self.memberships]
        # Each region has one group: the routine that began a region stays on the stack as long as the region does.
        forks = [index for index, group in enumerate(stack.groups) if group.forks]
        if len(forks) == len(teams) - 1 and stack.groups and not stack.groups[0].forks:
            # One group is missing. At the end of the innermost region, the routine that began the region, and its
            # caller, may have left the stack by tail calls. The thread is then in an unnamed routine at the region's
            # barrier.
            group, region = stack.groups[0], self.runtime.team_at(teams[0])
            if group.code is None and self.thread_num() == 0 and barriers.is_at_unnamed_barrier(self, group, region):
                forks.insert(0, 0)
        elif len(forks) == len(teams) + 1 and forks[0] == 0 and stack.groups[0].code is None:
            # The innermost group has no region yet, or no longer: gomp_team_end() gives up a nested team before it
            # waits for the other threads to leave the team's barrier.
            del forks[0]
        is_certain = len(forks) == len(teams) and stack.stopped is None
        return dict(zip(teams, forks, strict=True)) if is_certain else {}

    def group_of(self, team: int) -> Group | None:
        """Return the group that stands for the region of a team, None if that is uncertain."""
        index = self.hosted.get(team)
        return self.stack.groups[index] if index is not None else None

    def is_in_code(self, team: int) -> bool:
        """Return whether the code of a team's region is on the stack, or has left it by a tail call."""
        group = self.group_of(team)
        return group is not None and group.code == PARALLEL

    def is_told_apart(self, group: Group) -> bool:
        """Return whether the region for which *group* stands is known, or is known to have no team yet or no longer.

        If the region has no team, the thread does not wait at the region's end.
        """
        groups = self.stack.groups
        if groups.index(group) in self.hosted.values():
            return True
        return self.stack.stopped is None and sum(1 for other in groups if other.forks) == len(self.memberships) + 1


class Roster:
    """The live teams of one process, and their members. A team is live as long as its region."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    @cached_property
    def live_teams(self) -> frozenset[int]:
        """The addresses of the teams that primary threads claim, and of teams whose primary thread no longer exists."""
        led = frozenset(claim.team for _, claims in self._claims[0] for claim in claims if claim.number == 0)
        return led | self._orphaned(led)

    def _orphaned(self, led: frozenset[int]) -> frozenset[int]:
        # The live teams without a primary thread. If a worker calls fork(), the child process has only this worker and
        # a copy of its team. The team is live: no region ends while a thread is in its code.
        orphaned: set[int] = set()
        thread_count = len(self._runtime.process.threads())
        for thread, claims in self._claims[0] if self.unread is None else ():
            if not claims or not claims[-1].number or claims[-1].team in led or claims[-1].team in orphaned:
                continue
            if thread_count < self._runtime.team_at(claims[-1].team).nthreads and thread.stack.is_in_region:
                orphaned.add(claims[-1].team)
        return frozenset(orphaned)

    @cached_property
    def _claims(self) -> tuple[list[tuple[Thread, tuple[Membership, ...]]], OmpdError | None]:
        # Each thread with its claims. Threads whose claims are unknown are left out; the error of one of them follows,
        # None if all are known.
        readable, fault = [], None
        for thread in self._runtime.threads():
            try:
                readable.append((thread, thread.claims))
            except OmpdError as error:
                fault = error  # the thread's row reports it
        return readable, fault

    @property
    def unread(self) -> OmpdError | None:
        """The reason why the teams of a thread are unknown, None if all are known."""
        return self._claims[1]

    @cached_property
    def _members(self) -> Mapping[int, Mapping[int, Thread]]:
        members: dict[int, dict[int, Thread]] = {}
        for thread, claims in self._claims[0]:
            for claim in claims:
                if claim.team in self.live_teams:
                    members.setdefault(claim.team, {}).setdefault(claim.number, thread)
        return members

    def members(self, team: int) -> Mapping[int, Thread]:
        """Return the threads that claim a live team, by their numbers in the team."""
        return self._members.get(team, {})
