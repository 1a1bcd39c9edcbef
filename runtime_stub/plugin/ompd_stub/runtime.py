"""One copy of the stub in one process: which threads, teams and tasks there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from ompd.contract.helpers.defaults import AllQueued
from ompd.contract.helpers.natives import native_thread_id
from ompd.contract.helpers.walks import all_tasks
from ompd.contract.memory import StructLayout, StructView
from ompd.contract.ompd import ThreadIdKind
from ompd.contract.ompt import FROM_2015
from ompd.contract.plugin import BarrierState, ConstructCode, IcvDescription, LockState, ThreadState
from ompd.contract.process import Frame, Module, Process
from ompd.errors import CorruptState, OmpdError, SymbolNotFound
from ompd_stub import icvs, integrity, stacks, states, structures, waits
from ompd_stub.handles import Region, Registry, Task, Team, Thread
from ompd_stub.threadprivate import Threadprivate

_VERSION = "omp_stub_version"
_MAX_TEAMS = 1 << 20


class Runtime(AllQueued, Registry):
    """Keeps what it has read. See :class:`ompd.contract.plugin.AddressSpace`."""

    layout_source = structures.SOURCE
    layout_proof = None

    def __init__(self, process: Process, module: Module, layouts: Mapping[str, StructLayout], root: StructView) -> None:
        super().__init__(process, module, layouts, root)
        self._tasks: dict[int, Task] = {}

    @property
    def layout_sources(self) -> Mapping[str, str]:
        """See :attr:`AddressSpace.layout_sources`."""
        return dict.fromkeys(self.layouts, structures.SOURCE)

    # What the runtime says of itself

    def omp_version(self) -> int:
        """Return ``openmp_version``."""
        return self.root.unsigned("openmp_version")

    def version(self) -> str | None:
        """Return what is in ``omp_stub_version``, None in a build without."""
        try:
            address = self.callbacks.find_symbol(_VERSION)
        except SymbolNotFound:
            return None
        return self.callbacks.read_string(address, 256).decode("utf-8", "replace").removeprefix("libomp_stub ")

    def states(self) -> Mapping[int, str]:
        """Return the states that the stub knows, of 2015, as OpenMP 5 names and numbers them."""
        return {state.value: state.name.lower() for state in FROM_2015.values()}

    # Threads and teams

    @cached_property
    def _threads(self) -> Mapping[int, Thread]:
        count = self.root.signed("thread_count")
        if not 0 <= count <= self.most_threads:
            raise CorruptState(self.root.address, f"the runtime is said to have {count} threads")
        views = self.listed("stub_thread", self.root.pointer("threads"), self.most_threads, "the list of threads")
        return {address: Thread(self, views[address]) for address in reversed(views)}  # the eldest first

    def threads(self) -> Sequence[Thread]:
        """See :meth:`AddressSpace.threads`."""
        return tuple(self._threads.values())

    def thread_at(self, address: int) -> Thread:
        """Return the thread whose descriptor lies at *address*.

        :raises CorruptState: if the runtime has none there
        """
        try:
            return self._threads[address]
        except KeyError:
            raise CorruptState(address, "no thread of the runtime lies there") from None

    @cached_property
    def _by_native(self) -> Mapping[int, Thread]:
        found: dict[int, Thread] = {}
        for thread in self._threads.values():
            try:
                found.setdefault(thread.native, thread)
            except OmpdError:
                continue  # it has ended, or its row is lost; threads() still has it
        return found

    def thread_by_native_id(self, kind: ThreadIdKind, identifier: int) -> Thread | None:
        """See :meth:`AddressSpace.thread_by_native_id`."""
        return self._by_native.get(native_thread_id(self.callbacks, identifier, kind))

    @cached_property
    def _teams(self) -> Mapping[int, Team]:
        views = self.listed("stub_team", self.root.pointer("teams"), _MAX_TEAMS, "the list of teams")
        return {address: Team(self, view) for address, view in views.items()}

    @property
    def teams(self) -> Mapping[int, Team]:
        """All teams whose region is not over, by address.

        :raises CorruptState: if the list of them does not end
        """
        return self._teams

    def team_at(self, address: int) -> Team:
        """Return the team at *address*.

        :raises CorruptState: if the runtime has none there
        """
        try:
            return self.teams[address]
        except KeyError:
            raise CorruptState(address, "no team of the runtime lies there") from None

    # Tasks

    def task_at(self, address: int) -> Task:
        """Return the task at *address*, read once."""
        if address not in self._tasks:
            self._tasks[address] = Task(self, self.view("stub_task", address))
        return self._tasks[address]

    def all_tasks(self) -> Sequence[Task]:
        """Return the tasks of all teams: implicit and initial ones, and those that came of them and are not complete.

        :raises CorruptState: if there is no end of them
        """
        return self._all_tasks

    @cached_property
    def _all_tasks(self) -> Sequence[Task]:
        first = (self.task_at(at) for team in self.teams.values() for at in team.implicit)
        return tuple(all_tasks(first, Task.children))

    def queued_tasks(self) -> Sequence[Task]:
        """Return the explicit tasks that are not complete, those in no queue and those that have begun among them.

        :raises CorruptState: if a queue, or a list of children, does not end
        """
        for team in self.teams.values():
            team.check_queue()
        return [task for task in self.all_tasks() if task.kind() == "explicit"]

    # What other parts of the plugin find out

    def state_of(self, thread: Thread) -> ThreadState:
        """See :func:`ompd_stub.states.thread_state`."""
        return states.thread_state(thread)

    def lock_of(self, thread: Thread) -> LockState | None:
        """See :func:`ompd_stub.waits.lock_of`."""
        return waits.lock_of(thread)

    def barriers_of(self, region: Region) -> Sequence[BarrierState]:
        """See :func:`ompd_stub.waits.barriers_of`."""
        return waits.barriers_of(region)

    def construct_code_of(self, thread: Thread) -> Sequence[ConstructCode]:
        """See :func:`ompd_stub.stacks.construct_code`."""
        return stacks.construct_code(thread)

    def encountering_frames_of(self, region: Region) -> Sequence[Frame]:
        """See :func:`ompd_stub.stacks.encountering_frames`."""
        return stacks.encountering_frames(region)

    @cached_property
    def explicit_tasks(self) -> Mapping[int, Sequence[Task]]:
        """The explicit tasks that are on each thread, by the thread's descriptor.

        :raises OmpdError: what keeps the thread of a task from being told
        """
        found: dict[int, list[Task]] = {}
        for task in self.all_tasks():
            thread = task.thread() if task.kind() == "explicit" else None
            if thread is not None:
                found.setdefault(thread.address, []).append(task)
        return found

    @cached_property
    def threadprivate(self) -> Threadprivate:
        """The copies of threadprivate variables that the runtime keeps."""
        return Threadprivate(self)

    threadprivate_mechanism = "key"

    def threadprivate_of_other(self, thread: int, address: int) -> int | None:
        """See :meth:`AddressSpace.threadprivate_of_other`: any thread may have a value under the key."""
        return self.threadprivate.address(thread, address)

    def threadprivate_copies(self) -> Sequence[tuple[int, int]]:
        """See :meth:`AddressSpace.threadprivate_copies`."""
        return self.threadprivate.copies()

    def damage(self) -> Sequence[CorruptState]:
        """See :meth:`AddressSpace.damage`."""
        return self._damage

    @cached_property
    def _damage(self) -> Sequence[CorruptState]:
        return integrity.damage(self, self.threadprivate)

    # Settings

    def icvs(self) -> Sequence[IcvDescription]:
        """See :meth:`AddressSpace.icvs`."""
        return icvs.describe()

    def icv(self, name: str, handle: object) -> int | str:
        """See :meth:`AddressSpace.icv`."""
        return icvs.read(self, name, handle)

    def display_control_vars(self) -> Mapping[str, str]:
        """The stub keeps none of what it could display."""
        return {}
