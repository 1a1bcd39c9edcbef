"""Builds the wait-for graph of one moment: waiting threads, the objects of their waits, and what can end the waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from ompd.analysis.graph import Need, Node, Outlook
from ompd.analysis.moment import Moment
from ompd.analysis.waits.holders import Holders
from ompd.analysis.waits.others import Others
from ompd.analysis.waits.systems import add_system_wait
from ompd.analysis.waits.tasks import TaskNodes
from ompd.analysis.waits.threads import ThreadNodes
from ompd.analysis.words import counted, plural
from ompd.model import SystemWait, ThreadRecord, Wait
from ompd.model.kinds import EdgeKind, Kind


def build(moment: Moment) -> ThreadNodes:
    """Return the wait-for graph of a moment."""
    nodes = ThreadNodes(moment)
    waits = _Waits(nodes)
    waits.add_all()
    waits.tasks.add_others()
    nodes.close()
    waits.tasks.settle()
    return nodes


class _Waits:
    """Adds the waits of one moment's threads to a graph."""

    def __init__(self, nodes: ThreadNodes) -> None:
        self._nodes, self._graph, moment = nodes, nodes.graph, nodes.moment
        self._barriers: dict[tuple[str | None, int], tuple[int, tuple[int, ...]]] = {}
        self._holders = Holders(moment)
        self.tasks = TaskNodes(nodes)
        self._others = Others(nodes, self.tasks)

    def add_all(self) -> None:
        nodes, graph = self._nodes, self._graph
        for index, row in list(nodes.rows.items()):
            if graph.nodes[index].outlook is not Outlook.WAITS:
                continue
            if row.wait is not None:
                self._wait(index, row, row.wait)
            elif nodes.is_idle(index):
                # Only another thread can wake up an idle thread: by giving it work, or by ending.
                graph.need(index, Need((nodes.everybody,), 1, EdgeKind.WAITS_FOR, "derived", "idle in the pool"))
            elif row.runtime is not None and self._is_in_fork(row):
                nodes.waits_for(index, self._lost(row, "the runtime's own synchronization"))
            elif row.runtime is not None and row.state is None and self._system_wait(row).owner is None:
                nodes.waits_for(index, self._inside(row), source="stack")
            else:
                add_system_wait(nodes, index, self._system_wait(row), self._holders, self._others)

    def _system_wait(self, row: ThreadRecord) -> SystemWait:
        return self._nodes.moment.system[row.native_thread_id or 0]

    def _inside(self, row: ThreadRecord) -> int:
        # Return the node for the wait of a thread that sleeps in the runtime for an unknown reason. Likely it waits for
        # the members of its team without a recorded wait.
        nodes = self._nodes
        node = self._graph.add(Node(f"inside:{row.native_thread_id}", Kind.CALL, "its team, inside of the runtime"))
        if not self._graph.needs[node]:
            team = nodes.by_region.get(row.parallel, []) if row.parallel is not None else []
            others = [index for index in team if nodes.rows[index].wait is None and nodes.rows[index] is not row]
            reason = "the other members of its team are elsewhere" if others else None
            why = row.unavailable.get("state", "its state is not known")
            self._graph.need(node, nodes.unknown(why, others, reason))
        return node

    def _is_in_fork(self, row: ThreadRecord) -> bool:
        # Return whether the runtime waits for threads that only the parent process has.
        moment = self._nodes.moment
        is_futex = self._system_wait(row).kind is Kind.FUTEX
        return (
            moment.is_fork and is_futex and row.state == "overhead" and bool(self._lost_members.get(row.parallel or ""))
        )

    def _wait(self, index: int, row: ThreadRecord, wait: Wait) -> None:
        if wait.kind is Kind.BARRIER:
            self._barrier(index, row, wait)
        elif wait.kind.is_task:
            self._nodes.waits_for(index, self.tasks.wait(row, wait))
        elif wait.kind.is_lock:
            self._lock(index, row, wait)
        elif wait.kind is Kind.DOACROSS:
            self._doacross(index, row, wait)
        else:
            name = wait.kind.noun or wait.kind
            node = self._graph.add(Node(f"{wait.kind}:{row.native_thread_id}", wait.kind.node, name))
            self._graph.need(node, self._nodes.unknown("nothing records what it waits for"))
            self._nodes.waits_for(index, node)

    def _doacross(self, index: int, row: ThreadRecord, wait: Wait) -> None:
        # Only the thread that executes an iteration can report it as done, and that thread is a member of the team.
        nodes, graph = self._nodes, self._graph
        iteration = wait.symbol or "an iteration"
        key = f"{wait.object:#x}:{iteration}" if wait.object is not None else str(row.native_thread_id)
        name = f"{iteration} of a doacross loop"
        node = graph.add(Node(f"doacross:{key}", Kind.DOACROSS, name, object=wait.object))
        nodes.waits_for(index, node, source="runtime" if wait.object is not None else "stack")
        if graph.needs[node]:
            return
        team = nodes.by_region.get(row.parallel, []) if row.parallel is not None else []
        if wait.owner is not None:
            why = "the loop's schedule is static"
            source = wait.owner_source or "runtime"
            graph.need(node, Need((nodes.thread(wait.owner),), 1, EdgeKind.HELD_BY, source, why))
        elif len(team) == row.team_size:
            others = [member for member in team if member != index]
            graph.need(node, self._need_of_iteration(wait, others))
            if wait.iteration is not None:
                return
        else:
            graph.need(node, nodes.unknown("nothing records who executes it"))
            return
        if wait.owner_source != "runtime" and (wait.object is None or wait.owner_source is not None):
            nodes.doubt(node, f"{name}: whether it is done is not known")

    def _need_of_iteration(self, wait: Wait, others: Sequence[int]) -> Need:
        # Return the need for the member of the team that executes the awaited iteration, one of *others*.
        rows = self._nodes.rows
        # A member at a barrier has left the loop already, so it does not execute the iteration.
        in_loop = {member: rows[member].wait for member in others if not _is_at(Kind.BARRIER, rows[member].wait)}
        if wait.iteration is not None:
            possible = tuple(member for member, its_wait in in_loop.items() if not _is_beyond(its_wait, wait))
            why = "the other members have left the loop, or execute later iterations"
            if not possible:
                possible, why = tuple(others), "all members have left the loop, or execute later iterations"
            return Need(possible, 1, EdgeKind.HELD_BY, "derived", why)
        # A thread that itself waits for an iteration likely executes a later iteration.
        at_work = tuple(member for member, its_wait in in_loop.items() if not _is_at(Kind.DOACROSS, its_wait))
        reason = "who executes an iteration is not recorded"
        if len(at_work) == 1:
            why = "all others of its team have left the loop, or wait for an iteration"
            need = self._nodes.unknown(reason, at_work, why)
        else:
            need = self._nodes.unknown(reason)
        return replace(need, targets=tuple(in_loop))

    def _barrier(self, index: int, row: ThreadRecord, wait: Wait) -> None:
        graph, missing = self._graph, wait.missing
        if missing is None:
            self._nodes.waits_for(index, self._barrier_of_some(row, wait))
            return
        # Threads at one barrier usually share the tuple of missing members, so its identity is tried first.
        entry = self._barriers.get((row.parallel, id(missing)))
        if entry is None:
            key = f"barrier:{row.runtime}:{row.parallel}:{','.join(map(str, missing[:2]))}:{wait.arrived}"
            is_new = graph.find(key) is None
            node = graph.add(Node(key, Kind.BARRIER, barrier_name(row)))
            self._barriers[row.parallel, id(missing)] = node, missing
            if is_new:
                self._needs_of_barrier(node, row, wait, missing)
        else:
            node = entry[0]
        if graph.nodes[node].name != barrier_name(row):
            graph.rename(node, _ANY_BARRIER)  # several constructs share the barrier
        self._nodes.waits_for(index, node, evidence=f"{wait.arrived} of {wait.expected} have arrived")

    def _barrier_of_some(self, row: ThreadRecord, wait: Wait) -> int:
        # Return the node of a barrier if it is unknown which members have arrived. Members that have ended, or that
        # fork() did not copy, will never arrive.
        graph = self._graph
        if wait.how == "blocked" and self._lost_members.get(row.parallel or ""):
            return self._lost(row, barrier_name(row))
        name = barrier_name(row)
        key = f"{row.parallel}:{wait.object:#x}:{name}" if wait.object is not None else row.native_thread_id
        node = graph.add(Node(f"barrier:{row.runtime}:{key}", Kind.BARRIER, name))
        if not graph.needs[node]:
            reason = row.unavailable.get("wait.missing", "who is missing is not known")
            graph.need(node, self._nodes.unknown(f"who has arrived at the barrier is not known: {reason}"))
        return node

    def _lost(self, row: ThreadRecord, name: str) -> int:
        graph, count = self._graph, self._lost_members[row.parallel or ""]
        node = graph.add(Node(f"barrier:{row.parallel}:{row.state}", Kind.BARRIER, name))
        if not graph.needs[node]:
            members = f"{counted(count, 'other thread')} of the team"
            reason = "it was not copied by fork()" if self._nodes.moment.is_fork else "it has ended"
            reason = reason if count == 1 else plural(reason)
            ended = graph.add(Node(f"lost:{row.parallel}", Kind.THREAD, members, Outlook.NEVER, reason=reason))
            graph.need(node, Need((ended,), 1, EdgeKind.MEMBER, "runtime", row.unavailable.get("wait.missing")))
        return node

    @cached_property
    def _lost_members(self) -> dict[str, int]:
        # How many members of a team are missing from the process, by region. Empty if that is uncertain.
        moment = self._nodes.moment
        regions = moment.regions or ()
        # A thread that cannot be read may be one of the missing members.
        has_unread = any("runtime" in row.unavailable or "thread_num" in row.unavailable for row in moment.threads)
        if not moment.has_all_threads or has_unread or self._has_newcomers() or self._has_strays():
            return {}
        # The runtime's own list of threads must have at least as many threads that have ended as members are missing.
        missing_of_runtime: Counter[str] = Counter()
        for region in regions:
            missing_of_runtime[region.runtime] += region.threads.count(None)
        if any(count > moment.gone.get(runtime, 0) for runtime, count in missing_of_runtime.items()):
            return {}
        # Teams with a member that is awake are left out: it may just be starting or ending threads.
        asleep = {row.native_thread_id for row in moment.threads if self._nodes.is_asleep(row)}
        return {region.id: region.threads.count(None) for region in regions if {*region.threads} - {None} <= asleep}

    def _has_strays(self) -> bool:
        # Return whether a thread may be a member with a damaged record: it has no runtime, or no region lists it.
        listed = {native for region in self._nodes.moment.regions or () for native in region.threads}
        return any(
            row.runtime is None or (row.parallel is not None and row.native_thread_id not in listed)
            for row in self._nodes.moment.threads
        )

    def _has_newcomers(self) -> bool:
        # Return whether a running thread is unknown to the runtimes. It may be about to become a member.
        nodes = self._nodes
        return any(
            row.runtime is None and nodes.graph.nodes[index].outlook is Outlook.RUNS
            for index, row in nodes.rows.items()
        )

    def _needs_of_barrier(self, node: int, row: ThreadRecord, wait: Wait, missing: tuple[int, ...]) -> None:
        graph = self._graph
        if missing:
            arrived = f"{wait.arrived} of {wait.expected} have arrived"
            targets = tuple(self._nodes.thread(native) for native in missing)
            unfinished = self._nodes.moment.unfinished.get(row.parallel or "", 0)
            if unfinished is None or unfinished > self.tasks.unfinished_in(row.parallel):
                self._nodes.has_loose_tasks = True
            graph.need(
                node,
                Need(targets, len(targets), EdgeKind.MEMBER, "runtime", arrived, address=wait.object, value=wait.value),
            )
            if row.runtime in self._nodes.moment.cancels_regions and len(targets) > 1:
                for target in targets:
                    graph.rescue(node, target, "cancellation is enabled: any member of the team may end the region")
            return
        if wait.unfinished_tasks is None:
            reason = row.unavailable.get("wait.unfinished_tasks", "not recorded")
            graph.need(node, self._nodes.unknown(f"how many tasks the team still has is not known: {reason}"))
        elif wait.unfinished_tasks:
            self.tasks.of_region(node, row, wait.unfinished_tasks)

    def _lock(self, index: int, row: ThreadRecord, wait: Wait) -> None:
        graph = self._graph
        kind = wait.kind.node
        if wait.object is None:
            node = graph.add(Node(f"{kind}:{row.native_thread_id}", kind, lock_name(wait)))
            reason = f"{lock_name(wait)}: which one it is, is not known"
            graph.need(node, self._nodes.unknown(reason, *self._turn(row, wait)))
            self._nodes.waits_for(index, node, source="stack")
            return
        key = f"lock:{wait.object:#x}"
        is_new = graph.find(key) is None
        node = graph.add(Node(key, kind, lock_name(wait), object=wait.object))
        if is_new:
            self._hold(node, row, wait)
        self._nodes.waits_for(index, node)

    def _hold(self, node: int, row: ThreadRecord, wait: Wait) -> None:
        graph = self._graph
        if wait.owner_gone is not None:
            self._hold_by_ended(node, wait, wait.owner_gone)
            return
        if wait.owner is not None:
            self._held_by(node, self._nodes.thread(wait.owner), wait, "its owner is recorded")
            if wait.owner_source != "runtime":
                doubt = "a search of the thread's registers and stack found it"
                if wait.owner == row.native_thread_id:
                    doubt = "its owner may have got it just now"
                self._nodes.doubt(node, f"{lock_name(wait)}: {doubt}")
            return
        reason = row.unavailable.get("wait.owner", "its owner is not recorded")
        holding = self._holders.of(wait, kind_of=wait.kind)
        reasoned = [self._nodes.threads[native] for native in holding.threads if native in self._nodes.threads]
        why = holding.reason
        if not reasoned and wait.kind is Kind.ORDERED:
            reasoned, why = self._turn(row, wait)
        if not reasoned and wait.kind is Kind.INTERNAL_LOCK:
            # The runtime's code holds the runtime's own locks only for moments.
            nodes = self._nodes
            reasoned = [i for i, r in nodes.rows.items() if nodes.is_inside_runtime(i) and r.runtime == row.runtime]
            why = "threads that are awake inside of the runtime may have set it" if reasoned else why
        graph.need(node, self._nodes.unknown(reason, reasoned, why))

    def _hold_by_ended(self, node: int, wait: Wait, reason: str) -> None:
        # The owner that is recorded in the lock has ended.
        owner = self._graph.add(Node(f"gone:{wait.object:#x}", Kind.THREAD, "its owner", Outlook.NEVER, reason=reason))
        if all(row.runtime is not None for row in self._nodes.rows.values()):
            self._held_by(node, owner, wait, reason)
            return
        # A thread that no runtime knows may be the owner: its record, which would show that, may be damaged.
        doubt = "a thread of the process that no runtime knows may be its owner"
        self._graph.need(node, self._nodes.unknown(doubt, [owner], reason))

    def _turn(self, row: ThreadRecord, wait: Wait) -> tuple[list[int], str | None]:
        # Return the thread whose iteration is next in an ordered loop. It is the only member of the team that neither
        # waits for its turn nor is at a barrier behind the loop.
        nodes = self._nodes
        team = nodes.by_region.get(row.parallel, []) if row.parallel is not None else []
        at_work = [index for index in team if not _is_done(nodes.rows[index].wait)]
        if wait.kind is not Kind.ORDERED or len(team) != row.team_size or len(at_work) != 1:
            return [], None
        return at_work, "all others of its team wait for their turn, or are at a barrier"

    def _held_by(self, node: int, holder: int, wait: Wait, why: str) -> None:
        source, address, value = wait.owner_source or "runtime", wait.owner_address, wait.owner_value
        self._graph.need(node, Need((holder,), 1, EdgeKind.HELD_BY, source, why, address=address, value=value))
        self._others.release(node, holder)
        self._others.release_by_untied(node)


_ENDS: Mapping[str | None, str] = {
    "loop": "a worksharing loop",
    "sections": "sections",
    "single": "single",
}  # by Wait.construct
_ANY_BARRIER = Kind.BARRIER.noun or ""
_IMPLICIT = {
    "wait_barrier_implicit_workshare": "the end of a worksharing construct",
    "wait_barrier_implicit": "an implicit barrier",
}


def _is_beyond(wait: Wait | None, awaited: Wait) -> bool:
    # Return whether a thread has passed the awaited iteration of the same loop. A thread executes its iterations in
    # order, and waits only for iterations before its own. So if it waits for iteration n, its own is later than n.
    if wait is None or wait.loop is None or wait.loop != awaited.loop:
        return False
    return wait.iteration is not None and awaited.iteration is not None and wait.iteration >= awaited.iteration


def _is_at(kind: Kind, wait: Wait | None) -> bool:
    return wait is not None and wait.kind is kind


def _is_done(wait: Wait | None) -> bool:
    return wait is not None and wait.kind in (Kind.ORDERED, Kind.BARRIER)


def barrier_name(row: ThreadRecord) -> str:
    """Return the name of a thread's barrier in texts. The barrier at the end of a region or construct is named so."""
    end = row.at_end_of
    if end is not None and end.file is not None and end.line is not None:
        return f"the end of {end.construct or 'a region'} {end.file.rpartition('/')[2]}:{end.line}"
    construct = row.wait.construct if row.wait is not None else None
    if construct in _ENDS:
        return f"the end of {_ENDS[construct]}"
    return _IMPLICIT.get(row.state or "", _ANY_BARRIER)


def lock_name(wait: Wait) -> str:
    """Return the name of a lock in texts: ``&b``, ``critical(name)``, ``a lock at 0x…``."""
    if wait.symbol is not None:
        return wait.symbol
    name = wait.kind.noun or wait.kind
    return name if wait.object is None else f"{name} at {wait.object:#x}"
