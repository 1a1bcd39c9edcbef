"""Threads that the stub knows (``struct stub_thread``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from ompd.contract.memory import StructView
from ompd.contract.ompd import ThreadIdKind
from ompd.contract.plugin import ConstructCode, ThreadState
from ompd.errors import CorruptState, Unsupported
from ompd.runtimes.stub import stacks, states

if TYPE_CHECKING:
    from ompd.runtimes.stub.plugin import Runtime
    from ompd.runtimes.stub.regions import Region, Team
    from ompd.runtimes.stub.tasks import Task

# ompt_thread_type_t
_TYPES = {1: "initial", 2: "worker", 3: "other"}
_MAX_TASKS = 1 << 20


class Thread:
    """One ``stub_thread``."""

    def __init__(self, runtime: Runtime, view: StructView) -> None:
        self.runtime = runtime
        self.view = view
        self.address = view.address

    def native_id(self, kind: ThreadIdKind) -> int:
        """Return ``pthread``, or ``native_id`` as the thread itself was told it."""
        if kind == ThreadIdKind.PTHREAD:
            return self.view.unsigned("pthread")
        if kind == ThreadIdKind.LWP:
            return self.view.signed("native_id")
        raise Unsupported(f"the stub keeps no thread identifiers of kind {kind!r}")

    @cached_property
    def native(self) -> int:
        """The system's identifier, as the debugger has it."""
        return self.runtime.callbacks.thread_for_id(ThreadIdKind.PTHREAD, self.native_id(ThreadIdKind.PTHREAD))

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

    def hosted_tasks(self) -> Iterator[Task]:
        """Yield the tasks on its stack as far as the runtime keeps them, innermost first.

        :raises CorruptState: if they do not end
        """
        task = self.current_task()
        seen: set[int] = set()
        while task is not None:
            if task.address in seen or len(seen) >= _MAX_TASKS:
                raise CorruptState(task.address, "the tasks on a thread do not end")
            seen.add(task.address)
            yield task
            if task.kind() == "explicit":
                task = task.scheduling()
            elif task.kind() == "implicit" and self._met(task):
                task = task.generating()
            else:
                return

    def _met(self, implicit: Task) -> bool:
        # Whether it is this thread that met the region of an implicit task: its primary one.
        return implicit.team.threads[0] == self.address

    def outside_of_target(self) -> None:
        """See :meth:`ThreadHandle.outside_of_target`: the stub has no target constructs."""

    def state(self) -> ThreadState:
        """See :meth:`ThreadHandle.state`."""
        return states.thread_state(self)

    def is_about_to_begin(self) -> bool:
        """See :meth:`ThreadHandle.is_about_to_begin`: not told apart."""
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

    def construct_code(self) -> Sequence[ConstructCode]:
        """See :meth:`ThreadHandle.construct_code`."""
        return stacks.construct_code(self)

    def threadprivate_address(self, address: int) -> int | None:
        """See :meth:`ThreadHandle.threadprivate_address`: by the stub's DMPL library."""
        return self.runtime.threadprivate.address(self.native, address)
