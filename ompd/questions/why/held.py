"""Inside of which constructs and locks a thread stands, by the code of its frames: who holds what no runtime records.

A function that called ``omp_set_lock(&a)`` on every way to the place where it is, and no ``omp_unset_lock(&a)`` behind
it, holds the lock. That is reasoning: where other code may have unset it, or a way may lead past the call, it is said
to be not certain.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from ompd import naming
from ompd.contract.code_owners import RUNTIME, SYSTEM, USER
from ompd.contract.process import Frame
from ompd.errors import OmpdError
from ompd.model import HeldRecord, Place
from ompd.model.kinds import Doubt, Kind
from ompd.questions import places
from ompd.questions.threads.waits import lock_symbol

if TYPE_CHECKING:
    from ompd.debugger.flow.functions import Begun, Functions
    from ompd.session import Session

_MAX_FRAMES = 1 << 10


def held(session: Session, thread: int) -> tuple[HeldRecord, ...]:
    """Return inside of what a thread stands by its own stack, innermost frame first; see :class:`HeldRecord`.

    Empty for a thread of which nothing of the kind is seen, which does not mean that there is nothing: what was begun
    in a function that has returned since leaves no trace.

    :param thread: its native id
    """
    stack = session.process.stacks.stack(thread)
    functions = session.process.functions(naming.ROUTINES(), lambda at: places.code_owner(session, at) == USER)
    kept: tuple[HeldRecord, ...] | None = functions.kept.get(stack.shape)
    if kept is not None:
        return kept
    frames = stack.frames[:_MAX_FRAMES]
    found: list[HeldRecord] = []
    is_fixed = True
    for number, frame in enumerate(frames):
        if places.code_owner(session, frame.call_site) in (RUNTIME, SYSTEM):
            continue
        if _runs_once(session, frames[:number]):
            found.append(_once(session, functions, frame))
            is_fixed = False
        try:
            begun = functions.begun(frame)
        except OmpdError:
            continue
        for each in reversed(begun):
            doubt = Doubt(each.doubt) if each.doubt else None
            if doubt is None and Kind(each.routine.kind).is_passed_on:
                doubt = _let_go(session, functions, frames[:number], frame, each)
                is_fixed = is_fixed and not functions.loose()
            is_fixed = is_fixed and each.is_fixed
            found.append(_record(session, frame, each, doubt))
    if is_fixed:
        functions.kept[stack.shape] = tuple(found)
    return tuple(found)


def _let_go(session: Session, functions: Functions, inner: Sequence[Frame], frame: Frame, begun: Begun) -> Doubt | None:
    # Whether frames inside of this one may have let go of what it began.
    chain = [*inner, frame]
    for number, each in enumerate(chain):
        if places.code_owner(session, each.call_site) in (RUNTIME, SYSTEM):
            continue
        parts = [functions.left(each, chain[number - 1] if number else None)]
        if each is not frame:
            parts.append(functions.let_go(each))
        for known in parts:
            if known is None:
                return Doubt.CALLEE
            for kind, address in known:
                if kind == begun.routine.kind and (None in (address, begun.object) or address == begun.object):
                    return Doubt.CALLEE
    return None


def _runs_once(session: Session, inner: Sequence[Frame]) -> bool:
    # Whether code is called by pthread_once(), which the frame around these frames called.
    is_once = bool(inner) and naming.is_once(session.process.places.locate(inner[-1].call_site).symbol)
    return is_once and any(places.code_owner(session, frame.call_site) != SYSTEM for frame in inner)


def _once(session: Session, functions: Functions, frame: Frame) -> HeldRecord:
    control = None
    with suppress(OmpdError):
        control = functions.arguments(frame)[0]
    place = _place(session, frame.call_site)
    return HeldRecord(
        kind=Kind.ONCE, object=control, place=place, reason=f"pthread_once(){_at(place)} has not returned"
    )


def _record(session: Session, frame: Frame, begun: Begun, doubt: Doubt | None) -> HeldRecord:
    kind, variable = Kind(begun.routine.kind), begun.object
    is_unnamed = kind is Kind.CRITICAL and begun.routine.argument is None
    try:
        symbol = lock_symbol(session, kind, variable, is_unnamed=is_unnamed)
    except OmpdError:
        symbol = None
    place = _place(session, begun.call)
    called = begun.name if symbol is None or is_unnamed else f"{begun.name}({symbol})"
    line = session.process.places.line_of(frame.call_site)[1]
    reason = f"{called}{_at(place)} is not undone before {f'line {line}' if line is not None else 'where it is'}"
    if doubt is not None:
        reason += f"; but {doubt.reason}"
    return HeldRecord(kind=kind, object=variable, symbol=symbol, place=place, is_certain=doubt is None, reason=reason)


def _at(place: Place) -> str:
    if place.line is None:
        return f" in {place.function}" if place.function is not None else ""
    return f" at {(place.file or '').rpartition('/')[2]}:{place.line}"


def _place(session: Session, address: int) -> Place:
    function = session.process.places.source_frames(address)[0].function
    file, line = session.process.places.line_of(address)
    outlined = naming.parse_outlined(function or "")
    return Place(address, outlined.parent if outlined is not None else function, file, line)


def wanted(session: Session, thread: int) -> int | None:
    """Return the address of the variable that a thread has passed to the routine of the runtime in which it is, None if
    that is unknown: which lock it waits for where the runtime names an object of its own.

    :param thread: its native id
    """
    functions = session.process.functions(naming.ROUTINES(), lambda at: places.code_owner(session, at) == USER)
    for frame in session.process.stacks.stack(thread).frames:
        owner = places.code_owner(session, frame.call_site)
        if owner not in (RUNTIME, SYSTEM):
            return functions.wanted(frame) if owner == USER else None
    return None
