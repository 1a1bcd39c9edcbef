"""The stacks of one process's threads, each followed once."""

from __future__ import annotations

from functools import cached_property

from ompd.contract.process import Shape, Stack, shape_of
from ompd.debugger.memory import TargetMemory
from ompd.debugger.modules.modules import ModuleList
from ompd.debugger.places import Places
from ompd.debugger.regions import Regions
from ompd.debugger.stacks.partial import PartialStacks
from ompd.debugger.stacks.steps import Steps
from ompd.debugger.stacks.unwind import Unwinder
from ompd.debugger.symbols import Symbols
from ompd.debugger.targets.base import PartialRegisters
from ompd.debugger.threads.threads import NO_REGISTERS, Threads
from ompd.isa.architecture import Architecture


class Stacks:
    """The native stacks of one process's threads, at one stop.

    :param steps: the unwind steps of an earlier stop of the same process, to which new ones are added
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
        self._memory, self._architecture, self._threads = memory, architecture, threads
        self.steps = steps
        self.unwinder = Unwinder(memory, architecture, modules, symbols, regions, places, steps)
        self._stacks: dict[tuple[int, bool], Stack] = {}
        self._shapes: dict[Shape, Shape] = {}  # most threads of a team share one shape

    def stack(self, thread: int, *, guess: bool = False) -> Stack:
        """Return the native stack of *thread*.

        :param guess: whether to guess callers if unwind data does not give them
        """
        stack = self._stacks.get((thread, guess))
        if stack is None:
            stack = self._stacks[thread, guess] = self._follow(thread, guess)
        return stack

    def _follow(self, thread: int, guess: bool) -> Stack:
        if not self._threads.has_registers(thread):
            return Stack((), NO_REGISTERS)
        if guess:
            certain = self.stack(thread)
            if certain.stopped is None:
                return certain
        registers = self._threads.registers(thread)
        if isinstance(registers, PartialRegisters):
            frames, stopped = self._partial.follow(registers, guess=guess)
        else:
            walk = self.unwinder.unwind(registers, guess=guess)
            frames, stopped = tuple(walk), walk.stopped
        shape = shape_of(frames)
        return Stack(frames, stopped, self._shapes.setdefault(shape, shape))

    @cached_property
    def _partial(self) -> PartialStacks:
        return PartialStacks(self.unwinder, self._memory, self._architecture)
