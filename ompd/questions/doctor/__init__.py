"""``doctor``: obstacles to better answers, risks of the process, and their remedies.

``files`` examines the target and the files of its modules, ``runtimes`` the OpenMP runtimes, ``process`` the process
itself, ``supply`` what the process gets from its machine. :mod:`ompd.machine` examines the machine, without a target.
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
from ompd.questions.doctor import files, process, runtimes, supply
from ompd.questions.facts.answers import answer, begin
from ompd.questions.facts.damage import is_damaged
from ompd.questions.facts.gathering import Problems
from ompd.questions.runtimes import records
from ompd.questions.why.looks import Look
from ompd.session import Session

_AREAS = ("target", "files", "process", "machine", "installation")


def ask(session: Session, earlier: Look | None = None) -> DoctorAnswer:
    """Return the obstacles to better answers on this target, and the risks of the process.

    :param earlier: what :func:`ompd.questions.doctor.supply.look_before` returned, None if nothing was measured
    """
    rows, doubts = _threads(session)
    problems = begin(session)
    runtime_rows = records(session, problems)
    for doubt in doubts:
        problems.incomplete(doubt)
    environment = process.environment_of(session)
    supplied = (
        supply.examine(earlier, rows)
        if earlier is not None
        else supply.examine_places(environment[0], {runtime.found.kind for runtime in session.runtimes}, rows)
    )
    remedy = supply.remedy(supplied.rows)
    reports = (
        files.target(session),
        *runtimes.examine(session, runtime_rows),
        files.modules(session),
        supplied,
        process.examine(session, rows, environment, is_partial=bool(doubts) or is_damaged(session), remedy=remedy),
    )
    plain = answer(session, _sorted(reports), runtime_rows, problems)
    return DoctorAnswer(
        plain.target,
        plain.runtimes,
        plain.rows,
        plain.complete,
        plain.warnings,
        in_order=() if is_damaged(session) else _in_order(reports),  # the lost parts may be out of order
    )


def _threads(session: Session) -> tuple[Sequence[ThreadRecord], Sequence[str]]:
    # The rows of `threads`, and its warnings if it is incomplete.
    try:
        answer = threads.ask(session)
    except NoAnswer:
        return (), ()
    return answer.rows, () if answer.complete else answer.warnings


def ask_alone(process_id: int | None, *, nonblocking: bool = False) -> DoctorAnswer | None:
    """Return the findings about this machine and the installation, or the reason why a process cannot be inspected.

    :param process_id: the process, None if no target was named
    :param nonblocking: whether the process would only be read, and not stopped
    :return: None if the process can be inspected, or does not exist
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
        problems.incomplete(str(refusal))
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
