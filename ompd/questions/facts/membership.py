"""What an OpenMP thread is in its team: part of each row about a thread."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from ompd.contract.plugin import ParallelHandle, ThreadHandle
from ompd.questions.facts.ancestry import Ancestry
from ompd.questions.facts.gathering import Facts


class Membership(NamedTuple):
    """A thread's innermost region, and its place in that one's team: None for what there is not, and for what is
    unknown, of which the row's facts say why. ``ancestors`` are None if they are unknown.
    """

    region: ParallelHandle | None = None
    thread_num: int | None = None
    team_size: int | None = None
    level: int | None = None
    active_level: int | None = None
    ancestors: tuple[int, ...] | None = ()


def membership_of(
    handle: ThreadHandle, ancestry: Ancestry, facts: Facts, wanted: Sequence[str] = ("team_size",)
) -> Membership:
    """Return what a thread is in its team.

    A thread of a team outside of all regions is an initial one: alone, at level 0.

    :param wanted: which of ``team_size``, ``level`` and ``active_level`` the row has; the others are not read
    """
    region = facts.get("parallel", handle.current_parallel)
    thread_num = facts.get("thread_num", handle.thread_num)
    lost = facts.unavailable.get("parallel", facts.unavailable.get("thread_num") if region is None else None)
    found: dict[str, int | None] = {}
    ancestors: tuple[int, ...] | None = ()
    if region is not None:
        asks = {"team_size": region.size, "level": region.level, "active_level": region.active_level}
        found = {key: facts.get(key, asks[key]) for key in wanted}
        ancestors = facts.get("ancestors", partial(ancestry.of, region))
    elif lost is not None:
        facts.unavailable.update(dict.fromkeys((*wanted, "ancestors"), lost))
        ancestors = None
    elif thread_num is not None:
        found = {key: 1 if key == "team_size" else 0 for key in wanted}
    return Membership(
        region, thread_num, found.get("team_size"), found.get("level"), found.get("active_level"), ancestors
    )


def unknown_membership(facts: Facts, keys: Sequence[str], reason: str) -> Membership:
    """Return the membership of a thread that may be OpenMP's or not, after noting *reason* under all *keys* of a row
    that are about OpenMP.
    """
    facts.unavailable.update(dict.fromkeys((*keys, "ancestors"), reason))
    return Membership(ancestors=None)
