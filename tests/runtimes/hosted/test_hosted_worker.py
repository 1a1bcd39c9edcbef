"""A library in its own process: batches, handles, the data that the process keeps, and the release of all memory."""

from __future__ import annotations

import gc
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ompd.contract.ompd import Scope, ThreadIdKind
from ompd.errors import LibraryError, Rc
from ompd.runtimes.hosted import connection
from ompd.runtimes.hosted.api import Batch, Icv, IcvWord, ParallelRef, Pending, SpaceRef, TaskRef, ThreadRef
from ompd.runtimes.hosted.client import HostedLibrary
from ompd.runtimes.hosted.loading.libraries import open_library
from ompd.runtimes.hosted.messages import MAX_ROWS, Call, Malformed, Reply, Row, clean, read_replies
from ompd.runtimes.hosted.process import interpreters
from ompd.runtimes.hosted.protocol import (
    ANSWER_HEAD,
    ASK_MEMORY,
    ASK_SYMBOL,
    ASK_THREAD,
    CALLED,
    MAX_MESSAGE,
    PAGE,
    RESULT,
    RESULTS_HEAD,
    packed_rows,
)
from ompd.runtimes.hosted.serving import Server
from ompd.runtimes.hosted.signatures import MAX_ENUMERATED, SIGNATURES, UNWRITTEN, Function
from ompd.session import Session
from tests.support import intel_runtime, running
from tests.support.cache import CHECKOUT
from tests.support.hosted import Invented, compiled, hosted, invented, loadable, time_passes_in
from tests.support.vendor import told

PLAIN = ("-DINITIALIZE_CODE=OK", "-DENUMERATION_STEP=0")
LWP = 1


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("hosted"), "hostile.c", *PLAIN)


@pytest.fixture
def made(library: Path) -> Iterator[HostedLibrary]:
    with hosted(library) as (found, _):
        yield found


def test_a_batch_makes_its_calls_in_one_exchange(made: HostedLibrary) -> None:
    batch = made.batch()
    space = batch.process_initialize(invented())
    threads = [batch.get_thread_handle(space, LWP, number) for number in range(100, 150)]
    states = [batch.get_state(thread) for thread in threads]
    assert len(batch) == 101
    assert states[49].value() == (149, 149)  # sends the whole batch
    assert len(batch) == 0
    assert [one.value().state for one in states] == list(range(100, 150))
    assert isinstance(threads[0].value(), ThreadRef) and isinstance(space.value(), SpaceRef)


def test_the_version_of_the_interface_is_the_librarys(made: HostedLibrary) -> None:
    assert made.api_version == 202111
    assert "ompd_get_state" in made.functions and "ompd_get_task_function" not in made.functions
    space = made.batch().process_initialize(invented()).value()
    error = made.batch().get_omp_version_string(space).error()
    assert error is not None and error.rc == Rc.UNSUPPORTED and error.fault == "not implemented"


def test_numbers_keep_their_sign_and_incomplete_ones_their_value(made: HostedLibrary) -> None:
    space = made.batch().process_initialize(invented()).value()
    batch = made.batch()
    plain, first, refused = (batch.get_icv_from_scope(space, scope, one) for scope, one in ((3, 5), (3, 7), (2, 5)))
    assert plain.value() == IcvWord(-5, is_whole=True) and first.value() == IcvWord(-7, is_whole=False)
    error = refused.error()
    assert error is not None and error.rc == Rc.UNAVAILABLE
    assert str(error) == f"{made.name}: ompd_rc_unavailable in ompd_get_icv_from_scope"


def test_callbacks_are_answered(made: HostedLibrary) -> None:
    space = made.batch().process_initialize(invented()).value()
    batch = made.batch()
    found = [batch.get_state(batch.get_thread_handle(space, LWP, number)) for number in (30, 31, 32, 33, 34)]
    assert [one.value() for one in found] == [
        (0x1000, 305419896),
        (6, ord("e") << 8 | ord("#")),  # \3 \4 t e: four bytes, and the byte after them is not written
        (-1, 0x04030201),
        (8, 33),
        (4242, 34),
    ]


def test_what_the_process_keeps_is_not_asked_for_again(made: HostedLibrary) -> None:
    process = invented()
    space = made.batch().process_initialize(process).value()
    for _ in range(20):
        batch = made.batch()
        states = [batch.get_state(batch.get_thread_handle(space, LWP, 30)) for _ in range(20)]
        assert {one.value() for one in states} == {(0x1000, 305419896)}
    assert process.reads == [(0x1000, 0x1000)]
    assert process.lookups == [("counter", None)]


def test_a_failed_lookup_is_not_repeated(made: HostedLibrary) -> None:
    process = invented()
    space = made.batch().process_initialize(process).value()
    for _ in range(5):
        batch = made.batch()
        error = batch.get_state(batch.get_thread_handle(space, LWP, 29)).error()
        assert error is not None and error.rc == Rc.ERROR
    assert process.lookups == [("no_such_symbol", None)]


def test_memory_is_read_ahead_only_where_that_is_allowed(made: HostedLibrary) -> None:
    memory = {0x10000: bytes(0x20000)}
    symbols = {"counter": 0x12345}
    near, far = Invented(memory, symbols), Invented(memory, symbols)
    for process, ahead in ((near, 0), (far, 0x8000)):
        space = made.batch().process_initialize(process, ahead=ahead).value()
        batch = made.batch()
        assert batch.get_state(batch.get_thread_handle(space, LWP, 30)).value() == (0x12345, 0)
    assert near.reads == [(0x12000, 0x1000)]
    assert far.reads == [(0x10000, 0x8000)]


def test_numbers_of_a_target_with_the_other_byte_order_are_turned(made: HostedLibrary) -> None:
    process = invented()
    process.byte_order = "little" if sys.byteorder == "big" else "big"
    space = made.batch().process_initialize(process).value()
    batch = made.batch()
    assert batch.get_state(batch.get_thread_handle(space, LWP, 30)).value().wait_id == 0x78563412


def test_a_device_has_an_address_space_and_callbacks_of_its_own(made: HostedLibrary) -> None:
    process, device = invented(), invented()
    batch = made.batch()
    host = batch.process_initialize(process)
    space = batch.device_initialize(host, device, 1000000, b"\x05\x01")
    other = batch.device_initialize(host, device, 7, b"\x05\x01")
    version = batch.get_omp_version(space)
    state = batch.get_state(batch.get_thread_handle(space, LWP, 30))
    assert version.value() == 0x105 and state.value().wait_id == 305419896
    error = other.error()
    assert error is not None and error.rc == Rc.UNSUPPORTED
    assert device.reads and not process.reads
    made.close()
    assert made.allocated == 0


def test_several_libraries_and_processes_do_not_mix(library: Path) -> None:
    one = Invented({0x1000: (1).to_bytes(4, "little") + bytes(4092)}, {"counter": 0x1000})
    two = Invented({0x1000: (2).to_bytes(4, "little") + bytes(4092)}, {"counter": 0x1000})
    with hosted(library) as (first, _), hosted(library) as (second, _):
        spaces = [
            (host, host.batch().process_initialize(process).value())
            for host in (first, second)
            for process in (one, two)
        ]
        found = []
        for host, space in spaces:
            batch = host.batch()
            found.append(batch.get_state(batch.get_thread_handle(space, LWP, 30)).value().wait_id)
        assert found == [1, 2, 1, 2]
        batch = first.batch()
        assert batch.get_state(batch.get_thread_handle(spaces[0][1], LWP, 1)).error() is not None
        batch = second.batch()
        assert batch.get_state(batch.get_thread_handle(spaces[2][1], LWP, 30)).value().wait_id == 1


def test_handles_that_nobody_has_are_released(made: HostedLibrary) -> None:
    space = made.batch().process_initialize(invented()).value()
    for _ in range(3):
        batch = made.batch()
        states = [batch.get_state(batch.get_thread_handle(space, LWP, 100)) for _ in range(50)]
        batch.run()
        del states
        gc.collect()
        assert made.allocated == 51  # 50 threads and the address space; the handles of the round before are gone
    made.batch().enumerate_states(space).error()
    assert made.allocated == 1
    made.close()
    assert made.allocated == 0


def test_a_handle_is_not_released_before_the_call_that_it_is_for(made: HostedLibrary) -> None:
    space = made.batch().process_initialize(invented()).value()
    thread = made.batch().get_thread_handle(space, LWP, 100).value()
    batch = made.batch()
    state = batch.get_state(thread)
    del thread
    gc.collect()
    assert state.value().state == 100


def test_an_address_space_lives_as_long_as_its_handles(made: HostedLibrary) -> None:
    batch = made.batch()
    thread = batch.get_thread_handle(batch.process_initialize(invented()), LWP, 30).value()
    del batch
    gc.collect()
    assert made.batch().get_state(thread).value().wait_id == 305419896
    assert made.allocated == 2
    del thread
    gc.collect()
    other = made.batch().process_initialize(invented()).value()
    assert made.allocated == 1 and other.number


def test_a_forgotten_address_space_takes_its_handles_along(made: HostedLibrary) -> None:
    space = made.batch().process_initialize(invented()).value()
    thread = made.batch().get_thread_handle(space, LWP, 100).value()
    made.forget(space)
    assert made.allocated == 0
    error = made.batch().get_state(thread).error()
    assert error is not None and error.fault == "a handle that is not valid here" and error.rc == Rc.BAD_INPUT


def test_a_handle_of_another_kind_is_refused(made: HostedLibrary) -> None:
    space = made.batch().process_initialize(invented()).value()
    error = made.batch().get_state(space).error()  # type: ignore[arg-type]
    assert error is not None and error.rc == Rc.BAD_INPUT
    made.close()
    after = made.batch().enumerate_states(space).error()
    assert after is not None and "closed" in after.fault


def test_a_library_may_start_while_something_else_is_done(library: Path) -> None:
    with loadable(library) as copy:
        with HostedLibrary(copy, waits=False) as made:
            assert made.api_version == 0
            assert made.batch().process_initialize(invented()).value()
            assert made.api_version == 202111
        with HostedLibrary(copy, waits=False):
            pass  # no call needed the library


def test_a_library_that_nobody_closes_ends(library: Path) -> None:
    with loadable(library) as copy:
        made = HostedLibrary(copy)
    number = made.process_id
    del made
    gc.collect()
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


def test_inside_a_debugger_another_interpreter_is_found(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/usr/bin/lldb")
    found = interpreters()
    assert found and all("/bin/python3" in path for path in found)
    with hosted(library) as (made, _):
        assert made.api_version == 202111


def test_an_interpreter_that_does_not_run_is_passed_over(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "python3"
    broken.write_text("#!/bin/sh\necho broken >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(connection, "interpreters", lambda: [str(broken), sys.executable])
    with hosted(library) as (made, warnings):
        assert made.api_version == 202111 and warnings == []
    monkeypatch.setattr(connection, "interpreters", lambda: [str(broken)])
    with pytest.raises(LibraryError, match=r"its process exited with status 1$"), hosted(library):
        raise AssertionError("it does not come to this")


def test_a_call_from_within_a_callback_is_refused(made: HostedLibrary) -> None:
    answers: list[LibraryError | None] = []
    inner = invented()
    space = made.batch().process_initialize(inner).value()

    class Asking(Invented):
        def find_symbol(self, name: str, *, thread: int | None = None) -> int:
            answers.append(made.batch().get_omp_version(space).error())
            return super().find_symbol(name, thread=thread)

    other = made.batch().process_initialize(Asking({0x1000: bytes(4096)}, {"counter": 0x1000})).value()
    batch = made.batch()
    assert batch.get_state(batch.get_thread_handle(other, LWP, 30)).value() == (0x1000, 0)
    (refused,) = answers
    assert refused is not None and "within a callback" in refused.fault and not refused.has_ended


def test_what_the_process_inherits_is_what_it_needs(library: Path) -> None:
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    os.environ["LD_HOSTED_TEST"] = "1"
    try:
        with hosted(library) as (made, _):
            own = Path(f"/proc/{made.process_id}")
            targets = {str(one.readlink()) for one in (own / "fd").iterdir()}
            assert f"pipe:[{os.fstat(writing).st_ino}]" not in targets
            assert (own / "environ").read_bytes() == b"" and (own / "cwd").readlink() == Path("/")
            assert os.getsid(made.process_id) == made.process_id
    finally:
        del os.environ["LD_HOSTED_TEST"]
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize(
    "name", ["socket.socketpair", "memory_file", "mmap.mmap", "os.set_blocking", "subprocess.Popen"]
)
def test_a_process_that_cannot_be_started_leaves_nothing_open(
    name: str, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("none left, for a test")

    with loadable(library) as found:
        before = sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208
        monkeypatch.setattr(f"ompd.runtimes.hosted.process.{name}", fail)
        with pytest.raises(LibraryError, match="no process for it: none left, for a test"):
            HostedLibrary(found)
        assert sorted(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_the_worker_loads_little() -> None:
    # Python itself takes half of the time that a worker needs to start.
    program = (
        f"import sys; before = set(sys.modules); sys.path.append({str(CHECKOUT)!r})\n"
        "import ompd.runtimes.hosted.worker.main, ompd.runtimes.hosted.worker.calls\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"contextlib", "dataclasses", "enum", "re", "signal", "socket", "typing"}
    own = {name for name in loaded if name.startswith("ompd")}
    assert own - {name for name in own if name.startswith("ompd.runtimes.hosted.worker")} == {
        *("ompd", "ompd.runtimes", "ompd.runtimes.hosted"),
        *(f"ompd.runtimes.hosted.{name}" for name in ("protocol", "signatures")),
        *(f"ompd.runtimes.hosted.{name}" for name in ("loading", "loading.loader", "loading.sandbox")),
    }


def test_a_live_process_runs_on_whatever_its_library_does(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    time_passes_in(monkeypatch, "ompd_get_state")
    with (
        running("nested", folder=tmp_path) as program,
        Session.attach(program.pid) as session,
        hosted(library, seconds=1.0) as (made, _),
    ):

        def ask(asked: Session) -> None:
            (runtime,) = asked.runtimes
            assert runtime.space is not None
            batch = made.batch()
            space = batch.process_initialize(asked.process.contract.callbacks(runtime.space.module))
            batch.get_state(batch.get_thread_handle(space, LWP, 7)).value()

        with pytest.raises(LibraryError, match="took more than 1 s in ompd_get_state"):
            session.ask(ask)
        for status in Path(f"/proc/{program.pid}/task").glob("*/status"):
            text = status.read_text()
            assert "TracerPid:\t0\n" in text and "\nState:\tt" not in text


# The vendor's library


class Seen:
    """The answers of a hosted library about one core, in the words of ``vendor_host``."""

    def __init__(self, made: HostedLibrary, space: SpaceRef) -> None:
        self._made, self._space = made, space
        self._icvs = made.batch().enumerate_icvs(space).value()

    def values(self, handle: Any, scope: Scope) -> dict[str, dict[str, Any]]:
        batch = self._made.batch()
        own = [icv for icv in self._icvs if icv.scope == scope]
        numbers = [batch.get_icv_from_scope(handle, scope, icv.number) for icv in own]
        texts = [batch.get_icv_string_from_scope(handle, scope, icv.number) for icv in own]
        found = {}
        for icv, number, text in zip(own, numbers, texts, strict=True):
            error = number.error()
            rc = error.rc if error is not None else Rc.OK if number.value().is_whole else Rc.INCOMPLETE
            value = number.value().value if error is None else None
            found[icv.name] = {"rc": rc, "number": value, "text": answered(text)}
        return found

    def chain(self, first: Pending[Any], kind: str) -> list[Any]:
        found, batch = [], self._made.batch()
        while first.error() is None and len(found) < 50:
            found.append(first.value())
            if kind == "parallel":
                first = batch.get_enclosing_parallel_handle(found[-1])
            else:
                first = batch.get_generating_task_handle(found[-1])
        assert first.error() is not None and first.error().rc in (Rc.UNAVAILABLE, Rc.UNSUPPORTED)  # type: ignore[union-attr]
        return found

    def parallel(self, region: ParallelRef) -> dict[str, Any]:
        batch = self._made.batch()
        icvs = self.values(region, Scope.PARALLEL)
        threads = [batch.get_thread_in_parallel(region, one) for one in range(icvs["team-size-var"]["number"])]
        data = batch.get_tool_data(region, Scope.PARALLEL)
        natives = [batch.get_thread_id(one, ThreadIdKind.PTHREAD).value() for one in threads]
        return {"icvs": icvs, "threads": natives, "tool_data": data.value().value}

    def task(self, task: TaskRef) -> dict[str, Any]:
        batch = self._made.batch()
        data, function = batch.get_tool_data(task, Scope.TASK), batch.get_task_function(task)
        frames = batch.get_task_frame(task)
        flags = [frame.flag for frame in frames.value()]
        assert flags == [None, None]  # the library never writes the flags
        return {
            "icvs": self.values(task, Scope.TASK),
            "tool_data": data.value().value,
            "function": answered(function),
            "frames": [frame.address for frame in frames.value()],
        }


def answered(result: Pending[Any]) -> Any:
    error = result.error()
    return {"rc": error.rc} if error is not None else result.value()


def same_keys(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    assert ours == {name: theirs[name] for name in ours}


@pytest.mark.parametrize("program", ["nested", "task_tree"])
def test_the_vendors_library_answers_as_in_a_host_of_its_own(program: str) -> None:
    core, theirs = told(program)
    warnings: list[str] = []
    with open_library(str(intel_runtime() / "lib" / "libiomp5_db.so")) as library:
        made = HostedLibrary(library, warnings=warnings)
    with made, Session.open_core(core.core) as session:
        (runtime,) = session.runtimes
        assert runtime.space is not None
        callbacks = session.process.contract.callbacks(runtime.space.module)
        space = made.batch().process_initialize(callbacks, ahead=1 << 16).value()
        seen = Seen(made, space)
        batch = made.batch()
        assert batch.get_omp_version(space).value() == theirs["omp_version"]
        assert batch.get_omp_version_string(space).value() == theirs["omp_version_text"]
        assert {name: number for number, name in batch.enumerate_states(space).value().items()} == theirs["states"]
        assert batch.enumerate_icvs(space).value() == [Icv(n, name, Scope(s)) for n, name, s in theirs["icvs"]]
        texts = dict(text.split("=", 1) for text in batch.get_display_control_vars(space).value())
        assert texts == theirs["display_control_vars"]
        assert seen.values(space, Scope.ADDRESS_SPACE) == theirs["address_space"]
        (kind,) = batch.get_device_thread_id_kinds(space).value()
        assert kind == (ThreadIdKind.PTHREAD, 8)
        for native, answer in theirs["threads"].items():
            thread = batch.get_thread_handle(
                space, ThreadIdKind.PTHREAD, session.process.threads.thread_pointer(int(native))
            )
            if "rc" in answer:
                error = thread.error()
                assert error is not None and error.rc == answer["rc"]
                continue
            check_thread(seen, batch, thread.value(), answer)
        made.forget(space)
        assert made.allocated == 1  # memory of ompd_process_initialize, which this library never frees
    assert warnings == []


def check_thread(seen: Seen, batch: Batch, thread: ThreadRef, theirs: dict[str, Any]) -> None:
    assert batch.get_thread_id(thread, ThreadIdKind.PTHREAD).value() == theirs["native"]
    assert list(batch.get_state(thread).value()) == theirs["state"]
    assert batch.get_tool_data(thread, Scope.THREAD).value().value == theirs["tool_data"]
    assert batch.get_device_from_thread(thread).value()
    assert seen.values(thread, Scope.THREAD) == theirs["icvs"]
    regions = seen.chain(batch.get_curr_parallel_handle(thread), "parallel")
    for region, other in zip(regions, theirs["parallels"], strict=True):
        same_keys(seen.parallel(region), other)
        assert batch.parallel_handle_compare(region, region).value() == 0
    tasks = seen.chain(batch.get_curr_task_handle(thread), "task")
    for task, other in zip(tasks, theirs["tasks"], strict=True):
        same_keys(seen.task(task), other)
    assert [batch.task_handle_compare(tasks[0], task).value() == 0 for task in tasks[1:]] == [False] * len(tasks[1:])


def test_the_page_has_the_functions_and_their_numbers() -> None:
    page = (CHECKOUT / "docs" / "dev" / "hosted-protocol.md").read_text()
    listed = re.findall(r"^\| (\d+) \| `(ompd_\w+)` \| (.*?) \| (.*?) \|$", page, re.MULTILINE)
    table = [(number, one.name, one.takes, one.gives) for number, one in SIGNATURES.items() if number != Function.LOAD]
    assert [(int(row[0]), row[1], *(one.replace(" ", "") for one in row[2:])) for row in listed] == table
    assert f"-{-UNWRITTEN:#x}".lower() in page.lower() and f"more than {MAX_ENUMERATED} items" in page


# Messages that a library may have overwritten: the host trusts none of them


def results(places: Sequence[tuple[int, int]], rows: bytes) -> bytes:
    """Return a message with results whose rows are at these places: offset and number."""
    parts = [RESULT.pack(Rc.OK, CALLED, count, 0, offset << 32, 0, 0, 0) for offset, count in places]
    return RESULTS_HEAD.pack(len(places), 0) + b"".join(parts) + rows


def test_rows_belong_to_one_result_and_are_few() -> None:
    rows = packed_rows([(1, 2, b"one"), (3, 4, b"two")])
    size = len(rows) // 2
    replies, _ = read_replies(results([(0, 1), (size, 1)], rows), 2)
    assert [reply.rows for reply in replies] == [[(1, 2, b"one")], [(3, 4, b"two")]]
    for offset, count in ((0, 1), (size - 1, 1), (len(rows), 1), (len(rows), 1 << 20)):
        with pytest.raises(Malformed):
            read_replies(results([(0, 1), (offset, count)], rows), 2)
    with pytest.raises(Malformed):
        read_replies(results([(0, 2)], rows[:-1]), 1)
    empty = packed_rows([(0, 0, b"")] * (MAX_ROWS + 1))
    assert len(read_replies(results([(0, MAX_ROWS)], empty), 1)[0][0].rows) == MAX_ROWS
    with pytest.raises(Malformed):
        read_replies(results([(0, MAX_ROWS + 1)], empty), 1)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        RESULTS_HEAD.pack(2, 0) + RESULT.pack(Rc.OK, CALLED, 0, 0, 0, 0, 0, 0) * 2,
        RESULTS_HEAD.pack(1, 0) + RESULT.pack(Rc.OK, CALLED, 0, 0, 0, 0, 0, 0)[:-1],
        RESULTS_HEAD.pack(1, 0) + RESULT.pack(Rc.OK, CALLED, 1, 0, 1 << 32, 0, 0, 0) + packed_rows([(0, 0, b"")]),
    ],
)
def test_a_damaged_message_is_no_reply(body: bytes) -> None:
    with pytest.raises(Malformed):
        read_replies(body, 1)


def test_a_callback_that_cannot_take_its_arguments_is_an_error() -> None:
    class Careless(Invented):
        def find_symbol(self, name: str, *, thread: int | None = None) -> int:
            raise KeyError(thread)

    server = Server(1, Careless({}, {}), 0)
    server.begin()
    answer, error = server.answer(ASK_SYMBOL, 1 << 63, 0, 0, b"counter")
    assert ANSWER_HEAD.unpack(answer) == (Rc.ERROR, 0) and "KeyError" in str(error)


def test_what_is_served_in_one_exchange_is_bounded() -> None:
    server = Server(1, Invented({0: bytes(1 << 23)}, {}), 0)
    server.begin()
    codes = [ANSWER_HEAD.unpack_from(server.answer(ASK_MEMORY, 0, 0, 1 << 23, b"")[0])[0] for _ in range(136)]
    assert codes == [Rc.OK] * 128 + [Rc.DEVICE_READ_ERROR] * 8
    for kind in range(3):
        server.answer(ASK_THREAD, 0, kind, 0, (1 << 40).to_bytes(8, "little"))
    server.begin()
    assert ANSWER_HEAD.unpack_from(server.answer(ASK_MEMORY, 0, 0, 1, b"")[0]) == (Rc.OK, 1)


def test_an_answer_for_many_threads_is_no_larger_than_a_message() -> None:
    class Local(Invented):
        def thread_for_id(self, kind: ThreadIdKind, identifier: int) -> int:
            return identifier

        def find_symbol(self, name: str, *, thread: int | None = None) -> int:
            return (thread or 0) * PAGE

        def read(self, address: int, size: int) -> bytes:
            return bytes(size)

    server = Server(1, Local({}, {}), 0)
    server.begin()
    identifiers = [(ThreadIdKind.LWP, number.to_bytes(4, "little")) for number in range(1, 10_000)]
    server.expect(identifiers)
    assert server.answer(ASK_THREAD, 0, ThreadIdKind.LWP, 0, identifiers[0][1])[1] is None
    answer, error = server.answer(ASK_SYMBOL, 1, 0, 0, b"counter")
    assert error is None and len(answer) < MAX_MESSAGE // 2 and ANSWER_HEAD.unpack_from(answer)[1] > 2000


@pytest.mark.parametrize(
    ("function", "count"),
    [(Function.GET_OMP_VERSION_STRING, 0), (Function.GET_OMP_VERSION, 1), (Function.GET_STATE, 2)],
)
def test_a_result_of_another_kind_is_no_result(made: HostedLibrary, function: int, count: int) -> None:
    reply = Reply(Rc.OK, CALLED, 0, (0, 0, 0, 0), [Row(0, 0, b"")] * count)
    with pytest.raises(Malformed):
        made._outcomes([Call(function, ())], [reply])


def test_the_first_of_a_list_is_a_result_of_variables_alone(made: HostedLibrary) -> None:
    reply = Reply(Rc.INCOMPLETE, CALLED, 0, (5, 0, 0, 0), ())
    assert made._outcomes([Call(Function.GET_ICV_FROM_SCOPE, ())], [reply])[0].words == [5]
    error = made._outcomes([Call(Function.GET_STATE, ())], [reply])[0].error
    assert error is not None and error.rc == Rc.INCOMPLETE


def test_nobody_is_signalled_once_somebody_else_has_waited_for_the_process(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A debugger may wait for all children of its process.
    signalled: list[int] = []
    monkeypatch.setattr(os, "killpg", lambda group, number: signalled.append(group))
    with hosted(library) as (made, _):
        own = made.process_id
        signal.pidfd_send_signal(descriptor := os.pidfd_open(own), signal.SIGKILL)
        os.close(descriptor)
        os.waitpid(own, 0)
        with pytest.raises(LibraryError):
            made.batch().get_omp_version(made.batch().process_initialize(invented())).value()
    assert signalled == []


def test_a_text_is_cut_before_it_is_cleaned() -> None:
    assert clean(b"\x1b" * (32 << 20)) == "\\x1b" * 4096
    assert clean("plain") == "plain"
