"""The differences that are known: numbered entries, as ``known.json`` has them, and what of them is seen.

An entry has signs. A sign is of *facts* (patterns of their names), about subjects with certain *tags* (``!`` before one
that they do not have), and may say what the library answers and what we do. One that is ``seen`` is no excuse alone: at
some place where its facts, its tags and our answer are, the library has to show it, or the entry is out of date.

Tags are ``debug`` (the program was started with OMP_DEBUG=enabled), ``states`` (the runtime records states and tool
data), ``no_num_threads`` (OMP_NUM_THREADS is not set), of threads ``openmp``, ``in_team`` and ``idle``, of regions and
of tasks in them ``initial``, ``serialized``, ``of_several`` and ``folded`` (one of several serialized regions that are
directly in one another), of tasks ``implicit`` and ``explicit``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from importlib.resources import files
from typing import Any

from ompd.errors import Rc
from ompd.questions.check.compare import Fact
from ompd.questions.check.facts import Outcome
from ompd.records import record

_TABLE = files("ompd.questions.check").joinpath("known.json")


@record
class KnownLibrary:
    """Which library it is: its ``vendor`` and ``release``, None for one that the table does not have; ``what`` says
    where that one is from.
    """

    vendor: str | None
    release: str | None
    what: str | None


@record
class Sign:
    """How an entry is recognised in one fact."""

    facts: tuple[str, ...]
    tags: tuple[str, ...]
    theirs: Mapping[str, Any]
    ours: Mapping[str, Any]
    seen: bool

    def is_of(self, name: str) -> bool:
        """Return whether the sign is about facts of this name."""
        return any(fnmatchcase(name, pattern) for pattern in self.facts)

    def is_place(self, fact: Fact) -> bool:
        """Return whether the sign is about this fact, one of its names, whatever the library says of it."""
        has = fact.subject.tags
        return all((tag[1:] not in has) if tag.startswith("!") else (tag in has) for tag in self.tags) and _fits(
            self.ours, fact.ours
        )

    def explains(self, fact: Fact) -> bool:
        """Return whether a fact that it is about, in which the two differ, is what the sign describes."""
        return _fits(self.theirs, fact.theirs)


@record
class Entry:
    """A known difference. ``releases`` are those that have it, by vendor. ``program`` is the one of
    ``fixtures/programs/check`` that shows it, compiled by ``compiler``, and started with OMP_DEBUG=enabled if
    ``is_debugged``.
    """

    number: int
    title: str
    text: str
    standard: str
    releases: Mapping[str, tuple[str, ...]]
    program: str
    is_debugged: bool
    compiler: str
    issue: str | None
    signs: tuple[Sign, ...]

    def is_of(self, library: KnownLibrary) -> bool:
        """Return whether the library may have it: one of which it is not known may have all."""
        if library.vendor is None:
            return True
        known = self.releases.get(library.vendor, ())
        return bool(known) if library.release is None else library.release in known


@record
class Seen:
    """What was seen of an entry: at how many ``places`` it could be, how many facts it ``explains``, and whether it
    ``is_gone``: it is not seen where it should be.
    """

    entry: Entry
    places: int
    explains: int
    is_gone: bool


class Known:
    """The table of known differences.

    :param text: that of a table; without it, the one that comes with ompd
    """

    def __init__(self, text: str | None = None) -> None:
        self.text = _TABLE.read_text("utf-8") if text is None else text
        self._table: dict[str, Any] = json.loads(self.text)

    @cached_property
    def entries(self) -> Sequence[Entry]:
        """The entries, by number."""
        return tuple(_entry(row) for row in self._table["entries"])

    def identify(self, digest: str, version_string: str) -> KnownLibrary:
        """Return which library that is.

        :param digest: SHA-256 of its file, in hexadecimal
        :param version_string: what it says of itself
        """
        for row in self._table["libraries"]:
            if row["sha256"] == digest:
                return KnownLibrary(row["vendor"], row["release"], row["what"])
        for vendor, start in self._table["vendors"].items():
            if version_string.startswith(start):
                return KnownLibrary(vendor, None, None)
        return KnownLibrary(None, None, None)

    @property
    def libraries(self) -> Sequence[KnownLibrary]:
        """The libraries whose differences were measured."""
        return [KnownLibrary(row["vendor"], row["release"], row["what"]) for row in self._table["libraries"]]


class Explained:
    """Sorts the facts of one library into those that agree, those that entries explain, and the others."""

    def __init__(self, known: Known, library: KnownLibrary) -> None:
        self._entries = [entry for entry in known.entries if entry.is_of(library)]
        self._must = library.release is not None
        # The signs that are about a fact, by its name: thousands of facts have one of a few names.
        self._by_name: dict[str, list[tuple[Entry, int, Sign]]] = {}
        # Of each sign: where it could be, and where it was.
        self._places: dict[tuple[int, int], int] = {}
        self._signs: dict[tuple[int, int], int] = {}
        self._explains: dict[int, int] = {}

    def entry_of(self, fact: Fact) -> int | None:
        """Return the number of the entry that explains a fact, None if the two agree or none does; and count it."""
        if fact.name not in self._by_name:
            self._by_name[fact.name] = [
                (entry, number, sign)
                for entry in self._entries
                for number, sign in enumerate(entry.signs)
                if sign.is_of(fact.name)
            ]
        differs = not fact.is_same
        found = None
        for entry, number, sign in self._by_name[fact.name]:
            if not sign.is_place(fact):
                continue
            key = entry.number, number
            self._places[key] = self._places.get(key, 0) + 1
            if differs and sign.explains(fact):
                self._signs[key] = self._signs.get(key, 0) + 1
                found = entry.number if found is None else found
        if found is not None:
            self._explains[found] = self._explains.get(found, 0) + 1
        return found

    def seen(self) -> Iterable[Seen]:
        """Yield what was seen of each entry that the library may have."""
        for entry in self._entries:
            keys = [(entry.number, number) for number in range(len(entry.signs))]
            gone = self._must and any(
                sign.seen and self._places.get(key, 0) and not self._signs.get(key, 0)
                for key, sign in zip(keys, entry.signs, strict=True)
            )
            places = sum(self._places.get(key, 0) for key in keys)
            yield Seen(entry, places, self._explains.get(entry.number, 0), gone)


def _fits(wanted: Mapping[str, Any], found: Outcome) -> bool:
    return (
        wanted.get("kind", found.kind) == found.kind
        and ("part" not in wanted or wanted["part"] == found.is_part)
        and ("texts" not in wanted or any(fnmatchcase(found.text, text) for text in wanted["texts"]))
        and (
            "rc" not in wanted or (found.rc is not None and any(Rc[name.upper()] == found.rc for name in wanted["rc"]))
        )
    )


def _entry(row: Mapping[str, Any]) -> Entry:
    signs = tuple(
        Sign(
            tuple(sign["facts"]),
            tuple(sign.get("tags", ())),
            sign.get("library", {}),
            sign.get("ours", {}),
            sign.get("seen", False),
        )
        for sign in row["signs"]
    )
    return Entry(
        row["number"],
        row["title"],
        row["text"],
        row["standard"],
        {vendor: tuple(releases) for vendor, releases in row["releases"].items()},
        row["program"],
        row.get("debugged", True),
        row.get("compiler", "clang"),
        row.get("issue"),
        signs,
    )
