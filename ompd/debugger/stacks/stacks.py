"""The stacks of one process's threads, each followed once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from ompd.contract.process import Shape, Stack, shape_of
from ompd.debugger.memory import TargetMemory
from ompd.debugger.modules.modules import ModuleList
from ompd.debugger.places import Places
from ompd.debugger.regions import Regions
from ompd.debugger.stacks.frames import Frame
from ompd.debugger.stacks.partial import FrameRegisters, PartialStacks
from ompd.debugger.stacks.steps import Steps, Table
from ompd.debugger.stacks.unwind import Unwinder
from ompd.debugger.symbols import Symbols
from ompd.debugger.targets.base import PartialRegisters
from ompd.debugger.threads.threads import NO_REGISTERS, Threads
from ompd.isa.architecture import Architecture


class Stacks:
    """Native stacks, with a guess where unwind data ends and one is requested.

    :param steps: what unwind data says, which is the same at every stop of the process
    """

    def __init__(
        self,
        memory: TargetMemory,
        architecture: Architecture,
        modules: ModuleList,
        symbols: Symbols,
        regions: Regions,
        threads: Threads,
        places: Places,
        steps: Steps,
    ) -> None:
        self._memory, self._architecture, self._regions = memory, architecture, regions
        self._modules, self._symbols, self._threads = modules, symbols, threads
        self._places = places
        self.steps = steps
        self._stacks: dict[tuple[int, bool], Stack] = {}
        self._shapes: dict[Shape, Shape] = {}  # of all stacks, each once

    @cached_property
    def unwinder(self) -> Unwinder:
        """What follows stacks by unwind data."""
        return Unwinder(
            self._memory.read,
            self._architecture,
            self._table,
            self.steps,
            is_code=self._regions.is_code,
            stack_end=self._regions.end_of,
            function_start=self._function_start,
        )

    def _function_start(self, address: int) -> int | None:
        return self._places.locate(address).symbol_address

    def _table(self, pc: int) -> tuple[Table, int] | None:
        module = self._modules.at(pc) or self._symbols.vdso_at(pc)
        return (module, module.bias) if module is not None else None

    def stack(self, thread: int, *, guess: bool = False) -> Stack:
        """Return the native stack of *thread*; see :meth:`Process.stack`."""
        stack = self._stacks.get((thread, guess))
        if stack is None:
            stack = self._stacks[thread, guess] = self._stack(thread, guess)
        return stack

    def _stack(self, thread: int, guess: bool) -> Stack:
        if not self._threads.has_registers(thread):
            return Stack.of((), NO_REGISTERS)
        if guess:
            certain = self.stack(thread)
            if certain.stopped is None:
                return certain
        registers = self._threads.registers(thread)
        if isinstance(registers, PartialRegisters):
            return self._partial_stack(registers, guess)
        found = self.unwinder.shape(registers) if not guess else None
        if found is not None:
            # Most threads of a team stand in the same code, and what that tells is known from the first of them.
            shape, innermost = found
            shape = self._shapes.setdefault(shape, shape)
            return Stack(shape, None, lambda: self.unwinder.unwind(self._threads.registers(thread)), innermost)
        walk = self.unwinder.unwind(registers, guess=guess)
        frames = tuple(walk)
        shape = shape_of(frames)
        return Stack.of(frames, walk.stopped, self._shapes.setdefault(shape, shape))

    def _partial_stack(self, registers: PartialRegisters, guess: bool) -> Stack:
        # The stack of a sleeping thread, some of whose callee-saved registers are unknown.
        def noting(frames: Iterator[Frame]) -> Iterator[Frame]:
            for frame in frames:
                unknown = self._architecture.callee_saved.difference(frame.registers)
                if unknown:
                    frame = frame._replace(registers=FrameRegisters(frame.registers, unknown, registers.want))
                yield frame

        found = self.unwinder.shape(registers) if not guess else None
        if found is not None:
            shape, innermost = found
            shape = self._shapes.setdefault(shape, shape)
            return Stack(shape, None, lambda: noting(self.unwinder.unwind(registers)), next(noting(iter([innermost]))))
        walk = self.unwinder.unwind(registers, guess=guess)
        frames = tuple(walk)
        if walk.stopped is not None and not guess:
            pointer = self._partial.frame_pointer(registers, frames[-1]) if frames else None
            if pointer is not None:
                registers[self._architecture.fp] = pointer
                return self._partial_stack(registers, guess)
        frames = tuple(noting(iter(frames)))
        if walk.stopped is not None and frames and isinstance(frames[-1].registers, FrameRegisters):
            registers.want()
        shape = shape_of(frames)
        return Stack.of(frames, walk.stopped, self._shapes.setdefault(shape, shape))

    @cached_property
    def _partial(self) -> PartialStacks:
        return PartialStacks(self.unwinder, self._architecture, self._memory.read, self._memory.read_code)
