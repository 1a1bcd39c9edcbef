"""All verdicts on the supply of a process, and their place among the other verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ompd.analysis.verdicts.supply.demand import Demand
from ompd.analysis.verdicts.supply.placement import Placement
from ompd.analysis.verdicts.supply.room import narrow_room
from ompd.analysis.verdicts.supply.shortage import Shortage
from ompd.analysis.verdicts.supply.spinning import Spinning
from ompd.model import ThreadRecord, VerdictRecord
from ompd.model.kinds import Confidence, VerdictKind
from ompd.model.supply import Supply

_MOST_UNKNOWNS = 12
_BY_OTHERS = frozenset((VerdictKind.OVERSUBSCRIBED, VerdictKind.STARVED))
# These come first if nothing is stuck: what was measured explains why the program is slow.
_SURE = frozenset((VerdictKind.THROTTLED, VerdictKind.FEW_PROCESSORS, VerdictKind.OVERSUBSCRIBED, VerdictKind.STARVED))


def supply_verdicts(supply: Supply, moments: Sequence[Sequence[ThreadRecord]]) -> list[VerdictRecord]:
    """Return the verdicts on what a process got from its machine, the surest cause of slowness first.

    :param moments: the rows of threads at each look, the latest last
    """
    rows = moments[-1]
    demand = Demand(supply, rows)
    shortage = Shortage(demand)
    # One shortage is one verdict: threads of a throttled process wait, whoever else uses the processors.
    first = (
        shortage.throttled()
        or Placement(demand).verdict()
        or shortage.oversubscribed()
        or shortage.starved()
        or shortage.paging()
    )
    verdicts = [first, Spinning(demand, moments).verdict(), narrow_room(supply, rows)]
    return [verdict for verdict in verdicts if verdict is not None]


def placed(
    verdicts: Sequence[VerdictRecord], supply: Supply, moments: Sequence[Sequence[ThreadRecord]]
) -> tuple[VerdictRecord, ...]:
    """Return *verdicts* together with those on the supply.

    Verdicts on threads that may be stuck stay first. Sure causes of slowness come before the verdict that nothing
    hangs, others after it.
    """
    index = next((n for n, verdict in enumerate(verdicts) if _is_no_hang(verdict)), len(verdicts))
    of_supply = supply_verdicts(supply, moments)
    if any(verdict.kind is VerdictKind.OVERSUBSCRIBED for verdict in verdicts):
        # The others say the same about threads that spin.
        of_supply = [verdict for verdict in of_supply if verdict.kind not in _BY_OTHERS]
    before = [verdict for verdict in of_supply if _is_sure(verdict)]
    after = [verdict for verdict in of_supply if not _is_sure(verdict)]
    no_hang = tuple(
        replace(verdict, unknowns=(*verdict.unknowns, *supply.unknowns)[:_MOST_UNKNOWNS])
        for verdict in verdicts[index : index + 1]
    )
    return (*verdicts[:index], *before, *no_hang, *after, *verdicts[index + 1 :])


def _is_sure(verdict: VerdictRecord) -> bool:
    return verdict.kind in _SURE and verdict.confidence in (Confidence.PROVEN, Confidence.LIKELY)


def _is_no_hang(verdict: VerdictRecord) -> bool:
    return verdict.stuck is Confidence.UNKNOWN and (verdict.kind is VerdictKind.NO_STALL or verdict.kind.has_workers)
