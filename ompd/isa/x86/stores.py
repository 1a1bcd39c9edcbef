"""Which instructions of x86-64 write memory, of those of vectors, of the floating-point unit, and behind 0F.

All others that have a place in memory read it, or do nothing with it: a load does not change what is known of memory.
Maps have the numbers of VEX and EVEX: 1 is behind 0F, 2 behind 0F 38, 3 behind 0F 3A. Where a field besides the opcode
decides, it counts as a store.
"""

from __future__ import annotations

_BEHIND_0F = frozenset(
    (
        *(0x00, 0x01, 0x11, 0x13, 0x17, 0x29, 0x2B, 0x78, 0x7E, 0x7F, *range(0x90, 0xA0), 0xA4, 0xA5, 0xAB, 0xAC),
        *(0xAD, 0xAE, 0xB0, 0xB1, 0xB3, 0xBA, 0xBB, 0xC0, 0xC1, 0xC3, 0xC7, 0xD6, 0xE7),
    )
)
_STORES = {
    1: _BEHIND_0F,
    2: frozenset(
        (
            *(0x2E, 0x2F, 0x49, 0x4B, 0x63, 0x8A, 0x8B, 0x8E, *range(0xA0, 0xA4), *range(0xE0, 0xF0)),
            *(0xF1, 0xF5, 0xF6, 0xF9, 0xFC),
        )
    ),
    3: frozenset((0x14, 0x15, 0x16, 0x17, 0x19, 0x1B, 0x1D, 0x39, 0x3B)),
    5: _BEHIND_0F,
    6: _BEHIND_0F,
}
# vpmovqb and the like, which make elements narrower: EVEX.F3.0F38
_NARROWED = frozenset((*range(0x10, 0x16), *range(0x20, 0x26), *range(0x30, 0x36)))

ELSEWHERE = frozenset(((1, 0xF7), (2, 0xF8)))
"""Map and opcode of those that write where a register says which is not their operand: maskmovdqu and movdir64b."""

STORES_OF_FPU = {0xD9: (2, 3, 6, 7), 0xDB: (1, 2, 3, 7), 0xDD: (1, 2, 3, 6, 7), 0xDF: (1, 2, 3, 6, 7)}
"""Of the opcodes D8 to DF, the values of the field reg with which they write memory."""

SIZEOF_FPU = 108  # fnsave
SIZEOF_STATE = 1 << 12  # fxsave and xsave, at most


def is_store(number: int, opcode: int, repeat: int, *, is_evex: bool) -> bool:
    """Return whether an instruction writes its operand, if that is in memory.

    :param number: that of its map
    :param repeat: F3 or F2 if that byte, or the bits that stand for it, come before the opcode, else 0
    """
    if (number, opcode, repeat) == (1, 0x7E, 0xF3):
        return False  # movq to a vector; the others of its number are from one
    if is_evex and number == 2 and repeat == 0xF3 and opcode in _NARROWED:
        return True
    return opcode in _STORES.get(number, ())
