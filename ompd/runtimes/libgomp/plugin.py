"""GNU libgomp: no OMPD, no OMPT, and in distributions no symbols of its own. Its structures are read by layouts that
were proven on the very image (:mod:`ompd.runtimes.libgomp.proof`); what it does not keep, stacks show.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from ompd.contract.helpers.defaults import AllQueued, Common, Plain
from ompd.contract.helpers.natives import native_thread_id
from ompd.contract.helpers.pages import Heap
from ompd.contract.memory import StructView, read_words
from ompd.contract.ompd import ThreadIdKind
from ompd.contract.ompt import State
from ompd.contract.plugin import AddressSpace, ConstructCode, IcvDescription
from ompd.contract.process import Module, Process
from ompd.errors import CorruptState, NotInitialised, OmpdError, Unavailable
from ompd.runtimes.layout import table
from ompd.runtimes.libgomp import icvs, proof, stacks
from ompd.runtimes.libgomp.regions import Region
from ompd.runtimes.libgomp.stacks import BEGIN, TARGETS, Group, Parsed, code_of, parsed, parsed_of
from ompd.runtimes.libgomp.structures import Layouts
from ompd.runtimes.libgomp.tasks import TIED, Task
from ompd.runtimes.libgomp.threads import LostThread, Membership, NewThread, Thread
from ompd.runtimes.libgomp.walk import Walk, walk

# A team has no more threads than the process, but for those that could not be found.
_MAX_THREADS_EACH, _MAX_THREADS = 8, 1 << 16


def _begins(group: Group) -> bool:
    # A worker's first routine, which has called no code of a region.
    return group.entry == BEGIN and group.code is None


def _is_constructs(entry: str | None) -> bool:
    return entry is not None and not entry.startswith("omp_")


class LibgompPlugin(Common):
    """Reads libgomp."""

    kind = "libgomp"
    ROUTINES = ("GOMP_parallel", "gomp_thread_start")  # on an initial thread the first calls the code itself

    def process_initialize(self, process: Process, module: Module) -> AddressSpace:
        """Return the runtime in *module*; see :meth:`Plugin.process_initialize`."""
        return proof.proven(process, module, lambda layouts, offset: Runtime(process, module, layouts, offset))


class Runtime(Plain, AllQueued):
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
        # By native id: threads' stacks, where regions are on them, and whose code is where.
        self.stacks: dict[int, Parsed] = {}
        self.hosted: dict[int, Mapping[int, int] | OmpdError] = {}
        self.codes: dict[int, Sequence[ConstructCode] | OmpdError] = {}
        # The regions of tasks, or why they are not known, by the task's address.
        self.task_regions: dict[int, Region | OmpdError | None] = {}
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
                return self._without_place(native, address)
            thread = Thread(self, native, address)
            if not thread.is_registered:
                return None
            return NewThread(self, native, address) if self._is_new(thread) else thread
        except OmpdError as error:
            return LostThread(self, native, address, error)

    def _is_new(self, thread: Thread) -> bool:
        # Whether a worker has just begun to take its place: pool, team and task are noted one after the other, and the
        # team's and the pool's lists of threads last.
        if thread.has_left:
            return False
        view = thread.view
        if view.pointer("task") is not None and view.pointer("ts.team") is not None:
            try:
                thread.claims  # noqa: B018  what contradicts itself is half of it, if it is no damage
            except CorruptState:
                pass
            except OmpdError:
                return False
            else:
                return False
        groups = parsed_of(self, thread.native).groups
        return bool(groups) and _begins(groups[-1]) and not self._is_noted(thread.address)

    def _without_place(self, native: int, address: int) -> Thread | None:
        # A thread whose gomp_thread is all zeros: the runtime has not met it, has cleared it for the code of a target
        # region, or what was there is lost. For it knows whoever executes a region or a task.
        groups = parsed_of(self, native).groups
        if any((group.entry or "").startswith(TARGETS) for group in groups):
            return Thread(self, native, address)
        lost = CorruptState(address, "nothing but zeros where the runtime keeps a thread that is in its code")
        if any(group.code is not None for group in groups):
            thread = Thread(self, native, address)
            if len(thread.contexts) > 1:
                return thread
            raise lost
        if not groups:
            return None
        if _begins(groups[-1]):
            if self._is_noted(address):
                raise lost
            return NewThread(self, native, address)
        if any(group.forks for group in groups):
            raise Unavailable("the thread begins or ends a region, or what the runtime kept of it is lost")
        # It is in a routine that needs no more than that: a critical section outside of all regions, or a task there
        # that is not its own yet, or no longer. What anyone may ask makes no thread OpenMP's.
        return Thread(self, native, address) if any(_is_constructs(group.entry) for group in groups) else None

    def _is_noted(self, address: int) -> bool:
        # Whether the runtime has the gomp_thread at *address* noted as that of a worker, as each does itself when it
        # has taken its place: in its pool, and in its team.
        release = address + self.layouts["gomp_thread"].field("release").offset
        pools, teams = set(), set()
        for native in self.process.threads():
            other = self.gomp_thread(native)
            if other is None or other == address:
                continue
            try:
                view = Thread(self, native, other).view
                pools.add(view.pointer("thread_pool"))
                teams.add(view.pointer("ts.team"))
            except OmpdError:
                continue
        return any(address in self._pooled(pool) for pool in pools if pool is not None) or any(
            release in self._released(team) for team in teams if team is not None
        )

    def _pooled(self, pool: int) -> Sequence[int]:
        view = StructView(self.heap, self.layouts["gomp_thread_pool"], pool)
        try:
            threads, count = view.pointer("threads"), view.unsigned("threads_used")
            return read_words(self.heap, threads, count) if threads is not None and count <= self.most_threads else ()
        except OmpdError:
            return ()

    def _released(self, team: int) -> Sequence[int]:
        region = self.team_at(team)
        try:
            releases = region.view.pointer("ordered_release")
            return read_words(self.heap, releases, region.nthreads) if releases is not None else ()
        except OmpdError:
            return ()

    def gomp_thread(self, native: int) -> int | None:
        """Return where a thread has its ``gomp_thread``, None if it has no thread-local storage of this module.

        :raises OmpdError: if that cannot be told
        """
        block = self.process.thread_local_block(self.module, native)
        return block[0] + self._offset if block is not None else None

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
        found = self._threads.get(native_thread_id(self.process, identifier, kind))
        if isinstance(found, LostThread):
            raise found.fault
        return found

    @cached_property
    def live_teams(self) -> frozenset[int]:
        """The teams whose primary thread is in them, as far as threads can be read; and those that have lost it."""
        known = frozenset(claim.team for _, claims in self._claims[0] for claim in claims if claim.number == 0)
        return known | self._orphaned(known)

    def _orphaned(self, known: frozenset[int]) -> frozenset[int]:
        # Teams whose primary thread is not in this process, but a worker in the region's code: fork() gives the child
        # of a worker that one thread, and a copy of the team. No region ends while a thread is in its code.
        found: set[int] = set()
        there = len(self.process.threads())
        for thread, claims in self._claims[0] if self.unread is None else ():
            if not claims or not claims[-1].number or claims[-1].team in known or claims[-1].team in found:
                continue
            if there < self.team_at(claims[-1].team).nthreads and stacks.is_in_region(thread):
                found.add(claims[-1].team)
        return frozenset(found)

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

    @cached_property
    def last_teams(self) -> frozenset[int]:
        """Teams whose region is over, which pools keep for the next one (``last_team``), as far as they can be read."""
        found: set[int | None] = set()
        for native in self.process.threads():
            try:
                address = self.gomp_thread(native)
                pool = Thread(self, native, address).thread_pool if address is not None else None
                layout = self.layouts["gomp_thread_pool"]
                found.add(StructView(self.heap, layout, pool).pointer("last_team") if pool is not None else None)
            except OmpdError:
                continue
        return frozenset(team for team in found if team is not None)

    # Tasks

    def implicit_task_at(self, team: int, number: int) -> int:
        """Return where the implicit task of a thread of a team lies."""
        return self.team_at(team).first_task + number * self.layouts.size("gomp_task")

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

    @property
    def explicit_tasks(self) -> Mapping[int, Task]:
        """The explicit tasks that are not over: those that threads execute, those that generated them, and all that
        tasks of live regions have generated, by address.

        :raises OmpdError: what keeps some of them from being found
        """
        for fault in self.faults:
            raise fault
        return self.found_tasks

    def queued_tasks(self) -> Iterator[Task]:
        """Yield :attr:`explicit_tasks` as far as they are found.

        :raises OmpdError: at the end, what kept others from being found
        """
        yield from self.found_tasks.values()
        for fault in self.faults:
            raise fault

    @property
    def found_tasks(self) -> Mapping[int, Task]:
        """Those of :attr:`explicit_tasks` that were found; :attr:`faults` are why there may be more."""
        return self._walked.explicit

    @property
    def faults(self) -> Sequence[OmpdError]:
        """Why not all of them may have been found."""
        return self._walked.faults

    @property
    def predecessors(self) -> Mapping[int, Sequence[Task]]:
        """The tasks that each waits for that waits for a dependence, by its address."""
        return self._walked.predecessors

    def region_of(self, task: Task) -> Region | None:
        """Return the region to which a task belongs that has lost the task that generated it: that of the team in whose
        lists it is, or of the thread that executes it.
        """
        team = self._walked.teams.get(task.address)
        if team is not None:
            return self.team_at(team)
        thread = self.current_tasks.get(task.address)
        return thread.current_parallel() if thread is not None else None

    def count_children(self, parent: int | str) -> int:
        """Return how many explicit tasks that are not over a task has generated, by its address, or by its id where it
        has none.

        :raises OmpdError: what keeps some from being found
        """
        for fault in (*self.faults, self._asked[1], self._placed[1], self.unread):
            if fault is not None:
                raise fault
        return self.child_counts.get(parent, 0)

    @cached_property
    def child_counts(self) -> Mapping[int | str, int]:
        """How many explicit tasks that are not over each task has generated, by its address; by its id where it has
        none.
        """
        found: dict[int | str, int] = {}
        for task in self.found_tasks.values():
            parent: int | str | None = task.parent
            if parent is None and task.is_undeferred:
                generating = task.generating()
                parent = generating.id if generating is not None else None
            if parent is not None:
                found[parent] = found.get(parent, 0) + 1
        return found

    @cached_property
    def _walked(self) -> Walk:
        return walk(self)

    def tasks_are_changing(self) -> bool:
        """Tell whether a thread was about to change a team's lists of tasks: it holds their lock (``task_lock``)."""
        for team in self.live_teams:
            try:
                if self.team_at(team).view.unsigned("task_lock"):
                    return True
            except OmpdError:
                continue  # the region's own row complains
        return False

    @cached_property
    def undeferred_tasks(self) -> Sequence[int]:
        """The addresses of those of them that are not deferred, in order.

        :raises OmpdError: as :attr:`explicit_tasks`
        """
        return sorted(address for address, task in self.explicit_tasks.items() if task.is_undeferred)

    @cached_property
    def code_of_tasks(self) -> Mapping[int, Mapping[str, Sequence[ConstructCode]]]:
        """Where on the stack of each thread, by its native id, tasks have their code, by their ids: threads whose
        stacks can be read.
        """
        found: dict[int, dict[str, list[ConstructCode]]] = {}
        for thread in self.threads():
            try:
                codes = code_of(thread)
            except OmpdError:
                continue  # a stack that cannot be read says nothing; the others may
            own = found.setdefault(thread.native, {})
            for code in codes:
                if code.task is not None:
                    own.setdefault(code.task.id, []).append(code)
        return found

    @cached_property
    def suspended(self) -> Mapping[str, Thread]:
        """The first thread on whose stack a task has code, by the task's id."""
        found: dict[str, Thread] = {}
        for thread in self.threads():
            for task in self.code_of_tasks.get(thread.native, ()):
                found.setdefault(task, thread)
        return found

    @cached_property
    def stack_extents(self) -> Sequence[tuple[int, int, int, Thread]]:
        """Where the frames of each thread's stack begin and end, in order, and the furthest end up to there."""
        found: list[tuple[int, int, Thread]] = []
        for thread in self.threads():
            try:
                frames = parsed(thread).frames
            except OmpdError:
                continue  # as above
            if frames:
                found.append((frames[0].sp, frames[-1].cfa or frames[-1].sp, thread))
        extents, furthest = [], 0
        for low, high, thread in sorted(found, key=lambda extent: extent[:2]):
            furthest = max(furthest, high)
            extents.append((low, high, furthest, thread))
        return extents

    @cached_property
    def begun_tasks(self) -> Mapping[int, Task]:
        """Those of them that were begun and that no thread executes now, undeferred ones aside."""
        return {
            address: task
            for address, task in self.explicit_tasks.items()
            if task.gomp_kind == TIED and address not in self.current_tasks
        }

    def unlisted_tasks(self) -> Mapping[str, int]:
        """See :meth:`AddressSpace.unlisted_tasks`: by ``task_count``, of teams that nobody is changing it of."""
        known: dict[str, int] = {}
        for task in self.found_tasks.values():
            region = task.parallel() if task.is_counted else None
            if region is not None:
                known[region.id] = known.get(region.id, 0) + 1
        found: dict[str, int] = {}
        for team in self.live_teams if not self.faults else ():
            view = StructView(self.heap, self.layouts["gomp_team"], team)
            region = self.team_at(team)
            if not view.unsigned("task_lock") and view.unsigned("task_count") > known.get(region.id, 0):
                found[region.id] = view.unsigned("task_count") - known.get(region.id, 0)
        return found

    def threadprivate_copies(self) -> Sequence[tuple[int, int]]:
        """Return none: libgomp keeps no copies."""
        return ()

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
