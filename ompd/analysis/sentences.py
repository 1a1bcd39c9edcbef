"""Verdicts in one sentence each, and the command to type after them."""

from __future__ import annotations

from collections.abc import Sequence

from ompd.analysis.roots import End, Root, Solved
from ompd.analysis.words import counted, listed
from ompd.model import Link

_TASKS = frozenset(("event_unfulfilled", "taskwait_starved", "task_dependence_cycle"))
_RAW = frozenset(("external_wait", "runtime_reentry", "undecided", "lost_wakeup"))


class Sentences:
    """Sentences on one solved graph."""

    def __init__(self, solved: Solved) -> None:
        self._solved, self._graph, self._nodes = solved, solved.graph, solved.nodes

    def of(self, kind: str, root: Root, links: Sequence[Link]) -> str:
        """Return the summary of a verdict."""
        ring = " -> ".join([f"{self._thread(link)} waits for {link.object}" for link in links[:6]])
        count = len(root.threads)
        waiting = f"{counted(count, 'thread')} {'waits' if count == 1 else 'wait'} for"
        last = self._graph.nodes[root.nodes[0]]
        names = listed([self._graph.nodes[node].name for node in root.nodes])
        if kind == "lock_cycle" and self._is_open(root):
            objects = ", ".join(dict.fromkeys(link.object for link in links[:6]))
            return f"deadlock: {counted(len(links), 'thread')} hold among themselves what they wait for: {objects}"
        if kind == "lock_cycle":
            return f"deadlock: {ring}" + (" -> …" if len(links) > 6 else f" -> {self._thread(links[0])}")
        if kind == "self_lock":
            return f"{self._thread(links[0])} waits for {links[0].object}, which it holds itself"
        if kind == "barrier_mismatch":
            return f"the threads of one region wait at different barriers: {ring}"
        if kind == "runtime_reentry":
            return f"{self._thread(links[0])} waits inside of the runtime for {links[0].object}, which it holds itself"
        if kind == "barrier_absent":
            return f"{waiting} {names}, which will not come" + (f": {last.reason}" if last.reason else "")
        if kind == "fork_child":
            return f"{waiting} threads that fork() did not copy into this process"
        if kind == "lock_abandoned":
            return f"{waiting} {self._before(root)}, which nobody is left to release"
        if kind == "event_unfulfilled":
            return f"{waiting} a task whose {last.name} nobody has fulfilled"
        if kind == "taskwait_starved":
            return f"{waiting} tasks that no thread can execute: {ring}"
        if kind == "task_dependence_cycle":
            return f"tasks depend on each other in a circle: {ring}"
        if kind == "external_wait":
            why = f", {last.reason}" if last.reason is not None and root.end is End.OUTSIDE else ""
            return f"{waiting} {names}{why}"
        if kind == "laggard":
            return f"{waiting} {names}, which {'works' if len(root.nodes) == 1 else 'work'}"
        if kind == "oversubscribed":
            processors = counted(self._nodes.moment.processors or 0, "processor")
            return f"{waiting} {names} by spinning, and take from it the {processors} of the process"
        if kind == "orphaned_worksharing":
            return f"a barrier is inside of code that not all threads of its team execute: {ring}"
        if kind == "duplicate_runtimes":
            return f"threads of several OpenMP runtimes wait for each other: {ring}"
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

    def no_stall(self) -> str:
        """Return the sentence for a program in which nothing hangs."""
        rows = self._nodes.rows.values()
        working = sum(row.runtime is not None and row.wait is None and row.state != "idle" for row in rows)
        waiting = len(self._nodes.waiting)
        if not waiting:
            return f"nothing hangs: {counted(working, 'OpenMP thread')} at work, none waits"
        verb = "waits" if waiting == 1 else "wait"
        return f"nothing hangs: {counted(waiting, 'thread')} {verb} for {counted(working, 'thread')} at work"

    def what_if(self, root: Root) -> str | None:
        """Return what would set threads free, None if nothing can be said."""
        if root.end is End.CYCLE:
            objects = [node for node in root.nodes if self._graph.nodes[node].kind != "thread"]
            if not objects:
                return None
            freed = self._solved.freed(objects[:1])
            total = len(self._nodes.waiting)
            return (
                f"if {self._graph.nodes[objects[0]].name} were released, {len(freed)} of {total} waiting threads go on"
            )
        if root.end in (End.ENDED, End.OPEN, End.OUTSIDE):
            freed = self._solved.freed(root.nodes)
            if not freed:
                return None
            name = listed([self._graph.nodes[node].name for node in root.nodes])
            return f"if it were not for {name}, {len(freed)} of {len(self._nodes.waiting)} waiting threads would go on"
        return None

    @staticmethod
    def _thread(link: Link) -> str:
        if len(link.threads) > 1 and link.kind == "barrier":
            return counted(len(link.threads), "thread")
        number = f"thread {link.thread_num} " if link.thread_num is not None else "thread "
        return f"{number}({link.thread})" if link.thread_num is not None else f"{number}{link.thread}"


def next_step(kind: str, roots: Sequence[int]) -> str:
    """Return the next command to type; ``TARGET`` in it stands for the target.

    :param kind: the verdict's
    :param roots: the native ids of the threads on which the others depend, of those that the process has
    """
    if kind in _TASKS:
        return "ompd tasks TARGET"
    if kind == "duplicate_runtimes":
        return "ompd runtimes TARGET"
    if not roots or kind == "no_stall":
        return "ompd threads TARGET"
    # What the verdict shows already are user frames without variables.
    return f"ompd stack TARGET --thread {roots[0]} {'--raw' if kind in _RAW else '--locals'}"
