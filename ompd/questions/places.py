"""From an address to the user's source, and from a stack to the user's innermost frame."""

from __future__ import annotations

from collections.abc import Sequence

from ompd import outlined
from ompd.contract.code import UNKNOWN, USER
from ompd.contract.code import owner as owner_of
from ompd.contract.plugin import ParallelHandle
from ompd.contract.process import Frame
from ompd.errors import OmpdError, Unavailable
from ompd.model import Place, RegionFunction
from ompd.session import Session


def innermost_user_place(session: Session, thread: int, region: ParallelHandle | None = None) -> Place | None:
    """Return the innermost frame of *thread* that is the user's: neither an OpenMP runtime's nor the C library's.

    None for a thread that has no such frame, as an idle one of the pool.

    :param region: the innermost region *thread* executes
    :raises Unavailable: if the stack could not be followed to its end and none of its frames is the user's
    """
    stack = session.process.stack(thread)
    unknown = False
    for index, frame in enumerate(stack.frames):
        owner = code_owner(session, frame.call_site)
        if owner == USER:
            return _place(session, frame.call_site, _function(session, stack.frames[index:], region))
        unknown = unknown or owner == UNKNOWN
    if stack.stopped is not None:
        raise Unavailable(f"the stack could not be followed: {stack.stopped}")
    if unknown:
        raise Unavailable("which of its frames are the user's cannot be told: the program is static or has no symbols")
    return None


def code_owner(session: Session, address: int) -> str:
    """Return whose code lies at *address*; see :func:`ompd.contract.code.owner`."""
    known = session.owners
    if address not in known:
        known[address] = owner_of(session.process, session.runtime_modules, address)
    return known[address]


def is_user_frame(session: Session, frame: Frame) -> bool:
    """Tell whether a frame's code is the user's."""
    return code_owner(session, frame.call_site) == USER


def region_function(session: Session, region: ParallelHandle) -> RegionFunction | None:
    """Return what is known of the function the compiler made of a region's code, None if the region has none.

    ``function`` is the user's function that has the construct in it.
    """
    entry = region.function()
    if entry is None:
        return None
    name = source_function(session, region) or _symbol(session, entry)
    file, line = session.process.line_of(entry, entry=True)
    return RegionFunction(entry, name, file, line, "parallel")


def task_function(session: Session, entry: int) -> RegionFunction:
    """Return what is known of the function the compiler made of an explicit task's code, which starts at *entry*."""
    name = _symbol(session, entry)
    known = outlined.parse(name or "")
    file, line = session.process.line_of(entry, entry=True)
    return RegionFunction(entry, known.parent if known is not None and known.parent else name, file, line, "task")


def source_function(session: Session, region: ParallelHandle) -> str | None:
    """Return the name of the user's function that encountered *region*'s construct, None where nothing tells it.

    gcc's names tell, and clang's from 17 on. For older ones it is read from the stack of the region's primary thread,
    and of the primary threads of enclosing regions, out to the first function that a person wrote.
    """
    known = session.source_functions
    passed: list[str] = []
    found: str | None = None
    here: ParallelHandle | None = region
    while here is not None and here.id not in passed:
        if here.id in known:
            found = known[here.id]
            break
        passed.append(here.id)
        try:
            found = _encountering_function(session, here)
            here = here.enclosing() if found is None else None
        except OmpdError:
            break  # a region or stack that cannot be read tells nothing
    for identifier in passed:
        known[identifier] = found
    return found


def _encountering_function(session: Session, region: ParallelHandle) -> str | None:
    # None: it is code of the enclosing region, and that region's function has to tell.
    entry = region.function()
    known = outlined.parse(_symbol(session, entry) or "") if entry is not None else None
    if known is not None and known.parent is not None:
        return known.parent
    frames = region.encountering_frames()
    name = _symbol(session, frames[0].call_site)
    known = outlined.parse(name or "")
    if known is None:
        if name is None:
            raise Unavailable("the function that encountered the region has no symbol")
        return name
    if known.parent is None and not _is_code_of(session, frames, region.enclosing()):
        raise Unavailable("the region's construct is in code whose function is not known")
    return known.parent


def _symbol(session: Session, address: int) -> str | None:
    return session.process.locate(address).symbol


def _is_code_of(session: Session, frames: Sequence[Frame], region: ParallelHandle | None) -> bool:
    # With -g clang's code is in a function of its own, called by the one that the runtime knows.
    starts = [session.process.locate(frame.call_site).symbol_address for frame in frames[:2]]
    return region is not None and region.function() in starts


def _function(session: Session, frames: Sequence[Frame], region: ParallelHandle | None) -> str | None:
    # The source's name of the function of frames[0]: for the code of *region* that of the function that has it.
    name = _symbol(session, frames[0].call_site)
    known = outlined.parse(name) if name is not None else None
    if known is None or known.parent is not None or region is None:
        return known.parent if known is not None and known.parent is not None else name
    try:
        is_regions = _is_code_of(session, frames, region)
    except OmpdError:
        return name
    return (source_function(session, region) if is_regions else None) or name


def _place(session: Session, address: int, function: str | None) -> Place:
    file, line = session.process.line_of(address)
    return Place(address, function, file, line)
