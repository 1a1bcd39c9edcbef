"""Programs on GNU's libgomp, which has neither OMPD nor symbols: what we tell equals what they wrote.

``tests/facts_libgomp.json`` holds how many facts of each kind have to be told and equal. Written anew by
``python -m tests.test_libgomp``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ompd.contract.memory import Field, StructLayout
from ompd.errors import CorruptState, LayoutUnavailable, OmpdError
from ompd.plugins.layout import table
from ompd.plugins.libgomp import proof
from ompd.session import Session
from tests.support import Stopped, running, stopped
from tests.support.programs import ALL_PROGRAMS
from tests.truth import Comparison, compare

pytest.importorskip("unicorn")

FACTS = Path(__file__).with_name("facts_libgomp.json")
# What libgomp executes at once when so many tasks are queued is another program.
ENVIRONMENT: Mapping[str, Mapping[str, str]] = {"task_queued": {"TASKS": "200"}}
# libgomp has not met a thread that was in no region.
PROGRAMS = [
    pytest.param(name, compiler, id=f"{name}-{compiler}", marks=[pytest.mark.xdist_group("busy")] * known.spins)
    for name, known in ALL_PROGRAMS.items()
    for compiler in known.compilers
    if not compiler.startswith("clang") and name != "no_region"
]
FULL = bool(os.environ.get("OMPD_FULL"))


def on_libgomp(program: str, compiler: str = "gcc", **options: Any) -> Stopped:
    env = {**ENVIRONMENT.get(program, {}), **options.pop("env", {})}
    return stopped(program, compiler=compiler, mode="neither", runtime="libgomp", env=env, **options)


def facts_told(found: Comparison) -> dict[str, int]:
    return dict(sorted(found.equal.items()))


@pytest.mark.parametrize(("program", "compiler"), PROGRAMS)
def test_what_we_tell_is_what_the_program_wrote(program: str, compiler: str) -> None:
    found = compare(on_libgomp(program, compiler))
    assert found.differences == []
    assert facts_told(found) == json.loads(FACTS.read_text())[program]


@pytest.mark.parametrize("program", ["nested", "task_stack", "nest_lock", "ordered", "shrunk_pool"])
def test_of_gdbs_cores(program: str) -> None:
    assert compare(on_libgomp(program, kind="gcore")).differences == []


@pytest.mark.parametrize("program", ["nested", "lock", "task_tree", "between"])
def test_of_processes_that_run(program: str, tmp_path: Path) -> None:
    with running(program, mode="neither", runtime="libgomp", folder=tmp_path) as alive:
        assert compare(alive).differences == []


@pytest.mark.parametrize("flags", [("-O2",), ("-O2", "-fno-omit-frame-pointer"), ("-O1", "-gdwarf-4")], ids=" ".join)
@pytest.mark.parametrize("program", ["task_stack", "callbacks", "deep", "orphaned"])
def test_of_optimised_programs(program: str, flags: tuple[str, ...]) -> None:
    if flags != ("-O2",) and not FULL and program != "task_stack":
        pytest.skip("only with OMPD_FULL=1")
    found = compare(on_libgomp(program, flags=flags))
    assert [text for text in found.differences if ".stack" not in text] == []


def test_before_the_first_region() -> None:
    with Session.open_core(on_libgomp("no_region").core) as session:
        (runtime,) = session.runtimes
        assert not runtime.is_initialised and "no OpenMP construct has run yet" in str(runtime.fault)


# How the layout is known


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


def test_without_an_emulator_an_unknown_build_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    core = on_libgomp("nested")
    unnamed(monkeypatch)
    monkeypatch.setitem(sys.modules, "unicorn", None)
    with pytest.raises(LayoutUnavailable) as refused:
        layouts_of(core)
    assert "build-id" in str(refused.value) and "ompd[emulate]" in refused.value.hint


def test_without_an_emulator_a_known_build_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "unicorn", None)
    found = compare(on_libgomp("nested"))
    assert all("cancel-var" in text or "max-task-priority-var" in text for text in found.differences)


# Mutants: each breaks one thing that the comparison stands for, and has to be noticed by it


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
def test_a_field_read_from_a_wrong_place_is_noticed(struct: str, member: str, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = table.tables

    def tables(runtime: str, architecture: str) -> Any:
        for known in honest(runtime, architecture):
            yield replace(known, structs={**known.structs, struct: shifted(known.structs[struct], member)})

    monkeypatch.setattr(table, "tables", tables)
    programs = ("barrier", "task_tree", "between", "nest_lock", "icvs")
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
        # The two differ in what nothing of ours reads.
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
    monkeypatch.setattr(proof, "contradictions", lambda runtime: ())
    assert not is_all_told(core)  # which is what the structures' checks are there for


# Programs as they are installed


def test_of_a_program_without_symbols(tmp_path: Path) -> None:
    with running("nested", mode="neither", runtime="libgomp", folder=tmp_path) as whole:
        executable = whole.executable
    bare = tmp_path / "nested"
    shutil.copy(executable, bare)
    subprocess.run(["strip", "-s", str(bare)], check=True)
    folder = tmp_path / "run"
    folder.mkdir()
    with running("nested", mode="neither", runtime="libgomp", folder=folder, executable=bare) as alive:
        found = compare(alive)
    places = ("where.", "function", "file", "line", "address", "stack.", "stack of")
    assert [text for text in found.differences if not any(place in text for place in places)] == []
    assert found.equal["state"] == json.loads(FACTS.read_text())["nested"]["state"]


@pytest.mark.xdist_group("busy")
@pytest.mark.parametrize(
    "program", ["barrier", "closing_barrier", "lock", "critical", "taskgroup", "ordered", "nested"]
)
def test_threads_that_spin(program: str) -> None:
    core = on_libgomp(program, env={"OMP_WAIT_POLICY": "active", "GOMP_SPINCOUNT": "infinite"})
    assert compare(core).differences == []


def write_facts() -> None:
    """Write anew how many facts are told."""
    facts: dict[str, dict[str, int]] = {}
    for parameter in PROGRAMS:
        program, compiler = map(str, parameter.values)
        found = compare(on_libgomp(program, compiler))
        if found.differences:
            sys.exit(f"{program}: {found.differences}")
        facts[program] = facts_told(found)
    FACTS.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    write_facts()
