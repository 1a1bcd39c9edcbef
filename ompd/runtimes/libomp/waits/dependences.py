"""Tasks that are in no queue because no thread may execute them yet (``kmp_taskdeps.cpp``, ``kmp_tasking.cpp``).

A task with a ``depend`` clause has a node (``kmp_depnode_t``) until the task is complete. The node lists the nodes of
the tasks that depend on this task (``successors``). A task whose children have ``depend`` clauses has a table of all
addresses in these clauses (``td_dephash``). For each address, the table has the nodes of the last tasks. The node of a
complete task no longer points to the task.

When the code of a detached task has ended, the task becomes a proxy for its event. If the proxy has no node, two kinds
of pointers still refer to it: the program's own, and places in queues that the task has left and that no other task has
used since.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from ompd.contract.helpers.walks import chain
from ompd.contract.memory import StructView, read_words
from ompd.contract.plugin import Dependence, TaskWait
from ompd.errors import CorruptState, OmpdError

if TYPE_CHECKING:
    from ompd.runtimes.libomp.handles import Task
    from ompd.runtimes.libomp.plugin import Runtime
    from ompd.runtimes.libomp.task_heads import Head

# Bounds for a table of dependences and for all nodes. The runtime enlarges tables in steps; the largest has some
# 260,000 places (__kmp_dephash_extend).
_MAX_PLACES, _MAX_NODES = 1 << 20, 1 << 22
_IN = 1  # flag for "in" in kmp_depend_info_t; out, inout and the others have other bits
_ALLOW_COMPLETION = 1  # kmp_event_type_t
# Members of an entry in a table of dependences. For one address, the entry has the nodes of the last tasks: either one
# task that writes (_LAST), or a set of tasks of one kind and, before them, a set of tasks of another kind (_SETS). LLVM
# 11 has other members for sets.
_ALL = "last_all"  # the member for omp_all_memory
_LAST, _SETS = "last_out", ("last_set", "prev_set", "last_ins", "last_mtxs")


class _Search(NamedTuple):
    # The result of a search for tasks. Keys for tasks are addresses of kmp_taskdata_t.
    tasks: dict[int, Task]  # tasks that were found only through nodes or places of queues
    explicit: dict[int, None]  # the addresses of all incomplete explicit tasks
    nodes: dict[int, list[Task]]  # by node without a task, the tasks for which the node waits
    predecessors: dict[int, list[Task]]  # by task, the tasks for which it waits
    clauses: dict[int, list[Dependence]]
    children: dict[int, int]  # by task, the number of its incomplete explicit children


class WaitingTasks:
    """The tasks of one runtime that wait for a dependence or an event."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._heap = runtime.heap
        self._structures = runtime.details
        self._queues = runtime.queues

    def tasks(self) -> Sequence[Task]:
        """Return the waiting explicit tasks. They are found by nodes, by tables of dependences, and in places of
        queues.

        :raises LayoutUnavailable: if the place of nodes is unknown
        :raises CorruptState: if the nodes do not end, or if the task of a node has another node
        """
        return [task for task in self._search.tasks.values() if task.kind() == "explicit"]

    @cached_property
    def explicit(self) -> Sequence[Task]:
        """All incomplete explicit tasks that were found: executing, suspended, queued and waiting tasks.

        :raises OmpdError: as :meth:`tasks`
        """
        return [self._runtime.task_at(address) for address in self._search.explicit]

    @cached_property
    def children(self) -> Mapping[int, Sequence[Task]]:
        """The tasks of :attr:`explicit`, by the tasks that generated them.

        :raises OmpdError: as :meth:`tasks`
        """
        children: dict[int, list[Task]] = {}
        for task in self.explicit:
            parent = task.view.pointer("td_parent")
            if parent is not None:
                children.setdefault(parent, []).append(task)
        return children

    def without_task(self, low: int, high: int) -> Sequence[tuple[int, int, Sequence[Task]]]:
        """Return the nodes without a task whose addresses are from *low* up to *high*. A taskwait with dependences has
        such a node on the stack of its thread. Each row has the address of the node's ``npredecessors``, the value
        there, and the tasks for which the node waits.

        :raises OmpdError: as :meth:`tasks`
        """
        rows = []
        for node, tasks in self._search.nodes.items():
            if low <= node < high:
                view = self._view("kmp_base_depnode", node)
                rows.append((view.address_of("npredecessors"), view.signed("npredecessors"), tasks))
        return rows

    def before(self, task: Task) -> TaskWait | None:
        """Return the dependences for which a task that has not begun waits, None if there are none.

        :raises OmpdError: if the dependences cannot be read
        """
        node = self._nodes_view(task).pointer("td_depnode")
        if node is None:
            return None
        count = self._view("kmp_base_depnode", node).signed("npredecessors")
        if count <= 0:
            return None
        clauses = self._search.clauses.get(task.address)
        predecessors = tuple(self._search.predecessors.get(task.address, ()))
        return TaskWait("dependence", count, predecessors, tuple(clauses) if clauses else None)

    def _nodes_view(self, task: Task) -> StructView:
        return StructView(task.view.memory, self._structures.layout("kmp_taskdata_t.td_depnode"), task.address)

    def _view(self, name: str, address: int) -> StructView:
        return StructView(self._heap, self._structures.layout(name), address)

    def unfinished_children(self, task: Task) -> int:
        """Return ``td_incomplete_child_tasks``, or the number of unfinished children that were found if that is larger.
        The runtime does not count the children in a serialized region, because it executes them at once.
        """
        children = self._search.children.get(task.address, 0)
        if task.place < task.count:
            return 0  # the task encountered another serialized region, and the count belongs to the inner region's task
        return max(self.counted_children(task), children)

    @property
    def known_children(self) -> Mapping[int, int]:
        """For each task, the number of unfinished children that were found.

        :raises OmpdError: if the search for tasks failed
        """
        return self._search.children

    def counted_children(self, task: Task) -> int:
        """Return ``td_incomplete_child_tasks``, which counts all children in a team of several threads."""
        view = StructView(task.view.memory, self._structures.layout("kmp_taskdata_t"), task.address)
        count = view.signed("td_incomplete_child_tasks")
        if not 0 <= count <= _MAX_NODES:
            raise CorruptState(task.address, f"a task with {count} children that are not complete")
        return count

    @property
    def _search(self) -> _Search:
        if isinstance(self._result, OmpdError):
            raise self._result
        return self._result

    @cached_property
    def _result(self) -> _Search | OmpdError:
        try:
            return self._find()
        except OmpdError as error:
            return error

    def _find(self) -> _Search:
        search = _Search({}, {}, {}, {}, {}, {})
        plain: dict[int, Head] = {}
        todo = list(self._reachable(plain))
        search.explicit.update(dict.fromkeys(plain))
        parents = Counter(head.parent for head in plain.values())
        search.children.update((parent, count) for parent, count in parents.items() if parent)
        tasks = {task.address: task for task in todo}
        nodes = 0
        while todo:
            for task in todo:
                if task.kind() == "explicit" and not task.flag("complete"):
                    search.explicit[task.address] = None
                    parent = task.view.pointer("td_parent")
                    if parent is not None:
                        search.children[parent] = search.children.get(parent, 0) + 1
            fresh: list[Task] = []
            for task in todo:
                for later in self._successors(task, search):
                    nodes += 1
                    if nodes > _MAX_NODES:
                        raise CorruptState(task.address, "the tasks that wait for others do not end")
                    if later.address not in tasks and later.address not in plain:
                        tasks[later.address] = later
                        search.tasks[later.address] = later
                        fresh.append(later)
            todo = fresh
            if not todo:
                # If a task's count of children is higher than the number found, the missing children may be detached.
                children = search.children
                hidden = {
                    address for address, task in tasks.items() if self.counted_children(task) > children.get(address, 0)
                }
                hidden.update(address for address, head in plain.items() if head.children > children.get(address, 0))
                known_addresses = tasks.keys() | plain.keys() if hidden else set()
                todo = (
                    [task for task in self._detached(hidden) if task.address not in known_addresses] if hidden else []
                )
                tasks.update((task.address, task) for task in todo)
                search.tasks.update((task.address, task) for task in todo)
        return search

    def _reachable(self, plain: dict[int, Head]) -> Iterator[Task]:
        # Yield the current tasks of threads, implicit tasks, queued tasks, and all their ancestors. Tasks without
        # dependences, which are most, are not yielded but added to *plain*.
        runtime = self._runtime
        heads = runtime.heads
        visited: set[int] = set()
        starts = [runtime.task_at(address) for address in runtime.current_tasks]
        for team in runtime.live_teams():
            # Leave out implicit tasks with another td_team: until a team has formed, the memory of its tasks has old
            # contents.
            implicit = (runtime.implicit_task(team, number) for number in range(team.t_nproc))
            starts += [task for task in implicit if task.view.pointer("td_team") == team.address]
        starts += self._queues.queued()
        for start in starts:
            address: int | None = start.address
            while address is not None and address not in visited:
                visited.add(address)
                head = heads.of(address)
                if head is not None and heads.is_plain(head):
                    plain[address] = head
                    address = head.parent or None
                    continue
                task = runtime.task_at(address)
                yield task
                address = task.view.pointer("td_parent")

    def _successors(self, task: Task, search: _Search) -> Iterator[Task]:
        # Yield the tasks that depend on *task*, and the tasks in its table of dependences.
        view = self._nodes_view(task)
        node = view.pointer("td_depnode")
        if node is not None:
            for after in self._nodes_in(self._view("kmp_base_depnode", node).pointer("successors")):
                if self._view("kmp_base_depnode", after).pointer("task") is None:
                    search.nodes.setdefault(after, []).append(task)
                for later in self._task_of(after):
                    search.predecessors.setdefault(later.address, []).append(task)
                    yield later
        table = view.pointer("td_dephash")
        if table is not None:
            yield from self._in_table(table, search)

    def _in_table(self, address: int, search: _Search) -> Iterator[Task]:
        table = self._view("kmp_dephash", address)
        everything = table.pointer(_ALL) if _ALL in table.layout.fields else None
        if everything is not None:
            yield from self._task_of(everything)
        buckets, size = table.pointer("buckets"), table.unsigned("size")
        if size > _MAX_PLACES:
            raise CorruptState(address, f"a table of dependences with {size} places")
        visited: set[int] = set()
        for place in read_words(self._heap, buckets, size) if buckets is not None else ():
            item: int | None = place or None
            while item is not None:
                if item in visited or len(visited) >= _MAX_NODES:
                    raise CorruptState(item, "the entries of a table of dependences do not end")
                visited.add(item)
                entry = self._view("kmp_dephash_entry", item)
                yield from self._in_entry(entry, search)
                item = entry.pointer("next_in_bucket")

    def _in_entry(self, entry: StructView, search: _Search) -> Iterator[Task]:
        address, flag = entry.unsigned("addr"), entry.unsigned("last_flag")
        last = entry.pointer(_LAST)
        for task in self._task_of(last) if last is not None else ():
            search.clauses.setdefault(task.address, []).append(Dependence(address, False))
            yield task
        for name in _SETS:
            if name not in entry.layout.fields:
                continue
            is_in = flag == _IN if name == "last_set" else {"last_ins": True, "last_mtxs": False}.get(name)
            for node in self._nodes_in(entry.pointer(name)):
                for task in self._task_of(node):
                    search.clauses.setdefault(task.address, []).append(Dependence(address, is_in))
                    yield task

    def _nodes_in(self, first: int | None) -> Iterator[int]:
        # The nodes of a list (kmp_depnode_list_t).
        def following(address: int) -> int | None:
            return self._view("kmp_depnode_list", address).pointer("next")

        for address in chain(first, following, _MAX_NODES, "a list of tasks that wait for another"):
            node = self._view("kmp_depnode_list", address).pointer("node")
            if node is not None:
                yield node

    def _task_of(self, node: int) -> Iterator[Task]:
        # Yield the task of a node. There is none if the task is complete, or if the node belongs to a taskwait with a
        # depend clause.
        routine = self._view("kmp_base_depnode", node).pointer("task")
        size = self._runtime.task_layout.size
        if routine is None or not size:
            return
        address = routine - size
        if self._view("kmp_taskdata_t.td_depnode", address).pointer("td_depnode") != node:
            raise CorruptState(node, "a task's node leads to what is another task's, or none")
        yield self._runtime.task_at(address)

    def _detached(self, parents: Set[int]) -> Iterator[Task]:
        # Yield the detached children of *parents* whose code has ended. Old places of queues may still have them. A
        # place counts if the event of the task there points back to the task.
        size = self._runtime.task_layout.size
        masks = self._structures.layout("kmp_tasking_flags_t.proxy").masks
        if not size or not masks.get("proxy") or not masks.get("detachable"):
            return
        for address in self._queues.places():
            try:
                view = self._view("kmp_taskdata_t.td_depnode", address)
                is_event = view.unsigned("td_allow_completion_event.type") == _ALLOW_COMPLETION
                if not is_event or view.pointer("td_allow_completion_event.ed.task") != address + size:
                    continue
                task = self._runtime.task_at(address)
                if task.view.pointer("td_parent") in parents and task.is_proxy():
                    yield task
            except OmpdError:
                continue  # the memory now has other contents
