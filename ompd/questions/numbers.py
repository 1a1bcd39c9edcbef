"""What one thread is in its team, and no more: for conditions of breakpoints, which are evaluated often."""

from __future__ import annotations

from typing import NamedTuple

from ompd.contract.ompd import ThreadIdKind
from ompd.errors import NotInitialised, OmpdError
from ompd.questions.facts.openmp_threads import Ancestry
from ompd.session import Session


class Numbers(NamedTuple):
    """A thread's number, the size of its team and the level: of its innermost region, -1, 0 and 0 in none.

    ``path`` are the numbers of its ancestors in the regions around it and its own, from level 1 on.
    """

    number: int = -1
    size: int = 0
    level: int = 0
    path: tuple[int, ...] = ()

    def at(self, level: int | None) -> int:
        """Return the number in the team at *level*, None for the innermost one; -1 if it is in no such team."""
        if level is None or level == self.level:
            return self.number
        return self.path[level - 1] if 0 < level <= len(self.path) else -1


def numbers_of(session: Session, native: int, *, with_path: bool = False) -> Numbers:
    """Return what the thread *native* is: of the innermost of several runtimes.

    :param with_path: tell the numbers in enclosing teams, too
    :raises OmpdError: if that cannot be read
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
        found = Numbers(number, 1, 0)
        if region is not None:
            path = (*Ancestry().of(region), number) if with_path else ()
            found = Numbers(number, region.size(), region.level(), path)
        best = found if best is None or found.level > best.level else best
    return best if best is not None else Numbers()
