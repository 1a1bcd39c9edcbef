"""The stub, read only through its library in C of 64 or 32 bits.

All facts that OMPD and DMPL have calls for equal the plugin's.
"""

from __future__ import annotations

import shutil
from hashlib import sha256
from pathlib import Path

import pytest

from ompd.errors import LibraryError, OmpdError
from ompd.questions import icvs, regions, stacks, threads, variables
from ompd.runtimes.hosted import narrow
from ompd.runtimes.hosted.dmpl.beside import Beside
from ompd.runtimes.hosted.plugin import HostedPlugin
from ompd.runtimes.hosted.process import Loads
from ompd.session import Session
from tests.stub.programs import built, core_of
from tests.support.m32 import m32_flags
from tests.support.stub import host32, stub_folder
from tests.support.stub_cores import on_stub

WIDTHS = (64, 32)


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(narrow, "PROGRAM", host32())


def library(width: int) -> str:
    return str(stub_folder() / ("libompd_stub32.so" if width == 32 else "libompd_stub.so"))


def machine(width: int) -> tuple[str, ...]:
    return m32_flags().compile + m32_flags().link if width == 32 else ()


@pytest.mark.usefixtures("hosts")
@pytest.mark.parametrize("of_program", WIDTHS)
@pytest.mark.parametrize("width", WIDTHS)
def test_copies_are_those_of_figure_8(width: int, of_program: int) -> None:
    core = core_of(built("figure8.c", "stop.c", flags=("-DBY_KEY",), machine=machine(of_program)))
    with Session.open_core(core) as session:
        expected = [(row.native_thread_id, row.address, row.value) for row in variables.ask(session, "a").rows]
    with Session.open_core(core, ompd_library=library(width)) as session:
        answer = variables.ask(session, "a")
        (runtime,) = session.runtimes
        assert runtime.found.hosted is not None and runtime.found.hosted.file == library(width)
    assert [(row.native_thread_id, row.address, row.value) for row in answer.rows] == expected
    assert [(row.value, row.mechanism) for row in answer.rows] == [(3, "key"), (3, "key"), (2, "key"), (2, "key")]


@pytest.mark.usefixtures("hosts")
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("program", ["nested", "task_stack"])
def test_threads_regions_and_variables_are_those_of_the_plugin(program: str, width: int) -> None:
    core = on_stub(program).core
    with Session.open_core(core) as session:
        own = threads.ask(session).rows, regions.ask(session).rows, icvs.ask(session).rows
    with Session.open_core(core, ompd_library=library(width)) as session:
        told = threads.ask(session).rows, regions.ask(session).rows, icvs.ask(session).rows
    assert {row.native_thread_id: (row.thread_num, row.level, row.state) for row in told[0]} == {
        row.native_thread_id: (row.thread_num, row.level, row.state) for row in own[0]
    }
    assert sorted((row.team_size, row.level, row.active_level) for row in told[1]) == sorted(
        (row.team_size, row.level, row.active_level) for row in own[1]
    )
    assert len(told[2]) == len(own[2])


@pytest.mark.usefixtures("hosts")
@pytest.mark.parametrize("width", WIDTHS)
def test_names_of_variables_are_the_librarys(width: int) -> None:
    with Session.open_core(core_of(built("preprocessed.c")), ompd_library=library(width)) as session:
        (row,) = stacks.ask(session, locals=True).rows
    (frame,) = (frame for frame in row.frames if frame.function == "code")
    found = {each.name: (each.text, each.sharing) for each in frame.locals or ()}
    assert found["total"] == ("2.5", "shared") and found["first"] == ("6", "firstprivate")


def test_one_of_32_bits_without_its_program_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(narrow, "PROGRAM", tmp_path / "host32")
    core = core_of(built("figure8.c", "stop.c", flags=("-DBY_KEY",)))
    with Session.open_core(core, ompd_library=library(32)) as session:
        answer = threads.ask(session)
    assert answer.rows[0].state == "overhead"  # the plugin's answer
    assert any("hosts such libraries is not there" in text for text in answer.warnings)


@pytest.mark.parametrize("is_refusing", [False, True])
def test_one_whose_functions_of_dmpl_fail_is_started_once(is_refusing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    class Failing:
        def __init__(self, loadable: Loads, **_: object) -> None:
            started.append(loadable.name)
            if not is_refusing:
                raise LibraryError(loadable.name, None, "crashed", has_ended=True)

        def initialise(self, *_: object) -> int:
            return 104

        def error_string(self, code: int) -> str:
            return f"code {code}"

    monkeypatch.setattr("ompd.runtimes.hosted.dmpl.beside.HostedLibrary", Failing)
    digest = sha256(Path(library(64)).read_bytes()).hexdigest()
    functions = Beside(library(64), digest, [])
    for _ in range(3):
        with pytest.raises(LibraryError, match="code 104 in DMPL_initialise" if is_refusing else "crashed"):
            functions.rtl_names(ord("c"))
    assert started == [library(64)]


def test_what_was_loaded_is_known_by_its_own_bytes(tmp_path: Path) -> None:
    # The file may have changed when ompd is asked which library it loaded.
    path = Path(shutil.copy(library(64), tmp_path / "libompd_stub.so"))
    loaded = sha256(path.read_bytes()).hexdigest()
    core = core_of(built("figure8.c", "stop.c", flags=("-DBY_KEY",)))
    with Session.open_core(core, ompd_library=str(path)) as session:
        (runtime,) = session.runtimes
        path.write_bytes(path.read_bytes() + b"more")
        assert runtime.found.hosted is not None and runtime.found.hosted.digest == loaded
        # The library's functions of DMPL are loaded later. A changed file would make them another library's.
        (row, *_) = variables.ask(session, "a").rows
        assert row.value is None and "another one than when it was loaded" in str(row.unavailable)


def test_an_error_that_is_raised_again_keeps_no_more_alive() -> None:
    error = OmpdError("why not")
    plugin = HostedPlugin("any", error, None)
    lengths = []
    for _ in range(3):
        with pytest.raises(OmpdError) as caught:
            plugin.process_initialize(None, None)  # type: ignore[arg-type]
        lengths.append(len(caught.traceback))
    assert lengths == [lengths[0]] * 3
