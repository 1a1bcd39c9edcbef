"""The stub's OMPD library in C, in its own process: each fact that OMPD has a call for equals the plugin's answer.

OMPD has no call for the holder of a lock, tasks that wait to begin, barriers, and the runtime's own version.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from ompd.contract.ompd import Scope, ThreadIdKind
from ompd.contract.plugin import AddressSpace, ParallelHandle, TaskHandle, ThreadHandle
from ompd.errors import LibraryError, Rc, Unavailable
from ompd.runtimes.hosted.api import Batch, ParallelRef, Pending, SpaceRef, TaskRef, ThreadRef
from ompd.runtimes.hosted.client import HostedLibrary
from ompd.runtimes.hosted.worker.callbacks import CallbackTable
from ompd.session import Session
from tests.stub.programs import built, core_of
from tests.support.hosted import loadable
from tests.support.machine import FULL
from tests.support.products import sample
from tests.support.stub import host32, stub_folder
from tests.support.stub_cores import on_stub

_NOTHING = (Rc.UNAVAILABLE, Rc.NEEDS_STATE_TRACKING)


@contextmanager
def hosted(warnings: list[str], width: int = 64) -> Iterator[HostedLibrary]:
    path = stub_folder() / ("libompd_stub32.so" if width == 32 else "libompd_stub.so")
    program = host32() if width == 32 else None
    with loadable(path) as found, HostedLibrary(found, warnings=warnings, program=program) as library:
        yield library


def own(ask: Callable[[], Any]) -> Any:
    """Return the plugin's answer, None also if the runtime does not keep the fact."""
    try:
        return ask()
    except Unavailable:
        return None


class Comparison:
    """Compares the library with the plugin, handle by handle, and each region and task once."""

    def __init__(self, batch: Batch, space: SpaceRef, ours: AddressSpace) -> None:
        self.batch, self.space, self.ours = batch, space, ours
        self.differences: list[str] = []
        self.facts = 0
        self.icvs = {icv.name: icv for icv in batch.enumerate_icvs(space).value()}
        self._seen: set[object] = set()

    def expect(self, what: str, told: object, true: object) -> None:
        self.facts += 1
        if told != true:
            self.differences.append(f"{what}: {told!r}, in truth {true!r}")

    def answer(self, pending: Pending[Any]) -> Any:
        error = pending.error()
        if error is None:
            return pending.value()
        if error.rc not in _NOTHING:
            raise error
        return None

    def everything(self) -> None:
        batch, space = self.batch, self.space
        self.expect("version", batch.get_omp_version(space).value(), self.ours.omp_version())
        names = {
            number: name.removeprefix("ompt_state_") for number, name in batch.enumerate_states(space).value().items()
        }
        self.expect("states", names, dict(self.ours.states()))
        self.expect("names of variables", set(self.icvs), {icv.name for icv in self.ours.icvs()})
        for icv in self.ours.icvs():
            self.expect(f"scope of {icv.name}", self.icvs[icv.name].scope, icv.scope)
        self.variables("process", space, Scope.ADDRESS_SPACE, self.ours)
        self.settings = dict(text.split("=") for text in batch.get_display_control_vars(space).value())
        self.expect("settings", self.settings, dict(self.ours.display_control_vars()))
        for thread in self.ours.threads():
            self.thread(thread)

    def thread(self, thread: ThreadHandle) -> None:
        what = f"thread {thread.native_thread_id()}"
        pthread, lwp = (thread.native_id(kind) for kind in (ThreadIdKind.PTHREAD, ThreadIdKind.LWP))
        ref = self.batch.get_thread_handle(self.space, ThreadIdKind.PTHREAD, pthread).value()
        other = self.batch.get_thread_handle(self.space, ThreadIdKind.LWP, lwp).value()
        self.expect(f"{what} by both", self.batch.thread_handle_compare(ref, other).value(), 0)
        self.expect(f"{what}: lwp", self.batch.get_thread_id(ref, ThreadIdKind.LWP).value(), lwp)
        state = self.answer(self.batch.get_state(ref))
        true = thread.state() if self.ours.keeps_states() else None
        self.expect(f"{what}: state", state and state.state, true and true.state)
        if true is not None and true.wait_id is not None:
            self.expect(f"{what}: wait", state.wait_id, true.wait_id)
        self.tool_data(what, ref, Scope.THREAD, thread.tool_data)
        task = thread.current_task()
        told = self.answer(self.batch.get_curr_task_handle(ref))
        self.expect(f"{what}: has a task", told is not None, task is not None)
        if task is not None:
            self.variables(what, ref, Scope.THREAD, thread)
            self.task(f"task of {what}", told, task)
        self.region(
            f"region of {what}", self.answer(self.batch.get_curr_parallel_handle(ref)), thread.current_parallel()
        )

    def region(self, what: str, ref: ParallelRef | None, region: ParallelHandle | None) -> None:
        if region is None:
            # An initial thread outside of all regions is in the implicit region of level 0.
            if ref is not None:
                level = self.icvs["levels-var"]
                told = self.batch.get_icv_from_scope(ref, Scope.PARALLEL, level.number).value()
                self.expect(f"{what}: level", told.value, 0)
            return
        assert ref is not None, what
        if region.id in self._seen:
            return
        self._seen.add(region.id)
        self.variables(what, ref, Scope.PARALLEL, region)
        self.tool_data(what, ref, Scope.PARALLEL, region.tool_data)
        for number in range(region.size()):
            member = self.batch.get_thread_in_parallel(ref, number)
            told = self.batch.get_thread_id(member, ThreadIdKind.LWP).value()
            self.expect(f"{what}: thread {number}", told, region.thread(number).native_id(ThreadIdKind.LWP))
            implicit = self.batch.get_task_in_parallel(ref, number).value()
            self.task(f"{what}: task {number}", implicit, region.implicit_task(number))
        for number in (-1, region.size()):
            error = self.batch.get_task_in_parallel(ref, number).error()
            self.expect(f"{what}: no task {number}", error and error.rc, Rc.BAD_INPUT)
        enclosing = self.answer(self.batch.get_enclosing_parallel_handle(ref))
        self.region(f"region around {what}", enclosing, region.enclosing())

    def task(self, what: str, ref: TaskRef | None, task: TaskHandle | None) -> None:
        self.expect(f"{what}: is there", ref is not None, task is not None)
        if ref is None or task is None or task.id in self._seen:
            return
        self._seen.add(task.id)
        self.variables(what, ref, Scope.TASK, task)
        self.tool_data(what, ref, Scope.TASK, task.tool_data)
        function = self.answer(self.batch.get_task_function(ref))
        self.expect(f"{what}: function", function, task.function())
        told = self.answer(self.batch.get_task_frame(ref))
        frames = own(task.frames)
        self.expect(
            f"{what}: frames",
            told and [(frame.address, frame.flag) for frame in told if frame.address],
            frames and [(frame.address, frame.flags) for frame in frames if frame is not None],
        )
        self.task(f"{what}, generated by", self.answer(self.batch.get_generating_task_handle(ref)), task.generating())
        scheduling = self.answer(self.batch.get_scheduling_task_handle(ref))
        self.task(f"{what}, scheduled by", scheduling, own(task.scheduling))
        self.region(f"region of {what}", self.answer(self.batch.get_task_parallel_handle(ref)), task.parallel())

    def variables(self, what: str, ref: Any, scope: Scope, ours: Any) -> None:
        for icv in self.icvs.values():
            if icv.scope != scope:
                continue
            number = self.batch.get_icv_from_scope(ref, scope, icv.number)
            refusal = number.error()
            told: object
            if refusal is not None and refusal.rc == Rc.INCOMPATIBLE:
                told = self.batch.get_icv_string_from_scope(ref, scope, icv.number).value()
            else:
                told = number.value().value
            true = self.ours.icv(icv.name, ours)
            if icv.name == "bind-var":
                true = ["false", "true", "master", "close", "spread"].index(str(true))
            self.expect(f"{what}: {icv.name}", told, true)

    def tool_data(self, what: str, ref: Any, scope: Scope, ask: Callable[[], int]) -> None:
        told = self.answer(self.batch.get_tool_data(ref, scope))
        self.expect(f"{what}: data of a tool", told and told.value, own(ask))


def compared(core: Path, width: int = 64) -> Comparison:
    warnings: list[str] = []
    with Session.open_core(core) as session, hosted(warnings, width) as library:
        (runtime,) = session.runtimes
        assert runtime.space is not None
        batch = library.batch()
        space = batch.process_initialize(session.process.contract.callbacks(runtime.found.module)).value()
        comparison = Comparison(batch, space, runtime.space)
        comparison.everything()
        library.forget(space)
        del space, comparison.space, comparison.batch, batch
        assert library.allocated == 0 and warnings == []
    return comparison


PROGRAMS = ("nested", "lock", "task_tree", "between", "task_stack", "icvs")
CASES = sample(product(PROGRAMS, ("stub", "stub-32"), ("debug", "neither"), (64, 32)))


@pytest.mark.parametrize(("program", "runtime", "mode", "width"), CASES)
def test_each_fact_is_what_our_plugin_reads(program: str, runtime: str, mode: str, width: int) -> None:
    comparison = compared(on_stub(program, mode=mode, runtime=runtime).core, width)
    assert comparison.differences == []
    assert comparison.facts > 50


def test_the_settings_are_those_of_the_environment() -> None:
    comparison = compared(on_stub("icvs_env").core)
    assert comparison.differences == []
    assert comparison.settings == {
        **{"OMP_CANCELLATION": "false", "OMP_DEBUG": "enabled", "OMP_DEFAULT_DEVICE": "0", "OMP_DYNAMIC": "false"},
        **{"OMP_MAX_ACTIVE_LEVELS": "3", "OMP_MAX_TASK_PRIORITY": "5", "OMP_NUM_THREADS": "4"},
        **{"OMP_PROC_BIND": "spread", "OMP_SCHEDULE": "monotonic:dynamic,7", "OMP_THREAD_LIMIT": "20"},
        "OMP_STACKSIZE": f"{256 << 10}B",
    }


FAULTS = ("bad_team", "bad_parent", "thread_count", "thread_cycle", "torn_frame", "bad_state", "cyclic_queue")


@pytest.mark.parametrize("width", [64, 32])
@pytest.mark.parametrize("word", FAULTS if FULL else FAULTS[::2])
def test_a_damaged_runtime_is_one_error_of_the_library(word: str, width: int) -> None:
    # The library reports an error or answers what is there. It neither loops nor ends.
    core = core_of(built("faults.c"), word)
    warnings: list[str] = []
    with Session.open_core(core) as session, hosted(warnings, width) as library:
        (runtime,) = session.runtimes
        batch = library.batch()
        space = batch.process_initialize(session.process.contract.callbacks(runtime.found.module)).value()
        failed = 0
        for native in session.process.threads.ids():
            thread: Pending[ThreadRef] = batch.get_thread_handle(space, ThreadIdKind.LWP, native)
            region = batch.get_curr_parallel_handle(thread)
            for pending in (
                *(thread, batch.get_state(thread), region, batch.get_enclosing_parallel_handle(region)),
                *(batch.get_task_frame(batch.get_curr_task_handle(thread)), batch.get_thread_in_parallel(region, 0)),
            ):
                error = pending.error()
                assert error is None or not error.has_ended
                failed += error is not None and error.rc not in _NOTHING
        assert library.error is None
    expected = {"bad_team": 1, "thread_cycle": 1, "torn_frame": 1, "bad_state": 1}
    assert failed >= expected.get(word, 0)


def test_a_runtime_that_has_not_begun_is_unavailable() -> None:
    core = core_of(built("locations.c"), "before")
    with Session.open_core(core) as session, hosted([]) as library:
        (runtime,) = session.runtimes
        callbacks = session.process.contract.callbacks(runtime.found.module)
        with pytest.raises(LibraryError) as caught:
            library.batch().process_initialize(callbacks).value()
        assert caught.value.rc == Rc.UNAVAILABLE and library.allocated == 0
        assert runtime.space is None


def test_a_number_that_cannot_be_converted_is_an_error() -> None:
    # A failed conversion must not give 0. The library is ours, so it may run in this process.
    library = ctypes.CDLL(str(stub_folder() / "libompd_stub.so"))
    blocks: list[Any] = []

    def allocate(size: int, where: int) -> int:
        blocks.append(ctypes.create_string_buffer(size))
        ctypes.c_uint64.from_address(where).value = ctypes.addressof(blocks[-1])
        return Rc.OK

    def sizes(_: int, where: int) -> int:
        ctypes.memmove(where, bytes((1, 2, 4, 8, 8, 8)), 6)
        return Rc.OK

    def fill(*arguments: int) -> int:
        size, buffer = arguments[-2:]
        ctypes.memset(buffer, 1, size)
        return Rc.OK

    functions: dict[str, Callable[..., int]] = {
        "alloc_memory": allocate,
        "sizeof_type": sizes,
        "read_memory": fill,
        "device_to_host": lambda *_: Rc.DEVICE_READ_ERROR,
    }
    table = CallbackTable(*(kind(functions.get(name, lambda *_: Rc.OK)) for name, kind in CallbackTable._fields_))
    library.ompd_initialize.argtypes = (ctypes.c_int64, ctypes.c_void_p)
    library.ompd_process_initialize.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
    handle = ctypes.c_void_p()
    assert library.ompd_initialize(201811, ctypes.addressof(table)) == Rc.OK
    try:
        assert library.ompd_process_initialize(1, ctypes.addressof(handle)) == Rc.DEVICE_READ_ERROR
        assert not handle.value
    finally:
        library.ompd_finalize()
