"""Nodes for objects outside of OpenMP for which threads wait: mutexes, conditions, joins."""

from __future__ import annotations

from ompd.analysis.graph import Need, Node
from ompd.analysis.waits.holders import Holders, Holding
from ompd.analysis.waits.others import Others
from ompd.analysis.waits.threads import ThreadNodes
from ompd.model import SystemWait
from ompd.model.kinds import EdgeKind, Kind

_SPINS = "the kernel, a signal handler or a device may write what its loop reads"
_GUARD, _WAITERS = "guard variable for ", "std::__detail::__waiter_pool_base"


def add_system_wait(nodes: ThreadNodes, index: int, wait: SystemWait, holders: Holders, others: Others) -> None:
    """Add a thread's wait outside of OpenMP to the graph.

    :param index: the node of the thread
    """
    graph = nodes.graph
    key = f"{wait.kind}:{wait.object:#x}" if wait.object is not None else f"{wait.kind}:{graph.nodes[index].key}"
    if wait.kind is Kind.GIL:
        key = "gil"
    elif wait.kind is Kind.FUTEX and wait.object is not None and graph.find(f"lock:{wait.object:#x}") is not None:
        # A thread outside of OpenMP waits for an OpenMP lock.
        nodes.waits_for(index, graph.add(Node(f"lock:{wait.object:#x}", Kind.LOCK, "")))
        return
    elif wait.kind.is_set_by_code and wait.owner is None and _add_lock(nodes, index, wait, holders):
        return
    is_new = graph.find(key) is None
    node = graph.add(Node(key, wait.kind.node, system_name(wait), object=wait.object, counts=_counts(wait)))
    if wait.kind is Kind.SPIN:
        nodes.doubt(index, _SPINS)
        nodes.waits_for(index, node, source="derived", evidence=wait.loop)
    else:
        nodes.waits_for(index, node)
    if not is_new:
        return
    if wait.owner is None:
        _need_unknown_owner(nodes, node, wait, holders)
    elif "is_owner_alive" in wait.unavailable:
        _need_doubtful_owner(nodes, node, wait, wait.owner)
    else:
        _need_owner(nodes, node, wait, wait.owner, others)


def _need_unknown_owner(nodes: ThreadNodes, node: int, wait: SystemWait, holders: Holders) -> None:
    reason = wait.unavailable.get("owner", f"who ends the wait for {system_name(wait)} is not recorded")
    if wait.kind is Kind.GIL:
        holding = holders.of_interpreter()
        nodes.graph.need(node, nodes.unknown(reason, _nodes_of(nodes, holding), holding.reason))
    else:
        nodes.graph.need(node, nodes.unknown(reason))


def _need_doubtful_owner(nodes: ThreadNodes, node: int, wait: SystemWait, owner: int) -> None:
    # The owner's recorded id may belong to another thread by now.
    reason = wait.unavailable["is_owner_alive"]
    if owner in nodes.threads:
        why = f"{owner} is noted as its owner" if wait.owner_source == "runtime" else reason
        nodes.graph.need(node, nodes.unknown(reason, [nodes.threads[owner]], why))
        return
    forked = nodes.threads.get(nodes.moment.forked) if nodes.moment.forked is not None else None
    if forked is None or not nodes.moment.has_all_threads:
        nodes.graph.need(node, nodes.unknown(reason))
        return
    # This process was forked, and none of its threads has the owner's id. The owner either stayed in the parent
    # process, or it is the thread that fork() copied, which has a new id here.
    nodes.graph.need(node, Need((nodes.ended(owner),), 1, EdgeKind.HELD_BY, "derived", reason))
    nodes.graph.rescue(node, forked, reason)


def _need_owner(nodes: ThreadNodes, node: int, wait: SystemWait, owner: int, others: Others) -> None:
    source, owner_node = wait.owner_source or "runtime", nodes.thread(owner)
    if wait.kind is Kind.JOIN:
        # A join ends only with the joined thread. No other task of that thread can end it.
        nodes.graph.need(node, Need((owner_node,), 1, EdgeKind.WAITS_FOR, source))
        return
    nodes.graph.need(node, Need((owner_node,), 1, EdgeKind.HELD_BY, source))
    others.release(node, owner_node)


def _nodes_of(nodes: ThreadNodes, holding: Holding) -> list[int]:
    return [nodes.threads[native] for native in holding.threads if native in nodes.threads]


def _add_lock(nodes: ThreadNodes, index: int, wait: SystemWait, holders: Holders) -> bool:
    # Let a thread that no runtime knows wait for an OpenMP lock, for example before its first region. Likely holders
    # are the threads whose code set the lock. Return False if no thread's code shows a lock at the address.
    lock = holders.at(wait.object) if wait.object is not None else None
    if lock is None:
        return False
    kind, symbol, holding = lock
    graph, key = nodes.graph, f"lock:{wait.object:#x}"
    is_new = graph.find(key) is None
    name = system_name(wait) if kind is Kind.ONCE else symbol or system_name(wait)
    node = graph.add(Node(key, kind, name, object=wait.object))
    if is_new:
        reason = wait.unavailable.get("owner", "no runtime records its holder")
        graph.need(node, nodes.unknown(reason, _nodes_of(nodes, holding), holding.reason))
    nodes.waits_for(index, node)
    return True


def _counts(wait: SystemWait) -> str | None:
    if wait.readers is not None:
        return f"held by {wait.readers} reader{'s' * (wait.readers != 1)}"
    if wait.missing is None:
        return None
    if wait.expected is None:
        return f"{wait.missing} to count down"
    return f"{wait.expected - wait.missing} of {wait.expected} arrived"


def system_name(wait: SystemWait) -> str:
    """Return how texts name the object that is waited for: ``mutex m``, ``a futex``, ``the lock of stdout``."""
    name = wait.kind.noun or wait.routine or wait.system_call or "a call"
    symbol = wait.symbol or ""
    if wait.kind is Kind.FUTEX and (wait.object is None or _WAITERS in symbol):
        return "a futex" if wait.object is None else "an atomic object of C++"
    if wait.kind is Kind.SPIN:
        return wait.symbol or ("a word" if wait.object is None else f"the word at {wait.object:#x}")
    if wait.kind is Kind.ONCE and symbol.startswith(_GUARD):
        return f"the initialization of {symbol.removeprefix(_GUARD)}"
    if wait.kind is Kind.STREAM and symbol:
        return f"the lock of {symbol}"
    if wait.symbol is not None:
        return f"{name} {wait.symbol}"
    return name if wait.object is None or wait.kind in (Kind.JOIN, Kind.GIL) else f"{name} at {wait.object:#x}"
