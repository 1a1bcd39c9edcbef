"""The source lines of a verdict, each with what its threads do or have done there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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


class MarkedLines:
    """The marked lines of a verdict.

    :param known: what threads hold by their code, for those threads of which it is known already, by native id
    """

    def __init__(self, session: Session, verdict: VerdictRecord, known: Mapping[int, tuple[HeldRecord, ...]]) -> None:
        self._session, self._verdict, self._held = session, verdict, dict(known)

    def added(self) -> VerdictRecord:
        """Return the verdict with the lines of source at its places, and advice that names the lines of a leaked lock.

        Beside the places of waits these are the calls that set the locks, a return without a release of the lock, and
        the branch at which the ways of threads parted.
        """
        verdict = self._verdict
        leaks, advice = self._leaks(), verdict.advice
        marks = [*self._of_links(), *(mark for _, some in leaks for mark in some)]
        if verdict.branch is not None:
            marks.append(_Marked(verdict.branch, "one side leads to the barrier, the other does not", is_main=False))
        if leaks and advice:
            link, of_link = leaks[-1]
            place = of_link[-1].place
            where = f" of {place.function}" if place.function is not None else ""
            advice = (f"release {link.object} on every way out{where}, also before line {place.line}",)
        return replace(verdict, advice=advice, sources=tuple(_excerpts(self._session, marks)))

    def _of_links(self) -> Iterator[_Marked]:
        # Where threads wait or work, and where they set the locks that others wait for. The threads on which the others
        # depend come first.
        links = self._verdict.cycle[:_MAX_LINKS]
        is_ring = bool(links) and links[-1].holder is not None and len(links) == len(self._verdict.cycle)
        order = list(enumerate(links))
        for number, link in order if is_ring else reversed(order):
            before = links[number - 1] if number or is_ring else None
            if before is not None and before.kind.is_lock and link.thread is not None:
                record = self._acquired(link.thread, before)
                if record is not None and record.place is not None:
                    yield _Marked(record.place, f"{link.name} {_took(record)}", is_main=False)
            if link.where is not None:
                yield _Marked(link.where, doing(link))

    def _acquired(self, thread: int, link: Link) -> HeldRecord | None:
        # The call in which a thread acquired the object for which the threads of *link* wait, None if its code does not
        # show that.
        if thread not in self._held:
            self._held[thread] = ()
            with suppress(OmpdError):
                self._held[thread] = held(self._session, thread)
        records = (record for record in self._held[thread] if record.kind.node is link.kind and record.is_certain)
        return next((record for record in records if _is_named(link, record.symbol)), None)

    def _leaks(self) -> list[tuple[Link, list[_Marked]]]:
        # For each awaited lock that no thread of the verdict holds by its code: where functions set it, and where they
        # leave without releasing it.
        verdict = self._verdict
        named = {*verdict.roots, *(link.thread for link in verdict.cycle if link.thread is not None)}
        found = []
        for link in verdict.cycle[:_MAX_LINKS] if verdict.kind in _MAY_LEAK else ():
            if link.kind in _LOCKS and not any(self._acquired(thread, link) for thread in named):
                marks = list(self._leaks_of(link))
                found += [(link, marks)] if marks else []
        return found

    def _leaks_of(self, link: Link) -> Iterator[_Marked]:
        session, count = self._session, 0
        with suppress(OmpdError):
            for leak in places.followed_functions(session).releases.leaks(link.kind):
                name = lock_symbol(session, link.kind, leak.held.passed)
                place = place_of_code(session, leak.leaves)
                if _is_named(link, name) and place.line is not None and count < _MAX_LEAKS:
                    count += 1
                    yield _Marked(place_of_code(session, leak.call), f"{name} is set here", is_main=False)
                    yield _Marked(place, f"leaves here without releasing {name}")


def _took(record: HeldRecord) -> str:
    verb = "entered" if record.kind.is_for_some else "set" if record.kind is not Kind.MUTEX else "locked"
    return f"{verb} {record.symbol}" if record.symbol is not None else f"{verb} it"


def _is_named(link: Link, symbol: str | None) -> bool:
    # The name of an object in sentences may begin with a noun, as in "mutex &mutex".
    return symbol is not None and (link.object == symbol or link.object.endswith(f" {symbol}"))


def _excerpts(session: Session, marks: Sequence[_Marked]) -> Iterator[SourceExcerpt]:
    # Marks of one file that are near to each other share an excerpt.
    groups: list[list[tuple[SourceMark, Place]]] = []
    for place, text, is_main in dict.fromkeys(marks):
        if place.file is None or place.line is None:
            continue
        mark = SourceMark(place.line, text, is_main)
        for group in groups:
            if group[0][1].file == place.file and any(abs(mark.line - other.line) <= _NEAR for other, _ in group):
                group.append((mark, place))
                break
        else:
            groups.append([(mark, place)])
    for group in groups[:_MAX_EXCERPTS]:
        # The mark of a wait is enough for its line.
        waits = {mark.line for mark, _ in group if mark.is_main}
        kept = sorted(
            (each for each in group if each[0].is_main or each[0].line not in waits), key=lambda each: each[0].line
        )
        main = next((place for mark, place in kept if mark.is_main), kept[0][1])
        shown = excerpt(session, main, kept[0][0].line, kept[-1][0].line)
        if shown is not None:
            yield replace(shown, marks=tuple(dict.fromkeys(mark for mark, _ in kept)))
