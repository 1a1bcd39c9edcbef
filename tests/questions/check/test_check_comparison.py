"""Compare two sides that both answer OMPD's questions: each fact in which they differ is found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from ompd.contract.ompd import Scope
from ompd.contract.plugin import AddressSpace
from ompd.errors import OmpdError
from ompd.questions.check.compare import Fact, compare, function_of
from ompd.questions.check.ompd_library import LibraryAnswers
from ompd.questions.check.plugin import NativeThread, PluginAnswers
from ompd.runtimes.hosted.api import Call, Outcome, SpaceRef, TaskRef
from ompd.runtimes.hosted.messages import Row
from ompd.runtimes.hosted.signatures import Function
from ompd.session import Session
from tests.check.answering import Answering
from tests.check.lying import LIES, Lie, Lying, lie_of_variable
from tests.support import stopped
from tests.support.hosted import NO_HANDLES
from tests.support.stub import plugin_folder

# The lies need a thread that waits for a lock, nested regions, and explicit tasks with a tool's data.
PROGRAMS = ("lock", "nested", "task_tree")


@contextmanager
def opened(program: str, runtime: str) -> Iterator[tuple[AddressSpace, Sequence[NativeThread]]]:
    core = stopped(program, compiler="gcc" if runtime == "stub" else "clang", runtime=runtime)
    with Session.open_core(core.core, plugins=(plugin_folder(),) if runtime == "stub" else ()) as session:
        (loaded,) = (each for each in session.runtimes if each.space is not None)
        process = session.process
        assert loaded.space is not None
        yield loaded.space, [NativeThread(each, process.threads.thread_pointer(each)) for each in process.threads.ids()]


def differences(space: AddressSpace, threads: Sequence[NativeThread], lie: Lie | None) -> list[Fact]:
    facts = list(
        compare(PluginAnswers(_lying(space, lie)), PluginAnswers(space), threads, keeps_states=space.keeps_states())
    )
    assert len(facts) > 50
    assert all(function_of(fact.name).startswith("ompd_") for fact in facts)
    return [fact for fact in facts if not fact.is_same]


def _lying(space: AddressSpace, lie: Lie | None) -> Any:
    return Lying(space, lie)


@pytest.mark.parametrize("runtime", ["intel", "libomp-19-debug", "stub"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_what_tells_the_truth_is_the_same(program: str, runtime: str) -> None:
    with opened(program, runtime) as (space, threads):
        assert [fact.name for fact in differences(space, threads, None)] == []


@pytest.mark.parametrize("runtime", ["intel", "stub"])
def test_each_lie_is_found(runtime: str) -> None:
    unfound = {f"{number} {lie.name}" for number, lie in enumerate(LIES)}
    for program in PROGRAMS:
        with opened(program, runtime) as (space, threads):
            for number, lie in enumerate(LIES):
                if f"{number} {lie.name}" in unfound and differences(space, threads, lie):
                    unfound.discard(f"{number} {lie.name}")
    expected = {"19 task.frames"} if runtime == "stub" else set()  # the stub has no flags to get wrong
    assert unfound - expected == set()


@pytest.mark.parametrize("runtime", ["intel", "stub"])
def test_a_wrong_value_of_each_variable_is_found(runtime: str) -> None:
    with opened("lock", runtime) as (space, threads):
        names = [each.name for each in space.icvs()]
        assert len(names) > 4
        for name in names:
            found = differences(space, threads, lie_of_variable(name))
            assert {fact.name for fact in found} <= {f"number of {name}", f"text of {name}"} or _shapes(name)
            assert found, name


def _shapes(name: str) -> bool:
    # The comparison itself uses these variables.
    return name in ("team-size-var", "implicit-task-var", "debug-var")


def test_regions_without_end_are_one_difference() -> None:
    class Endless(PluginAnswers):
        def enclosing(self, parallel: Any) -> Any:
            return Another()

        def key(self, scope: Scope, handle: Any) -> Any:
            return id(handle) if isinstance(handle, Another) else super().key(scope, handle)

    class Another:
        id = "another"

        def __getattr__(self, name: str) -> Any:
            raise OmpdError("a region without an end")

    with opened("lock", "intel") as (space, threads):
        facts = list(compare(Endless(space), PluginAnswers(space), threads, keeps_states=True))
        ends = [fact for fact in facts if fact.name == "end of regions" and not fact.is_same]
        assert len(ends) == 4 and all("does not end" in fact.theirs.reason for fact in ends)


def test_a_side_that_fails_in_everything_differs_in_all_that_the_other_knows() -> None:
    class Broken:
        def __getattr__(self, name: str) -> Any:
            def fail(*arguments: Any) -> Any:
                raise OmpdError("the library has failed")

            return fail

    with opened("nested", "intel") as (space, threads):
        facts = list(compare(Broken(), PluginAnswers(space), threads, keeps_states=True))  # type: ignore[arg-type]
        assert facts and not any(fact.is_same for fact in facts if fact.ours.kind == "value")


def test_a_variable_that_the_library_has_with_another_scope_is_asked_for_by_ours() -> None:
    def answer(call: Call) -> Outcome:
        whose, scope, number = (*call.arguments, 0, 0)[:3]
        if call.function == Function.ENUMERATE_ICVS:
            return Outcome(0, (), [Row(7, Scope.THREAD, b"dyn-var")], None)
        assert isinstance(whose, TaskRef) and isinstance(scope, int) and isinstance(number, int)
        if call.function == Function.GET_ICV_FROM_SCOPE:
            return Outcome(0, (number + scope,), (), None)
        return Outcome(0, (), [Row(0, 0, f"{Scope(scope).name} {number}".encode())], None)

    library: Any = Answering(answer)
    space, task = SpaceRef(1, NO_HANDLES), TaskRef(2, NO_HANDLES)
    side = LibraryAnswers(library, space)
    assert library.exchanges == 0
    assert side.icv_number("dyn-var", Scope.TASK, task) == (7 + Scope.TASK, True)
    assert side.icv_text("dyn-var", Scope.TASK, task) == "TASK 7"
