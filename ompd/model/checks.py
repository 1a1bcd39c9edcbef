"""Records of ``ompd check``: a library for debuggers compared with our own plugin, fact by fact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ompd.model.base import Record
from ompd.model.openmp import Answer
from ompd.records import record


@record
class DifferenceRecord(Record):
    """A fact in which a library and our own plugin differ.

    ``subject`` is the kind of object with the fact: ``process``, ``thread``, ``region`` or ``task``; ``id`` is the
    object's id in other answers, or a thread's native id. ``native_thread_id`` is the thread with the first occurrence,
    None for a fact of the process. ``fact`` is the fact's name, ``function`` the routine of OMPD that returns it.
    ``library`` and ``ours`` are the two values. A missing value is None, with its reason in ``unavailable``. ``entry``
    is the number of the known difference that explains the fact, None if unexplained.
    """

    subject: str
    id: str
    native_thread_id: int | None
    runtime: str
    fact: str
    function: str
    library: str | None
    ours: str | None
    entry: int | None
    unavailable: Mapping[str, str] = field(default_factory=dict)


@record
class CheckedLibrary(Record):
    """A library that was compared with our own plugin. ``file`` is the library's file, ``version`` the version that it
    reports. If the library is one whose differences are known, ``vendor`` and ``release`` name it, and ``what`` says
    where it comes from; else all three are None. ``facts`` is the number of facts that were compared. ``same`` counts
    those with equal values, ``explained`` those whose difference is known, ``unexplained`` all others.
    """

    runtime: str
    file: str
    version: str
    vendor: str | None
    release: str | None
    what: str | None
    facts: int
    same: int
    explained: int
    unexplained: int


@record
class EntrySeen(Record):
    """A known difference of a library, and whether this program shows it. ``number`` and ``title`` identify the
    difference. ``places`` is the number of places in this program where it could show, ``explains`` the number of facts
    that it explains. ``state`` is ``seen``, ``not_here`` if there is no such place, ``not_seen``, or ``gone`` if it did
    not show although this release should have it.
    """

    runtime: str
    number: int
    title: str
    state: str
    places: int
    explains: int
    standard: str


@record
class CheckAnswer(Answer[DifferenceRecord]):
    """The facts that differ, unexplained ones first.

    ``libraries`` are the libraries that were compared, ``entries`` all known differences that they may have.
    """

    libraries: tuple[CheckedLibrary, ...] = ()
    entries: tuple[EntrySeen, ...] = ()
