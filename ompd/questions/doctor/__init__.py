"""``doctor``: what keeps answers from being better, what endangers the process, and what mends each.

``files`` is about the target and the files of its modules, ``runtimes`` about the OpenMP runtimes in it, ``process``
about the process itself; what is asked without a target is in :mod:`ompd.machine`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from ompd.errors import BadProcess, NoAnswer
from ompd.machine import cores, installation, tracing
from ompd.machine.report import SEVERITIES, Report
from ompd.model import TargetRecord, ThreadRecord
from ompd.model.findings import DoctorAnswer, FindingRecord
from ompd.questions import threads
from ompd.questions.doctor import files, process, runtimes
from ompd.questions.facts.answers import answer, begin
from ompd.questions.facts.damage import is_damaged
from ompd.questions.facts.gathering import Problems
from ompd.questions.runtimes import records
from ompd.session import Session

_AREAS = ("target", "files", "process", "machine", "installation")


def ask(session: Session) -> DoctorAnswer:
    """Return what keeps answers on this target from being better, and the risks of the process."""
    rows, doubts = _threads(session)
    problems = begin(session)
    known = records(session, problems)
    for doubt in doubts:
        problems.unreadable(doubt)
    environment = process.environment_of(session)
    reports = (
        files.target(session),
        *runtimes.examine(session, known),
        files.modules(session),
        process.examine(session, rows, environment, is_partial=bool(doubts) or is_damaged(session)),
    )
    found = answer(session, _sorted(reports), known, problems)
    return DoctorAnswer(
        found.target,
        found.runtimes,
        found.rows,
        found.complete,
        found.warnings,
        in_order=() if is_damaged(session) else _in_order(reports),  # what is lost may not be
    )


def _threads(session: Session) -> tuple[Sequence[ThreadRecord], Sequence[str]]:
    # The rows of `threads`, and what could not be read of them.
    try:
        found = threads.ask(session)
    except NoAnswer:
        return (), ()
    return found.rows, () if found.complete else found.warnings


def ask_alone(process_id: int | None, *, nonblocking: bool = False) -> DoctorAnswer | None:
    """Return what is known of this machine and of the installation, or why a process cannot be inspected.

    :param process_id: the process, None if no target was named
    :param nonblocking: whether it would only be read, and not stopped
    :return: None if there is nothing in the way of inspecting the process, or no such process
    """
    if process_id is None:
        reports = (tracing.examine(), cores.examine(), installation.examine())
        return _of_machine(reports, None)
    refusal = Session.find_refusal(process_id, nonblocking=nonblocking)
    if refusal is None:
        return None
    refused = Report("target")
    refused.add(
        "attach_refused",
        "error",
        f"process {process_id}",
        refusal.fault,
        "no command can inspect it; those that read a core can, if its owner writes one (gcore)",
        refusal.hint or None,
    )
    return _of_machine((refused, tracing.examine()), refusal)


def _of_machine(reports: Sequence[Report], refusal: BadProcess | None) -> DoctorAnswer:
    problems = Problems()
    if refusal is not None:
        problems.unreadable(str(refusal))
    target = TargetRecord(
        kind="machine",
        file=None,
        executable=None,
        process_id=None,
        command=None,
        signal=None,
        signal_name=None,
        architecture=os.uname().machine,
        thread_count=None,
    )
    return DoctorAnswer(
        target, (), tuple(_sorted(reports)), problems.complete, problems.warnings, in_order=_in_order(reports)
    )


def _sorted(reports: Sequence[Report]) -> list[FindingRecord]:
    rows = [row for report in reports for row in report.rows]
    return sorted(rows, key=lambda row: (_AREAS.index(row.area), SEVERITIES.index(row.severity)))


def _in_order(reports: Sequence[Report]) -> tuple[str, ...]:
    return tuple(text for report in reports for text in report.in_order)
