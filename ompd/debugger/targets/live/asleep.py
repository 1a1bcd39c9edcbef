"""Threads that sleep in the kernel: nothing of them changes until they run."""

from __future__ import annotations

from typing import NamedTuple


class Asleep(NamedTuple):
    """A thread that sleeps in the kernel.

    ``call`` is its ``/proc/PID/task/TID/syscall``. ``turns`` is how often it has been given a processor, the third
    field of ``schedstat``. A thread that has both again has not run in between.
    """

    call: bytes
    turns: int
