"""The proof that a table of layouts fits the runtime of this process.

Releases have different layouts, and a stripped library does not name its release. The exported names usually identify
the release, but not if the library was built from parts of two releases. So the contents of the process's memory
decide. The runtime's structures hold some facts twice. Both places must have the same value when read at the table's
offsets. With a wrong table, the same reads return other members, or the bytes 0xef with which the runtime's allocator
fills gaps (``KMP_INIT_PTR``, ``kmp_alloc.cpp``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ompd.contract.memory import StructView, read_pointer, read_words
from ompd.errors import OmpdError, Unavailable, Unsupported
from ompd.records import record

if TYPE_CHECKING:
    from ompd.contract.process import Module, Process
    from ompd.runtimes.layout.table import Table
    from ompd.runtimes.libomp.layout.image import ThreadTable

# Bounds for the numbers of examined threads, tasks and teams, and for the size of a queue. The first threads and tasks
# already expose a wrong table.
_MAX_THREADS, _MAX_TASKS, _MAX_LEVELS, _MAX_QUEUE = 256, 1 << 14, 1 << 12, 1 << 20
_FILLER = {4: 0xEFEFEFEF, 8: 0xEFEFEFEFEFEFEFEF}
_BARRIERS = 3
# Bit 0 of a barrier's word is set while a thread sleeps, bit 1 is not used, and the rest is a count.
_UNUSED_BIT, _MOST_BARRIERS = 2, 1 << 48


@record
class Finding:
    """The number of facts in the runtime's structures that agree, and the first contradiction, if any."""

    agreed: int
    contradiction: str | None


class _Contradiction(Exception):
    """Two parts of the runtime's structures contradict each other. The text names them."""


def examine(process: Process, table: Table, threads: ThreadTable) -> Finding:
    """Examine whether the runtime's structures, read by *table*, contradict themselves.

    A pointer to missing memory counts as a contradiction, because a damaged target proves nothing.
    """
    examiner = _Examiner(process, table, threads)
    try:
        for thread in list(threads.threads.values())[:_MAX_THREADS]:
            examiner.thread(thread)
        examiner.children()
    except (_Contradiction, OmpdError) as contradiction:
        return Finding(examiner.agreed, str(contradiction))
    return Finding(examiner.agreed, None)


def trace(process: Process, module: Module, table: Table, threads: ThreadTable) -> str | None:
    """Return the contradiction between *table* and the runtime's ``omp_get_level``, None if there is none. An emulator
    runs this routine as a thread of a team. *table* predicts the addresses that the routine reads.

    :raises Unavailable: if there is no emulator, or if it cannot run the routine as any thread
    """
    routine = process.symbol_in(module, "omp_get_level")
    if routine is None:
        raise Unavailable(f"{module.name} exports no omp_get_level")
    natives = {process.pthread_self(thread): thread for thread in process.threads()}
    info, width = table.layout("kmp_base_info"), process.pointer_size
    reason = "no thread is in a team"
    for gtid, address in threads.threads.items():
        try:
            view = StructView(process, info, address)
            team, native = view.pointer("th_team"), natives.get(view.unsigned("th_info.ds.ds_thread"))
            if team is None or native is None:
                continue
            reads = process.call(routine, native).reads
        except (Unavailable, Unsupported, NotImplementedError) as error:
            reason = str(error)
            continue
        expected = (
            (threads.variable, width),
            (threads.array + gtid * width, width),
            (address + info.field("th_team").offset, width),
            (team + table.offset("kmp_base_team", "t_level"), 4),
        )
        missing = next((read for read in expected if read not in reads), None)
        return f"omp_get_level() does not read {missing[1]} bytes at {missing[0]:#x}" if missing is not None else None
    raise Unavailable(reason)


class _Examiner:
    def __init__(self, process: Process, table: Table, threads: ThreadTable) -> None:
        self._process = process
        self._table = table
        self._capacity = threads.capacity
        self._threads = set(threads.threads.values())
        self._roots = set(threads.roots.values())
        self._teams: set[int] = set()
        self._tasks: dict[int, int | None] = {}  # td_parent by kmp_taskdata_t
        self.agreed = 0

    def _check(self, agrees: bool, statement: str) -> None:
        if not agrees:
            raise _Contradiction(statement)
        self.agreed += 1

    def _view(self, struct: str, address: int) -> StructView:
        return StructView(self._process, self._table.layout(struct), address)

    def _word(self, view: StructView, name: str) -> int:
        value = view.unsigned(name)
        if value == _FILLER.get(view.layout.field(name).size):
            raise _Contradiction(f"{view.layout.name}.{name} is the allocator's filler")
        return value

    def _pointer(self, view: StructView, name: str) -> int:
        value = self._word(view, name)
        if not value:
            raise _Contradiction(f"{view.layout.name}.{name} is a null pointer")
        return value

    def thread(self, address: int) -> None:
        """Check a thread's structure and everything to which it points.

        :raises _Contradiction: if two parts contradict each other, or a part cannot be read
        """
        view = self._view("kmp_base_info", address)
        for check in (self._thread_itself, self._thread_team, self._thread_task, self._thread_queues):
            try:
                check(view)
            except OmpdError as error:
                raise _Contradiction(str(error)) from error

    def _thread_itself(self, view: StructView) -> None:
        word = self._word
        # A thread in the pool has neither a team nor a root, so th_root may be null only if th_team is null.
        root, in_team = word(view, "th_root"), word(view, "th_team")
        self._check(root in self._roots if root else not in_team, "a thread's th_root is no root")
        for name, most in (("th_in_pool", 1), ("th_task_state", 255), ("th_next_waiting", self._capacity)):
            self._check(word(view, name) <= most, f"{name} is {view.unsigned(name)}")
        barriers, union = view.address_of("th_bar"), self._table.layout("kmp_barrier_union")
        for kind in range(_BARRIERS):
            bar = StructView(self._process, union, barriers + kind * (union.size or 0))
            passed = word(bar, "bb.b_arrived")
            self._check(not passed & _UNUSED_BIT and passed < _MOST_BARRIERS, "a barrier's count is no count")
        serial = word(view, "th_serial_team")
        self._check(bool(serial) or not in_team, "a thread of a team has no th_serial_team")
        if serial:
            members = self._pointer(self._view("kmp_base_team", serial), "t_threads")
            self._check(
                read_pointer(self._process, members) == view.address, "a thread's th_serial_team is another thread's"
            )

    def _thread_team(self, view: StructView) -> None:
        address = self._word(view, "th_team")
        if not address:
            return
        members = self._team(address)
        self._check(view.address in members, "a thread's team does not have it")

    def _team(self, address: int) -> Sequence[int]:
        # Return the threads (kmp_info_t) of a team by number, after a check that all of them are in the table of
        # threads. Enclosing teams are checked, too.
        view = self._view("kmp_base_team", address)
        size, room = self._word(view, "t_nproc"), self._word(view, "t_max_nproc")
        self._check(1 <= size <= room <= self._capacity, f"a team of {size}, with room for {room}")
        level, active = self._word(view, "t_level"), self._word(view, "t_active_level")
        self._check(active <= level, f"a team at level {level}, active level {active}")
        members = read_words(self._process, self._pointer(view, "t_threads"), room)
        self._check(all(member in self._threads for member in members[:size] if member), "a team's thread is none")
        parent = self._word(view, "t_parent")
        if address not in self._teams and len(self._teams) < _MAX_LEVELS:
            self._teams.add(address)
            if parent:
                self._team(parent)
                outer = self._view("kmp_base_team", parent).unsigned("t_level")
                self._check(outer <= level, "a team's level is lower than that of the team around it")
        return members

    def _thread_task(self, view: StructView) -> None:
        address, team = self._word(view, "th_current_task"), self._word(view, "th_team")
        if not address:
            self._check(not team, "a thread of a team has no task")
            return
        self._task(address)

    def _task(self, address: int) -> None:
        # Check a task and its ancestors up to an implicit task. An implicit task must be an element of its team's
        # array.
        layout = self._table.layout("kmp_taskdata")
        explicit = self._table.layout("kmp_tasking_flags").masks["tasktype"]
        while address not in self._tasks and len(self._tasks) < _MAX_TASKS:
            view = self._view("kmp_taskdata", address)
            parent = self._word(view, "td_parent") or None
            self._tasks[address] = parent
            team = self._view("kmp_base_team", self._pointer(view, "td_team"))
            if not self._word(view, "td_flags") & explicit:
                first = self._pointer(team, "t_implicit_task_taskdata")
                number, remainder = divmod(address - first, layout.size or 1)
                room = self._word(team, "t_max_nproc")
                self._check(not remainder and 0 <= number < room, "an implicit task is not among those of its team")
                return
            routine = self._view("kmp_task", address + (layout.size or 0)).pointer("routine")
            self._check(
                routine is not None and self._process.module_at(routine) is not None, "a task's routine is no code"
            )
            if parent is None:
                raise _Contradiction("an explicit task that no task generated")
            address = parent

    def _thread_queues(self, view: StructView) -> None:
        address = self._word(view, "th_task_team")
        if not address:
            return
        team = self._view("kmp_base_task_team", address)
        lock = self._word(team, "tt_threads_lock.lk.self")
        self._check(lock == address, "a task team's lock does not hold its own address")
        for name in ("tt_found_tasks", "tt_active"):
            self._check(self._word(team, name) <= 1, f"{name} is {team.unsigned(name)}")
        count = self._word(team, "tt_nproc")
        self._check(count <= self._capacity, f"queues of {count} threads")
        array, data = self._word(team, "tt_threads_data"), self._table.layout("kmp_thread_data")
        for number in range(min(count, _MAX_THREADS) if array else 0):
            queue = StructView(self._process, data, array + number * (data.size or 0))
            owner = self._word(queue, "td.td_thr")
            self._check(not owner or owner in self._threads, "a task queue's thread is none")
            self._queue(queue)

    def _queue(self, queue: StructView) -> None:
        array = self._word(queue, "td.td_deque")
        if not array:
            return
        size, head, count = (self._word(queue, f"td.td_deque_{name}") for name in ("size", "head", "ntasks"))
        self._check(
            count <= size <= _MAX_QUEUE and head < size and size & (size - 1) == 0,
            f"a task queue of {count} tasks in {size} places",
        )
        drawn, served = (self._word(queue, f"td.td_deque_lock.lk.{name}") for name in ("next_ticket", "now_serving"))
        if drawn == served:  # otherwise a thread is changing the queue
            tail = self._word(queue, "td.td_deque_tail")
            self._check((head + count) % size == tail, f"a task queue of {count} tasks from {head} to {tail}")
        places = read_words(self._process, array, size) if count else ()
        for number in range(min(count, _MAX_TASKS)):
            task = places[(head + number) % size]
            if task:  # otherwise a thread is just adding or taking the task
                self._task(task)

    def children(self) -> None:
        """Check that no task counts fewer unfinished children than were found. The count may be higher, because
        children that wait for a dependence were not searched for.

        :raises _Contradiction: if a task's count is lower
        """
        masks = self._table.layout("kmp_tasking_flags").masks
        counted: Counter[int] = Counter()
        for address, parent in self._tasks.items():
            flags = self._view("kmp_taskdata", address).unsigned("td_flags")
            if not flags & masks["tasktype"] or parent is None:
                continue
            self._check(not flags & masks["freed"], "a live task was freed")
            # The runtime does not count a child that is not deferred or is complete.
            if not flags & (masks["team_serial"] | masks["tasking_ser"] | masks["complete"]):
                counted[parent] += 1
        for parent, count in counted.items():
            counter = self._view("kmp_taskdata", parent).unsigned("td_incomplete_child_tasks")
            self._check(count <= counter <= _MAX_QUEUE, f"a task of {count} children counts {counter}")
