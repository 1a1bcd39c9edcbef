"""Finds the constructs that a thread is inside of and the locks that it may hold, by the code of its frames.

This is for objects whose holder no runtime records. A function holds a lock if, on every way to its current place, it
has called ``omp_set_lock(&a)`` and afterwards no ``omp_unset_lock(&a)``. This is reasoning: it is not certain if other
code may have unset the lock, or if there may be a way around the call.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from ompd import naming
from ompd.contract.code_owners import RUNTIME, SYSTEM, USER
from ompd.contract.process import Frame, Module, Stack
from ompd.errors import OmpdError
from ompd.model import HeldRecord, Place, ThreadRecord
from ompd.model.kinds import Doubt, Kind
from ompd.questions import places
from ompd.questions.threads.waits import lock_symbol
from ompd.session import Session

if TYPE_CHECKING:
    from ompd.debugger.flow.functions import Begun, Functions

_MAX_FRAMES = 1 << 10


def held(session: Session, thread: int) -> tuple[HeldRecord, ...]:
    """Return the constructs that a thread is inside of and the locks that it holds, by its stack, innermost first.

    An empty result does not prove that the thread holds nothing: a function may have set a lock and returned.

    :param thread: its native id
    """
    stack = session.process.stacks.stack(thread)
    functions = places.followed_functions(session)
    earlier: tuple[HeldRecord, ...] | None = functions.kept.get(stack.shape)
    if earlier is not None:
        return earlier
    frames = stack.frames[:_MAX_FRAMES]
    records: list[HeldRecord] = []
    is_fixed = True
    for number, frame in enumerate(frames):
        if places.code_owner(session, frame.call_site) in (RUNTIME, SYSTEM):
            continue
        if _runs_once(session, frames[:number]):
            records.append(_once(session, functions, frame))
            is_fixed = False
        try:
            begun = functions.begun(frame)
        except OmpdError:
            continue
        for construct in reversed(begun):
            doubt = Doubt(construct.doubt) if construct.doubt else None
            if doubt is None and Kind(construct.routine.kind).is_passed_on:
                doubt = _let_go(session, functions, frames[:number], frame, construct)
                is_fixed = is_fixed and not functions.releases.all
            is_fixed = is_fixed and construct.is_fixed
            records.append(_record(session, frame, construct, doubt))
    if is_fixed:
        functions.kept[stack.shape] = tuple(records)
    return tuple(records)


def _let_go(session: Session, functions: Functions, inner: Sequence[Frame], frame: Frame, begun: Begun) -> Doubt | None:
    # Return a doubt if a function that *frame* called may have released the lock set in *frame*, otherwise None.
    chain = [*inner, frame]
    for number, called in enumerate(chain):
        if places.code_owner(session, called.call_site) in (RUNTIME, SYSTEM):
            continue
        parts = [functions.released_by_jumpers(called, chain[number - 1] if number else None)]
        if called is not frame:
            parts.append(functions.released(called))
        for released in parts:
            if released is None:
                return Doubt.CALLEE
            for kind, address in released:
                may_be_same = address is None or begun.object is None or address == begun.object
                if kind == begun.routine.kind and may_be_same:
                    return Doubt.CALLEE
    return None


def _runs_once(session: Session, inner: Sequence[Frame]) -> bool:
    # Return whether the next outer frame called pthread_once(), which called user code. *inner*: the frames inside.
    is_once = bool(inner) and naming.is_once(session.process.places.locate(inner[-1].call_site).symbol)
    return is_once and any(places.code_owner(session, frame.call_site) != SYSTEM for frame in inner)


def _once(session: Session, functions: Functions, frame: Frame) -> HeldRecord:
    control = None
    with suppress(OmpdError):
        control = functions.arguments(frame)[0]
    place = place_of_code(session, frame.call_site)
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
    place = place_of_code(session, begun.call)
    called = begun.name if symbol is None or is_unnamed else f"{begun.name}({symbol})"
    line = session.process.places.line_of(frame.call_site)[1]
    ended = "left" if kind.is_for_some else "released"
    reason = f"{called}{_at(place)} is not {ended} before {f'line {line}' if line is not None else 'where it is'}"
    if doubt is not None:
        reason += f"; but {doubt.reason}"
    return HeldRecord(kind=kind, object=variable, symbol=symbol, place=place, is_certain=doubt is None, reason=reason)


def _at(place: Place) -> str:
    if place.line is None:
        return f" in {place.function}" if place.function is not None else ""
    return f" at {(place.file or '').rpartition('/')[2]}:{place.line}"


def place_of_code(session: Session, address: int) -> Place:
    """Return the function, file and line of an address. In a construct's code, the function is the one around it."""
    function = session.process.places.source_frames(address)[0].function
    file, line = session.process.places.line_of(address)
    outlined = naming.parse_outlined(function or "")
    return Place(address, outlined.parent if outlined is not None else function, file, line)


def wanted(session: Session, thread: int) -> int | None:
    """Return the address of the variable that user code has passed to the runtime's routine, None if it is unknown.

    For a thread that waits for a lock, this is the lock's variable. The runtime may record another address for it.

    :param thread: its native id
    """
    functions = places.followed_functions(session)
    for frame in session.process.stacks.stack(thread).frames:
        owner = places.code_owner(session, frame.call_site)
        if owner not in (RUNTIME, SYSTEM):
            return functions.object_passed(frame) if owner == USER else None
    return None


def reentered(session: Session, rows: Sequence[ThreadRecord]) -> Iterator[tuple[ThreadRecord, HeldRecord]]:
    """Yield threads that likely wait for a lock of the runtime that they hold themselves, each with the held lock.

    The lock has no recorded owner. Such a thread is in user code that the runtime called, such as an allocator, and
    this code has called the runtime again. Nothing is yielded if another thread is in the runtime's code and may hold
    the lock. This includes a thread that is awake at a point where it may execute tasks, because it looks for tasks.
    """
    waiting = [row for row in rows if row.wait is not None and row.wait.kind is Kind.INTERNAL_LOCK]
    if any(row.runtime is not None and row.wait is None and row.state != "idle" for row in rows):
        return
    # Threads that spin at a barrier are no reason to return: they only read the barrier's word, and take no lock.
    if any(row.wait is not None and row.wait.kind.is_task and row.wait.how != "blocked" for row in rows):
        return
    for row in waiting:
        wait = row.wait
        if wait is None or wait.owner is not None or wait.object is None or row.native_thread_id is None:
            continue
        try:
            names = _called_back(session, row.native_thread_id)
        except OmpdError:
            continue
        if names is not None:
            reason = f"{names[0]} has called {names[1]}, which came to wait for it"
            yield row, HeldRecord(kind=wait.kind, object=wait.object, is_certain=False, reason=reason)


def _called_back(session: Session, thread: int) -> tuple[str, str] | None:
    # Return the names of the runtime's routine and of the user function that it called. None if it called none, or only
    # the code of a construct.
    inner: int | None = None
    has_waited = False
    for frame in session.process.stacks.stack(thread).frames:
        owner = places.code_owner(session, frame.call_site)
        if owner == RUNTIME and inner is not None:
            if places.is_of_construct(session, inner):
                return None
            routine = session.process.places.locate(frame.call_site).symbol
            function = session.process.places.source_frames(inner)[-1].function
            return routine or "the runtime", function or "code of the user's"
        has_waited |= owner == RUNTIME
        if owner == USER and has_waited:
            inner = frame.call_site
        elif inner is not None:
            return None  # the C library lies in between, or the kernel has called a handler
    return None


_INTERPRETS = "_PyEval_EvalFrame"


def may_hold_interpreter(session: Session, waiting: Collection[int], at_work: Collection[int]) -> frozenset[int]:
    """Return the native ids of the threads that may hold Python's interpreter lock, by their stacks.

    These are the threads in Python's code that do not wait for the lock. A thread in a system call that the interpreter
    itself made does not hold the lock: the interpreter releases it before such calls.

    :param waiting: the native ids of the threads that wait for the lock
    :param at_work: the native ids of the threads that wait for nothing
    """
    holders = set()
    for thread in session.process.threads.ids():
        if thread not in waiting:
            with suppress(OmpdError):
                called_others = _called_others(session, session.process.stacks.stack(thread))
                if called_others or (called_others is not None and thread in at_work):
                    holders.add(thread)
    return frozenset(holders)


def _called_others(session: Session, stack: Stack) -> bool | None:
    # Return whether the innermost Python code on a stack has called a library other than the interpreter and the C
    # library. None if the stack has no Python code.
    inner: list[tuple[Module | None, int]] = []
    for frame in stack.frames[:_MAX_FRAMES]:
        place = session.process.places.locate(frame.call_site)
        if place.symbol is not None and place.symbol.startswith(_INTERPRETS):
            return any(module != place.module and places.code_owner(session, site) != SYSTEM for module, site in inner)
        inner.append((place.module, frame.call_site))
    return None
