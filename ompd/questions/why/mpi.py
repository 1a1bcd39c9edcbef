"""The other side of a call of MPI: which rank, and by which tag, as the code of the caller shows it."""

from __future__ import annotations

from typing import NamedTuple

from ompd import naming
from ompd.contract.code_owners import USER
from ompd.contract.process import Frame, Module
from ompd.errors import OmpdError, Unavailable
from ompd.questions import places
from ompd.session import Session

_MAX_FRAMES = 64
_INT = 1 << 32
_ANY_TAG = -1  # of Open MPI and of MPICH
_ANY_SOURCE_OF_OPEN_MPI, _ANY_SOURCE_OF_MPICH = -1, -2
# Open MPI's communicators are addresses of variables, MPICH's are numbers.
_OF_OPEN_MPI = "ompi_mpi_comm_world"
_WORLD = (_OF_OPEN_MPI, 0x44000000)


class _Arguments(NamedTuple):
    """Which arguments of a routine name the other rank, the tag and the communicator, None without one."""

    link: str
    rank: int | None
    tag: int | None
    communicator: int


_ROUTINES = {
    **dict.fromkeys(("MPI_Send", "MPI_Ssend", "MPI_Bsend", "MPI_Rsend"), _Arguments("to", 3, 4, 5)),
    "MPI_Recv": _Arguments("from", 3, 4, 5),
    **dict.fromkeys(("MPI_Probe", "MPI_Mprobe"), _Arguments("from", 0, 1, 2)),
    "MPI_Bcast": _Arguments("from or to", 3, None, 4),
    "MPI_Allreduce": _Arguments("", None, None, 5),
    "MPI_Barrier": _Arguments("", None, None, 0),
}


class Communication(NamedTuple):
    """With whom a call of MPI communicates, as the code of its caller shows it.

    ``link`` says how a call with one other rank has it (``from``, ``to``), ``""`` for a call of all ranks. ``rank`` is
    that rank, None if the code does not show it; ``any_source`` what stands for any. ``tag`` is None without one.
    ``is_world`` says whether the communicator is MPI_COMM_WORLD, None if the code does not show which one it is.
    """

    routine: str
    link: str
    rank: int | None
    any_source: int | None
    tag: int | None
    is_world: bool | None


def other_side(session: Session, thread: int, routine: str) -> str | None:
    """Return with whom a thread communicates in a call of MPI, as ``from rank 1, tag 7, of MPI_COMM_WORLD``; None if
    the call names nobody, or is not one of those that are known.

    :raises Unavailable: if the code of the caller does not show it, which is so where these are not constants
    """
    found = communication(session, thread, routine)
    if found is None:
        return None
    parts = []
    if found.link:
        parts.append(_rank(found))
    if found.tag is not None:
        parts.append("any tag" if found.tag == _ANY_TAG else f"tag {found.tag}")
    if found.is_world:
        parts.append("of MPI_COMM_WORLD")
    return ", ".join(parts) or None


def communication(session: Session, thread: int, routine: str) -> Communication | None:
    """Return with whom a thread communicates in a call of MPI, None if it is not one of those that are known.

    :raises Unavailable: if it is not seen who called the routine
    """
    known = _ROUTINES.get(routine)
    if known is None:
        return None
    caller, library = _caller(session, thread, routine)
    functions = session.process.functions(naming.ROUTINES(), lambda at: places.code_owner(session, at) == USER)
    values = functions.arguments(caller)
    at = values[known.communicator] if known.communicator < len(values) else None
    is_world = None if at is None else at == _WORLD[1] or session.process.places.locate(at).symbol == _WORLD[0]
    has_rank = known.rank is not None
    return Communication(
        routine,
        known.link,
        _int(values, known.rank) if known.rank is not None else None,
        _any_source(session, library, at) if has_rank else None,
        _int(values, known.tag) if known.tag is not None else None,
        is_world,
    )


def _caller(session: Session, thread: int, routine: str) -> tuple[Frame, Module | None]:
    frames = session.process.stacks.stack(thread).frames[:_MAX_FRAMES]
    names = (routine, f"P{routine}")
    found = [n for n, frame in enumerate(frames) if session.process.places.locate(frame.call_site).symbol in names]
    if not found or found[-1] + 1 >= len(frames):
        raise Unavailable("who called it is not seen")
    return frames[found[-1] + 1], session.process.places.locate(frames[found[-1]].call_site).module


def _any_source(session: Session, library: Module | None, communicator: int | None) -> int | None:
    # None where it is not known whose library it is: one has for any rank what the other has for none.
    try:
        if library is not None and session.process.symbols.symbol_in(library, _OF_OPEN_MPI) is not None:
            return _ANY_SOURCE_OF_OPEN_MPI
    except OmpdError:
        return None
    return _ANY_SOURCE_OF_MPICH if communicator == _WORLD[1] else None


def _rank(found: Communication) -> str:
    if found.rank is None:
        raise Unavailable("the code in front of the call does not show which rank is meant")
    if found.rank >= 0:
        return f"{found.link} rank {found.rank}"
    if found.rank != found.any_source:
        raise Unavailable(f"which rank {found.rank} stands for is not known")
    return f"{found.link} any rank"


def _int(values: tuple[int | None, ...], index: int) -> int | None:
    value = values[index] if index < len(values) else None
    if value is None:
        return None
    value %= _INT
    return value - _INT if value >= _INT // 2 else value
