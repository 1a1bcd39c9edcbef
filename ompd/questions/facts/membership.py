"""The place of an OpenMP thread in its team, for each row about a thread."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from ompd.contract.plugin import ParallelHandle, ThreadHandle
from ompd.questions.facts.ancestry import Ancestry
from ompd.questions.facts.gathering import Facts


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
    lost = facts.unavailable.get("parallel", facts.unavailable.get("thread_num") if region is None else None)
    values: dict[str, int | None] = {}
    ancestors: tuple[int, ...] | None = ()
    if region is not None:
        asks = {"team_size": region.size, "level": region.level, "active_level": region.active_level}
        values = {key: facts.get(key, asks[key]) for key in wanted}
        ancestors = facts.get("ancestors", partial(ancestry.of, region))
    elif lost is not None:
        facts.unavailable.update(dict.fromkeys((*wanted, "ancestors"), lost))
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
