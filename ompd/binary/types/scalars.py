"""Read numbers, characters and strings from bytes, and format them like gdb's ``print``."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import groupby
from typing import NamedTuple

from ompd.binary.cursor import ByteOrder
from ompd.errors import Unsupported

LARGEST_EXACT = 1 << 53
"""Integers up to this value are exact for JSON readers whose only numbers are doubles."""

_ESCAPES = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r"}


class _Format(NamedTuple):
    # Widths in bits. ``leading`` is True if the leading bit is stored; IEEE formats imply this bit.
    exponent: int
    mantissa: int
    leading: bool


_FORMATS = {"half": _Format(5, 10, False), "bfloat": _Format(8, 7, False), "single": _Format(8, 23, False)}
_FORMATS |= {"double": _Format(11, 52, False), "x87": _Format(15, 64, True), "quad": _Format(15, 112, False)}
_BY_SIZE = {2: "half", 4: "single", 8: "double", 10: "x87", 12: "x87", 16: "quad"}
_QUADS = ("float128", "real(kind=16)", "complex(kind=16)", "real*16", "complex*32")


def float_format(name: str, size: int, *, x87: bool) -> str:
    """Return the format of a floating-point type, given its name and size in bytes: ``half`` … ``x87``, ``quad``.

    :param x87: whether ``long double`` has the x87's 80-bit format, whatever its size
    :raises Unsupported: if there is no format of this size
    """
    if size == 2 and "bf" in name:
        return "bfloat"
    if size == 16 and x87 and not any(word in name.lower() for word in _QUADS):
        return "x87"
    if size not in _BY_SIZE:
        raise Unsupported(f"a floating-point number of {size} bytes")
    return _BY_SIZE[size]


class Float(NamedTuple):
    """A floating-point number: the exact ``value``, None for NaN and infinity, and its ``text``."""

    value: Fraction | None
    text: str
    format: str

    @property
    def plain(self) -> float | str:
        """The value for JSON: a number if a double can hold it, else text such as ``NaN`` or ``-Infinity``."""
        if self.value is None:
            return "NaN" if "nan" in self.text else "-Infinity" if self.text.startswith("-") else "Infinity"
        try:
            number = float(self.value)
        except OverflowError:
            return self.text
        if self.value == 0:
            return -0.0 if self.text.startswith("-") else 0.0
        return number if Fraction(number) == self.value else self.text


def parse_float(raw: bytes, kind: str, byte_order: ByteOrder) -> Float:
    """Return the number in the first bytes of *raw*. The number's text has enough digits to distinguish it from all
    other numbers of its format.
    """
    exponent_bits, mantissa_bits, leading = layout = _FORMATS[kind]
    width = 1 + exponent_bits + mantissa_bits
    word = int.from_bytes(raw[: width // 8] if byte_order == "little" else raw[-(width // 8) :], byte_order)
    if kind in ("single", "double"):
        return _native(word, kind, layout)
    sign = "-" if word >> (width - 1) else ""
    exponent = word >> mantissa_bits & (1 << exponent_bits) - 1
    mantissa = word & (1 << mantissa_bits) - 1
    if exponent == (1 << exponent_bits) - 1:
        if mantissa & (1 << mantissa_bits - leading) - 1 == 0:
            return Float(None, f"{sign}inf", kind)
        return Float(None, f"{sign}nan({mantissa:#x})", kind)
    fraction_bits = mantissa_bits - leading
    if not leading and exponent:
        mantissa |= 1 << mantissa_bits
    scale = max(exponent, 1) - ((1 << exponent_bits - 1) - 1) - fraction_bits
    value = Fraction(mantissa << scale) if scale >= 0 else Fraction(mantissa, 1 << -scale)
    digits = math.ceil(1 + (fraction_bits + 1) * math.log10(2))
    text = sign + _general(value, digits)
    return Float(-value if sign else value, text, kind)


def _native(word: int, kind: str, layout: _Format) -> Float:
    # Python formats these numbers itself, which is faster and rounds like the C library.
    pair = ("<I", "<f", 9) if kind == "single" else ("<Q", "<d", 17)
    (number,) = struct.unpack(pair[1], struct.pack(pair[0], word))
    if math.isfinite(number):
        return Float(Fraction(number), f"{number:.{pair[2]}g}", kind)
    sign = "-" if word >> layout.exponent + layout.mantissa else ""
    mantissa = word & (1 << layout.mantissa) - 1
    return Float(None, f"{sign}nan({mantissa:#x})" if mantissa else f"{sign}inf", kind)


def _general(value: Fraction, digits: int) -> str:
    # C's "%.{digits}g" of a number that is not negative, rounded to even.
    if not value:
        return "0"
    power = math.floor((value.numerator.bit_length() - value.denominator.bit_length()) * math.log10(2)) - 1
    while value >= Fraction(10) ** (power + 1):  # at most three times
        power += 1
    scaled = round(value / Fraction(10) ** (power - digits + 1))
    if scaled == 10**digits:
        scaled, power = scaled // 10, power + 1
    text = str(scaled)
    if -4 <= power < digits:
        integer, fraction = (text[: power + 1], text[power + 1 :]) if power >= 0 else ("0", "0" * (-power - 1) + text)
        return f"{integer}.{fraction}".rstrip("0").rstrip(".")
    mantissa = f"{text[0]}.{text[1:]}".rstrip("0").rstrip(".")
    return f"{mantissa}e{'-' if power < 0 else '+'}{abs(power):02}"


def plain_integer(value: int) -> int | str:
    """Return an integer for JSON. Integers above 2**53, which not every reader can hold, become strings of digits."""
    return value if -LARGEST_EXACT <= value <= LARGEST_EXACT else str(value)


def format_integer(value: int, letter: str, size: int) -> str:
    """Return an integer of *size* bytes in the format of gdb's *letter*: x, o, t, d, u, z."""
    bits = 8 * size
    unsigned = value & (1 << bits) - 1
    if letter == "x":
        return f"{unsigned:#x}"
    if letter == "z":
        return f"{unsigned:#0{2 * size + 2}x}"
    if letter == "o":
        return f"0{unsigned:o}" if unsigned else "0"
    if letter == "t":
        return f"{unsigned:b}"
    if letter == "u":
        return str(unsigned)
    return str(unsigned - (1 << bits) if unsigned >> bits - 1 else unsigned)


# Characters and strings


def _escaped(unit: int, width: int, quote: str) -> str:
    # A unit of a string, *width* bytes wide, as written between quotes.
    if unit in _ESCAPES:
        return _ESCAPES[unit]
    if unit < 128 or (width > 1 and unit <= 0x10FFFF and not 0xD800 <= unit < 0xE000):
        character = chr(unit)
        if character.isprintable():
            return "\\" + character if character in (quote, "\\") else character
    return f"\\{unit:03o}" if unit <= 0o777 else f"\\x{unit:x}"


def format_character(value: int, width: int = 1, prefix: str = "") -> str:
    """Return a character in gdb's form: ``97 'a'``, ``120 L'x'``."""
    return f"{value} {prefix}'{_escaped(value & (1 << 8 * width) - 1, width, chr(39))}'"


def _characters(units: Sequence[int], width: int) -> Iterator[int | str]:
    # Bytes that form a UTF-8 character are yielded as one str, all others as units.
    position = 0
    while position < len(units):
        unit = units[position]
        if width == 1 and 0xC2 <= unit < 0xF5:
            count = 4 if unit >= 0xF0 else 3 if unit >= 0xE0 else 2
            try:
                character = bytes(units[position : position + count]).decode("utf-8")
            except UnicodeDecodeError:
                character = ""
            if len(character) == 1 and character.isprintable():
                yield character
                position += count
                continue
        yield unit
        position += 1


def format_string(
    units: Sequence[int],
    *,
    width: int = 1,
    prefix: str = "",
    quote: str = '"',
    limit: int = 200,
    repeats: int = 10,
    cut: bool = False,
) -> str:
    """Return a string in gdb's form: in quotes. A character that repeats more than *repeats* times is shown separately.

    :param limit: the number of characters to show. The rest is left out, but a run of equal characters is not divided
    :param cut: whether the string has more characters than *units*
    """
    segments: list[str] = []
    plain = ""
    shown = 0
    # Characters after the limit are not examined.
    for character, repeats_of in groupby(_characters(units, width)):
        if shown >= limit:
            cut = True
            break
        piece = character if isinstance(character, str) else _escaped(character, width, quote)
        count = sum(1 for _ in repeats_of)
        shown += count
        if count > repeats:
            if plain:
                segments.append(f"{prefix}{quote}{plain}{quote}")
            mark = "'"
            single = piece if quote == mark else {'\\"': '"', mark: "\\'"}.get(piece, piece)
            segments.append(f"{prefix}{mark}{single}{mark} <repeats {count} times>")
            plain = ""
        else:
            plain += piece * count
    if plain or not segments:
        segments.append(f"{prefix}{quote}{plain}{quote}")
    return ", ".join(segments) + ("..." if cut else "")


def split_units(raw: bytes, width: int, byte_order: ByteOrder) -> Iterator[int]:
    """Yield the units of *raw*, *width* bytes each."""
    for offset in range(0, len(raw) - width + 1, width):
        yield int.from_bytes(raw[offset : offset + width], byte_order)
