"""Code of one function for the tests of :mod:`ompd.debugger.flow`, without a process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ompd.debugger.flow.function_code import Called, FunctionCode
from ompd.isa.instructions import Instruction
from ompd.isa.x86.decoder import X86_64
from ompd.naming import Routine


class ListedCode(FunctionCode):
    """Instructions by their addresses; *called* returns the effects of a call.

    No word is written only by the loader, and no call has landing pads.
    """

    def __init__(
        self, entry: int, instructions: Mapping[int, Instruction], called: Callable[[Instruction], Called]
    ) -> None:
        self.entry, self.processor = entry, X86_64
        self._instructions, self._effects = instructions, called

    def instruction(self, address: int) -> Instruction | None:
        return self._instructions.get(address)

    def is_own(self, target: int) -> bool:
        return target in self._instructions

    def called(self, instruction: Instruction) -> Called:
        return self._effects(instruction)

    def pads(self, call: int) -> Sequence[int]:
        return ()

    def constant(self, address: int) -> int | None:
        return None

    def routine_at(self, address: int) -> Routine | None:
        return None

    def spend(self, count: int) -> None:
        pass
