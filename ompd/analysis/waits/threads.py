"""Nodes of threads, and what all other nodes are hung on."""

from __future__ import annotations

from collections.abc import Sequence

from ompd.analysis.graph import Need, Node, Outlook, WaitGraph
from ompd.analysis.moment import Moment
from ompd.analysis.words import of_thread
from ompd.model import SystemWait, ThreadRecord, Wait
from ompd.model.kinds import EdgeKind, Kind

_RELEASED = "what it sleeps on has changed: it is free to go on"


class ThreadNodes:
    """The threads of a moment as nodes of a graph.

    ``threads`` has the node of each native id, ``rows`` the record of each thread's node, ``waiting`` the node of what
    each waiting thread's node waits for. ``has_loose_tasks`` says that there is a task of which it is not known who
    executes it, or what it waits for: whoever looks for tasks may have taken it just now. ``everybody`` is a node that
    is released as soon as any thread goes on: whoever may do what nobody is recorded to do is one of them.
    """

    def __init__(self, moment: Moment) -> None:
        self.moment = moment
        self.graph = WaitGraph()
        self.threads: dict[int, int] = {}
        self.rows: dict[int, ThreadRecord] = {}
        self.waiting: dict[int, int] = {}
        self.has_loose_tasks = False
        self.by_region: dict[str | None, list[int]] = {}
        graph = self.graph
        for row in moment.threads:
            index = graph.add(self._thread_node(row))
            self.rows[index] = row
            self.by_region.setdefault(row.parallel, []).append(index)
            if row.native_thread_id is not None:
                self.threads[row.native_thread_id] = index
        self.everybody = graph.add(Node("everybody", Kind.TEAM, "any thread"))
        members = list(self.rows)
        if moment.outside or not moment.has_all_threads:
            reason = "; ".join(moment.outside) or "the target does not name all threads of the process"
            members.append(self.outside(reason))
        self._members = members
        self._doubts: set[int] = set()
        for native, index in self.threads.items():
            if native in moment.signals:
                self.doubt(index, moment.signals[native])
            if native in moment.cancels:
                graph.rescue(index, self.everybody, moment.cancels[native])

    def close(self) -> None:
        """End the graph, once it has all waits: what any thread may do, one that is awake may be about to do.

        A thread that waits for what is not known, and was not seen to sleep, may have what it waits for already. One
        that executes tasks where it waits may do anything in them, though its own wait never ends.
        """
        goes_on = (Outlook.RUNS, Outlook.UNKNOWN)
        # A doubt counts by the nodes that it may set free.
        others = (n for n, node in enumerate(self.graph.nodes) if node.outlook in goes_on and n not in self._doubts)
        members = list(dict.fromkeys((*self._members, *others)))
        if any(self._may_go_on(index) for index in self.rows):
            reason = "whether all threads that wait sleep is not known"
            members.append(
                self.graph.add(Node("awake", Kind.OUTSIDE, "a thread that is awake", Outlook.UNKNOWN, reason=reason))
            )
        self.graph.need(self.everybody, Need(tuple(members), 1, EdgeKind.MEMBER, "derived"))

    def _may_go_on(self, index: int) -> bool:
        row = self.rows[index]
        if self.graph.nodes[index].outlook is not Outlook.WAITS or self.is_asleep(row):
            return False
        if row.native_thread_id in self.moment.queued:
            return False
        if self.has_loose_tasks and row.wait is not None and row.wait.kind.is_scheduling_point:
            return True
        # Of which something is known that it needs first, does wait.
        needs = self.graph.needs[self.waiting.get(index, index)]
        return bool(needs) and all(self.everybody in need.targets for need in needs)

    def is_asleep(self, row: ThreadRecord) -> bool:
        """Return whether a thread sleeps in the kernel, and what it sleeps on has not changed."""
        how = row.wait.how if row.wait is not None else self.moment.how.get(row.native_thread_id or 0)
        return how == "blocked"

    def is_inside_runtime(self, index: int) -> bool:
        """Return whether the thread with a node goes on in the runtime's own code."""
        row = self.rows[index]
        return self.graph.nodes[index].outlook is Outlook.RUNS and row.wait is None and row.state == "overhead"

    def outside(self, reason: str) -> int:
        """Return the node of whatever is outside of the process."""
        return self.graph.add(Node("outside", Kind.OUTSIDE, "the outside", Outlook.UNKNOWN, reason=reason))

    def doubt(self, index: int, reason: str) -> None:
        """Let a node go on, too, if what is not known turns out well: by a signal, or since it is about to go on."""
        node = self.graph.add(Node(f"doubt:{reason}", Kind.OUTSIDE, "what is not known", Outlook.UNKNOWN))
        self._doubts.add(node)
        self.graph.rescue(index, node, reason)

    def _thread_node(self, row: ThreadRecord) -> Node:
        native = row.native_thread_id
        key = f"thread:{native}" if native is not None else f"thread@{row.address or 0:#x}"
        outlook, reason = self._outlook(row)
        return Node(key, Kind.THREAD, of_thread(row), outlook, native, row.address, reason=reason)

    def _outlook(self, row: ThreadRecord) -> tuple[Outlook, str | None]:
        native = row.native_thread_id
        if row.wait is not None:
            return _outlook_of_wait(row.wait)
        if row.runtime is None and "runtime" in row.unavailable:
            return Outlook.UNKNOWN, row.unavailable["runtime"]
        if row.runtime is not None and row.state is None and not self._sleeps(native):
            return Outlook.UNKNOWN, row.unavailable.get("state", "its state is not known")
        if "wait" in row.unavailable and not self._sleeps(native):
            return Outlook.UNKNOWN, row.unavailable["wait"]
        if row.state == "idle":
            return _outlook_in_no_team(row)
        if native is None or native in self.moment.unread:
            return Outlook.UNKNOWN, self.moment.unread.get(
                native or 0, "which thread of the process it is, is not known"
            )
        wait = self.moment.system.get(native)
        if wait is None:
            return Outlook.RUNS, None
        outlook, reason = _outlook_of_system(wait)
        if outlook is Outlook.WAITS and self.moment.how.get(native) == "released":
            return Outlook.UNKNOWN, _RELEASED
        if outlook is Outlook.WAITS and wait.pool is not None:
            reason = f"it waits for work from {wait.pool}"
        return outlook, reason

    def is_idle(self, index: int) -> bool:
        """Return whether the thread with a node waits for work in a pool, OpenMP's or that of another library."""
        row = self.rows[index]
        wait = self.moment.system.get(row.native_thread_id or 0)
        return row.state == "idle" or (wait is not None and wait.pool is not None)

    def is_of_openmp(self, index: int) -> bool:
        """Return whether the thread with a node is OpenMP's, or may be."""
        row = self.rows[index]
        return row.runtime is not None or "runtime" in row.unavailable

    def _sleeps(self, native: int | None) -> bool:
        # What the runtime does not say of it, the C library may.
        wait = self.moment.system.get(native or 0)
        return wait is not None and _outlook_of_system(wait)[0] is Outlook.WAITS

    def ended(self, native: int | None) -> int:
        """Return the node of a thread that the process does not have, or whose end is unknown."""
        if not self.moment.has_all_threads or native is None:
            reason = "the target does not say which thread it is" if native is None else "the target has no such thread"
            return self.graph.add(
                Node(f"thread:{native}", Kind.THREAD, f"thread {native}", Outlook.UNKNOWN, native, reason=reason)
            )
        return self.graph.add(
            Node(f"thread:{native}", Kind.THREAD, f"thread {native}", Outlook.NEVER, native, reason="it has ended")
        )

    def thread(self, native: int | None) -> int:
        """Return the node of a thread by its native id."""
        found = self.threads.get(native) if native is not None else None
        return found if found is not None else self.ended(native)

    def unknown(self, evidence: str, reasoned: Sequence[int] = (), reasoning: str | None = None) -> Need:
        """Return the need of something that any thread may do, nobody known to."""
        return Need(
            (self.everybody,),
            1,
            EdgeKind.HELD_BY,
            "derived",
            evidence,
            is_known=False,
            reasoned=tuple(reasoned),
            reasoning=reasoning,
        )

    def waits_for(self, index: int, target: int, *, source: str = "runtime", evidence: str | None = None) -> None:
        """Let the thread with a node wait for a node."""
        self.waiting[index] = target
        self.graph.need(index, Need((target,), 1, EdgeKind.WAITS_FOR, source, evidence))


def _outlook_in_no_team(row: ThreadRecord) -> tuple[Outlook, str | None]:
    # A thread of the pool; or one that enters or leaves a team just now, or whose record is damaged. The pool has
    # workers alone, and they have none of the program's code on their stacks.
    if row.where is not None:
        return Outlook.UNKNOWN, "it is in no team by the runtime's records, and in the code of the program"
    if "where" in row.unavailable:
        return Outlook.UNKNOWN, row.unavailable["where"]
    if row.thread_type != "worker":
        return Outlook.UNKNOWN, "it is in no team by the runtime's records, and is not known to be a worker"
    return Outlook.WAITS, None


def _outlook_of_wait(wait: Wait) -> tuple[Outlook, str | None]:
    if wait.how == "released":
        return Outlook.RUNS, _RELEASED
    if wait.kind is Kind.BARRIER and wait.missing == () and wait.unfinished_tasks == 0:
        return Outlook.RUNS, "all have arrived, and no task is left"
    if wait.kind is Kind.TARGET:
        return Outlook.UNKNOWN, "it waits for a device"
    return Outlook.WAITS, None


def call_name(wait: SystemWait) -> str:
    """Return what the text calls a call that ends by itself or from outside: with its other side, if it is known."""
    routine = wait.routine if wait.routine != "syscall" else None
    name = routine or wait.system_call or "a call of the kernel"
    if wait.peer is None:
        return name
    link = {Kind.CHILD: "for ", Kind.IO: "of "}.get(wait.kind, "")
    return f"{name} {link}{wait.peer}"


def _outlook_of_system(wait: SystemWait) -> tuple[Outlook, str | None]:
    if wait.kind.ends_from_outside:
        return Outlook.UNKNOWN, f"it is in {call_name(wait)}"
    if wait.kind is Kind.GIL or (wait.is_timed is False and wait.is_shared is False):
        return Outlook.WAITS, None
    name = call_name(wait)
    if wait.is_timed:
        return Outlook.UNKNOWN, f"it is in {name}, which has a time limit"
    if wait.is_timed is None:
        return Outlook.UNKNOWN, f"it is in {name}, and whether that has a time limit is not known"
    if wait.owner is not None and wait.is_owner_alive:
        return Outlook.WAITS, None  # nobody else lets go of it
    if wait.is_shared:
        return Outlook.UNKNOWN, f"it is in {name}, which another process may end"
    return Outlook.UNKNOWN, f"it is in {name}, and whether another process may end that is not known"
