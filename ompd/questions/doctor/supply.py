"""What keeps a live process from using processors, as findings. They are the verdicts of ``why`` on the same facts."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping, Sequence

from ompd.analysis.verdicts.supply.bindings import binding_settings
from ompd.analysis.verdicts.supply.demand import processors_in_words, settings_in_words
from ompd.analysis.verdicts.supply.verdicts import supply_verdicts
from ompd.machine.report import Report
from ompd.machine.supply.readings import supply_between, take_reading
from ompd.model import ThreadRecord
from ompd.model.findings import FindingRecord
from ompd.model.kinds import VerdictKind
from ompd.model.supply import Settings
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
_LISTS = ("OMP_PLACES", "GOMP_CPU_AFFINITY")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?")
_MAX_CPU = 1 << 16
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


def examine(look: Look, rows: Sequence[ThreadRecord]) -> Report:
    """Return the report on what a live process gets from its machine.

    :param rows: the rows of ``threads``
    """
    report = Report("process")
    if look.supply is None:
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


def examine_places(variables: Mapping[str, str] | None, kinds: Collection[str], rows: Sequence[ThreadRecord]) -> Report:
    """Return the report on a core whose settings name fewer processors than a team has threads.

    A core has neither the processors that threads may use nor times of waiting.

    :param variables: the environment, None if it is unknown
    :param kinds: the kinds of the runtimes
    :param rows: the rows of ``threads``
    """
    report = Report("process")
    settings = Settings(kinds={kind: kind for kind in kinds}, variables=variables)
    bindings = binding_settings(settings)
    name = next((name for name in _LISTS if name in bindings), None)
    cpus = named_processors(bindings[name]) if name is not None else None
    active = sum((row.active_level or 0) > 0 and row.native_thread_id is not None for row in rows)
    if name is not None and cpus is not None and active > len(cpus):
        report.add(
            "few_processors",
            "note",
            name,
            f"{settings_in_words({name: bindings[name]})} names {processors_in_words(cpus)}, and {active} threads are"
            " in active regions",
            _CONSEQUENCES[VerdictKind.FEW_PROCESSORS],
            f"unset {name}, or list more places in it: one processor for each thread",
        )
    return report


def named_processors(text: str) -> set[int] | None:
    """Return the processors that a list of places names, of ``GOMP_CPU_AFFINITY`` or ``OMP_PLACES``.

    None for names of places (``cores``) and for forms with intervals of places, which depend on the machine.
    """
    cpus: set[int] = set()
    for part in text.replace("{", " ").replace("}", " ").replace(",", " ").split():
        words = _RANGE.fullmatch(part)
        if words is None:
            return None
        low, high, step = int(words[1]), int(words[2] or words[1]), int(words[3] or 1)
        if not low <= high < _MAX_CPU or not step:
            return None
        cpus.update(range(low, high + 1, step))
    return cpus or None


def remedy(findings: Sequence[FindingRecord]) -> str | None:
    """Return how the process gets more processors, in the words of the setting that took them. None if unknown."""
    return next((row.remedy for row in findings if row.kind in _BY_SETTINGS), None)
