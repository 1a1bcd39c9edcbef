"""The source lines of a verdict, each with what its threads do or have done there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from ompd.analysis.verdicts.sentences import doing
from ompd.errors import OmpdError
from ompd.model import HeldRecord, Link, Place, VerdictRecord
from ompd.model.kinds import Kind, VerdictKind
from ompd.model.places import SourceExcerpt, SourceMark
from ompd.questions import places
from ompd.questions.source_lines import excerpt
from ompd.questions.threads.waits import lock_symbol
from ompd.questions.why.held import held, place_of_code
from ompd.session import Session

_MAX_EXCERPTS = 4
_MAX_LINKS = 4
_MAX_LEAKS = 4
_NEAR = 8  # lines of one file that are so near to each other are in one excerpt
_MAY_LEAK = frozenset(
    (VerdictKind.LOCK_ABANDONED, VerdictKind.LOCK_CYCLE, VerdictKind.SELF_LOCK, VerdictKind.UNDECIDED)
)
_LOCKS = frozenset((Kind.LOCK, Kind.NEST_LOCK, Kind.MUTEX))


class _Marked(NamedTuple):
    place: Place
    text: str
    is_main: bool = True


def with_sources(session: Session, verdict: VerdictRecord) -> VerdictRecord:
    """Return *verdict* with the lines of source at its places, and advice that names the lines of a leaked lock.

    Beside the places of waits these are the calls that set the locks, a return without a release of the lock, and the
    branch at which the ways of threads parted.
    """
    links, advice = verdict.cycle[:_MAX_LINKS], verdict.advice
    is_ring = bool(links) and links[-1].holder is not None and len(links) == len(verdict.cycle)
    marks: list[_Marked] = []
    # The threads on which the others depend come first.
    order = list(enumerate(links))
    for number, link in order if is_ring else reversed(order):
        before = links[number - 1] if number or is_ring else None
        if before is not None and before.kind.is_lock and link.thread is not None:
            record = _acquired(session, link.thread, before)
            if record is not None and record.place is not None:
                marks.append(_Marked(record.place, f"{link.name} {_took(record)}", is_main=False))
        if link.where is not None:
            marks.append(_Marked(link.where, doing(link)))
    for link in links if verdict.kind in _MAY_LEAK else ():
        leaks = list(_leaks(session, verdict, link)) if link.kind in _LOCKS else []
        marks += leaks
        if leaks and advice:
            place = leaks[-1].place
            where = f" of {place.function}" if place.function is not None else ""
            advice = (f"release {link.object} on every way out{where}, also before line {place.line}",)
    if verdict.branch is not None:
        marks.append(_Marked(verdict.branch, "one side leads to the barrier, the other does not", is_main=False))
    return replace(verdict, advice=advice, sources=tuple(_excerpts(session, marks)))


def _took(record: HeldRecord) -> str:
    verb = "entered" if record.kind.is_for_some else "set" if record.kind is not Kind.MUTEX else "locked"
    return f"{verb} {record.symbol}" if record.symbol is not None else f"{verb} it"


def _acquired(session: Session, thread: int, link: Link) -> HeldRecord | None:
    # The call in which a thread acquired the object for which the threads of *link* wait, None if its code does not
    # show that.
    records: tuple[HeldRecord, ...] = ()
    with suppress(OmpdError):
        records = held(session, thread)
    return next((r for r in records if r.kind.node is link.kind and r.is_certain and _is_named(link, r.symbol)), None)


def _is_named(link: Link, symbol: str | None) -> bool:
    # The name of an object in sentences may begin with a noun, as in "mutex &mutex".
    return symbol is not None and (link.object == symbol or link.object.endswith(f" {symbol}"))


def _leaks(session: Session, verdict: VerdictRecord, link: Link) -> Iterator[_Marked]:
    # Where functions leave without a release of the lock for which the threads of *link* wait, and where they set it;
    # nothing if a thread that the verdict names holds the lock by its code.
    named = {*verdict.roots, *(other.thread for other in verdict.cycle if other.thread is not None)}
    if any(_acquired(session, thread, link) for thread in named):
        return
    functions, count = places.followed_functions(session), 0
    with suppress(OmpdError):
        for leak in functions.leaks(link.kind):
            name = lock_symbol(session, link.kind, leak.held.passed)
            place = place_of_code(session, leak.leaves)
            if _is_named(link, name) and place.line is not None and count < _MAX_LEAKS:
                count += 1
                yield _Marked(place_of_code(session, leak.call), f"{name} is set here", is_main=False)
                yield _Marked(place, f"leaves here without releasing {name}")


def _excerpts(session: Session, marks: Sequence[_Marked]) -> Iterator[SourceExcerpt]:
    groups: list[list[_Marked]] = []
    for mark in dict.fromkeys(marks):
        place = mark.place
        if place.file is None or place.line is None:
            continue
        near = (group for group in groups if group[0].place.file == place.file and _is_near(place.line, group))
        group = next(near, None)
        if group is None:
            groups.append([mark])
        else:
            group.append(mark)
    for group in groups[:_MAX_EXCERPTS]:
        group.sort(key=lambda mark: mark.place.line or 0)
        waited = {mark.place.line for mark in group if mark.is_main}
        group = [mark for mark in group if mark.is_main or mark.place.line not in waited]
        main = next((mark for mark in group if mark.is_main), group[0])
        lines = [mark.place.line for mark in group if mark.place.line is not None]
        shown = excerpt(session, main.place, lines[0], lines[-1])
        if shown is not None:
            notes = (SourceMark(m.place.line, m.text, m.is_main) for m in group if m.place.line is not None)
            yield replace(shown, marks=tuple(dict.fromkeys(notes)))


def _is_near(line: int, group: Iterable[_Marked]) -> bool:
    return any(abs(line - (mark.place.line or 0)) <= _NEAR for mark in group)
