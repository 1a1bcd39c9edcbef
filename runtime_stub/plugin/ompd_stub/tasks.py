"""Tasks (``struct stub_task``)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from ompd.contract.helpers.walks import MAX_TASKS, chain
from ompd.contract.memory import StructView
from ompd.contract.plugin import Dependence, FrameAddress, TaskWait
from ompd.errors import CorruptState

if TYPE_CHECKING:
    from ompd_stub.runtime import Runtime
    from ompd_stub.teams import Region, Team
    from ompd_stub.threads import Thread

_MAX_DEPENDENCES = 1 << 16

# ompt_task_type_t of 2015. A degenerate task is an explicit task that its encountering thread executes at once.
_KINDS = {1: "initial", 2: "implicit", 3: "explicit", 4: "explicit", 5: "explicit"}
_TYPES = {1: "serial", 2: "implicit", 3: "explicit", 4: "target", 5: "degenerate"}
_QUEUED = 1
# The members of a queued task that are read, besides its status and its address.
_ALIKE = ("type", "generating", "team", "function", "is_final", "child_count")
_STATUSES = {_QUEUED: "queued", 2: "executing", 3: "suspended", 4: "detached", 5: "complete"}


class Task:
    """One ``stub_task``."""

    def __init__(self, runtime: Runtime, view: StructView) -> None:
        self.runtime = runtime
        self.view = view
        self.address = view.address

    @property
    def id(self) -> str:
        return f"{self.address:#x}"

    def kind(self) -> str:
        """Return the task's kind: ``initial``, ``implicit`` or ``explicit``.

        :raises CorruptState: if ``type`` is another number
        """
        return self._word("type", _KINDS)

    def status(self) -> str:
        """Return the task's ``status``. A queued task with predecessors is ``waiting``.

        :raises CorruptState: if ``status`` is an unknown number
        """
        status = self._word("status", _STATUSES)
        return "waiting" if status == "queued" and self._predecessor_count() else status

    def likeness(self) -> Hashable | None:
        """Return all members that are read of a queued task, besides its status and its address.

        The result is None for a task that is not queued or waits for others, and if the runtime keeps more facts for
        tools.
        """
        read = self.view.unsigned
        if read("status") != _QUEUED or self._predecessor_count() or self.runtime.keeps_states():
            return None
        return tuple(map(read, _ALIKE))

    def _predecessor_count(self) -> int:
        count = self.view.signed("predecessor_count")
        if not 0 <= count <= MAX_TASKS:
            raise CorruptState(self.address, f"task that waits for {count} others")
        return count

    def waits_for(self) -> TaskWait | None:
        """Return the task's wait for other tasks or for its event, None if it does not wait.

        A waiting task has ``predecessor_count`` and ``dependences``. The event of a detached task is its own address.

        :raises CorruptState: if the task has too many dependences
        """
        status = self.status()
        if status == "detached":
            return TaskWait("event", event=self.address)
        if status != "waiting":
            return None
        return TaskWait("dependence", self._predecessor_count(), tuple(self._predecessors()), self.dependences)

    @cached_property
    def dependences(self) -> tuple[Dependence, ...]:
        """The items of the task's depend clauses.

        :raises CorruptState: if the task has too many
        """
        count, array = self.view.signed("dependence_count"), self.view.pointer("dependences")
        if not 0 <= count <= _MAX_DEPENDENCES or (count and array is None):
            raise CorruptState(self.address, f"task with {count} dependences")
        size = self.runtime.layouts["stub_dependence"].size or 0
        views = (self.runtime.view("stub_dependence", (array or 0) + number * size) for number in range(count))
        return tuple(Dependence(view.unsigned("address"), not view.signed("is_out")) for view in views)

    def _predecessors(self) -> Iterator[Task]:
        # Incomplete siblings that were created before the task and have an item in common with it. If both tasks only
        # read the item, it does not count.
        parent = self.generating()
        if parent is None:
            return
        own = {item.address: item.is_in for item in self.dependences}
        for other in parent.children():
            if other.view.unsigned("id") < self.view.unsigned("id") and any(
                item.address in own and not (item.is_in and own[item.address]) for item in other.dependences
            ):
                yield other

    def unfinished_children(self) -> int:
        """Return ``child_count``.

        :raises CorruptState: if it is negative or too large
        """
        count = self.view.signed("child_count")
        if not 0 <= count <= MAX_TASKS:
            raise CorruptState(self.address, f"task with {count} children")
        return count

    def _word(self, name: str, words: dict[int, str]) -> str:
        value = self.view.unsigned(name)
        if value not in words:
            raise CorruptState(self.address, f"task of {name} {value}")
        return words[value]

    @cached_property
    def team(self) -> Team:
        """The team that executes the task's region.

        :raises CorruptState: if the task has no team
        """
        address = self.view.pointer("team")
        if address is None:
            raise CorruptState(self.address, "task without a team")
        return self.runtime.team_at(address)

    def thread(self) -> Thread | None:
        address = self.view.pointer("thread")
        if self.status() in ("queued", "waiting", "detached", "complete") or address is None:
            return None
        return self.runtime.thread_at(address)

    def is_final(self) -> bool:
        return self.view.signed("is_final") != 0

    def is_tied(self) -> bool:
        """Return True: the stub leaves every task that has begun on its thread, also a task with an untied clause."""
        return True

    def generating(self) -> Task | None:
        address = self.view.pointer("generating")
        return self.runtime.task_at(address) if address is not None else None

    def scheduling(self) -> Task | None:
        """Return ``scheduling``, which only explicit tasks have."""
        if self.kind() != "explicit" or self.status() in ("queued", "waiting"):
            return None
        self.runtime.require_debug()
        address = self.view.pointer("scheduling")
        return self.runtime.task_at(address) if address is not None else None

    def parallel(self) -> Region | None:
        return self.team.region

    def function(self) -> int | None:
        """Return ``function``. Only an initial task may have none (None).

        :raises CorruptState: if another task has none
        """
        function = self.view.pointer("function")
        if function is None and self.kind() != "initial":
            raise CorruptState(self.address, f"an {self.kind()} task has no code")
        return function

    def frames(self) -> tuple[FrameAddress | None, FrameAddress | None]:
        """Return the exit frame and the reenter frame, which is OpenMP 5's enter frame.

        :raises CorruptState: if a frame is not on the stack of the task's thread, or the task is on no thread
        """
        self.runtime.require_debug()
        view = StructView(self.view.memory, self.runtime.layouts["stub_frame"], self.view.address_of("frame"))
        return (
            self._frame(view, "exit_runtime_frame", "exit_frame_flags"),
            self._frame(view, "reenter_runtime_frame", "reenter_frame_flags"),
        )

    def _frame(self, view: StructView, name: str, flags: str) -> FrameAddress | None:
        address = view.pointer(name)
        if address is None:
            return None
        thread = self.thread()
        if thread is None:
            raise CorruptState(self.address, f"{name} is {address:#x}, and the task is on no thread")
        low, high = thread.stack_bounds()
        if not low <= address < high:
            raise CorruptState(self.address, f"{name} is {address:#x}, and its thread's stack {low:#x} to {high:#x}")
        return FrameAddress(address, view.signed(flags))

    def tool_data(self) -> int:
        self.runtime.require_debug()
        return self.view.unsigned("tool_data")

    def ompt_id(self) -> int:
        """Return ``id``, an ``ompt_task_id_t`` of 2015."""
        return self.view.unsigned("id")

    def ompt_type(self) -> str:
        """Return ``type``, an ``ompt_task_type_t`` of 2015.

        :raises CorruptState: if there is no such type
        """
        return self._word("type", _TYPES)

    def children(self) -> Iterable[Task]:
        """Return the incomplete explicit tasks that the task generated.

        :raises CorruptState: if their list does not end
        """
        task_at = self.runtime.task_at

        def following(address: int) -> int | None:
            return task_at(address).view.pointer("next_sibling")

        addresses = chain(self.view.pointer("first_child"), following, MAX_TASKS, "the list of a task's children")
        return map(task_at, addresses)

    def source(self) -> None:
        """Return None: gcc's code records nothing of constructs."""
