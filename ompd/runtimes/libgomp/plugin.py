"""The plugin, and one copy of the runtime in one process: what all parts of the plugin find out, put together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from ompd.contract.helpers.defaults import AllQueued, Common
from ompd.contract.helpers.natives import native_thread_id
from ompd.contract.memory import check_aligned
from ompd.contract.ompd import ThreadIdKind
from ompd.contract.ompt import State
from ompd.contract.plugin import AddressSpace, ConstructCode, IcvDescription, SchedulingPoint, ThreadState
from ompd.contract.process import Frame, Module, Process
from ompd.contract.waits import BarrierState, GoneThread, LockState
from ompd.errors import NotInitialised, OmpdError, Unavailable
from ompd.runtimes.layout import table
from ompd.runtimes.libgomp import icvs, proof, registered, states
from ompd.runtimes.libgomp.constructs import Constructs
from ompd.runtimes.libgomp.handles import Region, Registry, Task, Thread
from ompd.runtimes.libgomp.members import Roster
from ompd.runtimes.libgomp.structures.layouts import Layouts
from ompd.runtimes.libgomp.task_walk import AllTasks
from ompd.runtimes.libgomp.waits import barriers, locks, points


class LibgompPlugin(Common):
    """Reads libgomp."""

    kind = "libgomp"
    ROUTINES = ("GOMP_parallel", "gomp_thread_start")  # on an initial thread the first calls the code itself

    def process_initialize(self, process: Process, module: Module) -> AddressSpace:
        """Return the runtime in *module*; see :meth:`Plugin.process_initialize`."""
        return proof.proven(process, module, lambda layouts, offset: Runtime(process, module, layouts, offset))


class Runtime(AllQueued, Registry):
    """One copy of the runtime in one process; keeps what it has read. See :class:`Space`."""

    def __init__(self, process: Process, module: Module, layouts: Layouts, offset: int) -> None:
        super().__init__(process, module, layouts, offset)
        self._regions: dict[int, Region] = {}
        self._tasks: dict[int, Task] = {}
        self.roster = Roster[Thread](self, self.threads)
        self.tasks: AllTasks = AllTasks(self)
        self._constructs = Constructs(self, self.tasks)

    # What the runtime says of itself

    @property
    def layout_source(self) -> str:
        """See :attr:`AddressSpace.layout_source`."""
        return self.layouts.source

    @property
    def layout_sources(self) -> Mapping[str, str]:
        """See :attr:`AddressSpace.layout_sources`."""
        return dict.fromkeys(self.layouts.structs, self.layouts.source)

    @property
    def layout_proof(self) -> str | None:
        """See :attr:`AddressSpace.layout_proof`."""
        return self.layouts.proof

    def omp_version(self) -> int:
        """libgomp does not record it.

        :raises Unavailable: always
        """
        raise Unavailable("libgomp does not say which version of OpenMP it implements")

    def version(self) -> str | None:
        """Return the releases whose layout it has, None where that was not looked for: libgomp has no version."""
        return self.layouts.of if self.layouts.source == table.SOURCE else None

    def keeps_states(self) -> bool:
        """Return False: no release has OMPT."""
        return False

    def states(self) -> Mapping[int, str]:
        """Return all states of OMPT."""
        return {state.value: state.name.lower() for state in State}

    # Threads and teams

    @cached_property
    def _threads(self) -> Mapping[int, Thread]:
        return registered.threads_of(self)

    def threads(self) -> Sequence[Thread]:
        """See :meth:`AddressSpace.threads`.

        :raises NotInitialised: if nothing of OpenMP has run yet
        """
        if not self._threads:
            raise NotInitialised(
                f"{self.module.name} is loaded, but no OpenMP construct has run yet",
                hint="look again after the program's first OpenMP construct",
            )
        return tuple(self._threads.values())

    def gone_threads(self) -> Sequence[GoneThread]:
        """See :meth:`AddressSpace.gone_threads`: by the lists of pools, and of teams that are live."""
        return registered.gone_from(self)

    def thread_by_native_id(self, kind: ThreadIdKind, identifier: int) -> Thread | None:
        """See :meth:`AddressSpace.thread_by_native_id`."""
        found = self._threads.get(native_thread_id(self.process, identifier, kind))
        if isinstance(found, registered.LostThread):
            raise found.fault
        return found

    def team_at(self, address: int) -> Region:
        """See :meth:`Registry.team_at`."""
        if address not in self._regions:
            check_aligned(self.heap, address, "a team")
            self._regions[address] = Region(self, address)
        return self._regions[address]

    # Tasks

    def task_at(self, address: int) -> Task:
        """See :meth:`Registry.task_at`."""
        if address not in self._tasks:
            check_aligned(self.heap, address, "a task")
            self._tasks[address] = Task(self, address)
        return self._tasks[address]

    def queued_tasks(self) -> Iterator[Task]:
        """Yield all explicit tasks as far as they are found.

        :raises OmpdError: at the end, what kept others from being found
        """
        yield from self.tasks.found.values()
        for fault in self.tasks.faults:
            raise fault

    def unlisted_tasks(self) -> Mapping[str, int]:
        """See :meth:`AllTasks.unlisted`."""
        return self.tasks.unlisted()

    def tasks_are_changing(self) -> bool:
        """See :meth:`Space.tasks_are_changing`: it holds their lock (``task_lock``)."""
        for team in self.roster.live_teams:
            try:
                if self.team_at(team).view.unsigned("task_lock"):
                    return True
            except OmpdError:
                continue  # reported in the region's row
        return False

    # What other parts of the plugin find out

    def state_of(self, thread: Thread) -> ThreadState:
        """See :func:`states.thread_state`."""
        return states.thread_state(thread)

    def lock_of(self, thread: Thread) -> LockState | None:
        """See :func:`locks.lock_of`."""
        return locks.lock_of(thread, self.tasks)

    def kind_of(self, thread: Thread) -> str | None:
        """See :func:`points.kind_of`."""
        return points.kind_of(thread)

    def point_of(self, thread: Thread) -> SchedulingPoint | None:
        """See :func:`points.point_of`."""
        return points.point_of(thread, self.tasks)

    def barriers_of(self, region: Region) -> Sequence[BarrierState]:
        """See :func:`barriers.barriers_of`."""
        return barriers.barriers_of(region)

    def construct_code_of(self, thread: Thread) -> Sequence[ConstructCode]:
        """See :meth:`Constructs.code_of`."""
        return self._constructs.code_of(thread)

    def entry_of_region(self, region: Region) -> int:
        """See :meth:`Constructs.entry_of_region`."""
        return self._constructs.entry_of_region(region)

    def encountering_frames_of(self, region: Region) -> Sequence[Frame]:
        """See :meth:`Constructs.encountering_frames`."""
        return self._constructs.encountering_frames(region)

    def thread_of_suspended(self, task: Task) -> Thread:
        """See :meth:`Constructs.thread_of_suspended`."""
        return self._constructs.thread_of_suspended(task)

    def entry_of_undeferred(self, task: Task) -> int:
        """See :meth:`Constructs.entry_of_undeferred`."""
        return self._constructs.entry_of_undeferred(task)

    # Settings

    def icvs(self) -> Sequence[IcvDescription]:
        """See :meth:`AddressSpace.icvs`."""
        return icvs.describe()

    def icv(self, name: str, handle: object) -> int | str:
        """See :meth:`AddressSpace.icv`."""
        return icvs.read(self, name, handle)

    def threadprivate_copies(self) -> Sequence[tuple[int, int]]:
        """Return none: libgomp keeps no copies."""
        return ()

    def display_control_vars(self) -> Mapping[str, str]:
        """libgomp keeps none of what it displays."""
        return {}
