"""States of threads and flags of frames, by the names and numbers of OMPT, the interface for tools inside a process.

The states are those of OpenMP 5.2 (19.4.4.28) and those of the report of 2015 (appendix A.1), which differ in nearly
every number. A number without a name in the specification is kept as a number. ``runtime_stub/include`` has all numbers
of both documents for C. If a document contradicts itself, ``docs/dev/ompt.md`` has the ruling.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, IntFlag


class State(IntEnum):
    """``ompt_state_t``: the state of a thread. 0x03 and 0x04 come from Intel's runtime."""

    WORK_SERIAL = 0x000
    WORK_PARALLEL = 0x001
    WORK_REDUCTION = 0x002
    WORK_FREE_AGENT = 0x003
    WORK_INDUCTION = 0x004
    WAIT_BARRIER = 0x010
    WAIT_BARRIER_IMPLICIT_PARALLEL = 0x011
    WAIT_BARRIER_IMPLICIT_WORKSHARE = 0x012
    WAIT_BARRIER_IMPLICIT = 0x013
    WAIT_BARRIER_EXPLICIT = 0x014
    WAIT_BARRIER_IMPLEMENTATION = 0x015
    WAIT_BARRIER_TEAMS = 0x016
    WAIT_TASKWAIT = 0x020
    WAIT_TASKGROUP = 0x021
    WAIT_MUTEX = 0x040
    WAIT_LOCK = 0x041
    WAIT_CRITICAL = 0x042
    WAIT_ATOMIC = 0x043
    WAIT_ORDERED = 0x044
    WAIT_TARGET = 0x080
    WAIT_TARGET_MAP = 0x081
    WAIT_TARGET_UPDATE = 0x082
    IDLE = 0x100
    OVERHEAD = 0x101
    UNDEFINED = 0x102


_NAMES: Mapping[int, str] = {state.value: state.name.lower() for state in State}  # looked up for each thread


def state_name(value: int) -> str:
    """Return the specification's name of state *value* without its prefix, ``0x…`` for a state without a name."""
    name = _NAMES.get(value)
    return f"{value & 0xFFFFFFFF:#x}" if name is None else name


def is_wait(value: int) -> bool:
    """Return whether a thread in state *value* waits, so that its wait identifier is valid."""
    return State.WAIT_BARRIER <= value < State.IDLE


class State2015(IntEnum):
    """``ompt_state_t`` of the OMPT technical report of 2015. OpenMP 5 uses its numbers for other states.

    ``FIRST`` begins an enumeration, and is no thread's state.
    """

    WORK_SERIAL = 0x00
    WORK_PARALLEL = 0x01
    WORK_REDUCTION = 0x02
    IDLE = 0x10
    OVERHEAD = 0x20
    WAIT_BARRIER = 0x40
    WAIT_BARRIER_IMPLICIT = 0x41
    WAIT_BARRIER_EXPLICIT = 0x42
    WAIT_TASKWAIT = 0x50
    WAIT_TASKGROUP = 0x51
    WAIT_LOCK = 0x60
    WAIT_NEST_LOCK = 0x61
    WAIT_CRITICAL = 0x62
    WAIT_ATOMIC = 0x63
    WAIT_ORDERED = 0x64
    WAIT_TARGET = 0x70
    WAIT_TARGET_DATA = 0x71
    WAIT_TARGET_UPDATE = 0x72
    UNDEFINED = 0x80
    FIRST = 0x81


FROM_2015: Mapping[int, State] = {
    **{state.value: State[state.name] for state in State2015 if state.name in State.__members__},
    State2015.WAIT_NEST_LOCK: State.WAIT_LOCK,
    State2015.WAIT_TARGET_DATA: State.WAIT_TARGET_MAP,
}
"""The OpenMP 5 state for each state of 2015. OpenMP 5 has one state for both kinds of locks."""


class FrameFlag(IntFlag):
    """``ompt_frame_flag_t``: the owner of a frame, and the kind of its address."""

    RUNTIME = 0x00
    APPLICATION = 0x01
    CFA = 0x10
    FRAMEPOINTER = 0x20
    STACKADDRESS = 0x30
