"""The identity of a library's handles, its refusals and variables, and the frames of tasks; without any library."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from ompd.contract.ompd import Scope
from ompd.contract.ompt import FrameFlag
from ompd.contract.plugin import FrameAddress
from ompd.errors import BadInput, CorruptState, LibraryError, NoCall, OmpdError, Rc, Unavailable
from ompd.runtimes.hosted.api import Batch, Call, Icv, Outcome, Pending, TaskRef
from ompd.runtimes.hosted.handles import icvs, identities, queries, stacks
from ompd.runtimes.hosted.handles.identities import Identities
from ompd.runtimes.hosted.handles.queries import Handle


class Library:
    """A library that compares handles by the things they stand for: handle *n* stands for the *n*-th of *things*."""

    name = "/lib/libodd.so"

    def __init__(self, things: Sequence[int]) -> None:
        self.things = dict(enumerate(things, 1))
        self.compared: list[tuple[int, int]] = []
        self.exchanges = 0

    def batch(self) -> Batch:
        return Batch(self)  # type: ignore[arg-type]

    def run(self, calls: Sequence[Call]) -> list[Outcome]:
        self.exchanges += 1
        found = []
        for call in calls:
            one, other = (ref.number if isinstance(ref, TaskRef) else ref for ref in call.arguments)
            self.compared.append((one, other))
            found.append(Outcome(0, (self.things[one] - self.things[other],), (), None))
        return found

    def refs(self) -> list[TaskRef]:
        return [TaskRef(number, self) for number in self.things]  # type: ignore[arg-type]

    def release(self, number: int) -> None:
        """Do nothing, because these handles are numbers only."""

    def identities(self) -> Identities[TaskRef, Handle]:
        return Things(self)  # type: ignore[arg-type]


class Things(Identities[TaskRef, Handle]):
    """The things that handles stand for."""

    def compare(self, batch: Batch, one: TaskRef, other: TaskRef) -> Pending[int]:
        return batch.task_handle_compare(one, other)

    def new(self, ref: TaskRef) -> Handle:
        return Handle(None, ref)  # type: ignore[arg-type]

    def of(self, refs: Sequence[TaskRef]) -> list[Handle]:
        return self.place(refs)


def placed(library: Library, keys: Sequence[int] | None = None) -> list[int]:
    """Return a number for each handle. Handles that are found to be of one thing have the same number."""
    made, refs = library.identities(), library.refs()
    found = [*made.place(refs[:3], keys[:3] if keys else None), *made.place(refs[3:], keys[3:] if keys else None)]
    names = {entity: number for number, entity in enumerate(dict.fromkeys(found))}
    return [names[entity] for entity in found]


def test_handles_are_of_one_thing_if_the_library_says_so() -> None:
    assert placed(Library([7, 8, 7, 9, 8, 7])) == [0, 1, 0, 2, 1, 0]


def test_handles_that_differ_in_what_is_known_are_not_compared() -> None:
    library = Library([7, 8, 7, 8, 7, 8])
    assert placed(library, [1, 2, 1, 2, 1, 2]) == [0, 1, 0, 1, 0, 1]
    assert all(library.things[one] == library.things[other] for one, other in library.compared)


def test_many_handles_of_one_thing_are_one_exchange() -> None:
    library = Library([5] * 500)
    assert len(set(library.identities().place(library.refs()))) == 1
    assert library.exchanges == 1 and len(library.compared) == 499


def test_a_library_that_calls_all_different_is_not_followed_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identities, "_MAX_ENTITIES", 100)
    library = Library(range(200))
    made = library.identities()
    with pytest.raises(CorruptState, match="do not end"):
        for ref in library.refs():
            made.place([ref], [ref.number])
    monkeypatch.setattr(identities, "_MAX_COMPARED", 1000)
    with pytest.raises(Unavailable, match="too many handles"):
        library.identities().place(library.refs())


# What refusals mean


def refused(rc: Rc, *, call: str = "ompd_get_state", has_ended: bool = False) -> OmpdError:
    library: Any = SimpleNamespace(functions={"ompd_get_state"}, name="/lib/libodd.so")
    with pytest.raises(OmpdError) as caught:
        queries.refuse(library, LibraryError("/lib/libodd.so", call, "returned", rc=rc, has_ended=has_ended))
    return caught.value


@pytest.mark.parametrize("rc", [Rc.UNAVAILABLE, Rc.UNSUPPORTED, Rc.BAD_INPUT, Rc.INCOMPATIBLE])
def test_what_a_library_cannot_tell_is_unavailable(rc: Rc) -> None:
    assert type(refused(rc)) is Unavailable
    assert str(refused(rc, call="ompd_get_omp_version")) == "/lib/libodd.so has no ompd_get_omp_version"


@pytest.mark.parametrize("rc", [Rc.ERROR, Rc.DEVICE_READ_ERROR, Rc.STALE_HANDLE, Rc.CALLBACK_ERROR, Rc.NOMEM])
def test_what_a_library_fails_in_is_a_failure(rc: Rc) -> None:
    assert isinstance(refused(rc), LibraryError)


def test_the_end_of_a_library_is_no_answer() -> None:
    assert isinstance(refused(Rc.UNAVAILABLE, has_ended=True), LibraryError)
    assert "OMP_DEBUG=enabled (ompd_get_state)" in str(refused(Rc.NEEDS_STATE_TRACKING))


def test_what_has_no_call_says_so() -> None:
    with pytest.raises(NoCall, match="OMPD has no call that returns the weather"):
        queries.no_call("the weather")


# Variables


@pytest.mark.parametrize(
    ("name", "number", "value"),
    [
        ("dyn-var", 1, True),
        ("cancel-var", 0, False),
        ("dyn-var", 7, 7),
        ("bind-var", 3, "close"),
        ("bind-var", 6, "default"),
        ("bind-var", 77, "77"),
        ("levels-var", 1, 1),
    ],
)
def test_numbers_mean_what_the_specification_says(name: str, number: int, value: object) -> None:
    found = icvs._meaning(name, number)
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("bind-var", "4,3", "spread,close"),
        ("bind-var", "spread", "spread"),
        ("nthreads-var", "4", 4),
        ("nthreads-var", "4,2", "4,2"),
        ("run-sched-var", "static,0", "static"),
        ("run-sched-var", "dynamic,10", "dynamic,10"),
        ("tool-libraries-var", "", ""),
    ],
)
def test_texts_are_lists_or_names(name: str, text: str, value: object) -> None:
    assert icvs._from_text(name, text) == value


def test_a_variable_of_an_unknown_scope_is_left_out_and_one_name_is_one_variable() -> None:
    listed = [Icv(1, "a-var", Scope.TASK), Icv(2, "b-var", 99), Icv(3, "a-var", Scope.THREAD)]
    assert [(icv.name, icv.scope) for icv in icvs.describe(listed)] == [("a-var", Scope.TASK)]
    space: Any = SimpleNamespace(icv_list=listed)
    with pytest.raises(BadInput, match="no internal control variable"):
        icvs.read(space, "b-var", None)


# Frames: user code, the runtime's routine that calls it, and the caller of this routine


def called_from(address: int, flags: int | None, owners: str) -> int:
    frames: Any = [SimpleNamespace(sp=at * 0x100, cfa=(at + 1) * 0x100) for at in range(len(owners))]
    kinds = {"u": "user", "r": "runtime"}
    space: Any = SimpleNamespace(
        owners=SimpleNamespace(of=lambda frame: kinds[owners[frame.sp // 0x100]]),
        hosted_library=SimpleNamespace(name="/lib/libodd.so"),
    )
    return stacks._called_from(space, frames, FrameAddress(address, flags))


@pytest.mark.parametrize(
    ("address", "flags"),
    [
        (0x1F0, None),  # the frame pointer, as on x86-64
        (0x1F0, FrameFlag.CFA),  # the same, with the flags of LLVM's runtime
        (0x100, FrameFlag.FRAMEPOINTER),  # the frame pointer, if that is the stack pointer
        (0x200, FrameFlag.CFA),  # as the specification has it
    ],
)
def test_the_frame_that_called_a_task_is_found_whatever_its_address_is_of(address: int, flags: int | None) -> None:
    assert called_from(address, flags, "uruu") == 1


def test_an_applications_own_frame_is_that_of_the_code() -> None:
    assert called_from(0x1F0, FrameFlag.APPLICATION | FrameFlag.FRAMEPOINTER, "uuur") == 2
    # LLVM's library gives no flags. Its address is in the frame that called the code of the task.
    assert called_from(0x1F0, None, "uuur") == 1


def test_a_frame_that_is_on_no_stack_is_damage() -> None:
    with pytest.raises(CorruptState, match="not on the stack"):
        called_from(0x5000, None, "uru")
