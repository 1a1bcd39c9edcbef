"""Where a thread comes to that walks through regions and tasks: into the code that a line begins, and out of it.

Compilers put the code of a construct into a function of its own, and have the runtime call it, maybe on other threads:
no debugger's step finds the way. Where the way leads is read from the stopped program; to go it is the debugger's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from ompd import naming
from ompd.errors import NoAnswer, OmpdError, Unavailable
from ompd.model import StackFrame
from ompd.questions import stacks
from ompd.session import Session

_MOST_CODE = 1 << 16  # bytes of a function that are looked through
_MOST_OF_ENTRY = 256  # and of one that enters a task
_TABLE = "_GLOBAL_OFFSET_TABLE_"


class Begun(NamedTuple):
    """Code of a construct that a line begins: where its function is entered, and whether it is a task's, which any
    thread may execute, at any later time; None if that is not known.
    """

    entry: int
    is_task: bool | None


class WayOut(NamedTuple):
    """Where the program goes on after the region or task that a thread is in: the ``address`` in a frame with that
    ``cfa``, of ``thread``; and what ends there.
    """

    thread: int
    address: int
    cfa: int
    frame: StackFrame
    ends: StackFrame | None


def begun_by(session: Session, frame: StackFrame, *, innermost: bool) -> list[Begun]:
    """Return the code of constructs that the line of *frame* begins from where the thread is in it; none for a line
    that begins no construct.

    :param innermost: the frame is where the thread is; else a function that has called another
    :raises Unavailable: if code of this processor is not understood
    """
    process = session.process
    if process.references is None:
        raise Unavailable(f"which code a line begins is not known for {session.target.architecture.name}")
    if frame.address is None or frame.line is None:
        return []
    here = frame.address if innermost else frame.address - 1
    found: list[tuple[int, Begun]] = []
    for place, target in _referred(session, here):
        if place >= here:
            begun = _code_at(session, target, place)
            if begun is not None:
                found.append((place, begun))
    line = process.places.line_of(here)
    own = [begun for place, begun in found if process.places.line_of(place) == line]
    # Where a compiler has moved the instruction to another line, the construct's own line tells.
    moved = [begun for _, begun in found if process.places.construct_line(begun.entry)[1] == line[1]]
    return list(dict.fromkeys(own or moved))


def _function_at(session: Session, address: int) -> tuple[int, bytes]:
    # Where a function begins, and its code from there, or more.
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
    # What the code of a function loads the addresses of, and where.
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
    # The function with the user's code: clang has one that calls it, which is what the runtime knows.
    process = session.process
    name = process.places.locate(entry).symbol or ""
    if naming.is_added(name):
        return None
    is_task: bool | None = naming.is_task_entry(name)
    if naming.is_by_gcc(name):
        # Before the routine is called for the first time, the loader has not bound it.
        made = _construct_made(session, place)
        is_task = made.startswith("task") if made is not None else None
    else:
        start, code = _function_at(session, entry)
        called = body_called(_calls(session, code, start), start, lambda address: _named_at(session, address))
        if called is None and is_task:
            called = _behind_first_line(session, start, code)
        entry = called if called is not None else entry
    return Begun(entry, is_task)


def _behind_first_line(session: Session, start: int, code: bytes) -> int | None:
    # Where the code of a task begins that clang has inlined into the function by which it is entered: behind what has
    # the line of the construct.
    process = session.process
    line = before = process.places.line_of(start)[1]
    for address in range(start, start + min(len(code), _MOST_OF_ENTRY)):
        if process.places.locate(address).symbol_address != start:
            return None
        here, previous = process.places.line_of(address)[1], before
        before = here
        # Where the line changes an instruction begins; elsewhere a breakpoint would overwrite a part of one.
        if here in (previous, line) or not here or not line:
            continue
        # Where inlined code begins a debugger is still outside of it.
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
    """Return where the function with the user's code begins that a function of clang's calls, None if it calls none:
    then it has that code itself.

    :param calls: the calls in its code, and maybe in what is behind it: each one's place, what is behind it, its target
    :param start: where it begins
    :param named_at: gives the linker's name of what is at an address, and how far behind its beginning that is
    """
    for place, _, target in calls:
        known = named_at(place)
        if known is None or place - known[1] != start:
            return None  # the function ends here
        called = named_at(target)
        if called is not None and called[1] == 0 and naming.is_construct_code(called[0]):
            return target
    return None


def _construct_made(session: Session, place: int) -> str | None:
    # Which construct gcc's code begins by the call that gets what is loaded at *place*.
    process = session.process
    start, code = _function_at(session, place)
    for at, behind, _ in _calls(session, code, start, place - start):
        if process.places.locate(at).symbol_address != start:
            return None
        found = naming.construct_of_routine(process.calls.routine_called(behind) or "")
        if found is not None:
            return found
    return None


def way_out(session: Session, native: int, *, has_left: bool = False) -> WayOut:
    """Return where the program goes on after the innermost region or task that the thread *native* is in.

    :param has_left: the thread is in none of the code of the construct any more
    :raises NoAnswer: if it is in none, or its end is not known
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
    found = _first_of_users(frames[begin:])
    if found is None:
        why = row.stopped or ("what began it is not on a stack" if own or ends else "its stack shows none of your code")
        raise NoAnswer(f"where the program goes on after it is not known: {why}")
    if found.thread is None or found.address is None or found.cfa is None:
        raise NoAnswer("where the program goes on after it is not known")
    return WayOut(found.thread, found.address, found.cfa, found, ends)


def _first_of_users(frames: Sequence[StackFrame]) -> StackFrame | None:
    # Functions that left the stack by a jump are no place to come back to.
    return next(
        (f for f in frames if f.kind == "user" and f.cfa is not None and f.address is not None and not f.guessed), None
    )
