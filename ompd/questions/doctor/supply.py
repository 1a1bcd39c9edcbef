"""What keeps a live process from using processors, as findings. They are the verdicts of ``why`` on the same facts."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ompd.analysis.verdicts.supply.verdicts import supply_verdicts
from ompd.machine.report import Report
from ompd.machine.supply.readings import supply_between, take_reading
from ompd.model import ThreadRecord
from ompd.model.findings import FindingRecord
from ompd.model.kinds import VerdictKind
from ompd.questions.why.looks import INTERVAL, Look
from ompd.questions.why.settings import settings_of
from ompd.session import Session

_CONSEQUENCES = {
    VerdictKind.THROTTLED: "its threads stop for the rest of each period: regions take longer, and unevenly",
    VerdictKind.FEW_PROCESSORS: "they take turns: at each barrier all wait for those that have not had their turn",
    VerdictKind.OVERSUBSCRIBED: "they take turns: at each barrier all wait for those that have not had their turn",
    VerdictKind.STARVED: "at each barrier all wait for the thread that waited most",
    VerdictKind.SPIN_BURN: "they take processors from threads that have work, and use energy",
    VerdictKind.LIMITS: "libgomp ends the program if a thread cannot be created; LLVM's runtime ends it, too, or has"
    " smaller teams",
}
_BY_SETTINGS = (VerdictKind.THROTTLED, VerdictKind.FEW_PROCESSORS)
_NOTES = (VerdictKind.STARVED, VerdictKind.SPIN_BURN)


def look_before(session: Session) -> Look | None:
    """Return what a live process gets from its machine in the next half second. None for any other target."""
    process_id = session.target.process_id
    if session.target.kind != "live" or process_id is None:
        return None
    settings = session.ask(settings_of)
    earlier = take_reading(process_id)
    time.sleep(INTERVAL)
    supply = supply_between(process_id, earlier, take_reading(process_id), settings)
    return Look((), None, supply=supply)


def examine(look: Look | None, rows: Sequence[ThreadRecord]) -> Report:
    """Return the report on what the process gets from its machine, empty if that was not measured.

    :param rows: the rows of ``threads``
    """
    report = Report("process")
    if look is None or look.supply is None:
        return report
    for verdict in supply_verdicts(look.supply, [rows]):
        count = len(verdict.explains)
        report.add(
            verdict.kind,
            "note" if verdict.kind in _NOTES else "warning",
            f"{count} thread{'' if count == 1 else 's'}" if count else "the next region",
            verdict.summary,
            _CONSEQUENCES[verdict.kind],
            "; ".join(verdict.advice) or None,
        )
    for unknown in look.supply.unknowns:
        report.unknown("supply", "processors", unknown, "whether threads wait for processors is not fully known")
    return report


def remedy(findings: Sequence[FindingRecord]) -> str | None:
    """Return how the process gets more processors, in the words of the setting that took them. None if unknown."""
    return next((row.remedy for row in findings if row.kind in _BY_SETTINGS), None)
