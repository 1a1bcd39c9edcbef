"""The numbers of one thread in its team, for conditions of breakpoints. These are evaluated often."""

from __future__ import annotations

from typing import NamedTuple

from ompd.contract.ompd import ThreadIdKind
from ompd.errors import NotInitialised, OmpdError
from ompd.questions.facts.openmp_threads import Ancestry
from ompd.session import Session


class Numbers(NamedTuple):
    """A thread's number, the size of its team and the level of its innermost region: -1, 0 and 0 outside of teams.

    ``path`` has the numbers of its ancestors and its own, from level 1 inwards.
    """

    number: int = -1
    size: int = 0
    level: int = 0
    path: tuple[int, ...] = ()

    def at(self, level: int | None) -> int:
        """Return the number in the team at *level*, the innermost one if None. -1 if there is no such team."""
        if level is None or level == self.level:
            return self.number
        return self.path[level - 1] if 0 < level <= len(self.path) else -1


def numbers_of(session: Session, native: int, *, with_path: bool = False) -> Numbers:
    """Return the numbers of the thread *native*, those at the innermost level if several runtimes know it.

    :param with_path: whether to return the numbers in enclosing teams, too
    :raises OmpdError: if they cannot be read
    """
    best: Numbers | None = None
    for runtime in session.runtimes:
        if runtime.space is None:
            if isinstance(runtime.fault, NotInitialised):
                continue
            raise runtime.fault or OmpdError(f"{runtime.id} cannot be read")
        try:
            handle = runtime.space.thread_by_native_id(ThreadIdKind.LWP, native)
        except NotInitialised:
            continue
        number = handle.thread_num() if handle is not None else None
        if handle is None or number is None:
            continue
        region = handle.current_parallel()
        numbers = Numbers(number, 1, 0)
        if region is not None:
            path = (*Ancestry().of(region), number) if with_path else ()
            numbers = Numbers(number, region.size(), region.level(), path)
        best = numbers if best is None or numbers.level > best.level else best
    return best if best is not None else Numbers()
