"""Names of functions in DWARF, qualified by their scopes, without parameters.

Examples: ``space::Class::method``, ``twice<int>``. Unnamed namespaces are ``(anonymous namespace)``, as in gdb; classes
of lambdas are ``{lambda}``. A class in a function is qualified by the function. In C and Fortran, a name is
``DW_AT_name``, without scopes.
"""

from __future__ import annotations

from collections.abc import Callable

from ompd.binary.dwarf import constants as dw
from ompd.binary.dwarf.files import DebugFiles
from ompd.binary.dwarf.forms import Value
from ompd.binary.dwarf.units import Unit
from ompd.errors import MalformedFile, Unsupported

_TYPES = dw.STRUCTURES | {dw.DW_TAG_ENUMERATION_TYPE, dw.DW_TAG_INTERFACE_TYPE}
_WITHOUT_SCOPES = dw.C_LANGUAGES | dw.FORTRAN_LANGUAGES

_MAX_REFERENCES = 8
_MAX_SCOPES = 32
_MAX_NAME = 1 << 16

Known = dict[int, tuple[Unit, Value]]


class Names:
    """The names of functions in one module's debug information.

    :param is_outlined: returns whether a compiler outlined the function with that name from a construct. Such a
        function gets its symbol as name
    """

    def __init__(self, files: DebugFiles, is_outlined: Callable[[str], bool]) -> None:
        self._files = files
        self._is_outlined = is_outlined
        self._known: dict[tuple[str, int, int], str | None] = {}

    def described(self, unit: Unit, offset: int) -> tuple[Known, Unit, int]:
        """Return the attributes of the function at *offset* of *unit*, each with the unit that has it, and unit and
        offset of the original declaration.

        :raises MalformedFile: if the entries are malformed
        :raises Unsupported: if an entry is in a file that is not available
        """
        # A definition has only the attributes that its declaration (C++) or abstract instance (an inlined function)
        # lacks. The declaration and the abstract instance may be in other units, with their own strings and files.
        attributes: Known = {}
        for _ in range(_MAX_REFERENCES):
            _, entry = unit.entry_at(offset)
            for attribute, value in entry.items():
                attributes.setdefault(attribute, (unit, value))
            origin = entry.get(dw.DW_AT_ABSTRACT_ORIGIN) or entry.get(dw.DW_AT_SPECIFICATION)
            if origin is None:
                return attributes, unit, offset
            unit, offset = self._files.target(unit, origin)
        raise MalformedFile(f"{self._files.name}: a chain of entries does not end", offset=unit.offset + offset)

    def function(self, unit: Unit, offset: int) -> str | None:
        """Return the name of the function whose entry is at *offset* of *unit*, None if it is unknown.

        :raises MalformedFile: if the entries are malformed
        """
        key = unit.section, unit.offset, offset
        if key not in self._known:
            try:
                self._known[key] = self._function(unit, offset)
            except Unsupported:
                self._known[key] = None  # it is in a file that is not available
        return self._known[key]

    def _function(self, unit: Unit, offset: int) -> str | None:
        attributes, unit, offset = self.described(unit, offset)
        name = text_of(attributes, dw.DW_AT_NAME)
        linkage = text_of(attributes, dw.DW_AT_LINKAGE_NAME) or text_of(attributes, dw.DW_AT_MIPS_LINKAGE_NAME)
        if name is None or self._is_outlined(name):
            return linkage or name
        if has_no_scopes(unit):
            return name
        parts = [name]
        if not self._add_scopes(parts, unit, offset) and linkage is not None:
            from ompd.binary.demangle import demangle

            demangled = demangle(linkage)
            if demangled is not None:
                return demangled
        qualified = "::".join(reversed(parts))
        return qualified if len(qualified) <= _MAX_NAME else None

    def _add_scopes(self, parts: list[str], unit: Unit, offset: int) -> bool:
        # Add the names of the scopes around an entry, innermost first. Return False if the source function is unknown:
        # clang does not nest an outlined function in the function that contains the construct.
        inner: int | None = None  # the tag of the scope inside of this one
        is_complete = True
        for _ in range(_MAX_SCOPES):
            around = self._files.around(unit, offset)
            if around is None:
                return is_complete
            offset = around
            tag, _ = unit.entry_at(offset)
            if tag == dw.DW_TAG_SUBPROGRAM and inner not in _TYPES:
                return True  # gcc nests functions of C, and outlined functions
            if tag == dw.DW_TAG_SUBPROGRAM or tag in _TYPES:
                # The scope's declaration may be elsewhere.
                attributes, unit, offset = self.described(unit, offset)
                if dw.DW_AT_SIGNATURE in attributes:  # the name and scopes of a type are in its type unit
                    unit, offset = self._files.target(*attributes[dw.DW_AT_SIGNATURE])
                    attributes, unit, offset = self.described(unit, offset)
                name = text_of(attributes, dw.DW_AT_NAME)
                if tag == dw.DW_TAG_SUBPROGRAM:
                    is_complete = name is not None and not self._is_outlined(name)
                    if name is None or not is_complete:
                        continue  # gcc nests an outlined function, which gets no part in the name
                    parts.append(name)
                else:
                    parts.append(name or ("{lambda}" if parts[-1].startswith("operator()") else "{unnamed}"))
            elif tag == dw.DW_TAG_NAMESPACE:
                attributes, unit, offset = self.described(unit, offset)
                parts.append(text_of(attributes, dw.DW_AT_NAME) or "(anonymous namespace)")
            else:
                continue  # a block, a unit
            inner = tag
        raise MalformedFile(f"{self._files.name}: scopes do not end", offset=unit.offset + offset)

    def function_around(self, unit: Unit, offset: int) -> tuple[str, str | None] | None:
        """Return name and symbol of the function around the entry at *offset* of *unit*, None if the entry is in no
        function.

        :raises MalformedFile: if the entries are malformed
        """
        for _ in range(_MAX_SCOPES):
            around = self._files.around(unit, offset)
            if around is None:
                return None
            offset = around
            if unit.entry_at(offset)[0] == dw.DW_TAG_SUBPROGRAM:
                name = self.function(unit, offset)
                attributes, _, _ = self.described(unit, offset)
                return (name, text_of(attributes, dw.DW_AT_LINKAGE_NAME)) if name is not None else None
        return None


def text_of(attributes: Known, attribute: int) -> str | None:
    """Return the text of an attribute, None if the attribute is missing, or its text is empty or too long.

    :raises Unsupported: if the text is in a file that is not available
    """
    if attribute not in attributes:
        return None
    unit, value = attributes[attribute]
    text = unit.string(value)
    if text is None:
        raise Unsupported("a name is in a supplementary file (dwz's), which was not found")
    return text if text and len(text) <= _MAX_NAME else None


def has_no_scopes(unit: Unit) -> bool:
    """Return whether the unit's language has no scopes around functions, like C."""
    return unit.number(unit.top.get(dw.DW_AT_LANGUAGE)) in _WITHOUT_SCOPES
