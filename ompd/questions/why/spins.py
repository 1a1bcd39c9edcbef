"""Finds threads that spin: they repeat a loop that only a change of a word in memory ends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from ompd.contract.memory import read_unsigned
from ompd.errors import OmpdError, Unavailable
from ompd.model import SystemWait, ThreadRecord
from ompd.model.kinds import Kind
from ompd.questions import places
from ompd.session import Session

if TYPE_CHECKING:
    from ompd.debugger.emulation.openings import Word
    from ompd.debugger.emulation.orbits import Orbit

_MAX_THREADS = 1024
_MAX_NAMED = 3
_RSEQ = 32  # the size of struct rseq in bytes (Linux, include/uapi/linux/rseq.h)


def spins(session: Session, rows: Iterable[ThreadRecord]) -> dict[int, SystemWait]:
    """Return the waits of those threads that spin, by native id. Other threads have no entry.

    The result is empty if the emulator is not installed.
    """
    waits: dict[int, SystemWait] = {}
    try:
        orbits = session.process.routines.orbits(_kernel_words(session))
    except Unavailable:
        return waits
    try:
        for row in list(rows)[:_MAX_THREADS]:
            thread = row.native_thread_id or 0
            with suppress(OmpdError):
                orbit = session.process.orbit(orbits, thread)
                if orbit is not None and orbit.awaited:
                    waits[thread] = _wait(session, orbit)
    finally:
        orbits.close()
    return waits


def _kernel_words(session: Session) -> tuple[int, int] | None:
    # The kernel writes struct rseq, at this distance from the thread pointer (glibc 2.35).
    process = session.process
    try:
        raw = read_unsigned(process.memory, process.symbols.find_symbol("__rseq_offset"), process.memory.pointer_size)
    except OmpdError:
        return None
    bits = 8 * process.memory.pointer_size
    return raw - (1 << bits) if raw >> (bits - 1) else raw, _RSEQ


def _wait(session: Session, orbit: Orbit) -> SystemWait:
    shared = [session.process.regions.is_shared(word.address) for word in orbit.words]
    is_shared = True if True in shared else None if None in shared else False
    names = [_name(session, word) for word in orbit.awaited]
    conditions = [f"{name} {word.opens} (it is {word.number})" for name, word in zip(names, orbit.awaited, strict=True)]
    ending = f"the loop ends if {' or '.join(conditions[:_MAX_NAMED])}, and who writes that is not known"
    return SystemWait(
        kind=Kind.SPIN,
        routine="a loop of its own",
        object=orbit.awaited[0].address,
        symbol=" or ".join(dict.fromkeys(names[:_MAX_NAMED])),
        is_timed=False,
        is_shared=is_shared,
        loop=_loop(session, orbit),
        unavailable={"owner": ending},
    )


def _name(session: Session, word: Word) -> str:
    process = session.process
    with suppress(OmpdError):
        place = process.places.locate(word.address)
        if place.module is not None and place.symbol is not None and place.symbol_address is not None:
            name, offset = process.places.source_name(place.module, place.symbol), word.address - place.symbol_address
            return name + (f"+{offset:#x}" if offset else "")
    return f"the word at {word.address:#x}"


def _loop(session: Session, orbit: Orbit) -> str:
    lines: dict[str, set[int]] = {}
    for address in orbit.code:
        if places.is_users(session, address):
            file, line = session.process.places.line_of(address)
            if file is not None and line is not None:
                lines.setdefault(file.rpartition("/")[2], set()).add(line)
    where = " and ".join(f"{file}:{_range(sorted(numbers))}" for file, numbers in list(lines.items())[:_MAX_NAMED])
    call = ", with a call of sched_yield," if orbit.yields else ""
    loop = f"its loop of {orbit.length} instructions{f' at {where}' if where else ''}{call}"
    return f"{loop} comes round: all registers, and all bytes that it writes, are the same again"


def _range(lines: Sequence[int]) -> str:
    return f"{lines[0]}" if lines[0] == lines[-1] else f"{lines[0]}-{lines[-1]}"
