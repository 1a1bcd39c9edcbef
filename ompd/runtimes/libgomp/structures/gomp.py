"""``gomp_thread``, ``gomp_team`` and ``gomp_task``, each read once, and where one process has them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property

from ompd.contract.helpers.defaults import Plain
from ompd.contract.helpers.pages import Heap
from ompd.contract.helpers.stacks import CodeOwners
from ompd.contract.helpers.walks import MAX_TASKS, chain, most_threads
from ompd.contract.memory import StructView, read_pointer, read_unsigned, read_words
from ompd.contract.plugin import Dependence
from ompd.contract.process import Module, Process
from ompd.errors import CorruptState, OmpdError
from ompd.runtimes.libgomp.structures.layouts import WANTED, Layouts, copied
from ompd.runtimes.libgomp.structures.lists import NODE_SIZE, queued

# enum gomp_task_kind of libgomp.h
IMPLICIT, UNDEFERRED, WAITING, TIED, ASYNC_RUNNING, DETACHED = range(6)
# By which of its nodes a task is in its team's queue, among the children of its parent, and in its task group's.
IN_TEAM, AMONG_CHILDREN, IN_GROUP = range(3)
# libgomp.h, the same since GCC 5: the tasks that wait for another, a count and, behind how many there is room for,
# pointers to them; and behind a task the items of its depend clause, each with an address and whether its type is in.
_DEPENDERS_COUNT, _DEPENDERS_TASKS = 0, 16
_DEPEND_ADDRESS, _DEPEND_IS_IN, _DEPEND_SIZE = 0, 32, 40
# A clause names so many variables at most, and so many tasks wait for one.
_MAX_DEPENDENCES, _MAX_DEPENDERS = 1 << 16, 1 << 22

_HEAD = ("nthreads", "prev_ts.team", "prev_ts.team_id", "prev_ts.level", "prev_ts.active_level", "ordered_release")
_BARRIER = ("barrier.total", "barrier.generation", "barrier.awaited", "barrier.awaited_final")


class Space(Plain, ABC):
    """One copy of the runtime in one process.

    :param offset: where ``gomp_tls_data`` is in the module's thread-local block
    """

    def __init__(self, process: Process, module: Module, layouts: Layouts, offset: int) -> None:
        self.process = process
        self.heap = Heap(process)
        self.module = module
        self.layouts = layouts
        self.owners = CodeOwners(process, module)
        self._offset = offset

    @abstractmethod
    def team_at(self, address: int) -> GompTeam:
        """Return the team whose ``gomp_team`` is at *address*, read once."""

    @abstractmethod
    def task_at(self, address: int) -> GompTask:
        """Return the task whose ``gomp_task`` is at *address*, read once."""

    @abstractmethod
    def tasks_are_changing(self) -> bool:
        """Return whether a thread was about to change a team's lists of tasks."""

    def view(self, name: str, address: int) -> StructView:
        """Return the structure *name* at *address*."""
        return StructView(self.heap, self.layouts[name], address)

    @cached_property
    def most_threads(self) -> int:
        """More threads than one team can have."""
        return most_threads(self.process)

    def gomp_thread(self, native: int) -> int | None:
        """Return the address of a thread's ``gomp_thread``, None if it has no thread-local storage of this module.

        :raises OmpdError: if that is unknown, or cannot be
        """
        block = self.process.thread_local_block(self.module, native)
        if block is None:
            return None
        address = block[0] + self._offset
        if address % self.process.pointer_size:
            raise CorruptState(address, "the runtime's thread-local storage is not aligned")
        return address

    def gomp_threads(self) -> Iterator[GompThread]:
        """Yield those of all threads of the process that have one, as far as that is known."""
        for native in self.process.threads():
            try:
                address = self.gomp_thread(native)
            except OmpdError:
                continue
            if address is not None:
                yield GompThread(self, native, address)

    @cached_property
    def last_teams(self) -> frozenset[int]:
        """Teams whose region is over, which pools keep for the next one (``last_team``), as far as they can be read."""
        found: set[int | None] = set()
        for thread in self.gomp_threads():
            try:
                pool = thread.pool
                found.add(self.view("gomp_thread_pool", pool).pointer("last_team") if pool is not None else None)
            except OmpdError:
                continue
        return frozenset(team for team in found if team is not None)

    def implicit_task_at(self, team: int, number: int) -> int:
        """Return the address of the implicit task of a thread of a team."""
        return self.team_at(team).first_task + number * self.layouts.size("gomp_task")

    def lineage(self, task: int) -> Iterator[int]:
        """Yield the address of a task, of the one that generated it, and so on.

        :raises CorruptState: if that does not end
        """
        what = "the chain of tasks that generated each other"
        return chain(task, lambda at: self.task_at(at).parent, MAX_TASKS, what)

    def tasks_in(self, queue: int, node: int) -> Iterator[int]:
        """Yield the addresses of the tasks that the ``priority_queue`` at *queue* has, by so many-th of their nodes.

        :raises CorruptState: if a list or the tree does not end
        """
        offset = self.layouts["gomp_task"].field("pnode").offset + node * NODE_SIZE
        for at in queued(self.heap, queue, self.tasks_are_changing):
            yield at - offset


class GompThread:
    """A ``gomp_thread``, in the thread-local storage of the thread *native*."""

    def __init__(self, space: Space, native: int, address: int) -> None:
        self.space = space
        self.native = native
        self.address = address

    @cached_property
    def view(self) -> StructView:
        """The structure itself."""
        return copied(self.space.heap, self.space.layouts["gomp_thread"], self.address, WANTED["gomp_thread"])

    @property
    def is_registered(self) -> bool:
        """Whether the runtime knows the thread: it has been in a region, or has a task of its own."""
        return any(self.view.pointer(name) is not None for name in ("ts.team", "task", "thread_pool"))

    @property
    def has_left(self) -> bool:
        """Whether it is a worker that ends: without task and pool, and what it says to be its team may be freed."""
        try:
            has_any = any(self.view.pointer(name) is not None for name in ("task", "thread_pool"))
            return not has_any and self.view.unsigned("ts.team_id") != 0
        except OmpdError:
            return False

    @cached_property
    def pool(self) -> int | None:
        """The address of the ``gomp_thread_pool`` that it belongs to."""
        return self.view.pointer("thread_pool")

    def pool_owner(self) -> int | None:
        """Return the ``gomp_thread`` of the thread whose pool it is in, None where that is unknown.

        Some releases leave anything in the first place of the pool, which is its owner's.
        """
        try:
            threads = self.space.view("gomp_thread_pool", self.pool).pointer("threads") if self.pool else None
            return read_pointer(self.space.heap, threads) if threads is not None else None
        except OmpdError:
            return None


class GompTeam:
    """A ``gomp_team``."""

    def __init__(self, space: Space, address: int) -> None:
        self.space = space
        self.address = address

    @cached_property
    def view(self) -> StructView:
        """The structure itself, its first members read before."""
        return copied(self.space.heap, self.space.layouts["gomp_team"], self.address, _HEAD)

    @cached_property
    def barrier(self) -> StructView:
        """The same, its barrier's words read before."""
        return copied(self.space.heap, self.space.layouts["gomp_team"], self.address, _BARRIER)

    @cached_property
    def nthreads(self) -> int:
        """The number of its threads.

        :raises CorruptState: if it cannot be
        """
        count = self.view.unsigned("nthreads")
        if not 0 < count <= self.space.most_threads:
            raise CorruptState(self.address, f"team of {count} threads")
        return count

    @cached_property
    def outer_team(self) -> int | None:
        """The address of the team in which its primary thread was when it encountered the construct."""
        return self.view.pointer("prev_ts.team")

    @cached_property
    def outer_number(self) -> int:
        """The primary thread's number in that team."""
        return self.view.unsigned("prev_ts.team_id")

    @cached_property
    def outer_level(self) -> int:
        """How many regions enclose its own."""
        return self.view.unsigned("prev_ts.level")

    @cached_property
    def outer_active_level(self) -> int:
        """How many of these have more than one thread.

        :raises CorruptState: if they are more than enclose it
        """
        active = self.view.unsigned("prev_ts.active_level")
        if active > self.outer_level:
            raise CorruptState(self.address, f"{active} active regions are around it, {self.outer_level} in all")
        return active

    @property
    def first_task(self) -> int:
        """The address of the first of its implicit tasks."""
        return self.view.address_of("implicit_task")

    def releases(self, count: int) -> tuple[int, ...]:
        """Return the addresses of the semaphores of *count* of its threads, empty if it has no list of them."""
        releases = self.view.pointer("ordered_release")
        return tuple(read_words(self.space.heap, releases, count)) if releases is not None else ()


class GompTask:
    """A ``gomp_task``."""

    def __init__(self, space: Space, address: int) -> None:
        self.space = space
        self.address = address

    @cached_property
    def view(self) -> StructView:
        """The structure itself."""
        return copied(self.space.heap, self.space.layouts["gomp_task"], self.address, WANTED["gomp_task"])

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
        """Whether it is executed at once by the thread that encountered it; it then is on that thread's stack."""
        return self.gomp_kind == UNDEFERRED

    @property
    def is_counted(self) -> bool:
        """Whether its team counts it: a deferred one that need not wait for others, until it is over."""
        return self.gomp_kind in (TIED, ASYNC_RUNNING, DETACHED) or (
            self.gomp_kind == WAITING and not self.view.unsigned("num_dependees")
        )

    @cached_property
    def parent(self) -> int | None:
        """The address of the task that generated it.

        :raises CorruptState: if that is the task itself
        """
        parent = self.view.pointer("parent")
        if parent == self.address:
            raise CorruptState(self.address, "a task is said to have generated itself")
        return parent

    @property
    def taskgroup(self) -> int | None:
        """The address of the innermost task group that it belongs to."""
        return self.view.pointer("taskgroup")

    def children(self) -> Iterator[int]:
        """Yield the addresses of the explicit tasks that it generated and that are not over, but for undeferred ones
        and those that wait for a dependence.

        :raises CorruptState: if a list of them does not end
        """
        return self.space.tasks_in(self.view.address_of("children_queue"), AMONG_CHILDREN)

    def dependers(self) -> tuple[int, ...]:
        """Return the addresses of the tasks that wait for it (``dependers``); they are in no queue.

        :raises CorruptState: if there are more than any program has
        """
        vector, heap = self.view.pointer("dependers"), self.space.heap
        if vector is None:
            return ()
        count = read_unsigned(heap, vector + _DEPENDERS_COUNT, heap.pointer_size)
        if count > _MAX_DEPENDERS:
            raise CorruptState(vector, f"{count} tasks are said to wait for one")
        return tuple(read_words(heap, vector + _DEPENDERS_TASKS, count)) if count else ()

    def dependences(self) -> tuple[Dependence, ...]:
        """Return the items of its ``depend`` clause.

        :raises CorruptState: if there are more than any program has
        """
        items, heap = self.view.unsigned("depend_count"), self.space.heap
        if items > _MAX_DEPENDENCES:
            raise CorruptState(self.address, f"a task with {items} dependences")
        start = self.address + self.space.layouts.size("gomp_task")
        raw = heap.read(start, items * _DEPEND_SIZE) if items else b""
        found = []
        for at in range(0, len(raw), _DEPEND_SIZE):
            where = raw[at + _DEPEND_ADDRESS : at + _DEPEND_ADDRESS + heap.pointer_size]
            found.append(Dependence(int.from_bytes(where, heap.byte_order), raw[at + _DEPEND_IS_IN] != 0))
        return tuple(found)

    def groups(self) -> Iterator[int]:
        """Yield the address of the task group that it belongs to (``taskgroup``), and of those around that.

        :raises CorruptState: if they do not end
        """

        def outer(group: int) -> int | None:
            return self.space.view("gomp_taskgroup", group).pointer("prev")

        return chain(self.taskgroup, outer, MAX_TASKS, "the chain of task groups")
