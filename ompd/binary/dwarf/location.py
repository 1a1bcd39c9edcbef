"""Locations of a frame's variables: location expressions (DWARF 5, 2.6). The caller supplies the target's memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ompd.binary.cursor import ByteOrder, Cursor
from ompd.binary.dwarf import constants as dw
from ompd.binary.dwarf.expression import StackMachine
from ompd.binary.dwarf.units import Unit
from ompd.errors import MalformedFile, Unavailable
from ompd.records import record

_MAX_PIECES = 256
_MAX_FRAME_BASES = 2  # a frame base must not refer to itself

# Operations on typed values: floating-point values that are in no register or memory.
_TYPED = frozenset(
    (
        *(dw.DW_OP_CONST_TYPE, dw.DW_OP_REGVAL_TYPE, dw.DW_OP_DEREF_TYPE),
        *(dw.DW_OP_XDEREF_TYPE, dw.DW_OP_CONVERT, dw.DW_OP_REINTERPRET),
        *(dw.DW_OP_GNU_CONST_TYPE, dw.DW_OP_GNU_REGVAL_TYPE, dw.DW_OP_GNU_DEREF_TYPE),
        *(dw.DW_OP_GNU_CONVERT, dw.DW_OP_GNU_REINTERPRET),
    )
)


class Piece(NamedTuple):
    """A part of a variable: ``size`` bytes, None for the whole variable. The part is in memory at ``address``, or its
    bytes are ``data``. Both are None if the part was optimized out.
    """

    size: int | None
    address: int | None
    data: bytes | None


@record
class FrameContext:
    """The frame in which an expression is evaluated.

    ``registers`` are the known registers by DWARF number; ``cfa`` is None if unknown. ``bias`` is added to the file's
    addresses to get the target's. ``frame_base`` is the expression of ``DW_AT_frame_base``. ``thread_local`` returns
    the address at an offset in the module's thread-local storage.
    """

    registers: Mapping[int, int]
    read: Callable[[int, int], bytes]
    cfa: int | None
    bias: int
    pointer_size: int
    byte_order: ByteOrder
    thread_local: Callable[[int], int]
    frame_base: bytes | None = None


def find_pieces(unit: Unit, expression: bytes, frame: FrameContext) -> list[Piece]:
    """Return the pieces of a variable, given its location expression.

    :raises MalformedFile: if the expression is malformed or does not end soon
    :raises Unavailable: if the expression needs a value that this frame does not have
    :raises MemoryFault: as reading does
    """
    if not expression:
        return [Piece(None, None, None)]
    return _Machine(unit, expression, frame).pieces()


class _Machine(StackMachine):
    # Evaluates a variable's expression, whose result is a location.

    def __init__(
        self, unit: Unit, expression: bytes, frame: FrameContext, depth: int = 0, object_address: int | None = None
    ) -> None:
        super().__init__(
            expression, frame.registers, frame.read, pointer_size=frame.pointer_size, byte_order=frame.byte_order
        )
        self._unit = unit
        self._frame = frame
        self._depth = depth
        self._object = object_address
        self._place: Piece | None = None  # the current piece, if it is not on the stack
        self._found: list[Piece] = []

    def pieces(self) -> list[Piece]:
        self.run()
        if not self._found:
            self._found.append(self._taken(None))
        return self._found

    def base(self) -> int:
        """Return the value of a frame base's expression; the register's value if the expression names a register."""
        self.run()
        if self._place is not None and self._place.data is not None:
            return int.from_bytes(self._place.data, self._frame.byte_order)
        return self.pop()

    def _taken(self, size: int | None) -> Piece:
        place, self._place = self._place, None
        if place is not None:
            return place._replace(size=size)
        if self.is_empty:
            return Piece(size, None, None)
        return Piece(size, self.pop(), None)

    def step(self, opcode: int) -> None:
        """Execute one operation."""
        cursor, frame = self.cursor, self._frame
        if dw.DW_OP_REG0 <= opcode <= dw.DW_OP_REG31 or opcode == dw.DW_OP_REGX:
            self._kept(self.register(cursor.uleb() if opcode == dw.DW_OP_REGX else opcode - dw.DW_OP_REG0))
        elif opcode == dw.DW_OP_FBREG:
            offset = cursor.sleb()
            self.push(self._frame_base() + offset)
        elif opcode == dw.DW_OP_CALL_FRAME_CFA:
            if frame.cfa is None:
                raise Unavailable("the canonical frame address is unknown")
            self.push(frame.cfa)
        elif opcode == dw.DW_OP_ADDR:
            self.push(cursor.unsigned(frame.pointer_size) + frame.bias)
        elif opcode in (dw.DW_OP_ADDRX, dw.DW_OP_GNU_ADDR_INDEX):
            self.push(self._unit.indexed_address(cursor.uleb()) + frame.bias)
        elif opcode in (dw.DW_OP_CONSTX, dw.DW_OP_GNU_CONST_INDEX):
            self.push(self._unit.indexed_address(cursor.uleb()))
        elif opcode in (dw.DW_OP_FORM_TLS_ADDRESS, dw.DW_OP_GNU_PUSH_TLS_ADDRESS):
            self.push(frame.thread_local(self.pop()))
        elif opcode == dw.DW_OP_PUSH_OBJECT_ADDRESS and self._object is not None:
            self.push(self._object)
        elif opcode == dw.DW_OP_STACK_VALUE:
            self._kept(self.pop())
        elif opcode == dw.DW_OP_IMPLICIT_VALUE:
            self._place = Piece(None, None, cursor.take(cursor.uleb()))
        elif opcode == dw.DW_OP_PIECE:
            self._add(cursor.uleb())
        elif opcode == dw.DW_OP_BIT_PIECE:
            bits, offset = cursor.uleb(), cursor.uleb()
            if bits % 8 or offset:
                raise Unavailable("it is kept in parts of bytes")
            self._add(bits // 8)
        elif opcode in (dw.DW_OP_IMPLICIT_POINTER, dw.DW_OP_GNU_IMPLICIT_POINTER):
            raise Unavailable("what it points to is optimized out")
        elif opcode in (dw.DW_OP_ENTRY_VALUE, dw.DW_OP_GNU_ENTRY_VALUE):
            cursor.take(cursor.uleb())
            raise Unavailable("it is what a register held when the function began, which is not kept")
        elif opcode in _TYPED:
            raise Unavailable("the compiler keeps it as a computation with types")
        else:
            super().step(opcode)

    def _kept(self, value: int) -> None:
        self._place = Piece(None, None, value.to_bytes(self._frame.pointer_size, self._frame.byte_order))

    def _add(self, size: int) -> None:
        if len(self._found) >= _MAX_PIECES:
            self.cursor.fail("it is in too many pieces")
        self._found.append(self._taken(size))

    def _frame_base(self) -> int:
        base = self._frame.frame_base
        if base is None or self._depth >= _MAX_FRAME_BASES:
            raise Unavailable("the base of the frame is not given")
        return _Machine(self._unit, base, self._frame, self._depth + 1).base()


def read_pieces(pieces: Sequence[Piece], size: int, read: Callable[[int, int], bytes], byte_order: ByteOrder) -> bytes:
    """Return the *size* bytes of a variable that consists of *pieces*.

    :raises Unavailable: if a part of the variable was optimized out
    :raises MalformedFile: if the pieces are not as large as the variable
    :raises MemoryFault: as *read* does
    """
    value = b""
    for piece in pieces:
        piece_size = size - len(value) if piece.size is None else piece.size
        if piece_size > size - len(value):
            raise MalformedFile(f"pieces of more than the {size} bytes of a variable")
        if piece.address is not None:
            value += read(piece.address, piece_size)
        elif piece.data is None:
            raise Unavailable("optimized out" if len(pieces) == 1 else "parts of it are nowhere")
        elif len(piece.data) < piece_size:
            raise Unavailable(f"of its {piece_size} bytes only {len(piece.data)} are known")
        else:
            value += piece.data[:piece_size] if byte_order == "little" else piece.data[len(piece.data) - piece_size :]
    if len(value) != size:
        raise MalformedFile(f"pieces of {len(value)} bytes for a variable of {size}")
    return value


def evaluate_type(unit: Unit, expression: bytes, frame: FrameContext, object_address: int) -> int:
    """Return the value of a type's expression, such as an array's bound, for the object at *object_address*.

    :raises OmpdError: as :func:`find_pieces` does
    """
    return _Machine(unit, expression, frame, object_address=object_address).base()


def derefs_through(parameter: bytes, expression: bytes, byte_order: ByteOrder) -> int | None:
    """Return how many pointers lead from a pointer argument to a variable, after the argument itself.

    :param parameter: the location expression of the argument
    :param expression: the location expression of the variable

    :returns: 0 if the variable is a part of the structure that the argument points to, 1 if a pointer in that structure
        points to the variable, and so on; None if the variable is not reached through the argument
    """
    try:
        return _derefs_through(Cursor(parameter, byte_order), Cursor(expression, byte_order))
    except MalformedFile:
        return None


def _derefs_through(parameter: Cursor, cursor: Cursor) -> int | None:
    opcode, first = parameter.byte(), cursor.byte()
    if dw.DW_OP_REG0 <= opcode <= dw.DW_OP_REG31:
        # The pointer is in a register, with which the expression must begin.
        if first != opcode - dw.DW_OP_REG0 + dw.DW_OP_BREG0:
            return None
        cursor.sleb()
    elif opcode == dw.DW_OP_FBREG or dw.DW_OP_BREG0 <= opcode <= dw.DW_OP_BREG31:
        offset, expression_offset = parameter.sleb(), cursor.sleb() if first == opcode else None
        if expression_offset is None:
            return None
        if not parameter.at_end:  # a value without a location
            if parameter.byte() != dw.DW_OP_STACK_VALUE:
                return None
        elif expression_offset != offset or cursor.byte() != dw.DW_OP_DEREF:
            return None
    else:
        return None
    count = 0
    while not cursor.at_end:
        opcode = cursor.byte()
        if opcode == dw.DW_OP_DEREF:
            count += 1
        elif opcode == dw.DW_OP_PLUS_UCONST:
            cursor.uleb()
        else:
            return None
    return count
