"""Programs on the stub runtime, of which everything is known: ompd's answers equal what the programs wrote.

The programs write about themselves and about the runtime's structures. ``tests/facts_stub.json`` holds the number of
facts that must be told and equal; ``python -m tests.runtimes.stub.test_stub`` writes the file anew.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ompd_stub import plugin, structures
from ompd_stub.runtime import Runtime

from ompd.contract.memory import Field, StructLayout
from ompd.debugger.contract import ModuleCallbacks
from ompd.errors import OmpdError
from ompd.questions import runtimes, threads
from ompd.runtimes.guarded import original
from ompd.session import Session
from tests.stub.structures import compare as compare_structures
from tests.stub.structures import written
from tests.support import FULL, Stopped, running, stopped
from tests.support.cache import CHECKOUT
from tests.support.cutting import PAGE, Holes, check_cut, intact_of, places_to_cut, wrong
from tests.support.damage import ask_all, cut, zeroed
from tests.support.lldb import LldbHost
from tests.support.programs import ALL_PROGRAMS
from tests.support.snapshots import answers, snapshot, without_files
from tests.support.stub_cores import DEFECTS, SPECIAL, on_stub
from tests.truth import compare

FACTS = CHECKOUT / "tests" / "facts_stub.json"
# With OMP_DEBUG, and without. A program that meets no construct has nothing to tell.
MODES = ("debug", "neither")
# The same, and with a tool of OpenMP 5 in the program, which writes its callbacks and the answers to its inquiries.
ALL_MODES = (*MODES, "tool")
PROGRAMS = [
    pytest.param(name, compiler, id=f"{name}-{compiler}")
    for name, known in ALL_PROGRAMS.items()
    for compiler in known.compilers
    if not compiler.startswith("clang")
]
UNTOUCHED = ("no_region", "not_initialised")


def facts_told(core: Stopped) -> dict[str, int]:
    found = compare(core)
    assert found.differences == []
    facts = dict(sorted(found.equal.items()))
    if core.program not in UNTOUCHED:
        with Session.open_core(core.core) as session:
            equal, differences = compare_structures(session, written(core))
        assert differences == []
        facts["structures"] = equal
    return facts


def stopped_in(mode: str, program: str, compiler: str) -> Stopped:
    return on_stub(program, compiler, mode, runtime="stub-tool" if mode == "tool" else "stub")


@pytest.mark.parametrize(
    ("program", "compiler", "mode"),
    [
        pytest.param(*program.values, mode, id=f"{program.id}-{mode}")
        for number, program in enumerate(PROGRAMS)
        for turn, mode in enumerate(ALL_MODES)
        if FULL or turn == number % len(ALL_MODES)
    ],
)
@pytest.mark.quick(
    "closing_barrier-gcc-tool",
    "no_region-gcc-tool",
    "task_queued-gcc-debug",
    "fortran-gfortran-neither",
    "cplusplus-g++-debug",
    "modules-gfortran-neither",
)
def test_what_we_tell_is_what_the_program_wrote(program: str, compiler: str, mode: str) -> None:
    assert facts_told(stopped_in(mode, program, compiler)) == json.loads(FACTS.read_text())[program][mode]


# The specification leaves limits, cancellation and the number of idle threads to a runtime. It also leaves open which
# thread begins which task, so the programs of FREE_TASKS come to rest in different states.
FREE = (
    *("thread_limit", "num_procs", "proc_bind", "schedule", "max_active_levels", "default_device", "max_threads"),
    "cancellation",
)
FREE_TASKS = ("task_if0", "task_tree")


def as_written(core: Stopped) -> dict[str, Any]:
    """Return what a program wrote of itself, without the parts that differ between runs."""
    numbers = {
        thread["native_thread_id"]: (thread["role"], thread["level"], thread["thread_num"])
        for thread in core.truth["threads"]
    }

    def thread(row: dict[str, Any]) -> tuple[Any, ...]:
        keys = ("openmp", "role", "thread_num", "team_size", "level", "active_level", "blocked_in", "object_symbol")
        where = row["where"] or {}
        icvs = sorted((key, value) for key, value in (row["icvs"] or {}).items() if key not in FREE)
        ancestors = [tuple(ancestor.values()) for ancestor in row["ancestors"] or ()]
        return (*(row[key] for key in keys), tuple(where.values()), ancestors, numbers.get(row["holder"]), icvs)

    def task(row: dict[str, Any]) -> tuple[Any, ...]:
        keys = ("kind", "status", "function", "line", "untied", "final", "mergeable", "undeferred", "waits")
        return (*(row[key] for key in keys), numbers.get(row["thread"]))

    def region(row: dict[str, Any]) -> tuple[Any, ...]:
        keys = ("level", "active_level", "team_size", "function", "line")
        return (*(row[key] for key in keys), [numbers[member] for member in row["threads"]])

    truth = core.truth
    return {
        "threads": sorted(repr(thread(row)) for row in truth["threads"] if row["role"] != "idle"),
        "tasks": sorted(map(repr, map(task, truth["tasks"]))),
        "regions": sorted(map(repr, map(region, truth["regions"]))),
    }


@pytest.mark.parametrize(("program", "compiler"), PROGRAMS)
@pytest.mark.quick(
    "barrier-gcc",
    "task_queued-gcc",
    "nest_lock-gcc",
    "taskgroup-gcc",
    "two_criticals-gcc",
    "for_barrier-gcc",
    "reduction_combiner-gcc",
    "fortran-gfortran",
    "interrupted-gcc",
    "inlined-gcc",
    "cplusplus-g++",
    "modules-gfortran",
)
def test_what_a_program_is_told_is_what_libgomp_tells_it(program: str, compiler: str) -> None:
    other = stopped(program, compiler=compiler, mode="neither", runtime="libgomp", env=SPECIAL.get(program, {}))
    own, others = as_written(on_stub(program, compiler, "neither")), as_written(other)
    assert own["regions"] == others["regions"]
    if program not in FREE_TASKS:
        assert own == others


@pytest.mark.parametrize(
    ("program", "mode"),
    [
        (name, mode)
        for number, name in enumerate(ALL_PROGRAMS)
        if "gcc" in ALL_PROGRAMS[name].compilers and name not in UNTOUCHED
        for turn, mode in enumerate(MODES)
        if FULL or turn == number % len(MODES)
    ],
)
@pytest.mark.quick(
    "nest_lock-debug",
    "taskgroup-debug",
    "task_in_barrier-neither",
    "sections_barrier-neither",
    "reduction-debug",
    "inlined-neither",
)
def test_of_programs_of_32_bits(program: str, mode: str) -> None:
    # Type sizes, pointers, structures and the places of threads' storage all come through the callbacks.
    assert facts_told(on_stub(program, mode=mode, runtime="stub-32")) == json.loads(FACTS.read_text())[program][mode]


@pytest.mark.parametrize("runtime", ["stub", "stub-32"])
@pytest.mark.parametrize("program", ["nested", "task_stack", "nest_lock", "ordered", "shrunk_pool"])
@pytest.mark.quick("nested-stub-32", "shrunk_pool-stub", "nest_lock-stub")
def test_of_gdbs_cores(program: str, runtime: str) -> None:
    facts_told(on_stub(program, kind="gcore", runtime=runtime))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("runtime", ["stub", "stub-32"])
@pytest.mark.parametrize("program", ["nested", "lock", "task_tree", "between"])
@pytest.mark.quick(
    "nested-stub-debug",
    "nested-stub-neither",
    "lock-stub-debug",
    "lock-stub-32-neither",
    "task_tree-stub-debug",
    "task_tree-stub-32-neither",
    "between-stub-32-debug",
    "between-stub-32-neither",
)
def test_of_processes_that_run(program: str, runtime: str, mode: str, tmp_path: Path) -> None:
    with running(program, mode=mode, runtime=runtime, folder=tmp_path) as alive:
        assert compare(alive).differences == []
        raw = json.loads((tmp_path / "structures.json").read_text())
        with Session.attach(alive.pid) as session:
            equal, differences = session.ask(lambda stop: compare_structures(stop, raw))
    assert differences == [] and equal > 50


@pytest.mark.parametrize("flags", [("-O2",), ("-O2", "-fno-omit-frame-pointer")], ids=" ".join)
@pytest.mark.parametrize("program", ["task_stack", "callbacks", "deep", "task_tree"])
@pytest.mark.quick("callbacks--O2", "task_stack--O2")
def test_of_optimised_programs(program: str, flags: tuple[str, ...]) -> None:
    found = compare(on_stub(program, flags=flags))
    assert [text for text in found.differences if ".stack" not in text] == []


@pytest.mark.xdist_group("lldb")
@pytest.mark.parametrize(
    ("version", "program", "runtime"),
    [
        *((22, "task_tree", "stub"), (19, "nested", "stub"), (14, "nested", "stub"), (22, "nested", "stub-32")),
        *([(22, "nested", "stub"), (22, "lock", "stub"), (22, "task_tree", "stub-32")] * FULL),
    ],
)
@pytest.mark.quick()
def test_of_cores_in_lldb(version: int, program: str, runtime: str) -> None:
    core = on_stub(program, runtime=runtime)
    host = LldbHost(version)
    try:
        assert host.compare_core(core)["differences"] == []
    finally:
        host.close()


@pytest.mark.xdist_group("lldb")
@pytest.mark.parametrize("runtime", ["stub", "stub-32"])
@pytest.mark.quick("stub-32")
def test_of_a_process_in_lldb(runtime: str, tmp_path: Path) -> None:
    host = LldbHost(22)
    try:
        with running("nested", mode="debug", runtime=runtime, folder=tmp_path) as alive:
            assert host.compare_live(alive)["differences"] == []
    finally:
        host.close()


# Snapshots, and damage


def less_files(told: dict[str, Any]) -> dict[str, Any]:
    # The places where ompd looks for the runtime's libraries depend on the machine.
    for answer in told.values():
        for runtime in answer["runtimes"]:
            del runtime["dlls"]
    return told


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("program", ["nested", "task_tree", "lock", "ordered"])
@pytest.mark.quick("nested-neither", "ordered-debug")
def test_snapshots(program: str, mode: str, tmp_path: Path) -> None:
    core = on_stub(program, mode=mode).core
    assert less_files(without_files(snapshot(core, tmp_path))) == less_files(answers(core))


@pytest.mark.parametrize("program", ["nested", "task_tree", "nest_lock"])
@pytest.mark.quick("nest_lock")
def test_no_fact_is_wrong_whatever_page_is_lost(program: str) -> None:
    target = Holes(str(on_stub(program).core))
    intact = target.ask_all()
    assert len(target.pages) > 15
    for page in sorted(target.pages)[:: 1 if FULL else 3]:
        target.hole = page
        assert wrong(target.ask_all(), intact) == [], f"page at {page * PAGE:#x}"


@pytest.mark.parametrize("member", ["threads", "implicit"])
@pytest.mark.quick("threads")
def test_a_team_that_has_lost_its_members_is_damage(member: str, tmp_path: Path) -> None:
    core = on_stub("nested")
    intact = intact_of(core)
    with Session.open_core(core.core) as session:
        space = original(session.runtimes[0].space)
        assert isinstance(space, Runtime)
        arrays = [team.view.pointer(member) for team in space.teams.values()]
    assert len(arrays) == 11
    for array in arrays:
        told = ask_all(zeroed(core.core, tmp_path / "core", array, 8))
        assert wrong(told, intact) == []
        assert {told.exit_code(name) for name in ("threads", "parallel", "tasks", "stack")} == {3}


@pytest.mark.quick()
def test_no_fact_is_wrong_wherever_a_core_is_cut(tmp_path: Path) -> None:
    core = on_stub("nested")
    intact = intact_of(core)
    for size in sorted(places_to_cut(core.core), reverse=True):
        check_cut(ask_all(cut(core.core, tmp_path / "core", size)), intact, size, core.core)


# Mutants: the comparison must notice a wrong callback, and a wrong place in a structure.


def failing(core: Stopped) -> bool:
    try:
        found = compare(core)
        with Session.open_core(core.core) as session:
            return bool(found.differences or compare_structures(session, written(core))[1])
    except OmpdError:
        return True


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_in_a_callback_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    core = on_stub("nested")

    def is_noticed() -> bool:
        with Session.open_core(core.core) as session:
            (row,) = runtimes.ask(session).rows
            return row.version != "1.0"

    assert not failing(core) and not is_noticed()
    honest = ModuleCallbacks.__init__

    def broken(self: ModuleCallbacks, *arguments: Any) -> None:
        honest(self, *arguments)
        setattr(self, name, DEFECTS[name](self))

    monkeypatch.setattr(ModuleCallbacks, "__init__", broken)
    assert is_noticed() if name == "read_string" else failing(core)


def places() -> Iterator[tuple[str, str]]:
    for struct, members in {
        "stub_process": ("debug_enabled", "threads", "teams"),
        "stub_thread": (
            *("type", "state", "wait_id", "pthread", "native_id", "team", "task", "next", "waits_for"),
            *("waits_for_turn", "stack_low"),
        ),
        "stub_team": ("parent", "size", "level", "active_level", "function", "threads", "implicit", "barrier", "next"),
        "stub_barrier": ("arrived", "expected"),
        "stub_task": (
            *("type", "status", "generating", "scheduling", "team", "thread", "function", "frame", "is_final"),
            *("first_child", "next_sibling", "at_barrier", "icvs"),
        ),
        "stub_frame": ("exit_runtime_frame", "reenter_runtime_frame", "exit_frame_flags"),
        "stub_lock": ("kind", "owner", "first_waiter", "variable"),
    }.items():
        for member in members:
            yield struct, member


@pytest.mark.parametrize(("struct", "member"), list(places()))
@pytest.mark.quick(
    "stub_process-threads",
    "stub_process-teams",
    "stub_thread-team",
    "stub_team-implicit",
    "stub_barrier-expected",
    "stub_task-type",
    "stub_task-at_barrier",
    "stub_frame-exit_runtime_frame",
    "stub_lock-kind",
    "stub_lock-variable",
)
def test_a_member_read_from_a_wrong_place_is_noticed(struct: str, member: str, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = structures.load

    def load(*arguments: Any) -> dict[str, StructLayout]:
        layouts = honest(*arguments)
        layout = layouts[struct]
        moved = layout.fields[member]
        by = -8 if member == "debug_enabled" else 8  # the word behind this member is 1, too
        fields = {**layout.fields, member: Field(moved.offset + by, moved.size)}
        return {**layouts, struct: replace(layout, fields=fields, size=(layout.size or 0) + 8)}

    cores = [on_stub(program) for program in ("nested", "task_tree", "nest_lock", "ordered", "barrier", "task_if0")]
    monkeypatch.setattr(structures, "load", load)
    assert any(failing(core) for core in cores)


def test_the_plugin_is_told_apart_from_libgomps() -> None:
    with Session.open_core(on_stub("nested").core) as session:
        (runtime,) = session.runtimes
        assert runtime.found.plugin is not None
        assert isinstance(original(runtime.found.plugin), plugin.StubPlugin)
        assert runtime.found.plugin.rtl_names(ord("c")) == ("GOMP_parallel", "run_implicit")
        assert runtime.found.plugin.demangle_name("main._omp_fn.3") == "main"
        assert {row.runtime for row in threads.ask(session).rows if row.thread_num is not None} == {"stub"}


def write_facts() -> None:
    """Write the number of facts told of each program anew."""
    facts: dict[str, dict[str, dict[str, int]]] = {}
    for parameter in PROGRAMS:
        program, compiler = map(str, parameter.values)
        facts[program] = {mode: facts_told(stopped_in(mode, program, compiler)) for mode in ALL_MODES}
    FACTS.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    write_facts()
    sys.exit()
