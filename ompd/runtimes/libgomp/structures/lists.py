"""Tasks in a ``priority_queue``.

priority_queue.h and splay-tree.h, the same since GCC 7 in all of them: a queue is the root of a tree of lists, NULL
while all its tasks have one priority, then that one list; a list has its priority and first node; a node of the tree
has its list, then both subtrees. Each task is in three lists by as many pairs of pointers, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ompd.contract.helpers.walks import MAX_TASKS
from ompd.contract.memory import Memory, read_pointer, read_words
from ompd.errors import CorruptState

QUEUE_ROOT, QUEUE_LIST = 0, 8
LIST_TASKS = 8
TREE_LIST, TREE_LEFT, TREE_RIGHT = 0, 24, 32
NODE_SIZE = 16
# A node of a list: the next one, and the one before.
_LINKS = 2


def queued(heap: Memory, queue: int, is_changing: Callable[[], bool]) -> Iterator[int]:
    """Yield the nodes that the queue at an address has.

    :param is_changing: whether a thread was about to change lists of tasks
    :raises CorruptState: if a list or the tree does not end
    """
    root = read_pointer(heap, queue + QUEUE_ROOT)
    if root is None:
        yield from _listed(heap, queue + QUEUE_LIST, is_changing)
        return
    waiting, seen = [root], {root}
    while waiting:
        node = waiting.pop()
        yield from _listed(heap, node + TREE_LIST, is_changing)
        for side in (TREE_LEFT, TREE_RIGHT):
            below = read_pointer(heap, node + side)
            if below is None:
                continue
            if below in seen or len(seen) >= MAX_TASKS:
                raise CorruptState(below, "a tree of tasks does not end")
            seen.add(below)
            waiting.append(below)


def _listed(heap: Memory, address: int, is_changing: Callable[[], bool]) -> Iterator[int]:
    # A ring of nodes. Each has to say of the one before that it is: a list that is being changed, or memory that was
    # given to something else since, ends the walk at once.
    first = before = read_pointer(heap, address + LIST_TASKS)
    if first is None:
        return
    seen: set[int] = set()
    node, last = read_words(heap, first, _LINKS)
    yield first
    while node != first:
        following, previous = read_words(heap, node, _LINKS) if node and node not in seen else (0, 0)
        if previous != before or len(seen) >= MAX_TASKS:
            raise _not_a_list(address, is_changing)
        seen.add(node)
        yield node
        before, node = node, following
    if last != before:
        raise _not_a_list(address, is_changing)


def _not_a_list(address: int, is_changing: Callable[[], bool]) -> CorruptState:
    if is_changing():
        return CorruptState(address, "the task queue was being changed")
    return CorruptState(address, "a list of tasks does not come back to its first one")
