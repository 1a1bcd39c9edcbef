"""Types as the source spells them, and as gdb's ``whatis`` does: ``int (*)[3]``, ``ns::B &``, ``real(kind=8) (2,3)``.

Bytes only, no target. What is too deep or leads back to itself is called ``...``.
"""

from __future__ import annotations

import re

from ompd.binary.dwarf.index import NAMED_TYPES, Place
from ompd.binary.dwarf.units import DW_AT_NAME, Unit, Value
from ompd.binary.types.arrays import FORTRAN_LANGUAGES, constant_bounds, language_of
from ompd.binary.types.types import TypeInfo
from ompd.errors import MalformedFile, OmpdError, Unsupported

DW_TAG_ARRAY_TYPE, DW_TAG_POINTER_TYPE, DW_TAG_REFERENCE_TYPE, DW_TAG_STRING_TYPE = 0x01, 0x0F, 0x10, 0x12
DW_TAG_SUBROUTINE_TYPE, DW_TAG_PTR_TO_MEMBER_TYPE, DW_TAG_TYPEDEF, DW_TAG_BASE_TYPE = 0x15, 0x1F, 0x16, 0x24
DW_TAG_RVALUE_REFERENCE_TYPE, DW_TAG_UNSPECIFIED_TYPE, DW_TAG_ENUMERATION_TYPE = 0x42, 0x3B, 0x04
DW_TAG_CLASS_TYPE, DW_TAG_STRUCTURE_TYPE, DW_TAG_UNION_TYPE = 0x02, 0x13, 0x17
DW_AT_TYPE, DW_AT_BYTE_SIZE = 0x49, 0x0B
DW_AT_ALLOCATED, DW_AT_ASSOCIATED = 0x4E, 0x4F

_DW_TAG_FORMAL_PARAMETER, _DW_TAG_UNSPECIFIED_PARAMETERS, _DW_AT_CONTAINING_TYPE = 0x05, 0x18, 0x1D
_DW_AT_ARTIFICIAL = 0x34
_QUALIFIERS = {0x26: "const", 0x35: "volatile", 0x37: "restrict", 0x47: "_Atomic"}
_SILENT = frozenset((0x2D, 0x40, 0x4B))  # packed, shared, immutable
_POINTING = {
    DW_TAG_POINTER_TYPE: "*",
    DW_TAG_REFERENCE_TYPE: "&",
    DW_TAG_RVALUE_REFERENCE_TYPE: "&&",
    DW_TAG_PTR_TO_MEMBER_TYPE: "*",
}
_KEYWORDS = {
    DW_TAG_CLASS_TYPE: "class",
    DW_TAG_STRUCTURE_TYPE: "struct",
    DW_TAG_UNION_TYPE: "union",
    DW_TAG_ENUMERATION_TYPE: "enum",
}

SHORTER = {
    "long long unsigned int": "unsigned long long",
    "long long int": "long long",
    "long unsigned int": "unsigned long",
    "long int": "long",
    "short unsigned int": "unsigned short",
    "short int": "short",
}
"""gcc's spellings of types that have a shorter one, longest first."""
# DW_LANG_C89 … C17. Others have tags that are names of their own.
C_LANGUAGES = frozenset((0x01, 0x02, 0x0C, 0x1D, 0x2C))

_MAX_DEPTH = 32
_MAX_PARAMETERS = 64
_MAX_NAME = 512


def shortened(name: str) -> str:
    """Return *name* with arguments of templates that gcc spells with more words as others do."""
    if "<" in name:
        for longer, shorter in SHORTER.items():
            name = re.sub(rf"\b{longer}\b", shorter, name)
    return name


def type_name(info: TypeInfo, place: Place | None) -> str:
    """Return the name of the type at *place* (None: void); of what cannot be read as much as can be, and ``...``."""
    name = _Namer(info).name(place)
    return name if len(name) <= _MAX_NAME else name[: _MAX_NAME - 3] + "..."


def scoped_name(info: TypeInfo, place: Place, name: str) -> str:
    """Return *name* of what is defined at *place* with the namespaces and types around it (``ns::Class::name``)."""
    if language_of(place.unit) in C_LANGUAGES | FORTRAN_LANGUAGES:
        return name
    try:
        scope = info.index.scope_of(place) or ()
    except MalformedFile:
        scope = ()
    return "::".join((*(part for part in scope if part not in ("", "()")), name))


class _Namer:
    def __init__(self, info: TypeInfo) -> None:
        self._info = info

    def name(self, place: Place | None, inner: str = "", depth: int = 0) -> str:
        """Return the declaration of *inner* with the type at *place*."""
        try:
            return self._name(place, inner, depth)
        except OmpdError:
            return _joined("...", inner)

    def _name(self, place: Place | None, inner: str, depth: int) -> str:
        if place is None:
            return _joined("void", inner)
        if depth > _MAX_DEPTH:
            return _joined("...", inner)
        tag, attributes = self._info.index.entry(place)
        unit = place.unit
        if tag in _SILENT:
            return self.name(self._target(unit, attributes), inner, depth + 1)
        if tag in _QUALIFIERS:
            return self._qualified(place, inner, depth)
        if tag in _POINTING:
            return self._pointer(unit, tag, attributes, inner, depth)
        if tag == DW_TAG_ARRAY_TYPE:
            return self._array(place, attributes, inner, depth)
        if tag == DW_TAG_SUBROUTINE_TYPE:
            return self._function(place, attributes, inner, depth)
        if tag == DW_TAG_STRING_TYPE:
            size = unit.number(attributes.get(DW_AT_BYTE_SIZE))
            return _joined(f"character*{size if size is not None else '(*)'}", inner)
        return _joined(self._own_name(place, tag, attributes), inner)

    def _target(self, unit: Unit, attributes: dict[int, Value]) -> Place | None:
        return self._info.target(unit, attributes[DW_AT_TYPE]) if DW_AT_TYPE in attributes else None

    def _own_name(self, place: Place, tag: int, attributes: dict[int, Value]) -> str:
        name = place.unit.string(attributes.get(DW_AT_NAME))
        keyword = _KEYWORDS.get(tag)
        language = language_of(place.unit)
        if language in FORTRAN_LANGUAGES:
            return f"Type {name or '...'}" if keyword is not None else name or "..."
        if name is None:
            return f"{keyword} {{...}}" if keyword is not None else "..."
        if tag == DW_TAG_BASE_TYPE:
            return SHORTER.get(name, name)
        if language in C_LANGUAGES:
            return f"{keyword} {name}" if keyword is not None else name
        return shortened(scoped_name(self._info, place, name) if tag in NAMED_TYPES else name)

    def _qualified(self, place: Place, inner: str, depth: int) -> str:
        # All qualifiers in a row; of a pointer they stand behind its star, of others in front.
        words: list[str] = []
        here: Place | None = place
        while here is not None and len(words) <= _MAX_DEPTH:
            tag, attributes = self._info.index.entry(here)
            if tag not in _QUALIFIERS:
                break
            words.append(_QUALIFIERS[tag])
            here = self._target(here.unit, attributes)
        text = " ".join(word for word in _QUALIFIERS.values() if word in words)
        tag = self._info.index.entry(here)[0] if here is not None else 0
        if here is not None and tag in _POINTING:
            attributes = self._info.index.entry(here)[1]
            behind = f" {text}{f' {inner}' if inner else ''}"
            return self._pointer(here.unit, tag, attributes, behind, depth + 1)
        behind = self.name(here, inner, depth + 1)
        # An array is as constant as its elements are, and some compilers say so of both.
        return behind if tag == DW_TAG_ARRAY_TYPE and behind.startswith(f"{text} ") else f"{text} {behind}"

    def _pointer(self, unit: Unit, tag: int, attributes: dict[int, Value], inner: str, depth: int) -> str:
        target = self._target(unit, attributes)
        if language_of(unit) in FORTRAN_LANGUAGES:
            return _joined(f"PTR TO -> ( {self.name(target, '', depth + 1)} )", inner)
        mark = _POINTING[tag]
        if tag == DW_TAG_PTR_TO_MEMBER_TYPE and _DW_AT_CONTAINING_TYPE in attributes:
            owner = self._info.target(unit, attributes[_DW_AT_CONTAINING_TYPE])
            mark = f"{self.name(owner, '', depth + 1)}::*"
        inner = mark + inner
        if target is not None and self._binds_closer(target):
            inner = f"({inner})"
        return self.name(target, inner, depth + 1)

    def _binds_closer(self, place: Place) -> bool:
        for _ in range(_MAX_DEPTH):
            tag, attributes = self._info.index.entry(place)
            if tag not in _QUALIFIERS or DW_AT_TYPE not in attributes:
                break
            place = self._info.target(place.unit, attributes[DW_AT_TYPE])
        return tag in (DW_TAG_ARRAY_TYPE, DW_TAG_SUBROUTINE_TYPE)

    def _array(self, place: Place, attributes: dict[int, Value], inner: str, depth: int) -> str:
        element = self._target(place.unit, attributes)
        try:
            bounds = constant_bounds(self._info, place)
        except (MalformedFile, Unsupported):
            bounds = []
        if language_of(place.unit) in FORTRAN_LANGUAGES:
            word = ", allocatable" if DW_AT_ALLOCATED in attributes else ", pointer" * (DW_AT_ASSOCIATED in attributes)
            texts = [_fortran_bound(lower, count) for lower, count in bounds]
            return f"{self.name(element, '', depth + 1)}{word} ({','.join(texts)})" + (f" {inner}" if inner else "")
        texts = [f"[{count}]" if count else "[]" if count is None else "[0]" for _, count in bounds]
        return self.name(element, f"{inner}{''.join(texts) or '[]'}", depth + 1)

    def _function(self, place: Place, attributes: dict[int, Value], inner: str, depth: int) -> str:
        texts: list[str] = []
        tags = (_DW_TAG_FORMAL_PARAMETER, _DW_TAG_UNSPECIFIED_PARAMETERS)
        for tag, parameter in self._info.index.children(place, tags):
            if len(texts) >= _MAX_PARAMETERS:
                texts.append("...")
                break
            if tag == _DW_TAG_UNSPECIFIED_PARAMETERS:
                texts.append("...")
            else:
                texts.append(self.name(self._target(place.unit, parameter), "", depth + 1))
        return self.name(self._target(place.unit, attributes), f"{inner}({', '.join(texts) or 'void'})", depth + 1)


def _fortran_bound(lower: int | None, count: int | None) -> str:
    if lower is None or count is None:
        return ":"
    return str(count) if lower == 1 else f"{lower}:{lower + count - 1}"


def _joined(word: str, inner: str) -> str:
    return f"{word} {inner}" if inner else word
