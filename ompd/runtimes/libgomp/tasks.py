"""Tasks (``struct gomp_task``). What a thread does outside of all regions may have none: its initial task."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ompd.contract.helpers.defaults import Unnoted
from ompd.contract.memory import StructView, read_pointer, read_unsigned, read_words
from ompd.contract.plugin import Dependence, FrameAddress, TaskWait
from ompd.errors import CorruptState, OmpdError, Unavailable
from ompd.runtimes.libgomp import stacks
from ompd.runtimes.libgomp.structures import (
    DEPEND_ADDRESS,
    DEPEND_IS_IN,
    DEPEND_SIZE,
    DEPENDERS_COUNT,
    DEPENDERS_TASKS,
    LIST_TASKS,
    NO_TOOL_DATA,
    NODE_SIZE,
    QUEUE_LIST,
    QUEUE_ROOT,
    TREE_LEFT,
    TREE_LIST,
    TREE_RIGHT,
    WANTED,
    copied,
)

if TYPE_CHECKING:
    from ompd.runtimes.libgomp.plugin import Runtime
    from ompd.runtimes.libgomp.regions import Region
    from ompd.runtimes.libgomp.threads import Thread

# enum gomp_task_kind of libgomp.h
IMPLICIT, UNDEFERRED, WAITING, TIED, ASYNC_RUNNING, DETACHED = range(6)
# Those that have the code that they run noted; an undeferred one lies on the stack of its thread, and has not.
_WITH_CODE = (WAITING, TIED, DETACHED)
# By which of its nodes a task is in its team's queue, among the children of its parent, and in its task group's.
IN_TEAM, AMONG_CHILDREN, IN_GROUP = range(3)
# A clause names so many variables at most, and so many tasks wait for one.
_MAX_DEPENDENCES, _MAX_DEPENDERS = 1 << 16, 1 << 22

# A node of a list: the next one, and the one before.
_LINKS = 2

_NO_FRAMES = "libgomp keeps no frames of tasks"
MAX_TASKS = 1 << 22


class Task(Unnoted):
    """One ``gomp_task``, read once."""

    def __init__(self, runtime: Runtime, address: int) -> None:
        self.runtime = runtime
        self.address = address

    @property
    def id(self) -> str:
        """See :attr:`TaskHandle.id`."""
        return f"{self.address:#x}"

    @cached_property
    def view(self) -> StructView:
        """The ``gomp_task``."""
        return copied(self.runtime.heap, self.runtime.layouts["gomp_task"], self.address, WANTED["gomp_task"])

    @cached_property
    def gomp_kind(self) -> int:
        """``kind``.

        :raises CorruptState: if there is no such kind
        """
        kind = self.view.unsigned("kind")
        if kind > DETACHED:
            raise CorruptState(self.address, f"task of kind {kind}")
        return kind

    @property
    def is_undeferred(self) -> bool:
        """Whether it is executed at once by the thread that met it; it then lies on that thread's stack."""
        return self.gomp_kind == UNDEFERRED

    @property
    def is_counted(self) -> bool:
        """Whether its team counts it: a deferred one that need not wait for others, until it is over."""
        return self.gomp_kind in (TIED, ASYNC_RUNNING, DETACHED) or (
            self.gomp_kind == WAITING and self.status() == "queued"
        )

    @cached_property
    def place(self) -> tuple[Region, int] | None:
        """The region whose implicit task it is, and whose of its threads; None for any other.

        :raises OmpdError: what keeps a team from being read whose task it may be
        """
        return self.runtime.place_of(self.address) if self.gomp_kind == IMPLICIT else None

    def likeness(self) -> Hashable | None:
        """See :meth:`TaskHandle.likeness`: all that is read of a queued one whose region is that of its parent."""
        view = self.view
        if self.gomp_kind != WAITING or self.parent is None or view.unsigned("num_dependees"):
            return None
        return self.parent, view.unsigned("fn"), view.unsigned("final_task"), self.unfinished_children()

    def kind(self) -> str:
        """See :meth:`TaskHandle.kind`: an implicit one that is no team's is an initial one."""
        if self.gomp_kind != IMPLICIT:
            return "explicit"
        return "implicit" if self.place is not None else "initial"

    def status(self) -> str:
        """See :meth:`TaskHandle.status`."""
        if self.gomp_kind == WAITING:
            return "waiting" if self.view.unsigned("num_dependees") else "queued"
        if self.runtime.is_executing(self):
            return "executing"
        return "detached" if self.gomp_kind == DETACHED else "suspended"

    def thread(self) -> Thread | None:
        """See :meth:`TaskHandle.thread`.

        :raises Unavailable: for a suspended one that is on no stack that could be read
        """
        if self.gomp_kind in (WAITING, DETACHED):
            return None
        if self.place is not None:
            region, number = self.place
            return region.thread(number)
        executing = self.runtime.current_tasks.get(self.address)
        return executing if executing is not None else stacks.thread_of_suspended(self)

    def is_final(self) -> bool:
        """Return ``final_task``."""
        return self.view.unsigned("final_task") != 0

    @cached_property
    def parent(self) -> int | None:
        """The address of the task that generated it."""
        return self.view.pointer("parent")

    def generating(self) -> Task | InitialTask | None:
        """Return ``parent``: for an implicit task the one that encountered the region."""
        if self.parent is not None:
            return self.runtime.task_at(self.parent)
        if self.kind() == "initial":
            return None
        # An initial thread need not have had a task of its own.
        if self.place is None:
            if not self.is_undeferred:
                raise Unavailable("the task that generated it is over, and libgomp has forgotten it")
            executing = self.thread()
            return executing.initial_task(None) if executing is not None else None
        region, _ = self.place
        if region.enclosing() is not None:
            raise CorruptState(self.address, "an implicit task of an inner region has no parent")
        return region.thread(0).initial_task(region.address)

    def scheduling(self) -> Task | None:
        """Not kept.

        :raises Unavailable: for an explicit task that has begun
        """
        if self.kind() != "explicit" or self.gomp_kind == WAITING:
            return None
        raise Unavailable("libgomp does not keep which task was left for another")

    def parallel(self) -> Region | None:
        """Return the region of the nearest implicit task among those that generated it; or, where one of these is over,
        the region whose team has it in its lists, or is that of the thread that executes it.
        """
        # What is found for one task is so for all on the way to it, and no way is gone twice.
        known = self.runtime.task_regions
        way: list[int] = []
        found: Region | OmpdError | None = None
        outermost: Task | None = None
        try:
            for task in self.lineage():
                if task.address in known:
                    found = known[task.address]
                    break
                way.append(task.address)
                outermost = task
                if task.place is not None:
                    found = task.place[0]
                    break
            else:
                if outermost is not None and outermost.gomp_kind != IMPLICIT:
                    found = self.runtime.region_of(outermost)
        except OmpdError as error:
            found = error
        known.update(dict.fromkeys(way, found))
        if isinstance(found, OmpdError):
            raise found
        return found

    def lineage(self) -> Iterator[Task]:
        """Yield the task, the one that generated it, and so on.

        :raises CorruptState: if that does not end
        """
        seen: set[int] = set()
        here: int | None = self.address
        while here is not None:
            if here in seen or len(seen) >= MAX_TASKS:
                raise CorruptState(here, "the chain of tasks that generated each other does not end")
            seen.add(here)
            task = self.runtime.task_at(here)
            yield task
            here = task.parent

    def function(self) -> int | None:
        """Return ``fn`` of an explicit task, or the function of the region of an implicit one.

        :raises Unavailable: for an undeferred task that is on no stack that could be read
        """
        if self.kind() != "explicit":
            region = self.parallel()
            return region.function() if region is not None and self.place is not None else None
        if self.gomp_kind in _WITH_CODE:
            return self.view.pointer("fn")
        return stacks.undeferred_entry(self)

    def frames(self) -> tuple[FrameAddress | None, FrameAddress | None]:
        """Not kept."""
        raise Unavailable(_NO_FRAMES)

    def tool_data(self) -> int:
        """Not kept."""
        raise Unavailable(NO_TOOL_DATA)

    def children(self) -> Iterator[Task]:
        """Yield the explicit tasks that it generated and that are not over, but for undeferred ones and those that wait
        for a dependence.

        :raises CorruptState: if a list of them does not end
        """
        yield from tasks_in(self.runtime, self.view.address_of("children_queue"), AMONG_CHILDREN)

    def dependers(self) -> Iterator[Task]:
        """Yield the tasks that wait for it (``dependers``); they are in no queue.

        :raises CorruptState: if there are more than any program has
        """
        vector = self.view.pointer("dependers")
        if vector is None:
            return
        count = read_unsigned(self.runtime.heap, vector + DEPENDERS_COUNT, self.runtime.heap.pointer_size)
        if count > _MAX_DEPENDERS:
            raise CorruptState(vector, f"{count} tasks are said to wait for one")
        for address in read_words(self.runtime.heap, vector + DEPENDERS_TASKS, count) if count else ():
            yield self.runtime.task_at(address)

    def groups(self) -> Iterator[int]:
        """Yield the task group that it belongs to (``taskgroup``) and those around that.

        :raises CorruptState: if they do not end
        """
        layout = self.runtime.layouts["gomp_taskgroup"]
        here = self.view.pointer("taskgroup")
        seen: set[int] = set()
        while here is not None:
            if here in seen or len(seen) >= MAX_TASKS:
                raise CorruptState(here, "the chain of task groups does not end")
            seen.add(here)
            yield here
            here = StructView(self.runtime.heap, layout, here).pointer("prev")

    def waits_for(self) -> TaskWait | None:
        """See :meth:`TaskHandle.waits_for`: ``num_dependees`` and ``depend``; a detached task is its own event."""
        status = self.status()
        if status == "detached":
            return TaskWait("event", event=self.address)
        if status != "waiting":
            return None
        count, items = self.view.unsigned("num_dependees"), self.view.unsigned("depend_count")
        if items > _MAX_DEPENDENCES:
            raise CorruptState(self.address, f"a task with {items} dependences")
        start, heap = self.address + self.runtime.layouts.size("gomp_task"), self.runtime.heap
        raw = heap.read(start, items * DEPEND_SIZE) if items else b""
        found = []
        for at in range(0, len(raw), DEPEND_SIZE):
            where = int.from_bytes(raw[at + DEPEND_ADDRESS : at + DEPEND_ADDRESS + heap.pointer_size], heap.byte_order)
            found.append(Dependence(where, raw[at + DEPEND_IS_IN] != 0))
        return TaskWait("dependence", count, self.runtime.predecessors.get(self.address, ()), tuple(found))

    def unfinished_children(self) -> int:
        """See :meth:`TaskHandle.unfinished_children`: libgomp keeps no count, its lists and stacks have them all.

        :raises OmpdError: what keeps some from being found
        """
        return self.runtime.count_children(self.address)


@dataclass(frozen=True)
class InitialTask(Unnoted):
    """What an initial thread executes outside of all regions, where the runtime keeps no task for that.

    A thread that executes a target region is an initial one there: then *target* is how many of these it is in.
    """

    of: Thread
    target: int = 0

    @property
    def id(self) -> str:
        """See :attr:`TaskHandle.id`."""
        return f"{self.of.address:#x}/initial" + (f"/{self.target}" if self.target else "")

    def likeness(self) -> None:
        """See :meth:`TaskHandle.likeness`: it has begun."""

    def kind(self) -> str:
        """It is an initial task."""
        return "initial"

    def status(self) -> str:
        """See :meth:`TaskHandle.status`."""
        current = self.of.current_task()
        return "executing" if current is not None and current.id == self.id else "suspended"

    def waits_for(self) -> None:
        """It is on its thread."""

    def unfinished_children(self) -> int:
        """See :meth:`TaskHandle.unfinished_children`: one that is not deferred, if there is one."""
        return self.of.runtime.count_children(self.id)

    def thread(self) -> Thread:
        """Return the thread."""
        return self.of

    def is_final(self) -> bool:
        """No initial task is."""
        return False

    def generating(self) -> Task | InitialTask | None:
        """Nothing generated it, unless it is that of a target region: then it is the task that met that."""
        return self.of.task_outside(len(self.of.contexts) - self.target) if self.target else None

    def scheduling(self) -> None:
        """It is not scheduled."""

    def parallel(self) -> None:
        """It is outside of all regions."""

    def function(self) -> None:
        """It has no function that a compiler made."""

    def frames(self) -> tuple[FrameAddress | None, FrameAddress | None]:
        """Not kept."""
        raise Unavailable(_NO_FRAMES)

    def tool_data(self) -> int:
        """Not kept."""
        raise Unavailable(NO_TOOL_DATA)


def tasks_in(runtime: Runtime, queue: int, node: int) -> Iterator[Task]:
    """Yield the tasks that the ``priority_queue`` at *queue* has, which are in it by so many-th of their nodes.

    :raises CorruptState: if a list or the tree does not end
    """
    offset = runtime.layouts["gomp_task"].field("pnode").offset + node * NODE_SIZE
    for at in queued(runtime, queue):
        yield runtime.task_at(at - offset)


def queued(runtime: Runtime, queue: int) -> Iterator[int]:
    """Yield the nodes that a ``priority_queue`` has.

    :raises CorruptState: if a list or the tree does not end
    """
    heap = runtime.heap
    root = read_pointer(heap, queue + QUEUE_ROOT)
    if root is None:
        yield from _listed(runtime, queue + QUEUE_LIST)
        return
    waiting, seen = [root], {root}
    while waiting:
        node = waiting.pop()
        yield from _listed(runtime, node + TREE_LIST)
        for side in (TREE_LEFT, TREE_RIGHT):
            below = read_pointer(heap, node + side)
            if below is None:
                continue
            if below in seen or len(seen) >= MAX_TASKS:
                raise CorruptState(below, "a tree of tasks does not end")
            seen.add(below)
            waiting.append(below)


def _listed(runtime: Runtime, address: int) -> Iterator[int]:
    # A ring of nodes. Each has to say of the one before that it is: a list that is being changed, or memory that was
    # given to something else since, ends the walk at once.
    first = before = read_pointer(runtime.heap, address + LIST_TASKS)
    if first is None:
        return
    seen: set[int] = set()
    node, last = read_words(runtime.heap, first, _LINKS)
    yield first
    while node != first:
        if not node or node in seen or len(seen) >= MAX_TASKS:
            raise _not_a_list(runtime, address)
        seen.add(node)
        following, previous = read_words(runtime.heap, node, _LINKS)
        if previous != before:
            raise _not_a_list(runtime, address)
        yield node
        before, node = node, following
    if last != before:
        raise _not_a_list(runtime, address)


def _not_a_list(runtime: Runtime, address: int) -> CorruptState:
    if runtime.tasks_are_changing():
        return CorruptState(address, "the task queue was being changed")
    return CorruptState(address, "a list of tasks does not come back to its first one")
