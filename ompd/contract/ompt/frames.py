"""Frames, as OpenMP 5 tells of them: who owns one, and what kind of address stands for it."""

from __future__ import annotations

from enum import IntFlag


class FrameFlag(IntFlag):
    """``ompt_frame_flag_t``: who owns a frame, and what kind of address stands for it."""

    RUNTIME = 0x00
    APPLICATION = 0x01
    CFA = 0x10
    FRAMEPOINTER = 0x20
    STACKADDRESS = 0x30
