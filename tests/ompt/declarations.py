"""Read C declarations: enumerations with their numbers, structures and signatures.

Only the part of C that OMPT's headers use is understood.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

_TOKEN = re.compile(r"[A-Za-z_]\w*|0[xX][0-9a-fA-F]+|\d+|\S")
# Marks in the documents that mean nothing to a compiler.
_MARKS = re.compile(r"\bOMPT_(TARG_)?API\b|\bDEPRECATED_\d+\b|__declspec\(\w+\)|__attribute__\(\(.*\)\)")
_QUALIFIERS = {"const", "unsigned", "struct", "enum", "union"}

Member = tuple[str, Any]
"""A name and a type. The type is its text, or for an anonymous union the list of its members."""


@dataclass
class Signature:
    """The types of a function's parameters and result, without names."""

    returns: str
    parameters: list[str]


@dataclass
class Declarations:
    """The declarations of a text, by name. ``functions`` includes function types; ``constants`` has macros verbatim."""

    enumerations: dict[str, dict[str, int]] = field(default_factory=dict)
    structures: dict[str, list[Member]] = field(default_factory=dict)
    unions: dict[str, list[Member]] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    functions: dict[str, Signature] = field(default_factory=dict)
    constants: dict[str, str] = field(default_factory=dict)

    def names(self) -> set[str]:
        """Return all names that the text reserves in a program that includes it."""
        tables = (self.structures, self.unions, self.aliases, self.functions, self.constants)
        enumerators = {name for numbers in self.enumerations.values() for name in numbers}
        return enumerators.union(*tables, self.enumerations) - {""}

    def as_json(self) -> dict[str, Any]:
        """Return the data that :func:`from_json` reads."""
        return asdict(self)


def from_json(data: dict[str, Any]) -> Declarations:
    """Return the declarations that :meth:`Declarations.as_json` wrote."""

    def members(raw: Any) -> Any:
        return [(name, members(kind)) for name, kind in raw] if isinstance(raw, list) else raw

    return Declarations(
        data["enumerations"],
        {name: members(raw) for name, raw in data["structures"].items()},
        {name: members(raw) for name, raw in data["unions"].items()},
        data["aliases"],
        {name: Signature(**raw) for name, raw in data["functions"].items()},
        data["constants"],
    )


def declared_in(header: Path) -> Declarations:
    """Return the declarations of *header* and of the files that it includes from its own folder."""

    def text_of(path: Path) -> str:
        def included(match: re.Match[str]) -> str:
            return text_of(path.parent / match[1])

        return re.sub(r'^#include "([^"]+)"', included, path.read_text(), flags=re.MULTILINE)

    return declared(text_of(header))


def declared(text: str) -> Declarations:
    """Return the declarations of *text*.

    :raises ValueError: if *text* has a declaration that is not understood
    """
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL).replace("\\\n", " ")
    found = Declarations()
    for name, value in re.findall(r"^[ \t]*#[ \t]*define[ \t]+(omp\w+)[ \t]+(\S.*)$", text, re.MULTILINE):
        found.constants[name] = value.strip()
    text = _MARKS.sub(" ", re.sub(r"^[ \t]*#.*$", " ", text, flags=re.MULTILINE))
    text = re.sub(r'extern\s+"C"\s*\{?', " ", text)
    for statement in _statements(_TOKEN.findall(text)):
        _read(statement, found)
    return found


def _statements(tokens: list[str]) -> Iterator[list[str]]:
    statement: list[str] = []
    depth = 0
    for token in tokens:
        if token == "}" and not depth:
            continue  # the end of extern "C"
        depth += (token in "{(") - (token in "})")
        if token == ";" and not depth:
            if statement:
                yield statement
            statement = []
        else:
            statement.append(token)
    if statement:
        raise ValueError(f"an end without ;: {' '.join(statement)}")


def _read(tokens: list[str], found: Declarations) -> None:
    is_type = tokens[0] == "typedef"
    body = tokens[1:] if is_type else tokens
    if body[0] in ("enum", "struct", "union") and "{" in body:
        start, end = body.index("{"), len(body) - 1 - body[::-1].index("}")
        inside, name = body[start + 1 : end], "".join(body[end + 1 :])
        if body[0] == "enum":
            found.enumerations.setdefault(name, {}).update(_numbers(inside))
        else:
            (found.structures if body[0] == "struct" else found.unions)[name] = _members(inside)
    elif is_type and "(" in body:
        start = body.index("(")
        if body[start + 1] != "*":
            raise ValueError(f"no pointer to a function: {' '.join(tokens)}")
        found.functions[body[start + 2]] = Signature(_type(body[:start]), _parameters(body[start + 4 :]))
    elif "(" in body:
        start = body.index("(")
        found.functions[body[start - 1]] = Signature(_type(body[: start - 1]), _parameters(body[start:]))
    elif is_type:
        found.aliases[body[-1]] = _type(body[:-1])
    else:
        raise ValueError(f"not understood: {' '.join(tokens)}")


def _numbers(tokens: list[str]) -> dict[str, int]:
    numbers: dict[str, int] = {}
    last = -1
    for name, *value in _split(tokens, ","):
        digits = value[-1] if value else str(last + 1)
        last = numbers[digits] if digits in numbers else int(digits, 0)
        numbers[name] = last
    return numbers


def _members(tokens: list[str]) -> list[Member]:
    members: list[Member] = []
    for declaration in _split(tokens, ";"):
        if declaration[0] == "union" and "{" in declaration:
            start, end = declaration.index("{"), declaration.index("}")
            members.append((declaration[end + 1], _members(declaration[start + 1 : end])))
        elif "," in declaration:
            raise ValueError(f"two members in one: {' '.join(declaration)}")
        else:
            members.append((declaration[-1], _type(declaration[:-1])))
    return members


def _parameters(tokens: list[str]) -> list[str]:
    inside = tokens[1:-1]
    if inside == ["void"]:
        return []
    return [_parameter(parameter) for parameter in _split(inside, ",")]


def _parameter(tokens: list[str]) -> str:
    words = [token for token in tokens if token not in {*_QUALIFIERS, "*"}]
    named = len(words) == 2 or (len(words) == 1 and "unsigned" in tokens and words[0] != "int")
    return _type(tokens[:-1] if named else tokens)


def _type(tokens: list[str]) -> str:
    words = " ".join(token for token in tokens if token != "*")
    stars = tokens.count("*")
    return f"{words} {'*' * stars}" if stars else words


def _split(tokens: list[str], separator: str) -> Iterator[list[str]]:
    part: list[str] = []
    depth = 0
    for token in tokens:
        depth += (token in "{(") - (token in "})")
        if token == separator and not depth:
            if part:
                yield part
            part = []
        else:
            part.append(token)
    if part:
        yield part
