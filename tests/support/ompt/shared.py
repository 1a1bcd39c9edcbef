"""Numbers that the report of 2015 and OpenMP 5 share; each document has its own name for the C type."""

from __future__ import annotations

from enum import IntEnum, IntFlag


class NativeMonitor(IntFlag):
    """Native records of a device: ``ompt_native_mon_flags_t`` in 2015, ``ompt_native_mon_flag_t`` in OpenMP 5."""

    DATA_MOTION_EXPLICIT = 0x01
    DATA_MOTION_IMPLICIT = 0x02
    KERNEL_INVOCATION = 0x04
    KERNEL_EXECUTION = 0x08
    DRIVER = 0x10
    RUNTIME = 0x20
    OVERHEAD = 0x40
    IDLENESS = 0x80


class Command(IntEnum):
    """Commands of a program to a tool, by ``ompt_control`` or ``omp_control_tool`` (``omp_control_tool_t``).

    Commands that a tool defines itself begin at ``FIRST_OWN``.
    """

    START = 1
    PAUSE = 2
    FLUSH = 3
    END = 4
    FIRST_OWN = 64
