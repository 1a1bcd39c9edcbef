"""Find a library's handles of the same object in few calls and fewer exchanges, and ask some calls ahead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from ompd.contract.ompd import Scope
from ompd.errors import LibraryError, OmpdError, Rc
from ompd.inspection import Inspection
from ompd.questions.check import ompd_library as answers
from ompd.questions.check.ompd_library import CallQueue, Identities
from ompd.runtimes.hosted.api import Batch, Call, Outcome, TaskRef
from ompd.runtimes.hosted.client import HostedLibrary
from ompd.runtimes.hosted.signatures import Function
from tests.check.answering import Answering
from tests.support import stopped
from tests.support.hosted import NO_HANDLES
from tests.support.ompd_libraries import ompd_library

REFUSED = Outcome(Rc.NEEDS_STATE_TRACKING, (), (), LibraryError("answering.so", None, "refused", rc=Rc.ERROR))
# Results when a library compares two addresses: their order, their distance cut to an int, or whether they are equal.
COMPARISONS: dict[str, Callable[[int, int], int]] = {
    "order": lambda one, other: (one > other) - (one < other),
    "distance": lambda one, other: ((one - other + (1 << 31)) % (1 << 32)) - (1 << 31),
    "equality": lambda one, other: int(one != other),
}


class Tasks:
    """Tasks at *addresses*, each with several handles.

    :param has_frames: whether the library gives the frames of tasks, different for each task
    """

    def __init__(self, addresses: Sequence[int], comparison: str, *, has_frames: bool = False) -> None:
        self._addresses, self._compared, self._has_frames = addresses, COMPARISONS[comparison], has_frames
        self.client = Answering(self._answer)
        client: Any = self.client
        self.identities = Identities(CallQueue(client))
        self.handles = [TaskRef(number, NO_HANDLES) for number in range(1, len(addresses) + 1)]

    def _answer(self, call: Call) -> Outcome:
        of = [self._addresses[each.number - 1] for each in call.arguments if isinstance(each, TaskRef)]
        if call.function == Function.TASK_HANDLE_COMPARE:
            return Outcome(0, [self._compared(*of)], (), None)
        assert call.function == Function.GET_TASK_FRAME
        return Outcome(0, [of[0], 0, of[0] + 8, 0], (), None) if self._has_frames else REFUSED

    def assert_found(self) -> None:
        """Check that two handles have one key if and only if they are of one task."""
        keys = [self.identities.key(Scope.TASK, handle) for handle in self.handles]
        assert len(set(keys)) == len(set(self._addresses)) == len(set(zip(keys, self._addresses, strict=True)))


def addresses(tasks: int, handles: int, seed: int = 1) -> list[int]:
    """Return the address of each handle's task: each task has a handle, and the first one has many."""
    chance = Random(seed)
    found = [0x7F0000001000 + 0x7_0000_0340 * chance.randrange(1 << 12) * 64 + 64 * number for number in range(tasks)]
    more = [chance.choice([found[0], chance.choice(found)]) for _ in range(handles - tasks)]
    chance.shuffle(mixed := found + more)
    return mixed


@pytest.mark.parametrize("comparison", COMPARISONS)
@pytest.mark.parametrize("has_frames", [False, True])
@pytest.mark.parametrize(("number", "handles"), [(1, 1), (1, 300), (40, 90), (90, 130), (300, 900)])
@pytest.mark.quick(
    "1-1-False-order",
    "1-1-True-order",
    "1-1-True-distance",
    "1-300-False-order",
    "1-300-True-distance",
    "1-300-True-equality",
    "40-90-False-order",
    "40-90-False-distance",
    "40-90-False-equality",
    "40-90-True-distance",
    "40-90-True-equality",
    "90-130-False-order",
    "90-130-False-distance",
    "90-130-False-equality",
    "90-130-True-distance",
    "90-130-True-equality",
)
def test_those_of_one_task_have_one_key(comparison: str, has_frames: bool, number: int, handles: int) -> None:
    found = Tasks(addresses(number, handles), comparison, has_frames=has_frames)
    for start in range(0, handles, 128):
        found.identities.find(Scope.TASK, found.handles[start : start + 128])
    found.assert_found()


@pytest.mark.parametrize("comparison", COMPARISONS)
def test_they_are_found_one_by_one_as_well(comparison: str) -> None:
    Tasks(addresses(100, 160), comparison).assert_found()


@pytest.mark.parametrize("comparison", ["order", "distance"])
def test_a_thousand_handles_need_no_half_million_comparisons(comparison: str) -> None:
    tasks = Tasks(addresses(600, 1200), comparison)
    tasks.identities.find(Scope.TASK, tasks.handles)
    assert tasks.client.calls < 150_000 and tasks.client.exchanges < 40
    tasks.assert_found()


def test_what_has_a_frame_of_its_own_is_hardly_compared() -> None:
    tasks = Tasks(addresses(600, 1200), "order", has_frames=True)
    tasks.identities.find(Scope.TASK, tasks.handles)
    # One call for each handle's frame, the others for the handles of the first task.
    assert tasks.client.calls < 1200 + 3 * 1200 and tasks.client.exchanges < 8


def test_more_that_are_alike_than_can_be_compared_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "_MAX_ALIKE", 20)
    tasks = Tasks(addresses(30, 30), "equality")
    tasks.identities.find(Scope.TASK, tasks.handles)
    with pytest.raises(OmpdError, match="more than 20 handles that differ in nothing else"):
        tasks.assert_found()


def test_what_cannot_be_compared_is_not_the_same() -> None:
    library: Any = Answering(lambda call: REFUSED)
    found = Identities(CallQueue(library))
    handles = [TaskRef(number, NO_HANDLES) for number in range(1, 80)]
    found.find(Scope.TASK, handles)
    assert len({found.key(Scope.TASK, handle) for handle in handles}) == len(handles)


def test_a_call_is_made_once_with_those_recorded_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    library: Any = Answering(lambda call: Outcome(0, (), (), None))
    calls, one = CallQueue(library), TaskRef(1, NO_HANDLES)
    regions = [calls.call(Batch.get_task_parallel_handle, one) for _ in range(3)]
    function = calls.call(Batch.get_task_function, one)
    assert library.exchanges == 0 and calls.has(Batch.get_task_function, one)
    assert regions[0].value() is regions[2].value() and function.error() is None
    assert (library.exchanges, library.calls) == (1, 2)
    # An answer that is no longer kept is asked for again.
    monkeypatch.setattr(answers, "_MOST_KEPT", 2)
    calls.call(Batch.get_task_frame, one)
    assert calls.has(Batch.get_task_function, one) and not calls.has(Batch.get_task_parallel_handle, one)


@pytest.mark.parametrize("library", ["intel-2026", "llvm-19"])
@pytest.mark.parametrize("mode", ["debug", "neither"])
@pytest.mark.quick("debug-llvm-19", "neither-intel-2026")
def test_more_threads_are_no_more_exchanges(library: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run, count = HostedLibrary.run, [0]

    def counted(self: HostedLibrary, calls: Sequence[Call]) -> Sequence[Outcome]:
        count[0] += 1
        return run(self, calls)

    monkeypatch.setattr(HostedLibrary, "run", counted)
    found = []
    for threads in (8, 64):
        count[0] = 0
        core = stopped("many", compiler="clang", mode=mode, threads=threads).core
        with Inspection.open_core(core, ompd_library=ompd_library(library)) as session:
            (checked,) = session.ask_check().libraries
        assert checked.facts > 50 * threads and checked.unexplained == 0
        found.append(count[0])
    assert found[1] <= found[0] + 8 < 50
