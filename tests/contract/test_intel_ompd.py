"""Intel's own OMPD library, which comes with its runtime, reads the same cores through our callbacks. Its answers must
equal ours.

The library is no oracle for nested serialized regions: it shows one too few, but no program here has any. Nor is it an
oracle for the function of serialized regions and of gcc's code, and for states that the runtime never notes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from ompd.contract.memory import Field, StructLayout
from ompd.contract.ompd import Scope, ThreadIdKind
from ompd.contract.ompt import State, is_wait
from ompd.contract.plugin import AddressSpace, ParallelHandle, TaskHandle, ThreadHandle
from ompd.errors import BadInput, OmpdError, Rc, Unavailable
from ompd.runtimes.layout import published
from ompd.session import Session
from tests.support import COMPILERS, Stopped
from tests.support.vendor import told

PROGRAMS = ("nested", "lock", "task_tree", "icvs", "icvs_env", "two_initial", "task_if0", "serialized_middle", "uneven")
# The library's refusal without OMP_DEBUG=enabled. Then the programs' own output is the oracle.
REFUSED = {"rc": Rc.NEEDS_STATE_TRACKING}
# enum of ompt-general.cpp; kmp_proc_bind_t
TOOL_VAR = ("error", "unset", "disabled", "enabled")
BINDINGS = ("false", "true", "primary", "close", "spread", "intel", "default")
TEXTS = {
    "run-sched-var",
    "nthreads-var",
    "affinity-format-var",
    "tool-libraries-var",
    "tool-verbose-init-var",
    "bind-var",
}


@contextmanager
def opened(core: Stopped) -> Iterator[tuple[Session, AddressSpace]]:
    with Session.open_core(core.core) as session:
        (runtime,) = session.runtimes
        assert runtime.space is not None
        yield session, runtime.space


class Twins:
    """Compares handle by handle. Two of our handles are the same if and only if the library's are."""

    def __init__(self, session: Session, space: AddressSpace, mode: str) -> None:
        self._session, self._space, self._mode = session, space, mode
        self.compared: Counter[str] = Counter()
        self._ours: dict[tuple[str, object], str] = {}
        self._theirs: dict[tuple[str, str], object] = {}

    def same(self, key: str, ours: object, theirs: object) -> None:
        assert ours == theirs, key
        self.compared[key] += 1

    def pair(self, kind: str, ours: str, theirs: object) -> None:
        assert self._ours.setdefault((kind, theirs), ours) == ours
        assert self._theirs.setdefault((kind, ours), theirs) == theirs
        self.compared[f"{kind} handle"] += 1

    def icvs(self, handle: object, scope: Scope, theirs: Mapping[str, Mapping[str, Any]]) -> None:
        for name, answer in theirs.items():
            ours = self._space.icv(name, handle)
            number, text = answer["number"], answer["text"]
            if name in TEXTS and isinstance(text, str):
                self.same(f"{name} as text", icv_text(name, ours), icv_text(name, text))
            else:
                assert text == {"rc": Rc.UNSUPPORTED}
            if number is None:
                assert answer["rc"] == Rc.INCOMPATIBLE and name in TEXTS
            elif name == "tool-var":
                self.same(name, ours, TOOL_VAR[number])
            elif name == "bind-var":
                self.same(name, str(ours).split(",")[0], BINDINGS[number])
            elif name == "nthreads-var":
                self.same(name, int(str(ours).split(",")[0]), number)
            else:
                assert isinstance(ours, int)
                self.same(name, int(ours), number)

    def refused(self, key: str, answer: object) -> bool:
        if self._mode == "debug":
            return False
        assert answer == REFUSED, key
        self.compared[f"{key} refused"] += 1
        return True

    def tool_data(self, key: str, ours: Any, theirs: object) -> None:
        if self._mode == "neither":
            with pytest.raises(Unavailable):
                ours.tool_data()
            self.same(key, 0, theirs)
        else:
            self.same(key, ours.tool_data(), theirs)

    def state(self, ours: ThreadHandle, theirs: Any) -> None:
        state = ours.state()
        if self.refused("state", theirs):
            assert state.source == "derived" or self._mode == "tool"
            return
        value, wait_id = theirs
        if state.source == "runtime":
            self.same("state", state.state, value)
            self.same("wait id", state.wait_id or 0, wait_id if is_wait(value) else 0)
        else:
            assert state.state in (State.WAIT_TASKWAIT, State.WAIT_TASKGROUP) and value == State.WORK_PARALLEL
            self.compared["state that the runtime does not note"] += 1

    def thread(self, ours: ThreadHandle, theirs: dict[str, Any]) -> None:
        self.pair("thread", f"{ours.address:#x}", theirs["handle"])
        self.same("thread id", ours.native_id(ThreadIdKind.PTHREAD), theirs["native"])
        self.tool_data("thread tool data", ours, theirs["tool_data"])
        self.icvs(ours, Scope.THREAD, theirs["icvs"])
        self.state(ours, theirs["state"])
        regions: list[ParallelHandle] = []
        region = ours.current_parallel()
        while region is not None:
            regions.append(region)
            region = region.enclosing()
        *inside, initial = theirs["parallels"]
        assert initial["icvs"]["levels-var"]["number"] == 0
        self.same("number of regions", len(regions), len(inside))
        for region, other in zip(regions, inside, strict=True):
            self.region(region, other)
        tasks: list[TaskHandle] = []
        task = ours.current_task()
        while task is not None:
            tasks.append(task)
            task = task.generating()
        self.same("number of tasks", len(tasks), len(theirs["tasks"]))
        for task, other in zip(tasks, theirs["tasks"], strict=True):
            self.task(task, other, initial["handle"])

    def region(self, ours: ParallelHandle, theirs: dict[str, Any]) -> None:
        self.pair("parallel", ours.id, theirs["handle"])
        self.tool_data("region tool data", ours, theirs["tool_data"])
        self.icvs(ours, Scope.PARALLEL, theirs["icvs"])
        members = [ours.thread(number).native_id(ThreadIdKind.PTHREAD) for number in range(ours.size())]
        self.same("threads of a region", members, theirs["threads"])
        for number, task in enumerate(theirs["tasks"]):
            self.pair("task", ours.implicit_task(number).id, task)
        for number, refusal in zip((-5, ours.size(), 199), theirs["outside"], strict=True):
            with pytest.raises(BadInput):
                ours.thread(number)
            self.same("numbers outside of a team", BadInput.rc, refusal["rc"])

    def task(self, ours: TaskHandle, theirs: dict[str, Any], initial: int) -> None:
        self.pair("task", ours.id, theirs["handle"])
        self.tool_data("task tool data", ours, theirs["tool_data"])
        self.icvs(ours, Scope.TASK, theirs["icvs"])
        if not self.refused("frames", theirs["frames"]):
            frames = [frame.address if frame is not None else 0 for frame in ours.frames()]
            self.same("frames", frames, theirs["frames"])
        region = ours.parallel()
        if region is None:
            self.same("task outside of regions", initial, theirs["parallel"])
        else:
            self.pair("parallel", region.id, theirs["parallel"])
        self.scheduling(ours, theirs["scheduling"])
        if not self.refused("function", theirs["function"]):
            self.function(ours, region, theirs["function"])

    def scheduling(self, ours: TaskHandle, theirs: object) -> None:
        if self._mode == "neither" and ours.kind() == "explicit":
            with pytest.raises(Unavailable):
                ours.scheduling()
            return
        scheduling = ours.scheduling()
        if scheduling is None:
            self.same("no scheduling task", {"rc": Rc.UNAVAILABLE}, theirs)
        else:
            self.pair("task", scheduling.id, theirs)
            self.compared["scheduling task"] += 1

    def function(self, ours: TaskHandle, region: ParallelHandle | None, theirs: int) -> None:
        if ours.kind() == "explicit":
            self.same("function of an explicit task", ours.function(), theirs)
        elif region is None:
            assert ours.function() is None and theirs in (0, 2**64 - 1)
        elif region.size() == 1:
            pass  # the runtime keeps the function of the region that it entered last
        elif self._session.process.symbols.module_at(theirs) is self._space.module:
            # For gcc's code the library returns the runtime's wrapper.
            entry = ours.function()
            assert entry is not None and self._session.process.symbols.module_at(entry) is not self._space.module
            self.compared["function behind a wrapper"] += 1
        else:
            self.same("function of an implicit task", ours.function(), theirs)


def icv_text(name: str, value: object) -> str:
    """Return a value in the spelling of Intel's library."""
    text = str(value)
    if name == "bind-var":
        return ",".join(BINDINGS[int(word)] if word.isdecimal() else word for word in text.split(","))
    if name == "run-sched-var":
        return text.removesuffix(",0")  # a schedule without chunks
    return text


def compare(program: str, compiler: str, mode: str) -> tuple[Counter[str], Stopped, dict[str, Any]]:
    """Compare all threads that are in a team; return the number of comparisons of each fact, the core, and the
    library's answers.
    """
    core, theirs = told(program, compiler, mode)
    team = {thread["native_thread_id"] for thread in core.truth["threads"] if thread["role"] == "team"}
    with opened(core) as (session, space):
        twins = Twins(session, space, mode)
        twins.icvs(space, Scope.ADDRESS_SPACE, theirs["address_space"])
        for native, answer in theirs["threads"].items():
            ours = space.thread_by_native_id(ThreadIdKind.LWP, int(native))
            # Both must agree whether a thread belongs to the runtime.
            assert (ours is None) == (answer == {"rc": Rc.UNAVAILABLE})
            if int(native) in team:
                assert ours is not None
                twins.thread(ours, answer)
    found = twins.compared
    assert found["thread id"] == found["thread tool data"] == found["thread-num-var"] == len(team) > 1
    # Every variable was compared.
    expected = {name for _, name, _ in theirs["icvs"]}
    assert {name.removesuffix(" as text") for name in found} >= expected and len(expected) == 30
    return found, core, theirs


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize(
    "program", [pytest.param(name, marks=[pytest.mark.xdist_group("busy")] * (name == "lock")) for name in PROGRAMS]
)
@pytest.mark.quick("nested-gcc", "icvs-clang", "uneven-clang")
def test_the_vendors_library_tells_the_same(program: str, compiler: str) -> None:
    found, core, theirs = compare(program, compiler, "debug")
    assert found["state"] + found["state that the runtime does not note"] == found["thread id"]
    tasks = sum(len(answer.get("tasks", ())) for answer in theirs["threads"].values())
    assert found["frames"] == found["task tool data"] == tasks
    waits = sum(thread["wait_id"] is not None for thread in core.truth["threads"])
    assert waits == (3 if program == "lock" else 0)
    explicit = sum(task["kind"] == "explicit" and task["thread"] is not None for task in core.truth["tasks"])
    assert (found["scheduling task"] > 0) == (found["function of an explicit task"] > 0) == (explicit > 0)
    several = any(region["team_size"] > 1 for region in core.truth["regions"])
    kind = "function of an implicit task" if compiler == "clang" else "function behind a wrapper"
    assert several and found[kind] > 0


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("program", ["nested", "task_tree"])
@pytest.mark.parametrize("mode", ["tool", "neither"])
@pytest.mark.quick("neither-nested-gcc", "tool-task_tree-clang")
def test_without_omp_debug_it_tells_the_same_so_far_as_it_does(program: str, mode: str, compiler: str) -> None:
    found, _, theirs = compare(program, compiler, mode)
    assert found["state refused"] == found["thread id"]
    assert found["frames refused"] == found["function refused"] == found["task tool data"]
    assert theirs["address_space"]["debug-var"]["number"] == 0


def test_it_tells_the_same_of_the_process() -> None:
    core, theirs = told("icvs_env")
    with opened(core) as (_, space):
        assert space.omp_version() == theirs["omp_version"] == int(theirs["omp_version_text"])
        states = {f"ompt_state_{name}": value for value, name in space.states().items()}
        assert states.pop("ompt_state_undefined") == State.UNDEFINED  # a host begins to enumerate with this state
        assert states == theirs["states"] and len(states) == 24
        scopes = {icv.name: icv.scope for icv in space.icvs()}
        assert {name: scope for _, name, scope in theirs["icvs"]}.items() <= scopes.items()
        shown = space.display_control_vars()
        assert dict(shown) == theirs["display_control_vars"] and len(shown) > 80
        assert shown["OMP_NUM_THREADS"] == "'4,3,2'"


@pytest.mark.parametrize(
    ("struct", "member"),
    [
        ("kmp_taskdata_t", "td_parent"),
        ("kmp_taskdata_t", "td_team"),
        ("kmp_base_info_t", "th_current_task"),
        ("kmp_base_team_t", "t_implicit_task_taskdata"),
        ("kmp_task_t", "routine"),
        ("kmp_internal_control_t", "thread_limit"),
        ("ompt_task_info_t", "scheduling_parent"),
        ("ompt_task_info_t", "task_data"),
        ("ompt_frame_t", "exit_frame"),
        ("ompt_thread_info_t", "thread_data"),
    ],
)
@pytest.mark.quick(
    "kmp_taskdata_t-td_team",
    "kmp_base_info_t-th_current_task",
    "kmp_base_team_t-t_implicit_task_taskdata",
    "kmp_task_t-routine",
    "kmp_internal_control_t-thread_limit",
    "ompt_task_info_t-scheduling_parent",
    "ompt_frame_t-exit_frame",
    "ompt_thread_info_t-thread_data",
)
def test_a_field_that_we_read_from_a_wrong_place_is_noticed(
    struct: str, member: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told("task_tree")  # by an honest host
    honest = published.load

    def load(*arguments: Any) -> dict[str, StructLayout]:
        layouts = honest(*arguments)
        layout = layouts[struct]
        moved = Field(layout.fields[member].offset + 8, layout.fields[member].size)
        return {**layouts, struct: replace(layout, fields={**layout.fields, member: moved})}

    monkeypatch.setattr(published, "load", load)
    with pytest.raises((AssertionError, OmpdError)):
        compare("task_tree", "clang", "debug")
