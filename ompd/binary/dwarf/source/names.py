"""What the source calls a function of DWARF: its name in the scopes that it is in, without parameters.

``space::Class::method``, ``twice<int>``; namespaces without a name are ``(anonymous namespace)``, as gdb writes them,
and the classes that lambdas are ``{lambda}``. A class in a function has that function's name before its own. C and
Fortran have no scopes to tell: names there are ``DW_AT_name`` alone.
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

    :param is_outlined: tells by its name whether a compiler made a function of a construct in another: such functions
        keep the name that the linker knows
    """

    def __init__(self, files: DebugFiles, is_outlined: Callable[[str], bool]) -> None:
        self._files = files
        self._is_outlined = is_outlined
        self._known: dict[tuple[str, int, int], str | None] = {}

    def described(self, unit: Unit, offset: int) -> tuple[Known, Unit, int]:
        """Return what is known of the function at *offset* of *unit*, each attribute with the unit that says it, and
        the entry that declares it first.

        :raises MalformedFile: if the entries that lead there are malformed
        :raises Unsupported: if one is in a file that is not available
        """
        # A definition gives only what its declaration (C++) or abstract instance (an inlined function) did not. These
        # may be in other units, with strings and files of their own.
        known: Known = {}
        for _ in range(_MAX_REFERENCES):
            _, entry = unit.entry_at(offset)
            for attribute, value in entry.items():
                known.setdefault(attribute, (unit, value))
            origin = entry.get(dw.DW_AT_ABSTRACT_ORIGIN) or entry.get(dw.DW_AT_SPECIFICATION)
            if origin is None:
                return known, unit, offset
            unit, offset = self._files.target(unit, origin)
        raise MalformedFile(f"{self._files.name}: a chain of entries does not end", offset=unit.offset + offset)

    def function(self, unit: Unit, offset: int) -> str | None:
        """Return the name of the function whose entry is at *offset* of *unit*, None if it is unknown.

        :raises MalformedFile: if the entries that lead there are malformed
        """
        key = unit.section, unit.offset, offset
        if key not in self._known:
            try:
                self._known[key] = self._function(unit, offset)
            except Unsupported:
                self._known[key] = None  # it is in a file that is not available
        return self._known[key]

    def _function(self, unit: Unit, offset: int) -> str | None:
        known, unit, offset = self.described(unit, offset)
        name = text_of(known, dw.DW_AT_NAME)
        linkage = text_of(known, dw.DW_AT_LINKAGE_NAME) or text_of(known, dw.DW_AT_MIPS_LINKAGE_NAME)
        if name is None or self._is_outlined(name):
            return linkage or name
        if has_no_scopes(unit):
            return name
        parts = [name]
        if not self._add_scopes(parts, unit, offset) and linkage is not None:
            from ompd.binary.demangle import demangle

            told = demangle(linkage)
            if told is not None:
                return told
        qualified = "::".join(reversed(parts))
        return qualified if len(qualified) <= _MAX_NAME else None

    def _add_scopes(self, parts: list[str], unit: Unit, offset: int) -> bool:
        # The names of what is around an entry, from inside out. False if a function around it is unknown: what is in a
        # construct is in the function that clang made of that, and this one in none.
        inner: int | None = None  # tag of the scope that was found before
        is_told = True
        for _ in range(_MAX_SCOPES):
            around = self._files.around(unit, offset)
            if around is None:
                return is_told
            offset = around
            tag, _ = unit.entry_at(offset)
            if tag == dw.DW_TAG_SUBPROGRAM and inner not in _TYPES:
                return True  # a function in a function, as gcc has them in C, and what it outlines
            if tag == dw.DW_TAG_SUBPROGRAM or tag in _TYPES:
                # The scope may itself be declared elsewhere.
                known, unit, offset = self.described(unit, offset)
                if dw.DW_AT_SIGNATURE in known:  # of a type in a unit of its own, where its name and scopes are
                    unit, offset = self._files.target(*known[dw.DW_AT_SIGNATURE])
                    known, unit, offset = self.described(unit, offset)
                name = text_of(known, dw.DW_AT_NAME)
                if tag == dw.DW_TAG_SUBPROGRAM:
                    is_told = name is not None and not self._is_outlined(name)
                    if name is None or not is_told:
                        continue  # its own place, by gcc, is in the function that the construct is in
                    parts.append(name)
                else:
                    parts.append(name or ("{lambda}" if parts[-1].startswith("operator()") else "{unnamed}"))
            elif tag == dw.DW_TAG_NAMESPACE:
                known, unit, offset = self.described(unit, offset)
                parts.append(text_of(known, dw.DW_AT_NAME) or "(anonymous namespace)")
            else:
                continue  # a block, a unit
            inner = tag
        raise MalformedFile(f"{self._files.name}: scopes do not end", offset=unit.offset + offset)

    def function_around(self, unit: Unit, offset: int) -> tuple[str, str | None] | None:
        """Return the name of the function in which the entry at *offset* of *unit* is, and its linker's name, None
        where the entries around it tell none.

        :raises MalformedFile: if the entries that lead there are malformed
        """
        for _ in range(_MAX_SCOPES):
            around = self._files.around(unit, offset)
            if around is None:
                return None
            offset = around
            if unit.entry_at(offset)[0] == dw.DW_TAG_SUBPROGRAM:
                name = self.function(unit, offset)
                known, _, _ = self.described(unit, offset)
                return (name, text_of(known, dw.DW_AT_LINKAGE_NAME)) if name is not None else None
        return None


def text_of(known: Known, attribute: int) -> str | None:
    """Return the text of an attribute, None if there is none.

    :raises Unsupported: if it is in a file that is not available
    """
    if attribute not in known:
        return None
    unit, value = known[attribute]
    text = unit.string(value)
    if text is None:
        raise Unsupported("a name is in a supplementary file (dwz's), which was not found")
    return text if text and len(text) <= _MAX_NAME else None


def has_no_scopes(unit: Unit) -> bool:
    """Return whether the functions of a unit are in no scopes of the source, as in C."""
    return unit.number(unit.top.get(dw.DW_AT_LANGUAGE)) in _WITHOUT_SCOPES
