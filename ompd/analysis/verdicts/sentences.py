"""Verdicts in one sentence each, and the command to type after them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from ompd.analysis.roots import End, Root, Solved
from ompd.analysis.words import counted, listed, plural
from ompd.model import Link
from ompd.model.kinds import EdgeKind, Kind, VerdictKind

_RAW = frozenset(
    (VerdictKind.EXTERNAL_WAIT, VerdictKind.RUNTIME_REENTRY, VerdictKind.UNDECIDED, VerdictKind.LOST_WAKEUP)
)

_MOST = 6  # links in one sentence
_RELATIONS = {Kind.BARRIER: "has not reached", Kind.DOACROSS: "executes", Kind.ORDERED: "comes before"}
_HAPPENED = "what they wait for has happened"
# What has to happen to an object so that its waiting threads go on, as a participle. Locks are "released".
_DONE = {Kind.ONCE: "finished", Kind.EVENT: "fulfilled", Kind.CONDITION: "signalled"}


class Sentences:
    """Makes sentences on the verdicts of one solved graph."""

    def __init__(self, solved: Solved) -> None:
        self._solved, self._graph, self._nodes = solved, solved.graph, solved.nodes

    def of(self, kind: VerdictKind, root: Root, links: Sequence[Link]) -> str:
        """Return the summary of a verdict."""
        places = ", ".join(map(self._at, links[:_MOST]))
        count = len(root.threads)
        waiting = f"{counted(count, 'thread')} {'waits' if count == 1 else 'wait'} for"
        last = self._graph.nodes[root.nodes[0]]
        named = [node for node in root.nodes if node in self._nodes.rows] if root.end is End.RUNS else root.nodes
        names = listed([self._graph.nodes[node].name for node in named])
        if kind is VerdictKind.LOCK_CYCLE and self._is_open(root):
            objects = ", ".join(dict.fromkeys(link.object for link in links[:_MOST]))
            return f"deadlock: {counted(len(links), 'thread')} wait for locks that others of them hold: {objects}"
        if kind is VerdictKind.LOCK_CYCLE:
            return self._deadlock(links)
        if kind is VerdictKind.SELF_LOCK:
            return f"deadlock: {_thread(links[0])} waits for {links[0].object}, which it holds itself"
        if kind is VerdictKind.BARRIER_MISMATCH:
            return f"threads of one team wait at different barriers, so that no barrier has all its threads: {places}"
        if kind is VerdictKind.RUNTIME_REENTRY:
            return f"{_thread(links[0])} waits inside of the runtime for {links[0].object}, which it holds itself"
        if kind is VerdictKind.BARRIER_ABSENT:
            reason = plural(last.reason or "") if len(named) > 1 else last.reason
            return f"{waiting} {names}, which will never come" + (f": {reason}" if reason else "")
        if kind is VerdictKind.FORK_CHILD:
            return f"{waiting} threads that fork() did not copy into this process"
        if kind is VerdictKind.LOCK_ABANDONED:
            lock = self._awaited(root)
            direct = self._waiters_of(lock)
            who = listed([self._graph.nodes[node].name for node in direct])
            wait = f"{who} {'waits' if len(direct) == 1 else 'wait'} for {self._graph.nodes[lock].name}"
            if last.kind is not Kind.THREAD or len(root.nodes) > 1 or last.thread is None:
                return f"{wait}, which no thread will ever release"
            return f"{wait}, which was not released: {last.name} held it, and {last.reason or 'it is idle'}"
        if kind is VerdictKind.EVENT_UNFULFILLED:
            return (
                f"{waiting} a detached task: omp_fulfill_event() was not called for its {last.name.removeprefix('an ')}"
            )
        if kind is VerdictKind.TASKWAIT_STARVED:
            return f"{waiting} tasks that can no longer go on: {self._ring(links)}"
        if kind is VerdictKind.TASK_DEPENDENCE_CYCLE:
            return f"deadlock through tasks: {self._ring(links)}"
        if kind is VerdictKind.EXTERNAL_WAIT:
            return f"{waiting} {names}{_because(last.reason, is_plural=len(named) > 1)}"
        if kind is VerdictKind.SPIN_WAIT:
            return self._spin(root)
        if kind is VerdictKind.LAGGARD:
            return f"{waiting} {names}, which {'is' if len(named) == 1 else 'are'} still computing: slow, or in a loop"
        if kind is VerdictKind.OVERSUBSCRIBED:
            number = self._nodes.moment.processors or 0
            processors = "processor" if number == 1 else counted(number, "processor")
            spin = f"{counted(count, 'thread')} {'spins while it waits' if count == 1 else 'spin while they wait'}"
            return f"{spin} for {names}, which {'needs' if len(named) == 1 else 'need'} the same {processors}"
        if kind is VerdictKind.ORPHANED_WORKSHARING:
            return f"only some threads of the team reach a barrier: {places}"
        if kind is VerdictKind.DUPLICATE_RUNTIMES:
            return f"threads of several OpenMP runtimes wait for each other: {self._ring(links)}"
        if root.end is End.CYCLE:
            awaited = dict.fromkeys(self._graph.nodes[node].name for node in root.nodes if node not in self._nodes.rows)
            return f"{counted(count, 'thread')} wait for one another: each for {listed(list(awaited))}"
        if last.kind.is_lock:
            return f"{waiting} {names}, whose holder is not known"
        return f"{waiting} {names}: what lets them go on is not known"

    def _spin(self, root: Root) -> str:
        spinning = self._waiters_of(root.nodes[0])
        who = listed([self._graph.nodes[node].name for node in spinning])
        verb = "spins in a loop" if len(spinning) == 1 else "spin in loops"
        more = len(root.threads) - len(spinning)
        waiters = f"; {counted(more, 'more thread')} {'waits' if more == 1 else 'wait'} for this" if more > 0 else ""
        return f"{who} {verb} that only a change of {self._graph.nodes[root.nodes[0]].name} ends{waiters}"

    def _is_open(self, root: Root) -> bool:
        # Return whether a cycle of locks is open: it is unknown which thread of the cycle holds which lock.
        return any(len(need.reasoned) > 1 for node in root.nodes for need in self._graph.needs[node])

    def _deadlock(self, links: Sequence[Link]) -> str:
        # In a cycle of locks, each thread holds the object of the wait before its own.
        if not all(link.kind.is_lock and link.kind is not Kind.ORDERED for link in links):
            return f"deadlock: {self._ring(links)}"
        parts = [
            f"{_thread(link)} {_has(links[number - 1])} {links[number - 1].object} and waits for {link.object}"
            for number, link in enumerate(links[:_MOST])
        ]
        return f"deadlock: {'; '.join(parts)}" + ("; …" if len(links) > _MOST else "")

    @staticmethod
    def _ring(links: Sequence[Link]) -> str:
        # Each wait, and what one thread of the next link, the one that the wait depends on, has to do with its object.
        parts = []
        for link, following in zip(links[:_MOST], (*links[1:], links[0]), strict=False):
            if link.holder == EdgeKind.EXECUTES:
                parts.append(f"{_waits(link)} for a task that {following.name} has begun")
                continue
            relation = _RELATIONS.get(link.kind, _has(link) if link.kind.is_lock and link.holder is not None else "")
            parts.append(_waits(link) + (f", which {following.name} {relation}" if relation else ""))
        return "; ".join(parts) + ("; …" if len(links) > _MOST else "")

    def others(self, kind: VerdictKind, root: Root, links: Sequence[Link]) -> str | None:
        """Return a sentence on the threads that the summary of a verdict on locks does not name, None without any."""
        if kind is VerdictKind.LOCK_ABANDONED:
            named = set(self._waiters_of(self._awaited(root)))
        elif kind in (VerdictKind.LOCK_CYCLE, VerdictKind.SELF_LOCK):
            named = {self._nodes.threads[link.thread] for link in links if link.thread in self._nodes.threads}
        else:
            return None
        others = [node for node in root.threads if node not in named]
        if not others:
            return None
        rows = [self._nodes.rows[node] for node in others]
        targets = [self._graph.nodes[self._nodes.waiting[node]] for node in others]
        # The name of a barrier at the end of a region has its place.
        places = {
            (target.name, row.where if row.at_end_of is None else None)
            for target, row in zip(targets, rows, strict=True)
        }
        text = f"{counted(len(others), 'more thread')} {'waits' if len(others) == 1 else 'wait'}"
        text += " for this one" if len(named) == 1 else " for these"
        target, where = targets[0], rows[0].where
        if len(places) > 1:
            return text
        if target.kind.is_place and rows[0].at_end_of is not None:
            return f"{text} at {target.name}"
        if where is None or where.file is None or where.line is None:
            return f"{text} at {target.name}" if target.kind.is_place else text
        file = where.file.rpartition("/")[2]
        return f"{text} {f'at {target.name}, ' if target.kind.is_place else 'in '}{file}:{where.line}"

    def _awaited(self, root: Root) -> int:
        # Return the object at which the waits end, or for which threads wait directly before they come to a thread.
        if self._graph.nodes[root.nodes[0]].kind is not Kind.THREAD:
            return root.nodes[0]
        for thread in root.threads:
            target = self._nodes.waiting[thread]
            if set(root.nodes) & set(self._solved.next[target]):
                return target
        return self._nodes.waiting[root.threads[0]]

    def _waiters_of(self, node: int) -> list[int]:
        return [thread for thread, target in self._nodes.waiting.items() if target == node]

    @staticmethod
    def asleep(count: int) -> str:
        """Return the sentence for threads that still sleep, although the event that they wait for has happened."""
        verb, whose = ("sleeps", "its") if count == 1 else ("sleep", "their")
        return f"{counted(count, 'thread')} {verb} although {whose} wait is over"

    def nobody_works(self, nodes: Sequence[int]) -> str:
        """Return the sentence for a program whose threads are all in calls that something outside ends.

        :param nodes: the nodes of these threads
        """
        names = listed([self._graph.nodes[node].name for node in nodes])
        reasons = list(dict.fromkeys(self._graph.nodes[node].reason or "" for node in nodes))
        calls = reasons[0].removeprefix("it is in ") if len(reasons) == 1 else "calls that end from outside"
        return f"no thread works: {names} {'is' if len(nodes) == 1 else 'are'} in {calls}"

    def no_stall(self, waiting: int) -> str:
        """Return the sentence for a program in which nothing hangs.

        :param waiting: how many threads wait
        """
        rows, working = self._nodes.rows.values(), self._working
        if not waiting and not any(row.runtime is not None for row in rows):
            return f"no hang seen: {counted(len(rows), 'thread')} at work, of which none has begun with OpenMP"
        if not waiting:
            return f"no hang seen: {counted(working, 'OpenMP thread')}{self._at_work()}, none waits"
        if not working:
            why = "their tasks are complete, or can be executed" if self._nodes.moment.tasks else _HAPPENED
            return f"no hang seen: {counted(waiting, 'thread')} will go on: {why}"
        verb = "waits" if waiting == 1 else "wait"
        return f"no hang seen: {counted(waiting, 'thread')} {verb} for {counted(working, 'thread')} at work"

    @cached_property
    def _working(self) -> int:
        # How many OpenMP threads work.
        return sum(
            row.runtime is not None and row.wait is None and not self._nodes.is_idle(index)
            for index, row in self._nodes.rows.items()
        )

    @property
    def has_few_processors(self) -> bool:
        """Whether more OpenMP threads work than the process has processors, as far as these are known."""
        processors = self._nodes.moment.processors
        return processors is not None and self._working > processors

    def _at_work(self) -> str:
        processors = counted(self._nodes.moment.processors or 0, "processor")
        return f" take turns on {processors}" if self.has_few_processors else " at work"

    def what_if(self, root: Root) -> str | None:
        """Return the sentence on how many threads would go on if the root were resolved, None if that is unknown."""
        if root.end is End.CYCLE:
            objects = [node for node in root.nodes if self._graph.nodes[node].kind is not Kind.THREAD]
            if not objects:
                return None
            total = len(self._nodes.waiting)
            locks = [node for node in objects if self._graph.nodes[node].kind.is_lock]
            if not locks:
                freed = self._solved.freed(objects)
                if freed is None:
                    return None
                is_met = all(self._graph.nodes[node].kind is Kind.BARRIER for node in objects)
                how = "all came to one barrier" if is_met else "this circle were broken"
                return f"if {how}, {freed} of {total} waiting threads would go on"
            freed = self._solved.freed(locks[:1])
            if freed is None:
                return None
            lock = self._graph.nodes[locks[0]]
            return f"if {lock.name} were {_done(lock.kind)}, {freed} of {total} waiting threads go on"
        # _done() is None for objects that no thread releases. So nothing is said about a barrier, for example.
        ends = (self._awaited(root),) if root.end in (End.ENDED, End.OPEN) else root.nodes
        name = listed([self._graph.nodes[node].name for node in ends])
        done = _done(self._graph.nodes[ends[0]].kind) if root.end in (End.ENDED, End.OPEN) else "to go on"
        freed = self._solved.freed(ends) if done is not None and root.end is not End.RUNS else None
        if not freed:
            return None
        return f"if {name} were {done}, {freed} of {len(self._nodes.waiting)} waiting threads would go on"

    def _at(self, link: Link) -> str:
        where = link.where
        if where is None or where.file is None or where.line is None:
            return f"{_thread(link)} at {link.object}"
        return f"{_thread(link)} at {where.file.rpartition('/')[2]}:{where.line}"


_LONGEST = 40  # characters of a thread's activity


def doing(link: Link) -> str:
    """Return what all threads of a link do: ``thread 1 (4712) and 2 more wait for &a``, ``3 threads wait at a
    barrier``.
    """
    more = len(link.threads) - 1
    who = counted(more + 1, "thread") if more > 0 else link.name
    if link.kind is not Kind.THREAD:
        if more > 0 and not link.kind.is_place:
            who = f"{link.name} and {more} more"
        return f"{who} {'wait' if more > 0 else 'waits'} {'at' if link.kind.is_place else 'for'} {link.object}"
    activity = link.object.removeprefix("it ").removeprefix("they ") or ("are at work" if more > 0 else "is at work")
    return f"{who} {activity}" if len(activity) <= _LONGEST else f"{who} {'are' if more > 0 else 'is'} here"


def _waits(link: Link) -> str:
    # Other threads may wait for the same lock without being in the cycle, so only the thread of the link is named.
    return doing(link) if link.kind.is_place else doing(replace(link, threads=(link.thread or 0,)))


def _has(link: Link) -> str:
    # The verb for a thread that has the object of a wait.
    return "is in" if link.kind in (Kind.CRITICAL, Kind.ATOMIC) else "holds"


def _thread(link: Link) -> str:
    return counted(len(link.threads), "thread") if len(link.threads) > 1 and link.kind.is_place else link.name


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

    :param kind: the kind of the verdict
    :param roots: the native ids of the threads on which the others depend, without threads that have ended
    """
    if kind.is_about_tasks:
        return "ompd tasks TARGET"
    if kind is VerdictKind.DUPLICATE_RUNTIMES:
        return "ompd runtimes TARGET"
    if not roots or kind is VerdictKind.NO_STALL:
        return "ompd threads TARGET"
    # The verdict already shows user frames, but without variables.
    return f"ompd stack TARGET --thread {roots[0]} {'--raw' if kind in _RAW else '--locals'}"
