"""From an address to the user's source, and from a stack to the user's innermost frame."""

from __future__ import annotations

from collections.abc import Sequence

from ompd import outlined
from ompd.contract.ompd import ThreadIdKind
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
    for index, frame in enumerate(stack.frames):
        if is_user_frame(session, frame):
            return _place(session, frame.call_site, _function(session, stack.frames[index:], region))
    if stack.stopped is not None:
        raise Unavailable(f"the stack could not be followed: {stack.stopped}")
    return None


def is_user_frame(session: Session, frame: Frame) -> bool:
    """Tell whether a frame's code is neither an OpenMP runtime's nor of the C and compiler libraries."""
    module = session.process.module_at(frame.call_site)
    if module is None or module.is_system_library:
        return False
    return all(module != runtime.found.module for runtime in session.runtimes)


def region_function(session: Session, region: ParallelHandle) -> RegionFunction | None:
    """Return what is known of the function the compiler made of a region's code, None if the region has none.

    ``function`` is the user's function that has the construct in it.
    """
    entry = region.function()
    if entry is None:
        return None
    found = _place(session, entry, source_function(session, region) or session.process.locate(entry).symbol)
    return RegionFunction(found.address, found.function, found.file, found.line, "parallel")


def source_function(session: Session, region: ParallelHandle) -> str | None:
    """Return the name of the user's function that encountered *region*'s construct, None where nothing tells it.

    gcc's names tell, and clang's from 17 on. For older ones it is read from the stack of the region's primary thread, and
    of the primary threads of enclosing regions, out to the first function that a person wrote.
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
    entry = region.function()
    name = session.process.locate(entry).symbol if entry is not None else None
    known = outlined.parse(name) if name is not None else None
    if known is not None and known.parent is not None:
        return known.parent
    pthread = region.thread(0).native_id(ThreadIdKind.PTHREAD)
    frames = session.process.stack(session.process.thread_for_id(ThreadIdKind.PTHREAD, pthread)).frames
    # While the primary thread waits at the region's end its function is no longer on the stack; then all frames are outside.
    inside = [i for i, frame in enumerate(frames) if session.process.locate(frame.call_site).symbol_address == entry]
    return _first_written(session, frames[inside[0] + 1 :] if inside else frames)


def _first_written(session: Session, frames: Sequence[Frame]) -> str | None:
    # The first user function that a person wrote, or that says whose construct it holds.
    for frame in frames:
        if not is_user_frame(session, frame):
            continue
        name = session.process.locate(frame.call_site).symbol
        known = outlined.parse(name) if name is not None else None
        if known is None:
            return name
        if known.parent is not None or known.construct == "task":
            return known.parent
    return None


def _function(session: Session, frames: Sequence[Frame], region: ParallelHandle | None) -> str | None:
    # The source's name of the function of frames[0]: for the code of *region* that of the function that has it.
    places = [session.process.locate(frame.call_site) for frame in frames[:2]]
    name = places[0].symbol
    known = outlined.parse(name) if name is not None else None
    if known is None or known.parent is not None or region is None:
        return known.parent if known is not None and known.parent is not None else name
    try:
        # With -g clang's code is in a function of its own, called by the one that the runtime knows.
        is_regions = region.function() in [place.symbol_address for place in places]
    except OmpdError:
        return name
    return (source_function(session, region) if is_regions else None) or name


def _place(session: Session, address: int, function: str | None) -> Place:
    file, line = session.process.line_of(address)
    return Place(address, function, file, line)
