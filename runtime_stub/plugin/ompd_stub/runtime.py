"""One copy of the stub runtime in one process: its structures, threads, teams and tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from ompd.contract.helpers.defaults import AllQueued
from ompd.contract.helpers.natives import native_thread_id
from ompd.contract.helpers.pages import CachedMemory, Heap, read_by_page
from ompd.contract.helpers.stacks import CodeOwners
from ompd.contract.helpers.walks import MAX_TASKS, all_tasks, chain, most_threads
from ompd.contract.memory import StructLayout, StructView, read_unsigned
from ompd.contract.ompd import ThreadIdKind
from ompd.contract.ompt import FROM_2015
from ompd.contract.plugin import IcvDescription
from ompd.contract.process import Module, Process
from ompd.contract.waits import GoneThread
from ompd.errors import BadInput, CorruptState, LayoutUnavailable, OmpdError, SymbolNotFound, Unavailable
from ompd_stub import icvs, integrity, structures
from ompd_stub.tasks import Task
from ompd_stub.teams import Team
from ompd_stub.threadprivate import Threadprivate
from ompd_stub.threads import Thread

_VERSION = "omp_stub_version"
_NOT_KEPT = "the runtime keeps this only with OMP_DEBUG=on, or after omp_debug_enable()"
_MAX_TEAMS = 1 << 20


class Runtime(AllQueued):
    """A runtime. It finds its threads, teams and tasks from one root, and caches them.

    :param layouts: the layouts of the runtime's structures
    :param root: ``struct stub_process``
    """

    layout_source = structures.SOURCE
    layout_proof = None
    threadprivate_mechanism = "key"

    def __init__(self, process: Process, module: Module, layouts: Mapping[str, StructLayout], root: StructView) -> None:
        self.process = process
        self.module = module
        self.callbacks = process.callbacks(module)
        self.layouts = layouts
        self.root = root
        self.heap = Heap(self.callbacks)
        self.owners = CodeOwners(process, module)
        self._tasks: dict[int, Task] = {}

    # Structures

    def view(self, name: str, address: int) -> StructView:
        """Return the structure *name* at *address*, read as a whole.

        :raises CorruptState: if *address* is not aligned to the size of a pointer
        :raises LayoutUnavailable: if its size is unknown
        """
        layout = self.layouts[name]
        if layout.size is None:
            raise LayoutUnavailable(f"the runtime does not publish the size of {layout.name}")
        if address % self.heap.pointer_size:
            raise CorruptState(address, f"a {layout.name} is said to lie at an odd address")
        data = read_by_page(self.heap, address, layout.size)
        return StructView(CachedMemory(self.heap, address, data), layout, address)

    def embedded(self, outer: StructView, member: str, name: str) -> StructView:
        """Return the structure *name* that is in a member of *outer*."""
        return StructView(outer.memory, self.layouts[name], outer.address_of(member))

    def word_at(self, address: int) -> int:
        """Return the word at *address*."""
        return read_unsigned(self.callbacks, address, self.callbacks.pointer_size)

    def listed(self, name: str, first: int | None, bound: int, what: str) -> dict[int, StructView]:
        """Return the structures *name* of a list that ``next`` links, by their addresses.

        :param first: the address of the first structure
        :param bound: the most structures that the list may have
        :param what: the list's description, for the error
        :raises CorruptState: if the list does not end
        """
        views: dict[int, StructView] = {}

        def following(address: int) -> int | None:
            views[address] = self.view(name, address)
            return views[address].pointer("next")

        for _ in chain(first, following, bound, what):
            pass
        return views

    @property
    def layout_sources(self) -> Mapping[str, str]:
        return dict.fromkeys(self.layouts, structures.SOURCE)

    # The process

    def omp_version(self) -> int:
        return self.root.unsigned("openmp_version")

    def version(self) -> str | None:
        """Return the text of ``omp_stub_version``, None in a build without it."""
        try:
            address = self.callbacks.find_symbol(_VERSION)
        except SymbolNotFound:
            return None
        return self.callbacks.read_string(address, 256).decode("utf-8", "replace").removeprefix("libomp_stub ")

    @cached_property
    def _debug(self) -> bool:
        enabled = self.root.unsigned("debug_enabled")
        if enabled not in (0, 1):
            raise CorruptState(self.root.address_of("debug_enabled"), f"debug_enabled is {enabled}")
        return enabled == 1

    def keeps_states(self) -> bool:
        return self._debug

    def require_debug(self) -> None:
        """Check that the runtime keeps the facts that only debuggers need.

        :raises Unavailable: if it does not
        """
        if not self._debug:
            raise Unavailable(_NOT_KEPT)

    def states(self) -> Mapping[int, str]:
        """Return OpenMP 5's names and numbers of the states of 2015, which the stub keeps."""
        return {state.value: state.name.lower() for state in FROM_2015.values()}

    def icvs(self) -> Sequence[IcvDescription]:
        return icvs.describe()

    def icv(self, name: str, handle: object) -> int | str:
        return icvs.read(self, name, handle)

    def display_control_vars(self) -> Mapping[str, str]:
        return icvs.display(self)

    @cached_property
    def threadprivate(self) -> Threadprivate:
        """The copies of threadprivate variables that the runtime keeps."""
        return Threadprivate(self)

    def threadprivate_of_other(self, thread: int, address: int) -> int | None:
        return self.threadprivate.address(thread, address)  # any thread may have a value under the key

    def threadprivate_copies(self) -> Sequence[tuple[int, int]]:
        return self.threadprivate.copies()

    @cached_property
    def _damage(self) -> Sequence[CorruptState]:
        return integrity.damage(self)

    def damage(self) -> Sequence[CorruptState]:
        return self._damage

    # Threads

    @cached_property
    def most_threads(self) -> int:
        """The limit on the threads of the runtime, and of one team."""
        return most_threads(self.process)

    @cached_property
    def _threads(self) -> Mapping[int, Thread]:
        count = self.root.signed("thread_count")
        if not 0 <= count <= self.most_threads:
            raise CorruptState(self.root.address, f"the runtime is said to have {count} threads")
        views = self.listed("stub_thread", self.root.pointer("threads"), self.most_threads, "the list of threads")
        return {address: Thread(self, views[address]) for address in reversed(views)}  # the eldest first

    def threads(self) -> Sequence[Thread]:
        return tuple(self._threads.values())

    def thread_at(self, address: int) -> Thread:
        """Return the thread whose descriptor is at *address*.

        :raises CorruptState: if the runtime has none there
        """
        try:
            return self._threads[address]
        except KeyError:
            raise CorruptState(address, "no thread of the runtime lies there") from None

    def gone_threads(self) -> Sequence[GoneThread]:
        gone = []
        for thread in self._threads.values():
            try:
                thread.native  # noqa: B018  fails if the process does not have the thread
            except BadInput:
                gone.append(GoneThread(thread.address, thread.view.unsigned("pthread"), None))
        return tuple(gone)

    @cached_property
    def _by_native(self) -> Mapping[int, Thread]:
        threads: dict[int, Thread] = {}
        for thread in self._threads.values():
            try:
                threads.setdefault(thread.native, thread)
            except OmpdError:
                continue  # the thread has ended, or is unreadable; threads() still has it
        return threads

    def thread_by_native_id(self, kind: ThreadIdKind, identifier: int) -> Thread | None:
        return self._by_native.get(native_thread_id(self.callbacks, identifier, kind))

    # Teams

    @cached_property
    def _teams(self) -> Mapping[int, Team]:
        views = self.listed("stub_team", self.root.pointer("teams"), _MAX_TEAMS, "the list of teams")
        return {address: Team(self, view) for address, view in views.items()}

    @property
    def teams(self) -> Mapping[int, Team]:
        """All teams whose region has not ended, by address.

        :raises CorruptState: if the list of teams does not end
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
        """Return the task at *address*. It is read once and then cached."""
        if address not in self._tasks:
            self._tasks[address] = Task(self, self.view("stub_task", address))
        return self._tasks[address]

    @cached_property
    def _all_tasks(self) -> Sequence[Task]:
        implicit = (self.task_at(address) for team in self.teams.values() for address in team.implicit)
        return tuple(all_tasks(implicit, Task.children))

    def all_tasks(self) -> Sequence[Task]:
        """Return the implicit and initial tasks of all teams, and their incomplete descendants.

        :raises CorruptState: if a list of children does not end
        """
        return self._all_tasks

    @cached_property
    def explicit_tasks(self) -> Mapping[int, Sequence[Task]]:
        """The explicit tasks on each thread, by the address of the thread's descriptor.

        :raises OmpdError: if the thread of a task is unknown
        """
        tasks: dict[int, list[Task]] = {}
        for task in self.all_tasks():
            thread = task.thread() if task.kind() == "explicit" else None
            if thread is not None:
                tasks.setdefault(thread.address, []).append(task)
        return tasks

    def check_queue(self, team: Team) -> None:
        """Check that the queue of a team's tasks ends.

        :raises CorruptState: if it does not
        """

        def following(address: int) -> int | None:
            return self.task_at(address).view.pointer("next_queued")

        for _ in chain(team.view.pointer("first_queued"), following, MAX_TASKS, "the queue of a team's tasks"):
            pass

    def queued_tasks(self) -> Sequence[Task]:
        """Return the incomplete explicit tasks, whether or not they are in a queue or have begun.

        :raises CorruptState: if a queue, or a list of children, does not end
        """
        for team in self.teams.values():
            self.check_queue(team)
        return [task for task in self.all_tasks() if task.kind() == "explicit"]
