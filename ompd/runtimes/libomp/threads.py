"""Threads (``kmp_base_info_t``)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from ompd.contract.helpers.natives import native_thread_id
from ompd.contract.helpers.pages import Ahead
from ompd.contract.memory import StructView
from ompd.contract.ompd import ThreadIdKind
from ompd.contract.plugin import ConstructCode, LockState, ThreadState
from ompd.errors import CorruptState, OmpdError, Unavailable, Unsupported
from ompd.runtimes.libomp import constructs, stacks, states
from ompd.runtimes.libomp.tasks import NOT_KEPT, Task

if TYPE_CHECKING:
    from ompd.runtimes.libomp.plugin import Runtime
    from ompd.runtimes.libomp.regions import Region, Team


_NOTED_BARRIERS = ("__kmpc_barrier", "__kmpc_cancel_barrier")


class Thread:
    """One ``kmp_info_t``. Each field is read once, when first asked for."""

    def __init__(self, runtime: Runtime, address: int) -> None:
        self.runtime = runtime
        self.address = address
        self.memory = Ahead(runtime.heap, address, runtime.thread_head, runtime.process.check_current)
        self._view = StructView(self.memory, runtime.thread_layout, address)

    def native_id(self, kind: ThreadIdKind) -> int:
        """Return ``ds_thread``, 0 while the thread is being created. The runtime keeps no other kind than PTHREAD."""
        if kind != ThreadIdKind.PTHREAD:
            raise Unsupported(f"libomp keeps no thread identifiers of kind {kind!r}")
        return self._ds_thread

    def native_thread_id(self) -> int:
        """See :meth:`ThreadHandle.native_thread_id`."""
        return native_thread_id(self.runtime.process, self._ds_thread)

    @cached_property
    def _ds_thread(self) -> int:
        return self._view.unsigned("ds_thread")

    @cached_property
    def th_team(self) -> Team | None:
        """The team it points at, which may be one whose region is over; None in the pool.

        Where its primary thread begins or ends a region, ``th_team``, ``th_current_task`` and the team's level are
        changed one after the other: the thread is in the outer team until all are those of the inner one, and again
        from the first change back on. The code of the region has not begun then, or is over.
        """
        address = self._view.pointer("th_team")
        if address is None:
            return None
        team = self.runtime.team_at(address)
        try:
            outer = team.t_parent if self._task_team is team and not team.has_level else self._task_team
            return outer if outer is not None and self._leads(team, outer) else team
        except OmpdError:
            return team

    def _leads(self, inner: Team, outer: Team) -> bool:
        # Whether it is the thread of the outer team that forms the inner one, or gives it up.
        if inner is outer or self.address not in outer.t_threads:
            return False
        if inner.t_parent is outer:
            return True
        # A team that is given up loses its parent before the thread leaves it.
        return inner.t_parent is None and outer.t_parent not in (None, inner) and inner.t_threads[0] == self.address

    @cached_property
    def _th_current_task(self) -> Task:
        address = self._view.pointer("th_current_task")
        if address is None:
            raise CorruptState(self.address, "a thread of a team has no th_current_task")
        return Task(self.runtime, address)

    @cached_property
    def _task_team(self) -> Team:
        return self._th_current_task.team()

    @cached_property
    def team(self) -> Team | None:
        """The team whose region it executes, None while it is idle.

        A worker goes on pointing at a team that is over, or that was made smaller and goes on without it.
        """
        team = self.th_team
        if team is None or not team.is_live:
            return None
        if team.t_parent is not None and not team.regions and team.t_threads[0] != self.address:
            return None  # kept ready for regions of a team of a league
        return team if self._place(team) is not None else None

    def _place(self, team: Team) -> int | None:
        # Its number in the team. While it leaves an inner region it has its number in the enclosing one already.
        number = self._view.signed("ds_tid")
        if 0 <= number < team.t_nproc and team.t_threads[number] == self.address:
            return number
        return team.t_threads.index(self.address) if self.address in team.t_threads else None

    @cached_property
    def _is_initial(self) -> bool:
        # The outermost team of an initial thread is its own, at level 0. A worker is number 0 only in teams it forms.
        if self.th_team is None:
            return False
        outermost = self.th_team.chain[-1]
        return outermost.t_level == 0 and outermost.t_threads[0] == self.address

    def thread_type(self) -> str:
        """See :meth:`ThreadHandle.thread_type`."""
        return "initial" if self._is_initial else "worker"

    def thread_num(self) -> int | None:
        """Return its place in ``t_threads``, None while the thread is idle: a pooled one keeps its last ``ds_tid``."""
        return self._place(self.team) if self.team is not None else None

    def current_parallel(self) -> Region | None:
        """See :meth:`ThreadHandle.current_parallel`."""
        return self.runtime.innermost_region(self.team) if self.team is not None else None

    def hosted_regions(self) -> tuple[Region, ...]:
        """Return the regions whose code lies on this thread's own stack, innermost first.

        From the current one outwards as long as it is the primary thread, and the one in which it is a worker.
        """
        found: list[Region] = []
        for team in self.team.chain if self.team is not None else ():
            found += reversed(team.regions)
            if team.t_threads[0] != self.address:
                break
        return tuple(found)

    def icv_task(self) -> Task | None:
        """Return the task in whose descriptor the thread's variables are kept, None while the thread is idle."""
        if self.team is None:
            return None
        task, inner = self._th_current_task, self._task_team
        if inner is self.team:
            return self.runtime.task_at(task.address)
        outer = task.generating() if self._leads(inner, self.team) else None
        if outer is None or outer.team() is not self.team:
            raise CorruptState(task.address, "a thread's current task belongs to another team than the thread")
        return outer

    def current_task(self) -> Task | None:
        """Return ``th_current_task``, None while the thread is idle.

        :raises Unavailable: in a serialized region that an explicit task of a serialized region started
        """
        task = self.icv_task()
        if task is None or self.team is None:
            return None
        if len(self.team.regions) > 1 and task.kind() == "explicit" and not constructs.executes_explicit_task(self):
            # A serialized region that an explicit task of a serialized region starts has no descriptor of its own: the
            # runtime goes on pointing at the explicit task.
            raise Unavailable("the runtime does not tell the task of a serialized region inside of an explicit task")
        return task

    def outside_of_target(self) -> None:
        """See :meth:`ThreadHandle.outside_of_target`: here it stays in its team."""

    def state(self) -> ThreadState:
        """See :meth:`ThreadHandle.state`."""
        return states.thread_state(self)

    def kept_state(self) -> tuple[int, int]:
        """Return ``ompt_thread_info``'s state and wait identifier as they stand, which only a runtime that keeps states
        sets.
        """
        return self._view.signed("state"), self._view.unsigned("wait_id")

    def kept_by_tool(self) -> bool:
        """Tell whether ``ompt_thread_info.thread_data``, or the exit frame of its current task, is set."""
        task = self.icv_task()
        return bool(self._view.unsigned("thread_data") or (task is not None and task.exit_frame_as_kept()))

    def is_about_to_begin(self) -> bool:
        """See :meth:`ThreadHandle.is_about_to_begin`: not told apart."""
        return False

    def tool_data(self) -> int:
        """Return ``ompt_thread_info.thread_data``."""
        if not self.runtime.states_are_kept:
            raise Unavailable(NOT_KEPT)
        return self._view.unsigned("thread_data")

    def lock(self) -> LockState | None:
        """See :meth:`ThreadHandle.lock`.

        :raises Unavailable: if it waits for one that is not found
        """
        return self.runtime.locks.lock(self)

    def barrier_source(self) -> str | None:
        """See :meth:`ThreadHandle.barrier_source`: ``th_ident``, which clang's barriers set when they begin."""
        return self.runtime.construct_source(self.th_ident) if states.entry_inside(self) in _NOTED_BARRIERS else None

    @property
    def th_ident(self) -> int | None:
        """The address of the ``ident_t`` that the runtime last noted for the thread."""
        return self.runtime.details.view("kmp_base_info_t", self.address).pointer("th_ident")

    def construct_code(self) -> Sequence[ConstructCode]:
        """See :meth:`ThreadHandle.construct_code`."""
        return stacks.construct_code(self)

    def threadprivate_address(self, address: int) -> int | None:
        """See :meth:`ThreadHandle.threadprivate_address`: in the copies that the runtime itself keeps."""
        return self.runtime.threadprivate.address(self, address)
