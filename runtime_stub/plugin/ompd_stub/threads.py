"""Threads (``struct stub_thread``)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property

from ompd.contract.helpers.natives import native_thread_id
from ompd.contract.kept import OwnState
from ompd.contract.memory import StructView
from ompd.contract.ompd import ThreadIdKind
from ompd.contract.ompt import State2015
from ompd.contract.plugin import ConstructCode, SchedulingPoint, ThreadState
from ompd.contract.waits import GoneThread, LockState
from ompd.errors import BadInput, CorruptState, FieldNotFound, OmpdError, Unavailable, Unsupported
from ompd_stub.tasks import Task, Tasks
from ompd_stub.teams import Region, Team

# ompt_thread_type_t
_TYPES = {1: "initial", 2: "worker", 3: "other"}

_STATES = {state.value: state.name.lower() for state in State2015 if state != State2015.FIRST}


class Thread:
    """One ``stub_thread``."""

    def __init__(self, runtime: Threads, view: StructView) -> None:
        self.runtime = runtime
        self.view = view
        self.address = view.address

    def native_id(self, kind: ThreadIdKind) -> int:
        """Return ``pthread``, or ``native_id`` as the thread itself got it."""
        if kind == ThreadIdKind.PTHREAD:
            return self.view.unsigned("pthread")
        if kind == ThreadIdKind.LWP:
            return self.view.signed("native_id")
        raise Unsupported(f"the stub keeps no thread identifiers of kind {kind!r}")

    @cached_property
    def native(self) -> int:
        """The system's identifier, as the debugger has it."""
        return native_thread_id(self.runtime.callbacks, self.view.unsigned("pthread"))

    def native_thread_id(self) -> int:
        """See :meth:`ThreadHandle.native_thread_id`."""
        return self.native

    def thread_type(self) -> str:
        """See :meth:`ThreadHandle.thread_type`.

        :raises CorruptState: if there is no such type
        """
        kind = self.view.unsigned("type")
        if kind not in _TYPES:
            raise CorruptState(self.address, f"thread of type {kind}")
        return _TYPES[kind]

    @cached_property
    def team(self) -> Team | None:
        """The team whose region it executes, None in the pool.

        :raises CorruptState: if that does not have this thread
        """
        address = self.view.pointer("team")
        if address is None:
            return None
        team = self.runtime.team_at(address)
        if self.address not in team.threads:
            raise CorruptState(self.address, "a thread is said to be in a team that does not have it")
        return team

    def thread_num(self) -> int | None:
        """Return its place in the team: on its way into a region or out of it ``thread_num`` is that of the other."""
        return self.team.threads.index(self.address) if self.team is not None else None

    def current_parallel(self) -> Region | None:
        """See :meth:`ThreadHandle.current_parallel`."""
        return self.team.region if self.team is not None else None

    def current_task(self) -> Task | None:
        """Return ``task``.

        :raises CorruptState: if a thread of a team has none
        """
        if self.team is None:
            return None
        address = self.view.pointer("task")
        if address is None:
            raise CorruptState(self.address, "a thread of a team executes no task")
        return self.runtime.task_at(address)

    def outside_of_target(self) -> None:
        """See :meth:`ThreadHandle.outside_of_target`: a target region is a task of the thread's on the stub."""

    def state(self) -> ThreadState:
        """See :meth:`ThreadHandle.state`."""
        return self.runtime.state_of(self)

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
        """See :meth:`ThreadHandle.lock`."""
        return self.runtime.lock_of(self)

    def wait_kind(self) -> str | None:
        """See :meth:`ThreadHandle.wait_kind`."""
        return self.runtime.kind_of(self)

    def scheduling_point(self) -> SchedulingPoint | None:
        """See :meth:`ThreadHandle.scheduling_point`."""
        return self.runtime.point_of(self)

    def barrier_source(self) -> None:
        """See :meth:`ThreadHandle.barrier_source`: gcc's code records nothing of constructs."""

    def is_about_to_begin(self) -> bool:
        """See :meth:`ThreadHandle.is_about_to_begin`: not distinguished."""
        return False

    def tool_data(self) -> int:
        """Return ``tool_data``."""
        self.runtime.require_debug()
        return self.view.unsigned("tool_data")

    def stack_bounds(self) -> tuple[int, int]:
        """Return where its stack begins and ends.

        :raises CorruptState: if that cannot be
        """
        self.runtime.require_debug()
        low, high = self.view.unsigned("stack_low"), self.view.unsigned("stack_high")
        if not 0 < low < high:
            raise CorruptState(self.address, f"a stack from {low:#x} to {high:#x}")
        return low, high

    def idle_frame(self) -> int | None:
        """See :meth:`ThreadHandle.idle_frame`.

        :raises Unavailable: if this stub does not publish it, as older ones do not
        """
        try:
            return self.view.pointer("idle_frame")
        except FieldNotFound as error:
            raise Unavailable(str(error)) from error

    def construct_code(self) -> Sequence[ConstructCode]:
        """See :meth:`ThreadHandle.construct_code`."""
        return self.runtime.construct_code_of(self)

    def threadprivate_address(self, address: int) -> int | None:
        """See :meth:`ThreadHandle.threadprivate_address`: by the stub's DMPL library."""
        return self.runtime.threadprivate_of_other(self.native, address)


class Threads(Tasks):
    """The runtime with its threads."""

    @cached_property
    def _threads(self) -> Mapping[int, Thread]:
        count = self.root.signed("thread_count")
        if not 0 <= count <= self.most_threads:
            raise CorruptState(self.root.address, f"the runtime is said to have {count} threads")
        views = self.listed("stub_thread", self.root.pointer("threads"), self.most_threads, "the list of threads")
        return {address: Thread(self, views[address]) for address in reversed(views)}  # the eldest first

    def threads(self) -> Sequence[Thread]:
        """See :meth:`AddressSpace.threads`."""
        return tuple(self._threads.values())

    def gone_threads(self) -> Sequence[GoneThread]:
        """See :meth:`AddressSpace.gone_threads`: those in its list of whose ``pthread`` there is none."""
        found = []
        for thread in self._threads.values():
            try:
                thread.native  # noqa: B018  whether the process has it
            except BadInput:
                found.append(GoneThread(thread.address, thread.view.unsigned("pthread"), None))
        return tuple(found)

    def thread_at(self, address: int) -> Thread:
        """Return the thread whose descriptor is at *address*.

        :raises CorruptState: if the runtime has none there
        """
        try:
            return self._threads[address]
        except KeyError:
            raise CorruptState(address, "no thread of the runtime lies there") from None

    @cached_property
    def _by_native(self) -> Mapping[int, Thread]:
        found: dict[int, Thread] = {}
        for thread in self._threads.values():
            try:
                found.setdefault(thread.native, thread)
            except OmpdError:
                continue  # it has ended, or its row is lost; threads() still has it
        return found

    def thread_by_native_id(self, kind: ThreadIdKind, identifier: int) -> Thread | None:
        """See :meth:`AddressSpace.thread_by_native_id`."""
        return self._by_native.get(native_thread_id(self.callbacks, identifier, kind))

    @abstractmethod
    def state_of(self, thread: Thread) -> ThreadState:
        """See :meth:`ThreadHandle.state`."""

    @abstractmethod
    def kind_of(self, thread: Thread) -> str | None:
        """See :meth:`ThreadHandle.wait_kind`."""

    @abstractmethod
    def point_of(self, thread: Thread) -> SchedulingPoint | None:
        """See :meth:`ThreadHandle.scheduling_point`."""

    @abstractmethod
    def lock_of(self, thread: Thread) -> LockState | None:
        """See :meth:`ThreadHandle.lock`."""

    @abstractmethod
    def construct_code_of(self, thread: Thread) -> Sequence[ConstructCode]:
        """See :meth:`ThreadHandle.construct_code`."""

    @abstractmethod
    def threadprivate_of_other(self, thread: int, address: int) -> int | None:
        """See :meth:`AddressSpace.threadprivate_of_other`."""
