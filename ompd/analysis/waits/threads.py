"""The threads of a moment as nodes, to which other nodes are linked."""

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

    Nodes are given as indices into ``graph``. ``threads`` maps a thread's native id to its node. ``rows`` maps this
    node to the thread's record. ``waiting`` maps the node of a waiting thread to the node for which it waits.
    ``everybody`` is a node that is released as soon as any thread goes on; needs have it as their target if no record
    shows which thread can meet them. ``has_loose_tasks`` is whether the thread or the wait of some task is unknown:
    any thread that looks for tasks may just have taken that task.
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
        """Add the members of ``everybody``. To be called once the graph has all waits.

        They include one more node, ``awake``, if any thread may be about to go on. A thread may go on if its wait is
        unknown, unless it sleeps. It may also go on if it executes tasks while it waits: a task can do anything, even
        if the wait never ends.
        """
        goes_on = (Outlook.RUNS, Outlook.UNKNOWN)
        # The nodes of doubts are left out: a doubt releases ``everybody`` only through the nodes that it sets free.
        going = (n for n, node in enumerate(self.graph.nodes) if node.outlook in goes_on and n not in self._doubts)
        members = list(dict.fromkeys((*self._members, *going)))
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
        if row.native_thread_id in self.moment.queued or self.spins(row):
            return False
        if self.has_loose_tasks and row.wait is not None and row.wait.kind.is_scheduling_point:
            return True
        # A thread with a known need does wait.
        needs = self.graph.needs[self.waiting.get(index, index)]
        return bool(needs) and all(self.everybody in need.targets for need in needs)

    def is_asleep(self, row: ThreadRecord) -> bool:
        """Return whether a thread sleeps in the kernel on a futex word that has not changed."""
        how = row.wait.how if row.wait is not None else self.moment.how.get(row.native_thread_id or 0)
        return how == "blocked"

    def spins(self, row: ThreadRecord) -> bool:
        """Return whether a thread is in a loop of the program that only a change of a word in memory ends."""
        wait = self.moment.system.get(row.native_thread_id or 0)
        return row.wait is None and wait is not None and wait.kind is Kind.SPIN

    def is_inside_runtime(self, index: int) -> bool:
        """Return whether the thread of a node runs in the runtime's own code."""
        row = self.rows[index]
        return self.graph.nodes[index].outlook is Outlook.RUNS and row.wait is None and row.state == "overhead"

    def outside(self, reason: str) -> int:
        """Return the node that stands for everything outside of the process."""
        return self.graph.add(Node("outside", Kind.OUTSIDE, "the outside", Outlook.UNKNOWN, reason=reason))

    def doubt(self, index: int, reason: str) -> None:
        """Let a node go on if something unknown turns out well, for example if a signal comes.

        This holds in the optimistic view only.
        """
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
        """Return whether the thread of a node waits for work in a pool, of OpenMP or of another library."""
        row = self.rows[index]
        wait = self.moment.system.get(row.native_thread_id or 0)
        return row.state == "idle" or (wait is not None and wait.pool is not None)

    def is_of_openmp(self, index: int) -> bool:
        """Return whether the thread of a node belongs to OpenMP, or may belong to it."""
        row = self.rows[index]
        return row.runtime is not None or "runtime" in row.unavailable

    def _sleeps(self, native: int | None) -> bool:
        # Return whether the thread waits by its call of the C library. The runtime may have no record of this wait.
        wait = self.moment.system.get(native or 0)
        return wait is not None and _outlook_of_system(wait)[0] is Outlook.WAITS

    def ended(self, native: int | None) -> int:
        """Return the node of a thread that is missing from the process.

        Its outlook is NEVER, because the thread has ended. It is UNKNOWN if the target may lack threads, or if *native*
        is None.
        """
        if not self.moment.has_all_threads or native is None:
            reason = "the target does not say which thread it is" if native is None else "the target has no such thread"
            return self.graph.add(
                Node(f"thread:{native}", Kind.THREAD, f"thread {native}", Outlook.UNKNOWN, native, reason=reason)
            )
        return self.graph.add(
            Node(f"thread:{native}", Kind.THREAD, f"thread {native}", Outlook.NEVER, native, reason="it has ended")
        )

    def thread(self, native: int | None) -> int:
        """Return the node of the thread with the native id *native*, as by :meth:`ended` if the process lacks it."""
        index = self.threads.get(native) if native is not None else None
        return index if index is not None else self.ended(native)

    def unknown(self, evidence: str, reasoned: Sequence[int] = (), reasoning: str | None = None) -> Need:
        """Return a need for which the target thread is unknown: any thread may meet it.

        :param evidence: why the thread is unknown
        :param reasoned: the nodes that likely meet the need
        :param reasoning: why they are likely
        """
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
        """Let the thread of node *index* wait for node *target*."""
        self.waiting[index] = target
        self.graph.need(index, Need((target,), 1, EdgeKind.WAITS_FOR, source, evidence))


def _outlook_in_no_team(row: ThreadRecord) -> tuple[Outlook, str | None]:
    # The thread is idle in the pool, or it is entering or leaving a team, or its record is damaged. It is taken as
    # idle only if it is a worker without the program's code on its stack.
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
    """Return the name of a call that ends by itself or from outside, with the call's other side if it is known."""
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
        return Outlook.WAITS, None  # only the owner can end the wait
    if wait.is_shared:
        return Outlook.UNKNOWN, f"it is in {name}, which another process may end"
    return Outlook.UNKNOWN, f"it is in {name}, and whether another process may end that is not known"
