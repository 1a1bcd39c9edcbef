"""A row's facts about the signal that its thread took."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, TypedDict

from ompd.errors import OmpdError, Unavailable
from ompd.questions.facts.gathering import Facts
from ompd.session import Session
from ompd.session.stop import signal_name

if TYPE_CHECKING:
    from ompd.binary.core.notes import SignalInfo

# The C library's names of its functions that send a signal to a thread.
_RAISES = re.compile(r"_*(?:GI_+)?(?:raise|gsignal|abort|pthread_kill\w*|tg?kill|syscall)(?:@.*)?")
_KEYS = ("signal", "signal_name", "si_code", "si_addr", "failed")


class SignalFacts(TypedDict):
    """Keys of rows; see :class:`ompd.model.ThreadRecord`."""

    signal: int | None
    signal_name: str | None
    si_code: int | None
    si_addr: int | None
    failed: bool | None


_NONE = SignalFacts(signal=None, signal_name=None, si_code=None, si_addr=None, failed=False)
_LOST = SignalFacts(signal=None, signal_name=None, si_code=None, si_addr=None, failed=None)


def signal_of(session: Session, thread: int | None, facts: Facts) -> SignalFacts:
    """Return the facts about the signal that *thread* (a native id) took, None if they are lost."""
    info = facts.get("signal", _siginfo, session, thread)
    if "signal" in facts.unavailable:
        facts.unavailable.update(dict.fromkeys(_KEYS, facts.unavailable["signal"]))
        return _LOST
    if info is None or thread is None:
        return _NONE
    if info.code is None:
        facts.unavailable["si_code"] = "the target does not say where the signal came from"
    ids = {*session.process.threads.ids(), session.target.process_id or 0} - {0}
    return SignalFacts(
        signal=info.number,
        signal_name=signal_name(info.number),
        si_code=info.code,
        si_addr=facts.get("si_addr", info.fault_address),
        failed=facts.get("failed", info.has_failed, ids, partial(_has_raised, session, thread)),
    )


def _has_raised(session: Session, thread: int) -> bool:
    # Return whether a thread has raised its signal itself, that is, whether its innermost functions send signals. In a
    # signal handler, only abort() counts. The reason is libgfortran's handler of SIGABRT: it raises the received signal
    # again, and the signal arrives at the interrupted function or in the handler.
    names: list[str] = []
    try:
        stack = session.process.stacks.stack(thread)
        for frame, site in zip(stack.frames, stack.shape[1], strict=False):
            if frame.is_signal_frame:
                return any(name.partition("@")[0].endswith("abort") for name in names)
            place = session.process.places.locate(site)
            if place.symbol is None and not names:
                # In a stripped C library the innermost function has no name. No other library sends signals.
                module = place.module
                if module is None or module.is_program or module.is_system_library:
                    return True
            names.append(place.symbol or "")
    except OmpdError:
        return True
    return any(map(_RAISES.fullmatch, names))


def _siginfo(session: Session, thread: int | None) -> SignalInfo | None:
    if thread is None:
        raise Unavailable("its thread of the process is unknown")
    return session.target.siginfo(thread)
