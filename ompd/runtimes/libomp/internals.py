"""What threads wait for and what tasks are queued: all that OMPD has no questions for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from ompd.contract.memory import read_pointer
from ompd.contract.plugin import BarrierState, LockState, ParallelHandle, TaskHandle, ThreadHandle
from ompd.errors import CorruptState, Unavailable
from ompd.runtimes.libomp import barriers, states
from ompd.runtimes.libomp.locks import Locks
from ompd.runtimes.libomp.queues import Queues
from ompd.runtimes.libomp.regions import Region
from ompd.runtimes.libomp.tasks import Task
from ompd.runtimes.libomp.waiting import Waiting

if TYPE_CHECKING:
    from ompd.contract.process import Frame
    from ompd.runtimes.libomp.plugin import Runtime
    from ompd.runtimes.libomp.threads import Thread

_MAX_SOURCE = 4096
_NOTED_BARRIERS = ("__kmpc_barrier", "__kmpc_cancel_barrier")
# Of a thread's own copy of a threadprivate variable so many bytes are worth keeping.
_MAX_COPY = 1 << 24


class Internals:
    """The optional protocol for one runtime; see :class:`ompd.contract.plugin.RuntimeInternals`.

    :raises LayoutUnavailable: if nothing tells the layouts it needs
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._process = runtime.process
        self._structures = runtime.structures
        self._structures.layout("kmp_base_info_t")
        self._queues = Queues(runtime, runtime.structures)
        self.waiting = Waiting(runtime, runtime.structures)

    def ident_flags(self, thread: Thread) -> int:
        """Return the flags of the ``ident_t`` that the runtime last noted for *thread*, 0 where it has none."""
        info = self._structures.view("kmp_base_info_t", thread.address)
        ident = info.pointer("th_ident")
        return self._structures.view("ident_t", ident).unsigned("flags") if ident is not None else 0

    def task_source(self, handle: TaskHandle) -> str | None:
        """See :meth:`RuntimeInternals.task_source`: ``td_ident``, which clang's code sets."""
        task = self._runtime.task_at(_structure(handle))
        return self._source(self._structures.view("kmp_taskdata_t", task.address).pointer("td_ident"))

    def barrier_source(self, handle: ThreadHandle) -> str | None:
        """See :meth:`RuntimeInternals.barrier_source`: ``th_ident``, which clang's barriers set when they begin."""
        thread = self._runtime.thread_at(handle.address)
        if states.entry_inside(thread) not in _NOTED_BARRIERS:
            return None
        return self._source(self._structures.view("kmp_base_info_t", thread.address).pointer("th_ident"))

    def region_source(self, handle: ParallelHandle) -> str | None:
        """See :meth:`RuntimeInternals.region_source`: ``t_ident``, set when a team of several threads forms."""
        if handle.size() == 1:
            return None
        return self._source(self._structures.view("kmp_base_team_t", _structure(handle)).pointer("t_ident"))

    def _source(self, ident: int | None) -> str | None:
        if ident is None:
            return None
        text = self._structures.view("ident_t", ident).pointer("psource")
        if text is None:
            return None
        return self._process.read_string(text, _MAX_SOURCE).decode("utf-8", "replace")

    @cached_property
    def counters(self) -> barriers.Counters:
        """What the runtime counts of barriers."""
        return barriers.Counters(self._runtime)

    @cached_property
    def _by_gtid(self) -> dict[int, Thread]:
        start = self._structures.layout("kmp_base_info_t").field("th_info").offset
        return {
            self._structures.view("kmp_desc_base_t", thread.address + start).signed("ds_gtid"): thread
            for thread in self._runtime.threads()
        }

    @cached_property
    def _locks(self) -> Locks:
        return Locks(self._runtime, self._structures, self._by_gtid)

    def lock(self, handle: ThreadHandle) -> LockState | None:
        """See :meth:`RuntimeInternals.lock`.

        :raises Unavailable: if it waits for one that cannot be told
        """
        return self._locks.lock(self._runtime.thread_at(handle.address))

    def asks_for_lock(self, thread: Thread, frames: tuple[Frame, ...]) -> bool:
        """Tell whether *frames* hold the address of a lock that *thread* proves to wait for."""
        return self._locks.asks_for_one(thread, frames)

    def barriers(self, region: ParallelHandle) -> Sequence[BarrierState]:
        """See :meth:`RuntimeInternals.barriers`: by the stacks of the team's threads and by what the runtime counts."""
        if not isinstance(region, Region):
            raise TypeError(f"not a region of libomp's: {region!r}")
        return barriers.barriers_of(self._runtime, region)

    def waiting_thread(self, task: Task) -> Thread:
        """Return the thread on which *task* waits for its children: ``td_taskwait_thread``, its gtid + 1, is positive
        then.

        :raises Unavailable: if it waits for none
        """
        view = self._structures.view("kmp_taskdata_t", task.address)
        gtid = view.signed("td_taskwait_thread") - 1
        if gtid < 0:
            raise Unavailable("the runtime keeps on which thread it is only for tools, and while it waits for children")
        thread = self._by_gtid.get(gtid)
        if thread is None:
            raise CorruptState(task.address, f"task on thread {gtid}, which there is none of")
        return thread

    def threadprivate_copies(self) -> list[tuple[int, int]]:
        """See :meth:`RuntimeInternals.threadprivate_copies`: the lists from ``th_pri_head`` over ``link``.

        Code that does not use thread-local storage has them (clang's ``-fnoopenmp-use-tls``).
        """
        # Where this is found and empty, nobody has a copy; without symbols the threads' own lists tell.
        caches = self._process.symbol_in(self._runtime.module, "__kmp_threadpriv_cache_list")
        if self._runtime.stripped is None and (caches is None or read_pointer(self._process, caches) is None):
            return []
        copies = (copy for thread in self._runtime.threads() for copy in self._runtime.threadprivate.copies(thread))
        return list({copy.par_addr: copy.cmn_size for copy in copies if copy.cmn_size <= _MAX_COPY}.items())

    def queued_tasks(self) -> list[Task]:
        """See :meth:`RuntimeInternals.queued_tasks`."""
        return self._queues.queued()

    def places_of_queues(self) -> list[int]:
        """Return what all places of task queues hold, those too that tasks have left."""
        return self._queues.places()

    def unfinished_tasks(self, handle: ParallelHandle) -> int:
        """See :meth:`RuntimeInternals.unfinished_tasks`: what the implicit tasks of the team have generated, those that
        its threads execute, and those that these come from (``td_incomplete_child_tasks``).

        :raises Unavailable: if nothing tells where that is
        """
        known: dict[str, Task] = {}
        for number in range(handle.size()):
            implicit = handle.implicit_task(number)
            known[implicit.id] = self._runtime.task_at(_structure(implicit))
        for number in range(handle.size()):
            task = handle.thread(number).current_task()
            while task is not None and task.id not in known and task.kind() == "explicit":
                known[task.id] = self._runtime.task_at(_structure(task))
                task = task.generating()
        return sum(task.unfinished_children() for task in known.values())

    def waiting_tasks(self) -> Sequence[Task]:
        """See :meth:`RuntimeInternals.waiting_tasks`."""
        return self.waiting.tasks()

    def unlisted_tasks(self) -> Mapping[str, int]:
        """Return none: each task counts its children, and is kept for them."""
        return {}

    def prioritized_tasks(self) -> list[Task]:
        """See :meth:`RuntimeInternals.prioritized_tasks`."""
        return self._queues.prioritized()


def _structure(handle: TaskHandle | ParallelHandle) -> int:
    # Where the runtime's structure lies, which an id starts with; those that share it differ after the "/".
    return int(handle.id.partition("/")[0], 16)
