"""Handles of threads, regions and tasks. Each leads to the others by the runtime that has them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property

from ompd.contract.helpers.defaults import Unnoted
from ompd.contract.helpers.walks import MAX_TASKS
from ompd.contract.ompd import ThreadIdKind
from ompd.contract.plugin import ConstructCode, Outside, SchedulingPoint, TaskWait, ThreadState
from ompd.contract.process import Frame
from ompd.contract.waits import BarrierState, LockState
from ompd.errors import BadInput, CorruptState, NotBegun, OmpdError, Unavailable, Unsupported
from ompd.records import record
from ompd.runtimes.libgomp.members import Member, Roster
from ompd.runtimes.libgomp.structures.gomp import DETACHED, IMPLICIT, TIED, WAITING, GompTask, GompTeam, Space
from ompd.runtimes.libgomp.structures.unkept import NoFrames, NoTool
from ompd.runtimes.libgomp.waits import docks

# Those that have the code that they run noted; an undeferred one is on the stack of its thread, and has not.
_WITH_CODE = (WAITING, TIED, DETACHED)


class Tasks(ABC):
    """The tasks of one process."""

    @property
    @abstractmethod
    def current(self) -> Mapping[int, Thread]:
        """The threads that execute each task, by its address, as far as they can be read."""

    @abstractmethod
    def is_executing(self, task: Task) -> bool:
        """Return whether a thread executes *task*.

        :raises OmpdError: what keeps a thread's task from being known, if no other executes it
        """

    @abstractmethod
    def place_of(self, task: int) -> tuple[Region, int] | None:
        """Return the region whose implicit task is at *task*, and whose of its threads, None if it is no region's.

        :raises OmpdError: what keeps a team from being read whose task it may be
        """

    @abstractmethod
    def region_of(self, task: Task) -> Region | None:
        """Return the region to which a task belongs: that of the nearest implicit task among those that generated it.
        Where one of these is over, that of the team in whose lists it is, or of the thread that executes it.
        """

    @abstractmethod
    def predecessors_of(self, task: Task) -> Sequence[Task]:
        """Return the tasks for which *task* waits since it depends on them."""

    @abstractmethod
    def count_children(self, parent: int | str) -> int:
        """Return how many explicit tasks that are not over a task has generated, by its address, or by its id where it
        has none.

        :raises OmpdError: what keeps some from being found
        """


class Registry(Space, ABC):
    """Which handles there are in one process, and what modules above this one find out about them."""

    roster: Roster[Thread]
    tasks: Tasks

    @abstractmethod
    def threads(self) -> Sequence[Thread]:
        """See :meth:`AddressSpace.threads`."""

    @abstractmethod
    def team_at(self, address: int) -> Region:
        """Return the region whose ``gomp_team`` is at *address*, read once."""

    @abstractmethod
    def task_at(self, address: int) -> Task:
        """Return the task whose ``gomp_task`` is at *address*, read once."""

    @abstractmethod
    def state_of(self, thread: Thread) -> ThreadState:
        """See :meth:`ThreadHandle.state`."""

    @abstractmethod
    def lock_of(self, thread: Thread) -> LockState | None:
        """See :meth:`ThreadHandle.lock`."""

    @abstractmethod
    def kind_of(self, thread: Thread) -> str | None:
        """See :meth:`ThreadHandle.wait_kind`."""

    @abstractmethod
    def point_of(self, thread: Thread) -> SchedulingPoint | None:
        """See :meth:`ThreadHandle.scheduling_point`."""

    @abstractmethod
    def construct_code_of(self, thread: Thread) -> Sequence[ConstructCode]:
        """See :meth:`ThreadHandle.construct_code`."""

    @abstractmethod
    def barriers_of(self, region: Region) -> Sequence[BarrierState]:
        """See :meth:`ParallelHandle.barriers`."""

    @abstractmethod
    def entry_of_region(self, region: Region) -> int:
        """See :meth:`ParallelHandle.function`."""

    @abstractmethod
    def encountering_frames_of(self, region: Region) -> Sequence[Frame]:
        """See :meth:`ParallelHandle.encountering_frames`."""

    @abstractmethod
    def thread_of_suspended(self, task: Task) -> Thread:
        """Return the thread on whose stack a task is below others.

        :raises Unavailable: if it is on none that could be read
        """

    @abstractmethod
    def entry_of_undeferred(self, task: Task) -> int:
        """Return the entry of the code of a task that was not deferred, which libgomp does not note.

        :raises Unavailable: if it is on no stack that could be read
        """


class Thread(Member, NoTool):
    """A thread that has its ``gomp_thread`` filled in."""

    def __init__(self, runtime: Registry, native: int, address: int) -> None:
        super().__init__(runtime, runtime.roster, native, address)
        self.runtime = runtime

    def native_id(self, kind: ThreadIdKind) -> int:
        """See :meth:`ThreadHandle.native_id`: the runtime keeps none, the thread's own storage holds the structure."""
        if kind == ThreadIdKind.LWP:
            return self.native
        if kind == ThreadIdKind.PTHREAD:
            return self.runtime.process.pthread_self(self.native)
        raise Unsupported(f"libgomp keeps no thread identifiers of kind {kind!r}")

    def native_thread_id(self) -> int:
        """See :meth:`ThreadHandle.native_thread_id`."""
        return self.native

    def current_parallel(self) -> Region | None:
        """See :meth:`ThreadHandle.current_parallel`."""
        return self.runtime.team_at(self.inner[0].team) if self.inner else None

    def outside_of_target(self) -> Outside | None:
        """See :meth:`ThreadHandle.outside_of_target`: what ``gomp_target_fallback`` has put aside."""
        if len(self.contexts) == 1:
            return None
        claims = self.contexts[1].claims
        region = self.runtime.team_at(claims[0].team) if claims else None
        return Outside(region, claims[0].number if claims else 0, self.task_outside(1))

    def current_task(self) -> Task | InitialTask | None:
        """Return ``task``, None while the thread is idle. Outside of all regions it may have no ``gomp_task``."""
        if self.is_idle:
            return None
        address = self.view.pointer("task")
        if address is not None:
            return self.runtime.task_at(address)
        if self.inner:
            raise CorruptState(self.address, "a thread of a team has no task")
        return self.initial_task(None)

    def task_outside(self, depth: int) -> Task | InitialTask:
        """Return the task that met a target region that it executes, the *depth*-th from the innermost, from 1 on.

        :raises Unavailable: if that is not known
        """
        target = self.contexts[depth].target
        if target is not None and target.task is not None:
            return self.runtime.task_at(target.task)
        if target is None or target.team is not None:
            raise Unavailable("which explicit task met the target region is not to be told from the stack")
        return InitialTask(self, len(self.contexts) - 1 - depth)

    def initial_task(self, team: int | None) -> InitialTask:
        """Return its initial task, outside of all regions: that of the target region around the region of *team*, if
        there is one; of the innermost target region where *team* is None.
        """
        contexts = self.contexts
        inside = (at for at, known in enumerate(contexts) if any(claim.team == team for claim in known.claims))
        return InitialTask(self, len(contexts) - 1 - next(inside, 0))

    def state(self) -> ThreadState:
        """See :meth:`ThreadHandle.state`: always derived."""
        return self.runtime.state_of(self)

    def lock(self) -> LockState | None:
        """See :meth:`ThreadHandle.lock`: by the routine that it called.

        :raises Unavailable: if its registers show none, or several
        """
        return self.runtime.lock_of(self)

    def wait_kind(self) -> str | None:
        """See :meth:`ThreadHandle.wait_kind`."""
        return self.runtime.kind_of(self)

    def scheduling_point(self) -> SchedulingPoint | None:
        """See :meth:`ThreadHandle.scheduling_point`."""
        return self.runtime.point_of(self)

    def barrier_source(self) -> None:
        """See :meth:`ThreadHandle.barrier_source`: gcc's code records nothing of constructs."""

    def idle_frame(self) -> None:
        """See :meth:`ThreadHandle.idle_frame`: libgomp does not record it."""

    def construct_code(self) -> Sequence[ConstructCode]:
        """See :meth:`ThreadHandle.construct_code`."""
        return self.runtime.construct_code_of(self)

    def threadprivate_address(self, address: int) -> int | None:
        """libgomp keeps no copies: threadprivate variables are thread-local ones."""
        raise BadInput("libgomp keeps no copies of threadprivate variables: thread-local storage has them")


class Region(GompTeam, Unnoted, NoTool):
    """A parallel region: one team for each, serialized ones too."""

    def __init__(self, runtime: Registry, address: int) -> None:
        super().__init__(runtime, address)
        self.runtime = runtime

    @property
    def id(self) -> str:
        """See :attr:`ParallelHandle.id`."""
        return f"{self.address:#x}"

    def enclosing(self) -> Region | None:
        """See :meth:`ParallelHandle.enclosing`."""
        return self.runtime.team_at(self.outer_team) if self.outer_team is not None else None

    def size(self) -> int:
        """Return ``nthreads``."""
        return self.nthreads

    def level(self) -> int:
        """Return the number of regions that enclose it, and itself."""
        return self.outer_level + 1

    def active_level(self) -> int:
        """Return how many of them have more than one thread."""
        return self.outer_active_level + (self.nthreads > 1)

    def thread(self, thread_num: int) -> Thread:
        """See :meth:`ParallelHandle.thread`.

        :raises Unavailable: if no thread of the process says that it is that one
        """
        self._check(thread_num)
        found = self.runtime.roster.members(self.address).get(thread_num)
        if found is None:
            there = len(self.runtime.process.threads())
            primary = self.runtime.roster.members(self.address).get(0)
            if there < self.nthreads and (primary is None or not docks.is_forming(primary.stack, self)):
                # fork() gives the child one thread, and a copy of the team; and a thread may end by itself.
                left = f"the team has {self.nthreads} threads, the process {there}: it is a fork, or threads have ended"
                raise Unavailable(left)
            raise NotBegun("no thread of the process has that number in the team: it has not begun, or is lost")
        return found

    def implicit_task(self, thread_num: int) -> Task:
        """Return an element of ``implicit_task``.

        :raises Unavailable: if it has not been made yet
        """
        self._check(thread_num)
        if not self.has_task(thread_num):
            raise Unavailable(f"thread {thread_num} has not joined its team yet")
        return self._task(thread_num)

    def has_task(self, thread_num: int) -> bool:
        """Return whether the implicit task of a thread has been made, which is done before the thread itself is: until
        then its memory holds what was there before.
        """
        if thread_num == 0 or thread_num in self.runtime.roster.members(self.address):
            return True
        first, own = self._task(0), self._task(thread_num)
        return own.parent == first.parent and own.gomp_kind == IMPLICIT and own.view.unsigned("icv.nthreads_var") != 0

    def _task(self, thread_num: int) -> Task:
        return self.runtime.task_at(self.runtime.implicit_task_at(self.address, thread_num))

    def _check(self, thread_num: int) -> None:
        if not 0 <= thread_num < self.size():
            raise BadInput(f"thread number {thread_num} in a team of {self.size()}")

    def function(self) -> int:
        """Return the entry of the function that the compiler made of the region, from the stack of one of its threads.

        :raises Unavailable: if no thread of the team has it on its stack
        """
        return self.runtime.entry_of_region(self)

    def encountering_frames(self) -> Sequence[Frame]:
        """See :meth:`ParallelHandle.encountering_frames`."""
        return self.runtime.encountering_frames_of(self)

    def barriers(self) -> Sequence[BarrierState]:
        """See :meth:`ParallelHandle.barriers`: that of the region's end, and the team's other one.

        :raises Unavailable: if a thread's stack does not show at which it is
        """
        return self.runtime.barriers_of(self)

    def unfinished_tasks(self) -> int:
        """See :meth:`ParallelHandle.unfinished_tasks`: ``task_count``, which leaves out those that wait for others.

        :raises CorruptState: if there are more than any program has
        """
        count = self.runtime.view("gomp_team", self.address).unsigned("task_count")
        if count > MAX_TASKS:
            raise CorruptState(self.address, f"team with {count} tasks")
        return count


class Task(GompTask, NoFrames):
    """A task that has a ``gomp_task``."""

    def __init__(self, runtime: Registry, address: int) -> None:
        super().__init__(runtime, address)
        self.runtime = runtime

    @property
    def id(self) -> str:
        """See :attr:`TaskHandle.id`."""
        return f"{self.address:#x}"

    @cached_property
    def place(self) -> tuple[Region, int] | None:
        """The region whose implicit task it is, and whose of its threads; None for any other.

        :raises OmpdError: what keeps a team from being read whose task it may be
        """
        return self.runtime.tasks.place_of(self.address) if self.gomp_kind == IMPLICIT else None

    @property
    def _is_in_array(self) -> bool:
        try:
            return self.runtime.tasks.place_of(self.address) is not None
        except OmpdError:
            return False  # of which team it is, is not known

    def likeness(self) -> Hashable | None:
        """See :meth:`TaskHandle.likeness`: all that is read of a queued one whose region is that of its parent."""
        view = self.view
        if self.gomp_kind != WAITING or self.parent is None or view.unsigned("num_dependees"):
            return None
        return self.parent, view.unsigned("fn"), view.unsigned("final_task"), self.unfinished_children()

    def kind(self) -> str:
        """See :meth:`TaskHandle.kind`: an implicit one that is no team's is an initial one.

        :raises CorruptState: if it is an explicit one by its kind, and among the implicit ones of a team
        """
        if self.gomp_kind != IMPLICIT:
            if self._is_in_array:
                raise CorruptState(self.address, f"an implicit task has the kind {self.gomp_kind}, of an explicit one")
            return "explicit"
        return "implicit" if self.place is not None else "initial"

    def status(self) -> str:
        """See :meth:`TaskHandle.status`."""
        if self.gomp_kind == WAITING:
            return "waiting" if self.view.unsigned("num_dependees") else "queued"
        if self.runtime.tasks.is_executing(self):
            return "executing"
        return "detached" if self.gomp_kind == DETACHED else "suspended"

    def thread(self) -> Thread | None:
        """See :meth:`TaskHandle.thread`.

        :raises Unavailable: for a suspended one that is on no stack that could be read
        """
        if self.gomp_kind in (WAITING, DETACHED):
            return None
        if self.place is not None:
            region, number = self.place
            return region.thread(number)
        executing = self.runtime.tasks.current.get(self.address)
        return executing if executing is not None else self.runtime.thread_of_suspended(self)

    def is_final(self) -> bool:
        """Return ``final_task``."""
        return self.view.unsigned("final_task") != 0

    def generating(self) -> Task | InitialTask | None:
        """Return ``parent``: for an implicit task the one that encountered the region."""
        if self.parent is not None:
            return self.runtime.task_at(self.parent)
        if self.kind() == "initial":
            return None
        # An initial thread need not have had a task of its own.
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
        """Not kept.

        :raises Unavailable: for an explicit task that has begun
        """
        if self.kind() != "explicit" or self.gomp_kind == WAITING:
            return None
        raise Unavailable("libgomp does not keep which task was left for another")

    def parallel(self) -> Region | None:
        """See :meth:`Tasks.region_of`."""
        return self.runtime.tasks.region_of(self)

    def function(self) -> int | None:
        """Return ``fn`` of an explicit task, or the function of the region of an implicit one.

        :raises Unavailable: for an undeferred task that is on no stack that could be read
        """
        if self.kind() != "explicit":
            region = self.parallel()
            return region.function() if region is not None and self.place is not None else None
        return self.view.pointer("fn") if self.gomp_kind in _WITH_CODE else self.runtime.entry_of_undeferred(self)

    def waits_for(self) -> TaskWait | None:
        """See :meth:`TaskHandle.waits_for`: ``num_dependees`` and ``depend``; a detached task is its own event."""
        status = self.status()
        if status == "detached":
            return TaskWait("event", event=self.address)
        if status != "waiting":
            return None
        count, items = self.view.unsigned("num_dependees"), self.dependences()
        return TaskWait("dependence", count, self.runtime.tasks.predecessors_of(self), items)

    def unfinished_children(self) -> int:
        """See :meth:`TaskHandle.unfinished_children`: libgomp keeps no count, its lists and stacks have them all.

        :raises OmpdError: what keeps some from being found
        """
        return self.runtime.tasks.count_children(self.address)


@record
class InitialTask(NoFrames):
    """What an initial thread executes outside of all regions, where the runtime keeps no task for that.

    A thread that executes a target region is an initial one there: then *target* is how many of these it is in.
    """

    of: Thread
    target: int = 0

    @property
    def id(self) -> str:
        """See :attr:`TaskHandle.id`."""
        return f"{self.of.address:#x}/initial" + (f"/{self.target}" if self.target else "")

    def likeness(self) -> None:
        """See :meth:`TaskHandle.likeness`: it has begun."""

    def kind(self) -> str:
        """It is an initial task."""
        return "initial"

    def status(self) -> str:
        """See :meth:`TaskHandle.status`."""
        current = self.of.current_task()
        return "executing" if current is not None and current.id == self.id else "suspended"

    def waits_for(self) -> None:
        """It is on its thread."""

    def unfinished_children(self) -> int:
        """See :meth:`TaskHandle.unfinished_children`: one that is not deferred, if there is one."""
        return self.of.runtime.tasks.count_children(self.id)

    def thread(self) -> Thread:
        """Return the thread."""
        return self.of

    def is_final(self) -> bool:
        """No initial task is."""
        return False

    def generating(self) -> Task | InitialTask | None:
        """Nothing generated it, unless it is that of a target region: then it is the task that met that."""
        return self.of.task_outside(len(self.of.contexts) - self.target) if self.target else None

    def scheduling(self) -> None:
        """It is not scheduled."""

    def parallel(self) -> None:
        """It is outside of all regions."""

    def function(self) -> None:
        """It has no function that a compiler made."""
