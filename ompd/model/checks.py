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
    """A library that was compared. ``file`` is where it is, ``version`` what it says of itself. ``vendor`` and
    ``release`` are those of a library whose differences were measured, and ``what`` says where that one is from; None
    for any other. ``facts`` is how many facts were compared, of which the two agree in ``same``, entries explain
    ``explained``, and ``unexplained`` are left.
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
    """What was seen of a known difference: its ``number`` and ``title``, at how many ``places`` of this program it
    could be, and how many facts it ``explains``. ``state`` is ``seen``, ``not_here`` if this program has no place for
    it, ``not_seen``, or ``gone`` if it is not seen where this release should have it.
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
    """The differences, those that nobody explains first, the ``libraries``, and all known differences that these may
    have (``entries``).
    """

    libraries: tuple[CheckedLibrary, ...] = ()
    entries: tuple[EntrySeen, ...] = ()
