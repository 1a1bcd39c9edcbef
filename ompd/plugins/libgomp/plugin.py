"""GNU libgomp: no OMPD, no OMPT, and in distributions no symbols of its own. Its structures are read by layouts that
were proven on the very image (:mod:`ompd.plugins.libgomp.proof`); what it does not keep, stacks show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from ompd.contract.code import RUNTIME
from ompd.contract.ompd import ThreadIdKind
from ompd.contract.ompt import State
from ompd.contract.plugin import AddressSpace, IcvDescription
from ompd.contract.process import Module, Process
from ompd.errors import CorruptState, NotInitialised, OmpdError, Unavailable, Unsupported
from ompd.plugins.defaults import Common, Plain
from ompd.plugins.layout import table
from ompd.plugins.libgomp import icvs, proof
from ompd.plugins.libgomp.internals import Internals
from ompd.plugins.libgomp.regions import Region
from ompd.plugins.libgomp.stacks import TARGETS, Hosted, Parsed, owner_at
from ompd.plugins.libgomp.structures import Layouts
from ompd.plugins.libgomp.tasks import MAX_TASKS, TIED, Task
from ompd.plugins.libgomp.threads import LostThread, Membership, Thread
from ompd.plugins.pages import Heap

# A team has no more threads than the process, but for those that could not be found.
_MAX_THREADS_EACH, _MAX_THREADS = 8, 1 << 16


class LibgompPlugin(Common):
    """Reads libgomp."""

    kind = "libgomp"
    ROUTINES = ("GOMP_parallel", "gomp_thread_start")  # on an initial thread the first calls the code itself

    def process_initialize(self, process: Process, module: Module) -> AddressSpace:
        """Return the runtime in *module*; see :meth:`Plugin.process_initialize`."""
        return proof.proven(process, module, lambda layouts, offset: Runtime(process, module, layouts, offset))


class Runtime(Plain):
    """One copy of the runtime in one process; keeps what it has read.

    :param offset: where in the module's thread-local block ``gomp_tls_data`` lies
    """

    def __init__(self, process: Process, module: Module, layouts: Layouts, offset: int) -> None:
        self.process = process
        self.heap = Heap(process)
        self.module = module
        self.layouts = layouts
        self._offset = offset
        self._regions: dict[int, Region] = {}
        self._tasks: dict[int, Task] = {}
        # By native id, for stacks; by address, whose code it is.
        self.stacks: dict[int, Parsed] = {}
        self.hosted: dict[int, Hosted] = {}
        self.owners: dict[int, str] = {}

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
        """libgomp does not say it.

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

    @property
    def dock_offset(self) -> int:
        """Where in a pool the counter lies that its idle threads wait for."""
        return self.layouts["gomp_thread_pool"].field("threads_dock.bar.generation").offset

    # Threads and teams

    @cached_property
    def most_threads(self) -> int:
        """More threads than one team can have."""
        return _MAX_THREADS + _MAX_THREADS_EACH * len(self.process.threads())

    @cached_property
    def _threads(self) -> Mapping[int, Thread]:
        found = {native: self._thread(native) for native in sorted(self.process.threads())}
        known = {native: thread for native, thread in found.items() if thread is not None}
        primary = {thread.pool_owner() for thread in known.values()} - {None}
        for native in sorted(found.keys() - known.keys()) if primary else ():
            address = self.gomp_thread(native)
            if address in primary:
                fault = CorruptState(
                    address or 0, "nothing but zeros where the runtime keeps a thread that owns a pool"
                )
                known[native] = LostThread(self, native, address or 0, fault)
        # If all look as if they had left, what looks so is a layout that is being tried, or damage.
        return {native: thread for native, thread in known.items() if not thread.has_left} or known

    def _thread(self, native: int) -> Thread | None:
        address = 0
        try:
            block = self.gomp_thread(native)
            if block is None:
                return None
            address = block
            if not any(self.process.read(address, self.layouts.size("gomp_thread"))):
                # The runtime has not met it, or that was lost; but it knows whoever executes a region or a task.
                where = self._routine_inside(native)
                if where is None:
                    return None
                if where.startswith(TARGETS):
                    return Thread(self, native, address)  # libgomp itself clears it for a target region's code
                raise CorruptState(address, "nothing but zeros where the runtime keeps a thread that is in its code")
            thread = Thread(self, native, address)
            return thread if thread.is_registered else None
        except OmpdError as error:
            return LostThread(self, native, address, error)

    def gomp_thread(self, native: int) -> int | None:
        """Return where a thread has its ``gomp_thread``, None if it has no thread-local storage of this module.

        :raises OmpdError: if that cannot be told
        """
        block = self.process.thread_local_block(self.module, native)
        return block[0] + self._offset if block is not None else None

    def _routine_inside(self, native: int) -> str | None:
        # The outermost of the runtime's routines on a stack, "" for one without a name, None if there is none, or only
        # one that anyone may ask.
        found: str | None = None
        for frame in self.process.stack(native).frames:
            place = self.process.locate(frame.call_site)
            if place.module is not self.module or owner_at(self, frame.call_site) != RUNTIME:
                continue
            is_told = found is not None and found.startswith(TARGETS)
            if not (is_told or (place.symbol or "").startswith("omp_")):
                found = place.symbol or found or ""
        return found

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

    def thread_by_native_id(self, kind: ThreadIdKind, identifier: int) -> Thread | None:
        """See :meth:`AddressSpace.thread_by_native_id`."""
        if kind == ThreadIdKind.PTHREAD:
            identifier = self.process.thread_for_id(kind, identifier)
        elif kind != ThreadIdKind.LWP:
            raise Unsupported(f"libgomp has no thread identifiers of kind {kind!r}")
        found = self._threads.get(identifier)
        if isinstance(found, LostThread):
            raise found.fault
        return found

    @cached_property
    def live_teams(self) -> frozenset[int]:
        """The teams whose primary thread is in them, as far as threads can be read."""
        return frozenset(claim.team for _, claims in self._claims[0] for claim in claims if claim.number == 0)

    @cached_property
    def _claims(self) -> tuple[list[tuple[Thread, tuple[Membership, ...]]], OmpdError | None]:
        # And why those of a thread are not known.
        found, fault = [], None
        for thread in self.threads():
            try:
                found.append((thread, thread.claims))
            except OmpdError as error:
                fault = error
                continue  # that thread's own row complains
        return found, fault

    @property
    def unread(self) -> OmpdError | None:
        """Why not all teams of all threads are known, None if they are."""
        return self._claims[1]

    @cached_property
    def _members(self) -> Mapping[int, Mapping[int, Thread]]:
        found: dict[int, dict[int, Thread]] = {}
        for thread, claims in self._claims[0]:
            for claim in claims:
                if claim.team in self.live_teams:
                    found.setdefault(claim.team, {}).setdefault(claim.number, thread)
        return found

    def members(self, team: int) -> Mapping[int, Thread]:
        """Return the threads of a live team by their numbers, as far as they say that they are."""
        return self._members.get(team, {})

    def team_at(self, address: int) -> Region:
        """Return the region whose ``gomp_team`` lies at *address*, read once."""
        if address not in self._regions:
            self._regions[address] = Region(self, address)
        return self._regions[address]

    # Tasks

    def task_at(self, address: int) -> Task:
        """Return the task whose ``gomp_task`` lies at *address*, read once."""
        if address not in self._tasks:
            self._tasks[address] = Task(self, address)
        return self._tasks[address]

    @property
    def implicit_tasks(self) -> Mapping[int, tuple[Region, int]]:
        """Region and thread number of each implicit task of the live teams, by its address, as far as teams can be
        read.
        """
        return self._placed[0]

    @cached_property
    def _placed(self) -> tuple[Mapping[int, tuple[Region, int]], OmpdError | None]:
        # And why those of a team are not known.
        size = self.layouts.size("gomp_task")
        found: dict[int, tuple[Region, int]] = {}
        fault = None
        for address in self.live_teams:
            region = self.team_at(address)
            try:
                for number in range(region.nthreads):
                    found[region.first_task + number * size] = region, number
            except OmpdError as error:
                fault = error
                continue  # the region's own row complains
        return found, fault

    def place_of(self, task: int) -> tuple[Region, int] | None:
        """Return the region whose implicit task lies at *task*, and whose of its threads, None if it is no region's.

        :raises OmpdError: what keeps a team from being read whose task it may be
        """
        places, unplaced = self._placed
        place = places.get(task)
        fault = self.unread or unplaced
        if place is None and fault is not None:
            raise fault
        return place

    @property
    def current_tasks(self) -> Mapping[int, Thread]:
        """The threads that execute each task, by its address, as far as they can be read."""
        return self._asked[0]

    @cached_property
    def _asked(self) -> tuple[Mapping[int, Thread], OmpdError | None]:
        # And why the task of a thread is not known.
        found: dict[int, Thread] = {}
        fault = None
        for thread in self.threads():
            try:
                task = thread.current_task()
            except OmpdError as error:
                fault = error
                continue  # that thread's own row complains
            if isinstance(task, Task):
                found[task.address] = thread
        return found, fault

    def is_executing(self, task: Task) -> bool:
        """Tell whether a thread executes *task*.

        :raises OmpdError: what keeps a thread from being asked, if no other does
        """
        executed, unasked = self._asked
        if task.address in executed:
            return True
        if task.place is not None:
            region, number = task.place
            region.thread(number).current_task()  # an implicit task is executed by its own thread alone
        elif unasked is not None:
            raise unasked
        return False

    @cached_property
    def explicit_tasks(self) -> Mapping[int, Task]:
        """The explicit tasks that are not over: those that threads execute, those that generated them, and all that
        tasks of live regions have generated, by address.

        :raises CorruptState: if they do not end
        """
        waiting = [task for address in self.current_tasks for task in self.task_at(address).lineage()]
        waiting += [self.task_at(address) for address in self.implicit_tasks]
        seen = {task.address for task in waiting}
        found: dict[int, Task] = {}
        while waiting:
            task = waiting.pop()
            if task.address not in self.implicit_tasks and task.kind() == "explicit":
                found[task.address] = task
            for child in task.children():
                if child.address not in seen:
                    if len(seen) >= MAX_TASKS:
                        raise CorruptState(child.address, "there are more tasks than any program has")
                    seen.add(child.address)
                    waiting.append(child)
        return found

    @cached_property
    def begun_tasks(self) -> Mapping[int, Task]:
        """Those of them that were begun and that no thread executes now, undeferred ones aside."""
        return {
            address: task
            for address, task in self.explicit_tasks.items()
            if task.gomp_kind == TIED and address not in self.current_tasks
        }

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
        """libgomp keeps none of what it displays."""
        return {}
