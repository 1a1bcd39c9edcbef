"""LLVM's runtime as Debian ships it, without symbols: ompd reads it like one with symbols.

The truth is what the programs wrote. ompd must tell as many facts as of a runtime with symbols (``tests/facts.json``),
except a few variables of the runtime's own. The tests run all programs on two releases and a handful on the others, and
all combinations with ``OMPD_FULL=1``.
"""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ompd
from ompd.contract.memory import Field, StructLayout
from ompd.contract.process import CallResult
from ompd.debugger.emulation.routines import Routines
from ompd.debugger.memory import TargetMemory
from ompd.errors import LayoutUnavailable, NotInitialised, OmpdError, Unavailable
from ompd.questions import runtimes, threads
from ompd.runtimes.layout.table import Table, tables
from ompd.runtimes.libomp.layout import image, layouts, proof
from ompd.runtimes.libomp.plugin import Runtime
from ompd.session import Session
from tests.support import (
    ALL_PROGRAMS,
    FULL,
    LOCK_KINDS,
    PROGRAMS,
    REDUCTIONS,
    RUNTIMES,
    STRIPPED,
    Missing,
    clean_environment,
    intel_runtime,
    running,
    stopped,
    threadprivate,
    variables,
)
from tests.support.build import WITH_HEADERS
from tests.support.build import compiler as compiler_of
from tests.support.damage import DAMAGES, ask_all, zeroed
from tests.support.facts import expected, facts_told
from tests.support.products import sample
from tests.support.runs import ENVIRONMENT, cores_allowed, kernel_core_obstacle
from tests.support.snapshots import answers, snapshot, without_files
from tests.support.variables import Recipe
from tests.truth import UNTOLD, Comparison, compare

# Releases on which every program is tested, and releases with a handful of programs.
MAIN, OTHERS = ("libomp-19", "libomp-14"), ("libomp-13", "libomp-15", "libomp-16")
HANDFUL = (
    *("nested", "lock", "critical", "closing_barrier", "serialized_three", "two_initial", "shrunk_pool"),
    *("task_tree", "task_queued", "icvs_env", "not_initialised"),
)
# On these releases the threads of the program do not come to rest.
RESTLESS = {("task_in_barrier", "libomp-13"), ("task_in_barrier", "libomp-14")}


def parameters() -> Iterator[Any]:
    for runtime in (*MAIN, *OTHERS):
        for program, known in ALL_PROGRAMS.items():
            for compiler in known.compilers:
                few = runtime in OTHERS and (program not in HANDFUL or compiler != "clang")
                fewer = runtime == "libomp-14" and compiler == "gcc" and program not in PROGRAMS
                if (program, runtime) in RESTLESS or ((few or fewer) and not FULL):
                    continue
                marks = [pytest.mark.xdist_group("busy")] * known.spins
                yield pytest.param(program, compiler, runtime, id=f"{program}-{compiler}-{runtime}", marks=marks)


def expected_of(program: str, mode: str, truth: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of facts of each kind that ompd must tell: as many as of a runtime with symbols."""
    counts = {key: count for key, count in expected(program, mode).items() if key not in UNTOLD["libomp"]}
    if mode == "neither" and not any(thread["thread_type"] == "worker" for thread in truth["threads"]):
        counts.pop("keeps_states", None)  # only workers show this fact
    return counts


def told_of(found: Comparison) -> dict[str, int]:
    """Return the number of facts of each kind that ompd told, except kinds that only an emulator can ask for."""
    return {key: count for key, count in facts_told(found).items() if key not in UNTOLD["libomp"]}


# Each program on each release, and each compiler on each release.
PRODUCT = sample(parameters(), lambda program, compiler, runtime: ((program, runtime), (compiler, runtime)))


@pytest.mark.parametrize(("program", "compiler", "runtime"), PRODUCT)
@pytest.mark.quick(
    "extra_pthread-gcc-libomp-19",
    "cplusplus-clang++-libomp-19",
    "serialized_three-clang-libomp-14",
    "icvs_env-clang-libomp-15",
)
def test_what_we_tell_is_what_the_program_wrote(program: str, compiler: str, runtime: str) -> None:
    core = stopped(program, compiler=compiler, mode="neither", runtime=runtime)
    found = compare(core)
    assert found.differences == []
    assert told_of(found) == expected_of(program, "neither", core.truth)


@pytest.mark.parametrize("mode", ["tool", "debug"])
@pytest.mark.parametrize(
    "program", ["nested", "lock", "closing_barrier", "task_tree", "task_stack", "serialized_three"]
)
@pytest.mark.parametrize("runtime", MAIN if FULL else MAIN[:1])
@pytest.mark.quick(
    "libomp-19-nested-tool",
    "libomp-19-lock-debug",
    "libomp-19-closing_barrier-tool",
    "libomp-19-closing_barrier-debug",
    "libomp-19-task_tree-debug",
    "libomp-19-task_stack-tool",
    "libomp-19-serialized_three-tool",
    "libomp-19-serialized_three-debug",
)
def test_states_that_are_kept_are_told(program: str, mode: str, runtime: str) -> None:
    # In these modes the truth comes from OMPT.
    core = stopped(program, compiler="clang", mode=mode, runtime=runtime)
    found = compare(core)
    assert found.differences == []
    assert told_of(found) == expected_of(program, mode, core.truth)


@pytest.mark.xdist_group("busy")
@pytest.mark.parametrize("lock_kind", LOCK_KINDS)
@pytest.mark.parametrize("runtime", [*MAIN, "libomp-13"] if FULL else MAIN[:1])
@pytest.mark.parametrize("compiler", ["gcc", "clang"] if FULL else ["clang"])
def test_every_kind_of_lock(lock_kind: str, runtime: str, compiler: str) -> None:
    env = {"KMP_LOCK_KIND": lock_kind}
    found = compare(stopped("lock_kinds", compiler=compiler, mode="neither", runtime=runtime, env=env))
    assert found.differences == []
    assert found.equal["wait.owner"] == (5 if lock_kind in ("tas", "futex") else 1)
    assert found.equal["wait.symbol"] == 5


@pytest.mark.parametrize("method", REDUCTIONS)
def test_every_method_of_reduction(method: str) -> None:
    env = {"KMP_FORCE_REDUCTION": method}
    core = stopped("reduction", compiler="clang", mode="neither", runtime="libomp-19", env=env)
    assert compare(core).differences == []


@pytest.mark.xdist_group("busy")
@pytest.mark.parametrize("lock_kind", LOCK_KINDS)
def test_locks_of_reductions(lock_kind: str) -> None:
    env = {"KMP_FORCE_REDUCTION": "critical", "KMP_LOCK_KIND": lock_kind}
    core = stopped("reduction_combiner", compiler="clang", mode="neither", runtime="libomp-19", env=env)
    assert compare(core).differences == []


def patterned(program: str, pattern: str, runtime: str = "libomp-19") -> Comparison:
    names = (f"KMP_{kind}_BARRIER_PATTERN" for kind in ("PLAIN", "FORKJOIN", "REDUCTION"))
    env = dict.fromkeys(names, f"{pattern},{pattern}")
    return compare(stopped(program, compiler="clang", mode="neither", runtime=runtime, env=env))


@pytest.mark.parametrize("pattern", ["linear", "tree", "hyper", "hierarchical"])
@pytest.mark.parametrize("program", ["barrier", "closing_barrier", "for_barrier"])
@pytest.mark.parametrize("runtime", MAIN if FULL else MAIN[:1])
@pytest.mark.quick(
    "libomp-19-closing_barrier-linear",
    "libomp-19-closing_barrier-hyper",
    "libomp-19-barrier-tree",
    "libomp-19-for_barrier-hierarchical",
)
def test_every_pattern_of_barriers(program: str, pattern: str, runtime: str) -> None:
    assert patterned(program, pattern, runtime).differences == []


def test_a_barrier_of_a_kind_that_is_not_known_is_not_guessed_at() -> None:
    # Barriers of the distributed pattern keep their counts elsewhere.
    untold = re.compile(r": wait\.(missing is \[\]|(arrived|expected) is None),")
    found = patterned("nested", "dist")
    assert found.differences != []
    assert [difference for difference in found.differences if not untold.search(difference)] == []


@pytest.mark.parametrize("flags", [("-O2",), ("-O2", "-g0")], ids=" ".join)
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("program", ["nested", "serialized_three", "closing_barrier", "task_tree"])
@pytest.mark.quick("serialized_three-gcc--O2 -g0", "task_tree-clang--O2")
def test_optimizers_make_no_fact_wrong(program: str, compiler: str, flags: tuple[str, ...]) -> None:
    found = compare(stopped(program, compiler=compiler, mode="neither", runtime="libomp-19", flags=flags))
    assert [difference for difference in found.differences if not _LACKS_NAMES.search(difference)] == []


# Differences that come from missing names and lines: functions, places, and the owner of each frame.
_LACKS_NAMES = re.compile(
    r"^tasks: task\.function is |^stack of |: (where|wait\.symbol|address) is (None|\d)"
    r"|: (where\.|stack\.(construct\.)?)?(function|file|line) is (None|'\.omp_outlined)"
)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("runtime", MAIN)
@pytest.mark.parametrize(
    "program", ["nested", "barrier", "closing_barrier", "serialized_middle", "task_tree", "taskgroup", "two_criticals"]
)
@pytest.mark.quick(
    "nested-libomp-19-gcc",
    "barrier-libomp-19-gcc",
    "closing_barrier-libomp-14-gcc",
    "serialized_middle-libomp-14-clang",
    "taskgroup-libomp-19-clang",
)
def test_neither_runtime_nor_program_has_symbols(program: str, compiler: str, runtime: str) -> None:
    found = compare(stopped(program, compiler=compiler, mode="neither", runtime=runtime, flags=("-s",)))
    assert [difference for difference in found.differences if not _LACKS_NAMES.search(difference)] == []
    whole = expected(program, "neither")
    for key in ("thread_num", "team_size", "level", "active_level", "state", "waits", "wait.missing", "wait.arrived"):
        assert found.equal[key] == whole.get(key, 0), key


@pytest.mark.parametrize("runtime", STRIPPED)
@pytest.mark.quick("libomp-13", "libomp-16")
def test_copies_of_variables_that_the_runtime_keeps(runtime: str) -> None:
    name = "threads-clang-fnoopenmp-use-tls"
    told = variables.stopped(replace(threadprivate.RECIPES[name][0], openmp=runtime), 4)
    with ompd.open_core(told.core) as session:
        threadprivate.check(session, told, name)


@pytest.mark.parametrize("runtime", STRIPPED)
@pytest.mark.quick("libomp-19", "libomp-13")
def test_copies_of_variables_that_nothing_names(runtime: str) -> None:
    recipe = Recipe("threads", "clang", ("-fnoopenmp-use-tls", "-s"), openmp=runtime)
    told = variables.stopped(recipe, 4)
    with Session.open_core(told.core) as session:
        copies = {address for address, _ in runtime_of(session).threadprivate_copies()}
    workers = [thread["variables"] for thread in told.threads if thread["number"] > 0]
    known = [variables_of["tp"]["address"] for variables_of in workers]
    assert len(known) == 3 and copies.issuperset(known)


@pytest.mark.parametrize("program", ["nested", "task_tree", "closing_barrier"])
def test_a_live_program_and_a_snapshot(program: str, tmp_path: Path) -> None:
    core = stopped(program, compiler="clang", mode="neither", runtime="libomp-14")
    assert without_files(snapshot(core.core, tmp_path)) == answers(core.core)
    folder = tmp_path / "live"
    folder.mkdir()
    with running(program, compiler="clang", mode="neither", runtime="libomp-14", folder=folder) as live:
        found = compare(live)
    assert found.differences == []
    assert told_of(found) == expected_of(program, "neither", live.truth)


# The proof of a table


def runtime_of(session: Session) -> Runtime:
    (loaded,) = session.runtimes
    assert isinstance(loaded.space, Runtime), loaded.fault
    return loaded.space


def given_tables(monkeypatch: pytest.MonkeyPatch, change: Callable[[Table], Table | None]) -> None:
    """Replace each table by what *change* returns for it. A table is removed if *change* returns None."""

    def changed(runtime: str, architecture: str) -> Iterator[Table]:
        yield from filter(None, map(change, tables(runtime, architecture)))

    monkeypatch.setattr(layouts, "tables", changed)


def unlisted(table: Table) -> Table:
    return replace(table, build_ids={})


def forged(name: str) -> Callable[[Table], Table | None]:
    """Return a change that keeps one table only, without the build-ids and exports that limit it to some libraries."""
    return lambda table: replace(unlisted(table), has_exports=(), lacks_exports=()) if table.name == name else None


@pytest.mark.parametrize("runtime", STRIPPED)
@pytest.mark.parametrize("program", ["nested", "task_queued", "no_region", "shrunk_pool"])
@pytest.mark.quick(
    "task_queued-libomp-15",
    "shrunk_pool-libomp-19",
    "nested-libomp-15",
    "no_region-libomp-13",
    "shrunk_pool-libomp-14",
    "task_queued-libomp-16",
)
def test_a_build_that_is_not_listed_is_proven(program: str, runtime: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given_tables(monkeypatch, unlisted)
    core = stopped(program, compiler="clang", mode="neither", runtime=runtime)
    assert compare(core).differences == []
    with Session.open_core(core.core) as session:
        stripped = runtime_of(session).stripped
        assert stripped is not None and stripped.table.name == runtime
        count = re.search(r"exported names; (\d+) statements", stripped.how)
        assert count is not None and int(count[1]) >= {"nested": 200, "task_queued": 500}.get(program, 10)


def refused(runtime: str, program: str) -> LayoutUnavailable:
    with Session.open_core(stopped(program, compiler="clang", mode="neither", runtime=runtime).core) as session:
        (loaded,) = session.runtimes
        assert loaded.space is None
        assert isinstance(loaded.fault, LayoutUnavailable)
        return loaded.fault


WRONG = [
    *(("libomp-13", table) for table in ("libomp-14", "libomp-16", "libomp-19")),
    *(("libomp-14", table) for table in ("libomp-13", "libomp-15", "libomp-16", "libomp-19")),
    *(("libomp-15", table) for table in ("libomp-13", "libomp-14", "libomp-16")),
    *(("libomp-16", table) for table in ("libomp-15", "libomp-19")),
    *(("libomp-19", table) for table in ("libomp-14", "libomp-16", "libomp-17", "libomp-18")),
]


@pytest.mark.parametrize(("runtime", "table"), WRONG)
def test_another_release_s_table_is_refused(runtime: str, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given_tables(monkeypatch, forged(table))
    fault = refused(runtime, "nested")
    assert table in str(fault) and "debug symbols" in fault.hint


@pytest.mark.parametrize(("runtime", "table"), [("libomp-15", "libomp-14"), ("libomp-14", "libomp-15")])
def test_without_the_proof_another_release_s_table_is_taken(
    runtime: str, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_tables(monkeypatch, forged(table))
    monkeypatch.setattr(proof, "examine", lambda *_: proof.Finding(0, None))
    core = stopped("task_queued", compiler="clang", mode="neither", runtime=runtime)
    assert compare(core).differences != []


@pytest.mark.parametrize("runtime", MAIN)
def test_exports_that_fit_no_release_are_refused(runtime: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given_tables(monkeypatch, lambda table: replace(unlisted(table), has_exports=(*table.has_exports, "omp_nothing")))
    assert "what it exports is not what LLVM 11.0.1" in str(refused(runtime, "nested"))


def test_two_tables_that_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def both(table: Table) -> Table | None:
        return replace(unlisted(table), has_exports=(), lacks_exports=()) if table.name in twins else None

    twins = ("libomp-21", "libomp-22")
    given_tables(monkeypatch, both)
    assert "libomp-21 and libomp-22 both fit" in str(refused("libomp-19", "nested"))


def moved(layout: StructLayout, member: str) -> StructLayout:
    return replace(
        layout,
        fields={
            name: Field(field.offset + 8 * (name == member or name.startswith(f"{member}.")), field.size)
            for name, field in layout.fields.items()
        },
    )


FIELDS = [
    *(("kmp_base_info", name) for name in ("th_team", "th_root", "th_current_task", "th_task_team", "th_bar")),
    *(("kmp_base_info", name) for name in ("th_serial_team", "th_next_waiting", "th_info.ds.ds_gtid", "th_in_pool")),
    *(("kmp_base_team", name) for name in ("t_parent", "t_nproc", "t_threads", "t_level", "t_max_nproc")),
    *(("kmp_base_team", name) for name in ("t_implicit_task_taskdata", "t_active_level")),
    *(("kmp_taskdata", name) for name in ("td_team", "td_parent", "td_incomplete_child_tasks", "td_flags")),
    *(("kmp_base_task_team", name) for name in ("tt_threads_data", "tt_nproc")),
    *(("kmp_thread_data", name) for name in ("td.td_deque", "td.td_deque_size", "td.td_deque_ntasks")),
    *(("kmp_base_root", name) for name in ("r_uber_thread",)),
    *(("kmp_task", name) for name in ("routine",)),
]


@pytest.mark.parametrize(("struct", "member"), FIELDS)
@pytest.mark.quick(
    "kmp_base_info-th_team",
    "kmp_base_info-th_serial_team",
    "kmp_base_team-t_parent",
    "kmp_base_team-t_implicit_task_taskdata",
    "kmp_taskdata-td_parent",
    "kmp_base_task_team-tt_threads_data",
    "kmp_thread_data-td.td_deque",
    "kmp_thread_data-td.td_deque_ntasks",
    "kmp_base_root-r_uber_thread",
    "kmp_task-routine",
)
def test_a_table_that_almost_fits_is_refused_or_noticed(
    struct: str, member: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shifted(table: Table) -> Table:
        structs = {**table.structs, struct: moved(table.structs[struct], member)}
        return replace(unlisted(table), structs=structs)

    given_tables(monkeypatch, shifted)
    found = []
    for program in ("nested", "task_queued", "lock"):
        core = stopped(program, compiler="clang", mode="neither", runtime="libomp-19")
        try:
            told = compare(core)
        except OmpdError as error:
            found.append(str(error))
            continue
        found += told.differences
        found += ["fewer facts"] if told_of(told) != expected_of(program, "neither", core.truth) else []
    assert found != []


USED = [
    *(("kmp_base_info", name) for name in ("th_team", "th_current_task")),
    *(("kmp_base_team", name) for name in ("t_parent", "t_nproc", "t_threads", "t_level", "t_active_level")),
    *(("kmp_base_team", name) for name in ("t_implicit_task_taskdata",)),
    *(("kmp_desc_base", name) for name in ("ds_thread",)),
    *(("kmp_taskdata", name) for name in ("td_team", "td_parent")),
]


@pytest.mark.parametrize(("struct", "member"), USED)
def test_a_listed_build_s_table_that_is_wrong_is_noticed(
    struct: str, member: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shifted(table: Table) -> Table:
        return replace(table, structs={**table.structs, struct: moved(table.structs[struct], member)})

    given_tables(monkeypatch, shifted)
    try:
        core = stopped("nested", compiler="clang", mode="neither", runtime="libomp-19")
        assert compare(core).differences != []
    except OmpdError:
        pass


# Reads of the runtime's own code


def calls(monkeypatch: pytest.MonkeyPatch, call: Callable[..., CallResult]) -> None:
    monkeypatch.setattr(Routines, "call", call)


def read_by_omp_get_level(runtime: Runtime, wrong: int = 0) -> Callable[..., CallResult]:
    stripped = runtime.stripped
    assert stripped is not None
    table, found = stripped.table, stripped.threads

    def call(routines: Routines, routine: int, thread: int, arguments: Any = ()) -> CallResult:
        read, own = routines.code.memory.read, routines.code.thread_pointer(thread)
        for gtid, address in found.threads.items():
            if int.from_bytes(read(address + 24, 8), "little") == own:
                team = int.from_bytes(read(address + 64, 8), "little")
                level = team + table.offset("kmp_base_team", "t_level") + wrong
                reads = ((found.variable, 8), (found.array + 8 * gtid, 8), (address + 64, 8), (level, 4))
                return CallResult(0, ((0x1000, 8), *reads))
        raise Unavailable("no such thread")

    return call


def test_a_table_is_checked_by_what_the_runtime_s_code_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    core = stopped("nested", compiler="clang", mode="neither", runtime="libomp-19")
    with Session.open_core(core.core) as session:
        runtime = runtime_of(session)
    given_tables(monkeypatch, unlisted)
    calls(monkeypatch, read_by_omp_get_level(runtime))
    with Session.open_core(core.core) as session:
        stripped = runtime_of(session).stripped
        assert stripped is not None and stripped.how.endswith("what its own code reads")
    calls(monkeypatch, read_by_omp_get_level(runtime, wrong=8))
    assert "own code contradicts it: omp_get_level() does not read 4 bytes" in str(refused("libomp-19", "nested"))


# Hostile and damaged targets


class Overlaid:
    """Memory of a core with some of its bytes replaced."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pieces: list[tuple[int, bytes]] = []
        honest = TargetMemory.read

        def read(memory: TargetMemory, address: int, size: int) -> bytes:
            data = honest(memory, address, size)
            for start, piece in self.pieces:
                low, high = max(start, address), min(start + len(piece), address + size)
                if low < high:
                    data = data[: low - address] + piece[low - start : high - start] + data[high - address :]
            return data

        monkeypatch.setattr(TargetMemory, "read", read)

    def write(self, address: int, data: bytes) -> None:
        self.pieces.append((address, data))


@pytest.mark.parametrize("is_listed", [True, False], ids=["listed", "unlisted"])
def test_a_second_array_of_threads_is_refused(is_listed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # A variable of the runtime points to a copy of its array of threads: which of the two is in use is unknown.
    if not is_listed:
        given_tables(monkeypatch, unlisted)
    core = stopped("lock", compiler="clang", mode="neither", runtime="libomp-19")
    with Session.open_core(core.core) as session:
        runtime = runtime_of(session)
        assert runtime.stripped is not None
        found, process = runtime.stripped.threads, session.process
        whole = process.memory.read(found.array, 2 * 8 * found.capacity)
        stack = process.threads.registers(core.truth["monitor"])["rsp"] & ~63
    overlaid = Overlaid(monkeypatch)
    overlaid.write(stack, whole)
    unused = found.variable + 8 * 16
    overlaid.write(unused, stack.to_bytes(8, "little") + (stack + 8 * found.capacity).to_bytes(8, "little"))
    assert "lead to arrays that may be those of its threads" in str(refused("libomp-19", "lock"))


@pytest.mark.parametrize("is_listed", [True, False], ids=["listed", "unlisted"])
@pytest.mark.parametrize("seed", range(200 if FULL else 10))
@pytest.mark.quick(
    "0-listed", "1-listed", "2-listed", "3-listed", "4-unlisted", "5-unlisted", "6-unlisted", "7-unlisted"
)
def test_damaged_structures_end_in_an_answer_or_an_error(
    seed: int, is_listed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_listed:
        given_tables(monkeypatch, unlisted)
    chance = random.Random(seed)
    core = stopped("task_queued", compiler="clang", mode="neither", runtime="libomp-19")
    with Session.open_core(core.core) as session:
        runtime = runtime_of(session)
        assert runtime.stripped is not None
        places = [*runtime.stripped.variables.words, *runtime.stripped.threads.threads.values()]
    overlaid = Overlaid(monkeypatch)
    for _ in range(8):
        at = chance.choice(places) + 8 * chance.randrange(0, 190)
        overlaid.write(at, chance.choice((chance.randbytes(8), b"\xef" * 8, bytes(8), b"\xff" * 8)))
    with Session.open_core(core.core) as session:
        for question in (threads, runtimes):
            try:
                session.ask(question.ask)
            except OmpdError:
                continue


def test_an_initial_thread_that_has_ended_leaves_a_root_without_a_thread(tmp_path: Path) -> None:
    obstacle = kernel_core_obstacle()
    if obstacle is not None:
        raise Missing("kernel core", obstacle, forbidden=True)
    (tmp_path / "program.c").write_text(
        """
        #include "settled.h"
        #include <omp.h>
        #include <pthread.h>
        #include <stdlib.h>
        #include <unistd.h>
        static void *once(void *unused) {
            #pragma omp parallel num_threads(2)
            getppid();
            return 0;
        }
        int main(void) {
            pthread_t other;
            pthread_create(&other, 0, once, 0);
            pthread_join(other, 0);
            #pragma omp parallel num_threads(3)
            {
                if (omp_get_thread_num() == 2) { until_settled(2); abort(); }
                #pragma omp barrier
            }
        }
        """
    )
    library = RUNTIMES["libomp-19"].file()
    make = [str(compiler_of("clang").path), "-g", "-O1", "-fopenmp", *WITH_HEADERS, "-c", "program.c"]
    headers = ["-idirafter", str(intel_runtime() / "opt" / "compiler" / "include")]
    subprocess.run([*make, *headers], cwd=tmp_path, check=True, env=clean_environment())
    link = [
        str(compiler_of("gcc").path),
        "program.o",
        "-o",
        "program",
        str(library),
        f"-Wl,-rpath,{library.parent}",
        "-lpthread",
    ]
    subprocess.run(link, cwd=tmp_path, check=True, env=clean_environment())
    run = tmp_path / "run"
    run.mkdir()
    with cores_allowed():
        subprocess.run([tmp_path / "program"], cwd=run, env=ENVIRONMENT, check=False)
    with Session.open_core(next(run.glob("core*"))) as session:
        rows = [row for row in threads.ask(session).rows if row.thread_num is not None]
    assert [(row.thread_num, row.team_size, row.level) for row in rows] == [(0, 3, 1), (1, 3, 1), (2, 3, 1)]


# Only cut cores: bytes changed at random places may alter a value that nothing else confirms.
@pytest.mark.parametrize("name", [name for name in DAMAGES if name.startswith("cut")])
@pytest.mark.parametrize("runtime", MAIN if FULL else MAIN[1:])
@pytest.mark.quick("libomp-14-cut at 20 %", "libomp-14-cut at 90 %")
def test_damaged_cores_tell_nothing_wrong(name: str, runtime: str, tmp_path: Path) -> None:
    core = stopped("nested", compiler="clang", mode="neither", runtime=runtime).core
    told = ask_all(DAMAGES[name](core, tmp_path / "core")).compared(ask_all(core))
    asked = ("runtimes", "threads", "parallel", "tasks", "icvs")  # other tests cover changed bytes of stacks
    assert {question: told[question].wrong for question in asked if told[question].wrong} == {}


def test_of_a_listed_build_some_threads_may_be_damaged(tmp_path: Path) -> None:
    core = stopped("nested", compiler="clang", mode="neither", runtime="libomp-19").core
    with Session.open_core(core) as session:
        stripped = runtime_of(session).stripped
        assert stripped is not None
        lost = sorted(stripped.threads.threads.values())[-1]
    with Session.open_core(zeroed(core, tmp_path / "core", lost, 64)) as session:
        answer = threads.ask(session)
    assert sum(row.state is not None for row in answer.rows) >= 10


def test_variables_that_are_too_many_are_not_looked_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image, "_MAX_VARIABLES", 4096)
    assert "too many variables" in str(refused("libomp-19", "lock"))


def test_a_runtime_that_has_done_nothing_yet_is_said_to_be_so() -> None:
    core = stopped("not_initialised", compiler="clang", mode="neither", runtime="libomp-14")
    with Session.open_core(core.core) as session:
        (loaded,) = session.runtimes
        assert isinstance(loaded.fault, NotInitialised)


def test_how_a_runtime_is_known_is_told() -> None:
    with Session.open_core(stopped("lock", compiler="clang", mode="neither", runtime="libomp-19").core) as session:
        (row,) = runtimes.ask(session).rows
        assert (row.kind, row.layout, row.keeps_states, row.version) == ("libomp", "table", False, None)
        assert set(row.unavailable) == {"version", "omp_version", "dll_locations", "dlls"}
        assert row.layout_proof is not None and "Debian 12, libomp5-19 1:19.1.7" in row.layout_proof


def test_what_was_found_at_one_stop_is_checked_at_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[str] = []

    def search(variables: image.Variables, table: Table, *, is_proven: bool = False) -> image.ThreadTable:
        searches.append(table.name)
        return image.find_threads(variables, table, is_proven=is_proven)

    monkeypatch.setattr(layouts, "find_threads", search)
    core = stopped("nested", compiler="clang", mode="neither", runtime="libomp-19")
    with Session.open_core(core.core) as session:
        (runtime,) = session.runtimes
        found = Runtime(session.process.contract, runtime.found.module).stripped
        assert found is not None and len(searches) == 1
        for change, anew in (({}, 0), ({"array": found.threads.array + 8}, 1), ({"capacity": 1}, 1), ({}, 0)):
            searches.clear()
            process = session.process.at_another_stop(session.target)
            (known,) = process.lasting.values()
            key = next(iter(process.lasting))
            process.lasting[key] = replace(known, threads=replace(found.threads, **change))  # type: ignore[type-var]
            now = Runtime(process.contract, runtime.found.module).stripped
            assert now is not None and (now.threads, now.table, now.how) == (found.threads, found.table, found.how)
            assert len(searches) == anew
