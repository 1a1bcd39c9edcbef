"""Verdicts in one sentence each, and the command to type after them."""

from __future__ import annotations

from collections.abc import Sequence

from ompd.analysis.roots import End, Root, Solved
from ompd.analysis.words import counted, listed, plural
from ompd.model import Link
from ompd.model.kinds import Kind, VerdictKind

_RAW = frozenset(
    (VerdictKind.EXTERNAL_WAIT, VerdictKind.RUNTIME_REENTRY, VerdictKind.UNDECIDED, VerdictKind.LOST_WAKEUP)
)

_HAPPENED = "what they wait for has happened"
# The participle for an object that sets its waiting threads free. A lock is released.
_DONE = {Kind.ONCE: "finished", Kind.EVENT: "fulfilled", Kind.CONDITION: "signalled"}


class Sentences:
    """Sentences on one solved graph."""

    def __init__(self, solved: Solved) -> None:
        self._solved, self._graph, self._nodes = solved, solved.graph, solved.nodes

    def of(self, kind: VerdictKind, root: Root, links: Sequence[Link]) -> str:
        """Return the summary of a verdict."""
        ring = " -> ".join([self._waits(link) for link in links[:6]])
        places = ", ".join(map(self._at, links[:6]))
        count = len(root.threads)
        waiting = f"{counted(count, 'thread')} {'waits' if count == 1 else 'wait'} for"
        last = self._graph.nodes[root.nodes[0]]
        named = [node for node in root.nodes if node in self._nodes.rows] if root.end is End.RUNS else root.nodes
        names = listed([self._graph.nodes[node].name for node in named])
        if kind is VerdictKind.LOCK_CYCLE and self._is_open(root):
            objects = ", ".join(dict.fromkeys(link.object for link in links[:6]))
            return f"deadlock: {counted(len(links), 'thread')} hold among themselves what they wait for: {objects}"
        if kind is VerdictKind.LOCK_CYCLE:
            return f"deadlock: {ring}" + (" -> …" if len(links) > 6 else f" -> {self._thread(links[0])}")
        if kind is VerdictKind.SELF_LOCK:
            return f"{self._thread(links[0])} waits for {links[0].object}, which it holds itself"
        if kind is VerdictKind.BARRIER_MISMATCH:
            return f"threads of one region wait at different barriers: {places}"
        if kind is VerdictKind.RUNTIME_REENTRY:
            return f"{self._thread(links[0])} waits inside of the runtime for {links[0].object}, which it holds itself"
        if kind is VerdictKind.BARRIER_ABSENT:
            reason = plural(last.reason or "") if len(named) > 1 else last.reason
            return f"{waiting} {names}, which will not come" + (f": {reason}" if reason else "")
        if kind is VerdictKind.FORK_CHILD:
            return f"{waiting} threads that fork() did not copy into this process"
        if kind is VerdictKind.LOCK_ABANDONED:
            name = self._before(root)
            if root.end is End.OPEN:
                return f"{waiting} {name}, and no thread that could release it goes on"
            return f"{waiting} {name}, which nobody is left to release"
        if kind is VerdictKind.EVENT_UNFULFILLED:
            return f"{waiting} a task whose {last.name} nobody has fulfilled"
        if kind is VerdictKind.TASKWAIT_STARVED:
            return f"{waiting} tasks that no thread can execute: {ring}"
        if kind is VerdictKind.TASK_DEPENDENCE_CYCLE:
            return f"tasks depend on each other in a circle: {ring}"
        if kind is VerdictKind.EXTERNAL_WAIT:
            return f"{waiting} {names}{_because(last.reason, is_plural=len(named) > 1)}"
        if kind is VerdictKind.LAGGARD:
            return f"{waiting} {names}, which {'works' if len(named) == 1 else 'work'}"
        if kind is VerdictKind.OVERSUBSCRIBED:
            number = self._nodes.moment.processors or 0
            processors = "only processor" if number == 1 else counted(number, "processor")
            take = "takes" if count == 1 else "take"
            return f"{waiting} {names} by spinning, and {take} from it the {processors} of the process"
        if kind is VerdictKind.ORPHANED_WORKSHARING:
            return f"a barrier is inside of code that not all threads of its team execute: {places}"
        if kind is VerdictKind.DUPLICATE_RUNTIMES:
            return f"threads of several OpenMP runtimes wait for each other: {ring}"
        if root.end is End.CYCLE:
            what = dict.fromkeys(self._graph.nodes[node].name for node in root.nodes if node not in self._nodes.rows)
            return f"{counted(count, 'thread')} wait for one another: each for {listed(list(what))}"
        return f"{waiting} {names}: what would set them free is not known"

    def _is_open(self, root: Root) -> bool:
        # Which of them holds which is not known.
        return any(len(need.reasoned) > 1 for node in root.nodes for need in self._graph.needs[node])

    def _before(self, root: Root) -> str:
        if root.end is End.OPEN:
            return self._graph.nodes[root.nodes[0]].name
        for thread in root.threads:
            target = self._nodes.waiting[thread]
            if set(root.nodes) & set(self._solved.next[target]):
                return self._graph.nodes[target].name
        return "a lock"

    @staticmethod
    def asleep(count: int) -> str:
        """Return the sentence for threads that sleep though what they wait for has happened."""
        return f"{counted(count, 'thread')} could go on, and {'sleeps' if count == 1 else 'sleep'}"

    def nobody_works(self, nodes: Sequence[int]) -> str:
        """Return the sentence for threads that all are in calls which end from outside."""
        names = listed([self._graph.nodes[node].name for node in nodes])
        reasons = list(dict.fromkeys(self._graph.nodes[node].reason or "" for node in nodes))
        what = reasons[0].removeprefix("it is in ") if len(reasons) == 1 else "calls that end from outside"
        return f"no thread works: {names} {'is' if len(nodes) == 1 else 'are'} in {what}"

    def no_stall(self, waiting: int) -> str:
        """Return the sentence for a program in which nothing hangs.

        :param waiting: how many threads wait
        """
        rows = self._nodes.rows.values()
        working = sum(
            row.runtime is not None and row.wait is None and not self._nodes.is_idle(index)
            for index, row in self._nodes.rows.items()
        )
        if not waiting and not any(row.runtime is not None for row in rows):
            return f"nothing hangs: {counted(len(rows), 'thread')} at work, of which none has begun with OpenMP"
        if not waiting:
            return f"nothing hangs: {counted(working, 'OpenMP thread')} at work, none waits"
        if not working:
            why = "their tasks are complete, or can be executed" if self._nodes.moment.tasks else _HAPPENED
            return f"nothing hangs: {counted(waiting, 'thread')} will go on: {why}"
        verb = "waits" if waiting == 1 else "wait"
        return f"nothing hangs: {counted(waiting, 'thread')} {verb} for {counted(working, 'thread')} at work"

    def what_if(self, root: Root) -> str | None:
        """Return what would set threads free, None if nothing can be said."""
        if root.end is End.CYCLE:
            objects = [node for node in root.nodes if self._graph.nodes[node].kind is not Kind.THREAD]
            if not objects:
                return None
            total = len(self._nodes.waiting)
            held = [node for node in objects if self._graph.nodes[node].kind.is_lock]
            if not held:
                freed = self._solved.freed(objects)
                if freed is None:
                    return None
                is_met = all(self._graph.nodes[node].kind is Kind.BARRIER for node in objects)
                how = "all came to one barrier" if is_met else "this circle were broken"
                return f"if {how}, {freed} of {total} waiting threads would go on"
            freed = self._solved.freed(held[:1])
            if freed is None:
                return None
            lock = self._graph.nodes[held[0]]
            return f"if {lock.name} were {_done(lock.kind)}, {freed} of {total} waiting threads go on"
        if root.end in (End.ENDED, End.OPEN, End.OUTSIDE):
            freed = self._solved.freed(root.nodes)
            if not freed:
                return None
            name = listed([self._graph.nodes[node].name for node in root.nodes])
            total = len(self._nodes.waiting)
            done = _done(self._graph.nodes[root.nodes[0]].kind) if root.end is End.OPEN else None
            if done is not None:
                return f"if {name} were {done}, {freed} of {total} waiting threads would go on"
            return f"if it were not for {name}, {freed} of {total} waiting threads would go on"
        return None

    def _waits(self, link: Link) -> str:
        is_many = len(link.threads) > 1 and link.kind is Kind.BARRIER
        how = "at" if link.kind.is_place else "for"
        return f"{self._thread(link)} {'wait' if is_many else 'waits'} {how} {link.object}"

    def _at(self, link: Link) -> str:
        where = link.where
        if where is None or where.file is None or where.line is None:
            return f"{self._thread(link)} at {link.object}"
        return f"{self._thread(link)} at {where.file.rpartition('/')[2]}:{where.line}"

    @staticmethod
    def _thread(link: Link) -> str:
        if len(link.threads) > 1 and link.kind is Kind.BARRIER:
            return counted(len(link.threads), "thread")
        return link.name


def _because(reason: str | None, *, is_plural: bool) -> str:
    if reason is None:
        return ""
    if not reason.startswith("it "):
        return f": {reason}"
    return f", which {plural(reason).removeprefix('they ') if is_plural else reason[3:]}"


def _done(kind: Kind) -> str | None:
    return _DONE.get(kind, "released" if kind.is_lock else None)


def next_step(kind: VerdictKind, roots: Sequence[int]) -> str:
    """Return the next command to type; ``TARGET`` in it stands for the target.

    :param kind: the verdict's
    :param roots: the native ids of the threads on which the others depend, of those that the process has
    """
    if kind.is_about_tasks:
        return "ompd tasks TARGET"
    if kind is VerdictKind.DUPLICATE_RUNTIMES:
        return "ompd runtimes TARGET"
    if not roots or kind is VerdictKind.NO_STALL:
        return "ompd threads TARGET"
    # The verdict already shows user frames, but without variables.
    return f"ompd stack TARGET --thread {roots[0]} {'--raw' if kind in _RAW else '--locals'}"
