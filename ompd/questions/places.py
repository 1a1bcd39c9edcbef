"""From an address to the user's source, and from a stack to the user's innermost frame."""

from __future__ import annotations

from ompd import outlined
from ompd.contract.process import Frame
from ompd.errors import Unavailable
from ompd.model import Place, RegionFunction
from ompd.session import Session


def innermost_user_place(session: Session, thread: int) -> Place | None:
    """Return the innermost frame of *thread* that is the user's: neither an OpenMP runtime's nor the C library's.

    None for a thread that has no such frame, as an idle one of the pool.

    :raises Unavailable: if the stack could not be followed to its end and none of its frames is the user's
    """
    stack = session.process.stack(thread)
    for frame in stack.frames:
        if is_user_frame(session, frame):
            return place(session, frame.call_site)
    if stack.stopped is not None:
        raise Unavailable(f"the stack could not be followed: {stack.stopped}")
    return None


def is_user_frame(session: Session, frame: Frame) -> bool:
    """Tell whether a frame's code is neither an OpenMP runtime's nor of the C and compiler libraries."""
    module = session.process.module_at(frame.call_site)
    if module is None or module.is_system_library:
        return False
    return all(module != runtime.found.module for runtime in session.runtimes)


def place(session: Session, address: int) -> Place:
    """Return function, file and line of *address*, each None where nothing tells it."""
    location = session.process.locate(address)
    file, line = session.process.line_of(address)
    name = location.symbol
    known = outlined.parse(name) if name is not None else None
    if known is not None and known.parent is not None:
        name = known.parent
    return Place(address, name, file, line)


def region_function(session: Session, entry: int) -> RegionFunction:
    """Return what is known of the function the compiler made of a region's code, which starts at *entry*."""
    found = place(session, entry)
    return RegionFunction(found.address, found.function, found.file, found.line, "parallel")
