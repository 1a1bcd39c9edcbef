"""The instructions of one function, and the effects of its calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ompd.debugger.flow.state import Released
from ompd.errors import Unavailable
from ompd.isa.instructions import Instruction, Processor
from ompd.naming import Routine

if TYPE_CHECKING:
    from ompd.debugger.flow.functions import Functions

_MAX_CODE = 1 << 20  # bytes


class Called(NamedTuple):
    """The effects of a call of the function ``name``, ``""`` if that is unknown.

    ``routine`` is what the function does to a construct or lock; None for functions that do nothing to one, or whose
    code is followed instead. ``released`` are then the constructs and locks that its code may end, None if unknown.
    If it ``ends``, the call never returns.
    """

    name: str = ""
    routine: Routine | None = None
    ends: bool = False
    returns_twice: bool = False
    released: frozenset[Released] | None = frozenset()


class FunctionCode:
    """The instructions of one function, including parts that a compiler moved elsewhere, and the effects of its calls.

    :param entry: the address of the function
    :param with_callees: whether a call of a user's function has the effects of that function's code
    """

    def __init__(self, functions: Functions, entry: int, processor: Processor, *, with_callees: bool) -> None:
        self._functions, self._with_callees = functions, with_callees
        self.entry, self.processor = entry, processor
        self._parts: dict[int, bytes] = {}
        self._own: dict[int, bool] = {}
        self._left = _MAX_CODE

    def instruction(self, address: int) -> Instruction | None:
        """Return the instruction at an address, None if there is none.

        :raises Unavailable: if the function has more code than is read
        """
        extent = self._functions.modules.function_extent(address)
        if extent is None:
            return None
        start, end = extent
        if start not in self._parts:
            self._left -= end - start
            if self._left < 0:
                raise Unavailable("the function has more code than is followed")
            self._parts[start] = self._functions.memory.read_code(start, end - start)
        return self.processor.decode(self._parts[start], address - start, address)

    def is_own(self, target: int) -> bool:
        """Return whether an address is in this function."""
        code = self._functions.code
        start = code.start(target)
        if start is None:
            return False
        if start not in self._own:
            self._own[start] = start == self.entry or not code.is_function(start)
        return self._own[start]

    def jumps(self, instruction: Instruction) -> Sequence[int]:
        """Return the target of a jump or branch in a tuple, which is empty if it is unknown or in another function."""
        target = instruction.target if instruction.flow in ("jump", "branch") else None
        return (target,) if target is not None and self.is_own(target) else ()

    def goes_on(self, instruction: Instruction) -> bool:
        """Return whether execution may go on with the next instruction."""
        if instruction.flow == "call":
            return not self.called(instruction).ends
        return instruction.flow in ("next", "branch") and self.is_own(instruction.end)

    def pads(self, call: int) -> Sequence[int]:
        """Return the landing pads for exceptions that the call at the address *call* throws.

        :raises MalformedFile: if the table of landing pads is malformed
        """
        return self._functions.code.pads_of(call)

    def called(self, instruction: Instruction) -> Called:
        """Return the effects of a call, or of a jump out of this function."""
        functions = self._functions
        return functions.called_with_callees(instruction) if self._with_callees else functions.called(instruction)

    def constant(self, address: int) -> int | None:
        """Return the word at *address* if only the loader writes to that address, else None."""
        return self._functions.code.constant(address)

    def routine_at(self, address: int) -> Routine | None:
        """Return the routine at an address that :meth:`constant` has returned, None at other addresses."""
        functions = self._functions
        return functions.targets.called_at(address).routine if address in functions.code.taken else None

    def spend(self, count: int) -> None:
        """Count *count* more instructions as followed.

        :raises Unavailable: if that exceeds the limit for all functions of the process together
        """
        self._functions.spend(count)
