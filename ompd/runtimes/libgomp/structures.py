"""``gomp_thread``, ``gomp_team`` and ``gomp_task``, each read once, and the queues of tasks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from ompd.contract.helpers.walks import MAX_TASKS, chain
from ompd.contract.memory import StructView, read_pointer, read_unsigned, read_words
from ompd.contract.plugin import Dependence
from ompd.errors import CorruptState, OmpdError
from ompd.runtimes.libgomp.layouts import WANTED, copied

if TYPE_CHECKING:
    from ompd.runtimes.libgomp.runtime import Runtime

# enum gomp_task_kind of libgomp.h
IMPLICIT, UNDEFERRED, WAITING, TIED, ASYNC_RUNNING, DETACHED = range(6)
# The indexes of a task's nodes (pnode): in the team's queue, among the parent's children, and in the task group's
# queue.
IN_TEAM, AMONG_CHILDREN, IN_GROUP = range(3)

# struct gomp_dependers_vec of libgomp.h, the same since GCC 5: n_elem, allocated, then pointers to tasks.
_DEPENDERS_COUNT, _DEPENDERS_TASKS = 0, 16
# struct gomp_task_depend_entry: an array of these follows the task.
_DEPEND_ADDRESS, _DEPEND_IS_IN, _DEPEND_SIZE = 0, 32, 40
# More dependences and dependers than any program has.
_MAX_DEPENDENCES, _MAX_DEPENDERS = 1 << 16, 1 << 22

# priority_queue.h and splay-tree.h, the same since GCC 7. A queue has the root of a tree of lists, NULL while all tasks
# have the same priority, followed by the list for that priority. A list has its priority and its first node. A node of
# the tree has its list, then both subtrees. A task has three nodes of lists (pnode), one after the other.
QUEUE_ROOT, QUEUE_LIST = 0, 8
LIST_TASKS = 8
TREE_LIST, TREE_LEFT, TREE_RIGHT = 0, 24, 32
NODE_SIZE = 16
# The number of pointers in a list node: to the next and to the previous node.
_LINKS = 2

_HEAD = ("nthreads", "prev_ts.team", "prev_ts.team_id", "prev_ts.level", "prev_ts.active_level", "ordered_release")
_BARRIER = ("barrier.total", "barrier.generation", "barrier.awaited", "barrier.awaited_final")


class GompThread:
    """A ``gomp_thread``, which is in the thread-local storage of the thread *native*."""

    def __init__(self, runtime: Runtime, native: int, address: int) -> None:
        self.runtime = runtime
        self.native = native
        self.address = address

    @cached_property
    def view(self) -> StructView:
        """A view of the ``gomp_thread``, with a cached copy of all members that are read."""
        return copied(self.runtime.heap, self.runtime.layouts["gomp_thread"], self.address, WANTED["gomp_thread"])

    @property
    def is_registered(self) -> bool:
        """Whether the runtime knows the thread, because the thread has been in a region or has its own task."""
        return any(self.view.pointer(name) is not None for name in ("ts.team", "task", "thread_pool"))

    @property
    def has_left(self) -> bool:
        """Whether the thread is a worker that is about to end. Such a worker has no task and no pool, and the team to
        which ``ts.team`` points may be freed.
        """
        try:
            has_any = any(self.view.pointer(name) is not None for name in ("task", "thread_pool"))
            return not has_any and self.view.unsigned("ts.team_id") != 0
        except OmpdError:
            return False

    @cached_property
    def pool(self) -> int | None:
        """The address of the thread's ``gomp_thread_pool``."""
        return self.view.pointer("thread_pool")

    def pool_owner(self) -> int | None:
        """Return the address of the ``gomp_thread`` that owns the thread's pool, None if the owner is unknown.

        The owner has the first place in the pool's list, which some releases do not fill in.
        """
        try:
            threads = self.runtime.view("gomp_thread_pool", self.pool).pointer("threads") if self.pool else None
            return read_pointer(self.runtime.heap, threads) if threads is not None else None
        except OmpdError:
            return None


class GompTeam:
    """A ``gomp_team``."""

    def __init__(self, runtime: Runtime, address: int) -> None:
        self.runtime = runtime
        self.address = address

    @cached_property
    def view(self) -> StructView:
        """A view of the ``gomp_team``, with a cached copy of its first members."""
        return copied(self.runtime.heap, self.runtime.layouts["gomp_team"], self.address, _HEAD)

    @cached_property
    def barrier(self) -> StructView:
        """A view of the ``gomp_team``, with a cached copy of its barrier."""
        return copied(self.runtime.heap, self.runtime.layouts["gomp_team"], self.address, _BARRIER)

    @cached_property
    def nthreads(self) -> int:
        """The number of the team's threads.

        :raises CorruptState: if no team can have so many threads
        """
        count = self.view.unsigned("nthreads")
        if not 0 < count <= self.runtime.most_threads:
            raise CorruptState(self.address, f"team of {count} threads")
        return count

    @cached_property
    def outer_team(self) -> int | None:
        """The address of the team in which the primary thread encountered the construct."""
        return self.view.pointer("prev_ts.team")

    @cached_property
    def outer_number(self) -> int:
        """The primary thread's number in :attr:`outer_team`."""
        return self.view.unsigned("prev_ts.team_id")

    @cached_property
    def outer_level(self) -> int:
        """The number of regions that enclose the team's region."""
        return self.view.unsigned("prev_ts.level")

    @cached_property
    def outer_active_level(self) -> int:
        """The number of enclosing regions with more than one thread.

        :raises CorruptState: if the number exceeds :attr:`outer_level`
        """
        active = self.view.unsigned("prev_ts.active_level")
        if active > self.outer_level:
            raise CorruptState(self.address, f"{active} active regions are around it, {self.outer_level} in all")
        return active

    @property
    def first_task(self) -> int:
        """The address of the team's first implicit task."""
        return self.view.address_of("implicit_task")

    def releases(self, count: int) -> tuple[int, ...]:
        """Return the addresses of the semaphores of the first *count* threads, empty if the team has no list of
        semaphores.
        """
        releases = self.view.pointer("ordered_release")
        return tuple(read_words(self.runtime.heap, releases, count)) if releases is not None else ()


class GompTask:
    """A ``gomp_task``."""

    def __init__(self, runtime: Runtime, address: int) -> None:
        self.runtime = runtime
        self.address = address

    @cached_property
    def view(self) -> StructView:
        """A view of the ``gomp_task``, with a cached copy of all members that are read."""
        return copied(self.runtime.heap, self.runtime.layouts["gomp_task"], self.address, WANTED["gomp_task"])

    @cached_property
    def gomp_kind(self) -> int:
        """The member ``kind``, an ``enum gomp_task_kind``.

        :raises CorruptState: if the value is not a kind
        """
        kind = self.view.unsigned("kind")
        if kind > DETACHED:
            raise CorruptState(self.address, f"task of kind {kind}")
        return kind

    @property
    def is_undeferred(self) -> bool:
        """Whether the encountering thread executes the task at once. The structure is then on that thread's stack."""
        return self.gomp_kind == UNDEFERRED

    @property
    def is_counted(self) -> bool:
        """Whether the team's ``task_count`` includes the task. ``task_count`` includes deferred tasks that are not over
        and wait for no dependence.
        """
        return self.gomp_kind in (TIED, ASYNC_RUNNING, DETACHED) or (
            self.gomp_kind == WAITING and not self.view.unsigned("num_dependees")
        )

    @cached_property
    def parent(self) -> int | None:
        """The address of the generating task.

        :raises CorruptState: if ``parent`` is the task itself
        """
        parent = self.view.pointer("parent")
        if parent == self.address:
            raise CorruptState(self.address, "a task is said to have generated itself")
        return parent

    @property
    def taskgroup(self) -> int | None:
        """The address of the task's innermost task group."""
        return self.view.pointer("taskgroup")

    def children(self) -> Iterator[int]:
        """Yield the addresses of the task's children, except undeferred children and children that wait for a
        dependence.

        :raises CorruptState: if a list of children does not end
        """
        return self.runtime.tasks_in(self.view.address_of("children_queue"), AMONG_CHILDREN)

    def dependers(self) -> tuple[int, ...]:
        """Return the addresses of the tasks that depend on this task (``dependers``). They are in no queue.

        :raises CorruptState: if there are more than any program has
        """
        vector, heap = self.view.pointer("dependers"), self.runtime.heap
        if vector is None:
            return ()
        count = read_unsigned(heap, vector + _DEPENDERS_COUNT, heap.pointer_size)
        if count > _MAX_DEPENDERS:
            raise CorruptState(vector, f"{count} tasks are said to wait for one")
        return tuple(read_words(heap, vector + _DEPENDERS_TASKS, count)) if count else ()

    def dependences(self) -> tuple[Dependence, ...]:
        """Return the items of the task's ``depend`` clause.

        :raises CorruptState: if there are more than any program has
        """
        count, heap = self.view.unsigned("depend_count"), self.runtime.heap
        if count > _MAX_DEPENDENCES:
            raise CorruptState(self.address, f"a task with {count} dependences")
        array = self.address + self.runtime.layouts.size("gomp_task")
        raw = heap.read(array, count * _DEPEND_SIZE) if count else b""
        items = []
        for start in range(0, len(raw), _DEPEND_SIZE):
            pointer = raw[start + _DEPEND_ADDRESS : start + _DEPEND_ADDRESS + heap.pointer_size]
            items.append(Dependence(int.from_bytes(pointer, heap.byte_order), raw[start + _DEPEND_IS_IN] != 0))
        return tuple(items)

    def groups(self) -> Iterator[int]:
        """Yield the addresses of the task's task groups, innermost first.

        :raises CorruptState: if the chain of task groups does not end
        """

        def outer(group: int) -> int | None:
            return self.runtime.view("gomp_taskgroup", group).pointer("prev")

        return chain(self.taskgroup, outer, MAX_TASKS, "the chain of task groups")


def queued(runtime: Runtime, queue: int) -> Iterator[int]:
    """Yield the addresses of the nodes in the ``priority_queue`` at *queue*.

    :raises CorruptState: if a list or the tree does not end
    """
    heap = runtime.heap
    root = read_pointer(heap, queue + QUEUE_ROOT)
    if root is None:
        yield from _listed(runtime, queue + QUEUE_LIST)
        return
    waiting, visited = [root], {root}
    while waiting:
        node = waiting.pop()
        yield from _listed(runtime, node + TREE_LIST)
        for side in (TREE_LEFT, TREE_RIGHT):
            subtree = read_pointer(heap, node + side)
            if subtree is None:
                continue
            if subtree in visited or len(visited) >= MAX_TASKS:
                raise CorruptState(subtree, "a tree of tasks does not end")
            visited.add(subtree)
            waiting.append(subtree)


def _listed(runtime: Runtime, address: int) -> Iterator[int]:
    # Yield the nodes of one list, whose address is *address*. The nodes form a ring, and each points to its
    # predecessor. A wrong predecessor shows that the list is being changed, or that its memory has been reused, and
    # ends the walk at once.
    heap = runtime.heap
    first = before = read_pointer(heap, address + LIST_TASKS)
    if first is None:
        return
    visited: set[int] = set()
    node, last = read_words(heap, first, _LINKS)
    yield first
    while node != first:
        following, previous = read_words(heap, node, _LINKS) if node and node not in visited else (0, 0)
        if previous != before or len(visited) >= MAX_TASKS:
            raise _not_a_list(runtime, address)
        visited.add(node)
        yield node
        before, node = node, following
    if last != before:
        raise _not_a_list(runtime, address)


def _not_a_list(runtime: Runtime, address: int) -> CorruptState:
    if runtime.tasks_are_changing():
        return CorruptState(address, "the task queue was being changed")
    return CorruptState(address, "a list of tasks does not come back to its first one")
