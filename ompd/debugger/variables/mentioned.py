"""The variables of a function that instructions read, found by the places of the variables."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from ompd.contract.process import Frame
from ompd.debugger.flow.conditions import Read
from ompd.debugger.variables.locals import FunctionLocals, Locals, LocalValue


class _Elsewhere(NamedTuple):
    # The same frame, with the same stack, at another address of its function.
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
    """Return the variables that the function of *frame* has at another address of its code. The address decides where
    the variables are. Their values are the present ones.
    """
    elsewhere = _Elsewhere(
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
    return locals.of_frame(elsewhere)


def mentioned(locals: Locals, frame: Frame, reads: Sequence[Read]) -> Collection[tuple[str, int | None]]:
    """Return the variables of *frame*'s function that the instructions in *reads* read: name and declared line each."""
    return {
        (variable.name, variable.line)
        for read in reads
        for function in variables_at(locals, frame, read.at)
        for variable in function.variables
        if _is_read(variable, read)
    }


def parameters(locals: Locals, frame: Frame, address: int) -> int | None:
    """Return the number of parameters of the function that begins at *address*, None without debug information.

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
