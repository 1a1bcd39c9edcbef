"""Which teams a thread is in, and which of them are live.

A thread notes its team and its number there; a team notes those of its primary thread around its region. A worker goes
on saying that it is in a team when the region is over: only the primary thread knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

from ompd.contract.helpers.walks import MAX_NESTING
from ompd.errors import CorruptState, OmpdError, Unavailable
from ompd.runtimes.libgomp import target_regions
from ompd.runtimes.libgomp.stacks.parsed import Group, Parsed
from ompd.runtimes.libgomp.stacks.routines import PARALLEL
from ompd.runtimes.libgomp.structures.gomp import GompThread, Space
from ompd.runtimes.libgomp.waits import docks

_T = TypeVar("_T")


class Membership(NamedTuple):
    """A thread in a team: ``team`` is its address, ``number`` the thread's in it."""

    team: int
    number: int


class Context(NamedTuple):
    """What a thread is inside of a target region that it executes, or inside of none: ``claims`` are the teams that it
    says it is in, innermost first. ``target`` is the target region inside of this, None for the innermost.
    """

    target: target_regions.Target | None
    claims: tuple[Membership, ...]


class Member(GompThread):
    """A thread that may be in teams.

    :param roster: knows the teams of all threads
    """

    def __init__(self, space: Space, roster: Roster[Member], native: int, address: int) -> None:
        super().__init__(space, native, address)
        self._roster = roster
        self._known: dict[str, Any] = {}

    @cached_property
    def stack(self) -> Parsed:
        """What its stack shows."""
        return Parsed(self.space.owners, self.native)

    def once(self, name: str, work: Callable[[], _T]) -> _T:
        """Return the result of *work*, done once, or raise what that has raised.

        :raises Unavailable: if it is needed for itself, as damaged structures have it
        """
        if name not in self._known:
            self._known[name] = Unavailable("whose code is on the stack depends on itself")
            try:
                self._known[name] = work()
            except OmpdError as error:
                self._known[name] = error
        found: _T | OmpdError = self._known[name]
        if isinstance(found, OmpdError):
            raise found
        return found

    @property
    def is_telling(self) -> bool:
        """Whether it has both a team and a task, so that what it has shows whether its layout is the right one."""
        try:
            return bool(self.claims) and self.view.pointer("task") is not None
        except OmpdError:
            return False

    @cached_property
    def claims(self) -> tuple[Membership, ...]:
        """The teams that it says it is in, innermost first, those outside of target regions that it executes included.

        It is the primary thread of all but the last; what encloses a team in which it is a worker is the matter of
        that team's primary thread. A worker goes on saying so when the region is over.

        :raises CorruptState: if the chain of ``prev_ts`` does not end, or contradicts itself
        """
        return tuple(claim for known in self.contexts for claim in known.claims)

    @cached_property
    def contexts(self) -> tuple[Context, ...]:
        """What it is, innermost first: what its ``gomp_thread`` says; and, for each target region that it executes,
        what it is outside of that.

        :raises CorruptState: as :attr:`claims`
        :raises Unavailable: if it executes a target region, and what it is outside of that is unknown
        """
        view = self.view
        own = self._chain(view.pointer("ts.team"), view.unsigned("ts.team_id"), view.unsigned("ts.level"))
        found = [Context(None, own)]
        start, claims = 0, own
        while not claims or claims[-1].number == 0:  # a target region begins with an initial thread
            target = target_regions.around(self, self.stack, start, len(claims))
            if target is None:
                break
            level = self.space.team_at(target.team).outer_level + 1 if target.team is not None else 0
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
            around = self.space.team_at(team)
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
        """The teams that it is in, innermost first, none while it is idle or outside of all regions. Their regions are
        those whose code is on its stack.

        A worker is in a team from when its primary thread says so until that has left it, also while it waits in the
        pool before it begins, or after it is done.

        :raises OmpdError: as :attr:`claims`; or if it is unknown whether it is idle
        """
        claims = self.claims
        if claims and claims[-1].number and not self._is_in(claims[-1]):
            claims = claims[:-1]
        return claims

    def _is_in(self, claim: Membership) -> bool:
        # A team is live while its primary thread has it in its own chain, or has been lost from it.
        roster = self._roster
        if claim.team not in roster.live_teams:
            # Its primary thread may be one that could not be read.
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
        # Whether it sleeps at the barrier of a live team, or of the one that it claims. Who has been let go there, and
        # has not woken up, does not.
        word, space = self.stack.futex_word(), self.space
        teams = (claimed, *self._roster.live_teams)
        if word is None or space.process.progress(self.native) != "blocked":
            return False
        return any(word == space.team_at(team).view.address_of("barrier.generation") for team in teams)

    @property
    def is_docked(self) -> bool:
        """Whether it is a worker that waits in the pool for its next region; see :func:`docks.is_docked`."""
        return docks.is_docked(self.stack, self, self.claims[-1].team if self.claims else None)

    @cached_property
    def inner(self) -> tuple[Membership, ...]:
        """Those of :attr:`memberships` that are inside of the innermost target region that it executes; all if it
        executes none.
        """
        return self.memberships[: len(self.contexts[0].claims)]

    def thread_type(self) -> str:
        """Return ``worker`` for one that began as another number than 0 in some team: it still says so when that is
        over. See :meth:`ThreadHandle.thread_type`.
        """
        return "worker" if self.claims and self.claims[-1].number else "initial"

    @property
    def is_idle(self) -> bool:
        """Whether it is a worker that waits in the pool."""
        return not self.memberships and self.thread_type() == "worker"

    def thread_num(self) -> int | None:
        """Return ``ts.team_id``, None while the thread is idle."""
        if self.inner:
            return self.inner[0].number
        return None if self.is_idle else 0

    @cached_property
    def _is_docked_member(self) -> bool:
        # Whether a worker of a team waits in the pool, before it begins the region's code or after it has done it.
        try:
            return bool(self.memberships) and self.memberships[-1].number != 0 and self.is_docked
        except OmpdError:
            return False

    def has_left_region(self) -> bool:
        """Return whether it waits in the pool though the team goes on: it is over for this thread, but the primary
        thread has not left it.
        """
        return self._is_docked_member and not self.is_about_to_begin()

    def is_about_to_begin(self) -> bool:
        """See :meth:`ThreadHandle.is_about_to_begin`.

        The primary thread sets ``fn`` of those that wait in the pool before it wakes them up, and they clear it
        (team.c, ``gomp_team_start``, ``gomp_thread_start``). Of one that was made for the team it is not set; but while
        the primary thread is in the region's code, or not all have arrived at its end, nobody can have left it.
        """
        if not self._is_docked_member:
            return False
        try:
            if self.view.pointer("fn") is not None:
                return True
            team = self.space.team_at(self.memberships[0].team)
            awaited, total = (team.barrier.unsigned(f"barrier.{name}") for name in ("awaited_final", "total"))
            primary = self._roster.members(team.address).get(0)
            return 0 < awaited < total or (primary is not None and primary.is_in_code(team.address))
        except OmpdError:
            return False

    @property
    def hosted(self) -> Mapping[int, int]:
        """By the address of a region's team, the number of its group among :attr:`Parsed.groups`.

        A region of the thread is not in it where that is not certain. No task is looked for.
        """
        return self.once("hosted", self._match)

    def _match(self) -> Mapping[int, int]:
        stack, teams = self.stack, [membership.team for membership in self.memberships]
        # The runtime's routine that began a region stays on the stack as long as the region does.
        forks = [number for number, group in enumerate(stack.groups) if group.forks]
        if len(forks) == len(teams) - 1 and stack.groups and not stack.groups[0].forks:
            # At the end of the innermost region that routine has left the stack by a jump, as has the code that called
            # it.
            group, team = stack.groups[0], self.space.team_at(teams[0])
            if group.code is None and self.thread_num() == 0 and docks.is_at_unnamed_barrier(stack, group, team):
                forks.insert(0, 0)
        elif len(forks) == len(teams) + 1 and forks[0] == 0 and stack.groups[0].code is None:
            # That routine has no region yet, or none any more: gomp_team_end() lets go of the team before it waits
            # until the others of a nested one have left its barrier.
            del forks[0]
        certain = len(forks) == len(teams) and stack.stopped is None
        return dict(zip(teams, forks, strict=True)) if certain else {}

    def group_of(self, team: int) -> Group | None:
        """Return the group that stands for the region of a team on the stack, None where that is not certain."""
        at = self.hosted.get(team)
        return self.stack.groups[at] if at is not None else None

    def is_in_code(self, team: int) -> bool:
        """Return whether the code of the region of a team is on the stack, or ended by a jump to what is there."""
        group = self.group_of(team)
        return group is not None and group.code == PARALLEL

    def is_told_apart(self, group: Group) -> bool:
        """Return whether it is known which region *group* stands for, or that it stands for one that is none yet, or
        any more: then the thread is not at its end.
        """
        groups = self.stack.groups
        if groups.index(group) in self.hosted.values():
            return True
        return self.stack.stopped is None and sum(1 for each in groups if each.forks) == len(self.memberships) + 1


_Member = TypeVar("_Member", bound=Member, covariant=True)


class Roster(Generic[_Member]):
    """The teams of all threads of one process.

    :param threads: returns the threads
    """

    def __init__(self, space: Space, threads: Callable[[], Sequence[_Member]]) -> None:
        self._space = space
        self._threads = threads

    @cached_property
    def live_teams(self) -> frozenset[int]:
        """The teams whose primary thread is in them, as far as threads can be read; and those that have lost it."""
        known = frozenset(claim.team for _, claims in self._claims[0] for claim in claims if claim.number == 0)
        return known | self._orphaned(known)

    def _orphaned(self, known: frozenset[int]) -> frozenset[int]:
        # Teams whose primary thread is not in this process, but a worker in the region's code: fork() gives the child
        # of a worker that one thread, and a copy of the team. No region ends while a thread is in its code.
        found: set[int] = set()
        there = len(self._space.process.threads())
        for thread, claims in self._claims[0] if self.unread is None else ():
            if not claims or not claims[-1].number or claims[-1].team in known or claims[-1].team in found:
                continue
            if there < self._space.team_at(claims[-1].team).nthreads and thread.stack.is_in_region:
                found.add(claims[-1].team)
        return frozenset(found)

    @cached_property
    def _claims(self) -> tuple[list[tuple[_Member, tuple[Membership, ...]]], OmpdError | None]:
        # And why those of a thread are not known.
        found, fault = [], None
        for thread in self._threads():
            try:
                found.append((thread, thread.claims))
            except OmpdError as error:
                fault = error
                continue  # reported in that thread's row
        return found, fault

    @property
    def unread(self) -> OmpdError | None:
        """Why not all teams of all threads are known, None if they are."""
        return self._claims[1]

    @cached_property
    def _members(self) -> Mapping[int, Mapping[int, _Member]]:
        found: dict[int, dict[int, _Member]] = {}
        for thread, claims in self._claims[0]:
            for claim in claims:
                if claim.team in self.live_teams:
                    found.setdefault(claim.team, {}).setdefault(claim.number, thread)
        return found

    def members(self, team: int) -> Mapping[int, _Member]:
        """Return the threads of a live team by their numbers, as far as they say that they are."""
        return self._members.get(team, {})
