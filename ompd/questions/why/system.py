"""Reads a thread's wait outside of OpenMP: the variable that it waits for, or the other side of a call of MPI."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from ompd.contract.memory import read_pointer
from ompd.contract.process import Frame, Module
from ompd.errors import OmpdError, Unavailable
from ompd.model.kinds import Kind
from ompd.model.stalls import SystemWait
from ompd.questions import places
from ompd.session import Session

# The names of the types of objects that threads wait for, in programs and in debug information.
_TYPES = {
    Kind.MUTEX: ("pthread_mutex_t", "__pthread_mutex_s", "mtx_t"),
    Kind.CONDITION: ("pthread_cond_t", "__pthread_cond_s", "cnd_t"),
    Kind.SEMAPHORE: ("sem_t",),
    Kind.RWLOCK: ("pthread_rwlock_t", "__pthread_rwlock_arch_t"),
    Kind.PTHREAD_BARRIER: ("pthread_barrier_t",),
    Kind.STD_BARRIER: ("barrier<std::__empty_completion>", "barrier<>"),
    Kind.LATCH: ("latch",),
    Kind.ONCE: ("pthread_once_t", "once_flag"),
}


_GUARD = "guard variable for "
_LOCK_OF_STREAM = {8: 136, 4: 72}  # _lock in glibc's struct _IO_FILE, by the size of a pointer


def system_wait(session: Session, thread: int) -> SystemWait | None:
    """Return the wait of a thread in the C library or the kernel, None if the thread is in no call that waits.

    This may also be the call by which an OpenMP runtime waits.

    :param thread: its native id
    :raises Unavailable: if the target does not have the thread's registers or code
    """
    wait = session.process.system_waits.of(thread)
    if wait is None:
        return None
    kind = Kind(wait.kind)
    symbol, unavailable, peer = None, dict(wait.unavailable), wait.peer
    if kind is Kind.MPI and wait.routine is not None:
        try:
            peer = other_side(session, thread, wait.routine)
        except OmpdError as error:
            unavailable["peer"] = str(error)
    if wait.object is not None and kind in (*_TYPES, Kind.FUTEX, Kind.STREAM):
        symbol = _symbol(session, kind, wait.object)
        if symbol is None:
            unavailable["symbol"] = "no variable in static storage is there"
    return SystemWait(
        kind=kind,
        routine=wait.routine,
        system_call=wait.system_call,
        object=wait.object,
        symbol=symbol,
        owner=wait.owner,
        owner_source=wait.owner_source,
        is_owner_alive=wait.is_owner_alive,
        descriptor=wait.descriptor,
        peer=peer,
        is_timed=wait.is_timed,
        is_shared=wait.is_shared,
        is_recursive=wait.is_recursive,
        expected=wait.expected,
        missing=wait.missing,
        readers=wait.readers,
        # The process's first thread belongs to no pool. If it waits at a pool's queue, it waits for other threads.
        pool=wait.pool if thread != session.target.process_id else None,
        unavailable=unavailable,
    )


def _symbol(session: Session, kind: Kind, address: int) -> str | None:
    process = session.process
    if kind is Kind.STREAM:
        return _stream(session, address)
    try:
        place = process.places.locate(address)
        if place.module is None:
            return None
        variables = process.types.variables_of_type(place.module, _TYPES[kind]) if kind in _TYPES else ()
    except OmpdError:
        return None
    for variable in variables:
        if variable.address == address:
            return f"&{variable.expression}"
    if place.symbol is None or place.symbol_address is None:
        return None
    name = process.places.source_name(place.module, place.symbol)
    if name.startswith(_GUARD):
        return name
    offset = address - place.symbol_address
    return f"&{name}+{offset:#x}" if offset else f"&{name}"


def _stream(session: Session, lock: int) -> str | None:
    process = session.process
    for name in ("stdin", "stdout", "stderr"):
        with suppress(OmpdError):
            stream = process.symbols.find_symbol(f"_IO_2_1_{name}_")
            if read_pointer(process.memory, stream + _LOCK_OF_STREAM[process.memory.pointer_size]) == lock:
                return name
    return None


_MAX_FRAMES = 64
_INT = 1 << 32
_ANY_TAG = -1  # of Open MPI and of MPICH
_ANY_SOURCE_OF_OPEN_MPI, _ANY_SOURCE_OF_MPICH = -1, -2
# Open MPI's communicators are addresses of variables, MPICH's are numbers.
_OF_OPEN_MPI = "ompi_mpi_comm_world"
_WORLD = (_OF_OPEN_MPI, 0x44000000)


class _Arguments(NamedTuple):
    """The indexes of the arguments that name the other rank, the tag and the communicator, None without one."""

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
    """The other side of a call of MPI, as the code of the caller shows it.

    ``link`` is ``from`` or ``to`` for a call with one other rank, ``from or to`` for a broadcast, and ``""`` for a call
    of all ranks. ``rank`` is the number of the other rank, None if the code does not show it. ``any_source`` is the
    number that MPI's library uses for any rank, None if it is unknown. ``tag`` is None if the call has no tag, or if
    the code does not show it. ``is_world`` is whether the communicator is MPI_COMM_WORLD, None if that is unknown.
    """

    routine: str
    link: str
    rank: int | None
    any_source: int | None
    tag: int | None
    is_world: bool | None


def other_side(session: Session, thread: int, routine: str) -> str | None:
    """Return a text for the other side of a call of MPI, such as ``from rank 1, tag 7, of MPI_COMM_WORLD``.

    None for an unknown routine, and for a call without rank, tag and a known communicator.

    :raises Unavailable: if the code of the caller does not show the rank, because the argument is not a constant
    """
    call = communication(session, thread, routine)
    if call is None:
        return None
    parts = []
    if call.link:
        parts.append(_rank(call))
    if call.tag is not None:
        parts.append("any tag" if call.tag == _ANY_TAG else f"tag {call.tag}")
    if call.is_world:
        parts.append("of MPI_COMM_WORLD")
    return ", ".join(parts) or None


def communication(session: Session, thread: int, routine: str) -> Communication | None:
    """Return the other side of a thread's call of MPI, None if the routine is not known.

    :raises Unavailable: if the caller of the routine is not on the stack
    """
    arguments = _ROUTINES.get(routine)
    if arguments is None:
        return None
    caller, library = _caller(session, thread, routine)
    functions = places.followed_functions(session)
    values = functions.arguments(caller)
    world = values[arguments.communicator] if arguments.communicator < len(values) else None
    is_world = None
    if world is not None:
        is_world = world == _WORLD[1] or session.process.places.locate(world).symbol == _WORLD[0]
    return Communication(
        routine,
        arguments.link,
        _int(values, arguments.rank) if arguments.rank is not None else None,
        _any_source(session, library, world) if arguments.rank is not None else None,
        _int(values, arguments.tag) if arguments.tag is not None else None,
        is_world,
    )


def _caller(session: Session, thread: int, routine: str) -> tuple[Frame, Module | None]:
    frames = session.process.stacks.stack(thread).frames[:_MAX_FRAMES]
    names = (routine, f"P{routine}")
    indexes = [n for n, frame in enumerate(frames) if session.process.places.locate(frame.call_site).symbol in names]
    if not indexes or indexes[-1] + 1 >= len(frames):
        raise Unavailable("who called it is not seen")
    outermost = indexes[-1]
    return frames[outermost + 1], session.process.places.locate(frames[outermost].call_site).module


def _any_source(session: Session, library: Module | None, communicator: int | None) -> int | None:
    # Return the library's number for any rank. None if the library is unknown, because the number that means any rank
    # in MPICH means no rank in Open MPI.
    try:
        if library is not None and session.process.symbols.symbol_in(library, _OF_OPEN_MPI) is not None:
            return _ANY_SOURCE_OF_OPEN_MPI
    except OmpdError:
        return None
    return _ANY_SOURCE_OF_MPICH if communicator == _WORLD[1] else None


def _rank(call: Communication) -> str:
    if call.rank is None:
        raise Unavailable("the code in front of the call does not show which rank is meant")
    if call.rank >= 0:
        return f"{call.link} rank {call.rank}"
    if call.rank != call.any_source:
        raise Unavailable(f"which rank {call.rank} stands for is not known")
    return f"{call.link} any rank"


def _int(values: tuple[int | None, ...], index: int) -> int | None:
    value = values[index] if index < len(values) else None
    if value is None:
        return None
    value %= _INT
    return value - _INT if value >= _INT // 2 else value
