"""Which variables of a function instructions name: by where these are kept."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from ompd.contract.process import Frame
from ompd.debugger.flow.conditions import Read
from ompd.debugger.variables.locals import FunctionLocals, Locals, LocalValue


class _Elsewhere(NamedTuple):
    # A frame as it is at another place of its function, where the stack has not changed.
    pc: int
    call_site: int
    sp: int
    cfa: int | None
    registers: Mapping[int, int]
    function_start: int | None
    is_signal_frame: bool
    how: str
    guessed: bool


def variables_at(locals: Locals, frame: Frame, address: int) -> Sequence[FunctionLocals]:
    """Return the variables that the function of *frame* has at another address of its code: where they are kept there,
    not what they had then.
    """
    there = _Elsewhere(
        address,
        address,
        frame.sp,
        frame.cfa,
        frame.registers,
        frame.function_start,
        frame.is_signal_frame,
        frame.how,
        frame.guessed,
    )
    return locals.of_frame(there)


def mentioned(locals: Locals, frame: Frame, reads: Sequence[Read]) -> Collection[tuple[str, int | None]]:
    """Return the names, and the lines of declaration, of the variables of the function of *frame* that its instructions
    name.
    """
    return {
        (variable.name, variable.line)
        for read in reads
        for function in variables_at(locals, frame, read.at)
        for variable in function.variables
        if _is_read(variable, read)
    }


def parameters(locals: Locals, frame: Frame, address: int) -> int | None:
    """Return how many parameters the function has that begins at an address, None if debug information does not tell.

    :param frame: any frame of the process
    """
    functions = variables_at(locals, frame, address)
    if len(functions) != 1 or functions[0].fault is not None:
        return None
    return sum(variable.is_parameter for variable in functions[0].variables)


def _is_read(variable: LocalValue, read: Read) -> bool:
    if variable.register is not None:
        return variable.register in read.registers
    return variable.address is not None and variable.address in read.addresses
