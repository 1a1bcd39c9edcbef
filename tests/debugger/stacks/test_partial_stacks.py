"""Registers of sleeping threads: a use of an unknown register is reported."""

from __future__ import annotations

from ompd.debugger.stacks.partial import FrameRegisters

RBX, RBP, RSP = 3, 6, 7


def test_a_register_that_is_unknown_is_asked_for() -> None:
    wants: list[int] = []
    registers = FrameRegisters({RSP: 0x1000}, frozenset({RBX, RBP}), lambda: wants.append(1))
    assert registers.get(RSP) == registers[RSP] == 0x1000 and RBX not in registers and not wants
    assert registers.get(RBX) is None and len(wants) == 1


def test_a_search_through_all_registers_asks_for_those_that_are_unknown() -> None:
    wants: list[int] = []
    values = FrameRegisters({RSP: 0x1000}, frozenset({RBX}), lambda: wants.append(1)).values()
    assert next(values) == 0x1000 and not wants  # found among the known registers
    assert list(values) == [] and len(wants) == 1
