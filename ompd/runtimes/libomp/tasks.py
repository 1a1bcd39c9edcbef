"""Tasks (``kmp_taskdata_t``), and what OMPT keeps of them (``ompt_task_info_t``).

Nested serialized regions of one thread share one team and its one implicit task's descriptor, which stands for the
innermost. What OMPT keeps of the others is displaced into a chain of ``ompt_lw_taskteam_t``, innermost first, if it is
kept at all. Each is a task of its own here, by its region's place.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from ompd.contract.memory import ByteOrder, StructView
from ompd.contract.plugin import FrameAddress, TaskWait
from ompd.errors import CorruptState, LayoutUnavailable, OmpdError, Unavailable
from ompd.records import record

if TYPE_CHECKING:
    from ompd.contract.helpers.pages import Heap
    from ompd.runtimes.libomp.plugin import Runtime
    from ompd.runtimes.libomp.regions import Region, Team
    from ompd.runtimes.libomp.threads import Thread

# ompt_frame_t is public: two words, then two int32 flags, for which no constant is published.
_FRAME_SIZE = 24
_EXIT_FLAGS, _ENTER_FLAGS, _FLAGS_SIZE = 16, 20, 4

NOT_KEPT = "the runtime keeps this only if OMP_DEBUG=enabled or a tool asked for it at the start"


class Taskdata:
    """The beginning of a ``kmp_taskdata_t`` that was read before; what lies outside of it is read when asked for."""

    __slots__ = ("_data", "_heap", "_start", "byte_order", "pointer_size")

    def __init__(self, heap: Heap, address: int, size: int) -> None:
        self._heap = heap
        self._start = address
        self._data = heap.read(address, size)
        self.byte_order: ByteOrder = heap.byte_order
        self.pointer_size = heap.pointer_size

    def read(self, address: int, size: int) -> bytes:
        """See :meth:`ompd.contract.memory.Memory.read`."""
        at = address - self._start
        if at >= 0 and at + size <= len(self._data):
            return self._data[at : at + size]
        return self._heap.read(address, size)


@record
class Task:
    """A task by the address of its ``kmp_taskdata_t``: the *place*-th of the *count* implicit tasks that share it."""

    runtime: Runtime
    address: int
    place: int = 1
    count: int = 1

    @property
    def id(self) -> str:
        """See :attr:`TaskHandle.id`."""
        return f"{self.address:#x}" if self.count == 1 else f"{self.address:#x}/{self.place}"

    @property
    def view(self) -> StructView:
        """The task's ``kmp_taskdata_t``, read once as far as its nodes: what follows is not asked of every task."""
        return StructView(self.runtime.taskdata(self.address), self.runtime.task_layout, self.address)

    def flag(self, name: str) -> bool:
        """Return a flag of ``td_flags`` by its name in ``kmp_tasking_flags_t``.

        :raises Unavailable: if the runtime publishes no mask for it
        """
        mask = self.runtime.task_flags.get(name)
        if mask is None:
            raise Unavailable(f"the runtime does not publish the task flag {name!r}")
        return bool(self.flags & mask)

    @property
    def flags(self) -> int:
        """``td_flags``, read once."""
        head = self.runtime.heads.of(self.address)
        if head is not None:
            return head.flags
        known = self.runtime.flag_words
        if self.address not in known:
            known[self.address] = self.view.unsigned("td_flags")
        return known[self.address]

    def team(self) -> Team:
        """Return the team the task belongs to.

        :raises CorruptState: if it has none
        """
        address = self.view.pointer("td_team")
        if address is None:
            raise CorruptState(self.address, "task without td_team")
        return self.runtime.team_at(address)

    def likeness(self) -> Hashable | None:
        """See :meth:`TaskHandle.likeness`: all that is read of a task that has not begun and has no node."""
        return self.runtime.heads.likeness(self.address)

    def kind(self) -> str:
        """See :meth:`TaskHandle.kind`. ``tasktype`` is set for explicit tasks; at level 0 it is the initial one."""
        if self.flag("tasktype"):
            return "explicit"
        return "implicit" if self.team().regions else "initial"

    def status(self) -> str:
        """See :meth:`TaskHandle.status`."""
        if self.kind() == "explicit":
            if not self.flag("started"):
                return "waiting" if self._before() is not None else "queued"
            if self.flag("complete"):
                return "complete"
            if self._is_detached():
                return "detached"
        if self.place < self.count:
            return "suspended"
        return "executing" if self.runtime.is_executing(self.address) else "suspended"

    def _before(self) -> TaskWait | None:
        try:
            return self.runtime.waiting.before(self)
        except LayoutUnavailable:
            return None  # it is in a queue, then

    def _is_detached(self) -> bool:
        try:
            return self.runtime.waiting.is_detached(self)
        except LayoutUnavailable:
            return False

    def waits_for(self) -> TaskWait | None:
        """See :meth:`TaskHandle.waits_for`: ``npredecessors``, and the nodes that lead to it; or its event."""
        status = self.status()
        if status == "detached":
            return TaskWait("event", event=self.runtime.waiting.event_of(self))
        return self._before() if status == "waiting" else None

    def unfinished_children(self) -> int:
        """See :meth:`TaskHandle.unfinished_children`: ``td_incomplete_child_tasks``.

        :raises Unavailable: if nothing tells where that is
        """
        try:
            return self.runtime.waiting.unfinished_children(self)
        except LayoutUnavailable as error:
            raise Unavailable(str(error)) from error

    def thread(self) -> Thread | None:
        """See :meth:`TaskHandle.thread`. An implicit task's is told by its place in the array of its team.

        :raises Unavailable: for a suspended explicit task that waits for no children of its own
        """
        if self.kind() != "explicit":
            return self.team().thread_of_implicit_task(self.address)
        if self.status() in ("queued", "waiting", "detached", "complete"):
            return None
        return self.runtime.current_tasks.get(self.address) or self._waiting_thread()

    def _waiting_thread(self) -> Thread:
        # The thread on which it waits for its children: td_taskwait_thread, its gtid + 1, is positive then.
        gtid = self.runtime.details.view("kmp_taskdata_t", self.address).signed("td_taskwait_thread") - 1
        if gtid < 0:
            raise Unavailable("the runtime keeps on which thread it is only for tools, and while it waits for children")
        thread = self.runtime.by_gtid.get(gtid)
        if thread is None:
            raise CorruptState(self.address, f"task on thread {gtid}, which there is none of")
        return thread

    def waits_on(self, thread: Thread) -> bool:
        """Tell whether it waits for its children on *thread*.

        :raises Unavailable: if it waits for none
        """
        return self._waiting_thread().address == thread.address

    def thread_or_none(self) -> Thread | None:
        """Return :meth:`thread`, None where that cannot be told."""
        try:
            return self.thread()
        except OmpdError:
            return None

    def is_final(self) -> bool:
        """See :meth:`TaskHandle.is_final`."""
        return self.flag("final")

    def generating(self) -> Task | None:
        """Return ``td_parent``: for an implicit task the one that encountered the region."""
        if self.place > 1:
            return Task(self.runtime, self.address, self.place - 1, self.count)
        address = self.view.pointer("td_parent")
        return self.runtime.task_at(address) if address is not None else None

    def scheduling(self) -> Task | None:
        """Return ``scheduling_parent``, which explicit tasks alone have."""
        if self.kind() != "explicit" or not self.flag("started"):
            return None
        self._require_kept()
        address = self._info.pointer("scheduling_parent")
        return self.runtime.task_at(address) if address is not None else None

    def parallel(self) -> Region | None:
        """See :meth:`TaskHandle.parallel`."""
        regions = self.team().regions
        if not regions:
            return None
        return regions[self.place - 1] if self.count > 1 and self.count == len(regions) else regions[-1]

    def function(self) -> int | None:
        """Return an explicit task's ``routine``, which follows its descriptor; an implicit one's is its region's
        function.
        """
        if self.kind() == "explicit":
            size = self.runtime.task_layout.size
            if not size:
                raise Unavailable("the runtime does not publish the size of kmp_taskdata_t")
            layout = self.runtime.layouts["kmp_task_t"]
            return StructView(self.runtime.heap, layout, self.address + size).pointer("routine")
        region = self.parallel()
        return region.function() if region is not None else None

    def _require_kept(self) -> None:
        if not self.runtime.states_are_kept:
            raise Unavailable(NOT_KEPT)

    @property
    def _info(self) -> StructView:
        # ompt_task_info_t of this task: in its descriptor, or displaced.
        layout = self.runtime.layouts["ompt_task_info_t"]
        depth = self.count - self.place
        if depth == 0:
            return StructView(self.runtime.heap, layout, self.view.address_of("ompt_task_info"))
        node = self.team().displaced(depth - 1)
        return StructView(self.runtime.heap, layout, node.address_of("ompt_task_info"))

    def frames(self) -> tuple[FrameAddress | None, FrameAddress | None]:
        """Return exit and enter frame of ``ompt_task_info.frame``, with the flags that stand beside them."""
        self._require_kept()
        info = self._info
        if info.layout.field("frame").size != _FRAME_SIZE:
            raise Unavailable("the runtime's ompt_frame_t is not the one of the specification")
        view = StructView(self.runtime.heap, self.runtime.layouts["ompt_frame_t"], info.address_of("frame"))
        raw = self.runtime.process.read(view.address, _FRAME_SIZE)
        order = self.runtime.process.byte_order
        exit_flags = int.from_bytes(raw[_EXIT_FLAGS : _EXIT_FLAGS + _FLAGS_SIZE], order, signed=True)
        enter_flags = int.from_bytes(raw[_ENTER_FLAGS : _ENTER_FLAGS + _FLAGS_SIZE], order, signed=True)
        exit_frame, enter_frame = view.pointer("exit_frame"), view.pointer("enter_frame")
        return (
            FrameAddress(exit_frame, exit_flags) if exit_frame is not None else None,
            FrameAddress(enter_frame, enter_flags) if enter_frame is not None else None,
        )

    def exit_frame_as_kept(self) -> int:
        """Return the address in ``exit_frame`` as it stands in the descriptor, which only a runtime that keeps frames
        sets.
        """
        info = self.runtime.layouts["ompt_task_info_t"]
        start = self.view.address_of("ompt_task_info") + info.field("frame").offset
        return StructView(self.runtime.heap, self.runtime.layouts["ompt_frame_t"], start).unsigned("exit_frame")

    def tool_data(self) -> int:
        """Return ``ompt_task_info.task_data``."""
        self._require_kept()
        return self._info.unsigned("task_data")

    def source(self) -> str | None:
        """See :meth:`TaskHandle.source`: ``td_ident``, which clang's code sets."""
        view = self.runtime.details.view("kmp_taskdata_t", self.address)
        return self.runtime.construct_source(view.pointer("td_ident"))
