"""Values by their types: bytes and the DWARF type of what they are, as text and as what JSON can hold.

The text is what gdb's ``print`` writes for the language of the type. Where the bytes come from is the caller's matter:
memory at an address, a register, pieces put together. Types and bytes are hostile input: how deep a value is followed,
how much of it is shown and how much is read for it has a bound, and what is left out is marked by ``...``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Union

from ompd.binary.cursor import ByteOrder
from ompd.binary.dwarf import constants as dw
from ompd.binary.dwarf.forms import Value
from ompd.binary.dwarf.index import Place
from ompd.binary.types.arrays import Dimension, is_fortran
from ompd.binary.types.layouts import (
    CHARACTERS,
    REFERENCES,
    SIGNED,
    WHOLE,
    WIDE,
    Enumeration,
    MemberRow,
    Read,
    Scalar,
    TypeReader,
    key_of,
)
from ompd.binary.types.parts import Part
from ompd.binary.types.scalars import (
    Float,
    float_format,
    format_character,
    format_integer,
    format_string,
    parse_float,
    plain_integer,
    split_units,
)
from ompd.binary.types.type_names import type_name
from ompd.binary.types.types import TypeInfo
from ompd.errors import MalformedFile, MemoryFault, OmpdError, Unavailable, Unsupported
from ompd.records import record

FORMATS = ("x", "d", "u", "o", "t", "c", "f", "s", "a", "z")
"""gdb's letters."""

_MAX_DEPTH = 24
_MAX_PARTS = 4000  # members, elements and runs of equal elements of one value
_MAX_SCANNED = 1 << 20  # bytes of one array that are compared to find out how often an element is repeated
_MAX_ELEMENTS = 1 << 14
_WINDOW = 1 << 14
_MAX_SCALAR = 64
_MAX_STRING = 1 << 16

Json = Union[None, bool, int, float, str, list["Json"], dict[str, "Json"]]  # noqa: UP007  it names itself
"""What JSON can hold. Whole numbers beyond 2**53 are strings of decimal digits, addresses strings as ``0x1234``; a
floating-point number that no double holds is a string, as are ``NaN``, ``Infinity`` and ``-Infinity``."""

Symbolize = Callable[[int], "str | None"]
"""Names what is at an address, ``name`` or ``name+8``; None if nothing is known to."""


@record
class Options:
    """How values are shown.

    ``letter`` is one of gdb's (:data:`FORMATS`), ``""`` for what the type says. Of an array and of a string at most
    ``elements`` are shown, and one that comes more than ``repeats`` times in a row once. ``x87`` says that
    ``long double`` is the 80-bit format. ``bare`` leaves out the type before a pointer, as ``info locals`` does.
    """

    letter: str = ""
    elements: int = 200
    repeats: int = 10
    x87: bool = True
    bare: bool = False


class Shown(NamedTuple):
    """A value: ``text`` for people, ``value`` for JSON, ``truncated`` if the end of a string or array is left out."""

    text: str
    value: Json
    truncated: bool


class _Bytes:
    # Where the bytes of a value come from. At an address they are read as they are needed, some thousand at a time.

    __slots__ = ("_read", "_window", "address", "raw", "size")

    def __init__(self, read: Read, address: int | None, raw: bytes = b"", size: int = 0) -> None:
        self._read = read
        self.address = address
        self.raw = raw
        self.size = size
        self._window: tuple[int, bytes] = (0, b"")

    def take(self, offset: int, size: int) -> bytes:
        if self.address is None:
            if offset < 0 or offset + size > len(self.raw):
                raise Unavailable(f"{size} of the value's bytes at offset {offset} are unknown")
            return self.raw[offset : offset + size]
        start, data = self._window
        if not (start <= offset and offset + size <= start + len(data)):
            start, data = offset, self._more(offset, size)
            self._window = start, data
        return data[offset - start : offset - start + size]

    def _more(self, offset: int, size: int) -> bytes:
        address = self.address or 0
        wanted = min(max(size, _WINDOW), self.size - offset)
        if wanted > size:
            try:
                return self._read(address + offset, wanted)
            except MemoryFault:
                pass
        return self._read(address + offset, size)

    def at(self, offset: int) -> int | None:
        return self.address + offset if self.address is not None else None


class ValueFormatter:
    """Shows values of the types of one file.

    :param types: the file's types; it reads what pointers and descriptors lead to, and values at addresses
    :param symbolize: see :data:`Symbolize`
    """

    def __init__(
        self,
        types: TypeReader,
        options: Options = Options(),
        symbolize: Symbolize = lambda address: None,
    ) -> None:
        self._types = types
        self._read = types.read
        self._symbolize = symbolize
        self._options = options
        self._parts = 0
        self._truncated = False

    # What callers ask

    def show(self, place: Place, source: int | bytes) -> Shown:
        """Return the value of the type at *place* that is at an address, or whose bytes are *source*.

        :raises OmpdError: as *read* does; Unsupported for a type that is not supported, MalformedFile
        """
        self._parts, self._truncated = 0, False
        data = self._source(place, source)
        text, value = self._value(place, data, 0, 0, top=not self._options.bare)
        return Shown(text, value, self._truncated)

    def show_part(self, part: Part) -> Shown:
        """Return the value of a part that :class:`PartFinder` found; see :meth:`show`."""
        if part.bits is None or part.first_bit is None:
            return self.show(part.type, part.address)
        self._parts, self._truncated = 0, False
        data = _Bytes(self._read, part.address, size=-(-(part.first_bit + part.bits) // 8))
        text, value = self._bit_field(part.type, data, part.first_bit, part.bits)
        return Shown(text, value, False)

    def _source(self, place: Place, source: int | bytes) -> _Bytes:
        if isinstance(source, bytes):
            return _Bytes(self._read, None, source)
        return _Bytes(self._read, source, size=self._types.size_of(place) or 0)

    # Values

    def _value(self, place: Place, data: _Bytes, offset: int, depth: int, *, top: bool = False) -> tuple[str, Json]:
        self._parts += 1
        if depth > _MAX_DEPTH or self._parts > _MAX_PARTS:
            self._truncated = True
            return "...", None
        found, tag, attributes, names = self._types.resolve(place)
        if tag == dw.DW_TAG_BASE_TYPE:
            return self._base(found, attributes, names, data, offset)
        if tag in dw.STRUCTURES:
            return self._structure(found, data, offset, depth)
        if tag == dw.DW_TAG_ARRAY_TYPE:
            return self._array(found, attributes, data, offset, depth)
        if tag == dw.DW_TAG_POINTER_TYPE:
            return self._pointer(place, found, attributes, data, offset, top)
        if tag in REFERENCES:
            return self._reference(place, found, attributes, data, offset, depth, top)
        if tag == dw.DW_TAG_ENUMERATION_TYPE:
            enumeration = self._types.enumeration(found)
            return self._enumerator(enumeration, self._number(found, data, offset, enumeration.size))
        if tag == dw.DW_TAG_STRING_TYPE:
            return self._fortran_string(found, attributes, data, offset)
        if tag == dw.DW_TAG_PTR_TO_MEMBER_TYPE:
            return self._member_pointer(found, attributes, data, offset)
        if tag == dw.DW_TAG_SUBRANGE_TYPE and dw.DW_AT_TYPE in attributes:
            return self._value(self._types.info.target(found.unit, attributes[dw.DW_AT_TYPE]), data, offset, depth + 1)
        if tag == dw.DW_TAG_UNSPECIFIED_TYPE:
            return "0", "0x0"
        raise Unsupported(f"values of {type_name(self._types.info, place)} (DWARF tag {tag:#x}) are not supported")

    def _number(self, place: Place, data: _Bytes, offset: int, size: int) -> int:
        return int.from_bytes(data.take(offset, size), place.unit.sections.byte_order)

    # Base types

    def _base(
        self, place: Place, attributes: dict[int, Value], names: Sequence[str], data: _Bytes, offset: int
    ) -> tuple[str, Json]:
        scalar = self._types.scalar(place, attributes, names)
        raw = data.take(offset, scalar.size)
        if scalar.order is not None and scalar.order != place.unit.sections.byte_order:
            raw = raw[::-1]
        order = place.unit.sections.byte_order
        if scalar.encoding in (dw.DW_ATE_COMPLEX_FLOAT, dw.DW_ATE_LO_USER) and scalar.size % 2 == 0:
            return self._complex(scalar, raw, order, is_fortran(place.unit))
        if scalar.encoding == dw.DW_ATE_FLOAT:
            number = parse_float(raw, float_format(scalar.name, scalar.size, x87=self._options.x87), order)
            return self._float_text(number, raw, scalar.size, order), number.plain
        if scalar.encoding not in WHOLE | CHARACTERS | {dw.DW_ATE_BOOLEAN}:
            raise Unsupported(f"numbers of type {scalar.name} (DWARF encoding {scalar.encoding:#x}) are not supported")
        return self._whole(scalar, int.from_bytes(raw, order), is_fortran(place.unit))

    def _whole(self, scalar: Scalar, word: int, fortran: bool, bits: int | None = None) -> tuple[str, Json]:
        # An integer, a character or a truth value; of *bits* bits if it is a bit field.
        letter, width = self._options.letter, bits if bits is not None else 8 * scalar.size
        signed = scalar.encoding in SIGNED or (fortran and scalar.encoding == dw.DW_ATE_BOOLEAN)
        value = word - (1 << width) if signed and word >> width - 1 else word
        plain = plain_integer(value)
        if scalar.encoding == dw.DW_ATE_BOOLEAN and value in (0, 1):
            plain = bool(value)
        if letter not in ("", "s"):
            return self._lettered(value, scalar.size, signed, bits), plain
        if scalar.encoding == dw.DW_ATE_BOOLEAN and value in (0, 1):
            texts = (".FALSE.", ".TRUE.") if fortran else ("false", "true")
            return texts[value], plain
        is_character = scalar.encoding in CHARACTERS or scalar.prefix or scalar.name == "char8_t"
        if is_character and not fortran and bits is None:
            prefix = scalar.prefix
            if scalar.encoding == dw.DW_ATE_UTF:
                prefix = {2: "u", 4: "U"}.get(scalar.size, "")
            return format_character(value, scalar.size, prefix), plain
        return str(value), plain

    def _lettered(self, value: int, size: int, signed: bool, bits: int | None = None) -> str:
        letter = self._options.letter
        if letter == "a":
            return self._address_text(value & (1 << 64) - 1, always=True)
        if letter == "c":
            low = value & 0xFF
            return format_character(low - 256 if signed and low >> 7 else low)
        if letter == "f":
            if size in (4, 8) and bits is None:
                raw = (value & (1 << 8 * size) - 1).to_bytes(size, "little")
                return parse_float(raw, "single" if size == 4 else "double", "little").text
            return str(value)
        if bits is not None and letter in "xotzu":
            return format_integer(value & (1 << bits) - 1, "x" if letter == "z" else letter, size)
        return format_integer(value, letter, size)

    def _float_text(self, number: Float, raw: bytes, size: int, order: ByteOrder) -> str:
        letter = self._options.letter
        if letter in ("", "s", "f"):
            return number.text
        if letter in "ca":
            return self._lettered(int(number.value) if number.value is not None else 0, 8, signed=True)
        if number.format == "x87":
            raw = raw[:10] if order == "little" else raw[-10:]
        return format_integer(int.from_bytes(raw, order), letter, size)

    def _complex(self, scalar: Scalar, raw: bytes, order: ByteOrder, fortran: bool) -> tuple[str, Json]:
        half = scalar.size // 2
        texts: list[str] = []
        plains: list[Json] = []
        for part in (raw[:half], raw[half:]):
            if scalar.encoding == dw.DW_ATE_COMPLEX_FLOAT:
                kind = float_format(scalar.name, half, x87=self._options.x87)
                number = parse_float(part, kind, order)
                texts.append(self._float_text(number, part, half, order))
                plains.append(number.plain)
            else:
                value = int.from_bytes(part, order, signed=True)
                texts.append(str(value))
                plains.append(plain_integer(value))
        text = f"({texts[0]},{texts[1]})" if fortran else f"{texts[0]} + {texts[1]}i"
        return text, {"real": plains[0], "imag": plains[1]}

    def _bit_field(self, place: Place, data: _Bytes, first_bit: int, bits: int) -> tuple[str, Json]:
        found, tag, attributes, names = self._types.resolve(place)
        start, end = first_bit // 8, -(-(first_bit + bits) // 8)
        if end - start > _MAX_SCALAR:
            raise Unsupported(f"a bit field of {bits} bits")
        order = found.unit.sections.byte_order
        word = int.from_bytes(data.take(start, end - start), order)
        word >>= first_bit - 8 * start if order == "little" else 8 * end - first_bit - bits
        word &= (1 << bits) - 1
        if tag == dw.DW_TAG_ENUMERATION_TYPE:
            enumeration = self._types.enumeration(found)
            negative = word >> bits - 1 and any(value < 0 for value in enumeration.names)
            mask = (1 << 8 * enumeration.size) - 1
            return self._enumerator(enumeration, (word - (1 << bits) if negative else word) & mask)
        if tag != dw.DW_TAG_BASE_TYPE:
            raise Unsupported(f"a bit field of type {type_name(self._types.info, place)}")
        return self._whole(self._types.scalar(found, attributes, names), word, is_fortran(found.unit), bits)

    # Enumerations

    def _enumerator(self, enumeration: Enumeration, word: int) -> tuple[str, Json]:
        bits = 8 * enumeration.size
        signed = word - (1 << bits) if word >> bits - 1 else word
        # An enumeration with a negative value is a signed type.
        value = signed if any(known < 0 for known in enumeration.names) else word
        name = enumeration.names.get(value)
        if self._options.letter not in ("", "s"):
            return self._lettered(value, enumeration.size, signed=value < 0), name if name is not None else value
        if name is not None:
            return name, name
        if enumeration.flags is None or not enumeration.names or value == 0:
            return str(value), plain_integer(value)
        words = [known for bit, known in enumeration.flags if bit & value]
        rest = value & ~sum(bit for bit, _ in enumeration.flags)
        if rest:
            words.append(f"unknown: {rest:#x}")
        text = f"({' | '.join(words)})"
        return text, text.strip("()") if not rest else plain_integer(value)

    # Pointers

    def _address_text(self, address: int, *, always: bool = False) -> str:
        name = self._symbolize(address) if always or address else None
        return f"{address:#x} <{name}>" if name is not None else f"{address:#x}"

    def _pointer(
        self, place: Place, found: Place, attributes: dict[int, Value], data: _Bytes, offset: int, top: bool
    ) -> tuple[str, Json]:
        size = found.unit.number(attributes.get(dw.DW_AT_BYTE_SIZE)) or found.unit.address_size
        if not 0 < size <= 16:
            raise MalformedFile(f"a pointer of {size} bytes")
        address = self._number(found, data, offset, size)
        letter, plain = self._options.letter, f"{address:#x}"
        if letter not in ("", "s", "a"):
            return self._lettered(address, size, signed=False), plain
        text = self._address_text(address)
        if letter == "a":
            return text, plain
        target = self._types.info.target(found.unit, attributes[dw.DW_AT_TYPE]) if dw.DW_AT_TYPE in attributes else None
        string = self._pointed_string(target, address)
        prefix = f"({type_name(self._types.info, place)}) " if top and not self._is_plain_string(target) else ""
        if string is None:
            return prefix + text, plain
        # What a debugger calls the place where characters are is of no interest, unless it is a variable.
        return f"{prefix}{text} {string[0]}", {"address": plain, "string": string[1]}

    def _is_plain_string(self, target: Place | None) -> bool:
        # Whether the quotes tell the type: of a pointer to what is called char itself.
        if target is None:
            return False
        try:
            found, tag, attributes, names = self._types.resolve(target)
        except OmpdError:
            return False
        if tag != dw.DW_TAG_BASE_TYPE:
            return False
        return names[0] in WIDE if names else found.unit.string(attributes.get(dw.DW_AT_NAME)) in ("char", *WIDE)

    def _pointed_string(self, target: Place | None, address: int) -> tuple[str, Json] | None:
        kind = self._types.character(target)
        if kind is None:
            return self._pointed_fortran_string(target, address) if target is not None and address else None
        if not address:
            return None
        width, prefix, _ = kind
        assert target is not None
        order = target.unit.sections.byte_order
        raw, ended, fault = self._read_units(address, width, self._options.elements)
        if fault is not None and not raw:
            return f"<error: Cannot access memory at address {fault:#x}>", None
        units = list(split_units(raw, width, order))
        text = format_string(
            units,
            width=width,
            prefix=prefix,
            limit=len(units) + 1,
            repeats=self._options.repeats,
            cut=not ended and fault is None,
        )
        if fault is not None:
            text += f"<error: Cannot access memory at address {fault:#x}>"
        self._truncated = self._truncated or not ended
        return text, _decoded(raw, width, order)

    def _read_units(self, address: int, width: int, limit: int) -> tuple[bytes, bool, int | None]:
        # Characters up to the terminating one, whether that was found, and where memory ended before.
        found = b""
        limit = min(limit * width, _MAX_STRING)
        while len(found) < limit:
            at = address + len(found)
            # Never across a page: memory may end there.
            size = min(max(width, (256 - at % 256) // width * width), limit - len(found))
            try:
                piece = self._read(at, size)
            except MemoryFault:
                return found, False, at
            for index in range(0, len(piece), width):
                if not any(piece[index : index + width]):
                    return found + piece[:index], True, None
            found += piece
        try:
            ended = not any(self._read(address + limit, width))
        except MemoryFault:
            ended = False
        return found, ended, None

    def _pointed_fortran_string(self, target: Place, address: int) -> tuple[str, Json] | None:
        try:
            found, tag, attributes, _ = self._types.resolve(target)
            if tag != dw.DW_TAG_STRING_TYPE or dw.DW_AT_STRING_LENGTH not in attributes:
                return None
            return self._fortran_string(found, attributes, _Bytes(self._read, address), 0)
        except (MemoryFault, Unsupported):
            return None

    def _member_pointer(
        self, found: Place, attributes: dict[int, Value], data: _Bytes, offset: int
    ) -> tuple[str, Json]:
        # The Itanium ABI: an offset, -1 for none; of a member function its address and an adjustment of this.
        size = found.unit.address_size
        target = self._types.info.target(found.unit, attributes[dw.DW_AT_TYPE]) if dw.DW_AT_TYPE in attributes else None
        order = found.unit.sections.byte_order
        word = int.from_bytes(data.take(offset, size), order, signed=True)
        if (
            target is not None
            and self._types.info.index.entry(self._types.info.inner(target))[0] == dw.DW_TAG_SUBROUTINE_TYPE
        ):
            return ("NULL", "0x0") if not word else (self._address_text(word & (1 << 8 * size) - 1), f"{word:#x}")
        return ("NULL", None) if word == -1 else (str(word), word)

    def _reference(
        self, place: Place, found: Place, attributes: dict[int, Value], data: _Bytes, offset: int, depth: int, top: bool
    ) -> tuple[str, Json]:
        address = self._number(found, data, offset, found.unit.address_size)
        if not top or dw.DW_AT_TYPE not in attributes:
            return f"@{address:#x}", f"{address:#x}"
        target = self._types.info.target(found.unit, attributes[dw.DW_AT_TYPE])
        prefix = f"({type_name(self._types.info, place)}) @{address:#x}: "
        try:
            text, value = self._value(target, self._source(target, address), 0, depth + 1)
        except MemoryFault:
            return f"{prefix}<error: Cannot access memory at address {address:#x}>", None
        return (prefix + text if self._options.letter == "" else text), value

    # Structures

    def _structure(
        self, place: Place, data: _Bytes, offset: int, depth: int, seen: set[tuple[str, int, int]] | None = None
    ) -> tuple[str, Json]:
        fortran = is_fortran(place.unit)
        texts: list[str] = []
        value: dict[str, Json] = {}
        seen = set() if seen is None else seen
        for member in self._types.members(place):
            if self._parts > _MAX_PARTS:
                self._truncated = True
                texts.append("...")
                break
            if member.expression is not None and key_of(member.type) in seen:
                continue  # a virtual base class is there once
            text, plain = self._member_value(member, data, offset, depth, seen)
            if member.is_base and not fortran:
                name = self._base_name(member.type)
                texts.append(f"<{name}> = {text}")
                value[f"<{name}>"] = plain
            elif member.name is None:
                texts.append(text)
                value.update(plain if isinstance(plain, dict) else {})
            else:
                texts.append(f"{member.name} = {text}")
                value[member.name] = plain
        if fortran:
            return f"( {', '.join(texts)} )", value
        return f"{{{', '.join(texts) or '<No data fields>'}}}", value

    def _base_name(self, type_: Place) -> str:
        return type_name(self._types.info, type_)

    def _member_value(
        self, member: MemberRow, data: _Bytes, offset: int, depth: int, seen: set[tuple[str, int, int]]
    ) -> tuple[str, Json]:
        if member.bits is not None and member.first_bit is not None:
            self._parts += 1
            return self._bit_field(member.type, data, 8 * offset + member.first_bit, member.bits)
        at = offset + member.offset
        if member.expression is not None:
            seen.add(key_of(member.type))
            address = data.at(offset)
            if address is None:
                raise Unsupported("the place of a virtual base class is known only of objects in memory")
            base = self._types.evaluate(member.type, member.expression, address, (address,))
            data, at = _Bytes(self._read, base, size=self._types.size_of(member.type) or 0), 0
        if member.is_base and depth < _MAX_DEPTH:
            found, tag, _, _ = self._types.resolve(member.type)
            if tag in dw.STRUCTURES:
                self._parts += 1
                return self._structure(found, data, at, depth + 1, seen)
        return self._value(member.type, data, at, depth + 1)

    # Arrays and Fortran's strings

    def _array(
        self, place: Place, attributes: dict[int, Value], data: _Bytes, offset: int, depth: int
    ) -> tuple[str, Json]:
        if dw.DW_AT_TYPE not in attributes:
            raise MalformedFile("an array without a type of its elements")
        address = data.at(offset)
        missing = self._types.missing(place, attributes, address)
        if missing is not None:
            return missing, None
        element = self._types.info.target(place.unit, attributes[dw.DW_AT_TYPE])
        shape = self._types.dimensions(place, attributes, element, address)
        start = self._types.data_start(place, attributes, address)
        if start is not None:
            last = sum(max(d.length - 1, 0) * max(d.stride, 0) for d in shape)
            data, offset = _Bytes(self._read, start, size=last + self._types.info.size_at(element)), 0
        return self._nested(place, element, shape, data, offset, depth)

    def _nested(
        self, place: Place, element: Place, shape: Sequence[Dimension], data: _Bytes, offset: int, depth: int
    ) -> tuple[str, Json]:
        self._parts += 1
        if not shape or depth > _MAX_DEPTH or self._parts > _MAX_PARTS:
            self._truncated = True
            return "...", None
        kind = self._types.character(element) if len(shape) == 1 and shape[0].length else None
        if kind is not None and self._options.letter in ("", "s"):
            return self._string(kind, place, shape[0], data, offset)
        count = shape[0].length
        texts: list[str] = []
        values: list[Json] = []
        index = things = 0
        while index < count:
            if things >= self._options.elements or len(values) >= _MAX_ELEMENTS or self._parts > _MAX_PARTS:
                self._truncated = True
                break
            at = offset + index * shape[0].stride
            if len(shape) > 1:
                text, value = self._nested(place, element, shape[1:], data, at, depth + 1)
            else:
                text, value = self._value(element, data, at, depth + 1)
            run, whole = self._run(shape, data, offset, index, self._types.info.size_at(element))
            if run > self._options.repeats:
                texts.append(self._repeated(place, text, run))
                things += self._options.repeats
                shown = min(run, self._options.elements)
                self._truncated = self._truncated or shown < run or not whole
                values += [value] * shown
                index += run
            else:
                texts.append(text)
                values.append(value)
                things += 1
                index += 1
        more = index < count
        if is_fortran(place.unit):
            joined = (" " if len(shape) > 1 else ", ").join(texts)
            return f"({joined}{', ...' if more else ''})", values
        return f"{{{', '.join(texts)}{'...' if more else ''}}}", values

    def _repeated(self, place: Place, text: str, run: int) -> str:
        return f"{text}{',' if is_fortran(place.unit) else ''} <repeats {run} times>"

    def _run(
        self, shape: Sequence[Dimension], data: _Bytes, offset: int, index: int, element_size: int
    ) -> tuple[int, bool]:
        # How often in a row the element at *index* comes, as far as that is looked for, and whether it was to the end.
        stride, count = shape[0].stride, shape[0].length
        size = element_size
        for dimension in reversed(shape[1:]):
            if dimension.stride != size:
                return 1, True  # its elements are apart: what is between them is not its own
            size = dimension.stride * dimension.length
        if size <= 0 or stride <= 0 or size > _MAX_SCANNED:
            return 1, True
        last = min(count, index + _MAX_SCANNED // stride)
        first = data.take(offset + index * stride, size)
        following = index + 1
        while following < last and data.take(offset + following * stride, size) == first:
            following += 1
            # A long run is compared many at a time, as long as they are all equal.
            many = min(_WINDOW // size, last - following)
            while size == stride and following - index > self._options.repeats and many > 1:
                if data.take(offset + following * stride, many * size) != first * many:
                    break
                following += many
                many = min(_WINDOW // size, last - following)
        return following - index, following < last or last == count

    def _string(
        self, kind: tuple[int, str, bool], place: Place, dimension: Dimension, data: _Bytes, offset: int
    ) -> tuple[str, Json]:
        width, prefix, is_char = kind
        order = place.unit.sections.byte_order
        limit = min(dimension.length, _MAX_STRING)
        if dimension.stride == width:
            raw = data.take(offset, limit * width)
        else:
            raw = b"".join(data.take(offset + n * dimension.stride, width) for n in range(limit))
        units = list(split_units(raw, width, order))
        cut = limit < dimension.length
        ends = not cut and len(units) > 1 and not units[-1] and not is_fortran(place.unit)
        length = len(units) - ends
        text = format_string(
            units[:length],
            width=width,
            prefix=prefix,
            quote="'" if is_fortran(place.unit) else '"',
            limit=self._options.elements,
            repeats=self._options.repeats,
            cut=cut,
        )
        self._truncated = self._truncated or text.endswith("...")
        if not is_char:
            signed = -1 if width == 1 and self._is_signed(place) else 0
            numbers = [unit - 256 if signed and unit > 127 else unit for unit in units[: self._options.elements]]
            self._truncated = self._truncated or len(numbers) < dimension.length
            return text, [plain_integer(number) for number in numbers]
        end = units.index(0) if 0 in units and not is_fortran(place.unit) else len(units)
        shown = min(end, self._options.elements)
        self._truncated = self._truncated or shown < end
        return text, _decoded(raw[: shown * width], width, order)

    def _is_signed(self, place: Place) -> bool:
        element = self._types.info.target(place.unit, self._types.info.index.entry(place)[1][dw.DW_AT_TYPE])
        found, _, attributes, names = self._types.resolve(element)
        return self._types.scalar(found, attributes, names).encoding in SIGNED

    def _fortran_string(
        self, place: Place, attributes: dict[int, Value], data: _Bytes, offset: int
    ) -> tuple[str, Json]:
        unit = place.unit
        address = data.at(offset)
        length = unit.number(attributes.get(dw.DW_AT_BYTE_SIZE))
        told = attributes.get(dw.DW_AT_STRING_LENGTH)
        if told is not None:
            if not isinstance(told.raw, bytes) or address is None:
                raise Unsupported("a string whose length is in another variable")
            size = unit.number(attributes.get(dw.DW_AT_STRING_LENGTH_BYTE_SIZE)) or unit.address_size
            where = self._types.evaluate(place, told.raw, address)
            length = int.from_bytes(self._read(where, min(size, 8)), unit.sections.byte_order)
        if length is None:
            raise Unsupported("a string whose length is not given")
        start = self._types.data_start(place, attributes, address)
        if start is not None:
            if not start:
                return "<not allocated>", None
            data, offset = _Bytes(self._read, start), 0
        shown = min(length, self._options.elements)
        raw = data.take(offset, shown)
        self._truncated = self._truncated or shown < length
        text = format_string(raw, quote="'", limit=shown + 1, repeats=self._options.repeats, cut=shown < length)
        return text, _decoded(raw, 1, unit.sections.byte_order)


def format_value(
    info: TypeInfo,
    place: Place,
    read: Read,
    source: int | bytes,
    *,
    options: Options = Options(),
    symbolize: Symbolize = lambda address: None,
    bias: int = 0,
) -> Shown:
    """Return the value of the type at *place* that is at the address *source*, or whose bytes *source* is.

    For several values of a type a :class:`ValueFormatter` is kept, which does not read the type again.

    :param info: the types of the file that *place* is in
    :param read: what gives the target's bytes, of what pointers lead to
    :param symbolize: what names an address
    :param bias: what is added to the file's addresses to get the target's
    :raises OmpdError: MemoryFault as *read* does; Unsupported and MalformedFile where the type does not say
    """
    return ValueFormatter(TypeReader(info, read, bias), options, symbolize).show(place, source)


def _decoded(raw: bytes, width: int, order: ByteOrder) -> str:
    # Characters for JSON: what is no text stands there as \xff.
    if width == 1:
        return raw.decode("utf-8", "backslashreplace")
    return raw.decode(f"utf-{8 * width}-{'le' if order == 'little' else 'be'}", "backslashreplace")
