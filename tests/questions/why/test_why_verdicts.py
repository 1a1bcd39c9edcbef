"""``why`` on programs that hang for a reason which they record, and on programs that do not hang.

A sample of the product of programs, compilers and runtimes; all of it with ``OMPD_FULL=1``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import ompd
from ompd.binary.elf.elf import ElfFile
from ompd.model import Wait, WhyAnswer
from ompd.model.kinds import Kind
from ompd.questions import threads
from ompd.questions import why as question
from ompd.questions.why.held import reentered
from ompd.session import Session
from tests.support import ALL_PROGRAMS, stopped
from tests.support.libgomp import on_libgomp
from tests.support.lldb import VERSIONS, LldbHost, lldb_hosts
from tests.support.made_elf import without_sections
from tests.support.products import each_version, sample
from tests.support.programs import modes_of
from tests.support.runtimes import RUNTIMES
from tests.support.snapshots import snapshot
from tests.support.verdicts import differences, false_proofs, in_short
from tests.support.why import GNU, LLVM, PAIRS, WHYS, Why, axes_of, hanging, hung, named

SOME = (
    "lock_cycle-nested",
    "barrier_mismatch-once",
    "barrier_absent-exited",
    "external_wait-semaphore",
    "laggard-barrier",
)


def answer_of(core: Path | None) -> WhyAnswer:
    assert core is not None
    with ompd.open_core(core) as session:
        return question.ask(session)


def one_of(why: Why) -> tuple[str, str]:
    """Return a compiler and a runtime for a program: always the same for one program, others for the next."""
    return why.pairs()[[*WHYS].index(why.name) % len(why.pairs())]


@pytest.mark.parametrize(("why", "compiler", "runtime", "mode"), sample(PAIRS, axes_of), ids=named)
def test_the_first_verdict_is_that_of_the_program_and_what_is_proven_is_true(
    why: Why, compiler: str, runtime: str, mode: str
) -> None:
    core = hung(why, compiler, runtime, mode=mode)
    answer = answer_of(core.core)
    assert differences(core, answer) == []
    assert false_proofs(core, answer) == []


# Ways to look


@pytest.mark.parametrize("name", SOME)
@pytest.mark.quick("laggard-barrier", "barrier_absent-exited", "barrier_mismatch-once")
def test_a_core_of_gdb_gives_the_same_verdict(name: str) -> None:
    core = hung(WHYS[name], *one_of(WHYS[name]), kind="gcore")
    assert differences(core, answer_of(core.core)) == []


@pytest.mark.parametrize("name", SOME)
@pytest.mark.quick("lock_cycle-nested", "external_wait-semaphore", "barrier_mismatch-once")
def test_a_snapshot_gives_the_same_verdict(name: str, tmp_path: Path) -> None:
    core = hung(WHYS[name], *one_of(WHYS[name]))
    assert core.core is not None
    small = snapshot(core.core, tmp_path)
    assert list(map(in_short, answer_of(small).rows)) == list(map(in_short, answer_of(core.core).rows))


@pytest.fixture(scope="module")
def host() -> Iterator[Callable[[int], LldbHost]]:
    with lldb_hosts() as of:
        yield of


@pytest.mark.xdist_group("lldb")
@pytest.mark.parametrize("name", SOME[:3])
@each_version(of=VERSIONS)
@pytest.mark.quick("14-barrier_mismatch-once")
def test_lldb_gives_the_same_verdict(name: str, version: int, host: Callable[[int], LldbHost]) -> None:
    core = hung(WHYS[name], *one_of(WHYS[name]))
    found = host(version).ask("why", executable=str(core.executable), core=str(core.core))["verdicts"]
    assert found == list(map(in_short, answer_of(core.core).rows))


@pytest.mark.parametrize("name", SOME)
@pytest.mark.quick("barrier_mismatch-once", "external_wait-semaphore", "barrier_absent-exited")
def test_a_process_that_runs_on_does_not_move(name: str, tmp_path: Path) -> None:
    why = WHYS[name]
    with hanging(why, *one_of(why), folder=tmp_path) as live:
        with ompd.attach(live.pid, max_stop=10_000) as session:  # a busy machine needs more time
            # Between two answers the process runs on.
            answers = [session.ask(question.ask) for _ in range(4)]
        assert differences(live, answers[0]) == []
        for later in answers[1:]:
            assert list(map(in_short, later.rows)) == list(map(in_short, answers[0].rows))
            assert later.graph == answers[0].graph


@pytest.mark.parametrize("runtime", [GNU, LLVM])
def test_a_runtime_without_section_headers_is_read(runtime: str, tmp_path: Path) -> None:
    file = RUNTIMES[runtime].file()
    libraries, folder = tmp_path / "libraries", tmp_path / "run"
    libraries.mkdir()
    folder.mkdir()
    own_name = ElfFile(file.read_bytes(), file.name).soname() or file.name
    (libraries / own_name).write_bytes(without_sections(file.read_bytes()))
    variables = {"LD_LIBRARY_PATH": str(libraries)}
    with (
        hanging(WHYS["lock_cycle-nested"], "gcc", runtime, folder=folder, environment=variables) as live,
        ompd.attach(live.pid, max_stop=10_000) as session,
    ):
        assert str(libraries / own_name) in {module.name for module in session.process.symbols.modules()}
        assert differences(live, session.ask(question.ask)) == []


# Threads that may still be freed


@pytest.mark.parametrize("runtime", [GNU, LLVM])
def test_a_thread_of_which_nothing_is_known_might_release_a_lock(runtime: str) -> None:
    core = hung(WHYS["lock_cycle-two"], "gcc", runtime, environment={"WHY_OUTSIDER": "1"})
    answer = answer_of(core.core)
    assert [row.kind for row in answer.rows if row.stuck == "proven"] == []


@pytest.mark.parametrize("runtime", [GNU, LLVM])
def test_no_thread_can_release_a_lock_whose_owner_is_stuck(runtime: str) -> None:
    core = hung(WHYS["lock_cycle-nested"], "gcc", runtime, environment={"WHY_OUTSIDER": "1"})
    assert differences(core, answer_of(core.core)) == []


def test_who_comes_back_into_the_runtime_need_not_have_its_lock_while_another_is_there() -> None:
    core = hung(WHYS["runtime_reentry-malloc"], "gcc", GNU)
    assert core.core is not None
    with Session.open_core(core.core) as session:
        rows = threads.ask(session).rows
        ((row, held),) = reentered(session, rows)
        assert row.wait is not None and (held.object, held.is_certain) == (row.wait.object, False)
        others = [replace(each, wait=None, state="overhead") if each is not row else row for each in rows]
        assert list(reentered(session, others)) == []
        # Nor if another thread is awake, and may just be looking for a task.
        looking = Wait(Kind.TASKWAIT, how="spinning")
        others = [replace(each, wait=looking) if each is not row else row for each in rows]
        assert list(reentered(session, others)) == []


# Programs that do not hang: a thread of each sleeps until a signal comes, and the others wait for it or for the signal.
HEALTHY = sorted(ALL_PROGRAMS.keys() - {"deadlock", "hang"})


@pytest.mark.parametrize(
    ("program", "compiler", "mode"),
    sample(
        [
            (program, compiler, mode)
            for program in HEALTHY
            for compiler in ALL_PROGRAMS[program].compilers
            for mode in modes_of(program, compiler)
        ]
    ),
)
def test_nothing_is_proven_of_a_program_that_does_not_hang(program: str, compiler: str, mode: str) -> None:
    answer = answer_of(stopped(program, compiler=compiler, mode=mode).core)
    assert [(row.kind, row.summary) for row in answer.rows if row.stuck == "proven"] == []


@pytest.mark.parametrize("program", [name for name in HEALTHY if "gcc" in ALL_PROGRAMS[name].compilers])
def test_nothing_is_proven_of_a_program_on_libgomp_that_does_not_hang(program: str) -> None:
    answer = answer_of(on_libgomp(program).core)
    assert [(row.kind, row.summary) for row in answer.rows if row.stuck == "proven"] == []
