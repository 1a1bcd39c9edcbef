"""The handles of one runtime: threads, parallel regions and tasks.

A handle reads its own structure. For other facts it calls the module for the subject (``states``, ``locks``,
``points``, ``barriers``), or uses results that the runtime keeps for all handles (``roster``, ``tasks``,
``constructs``).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property

from ompd.contract.helpers.defaults import Unnoted
from ompd.contract.helpers.walks import MAX_TASKS
from ompd.contract.kept import OwnState
from ompd.contract.ompd import ThreadIdKind
from ompd.contract.plugin import (
    ConstructCode,
    FrameAddress,
    Outside,
    SchedulingPoint,
    TaskWait,
    TeamSizing,
    ThreadState,
)
from ompd.contract.process import Frame
from ompd.contract.waits import BarrierState, LockState
from ompd.errors import BadInput, CorruptState, NotBegun, OmpdError, Unavailable, Unsupported
from ompd.records import record
from ompd.runtimes.libgomp import barriers, locks, points, states
from ompd.runtimes.libgomp.members import Member
from ompd.runtimes.libgomp.structures import DETACHED, IMPLICIT, TIED, WAITING, GompTask, GompTeam

# The kinds of tasks whose function is in ``fn``. An undeferred task's function is not recorded there.
_WITH_FUNCTION = (WAITING, TIED, DETACHED)


class WithoutOmpt:
    """Methods for facts that libgomp does not keep because it has no OMPT."""

    def tool_data(self) -> int:
        raise Unavailable("libgomp has no OMPT, so that it keeps no tool's data")

    def ompt_id(self) -> int:
        raise Unsupported("libgomp has no OMPT, so that it gives no identifiers")

    def ompt_state(self) -> OwnState:
        raise Unsupported("libgomp has no OMPT, so that it notes no states")

    def ompt_type(self) -> str:
        raise Unsupported("libgomp has no OMPT, so that its tasks have no type of it")


class Thread(Member, WithoutOmpt):
    """A thread that the runtime knows, identified by its ``gomp_thread``."""

    def native_id(self, kind: ThreadIdKind) -> int:
        """Return the thread's native identifier of this *kind*. The runtime records none. But a ``gomp_thread`` is in
        the thread-local storage of its thread, which identifies the thread.
        """
        if kind == ThreadIdKind.LWP:
            return self.native
        if kind == ThreadIdKind.PTHREAD:
            return self.runtime.process.pthread_self(self.native)
        raise Unsupported(f"libgomp keeps no thread identifiers of kind {kind!r}")

    def native_thread_id(self) -> int:
        return self.native

    def current_parallel(self) -> Parallel | None:
        return self.runtime.team_at(self.inner[0].team) if self.inner else None

    def outside_of_target(self) -> Outside | None:
        """Return the thread's place outside of the innermost target region that it executes, None outside of target
        regions. ``gomp_target_fallback`` has saved this place.
        """
        if len(self.contexts) == 1:
            return None
        claims = self.contexts[1].claims
        region = self.runtime.team_at(claims[0].team) if claims else None
        return Outside(region, claims[0].number if claims else 0, self.task_outside(1))

    def current_task(self) -> Task | InitialTask | None:
        """Return the task to which ``task`` points, None while the thread is idle. An initial task may have no
        ``gomp_task``; ``task`` is then null.
        """
        if self.is_idle:
            return None
        address = self.view.pointer("task")
        if address is not None:
            return self.runtime.task_at(address)
        if self.inner:
            raise CorruptState(self.address, "a thread of a team has no task")
        return self.initial_task(None)

    def kept_task(self) -> Task | None:
        """Return the thread's current task if it has a ``gomp_task``, else None."""
        task = self.current_task()
        return task if isinstance(task, Task) else None

    def task_outside(self, depth: int) -> Task | InitialTask:
        """Return the task that encountered a target region which this thread executes.

        :param depth: the number of the target region, from 1 for the innermost one
        :raises Unavailable: if the task is unknown
        """
        target = self.contexts[depth].target
        if target is not None and target.task is not None:
            return self.runtime.task_at(target.task)
        if target is None or target.team is not None:
            raise Unavailable("which explicit task met the target region is not to be told from the stack")
        return InitialTask(self, len(self.contexts) - 1 - depth)

    def initial_task(self, team: int | None) -> InitialTask:
        """Return the thread's initial task. In each target region that the thread executes, it has another initial
        task.

        :param team: the team of a region inside the target region whose initial task is wanted; None for the innermost
            target region
        """
        contexts = self.contexts
        depths = (
            depth for depth, context in enumerate(contexts) if any(claim.team == team for claim in context.claims)
        )
        return InitialTask(self, len(contexts) - 1 - next(depths, 0))

    def state(self) -> ThreadState:
        return states.thread_state(self)

    def lock(self) -> LockState | None:
        return locks.lock_of(self)

    def wait_kind(self) -> str | None:
        return points.kind_of(self)

    def scheduling_point(self) -> SchedulingPoint | None:
        return points.point_of(self)

    def barrier_source(self) -> None:
        """Return None: gcc's code records nothing about constructs."""

    def idle_frame(self) -> None:
        """Return None: libgomp does not record the idle loop's frame."""

    def construct_code(self) -> Sequence[ConstructCode]:
        return self.runtime.constructs.code_of(self)

    def threadprivate_address(self, address: int) -> int | None:
        raise BadInput("libgomp keeps no copies of threadprivate variables: thread-local storage has them")


class Parallel(GompTeam, Unnoted, WithoutOmpt):
    """A parallel region. Every region has its own team, even a serialized region."""

    @property
    def id(self) -> str:
        return f"{self.address:#x}"

    def enclosing(self) -> Parallel | None:
        return self.runtime.team_at(self.outer_team) if self.outer_team is not None else None

    def size(self) -> int:
        return self.nthreads

    def sizing(self) -> TeamSizing:
        import ompd.runtimes.libgomp.icvs as icvs

        return icvs.sizing(self)

    def level(self) -> int:
        return self.outer_level + 1

    def active_level(self) -> int:
        return self.outer_active_level + (self.nthreads > 1)

    def thread(self, thread_num: int) -> Thread:
        """Return the thread whose number in the team is *thread_num*.

        :raises Unavailable: if no thread of the process claims this number
        """
        self._check(thread_num)
        members = self.runtime.roster.members(self.address)
        thread = members.get(thread_num)
        if thread is None:
            count = len(self.runtime.process.threads())
            primary = members.get(0)
            if count < self.nthreads and (primary is None or not barriers.is_forming(primary, self)):
                # The process has too few threads: it is a child of fork(), with one thread and a copy of the team, or
                # threads have ended.
                why = f"the team has {self.nthreads} threads, the process {count}: it is a fork, or threads have ended"
                raise Unavailable(why)
            raise NotBegun("no thread of the process has that number in the team: it has not begun, or is lost")
        return thread

    def implicit_task(self, thread_num: int) -> Task:
        """Return the task in the team's array ``implicit_task``.

        :raises Unavailable: if the runtime has not filled in this element yet
        """
        self._check(thread_num)
        if not self.has_task(thread_num):
            raise Unavailable(f"thread {thread_num} has not joined its team yet")
        return self._task(thread_num)

    def has_task(self, thread_num: int) -> bool:
        """Return whether a thread's implicit task is filled in. The runtime fills it in before it creates the
        thread.
        """
        if thread_num == 0 or thread_num in self.runtime.roster.members(self.address):
            return True
        first_task, own_task = self._task(0), self._task(thread_num)
        return (
            own_task.parent == first_task.parent
            and own_task.gomp_kind == IMPLICIT
            and own_task.view.unsigned("icv.nthreads_var") != 0
        )

    def _task(self, thread_num: int) -> Task:
        return self.runtime.task_at(self.runtime.implicit_task_at(self.address, thread_num))

    def _check(self, thread_num: int) -> None:
        if not 0 <= thread_num < self.size():
            raise BadInput(f"thread number {thread_num} in a team of {self.size()}")

    def function(self) -> int:
        """Return the entry of the region's function, as shown by the stacks of the region's threads.

        :raises Unavailable: if no stack has the function
        """
        return self.runtime.constructs.entry_of_region(self)

    def encountering_frames(self) -> Sequence[Frame]:
        return self.runtime.constructs.encountering_frames(self)

    def barriers(self) -> Sequence[BarrierState]:
        return barriers.barriers_of(self)

    def unfinished_tasks(self) -> int:
        """Return ``task_count``, which leaves out tasks that wait for a dependence.

        :raises CorruptState: if the count is larger than in any program
        """
        count = self.runtime.view("gomp_team", self.address).unsigned("task_count")
        if count > MAX_TASKS:
            raise CorruptState(self.address, f"team with {count} tasks")
        return count


class _AnyTask(Unnoted, WithoutOmpt):
    # Facts that all tasks share.

    def is_tied(self) -> bool:
        """Return True: ``GOMP_task`` ignores ``untied``."""
        return True

    def frames(self) -> tuple[FrameAddress | None, FrameAddress | None]:
        raise Unavailable("libgomp keeps no frames of tasks")


class Task(GompTask, _AnyTask):
    """A task that has a ``gomp_task``."""

    @property
    def id(self) -> str:
        return f"{self.address:#x}"

    @cached_property
    def place(self) -> tuple[Parallel, int] | None:
        """The region of an implicit task, and the number of the task's thread there. None for any other task.

        :raises OmpdError: if a team to which the task may belong cannot be read
        """
        return self.runtime.tasks.place_of(self.address) if self.gomp_kind == IMPLICIT else None

    @property
    def _is_in_array(self) -> bool:
        # Whether the task is in a team's array of implicit tasks.
        try:
            return self.runtime.tasks.place_of(self.address) is not None
        except OmpdError:
            return False

    def likeness(self) -> Hashable | None:
        """Return a key that is equal for queued tasks with equal facts. It needs no region, because a queued task's
        region is its parent's. None for a task that is not queued or has no parent.
        """
        view = self.view
        if self.gomp_kind != WAITING or self.parent is None or view.unsigned("num_dependees"):
            return None
        return self.parent, view.unsigned("fn"), view.unsigned("final_task"), self.unfinished_children()

    def kind(self) -> str:
        """Return the kind. An implicit task that belongs to no team is an initial task.

        :raises CorruptState: if ``kind`` is that of an explicit task, but the task is in a team's array of implicit
            tasks
        """
        if self.gomp_kind != IMPLICIT:
            if self._is_in_array:
                raise CorruptState(self.address, f"an implicit task has the kind {self.gomp_kind}, of an explicit one")
            return "explicit"
        return "implicit" if self.place is not None else "initial"

    def status(self) -> str:
        if self.gomp_kind == WAITING:
            return "waiting" if self.view.unsigned("num_dependees") else "queued"
        if self.runtime.tasks.is_executing(self):
            return "executing"
        return "detached" if self.gomp_kind == DETACHED else "suspended"

    def thread(self) -> Thread | None:
        """Return the thread that executes the task, or on which the task is suspended. None for an explicit task that
        has not begun or is detached.

        :raises Unavailable: if the task is suspended, and no readable stack has the task's code
        """
        if self.gomp_kind in (WAITING, DETACHED):
            return None
        if self.place is not None:
            region, number = self.place
            return region.thread(number)
        executing = self.runtime.tasks.current.get(self.address)
        return executing if executing is not None else self.runtime.constructs.thread_of_suspended(self)

    def is_final(self) -> bool:
        return self.view.unsigned("final_task") != 0

    def generating(self) -> Task | InitialTask | None:
        """Return the task to which ``parent`` points, None for an initial task. An implicit task's parent is the task
        that encountered the region.
        """
        if self.parent is not None:
            return self.runtime.task_at(self.parent)
        if self.kind() == "initial":
            return None
        # ``parent`` is null. The generating task may be an initial task without a gomp_task.
        if self.place is None:
            if not self.is_undeferred:
                raise Unavailable("the task that generated it is over, and libgomp has forgotten it")
            executing = self.thread()
            return executing.initial_task(None) if executing is not None else None
        region, _ = self.place
        if region.enclosing() is not None:
            raise CorruptState(self.address, "an implicit task of an inner region has no parent")
        return region.thread(0).initial_task(region.address)

    def scheduling(self) -> Task | None:
        """Return None for an implicit task, and for an explicit task that has not begun: they have no scheduling task.
        libgomp does not record the scheduling tasks of other tasks.

        :raises Unavailable: for an explicit task that has begun
        """
        if self.kind() != "explicit" or self.gomp_kind == WAITING:
            return None
        raise Unavailable("libgomp does not keep which task was left for another")

    def parallel(self) -> Parallel | None:
        return self.runtime.tasks.region_of(self)

    def function(self) -> int | None:
        """Return the entry of the task's function: ``fn`` of an explicit task, or the function of an implicit task's
        region. None for an initial task.

        :raises Unavailable: for an undeferred task that is on no readable stack
        """
        if self.kind() != "explicit":
            region = self.parallel()
            return region.function() if region is not None and self.place is not None else None
        if self.gomp_kind in _WITH_FUNCTION:
            return self.view.pointer("fn")
        return self.runtime.constructs.entry_of_undeferred(self)

    def waits_for(self) -> TaskWait | None:
        """Return what the task waits for: the tasks that ``num_dependees`` counts, or the event of a detached task.
        This event is identified by the task's address. None if the task does not wait.
        """
        status = self.status()
        if status == "detached":
            return TaskWait("event", event=self.address)
        if status != "waiting":
            return None
        count, items = self.view.unsigned("num_dependees"), self.dependences()
        return TaskWait("dependence", count, self.runtime.tasks.predecessors_of(self), items)

    def unfinished_children(self) -> int:
        """Return the number of unfinished children. libgomp keeps no count, but all children are in its lists or on
        stacks.

        :raises OmpdError: if some children may be missing
        """
        return self.runtime.tasks.count_children(self.address)


@record
class InitialTask(_AnyTask):
    """The task of an initial thread outside of all regions, if the runtime keeps no ``gomp_task`` for it.

    A thread that executes a target region is an initial thread there, with another initial task. ``target`` is the
    number of target regions around this task, 0 outside of target regions.
    """

    of: Thread
    target: int = 0

    @property
    def id(self) -> str:
        return f"{self.of.address:#x}/initial" + (f"/{self.target}" if self.target else "")

    def likeness(self) -> None:
        """Return None: the task has begun."""

    def kind(self) -> str:
        return "initial"

    def status(self) -> str:
        current = self.of.current_task()
        return "executing" if current is not None and current.id == self.id else "suspended"

    def waits_for(self) -> None:
        """Return None: the task has begun, so it waits for no dependence."""

    def unfinished_children(self) -> int:
        """Return the number of unfinished children. There can be only one, an undeferred task."""
        return self.of.runtime.tasks.count_children(self.id)

    def thread(self) -> Thread:
        return self.of

    def is_final(self) -> bool:
        return False

    def generating(self) -> Task | InitialTask | None:
        """Return the task that encountered the task's target region, None outside of target regions."""
        return self.of.task_outside(len(self.of.contexts) - self.target) if self.target else None

    def scheduling(self) -> None:
        """Return None: no other task was suspended for this task."""

    def parallel(self) -> None:
        """Return None: the task is outside of all regions."""

    def function(self) -> None:
        """Return None: the task has no outlined function."""
