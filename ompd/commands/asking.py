"""What the commands of the table ask: each imports its query when it runs, since most commands need one alone."""

from __future__ import annotations

from typing import Any

from ompd.commands.targets import process_id_of
from ompd.model import Answer
from ompd.session import Session


def ask_parallel(session: Session) -> Answer[Any]:
    """Return the answer to ``parallel``."""
    import ompd.questions.regions as regions

    return regions.ask(session)


def ask_tasks(session: Session) -> Answer[Any]:
    """Return the answer to ``tasks``."""
    import ompd.questions.tasks as tasks

    return tasks.ask(session)


def ask_stack(session: Session, **options: Any) -> Answer[Any]:
    """Return the answer to ``stack``."""
    import ompd.questions.stacks as stacks

    return stacks.ask(session, **options)


def ask_icvs(session: Session) -> Answer[Any]:
    """Return the answer to ``icvs``."""
    import ompd.questions.icvs as icvs

    return icvs.ask(session)


def changed(answer: Answer[Any]) -> Answer[Any]:
    """Return *answer* with the control variables alone that differ."""
    import ompd.questions.icvs as icvs

    return icvs.changed(answer)


def ask_variable(session: Session, name: str, **options: Any) -> Answer[Any]:
    """Return the answer to ``var``."""
    import ompd.questions.variables as variables

    return variables.ask(session, name, **options)


def ask_why(session: Session, earlier: Any) -> Answer[Any]:
    """Return the answer to ``why``, after a look at an earlier moment."""
    import ompd.questions.why as why

    return why.ask(session, earlier)


def look_before(session: Session, samples: int | None, interval: float | None) -> Any:
    """Return what ``why`` has to know of moments before its own."""
    import ompd.questions.why.looks as looks

    return looks.look_before(session, samples, interval)


def look_at_earlier(earlier: Session, session: Session) -> Any:
    """Return the same of a core of an earlier moment."""
    import ompd.questions.why.looks as looks

    return looks.look_at_earlier(earlier, session)


_HEALTHY = frozenset(("no_stall", "laggard", "oversubscribed"))


def status_of_why(answer: Answer[Any]) -> int:
    """Return the exit code that the first verdict, which is the surest one, gives ``why --exit-code``."""
    first = answer.rows[0] if answer.rows else None
    if first is not None and first.stuck == "proven":
        return 10
    if first is not None and first.kind in _HEALTHY:
        return 12
    return 13 if first is None or first.kind == "undecided" or first.stuck == "unknown" else 11


def ask_doctor(session: Session) -> Answer[Any]:
    """Return the answer to ``doctor``."""
    import ompd.questions.doctor as doctor

    return doctor.ask(session)


def ask_doctor_alone(target: str | None, nonblocking: bool) -> Answer[Any] | None:
    """Return the answer to ``doctor`` without a target or on a process; None for a core."""
    process_id = process_id_of(target) if target is not None else None
    if target is not None and process_id is None:
        return None
    import ompd.questions.doctor as doctor

    return doctor.ask_alone(process_id, nonblocking=nonblocking)


def ask_check(session: Session) -> Answer[Any]:
    """Return the answer to ``check``."""
    import ompd.questions.check.answering as check

    return check.ask(session)


def status_of_check(answer: Any) -> int | None:
    """Return the exit code of ``check``, None for the usual one."""
    import ompd.questions.check.answering as check

    return 10 if check.is_news(answer) else None
