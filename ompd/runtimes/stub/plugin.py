"""The stub runtime of this project (``runtime_stub``): small, and known by construction.

Everything is read through the callbacks of the standards, by the layout that the stub publishes, from one root on. Only
where code lies on native stacks is asked besides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TypeVar

from ompd.contract.code import owner
from ompd.contract.dmpl import RtlNames
from ompd.contract.memory import StructLayout, StructView, read_unsigned
from ompd.contract.ompd import ThreadIdKind
from ompd.contract.ompt import FROM_2015
from ompd.contract.plugin import AddressSpace, IcvDescription
from ompd.contract.process import Module, Process
from ompd.errors import CorruptState, NotInitialised, OmpdError, SymbolNotFound, Unavailable, Unsupported
from ompd.runtimes.common import demangling
from ompd.runtimes.common.pages import Heap
from ompd.runtimes.stub import icvs, integrity, structures
from ompd.runtimes.stub.dmpl import PROCESS, StubLibrary
from ompd.runtimes.stub.internals import Internals
from ompd.runtimes.stub.regions import Team
from ompd.runtimes.stub.tasks import MAX_TASKS, Task
from ompd.runtimes.stub.threadprivate import Threadprivate
from ompd.runtimes.stub.threads import Thread
from ompd.runtimes.stub.views import read_whole

NOT_KEPT = "the runtime keeps this only with OMP_DEBUG=on, or after omp_debug_enable()"
_VERSION = "omp_stub_version"
# OpenMP threads are threads of the process, but for those that have ended and the runtime still has.
_MAX_THREADS, _MAX_THREADS_EACH = 1 << 12, 8
_MAX_TEAMS = 1 << 20

Known = TypeVar("Known")


class StubPlugin:
    """Reads the stub."""

    kind = "stub"

    def process_initialize(self, process: Process, module: Module) -> AddressSpace:
        """Return the runtime in *module*; see :meth:`Plugin.process_initialize`."""
        runtime = self._runtime(process, module)
        if not runtime.root.unsigned("initialized"):
            raise NotInitialised(
                f"{module.name} is loaded, but no OpenMP construct or routine has run yet",
                hint="look again after the program's first OpenMP construct",
            )
        return runtime

    def early_copies(self, process: Process, module: Module) -> Threadprivate:
        """See :meth:`Plugin.early_copies`: a thread makes its own when it first uses one."""
        return self._runtime(process, module).threadprivate

    def _runtime(self, process: Process, module: Module) -> Runtime:
        callbacks = process.callbacks(module)
        layouts = structures.load(callbacks)
        root = StructView(callbacks, layouts["stub_process"], callbacks.find_symbol(PROCESS))
        return Runtime(process, module, layouts, root)

    def rtl_names(self, language: int) -> RtlNames | None:
        """See :meth:`Plugin.rtl_names`."""
        return StubLibrary().get_rtl_names(language)

    def demangle_name(self, name: str) -> str | None:
        """See :meth:`Plugin.demangle_name`."""
        return demangling.source_name(name)


class Runtime:
    """One copy of the stub in one process; keeps what it has read."""

    layout_source = structures.SOURCE
    layout_proof = None

    def __init__(self, process: Process, module: Module, layouts: Mapping[str, StructLayout], root: StructView) -> None:
        self.process = process
        self.module = module
        self.callbacks = process.callbacks(module)
        self.layouts = layouts
        self.root = root
        self.heap = Heap(self.callbacks)
        self._tasks: dict[int, Task] = {}
        self._owners: dict[int, str] = {}

    @property
    def layout_sources(self) -> Mapping[str, str]:
        """See :attr:`AddressSpace.layout_sources`."""
        return dict.fromkeys(self.layouts, structures.SOURCE)

    # Reading

    def view(self, name: str, address: int) -> StructView:
        """Return the structure *name* at *address*, read whole.

        :raises OmpdError: if it cannot be
        """
        return read_whole(self.heap, self.layouts[name], address)

    def embedded(self, outer: StructView, member: str, name: str) -> StructView:
        """Return the structure *name* that lies in a member of *outer*."""
        return StructView(outer.memory, self.layouts[name], outer.address_of(member))

    def pointer(self, view: StructView, member: str) -> int:
        """Return a pointer that has to be there.

        :raises CorruptState: if it is null
        """
        address = view.pointer(member)
        if address is None:
            raise CorruptState(view.address, f"{view.layout.name} without {member}")
        return address

    def word_at(self, address: int) -> int:
        """Return the word at *address*."""
        return read_unsigned(self.callbacks, address, self.callbacks.pointer_size)

    def owner_at(self, address: int) -> str:
        """Return whose code lies at *address*; see :func:`ompd.contract.code.owner`."""
        if address not in self._owners:
            self._owners[address] = owner(self.process, (self.module,), address)
        return self._owners[address]

    def _chain(self, first: int | None, following: Callable[[int], int | None], bound: int, what: str) -> list[int]:
        found: dict[int, None] = {}
        while first is not None:
            if first in found or len(found) >= bound:
                raise CorruptState(first, f"the list of {what} does not end")
            found[first] = None
            first = following(first)
        return list(found)

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

    @cached_property
    def _debug(self) -> bool:
        enabled = self.root.unsigned("debug_enabled")
        if enabled not in (0, 1):
            raise CorruptState(self.root.address_of("debug_enabled"), f"debug_enabled is {enabled}")
        return enabled == 1

    def keeps_states(self) -> bool:
        """Return ``debug_enabled``."""
        return self._debug

    def require_debug(self) -> None:
        """Make sure that it keeps what is for debuggers alone.

        :raises Unavailable: if it does not
        """
        if not self._debug:
            raise Unavailable(NOT_KEPT)

    def states(self) -> Mapping[int, str]:
        """Return the states that the stub knows, of 2015, as OpenMP 5 names and numbers them."""
        return {state.value: state.name.lower() for state in FROM_2015.values()}

    # Threads and teams

    @cached_property
    def most_threads(self) -> int:
        """More threads than the runtime, or one team, can have."""
        return _MAX_THREADS + _MAX_THREADS_EACH * len(self.process.threads())

    @cached_property
    def _threads(self) -> Mapping[int, Thread]:
        count = self.root.signed("thread_count")
        if not 0 <= count <= self.most_threads:
            raise CorruptState(self.root.address, f"the runtime is said to have {count} threads")
        views: dict[int, StructView] = {}

        def following(address: int) -> int | None:
            views[address] = self.view("stub_thread", address)
            return views[address].pointer("next")

        found = self._chain(self.root.pointer("threads"), following, self.most_threads, "threads")
        return {address: Thread(self, views[address]) for address in found[::-1]}  # the eldest first

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
        if kind == ThreadIdKind.PTHREAD:
            identifier = self.callbacks.thread_for_id(kind, identifier)
        elif kind != ThreadIdKind.LWP:
            raise Unsupported(f"the stub has no thread identifiers of kind {kind!r}")
        return self._by_native.get(identifier)

    @cached_property
    def teams(self) -> Mapping[int, Team]:
        """All teams whose region is not over, by address.

        :raises CorruptState: if the list of them does not end
        """
        views: dict[int, StructView] = {}

        def following(address: int) -> int | None:
            views[address] = self.view("stub_team", address)
            return views[address].pointer("next")

        found = self._chain(self.root.pointer("teams"), following, _MAX_TEAMS, "teams")
        return {address: Team(self, views[address]) for address in found}

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
        waiting = [self.task_at(at) for team in self.teams.values() for at in team.implicit]
        found: dict[int, Task] = {}
        while waiting:
            task = waiting.pop()
            if task.address in found:
                continue
            if len(found) >= MAX_TASKS:
                raise CorruptState(task.address, "there are more tasks than any program has")
            found[task.address] = task
            waiting += task.children()
        return tuple(found.values())

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

    def damage(self) -> Sequence[CorruptState]:
        """See :meth:`AddressSpace.damage`."""
        return self._damage

    @cached_property
    def _damage(self) -> Sequence[CorruptState]:
        return integrity.damage(self)

    @cached_property
    def _internals(self) -> Internals:
        return Internals(self)

    def internals(self) -> Internals:
        """See :meth:`AddressSpace.internals`."""
        return self._internals

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
