"""Threads (``struct stub_thread``)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from ompd.contract.helpers.natives import native_thread_id
from ompd.contract.kept import OwnState
from ompd.contract.memory import StructView
from ompd.contract.ompd import ThreadIdKind
from ompd.contract.ompt import State2015
from ompd.errors import CorruptState, FieldNotFound, Unavailable, Unsupported
from ompd_stub import points, stacks, states, waits

if TYPE_CHECKING:
    from ompd.contract.plugin import ConstructCode, SchedulingPoint, ThreadState
    from ompd.contract.waits import LockState
    from ompd_stub.runtime import Runtime
    from ompd_stub.tasks import Task
    from ompd_stub.teams import Region, Team

# ompt_thread_type_t
_TYPES = {1: "initial", 2: "worker", 3: "other"}

_STATES = {state.value: state.name.lower() for state in State2015 if state != State2015.FIRST}


class Thread:
    """One ``stub_thread``."""

    def __init__(self, runtime: Runtime, view: StructView) -> None:
        self.runtime = runtime
        self.view = view
        self.address = view.address

    def native_id(self, kind: ThreadIdKind) -> int:
        """Return ``pthread``, or ``native_id``, the system's number as the thread itself got it."""
        if kind == ThreadIdKind.PTHREAD:
            return self.view.unsigned("pthread")
        if kind == ThreadIdKind.LWP:
            return self.view.signed("native_id")
        raise Unsupported(f"the stub keeps no thread identifiers of kind {kind!r}")

    @cached_property
    def native(self) -> int:
        """The system's identifier of the thread, as the debugger knows it."""
        return native_thread_id(self.runtime.callbacks, self.view.unsigned("pthread"))

    def native_thread_id(self) -> int:
        return self.native

    def thread_type(self) -> str:
        """Return the thread's ``type``: ``initial``, ``worker`` or ``other``.

        :raises CorruptState: if ``type`` is another number
        """
        kind = self.view.unsigned("type")
        if kind not in _TYPES:
            raise CorruptState(self.address, f"thread of type {kind}")
        return _TYPES[kind]

    @cached_property
    def team(self) -> Team | None:
        """The team whose region the thread executes, None in the pool.

        :raises CorruptState: if the team does not list this thread
        """
        address = self.view.pointer("team")
        if address is None:
            return None
        team = self.runtime.team_at(address)
        if self.address not in team.threads:
            raise CorruptState(self.address, "a thread is said to be in a team that does not have it")
        return team

    def thread_num(self) -> int | None:
        """Return the thread's index in its team. The member ``thread_num`` may be another team's while the thread
        enters or leaves a region.
        """
        return self.team.threads.index(self.address) if self.team is not None else None

    def current_parallel(self) -> Region | None:
        return self.team.region if self.team is not None else None

    def current_task(self) -> Task | None:
        """Return the task that the thread executes (``task``), None in the pool.

        :raises CorruptState: if a thread of a team has no task
        """
        if self.team is None:
            return None
        address = self.view.pointer("task")
        if address is None:
            raise CorruptState(self.address, "a thread of a team executes no task")
        return self.runtime.task_at(address)

    def outside_of_target(self) -> None:
        """Return None: on the stub a target region is a task of the thread."""

    def state(self) -> ThreadState:
        return states.thread_state(self)

    def ompt_id(self) -> int:
        """Return ``id``, an ``ompt_thread_id_t`` of 2015."""
        return self.view.unsigned("id")

    def ompt_state(self) -> OwnState:
        """Return ``state``, an ``ompt_state_t`` of 2015.

        :raises CorruptState: if there is no such state
        """
        self.runtime.require_debug()
        number = self.view.unsigned("state")
        if number not in _STATES:
            raise CorruptState(self.address, f"thread in state {number:#x}")
        return OwnState(number, _STATES[number])

    def lock(self) -> LockState | None:
        return waits.lock_of(self)

    def wait_kind(self) -> str | None:
        return points.wait_kind_of(self)

    def scheduling_point(self) -> SchedulingPoint | None:
        return points.point_of(self)

    def barrier_source(self) -> None:
        """Return None: gcc's code records nothing of constructs."""

    def is_about_to_begin(self) -> bool:
        """Return False: the stub does not record this."""
        return False

    def tool_data(self) -> int:
        self.runtime.require_debug()
        return self.view.unsigned("tool_data")

    def stack_bounds(self) -> tuple[int, int]:
        """Return the lowest address of the thread's stack, and the stack's end.

        :raises CorruptState: if the stack is empty or begins at 0
        """
        self.runtime.require_debug()
        low, high = self.view.unsigned("stack_low"), self.view.unsigned("stack_high")
        if not 0 < low < high:
            raise CorruptState(self.address, f"a stack from {low:#x} to {high:#x}")
        return low, high

    def idle_frame(self) -> int | None:
        """Return ``idle_frame``.

        :raises Unavailable: if this stub is too old to publish the member
        """
        try:
            return self.view.pointer("idle_frame")
        except FieldNotFound as error:
            raise Unavailable(str(error)) from error

    def construct_code(self) -> Sequence[ConstructCode]:
        return stacks.construct_code(self)

    def threadprivate_address(self, address: int) -> int | None:
        return self.runtime.threadprivate_of_other(self.native, address)
