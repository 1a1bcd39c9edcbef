"""Locks that a function certainly holds, on random code with branches, joins and loops. The code is carried out, and no
certain answer may differ from the run.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from ompd.debugger.flow.follow import Function
from ompd.debugger.flow.function_code import Called
from ompd.debugger.flow.functions import Begun, Functions
from ompd.debugger.flow.values import FrameValues
from ompd.isa.instructions import Instruction, Operand
from ompd.isa.x86.decoder import X86_64
from ompd.naming import ROUTINES
from tests.support.flow import ListedCode

BEGIN, SIZE, CFA = 0x1000, 4, 0x7000
LOCKS = (0x40000, 0x40008, 0x40010)
RAX, RBX, RDI, RSP, R12 = 0, 3, 5, 7, 12
REGISTERS = (RAX, RBX, RDI, R12)
SLOTS = (-16, -24)  # distances from the stack pointer
SET, UNSET, OTHER = 1, 2, 3
CALLED = {
    SET: Called("omp_set_lock", ROUTINES()["omp_set_lock"]),
    UNSET: Called("omp_unset_lock", ROUTINES()["omp_unset_lock"]),
    OTHER: Called("other"),
}


def instruction(chance: random.Random, at: int) -> Instruction:
    """Return an instruction that passes a constant about or overwrites a register, or a call."""
    to, source = chance.choice(REGISTERS), chance.choice(REGISTERS)
    slot = Operand(RSP, False, chance.choice(SLOTS))
    made = (
        Instruction(at, SIZE, does="constant", to=to, value=chance.choice(LOCKS), width=8),
        Instruction(at, SIZE, does="copy", to=to, source=source, width=8),
        Instruction(at, SIZE, does="copy", to=RDI, source=chance.choice((RBX, R12)), width=8),
        Instruction(at, SIZE, does="store", source=source, operand=slot, width=8),
        Instruction(at, SIZE, does="load", to=to, operand=slot, width=8),
        Instruction(at, SIZE, clobbers=(to,)),
        Instruction(at, SIZE, flow="call", target=chance.choices((SET, UNSET, OTHER), (5, 2, 1))[0]),
    )
    return chance.choices(made, (5, 3, 3, 2, 2, 1, 5))[0]


def jumping(chance: random.Random, count: int) -> list[Instruction]:
    """Return code with jumps to random places in it."""
    found = []
    for at in range(BEGIN, BEGIN + SIZE * count, SIZE):
        target = BEGIN + SIZE * chance.randrange(count)
        jump = Instruction(at, SIZE, flow=chance.choice(("branch", "branch", "jump")), target=target)
        found.append(jump if chance.random() < 0.25 else instruction(chance, at))
    return found


def nested(chance: random.Random, begin: int, depth: int) -> list[Instruction]:
    """Return code of statements, some of them conditional or repeated."""
    found: list[Instruction] = []
    for _ in range(chance.randrange(1, 4)):
        at, kind = begin + SIZE * len(found), chance.choice(("one", "one", "if", "else", "while"))
        if kind == "one" or not depth:
            found.append(instruction(chance, at))
            continue
        inside = nested(chance, at + SIZE * (kind != "while"), depth - 1)
        end = at + SIZE * (len(inside) + 1)
        if kind == "while":
            found += [*inside, Instruction(end - SIZE, SIZE, flow="branch", target=at)]
        elif kind == "if":
            found += [Instruction(at, SIZE, flow="branch", target=end), *inside]
        else:
            other = nested(chance, end + SIZE, depth - 1)
            behind = Instruction(end, SIZE, flow="jump", target=end + SIZE * (len(other) + 1))
            found += [Instruction(at, SIZE, flow="branch", target=end + SIZE), *inside, behind, *other]
    return found


def random_code(chance: random.Random) -> list[Instruction]:
    """Return the code of a function."""
    found = jumping(chance, 24) if chance.random() < 0.5 else nested(chance, BEGIN, 3)
    return [*found, Instruction(BEGIN + SIZE * len(found), SIZE, flow="return")]


def carried_out(
    code: Sequence[Instruction], chance: random.Random
) -> Iterator[tuple[int, dict[int, int], dict[int, int], set[int]]]:
    """Carry out code; before each step, yield its address, registers, memory, and the locks that are set."""
    registers = {number: chance.randrange(1 << 20) for number in range(17)} | {RSP: CFA - 8}
    memory = {CFA - 8 + slot: 1 for slot in SLOTS}
    held: set[int] = set()
    at = BEGIN
    for _ in range(60):
        yield at, registers, memory, held
        found = code[(at - BEGIN) // SIZE]
        place = registers[RSP] + found.operand.displacement if found.operand is not None else 0
        if found.does == "constant":
            registers[found.to or 0] = found.value
        elif found.does == "copy":
            registers[found.to or 0] = registers[found.source or 0]
        elif found.does == "store":
            memory[place] = registers[found.source or 0]
        elif found.does == "load":
            registers[found.to or 0] = memory[place]
        for number in found.clobbers:
            registers[number] = chance.choice(LOCKS)
        lock = registers[RDI]
        if found.flow == "call":
            if found.target != OTHER and (lock in held) is (found.target == SET):
                return  # the thread would wait for itself, or the program is not valid OpenMP
            held ^= {lock} if found.target != OTHER else set()
            for number in X86_64.caller_saved:
                registers[number] = chance.choice(LOCKS)
        if found.flow == "return":
            return
        jumps = found.flow == "jump" or (found.flow == "branch" and chance.random() < 0.5)
        at = found.target or 0 if jumps else found.end


def begun(function: Function, at: int, registers: dict[int, int], memory: dict[int, int]) -> list[Begun]:
    """Return the calls that are reported as begun at an address."""
    place = function.facts_before(at)
    assert place is not None, hex(at)
    functions: Any = Functions.__new__(Functions)
    words: Any = SimpleNamespace(
        pointer_size=8, byte_order="little", read=lambda at, size: memory[at].to_bytes(size, "little")
    )
    locate: Any = lambda address: SimpleNamespace(symbol=None)  # noqa: E731
    functions._values = FrameValues(words, X86_64, locate)
    frame: Any = SimpleNamespace(registers=registers, cfa=CFA)
    return list(functions._begun(place, frame, function))


def followed(code: Sequence[Instruction]) -> Function:
    """Return the function, with the ways through its code."""
    by_address = {found.address: found for found in code}
    return Function(ListedCode(BEGIN, by_address, lambda found: CALLED[found.target or OTHER]))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.quick("0", "1")
def test_what_is_certain_where_ways_meet_is_true(seed: int) -> None:
    chance = random.Random(seed)
    told = joined = 0
    for _ in range(400):
        code = random_code(chance)
        function = followed(code)
        for _ in range(12):
            for at, registers, memory, held in carried_out(code, chance):
                for each in begun(function, at, registers, memory):
                    if each.doubt:
                        continue
                    told += 1
                    assert held if each.object is None else each.object in held, (hex(at), each, code)
                    place = function.facts_before(at)
                    value = place.state.held[each.call].value if place is not None else None
                    joined += value is not None and value.kind in ("joined", "computed") and each.object is not None
    assert told > 1000 and joined > 100, (told, joined)


A, B = LOCKS[:2]


def said(*lines: tuple[Any, ...], now: dict[int, int]) -> list[tuple[int, int | None, bool]]:
    """Return the calls that are reported at the end of code if registers have the values *now*: the number of its line,
    its lock (None if unknown), and whether the call is certain.
    """
    code = []
    for number, (does, *more) in enumerate(lines):
        at = BEGIN + SIZE * number
        if does == "constant":
            code.append(Instruction(at, SIZE, does=does, to=more[0], value=more[1], width=8))
        elif does == "computed":
            code.append(Instruction(at, SIZE, clobbers=(more[0],)))
        elif does in ("jump", "branch"):
            code.append(Instruction(at, SIZE, flow=does, target=BEGIN + SIZE * more[0]))
        else:  # a call with a register's value as its argument
            code.append(Instruction(at, 2, does="copy", to=RDI, source=more[0], width=8))
            code.append(Instruction(at + 2, 2, flow="call", target=does))
    end = BEGIN + SIZE * len(lines)
    code.append(Instruction(end, SIZE, flow="return"))
    found = begun(followed(code), end, now, {})
    return [((each.call - BEGIN) // SIZE, each.object, not each.doubt) for each in found]


def test_a_register_in_which_ways_differ_tells_the_lock() -> None:
    lines = (("branch", 3), ("constant", RBX, A), ("jump", 4), ("constant", RBX, B), (SET, RBX))
    assert said(*lines, now={RBX: B}) == [(4, B, True)]
    assert said(*lines, now={RBX: A}) == [(4, A, True)]
    assert said(*lines, (UNSET, RBX), now={RBX: A}) == []
    assert said(("computed", RBX), (SET, RBX), now={RBX: B}) == [(1, B, True)]


def test_a_register_that_has_changed_since_tells_nothing() -> None:
    lines = (("branch", 3), ("constant", RBX, A), ("jump", 4), ("constant", RBX, B), (SET, RBX))
    assert said(*lines, ("constant", RBX, B), now={RBX: B}) == [(4, None, True)]
    assert said(*lines, ("branch", 7), ("constant", RBX, B), now={RBX: B}) == [(4, None, True)]
    assert said(("computed", RBX), (SET, RBX), ("computed", RBX), now={RBX: B}) == [(1, None, True)]


def test_of_calls_on_several_ways_the_register_tells_which_one_it_was() -> None:
    lines = (("branch", 4), ("constant", RBX, A), (SET, RBX), ("jump", 6), ("constant", RBX, B), (SET, RBX))
    assert said(*lines, now={RBX: A}) == [(2, A, True)]
    assert said(*lines, now={RBX: B}) == [(5, B, True)]
    assert said(*lines, ("computed", RBX), now={RBX: B}) == [(2, A, False), (5, B, False)]
    # After a way back, the register may differ from its value at the first join.
    found = said(*lines, ("branch", 9), ("computed", RBX), ("jump", 6), now={RBX: B})
    assert found == [(2, A, False), (5, B, False)]


def test_a_call_on_one_way_only_is_not_certain() -> None:
    lines = (("constant", RBX, A), ("branch", 3), (SET, RBX))
    assert said(*lines, now={RBX: A}) == [(2, A, False)]
    other = (("branch", 4), ("constant", RBX, A), (SET, RBX), ("jump", 5), ("constant", RBX, B))
    assert all(not is_certain for _, _, is_certain in said(*other, now={RBX: A}))
