"""Instructions that write memory. A load into a vector register writes none."""

from __future__ import annotations

import pytest

from ompd.isa.x86.decoder import decode

RBP = 6

# The code, the text as GNU as writes it, and whether the instruction writes memory.
INSTRUCTIONS = [
    ("f20f1045f8", "movsd -0x8(%rbp),%xmm0", False),
    ("f20f1145f8", "movsd %xmm0,-0x8(%rbp)", True),
    ("0f284df0", "movaps -0x10(%rbp),%xmm1", False),
    ("0f294df0", "movaps %xmm1,-0x10(%rbp)", True),
    ("f30f7e4df8", "movq -0x8(%rbp),%xmm1", False),
    ("660fd64df8", "movq %xmm1,-0x8(%rbp)", True),
    ("c5fa7e4df8", "vmovq -0x8(%rbp),%xmm1", False),
    ("c5f9d64df8", "vmovq %xmm1,-0x8(%rbp)", True),
    ("660f7e4df8", "movd %xmm1,-0x8(%rbp)", True),
    ("660f6e4df8", "movd -0x8(%rbp),%xmm1", False),
    ("f20f5845f8", "addsd -0x8(%rbp),%xmm0", False),
    ("660f2e45f8", "ucomisd -0x8(%rbp),%xmm0", False),
    ("f20f2a45f8", "cvtsi2sdl -0x8(%rbp),%xmm0", False),
    ("f20f2c45f8", "cvttsd2si -0x8(%rbp),%eax", False),
    ("660fef45f0", "pxor -0x10(%rbp),%xmm0", False),
    ("c5fd584de0", "vaddpd -0x20(%rbp),%ymm0,%ymm1", False),
    ("c5fd294de0", "vmovapd %ymm1,-0x20(%rbp)", True),
    ("c5fd284de0", "vmovapd -0x20(%rbp),%ymm1", False),
    ("c4e37d394de001", "vextracti128 $0x1,%ymm1,-0x20(%rbp)", True),
    ("c4e3753855e001", "vinserti128 $0x1,-0x20(%rbp),%ymm1,%ymm2", False),
    ("62f1fe486f4dff", "vmovdqu64 -0x40(%rbp),%zmm1", False),
    ("62f1fe487f4dff", "vmovdqu64 %zmm1,-0x40(%rbp)", True),
    ("62f27e48324dff", "vpmovqb %zmm1,-0x8(%rbp)", True),
    ("c4e27d324df8", "vpmovzxbq -0x8(%rbp),%ymm1", False),
    ("660f38304df8", "pmovzxbw -0x8(%rbp),%xmm1", False),
    ("dd45f8", "fldl -0x8(%rbp)", False),
    ("dd5df8", "fstpl -0x8(%rbp)", True),
    ("db6df0", "fldt -0x10(%rbp)", False),
    ("db7df0", "fstpt -0x10(%rbp)", True),
    ("d96dfe", "fldcw -0x2(%rbp)", False),
    ("d97dfe", "fnstcw -0x2(%rbp)", True),
    ("0faf45f8", "imul -0x8(%rbp),%eax", False),
    ("0f4d45f8", "cmovge -0x8(%rbp),%eax", False),
    ("0fa345f8", "bt %eax,-0x8(%rbp)", False),
    ("0fab45f8", "bts %eax,-0x8(%rbp)", True),
    ("0f9f45ff", "setg -0x1(%rbp)", True),
    ("f00fc145f8", "lock xadd %eax,-0x8(%rbp)", True),
    ("f00fb14df8", "lock cmpxchg %ecx,-0x8(%rbp)", True),
    ("0fc345f8", "movnti %eax,-0x8(%rbp)", True),
    ("660fe745f0", "movntdq %xmm0,-0x10(%rbp)", True),
    ("660f3a1645f801", "pextrd $0x1,%xmm0,-0x8(%rbp)", True),
    ("660f3a2245f801", "pinsrd $0x1,-0x8(%rbp),%xmm0", False),
    ("0f38f045f8", "movbe -0x8(%rbp),%eax", False),
    ("0f38f145f8", "movbe %eax,-0x8(%rbp)", True),
    ("f30fb845f8", "popcnt -0x8(%rbp),%eax", False),
    ("660ff7c8", "maskmovdqu %xmm0,%xmm1", True),
    ("c4e2752e45e0", "vmaskmovps %ymm0,%ymm1,-0x20(%rbp)", True),
    ("c4e27d2c4de0", "vmaskmovps -0x20(%rbp),%ymm0,%ymm1", False),
    ("0fae8500feffff", "fxsave -0x200(%rbp)", True),
    ("0f1645f8", "movhps -0x8(%rbp),%xmm0", False),
    ("0f1745f8", "movhps %xmm0,-0x8(%rbp)", True),
    ("c4e37d1d45f000", "vcvtps2ph $0x0,%ymm0,-0x10(%rbp)", True),
]


@pytest.mark.parametrize(("code", "text", "is_store"), INSTRUCTIONS, ids=[text for _, text, _ in INSTRUCTIONS])
def test_whether_an_instruction_writes_memory(code: str, text: str, is_store: bool) -> None:
    found = decode(bytes.fromhex(code) + bytes(16), 0, 0)
    assert found is not None and found.size == len(code) // 2
    assert found.stores == is_store
    if "(%rbp)" not in text:
        assert found.operand is None  # the address is in rdi
    elif not text.startswith(("vmovdqu64", "vpmovqb")):
        assert found.operand == (RBP, False, int(text.split("(")[0].replace(",", " ").split()[-1], 16), None)


@pytest.mark.parametrize("code", ["62f1fe486f4dff", "62f27e48324dff"])
def test_a_distance_that_counts_elements_is_not_one_in_bytes(code: str) -> None:
    found = decode(bytes.fromhex(code) + bytes(16), 0, 0)
    assert found is not None and found.operand is not None and found.operand.is_indexed


def test_of_two_sizes_of_operands_that_of_64_bits_holds() -> None:
    found = decode(bytes.fromhex("66 48 81 f8 78 56 34 12") + bytes(16), 0, 0)  # cmp $0x12345678, %rax
    assert found is not None and (found.size, found.value, found.width) == (8, 0x12345678, 8)
