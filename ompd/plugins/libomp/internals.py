"""What threads wait for and what tasks are queued: all that OMPD has no questions for."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from ompd.contract.memory import read_pointer, read_unsigned
from ompd.contract.ompd import ThreadIdKind
from ompd.contract.plugin import BarrierState, LockState, ParallelHandle, TaskHandle, ThreadHandle
from ompd.errors import CorruptState, Unavailable
from ompd.plugins.libomp import constructs
from ompd.plugins.libomp.locks import Locks
from ompd.plugins.libomp.queues import Queues
from ompd.plugins.libomp.tasks import Task

if TYPE_CHECKING:
    from ompd.contract.process import Frame
    from ompd.plugins.libomp.plugin import Runtime
    from ompd.plugins.libomp.threads import Thread

# Routines in which a thread has arrived at a barrier of its team. The last two are those of a region's end: a worker
# that has arrived there waits for the next region already.
_BARRIERS = frozenset(("__kmp_barrier", "__kmp_barrier_gomp_cancel", *constructs.CLOSING_BARRIERS))
# enum barrier_type of kmp.h: plain 0, fork and join 1, reduction 2. Only those are counted.
_BARRIER_KINDS, _COUNTED_BARRIERS = 3, (0, 2)
_MAX_SOURCE = 4096
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

    def ident_flags(self, thread: Thread) -> int:
        """Return the flags of the ``ident_t`` that the runtime last noted for *thread*, 0 where it has none."""
        info = self._structures.view("kmp_base_info_t", thread.address)
        ident = info.pointer("th_ident")
        return self._structures.view("ident_t", ident).unsigned("flags") if ident is not None else 0

    def task_source(self, handle: TaskHandle) -> str | None:
        """See :meth:`RuntimeInternals.task_source`: ``td_ident``, which clang's code sets."""
        task = self._runtime.task_at(_structure(handle))
        return self._source(self._structures.view("kmp_taskdata_t", task.address).pointer("td_ident"))

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

    def barrier(self, region: ParallelHandle) -> BarrierState | None:
        """See :meth:`RuntimeInternals.barrier`: by the stacks of the team's threads."""
        missing: list[int] = []
        for number in range(region.size()):
            thread = self._runtime.thread_at(region.thread(number).address)
            if not self._has_arrived(thread, region):
                missing.append(
                    self._process.thread_for_id(ThreadIdKind.PTHREAD, thread.native_id(ThreadIdKind.PTHREAD))
                )
        if len(missing) == region.size():
            return None
        return BarrierState(region.size() - len(missing), region.size(), tuple(missing))

    def _has_arrived(self, thread: Thread, region: ParallelHandle) -> bool:
        stack = constructs.hosted(thread)
        places = {known.id: place for known, place in stack.places.items()}
        if region.id not in places:
            raise Unavailable("the region's frame is not to be told from others on a thread's stack")
        place = places[region.id]
        routines = [constructs.routine_of(self._runtime, frame) for frame in stack.frames[:place]]
        unnamed = self._runtime.unnamed
        if unnamed is not None and any(unnamed.is_doubtful(frame) for frame in stack.frames[:place]):
            raise Unavailable("nothing shows whether a thread that is in the runtime has arrived at the barrier")
        if place is None:
            return any(name in constructs.CLOSING_BARRIERS for name in routines)
        # The first routine that the region's code is in decides, whatever tasks the thread runs within it.
        entered = False
        for name in reversed(routines):
            if name in _BARRIERS:
                return self._is_counted(thread, region)
            if entered and name is None:
                return False
            entered = entered or name is not None
        return False

    def _is_counted(self, thread: Thread, region: ParallelHandle) -> bool:
        # A thread may still be on its way out of the barrier before. Intel's runtime counts, for explicit and
        # worksharing barriers and for reductions, how many its team has passed and each worker has reached.
        info, team = (
            self._structures.layout("kmp_base_info_t").fields,
            self._structures.layout("kmp_base_team_t").fields,
        )
        needed = ("th_bar", "th_b_worker_arrived"), ("t_bar", "t_b_master_arrived", "t_b_team_arrived")
        if not all(name in info for name in needed[0]) or not all(name in team for name in needed[1]):
            return True
        primary = region.thread(0).address == thread.address
        start = _structure(region) + team["t_bar"].offset
        for kind in _COUNTED_BARRIERS:
            at = start + kind * (team["t_bar"].size // _BARRIER_KINDS)
            passed = read_unsigned(self._runtime.heap, at + team["t_b_team_arrived"].offset, 8)
            if primary:
                reached = read_unsigned(self._runtime.heap, at + team["t_b_master_arrived"].offset, 8)
            else:
                bar = info["th_bar"]
                own = thread.address + bar.offset + kind * (bar.size // _BARRIER_KINDS)
                reached = read_unsigned(self._runtime.heap, own + info["th_b_worker_arrived"].offset, 8)
            if reached > passed:
                return True
        return False

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

    def prioritized_tasks(self) -> list[Task]:
        """See :meth:`RuntimeInternals.prioritized_tasks`."""
        return self._queues.prioritized()


def _structure(handle: TaskHandle | ParallelHandle) -> int:
    # Where the runtime's structure lies, which an id starts with; those that share it differ after the "/".
    return int(handle.id.partition("/")[0], 16)
