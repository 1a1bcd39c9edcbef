"""The search for the layout of a libgomp. A wrong layout is noticed."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Any, NoReturn

import pytest

from ompd.contract.memory import Field, StructLayout
from ompd.debugger.emulation.decode import Decoder
from ompd.errors import CorruptState, LayoutUnavailable, OmpdError
from ompd.runtimes.layout import table
from ompd.runtimes.libgomp import members, proof
from ompd.session import Session
from tests.builds import undecoded
from tests.support import Stopped
from tests.support.libgomp import FACTS, facts_told, on_libgomp
from tests.truth import compare

# The search for the layout


def unnamed(monkeypatch: pytest.MonkeyPatch) -> None:
    # As if no table named this build.
    honest = table.tables

    def tables(runtime: str, architecture: str) -> Any:
        return (replace(known, build_ids={}) for known in honest(runtime, architecture))

    monkeypatch.setattr(table, "tables", tables)


def layouts_of(core: Stopped) -> str:
    with Session.open_core(core.core) as session:
        (runtime,) = session.runtimes
        if runtime.space is None:
            raise runtime.fault or AssertionError("no reason")
        return runtime.space.version() or ""


@pytest.mark.parametrize("program", ["nested", "task_tree", "serialized_three", "between", "two_initial"])
def test_routines_of_the_library_tell_which_table_it_is(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    core = on_libgomp(program)
    named = layouts_of(core)
    unnamed(monkeypatch)
    assert named in layouts_of(core).split(" or ")
    assert compare(core).differences == []


@pytest.mark.parametrize("program", ["nested", "between"])
def test_a_known_build_is_opened_without_a_look_at_stacks(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def follow(*_: object) -> NoReturn:
        raise AssertionError("a stack was followed")

    with Session.open_core(on_libgomp(program).core) as session:
        (runtime,) = session.runtimes
        monkeypatch.setattr(members, "ParsedStack", follow)
        space = proof.proven(session.process.contract, runtime.found.module)
    assert (space.layout_proof or "").startswith("build-id of")


def test_without_an_emulator_an_unknown_build_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    core = on_libgomp("nested")
    unnamed(monkeypatch)
    monkeypatch.setitem(sys.modules, "unicorn", None)
    monkeypatch.setattr(Decoder, "call", undecoded)
    with pytest.raises(LayoutUnavailable) as refused:
        layouts_of(core)
    assert "build-id" in str(refused.value) and "ompd[emulate]" in refused.value.hint


def test_without_an_emulator_a_known_build_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "unicorn", None)
    assert compare(on_libgomp("nested")).differences == []
    # Only the answers of routines that do more than load are missing.
    monkeypatch.setattr(Decoder, "call", undecoded)
    found = compare(on_libgomp("nested"))
    assert all("cancel-var" in text or "max-task-priority-var" in text for text in found.differences)
    assert found.differences != []


# Mutants: each breaks one thing that the comparison checks, and the comparison must notice it


def shifted(layout: StructLayout, member: str) -> StructLayout:
    moved = layout.fields[member]
    return replace(layout, fields={**layout.fields, member: Field(moved.offset + 8, moved.size)})


@pytest.mark.parametrize(
    ("struct", "member"),
    [
        ("gomp_thread", "ts.team"),
        ("gomp_thread", "ts.team_id"),
        ("gomp_thread", "ts.level"),
        ("gomp_thread", "task"),
        ("gomp_thread", "thread_pool"),
        ("gomp_team", "nthreads"),
        ("gomp_team", "prev_ts.team"),
        ("gomp_team", "prev_ts.level"),
        ("gomp_team", "barrier.total"),
        ("gomp_team", "barrier.awaited"),
        ("gomp_team", "implicit_task"),
        ("gomp_task", "parent"),
        ("gomp_task", "kind"),
        ("gomp_task", "fn"),
        ("gomp_task", "children_queue"),
        ("gomp_task", "icv.dyn_var"),
        ("gomp_task", "icv.nthreads_var"),
        ("omp_nest_lock_t", "owner"),
    ],
)
@pytest.mark.quick(
    "gomp_thread-ts.team",
    "gomp_thread-ts.team_id",
    "gomp_thread-task",
    "gomp_thread-thread_pool",
    "gomp_team-prev_ts.team",
    "gomp_team-prev_ts.level",
    "gomp_team-barrier.awaited",
    "gomp_task-parent",
    "gomp_task-fn",
    "gomp_task-children_queue",
    "gomp_task-icv.nthreads_var",
    "omp_nest_lock_t-owner",
)
def test_a_field_read_from_a_wrong_place_is_noticed(struct: str, member: str, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = table.tables

    def tables(runtime: str, architecture: str) -> Any:
        for known in honest(runtime, architecture):
            yield replace(known, structs={**known.structs, struct: shifted(known.structs[struct], member)})

    monkeypatch.setattr(table, "tables", tables)
    programs = ("barrier", "task_tree", "inlined", "between", "nest_lock", "icvs")
    assert not all(is_all_told(on_libgomp(program)) for program in programs)


def is_all_told(core: Stopped) -> bool:
    try:
        found = compare(core)
    except OmpdError:
        return False
    return not found.differences and facts_told(found) == json.loads(FACTS.read_text())[core.program]


@pytest.mark.parametrize("family", ["libgomp-9", "libgomp-11", "libgomp-13"])
def test_the_tables_of_other_releases_contradict(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    core = on_libgomp("nested")
    honest, truth = table.tables, layouts_of(core)
    wrong = table.load(table.FOLDER / f"{family}.json")
    unnamed(monkeypatch)
    monkeypatch.setattr(table, "tables", lambda runtime, architecture: iter([replace(wrong, build_ids={})]))
    if family == "libgomp-11" and truth == "GCC 12":
        # The two tables differ only in members that ompd does not read.
        assert compare(core).differences == []
    else:
        with pytest.raises(LayoutUnavailable) as refused:
            layouts_of(core)
        assert "fits" in str(refused.value)
    monkeypatch.setattr(table, "tables", honest)


@pytest.mark.parametrize("family", ["libgomp-9", "libgomp-13"])
def test_structures_alone_contradict_a_table_that_names_a_wrong_build(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = on_libgomp("nested")
    with Session.open_core(core.core) as session:
        build_id = session.runtimes[0].found.module.build_id or ""
    wrong = replace(table.load(table.FOLDER / f"{family}.json"), build_ids={build_id: "forged"})
    monkeypatch.setattr(table, "tables", lambda runtime, architecture: iter([wrong]))
    with pytest.raises(CorruptState):
        layouts_of(core)
    monkeypatch.setattr(proof, "contradictions", lambda threads, live: ())
    assert not is_all_told(core)  # the checks of structures exist for this case
