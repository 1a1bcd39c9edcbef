"""The words of barriers, of threads and teams: who has arrived, and who was let go (``kmp_bstate``,
``kmp_balign_team``).
"""

from __future__ import annotations

from ompd.contract.helpers.pages import Heap
from ompd.contract.memory import StructLayout, StructView
from ompd.errors import LayoutUnavailable
from ompd.runtimes.libomp.layout.structures import Structures

# enum barrier_type of kmp.h; a thread is in one of the first and the last by an entry point of user code.
PLAIN, CLOSING, REDUCTION = 0, 1, 2
KINDS = 3
# They count by 4 (KMP_BARRIER_STATE_BUMP); bit 0 says that somebody sleeps.
STEP, COUNT = 4, ~3


class Words:
    """The words by which threads wait for each other, less the bits that say who sleeps. Threads (``kmp_info_t``) and
    teams are meant by their addresses.
    """

    def __init__(self, heap: Heap, structures: Structures) -> None:
        self._heap = heap
        self._structures = structures
        self._state = structures.layout("kmp_bstate")
        self._of_team = structures.layout("kmp_barrier_team_union")
        self._sizes = _size(structures.layout("kmp_barrier_union")), _size(self._of_team)
        self._in_thread = structures.layout("kmp_base_info_t.th_bar").field("th_bar").offset
        self._in_team = structures.layout("kmp_base_team_t.t_bar").field("t_bar").offset

    def are_used_by(self, team: int) -> bool:
        """Return whether a team's barriers count by these words: distributed ones, which have memory of their own
        (``t.b``, with ``KMP_FORKJOIN_BARRIER_PATTERN=dist,dist``), do not.
        """
        view = self._structures.view("kmp_base_team_t.b", team)
        return "b" not in view.layout.fields or view.pointer("b") is None

    def arrived_at(self, info: int, kind: int) -> int:
        """Return the address of the word by which a thread tells that it has arrived."""
        return self._bar(info, kind) + self._state.field("b_arrived").offset

    def go_at(self, info: int, kind: int) -> int:
        """Return the address of the word by which a thread is let go."""
        return self._bar(info, kind) + self._state.field("b_go").offset

    def _bar(self, info: int, kind: int) -> int:
        return info + self._in_thread + kind * self._sizes[0]

    def arrived(self, info: int, kind: int) -> int:
        """Return the count up to which a thread, and those it has waited for, have arrived."""
        return StructView(self._heap, self._state, self._bar(info, kind)).unsigned("b_arrived") & COUNT

    def go(self, info: int, kind: int) -> int:
        """Return :data:`STEP` of a thread that was let go and does not know yet, else 0."""
        return StructView(self._heap, self._state, self._bar(info, kind)).unsigned("b_go") & COUNT

    def passed_at(self, team: int, kind: int) -> int:
        """Return the address of the word that counts how far all threads of a team have arrived."""
        return team + self._in_team + kind * self._sizes[1] + self._of_team.field("b_arrived").offset

    def passed(self, team: int, kind: int) -> int:
        """Return the count up to which all threads of a team have arrived."""
        start = team + self._in_team + kind * self._sizes[1]
        return StructView(self._heap, self._of_team, start).unsigned("b_arrived") & COUNT


def _size(layout: StructLayout) -> int:
    if not layout.size:
        raise LayoutUnavailable(f"the size of {layout.name} is not known")
    return layout.size
