"""What a thread waits for outside of OpenMP: part of ``why``."""

from __future__ import annotations

from contextlib import suppress

from ompd.contract.memory import read_pointer
from ompd.errors import OmpdError
from ompd.model.kinds import Kind
from ompd.model.stalls import SystemWait
from ompd.questions.why.mpi import other_side
from ompd.session import Session

# How programs call the types of these objects, and what lies behind.
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
    """Return what *thread*, a native id, waits for as C library and kernel have it; None if it is in no call that
    waits. A wait inside of the OpenMP runtime is reported, too, as the system sees it.

    :raises Unavailable: if the target does not have the thread's registers or code
    """
    found = session.process.system_waits.of(thread)
    if found is None:
        return None
    kind = Kind(found.kind)
    symbol, unavailable, peer = None, dict(found.unavailable), found.peer
    if kind is Kind.MPI and found.routine is not None:
        try:
            peer = other_side(session, thread, found.routine)
        except OmpdError as error:
            unavailable["peer"] = str(error)
    if found.object is not None and kind in (*_TYPES, Kind.FUTEX, Kind.STREAM):
        symbol = _symbol(session, kind, found.object)
        if symbol is None:
            unavailable["symbol"] = "no variable in static storage is there"
    return SystemWait(
        kind=kind,
        routine=found.routine,
        system_call=found.system_call,
        object=found.object,
        symbol=symbol,
        owner=found.owner,
        owner_source=found.owner_source,
        is_owner_alive=found.is_owner_alive,
        descriptor=found.descriptor,
        peer=peer,
        is_timed=found.is_timed,
        is_shared=found.is_shared,
        is_recursive=found.is_recursive,
        expected=found.expected,
        missing=found.missing,
        readers=found.readers,
        # The first thread belongs to no pool: at a queue it waits for other threads of the program.
        pool=found.pool if thread != session.target.process_id else None,
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
        known = process.types.variables_of_type(place.module, _TYPES[kind]) if kind in _TYPES else ()
        expression = next((variable.expression for variable in known if variable.address == address), None)
    except OmpdError:
        return None
    if expression is not None:
        return f"&{expression}"
    if place.symbol is None or place.symbol_address is None:
        return None
    offset, name = address - place.symbol_address, process.places.source_name(place.module, place.symbol)
    return name if name.startswith(_GUARD) else f"&{name}" + (f"+{offset:#x}" if offset else "")


def _stream(session: Session, lock: int) -> str | None:
    process = session.process
    for name in ("stdin", "stdout", "stderr"):
        with suppress(OmpdError):
            stream = process.symbols.find_symbol(f"_IO_2_1_{name}_")
            if read_pointer(process.memory, stream + _LOCK_OF_STREAM[process.memory.pointer_size]) == lock:
                return name
    return None
