"""The known differences: the numbered entries of ``known.json``, and the facts that they explain.

An entry has signs, by which it is recognised. A sign matches a fact by patterns of the fact's name, by tags of its
subject (``!`` before a tag that the subject must not have), and by the answers of the library and of our plugin. A sign
with ``seen`` must occur: if it could occur in facts of a target and occurs in none, the entry is out of date.

Tags of the process: ``debug`` (the program was started with OMP_DEBUG=enabled), ``states`` (the runtime records states
and tool data), ``no_num_threads`` (OMP_NUM_THREADS is not set). Tags of threads: ``openmp``, ``in_team``, ``idle``.
Tags of regions and the tasks in them: ``initial``, ``serialized``, ``of_several``, ``folded`` (a serialized region
directly in another one). Tags of tasks: ``implicit``, ``explicit``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from importlib.resources import files
from typing import Any

from ompd.errors import Rc
from ompd.questions.check.compare import Fact, Outcome
from ompd.records import record

_TABLE = files("ompd.questions.check").joinpath("known.json")


@record
class KnownLibrary:
    """A library as the table knows it. Vendor and release are None if the table does not have them."""

    vendor: str | None
    release: str | None
    what: str | None
    """The origin of the library's file, None if the table does not have the file."""


@record
class Sign:
    """A sign of an entry: facts that match it show the difference of the entry.

    ``facts`` are patterns of names, ``tags`` those of the subject. ``theirs`` and ``ours`` describe the answers of the
    library and of our plugin. ``seen`` is whether the sign must occur where it can.
    """

    facts: tuple[str, ...]
    tags: tuple[str, ...]
    theirs: Mapping[str, Any]
    ours: Mapping[str, Any]
    seen: bool

    def is_of(self, name: str) -> bool:
        """Return whether facts called *name* can have the sign."""
        return any(fnmatchcase(name, pattern) for pattern in self.facts)

    def is_place(self, fact: Fact) -> bool:
        """Return whether the sign can occur in *fact*: the subject's tags and our plugin's answer match.

        The name of the fact is not checked; see :meth:`is_of`.
        """
        tags = fact.subject.tags
        has_tags = all((tag[1:] not in tags) if tag.startswith("!") else (tag in tags) for tag in self.tags)
        return has_tags and _fits(self.ours, fact.ours)

    def explains(self, fact: Fact) -> bool:
        """Return whether the library's answer to *fact* is the one that the sign describes."""
        return _fits(self.theirs, fact.theirs)


@record
class Entry:
    """A known difference."""

    number: int
    title: str
    text: str
    standard: str
    releases: Mapping[str, tuple[str, ...]]
    """The releases of libraries that have the difference, by vendor."""
    program: str
    """The program in ``fixtures/programs/check`` that shows the difference."""
    is_debugged: bool
    """Whether the program is started with OMP_DEBUG=enabled."""
    compiler: str
    issue: str | None
    signs: tuple[Sign, ...]

    def is_of(self, library: KnownLibrary) -> bool:
        """Return whether the library may have the difference. A library of an unknown vendor may have any."""
        if library.vendor is None:
            return True
        releases = self.releases.get(library.vendor, ())
        return bool(releases) if library.release is None else library.release in releases


@record
class EntryTally:
    """How often an entry occurs in one comparison."""

    entry: Entry
    places: int
    """The number of facts in which the entry could occur; a fact counts once for each of the entry's signs."""
    explains: int
    """The number of differences that the entry explains."""
    is_gone: bool
    """Whether the entry must occur and does not."""


class Known:
    """The table of known differences.

    :param text: the table as JSON; ompd's own if None
    """

    def __init__(self, text: str | None = None) -> None:
        self.text = _TABLE.read_text("utf-8") if text is None else text
        self._table: dict[str, Any] = json.loads(self.text)

    @cached_property
    def entries(self) -> Sequence[Entry]:
        """The entries, by number."""
        return tuple(_entry(row) for row in self._table["entries"])

    def identify(self, digest: str, version_string: str) -> KnownLibrary:
        """Return the library with the given file and version, as far as the table knows it.

        :param digest: SHA-256 of the library's file, in hexadecimal
        :param version_string: the result of ``ompd_get_version_string``
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
    """Explains the differences of one library by entries, and counts how often each entry occurs."""

    def __init__(self, known: Known, library: KnownLibrary) -> None:
        self._entries = [entry for entry in known.entries if entry.is_of(library)]
        self._must = library.release is not None
        # The signs that match a fact's name, by this name. Kept, because thousands of facts share a few names.
        self._by_name: dict[str, list[tuple[Entry, int, Sign]]] = {}
        # In how many facts a sign could occur, and in how many it did. The key is the entry's number and the sign's
        # index in the entry.
        self._places: dict[tuple[int, int], int] = {}
        self._occurrences: dict[tuple[int, int], int] = {}
        self._explains: dict[int, int] = {}

    def entry_of(self, fact: Fact) -> int | None:
        """Return the number of the entry that explains the difference in *fact*, and count the fact for its entries.

        None if both sides agree, or if no entry explains the difference.
        """
        if fact.name not in self._by_name:
            self._by_name[fact.name] = [
                (entry, number, sign)
                for entry in self._entries
                for number, sign in enumerate(entry.signs)
                if sign.is_of(fact.name)
            ]
        differs = not fact.is_same
        explaining = None
        for entry, number, sign in self._by_name[fact.name]:
            if not sign.is_place(fact):
                continue
            key = entry.number, number
            self._places[key] = self._places.get(key, 0) + 1
            if differs and sign.explains(fact):
                self._occurrences[key] = self._occurrences.get(key, 0) + 1
                explaining = entry.number if explaining is None else explaining
        if explaining is not None:
            self._explains[explaining] = self._explains.get(explaining, 0) + 1
        return explaining

    def tallies(self) -> Iterable[EntryTally]:
        """Yield how often each entry occurred, for all entries that the library may have."""
        for entry in self._entries:
            keys = [(entry.number, number) for number in range(len(entry.signs))]
            gone = self._must and any(
                sign.seen and self._places.get(key, 0) and not self._occurrences.get(key, 0)
                for key, sign in zip(keys, entry.signs, strict=True)
            )
            places = sum(self._places.get(key, 0) for key in keys)
            yield EntryTally(entry, places, self._explains.get(entry.number, 0), gone)


def _fits(pattern: Mapping[str, Any], outcome: Outcome) -> bool:
    if "part" in pattern and pattern["part"] != outcome.is_part:
        return False
    if "texts" in pattern and not any(fnmatchcase(outcome.text, text) for text in pattern["texts"]):
        return False
    if "rc" in pattern and outcome.rc not in [Rc[name.upper()] for name in pattern["rc"]]:
        return False
    return bool(pattern.get("kind", outcome.kind) == outcome.kind)


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
