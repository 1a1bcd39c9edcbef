"""The words by which threads wait for each other at barriers (``kmp_bstate``, ``kmp_balign_team``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ompd.contract.memory import StructLayout, StructView
from ompd.errors import LayoutUnavailable

if TYPE_CHECKING:
    from ompd.contract.helpers.pages import Heap
    from ompd.runtimes.libomp.layout.structures import Structures

# enum barrier_type of kmp.h: CLOSING is for the beginning and end of a region. The other two barriers are in entry
# points that user code calls.
PLAIN, CLOSING, REDUCTION = 0, 1, 2
KINDS = 3
# The words count in steps of 4 (KMP_BARRIER_STATE_BUMP). Bit 0 is set while a thread sleeps.
STEP, COUNT = 4, ~3


class BarrierWords:
    """The counts of arrivals and releases, without the bits for sleeping threads. The methods take the address of a
    thread (``kmp_info_t``) or of a team.
    """

    def __init__(self, heap: Heap, structures: Structures) -> None:
        self._heap = heap
        self._structures = structures
        self._state = structures.layout("kmp_bstate")
        self._team_state = structures.layout("kmp_barrier_team_union")
        self._sizes = _size(structures.layout("kmp_barrier_union")), _size(self._team_state)
        self._in_thread = structures.layout("kmp_base_info_t.th_bar").field("th_bar").offset
        self._in_team = structures.layout("kmp_base_team_t.t_bar").field("t_bar").offset

    def are_used_by(self, team: int) -> bool:
        """Return whether a team's barriers use these words. Distributed barriers have separate memory, ``t.b``
        (``KMP_FORKJOIN_BARRIER_PATTERN=dist,dist``).
        """
        view = self._structures.view("kmp_base_team_t.b", team)
        return "b" not in view.layout.fields or view.pointer("b") is None

    def arrived_at(self, info: int, kind: int) -> int:
        """Return the address of the word with which a thread announces its arrival."""
        return self._bar(info, kind) + self._state.field("b_arrived").offset

    def go_at(self, info: int, kind: int) -> int:
        """Return the address of the word with which a thread is released."""
        return self._bar(info, kind) + self._state.field("b_go").offset

    def _bar(self, info: int, kind: int) -> int:
        return info + self._in_thread + kind * self._sizes[0]

    def arrived(self, info: int, kind: int) -> int:
        """Return the count up to which a thread, and the threads for which it has waited, have arrived."""
        return StructView(self._heap, self._state, self._bar(info, kind)).unsigned("b_arrived") & COUNT

    def go(self, info: int, kind: int) -> int:
        """Return :data:`STEP` if a thread was released and has not noticed it yet, else 0."""
        return StructView(self._heap, self._state, self._bar(info, kind)).unsigned("b_go") & COUNT

    def passed_at(self, team: int, kind: int) -> int:
        """Return the address of the word with the count up to which all threads of a team have arrived."""
        return team + self._in_team + kind * self._sizes[1] + self._team_state.field("b_arrived").offset

    def passed(self, team: int, kind: int) -> int:
        """Return the count up to which all threads of a team have arrived."""
        start = team + self._in_team + kind * self._sizes[1]
        return StructView(self._heap, self._team_state, start).unsigned("b_arrived") & COUNT


def _size(layout: StructLayout) -> int:
    if not layout.size:
        raise LayoutUnavailable(f"the size of {layout.name} is not known")
    return layout.size
