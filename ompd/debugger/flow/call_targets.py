"""The calls of functions by their code, and the routines that they call."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from ompd import naming
from ompd.contract.process import Location
from ompd.debugger.flow.code import Code
from ompd.debugger.flow.function_code import Called
from ompd.debugger.memory import TargetMemory
from ompd.debugger.modules.modules import ModuleList
from ompd.debugger.stacks.calls import Calls
from ompd.isa.instructions import Instruction, Processor
from ompd.naming import Routine

UNKNOWN = -1
"""In place of an address: the unknown target of a call."""
_MAX_CODE = 1 << 20  # bytes of one function
# Functions that never return.
_NEVER_RETURN = frozenset(
    (
        *("abort", "exit", "_exit", "_Exit", "quick_exit", "__assert_fail", "__stack_chk_fail", "_Unwind_Resume"),
        *("__cxa_throw", "__cxa_rethrow", "__cxa_bad_cast", "__clang_call_terminate", "_ZSt9terminatev"),
        *("pthread_exit", "longjmp", "_longjmp", "siglongjmp", "__longjmp_chk", "__fortify_fail", "__chk_fail"),
    )
)
_RETURN_TWICE = frozenset(("setjmp", "_setjmp", "sigsetjmp", "__sigsetjmp", "vfork", "getcontext"))
_FORTRAN_SUFFIX = re.compile(r"(?:_25|_30)?_$")


class CallTargets:
    """The targets of calls in one process.

    :param locate: returns the symbol and module of an address
    :param routines: the routines that begin or end a construct, or set or release a lock, by their names
    """

    def __init__(
        self,
        memory: TargetMemory,
        modules: ModuleList,
        processor: Processor | None,
        code: Code,
        calls: Calls,
        locate: Callable[[int], Location],
        routines: Mapping[str, Routine],
    ) -> None:
        self._memory, self._modules, self._processor = memory, modules, processor
        self._code, self._calls, self._locate, self._routines = code, calls, locate, routines
        self._called_at: dict[int, Called] = {}
        self._targets: dict[tuple[int | None, int | None], int | None] = {}
        self._targets_in: dict[int, frozenset[int]] = {}

    def called_at(self, function: int) -> Called:
        """Return the effects of a call of the function at an address, by the function's name."""
        if function not in self._called_at:
            place = self._locate(function)
            bare = naming.routine_name(place.symbol) if place.symbol_address == function else ""
            # The table has the names without the C library's leading underscores and Fortran's trailing underscore.
            names = (bare, bare.lstrip("_"), _FORTRAN_SUFFIX.sub("", bare))
            routine = next((self._routines[name] for name in names if name in self._routines), None)
            self._called_at[function] = Called(bare.rstrip("_"), routine, bare in _NEVER_RETURN, bare in _RETURN_TWICE)
        return self._called_at[function]

    def is_routine(self, address: int) -> bool:
        """Return whether the function at an address begins or ends a construct, or sets or releases a lock."""
        return self.called_at(address).routine is not None

    def is_beginning(self, address: int) -> bool:
        """Return whether the function at an address is a routine that begins a construct or sets a lock."""
        routine = self.called_at(address).routine
        return routine is not None and routine.begins

    def is_ending(self, address: int) -> bool:
        """Return whether the function at an address is a routine that ends a construct or releases a lock."""
        routine = self.called_at(address).routine
        return routine is not None and not routine.begins

    def target(self, call: Instruction) -> int | None:
        """Return the address of the function that an instruction calls, None if unknown, as for calls by pointers."""
        key = call.target, call.word
        if key not in self._targets:
            self._targets[key] = self._calls.leads_to(call.target, call.word)
        return self._targets[key]

    def targets_in(self, start: int) -> frozenset[int]:
        """Return the targets of :meth:`calls_in` the function, or the part of one, at *start*."""
        if start not in self._targets_in:
            self._targets_in[start] = frozenset(target for _, target in self.calls_in(start))
        return self._targets_in[start]

    def calls_in(self, start: int) -> Iterator[tuple[int, int]]:
        """Yield each call in a function, or in a part of one: its address and its target, which may be ``UNKNOWN``.

        Jumps out of the function count as calls, and so do loads of a routine's address.
        """
        extent, processor = self._modules.function_extent(start), self._processor
        if extent is None or processor is None or extent[1] - start > _MAX_CODE:
            yield start, UNKNOWN
            return
        end = extent[1]
        code, offset = self._memory.read_code(start, end - start), 0
        while offset < len(code):
            instruction = processor.decode(code, offset, start + offset)
            if instruction is None:
                offset += 1
                continue
            offset += instruction.size
            target = self._target_of_any(instruction, start, end)
            if target is not None:
                yield instruction.address, target

    def _target_of_any(self, instruction: Instruction, start: int, end: int) -> int | None:
        # The target of a call, of a jump out of the code between *start* and *end*, or of a load of a routine's
        # address. None for other instructions, and for targets that are no functions.
        if instruction.flow == "computed":
            return UNKNOWN
        is_inside = instruction.target and start <= instruction.target < end
        if instruction.flow == "call" or (instruction.flow in ("jump", "branch") and not is_inside):
            is_by_pointer = instruction.target is None and instruction.word is None
            return UNKNOWN if is_by_pointer else self.target(instruction)
        operand = instruction.operand
        if instruction.does == "load" and operand is not None and operand.base is None and not operand.is_indexed:
            word = self._code.constant(operand.displacement)
            return word if word is not None and self.is_routine(word) else None
        return None
