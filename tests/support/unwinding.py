"""Whole stacks, followed at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ompd.debugger.stacks.frames import Frame
from ompd.debugger.stacks.unwind import Unwinder


@dataclass(frozen=True)
class Stack:
    """A thread's frames, innermost first. ``stopped`` is None for a whole stack, else why it could not be followed."""

    frames: list[Frame]
    stopped: str | None

    @property
    def complete(self) -> bool:
        return self.stopped is None


def stack_of(unwinder: Unwinder, registers: Mapping[str, int], *, guess: bool = False) -> Stack:
    """Return the whole stack of the thread that has *registers*."""
    walk = unwinder.unwind(registers, guess=guess)
    frames = list(walk)
    return Stack(frames, walk.stopped)
