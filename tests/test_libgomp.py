"""Programs on GNU's libgomp, which has neither OMPD nor symbols: what we tell equals what they wrote.

``tests/facts_libgomp.json`` holds how many facts of each kind have to be told and equal. Written anew by
``python -m tests.test_libgomp``.
"""

from __future__ import annotations

import json
import os
import platform
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ompd.binary.elf.elf import PF_W
from ompd.contract.memory import Field, StructLayout
from ompd.debugger.emulation.decode import Decoder
from ompd.debugger.targets.core import CoreTarget
from ompd.errors import CorruptState, LayoutUnavailable, OmpdError
from ompd.model import StackFrame
from ompd.questions import regions, stacks, tasks, threads
from ompd.runtimes.layout import table
from ompd.runtimes.libgomp import proof
from ompd.runtimes.libgomp.constructs import Constructs
from ompd.runtimes.libgomp.stacks import routines
from ompd.session import Session
from tests.builds import undecoded
from tests.stacks import KINDS, Kind, stopped_at_work
from tests.stub.programs import FOLDER
from tests.support import FULL, Missing, Stopped, clean_environment, intel_runtime, running, stopped
from tests.support.build import WITH_HEADERS, compiler
from tests.support.cutting import PAGE, Holes, check_cut, intact_of, places_to_cut, wrong
from tests.support.damage import ask_all, cut
from tests.support.lldb import LldbHost
from tests.support.machine import require, require_module
from tests.support.odd import PLAIN, Odd, Words, core_of
from tests.support.programs import ALL_PROGRAMS
from tests.support.runs import ENVIRONMENT, cores_allowed, kernel_core_obstacle
from tests.support.runtimes import INTEL, RUNTIMES
from tests.support.snapshots import answers, snapshot, without_files
from tests.truth import Comparison, compare

require_module("unicorn")

FACTS = Path(__file__).with_name("facts_libgomp.json")
# What libgomp executes at once when so many tasks are queued is another program.
SPECIAL: Mapping[str, Mapping[str, str]] = {"task_queued": {"TASKS": "200"}}
# libgomp has not met a thread that was in no region.
PROGRAMS = [
    pytest.param(name, compiler, id=f"{name}-{compiler}", marks=[pytest.mark.xdist_group("busy")] * known.spins)
    for name, known in ALL_PROGRAMS.items()
    for compiler in known.compilers
    if not compiler.startswith("clang") and name != "no_region"
]


def on_libgomp(program: str, compiler: str = "gcc", **options: Any) -> Stopped:
    env = {**SPECIAL.get(program, {}), **options.pop("env", {})}
    options = {"runtime": "libgomp", **options}
    return stopped(program, compiler=compiler, mode="neither", env=env, **options)


def facts_told(found: Comparison) -> dict[str, int]:
    return dict(sorted(found.equal.items()))


@pytest.mark.parametrize(("program", "compiler"), PROGRAMS)
def test_what_we_tell_is_what_the_program_wrote(program: str, compiler: str) -> None:
    found = compare(on_libgomp(program, compiler))
    assert found.differences == []
    assert facts_told(found) == json.loads(FACTS.read_text())[program]


# What a library of before GCC 9 cannot run, or reads from no environment; and where max-active-levels-var is the whole
# process's, a thread that has asked for it sees another change it.
NOT_ON_AN_OLD_ONE = ("task_depend", "icvs_env", "icvs")
WHEEL = [parameter for parameter in PROGRAMS if parameter.values[0] not in NOT_ON_AN_OLD_ONE]


@pytest.mark.parametrize(("program", "compiler"), WHEEL)
def test_of_a_library_of_a_wheel(program: str, compiler: str) -> None:
    # It is older than any table's release, and no table names it: what its routines read tells which table fits.
    found = compare(on_libgomp(program, compiler, runtime="libgomp-wheel", env={"OMP_NESTED": "true"}))
    assert found.differences == []
    told, known = facts_told(found), json.loads(FACTS.read_text())[program]
    assert {key: count for key, count in known.items() if told.get(key, 0) < count} == {}


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
    monkeypatch.setattr(Decoder, "call", undecoded)
    with pytest.raises(LayoutUnavailable) as refused:
        layouts_of(core)
    assert "build-id" in str(refused.value) and "ompd[emulate]" in refused.value.hint


def test_without_an_emulator_a_known_build_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "unicorn", None)
    assert compare(on_libgomp("nested")).differences == []
    # What routines answer that do more than load is all that is missing.
    monkeypatch.setattr(Decoder, "call", undecoded)
    found = compare(on_libgomp("nested"))
    assert all("cancel-var" in text or "max-task-priority-var" in text for text in found.differences)
    assert found.differences != []


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


SPIN = """
#include "settled.h"
#include <omp.h>
#include <stdlib.h>
#include <unistd.h>
static omp_lock_t lock;
static omp_nest_lock_t nest;
static volatile int there, held;
static void stop(void) {
    while (!there)
        usleep(1000);
    until_settled(1);
    abort();
}
int main(void) {
    omp_init_lock(&lock);
    omp_init_nest_lock(&nest);
    #pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 0) { BEFORE }
        #pragma omp barrier
        if (omp_get_thread_num() == 0) { HOLDER }
        there = 1;
        WAITER
    }
    there = 1;
    stop();
}
"""
# What the other thread does, what the one does that it waits for, and before; what is told of the former.
SPINNING = {
    "barrier": ('_Pragma("omp barrier")', "stop();", "", "wait_barrier", None),
    "closing": ("", "stop();", "", "wait_barrier_implicit_parallel", None),
    "lock": ("omp_set_lock(&lock);", "stop();", "omp_set_lock(&lock);", "wait_lock", "&lock"),
    "nest": ("omp_set_nest_lock(&nest);", "stop();", "omp_set_nest_lock(&nest);", "wait_lock", "&nest"),
    "critical": ("", "", "", "wait_critical", "critical(one)"),
    "unnamed": ("", "", "", "wait_critical", "critical"),
    "pool": ("", "", "", "idle", None),
}
SECTIONS = {"critical": "(one)", "unnamed": ""}


@pytest.mark.xdist_group("busy")
@pytest.mark.parametrize("name", SPINNING)
def test_threads_that_spin(name: str, tmp_path: Path) -> None:
    # With more threads than processors libgomp has them sleep.
    if len(os.sched_getaffinity(0)) < 2:
        raise Missing("processors", "two threads of libgomp's spin on two processors only", forbidden=True)
    waiter, holder, before, state, symbol = SPINNING[name]
    if name in SECTIONS:
        section = f'_Pragma("omp critical{SECTIONS[name]}")'
        holder = f"{section} {{ held = 1; stop(); }}"
        waiter = f"while (!held) usleep(1000);\n{section} there++;"
    text = SPIN.replace("BEFORE", before).replace("HOLDER", holder).replace("WAITER", waiter)
    core = run_source(tmp_path, text, {"OMP_WAIT_POLICY": "active", "GOMP_SPINCOUNT": "infinite"})
    with Session.open_core(core) as session:
        answer = threads.ask(session)
    assert answer.complete and answer.warnings == ()
    (row,) = [row for row in answer.rows if row.thread_type == "worker"]
    assert row.state == state
    if state == "idle":
        assert (row.thread_num, row.wait) == (None, None)
        return
    assert row.wait is not None and (row.wait.how, row.wait.symbol) == ("spinning", symbol)
    if symbol is None:
        primary = next(row.native_thread_id for row in answer.rows if row.thread_type == "initial")
        assert (row.wait.arrived, row.wait.expected, row.wait.missing) == (1, 2, (primary,))


@pytest.mark.parametrize(
    "program", ["barrier", "closing_barrier", "lock", "critical", "taskgroup", "ordered", "nested"]
)
def test_threads_that_sleep(program: str) -> None:
    assert ways_to_wait(on_libgomp(program)) == {"blocked"}


def ways_to_wait(core: Stopped) -> set[str | None]:
    with Session.open_core(core.core) as session:
        return {row.wait.how for row in threads.ask(session).rows if row.wait is not None}


@pytest.mark.parametrize(("changed", "how"), [(8, "released"), (1, "blocked"), (2, "blocked"), (3, "blocked")])
def test_threads_that_need_not_wait_any_more(changed: int, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # As if the kernel had not scheduled them yet: the team's barrier has another count than the one they sleep on. That
    # there are tasks to execute lets nobody go (bar.h: BAR_TASK_PENDING, BAR_WAITING_FOR_TASK).
    core = on_libgomp("barrier")
    with Session.open_core(core.core) as session:
        waiting = [row.native_thread_id or 0 for row in threads.ask(session).rows if row.wait is not None]
        (word,) = {session.process.stack(native).frames[0].registers[5] for native in waiting}
    honest = CoreTarget.read

    def read(self: CoreTarget, address: int, size: int) -> bytes:
        data = honest(self, address, size)
        at = word - address
        return data[:at] + bytes([data[at] ^ changed]) + data[at + 1 :] if 0 <= at < size else data

    monkeypatch.setattr(CoreTarget, "read", read)
    assert ways_to_wait(core) == {how}


def test_a_task_lets_nobody_go_who_sleeps_in_the_barrier(tmp_path: Path) -> None:
    # One thread is woken up to execute the task; the others sleep on, on a word that has changed.
    told = run_source(
        tmp_path,
        """
        #include "settled.h"
        #include <omp.h>
        #include <stdlib.h>
        #include <unistd.h>
        int main(void) {
            #pragma omp parallel num_threads(4)
            if (omp_get_thread_num() == 3) {
                until_settled(3);
                #pragma omp task
                { until_settled(3); abort(); }
            }
        }
        """,
        {"OMP_WAIT_POLICY": "passive"},
    )
    with Session.open_core(told) as session:
        found = [row.wait for row in threads.ask(session).rows if row.wait is not None]
    assert [(wait.kind, wait.how, wait.arrived, wait.expected) for wait in found] == [("barrier", "blocked", 4, 4)] * 3


def test_where_a_thread_is_whose_code_jumped_there_without_debug_information(tmp_path: Path) -> None:
    told = run_source(
        tmp_path,
        """
        #include <omp.h>
        #include <signal.h>
        #include <unistd.h>
        static volatile int there;
        void __attribute__((noinline)) rest(int number) {
            while (!there) {
                if (number)
                    there = 1;
                usleep(100000);
            }
            if (!number)
                raise(SIGABRT);
            while (there)
                pause();
        }
        int main(void) {
            #pragma omp parallel num_threads(2)
            rest(omp_get_thread_num());
        }
        """,
        flags=("-O2", "-g0"),
    )
    with Session.open_core(told) as session:
        found = [row.where for row in threads.ask(session).rows]
        shown = [[frame for frame in row.frames if frame.kind == "user"] for row in stacks.ask(session).rows]
    assert [frames[1].how for frames in shown] == ["tail-call"] * 2
    assert [(place.function, place.calling) for place in found if place is not None] == [("rest", None)] * 2
    assert [place.address for place in found if place is not None] == [(frames[0].address or 0) - 1 for frames in shown]


def test_who_wakes_the_others_up_does_not_sleep(tmp_path: Path) -> None:
    # The last thread at a barrier calls the kernel as those do that sleep there. gdb stops it in that call.
    (tmp_path / "wake.c").write_text("int main(void) {\n#pragma omp parallel num_threads(2)\n;\n}\n")
    command = [str(compiler("gcc").path), "-g", "-fopenmp", "wake.c", "-o", "wake"]
    subprocess.run(command, cwd=tmp_path, check=True, env=clean_environment())
    gdb = [str(require("gdb")), "-nx", "-batch", "-iex", "set debuginfod enabled off"]
    # FUTEX_WAKE, by any thread: the first one is at the barrier before the region's code, or at that of its end.
    stop = ["set startup-with-shell off", "catch syscall futex", "condition 1 ($rsi & 0x7f) == 1", "run"]
    commands = [word for text in (*stop, "generate-core-file core", "kill") for word in ("-ex", text)]
    done = subprocess.run(
        [*gdb, *commands, "./wake"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**clean_environment(), **ENVIRONMENT},
    )
    if "ptrace" in done.stderr:
        raise Missing("gdb", "ptrace is not permitted", forbidden=True)
    with Session.open_core(tmp_path / "core") as session:
        ways = Counter(session.process.progress(native) for native in session.process.threads())
    assert ways["spinning"] == 1 and set(ways) <= {"spinning", "blocked", "released"}, (done.stdout, done.stderr)


# Other programs, and other ways to have the library


ODD = [
    *(
        "after_inner",
        "cancel",
        "dlopened",
        "executed",
        "false_if",
        "fork_serial",
        "handler",
        "implicit",
        "loops",
        "mixed",
    ),
    *("ordered", "pointers", "segv", "serialized_100", "short_regions", "single", "tasks", "task_region", "two_files"),
    *("waits", "vdso", "tail_calls", "null_call", "end_tasks"),
]
# These have all left the code of their region, or its frame is lost.
UNTOLD_FUNCTION = ("null_call", "end_tasks")


@pytest.mark.parametrize("name", ODD)
def test_words_of_odd_programs(name: str) -> None:
    odd = next((odd for odd in PLAIN if odd.name == name), Odd(name))
    words = Words(core_of(replace(odd, link="libgomp"), "gcc"))
    words.check(missing=name in UNTOLD_FUNCTION)
    assert all("function" in text for text in words.missing)


def test_code_that_ended_by_waiting_for_its_children_is_that_of_their_parents(monkeypatch: pytest.MonkeyPatch) -> None:
    # What lies on the stack shows which task it is by chance only.
    monkeypatch.setattr(Constructs, "_likely", lambda *_: {})
    core = core_of(Odd("children", flags=("-O2",), link="libgomp"), "gcc")
    (thread,) = {word["tid"] for word in core.words if "thread_num" in word}
    with Session.open_core(core.path) as session:
        known = {row.id: row for row in tasks.ask(session).rows}
        answer = stacks.ask(session)
    assert answer.complete, answer.warnings
    (row,) = (row for row in answer.rows if row.native_thread_id == thread)
    of_frames = list(dict.fromkeys(frame.task for frame in row.frames if frame.task is not None))
    assert [known[task].kind for task in of_frames] == ["explicit"] * 6 + ["implicit", "initial"]
    for inner, outer in pairwise(of_frames):
        assert known[inner].generating == outer


@pytest.mark.parametrize("link", ["libgomp in the program", "static libgomp"])
@pytest.mark.parametrize("name", ["mixed", "waits", "implicit", "handler"])
def test_a_library_that_is_linked_into_the_program(name: str, link: str) -> None:
    core = core_of(Odd(name, link=link), "gcc")
    Words(core).check(missing=link == "static libgomp")
    with Session.open_core(core.path) as session:
        (runtime,) = session.runtimes
        assert runtime.found.module.is_program and runtime.space is not None


def test_two_runtimes_in_one_process(tmp_path: Path) -> None:
    # The initial thread is in a region of the one, and has been in one of the other.
    library = """
    #include "settled.h"
    #include <omp.h>
    #include <stdlib.h>
    #include <unistd.h>
    void spread(int stop) {
        #pragma omp parallel num_threads(SIZE)
        {
            if (stop && omp_get_thread_num() == SIZE - 1) { until_settled(0); abort(); }
            #pragma omp barrier
        }
    }
    """
    program = """
    #include <dlfcn.h>
    int main(int count, char **names) {
        void (*spread[2])(int);
        for (int i = 0; i < 2; i++)
            spread[i] = (void (*)(int))dlsym(dlopen(names[i + 1], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND), "spread");
        for (int i = 0; i < 4; i++)
            spread[i % 2](i == 3);
    }
    """
    (tmp_path / "library.c").write_text(library)
    (tmp_path / "program.c").write_text(program)
    intel = intel_runtime() / "lib"
    gcc = [str(compiler("gcc").path), "-g", "-O1", *WITH_HEADERS]
    make = [
        [*gcc, "program.c", "-o", "program", "-ldl"],
        [*gcc, "-fPIC", "-shared", "-fopenmp", "-DSIZE=3", "library.c", "-o", "gnu.so"],
        [*gcc, "-fPIC", "-fopenmp", "-DSIZE=4", "-c", "library.c"],
        [*gcc, "-shared", "library.o", "-o", "intel.so", f"-L{intel}", f"-Wl,-rpath,{intel}", "-liomp5"],
    ]
    for command in make:
        subprocess.run(command, cwd=tmp_path, check=True, env=clean_environment())
    obstacle = kernel_core_obstacle()
    if obstacle is not None:
        raise Missing("kernel core", obstacle, forbidden=True)
    for order, runtime, idle in ((("gnu", "intel"), "libiomp5", "libgomp"), (("intel", "gnu"), "libgomp", "libiomp5")):
        folder = tmp_path / order[0]
        folder.mkdir()
        names = [str(tmp_path / f"{name}.so") for name in order]
        environment = {**clean_environment(), **ENVIRONMENT}
        with cores_allowed():
            subprocess.run([tmp_path / "program", *names], cwd=folder, env=environment, check=False)
        with Session.open_core(next(folder.glob("core*"))) as session:
            rows = threads.ask(session)
        assert rows.complete and rows.warnings == ()
        size = {"libgomp": 3, "libiomp5": 4}
        told = sorted((row.runtime, row.thread_num, row.state) for row in rows.rows if row.thread_num is not None)
        waiting = [(runtime, number, "wait_barrier") for number in range(size[runtime] - 1)]
        assert told == [*waiting, (runtime, size[runtime] - 1, "work_parallel")]
        others = [(row.runtime, row.state) for row in rows.rows if row.thread_num is None]
        assert others == [(idle, "idle")] * (size[idle] - 1)


@pytest.mark.parametrize("size", [1, 2, 64, 400])
def test_teams_of_any_size(size: int) -> None:
    core = on_libgomp("many", threads=size, env={"OMP_STACKSIZE": "256k"})
    assert compare(core).differences == []
    assert sum(thread["role"] == "team" for thread in core.truth["threads"]) == size


def test_tasks_with_priorities(tmp_path: Path) -> None:
    told = run_source(
        tmp_path,
        """
        #include <omp.h>
        #include <stdlib.h>
        #include <unistd.h>
        static volatile int go, executing;
        int main(void) {
            #pragma omp parallel num_threads(3)
            #pragma omp single
            {
                for (int i = 0; i < 150; i++)
                    #pragma omp task priority(i % 7)
                    {
                        __atomic_add_fetch(&executing, 1, 5);
                        while (!go) usleep(1000);
                    }
                while (executing < 2) usleep(1000);
                abort();
            }
        }
        """,
        {"OMP_MAX_TASK_PRIORITY": "10"},
    )
    with Session.open_core(told) as session:
        rows = [row for row in tasks.ask(session).rows if row.kind == "explicit"]
    assert Counter(row.status for row in rows) == {"queued": 148, "executing": 2}


def test_a_league_of_teams_is_neither_region_nor_task(tmp_path: Path) -> None:
    told = run_source(
        tmp_path,
        """
        #include "settled.h"
        #include <omp.h>
        #include <stdlib.h>
        #include <unistd.h>
        static void inner(int team) {
            #pragma omp parallel num_threads(2)
            {
                if (omp_get_thread_num() && team) { until_settled(1); abort(); }
                #pragma omp barrier
            }
        }
        int main(void) {
            #pragma omp teams num_teams(2)
            inner(omp_get_team_num());
        }
        """,
    )
    with Session.open_core(told) as session:
        rows, told_tasks, told_stacks = threads.ask(session), tasks.ask(session), stacks.ask(session)
    assert [(row.thread_num, row.level, row.state) for row in rows.rows] == [
        (0, 1, "wait_barrier"),
        (1, 1, "work_parallel"),
    ]
    assert Counter(row.kind for row in told_tasks.rows) == {"initial": 1, "implicit": 2}
    for row in told_stacks.rows:
        written = [frame for frame in row.frames if frame.kind == "user"]
        assert [frame.construct.kind if frame.construct else None for frame in written] == [
            "parallel",
            None,
            None,
            None,
        ]


def test_workers_whose_code_ended_with_a_jump_to_a_lock_are_not_idle(tmp_path: Path) -> None:
    # All that is left of them on their stacks is the runtime's, as of a worker in the pool.
    told = run_source(
        tmp_path,
        """
        #include "settled.h"
        #include <omp.h>
        #include <stdlib.h>
        #include <unistd.h>
        static omp_lock_t lock;
        static void *stop(void *unused) { until_settled(3); abort(); }
        #include <pthread.h>
        int main(void) {
            pthread_t other;
            omp_init_lock(&lock);
            omp_set_lock(&lock);
            pthread_create(&other, 0, stop, 0);
            #pragma omp parallel num_threads(3)
            omp_set_lock(&lock);
        }
        """,
        flags=("-O2",),
    )
    with Session.open_core(told) as session:
        rows = [row for row in threads.ask(session).rows if row.runtime is not None]
    assert [(row.thread_num, row.team_size, row.level) for row in rows] == [(0, 3, 1), (1, 3, 1), (2, 3, 1)]
    assert "idle" not in {row.state for row in rows}


def test_tasks_that_each_ended_with_a_jump_to_a_wait_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A worker executes them at its region's end: between the runtime's frames there is none of the user's.
    core = run_source(
        tmp_path,
        """
        #include <omp.h>
        #include <stdlib.h>
        #include <unistd.h>
        static void deep(int n) {
            if (n == 0) abort();
            #pragma omp task
            deep(n - 1);
            #pragma omp taskwait
        }
        int main(void) {
            #pragma omp parallel num_threads(2)
            if (omp_get_thread_num() == 0) {
                #pragma omp task
                deep(5);
                for (;;) pause();
            }
        }
        """,
        flags=("-O2",),
    )

    def bodies() -> tuple[list[StackFrame], bool]:
        with Session.open_core(core) as session:
            answer = stacks.ask(session)
            threads_of = {row.id: row.thread for row in tasks.ask(session).rows if row.kind == "explicit"}
        (row,) = (row for row in answer.rows if row.thread_num == 1)
        found = [frame for frame in row.frames if frame.construct is not None and frame.construct.kind == "task"]
        assert all(threads_of[frame.task] == row.native_thread_id for frame in found if frame.task is not None)
        return found, answer.complete

    found, complete = bodies()
    assert [(f.function, f.construct and f.construct.line) for f in found] == [("deep", 7)] * 5 + [("main", 14)]
    assert [f.how == "tail-call" for f in found] == [False, *[True] * 5]
    assert len({f.task for f in found}) == 6 and complete
    # Where nothing shows whose code they were, they are there nonetheless.
    monkeypatch.setattr(Constructs, "_likely", lambda *_: {})
    monkeypatch.setattr(routines, "WAITS_FOR_CHILDREN", "(no routine)")
    found, complete = bodies()
    assert [f.function for f in found] == ["deep", *[None] * 5] and not complete
    assert all({"function", "callee", "address"} <= set(f.unavailable) for f in found[1:])


def test_a_worker_whose_code_ended_with_a_jump_to_the_c_library(tmp_path: Path) -> None:
    told = run_source(tmp_path, (FOLDER / "jumped.c").read_text(), flags=("-O2",))
    with Session.open_core(told) as session:
        rows = {row.thread_num: row for row in threads.ask(session).rows if row.runtime is not None}
    assert [rows[number].state for number in range(3)] == ["wait_barrier", "work_parallel", "wait_barrier"]


def test_parts_of_a_regions_code_that_are_seldom_executed(tmp_path: Path) -> None:
    told = run_source(
        tmp_path,
        """
        #include <omp.h>
        #include <stdlib.h>
        __attribute__((cold, noinline)) static void stop(int how) { if (how) abort(); }
        int main(int argc, char **argv) {
            int count = argc;
            #pragma omp parallel num_threads(2) shared(count)
            {
                if (__builtin_expect(omp_get_thread_num() == 1, 0)) {
                    stop(count);
                    count += 3;
                    stop(count);
                }
                #pragma omp barrier
            }
            return count;
        }
        """,
        flags=("-O2",),
    )
    with Session.open_core(told) as session:
        rows = [row for row in stacks.ask(session).rows if row.runtime is not None]
        (region,) = regions.ask(session).rows
        parts = [session.process.locate(frame.address).symbol or "" for row in rows for frame in row.frames]
    assert any(name.endswith(".cold") for name in parts)
    constructs = [frame.construct for row in rows for frame in row.frames if frame.construct is not None]
    assert region.function is not None and constructs
    assert (
        {(construct.kind, construct.line) for construct in constructs}
        == {("parallel", region.function.line)}
        == {("parallel", 7)}
    )


def test_a_worker_that_ends_is_no_thread_of_openmp(tmp_path: Path) -> None:
    # It goes on pointing at its team, which its primary thread has freed.
    told = run_source(
        tmp_path,
        """
        #include "settled.h"
        #include <omp.h>
        #include <pthread.h>
        #include <stdlib.h>
        #include <string.h>
        #include <unistd.h>
        static pthread_key_t key;
        static volatile int resting;
        static void end(void *unused) {
            while (resting < 2) usleep(1000);
            until_settled(2);
            abort();
        }
        int main(void) {
            pthread_key_create(&key, end);
            omp_set_max_active_levels(2);
            #pragma omp parallel num_threads(2)
            {
                if (omp_get_thread_num() == 0) {
                    #pragma omp parallel num_threads(3)
                    if (omp_get_thread_num() == 2) pthread_setspecific(key, &key);
                    for (int size = 64; size < 8192; size += 16) memset(malloc(size), 0xa5, size);
                }
                #pragma omp barrier
                __atomic_add_fetch(&resting, 1, 5);
                pause();
            }
        }
        """,
    )
    with Session.open_core(told) as session:
        answer, ending = threads.ask(session), session.process.threads()[0]  # whoever aborted is the first
        tree = tasks.ask(session)
    assert answer.complete and tree.complete, (answer.warnings, tree.warnings)
    known = {row.native_thread_id: (row.thread_num, row.team_size, row.level) for row in answer.rows if row.runtime}
    assert sorted(known.values()) == [(0, 2, 1), (1, 2, 1)] and ending not in known


def test_a_child_of_a_worker_is_not_idle(tmp_path: Path) -> None:
    told = run_source(
        tmp_path,
        """
        #include <omp.h>
        #include <stdlib.h>
        #include <sys/wait.h>
        #include <unistd.h>
        int main(void) {
            #pragma omp parallel num_threads(2)
            {
                if (omp_get_thread_num()) {
                    if (!fork()) abort();
                    wait(0);
                    _exit(0);
                }
                #pragma omp barrier
            }
        }
        """,
    )
    with Session.open_core(told) as session:
        (row,) = threads.ask(session).rows
    assert (row.state, row.thread_num, row.team_size, row.level) == ("work_parallel", 1, 2, 1)
    assert row.where is not None and row.where.function == "main"


def test_a_handler_that_has_a_region_of_its_own(tmp_path: Path) -> None:
    told = run_source(
        tmp_path,
        """
        #include "settled.h"
        #include <omp.h>
        #include <pthread.h>
        #include <signal.h>
        #include <stdlib.h>
        #include <unistd.h>
        static omp_lock_t lock;
        static pthread_t waiting;
        static volatile int handling;
        static void handle(int number) {
            #pragma omp parallel num_threads(2)
            {
                __atomic_add_fetch(&handling, 1, 5);
                for (;;) pause();
            }
        }
        static void *stop(void *unused) {
            until_settled(1);
            pthread_kill(waiting, SIGUSR1);
            while (handling < 2) usleep(1000);
            until_settled(2);
            abort();
        }
        int main(void) {
            pthread_t other;
            omp_init_lock(&lock);
            omp_set_lock(&lock);
            signal(SIGUSR1, handle);
            waiting = pthread_self();
            pthread_create(&other, 0, stop, 0);
            omp_set_lock(&lock);
        }
        """,
    )
    with Session.open_core(told) as session:
        rows = [row for row in threads.ask(session).rows if row.runtime is not None]
    assert [(row.thread_num, row.level, row.state, row.wait) for row in rows] == [
        (0, 1, "work_parallel", None),
        (1, 1, "work_parallel", None),
    ]


def test_code_of_a_target_region(tmp_path: Path) -> None:
    # Without a device it runs on the thread that met it, of which libgomp then knows nothing.
    told = run_source(
        tmp_path,
        """
        #include <omp.h>
        #include <stdlib.h>
        #include <unistd.h>
        int main(void) {
            #pragma omp parallel num_threads(2)
            getppid();
            #pragma omp target
            abort();
        }
        """,
    )
    with Session.open_core(told) as session:
        rows, told_stacks = threads.ask(session), stacks.ask(session)
    assert rows.complete
    assert [(row.thread_num, row.level, row.state) for row in rows.rows] == [
        (0, 0, "work_serial"),
        (None, None, "idle"),
    ]
    assert "task" not in {frame.construct.kind for row in told_stacks.rows for frame in row.frames if frame.construct}


def test_code_that_was_made_while_the_program_ran(tmp_path: Path) -> None:
    # No stack can be followed through it, as through the kernels of PyTorch's convolutions; but who is in it is in no
    # barrier and in no pool.
    told = run_source(
        tmp_path,
        """
        #include "settled.h"
        #include <omp.h>
        #include <pthread.h>
        #include <stdlib.h>
        #include <string.h>
        #include <sys/mman.h>
        #include <unistd.h>
        /* It pushes something, and stays. */
        static const unsigned char loop[] = {0x53, 0x48, 0x83, 0xec, 0x40, 0xf3, 0x90, 0xeb, 0xfc};
        static void *stop(void *unused) { until_settled(3); abort(); }
        int main(void) {
            pthread_t other;
            char *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            memcpy(code, loop, sizeof loop);
            pthread_create(&other, 0, stop, 0);
            #pragma omp parallel num_threads(3)
            {
                if (omp_get_thread_num())
                    ((void (*)(void))code)();
                #pragma omp barrier
            }
        }
        """,
    )
    with Session.open_core(told) as session:
        rows = [row for row in threads.ask(session).rows if row.runtime is not None]
    assert [(row.thread_num, row.team_size, row.state) for row in rows] == [
        (0, 3, "wait_barrier"),
        (1, 3, "work_parallel"),
        (2, 3, "work_parallel"),
    ]
    wait = rows[0].wait
    assert wait is not None and (wait.arrived, wait.missing) == (1, tuple(row.native_thread_id for row in rows[1:]))


def test_ten_thousand_queued_tasks(tmp_path: Path) -> None:
    told = run_source(
        tmp_path,
        """
        #include <omp.h>
        #include <stdlib.h>
        #include <unistd.h>
        static volatile int holding, made;
        int main(void) {
            #pragma omp parallel num_threads(170)
            {
                if (omp_get_thread_num()) { __atomic_add_fetch(&holding, 1, 5); for (;;) pause(); }
                while (holding < 169) usleep(1000);
                for (int i = 0; i < 10000; i++)
                    #pragma omp task
                    made++;
                abort();
            }
        }
        """,
    )
    with Session.open_core(told) as session:
        rows = tasks.ask(session)
    assert rows.complete
    assert Counter((row.kind, row.status) for row in rows.rows) == {
        ("initial", "suspended"): 1,
        ("implicit", "executing"): 170,
        ("explicit", "queued"): 10000,
    }


def run_source(
    folder: Path, text: str, environment: Mapping[str, str] | None = None, flags: Sequence[str] = ("-O1",)
) -> Path:
    """Return the core of a program that aborts."""
    obstacle = kernel_core_obstacle()
    if obstacle is not None:
        raise Missing("kernel core", obstacle, forbidden=True)
    (folder / "program.c").write_text(text)
    command = [str(compiler("gcc").path), "-g", *flags, "-fopenmp", *WITH_HEADERS, "program.c", "-o", "program"]
    subprocess.run(command, cwd=folder, check=True, env=clean_environment())
    where = folder / "run"
    where.mkdir()
    variables = {**clean_environment(), **ENVIRONMENT, **(environment or {})}
    with cores_allowed():
        subprocess.run([folder / "program"], cwd=where, env=variables, check=False)
    return next(where.glob("core*"))


BLIND = """
#include "settled.h"
#include <omp.h>
#include <stdlib.h>
#include <unistd.h>
static volatile int there;
__attribute__((noinline)) void stop(void) {
    while (!there)
        usleep(1000);
    until_settled(1);
    abort();
}
/* As in libraries of linear algebra: written by hand, and no unwind data says how much of the stack it takes. */
__asm__(".text\\nblind:\\n sub $264, %rsp\\n call stop\\n add $264, %rsp\\n ret\\n");
void blind(void);
int main(void) {
#pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 0)
            blind();
        there = 1;
        for (;;)
            pause();
    }
}
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="assembly of x86-64")
@pytest.mark.parametrize("runtime", ["libgomp", "libomp-19", INTEL])
def test_a_primary_thread_in_code_without_unwind_data(runtime: str, tmp_path: Path) -> None:
    # gcc's code runs on the others, which have its entry points.
    (tmp_path / "libgomp.so.1").symlink_to(RUNTIMES[runtime].file())
    core = run_source(tmp_path, BLIND, {"LD_LIBRARY_PATH": str(tmp_path)})
    with Session.open_core(core) as session:
        threads_told, told = threads.ask(session), stacks.ask(session)
    assert threads_told.complete and [row.kind for row in threads_told.runtimes] == [RUNTIMES[runtime].kind]
    primary, worker = told.rows
    assert any(frame.guessed for frame in primary.frames) and primary.frames[-1].function == "main"
    assert worker.stopped is not None and not told.complete
    assert "the primary thread's stack cannot be followed out of the region: no unwind data covers 0x" in worker.stopped


def test_a_wheels_library_in_a_process_of_many_modules() -> None:
    # scikit-learn's own copy, of a GCC that is older than any table's: its routines tell which of them fits.
    (kind,) = (kind for kind in KINDS if kind.source == "work.py")
    core = stopped_at_work(kind)
    with Session.open_core(core) as session:
        answer = threads.ask(session)
        (runtime,) = [row for row in answer.runtimes if row.kind == "libgomp"]
    assert "scikit_learn.libs" in runtime.file and runtime.version == "GCC 9 to 10" and runtime.layout == "table"
    assert answer.complete


def test_a_model_that_is_being_fitted() -> None:
    # Where it was stopped is chance; but all that is told has to fit together. Looked at by hand: regions, missing
    # threads, functions and stacks are those of the source.
    fitting = Kind("boosting", "boosting.py", threads=4, variables=(("OPENBLAS_NUM_THREADS", "1"),))
    with Session.open_core(stopped_at_work(fitting)) as session:
        answer, regions_told, told = threads.ask(session), regions.ask(session), stacks.ask(session)
    assert answer.complete and regions_told.complete and told.complete
    rows = [row for row in answer.rows if row.runtime is not None]
    (runtime,) = [row for row in answer.runtimes if row.kind == "libgomp"]
    assert "scikit_learn.libs" in runtime.file and len(rows) == 4
    assert sorted(row.thread_type for row in rows) == ["initial", "worker", "worker", "worker"]
    for region in regions_told.rows:
        assert (region.team_size, region.level) == (4, 1) and None not in region.threads
        # One that still leaves the barrier before is missing at this one, too.
        members = [row for row in rows if row.thread_num is not None]
        missing = {row.native_thread_id for row in members if row.wait is None or row.wait.missing is None}
        for row in rows:
            if row.wait is not None and row.wait.missing is not None:
                assert set(row.wait.missing) <= missing and row.wait.arrived == 4 - len(row.wait.missing)
    for stack in told.rows:
        if stack.runtime is not None and not stack.idle:
            functions = [frame.function for frame in stack.frames]
            assert stack.stopped is None and "Py_BytesMain" in functions  # which is on the thread that met the region


# Targets


@pytest.mark.xdist_group("lldb")
@pytest.mark.parametrize(
    ("version", "program"),
    [(22, "task_tree"), (19, "nested"), (14, "nested"), *([(22, "nested"), (22, "lock")] * FULL)],
)
def test_of_cores_in_lldb(version: int, program: str) -> None:
    core = on_libgomp(program)
    host = LldbHost(version)
    try:
        answer = host.compare_core(core)
    finally:
        host.close()
    assert answer["differences"] == []
    assert dict(sorted(answer["equal"].items())) == json.loads(FACTS.read_text())[program]


@pytest.mark.xdist_group("lldb")
def test_of_a_process_in_lldb(tmp_path: Path) -> None:
    host = LldbHost(22)
    try:
        with running("nested", mode="neither", runtime="libgomp", folder=tmp_path) as alive:
            assert host.compare_live(alive)["differences"] == []
    finally:
        host.close()


@pytest.mark.parametrize("program", ["nested", "task_tree", "lock", "between"])
def test_snapshots(program: str, tmp_path: Path) -> None:
    core = on_libgomp(program).core
    assert without_files(snapshot(core, tmp_path)) == answers(core)


# Damage


@pytest.mark.parametrize("program", ["nested", "task_tree", "between", "nest_lock"])
def test_no_fact_is_wrong_whatever_page_is_lost(program: str) -> None:
    target = Holes(str(on_libgomp(program).core))
    intact = target.ask_all()
    assert len(target.pages) > 20
    for page in sorted(target.pages):
        target.hole = page
        assert wrong(target.ask_all(), intact) == [], f"page at {page * PAGE:#x}"


@pytest.mark.parametrize("kind", ["kernel", "gcore"])
def test_no_fact_is_wrong_wherever_a_core_is_cut(kind: str, tmp_path: Path) -> None:
    core = on_libgomp("nested", kind=kind)
    intact = intact_of(core)
    for size in sorted(places_to_cut(core.core), reverse=True):
        check_cut(ask_all(cut(core.core, tmp_path / "core", size)), intact, size, core.core)


@pytest.mark.parametrize("program", ["nested", "task_tree", "nest_lock"])
def test_structures_of_lies_end_in_words(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Words of the structures that are read point elsewhere, or count too much.
    core = on_libgomp(program)
    target = Holes(str(core.core))
    intact = target.ask_all()
    writable = [page for page in target.pages if is_data(target, page)]
    chance = random.Random(program)
    honest = CoreTarget.read
    lies: dict[int, bytes] = {}

    def read(self: CoreTarget, address: int, size: int) -> bytes:
        data = bytearray(honest(self, address, size))
        for at, word in lies.items():
            if address < at + 8 and at < address + size:
                for place in range(8):
                    if 0 <= at + place - address < size:
                        data[at + place - address] = word[place]
        return bytes(data)

    monkeypatch.setattr(CoreTarget, "read", read)
    for _ in range(600 if FULL else 25):
        lies.clear()
        for _ in range(chance.randrange(1, 6)):
            at = chance.choice(writable) * PAGE + 8 * chance.randrange(PAGE // 8)
            other = chance.choice(writable) * PAGE + 8 * chance.randrange(PAGE // 8)
            value = chance.choice([0, 1, 2, 0xFFFF, (1 << 64) - 1, other, other, at, at - 8, 0x0123456789ABCDEF])
            lies[at] = value.to_bytes(8, "little")
        target.hole = None
        told = target.ask_all()
        assert told.answers.keys() | told.errors.keys() == intact.answers.keys() and all(map(str, told.errors.values()))


def is_data(target: Holes, page: int) -> bool:
    region = next((m for m in target.regions() if m.start <= page * PAGE < m.end), None)
    return region is not None and bool(region.flags & PF_W)


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
