"""What a row tells of the signal that its thread took."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from ompd.debugger.formats.notes import SignalInfo
from ompd.debugger.signals import fault_address, has_failed
from ompd.errors import Unavailable
from ompd.questions.facts import Facts
from ompd.session import Session, signal_name

_KEYS = ("signal", "signal_name", "si_code", "si_addr", "failed")


class SignalFacts(NamedTuple):
    """Keys of rows; see :class:`ompd.model.ThreadRecord`."""

    signal: int | None = None
    signal_name: str | None = None
    si_code: int | None = None
    si_addr: int | None = None
    failed: bool | None = False


def signal_of(session: Session, thread: int | None, facts: Facts) -> SignalFacts:
    """Return what is known of the signal that *thread* took, by its native id, None where that is lost."""
    info = facts.get("signal", partial(_siginfo, session, thread))
    if "signal" in facts.unavailable:
        facts.unavailable.update(dict.fromkeys(_KEYS, facts.unavailable["signal"]))
        return SignalFacts(failed=None)
    if info is None:
        return SignalFacts()
    if info.code is None:
        facts.unavailable["si_code"] = "the target does not tell where the signal came from"
    own = {*session.process.threads(), session.target.process_id or 0} - {0}
    return SignalFacts(
        info.number,
        signal_name(info.number),
        info.code,
        facts.get("si_addr", partial(fault_address, info)),
        facts.get("failed", partial(has_failed, info, own)),
    )


def _siginfo(session: Session, thread: int | None) -> SignalInfo | None:
    if thread is None:
        raise Unavailable("which thread of the process it is, is not known")
    return session.target.siginfo(thread)
