"""Format values by their DWARF types, as text and as JSON.

The text is what gdb's ``print`` shows in the language of the type. The caller supplies the bytes: memory at an address,
a register, or joined pieces. Types and bytes are hostile input, so depth, length and the number of bytes read are
limited; ``...`` marks omissions.
"""

from __future__ import annotations

from collections.abc import Sequence

from ompd.binary.dwarf import constants as dw
from ompd.binary.dwarf.forms import Value
from ompd.binary.dwarf.index import EntryRef
from ompd.binary.types.arrays import Dimension, is_fortran
from ompd.binary.types.layouts import (
    REFERENCES,
    MemberRow,
    TypeReader,
    key_of,
)
from ompd.binary.types.numbers import NumberFormatter
from ompd.binary.types.parts import Part
from ompd.binary.types.shown import WINDOW, Json, Options, Shown, Symbolize, ValueBytes
from ompd.binary.types.strings import StringFormatter
from ompd.binary.types.type_names import type_name
from ompd.errors import MalformedFile, MemoryFault, Unsupported

_MAX_DEPTH = 24
_MAX_PARTS = 4000  # members, elements and runs of equal elements in one value
_MAX_SCANNED = 1 << 20  # bytes of one array that are compared to find runs of equal elements
_MAX_ELEMENTS = 1 << 14


class ValueFormatter:
    """Formats values of the types in one file.

    :param types: the file's types. They also read the target, for pointers, descriptors and values at addresses
    :param symbolize: returns the name of the symbol at an address, None if there is none
    """

    def __init__(
        self,
        types: TypeReader,
        options: Options = Options(),
        symbolize: Symbolize = lambda address: None,
    ) -> None:
        self._types = types
        self._read = types.read
        self._options = options
        self._numbers = NumberFormatter(types, options, symbolize)
        self._strings = StringFormatter(types, options)
        self._parts = 0
        self._truncated = False

    # For callers

    def show(self, place: EntryRef, source: int | bytes) -> Shown:
        """Return the formatted value of the type at *place*. *source* is its address or its bytes.

        :raises OmpdError: if the value cannot be read; Unsupported for some types, MalformedFile for malformed types
        """
        self._parts, self._truncated, self._strings.truncated = 0, False, False
        data = self._source(place, source)
        text, value = self._value(place, data, 0, 0, top=not self._options.bare)
        return Shown(text, value, self._truncated or self._strings.truncated)

    def show_part(self, part: Part) -> Shown:
        """Return the formatted value of *part*, like :meth:`show`."""
        if part.bits is None or part.first_bit is None:
            return self.show(part.type, part.address)
        self._parts, self._truncated, self._strings.truncated = 0, False, False
        data = ValueBytes(self._read, part.address, size=-(-(part.first_bit + part.bits) // 8))
        text, value = self._numbers.bit_field(part.type, data, part.first_bit, part.bits)
        return Shown(text, value, False)

    def _source(self, place: EntryRef, source: int | bytes) -> ValueBytes:
        if isinstance(source, bytes):
            return ValueBytes(self._read, None, source)
        return ValueBytes(self._read, source, size=self._types.size_of(place) or 0)

    # Values

    def _value(
        self, place: EntryRef, data: ValueBytes, offset: int, depth: int, *, top: bool = False
    ) -> tuple[str, Json]:
        self._parts += 1
        if depth > _MAX_DEPTH or self._parts > _MAX_PARTS:
            self._truncated = True
            return "...", None
        definition, tag, attributes, names = self._types.resolve(place)
        if tag == dw.DW_TAG_BASE_TYPE:
            return self._numbers.base(definition, attributes, names, data, offset)
        if tag in dw.STRUCTURES:
            return self._structure(definition, data, offset, depth)
        if tag == dw.DW_TAG_ARRAY_TYPE:
            return self._array(definition, attributes, data, offset, depth)
        if tag == dw.DW_TAG_POINTER_TYPE:
            return self._pointer(place, definition, attributes, data, offset, top)
        if tag in REFERENCES:
            return self._reference(place, definition, attributes, data, offset, depth, top)
        if tag == dw.DW_TAG_ENUMERATION_TYPE:
            enumeration = self._types.enumeration(definition)
            return self._numbers.enumerator(
                enumeration, self._numbers.number(definition, data, offset, enumeration.size)
            )
        if tag == dw.DW_TAG_STRING_TYPE:
            return self._strings.fortran_string(definition, attributes, data, offset)
        if tag == dw.DW_TAG_PTR_TO_MEMBER_TYPE:
            return self._member_pointer(definition, attributes, data, offset)
        if tag == dw.DW_TAG_SUBRANGE_TYPE and dw.DW_AT_TYPE in attributes:
            return self._value(
                self._types.info.target(definition.unit, attributes[dw.DW_AT_TYPE]), data, offset, depth + 1
            )
        if tag == dw.DW_TAG_UNSPECIFIED_TYPE:
            return "0", "0x0"
        raise Unsupported(f"values of {type_name(self._types.info, place)} (DWARF tag {tag:#x}) are not supported")

    # Pointers

    def _pointer(
        self,
        place: EntryRef,
        definition: EntryRef,
        attributes: dict[int, Value],
        data: ValueBytes,
        offset: int,
        top: bool,
    ) -> tuple[str, Json]:
        size = definition.unit.number(attributes.get(dw.DW_AT_BYTE_SIZE)) or definition.unit.address_size
        if not 0 < size <= 16:
            raise MalformedFile(f"a pointer of {size} bytes")
        address = self._numbers.number(definition, data, offset, size)
        letter, plain = self._options.letter, f"{address:#x}"
        if letter not in ("", "s", "a"):
            return self._numbers.lettered(address, size, signed=False), plain
        text = self._numbers.address_text(address)
        if letter == "a":
            return text, plain
        target = (
            self._types.info.target(definition.unit, attributes[dw.DW_AT_TYPE]) if dw.DW_AT_TYPE in attributes else None
        )
        string = self._strings.pointed_string(target, address)
        prefix = f"({type_name(self._types.info, place)}) " if top and not self._strings.is_plain_string(target) else ""
        if string is None:
            return prefix + text, plain
        # Show the address, and the name of a symbol there, before the string.
        return f"{prefix}{text} {string[0]}", {"address": plain, "string": string[1]}

    def _member_pointer(
        self, definition: EntryRef, attributes: dict[int, Value], data: ValueBytes, offset: int
    ) -> tuple[str, Json]:
        # Itanium ABI: for data an offset, -1 for null; for a member function its address and an adjustment of "this".
        size = definition.unit.address_size
        target = (
            self._types.info.target(definition.unit, attributes[dw.DW_AT_TYPE]) if dw.DW_AT_TYPE in attributes else None
        )
        order = definition.unit.sections.byte_order
        word = int.from_bytes(data.take(offset, size), order, signed=True)
        if (
            target is not None
            and self._types.info.index.entry(self._types.info.inner(target))[0] == dw.DW_TAG_SUBROUTINE_TYPE
        ):
            return (
                ("NULL", "0x0") if not word else (self._numbers.address_text(word & (1 << 8 * size) - 1), f"{word:#x}")
            )
        return ("NULL", None) if word == -1 else (str(word), word)

    def _reference(
        self,
        place: EntryRef,
        definition: EntryRef,
        attributes: dict[int, Value],
        data: ValueBytes,
        offset: int,
        depth: int,
        top: bool,
    ) -> tuple[str, Json]:
        address = self._numbers.number(definition, data, offset, definition.unit.address_size)
        if not top or dw.DW_AT_TYPE not in attributes:
            return f"@{address:#x}", f"{address:#x}"
        target = self._types.info.target(definition.unit, attributes[dw.DW_AT_TYPE])
        prefix = f"({type_name(self._types.info, place)}) @{address:#x}: "
        try:
            text, value = self._value(target, self._source(target, address), 0, depth + 1)
        except MemoryFault:
            return f"{prefix}<error: Cannot access memory at address {address:#x}>", None
        return (prefix + text if self._options.letter == "" else text), value

    # Structures

    def _structure(
        self,
        place: EntryRef,
        data: ValueBytes,
        offset: int,
        depth: int,
        virtual_bases: set[tuple[str, int, int]] | None = None,
    ) -> tuple[str, Json]:
        fortran = is_fortran(place.unit)
        texts: list[str] = []
        value: dict[str, Json] = {}
        virtual_bases = set() if virtual_bases is None else virtual_bases
        for member in self._types.members(place):
            if self._parts > _MAX_PARTS:
                self._truncated = True
                texts.append("...")
                break
            if member.expression is not None and key_of(member.type) in virtual_bases:
                continue  # a virtual base class is shown only once
            text, plain = self._member_value(member, data, offset, depth, virtual_bases)
            if member.is_base and not fortran:
                name = type_name(self._types.info, member.type)
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

    def _member_value(
        self, member: MemberRow, data: ValueBytes, offset: int, depth: int, virtual_bases: set[tuple[str, int, int]]
    ) -> tuple[str, Json]:
        if member.bits is not None and member.first_bit is not None:
            self._parts += 1
            return self._numbers.bit_field(member.type, data, 8 * offset + member.first_bit, member.bits)
        start = offset + member.offset
        if member.expression is not None:
            virtual_bases.add(key_of(member.type))
            address = data.at(offset)
            if address is None:
                raise Unsupported("the place of a virtual base class is known only of objects in memory")
            base = self._types.evaluate(member.type, member.expression, address, (address,))
            data, start = ValueBytes(self._read, base, size=self._types.size_of(member.type) or 0), 0
        if member.is_base and depth < _MAX_DEPTH:
            definition, tag, _, _ = self._types.resolve(member.type)
            if tag in dw.STRUCTURES:
                self._parts += 1
                return self._structure(definition, data, start, depth + 1, virtual_bases)
        return self._value(member.type, data, start, depth + 1)

    # Arrays and Fortran's strings

    def _array(
        self, place: EntryRef, attributes: dict[int, Value], data: ValueBytes, offset: int, depth: int
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
            data, offset = ValueBytes(self._read, start, size=last + self._types.info.size_at(element)), 0
        return self._nested(place, element, shape, data, offset, depth)

    def _nested(
        self, place: EntryRef, element: EntryRef, shape: Sequence[Dimension], data: ValueBytes, offset: int, depth: int
    ) -> tuple[str, Json]:
        self._parts += 1
        if not shape or depth > _MAX_DEPTH or self._parts > _MAX_PARTS:
            self._truncated = True
            return "...", None
        kind = self._types.character(element) if len(shape) == 1 and shape[0].length else None
        if kind is not None and self._options.letter in ("", "s"):
            return self._strings.string(kind, place, shape[0], data, offset)
        count = shape[0].length
        texts: list[str] = []
        values: list[Json] = []
        index = shown_count = 0
        while index < count:
            if shown_count >= self._options.elements or len(values) >= _MAX_ELEMENTS or self._parts > _MAX_PARTS:
                self._truncated = True
                break
            element_offset = offset + index * shape[0].stride
            if len(shape) > 1:
                text, value = self._nested(place, element, shape[1:], data, element_offset, depth + 1)
            else:
                text, value = self._value(element, data, element_offset, depth + 1)
            run, is_whole_run = self._run(shape, data, offset, index, self._types.info.size_at(element))
            if run > self._options.repeats:
                texts.append(f"{text}{',' if is_fortran(place.unit) else ''} <repeats {run} times>")
                shown_count += self._options.repeats
                shown = min(run, self._options.elements)
                self._truncated = self._truncated or shown < run or not is_whole_run
                values += [value] * shown
                index += run
            else:
                texts.append(text)
                values.append(value)
                shown_count += 1
                index += 1
        is_cut = index < count
        if is_fortran(place.unit):
            joined = (" " if len(shape) > 1 else ", ").join(texts)
            return f"({joined}{', ...' if is_cut else ''})", values
        return f"{{{', '.join(texts)}{'...' if is_cut else ''}}}", values

    def _run(
        self, shape: Sequence[Dimension], data: ValueBytes, offset: int, index: int, element_size: int
    ) -> tuple[int, bool]:
        # The number of equal elements from *index* on, within the limit, and whether all were compared.
        stride, count = shape[0].stride, shape[0].length
        size = element_size
        for dimension in reversed(shape[1:]):
            if dimension.stride != size:
                return 1, True  # there are gaps between elements, and bytes there belong to other objects
            size = dimension.stride * dimension.length
        if size <= 0 or stride <= 0 or size > _MAX_SCANNED:
            return 1, True
        last = min(count, index + _MAX_SCANNED // stride)
        first = data.take(offset + index * stride, size)
        following = index + 1
        while following < last and data.take(offset + following * stride, size) == first:
            following += 1
            # A long run is compared in large blocks while all elements are equal.
            many = min(WINDOW // size, last - following)
            while size == stride and following - index > self._options.repeats and many > 1:
                if data.take(offset + following * stride, many * size) != first * many:
                    break
                following += many
                many = min(WINDOW // size, last - following)
        return following - index, following < last or last == count
