"""``ompd check`` with the libraries of LLVM and Intel: each difference is known, and each known difference is seen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ompd.commands.main import cli
from ompd.errors import NoAnswer
from ompd.inspection import Inspection
from ompd.model import CheckAnswer
from ompd.questions.check import answering
from ompd.questions.check.answering import own_space
from ompd.questions.check.compare import compare
from ompd.questions.check.known import Entry, Known
from ompd.questions.check.plugin import NativeThread, PluginAnswers
from tests.check.minimal import core_of
from tests.check.page import PAGE
from tests.support import ALL_PROGRAMS, FULL, MODES, fable, running, stopped
from tests.support.ompd_libraries import LIBRARIES, ompd_library
from tests.support.products import sample
from tests.support.stub import plugin_folder

KNOWN = Known()
RUNTIMES = ("intel", "libomp-19-debug")
PROGRAMS = ("lock", "task_tree", "two_initial", "icvs", "uneven", "between", "no_region", "extra_pthread")


def releases_of(entry: Entry) -> list[str]:
    return [f"{vendor}-{release}" for vendor, found in entry.releases.items() for release in found]


def checked(core: Path, library: str) -> CheckAnswer:
    with Inspection.open_core(core, ompd_library=ompd_library(library)) as session:
        return session.ask_check()


def assert_no_news(answer: CheckAnswer) -> None:
    assert answer.complete, answer.warnings
    assert [row for row in answer.rows if row.entry is None] == []
    assert [entry.number for entry in answer.entries if entry.state == "gone"] == []
    for library in answer.libraries:
        assert library.facts == library.same + library.explained > 50
        assert library.unexplained == 0 and library.same > library.explained


@pytest.mark.parametrize(
    ("number", "library"),
    sample([(entry.number, name) for entry in KNOWN.entries for name in releases_of(entry) if name in LIBRARIES]),
)
@pytest.mark.quick("8-llvm-22", "12-intel-2026", "17-intel-2026", "21-llvm-14", "22-llvm-19", "23-llvm-22")
def test_each_known_difference_is_seen_in_its_program(number: int, library: str) -> None:
    (entry,) = (entry for entry in KNOWN.entries if entry.number == number)
    core = core_of(entry.program, entry.compiler, is_debugged=entry.is_debugged)
    answer = checked(core, library)
    assert_no_news(answer)
    (seen,) = (each for each in answer.entries if each.number == number)
    assert seen.state == "seen" and seen.explains > 0
    (examined,) = answer.libraries
    assert f"{examined.vendor}-{examined.release}" == library and examined.what is not None
    rows = [row for row in answer.rows if row.entry == number]
    assert len(rows) == seen.explains and all(row.function.startswith("ompd_") for row in rows)


def everywhere() -> list[Any]:
    """Return all programs in all modes on both runtimes, with the libraries in turn; or a sample of these."""
    programs = [name for name in ALL_PROGRAMS if name != "not_initialised"] if FULL else PROGRAMS
    return sample(
        [
            (program, mode, compiler, runtime, LIBRARIES[(number + turn) % len(LIBRARIES)])
            for number, program in enumerate(programs)
            for turn, (mode, compiler, runtime) in enumerate(product(MODES, ALL_PROGRAMS[program].compilers, RUNTIMES))
        ]
    )


@pytest.mark.parametrize(("program", "mode", "compiler", "runtime", "library"), everywhere())
def test_nothing_else_differs(program: str, mode: str, compiler: str, runtime: str, library: str) -> None:
    assert_no_news(checked(stopped(program, compiler=compiler, mode=mode, runtime=runtime).core, library))


# Intel's library must be restarted for each moment of a live process.
@pytest.mark.parametrize("library", ["intel-2026", "llvm-19", "llvm-22"])
def test_a_live_process(library: str, tmp_path: Path) -> None:
    with (
        running("nested", compiler="clang", folder=tmp_path) as program,
        Inspection.attach(program.pid, max_stop=3_000, ompd_library=ompd_library(library)) as session,
    ):
        answer = session.ask_check()
    assert_no_news(answer)
    threads = {row.native_thread_id for row in answer.rows} - {None}
    assert threads <= {thread["native_thread_id"] for thread in program.truth["threads"]} and len(threads) > 1


def test_the_library_of_a_stranger() -> None:
    # The stub's library and its plugin were written independently. No entry is about it, so none has to be seen.
    core = stopped("task_tree", runtime="stub")
    with Inspection.open_core(core.core, plugins=(plugin_folder(),), ompd_library="named") as session:
        answer = session.ask_check()
    (library,) = answer.libraries
    assert (library.vendor, library.release, library.what) == (None, None, None) and library.same > 300
    differing = {row.fact for row in answer.rows if row.entry is None}
    assert all(fact.startswith("text of ") for fact in differing)
    assert "gone" not in {entry.state for entry in answer.entries}


# Output of the command, and exit codes


@contextmanager
def known_as(monkeypatch: pytest.MonkeyPatch, change: Any) -> Iterator[None]:
    table = json.loads(KNOWN.text)
    change(table)
    with monkeypatch.context() as patch:
        patch.setattr(answering, "Known", lambda: Known(json.dumps(table)))
        yield


def check(*words: object) -> tuple[int, str, str]:
    ran = CliRunner().invoke(cli, ["check", *map(str, words)])
    return ran.exit_code, ran.stdout, ran.stderr


def test_the_library_that_the_runtime_names_is_compared() -> None:
    status, text, errors = check(stopped("hang", compiler="clang").core)
    assert (status, errors) == (0, "")
    lines = text.splitlines()
    assert lines[2].startswith("libiomp5: libiomp5_db.so (Intel(R) OMP OMPD plugin")
    assert "  known as   libiomp5_db.so of the wheel intel-openmp 2026.2.0" in lines
    assert ", 0 unexplained" in text and "NO.  SEEN  KNOWN DIFFERENCE" in text
    assert any(line.startswith("7 ") and "the system's numbers" in line for line in lines)


def test_the_page_shows_what_is_printed() -> None:
    core = stopped("hang", compiler="clang").core
    _, text, _ = check(core)
    shown = text.partition("\n\n")[2].rstrip("\n").replace(str(ompd_library("intel-2026").parent.resolve()), "/opt/lib")
    assert f"$ ompd check core.1234\n{shown}\n```" in PAGE.read_text()


def test_all_rows_and_their_reasons() -> None:
    core = stopped("hang", compiler="clang").core
    status, text, _ = check(core, "--all", "-v")
    answer = json.loads(check(core, "--json")[1])
    assert status == 0 and len(answer["check"]) > 100
    rows = [line for line in text.splitlines() if " of nthreads-var  " in line]
    of_nthreads = [row for row in answer["check"] if row["fact"] == "number of nthreads-var"]
    assert len(rows) == len(of_nthreads) == 4
    assert all("first of a list" in row["library"] and row["ours"] == "2" for row in of_nthreads)
    assert "unknown: library: ompd_rc_unsupported: " in text
    (library,) = answer["libraries"]
    assert library["facts"] == library["same"] + len(answer["check"])


def test_a_difference_that_nobody_explains_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    core = stopped("hang", compiler="clang").core

    def without_the_sixth(table: dict[str, Any]) -> None:
        table["entries"] = [entry for entry in table["entries"] if entry["number"] != 6]

    with known_as(monkeypatch, without_the_sixth):
        status, text, _ = check(core)
        answer = json.loads(check(core, "--json")[1])
    assert status == 10 and "4 unexplained" in text
    assert sum(line.startswith("none  number of nthreads-var") for line in text.splitlines()) == 4
    assert [row["fact"] for row in answer["check"][:4]] == ["number of nthreads-var"] * 4
    assert [row["entry"] for row in answer["check"][:5]].count(None) == 4


def test_an_entry_that_is_not_seen_any_more_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_llvm_22(table: dict[str, Any]) -> None:
        # LLVM's library takes native thread ids, but the changed entry claims that it does not.
        (entry,) = (entry for entry in table["entries"] if entry["number"] == 7)
        entry["releases"]["llvm"] = ["22"]

    with known_as(monkeypatch, of_llvm_22):
        status, text, _ = check(stopped("hang", compiler="clang").core, "--ompd-library", ompd_library("llvm-22"))
    assert status == 10 and ", 0 unexplained" in text
    assert "7 is not seen, and this release should have it: Threads are not known by the system's numbers" in text


def test_of_a_release_that_was_not_measured_nothing_is_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(table: dict[str, Any]) -> None:
        table["libraries"] = []

    with known_as(monkeypatch, unknown):
        status, text, _ = check(stopped("hang", compiler="clang").core, "--ompd-library", ompd_library("llvm-22"))
    assert status == 0 and "known as   a release of llvm whose differences were not measured" in text


@pytest.mark.parametrize("program", ["nested", "task_tree", "lock"])
def test_as_a_plugin_the_library_tells_what_ours_does(program: str) -> None:
    # The library's refusals are not compared here: the hosted plugin has turned them into answers for other commands.
    with Inspection.open_core(stopped(program, compiler="clang").core, ompd_library="named") as session:
        (runtime,) = (each for each in session.runtimes if each.space is not None)
        ours, process = own_space(session, runtime), session.process
        assert ours is not None and runtime.space is not None
        threads = [NativeThread(each, process.threads.thread_pointer(each)) for each in process.threads.ids()]
        facts = list(
            compare(PluginAnswers(runtime.space), PluginAnswers(ours), threads, keeps_states=ours.keeps_states())
        )
    differing = {fact.name for fact in facts if not fact.is_same}
    flags, listed = {"exit frame flag", "enter frame flag"}, {"listed wait-policy-var", "listed target-offload-var"}
    assert len(facts) > 300 and differing <= {*flags, *listed, "id as lwp", "text of tool-var"}


@pytest.mark.parametrize(("where", "call"), [("process", "process_initialize"), ("thread", "get_thread_handle")])
def test_a_library_that_fails_is_named_with_its_call(where: str, call: str, tmp_path: Path) -> None:
    library = fable.dying(tmp_path, [f'-DWHERE="{where}"', "-DBY_ABORT"])
    status, text, errors = check(stopped("hang").core, "--ompd-library", library)
    assert (status, text) == (1, "") and library.name in errors and f"ompd_{call}" in errors


def test_a_runtime_that_we_have_no_plugin_for_cannot_be_compared() -> None:
    status, text, errors = check(fable.core())
    assert (status, text) == (1, "") and "ompd has no plugin" in errors


def test_without_a_library_there_is_no_answer(tmp_path: Path) -> None:
    status, text, errors = check(stopped("hang", runtime="libgomp").core)
    assert (status, text) == (1, "") and "libgomp" in errors and "librar" in errors
    status, text, errors = check(stopped("hang").core, "--ompd-library", tmp_path / "none.so")
    assert (status, text) == (1, "") and "none.so" in errors
    with Inspection.open_core(stopped("hang").core) as session, pytest.raises(NoAnswer, match="no library serves"):
        session.ask_check()
