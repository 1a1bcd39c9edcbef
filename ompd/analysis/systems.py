"""Nodes of what threads wait for outside of OpenMP: mutexes, conditions, joins."""

from __future__ import annotations

from ompd.analysis.graph import Need, Node
from ompd.analysis.nodes import ThreadNodes
from ompd.model import SystemWait

_NAMES = {
    "mutex": "mutex",
    "condition": "condition variable",
    "join": "the end of a thread",
    "semaphore": "semaphore",
    "rwlock": "read-write lock",
    "pthread_barrier": "POSIX barrier",
    "once": "pthread_once",
    "gil": "Python's interpreter lock",
}
_KINDS = {"mutex": "mutex", "condition": "condition", "join": "join", "gil": "gil", "rwlock": "mutex"}


def add_system_wait(nodes: ThreadNodes, index: int, wait: SystemWait) -> None:
    """Let the thread with a node wait for what it waits for outside of OpenMP."""
    graph = nodes.graph
    key = f"{wait.kind}:{wait.object:#x}" if wait.object is not None else f"{wait.kind}:{graph.nodes[index].key}"
    if wait.kind == "gil":
        key = "gil"
    elif wait.kind == "futex" and wait.object is not None and graph.find(f"lock:{wait.object:#x}") is not None:
        # A thread that is not OpenMP's waits for a lock of OpenMP.
        nodes.waits_for(index, graph.add(Node(f"lock:{wait.object:#x}", "lock", "")))
        return
    is_new = graph.find(key) is None
    node = graph.add(Node(key, _KINDS.get(wait.kind, "call"), system_name(wait), object=wait.object))
    if is_new:
        if wait.owner is not None:
            # Who ends a thread is the thread itself.
            kind = "held_by" if wait.kind != "join" else "waits_for"
            graph.need(node, Need((nodes.thread(wait.owner),), 1, kind, wait.owner_source or "runtime"))
        else:
            reason = wait.unavailable.get("owner", f"who ends the wait for {system_name(wait)} is not recorded")
            graph.need(node, nodes.unknown(reason))
    nodes.waits_for(index, node)


def system_name(wait: SystemWait) -> str:
    """Return what the text calls the object of a wait."""
    name = _NAMES.get(wait.kind, wait.routine or wait.system_call or "a call")
    if wait.symbol is not None:
        return f"{name} {wait.symbol}"
    return name if wait.object is None or wait.kind in ("join", "gil") else f"{name} at {wait.object:#x}"
