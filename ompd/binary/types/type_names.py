"""Type names as spelled in the source and by gdb's ``whatis``: ``int (*)[3]``, ``ns::B &``, ``real(kind=8) (2,3)``.

No target is read. Types that are nested too deep or contain themselves are written as ``...``.
"""

from __future__ import annotations

import re

from ompd.binary.dwarf import constants as dw
from ompd.binary.dwarf.forms import Value
from ompd.binary.dwarf.index import EntryRef
from ompd.binary.dwarf.units import Unit
from ompd.binary.types.arrays import constant_bounds, language_of
from ompd.binary.types.types import TypeInfo
from ompd.errors import MalformedFile, OmpdError, Unsupported

_QUALIFIERS = {
    dw.DW_TAG_CONST_TYPE: "const",
    dw.DW_TAG_VOLATILE_TYPE: "volatile",
    dw.DW_TAG_RESTRICT_TYPE: "restrict",
    dw.DW_TAG_ATOMIC_TYPE: "_Atomic",
}
_SILENT = dw.QUALIFIERS - _QUALIFIERS.keys()
_POINTING = {
    dw.DW_TAG_POINTER_TYPE: "*",
    dw.DW_TAG_REFERENCE_TYPE: "&",
    dw.DW_TAG_RVALUE_REFERENCE_TYPE: "&&",
    dw.DW_TAG_PTR_TO_MEMBER_TYPE: "*",
}
_KEYWORDS = {
    dw.DW_TAG_CLASS_TYPE: "class",
    dw.DW_TAG_STRUCTURE_TYPE: "struct",
    dw.DW_TAG_UNION_TYPE: "union",
    dw.DW_TAG_ENUMERATION_TYPE: "enum",
}

SHORTER = {
    "long long unsigned int": "unsigned long long",
    "long long int": "long long",
    "long unsigned int": "unsigned long",
    "long int": "long",
    "short unsigned int": "unsigned short",
    "short int": "short",
}
"""gcc's spellings of types for which a shorter spelling exists, longest first."""

_MAX_DEPTH = 32
_MAX_PARAMETERS = 64
_MAX_NAME = 512


def shortened(name: str) -> str:
    """Return *name* with clang's spelling of template arguments. gcc adds words to some of them."""
    if "<" in name:
        for longer, shorter in SHORTER.items():
            name = re.sub(rf"\b{longer}\b", shorter, name)
    return name


def type_name(info: TypeInfo, place: EntryRef | None) -> str:
    """Return the name of the type at *place* (None: void), with ``...`` for parts that cannot be read."""
    name = _Namer(info).name(place)
    return name if len(name) <= _MAX_NAME else name[: _MAX_NAME - 3] + "..."


def scoped_name(info: TypeInfo, place: EntryRef, name: str) -> str:
    """Return *name*, defined at *place*, qualified by the namespaces and types around it (``ns::Class::name``)."""
    if language_of(place.unit) in dw.C_LANGUAGES | dw.FORTRAN_LANGUAGES:
        return name
    try:
        scope = info.index.scope_of(place) or ()
    except MalformedFile:
        scope = ()
    return "::".join((*(part for part in scope if part not in ("", "()")), name))


class _Namer:
    def __init__(self, info: TypeInfo) -> None:
        self._info = info

    def name(self, place: EntryRef | None, inner: str = "", depth: int = 0) -> str:
        """Return the text that declares *inner* to have the type at *place*."""
        try:
            return self._name(place, inner, depth)
        except OmpdError:
            return _joined("...", inner)

    def _name(self, place: EntryRef | None, inner: str, depth: int) -> str:
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
        if tag == dw.DW_TAG_ARRAY_TYPE:
            return self._array(place, attributes, inner, depth)
        if tag == dw.DW_TAG_SUBROUTINE_TYPE:
            return self._function(place, attributes, inner, depth)
        if tag == dw.DW_TAG_STRING_TYPE:
            size = unit.number(attributes.get(dw.DW_AT_BYTE_SIZE))
            return _joined(f"character*{size if size is not None else '(*)'}", inner)
        return _joined(self._own_name(place, tag, attributes), inner)

    def _target(self, unit: Unit, attributes: dict[int, Value]) -> EntryRef | None:
        return self._info.target(unit, attributes[dw.DW_AT_TYPE]) if dw.DW_AT_TYPE in attributes else None

    def _own_name(self, place: EntryRef, tag: int, attributes: dict[int, Value]) -> str:
        name = place.unit.string(attributes.get(dw.DW_AT_NAME))
        keyword = _KEYWORDS.get(tag)
        language = language_of(place.unit)
        if language in dw.FORTRAN_LANGUAGES:
            return f"Type {name or '...'}" if keyword is not None else name or "..."
        if name is None:
            return f"{keyword} {{...}}" if keyword is not None else "..."
        if tag == dw.DW_TAG_BASE_TYPE:
            return SHORTER.get(name, name)
        if language in dw.C_LANGUAGES:  # in other languages a tag is itself a type name
            return f"{keyword} {name}" if keyword is not None else name
        return shortened(scoped_name(self._info, place, name) if tag in dw.NAMED_TYPES else name)

    def _qualified(self, place: EntryRef, inner: str, depth: int) -> str:
        # Consecutive qualifiers are written together. A pointer's qualifiers follow its star, others precede the name.
        words: list[str] = []
        scope: EntryRef | None = place
        while scope is not None and len(words) <= _MAX_DEPTH:
            tag, attributes = self._info.index.entry(scope)
            if tag not in _QUALIFIERS:
                break
            words.append(_QUALIFIERS[tag])
            scope = self._target(scope.unit, attributes)
        text = " ".join(word for word in _QUALIFIERS.values() if word in words)
        tag = self._info.index.entry(scope)[0] if scope is not None else 0
        if scope is not None and tag in _POINTING:
            attributes = self._info.index.entry(scope)[1]
            behind = f" {text}{f' {inner}' if inner else ''}"
            return self._pointer(scope.unit, tag, attributes, behind, depth + 1)
        behind = self.name(scope, inner, depth + 1)
        # An array is constant if its elements are constant, and some compilers mark both.
        return behind if tag == dw.DW_TAG_ARRAY_TYPE and behind.startswith(f"{text} ") else f"{text} {behind}"

    def _pointer(self, unit: Unit, tag: int, attributes: dict[int, Value], inner: str, depth: int) -> str:
        target = self._target(unit, attributes)
        if language_of(unit) in dw.FORTRAN_LANGUAGES:
            return _joined(f"PTR TO -> ( {self.name(target, '', depth + 1)} )", inner)
        mark = _POINTING[tag]
        if tag == dw.DW_TAG_PTR_TO_MEMBER_TYPE and dw.DW_AT_CONTAINING_TYPE in attributes:
            owner = self._info.target(unit, attributes[dw.DW_AT_CONTAINING_TYPE])
            mark = f"{self.name(owner, '', depth + 1)}::*"
        inner = mark + inner
        if target is not None and self._binds_closer(target):
            inner = f"({inner})"
        return self.name(target, inner, depth + 1)

    def _binds_closer(self, place: EntryRef) -> bool:
        for _ in range(_MAX_DEPTH):
            tag, attributes = self._info.index.entry(place)
            if tag not in _QUALIFIERS or dw.DW_AT_TYPE not in attributes:
                break
            place = self._info.target(place.unit, attributes[dw.DW_AT_TYPE])
        return tag in (dw.DW_TAG_ARRAY_TYPE, dw.DW_TAG_SUBROUTINE_TYPE)

    def _array(self, place: EntryRef, attributes: dict[int, Value], inner: str, depth: int) -> str:
        element = self._target(place.unit, attributes)
        try:
            bounds = constant_bounds(self._info, place)
        except (MalformedFile, Unsupported):
            bounds = []
        if language_of(place.unit) in dw.FORTRAN_LANGUAGES:
            pointer = ", pointer" if dw.DW_AT_ASSOCIATED in attributes else ""
            word = ", allocatable" if dw.DW_AT_ALLOCATED in attributes else pointer
            texts = [_fortran_bound(lower, count) for lower, count in bounds]
            return f"{self.name(element, '', depth + 1)}{word} ({','.join(texts)})" + (f" {inner}" if inner else "")
        texts = [f"[{count}]" if count else "[]" if count is None else "[0]" for _, count in bounds]
        return self.name(element, f"{inner}{''.join(texts) or '[]'}", depth + 1)

    def _function(self, place: EntryRef, attributes: dict[int, Value], inner: str, depth: int) -> str:
        texts: list[str] = []
        tags = (dw.DW_TAG_FORMAL_PARAMETER, dw.DW_TAG_UNSPECIFIED_PARAMETERS)
        for tag, parameter in self._info.index.children(place, tags):
            if len(texts) >= _MAX_PARAMETERS:
                texts.append("...")
                break
            if tag == dw.DW_TAG_UNSPECIFIED_PARAMETERS:
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
