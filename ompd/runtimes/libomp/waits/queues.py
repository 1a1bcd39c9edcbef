"""Queued tasks: in the queues of threads, and in the queues for priorities (``kmp_base_task_team_t``)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from ompd.contract.helpers.walks import chain
from ompd.contract.memory import StructView, read_pointer, read_words
from ompd.errors import CorruptState, LayoutUnavailable
from ompd.runtimes.layout import dwarf
from ompd.runtimes.libomp.layout.layouts import defined_as

if TYPE_CHECKING:
    from ompd.runtimes.libomp.handles import Task
    from ompd.runtimes.libomp.plugin import Runtime

_MAX_QUEUED_TASKS = 1 << 20
# A team has one queue for each priority that its tasks have. Programs have far fewer priorities, because
# omp_get_max_task_priority() is seldom above ten.
_MAX_PRIORITIES = 1 << 16
_LOCK = "kmp_base_task_team_t.tt_threads_lock"
_PRIORITIES = "kmp_base_task_team_t.tt_task_pri_list"


class Queues:
    """The task queues of one runtime."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._process = runtime.process
        self._heap = runtime.heap
        self._structures = runtime.details
        self._queued: list[Task] | None = None

    def queued(self) -> list[Task]:
        """Return the tasks in the queues (``td_deque``) of all threads of live teams, each queue in its order."""
        if self._queued is None:
            addresses: dict[int, None] = {}
            for view in self._queues():
                addresses.update(dict.fromkeys(self._deque(view)))
            self._queued = self._tasks_at(addresses)
        return self._queued

    def _tasks_at(self, addresses: Collection[int]) -> list[Task]:
        self._runtime.heads.read(addresses)
        return [self._runtime.task_at(address) for address in addresses]

    def places(self) -> list[int]:
        """Return the addresses in all places of the threads' queues. A place may still have a task that has left the
        queue.
        """
        words: dict[int, None] = {}
        for view in self._queues():
            array, size = view.pointer("td_deque"), view.signed("td_deque_size")
            if array is not None and 0 < size <= _MAX_QUEUED_TASKS:
                words.update(dict.fromkeys(read_words(self._heap, array, size)))
        return [address for address in words if address]

    def _queues(self) -> Iterator[StructView]:
        td = self._structures.layout("kmp_thread_data_t")
        for nproc, address in self._task_teams():
            view = self._structures.view("kmp_base_task_team_t", address)
            data = view.pointer("tt_threads_data")
            if data is None or not td.size:
                continue
            for number in range(min(nproc, max(view.signed("tt_nproc"), 0))):
                yield StructView(self._heap, td, data + number * td.size)

    def prioritized(self) -> list[Task]:
        """Return the queued tasks that have a priority, highest first (``tt_task_pri_list``).

        :raises LayoutUnavailable: if neither debug information nor a table shows the place of the queues for priorities
        """
        stripped = self._runtime.stripped
        if stripped is not None and defined_as("kmp_task_pri_t") not in stripped.table.structs:
            return []  # LLVM 14 and earlier have no such queues
        node, td = self._structures.layout("kmp_task_pri_t"), self._structures.layout("kmp_thread_data_t")

        def view_of(address: int) -> StructView:
            return StructView(self._heap, node, address)

        def following(address: int) -> int | None:
            return view_of(address).pointer("next")

        addresses: dict[int, None] = {}
        for _, task_team in self._task_teams():
            first = read_pointer(self._heap, task_team + self._offset_of_priorities())
            for address in chain(first, following, _MAX_PRIORITIES, "the list of priorities"):
                queue = StructView(self._heap, td, view_of(address).address_of("td"))
                addresses.update(dict.fromkeys(self._deque(queue)))
        return self._tasks_at(addresses)

    def _offset_of_priorities(self) -> int:
        # The offset in a task team of the pointer to the first queue for a priority.
        layout = self._structures.layout(_PRIORITIES)
        for name in ("tt_task_pri_list.begin", "tt_task_pri_list"):
            field = layout.fields.get(name)
            if field is not None and field.size == self._process.pointer_size:
                return field.offset
        raise LayoutUnavailable("the runtime keeps tasks with priorities in another form than is known")

    def _task_teams(self) -> Iterator[tuple[int, int]]:
        # The task teams (kmp_base_task_team_t) of all live teams, each as the team's number of threads and the task
        # team's address. Each team uses two task teams in turns.
        field = self._structures.layout("kmp_base_team_t").field("t_task_team")
        visited: set[int] = set()
        for team in self._runtime.live_teams():
            for offset in range(field.offset, field.offset + field.size, self._process.pointer_size):
                address = read_pointer(self._heap, team.address + offset)
                if address is not None and address not in visited and self._is_task_team(address):
                    visited.add(address)
                    yield team.t_nproc, address

    def _is_task_team(self, address: int) -> bool:
        # Since LLVM 18, the second word of a serialized team points to a list of task teams instead of a task team. A
        # task team begins with a lock that holds its own address, which distinguishes it from a list. Intel's builds
        # have a different lock, whose layout is unknown, so there every address counts as a task team.
        stripped, layout = self._runtime.stripped, self._structures.layout("kmp_base_task_team_t")
        if stripped is None and (layout.source != dwarf.SOURCE or not self._structures.layout(_LOCK).fields):
            return True
        return self._structures.view(_LOCK, address).pointer("tt_threads_lock.lk.self") == address

    def _deque(self, view: StructView) -> list[int]:
        array = view.pointer("td_deque")
        if array is None:
            return []
        size, head, count = (view.signed(name) for name in ("td_deque_size", "td_deque_head", "td_deque_ntasks"))
        if not (0 <= count <= size <= _MAX_QUEUED_TASKS and 0 <= head <= size):
            raise CorruptState(view.address, f"task queue of {count} tasks in {size} places")
        width, order = self._process.pointer_size, self._process.byte_order
        raw = self._heap.read(array, size * width) if count else b""
        places = [(head + i) % size for i in range(count)]
        tasks = [int.from_bytes(raw[place * width : place * width + width], order) for place in places]
        return [address for address in tasks if address]
