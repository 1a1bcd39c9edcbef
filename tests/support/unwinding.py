"""Unwind whole stacks at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from ompd.binary.cfi.tables import UnwindTable
from ompd.debugger.stacks.frames import Frame
from ompd.debugger.stacks.steps import Steps
from ompd.debugger.stacks.unwind import Unwinder
from ompd.isa.architecture import Architecture


def unwinder_of(
    read: Callable[[int, int], bytes],
    architecture: Architecture,
    table_for: Callable[[int], tuple[UnwindTable, int] | None],
    steps: Steps | None = None,
    *,
    is_code: Callable[[int], bool] | None = None,
    stack_end: Callable[[int], int | None] | None = None,
    function_start: Callable[[int], int | None] | None = None,
) -> Unwinder:
    """Return an unwinder over invented memory, unwind tables, mappings and symbols."""

    def module_at(address: int) -> Any:
        found = table_for(address)
        return SimpleNamespace(row=found[0].row, bias=found[1]) if found is not None else None

    def locate(address: int) -> Any:
        return SimpleNamespace(symbol_address=function_start(address) if function_start is not None else None)

    parts: list[Any] = [
        SimpleNamespace(read=read),
        architecture,
        SimpleNamespace(at=module_at),
        SimpleNamespace(vdso_at=lambda _: None),
        SimpleNamespace(is_code=is_code or bool, end_of=stack_end or (lambda _: None)),
        SimpleNamespace(locate=locate),
        {} if steps is None else steps,
    ]
    return Unwinder(*parts)


@dataclass(frozen=True)
class Stack:
    """A thread's frames, innermost first. ``stopped`` is None for a whole stack, else why unwinding stopped."""

    frames: list[Frame]
    stopped: str | None

    @property
    def complete(self) -> bool:
        return self.stopped is None


def stack_of(unwinder: Unwinder, registers: Mapping[str, int], *, guess: bool = False) -> Stack:
    """Return the whole stack of the thread with *registers*."""
    walk = unwinder.unwind(registers, guess=guess)
    frames = list(walk)
    return Stack(frames, walk.stopped)
