"""Tasks (``kmp_taskdata_t``), and what OMPT keeps of them (``ompt_task_info_t``).

Nested serialized regions of one thread share one team and its one implicit task's descriptor, which stands for the
innermost. What OMPT keeps of the others is displaced into a chain of ``ompt_lw_taskteam_t``, innermost first, if it is
kept at all. Each is a task of its own here, by its region's place.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping
from functools import cached_property

from ompd.contract.helpers.defaults import Unnumbered
from ompd.contract.helpers.pages import CachedMemory
from ompd.contract.memory import StructView, check_aligned
from ompd.contract.plugin import FrameAddress, TaskWait, ThreadHandle
from ompd.contract.process import Module, Process
from ompd.errors import CorruptState, LayoutUnavailable, OmpdError, Unavailable
from ompd.records import record
from ompd.runtimes.libomp.teams.heads import Heads
from ompd.runtimes.libomp.teams.teams import NOT_KEPT, Region, Team, Teams

# ompt_frame_t is public: two words, then two int32 flags, for which no constant is published.
_FRAME_SIZE = 24
_EXIT_FLAGS, _ENTER_FLAGS, _FLAGS_SIZE = 16, 20, 4


@record
class Task(Unnumbered):
    """A task by the address of its ``kmp_taskdata_t``: the *place*-th of the *count* implicit tasks that share it."""

    runtime: Tasks
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
        """``td_flags``, read once.

        :raises CorruptState: if they are an explicit task's, and the task is among the implicit ones of its team
        """
        head = self.runtime.heads.of(self.address)
        if head is not None:
            return head.flags
        known = self.runtime.flag_words
        if self.address not in known:
            flags = self.view.unsigned("td_flags")
            if flags & self.runtime.task_flags.get("tasktype", 0) and self._is_in_array:
                raise CorruptState(self.address, f"an implicit task has the td_flags {flags:#x}, of an explicit one")
            known[self.address] = flags
        return known[self.address]

    @property
    def _is_in_array(self) -> bool:
        try:
            return self.team().has_implicit_task_at(self.address)
        except OmpdError:
            return False  # of which team it is, is not known

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
            return self.runtime.before(self)
        except LayoutUnavailable:
            return None  # it is in a queue, then

    def _is_detached(self) -> bool:
        try:
            return self.is_proxy()
        except LayoutUnavailable:
            return False

    def is_proxy(self) -> bool:
        """Return whether it has become a proxy for its event: its code is done, and its event is not fulfilled.

        :raises LayoutUnavailable: if nothing tells which flags say so
        """
        masks = self.runtime.details.layout("kmp_tasking_flags_t.proxy").masks
        wanted = masks.get("proxy", 0) | masks.get("detachable", 0)
        return self.flags & wanted == wanted != 0

    def _event(self) -> int:
        view = self.runtime.details.view("kmp_taskdata_t.td_depnode", self.address)
        return view.address_of("td_allow_completion_event")

    def waits_for(self) -> TaskWait | None:
        """See :meth:`TaskHandle.waits_for`: ``npredecessors``, and the nodes that lead to it; or its event."""
        status = self.status()
        if status == "detached":
            return TaskWait("event", event=self._event())
        return self._before() if status == "waiting" else None

    def unfinished_children(self) -> int:
        """See :meth:`TaskHandle.unfinished_children`: ``td_incomplete_child_tasks``.

        :raises Unavailable: if nothing tells where that is
        """
        try:
            return self.runtime.unfinished_children_of(self)
        except LayoutUnavailable as error:
            raise Unavailable(str(error)) from error

    def counted_children(self) -> int:
        """Return how many children the runtime counts that are not complete: all of them in a team of several threads.
        Nothing is searched for that.

        :raises Unavailable: if nothing tells where the count is
        """
        try:
            return self.runtime.counted_children_of(self)
        except LayoutUnavailable as error:
            raise Unavailable(str(error)) from error

    def thread(self) -> ThreadHandle | None:
        """See :meth:`TaskHandle.thread`. An implicit task's follows from its place in the array of its team.

        :raises Unavailable: for a suspended explicit task that waits for no children of its own
        """
        if self.kind() != "explicit":
            return self.team().thread_of_implicit_task(self.address)
        if self.status() in ("queued", "waiting", "detached", "complete"):
            return None
        return self.runtime.thread_of(self.address) or self.waiting_thread()

    def waiting_thread(self) -> ThreadHandle:
        """Return the thread on which it waits for its children: ``td_taskwait_thread``, its gtid + 1, is positive then.

        :raises Unavailable: if it waits for none
        """
        gtid = self.runtime.details.view("kmp_taskdata_t", self.address).signed("td_taskwait_thread") - 1
        if gtid < 0:
            raise Unavailable("the runtime keeps on which thread it is only for tools, and while it waits for children")
        thread = self.runtime.thread_by_gtid(gtid)
        if thread is None:
            raise CorruptState(self.address, f"task on thread {gtid}, which there is none of")
        return thread

    def thread_or_none(self) -> ThreadHandle | None:
        """Return :meth:`thread`, None where that is unknown."""
        try:
            return self.thread()
        except OmpdError:
            return None

    def is_final(self) -> bool:
        """See :meth:`TaskHandle.is_final`."""
        return self.flag("final")

    def is_tied(self) -> bool:
        """Return ``td_flags.tiedness``: an untied one may be queued again where its code lets it go.

        :raises Unavailable: if the runtime publishes no mask for it
        """
        return self.kind() != "explicit" or self.flag("tiedness")

    def generating(self) -> Task | None:
        """Return ``td_parent``: for an implicit task the one that encountered the region.

        :raises CorruptState: if that is the task itself
        """
        if self.place > 1:
            return Task(self.runtime, self.address, self.place - 1, self.count)
        address = self.view.pointer("td_parent")
        if address == self.address:
            raise CorruptState(address, "a task is said to have generated itself")
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

    def ompt_type(self) -> str:
        """Return what ``ompt_get_task_info`` makes of ``td_flags``: the kind; the runtime marks no target tasks."""
        return self.kind()

    def tool_data(self) -> int:
        """Return ``ompt_task_info.task_data``."""
        self._require_kept()
        return self._info.unsigned("task_data")

    def source(self) -> str | None:
        """See :meth:`TaskHandle.source`: ``td_ident``, which clang's code sets."""
        view = self.runtime.details.view("kmp_taskdata_t", self.address)
        return self.runtime.construct_source(view.pointer("td_ident"))


class Tasks(Teams):
    """The runtime with its tasks."""

    def __init__(self, process: Process, module: Module) -> None:
        super().__init__(process, module)
        self.heads = Heads(self, lambda: self.known_children)
        self.flag_words: dict[int, int] = {}  # td_flags of tasks that are not among these
        self._taskdata: dict[int, CachedMemory] = {}

    def task_at(self, address: int) -> Task:
        """Return the task whose ``kmp_taskdata_t`` is at *address*: of those that share it the innermost."""
        task = Task(self, address)
        head = self.heads.of(address)
        if head.flags & self.heads.masks[0] if head is not None else task.flag("tasktype"):
            return task
        count = max(len(task.team().regions), 1)
        return Task(self, address, count, count)

    def implicit_task(self, team: Team, thread_num: int, place: int | None = None) -> Task:
        """Return a thread's implicit task in the *place*-th of the regions that a team stands for, unless told
        otherwise in the innermost.
        """
        count = max(len(team.regions), 1)
        return Task(self, team.implicit_task_at(thread_num), count if place is None else place, count)

    def taskdata(self, address: int) -> CachedMemory:
        """Return what was read of the ``kmp_taskdata_t`` at *address*; it reads the rest when it is needed."""
        known = self._taskdata.get(address)
        if known is None:
            check_aligned(self.heap, address, "a task")
            data = self.heap.read(address, self._task_head)
            known = self._taskdata[address] = CachedMemory(self.heap, address, data)
        return known

    @cached_property
    def _task_head(self) -> int:
        # So much of it is read at once: up to where what tools keep begins, which tasks have of no use else.
        return self.task_layout.field("ompt_task_info").offset

    @abstractmethod
    def is_executing(self, task: int) -> bool:
        """Return whether a thread executes the task whose ``kmp_taskdata_t`` is at *task*.

        :raises OmpdError: if a thread cannot be read, and no other executes it
        """

    @abstractmethod
    def thread_of(self, task: int) -> ThreadHandle | None:
        """Return the thread that executes the task at *task*, None if none is known to."""

    @abstractmethod
    def thread_by_gtid(self, gtid: int) -> ThreadHandle | None:
        """Return the thread of the runtime's number *gtid*, None if there is none."""

    @abstractmethod
    def before(self, task: Task) -> TaskWait | None:
        """Return what a task that has not begun waits for, None if it waits for no other."""

    @abstractmethod
    def unfinished_children_of(self, task: Task) -> int:
        """See :meth:`TaskHandle.unfinished_children`.

        :raises LayoutUnavailable: if the place of the count is unknown
        """

    @abstractmethod
    def counted_children_of(self, task: Task) -> int:
        """See :meth:`Task.counted_children`.

        :raises LayoutUnavailable: if the place of the count is unknown
        """

    @property
    @abstractmethod
    def known_children(self) -> Mapping[int, int]:
        """How many children of each task, by its address, that are not complete are known."""
