"""Demangle C++ symbols (Itanium C++ ABI, 5.1) to names such as ``space::Class::method`` and ``twice<int>``.

Only functions without debug information need this. Parameters and result types are left out, as in
:mod:`ompd.binary.dwarf.names`. A library parses the symbol into a tree, and this module prints the tree within limits,
because with substitutions a symbol of a kilobyte can stand for more text than fits into memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from itanium_demangler import Node, QualNode, _Cursor, _parse_name, _parse_type

# The library needs time proportional to the cube of the length.
_MAX_NAME, _MAX_TEXT = 1 << 11, 1 << 14
_MAX_LEVELS = 96
# Suffixes of copies of a function, written as gdb writes them: "f [clone .part.0]"
_CLONE = re.compile(r"\.[A-Za-z_]\w*(?:\.\d+)*|\.\d+")
_MARKS = {"pointer": "*", "lvalue": "&", "rvalue": "&&"}
_SPECIAL = {"TV": "vtable for ", "TT": "VTT for ", "TI": "typeinfo for ", "TS": "typeinfo name for "}
_THUNK = re.compile(r"T(?:h(n?\d+)|v(n?\d+)_n?\d+)_")
_SUFFIXES = {"unsigned int": "u", "long": "l", "unsigned long": "ul", "long long": "ll", "unsigned long long": "ull"}
_SUBSTITUTION = re.compile(r"S(?!t)")
_INDIRECT = {"P": "pointer", "R": "lvalue", "O": "rvalue"}
_QUALIFIED = {"r": "restrict", "V": "volatile", "K": "const"}
_QUALIFIERS = re.compile("[rVK]+")
# Codes that begin a named type, and codes of types that do not become substitution candidates.
_NAME, _KNOWN = re.compile(r"\d|[NSZ]|U[lt]"), re.compile(r"S[absiod]|S[0-9A-Z]*_")
_NUMBER, _DISCRIMINATOR = re.compile(r"\d*_"), re.compile(r"_\d|__\d+_")


class _NotReadable(Exception):
    pass


def demangle(symbol: str) -> str | None:
    """Return the source name of the function or object *symbol*, None if it is not a well-formed C++ symbol."""
    base, dot, copies = symbol.partition(".")
    if not base.startswith("_Z") or len(symbol) > _MAX_NAME:
        return None
    clones = _CLONE.findall(dot + copies)
    if "".join(clones) != dot + copies:
        return None
    try:
        text = _read(_Cursor(base, 2))
    # The library raises any of these for a damaged or unsupported symbol.
    except (_NotReadable, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError):
        return None
    return "".join((text, *(f" [clone {clone}]" for clone in clones)))


def _read(cursor: Any) -> str:
    for mark, words in _SPECIAL.items():
        if cursor.accept(mark):
            return words + _Writer().text(_parse_type(cursor))
    if cursor.accept("GV"):
        return "guard variable for " + _Writer().text(_entity(cursor, 0))
    thunk = cursor.match(_THUNK)
    words = "" if thunk is None else "non-virtual thunk to " if thunk[1] else "virtual thunk to "
    return words + _Writer().text(_entity(cursor, 0))


def _entity(cursor: Any, level: int) -> Any:
    # A function's name, up to its parameters. The library does not parse local names and lambdas.
    if level > _MAX_LEVELS:
        raise _NotReadable
    if cursor.accept("Z"):
        outer = _entity(cursor, level + 1)
        _types(cursor, level + 1)
        if cursor.accept("s"):
            inner = Node("name", "string literal")
        else:
            if cursor.accept("d") and cursor.match(_NUMBER) is None:  # in a default argument
                raise _NotReadable
            inner = _entity(cursor, level + 1)
        cursor.match(_DISCRIMINATOR)
        return Node("in", (outer, inner))
    if cursor.accept("N"):
        while any(map(cursor.accept, "rVKRO")):
            pass
        return _nested(cursor, level)
    is_substitution = _SUBSTITUTION.match(cursor._raw, cursor._pos) is not None
    name = _unnamed(cursor, level) or _parse_name(cursor, is_nested=True)
    if name is not None and cursor.accept("I"):
        if not is_substitution:
            cursor.add_subst(name)
        return Node("qual_name", (name, Node("tpl_args", _types(cursor, level + 1))))
    return name


def _types(cursor: Any, level: int) -> tuple[Any, ...]:
    types = []
    while not cursor.accept("E"):
        types.append(_type(cursor, level))
    return tuple(types)


def _type(cursor: Any, level: int) -> Any:
    # The library cannot parse types in a function's scope, not even inside another type.
    if level > _MAX_LEVELS:
        raise _NotReadable
    if cursor.accept("J"):
        return Node("tpl_arg_pack", _types(cursor, level + 1))
    mark = next(filter(cursor.accept, _INDIRECT), None)
    qualifiers = cursor.match(_QUALIFIERS) if mark is None else None
    if mark is not None:
        node = Node(_INDIRECT[mark], _type(cursor, level + 1))
    elif qualifiers is not None:
        node = QualNode("cv_qual", _type(cursor, level + 1), frozenset(map(_QUALIFIED.__getitem__, qualifiers[0])))
    elif _NAME.match(cursor._raw, cursor._pos) is not None:
        start = cursor._pos
        node = _entity(cursor, level + 1)
        if _KNOWN.fullmatch(cursor._raw, start, cursor._pos) is not None:
            return node
    else:
        node = _parse_type(cursor)
        if node is None:
            raise _NotReadable
        return node
    if node is None:
        raise _NotReadable
    cursor.add_subst(node)
    return node


def _nested(cursor: Any, level: int) -> Any:
    parts: list[Any] = []
    while not cursor.accept("E"):
        # The target of a substitution is already in the list of candidates for substitutions.
        is_substitution = not parts and _SUBSTITUTION.match(cursor._raw, cursor._pos) is not None
        if cursor.accept("I"):
            part = Node("tpl_args", _types(cursor, level + 1))
        else:
            part = _unnamed(cursor, level) or _parse_name(cursor, is_nested=True)
        if part is None or cursor.at_end():
            raise _NotReadable
        parts += part.value if part.kind == "qual_name" else [part]
        if not is_substitution and not cursor._raw.startswith("E", cursor._pos):
            cursor.add_subst(Node("qual_name", tuple(parts)))
    return Node("qual_name", tuple(parts))


def _unnamed(cursor: Any, level: int) -> Any:
    kind = "lambda" if cursor.accept("Ul") else "unnamed" if cursor.accept("Ut") else None
    if kind is None:
        return None
    if kind == "lambda":
        _types(cursor, level + 1)
    number = cursor.match(_NUMBER)
    if number is None:
        raise _NotReadable
    return Node(kind, number[0])


class _Writer:
    # Writes a tree in which a node may occur at many places. Each node's text is built once and bounded.

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, str]] = {}  # keeps the node alive, so that its id is not reused

    def text(self, node: Any) -> str:
        if id(node) not in self._known:
            text = self._written(node)
            if len(text) > _MAX_TEXT:
                raise _NotReadable
            self._known[id(node)] = node, text
        return self._known[id(node)][1]

    def _written(self, node: Any) -> str:
        kind = node.kind
        if kind in ("name", "builtin"):
            # The library gives the ABI's long double ("e") another name.
            return "long double" if node.value == "__float80" else str(node.value)
        if kind in ("lambda", "unnamed"):
            return f"{{{kind}}}"
        if kind == "qual_name":
            return self._path(node.value)
        if kind == "in":
            return "::".join(map(self.text, node.value))
        if kind in ("tpl_args", "tpl_arg_pack"):
            inside = self._list(node.value)
            if kind == "tpl_arg_pack":
                return inside
            return f"<{inside} >" if inside.endswith(">") else f"<{inside}>"
        if kind == "abi":
            return self.text(node.value) + "".join(f"[abi:{tag}]" for tag in sorted(node.qual))
        if kind == "oper":
            return ("operator " if node.value[0].isalpha() else "operator") + str(node.value)
        if kind == "oper_cast":
            return f"operator {self.text(node.value)}"
        return self._type(kind, node)

    def _type(self, kind: str, node: Any) -> str:
        if kind in _MARKS:
            return "".join(self._around(node))
        if kind == "cv_qual":
            return " ".join((self.text(node.value), *sorted(node.qual)))
        if kind == "literal":
            return self._literal(node)
        if kind == "expand_arg_pack":
            return f"{self.text(node.value)}..."
        if kind == "func":
            return f"{self.text(node.ret_ty)} {self._parameters(node)}"
        if kind == "array":
            return f"{self.text(node.ty)} [{node.dimension.value}]"
        if kind in ("data", "method"):
            before, behind = self._around(node.member_ty)
            return f"{before}{'' if behind else ' '}{self.text(node.cls_ty)}::*{behind}"
        raise _NotReadable

    def _around(self, node: Any) -> tuple[str, str]:
        # The text before and after the mark of a pointer to *node*.
        if node.kind in _MARKS:
            before, behind = self._around(node.value)
            return before + _MARKS[node.kind], behind
        if node.kind == "func":
            return f"{self.text(node.ret_ty)} (", f"){self._parameters(node)}"
        if node.kind == "array":
            return f"{self.text(node.ty)} (", f") [{node.dimension.value}]"
        return self.text(node), ""

    def _parameters(self, node: Any) -> str:
        inside = self._list(node.arg_tys)
        return "()" if inside == "void" else f"({inside})"

    def _list(self, nodes: Iterable[Any]) -> str:
        return ", ".join(text for node in nodes if (text := self.text(node)))

    def _literal(self, node: Any) -> str:
        type_, value = self.text(node.ty), str(node.value)
        value = "-" + value[1:] if value.startswith("n") else value
        if type_ == "bool" and value in "01":
            return "true" if value == "1" else "false"
        return value + _SUFFIXES.get(type_, "") if type_ == "int" or type_ in _SUFFIXES else f"({type_}){value}"

    def _path(self, nodes: Iterable[Any]) -> str:
        text = last = ""
        for node in nodes:
            if node.kind == "tpl_args":
                piece = self.text(node)
                text += f" {piece}" if text.endswith("<") else piece
            else:
                if node.kind in ("ctor", "dtor"):
                    piece = last if node.kind == "ctor" else f"~{last}"
                else:
                    piece = self.text(node)
                    piece = "(anonymous namespace)" if piece == "_GLOBAL__N_1" else piece
                    last = _last_name(piece)
                text += f"::{piece}" if text else piece
            if len(text) > _MAX_TEXT:
                raise _NotReadable
        return text


def _last_name(text: str) -> str:
    # The name of a class's constructors: "vector" for "std::vector<int>".
    name = text.partition("<")[0].partition("[abi:")[0]
    return name.rpartition("::")[2]
