"""Finds the place in the user's source for an address, and the innermost user frame of a stack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ompd import naming
from ompd.contract.code_owners import RUNTIME, UNKNOWN, USER, entry_of
from ompd.contract.code_owners import owner as owner_of
from ompd.contract.plugin import ConstructCode, ParallelHandle, TaskHandle, ThreadHandle
from ompd.contract.process import Frame, TailCall
from ompd.errors import OmpdError, Unavailable
from ompd.model import Place, RegionFunction
from ompd.questions.facts.gathering import Facts
from ompd.session import Session
from ompd.session.stop import Straight

if TYPE_CHECKING:
    from ompd.debugger.flow.functions import Functions

NO_FUNCTION = "neither the compiler's name of the code nor debug information says which function contains the construct"
"""Why the function of a construct's code is unknown."""


def innermost_user_place(session: Session, thread: int, handle: ThreadHandle | None = None) -> Place | None:
    """Return the place of the innermost user frame of *thread*: outside of OpenMP runtimes and the C library.

    None for a thread without user frames, such as an idle thread of the pool.

    :param handle: the handle of *thread*, if it is an OpenMP thread
    :raises Unavailable: if the stack could not be followed to its end and has no user frame
    """
    stack = session.process.stacks.stack(thread)
    straight = session.stop.straight.get(stack.shape)
    if straight is None:
        straight = session.stop.straight[stack.shape] = _straight(session, stack.frames)
    if straight.place is not None:
        return straight.place
    if straight.frame is not None:
        return _user_place(session, stack.frames, straight.frame, handle, [])
    frames = stack.frames
    has_unknown, inner_owner = False, None
    unknown_frames = 0  # frames of unknown owner that may be the user's
    passed: list[int] = []  # frames of libraries, or programs, that have no debug information
    for index, frame in enumerate(frames):
        owner = code_owner(session, frame.call_site)
        if owner == USER and naming.is_added(_symbol(session, frame.call_site) or ""):
            continue  # the frame is of a function that a compiler added, which is not in the source
        is_entered = owner == UNKNOWN and inner_owner == RUNTIME and calls_entry(session, frames[index - 1])
        has_outer = handle is not None and index + 1 < len(frames)
        if owner == USER or is_entered:
            has_line = session.process.places.line_of(frame.call_site) != (None, None)
            if has_line:
                return _user_place(session, frames, index, handle, passed)
            if unknown_frames:
                break  # an inner frame of unknown owner may be the user's, so this one may not be the innermost
            passed.append(index)
            jump = _place_left(session, frames, index, handle) if handle is not None and has_outer else None
            # A jump without a line is used only if no frame that was passed has a name.
            if jump is not None and (jump.line is not None or not _has_name(session, frames, passed)):
                return replace(jump, calling=_library_function(session, frame))
        elif passed and owner == RUNTIME and _has_name(session, frames, passed):
            break  # the region belongs to a library without debug information: user code further out is not the place
        elif not passed and handle is not None and has_outer:
            jump = _place_left(session, frames, index, handle)
            if jump is not None:
                return jump
        if owner != inner_owner:
            unknown_frames += owner == UNKNOWN
            unknown_frames -= inner_owner == UNKNOWN and owner == RUNTIME and _waits(session, frame)
        has_unknown, inner_owner = has_unknown or owner == UNKNOWN, owner
    if passed:
        with_names = (index for index in passed if _symbol(session, frames[index].call_site) is not None)
        return _user_place(session, frames, next(with_names, passed[0]), handle, [])
    if stack.stopped is not None:
        raise Unavailable(f"the stack could not be followed: {stack.stopped}")
    if session.process.symbols.unproven and any(unproven_at(session, frame.call_site) for frame in frames):
        raise Unavailable("none of its frames is user code, by files that are not proven to be those that ran")
    if has_unknown:
        raise Unavailable("which of its frames are user code is unknown: the program is static or has no symbols")
    return None


def _straight(session: Session, frames: Sequence[Frame]) -> Straight:
    # Look for the innermost user frame in the simple case: no unknown code and no construct that has left the stack is
    # further inside. The place is kept if it does not depend on the thread's handle.
    for index, frame in enumerate(frames):
        owner = code_owner(session, frame.call_site)
        if owner == USER and naming.is_added(_symbol(session, frame.call_site) or ""):
            continue
        if owner == USER and session.process.places.line_of(frame.call_site) != (None, None):
            is_certain = _function_by_code(session, frame.call_site)[1]
            return Straight(index, _user_place(session, frames, index, None, []) if is_certain else None)
        if owner in (USER, UNKNOWN) or (index + 1 < len(frames) and _may_be_left(session, frames[index + 1])):
            break
    return Straight(None, None)


def _user_place(
    session: Session,
    frames: Sequence[Frame],
    index: int,
    handle: ThreadHandle | None,
    passed: Sequence[int],
) -> Place:
    frame = frames[index]
    place = _place(session, frame.call_site, _function(session, frames[index:], handle))
    if passed:
        place = replace(place, calling=_library_function(session, frames[passed[-1]]))
    # The frame was found by the unwind tables of all inner frames, so the place is proven only if their files are.
    return _as_far_as_proven(session, place, [inner.call_site for inner in frames[: index + 1]])


def _has_name(session: Session, frames: Sequence[Frame], indices: Sequence[int]) -> bool:
    return any(_symbol(session, frames[index].call_site) for index in indices)


def _library_function(session: Session, frame: Frame) -> str | None:
    return _as_in_source(session, frame.call_site, _symbol(session, frame.call_site))


def is_users(session: Session, address: int) -> bool:
    """Return whether the code at *address* is the user's."""
    return code_owner(session, address) == USER


def followed_functions(session: Session) -> Functions:
    """Return the :class:`Functions` of the process, which follow user code and its calls of runtimes' routines."""
    return session.process.functions(naming.ROUTINES(), partial(is_users, session), session.stop.runtime_modules)


class CodeLeft(NamedTuple):
    """How the code of a construct left the stack.

    ``jumps`` are the jumps by which the code's functions ended, innermost first, empty if they are unknown. ``entry``
    is the address at which the code begins, None if it is unknown. ``is_certain`` is False if there are several
    possible ways with the same source lines, and ``jumps`` is one of them.
    """

    jumps: Sequence[TailCall]
    entry: int | None
    is_certain: bool = True


def code_left(session: Session, frames: Sequence[Frame], code: ConstructCode, handle: ThreadHandle) -> CodeLeft | None:
    """Return how the *code* of a construct left the stack of a thread, None if it is still on the stack.

    :param frames: all frames of the thread
    :param handle: the thread
    """
    frame = frames[code.frame]
    owner = code_owner(session, frame.call_site)
    if owner == UNKNOWN or code.frame + 1 >= len(frames):
        return None
    process = session.process
    entry = _entry_of_construct(session, code, frames)
    if owner == USER:
        return _left_for_users(session, frame, entry)
    reached = entry_of(process.contract, frame.call_site) or frame.function_start
    if entry is None or reached is None:
        return CodeLeft((), entry)
    ways = {
        tuple(jump for jump in way if code_owner(session, jump.function) == USER)
        for way in process.calls.tail_calls(entry, reached)
    }
    if len(ways) > 1:
        noted = noted_place(handle.barrier_source)
        on_noted_line = {
            way for way in ways if noted is not None and process.places.line_of(way[-1].address) == (noted[0], noted[2])
        }
        ways = on_noted_line or ways
    sources = {tuple(tuple(process.places.source_frames(jump.address)) for jump in way) for way in ways}
    return CodeLeft(min(ways)[::-1] if len(sources) == 1 else (), entry, len(ways) == 1)


def _entry_of_construct(session: Session, code: ConstructCode, frames: Sequence[Frame]) -> int | None:
    # Return the address at which a construct's code begins, None if it is unknown. The handle of the region or task has
    # it. For constructs other than regions, the target of the runtime's call comes first.
    entry = None
    if code.kind != "parallel":
        entry = session.process.calls.function_called(frames[code.frame + 1])
        entry = entry if entry is not None and code_owner(session, entry) == USER else None
    handle = code.task if code.kind == "task" else code.region
    try:
        return handle.function() if entry is None and handle is not None else entry
    except OmpdError:
        return entry


def _left_for_users(session: Session, frame: Frame, entry: int | None) -> CodeLeft | None:
    # Return the jumps by which a construct's code, which begins at *entry*, has reached the user function of *frame*.
    # None if *frame* belongs to the code itself, or if there is not exactly one way.
    process, reached = session.process, entry_of(session.process.contract, frame.call_site)
    if entry is None or reached is None or reached == entry or code_owner(session, entry) != USER:
        return None
    ways = process.calls.tail_calls(entry, reached)
    return CodeLeft(tuple(ways[0])[::-1], entry) if len(ways) == 1 else None


def place_left(session: Session, code: ConstructCode, left: CodeLeft, handle: ThreadHandle) -> Place:
    """Return the last known place of a construct's code that has left the stack."""
    function = _function_left(session, code)
    if left.jumps:
        jump = left.jumps[0]
        for written in session.process.places.source_frames(jump.address):
            if written.function is not None and naming.parse_outlined(written.function) is None:
                function = written.function
                break
        place = _place(session, jump.address, function)
        place = place if left.is_certain else replace(place, address=None)
    else:
        place = Place(None, function)
    noted = noted_place(handle.barrier_source) if place.line is None else None
    return replace(place, file=noted[0], line=noted[2]) if noted is not None else place


def _function_left(session: Session, code: ConstructCode) -> str | None:
    try:
        if code.kind == "parallel" and code.region is not None:
            outlined = region_function(session, code.region)
            return outlined.function if outlined is not None else None
        if code.task is not None:
            outlined = task_function(session, code.task)
            return outlined.function if outlined is not None else None
    except OmpdError:
        pass
    return None


def _may_be_left(session: Session, outer: Frame) -> bool:
    # Return whether *outer* is the runtime's frame that calls a construct's code: it makes a call through a pointer.
    return code_owner(session, outer.call_site) == RUNTIME and bool(session.process.calls.calls_by_pointer(outer.pc))


def _place_left(session: Session, frames: Sequence[Frame], index: int, handle: ThreadHandle) -> Place | None:
    # Return the last known place of a construct's code that has left the stack between the frame at *index* and the
    # next outer frame. None if no code has left there, or if it is unknown.
    if not _may_be_left(session, frames[index + 1]):
        return None
    try:
        code = next((code for code in handle.construct_code() if code.frame == index), None)
        left = code_left(session, frames, code, handle) if code is not None else None
    except OmpdError:
        return None  # the answer of `stack` has the reason
    if code is None or left is None:
        return None
    place = place_left(session, code, left, handle)
    addresses = [frame.call_site for frame in frames[: index + 2]]
    return _as_far_as_proven(session, place, addresses + [jump.address for jump in left.jumps])


def calls_entry(session: Session, called: Frame) -> bool:
    """Return whether *called* is an entry point of the runtime, which only user code calls."""
    return naming.is_entry(_symbol(session, called.call_site))


def _waits(session: Session, frame: Frame) -> bool:
    # Return whether the frame is of a runtime's routine that makes a thread wait. Such a routine never calls user code.
    return naming.has_thread_wait(_symbol(session, frame.call_site) or "")


Placed = TypeVar("Placed", Place, RegionFunction)


def _as_far_as_proven(session: Session, place: Placed, addresses: Sequence[int]) -> Placed:
    if not session.process.symbols.unproven:
        return place
    reasons = (unproven_at(session, address) for address in addresses)
    return replace(place, unproven=next((reason for reason in reasons if reason), None))


def unproven_at(session: Session, address: int) -> str | None:
    """Return why the file with the code at an address could not be verified to be the one that ran, None if it was."""
    module = session.process.symbols.module_at(address)
    return module.unproven if module is not None else None


def innermost_place(session: Session, thread: int) -> Place:
    """Return the place of the innermost frame of *thread*, in any code. For stacks that cannot be followed.

    :raises Unavailable: if its registers are lost
    """
    stack = session.process.stacks.stack(thread)
    if not stack.frames:
        raise Unavailable(stack.stopped or "the thread has no stack")
    address = stack.frames[0].call_site
    symbol, module = _symbol(session, address), session.process.symbols.module_at(address)
    # The line in the C library is of no interest, and the library's line tables are large.
    is_system = module is not None and module.is_system_library
    place = Place(address, symbol) if is_system else _place(session, address, symbol)
    return _as_far_as_proven(session, place, [address])


def code_owner(session: Session, address: int) -> str:
    """Return the owner of the code at *address*; see :func:`ompd.contract.code_owners.owner`."""
    owners = session.stop.owners
    if address not in owners:
        owners[address] = owner_of(
            session.process.contract, session.stop.runtime_modules, address, session.stop.whole_runtimes
        )
    return owners[address]


def named(facts: Facts, key: str, code: RegionFunction | None) -> RegionFunction | None:
    """Return *code*. If its function is unknown, note the reason in *facts* as that of ``key.function``."""
    if code is not None and code.function is None:
        facts.unavailable[f"{key}.function"] = NO_FUNCTION
    return code


def places_by_code(session: Session, address: int) -> tuple[Place, ...]:
    """Return the place of user code at an address, as code addresses alone show it, then those of the functions into
    which it was inlined, innermost first. Empty if the code is not the user's.

    This needs no memory of the process. The function that contains a construct is None if only the runtime knows it.
    """
    if code_owner(session, address) != USER or naming.is_added(_symbol(session, address) or ""):
        return ()
    first = _as_far_as_proven(session, _place(session, address, _function_by_code(session, address)[0]), [address])
    outer = [
        Place(address, _as_in_source(session, address, frame.function), frame.file, frame.line, first.unproven)
        for frame in session.process.places.source_frames(address)[1:]
        if naming.parse_outlined(frame.function or "") is None
    ]
    return (first, *outer)


def is_of_construct(session: Session, address: int) -> bool:
    """Return whether the code at *address* is in a function that a compiler made of a construct."""
    return naming.parse_outlined(_symbol(session, address) or "") is not None


def region_function(session: Session, region: ParallelHandle) -> RegionFunction | None:
    """Return the function that the compiler made of a region's code, None if the region has none.

    ``function`` is the user function that contains the construct, None if that is unknown.
    """
    entry = region.function()
    if entry is None:
        return None
    name = source_function(session, region) or _written(_symbol(session, entry))
    file, line = session.process.places.construct_line(entry)
    noted = noted_place(region.source) if line is None else None
    if noted is not None:
        file, _, line = noted
    code = RegionFunction(entry, _as_in_source(session, entry, name), file, line, "parallel")
    return _as_far_as_proven(session, code, [entry])


def task_function(session: Session, task: TaskHandle) -> RegionFunction | None:
    """Return the function that the compiler made of an explicit task's code, None if the task has none.

    ``function`` is the user function that contains the construct, None if that is unknown.
    """
    entry = task.function()
    if entry is None:
        return None
    file, line = session.process.places.construct_line(entry)
    noted = noted_place(task.source)
    if noted is not None and line is None:
        file, _, line = noted
    name = _symbol(session, entry)
    outlined = naming.parse_outlined(name or "")
    if outlined is not None:
        name = outlined.parent or (noted[1] if noted is not None else session.process.places.declared_inside(entry))
    code = RegionFunction(entry, _as_in_source(session, entry, name), file, line, "task")
    return _as_far_as_proven(session, code, [entry])


def noted_place(ask: Callable[[], str | None]) -> tuple[str, str, int] | None:
    """Return file, function and line of a construct as its compiler recorded them, None without a record.

    clang records them with -g, even if the program has lost its debug information and symbols.

    :param ask: the method of the construct's handle that returns the record, such as :meth:`TaskHandle.source`
    """
    try:
        source = ask()
    except OmpdError:
        return None
    return naming.source_place(source) if source is not None else None


def source_function(session: Session, region: ParallelHandle) -> str | None:
    """Return the name of the user function that encountered *region*'s construct, None if that is unknown.

    The name of the region's code contains the function with gcc, and with clang from release 17 on. With older clang,
    it is the first source function on the stacks of the primary threads of the region and of enclosing regions.
    """
    functions = session.stop.source_functions
    passed: dict[str, None] = {}
    function: str | None = None
    current: ParallelHandle | None = region
    while current is not None and current.id not in passed:
        if current.id in functions:
            function = functions[current.id]
            break
        passed[current.id] = None
        try:
            function = _encountering_function(session, current)
            current = current.enclosing() if function is None else None
        except OmpdError:
            break  # the region or the stack cannot be read
    if function is None:
        noted = noted_place(region.source)
        function = noted[1] if noted is not None else None
        passed = {region.id: None}
    for identifier in passed:
        functions[identifier] = function
    return function


def _encountering_function(session: Session, region: ParallelHandle) -> str | None:
    # Return the user function that encountered a region. None if the construct is in the code of the enclosing region:
    # then the function that contains the enclosing construct contains this one, too.
    entry = region.function()
    outlined = naming.parse_outlined(_symbol(session, entry) or "") if entry is not None else None
    if outlined is not None and outlined.parent is not None:
        return outlined.parent
    # Debug information may declare the construct's code inside of the user's function.
    declared = session.process.places.declared_inside(entry) if outlined is not None and entry is not None else None
    if declared is not None:
        return declared
    frames = region.encountering_frames()
    if code_owner(session, frames[0].call_site) == RUNTIME:
        return None  # the enclosing region's code encountered the region, and has ended by a jump
    for written in session.process.places.source_frames(frames[0].call_site):
        if written.inlined and written.function is not None and naming.parse_outlined(written.function) is None:
            return written.function
    name = _symbol(session, frames[0].call_site)
    outlined = naming.parse_outlined(name or "")
    if outlined is None:
        if name is None:
            raise Unavailable("the function that encountered the region has no symbol")
        return name
    if outlined.parent is None and not _is_code_of(session, frames, region.enclosing()):
        raise Unavailable("the region's construct is in code whose function is unknown")
    return outlined.parent


def _symbol(session: Session, address: int) -> str | None:
    return session.process.places.locate(address).symbol


def _is_code_of(session: Session, frames: Sequence[Frame], region: ParallelHandle | None) -> bool:
    return region is not None and region.function() in _starts(session, frames)


def _starts(session: Session, frames: Sequence[Frame]) -> list[int | None]:
    # Return the starts of the functions of the first two frames: one may be the function that the runtime knows. With
    # -g, clang lets that function call another one, which has the code of a region, or of some tasks.
    return [entry_of(session.process.contract, frame.call_site) for frame in frames[:2]]


def _function(session: Session, frames: Sequence[Frame], handle: ThreadHandle | None) -> str | None:
    # Return the source name of the function of frames[0], None if it is unknown. For code of a region or task, this is
    # the function that contains the construct. If functions were inlined there, it is the innermost of them.
    name, is_certain = _function_by_code(session, frames[0].call_site)
    if is_certain or handle is None:
        return name
    try:
        region, task = handle.current_parallel(), handle.current_task()
        if task is not None and task.kind() == "explicit":
            if task.function() in _starts(session, frames):
                noted = noted_place(task.source)
                return noted[1] if noted is not None else None
        elif region is not None and _is_code_of(session, frames, region):
            return source_function(session, region)
    except OmpdError:
        pass
    return None


def _function_by_code(session: Session, address: int) -> tuple[str | None, bool]:
    # Return a function's name by symbols and debug information, and whether it is certain. If it is not, the handle of
    # the thread may give the right name.
    for written in session.process.places.source_frames(address):
        if written.function is not None and naming.parse_outlined(written.function) is None:
            return written.function, True
    name = _symbol(session, address)
    outlined = naming.parse_outlined(name) if name is not None else None
    if outlined is None or outlined.parent is not None:
        return outlined.parent if outlined is not None else name, True
    declared = session.process.places.declared_inside(address)
    return declared, declared is not None


def _written(symbol: str | None) -> str | None:
    # Return a symbol that names a function of the source, None for a function that a compiler made of a construct.
    return symbol if symbol is not None and naming.parse_outlined(symbol) is None else None


def _place(session: Session, address: int, function: str | None) -> Place:
    file, line = session.process.places.line_of(address)
    return Place(address, _as_in_source(session, address, function), file, line)


def _as_in_source(session: Session, address: int, symbol: str | None) -> str | None:
    if symbol is None:
        return None
    return session.process.places.source_name(session.process.symbols.module_at(address), symbol, address)
