"""Ways through a function that return without a release of a lock that the function set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ompd.debugger.flow.state import BRANCH, OBJECTS, Held, Released, State, meets
from ompd.isa.instructions import Instruction


class Leak(NamedTuple):
    """A way on which a function returns with the lock ``held`` that the call at ``call`` set.

    ``leaves`` is the address of an instruction: the jump of a ``return`` statement, or a branch. No way from there to
    the return releases the lock.
    """

    call: int
    held: Held
    leaves: int


class Edge(NamedTuple):
    """A way from the end of the block at ``leader`` to another block. ``state`` is the state on that way."""

    leader: int
    state: State


class Leaks:
    """The leaks of one function.

    :param blocks: its blocks by their addresses
    :param incoming: the edges to each block
    :param returns: the state at each return, or after a jump to another function, by its block
    :param releases: what each block releases
    """

    def __init__(
        self,
        blocks: Mapping[int, Sequence[Instruction]],
        incoming: Mapping[int, Sequence[Edge]],
        returns: Mapping[int, State],
        releases: Mapping[int, Sequence[Released]],
    ) -> None:
        self._blocks, self._incoming, self._returns, self._releases = blocks, incoming, returns, releases

    def all(self) -> Iterator[Leak]:
        """Yield the leaks of the locks that the function releases on another way.

        A lock that the function releases on no way is no leak: the function may set it for its caller.
        """
        reported: set[tuple[int, int]] = set()
        for leader, state in self._returns.items():
            for call, held in state.held.items():
                if held.routine.kind not in OBJECTS or held.doubt not in ("", BRANCH) or not self._is_released(held):
                    continue
                for leaves in self._leaving(leader, call, self._before_release(held)):
                    if (call, leaves) not in reported:
                        reported.add((call, leaves))
                        yield Leak(call, held, leaves)

    def _is_released(self, lock: Held) -> bool:
        # Whether a way to any return releases the lock.
        for state in self._returns.values():
            maybe_held = [held for held in state.held.values() if meets(held.value, lock.value) is not False]
            if not any(held.routine.kind == lock.routine.kind and not held.doubt for held in maybe_held):
                return True
        return False

    def _before_release(self, lock: Held) -> set[int]:
        # The blocks from which a release of the lock can be reached. A flag may lead there: if (got) omp_unset_lock(…).
        waiting = [
            leader
            for leader, released in self._releases.items()
            if any(kind == lock.routine.kind and meets(value, lock.value) is not False for kind, value in released)
        ]
        leaders = set(waiting)
        while waiting:
            for edge in self._incoming.get(waiting.pop(), ()):
                if edge.leader not in leaders:
                    leaders.add(edge.leader)
                    waiting.append(edge.leader)
        return leaders

    def _leaving(self, leader: int, call: int, before_release: set[int]) -> Iterator[int]:
        # The addresses of the last instructions of some blocks: behind each, the lock is held on every way to the
        # return in the block *leader*.
        queued, queue = {leader}, [leader]
        while queue:
            block = queue.pop()
            if block in before_release:
                continue
            edges = [edge for edge in self._incoming.get(block, ()) if call in edge.state.held]
            certain = [edge for edge in edges if not edge.state.held[call].doubt]
            if not edges or len(certain) == len(self._incoming[block]) > 1:
                yield self._blocks[block][-1].address
                continue
            for edge in edges:
                if edge in certain:
                    yield self._blocks[edge.leader][-1].address
                elif edge.leader not in queued and edge.state.held[call].doubt == BRANCH:
                    queued.add(edge.leader)
                    queue.append(edge.leader)
