"""libgomp's routines on invented stacks: frames that belong together, the code they call, what the thread does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ompd.contract.helpers.stacks import CodeOwners
from ompd.runtimes.libgomp.stacks import (
    BARRIERS,
    BEGIN,
    PARALLEL,
    TASK,
    UNDEFERRED,
    Group,
    ParsedStack,
    code_called,
)

LIBC, GOMP, PROGRAM = (
    SimpleNamespace(name=name, is_system_library=name == "libc.so.6", is_program=name == "prog")
    for name in ("libc.so.6", "libgomp.so.1", "prog")
)


@dataclass(frozen=True)
class Frame:
    """A frame whose address is its index on the stack. The runtime's frames have names if they are entry points."""

    text: str
    pc: int
    registers: Mapping[int, int] = field(default_factory=dict)
    function_start: int | None = None
    cfa: int | None = None

    @property
    def call_site(self) -> int:
        return self.pc

    @property
    def sp(self) -> int:
        return 0x1000 * self.pc

    @property
    def is_signal_frame(self) -> bool:
        return self.text == "signal"


class Process:
    """A process whose frames are given by their kind.

    ``?`` is a routine of the runtime without a name. ``libc``, ``signal`` and ``start_thread`` are the C library's.
    ``GOMP_`` and ``omp_`` are entry points. All other frames are the user's.
    """

    pointer_size, byte_order = 8, "little"

    def __init__(self, texts: Sequence[str], stopped: str | None, by_pointer: Sequence[int]) -> None:
        self.frames = tuple(Frame(text, index) for index, text in enumerate(texts))
        self.stopped = stopped
        self.by_pointer = by_pointer

    def stack(self, native: int) -> Process:
        return self

    def module_at(self, address: int) -> object:
        text = self.frames[address].text
        if text in ("libc", "signal", "start_thread"):
            return LIBC
        return GOMP if text == "?" or text.startswith(("GOMP_", "omp_")) else PROGRAM

    def locate(self, address: int) -> object:
        text = self.frames[address].text
        return SimpleNamespace(symbol=None if text == "?" else text, module=self.module_at(address))

    def is_linkage(self, address: int) -> bool:
        return False

    def calls_by_pointer(self, pc: int) -> bool:
        return pc in self.by_pointer

    def routine_called(self, pc: int) -> str | None:
        return None

    def function_called(self, frame: Frame) -> int | None:
        return None


def parsed(*texts: str, stopped: str | None = None, by_pointer: Sequence[int] = ()) -> ParsedStack:
    process = Process(texts, stopped, by_pointer)
    return ParsedStack(CodeOwners(cast("Any", process), cast("Any", GOMP)), 1)


def test_a_primary_thread_is_in_the_code_of_its_region() -> None:
    stack = parsed("work", "main._omp_fn.0", "GOMP_parallel", "main", "libc")
    assert stack.groups == (Group(2, 2, "GOMP_parallel", PARALLEL, 3),)
    assert stack.groups[0].forks and stack.reaches_user and stack.runs_other_code
    assert stack.innermost_group() is None and not stack.is_in_region


def test_a_worker_begins_in_a_routine_without_a_name() -> None:
    stack = parsed("main._omp_fn.0", "?", "start_thread")
    assert stack.groups == (Group(1, 1, BEGIN, PARALLEL, None),)
    assert stack.is_in_region and not stack.is_beginning
    waiting = parsed("?", "?", "start_thread")
    assert waiting.groups == (Group(0, 1, BEGIN, None, None),)
    assert waiting.is_beginning and not waiting.is_in_region and not waiting.reaches_user


def test_a_stack_that_was_not_followed_to_its_end_shows_no_beginning_of_a_worker() -> None:
    stack = parsed("main._omp_fn.0", "?", stopped="no unwind data")
    assert [group.entry for group in stack.groups] == [None] and not stack.is_in_region


def test_tasks_are_called_by_what_waits_and_undeferred_ones_by_what_makes_them() -> None:
    stack = parsed("f._omp_fn.1", "?", "GOMP_barrier", "main._omp_fn.0", "GOMP_parallel", "main")
    assert [(group.entry, group.code) for group in stack.groups] == [
        ("GOMP_barrier", TASK),
        ("GOMP_parallel", PARALLEL),
    ]
    undeferred = parsed("f._omp_fn.1", "GOMP_task", "main._omp_fn.0", "GOMP_parallel", "main")
    assert undeferred.groups[0].code == UNDEFERRED


def test_what_copies_a_tasks_arguments_and_the_c_library_are_no_code() -> None:
    for called in ("f._omp_cpyfn.2", "libc"):
        assert parsed(called, "GOMP_task", "main").groups == (Group(1, 1, "GOMP_task", None, 2),)


def test_code_that_ended_by_a_jump_to_the_runtime_divides_its_frames() -> None:
    stack = parsed("GOMP_barrier", "GOMP_parallel", "main", by_pointer=(1,))
    assert [(group.inner, group.outer, group.code) for group in stack.groups] == [(0, 0, None), (1, 1, PARALLEL)]
    whole = parsed("GOMP_barrier", "GOMP_parallel", "main")
    assert [(group.inner, group.outer) for group in whole.groups] == [(0, 1)]


def test_a_handler_is_no_end_to_the_wait_in_which_its_signal_came() -> None:
    stack = parsed("handler", "signal", "?", "GOMP_barrier", "main._omp_fn.0", "GOMP_parallel", "main")
    group = stack.innermost_group()
    assert group is not None and group.entry == "GOMP_barrier" and stack.is_interrupted(group)


def test_a_handler_may_wait_itself_or_be_in_a_region() -> None:
    waiting = parsed("?", "omp_set_lock", "handler", "signal", "?", "GOMP_barrier", "main")
    group = waiting.innermost_group()
    assert group is not None and group.entry == "omp_set_lock"
    asking = parsed("omp_get_thread_num", "handler", "signal", "?", "GOMP_barrier", "main")
    group = asking.innermost_group()
    assert group is not None and group.entry == "GOMP_barrier"
    inside = parsed("h._omp_fn.0", "GOMP_parallel", "handler", "signal", "?", "GOMP_barrier", "main")
    assert inside.innermost_group() is None


@pytest.mark.parametrize(
    ("routine", "entry", "code"),
    [
        ("GOMP_parallel_loop_dynamic", "GOMP_parallel_loop_dynamic", PARALLEL),
        ("GOMP_taskloop_ull", "GOMP_taskloop_ull", UNDEFERRED),
        ("GOMP_taskwait", "GOMP_taskwait", TASK),
        ("", "GOMP_barrier", TASK),
        ("", None, TASK),
        ("", "GOMP_target_ext", None),
        ("GOMP_teams_reg", "GOMP_teams_reg", None),
    ],
)
def test_what_a_routine_calls_follows_from_its_name(routine: str, entry: str | None, code: str | None) -> None:
    assert code_called(routine, entry) == code


def test_barriers_are_those_at_whose_end_a_team_waits() -> None:
    assert {"GOMP_barrier", "GOMP_loop_end", "GOMP_single_copy_end"} <= BARRIERS
    assert not BARRIERS & {"GOMP_taskwait", "GOMP_critical_start", "omp_set_lock"}
