"""Names of variables: in users' input, in the source, and in symbol tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ompd.binary.types.parts import Dereference, Step, parse_steps
from ompd.binary.types.type_names import shortened
from ompd.debugger.threads.emutls import PREFIX
from ompd.errors import BadInput
from ompd.records import record

BLANK = "__BLNK__"
"""What compilers call the COMMON block that has no name."""

_BLOCK = re.compile(r"/([^\W\d]?\w*)/(.*)", re.DOTALL)
_NAME = re.compile(r"([^\W\d]\w*(?:\$\w+)*)(.*)", re.DOTALL)


@record
class VariableName:
    """A variable's name from a user: ``file.c::x``, ``ns::Class::x``, ``function::x``, ``/block/member``, ``x.a[2]``.

    ``scopes`` are ordered from outside in. ``block`` is the name of the COMMON block, ``""`` for the blank one, None
    without one. ``name`` is empty for a whole block.
    """

    text: str
    scopes: tuple[str, ...]
    block: str | None
    name: str
    steps: tuple[Step, ...]
    is_global: bool = False


def parse_name(text: str) -> VariableName:
    """Return *text* as a variable's name.

    :raises BadInput: if *text* is not a possible name
    """
    spelling = text.strip()
    stars = len(spelling) - len(spelling.lstrip("* "))
    dereferences = (Dereference(),) * spelling[:stars].count("*")
    spelling = spelling[stars:]
    block = _BLOCK.fullmatch(spelling)
    if block is not None:
        name = _NAME.fullmatch(block[2]) if block[2] else None
        if block[2] and name is None:
            raise _no_name(text)
        member, steps = (name[1], parse_steps(name[2])) if name is not None else ("", ())
        return VariableName(text, (), block[1], member, (*steps, *dereferences))
    parts = split_scopes(spelling)
    last = _NAME.fullmatch(parts[-1].strip())
    if last is None:
        raise _no_name(text)
    scopes = tuple(re.sub(r"\(.*\)$", "", part.strip().strip("'\"")) for part in parts[:-1])
    is_global = len(scopes) > 0 and not scopes[0]
    steps = parse_steps(last[2])
    return VariableName(text, tuple(s for s in scopes if s), None, last[1], (*steps, *dereferences), is_global)


def _no_name(text: str) -> BadInput:
    return BadInput(f"{text!r} is not a variable name", hint="as in x, file.c::x, ns::x, function::x, /block/x, x.a[2]")


def split_scopes(text: str) -> list[str]:
    """Return the parts of *text* between ``::``, except for ``::`` in brackets and quotes."""
    parts, depth, start, quote = [], 0, 0, ""
    index = 0
    while index < len(text):
        character = text[index]
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in "<([{":
            depth += 1
        elif character in ">)]}" and not text.startswith("->", index - 1):
            depth -= 1
        elif depth <= 0 and text.startswith("::", index):
            parts.append(text[start:index])
            start = index + 2
            index += 1
        index += 1
    return [*parts, text[start:]]


def is_called(name: str, wanted: str, fold: bool) -> bool:
    """Return whether *wanted* may mean a scope called *name*. Arguments of templates may be omitted.

    :param fold: ignore the difference of upper and lower case
    """
    if fold:
        return name.lower() == wanted.lower()
    if "<" not in name:
        return name == wanted
    return name.partition("<")[0] == wanted or canonical(name) == canonical(wanted)


def canonical(name: str) -> str:
    """Return *name* without spaces, with arguments of templates in one spelling for all compilers."""
    return shortened(name).replace(" ", "")


def linker_names(name: VariableName) -> Iterator[str]:
    """Yield possible names of a variable in symbol tables. Names that depend on a type are left out."""
    if name.block is not None:
        if name.name:
            return  # symbols do not give the offset of a member in its block
        yield f"{name.block.lower()}_" if name.block else BLANK
        return
    yield "::".join((*name.scopes, name.name)) if name.scopes else name.name
    if name.scopes:
        parts = "".join(f"{len(part)}{part}" for part in (*name.scopes, name.name))
        yield f"_ZN{parts}E"
        if len(name.scopes) == 1:
            scope, last = name.scopes[0].lower(), name.name.lower()
            yield f"__{scope}_MOD_{last}"
            yield f"_QM{scope}E{last}"


def source_names(names: Iterable[str]) -> Iterator[str]:
    """Yield how the source may spell the variables whose symbols are *names*. Symbols that cannot be the user's
    variables are skipped.
    """
    from ompd.binary.demangle import demangle

    for name in names:
        module = re.fullmatch(r"__(\w+)_MOD_(\w+)|_QM([a-z0-9_]+)E([a-z0-9_]+)", name)
        if module is not None:
            yield f"{module[1] or module[3]}::{module[2] or module[4]}"
        elif re.fullmatch(r"[a-z]\w*_", name):
            yield f"/{name[:-1]}/"
        elif re.fullmatch(r"_ZN[\w]+E", name):
            yield from filter(None, (demangle(name),))
        elif not name.startswith(("_", ".")):
            yield name.removeprefix(PREFIX).partition(".")[0]
        elif name.startswith(PREFIX):
            yield name.removeprefix(PREFIX)
