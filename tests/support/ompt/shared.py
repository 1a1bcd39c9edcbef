"""Numbers that the report of 2015 and OpenMP 5 have alike, each under a name of its own for the type in C."""

from __future__ import annotations

from enum import IntEnum, IntFlag


class NativeMonitor(IntFlag):
    """What a device can record natively: ``ompt_native_mon_flags_t`` of 2015, ``ompt_native_mon_flag_t``."""

    DATA_MOTION_EXPLICIT = 0x01
    DATA_MOTION_IMPLICIT = 0x02
    KERNEL_INVOCATION = 0x04
    KERNEL_EXECUTION = 0x08
    DRIVER = 0x10
    RUNTIME = 0x20
    OVERHEAD = 0x40
    IDLENESS = 0x80


class Command(IntEnum):
    """What a program asks of a tool, by ``ompt_control`` or ``omp_control_tool`` (``omp_control_tool_t``).

    Commands of a tool's own begin at ``FIRST_OWN``.
    """

    START = 1
    PAUSE = 2
    FLUSH = 3
    END = 4
    FIRST_OWN = 64
