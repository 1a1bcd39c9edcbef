"""Finds where threads enter the code of a construct that a line begins, and where they go on after it.

Compilers put the code of a construct into a function of its own, which the runtime calls, perhaps on other threads. A
debugger's step cannot follow such calls. So the places are found here in the stopped program, and the debugger lets
the program run to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from ompd import naming
from ompd.errors import NoAnswer, OmpdError, Unavailable
from ompd.model import StackFrame
from ompd.questions import stacks
from ompd.session import Session

_MOST_CODE = 1 << 16  # bytes of a function that are examined
_MOST_OF_ENTRY = 256  # bytes of a function that enters a task
_TABLE = "_GLOBAL_OFFSET_TABLE_"


class Begun(NamedTuple):
    """The code of a construct that begins on a line. ``entry`` is the address at which the code begins.

    ``is_task`` is whether the construct is a task, so that any thread may execute it at any later time. None if the
    kind of construct is unknown.
    """

    entry: int
    is_task: bool | None


class WayOut(NamedTuple):
    """The place at which the program goes on after a region or task: an ``address`` in a ``frame`` of ``thread``.

    ``cfa`` is the CFA of ``frame``. ``ends`` is the frame of the code of the region or task, None if the thread has
    left this code.
    """

    thread: int
    address: int
    cfa: int
    frame: StackFrame
    ends: StackFrame | None


def begun_by(session: Session, frame: StackFrame, *, innermost: bool) -> list[Begun]:
    """Return the code of the constructs that the rest of *frame*'s line begins. Most lines begin none.

    :param innermost: whether *frame* is the thread's innermost frame, so that its address is not a return address
    :raises Unavailable: if ompd cannot decode this processor's code, or the program has no symbol for the code
    """
    process = session.process
    if process.references is None:
        raise Unavailable(f"which code a line begins is not known for {session.target.architecture.name}")
    if frame.address is None or frame.line is None:
        return []
    current = frame.address if innermost else frame.address - 1
    ahead: list[tuple[int, Begun]] = []
    for place, target in _referred(session, current):
        if place >= current:
            begun = _code_at(session, target, place)
            if begun is not None:
                ahead.append((place, begun))
    line = process.places.line_of(current)
    on_line = [begun for place, begun in ahead if process.places.line_of(place) == line]
    # The compiler may have moved the instruction to another line. Then the line of the construct's code decides.
    moved = [begun for _, begun in ahead if process.places.construct_line(begun.entry)[1] == line[1]]
    return list(dict.fromkeys(on_line or moved))


def _function_at(session: Session, address: int) -> tuple[int, bytes]:
    # Return the start of the function around an address, and bytes from there on: its code, and what comes after it.
    start = session.process.places.locate(address).symbol_address
    if start is None:
        raise Unavailable("the program has no symbol for this code")
    size = _MOST_CODE
    while True:
        try:
            return start, session.process.memory.read(start, size)
        except OmpdError:
            size //= 2
            if size < 16:
                raise


def _referred(session: Session, address: int) -> Iterator[tuple[int, int]]:
    # Yield each place at which the function around *address* loads the start of a construct's code, with that start.
    process = session.process
    start, code = _function_at(session, address)
    module = process.symbols.module_at(address)
    table = (
        process.symbols.symbol_in(module, _TABLE) if module is not None and process.memory.pointer_size == 4 else None
    )
    for load, target in process.references.loaded(code, start, table) if process.references is not None else ():
        place = process.places.locate(target)
        if place.symbol_address != target or not naming.is_construct_code(place.symbol or ""):
            continue
        if process.places.locate(load).symbol_address == start:
            yield load, target


def _code_at(session: Session, entry: int, place: int) -> Begun | None:
    # Return the code of the construct whose function *entry* is passed to the runtime near *place*, None if a compiler
    # added the function. With clang, the function at *entry* may only call the one with the user's code.
    process = session.process
    name = process.places.locate(entry).symbol or ""
    if naming.is_added(name):
        return None
    is_task: bool | None = naming.is_task_entry(name)
    if naming.is_by_gcc(name):
        # The routine that *place* calls shows the kind. It is unknown until its first call, when the loader binds it.
        construct = _construct_of_gcc(session, place)
        is_task = construct.startswith("task") if construct is not None else None
    else:
        start, code = _function_at(session, entry)
        called = body_called(_calls(session, code, start), start, partial(_named_at, session))
        if called is None and is_task:
            called = _after_first_line(session, start, code)
        entry = called if called is not None else entry
    return Begun(entry, is_task)


def _after_first_line(session: Session, start: int, code: bytes) -> int | None:
    # Return the start of a task's code that clang has inlined into the function that enters the task. The code begins
    # after the instructions with the construct's line. None if there is no such place.
    process = session.process
    line = latest = process.places.line_of(start)[1]
    for address in range(start, start + min(len(code), _MOST_OF_ENTRY)):
        if process.places.locate(address).symbol_address != start:
            return None
        current_line, line_before = process.places.line_of(address)[1], latest
        latest = current_line
        # Only addresses at which the line changes are taken, because an instruction begins there. A breakpoint inside
        # of an instruction would overwrite a part of it.
        if current_line in (line_before, line) or not current_line or not line:
            continue
        # The first address of inlined code is not taken: there, a debugger still shows the function around it.
        if not process.places.source_frames(address)[0].inlined or process.places.source_frames(address - 1)[0].inlined:
            return address
    return None


def _named_at(session: Session, address: int) -> tuple[str, int] | None:
    place = session.process.places.locate(address)
    if place.symbol is None or place.symbol_address is None:
        return None
    return place.symbol, address - place.symbol_address


def _calls(session: Session, code: bytes, start: int, first: int = 0) -> Iterable[tuple[int, int, int]]:
    references = session.process.references
    return references.calls(code, start, first) if references is not None else ()


def body_called(
    calls: Iterable[tuple[int, int, int]], start: int, named_at: Callable[[int], tuple[str, int] | None]
) -> int | None:
    """Return the start of the function with the user's code that a function of clang calls.

    None if it calls no such function, and so contains the user's code itself.

    :param calls: the place, return address and target of each call in the function, perhaps also in the code behind it
    :param start: the start of clang's function
    :param named_at: returns the symbol at an address, and the offset from the symbol's address
    """
    for place, _, target in calls:
        around = named_at(place)
        if around is None or place - around[1] != start:
            return None  # the function has ended before
        called = named_at(target)
        if called is not None and called[1] == 0 and naming.is_construct_code(called[0]):
            return target
    return None


def _construct_of_gcc(session: Session, place: int) -> str | None:
    # Return the kind of construct that gcc's code begins: the first call after *place* of a routine that begins one.
    # None if the routine is unknown.
    process = session.process
    start, code = _function_at(session, place)
    for call, return_address, _ in _calls(session, code, start, place - start):
        if process.places.locate(call).symbol_address != start:
            return None
        construct = naming.construct_of_routine(process.calls.routine_called(return_address) or "")
        if construct is not None:
            return construct
    return None


def way_out(session: Session, native: int, *, has_left: bool = False) -> WayOut:
    """Return the place at which the program goes on after the innermost region or task of the thread *native*.

    :param has_left: whether the thread has left the code of the construct
    :raises NoAnswer: if the thread is in no construct, or the place is unknown
    """
    (row,) = stacks.ask(session, thread=native).rows
    frames = row.frames
    begin = 0
    construct_frame: StackFrame | None = None
    if not has_left:
        index = next((n for n, frame in enumerate(frames) if frame.construct is not None), None)
        if index is None:
            why = f": {row.stopped}" if row.stopped is not None else ""
            raise NoAnswer(
                f"thread {native} is in no region or task{why}", hint="the debugger's own finish leaves a function"
            )
        begin, construct_frame = index + 1, frames[index]
    outside = _first_of_users(frames[begin:])
    if outside is None:
        has_code = any(frame.thread == native for frame in frames) or construct_frame is not None
        why = row.stopped or ("what began it is not on a stack" if has_code else "its stack shows none of your code")
        raise NoAnswer(f"where the program goes on after it is not known: {why}")
    if outside.thread is None or outside.address is None or outside.cfa is None:
        raise NoAnswer("where the program goes on after it is not known")
    return WayOut(outside.thread, outside.address, outside.cfa, outside, construct_frame)


def _first_of_users(frames: Sequence[StackFrame]) -> StackFrame | None:
    # Return the innermost user frame, None without one. Functions that left the stack by a jump (they have no CFA) are
    # skipped, because nothing returns to them.
    return next(
        (f for f in frames if f.kind == "user" and f.cfa is not None and f.address is not None and not f.guessed), None
    )
