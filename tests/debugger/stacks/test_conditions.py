"""Reads of instructions, by their bytes; and the values that decide a branch, traced back from its comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from ompd.debugger.flow.conditions import Condition, Slice
from ompd.isa.instructions import FLAGS, Instruction
from ompd.isa.x86.decoder import X86_64, decode

RAX, RDX, RCX, RBX, RSI, RDI, RBP = range(7)
XMM0, XMM1 = 17, 18
BASE = 0x1000
CFA = 0x8000  # where rbp points


# The text as GNU as writes it, the code, the registers read besides operands, and the registers written.
@pytest.mark.parametrize(
    ("code", "reads", "clobbers"),
    [
        pytest.param("01d8", {RAX, RBX}, {RAX}, id="add %ebx,%eax"),
        pytest.param("11d8", {RAX, RBX, FLAGS}, {RAX}, id="adc %ebx,%eax"),
        pytest.param("83e001", {RAX}, {RAX}, id="and $1,%eax"),
        pytest.param("31c0", set(), set(), id="xor %eax,%eax"),
        pytest.param("4863df", {RDI}, {RBX}, id="movslq %edi,%rbx"),
        pytest.param("4898", {RAX}, {RAX}, id="cltq"),
        pytest.param("0fafc3", {RAX, RBX}, {RAX}, id="imul %ebx,%eax"),
        pytest.param("6bc307", {RBX}, {RAX}, id="imul $7,%ebx,%eax"),
        pytest.param("0f9cc0", {FLAGS}, {RAX}, id="setl %al"),
        pytest.param("0f44c3", {RAX, RBX, FLAGS}, {RAX}, id="cmove %ebx,%eax"),
        pytest.param("f20f1045f8", set(), {XMM0}, id="movsd -8(%rbp),%xmm0"),
        pytest.param("660f2ec1", {XMM0, XMM1}, set(), id="ucomisd %xmm1,%xmm0"),
        pytest.param("f20f2ac7", {RDI}, {XMM0}, id="cvtsi2sd %edi,%xmm0"),
        pytest.param("f20f2cc1", {XMM1}, {RAX}, id="cvttsd2si %xmm1,%eax"),
        pytest.param("c5f92ec1", {XMM0, XMM1}, set(), id="vucomisd %xmm1,%xmm0"),
        pytest.param("c5f358c1", {XMM0, XMM1}, set(), id="vaddsd %xmm1,%xmm1,%xmm0"),
    ],
)
def test_what_an_instruction_reads(code: str, reads: set[int], clobbers: set[int]) -> None:
    found = decode(bytes.fromhex(code) + bytes(16), 0, 0)
    assert found is not None and found.size == len(code) // 2
    assert reads == set(found.reads)
    assert clobbers <= set(found.clobbers)


def test_an_index_is_read() -> None:
    found = decode(bytes.fromhex("8b04b3") + bytes(16), 0, 0)  # mov (%rbx,%rsi,4),%eax
    assert found is not None and found.operand is not None
    assert (found.operand.base, found.operand.also, found.operand.is_indexed) == (RBX, RSI, True)


def block(start: int, *codes: str) -> list[Instruction]:
    found = []
    for code in codes:
        instruction = decode(bytes.fromhex(code) + bytes(16), 0, start)
        assert instruction is not None
        found.append(instruction)
        start = instruction.end
    return found


def slice_of(
    blocks: Mapping[int, Sequence[Instruction]],
    address_of: Callable[[int], int | None],
    *,
    parameters: int | None = None,
    is_wanted: bool = True,
    before: int = 0,
) -> Slice:
    """Return the slice of a function by its blocks. Each called function has so many *parameters*."""
    operands: Any = SimpleNamespace(address_of=address_of)
    targets: Any = SimpleNamespace(target=lambda call: call.target)
    statement: Any = SimpleNamespace(
        contains=lambda address: is_wanted,
        follows=lambda address: address < before,
        parameters=lambda function: parameters,
    )
    return Slice(blocks, X86_64, operands, targets, statement)


def condition(
    *blocks: Sequence[Instruction], parameters: int | None = None, is_wanted: bool = True, before: int = 0
) -> tuple[Condition, set[int], set[int]]:
    """Return the condition of the last block's branch, with all addresses and registers that it depends on.

    Each block is followed by the next one, and the operands are in the frame. Code before *before* belongs to earlier
    statements.
    """
    by_leader = {some[0].address: some for some in blocks}
    leaders = list(by_leader)
    sources = {leader: leaders[number : number + 1] for number, leader in enumerate(leaders[1:])}
    instructions = {found.address: found for some in blocks for found in some}

    def address_of(at: int) -> int | None:
        operand = instructions[at].operand
        return CFA + operand.displacement if operand is not None and operand.base == RBP else None

    part = slice_of(by_leader, address_of, parameters=parameters, is_wanted=is_wanted, before=before)
    found = part.condition(leaders[-1], sources)
    addresses = {address for read in found.reads for address in read.addresses}
    return found, addresses, {register for read in found.reads for register in read.registers}


TEST, JE, CALL = "85c0", "7410", "e800000000"  # test %eax,%eax


def test_a_value_is_followed_through_registers_and_memory() -> None:
    # mov -8(%rbp),%ebx; mov -12(%rbp),%ecx; add %ecx,%ebx; mov %ebx,-16(%rbp); mov -20(%rbp),%edx; mov -16(%rbp),%eax
    code = block(BASE, "8b5df8", "8b4df4", "01cb", "895df0", "8b55ec", "8b45f0", TEST, JE)
    found, addresses, registers = condition(code)
    assert addresses == {CFA - 8, CFA - 12, CFA - 16}  # and not CFA - 20
    assert RDX not in registers and found.calls == ()


def test_a_call_takes_the_arguments_that_were_set_for_it() -> None:
    # mov -8(%rbp),%edi; mov -12(%rbp),%esi; call; mov -16(%rbp),%edi; call
    code = block(BASE, "8b7df8", CALL, "8b7df0", CALL, TEST, JE)
    found, addresses, _ = condition(code)
    assert addresses == {CFA - 16} and found.calls == (code[3].target,)
    # A function that is known to have no parameters takes no arguments.
    assert condition(code, parameters=0)[1] == set()
    # The second of two parameters has been in its register from the beginning.
    assert {RDI, RSI} <= condition(code[2:], parameters=2)[2]
    # A call in another statement is ignored.
    found, addresses, _ = condition(code, before=code[-2].address)
    assert addresses == set() and found.calls == ()
    # A register that the call has overwritten does not have its earlier value.
    found, addresses, _ = condition(block(BASE, "8b5df8", "8b4df4", CALL, "39cb", JE))  # cmp %ecx,%ebx
    assert addresses == {CFA - 8} and found.calls == ()


def test_blocks_of_the_same_statement_belong_to_it() -> None:
    # cmpl $0,-8(%rbp); je; cmpl $0,-12(%rbp); je
    first = block(BASE, "837df800", JE)
    second = block(first[-1].end, "837df400", JE)
    assert condition(first, second)[1] == {CFA - 8, CFA - 12}
    assert condition(first, second, is_wanted=False)[1] == {CFA - 12}


def test_numbers_with_fractions_are_followed() -> None:
    # movsd -8(%rbp),%xmm0; movsd -16(%rbp),%xmm1; ucomisd %xmm1,%xmm0
    code = block(BASE, "f20f1045f8", "f20f104df0", "660f2ec1", JE)
    assert condition(code)[1] == {CFA - 8, CFA - 16}
    # movsd %xmm0,-8(%rbp); call; movsd -8(%rbp),%xmm0: kept over the call, not returned by it
    found, addresses, registers = condition(block(BASE, "f20f1145f8", CALL, "f20f1045f8", "660f2ec1", JE))
    assert found.calls == ()
    assert addresses == {CFA - 8} and XMM0 in registers


def test_what_is_computed_with_a_number_in_memory_depends_on_that() -> None:
    # movsd -8(%rbp),%xmm0; addsd -16(%rbp),%xmm0; ucomisd -24(%rbp),%xmm0
    code = block(BASE, "f20f1045f8", "f20f5845f0", "660f2e45e8", JE)
    assert condition(code)[1] == {CFA - 8, CFA - 16, CFA - 24}


def test_the_pointer_behind_which_a_number_is_depends_on_its_variable_though_it_is_known() -> None:
    # mov -8(%rbp),%rax; mov (%rax),%eax
    code = block(BASE, "488b45f8", "8b00", TEST, JE)
    places = {code[0].address: CFA - 8, code[1].address: 0x5000}
    found = slice_of({BASE: code}, places.get).condition(BASE, {})
    assert {address for read in found.reads for address in read.addresses} == {CFA - 8, 0x5000}
    assert RBP not in {register for read in found.reads for register in read.registers}
