"""Names of what was seen in a profile. They are found once, after the last look."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from ompd.analysis.profile.seen import Code, Named, SeenLock, SeenMoment
from ompd.errors import OmpdError
from ompd.model import Place, RegionFunction
from ompd.model.kinds import Kind
from ompd.questions import places
from ompd.questions.threads.waits import lock_symbol
from ompd.session import Session


def named(session: Session, moments: Sequence[SeenMoment], constructs: dict[int, RegionFunction]) -> Named:
    """Return the names of all that was seen. They come from files, so the process may have ended."""
    found: dict[int, tuple[Place, ...]] = {}
    frames = {code: _frames(session, code, found) for code in set(_codes(moments))}
    arguments = session.target.architecture.kernel_arguments
    calls = dict(arguments.waits) if arguments is not None else {}
    locks = {lock.address: lock for moment in moments for thread in moment.threads if (lock := thread.lock) is not None}
    names = {address: name for address, lock in locks.items() if (name := _lock_name(session, lock)) is not None}
    return Named(frames, constructs, calls, names)


def _codes(moments: Iterable[SeenMoment]) -> Iterator[Code]:
    for moment in moments:
        yield from (thread.code for thread in moment.threads)
        for region in moment.regions:
            yield region.begun_at
            yield region.begun_at[:1]  # the place of a region without code


def _frames(session: Session, code: Code, found: dict[int, tuple[Place, ...]]) -> tuple[Place, ...]:
    for address in code:
        if address not in found:
            found[address] = ()
            with suppress(OmpdError):
                found[address] = places.places_by_code(session, address)
    frames = [place for address in code for place in found[address]]
    # Without lines there are also frames of the program's start, which are not the user's.
    return tuple([place for place in frames if place.line is not None] or frames)


def _lock_name(session: Session, lock: SeenLock) -> str | None:
    kind = Kind.INTERNAL_LOCK if lock.kind == "internal" else Kind(lock.kind)
    try:
        return lock_symbol(session, kind, lock.variable, is_unnamed=lock.is_unnamed)
    except OmpdError:
        return None
