"""libgomp: odd programs, and programs that get the library in other ways."""

from __future__ import annotations

import platform
import subprocess
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from ompd.model import StackFrame
from ompd.questions import regions, stacks, tasks, threads
from ompd.runtimes.libgomp import stacks as libgomp_stacks
from ompd.runtimes.libgomp.constructs import Constructs
from ompd.session import Session
from tests.stacks import KINDS, Kind, stopped_at_work
from tests.stub.programs import FOLDER
from tests.support import Missing, clean_environment, intel_runtime
from tests.support.build import WITH_HEADERS, compiler
from tests.support.libgomp import on_libgomp, run_source
from tests.support.odd import PLAIN, Odd, Words, core_of
from tests.support.runs import ENVIRONMENT, cores_allowed, kernel_core_obstacle
from tests.support.runtimes import INTEL, RUNTIMES
from tests.truth import compare

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
# In these programs all threads have left the code of their region, or its frame is lost.
UNTOLD_FUNCTION = ("null_call", "end_tasks")


@pytest.mark.parametrize("name", ODD)
@pytest.mark.quick("cancel", "false_if", "handler", "loops", "short_regions", "end_tasks")
def test_words_of_odd_programs(name: str) -> None:
    odd = next((odd for odd in PLAIN if odd.name == name), Odd(name))
    words = Words(core_of(replace(odd, link="libgomp"), "gcc"))
    words.check(missing=name in UNTOLD_FUNCTION)
    assert all("function" in text for text in words.missing)


def test_code_that_ended_by_waiting_for_its_children_is_that_of_their_parents(monkeypatch: pytest.MonkeyPatch) -> None:
    # The stack shows the task only by chance.
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
@pytest.mark.quick(
    "mixed-libgomp in the program",
    "mixed-static libgomp",
    "waits-libgomp in the program",
    "waits-static libgomp",
    "implicit-libgomp in the program",
    "implicit-static libgomp",
    "handler-static libgomp",
)
def test_a_library_that_is_linked_into_the_program(name: str, link: str) -> None:
    core = core_of(Odd(name, link=link), "gcc")
    Words(core).check(missing=link == "static libgomp")
    with Session.open_core(core.path) as session:
        (runtime,) = session.runtimes
        assert runtime.found.module.is_program and runtime.space is not None


def test_two_runtimes_in_one_process(tmp_path: Path) -> None:
    # The initial thread is in a region of one runtime, and was in a region of the other.
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
@pytest.mark.quick("1", "2", "64")
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
    # Their stacks hold only frames of the runtime, like the stack of a worker in the pool.
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
    # A worker executes the tasks at its region's end. No user frame is between the runtime's frames.
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
    # The frames are listed even if nothing shows whose code they were.
    monkeypatch.setattr(Constructs, "_likely", lambda *_: {})
    monkeypatch.setattr(libgomp_stacks, "WAITS_FOR_CHILDREN", "(no routine)")
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
        parts = [session.process.places.locate(frame.address).symbol or "" for row in rows for frame in row.frames]
    assert any(name.endswith(".cold") for name in parts)
    constructs = [frame.construct for row in rows for frame in row.frames if frame.construct is not None]
    assert region.function is not None and constructs
    assert (
        {(construct.kind, construct.line) for construct in constructs}
        == {("parallel", region.function.line)}
        == {("parallel", 7)}
    )


def test_a_worker_that_ends_is_no_thread_of_openmp(tmp_path: Path) -> None:
    # The ending worker still points at its team, which the team's primary thread has freed.
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
        answer, ending = threads.ask(session), session.process.threads.ids()[0]  # the thread that aborted is the first
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
    # Without a device the code runs on the thread that met the region. libgomp then knows nothing of this thread.
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
    # No stack can be followed through such code, nor through the kernels of PyTorch's convolutions. But a thread in it
    # is in no barrier and in no pool.
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
    # The other runtimes have the entry points that gcc's code calls.
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
    # scikit-learn's own copy is of a GCC older than any table's release. Its routines show which table fits.
    (kind,) = (kind for kind in KINDS if kind.source == "work.py")
    core = stopped_at_work(kind)
    with Session.open_core(core) as session:
        answer = threads.ask(session)
        (runtime,) = [row for row in answer.runtimes if row.kind == "libgomp"]
    assert "scikit_learn.libs" in runtime.file and runtime.version == "GCC 9 to 10" and runtime.layout == "table"
    assert answer.complete


@pytest.mark.quick()
def test_a_model_that_is_being_fitted() -> None:
    # The program stops at a random place, but all answers must fit together. Checked by hand: regions, missing threads,
    # functions and stacks are those of the source.
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
        # A thread that still leaves the barrier before is missing at this one, too.
        members = [row for row in rows if row.thread_num is not None]
        missing = {row.native_thread_id for row in members if row.wait is None or row.wait.missing is None}
        for row in rows:
            if row.wait is not None and row.wait.missing is not None:
                assert set(row.wait.missing) <= missing and row.wait.arrived == 4 - len(row.wait.missing)
    for stack in told.rows:
        if stack.runtime is not None and not stack.idle:
            functions = [frame.function for frame in stack.frames]
            assert stack.stopped is None and "Py_BytesMain" in functions  # of the thread that met the region
