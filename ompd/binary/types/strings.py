"""Format strings: arrays of characters, pointers to characters, and Fortran strings."""

from __future__ import annotations

from collections.abc import Sequence

from ompd.binary.cursor import ByteOrder
from ompd.binary.dwarf import constants as dw
from ompd.binary.dwarf.forms import Value
from ompd.binary.dwarf.index import EntryRef
from ompd.binary.types.arrays import Dimension, is_fortran
from ompd.binary.types.layouts import SIGNED, WIDE, TypeReader
from ompd.binary.types.scalars import format_string, plain_integer, split_units
from ompd.binary.types.shown import Json, Options, ValueBytes
from ompd.errors import MemoryFault, OmpdError, Unsupported

_MAX_STRING = 1 << 16


class StringFormatter:
    """Formats strings. ``truncated`` becomes True if the end of a string is left out."""

    def __init__(self, types: TypeReader, options: Options) -> None:
        self._types = types
        self._read = types.read
        self._options = options
        self.truncated = False

    def is_plain_string(self, target: EntryRef | None) -> bool:
        """Return whether a pointer to *target* needs no type before its string, as ``char *``: the quotes already show
        it.
        """
        if target is None:
            return False
        try:
            definition, tag, attributes, names = self._types.resolve(target)
        except OmpdError:
            return False
        if tag != dw.DW_TAG_BASE_TYPE:
            return False
        return names[0] in WIDE if names else definition.unit.string(attributes.get(dw.DW_AT_NAME)) in ("char", *WIDE)

    def pointed_string(self, target: EntryRef | None, address: int) -> tuple[str, Json] | None:
        """Return the string at *address*, None if *target* is not a character type."""
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
        self.truncated = self.truncated or not ended
        return text, _decoded(raw, width, order)

    def _read_units(self, address: int, width: int, limit: int) -> tuple[bytes, bool, int | None]:
        # The characters, whether a NUL terminates them, and the address at which memory ends before the NUL.
        raw = b""
        limit = min(limit * width, _MAX_STRING)
        while len(raw) < limit:
            start = address + len(raw)
            # Do not read across the end of a page, because memory may end there.
            size = min(max(width, (256 - start % 256) // width * width), limit - len(raw))
            try:
                piece = self._read(start, size)
            except MemoryFault:
                return raw, False, start
            for index in range(0, len(piece), width):
                if not any(piece[index : index + width]):
                    return raw + piece[:index], True, None
            raw += piece
        try:
            ended = not any(self._read(address + limit, width))
        except MemoryFault:
            ended = False
        return raw, ended, None

    def _pointed_fortran_string(self, target: EntryRef, address: int) -> tuple[str, Json] | None:
        try:
            definition, tag, attributes, _ = self._types.resolve(target)
            if tag != dw.DW_TAG_STRING_TYPE or dw.DW_AT_STRING_LENGTH not in attributes:
                return None
            return self.fortran_string(definition, attributes, ValueBytes(self._read, address), 0)
        except (MemoryFault, Unsupported):
            return None

    def string(
        self, kind: tuple[int, str, bool], place: EntryRef, dimension: Dimension, data: ValueBytes, offset: int
    ) -> tuple[str, Json]:
        """Return the array of characters of *kind* (width, prefix, whether the type is char itself) at *offset* of
        *data*.
        """
        width, prefix, is_char = kind
        order = place.unit.sections.byte_order
        limit = min(dimension.length, _MAX_STRING)
        if dimension.stride == width:
            raw = data.take(offset, limit * width)
        else:
            raw = b"".join(data.take(offset + n * dimension.stride, width) for n in range(limit))
        units: Sequence[int] = raw if width == 1 else list(split_units(raw, width, order))
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
        self.truncated = self.truncated or text.endswith("...")
        if not is_char:
            signed = -1 if width == 1 and self._is_signed(place) else 0
            numbers = [unit - 256 if signed and unit > 127 else unit for unit in units[: self._options.elements]]
            self.truncated = self.truncated or len(numbers) < dimension.length
            return text, [plain_integer(number) for number in numbers]
        end = units.index(0) if 0 in units and not is_fortran(place.unit) else len(units)
        shown = min(end, self._options.elements)
        self.truncated = self.truncated or shown < end
        return text, _decoded(raw[: shown * width], width, order)

    def _is_signed(self, place: EntryRef) -> bool:
        element = self._types.info.target(place.unit, self._types.info.index.entry(place)[1][dw.DW_AT_TYPE])
        definition, _, attributes, names = self._types.resolve(element)
        return self._types.scalar(definition, attributes, names).encoding in SIGNED

    def fortran_string(
        self, place: EntryRef, attributes: dict[int, Value], data: ValueBytes, offset: int
    ) -> tuple[str, Json]:
        """Return the value of a Fortran string type."""
        unit = place.unit
        address = data.at(offset)
        length = unit.number(attributes.get(dw.DW_AT_BYTE_SIZE))
        length_location = attributes.get(dw.DW_AT_STRING_LENGTH)
        if length_location is not None:
            if not isinstance(length_location.raw, bytes) or address is None:
                raise Unsupported("a string whose length is in another variable")
            size = unit.number(attributes.get(dw.DW_AT_STRING_LENGTH_BYTE_SIZE)) or unit.address_size
            where = self._types.evaluate(place, length_location.raw, address)
            length = int.from_bytes(self._read(where, min(size, 8)), unit.sections.byte_order)
        if length is None:
            raise Unsupported("a string whose length is not given")
        start = self._types.data_start(place, attributes, address)
        if start is not None:
            if not start:
                return "<not allocated>", None
            data, offset = ValueBytes(self._read, start), 0
        shown = min(length, self._options.elements)
        raw = data.take(offset, shown)
        self.truncated = self.truncated or shown < length
        text = format_string(raw, quote="'", limit=shown + 1, repeats=self._options.repeats, cut=shown < length)
        return text, _decoded(raw, 1, unit.sections.byte_order)


def _decoded(raw: bytes, width: int, order: ByteOrder) -> str:
    # Characters for JSON. Bytes that do not decode are written as \xff.
    if width == 1:
        return raw.decode("utf-8", "backslashreplace")
    return raw.decode(f"utf-{8 * width}-{'le' if order == 'little' else 'be'}", "backslashreplace")
