"""The instructions of x86-64: how long each is, where it leads, and what it does to general registers and memory, as
far as following a lock's address through a function takes that.

Opcodes are those of the *Intel 64 and IA-32 Architectures Software Developer's Manual*, volume 2, appendix A. What an
instruction does that is not listed here in detail is overstated: all registers that it may write count as unknown.
"""

from __future__ import annotations

from ompd.isa.instructions import FLAGS, Instruction, Operand, Processor, SignalActions
from ompd.isa.x86.stores import ELSEWHERE, SIZEOF_FPU, SIZEOF_STATE, STORES_OF_FPU, is_store

# Unwind tables number registers in another order than instructions do (System V psABI for AMD64, figure 3.36).
_NUMBERS = (0, 2, 1, 3, 7, 6, 4, 5, *range(8, 16))
_RAX, _RDX, _RCX, _RBX, _RSI, _RDI, _RBP, _RSP = range(8)
_VECTOR = 17
_SP, _BP = 4, 5  # as instructions have them
_PREFIXES = frozenset((0x66, 0x67, 0xF0, 0xF2, 0xF3, 0x2E, 0x36, 0x3E, 0x26, 0x64, 0x65))
_INVALID = frozenset(
    (
        *(0x06, 0x07, 0x0E, 0x16, 0x17, 0x1E, 0x1F, 0x27, 0x2F, 0x37, 0x3F, 0x60, 0x61, 0x82, 0x9A),
        *(0xCE, 0xD4, 0xD5, 0xD6, 0xEA),
    )
)
_MODRM = frozenset(
    (
        *(opcode for opcode in range(0x40) if opcode & 7 < 4),
        *(0x63, 0x69, 0x6B, *range(0x80, 0x90), 0xC0, 0xC1, 0xC6, 0xC7, *range(0xD0, 0xD4), *range(0xD8, 0xE0)),
        *(0xF6, 0xF7, 0xFE, 0xFF),
    )
)
_IMMEDIATE_1 = frozenset(
    (
        *(opcode for opcode in range(0x40) if opcode & 7 == 4),
        *(0x6A, 0x6B, 0x80, 0x83, 0xA8, *range(0xB0, 0xB8), 0xC0, 0xC1, 0xC6, 0xCD, 0xE4, 0xE5, 0xE6, 0xE7),
    )
)
_IMMEDIATE_4 = frozenset(
    (*(opcode for opcode in range(0x40) if opcode & 7 == 5), 0x68, 0x69, 0x81, 0xA9, *range(0xB8, 0xC0), 0xC7)
)
# Behind 0F: without ModRM; with an immediate byte behind it
_BARE = frozenset((*range(0x05, 0x0A), 0x0B, 0x0E, *range(0x30, 0x38), 0x77, *range(0x80, 0x90), 0xA0, 0xA1, 0xA2))
_BARE |= frozenset((0xA8, 0xA9, 0xAA, *range(0xC8, 0xD0)))
_BYTE_BEHIND = frozenset((0x70, 0x71, 0x72, 0x73, 0xA4, 0xAC, 0xBA, 0xC2, 0xC4, 0xC5, 0xC6))
# Behind 0F: those that write the general register of the field reg, and that of rm. All others write none, or vectors.
_WRITES_REG = frozenset(
    (
        *(0x02, 0x03, 0x2C, 0x2D, *range(0x40, 0x51), 0x78, 0x79, 0x93, 0xAF, 0xB2, 0xB4, 0xB5, 0xB6, 0xB7, 0xB8),
        *(0xBC, 0xBD, 0xBE, 0xBF, 0xC0, 0xC1, 0xC5, 0xD7),
    )
)
_WRITES_RM = frozenset(
    (
        *(0x00, 0x01, *range(0x20, 0x24), 0x7E, *range(0x90, 0xA0), 0xA4, 0xA5, 0xAB, 0xAC, 0xAD, 0xAE),
        *(0xB0, 0xB1, 0xB3, 0xBA, 0xBB, 0xC0, 0xC1, 0xC7),
    )
)
_ONLY_HINTS = frozenset((0x0D, *range(0x18, 0x20)))  # and those that do nothing
_MOVES = frozenset(
    (0x63, 0x88, 0x89, 0x8A, 0x8B, 0x8C, 0x8D, 0xC6, 0xC7, *range(0x50, 0x60), 0x68, 0x6A, *range(0xB0, 0xC0))
)
# Here the field reg is a part of the opcode.
_EXTENDED = frozenset(
    (0x80, 0x81, 0x83, 0x8F, 0xC0, 0xC1, *range(0xD0, 0xD4), *range(0xD8, 0xE0), 0xF6, 0xF7, 0xFE, 0xFF)
)
# Behind 0F: those of general registers, all others with two operands are of vectors. 2A, 6E, 2C, 2D and 7E are of both.
_GENERAL = frozenset(
    (*range(0x04), *range(0x18, 0x28), *range(0x40, 0x50), *range(0x80, 0xC2), 0xC3, 0xC7, *range(0xC8, 0xD0))
)
_LOADS = (0x10, 0x28, 0x6F, 0x7E)
_FROM_GENERAL, _TO_GENERAL = (0x2A, 0x6E), (0x2C, 0x2D, 0x50, 0x7E, 0xD7)
_MAX_SIZE = 15


class _Short(Exception):
    pass


class _Reader:
    # One instruction, read byte by byte.

    def __init__(self, code: bytes, at: int, address: int) -> None:
        self.code, self.at, self.start, self.address = code, at, at, address
        self.rex = self.reg = self.rm = 0
        self.mode = 3
        self.wide = self.narrow = self.is_based = self.is_evex = False
        self.repeat = 0
        self.operand: Operand | None = None
        self._relative: int | None = None

    def byte(self) -> int:
        at = self.at
        if at >= len(self.code) or at - self.start >= _MAX_SIZE:
            raise _Short
        self.at = at + 1
        return self.code[at]

    def signed(self, size: int) -> int:
        end = self.at + size
        if end > len(self.code):
            raise _Short
        value = int.from_bytes(self.code[self.at : end], "little", signed=True)
        self.at = end
        return value

    def modrm(self) -> None:
        form = self.byte()
        self.mode, low = form >> 6, form & 7
        self.reg = form >> 3 & 7 | (self.rex & 4) << 1
        self.rm = low | (self.rex & 1) << 3
        if self.mode == 3:
            return
        base = self.rm
        index, also = self.is_based, None
        if low == _SP:
            form = self.byte()
            base = form & 7 | (self.rex & 1) << 3
            number = form >> 3 & 7 | (self.rex & 2) << 2
            if number != _SP:
                index, also = True, _NUMBERS[number]
            low = form & 7
            if low == _BP and self.mode == 0:
                self.operand = Operand(None, index, self.signed(4), also)
                return
        elif low == _BP and self.mode == 0:
            self._relative = self.signed(4)
            self.operand = Operand(None, index, self._relative)
            return
        displacement = self.signed((0, 1, 4)[self.mode])
        self.operand = Operand(_NUMBERS[base], index, displacement, also)

    def placed(self) -> Operand | None:
        # The operand, after the whole instruction was read: a distance counts from its end.
        if self._relative is not None and self.operand is not None:
            return self.operand._replace(displacement=self.address + self.at - self.start + self._relative)
        return self.operand

    @property
    def width(self) -> int:
        return 8 if self.wide else 2 if self.narrow else 4


def decode(code: bytes, at: int, address: int) -> Instruction | None:
    """Return the instruction at index *at* of *code*, which is at *address*; None if there is none."""
    reader = _Reader(code, at, address)
    try:
        fields = _decode(reader)
    except _Short:
        return None
    return Instruction(address, reader.at - at, **fields) if fields is not None else None  # type: ignore[arg-type]


def _decode(r: _Reader) -> dict[str, object] | None:
    opcode = r.byte()
    while opcode in _PREFIXES:
        r.narrow |= opcode == 0x66
        r.is_based |= opcode in (0x64, 0x65)
        r.repeat = opcode if opcode in (0xF2, 0xF3) else r.repeat
        opcode = r.byte()
    if 0x40 <= opcode < 0x50:
        r.rex, opcode = opcode, r.byte()
        r.wide = bool(r.rex & 8)
    if opcode in (0xC4, 0xC5, 0x62):
        return _vector(r, opcode)
    if opcode == 0x0F:
        return _two_bytes(r, r.byte())
    if opcode in _INVALID:
        return None
    if opcode in _MODRM:
        r.modrm()
    immediate = 0
    if opcode in _IMMEDIATE_1 or (opcode == 0xF6 and r.reg & 7 < 2):
        immediate = r.signed(1)
    elif 0xB8 <= opcode < 0xC0 and r.wide:
        immediate = r.signed(8)
    elif opcode in _IMMEDIATE_4 or (opcode == 0xF7 and r.reg & 7 < 2):
        immediate = r.signed(2 if r.narrow else 4)
    elif 0xA0 <= opcode < 0xA4:
        r.signed(8)
    elif opcode == 0xC8:
        r.signed(3)
    elif opcode in (0xC2, 0xCA):
        r.signed(2)
    flow = _flow(r, opcode)
    if flow is not None:
        return flow
    fields = _moves(r, opcode, immediate) if opcode in _MOVES else _computes(r, opcode, immediate)
    fields["keeps_flags"] = opcode in _MOVES or opcode == 0x90
    if fields.get("does") != "constant" and (opcode not in _MOVES or opcode == 0x63):
        fields["reads"] = _reads(r, opcode)
    return fields


def _reads(r: _Reader, opcode: int) -> tuple[int, ...]:
    # Registers that are read by what computes, as far as the bytes name them, and by what extends a number.
    if opcode not in _MODRM:
        is_of_rax = opcode in (0x98, 0x99) or (opcode < 0x40 and opcode & 7 in (4, 5))
        return (_RAX,) if is_of_rax else ()
    found = (_NUMBERS[r.rm],) if r.mode == 3 else ()
    if opcode == 0x63 or opcode in _EXTENDED or opcode in (0x69, 0x6B):
        return found
    flags = (FLAGS,) if opcode < 0x40 and opcode >> 3 in (2, 3) else ()
    return (*found, _NUMBERS[r.reg], *flags)


def _flow(r: _Reader, opcode: int) -> dict[str, object] | None:
    # Where control goes, None for an instruction behind which the next one comes.
    def behind(distance: int) -> int:
        return r.address + r.at - r.start + distance & 0xFFFFFFFFFFFFFFFF

    if 0x70 <= opcode < 0x80:
        return {"flow": "branch", "target": behind(r.signed(1)), "on_zero": _on_zero(opcode), "keeps_flags": True}
    if 0xE0 <= opcode < 0xE4:
        return {"flow": "branch", "target": behind(r.signed(1)), "clobbers": (_RCX,)}
    if opcode in (0xE8, 0xE9, 0xEB):
        target = behind(r.signed(1 if opcode == 0xEB else 4))
        return {"flow": "call" if opcode == 0xE8 else "jump", "target": target, "keeps_flags": opcode != 0xE8}
    if opcode in (0xC2, 0xC3, 0xCA, 0xCB, 0xCF):
        return {"flow": "return"}
    if opcode in (0xF4, 0xCC):
        return {"flow": "stop"}
    if opcode == 0xFF and r.reg & 7 in (2, 3, 4, 5):
        operand = r.placed()
        known = operand is not None and operand.base is None and not operand.is_indexed and operand.displacement > 0
        word = operand.displacement if operand is not None and known else None
        if r.reg & 7 < 4:
            by = {"source": _NUMBERS[r.rm]} if r.mode == 3 else {"operand": operand}
            return {"flow": "call", "word": word, **(by if word is None else {})}
        return {"flow": "jump" if word is not None else "computed", "word": word}
    return None


def _on_zero(opcode: int) -> bool | None:
    return {4: True, 5: False}.get(opcode & 15)


def _clobbers(r: _Reader) -> dict[str, object]:
    if r.mode == 3:
        return {"clobbers": (_NUMBERS[r.rm],)}
    return {"stores": True, "operand": r.placed(), "width": 8}


def _compares(r: _Reader) -> dict[str, object]:
    # The field reg with the field rm.
    registers = (_NUMBERS[r.reg], _NUMBERS[r.rm]) if r.mode == 3 else (_NUMBERS[r.reg],)
    return {"compares": registers, "operand": r.placed()}


def _moves(r: _Reader, opcode: int, immediate: int) -> dict[str, object]:
    reg, rm = _NUMBERS[r.reg], _NUMBERS[r.rm]
    low = _NUMBERS[opcode & 7 | (r.rex & 1) << 3]
    if opcode in (0x88, 0x89):
        width = 1 if opcode == 0x88 else r.width
        if r.mode == 3:
            return {"does": "copy", "to": rm, "source": reg, "width": width}
        return {"does": "store", "source": reg, "operand": r.placed(), "width": width}
    if opcode in (0x8A, 0x8B):
        width = 1 if opcode == 0x8A else r.width
        if r.mode == 3:
            return {"does": "copy", "to": reg, "source": rm, "width": width}
        return {"does": "load", "to": reg, "operand": r.placed(), "width": width}
    if opcode == 0x63:
        return {"clobbers": (reg,), "operand": r.placed()}
    if opcode == 0x8D:
        if r.width != 8:
            return {"clobbers": (reg,), "operand": r.placed()}
        return {"does": "address", "to": reg, "operand": r.placed(), "width": 8}
    if opcode in (0xC6, 0xC7):
        width = 1 if opcode == 0xC6 else r.width
        if r.mode == 3:
            return {"does": "constant", "to": rm, "value": immediate, "width": width}
        return {"does": "store", "value": immediate, "operand": r.placed(), "width": width}
    if 0xB8 <= opcode < 0xC0:
        value = immediate if r.wide else immediate & (0xFFFF if r.narrow else 0xFFFFFFFF)
        return {"does": "constant", "to": low, "value": value, "width": r.width}
    if 0x50 <= opcode < 0x58:
        return {"does": "push", "source": low}
    if 0x58 <= opcode < 0x60:
        return {"does": "pop", "to": low}
    if opcode in (0x68, 0x6A):
        return {"does": "push"}
    if 0xB0 <= opcode < 0xB8:
        return {"clobbers": (low,)}
    return _clobbers(r)  # 8C, a segment's number


def _computes(r: _Reader, opcode: int, immediate: int) -> dict[str, object]:
    reg, rm, operation = _NUMBERS[r.reg], _NUMBERS[r.rm], r.reg & 7
    if opcode in (0x80, 0x81, 0x83):
        width = 1 if opcode == 0x80 else r.width
        if operation == 7:
            operand = {"source": rm} if r.mode == 3 else {"operand": r.placed()}
            return {"does": "compare", "value": immediate, "width": width, **operand}
        if r.mode == 3 and operation in (0, 5) and width == 8:
            return {"does": "add", "to": rm, "value": -immediate if operation == 5 else immediate}
        if r.mode == 3 and operation == 6 and immediate in (1, -1):
            return {"does": "flip", "to": rm, "value": immediate}
        return _clobbers(r)
    if opcode < 0x40:
        operation, form = opcode >> 3, opcode & 7
        if operation == 7:
            width = 1 if form == 4 else r.width
            if form >= 4:
                return {"does": "compare", "source": _RAX, "value": immediate, "width": width}
            return _compares(r)
        if operation == 6 and form in (1, 3) and r.mode == 3 and r.reg == r.rm:
            return {"does": "constant", "to": rm, "value": 0, "width": r.width}
        if form == 4 and operation == 6 and immediate in (1, -1):
            return {"does": "flip", "to": _RAX, "value": immediate}
        if form >= 4:
            return {"clobbers": (_RAX,)}
        return {"clobbers": (reg,), "operand": r.placed()} if form >= 2 else _clobbers(r)
    if opcode in (0x84, 0x85):
        if r.mode == 3 and r.reg == r.rm:
            return {"does": "compare", "source": rm, "width": 1 if opcode == 0x84 else r.width}
        return _compares(r)
    if opcode in (0xA8, 0xA9):
        return {"does": "bit", "source": _RAX} if immediate == 1 else {}
    if opcode in (0x69, 0x6B):
        return {"clobbers": (reg,)}
    if opcode in (0x86, 0x87):
        return {**_clobbers(r), "clobbers": (reg, rm) if r.mode == 3 else (reg,)}
    if 0x90 <= opcode < 0x98:
        low = _NUMBERS[opcode & 7 | (r.rex & 1) << 3]
        return {} if opcode == 0x90 and not r.rex & 1 else {"clobbers": (_RAX, low)}
    if opcode == 0xC9:
        return {"does": "leave"}
    if opcode == 0xC8:
        return {"clobbers": (_RSP, _RBP), "stores": True}
    if opcode in (0xF6, 0xF7):
        if operation < 2:
            return {"does": "bit", "source": rm} if immediate == 1 and r.mode == 3 else {}
        return _clobbers(r) if operation < 4 else {"clobbers": (_RAX, _RDX)}
    if opcode == 0xFF and operation == 6:
        return {"does": "push"}
    if opcode in (0xC0, 0xC1, 0xD0, 0xD1, 0xD2, 0xD3, 0xFE, 0xFF, 0x8F):
        found = _clobbers(r)
        return {**found, "clobbers": (*found.get("clobbers", ()), _RSP)} if opcode == 0x8F else found  # type: ignore[misc]
    if 0xD8 <= opcode < 0xE0:
        stores = r.reg & 7 in STORES_OF_FPU.get(opcode, ())
        return {"stores": stores and r.mode != 3, "operand": r.placed(), "width": SIZEOF_FPU, "clobbers": (_RAX,)}
    if opcode in (0x9C, 0x9D):
        return {"does": "push"} if opcode == 0x9C else {"does": "pop"}
    if opcode in (0xA4, 0xA5):  # movs
        return {"clobbers": (_RCX, _RSI, _RDI), "stores": True}
    if opcode in (0xAA, 0xAB):  # stos
        return {"clobbers": (_RCX, _RDI), "stores": True}
    # Other strings, system calls, flags, sign extension
    return {
        "clobbers": (_RAX, _RDX, _RCX, _RSI, _RDI),
        "stores": opcode in (0x6C, 0x6D, 0xA2, 0xA3),
    }


def _two_bytes(r: _Reader, opcode: int) -> dict[str, object] | None:
    if opcode in (0x38, 0x3A):
        return _vector_map(r, 2 if opcode == 0x38 else 3, r.byte(), ())
    if 0x80 <= opcode < 0x90:
        target = r.signed(4) + r.address + r.at - r.start & 0xFFFFFFFFFFFFFFFF
        return {"flow": "branch", "target": target, "on_zero": _on_zero(opcode), "keeps_flags": True}
    if opcode == 0x0B:
        return {"flow": "stop"}
    if opcode in (0x04, 0x0A, 0x0C, 0x0F, 0x24, 0x25, 0x26, 0x27, 0x36, 0x39, *range(0x3B, 0x40), 0xA6, 0xA7):
        return None
    if opcode not in _BARE:
        r.modrm()
    if opcode in _BYTE_BEHIND:
        r.signed(1)
    reg, rm = _NUMBERS[r.reg], _NUMBERS[r.rm]
    if opcode in (0xB6, 0xB7, 0xBE, 0xBF):
        width = 1 if not opcode & 1 else 2
        if r.mode == 3:
            return {"does": "copy", "to": reg, "source": rm, "width": width, "keeps_flags": True}
        return {"does": "load", "to": reg, "operand": r.placed(), "width": width, "keeps_flags": True}
    if opcode in (0x94, 0x95) and r.mode == 3:
        return {"does": "set", "to": rm, "value": int(opcode == 0x94), "keeps_flags": True}
    if 0xC8 <= opcode < 0xD0:
        swapped = _NUMBERS[opcode & 7 | (r.rex & 1) << 3]
        return {"clobbers": (swapped,), "reads": (swapped,)}
    if opcode in _ONLY_HINTS:
        return {"keeps_flags": True, "clobbers": (rm,) if opcode == 0x1E and r.mode == 3 and r.reg & 7 == 1 else ()}
    if opcode in _BARE:
        clobbers = (_RAX, _RBX, _RCX, _RDX) if opcode == 0xA2 else (_RAX, _RCX, _RDX, 11)
        return {"clobbers": clobbers if opcode != 0x77 else (), "stores": opcode == 0x05}
    return {
        "clobbers": _written(r, opcode),
        **_memory(r, 1, opcode, 16),
        "keeps_flags": 0x40 <= opcode < 0x50 or 0x90 <= opcode < 0xA0 or opcode not in (*_GENERAL, 0x2E, 0x2F),
        "reads": _reads_of_two(r, opcode),
    }


def _memory(r: _Reader, number: int, opcode: int, width: int) -> dict[str, object]:
    # What an instruction of the map with this number does with memory.
    if (number, opcode) in ELSEWHERE:
        return {"stores": True, "width": width}  # where another register says
    stores, operand = r.mode != 3 and is_store(number, opcode, r.repeat, is_evex=r.is_evex), r.placed()
    if r.is_evex and r.mode == 1 and operand is not None:
        operand = operand._replace(is_indexed=True)  # its distance counts elements, whose size other fields say
    return {"stores": stores, "operand": operand, "width": SIZEOF_STATE if (number, opcode) == (1, 0xAE) else width}


def _reads_of_two(r: _Reader, opcode: int) -> tuple[int, ...]:
    if 0x90 <= opcode < 0xA0:
        return (FLAGS,)
    rm = (r.rm,) if r.mode == 3 else ()
    if opcode in _GENERAL:
        named = tuple(_NUMBERS[number] for number in rm)
        if opcode in (0xB8, 0xBC, 0xBD, 0xBA):
            return named
        return (*named, _NUMBERS[r.reg], *((FLAGS,) if 0x40 <= opcode < 0x50 else ()))
    if opcode in _FROM_GENERAL:
        return tuple(_NUMBERS[number] for number in rm)
    if opcode in _LOADS and (opcode != 0x7E or r.repeat == 0xF3):
        return tuple(_VECTOR + number for number in rm)
    if opcode == 0x7E and r.repeat != 0xF3:
        return (_VECTOR + r.reg,)
    if opcode in _TO_GENERAL and opcode != 0x7E:
        return tuple(_VECTOR + number for number in rm)
    return (_VECTOR + r.reg, *(_VECTOR + number for number in rm))


def _written(r: _Reader, opcode: int) -> tuple[int, ...]:
    found: tuple[int, ...] = (_NUMBERS[r.reg],) if opcode in _WRITES_REG else ()
    if opcode in _WRITES_RM and r.mode == 3:
        found += (_NUMBERS[r.rm],)
    if opcode in (0xB0, 0xB1, 0xC7, 0x01):
        found += (_RAX, _RDX, _RCX)
    if opcode in _FROM_GENERAL or (opcode in _LOADS and (opcode != 0x7E or r.repeat == 0xF3)):
        found += (_VECTOR + r.reg,)
    return found


def _vector(r: _Reader, opcode: int) -> dict[str, object] | None:
    # VEX in two or three bytes, EVEX in four: they stand for the bits of REX and the bytes before the opcode.
    first = r.byte()
    if opcode == 0xC5:
        number, r.rex = 1, (~first >> 5) & 4
        extra = first
    else:
        number, r.rex = first & (0x1F if opcode == 0xC4 else 7), (~first >> 5) & 7
        extra = r.byte()
        r.wide = bool(extra & 0x80)
        if opcode == 0x62:
            r.is_evex = True
            r.byte()
    r.repeat = {2: 0xF3, 3: 0xF2}.get(extra & 3, 0)
    if number not in (1, 2, 3, 5, 6):
        return None
    return _vector_map(r, number, r.byte(), (_NUMBERS[~extra >> 3 & 15],))


def _vector_map(r: _Reader, number: int, opcode: int, other: tuple[int, ...]) -> dict[str, object]:
    if not (number == 1 and opcode == 0x77):
        r.modrm()
    if number == 3 or (number == 1 and opcode in _BYTE_BEHIND):
        r.signed(1)
    reg, rm = _NUMBERS[r.reg], _NUMBERS[r.rm]
    clobbers: tuple[int, ...] = ()
    if number == 1:
        clobbers = _written(r, opcode)
    elif number == 2 and 0xF0 <= opcode < 0xF8:  # with general registers
        clobbers = (reg, *other)
    elif number == 3 and opcode in (0x14, 0x15, 0x16, 0x17, 0xF0):
        clobbers = (reg,) if opcode == 0xF0 else (rm,) if r.mode == 3 else ()
    elif number == 3 and 0x60 <= opcode < 0x64:
        clobbers = (_RCX,)
    elif number > 3:
        clobbers = (reg,) if opcode in (0x2C, 0x2D, 0x78, 0x79) else (rm,) if opcode == 0x7E and r.mode == 3 else ()
    return {
        "clobbers": clobbers,
        **_memory(r, number, opcode, 64),
        "reads": _reads_of_vector(r, number, opcode, other),
        "keeps_flags": number == 1 and opcode not in (0x2E, 0x2F, 0x98, 0x99),
    }


def _reads_of_vector(r: _Reader, number: int, opcode: int, other: tuple[int, ...]) -> tuple[int, ...]:
    if (number == 2 and 0xF0 <= opcode < 0xF8) or (number == 3 and opcode == 0xF0):
        return (*((_NUMBERS[r.rm],) if r.mode == 3 else ()), *other)
    found = _reads_of_two(r, opcode) if number == 1 and opcode not in _GENERAL else (_VECTOR + r.reg,)
    return (*found, *(_VECTOR + _NUMBERS.index(each) for each in other))


X86_64 = Processor(
    decode=decode,
    arguments=(_RDI, _RSI, _RDX, _RCX, 8, 9),
    result=_RAX,
    stack_pointer=_RSP,
    frame_pointer=_RBP,
    lost=(_RAX, _RDX, _RCX, _RSI, _RDI, 8, 9, 10, 11),
    first_vector=_VECTOR,
    entry_distance=8,
    loads=rb"(?s:(?=[\x48\x4c]\x8b[\x05\x0d\x15\x1d\x25\x2d\x35\x3d](?P<distance>....)))",
    calls=rb"(?s:(?=(?:[\xe8\xe9]|\x0f[\x80-\x8f]|(?P<through>\xff[\x15\x25]))(?P<distance>....)))",
    max_size=_MAX_SIZE,
    system_call=b"\x0f\x05",
    # The flags are behind 128 bytes of a mask.
    signals=SignalActions(13, 136, 0x10000000, (1, 39, 60, 186, 200, 231, 234)),
)
"""System V psABI for AMD64, 3.2.3."""
