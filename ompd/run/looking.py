"""Asks why the processes of a command do not go on."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from pathlib import Path

from ompd.errors import OmpdError
from ompd.machine.processes import openmp_descendants
from ompd.model import WhyAnswer
from ompd.model.kinds import Confidence, VerdictKind
from ompd.questions import why
from ompd.questions.why.looks import look_before
from ompd.records import record
from ompd.session import Session

_MOST_PROCESSES = 64
_BETWEEN = 1.0  # seconds between the two looks that have to agree


@record
class Seen:
    """The answer of ``why`` on a process, or the reason why there is none.

    ``program`` is the name of the program's file, None if it cannot be read.
    """

    process_id: int
    program: str | None
    answer: WhyAnswer | None
    fault: str | None = None

    @property
    def is_stuck(self) -> bool:
        """Whether threads of the process surely or likely never go on, and it is known why.

        A thread that waits for an unknown reason may be an idle one of some pool.
        """
        if self.answer is None:
            return False
        first = self.answer.rows[0]
        return first.stuck is Confidence.PROVEN or (
            first.stuck is Confidence.LIKELY and first.kind is not VerdictKind.UNDECIDED
        )

    @property
    def name(self) -> str:
        """The process in words."""
        return f"process {self.process_id}" + (f" ({self.program})" if self.program is not None else "")


def look_at(process_id: int) -> list[Seen]:
    """Return what ``why`` answers on a process and its descendants with an OpenMP runtime, at most 64. Those that are
    stuck come first.

    A process is stuck only if a second look, a second later, has the same first verdict.
    """
    seen = [_look(process) for process in (process_id, *openmp_descendants(process_id))[:_MOST_PROCESSES]]
    if any(look.is_stuck for look in seen):
        time.sleep(_BETWEEN)
        seen = [_confirmed(look) if look.is_stuck else look for look in seen]
    return sorted(seen, key=lambda look: (not look.is_stuck, look.answer is None))


def _confirmed(earlier: Seen) -> Seen:
    later = _look(earlier.process_id)
    if later.answer is None or earlier.answer is None or later.answer.rows[0].kind is earlier.answer.rows[0].kind:
        return later
    return Seen(later.process_id, later.program, None, "two looks have different verdicts, so it goes on")


def _look(process_id: int) -> Seen:
    program = None
    try:
        program = Path(f"/proc/{process_id}/exe").readlink().name.removesuffix(" (deleted)")
        with Session.attach(process_id) as session:
            earlier = look_before(session)
            may_stop = earlier is None or earlier.may_stop
            answer = session.ask(partial(why.ask, earlier=earlier), may_stop=may_stop)
    except OmpdError as error:
        return Seen(process_id, program, None, str(error))
    except OSError:
        return Seen(process_id, program, None, "it has ended, or another user has it")
    return Seen(process_id, program, replace(answer, query="why"))
