"""The tree of all stacks: callers and callees, with numbers of threads and targets, and with ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ompd.model.triage import TreeNode
from ompd.triage.normal import Frame, Part, part
from ompd.triage.ranks import Ranked, rank_sets

_MOST_NODES = 1 << 16


class Tree:
    """A tree with a node for each function below its callers, from the outermost function on."""

    def __init__(self) -> None:
        self._root = _Node(Frame(None, None, None))
        self._count = 0

    def add(self, stacks: Iterable[tuple[Sequence[Frame], Mapping[str, int]]], rank: Ranked | None) -> None:
        """Add all stacks of one target, each with the number of threads that have it, by their role."""
        touched: set[_Node] = set()
        for frames, threads in stacks:
            if not threads:
                continue  # the verdict's copy of a stack that counts already
            node = self._root
            node.threads.update(threads)
            for frame in frames:
                callee = self._callee(node, frame)
                if callee is None:
                    break
                node = callee
                node.threads.update(threads)
                touched.add(node)
            node.ends.update(threads)
        for node in touched:
            node.targets += 1
            if rank is not None:
                node.ranks.add(rank)

    def _callee(self, node: _Node, frame: Frame) -> _Node | None:
        # Return the child of *node* for a frame, a new one if there is none yet. None if the tree is full.
        callee = node.children.get(part(frame))
        if callee is not None:
            if frame != callee.frame and _words(frame) < _words(callee.frame):
                callee.frame = frame  # take the smallest name, so that the order of targets makes no difference
            return callee
        if self._count >= _MOST_NODES:
            return None
        self._count += 1
        callee = node.children[part(frame)] = _Node(frame)
        return callee

    def nodes(self) -> tuple[TreeNode, ...]:
        """Return the nodes. Callers come before their callees, and callees with the fewest targets come first."""
        return tuple(self._numbered())

    def _numbered(self) -> Iterator[TreeNode]:
        waiting: list[tuple[int | None, _Node]] = [(None, child) for child in reversed(self._root.sorted())]
        number = 0
        while waiting:
            parent, node = waiting.pop()
            number += 1
            frame = node.frame
            yield TreeNode(
                id=number,
                parent=parent,
                function=frame.function,
                file=frame.file,
                line=frame.loop if frame.loop is not None else frame.line,
                construct=frame.construct,
                targets=node.targets,
                ranks=rank_sets(node.ranks),
                threads=dict(sorted(node.threads.items())),
                ends=dict(sorted(node.ends.items())),
            )
            waiting += ((number, child) for child in reversed(node.sorted()))


def _words(frame: Frame) -> tuple[str, str]:
    return frame.function or "", frame.file or ""


class _Node:
    __slots__ = ("children", "ends", "frame", "ranks", "targets", "threads")

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.children: dict[Part, _Node] = {}
        self.ranks: set[Ranked] = set()
        self.targets = 0
        self.threads: Counter[str] = Counter()
        self.ends: Counter[str] = Counter()

    def sorted(self) -> list[_Node]:
        """Return the callees, those with the fewest targets first."""
        return [child for _, child in sorted(self.children.items(), key=lambda item: (item[1].targets, item[0]))]
