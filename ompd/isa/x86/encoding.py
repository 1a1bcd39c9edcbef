"""The encoding of x86-64 and 32-bit x86 instructions: prefixes, opcode, operands, constants.

Names follow the *Intel 64 and IA-32 Architectures Software Developer's Manual*, volume 2: chapter 2 has the forms,
appendix A the opcodes. Their effects are in :mod:`ompd.isa.x86.decoder` and :mod:`ompd.isa.x86.getters`.
"""

from __future__ import annotations

from ompd.isa.instructions import Operand
from ompd.isa.x86.registers import ENCODED_REGISTERS

MAX_SIZE = 15
SP, BP = 4, 5  # register numbers in instructions
OPERAND_SIZE, ADDRESS_SIZE, LOCK = 0x66, 0x67, 0xF0
REPEATS = (0xF2, 0xF3)
CS, SS, DS, ES, FS, GS = 0x2E, 0x36, 0x3E, 0x26, 0x64, 0x65
_PREFIXES = frozenset((OPERAND_SIZE, ADDRESS_SIZE, LOCK, *REPEATS, CS, SS, DS, ES, FS, GS))
# Escapes before the real opcode: 0F 38 and 0F 3A for maps 2 and 3, VEX of three and of two bytes, and EVEX. In 32-bit
# code the bytes of VEX and EVEX are escapes only if the next byte is impossible for LES, LDS and BOUND.
_ESCAPES = {0x0F38: 2, 0x0F3A: 3}
_VEX_3, _VEX_2, _EVEX = 0xC4, 0xC5, 0x62

_INVALID = frozenset(
    (
        *(0x06, 0x07, 0x0E, 0x16, 0x17, 0x1E, 0x1F, 0x27, 0x2F, 0x37, 0x3F, 0x60, 0x61, 0x82, 0x9A),
        *(0xCE, 0xD4, 0xD5, 0xD6, 0xEA),
    )
)
_INVALID_BEHIND_0F = frozenset(
    (0x04, 0x0A, 0x0C, 0x0F, 0x24, 0x25, 0x26, 0x27, 0x36, 0x39, *range(0x3B, 0x40), 0xA6, 0xA7)
)
HAS_MODRM = frozenset(
    (
        *(opcode for opcode in range(0x40) if opcode & 7 < 4),
        *(0x63, 0x69, 0x6B, *range(0x80, 0x90), 0xC0, 0xC1, 0xC6, 0xC7, *range(0xD0, 0xD4), *range(0xD8, 0xE0)),
        *(0xF6, 0xF7, 0xFE, 0xFF),
    )
)
# Opcodes after 0F that have no ModRM. All others have it.
BARE_BEHIND_0F = frozenset(
    (
        *(*range(0x05, 0x0A), 0x0B, 0x0E, *range(0x30, 0x38), 0x77, *range(0x80, 0x90), 0xA0, 0xA1, 0xA2),
        *(0xA8, 0xA9, 0xAA, *range(0xC8, 0xD0)),
    )
)
# Opcodes with a constant or a distance of one byte, then those with one of the operand's size, at most four bytes.
_CONSTANT_1 = frozenset(
    (
        *(opcode for opcode in range(0x40) if opcode & 7 == 4),
        *(0x6A, 0x6B, *range(0x70, 0x80), 0x80, 0x83, 0xA8, *range(0xB0, 0xB8), 0xC0, 0xC1, 0xC6, 0xCD),
        *(*range(0xE0, 0xE8), 0xEB),
    )
)
_CONSTANT_4 = frozenset(
    (*(opcode for opcode in range(0x40) if opcode & 7 == 5), 0x68, 0x69, 0x81, 0xA9, *range(0xB8, 0xC0), 0xC7)
)
_CONSTANT_1_BEHIND_0F = frozenset((0x70, 0x71, 0x72, 0x73, 0xA4, 0xAC, 0xBA, 0xC2, 0xC4, 0xC5, 0xC6))
_OTHER_CONSTANTS = {0xC2: 2, 0xCA: 2, 0xC8: 3, 0xE8: 4, 0xE9: 4}


class Incomplete(Exception):
    """Raised if the code ends before the instruction does, or if the instruction is longer than any can be."""


class Invalid(Exception):
    """Raised if no instruction has the opcode."""


class Encoded:
    """The fields of one instruction. :meth:`read_opcode` reads the first part, :meth:`read_operands` the rest.

    ``opcode`` is 0x0Fxx after a byte 0F, else one byte of the opcode map ``number``: 0; 1 after 0F; 2 and 3 after 0F 38
    and 0F 3A; and other maps of VEX and EVEX. ``prefixes`` are the prefixes before REX. ``repeat`` is F2 or F3, even if
    VEX or EVEX encodes it, else 0. ``reg`` and ``rm`` are the fields of ModRM. ``vector`` is the additional register of
    VEX and EVEX, None without these. ``mode`` is 3 if ``rm`` is a register, or if there is no ModRM. Otherwise the
    operand is in memory, at ``base`` + ``index`` << ``scale`` + ``displacement``. Registers that the operand does not
    have are None. With ``is_relative`` the displacement counts from the instruction's end. ``operand_end`` is the
    address after ModRM and the bytes that belong to it. ``constant`` is a signed constant or distance.
    """

    __slots__ = (
        *("_at", "_code", "_is_64", "_start", "address", "base", "constant", "displacement", "index", "is_based"),
        *("is_evex", "is_narrow", "is_relative", "is_wide", "mode", "number", "opcode", "operand_end", "prefixes"),
        *("reg", "repeat", "rex", "rm", "scale", "vector"),
    )

    base: int | None
    index: int | None

    def __init__(self, code: bytes, at: int, address: int, *, is_64: bool = True) -> None:
        self._code, self._at, self._start, self._is_64, self.address = code, at, at, is_64, address
        self.rex = self.reg = self.rm = self.number = self.repeat = self.constant = self.operand_end = 0
        self.vector: int | None = None
        self.mode = 3
        self.is_wide = self.is_narrow = self.is_based = self.is_evex = False

    @property
    def size(self) -> int:
        """The number of bytes read so far."""
        return self._at - self._start

    @property
    def end(self) -> int:
        """The address after the bytes read so far."""
        return self.address + self._at - self._start

    @property
    def width(self) -> int:
        """The size of the operands in bytes, unless the opcode implies another size."""
        return 8 if self.is_wide else 2 if self.is_narrow else 4

    def operand(self) -> Operand | None:
        """Return the operand in memory, None if there is none."""
        if self.mode == 3:
            return None
        displacement = self.displacement + self.end if self.is_relative else self.displacement
        base = ENCODED_REGISTERS[self.base] if self.base is not None else None
        if self.index is None:
            return Operand(base, self.is_based, displacement)
        return Operand(base, True, displacement, ENCODED_REGISTERS[self.index])

    def read_opcode(self) -> None:
        """Read prefixes and opcode.

        :raises Incomplete: if the code ends before the opcode does
        """
        code, at = self._code, self._at
        try:
            opcode = code[at]
            while opcode in _PREFIXES:
                if opcode == OPERAND_SIZE:
                    self.is_narrow = True
                elif opcode in REPEATS:
                    self.repeat = opcode
                elif opcode in (FS, GS):
                    self.is_based = True
                at += 1
                opcode = code[at]
            self.prefixes = code[self._at : at]
            if self._is_64 and 0x40 <= opcode < 0x50:
                self.rex, self.is_wide = opcode, bool(opcode & 8)
                at += 1
                opcode = code[at]
            if opcode == 0x0F:
                at += 1
                opcode, self.number = 0x0F00 | code[at], 1
        except IndexError:
            raise Incomplete from None
        self.opcode, self._at = opcode, at + 1

    def read_operands(self) -> None:
        """Read everything after the opcode. After escapes such as VEX, EVEX or 0F 38, also read the opcode itself.

        :raises Incomplete: if the code ends before the instruction does
        :raises Invalid: if there is no such opcode
        """
        opcode = self.opcode
        if opcode > 0xFF:
            self._read_behind_0f(opcode & 0xFF)
        elif opcode in (_VEX_2, _VEX_3, _EVEX):
            self._read_vector(opcode)
        elif opcode in _INVALID:
            raise Invalid
        else:
            if opcode in HAS_MODRM:
                self._read_modrm()
            self.operand_end = self.end
            self._read_constant(opcode)
        if self.size > MAX_SIZE:
            raise Incomplete

    def _read_constant(self, opcode: int) -> None:
        if opcode in _CONSTANT_1 or (opcode == 0xF6 and self.reg & 7 < 2):
            self.constant = self._signed(1)
        elif 0xB8 <= opcode < 0xC0 and self.is_wide:
            self.constant = self._signed(8)
        elif opcode in _CONSTANT_4 or (opcode == 0xF7 and self.reg & 7 < 2):
            self.constant = self._signed(min(self.width, 4))
        elif 0xA0 <= opcode < 0xA4:
            self.constant = self._signed(8 if self._is_64 else 4)
        elif opcode in _OTHER_CONSTANTS:
            self.constant = self._signed(_OTHER_CONSTANTS[opcode])

    def _read_behind_0f(self, opcode: int) -> None:
        if self.opcode in _ESCAPES:
            self.number = _ESCAPES[self.opcode]
            self.opcode = self._byte()
            self._read_rest_of_map()
            return
        if opcode in _INVALID_BEHIND_0F:
            raise Invalid
        if opcode not in BARE_BEHIND_0F:
            self._read_modrm()
        self.operand_end = self.end
        if opcode in _CONSTANT_1_BEHIND_0F:
            self.constant = self._signed(1)
        elif 0x80 <= opcode < 0x90:
            self.constant = self._signed(4)

    def _read_vector(self, prefix: int) -> None:
        # VEX has two or three bytes, EVEX four. They encode the bits of REX and the bytes before the opcode, most bits
        # inverted.
        first = self._byte()
        if prefix == _VEX_2:
            self.number, self.rex, last = 1, (~first >> 5) & 4, first
        else:
            self.number, self.rex = first & (0x1F if prefix == _VEX_3 else 7), (~first >> 5) & 7
            last = self._byte()
            self.is_wide = bool(last & 0x80)
            if prefix == _EVEX:
                self.is_evex = True
                self._byte()
        self.repeat = {2: 0xF3, 3: 0xF2}.get(last & 3, 0)
        self.vector = ~last >> 3 & 15
        if self.number not in (1, 2, 3, 5, 6):
            raise Invalid
        self.opcode = self._byte()
        self._read_rest_of_map()

    def _read_rest_of_map(self) -> None:
        if not (self.number == 1 and self.opcode == 0x77):
            self._read_modrm()
        self.operand_end = self.end
        if self.number == 3 or (self.number == 1 and self.opcode in _CONSTANT_1_BEHIND_0F):
            self.constant = self._signed(1)

    def _read_modrm(self) -> None:
        form = self._byte()
        mode, low = form >> 6, form & 7
        self.mode = mode
        self.reg = form >> 3 & 7 | (self.rex & 4) << 1
        self.rm = low | (self.rex & 1) << 3
        if mode == 3:
            return
        self.base, self.index, self.scale, self.is_relative = self.rm, None, 0, False
        is_scaled = low == SP
        if is_scaled:
            form = self._byte()
            low = form & 7
            self.base = low | (self.rex & 1) << 3
            index = form >> 3 & 7 | (self.rex & 2) << 2
            if index != SP:
                self.index, self.scale = index, form >> 6
        if low == BP and mode == 0:  # no base register: a distance from the instruction's end, or an address
            self.base, self.is_relative = None, self._is_64 and not is_scaled
            self.displacement = self._signed(4)
        else:
            self.displacement = self._signed((0, 1, 4)[mode])

    def _byte(self) -> int:
        at = self._at
        if at >= len(self._code):
            raise Incomplete
        self._at = at + 1
        return self._code[at]

    def _signed(self, size: int) -> int:
        end = self._at + size
        if end > len(self._code):
            raise Incomplete
        value = int.from_bytes(self._code[self._at : end], "little", signed=True)
        self._at = end
        return value
