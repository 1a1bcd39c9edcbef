"""Tasks that are in no queue because nobody may execute them yet (``kmp_taskdeps.cpp``, ``kmp_tasking.cpp``).

A task with a ``depend`` clause has a node (``kmp_depnode_t``) as long as it is not complete, which has the nodes of
those that wait for it (``successors``). A task that generated some has a table of all addresses that their clauses name
(``td_dephash``), with the nodes of the last of them. Nodes whose task is complete have lost it.

A detached task whose code is done is a proxy for its event from then on. Where it has no node nothing leads to it but
what the program keeps, and places of queues that it has left and that have not been used again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cached_property
from typing import NamedTuple

from ompd.contract.helpers.walks import chain
from ompd.contract.memory import StructView, read_words
from ompd.contract.plugin import Dependence, TaskWait
from ompd.errors import CorruptState, OmpdError
from ompd.runtimes.libomp.teams.heads import Head
from ompd.runtimes.libomp.teams.tasks import Task
from ompd.runtimes.libomp.teams.threads import Threads
from ompd.runtimes.libomp.waits.queues import Queues

# The runtime makes tables larger in steps; the largest has some 260,000 places (__kmp_dephash_extend).
_MAX_PLACES, _MAX_NODES = 1 << 20, 1 << 22
_IN = 1  # kmp_depend_info_t's flag of in; those of out, inout and the others are other bits
_ALLOW_COMPLETION = 1  # kmp_event_type_t
# A table has the nodes of the last tasks for an address: one that writes it, or several of one kind, and before these
# several of another kind. Members of LLVM 11 differ.
_ALL = "last_all"  # of omp_all_memory
_LAST, _SETS = "last_out", ("last_set", "prev_set", "last_ins", "last_mtxs")


class _Found(NamedTuple):
    tasks: dict[int, Task]
    explicit: dict[int, None]  # the addresses of all explicit ones that are not complete
    nodes: dict[int, list[Task]]  # by a node without a task, those that it waits for
    before: dict[int, list[Task]]  # by a task's kmp_taskdata_t, those that it waits for
    clauses: dict[int, list[Dependence]]
    children: dict[int, int]  # of each task, how many explicit ones that are not complete are known


class Waiting:
    """The tasks of one runtime that wait for a dependence or an event."""

    def __init__(self, runtime: Threads, queues: Queues) -> None:
        self._runtime = runtime
        self._heap = runtime.heap
        self._structures = runtime.details
        self._queues = queues

    def tasks(self) -> Sequence[Task]:
        """Return those that tasks lead to which are known otherwise.

        :raises LayoutUnavailable: if nothing tells where nodes are
        :raises CorruptState: if they do not end, or a node leads to what is no task of its own
        """
        return [task for task in self._found.tasks.values() if task.kind() == "explicit"]

    def explicit(self) -> Sequence[Task]:
        """Return all explicit tasks that are not complete and to which something leads: executed, suspended, queued
        and waiting ones.

        :raises OmpdError: as :meth:`tasks`
        """
        return [self._runtime.task_at(address) for address in self._found.explicit]

    def without_task(self, low: int, high: int) -> Sequence[tuple[int, int, Sequence[Task]]]:
        """Return the nodes between two addresses that have no task, as those of a taskwait with dependences, on the
        stack of whoever waits: the address of ``npredecessors``, what it holds, and the tasks that they wait for.

        :raises OmpdError: as :meth:`tasks`
        """
        found = []
        for node, tasks in self._found.nodes.items():
            if low <= node < high:
                view = self._view("kmp_base_depnode", node)
                found.append((view.address_of("npredecessors"), view.signed("npredecessors"), tasks))
        return found

    def before(self, task: Task) -> TaskWait | None:
        """Return what a task that has not begun waits for, None if it waits for no other.

        :raises OmpdError: if that is unknown
        """
        node = self._of(task).pointer("td_depnode")
        if node is None:
            return None
        count = self._view("kmp_base_depnode", node).signed("npredecessors")
        if count <= 0:
            return None
        clauses = self._found.clauses.get(task.address)
        return TaskWait(
            "dependence", count, tuple(self._found.before.get(task.address, ())), tuple(clauses) if clauses else None
        )

    def _of(self, task: Task) -> StructView:
        return StructView(task.view.memory, self._structures.layout("kmp_taskdata_t.td_depnode"), task.address)

    def _view(self, name: str, address: int) -> StructView:
        return StructView(self._heap, self._structures.layout(name), address)

    def unfinished_children(self, task: Task) -> int:
        """Return ``td_incomplete_child_tasks``; of a task whose children are not counted, since they are executed where
        they are met, how many of them are known.
        """
        known = self._found.children.get(task.address, 0)
        if task.place < task.count:
            return 0  # what it has met is the next serialized region, whose task has its descriptor
        return max(self.counted_children(task), known)

    @property
    def known_children(self) -> Mapping[int, int]:
        """How many children of each task that are not complete are known.

        :raises OmpdError: what keeps tasks from being found
        """
        return self._found.children

    def counted_children(self, task: Task) -> int:
        """Return ``td_incomplete_child_tasks``, which counts all children in a team of several threads."""
        view = StructView(task.view.memory, self._structures.layout("kmp_taskdata_t"), task.address)
        count = view.signed("td_incomplete_child_tasks")
        if not 0 <= count <= _MAX_NODES:
            raise CorruptState(task.address, f"a task with {count} children that are not complete")
        return count

    @property
    def _found(self) -> _Found:
        if isinstance(self._known, OmpdError):
            raise self._known
        return self._known

    @cached_property
    def _known(self) -> _Found | OmpdError:
        try:
            return self._find()
        except OmpdError as error:
            return error

    def _find(self) -> _Found:
        found = _Found({}, {}, {}, {}, {}, {})
        plain: dict[int, Head] = {}
        todo = list(self._leading(plain))
        found.explicit.update(dict.fromkeys(plain))
        parents = Counter(head.parent for head in plain.values())
        found.children.update((parent, count) for parent, count in parents.items() if parent)
        seen = {task.address: task for task in todo}
        nodes = 0
        while todo:
            for task in todo:
                if task.kind() == "explicit" and not task.flag("complete"):
                    found.explicit[task.address] = None
                    parent = task.view.pointer("td_parent")
                    if parent is not None:
                        found.children[parent] = found.children.get(parent, 0) + 1
            fresh: list[Task] = []
            for task in todo:
                for later in self._after(task, found):
                    nodes += 1
                    if nodes > _MAX_NODES:
                        raise CorruptState(task.address, "the tasks that wait for others do not end")
                    if later.address not in seen and later.address not in plain:
                        seen[later.address] = later
                        found.tasks[later.address] = later
                        fresh.append(later)
            todo = fresh
            if not todo:
                hidden = {at for at, task in seen.items() if self.counted_children(task) > found.children.get(at, 0)}
                hidden.update(at for at, head in plain.items() if head.children > found.children.get(at, 0))
                known = seen.keys() | plain.keys() if hidden else set()
                todo = [task for task in self._detached(hidden) if task.address not in known] if hidden else []
                seen.update((task.address, task) for task in todo)
                found.tasks.update((task.address, task) for task in todo)
        return found

    def _leading(self, plain: dict[int, Head]) -> Iterator[Task]:
        # Tasks that threads lead to, implicit ones, and those in queues; but those of them which lead to none that
        # depends on them, as nearly all do, are only put into *plain*.
        runtime = self._runtime
        heads = runtime.heads
        seen: set[int] = set()
        starts = [runtime.task_at(address) for address in runtime.current_tasks]
        for team in runtime.live_teams():
            # Until a team has formed its tasks' memory holds what was there before.
            implicit = (runtime.implicit_task(team, number) for number in range(team.t_nproc))
            starts += [task for task in implicit if task.view.pointer("td_team") == team.address]
        starts += self._queues.queued()
        for start in starts:
            here: int | None = start.address
            while here is not None and here not in seen:
                seen.add(here)
                head = heads.of(here)
                if head is not None and heads.is_plain(head):
                    plain[here] = head
                    here = head.parent or None
                    continue
                task = runtime.task_at(here)
                yield task
                here = task.view.pointer("td_parent")

    def _after(self, task: Task, found: _Found) -> Iterator[Task]:
        view = self._of(task)
        node = view.pointer("td_depnode")
        if node is not None:
            for after in self._nodes_of(self._view("kmp_base_depnode", node).pointer("successors")):
                if self._view("kmp_base_depnode", after).pointer("task") is None:
                    found.nodes.setdefault(after, []).append(task)
                for later in self._task_of(after):
                    found.before.setdefault(later.address, []).append(task)
                    yield later
        table = view.pointer("td_dephash")
        if table is not None:
            yield from self._in_table(table, found)

    def _in_table(self, address: int, found: _Found) -> Iterator[Task]:
        table = self._view("kmp_dephash", address)
        everything = table.pointer(_ALL) if _ALL in table.layout.fields else None
        if everything is not None:
            yield from self._task_of(everything)
        buckets, size = table.pointer("buckets"), table.unsigned("size")
        if size > _MAX_PLACES:
            raise CorruptState(address, f"a table of dependences with {size} places")
        seen: set[int] = set()
        for place in read_words(self._heap, buckets, size) if buckets is not None else ():
            here: int | None = place or None
            while here is not None:
                if here in seen or len(seen) >= _MAX_NODES:
                    raise CorruptState(here, "the entries of a table of dependences do not end")
                seen.add(here)
                entry = self._view("kmp_dephash_entry", here)
                yield from self._in_entry(entry, found)
                here = entry.pointer("next_in_bucket")

    def _in_entry(self, entry: StructView, found: _Found) -> Iterator[Task]:
        where, flag = entry.unsigned("addr"), entry.unsigned("last_flag")
        last = entry.pointer(_LAST)
        for task in self._task_of(last) if last is not None else ():
            found.clauses.setdefault(task.address, []).append(Dependence(where, False))
            yield task
        for name in _SETS:
            if name not in entry.layout.fields:
                continue
            is_in = flag == _IN if name == "last_set" else {"last_ins": True, "last_mtxs": False}.get(name)
            for task in self._tasks_of(entry.pointer(name)):
                found.clauses.setdefault(task.address, []).append(Dependence(where, is_in))
                yield task

    def _tasks_of(self, listed: int | None) -> Iterator[Task]:
        for node in self._nodes_of(listed):
            yield from self._task_of(node)

    def _nodes_of(self, listed: int | None) -> Iterator[int]:
        # The nodes of a kmp_depnode_list_t.
        def following(at: int) -> int | None:
            return self._view("kmp_depnode_list", at).pointer("next")

        for here in chain(listed, following, _MAX_NODES, "a list of tasks that wait for another"):
            node = self._view("kmp_depnode_list", here).pointer("node")
            if node is not None:
                yield node

    def _task_of(self, node: int) -> Iterator[Task]:
        # That of a node, unless it is complete; a taskwait with a depend clause has a node and no task.
        routine = self._view("kmp_base_depnode", node).pointer("task")
        size = self._runtime.task_layout.size
        if routine is None or not size:
            return
        address = routine - size
        if self._view("kmp_taskdata_t.td_depnode", address).pointer("td_depnode") != node:
            raise CorruptState(node, "a task's node leads to what is another task's, or none")
        yield self._runtime.task_at(address)

    def _detached(self, parents: Set[int]) -> Iterator[Task]:
        # Detached tasks whose code is done, of those that *parents* have generated and that nothing leads to: by places
        # of queues. One is believed if its event leads back to it.
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
                continue  # what lay there is something else now
