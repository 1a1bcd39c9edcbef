"""Hosted libraries that misbehave: the debugger always goes on, and names the call that failed."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ompd.errors import LibraryError, MemoryFault, Rc
from ompd.runtimes.hosted import process
from ompd.runtimes.hosted.api import Pending, SpaceRef, StateWords
from ompd.runtimes.hosted.client import HostedLibrary
from ompd.runtimes.hosted.protocol import ASK_SYMBOL
from ompd.runtimes.hosted.serving import Server
from tests.support.cache import CHECKOUT
from tests.support.garbage import uncollected
from tests.support.hosted import compiled, hosted, invented, time_passes_in, unconfined_command

LWP = 1
PLAIN = ("-DINITIALIZE_CODE=OK", "-DENUMERATION_STEP=0")
STATE = "ompd_get_state"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("hosted"), "hostile.c", *PLAIN)


@pytest.fixture
def host(library: Path) -> Iterator[tuple[HostedLibrary, list[str], SpaceRef]]:
    with hosted(library) as (made, warnings):
        yield made, warnings, made.batch().process_initialize(invented()).value()


@pytest.fixture
def unconfined(library: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[HostedLibrary, list[str], SpaceRef]]:
    monkeypatch.setattr(process, "worker_command", unconfined_command({}))
    with hosted(library) as (made, warnings):
        yield made, warnings, made.batch().process_initialize(invented()).value()


Host = tuple[HostedLibrary, list[str], SpaceRef]


def state(host: HostedLibrary, space: SpaceRef, number: int) -> Pending[StateWords]:
    """Return the state of the thread whose *number* selects how the library behaves."""
    batch = host.batch()
    return batch.get_state(batch.get_thread_handle(space, LWP, number))


def ended(host: HostedLibrary, space: SpaceRef, number: int) -> LibraryError:
    """Return the error of a call that the library does not survive. Later calls fail alike, and its process is gone."""
    error = state(host, space, number).error()
    assert error is not None and error.has_ended and error is host.error
    assert state(host, space, 100).error() is error
    with pytest.raises(ProcessLookupError):
        os.kill(host.process_id, 0)
    return error


@pytest.mark.parametrize(
    ("number", "fault"),
    [
        (1, "crashed (SIGSEGV)"),
        (2, "crashed (SIGABRT)"),
        (3, "its process exited with status 3"),
        (4, "its process exited with status 0"),
        (24, "crashed (SIGSEGV)"),
    ],
)
def test_a_library_that_ends_its_process_is_one_error(host: Host, number: int, fault: str) -> None:
    made, _, space = host
    error = ended(made, space, number)
    assert error.fault == fault and error.rc == Rc.ERROR
    if number != 24:  # 24 has overwritten the page that names the current call
        assert str(error) == f"{made.name}: {fault} in {STATE}"


@pytest.mark.parametrize("number", [10, 21, 23])
def test_one_that_damages_its_process_is_one_error_or_none(host: Host, number: int) -> None:
    # 10 damages the heap, 21 closes the connections, 23 writes garbage to all of them.
    made, _, space = host
    error = state(made, space, number).error()
    assert error is None or error.has_ended
    made.close()


@pytest.mark.parametrize("number", [7, 8, 9, 22])
def test_an_endless_loop_ends_in_one_error(library: Path, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    time_passes_in(monkeypatch, STATE)
    with hosted(library, seconds=1.0) as (made, _):
        space = made.batch().process_initialize(invented()).value()
        error = ended(made, space, number)
        assert str(error) == f"{library.name}: took more than 1 s in {STATE}"


START = "the library's own start"


@pytest.mark.parametrize("loop", ["for (;;)", "seem_to_call()"])
@pytest.mark.quick("for (;;)")
def test_a_constructor_has_no_more_time_than_a_call(loop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    time_passes_in(monkeypatch, START)
    made = compiled(tmp_path, "hostile.c", *PLAIN, f"-DSTART={loop}")
    with pytest.raises(LibraryError) as caught, hosted(made, seconds=1.0):
        raise AssertionError("it does not come to this")
    assert str(caught.value) == f"{made.name}: took more than 1 s in {START}"


@pytest.mark.parametrize("number", [35, 36, 37, 38])
@pytest.mark.quick("35", "36")
def test_one_that_pretends_to_go_on_ends_in_one_error(
    library: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    time_passes_in(monkeypatch, STATE)
    # The library has the worker's descriptors and sends calls, callbacks and warnings itself, without end.
    with hosted(library, seconds=1.0) as (made, warnings):
        ended(made, made.batch().process_initialize(invented()).value(), number)
        assert len(warnings) < 50


def test_calls_that_come_after_a_crash_in_a_batch_fail_alike(host: Host) -> None:
    made, _, space = host
    batch = made.batch()
    states = [batch.get_state(batch.get_thread_handle(space, LWP, number)) for number in (100, 1, 101)]
    assert {str(one.error()) for one in states} == {f"{made.name}: crashed (SIGSEGV) in {STATE}"}


def test_a_call_that_returns_twice_is_answered_once(unconfined: Host) -> None:
    made, _, space = unconfined
    assert state(made, space, 5).value().state == 0
    assert [state(made, space, number).value().state for number in range(100, 110)] == list(range(100, 110))


def test_processes_that_it_starts_end_with_it(unconfined: Host) -> None:
    made, _, space = unconfined
    child = state(made, space, 6).value().state
    watched = os.pidfd_open(child)
    made.close()
    assert select.select([watched], [], [], 60)[0] == [watched]
    os.close(watched)


def test_callbacks_from_another_thread_are_refused(unconfined: Host) -> None:
    made, warnings, space = unconfined
    assert state(made, space, 11).value().state == Rc.CALLBACK_ERROR
    assert warnings == [f"{made.name}: called back from a thread of its own, which is refused"]


def test_a_thread_that_calls_back_for_ever_disturbs_no_call(unconfined: Host) -> None:
    made, _, space = unconfined
    assert state(made, space, 12).value().state == 0
    batch = made.batch()
    threads = [batch.get_thread_handle(space, LWP, number) for number in range(100, 200)]
    assert [one.value().state for one in [batch.get_state(thread) for thread in threads]] == list(range(100, 200))
    assert state(made, space, 30).value() == (0x1000, 305419896)


def test_whether_it_can_start_anything_is_no_matter(host: Host) -> None:
    # If the system can confine the library, the library can start nothing.
    made, _, space = host
    for number in (5, 6, 11, 12):
        assert state(made, space, number).error() is None
    assert state(made, space, 30).value() == (0x1000, 305419896)


@pytest.mark.parametrize(("number", "code"), [(13, 4711), (14, -1)])
def test_codes_that_ompd_does_not_have_are_errors(host: Host, number: int, code: int) -> None:
    made, _, space = host
    error = state(made, space, number).error()
    assert error is not None and error.rc == Rc.ERROR and not error.has_ended
    assert str(error) == f"{made.name}: code {code}, which OMPD does not have, in {STATE}"


def test_what_is_no_handle_is_not_taken_for_one(host: Host) -> None:
    made, _, space = host
    batch = made.batch()
    none = batch.get_curr_parallel_handle(batch.get_thread_handle(space, LWP, 100))
    error = none.error()
    assert error is not None and error.fault == "success without a handle" and not error.has_ended
    dependent = batch.get_enclosing_parallel_handle(none).error()
    assert dependent is not None and dependent.fault == "not called, since its argument failed with ompd_rc_error,"


@pytest.mark.parametrize("number", [1, 2])
def test_a_handle_that_is_garbage_crashes_the_call_that_gets_it(host: Host, number: int) -> None:
    made, _, space = host
    batch = made.batch()
    region = batch.get_curr_parallel_handle(batch.get_thread_handle(space, LWP, number))
    with pytest.raises(LibraryError, match=r"crashed \(SIGSEGV\) in ompd_get_enclosing_parallel_handle"):
        batch.get_enclosing_parallel_handle(region).value()


def test_memory_that_is_too_much_is_refused(host: Host) -> None:
    made, _, space = host
    assert state(made, space, 15).value() == (Rc.NOMEM, 0)
    assert state(made, space, 16).value().state == 0
    assert state(made, space, 26).value().state == Rc.DEVICE_READ_ERROR


def test_callbacks_that_fail_take_no_memory_of_the_debugger(host: Host) -> None:
    made, _, space = host
    with uncollected() as left:
        assert state(made, space, 40).error() is None
    assert len(left) < 500


def test_a_name_longer_than_any_symbol_is_not_looked_up() -> None:
    process = invented()
    answer, error = Server(1, process, 1).answer(ASK_SYMBOL, 0, 0, 0, b"x" * 5000)
    assert str(error) == "a symbol's name of 5000 bytes" and process.lookups == [] and len(answer) < 100


def test_a_library_gets_no_more_memory_than_its_limit(library: Path) -> None:
    with hosted(library, memory=512 << 20) as (made, _):
        space = made.batch().process_initialize(invented()).value()
        outcome = state(made, space, 17)
        error = outcome.error()  # the library may go on without memory, or its process fails
        assert error is None or error.has_ended


def test_what_it_prints_has_no_escape_sequences(host: Host, capfd: pytest.CaptureFixture[str]) -> None:
    made, warnings, space = host
    assert state(made, space, 18).value().state == Rc.OK
    made.close()
    assert set(warnings) == {
        f"{made.name}: printed error \\x1b[32m",
        f"{made.name}: printed out \\x1b[31m",
        f"{made.name}: clear \\x1b[2J\\x1b]0;title\\x07 it\\n",
    }
    assert capfd.readouterr() == ("", "")
    assert made.version_text == "hostile \\x1b[31mlibrary"


@pytest.mark.parametrize("number", [19, 20])
def test_one_that_prints_much_is_cut_short(host: Host, number: int) -> None:
    made, warnings, space = host
    assert state(made, space, number).value().state >= 0
    assert sum(map(len, warnings)) < 100_000 and len(warnings) <= 42


def test_nothing_is_written_to_the_target(host: Host) -> None:
    made, warnings, space = host
    assert state(made, space, 25).value().state == Rc.DEVICE_WRITE_ERROR
    assert warnings == [f"{made.name}: wanted to write to the target, which is refused"]


def test_callbacks_with_arguments_that_nobody_may_pass_are_refused(host: Host) -> None:
    made, _, space = host
    assert state(made, space, 27).value().state == 13


def test_why_a_callback_failed_is_in_the_error(host: Host) -> None:
    made, _, space = host
    batch = made.batch()
    memory, symbol, fine = (batch.get_state(batch.get_thread_handle(space, LWP, one)) for one in (28, 29, 30))
    assert str(memory.error()) == (
        f"{made.name}: ompd_rc_device_read_error in {STATE}: cannot read 8 bytes at 0xdead0000"
    )
    assert str(symbol.error()) == f"{made.name}: ompd_rc_error in {STATE}: no symbol 'no_such_symbol'"
    found = memory.error()
    assert found is not None and isinstance(found.__cause__, MemoryFault)
    assert fine.value() == StateWords(0x1000, 305419896)


def test_texts_that_have_no_end_or_no_place_are_no_texts(host: Host) -> None:
    made, _, space = host
    batch = made.batch()
    texts = [batch.get_icv_string_from_scope(space, 2, number) for number in range(6)]
    assert [one.error() and one.error().fault for one in texts[:3]] == ["a result that cannot be read"] * 3  # type: ignore[union-attr]
    assert [one.value() for one in texts[3:5]] == ["its own", "ours�"]
    assert texts[5].error() is not None
    before = made.allocated
    assert made.batch().get_icv_string_from_scope(space, 2, 4).value() and made.allocated == before


def test_texts_of_one_batch_are_bounded_together(host: Host) -> None:
    made, _, space = host
    batch = made.batch()
    texts = [batch.get_icv_string_from_scope(space, 2, 6) for _ in range(40)]
    faults = [one.error() for one in texts]
    assert faults[:18] == [None] * 18 and {one and one.fault for one in faults[18:]} == {"an impossible size"}
    assert len(texts[0].value()) == 900_000 and made.error is None


def test_enumerations_that_have_no_end_are_errors(library: Path, tmp_path: Path, host: Host) -> None:
    made, _, space = host
    error = made.batch().enumerate_states(space).error()
    assert error is not None and error.fault == "an enumeration without end"
    batch = made.batch()
    unbounded, negative = batch.get_display_control_vars(space), batch.get_device_thread_id_kinds(space)
    refused = batch.enumerate_icvs(space)
    assert [one.error() and one.error().fault for one in (unbounded, negative, refused)] == [  # type: ignore[attr-defined]
        "a result that cannot be read",
        "an impossible size",
        "ompd_rc_bad_input",
    ]
    counting = compiled(tmp_path, "hostile.c", "-DINITIALIZE_CODE=OK", "-DENUMERATION_STEP=1")
    with hosted(counting) as (other, _):
        error = other.batch().enumerate_states(other.batch().process_initialize(invented()).value()).error()
        assert error is not None and error.fault == "an enumeration without end" and not error.has_ended


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-DINITIALIZE_CODE=UNSUPPORTED",), r": ompd_rc_unsupported in ompd_initialize"),
        (("-DINITIALIZE_CODE=77",), r": code 77, which OMPD does not have, in ompd_initialize"),
        (("-DINITIALIZE_CODE=OK", "-DSTART=raise(SIGSEGV)"), r": crashed \(SIGSEGV\) in the library's own start"),
        (("-DINITIALIZE_CODE=raise(SIGSEGV)",), r": crashed \(SIGSEGV\) in ompd_initialize"),
        (("-DINITIALIZE_CODE=OK", "-Dompd_initialize=other"), r": not an OMPD library: it has no function ompd_init"),
        (("-DINITIALIZE_CODE=not_there()",), r": cannot be loaded: .*undefined symbol: not_there"),
    ],
)
def test_one_that_cannot_be_used_says_why(tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    made = compiled(tmp_path, "hostile.c", "-DENUMERATION_STEP=0", *options)
    with pytest.raises(LibraryError, match=message) as caught, hosted(made):
        raise AssertionError("it does not come to this")
    assert caught.value.has_ended


def test_what_is_no_library_cannot_be_loaded(tmp_path: Path) -> None:
    text = tmp_path / "libtext.so"
    text.write_text("no library")
    with pytest.raises(LibraryError, match=r"libtext\.so: cannot be loaded: .*"), hosted(text):
        raise AssertionError("it does not come to this")


def test_one_that_fails_at_the_end_costs_a_warning(tmp_path: Path) -> None:
    with hosted(compiled(tmp_path, "hostile.c", *PLAIN, "-DENDS_BADLY")) as (made, warnings):
        assert made.batch().process_initialize(invented()).value()
    assert warnings == [f"{made.name}: crashed (SIGILL) in ompd_finalize"]


def test_a_crash_where_a_handle_is_released_is_said_of_that_function(host: Host) -> None:
    made, _, space = host
    assert state(made, space, 1000).value()  # no result holds its handle any more
    error = state(made, space, 100).error()
    assert error is not None and str(error) == f"{made.name}: crashed (SIGBUS) in ompd_rel_thread_handle"


def test_an_interrupt_ends_the_library(host: Host) -> None:
    made, _, space = host
    interrupted = invented()
    interrupted.failure = KeyboardInterrupt()
    other = made.batch().process_initialize(interrupted).value()
    with pytest.raises(KeyboardInterrupt):
        state(made, other, 30).value()
    assert made.error is not None and made.error.fault == "interrupted" and space.number


HOST = """
import sys
from pathlib import Path
from tests.support.hosted import hosted, invented
with hosted(Path(sys.argv[1])) as (made, _):
    batch = made.batch()
    thread = batch.get_thread_handle(batch.process_initialize(invented()), 1, 7)
    batch.run()
    print(made.process_id, flush=True)
    made.batch().get_state(thread).value()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_library_that_loops_ends_with_its_host(library: Path, number: signal.Signals) -> None:
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    command = [sys.executable, "-c", HOST, str(library)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as host:
        assert host.stdout is not None
        worker = os.pidfd_open(int(host.stdout.readline()))
        host.send_signal(number)
        assert select.select([worker], [], [], 60)[0] == [worker]
        os.close(worker)
        host.wait(60)
