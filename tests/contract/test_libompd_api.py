"""One test for each row of LLVM's tests of the OMPD interface, named after it, asked of our handles.

The interface compares handles, and ours have ids. The interface releases handles, and ours are closed with their
session.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ompd.contract.ompd import API_VERSION, Scope, ThreadIdKind
from ompd.contract.ompt import FrameFlag, State
from ompd.contract.plugin import AddressSpace, ParallelHandle, TaskHandle, ThreadHandle
from ompd.errors import BadInput, NotInitialised, OmpdError, Rc, TargetGone, Unavailable, Unsupported
from ompd.questions import runtimes
from ompd.runtimes.libomp.plugin import LibompPlugin
from ompd.session import Session
from tests.support import Stopped, intel_runtime, stopped
from tests.support.vendor import told

SCOPES = {
    Scope.ADDRESS_SPACE: (
        *("stacksize-var", "cancel-var", "max-task-priority-var", "debug-var", "display-affinity-var"),
        *("affinity-format-var", "tool-var", "tool-libraries-var", "tool-verbose-init-var"),
        *("num-procs-var", "ompd-num-procs-var"),
    ),
    Scope.THREAD: ("dyn-var", "nthreads-var", "default-device-var", "thread-num-var", "ompd-thread-num-var"),
    Scope.PARALLEL: ("levels-var", "active-levels-var", "team-size-var", "ompd-team-size-var"),
    Scope.TASK: (
        *("run-sched-var", "thread-limit-var", "max-active-levels-var", "bind-var"),
        *("final-task-var", "ompd-final-var", "ompd-final-task-var"),
        *("implicit-task-var", "ompd-implicit-var", "ompd-implicit-task-var"),
    ),
}


@contextmanager
def opened(core: Stopped) -> Iterator[AddressSpace]:
    with Session.open_core(core.core) as session:
        (runtime,) = session.runtimes
        assert runtime.space is not None
        yield runtime.space


def members(core: Stopped) -> list[dict[str, Any]]:
    """Return the truth of the threads that execute a region."""
    found = [thread for thread in core.truth["threads"] if thread["role"] == "team"]
    assert found
    return found


def thread(space: AddressSpace, native: int) -> ThreadHandle:
    found = space.thread_by_native_id(ThreadIdKind.LWP, native)
    assert found is not None
    return found


def region_of(handle: ThreadHandle) -> ParallelHandle:
    found = handle.current_parallel()
    assert found is not None
    return found


def task_of(handle: ThreadHandle) -> TaskHandle:
    found = handle.current_task()
    assert found is not None
    return found


def in_team_of_four(space: AddressSpace, core: Stopped) -> ParallelHandle:
    region = region_of(thread(space, core.truth["pid"]))
    assert region.size() == 4
    return region


def native(space: AddressSpace, core: Stopped, handle: ThreadHandle) -> int:
    """Return the system's id of the handle's thread, found by asking for each thread."""
    found = [
        truth["native_thread_id"]
        for truth in core.truth["threads"]
        if truth["openmp"] and thread(space, truth["native_thread_id"]).address == handle.address
    ]
    assert len(found) == 1
    return int(found[0])


def walk(first: Any, following: Callable[[Any], Any]) -> list[Any]:
    """Return a handle and the handles that follow it, to the end."""
    found = []
    while first is not None:
        found.append(first)
        assert len(found) < 100
        first = following(first)
    return found


# The library


def test_initialize() -> None:
    with Session.open_core(stopped("lock").core) as session:
        (runtime,) = session.runtimes
        space = LibompPlugin().process_initialize(session.process.contract, runtime.found.module)
        assert space.layout_source == "published" and len(space.threads()) == 4


def test_get_api_version() -> None:
    assert told("lock")[1]["api_version"] == API_VERSION == 201811


def test_get_version_string() -> None:
    core, theirs = told("lock")
    assert theirs["version_string"] != ""
    with opened(core) as space:
        version = space.version()
    library = (intel_runtime() / "lib" / "libiomp5.so").read_bytes()
    assert version is not None and b" version: " + version.encode() + b"\0" in library


def test_finalize() -> None:
    session = Session.open_core(stopped("lock").core)
    assert len(session.runtimes) == 1
    session.close()
    with pytest.raises(TargetGone):
        session.runtimes  # noqa: B018
    session.close()  # a session may be closed again


def test_process_initialize() -> None:
    with Session.open_core(stopped("lock").core) as session:
        (runtime,) = session.runtimes
        assert (runtime.space is not None, runtime.fault) == (True, None)
    with Session.open_core(stopped("not_initialised").core) as session:
        (runtime,) = session.runtimes
        assert runtime.space is None and isinstance(runtime.fault, NotInitialised)
        assert runtime.fault.rc == Rc.UNAVAILABLE and not runtime.is_initialised
        with pytest.raises(NotInitialised):
            LibompPlugin().process_initialize(session.process.contract, runtime.found.module)
        # A module that is no runtime is refused as well.
        libc = next(module for module in session.process.symbols.modules() if module.name.endswith("/libc.so.6"))
        with pytest.raises(OmpdError) as caught:
            LibompPlugin().process_initialize(session.process.contract, libc)
        assert caught.value.rc == Rc.INCOMPATIBLE


def test_device_initialize() -> None:
    # These processes have no devices: the host's address space is the only one, whatever the default device.
    core = stopped("icvs")
    with Session.open_core(core.core) as session:
        (runtime,) = session.runtimes
        space = runtime.space
        assert space is not None
        (chosen,) = (truth for truth in members(core) if truth["icvs"]["default_device"] == 1)
        assert space.icv("default-device-var", thread(space, chosen["native_thread_id"])) == 1


def released(ask: Callable[[AddressSpace, ThreadHandle], Any]) -> None:
    """Check that a handle's first question fails with TargetGone once its session was closed."""
    core = stopped("lock", mode="tool")
    with Session.open_core(core.core) as session:
        space = session.runtimes[0].space
        assert space is not None
        handle = thread(space, core.truth["pid"])
    with pytest.raises(TargetGone):
        ask(space, handle)


def test_rel_address_space_handle() -> None:
    released(lambda space, handle: space.omp_version())


def test_rel_thread_handle() -> None:
    released(lambda space, handle: handle.tool_data())


def test_rel_parallel_handle() -> None:
    core = stopped("lock")
    with opened(core) as space:
        region = in_team_of_four(space, core)
    with pytest.raises(TargetGone):
        region.tool_data()


def test_rel_task_handle() -> None:
    core = stopped("lock")
    with opened(core) as space:
        task = task_of(thread(space, core.truth["pid"]))
    for ask in (task.tool_data, task.frames, task.generating):
        with pytest.raises(TargetGone):
            ask()


def test_rel_display_control_vars() -> None:
    core = stopped("lock")
    with opened(core) as space:
        shown = space.display_control_vars()
    assert shown["OMP_DEBUG"] == "enabled"  # the earlier answer stays
    released(lambda space, handle: space.display_control_vars())


# The address space


def test_get_omp_version() -> None:
    core, theirs = told("lock")
    with opened(core) as space:
        assert space.omp_version() == theirs["omp_version"] == 202111


def test_get_omp_version_string() -> None:
    core, theirs = told("lock")
    with Session.open_core(core.core) as session:
        (row,) = runtimes.ask(session).rows
    assert str(row.omp_version) == theirs["omp_version_text"]


def test_enumerate_states() -> None:
    with opened(stopped("lock")) as space:
        states = space.states()
    assert states == {state.value: state.name.lower() for state in State} and len(states) == 25
    assert (states[0x000], states[0x041], states[0x102]) == ("work_serial", "wait_lock", "undefined")
    assert 0x103 not in states


def test_get_display_control_vars() -> None:
    with opened(stopped("icvs_env")) as space:
        shown = space.display_control_vars()
    assert len(shown) > 80
    assert shown["OMP_NUM_THREADS"] == "'4,3,2'" and shown["OMP_CANCELLATION"] == "true"
    assert shown["OMP_SCHEDULE"] == "'monotonic:dynamic,7'" and shown["OMP_THREAD_LIMIT"] == "20"


def test_enumerate_icvs() -> None:
    with opened(stopped("nested")) as space:
        icvs = space.icvs()
    scopes = {icv.name: icv.scope for icv in icvs}
    assert len(scopes) == len(icvs)
    wanted = {name: scope for scope, names in SCOPES.items() for name in names}
    assert len(wanted) == 30 and wanted.items() <= scopes.items()


def handles(space: AddressSpace, native: int) -> dict[Scope, object]:
    handle = thread(space, native)
    return {
        Scope.ADDRESS_SPACE: space,
        Scope.THREAD: handle,
        Scope.PARALLEL: region_of(handle),
        Scope.TASK: task_of(handle),
    }


@pytest.mark.parametrize("scope", SCOPES)
def test_get_icv_from_scope(scope: Scope) -> None:
    core = stopped("task_tree")
    with opened(core) as space:
        own = handles(space, core.truth["pid"])
        for name in SCOPES[scope]:
            assert isinstance(space.icv(name, own[scope]), int | str)
            for other in set(own) - {scope}:
                with pytest.raises(BadInput, match=name):
                    space.icv(name, own[other])
            with pytest.raises(BadInput):
                space.icv(name, None)
        for unknown in ("", "99", "levels_var", "no-such-var"):
            with pytest.raises(BadInput, match="no internal control variable"):
                space.icv(unknown, own[scope])
        (level, size) = (space.icv(name, own[Scope.PARALLEL]) for name in ("levels-var", "team-size-var"))
        assert (level, size) == (1, 4)
        assert space.icv("thread-num-var", own[Scope.THREAD]) == 0
        assert space.icv("implicit-task-var", own[Scope.TASK]) is False


def test_get_icv_string_from_scope() -> None:
    core = stopped("icvs_env")
    with opened(core) as space:
        own = handles(space, core.truth["pid"])
        level = space.icv("levels-var", own[Scope.PARALLEL])
        assert level == 3
        assert space.icv("tool-libraries-var", space) == ""
        assert "%A" in str(space.icv("affinity-format-var", space))
        assert space.icv("run-sched-var", own[Scope.TASK]) == "monotonic:dynamic,7"
        # A list has the values of the levels still to come.
        outer = walk(own[Scope.TASK], lambda task: task.generating())[-1]
        assert outer.kind() == "initial"
        assert space.icv("bind-var", outer) == "spread,close"
        first = next(truth for truth in members(core) if truth["level"] == 1)
        assert space.icv("nthreads-var", thread(space, first["native_thread_id"])) == "3,2"


# Threads


@pytest.mark.parametrize("kind", [ThreadIdKind.LWP, ThreadIdKind.PTHREAD])
def test_get_thread_handle(kind: ThreadIdKind) -> None:
    core = stopped("extra_pthread")
    with Session.open_core(core.core) as session:
        space = session.runtimes[0].space
        assert space is not None
        known = {}
        for truth in core.truth["threads"]:
            number = truth["native_thread_id"]
            identifier = number if kind == ThreadIdKind.LWP else session.process.threads.thread_pointer(number)
            known[number] = space.thread_by_native_id(kind, identifier)
            assert (known[number] is not None) == truth["openmp"]
        assert Counter(handle is None for handle in known.values()) == {False: 3, True: 2}
        addresses = {handle.address for handle in known.values() if handle is not None}
        assert addresses == {handle.address for handle in space.threads()}
        with pytest.raises(Unsupported):
            space.thread_by_native_id(ThreadIdKind.WINTHREAD, core.truth["pid"])


def test_get_thread_handle_before_any_region() -> None:
    core = stopped("no_region")
    with opened(core) as space:
        (initial,) = space.threads()
        assert thread(space, core.truth["pid"]).address == initial.address
        assert (initial.thread_type(), initial.thread_num()) == ("initial", 0)
        assert space.thread_by_native_id(ThreadIdKind.LWP, core.truth["monitor"]) is None


def test_get_thread_id() -> None:
    core = stopped("lock")
    with Session.open_core(core.core) as session:
        space = session.runtimes[0].space
        assert space is not None
        found = {handle.native_id(ThreadIdKind.PTHREAD) for handle in space.threads()}
        wanted = {session.process.threads.thread_pointer(truth["native_thread_id"]) for truth in members(core)}
        assert found == wanted and len(found) == 4
        for kind in (ThreadIdKind.LWP, ThreadIdKind.WINTHREAD):
            with pytest.raises(Unsupported):
                space.threads()[0].native_id(kind)


def test_get_thread_in_parallel() -> None:
    core = stopped("lock")
    with opened(core) as space:
        region = in_team_of_four(space, core)
        for wrong in (199, -5, 4, -1):
            with pytest.raises(BadInput):
                region.thread(wrong)
        for number in range(4):
            handle = region.thread(number)
            assert handle.thread_num() == number
            assert native(space, core, handle) == core.truth["regions"][0]["threads"][number]
            assert region_of(handle).id == region.id


def test_thread_handle_compare() -> None:
    core = stopped("two_initial")
    with opened(core) as space:
        numbers = [truth["native_thread_id"] for truth in members(core)]
        once, again = ([thread(space, number).address for number in numbers] for _ in range(2))
        assert once == again and len(set(once)) == 5


def test_get_state() -> None:
    core = stopped("lock", compiler="gcc")
    with opened(core) as space:
        found = {truth["native_thread_id"]: thread(space, truth["native_thread_id"]).state() for truth in members(core)}
    waits = Counter(state.state for state in found.values())
    assert waits == {State.WAIT_LOCK: 3, State.WORK_PARALLEL: 1}
    for truth in members(core):
        state = found[truth["native_thread_id"]]
        assert state.source == "runtime"
        assert state.wait_id == (int(truth["wait_id"], 16) if truth["wait_id"] else None)
        assert (state.wait_id is None) == (state.state == State.WORK_PARALLEL)


# Regions


def test_get_curr_parallel_handle() -> None:
    core = stopped("uneven")
    with opened(core) as space:
        for truth in members(core):
            region = region_of(thread(space, truth["native_thread_id"]))
            assert (region.level(), region.size()) == (truth["level"], truth["team_size"])
    core = stopped("no_region")
    with opened(core) as space:
        assert thread(space, core.truth["pid"]).current_parallel() is None
    core = stopped("between")
    with opened(core) as space:
        # Each worker still points at the team of its last region, but is in no region.
        assert [handle.current_parallel() for handle in space.threads()] == [None] * 4


def test_get_enclosing_parallel_handle() -> None:
    core = stopped("nested")
    with opened(core) as space:
        for truth in members(core):
            regions = walk(region_of(thread(space, truth["native_thread_id"])), lambda region: region.enclosing())
            assert [region.level() for region in regions] == [3, 2, 1]
            assert [region.size() for region in regions] == [2, 2, 3]
            assert regions[-1].enclosing() is None


def test_parallel_handle_compare() -> None:
    core = stopped("nested")
    with opened(core) as space:
        ids: dict[int, set[str]] = {1: set(), 2: set(), 3: set()}
        of_region: dict[int, set[str]] = {}
        for truth in members(core):
            regions = walk(region_of(thread(space, truth["native_thread_id"])), lambda region: region.enclosing())
            for region in regions:
                ids[region.level()].add(region.id)
            of_region.setdefault(truth["region"], set()).add(regions[0].id)
        assert {level: len(known) for level, known in ids.items()} == {1: 1, 2: 3, 3: 6}
        assert all(len(known) == 1 for known in of_region.values()) and len(of_region) == 6
        assert len(ids[1] | ids[2] | ids[3]) == 10


# Tasks


def test_get_curr_task_handle() -> None:
    core = stopped("task_tree")
    executing = {task["thread"]: task for task in core.truth["tasks"] if task["status"] == "executing"}
    assert len(executing) == 4
    with opened(core) as space:
        for number, truth in executing.items():
            task = task_of(thread(space, number))
            assert (task.kind(), task.status(), task.tool_data()) == ("explicit", "executing", truth["data"])
            owner = task.thread()
            assert owner is not None and native(space, core, owner) == number
    core = stopped("between")
    with opened(core) as space:
        current = {handle.thread_type(): handle.current_task() for handle in space.threads()}
        assert current["worker"] is None
        assert current["initial"] is not None and current["initial"].kind() == "initial"


def test_get_generating_task_handle() -> None:
    core = stopped("task_tree")
    known = {task["key"]: task for task in core.truth["tasks"]}
    with opened(core) as space:
        for truth in (task for task in known.values() if task["status"] == "executing"):
            chain = walk(truth["key"], lambda key: known[key]["generating"])
            tasks = walk(task_of(thread(space, truth["thread"])), lambda task: task.generating())
            assert [task.tool_data() for task in tasks] == [known[key]["data"] for key in chain]
            assert [task.kind() for task in tasks] == ["explicit"] * 4 + ["implicit", "initial"]
            assert tasks[-1].generating() is None


def test_get_scheduling_task_handle() -> None:
    core = stopped("task_tree")
    known = {task["key"]: task for task in core.truth["tasks"]}
    with opened(core) as space:
        for truth in (task for task in known.values() if task["status"] == "executing"):
            chain = walk(truth["key"], lambda key: known[key]["scheduling"])
            tasks = walk(task_of(thread(space, truth["thread"])), lambda task: task.scheduling())
            assert [task.tool_data() for task in tasks] == [known[key]["data"] for key in chain]
            assert tasks[-1].kind() == "implicit" and tasks[-1].scheduling() is None
            assert len(tasks) > 1
    with opened(stopped("task_tree", mode="neither")) as space:
        (task, *_) = (task for handle in space.threads() if (task := handle.current_task()) is not None)
        with pytest.raises(Unavailable):
            task.scheduling()


def test_get_task_parallel_handle() -> None:
    core = stopped("nested")
    with opened(core) as space:
        handle = thread(space, core.truth["pid"])
        tasks = walk(task_of(handle), lambda task: task.generating())
        regions = walk(region_of(handle), lambda region: region.enclosing())
        assert [task.kind() for task in tasks] == ["implicit"] * 3 + ["initial"]
        assert [region and region.id for region in (task.parallel() for task in tasks)] == [
            *(region.id for region in regions),
            None,
        ]
    core = stopped("task_tree")
    with opened(core) as space:
        region = in_team_of_four(space, core)
        for task in walk(task_of(thread(space, core.truth["pid"])), lambda task: task.generating())[:-1]:
            own = task.parallel()
            assert own is not None and own.id == region.id


@pytest.mark.parametrize("mode", ["debug", "neither"])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_get_task_function(compiler: str, mode: str) -> None:
    # LLVM's library refuses without OMP_DEBUG.
    core = stopped("task_tree", compiler=compiler, mode=mode)
    with Session.open_core(core.core) as session:
        space = session.runtimes[0].space
        assert space is not None
        program = next(module for module in session.process.symbols.modules() if module.is_program)
        functions: dict[str, set[int]] = {}
        for truth in members(core):
            tasks = walk(task_of(thread(space, truth["native_thread_id"])), lambda task: task.generating())
            assert tasks[-1].function() is None  # the initial task was not generated
            for task, name in zip(tasks[:-1], ("leaf", "twig", "bough", "trunk", "region"), strict=True):
                function = task.function()
                assert function is not None and session.process.symbols.module_at(function) is program
                place = session.process.places.locate(function)
                assert place.symbol_address == function
                functions.setdefault(name, set()).add(function)
        # Each construct has one function.
        assert [len(known) for known in functions.values()] == [1] * 5
        assert len(set.union(*functions.values())) == 5


def test_get_task_frame() -> None:
    core = stopped("task_tree")
    count = 0
    with opened(core) as space:
        for truth in members(core):
            task: TaskHandle | None = task_of(thread(space, truth["native_thread_id"]))
            for level in truth["tasks"]:
                assert task is not None
                exit_frame, enter_frame = task.frames()
                for frame, key in ((exit_frame, "exit_frame"), (enter_frame, "enter_frame")):
                    assert (frame and f"{frame.address:#x}") == level[key]
                    assert frame is None or frame.flags == level[f"{key}_flags"] == FrameFlag.CFA | FrameFlag.RUNTIME
                    count += frame is not None
                task = task.scheduling() or task.generating()
            assert task is None
    assert count >= 4 * 4  # each thread has left at least an initial, an implicit and an explicit task
    with opened(stopped("task_tree", mode="neither")) as space, pytest.raises(Unavailable):
        task_of(thread(space, stopped("task_tree", mode="neither").truth["pid"])).frames()


def test_get_task_in_parallel() -> None:
    core = stopped("lock")
    data = {task["thread"]: task["data"] for task in core.truth["tasks"] if task["kind"] == "implicit"}
    with opened(core) as space:
        region = in_team_of_four(space, core)
        for wrong in (199, -5, 4, -1):
            with pytest.raises(BadInput):
                region.implicit_task(wrong)
        for number in range(4):
            task = region.implicit_task(number)
            assert task.id == task_of(region.thread(number)).id
            assert task.tool_data() == data[core.truth["regions"][0]["threads"][number]]


def test_task_handle_compare() -> None:
    core = stopped("task_tree")
    ids: dict[int, set[str]] = {}
    with opened(core) as space:
        for truth in members(core):
            for task in walk(task_of(thread(space, truth["native_thread_id"])), lambda task: task.generating()):
                ids.setdefault(task.tool_data(), set()).add(task.id)
    # A task has the same id on every way to it, and no other task has that id.
    assert all(len(known) == 1 for known in ids.values())
    assert len(set.union(*ids.values())) == len(ids) >= 4 + 2 + 2 + 3


def test_get_tool_data() -> None:
    core = stopped("nested", mode="tool")
    regions = {region["key"]: region["parallel_data_value"] for region in core.truth["regions"]}
    seen = set()
    with opened(core) as space:
        for truth in members(core):
            handle = thread(space, truth["native_thread_id"])
            words = (handle.tool_data(), region_of(handle).tool_data(), task_of(handle).tool_data())
            assert words == (truth["thread_data"], regions[truth["region"]], truth["tasks"][0]["task_data"])
            seen |= {*words}
    assert len(seen) == 12 + 6 + 12 and all(seen)
    core = stopped("nested", mode="neither")
    with opened(core) as space:
        handle = thread(space, core.truth["pid"])
        for one in (handle, region_of(handle), task_of(handle)):
            with pytest.raises(Unavailable):
                one.tool_data()


# Facts that LLVM's tests do not cover


def test_a_session_leaves_nothing_open() -> None:
    core = stopped("nested").core
    before = sorted(open_files())
    with Session.open_core(core) as session:
        assert session.runtimes[0].space is not None and str(core) in open_files()
    assert sorted(open_files()) == before


def open_files() -> list[str]:
    """Return the targets of this process's file descriptors."""
    descriptors = Path("/proc/self/fd").iterdir()
    return [str(descriptor.readlink()) for descriptor in descriptors if descriptor.is_symlink()]
