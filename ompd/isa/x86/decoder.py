"""Decode x86-64 instructions: effects on general registers and memory, and control flow.

The decoder is exact enough to follow the address of a lock through a function. It overstates all else: registers and
memory that an instruction may write become unknown. Opcodes are those of the *Intel 64 and IA-32
Architectures Software Developer's Manual*, volume 2, appendix A.
"""

from __future__ import annotations

from ompd.isa.instructions import FLAGS, Instruction, Processor, SignalActions
from ompd.isa.x86.encoding import BARE_BEHIND_0F, HAS_MODRM, MAX_SIZE, Encoded, Incomplete, Invalid
from ompd.isa.x86.patterns import FAR_JUMPS, LOADS
from ompd.isa.x86.registers import ENCODED_REGISTERS as _NUMBERS

_RAX, _RCX, _RDX, _RBX, _RSP, _RBP, _RSI, _RDI = _NUMBERS[:8]
_FIRST_VECTOR = 17
_MASK = (1 << 64) - 1

# Opcodes of one byte

_MOVES = frozenset(
    (0x63, 0x88, 0x89, 0x8A, 0x8B, 0x8C, 0x8D, 0xC6, 0xC7, *range(0x50, 0x60), 0x68, 0x6A, *range(0xB0, 0xC0))
)
# Opcodes whose instruction also depends on the field reg.
_EXTENDED = frozenset(
    (0x80, 0x81, 0x83, 0x8F, 0xC0, 0xC1, *range(0xD0, 0xD4), *range(0xD8, 0xE0), 0xF6, 0xF7, 0xFE, 0xFF)
)
_STORES_OF_FPU = {0xD9: (2, 3, 6, 7), 0xDB: (1, 2, 3, 7), 0xDD: (1, 2, 3, 6, 7), 0xDF: (1, 2, 3, 6, 7)}
"""For each opcode of the FPU, the values of the field reg that make it write memory."""
_SIZEOF_FPU = 108  # fnsave
_SIZEOF_STATE = 1 << 12  # fxsave and xsave, at most

# Opcodes after 0F. Opcodes that the next two tables do not have write no general register, or they write vectors.

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
_ONLY_HINTS = frozenset((0x0D, *range(0x18, 0x20)))  # prefetches, hints and instructions that do nothing
# Opcodes whose operands are general registers. All others with two operands have vectors; 2A, 6E, 2C, 2D and 7E have
# one of each.
_GENERAL = frozenset(
    (*range(0x04), *range(0x18, 0x28), *range(0x40, 0x50), *range(0x80, 0xC2), 0xC3, 0xC7, *range(0xC8, 0xD0))
)
_LOADS = (0x10, 0x28, 0x6F, 0x7E)
_FROM_GENERAL, _TO_GENERAL = (0x2A, 0x6E), (0x2C, 0x2D, 0x50, 0x7E, 0xD7)

# By map, the opcodes that store: they write their operand if it is in memory. All others read the operand or leave it
# alone. An opcode that stores only with some values of another field is in the table.

_STORES_BEHIND_0F = frozenset(
    (
        *(0x00, 0x01, 0x11, 0x13, 0x17, 0x29, 0x2B, 0x78, 0x7E, 0x7F, *range(0x90, 0xA0), 0xA4, 0xA5, 0xAB, 0xAC),
        *(0xAD, 0xAE, 0xB0, 0xB1, 0xB3, 0xBA, 0xBB, 0xC0, 0xC1, 0xC3, 0xC7, 0xD6, 0xE7),
    )
)
_STORES = {
    1: _STORES_BEHIND_0F,
    2: frozenset(
        (
            *(0x2E, 0x2F, 0x49, 0x4B, 0x63, 0x8A, 0x8B, 0x8E, *range(0xA0, 0xA4), *range(0xE0, 0xF0)),
            *(0xF1, 0xF5, 0xF6, 0xF9, 0xFC),
        )
    ),
    3: frozenset((0x14, 0x15, 0x16, 0x17, 0x19, 0x1B, 0x1D, 0x39, 0x3B)),
    5: _STORES_BEHIND_0F,
    6: _STORES_BEHIND_0F,
}
# vpmovqb and similar instructions, which narrow elements: EVEX.F3.0F38
_NARROWED = frozenset((*range(0x10, 0x16), *range(0x20, 0x26), *range(0x30, 0x36)))
# maskmovdqu and movdir64b write to memory, but not to their operand: another register holds the address.
_STORES_ELSEWHERE = frozenset(((1, 0xF7), (2, 0xF8)))


def decode(code: bytes, at: int, address: int) -> Instruction | None:
    """Return the instruction at index *at* of *code*, None if there is none. *address* is the instruction's address."""
    encoded = Encoded(code, at, address)
    try:
        encoded.read_opcode()
        encoded.read_operands()
    except (Incomplete, Invalid):
        return None
    number = encoded.number
    effects = _one_byte(encoded) if number == 0 else _behind_0f(encoded) if encoded.opcode > 0xFF else _vector(encoded)
    return Instruction(address, encoded.size, **effects)  # type: ignore[arg-type]


# Opcodes of one byte


def _one_byte(e: Encoded) -> dict[str, object]:
    opcode = e.opcode
    flow = _flow(e)
    if flow is not None:
        return flow
    effects = _moves(e) if opcode in _MOVES else _computes(e)
    effects["keeps_flags"] = opcode in _MOVES or opcode == 0x90
    if effects.get("does") != "constant" and (opcode not in _MOVES or opcode == 0x63):
        effects["reads"] = _reads(e)
    return effects


def _reads(e: Encoded) -> tuple[int, ...]:
    # Returns the registers that arithmetic and sign extensions read, if the instruction's bytes name them.
    opcode = e.opcode
    if opcode not in HAS_MODRM:
        is_of_rax = opcode in (0x98, 0x99) or (opcode < 0x40 and opcode & 7 in (4, 5))
        return (_RAX,) if is_of_rax else ()
    operand = (_NUMBERS[e.rm],) if e.mode == 3 else ()
    if opcode == 0x63 or opcode in _EXTENDED or opcode in (0x69, 0x6B):
        return operand
    flags = (FLAGS,) if opcode < 0x40 and opcode >> 3 in (2, 3) else ()
    return (*operand, _NUMBERS[e.reg], *flags)


def _flow(e: Encoded) -> dict[str, object] | None:
    # Returns the control flow, None for an instruction after which the next one executes.
    opcode = e.opcode
    if 0x70 <= opcode < 0x80:
        return {"flow": "branch", "target": _target(e), "on_zero": _on_zero(opcode), "keeps_flags": True}
    if 0xE0 <= opcode < 0xE4:
        return {"flow": "branch", "target": _target(e), "clobbers": (_RCX,)}
    if opcode in (0xE8, 0xE9, 0xEB):
        return {"flow": "call" if opcode == 0xE8 else "jump", "target": _target(e), "keeps_flags": opcode != 0xE8}
    if opcode in (0xC2, 0xC3, 0xCA, 0xCB, 0xCF):
        return {"flow": "return"}
    if opcode in (0xF4, 0xCC):
        return {"flow": "stop"}
    if opcode == 0xFF and e.reg & 7 in (2, 3, 4, 5):
        operand = e.operand()
        is_fixed = operand is not None and operand.base is None and not operand.is_indexed and operand.displacement > 0
        word = operand.displacement if operand is not None and is_fixed else None
        if e.reg & 7 < 4:
            pointer = {"source": _NUMBERS[e.rm]} if e.mode == 3 else {"operand": operand}
            return {"flow": "call", "word": word, **(pointer if word is None else {})}
        return {"flow": "jump" if word is not None else "computed", "word": word}
    return None


def _target(e: Encoded) -> int:
    return e.end + e.constant & _MASK


def _on_zero(opcode: int) -> bool | None:
    return {4: True, 5: False}.get(opcode & 15)


def _clobbers(e: Encoded) -> dict[str, object]:
    if e.mode == 3:
        return {"clobbers": (_NUMBERS[e.rm],)}
    return {"stores": True, "operand": e.operand(), "width": 8}


def _compares(e: Encoded) -> dict[str, object]:
    # The field reg with the field rm.
    registers = (_NUMBERS[e.reg], _NUMBERS[e.rm]) if e.mode == 3 else (_NUMBERS[e.reg],)
    return {"compares": registers, "operand": e.operand()}


def _moves(e: Encoded) -> dict[str, object]:
    opcode = e.opcode
    reg, rm = _NUMBERS[e.reg], _NUMBERS[e.rm]
    if opcode in (0x88, 0x89):
        width = 1 if opcode == 0x88 else e.width
        if e.mode == 3:
            return {"does": "copy", "to": rm, "source": reg, "width": width}
        return {"does": "store", "source": reg, "operand": e.operand(), "width": width}
    if opcode in (0x8A, 0x8B):
        width = 1 if opcode == 0x8A else e.width
        if e.mode == 3:
            return {"does": "copy", "to": reg, "source": rm, "width": width}
        return {"does": "load", "to": reg, "operand": e.operand(), "width": width}
    if opcode == 0x63:
        return {"clobbers": (reg,), "operand": e.operand()}
    if opcode == 0x8D:
        if e.width != 8:
            return {"clobbers": (reg,), "operand": e.operand()}
        return {"does": "address", "to": reg, "operand": e.operand(), "width": 8}
    if opcode in (0xC6, 0xC7):
        width = 1 if opcode == 0xC6 else e.width
        if e.mode == 3:
            return {"does": "constant", "to": rm, "value": e.constant, "width": width}
        return {"does": "store", "value": e.constant, "operand": e.operand(), "width": width}
    if 0xB8 <= opcode < 0xC0:
        value = e.constant if e.is_wide else e.constant & (0xFFFF if e.is_narrow else 0xFFFFFFFF)
        return {"does": "constant", "to": _in_opcode(e), "value": value, "width": e.width}
    if 0x50 <= opcode < 0x58:
        return {"does": "push", "source": _in_opcode(e)}
    if 0x58 <= opcode < 0x60:
        return {"does": "pop", "to": _in_opcode(e)}
    if opcode in (0x68, 0x6A):
        return {"does": "push"}
    if 0xB0 <= opcode < 0xB8:
        return {"clobbers": (_in_opcode(e),)}
    return _clobbers(e)  # 8C, a segment's number


def _in_opcode(e: Encoded) -> int:
    # Returns the register whose number is in the opcode.
    return _NUMBERS[e.opcode & 7 | (e.rex & 1) << 3]


def _computes(e: Encoded) -> dict[str, object]:
    opcode, constant = e.opcode, e.constant
    reg, rm, operation = _NUMBERS[e.reg], _NUMBERS[e.rm], e.reg & 7
    if opcode in (0x80, 0x81, 0x83):
        width = 1 if opcode == 0x80 else e.width
        if operation == 7:
            operand = {"source": rm} if e.mode == 3 else {"operand": e.operand()}
            return {"does": "compare", "value": constant, "width": width, **operand}
        if e.mode == 3 and operation in (0, 5) and width == 8:
            return {"does": "add", "to": rm, "value": -constant if operation == 5 else constant}
        if e.mode == 3 and operation == 6 and constant in (1, -1):
            return {"does": "flip", "to": rm, "value": constant}
        return _clobbers(e)
    if opcode < 0x40:
        return _computes_by_form(e, opcode >> 3, opcode & 7)
    if opcode in (0x84, 0x85):
        if e.mode == 3 and e.reg == e.rm:
            return {"does": "compare", "source": rm, "width": 1 if opcode == 0x84 else e.width}
        return _compares(e)
    if opcode in (0xA8, 0xA9):
        return {"does": "bit", "source": _RAX} if constant == 1 else {}
    if opcode in (0x69, 0x6B):
        return {"clobbers": (reg,)}
    if opcode in (0x86, 0x87):
        return {**_clobbers(e), "clobbers": (reg, rm) if e.mode == 3 else (reg,)}
    if 0x90 <= opcode < 0x98:
        return {} if opcode == 0x90 and not e.rex & 1 else {"clobbers": (_RAX, _in_opcode(e))}
    if opcode == 0xC9:
        return {"does": "leave"}
    if opcode == 0xC8:
        return {"clobbers": (_RSP, _RBP), "stores": True}
    if opcode in (0xF6, 0xF7):
        if operation < 2:
            return {"does": "bit", "source": rm} if constant == 1 and e.mode == 3 else {}
        return _clobbers(e) if operation < 4 else {"clobbers": (_RAX, _RDX)}
    if opcode == 0xFF and operation == 6:
        return {"does": "push"}
    if opcode == 0x8F:
        return {**_clobbers(e), "clobbers": (rm, _RSP) if e.mode == 3 else (_RSP,)}
    if opcode in (0xC0, 0xC1, 0xD0, 0xD1, 0xD2, 0xD3, 0xFE, 0xFF):
        return _clobbers(e)
    if 0xD8 <= opcode < 0xE0:
        stores = e.mode != 3 and operation in _STORES_OF_FPU.get(opcode, ())
        return {"stores": stores, "operand": e.operand(), "width": _SIZEOF_FPU, "clobbers": (_RAX,)}
    if opcode in (0x9C, 0x9D):
        return {"does": "push"} if opcode == 0x9C else {"does": "pop"}
    if opcode in (0xA4, 0xA5):  # movs
        return {"clobbers": (_RCX, _RSI, _RDI), "stores": True}
    if opcode in (0xAA, 0xAB):  # stos
        return {"clobbers": (_RCX, _RDI), "stores": True}
    # Other strings, system calls, flags, sign extension
    return {"clobbers": (_RAX, _RDX, _RCX, _RSI, _RDI), "stores": opcode in (0x6C, 0x6D, 0xA2, 0xA3)}


def _computes_by_form(e: Encoded, operation: int, form: int) -> dict[str, object]:
    # The eight arithmetic operations, each with three forms of operands: rm with reg, reg with rm, rax with a constant.
    reg, rm = _NUMBERS[e.reg], _NUMBERS[e.rm]
    if operation == 7:
        if form >= 4:
            return {"does": "compare", "source": _RAX, "value": e.constant, "width": 1 if form == 4 else e.width}
        return _compares(e)
    if operation == 6 and form in (1, 3) and e.mode == 3 and e.reg == e.rm:
        return {"does": "constant", "to": rm, "value": 0, "width": e.width}
    if form == 4 and operation == 6 and e.constant in (1, -1):
        return {"does": "flip", "to": _RAX, "value": e.constant}
    if form >= 4:
        return {"clobbers": (_RAX,)}
    return {"clobbers": (reg,), "operand": e.operand()} if form >= 2 else _clobbers(e)


# Opcodes after 0F


def _behind_0f(e: Encoded) -> dict[str, object]:
    opcode = e.opcode & 0xFF
    if 0x80 <= opcode < 0x90:
        return {"flow": "branch", "target": _target(e), "on_zero": _on_zero(opcode), "keeps_flags": True}
    if opcode == 0x0B:
        return {"flow": "stop"}
    reg, rm = _NUMBERS[e.reg], _NUMBERS[e.rm]
    if opcode in (0xB6, 0xB7, 0xBE, 0xBF):
        width = 1 if not opcode & 1 else 2
        if e.mode == 3:
            return {"does": "copy", "to": reg, "source": rm, "width": width, "keeps_flags": True}
        return {"does": "load", "to": reg, "operand": e.operand(), "width": width, "keeps_flags": True}
    if opcode in (0x94, 0x95) and e.mode == 3:
        return {"does": "set", "to": rm, "value": int(opcode == 0x94), "keeps_flags": True}
    if 0xC8 <= opcode < 0xD0:
        swapped = _in_opcode(e)
        return {"clobbers": (swapped,), "reads": (swapped,)}
    if opcode in _ONLY_HINTS:
        return {"keeps_flags": True, "clobbers": (rm,) if opcode == 0x1E and e.mode == 3 and e.reg & 7 == 1 else ()}
    if opcode in BARE_BEHIND_0F:
        clobbers = (_RAX, _RBX, _RCX, _RDX) if opcode == 0xA2 else (_RAX, _RCX, _RDX, 11)
        return {"clobbers": clobbers if opcode != 0x77 else (), "stores": opcode == 0x05}
    return {
        "clobbers": _written(e, opcode),
        **_memory(e, opcode, 16),
        "keeps_flags": 0x40 <= opcode < 0x50 or 0x90 <= opcode < 0xA0 or opcode not in (*_GENERAL, 0x2E, 0x2F),
        "reads": _reads_behind_0f(e, opcode),
    }


def _memory(e: Encoded, opcode: int, width: int) -> dict[str, object]:
    # Returns the effect of an instruction on memory.
    number = e.number
    if (number, opcode) in _STORES_ELSEWHERE:
        return {"stores": True, "width": width}
    operand = e.operand()
    if e.is_evex and e.mode == 1 and operand is not None:
        operand = operand._replace(is_indexed=True)  # the distance counts elements, whose size is in other fields
    stores = e.mode != 3 and _is_store(e, opcode)
    return {"stores": stores, "operand": operand, "width": _SIZEOF_STATE if (number, opcode) == (1, 0xAE) else width}


def _is_store(e: Encoded, opcode: int) -> bool:
    if (e.number, opcode, e.repeat) == (1, 0x7E, 0xF3):
        return False  # movq to a vector; the other instructions with this opcode move from a vector
    if e.is_evex and e.number == 2 and e.repeat == 0xF3 and opcode in _NARROWED:
        return True
    return opcode in _STORES.get(e.number, ())


def _reads_behind_0f(e: Encoded, opcode: int) -> tuple[int, ...]:
    if 0x90 <= opcode < 0xA0:
        return (FLAGS,)
    rm = (e.rm,) if e.mode == 3 else ()
    if opcode in _GENERAL:
        named = tuple(_NUMBERS[number] for number in rm)
        if opcode in (0xB8, 0xBC, 0xBD, 0xBA):
            return named
        return (*named, _NUMBERS[e.reg], *((FLAGS,) if 0x40 <= opcode < 0x50 else ()))
    if opcode in _FROM_GENERAL:
        return tuple(_NUMBERS[number] for number in rm)
    if opcode in _LOADS and (opcode != 0x7E or e.repeat == 0xF3):
        return tuple(_FIRST_VECTOR + number for number in rm)
    if opcode == 0x7E:
        return (_FIRST_VECTOR + e.reg,)
    if opcode in _TO_GENERAL:
        return tuple(_FIRST_VECTOR + number for number in rm)
    return (_FIRST_VECTOR + e.reg, *(_FIRST_VECTOR + number for number in rm))


def _written(e: Encoded, opcode: int) -> tuple[int, ...]:
    written: tuple[int, ...] = (_NUMBERS[e.reg],) if opcode in _WRITES_REG else ()
    if opcode in _WRITES_RM and e.mode == 3:
        written += (_NUMBERS[e.rm],)
    if opcode in (0xB0, 0xB1, 0xC7, 0x01):
        written += (_RAX, _RDX, _RCX)
    if opcode in _FROM_GENERAL or (opcode in _LOADS and (opcode != 0x7E or e.repeat == 0xF3)):
        written += (_FIRST_VECTOR + e.reg,)
    return written


# Opcodes after VEX, EVEX, 0F 38 and 0F 3A


def _vector(e: Encoded) -> dict[str, object]:
    number, opcode = e.number, e.opcode
    reg, rm = _NUMBERS[e.reg], _NUMBERS[e.rm]
    other = (_NUMBERS[e.vector],) if e.vector is not None else ()
    clobbers: tuple[int, ...] = ()
    if number == 1:
        clobbers = _written(e, opcode)
    elif number == 2 and 0xF0 <= opcode < 0xF8:  # with general registers
        clobbers = (reg, *other)
    elif number == 3 and opcode in (0x14, 0x15, 0x16, 0x17, 0xF0):
        clobbers = (reg,) if opcode == 0xF0 else (rm,) if e.mode == 3 else ()
    elif number == 3 and 0x60 <= opcode < 0x64:
        clobbers = (_RCX,)
    elif number > 3:
        clobbers = (reg,) if opcode in (0x2C, 0x2D, 0x78, 0x79) else (rm,) if opcode == 0x7E and e.mode == 3 else ()
    return {
        "clobbers": clobbers,
        **_memory(e, opcode, 64),
        "reads": _reads_vector(e, other),
        "keeps_flags": number == 1 and opcode not in (0x2E, 0x2F, 0x98, 0x99),
    }


def _reads_vector(e: Encoded, other: tuple[int, ...]) -> tuple[int, ...]:
    number, opcode = e.number, e.opcode
    if (number == 2 and 0xF0 <= opcode < 0xF8) or (number == 3 and opcode == 0xF0):
        return (*((_NUMBERS[e.rm],) if e.mode == 3 else ()), *other)
    is_move = number == 1 and opcode not in _GENERAL
    read = _reads_behind_0f(e, opcode) if is_move else (_FIRST_VECTOR + e.reg,)
    return read if e.vector is None else (*read, _FIRST_VECTOR + e.vector)


X86_64 = Processor(
    decode=decode,
    arguments=(_RDI, _RSI, _RDX, _RCX, 8, 9),
    result=_RAX,
    stack_pointer=_RSP,
    frame_pointer=_RBP,
    caller_saved=(_RAX, _RDX, _RCX, _RSI, _RDI, 8, 9, 10, 11),
    first_vector=_FIRST_VECTOR,
    entry_distance=8,
    loads=LOADS,
    calls=FAR_JUMPS,
    max_size=MAX_SIZE,
    system_call=b"\x0f\x05",
    # In struct sigaction the flags come after a mask of 128 bytes.
    signals=SignalActions(13, 136, 0x10000000, (1, 39, 60, 186, 200, 231, 234)),
)
"""System V psABI for AMD64, 3.2.3."""
