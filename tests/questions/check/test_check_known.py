"""The table of known differences: its entries are complete, the page lists them, and signs identify each."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ompd.errors import Rc
from ompd.questions.check.compare import Fact, Outcome, Subject, function_of
from ompd.questions.check.known import Explained, Known, KnownLibrary
from tests.check import page
from tests.check.minimal import NAMES, SOURCES

KNOWN = Known()
INTEL = KnownLibrary("intel", "2026", None)
STRANGER = KnownLibrary(None, None, None)
TAGS = {
    *(
        "debug",
        "states",
        "no_num_threads",
        "openmp",
        "in_team",
        "idle",
        "initial",
        "serialized",
        "of_several",
        "folded",
    ),
    *("implicit", "explicit"),
}
THREAD = Subject("thread", "1234", 1234, frozenset(("openmp", "in_team", "debug", "no_num_threads")))
ONE, PART = Outcome("value", 2, "2"), Outcome("value", 2, "2, the first of a list", is_part=True)
IDLE = Outcome("value", 1, "idle")
FOUND = Outcome("value", True, "a thread of OpenMP")
UNSUPPORTED = Outcome("refused", None, "unsupported", Rc.UNSUPPORTED)


def test_entries_are_numbered_from_one_and_say_all() -> None:
    assert [entry.number for entry in KNOWN.entries] == [*range(1, len(KNOWN.entries) + 1)]
    for entry in KNOWN.entries:
        assert entry.title and entry.text.endswith(".") and "OpenMP 5.2" in entry.standard
        assert entry.compiler in ("gcc", "clang")
        assert entry.signs and entry.releases
        for sign in entry.signs:
            assert {tag.removeprefix("!") for tag in sign.tags} <= TAGS
            for side in (sign.theirs, sign.ours):
                assert set(side) <= {"kind", "rc", "texts", "part"}
                assert all(name.upper() in Rc.__members__ for name in side.get("rc", ()))
            for pattern in sign.facts:
                assert function_of(pattern.removesuffix("*").rstrip() if pattern.endswith("frame*") else pattern)


def test_each_is_shown_by_a_program_of_a_few_lines() -> None:
    assert {entry.program for entry in KNOWN.entries} == set(NAMES)
    for name in NAMES:
        assert len((SOURCES / f"{name}.c").read_text().splitlines()) <= 30, name


def test_releases_are_those_of_the_libraries_that_were_examined() -> None:
    examined = {(each.vendor, each.release) for each in KNOWN.libraries}
    for entry in KNOWN.entries:
        assert {(vendor, release) for vendor, releases in entry.releases.items() for release in releases} <= examined


def test_the_page_has_what_the_table_has() -> None:
    text = page.PAGE.read_text()
    assert text == page.page(text, KNOWN), "python -m tests.check.page writes it"


def test_a_library_is_known_by_its_bytes_else_its_vendor_by_its_version_string() -> None:
    assert KNOWN.identify("", "Intel(R) OMP OMPD plugin") == KnownLibrary("intel", None, None)
    assert KNOWN.identify("", "LLVM OpenMP 5.0 Debugging Library") == KnownLibrary("llvm", None, None)
    assert KNOWN.identify("", "somebody's") == STRANGER


@pytest.mark.parametrize("library", [INTEL, STRANGER])
def test_a_difference_that_an_entry_describes_is_explained(library: KnownLibrary) -> None:
    explained = Explained(KNOWN, library)
    assert explained.entry_of(Fact("number of nthreads-var", THREAD, PART, ONE)) == 6
    assert explained.entry_of(Fact("number of nthreads-var", THREAD, ONE, ONE)) is None
    assert explained.entry_of(Fact("number of nthreads-var", THREAD, replace(PART, value=3), Outcome("none"))) is None
    assert [seen.entry.number for seen in explained.tallies() if seen.is_gone] == []


def test_an_entry_of_other_releases_explains_nothing() -> None:
    fact = Fact("handle by lwp", THREAD, UNSUPPORTED, FOUND)
    assert Explained(KNOWN, INTEL).entry_of(fact) == 7
    assert Explained(KNOWN, KnownLibrary("llvm", "22", None)).entry_of(fact) is None


@pytest.mark.parametrize(
    "fact",
    [
        # LLVM's runtime gives OMP_NUM_THREADS=4,2 as undefined.
        Fact("number of nthreads-var", THREAD, ONE, ONE),
        # A worker of a finished nested team is recorded as idle.
        Fact("state", Subject("thread", "1234", 1234, frozenset(("openmp", "idle", "debug"))), IDLE, IDLE),
    ],
)
def test_where_a_runtime_may_keep_the_right_answer_an_entry_has_not_to_be_seen(fact: Fact) -> None:
    explained = Explained(KNOWN, INTEL)
    assert explained.entry_of(fact) is None
    assert not any(seen.is_gone for seen in explained.tallies())


def test_an_entry_that_is_not_seen_where_it_should_be_is_gone() -> None:
    explained = Explained(KNOWN, INTEL)
    explained.entry_of(Fact("handle by lwp", THREAD, FOUND, FOUND))
    assert [seen.entry.number for seen in explained.tallies() if seen.is_gone] == [7]
    # One place with the difference is enough. For an unknown library no difference is expected.
    explained.entry_of(Fact("handle by lwp", THREAD, UNSUPPORTED, FOUND))
    assert [seen.entry.number for seen in explained.tallies() if seen.is_gone] == []
    stranger = Explained(KNOWN, STRANGER)
    stranger.entry_of(Fact("handle by lwp", THREAD, FOUND, FOUND))
    assert not any(seen.is_gone for seen in stranger.tallies())


def test_a_table_of_ones_own() -> None:
    entry = {
        **{"number": 1, "title": "t", "text": "x.", "standard": "OpenMP 5.2", "program": "nested"},
        **{"releases": {"llvm": ["22"]}, "signs": [{"facts": ["state"]}]},
    }
    known = Known(json.dumps({"libraries": [], "vendors": {}, "entries": [entry]}))
    other = Fact("state", THREAD, Outcome("value", 1, "a"), Outcome("value", 2, "b"))
    assert Explained(known, KnownLibrary("llvm", "22", None)).entry_of(other) == 1
    assert Explained(known, KnownLibrary("llvm", "19", None)).entry_of(other) is None
