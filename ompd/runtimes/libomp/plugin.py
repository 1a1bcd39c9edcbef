"""LLVM's libomp and Intel's libiomp5: one code base, two builds.

What has symbols is read by name, whatever the release. For a stripped one
:mod:`ompd.runtimes.libomp.layout.layouts` has the release's layouts, and its variables are found by what they lead to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from ompd.contract.helpers.defaults import Common, Plain
from ompd.contract.helpers.entries import wait_kind
from ompd.contract.memory import read_pointer
from ompd.contract.ompd import DLL_LOCATIONS
from ompd.contract.ompt import State
from ompd.contract.plugin import AddressSpace, ConstructCode, IcvDescription, SchedulingPoint, TaskWait, ThreadState
from ompd.contract.process import Frame, Module, Process
from ompd.contract.waits import BarrierState, LockState
from ompd.errors import NotInitialised
from ompd.runtimes.libomp import icvs
from ompd.runtimes.libomp.stacks.code import Code
from ompd.runtimes.libomp.stacks.constructs import Constructs
from ompd.runtimes.libomp.stacks.regions import Stacks
from ompd.runtimes.libomp.stacks.states import States
from ompd.runtimes.libomp.stacks.unnamed import Unnamed
from ompd.runtimes.libomp.teams.tasks import Task
from ompd.runtimes.libomp.teams.teams import Region
from ompd.runtimes.libomp.teams.threads import Thread, Threads
from ompd.runtimes.libomp.threadprivate import Threadprivate
from ompd.runtimes.libomp.waits.barriers import Barriers
from ompd.runtimes.libomp.waits.dependences import Waiting
from ompd.runtimes.libomp.waits.locks import Locks
from ompd.runtimes.libomp.waits.points import Points
from ompd.runtimes.libomp.waits.queues import Queues

# Of a thread's own copy of a threadprivate variable so many bytes are worth keeping.
_MAX_COPY = 1 << 24
_NOTED_BARRIERS = ("__kmpc_barrier", "__kmpc_cancel_barrier")


class LibompPlugin(Common):
    """Reads libomp and libiomp5."""

    kind = "libomp"
    ROUTINES = ("__kmpc_fork_call", "__kmp_invoke_microtask")  # clang's code calls the first

    def process_initialize(self, process: Process, module: Module) -> AddressSpace:
        """Return the runtime in *module*; see :meth:`Plugin.process_initialize`."""
        locations = process.symbol_in(module, DLL_LOCATIONS)
        # The runtime sets this pointer last when it initialises, so that all it publishes is valid (ompd_init).
        if locations is not None and read_pointer(process, locations) is None:
            raise NotInitialised(
                f"{module.name} is loaded, but no OpenMP construct or routine has run yet",
                hint="look again after the program's first OpenMP construct",
            )
        return Runtime(process, module)


class Runtime(Threads, Plain):
    """One copy of the runtime in one process; keeps what it has read. Puts together what the rooms have."""

    def states(self) -> Mapping[int, str]:
        """Return all states of OMPT; the runtime uses some of them."""
        return {state.value: state.name.lower() for state in State}

    # What stacks tell

    @cached_property
    def _unnamed(self) -> Unnamed | None:
        if self.stripped is None:
            return None
        return Unnamed(self, self.stripped.table, lambda thread, frames: self._locks.asks_for_one(thread, frames))

    @cached_property
    def _stacks(self) -> Stacks:
        return Stacks(self, Code(self, self._unnamed.name if self._unnamed is not None else None))

    @cached_property
    def _constructs(self) -> Constructs:
        return Constructs(self, self._stacks)

    @cached_property
    def _states(self) -> States:
        return States(self, self._stacks.code, self._unnamed)

    def entry_on_stacks(self, region: Region) -> int:
        """See :meth:`Stacks.region_entry`."""
        return self._stacks.region_entry(region)

    def encountering_frames_of(self, region: Region) -> Sequence[Frame]:
        """See :meth:`ParallelHandle.encountering_frames`."""
        return self._stacks.encountering_frames(region)

    def executes_explicit_task(self, thread: Thread) -> bool:
        """See :meth:`Stacks.executes_explicit_task`."""
        return self._stacks.executes_explicit_task(thread)

    def construct_code_of(self, thread: Thread) -> Sequence[ConstructCode]:
        """See :meth:`ThreadHandle.construct_code`."""
        return self._constructs.code_of(thread)

    def state_of(self, thread: Thread) -> ThreadState:
        """See :meth:`ThreadHandle.state`."""
        return self._states.of(thread)

    def calls_noted_barrier(self, thread: Thread) -> bool:
        """Return whether the innermost code of *thread* has called a barrier that sets ``th_ident``."""
        return self._states.entry_inside(thread) in _NOTED_BARRIERS

    # What waits for what

    @cached_property
    def _barriers(self) -> Barriers:
        return Barriers(self, self._stacks, self._unnamed)

    @cached_property
    def _locks(self) -> Locks:
        return Locks(self)

    @cached_property
    def _queues(self) -> Queues:
        return Queues(self)

    @cached_property
    def _waiting(self) -> Waiting:
        return Waiting(self, self._queues)

    def barriers_of(self, region: Region) -> Sequence[BarrierState]:
        """See :meth:`ParallelHandle.barriers`."""
        return self._barriers.of(region)

    def lock_of(self, thread: Thread) -> LockState | None:
        """See :meth:`ThreadHandle.lock`."""
        return self._locks.lock(thread, self._stacks.code)

    @cached_property
    def _points(self) -> Points:
        return Points(self, self._states, self._waiting)

    def kind_of(self, thread: Thread) -> str | None:
        """See :meth:`ThreadHandle.wait_kind`."""
        return wait_kind(self._states.routines_inside(thread))

    def point_of(self, thread: Thread) -> SchedulingPoint | None:
        """See :meth:`ThreadHandle.scheduling_point`."""
        return self._points.of(thread)

    def before(self, task: Task) -> TaskWait | None:
        """See :meth:`Waiting.before`."""
        return self._waiting.before(task)

    def unfinished_children_of(self, task: Task) -> int:
        """See :meth:`Waiting.unfinished_children`."""
        return self._waiting.unfinished_children(task)

    def counted_children_of(self, task: Task) -> int:
        """See :meth:`Waiting.counted_children`."""
        return self._waiting.counted_children(task)

    @property
    def known_children(self) -> Mapping[int, int]:
        """See :attr:`Waiting.known_children`."""
        return self._waiting.known_children

    def queued_tasks(self) -> Sequence[Task]:
        """See :meth:`AddressSpace.queued_tasks`."""
        return self._queues.queued()

    def waiting_tasks(self) -> Sequence[Task]:
        """See :meth:`AddressSpace.waiting_tasks`."""
        return self._waiting.tasks()

    def prioritized_tasks(self) -> Sequence[Task]:
        """See :meth:`AddressSpace.prioritized_tasks`."""
        return self._queues.prioritized()

    def unlisted_tasks(self) -> Mapping[str, int]:
        """Return none: each task counts its children, and is kept for them."""
        return {}

    # Copies of threadprivate variables

    @cached_property
    def _threadprivate(self) -> Threadprivate:
        return Threadprivate(self)

    def threadprivate_of(self, thread: Thread, address: int) -> int | None:
        """See :meth:`ThreadHandle.threadprivate_address`."""
        return self._threadprivate.address(thread, address)

    def threadprivate_copies(self) -> Sequence[tuple[int, int]]:
        """See :meth:`AddressSpace.threadprivate_copies`: the lists from ``th_pri_head`` over ``link``.

        Code that does not use thread-local storage has them (clang's ``-fnoopenmp-use-tls``).
        """
        # Where this is found and empty, nobody has a copy; without symbols the threads' own lists tell.
        caches = self.process.symbol_in(self.module, "__kmp_threadpriv_cache_list")
        if self.stripped is None and (caches is None or read_pointer(self.process, caches) is None):
            return ()
        copies = (copy for thread in self.threads() for copy in self._threadprivate.copies(thread))
        return tuple({copy.par_addr: copy.cmn_size for copy in copies if copy.cmn_size <= _MAX_COPY}.items())

    # Settings

    def icvs(self) -> Sequence[IcvDescription]:
        """See :meth:`AddressSpace.icvs`."""
        return icvs.describe(self)

    def icv(self, name: str, handle: object) -> int | str:
        """See :meth:`AddressSpace.icv`."""
        return icvs.read(self, name, handle)

    def display_control_vars(self) -> Mapping[str, str]:
        """See :meth:`AddressSpace.display_control_vars`."""
        return icvs.display_control_vars(self)
