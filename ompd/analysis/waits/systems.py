"""Nodes for objects outside of OpenMP for which threads wait: mutexes, conditions, joins."""

from __future__ import annotations

from ompd.analysis.graph import Need, Node
from ompd.analysis.waits.holders import Holders
from ompd.analysis.waits.others import Others
from ompd.analysis.waits.threads import ThreadNodes
from ompd.model import SystemWait
from ompd.model.kinds import EdgeKind, Kind

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
    if is_new:
        if wait.owner is not None and "is_owner_alive" in wait.unavailable:
            # The owner's recorded id may belong to another thread by now.
            named = [nodes.threads[wait.owner]] if wait.owner in nodes.threads else []
            reason = wait.unavailable["is_owner_alive"]
            copied = nodes.threads.get(nodes.moment.forked) if nodes.moment.forked is not None else None
            if copied is not None and not named and nodes.moment.has_all_threads:
                # This process was forked, and none of its threads has the owner's id. The owner either stayed in the
                # parent process, or it is the thread that fork() copied, which has a new id here.
                graph.need(node, Need((nodes.ended(wait.owner),), 1, EdgeKind.HELD_BY, "derived", reason))
                graph.rescue(node, copied, reason)
                nodes.waits_for(index, node)
                return
            why = f"{wait.owner} is noted as its owner" if wait.owner_source == "runtime" else reason
            graph.need(node, nodes.unknown(reason, named, why if named else None))
        elif wait.owner is not None:
            # Other tasks of the owner's thread may release a lock. A join ends only with the joined thread, so
            # others.release() is not called for it.
            kind = EdgeKind.HELD_BY if wait.kind is not Kind.JOIN else EdgeKind.WAITS_FOR
            owner = nodes.thread(wait.owner)
            graph.need(node, Need((owner,), 1, kind, wait.owner_source or "runtime"))
            if kind is EdgeKind.HELD_BY:
                others.release(node, owner)
        else:
            reason = wait.unavailable.get("owner", f"who ends the wait for {system_name(wait)} is not recorded")
            found = holders.of_interpreter() if wait.kind is Kind.GIL else None
            threads = [nodes.threads[native] for native in found.threads if native in nodes.threads] if found else []
            graph.need(node, nodes.unknown(reason, threads, found.reason if found else None))
    nodes.waits_for(index, node)


def _add_lock(nodes: ThreadNodes, index: int, wait: SystemWait, holders: Holders) -> bool:
    # Let a thread that no runtime knows wait for an OpenMP lock, for example before its first region. Likely holders
    # are the threads whose code set the lock. Return False if no thread's code shows a lock at the address.
    known = holders.at(wait.object) if wait.object is not None else None
    if known is None:
        return False
    kind, symbol, found = known
    graph, key = nodes.graph, f"lock:{wait.object:#x}"
    is_new = graph.find(key) is None
    name = system_name(wait) if kind is Kind.ONCE else symbol or system_name(wait)
    node = graph.add(Node(key, kind, name, object=wait.object))
    if is_new:
        threads = [nodes.threads[native] for native in found.threads if native in nodes.threads]
        reason = wait.unavailable.get("owner", "no runtime records its holder")
        graph.need(node, nodes.unknown(reason, threads, found.reason))
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
    if wait.kind is Kind.ONCE and symbol.startswith(_GUARD):
        return f"the initialization of {symbol.removeprefix(_GUARD)}"
    if wait.kind is Kind.STREAM and symbol:
        return f"the lock of {symbol}"
    if wait.symbol is not None:
        return f"{name} {wait.symbol}"
    return name if wait.object is None or wait.kind in (Kind.JOIN, Kind.GIL) else f"{name} at {wait.object:#x}"
