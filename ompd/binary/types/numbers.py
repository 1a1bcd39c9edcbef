"""Format values of base types and enumerations, also in bit fields: numbers, characters, truth values."""

from __future__ import annotations

from collections.abc import Sequence

from ompd.binary.cursor import ByteOrder
from ompd.binary.dwarf import constants as dw
from ompd.binary.dwarf.forms import Value
from ompd.binary.dwarf.index import EntryRef
from ompd.binary.types.arrays import is_fortran
from ompd.binary.types.layouts import CHARACTERS, SIGNED, WHOLE, Enumeration, Scalar, TypeReader
from ompd.binary.types.scalars import (
    Float,
    float_format,
    format_character,
    format_integer,
    parse_float,
    plain_integer,
)
from ompd.binary.types.shown import Json, Options, Symbolize, ValueBytes
from ompd.binary.types.type_names import type_name
from ompd.errors import Unsupported

_MAX_SCALAR = 64


class NumberFormatter:
    """Formats values that consist of one number.

    :param symbolize: returns the name of an address, None without one
    """

    def __init__(self, types: TypeReader, options: Options, symbolize: Symbolize) -> None:
        self._types = types
        self._options = options
        self._symbolize = symbolize

    def address_text(self, address: int, *, always: bool = False) -> str:
        """Return an address as text, followed by the name of the symbol there."""
        name = self._symbolize(address) if always or address else None
        return f"{address:#x} <{name}>" if name is not None else f"{address:#x}"

    def number(self, place: EntryRef, data: ValueBytes, offset: int, size: int) -> int:
        """Return the unsigned integer of *size* bytes at *offset*."""
        return int.from_bytes(data.take(offset, size), place.unit.sections.byte_order)

    def base(
        self, place: EntryRef, attributes: dict[int, Value], names: Sequence[str], data: ValueBytes, offset: int
    ) -> tuple[str, Json]:
        """Return the value of the base type at *place*, as text and for JSON."""
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
        # An integer, a character or a truth value. For a bit field, *bits* is its width.
        letter, width = self._options.letter, bits if bits is not None else 8 * scalar.size
        signed = scalar.encoding in SIGNED or (fortran and scalar.encoding == dw.DW_ATE_BOOLEAN)
        value = word - (1 << width) if signed and word >> width - 1 else word
        plain = plain_integer(value)
        if scalar.encoding == dw.DW_ATE_BOOLEAN and value in (0, 1):
            plain = bool(value)
        if letter not in ("", "s"):
            return self.lettered(value, scalar.size, signed, bits), plain
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

    def lettered(self, value: int, size: int, signed: bool, bits: int | None = None) -> str:
        """Return a number as text in the format that ``Options.letter`` selects."""
        letter = self._options.letter
        if letter == "a":
            return self.address_text(value & (1 << 64) - 1, always=True)
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
            return self.lettered(int(number.value) if number.value is not None else 0, 8, signed=True)
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

    def bit_field(self, place: EntryRef, data: ValueBytes, first_bit: int, bits: int) -> tuple[str, Json]:
        """Return the value of a bit field of type *place* with *bits* bits from *first_bit* on, as text and for
        JSON.
        """
        definition, tag, attributes, names = self._types.resolve(place)
        start, end = first_bit // 8, -(-(first_bit + bits) // 8)
        if end - start > _MAX_SCALAR:
            raise Unsupported(f"a bit field of {bits} bits")
        order = definition.unit.sections.byte_order
        word = int.from_bytes(data.take(start, end - start), order)
        word >>= first_bit - 8 * start if order == "little" else 8 * end - first_bit - bits
        word &= (1 << bits) - 1
        if tag == dw.DW_TAG_ENUMERATION_TYPE:
            enumeration = self._types.enumeration(definition)
            negative = word >> bits - 1 and any(value < 0 for value in enumeration.names)
            mask = (1 << 8 * enumeration.size) - 1
            return self.enumerator(enumeration, (word - (1 << bits) if negative else word) & mask)
        if tag != dw.DW_TAG_BASE_TYPE:
            raise Unsupported(f"a bit field of type {type_name(self._types.info, place)}")
        return self._whole(self._types.scalar(definition, attributes, names), word, is_fortran(definition.unit), bits)

    def enumerator(self, enumeration: Enumeration, word: int) -> tuple[str, Json]:
        """Return the value of an enumeration as text and for JSON: the name of *word*, or the names of its bits."""
        bits = 8 * enumeration.size
        signed = word - (1 << bits) if word >> bits - 1 else word
        # An enumeration with a negative enumerator is a signed type.
        value = signed if any(number < 0 for number in enumeration.names) else word
        name = enumeration.names.get(value)
        if self._options.letter not in ("", "s"):
            return self.lettered(value, enumeration.size, signed=value < 0), name if name is not None else value
        if name is not None:
            return name, name
        if enumeration.flags is None or not enumeration.names or value == 0:
            return str(value), plain_integer(value)
        words = [label for bit, label in enumeration.flags if bit & value]
        unnamed = value & ~sum(bit for bit, _ in enumeration.flags)
        if unnamed:
            words.append(f"unknown: {unnamed:#x}")
        text = f"({' | '.join(words)})"
        return text, text.strip("()") if not unnamed else plain_integer(value)
