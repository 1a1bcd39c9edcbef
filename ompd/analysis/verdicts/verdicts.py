"""Makes a verdict on each end of waits, the most important verdict first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property

from ompd.analysis.graph import Need, Node, Outlook, View
from ompd.analysis.moment import is_at_barrier_inside
from ompd.analysis.roots import End, Root, Solved
from ompd.analysis.verdicts.chains import Chains
from ompd.analysis.verdicts.sentences import Sentences, next_step
from ompd.model import Evidence, HeldRecord, Link, ThreadRecord, VerdictRecord
from ompd.model.kinds import Confidence, EdgeKind, Kind, VerdictKind

_AT_BARRIERS = frozenset((VerdictKind.BARRIER_MISMATCH, VerdictKind.BARRIER_ABSENT, VerdictKind.LOCK_CYCLE))
# Objects of the C library. For these, no record names the thread that will end a wait.
_OUTSIDE = frozenset((Kind.CONDITION, Kind.CALL, Kind.JOIN, Kind.MUTEX, Kind.GIL))


class Verdicts:
    """The verdicts of one solved graph."""

    def __init__(self, solved: Solved) -> None:
        self._solved, self._graph, self._nodes = solved, solved.graph, solved.nodes
        self._chains = Chains(solved)
        self._sentences = Sentences(solved)

    def all(self) -> list[VerdictRecord]:
        """Return all verdicts: the surest first, and among equally sure ones those that explain more threads.

        Verdicts on threads that have nothing to do with OpenMP come last while OpenMP threads have work.
        """
        pairs = [(verdict, root) for root in self._solved.roots if (verdict := self._of(root)) is not None]
        pairs.sort(key=lambda pair: (self._is_beside(*pair), _rank(pair[0])))
        # All verdicts share one limit for the work of simulations. So the most important verdicts are simulated first.
        verdicts = [replace(verdict, what_if=self._sentences.what_if(root)) for verdict, root in pairs]
        if pairs and not self._is_beside(*pairs[0]):
            return verdicts
        return [*(self._asleep_though_free() or [self._lost() or self._nobody_works() or self._no_stall()]), *verdicts]

    def _lost(self) -> VerdictRecord | None:
        # Return that nothing can be said about a core that was cut off, because threads and waits may be missing.
        moment = self._nodes.moment
        if moment.loss is None:
            return None
        return VerdictRecord(
            kind=VerdictKind.UNDECIDED,
            stuck=Confidence.UNKNOWN,
            confidence=Confidence.UNKNOWN,
            summary=f"cannot say whether anything hangs: {moment.loss}",
            unknowns=tuple(unknown for unknown in moment.unknowns if unknown != moment.loss)[:_MOST_UNKNOWNS],
            next_step="ompd doctor TARGET",
        )

    def _is_beside(self, verdict: VerdictRecord, root: Root) -> bool:
        # Return whether a verdict is beside the point: OpenMP threads have work, and no waiting thread is OpenMP's.
        # Threads of other pools may wait for work for ever, which is no fault. A proven deadlock always is a fault.
        if verdict.stuck is Confidence.PROVEN and root.end in (End.CYCLE, End.ENDED):
            return False
        return self._is_busy and not any(map(self._nodes.is_of_openmp, root.threads))

    @cached_property
    def _is_busy(self) -> bool:
        return any(self._nodes.is_of_openmp(n) and not self._nodes.is_idle(n) for n in self._nodes.rows)

    @cached_property
    def _waiting(self) -> list[int]:
        # Threads outside of OpenMP are left out while OpenMP is busy.
        return [n for n in self._nodes.waiting if self._nodes.is_of_openmp(n) or not self._is_busy]

    def _nobody_works(self) -> VerdictRecord | None:
        # Return the verdict on a program in which no OpenMP thread waits for another one, and all threads at work are
        # in calls that something outside ends. Unreadable threads outside of OpenMP are ignored.
        rows, nodes, system = self._nodes.rows, self._graph.nodes, self._nodes.moment.system
        unread = self._nodes.moment.unread
        busy = [n for n in rows if not self._nodes.is_idle(n) and n not in self._nodes.waiting]
        busy = [n for n in busy if self._nodes.is_of_openmp(n) or nodes[n].thread not in unread]
        outside = [n for n in busy if nodes[n].outlook is Outlook.UNKNOWN and (nodes[n].thread or 0) in system]
        named = [n for n in outside if rows[n].runtime is not None or not self._has_begun]
        if not named or len(outside) < len(busy) or self._waiting:
            return None
        roots = tuple(self._natives(named))
        return VerdictRecord(
            kind=VerdictKind.EXTERNAL_WAIT,
            stuck=Confidence.POSSIBLE,
            confidence=Confidence.PROVEN,
            summary=self._sentences.nobody_works(named),
            roots=roots,
            unknowns=tuple(f"when {nodes[n].name} goes on: {nodes[n].reason}" for n in named[:_MOST_UNKNOWNS]),
            next_step=next_step(VerdictKind.EXTERNAL_WAIT, roots),
            place=next((rows[n].where for n in named if rows[n].where is not None), None),
        )

    @cached_property
    def _has_begun(self) -> bool:
        return any(row.runtime is not None or "runtime" in row.unavailable for row in self._nodes.rows.values())

    def _asleep_though_free(self) -> list[VerdictRecord]:
        # Return the verdict on threads that sleep although their wait is over, if no other thread runs that could wake
        # them up.
        rows = self._nodes.rows
        free = [n for n, row in rows.items() if row.wait is not None and row.wait.how == "released"]
        running = [n for n in rows if self._graph.nodes[n].outlook in (Outlook.RUNS, Outlook.UNKNOWN)]
        if not free or set(running) - set(free) or self._nodes.moment.is_held:
            return []
        return [
            VerdictRecord(
                kind=VerdictKind.LOST_WAKEUP,
                stuck=Confidence.POSSIBLE,
                confidence=Confidence.POSSIBLE,
                summary=self._sentences.asleep(len(free)),
                roots=tuple(self._natives(free)),
                explains=tuple(sorted(self._natives(free))),
                evidence=(Evidence("the word on which they sleep has changed", "runtime"),),
                unknowns=("whether they are about to wake up: look again",),
                place=next((rows[n].where for n in free if rows[n].where is not None), None),
            )
        ]

    def _no_stall(self) -> VerdictRecord:
        is_open = bool(self._unknowns()) and not self._waiting
        # If a waiting thread is stuck in the pessimistic view, "no hang seen" depends on the likely holders.
        reasoned = self._reasoned() if self._solved.stuck[View.PESSIMISTIC].intersection(self._waiting) else []
        return VerdictRecord(
            kind=VerdictKind.UNDECIDED if is_open else VerdictKind.NO_STALL,
            stuck=Confidence.UNKNOWN,
            confidence=Confidence.UNKNOWN if is_open else Confidence.LIKELY if reasoned else Confidence.PROVEN,
            summary=self._sentences.no_stall(len(self._waiting)),
            evidence=tuple(Evidence(text, "derived") for text in dict.fromkeys(n.reasoning for n in reasoned) if text),
            unknowns=(*self._unknowns(), *dict.fromkeys(n.evidence for n in reasoned if n.evidence))[:_MOST_UNKNOWNS],
            next_step="ompd doctor TARGET"
            if self._sentences.has_few_processors
            else next_step(VerdictKind.NO_STALL, ()),
        )

    def _reasoned(self) -> list[Need]:
        # Return the needs without known targets but with likely ones.
        return [need for needs in self._graph.needs for need in needs if need.reasoned]

    def _unknowns(self) -> tuple[str, ...]:
        return tuple(self._nodes.moment.unknowns)

    def _of(self, root: Root) -> VerdictRecord | None:
        if not root.threads:
            return None
        kind = self._kind(root)
        if kind is None:
            return None
        links = self._chains.links(root)
        evidence = self._chains.evidence(root)
        branch = self._branch_of_one(links) if kind is VerdictKind.BARRIER_MISMATCH else None
        if branch is not None:
            kind = VerdictKind.ORPHANED_WORKSHARING
            text = f"at {branch} a branch on omp_get_thread_num() lets the primary thread in alone"
            evidence = (*evidence, Evidence(text, "stack"))
        threads = [*root.threads, *(n for n in root.nodes if n in self._nodes.rows and n not in root.threads)]
        ends = self._chains.root_threads(root)
        explained = tuple(sorted(self._natives(root.threads)))
        stuck = self._solved.confidence(root.threads) if root.end is not End.RUNS else Confidence.UNKNOWN
        unknowns = self._open_questions(root) if stuck is not Confidence.PROVEN or kind is VerdictKind.UNDECIDED else ()
        return VerdictRecord(
            kind=kind,
            stuck=stuck,
            confidence=self._confidence(root, kind, evidence),
            summary=self._sentences.of(kind, root, links),
            others=self._sentences.others(kind, root, links),
            roots=tuple(self._natives(n for n in ends if n in threads or n in self._nodes.rows)),
            cycle=links,
            explains=explained,
            evidence=evidence,
            unknowns=unknowns,
            next_step=next_step(kind, self._natives(n for n in ends if n in self._nodes.rows)),
            place=self._chains.place(root),
        )

    def _natives(self, nodes: Iterable[int]) -> list[int]:
        threads = (self._graph.nodes[node].thread for node in nodes)
        return [thread for thread in threads if thread is not None]

    def _kinds(self, root: Root) -> list[Kind]:
        return [self._graph.nodes[node].kind for node in root.nodes]

    def _kind(self, root: Root) -> VerdictKind | None:
        by_end: dict[End, Callable[[Root], VerdictKind | None]] = {
            End.CYCLE: self._cycle,
            End.ENDED: self._ended,
            End.RUNS: self._runs,
            End.OUTSIDE: self._outside,
            End.OPEN: self._open,
        }
        kind = by_end[root.end](root)
        if kind in _AT_BARRIERS and self._is_orphaned(root):
            return VerdictKind.ORPHANED_WORKSHARING
        return kind

    def _is_orphaned(self, root: Root) -> bool:
        # Return whether a thread waits at a barrier inside of code that not all threads of its team execute. If a lock
        # is part of the root, the code has to be known for certain: a thread that has left a critical section by a jump
        # seems to be inside, but may be at any barrier.
        needs_certainty = any(self._graph.nodes[node].kind.is_lock for node in root.nodes)
        for node in self._chains.way(root):
            row = self._nodes.rows.get(node)
            if row is not None and row.wait is not None and row.wait.kind is Kind.BARRIER and not _may_be_in_outer(row):
                constructs = self._nodes.moment.held.get(row.native_thread_id or 0, ())
                if any(each.kind.is_for_some and (each.is_certain or not needs_certainty) for each in constructs):
                    return True
        return False

    def _branch_of_one(self, links: Sequence[Link]) -> str | None:
        # Return the branch through which only the primary thread reaches a barrier inside of the region. The barrier is
        # that of the first such link. gcc compiles master and masked to this branch and nothing else.
        for link in links:
            row = self._nodes.rows.get(self._nodes.threads.get(link.thread or 0, -1))
            if row is not None and is_at_barrier_inside(row):
                return self._nodes.moment.alone.get(link.threads[0]) if len(link.threads) == 1 else None
        return None

    def _is_in_task(self, root: Root) -> bool:
        rows = (self._nodes.rows[node] for node in root.threads if self._nodes.waiting[node] in root.nodes)
        return any(self._task_kinds.get(row.task or "") == "explicit" for row in rows)

    @cached_property
    def _task_kinds(self) -> dict[str, str | None]:
        return {task.id: task.kind for task in self._nodes.moment.tasks or ()}

    def _has_several_runtimes(self, root: Root) -> bool:
        rows = (self._nodes.rows.get(node) for node in root.nodes)
        return len({row.runtime for row in rows if row is not None and row.runtime is not None}) > 1

    def _cycle(self, root: Root) -> VerdictKind:
        if self._has_several_runtimes(root):
            return VerdictKind.DUPLICATE_RUNTIMES
        kinds = self._kinds(root)
        objects = [kind for kind in kinds if kind is not Kind.THREAD]
        if Kind.DEPENDENCE in objects or self._has_edge(root, EdgeKind.DEPENDS_ON):
            return VerdictKind.TASK_DEPENDENCE_CYCLE
        if any(kind.is_lock or kind is Kind.DOACROSS for kind in objects):
            if kinds.count(Kind.THREAD) > 1:
                return VerdictKind.LOCK_CYCLE
            in_handler = any(thread in self._nodes.moment.handlers for thread in self._natives(root.nodes))
            return VerdictKind.RUNTIME_REENTRY if Kind.INTERNAL_LOCK in objects or in_handler else VerdictKind.SELF_LOCK
        if not {Kind.TASK, Kind.TASKWAIT, Kind.TASKGROUP}.isdisjoint(objects):
            return VerdictKind.TASKWAIT_STARVED
        # The threads wait for each other inside of the runtime, but no barrier is known: there may be other reasons.
        if Kind.BARRIER not in objects:
            return VerdictKind.UNDECIDED
        return VerdictKind.BARRIER_MISMATCH if objects.count(Kind.BARRIER) > 1 else VerdictKind.BARRIER_ABSENT

    def _has_edge(self, root: Root, kind: EdgeKind) -> bool:
        return any(need.kind is kind for node in root.nodes for need in self._graph.needs[node])

    def _ended(self, root: Root) -> VerdictKind:
        if self._nodes.moment.is_fork:
            return VerdictKind.FORK_CHILD
        before = self._chains.before(root)
        return (
            VerdictKind.LOCK_ABANDONED
            if before is not None and self._graph.nodes[before].kind.is_lock
            else VerdictKind.BARRIER_ABSENT
        )

    def _runs(self, root: Root) -> VerdictKind | None:
        working = [node for node in root.nodes if node in self._nodes.rows and self._nodes.rows[node].wait is None]
        if not working or len(working) > max(1, len(root.threads) // 2):
            return None
        rows, processors = self._nodes.rows.values(), self._nodes.moment.processors
        spinning = sum(row.wait is not None and row.wait.how == "spinning" for row in rows)
        is_crowded = processors is not None and spinning and spinning + len(working) > processors
        return VerdictKind.OVERSUBSCRIBED if is_crowded else VerdictKind.LAGGARD

    def _outside(self, root: Root) -> VerdictKind:
        system = self._nodes.moment.system
        return (
            VerdictKind.EXTERNAL_WAIT if any(n in system for n in self._natives(root.nodes)) else VerdictKind.UNDECIDED
        )

    def _open(self, root: Root) -> VerdictKind:
        node = self._graph.nodes[root.nodes[0]]
        if node.kind is Kind.THREAD:  # idle in a pool
            return self._ended(root) if self._nodes.rows[root.nodes[0]].state == "idle" else VerdictKind.EXTERNAL_WAIT
        if node.kind is Kind.EVENT:
            return VerdictKind.EVENT_UNFULFILLED
        if node.kind is Kind.SPIN:
            return VerdictKind.SPIN_WAIT
        if node.kind in _OUTSIDE:
            return VerdictKind.EXTERNAL_WAIT
        if node.kind is Kind.BARRIER and self._is_in_task(root):
            return VerdictKind.ORPHANED_WORKSHARING
        is_proven = self._solved.confidence(root.threads) is Confidence.PROVEN
        return VerdictKind.LOCK_ABANDONED if node.kind.is_lock and is_proven else VerdictKind.UNDECIDED

    def _confidence(self, root: Root, kind: VerdictKind, evidence: Sequence[Evidence]) -> Confidence:
        if kind is VerdictKind.UNDECIDED:
            return Confidence.UNKNOWN
        if kind in (VerdictKind.ORPHANED_WORKSHARING, VerdictKind.OVERSUBSCRIBED, VerdictKind.DUPLICATE_RUNTIMES):
            return Confidence.LIKELY
        if root.end is End.OPEN and self._graph.nodes[root.nodes[0]].kind is not Kind.THREAD:
            if kind is VerdictKind.EVENT_UNFULFILLED and self._solved.confidence(root.threads) is Confidence.PROVEN:
                return Confidence.PROVEN
            return (
                Confidence.LIKELY
                if kind is not VerdictKind.LOCK_ABANDONED or self._has_left(root)
                else Confidence.POSSIBLE
            )
        return Confidence.LIKELY if any(item.source != "runtime" for item in evidence) else Confidence.PROVEN

    def _has_left(self, root: Root) -> bool:
        # Return whether the holder has left the code that the lock protects. For a critical section: no thread's code
        # shows that it is inside. For another lock: no thread's code holds it, and all threads that do not wait for it
        # are idle.
        node = self._graph.nodes[root.nodes[0]]
        if self._held is None or node.kind in _NOT_BY_CODE or any(self._may_be(node, held) for held in self._held):
            return False
        return node.kind is Kind.CRITICAL or self._active <= set(root.threads)

    def _may_be(self, node: Node, held: HeldRecord) -> bool:
        # Return whether a held lock may be the object of a node. Their addresses may differ, because the runtime may
        # record another address than that of the lock's variable.
        kind = held.kind.node
        if kind not in _WITH_OBJECTS or (kind is Kind.CRITICAL) is not (node.kind is Kind.CRITICAL):
            return False
        if node.object is None or held.object in (None, node.object):
            return True
        if node.object in self._nodes.moment.variables:
            return False  # otherwise the held lock would have the same object
        names = self._symbols.get(node.object)
        return names is None or held.symbol is None or held.symbol in names

    @cached_property
    def _symbols(self) -> dict[int, set[str]]:
        # The names of the objects for which threads wait, by address.
        names: dict[int, set[str]] = {}
        for row in self._nodes.rows.values():
            if row.wait is not None and row.wait.object is not None and row.wait.symbol is not None:
                names.setdefault(row.wait.object, set()).add(row.wait.symbol)
        return names

    @cached_property
    def _held(self) -> list[HeldRecord] | None:
        # All objects that threads hold, as their code shows. None if the code of some thread could not be examined.
        moment = self._nodes.moment
        natives = {row.native_thread_id for row in moment.threads}
        if not moment.has_all_threads or not natives <= moment.held.keys():
            return None
        return [record for records in moment.held.values() for record in records]

    @cached_property
    def _active(self) -> set[int]:
        return {index for index in self._nodes.rows if not self._nodes.is_idle(index)}

    def _open_questions(self, root: Root) -> tuple[str, ...]:
        open_ = dict.fromkeys(self._chains.open_needs(root))
        tasks = [_QUEUED] if open_ and self._has_executors else []
        outside = self._nodes.moment.outside if open_ else ()
        return tuple([*open_, *outside, *tasks, *self._open_threads][:_MOST_UNKNOWNS])

    @cached_property
    def _has_executors(self) -> bool:
        return any(node.kind is Kind.TEAM and node.outlook is Outlook.RUNS for node in self._graph.nodes)

    @cached_property
    def _open_threads(self) -> list[str]:
        # The threads whose outlook is unknown, with the reasons.
        open_ = sorted(self._solved.stuck[View.PESSIMISTIC] - self._solved.stuck[View.OPTIMISTIC])
        named = (self._graph.nodes[node] for node in open_ if node in self._nodes.rows)
        return [f"when {node.name} goes on: {node.reason}" for node in named if node.reason is not None][
            :_MOST_UNKNOWNS
        ]


def _may_be_in_outer(row: ThreadRecord) -> bool:
    # Return whether a barrier inside of a construct for some threads may be right. The primary thread of a nested team
    # may stand in a construct of the enclosing region. And all threads of a team reach the end of its region.
    is_nested = row.thread_num == 0 and (row.level is None or row.level > 1)
    return is_nested or row.state == "wait_barrier_implicit_parallel"


_MOST_UNKNOWNS = 12
_QUEUED = "tasks are in a queue, which threads of their team may execute where they wait: what they do is not known"
# The program's code shows neither the order of iterations nor locks that the runtime's own code holds.
_NOT_BY_CODE = (Kind.ORDERED, Kind.INTERNAL_LOCK)
_WITH_OBJECTS = (Kind.LOCK, Kind.NEST_LOCK, Kind.CRITICAL, Kind.MUTEX)


def _rank(verdict: VerdictRecord) -> tuple[int, int, int, int]:
    return verdict.stuck.rank, verdict.confidence.rank, -len(verdict.explains), verdict.kind.rank
