"""One copy of the runtime in one process, which finds and keeps the handles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from ompd.contract.helpers.defaults import AllQueued, Plain
from ompd.contract.helpers.natives import native_thread_id
from ompd.contract.helpers.pages import Heap
from ompd.contract.helpers.stacks import CodeOwners
from ompd.contract.helpers.walks import MAX_TASKS, chain, most_threads
from ompd.contract.memory import StructView, check_aligned
from ompd.contract.ompd import ThreadIdKind
from ompd.contract.ompt import State
from ompd.contract.plugin import IcvDescription
from ompd.contract.process import Module, Process
from ompd.contract.waits import GoneThread
from ompd.errors import CorruptState, NotInitialised, OmpdError, Unavailable
from ompd.runtimes.layout import table
from ompd.runtimes.libgomp import icvs, registered
from ompd.runtimes.libgomp.constructs import Constructs
from ompd.runtimes.libgomp.handles import Parallel, Task, Thread
from ompd.runtimes.libgomp.layouts import Layouts
from ompd.runtimes.libgomp.members import Roster
from ompd.runtimes.libgomp.structures import NODE_SIZE, queued
from ompd.runtimes.libgomp.tasks import Tasks


class Runtime(AllQueued, Plain):
    """One copy of the runtime in one process. It keeps all handles and the facts that were read for them.

    :param offset: the offset of ``gomp_tls_data`` in the module's thread-local block
    """

    def __init__(self, process: Process, module: Module, layouts: Layouts, offset: int) -> None:
        self.process = process
        self.module = module
        self.layouts = layouts
        self.heap = Heap(process)
        self.owners = CodeOwners(process, module)
        self.roster = Roster(self)
        self.tasks = Tasks(self)
        self.constructs = Constructs(self)
        self._offset = offset
        self._team_handles: dict[int, Parallel] = {}
        self._task_handles: dict[int, Task] = {}

    # The runtime itself

    @property
    def layout_source(self) -> str:
        return self.layouts.source

    @property
    def layout_sources(self) -> Mapping[str, str]:
        return dict.fromkeys(self.layouts.structs, self.layouts.source)

    @property
    def layout_proof(self) -> str | None:
        return self.layouts.proof

    def omp_version(self) -> int:
        raise Unavailable("libgomp does not say which version of OpenMP it implements")

    def version(self) -> str | None:
        """Return the releases that have the runtime's layout, None if the layout is not from a table. libgomp records
        no version.
        """
        return self.layouts.of if self.layouts.source == table.SOURCE else None

    def keeps_states(self) -> bool:
        """Return False: no release has OMPT."""
        return False

    def states(self) -> Mapping[int, str]:
        return {state.value: state.name.lower() for state in State}

    def view(self, name: str, address: int) -> StructView:
        """Return a view of the structure *name* at *address*."""
        return StructView(self.heap, self.layouts[name], address)

    # Threads

    @cached_property
    def most_threads(self) -> int:
        """A number of threads that no team can exceed."""
        return most_threads(self.process)

    def gomp_thread(self, native: int) -> int | None:
        """Return the address of a thread's ``gomp_thread``, None if the thread has no thread-local storage for this
        module.

        :raises OmpdError: if the address is unknown or is not aligned
        """
        block = self.process.thread_local_block(self.module, native)
        if block is None:
            return None
        address = block[0] + self._offset
        if address % self.process.pointer_size:
            raise CorruptState(address, "the runtime's thread-local storage is not aligned")
        return address

    @cached_property
    def gomp_threads(self) -> Mapping[int, Thread]:
        """A handle for each thread of the process that has a ``gomp_thread``, even an unused one, by native id."""
        threads = {}
        for native in self.process.threads():
            try:
                address = self.gomp_thread(native)
            except OmpdError:
                continue
            if address is not None:
                threads[native] = Thread(self, native, address)
        return threads

    @cached_property
    def _threads(self) -> Mapping[int, Thread]:
        return registered.threads_of(self)

    def threads(self) -> Sequence[Thread]:
        """Return the runtime's threads.

        :raises NotInitialised: if no OpenMP code has run yet
        """
        if not self._threads:
            raise NotInitialised(
                f"{self.module.name} is loaded, but no OpenMP construct has run yet",
                hint="look again after the program's first OpenMP construct",
            )
        return tuple(self._threads.values())

    def gone_threads(self) -> Sequence[GoneThread]:
        return registered.gone_from(self)

    def thread_by_native_id(self, kind: ThreadIdKind, identifier: int) -> Thread | None:
        thread = self._threads.get(native_thread_id(self.process, identifier, kind))
        if isinstance(thread, registered.LostThread):
            raise thread.fault
        return thread

    # Teams

    def team_at(self, address: int) -> Parallel:
        """Return the region whose ``gomp_team`` is at *address*. The structure is read once."""
        if address not in self._team_handles:
            check_aligned(self.heap, address, "a team")
            self._team_handles[address] = Parallel(self, address)
        return self._team_handles[address]

    @cached_property
    def last_teams(self) -> frozenset[int]:
        """The addresses of the teams whose region is over and that pools keep for the next region (``last_team``).
        Unreadable pools are left out.
        """
        teams: set[int | None] = set()
        for thread in self.gomp_threads.values():
            try:
                pool = thread.pool
                teams.add(self.view("gomp_thread_pool", pool).pointer("last_team") if pool is not None else None)
            except OmpdError:
                continue
        return frozenset(team for team in teams if team is not None)

    # Tasks

    def task_at(self, address: int) -> Task:
        """Return the task whose ``gomp_task`` is at *address*. The structure is read once."""
        if address not in self._task_handles:
            check_aligned(self.heap, address, "a task")
            self._task_handles[address] = Task(self, address)
        return self._task_handles[address]

    def implicit_task_at(self, team: int, number: int) -> int:
        """Return the address of the implicit task of a team's thread."""
        return self.team_at(team).first_task + number * self.layouts.size("gomp_task")

    def lineage(self, task: int) -> Iterator[int]:
        """Yield the addresses of a task, of its parent, of the parent's parent, and so on.

        :raises CorruptState: if the chain of parents does not end
        """
        description = "the chain of tasks that generated each other"
        return chain(task, lambda address: self.task_at(address).parent, MAX_TASKS, description)

    def tasks_in(self, queue: int, node: int) -> Iterator[int]:
        """Yield the addresses of the tasks in the ``priority_queue`` at *queue*.

        :param node: the index in ``pnode`` of the tasks' nodes that form this queue
        :raises CorruptState: if a list or the tree does not end
        """
        offset = self.layouts["gomp_task"].field("pnode").offset + node * NODE_SIZE
        for address in queued(self, queue):
            yield address - offset

    def queued_tasks(self) -> Iterator[Task]:
        """Yield all explicit tasks that are not over.

        :raises OmpdError: after all tasks that were found, if others may be missing
        """
        yield from self.tasks.reachable.values()
        for fault in self.tasks.faults:
            raise fault

    def unlisted_tasks(self) -> Mapping[str, int]:
        return self.tasks.unlisted()

    def tasks_are_changing(self) -> bool:
        """Return whether a thread holds the lock of a team's lists of tasks (``task_lock``)."""
        for team in self.roster.live_teams:
            try:
                if self.team_at(team).view.unsigned("task_lock"):
                    return True
            except OmpdError:
                continue  # the row of the region reports the error
        return False

    # Settings

    def icvs(self) -> Sequence[IcvDescription]:
        return icvs.describe()

    def icv(self, name: str, handle: object) -> int | str:
        return icvs.read(self, name, handle)

    def threadprivate_copies(self) -> Sequence[tuple[int, int]]:
        """Return none: libgomp keeps no copies."""
        return ()

    def display_control_vars(self) -> Mapping[str, str]:
        """Return none: libgomp does not keep the settings that it displays."""
        return {}
