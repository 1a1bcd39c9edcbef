"""The ways of threads into the code of a construct that a line begins, and out of it again.

Compilers put the code of a construct into a function of its own, which the runtime calls, perhaps on other threads. A
debugger's step cannot follow it. The way is read here from the stopped program, and the debugger goes it.
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
    """The code of a construct that begins on a line: the address of its entry, and whether the construct is a task.

    Any thread may execute a task at any later time. ``is_task`` is None if the kind of construct is unknown.
    """

    entry: int
    is_task: bool | None


class WayOut(NamedTuple):
    """The place at which the program goes on after a region or task: an ``address`` in a ``frame`` of ``thread``.

    ``cfa`` is that of the frame. ``ends`` is the frame of the region or task.
    """

    thread: int
    address: int
    cfa: int
    frame: StackFrame
    ends: StackFrame | None


def begun_by(session: Session, frame: StackFrame, *, innermost: bool) -> list[Begun]:
    """Return the code of the constructs that the rest of *frame*'s line begins. Most lines begin none.

    :param innermost: whether the frame is the thread's innermost, and has not called another function
    :raises Unavailable: if code of this processor is not understood
    """
    process = session.process
    if process.references is None:
        raise Unavailable(f"which code a line begins is not known for {session.target.architecture.name}")
    if frame.address is None or frame.line is None:
        return []
    here = frame.address if innermost else frame.address - 1
    ahead: list[tuple[int, Begun]] = []
    for place, target in _referred(session, here):
        if place >= here:
            begun = _code_at(session, target, place)
            if begun is not None:
                ahead.append((place, begun))
    line = process.places.line_of(here)
    own = [begun for place, begun in ahead if process.places.line_of(place) == line]
    # If the compiler has moved the instruction to another line, the construct still has its own line.
    moved = [begun for _, begun in ahead if process.places.construct_line(begun.entry)[1] == line[1]]
    return list(dict.fromkeys(own or moved))


def _function_at(session: Session, address: int) -> tuple[int, bytes]:
    # The start of a function, and at least its code.
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


def _referred(session: Session, here: int) -> Iterator[tuple[int, int]]:
    # The places at which the code of a function loads the address of a construct's code, each with that address.
    process = session.process
    start, code = _function_at(session, here)
    module = process.symbols.module_at(here)
    table = (
        process.symbols.symbol_in(module, _TABLE) if module is not None and process.memory.pointer_size == 4 else None
    )
    for at, target in process.references.loaded(code, start, table) if process.references is not None else ():
        place = process.places.locate(target)
        if place.symbol_address != target or not naming.is_construct_code(place.symbol or ""):
            continue
        if process.places.locate(at).symbol_address == start:
            yield at, target


def _code_at(session: Session, entry: int, place: int) -> Begun | None:
    # The runtime knows the function at *entry*. With clang that may only call the function with the user's code.
    process = session.process
    name = process.places.locate(entry).symbol or ""
    if naming.is_added(name):
        return None
    is_task: bool | None = naming.is_task_entry(name)
    if naming.is_by_gcc(name):
        # Unknown until the routine is first called, because the loader binds it then.
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
    # The start of a task's code that clang has inlined into the function that enters it: after the instructions with
    # the construct's line.
    process = session.process
    line = before = process.places.line_of(start)[1]
    for address in range(start, start + min(len(code), _MOST_OF_ENTRY)):
        if process.places.locate(address).symbol_address != start:
            return None
        here, previous = process.places.line_of(address)[1], before
        before = here
        # A change of line is the start of an instruction. A breakpoint inside of one would overwrite a part of it.
        if here in (previous, line) or not here or not line:
            continue
        # At the start of inlined code a debugger still shows the function around it.
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
    """Return the start of the function with the user's code that one of clang's functions calls.

    None if it calls no such function, and so has that code itself.

    :param calls: the place, return address and target of each call in its code, and perhaps in the code after it
    :param start: the start of clang's function
    :param named_at: returns the symbol at an address, and the offset from its start
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
    # The kind of construct that gcc's code begins by the first call after *place*.
    process = session.process
    start, code = _function_at(session, place)
    for at, behind, _ in _calls(session, code, start, place - start):
        if process.places.locate(at).symbol_address != start:
            return None
        construct = naming.construct_of_routine(process.calls.routine_called(behind) or "")
        if construct is not None:
            return construct
    return None


def way_out(session: Session, native: int, *, has_left: bool = False) -> WayOut:
    """Return the place at which the program goes on after the innermost region or task of the thread *native*.

    :param has_left: whether the thread has left the code of the construct
    :raises NoAnswer: if it is in no construct, or the place is unknown
    """
    (row,) = stacks.ask(session, thread=native).rows
    frames = row.frames
    own = [f for f in frames if f.thread == native]
    begin = 0
    ends: StackFrame | None = None
    if not has_left:
        inside = next((n for n, frame in enumerate(frames) if frame.construct is not None), None)
        if inside is None:
            why = f": {row.stopped}" if row.stopped is not None else ""
            raise NoAnswer(
                f"thread {native} is in no region or task{why}", hint="the debugger's own finish leaves a function"
            )
        begin, ends = inside + 1, frames[inside]
    outside = _first_of_users(frames[begin:])
    if outside is None:
        why = row.stopped or ("what began it is not on a stack" if own or ends else "its stack shows none of your code")
        raise NoAnswer(f"where the program goes on after it is not known: {why}")
    if outside.thread is None or outside.address is None or outside.cfa is None:
        raise NoAnswer("where the program goes on after it is not known")
    return WayOut(outside.thread, outside.address, outside.cfa, outside, ends)


def _first_of_users(frames: Sequence[StackFrame]) -> StackFrame | None:
    # Functions that left the stack by a jump are never returned to.
    return next(
        (f for f in frames if f.kind == "user" and f.cfa is not None and f.address is not None and not f.guessed), None
    )
