"""Tasks (``struct gomp_task``). What a thread does outside of all regions may have none: its initial task."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ompd.contract.memory import StructView, read_pointer
from ompd.contract.plugin import FrameAddress
from ompd.errors import CorruptState, Unavailable
from ompd.plugins.libgomp import stacks
from ompd.plugins.libgomp.structures import (
    LIST_TASKS,
    NO_TOOL_DATA,
    NODE_NEXT,
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
    from ompd.plugins.libgomp.plugin import Runtime
    from ompd.plugins.libgomp.regions import Region
    from ompd.plugins.libgomp.threads import Thread

# enum gomp_task_kind of libgomp.h
IMPLICIT, UNDEFERRED, WAITING, TIED, ASYNC_RUNNING, DETACHED = range(6)
# Those that have the code that they run noted; an undeferred one lies on the stack of its thread, and has not.
_WITH_CODE = (WAITING, TIED, DETACHED)
# Which of a task's nodes links it to the children of its parent.
_AMONG_CHILDREN = 1

_NO_FRAMES = "libgomp keeps no frames of tasks"
MAX_TASKS = 1 << 22


class Task:
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

    @cached_property
    def place(self) -> tuple[Region, int] | None:
        """The region whose implicit task it is, and whose of its threads; None for any other.

        :raises OmpdError: what keeps a team from being read whose task it may be
        """
        return self.runtime.place_of(self.address) if self.gomp_kind == IMPLICIT else None

    def kind(self) -> str:
        """See :meth:`TaskHandle.kind`: an implicit one that is no team's is an initial one."""
        if self.gomp_kind != IMPLICIT:
            return "explicit"
        return "implicit" if self.place is not None else "initial"

    def status(self) -> str:
        """See :meth:`TaskHandle.status`; ``detached`` if its code is done, and the event it waits for has not come."""
        if self.gomp_kind == WAITING:
            return "queued"
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
            executing = self.thread()
            return InitialTask(executing) if executing is not None else None
        region, _ = self.place
        if region.enclosing() is not None:
            raise CorruptState(self.address, "an implicit task of an inner region has no parent")
        return InitialTask(region.thread(0))

    def scheduling(self) -> Task | None:
        """Not kept.

        :raises Unavailable: for an explicit task that has begun
        """
        if self.kind() != "explicit" or self.gomp_kind == WAITING:
            return None
        raise Unavailable("libgomp does not keep which task was left for another")

    def parallel(self) -> Region | None:
        """Return the region of the nearest implicit task among those that generated it."""
        for task in self.lineage():
            if task.place is not None:
                return task.place[0]
        return None

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
        """Yield the explicit tasks that it generated and that are not over, undeferred ones aside.

        :raises CorruptState: if a list of them does not end
        """
        queue = self.view.address_of("children_queue")
        node_offset = self.runtime.layouts["gomp_task"].field("pnode").offset + _AMONG_CHILDREN * NODE_SIZE
        for node in queued(self.runtime, queue):
            yield self.runtime.task_at(node - node_offset)


@dataclass(frozen=True)
class InitialTask:
    """What an initial thread executes outside of all regions, where the runtime keeps no task for that."""

    of: Thread

    @property
    def id(self) -> str:
        """See :attr:`TaskHandle.id`."""
        return f"{self.of.address:#x}/initial"

    def kind(self) -> str:
        """It is an initial task."""
        return "initial"

    def status(self) -> str:
        """See :meth:`TaskHandle.status`."""
        return "suspended" if self.of.memberships or self.of.view.pointer("task") is not None else "executing"

    def thread(self) -> Thread:
        """Return the thread."""
        return self.of

    def is_final(self) -> bool:
        """No initial task is."""
        return False

    def generating(self) -> None:
        """Nothing generated it."""

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
    first = read_pointer(runtime.heap, address + LIST_TASKS)
    node, count = first, 0
    while node is not None:
        yield node
        node = read_pointer(runtime.heap, node + NODE_NEXT)
        count += 1
        if node == first:
            return
        if count >= MAX_TASKS:
            break
    if first is not None:
        raise CorruptState(address, "a list of tasks does not come back to its first one")
