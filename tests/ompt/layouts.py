"""Compute the offsets of structures' members, and write files of assertions so that compilers confirm them.

The offsets follow from the processor supplement to the System V ABI, without a compiler. ``python -m
tests.ompt.layouts`` writes ``numbers_2015.c`` and ``numbers_5.c`` anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.ompt import openmp_5, report
from tests.ompt.declarations import Declarations, Member
from tests.ompt.rulings import held_5, held_2015

FILES = {
    "ompt.h": Path(__file__).with_name("numbers_2015.c"),
    "omp-tools.h": Path(__file__).with_name("numbers_5.c"),
}
_SIZES = {"int": 4, "uint32_t": 4, "unsigned int": 4, "uint64_t": 8, "int64_t": 8, "double": 8}
# The head of each file: a comment, and a macro for each kind of assertion.
_HEAD = """/* {header} has the numbers, sizes, offsets and signatures of its document. It compiles or it does not.
 *
 * Written by `python -m tests.ompt.layouts` from {data}, and what docs/dev/ompt.md rules. */
#include "{header}"

#define BY_WIDTH(on_64, on_32) (sizeof(void *) == 8 ? (on_64) : (on_32))
#define NUMBER(name, value) _Static_assert((unsigned int)(name) == (value), #name)
#define SIZE(type, on_64, on_32) _Static_assert(sizeof(type) == BY_WIDTH(on_64, on_32), #type)
#define OFFSET(type, member, on_64, on_32) \\
    _Static_assert(offsetof(type, member) == BY_WIDTH(on_64, on_32), #type "." #member)
#define TYPE(type, member, kind) \\
    _Static_assert(_Generic(&((type *)0)->member, kind *: 1, default: 0), #type "." #member)
#define SAME(name, type) _Static_assert(_Generic((name *)0, type *: 1, default: 0), #name)
#define FUNCTION(type, returns, ...) \\
    _Static_assert(_Generic((type)0, returns (*)(__VA_ARGS__): 1, default: 0), #type)
#define GLOBAL(name, returns, ...) _Static_assert(_Generic(name, returns (*)(__VA_ARGS__): 1, default: 0), #name)
"""


@dataclass(frozen=True)
class Layout:
    """The size and alignment of a type in bytes, and the offsets of its members, if any."""

    size: int
    alignment: int
    offsets: dict[str, int]


class Layouts:
    """Layouts of the types in *declarations* on x86 with pointers of *width* bits, 64 or 32."""

    def __init__(self, declarations: Declarations, width: int) -> None:
        self.declared = declarations
        self.word = width // 8

    def of(self, kind: Any) -> Layout:
        """Return the layout of *kind*: the name of a type, or the members of an anonymous union.

        :raises KeyError: with the name of an unknown type
        """
        if isinstance(kind, list):
            return self._union(kind)
        kind = kind.removeprefix("const ")
        if kind.endswith("*") or kind in self.declared.functions or kind == "size_t":
            return Layout(self.word, self.word, {})
        if kind in self.declared.enumerations:
            return Layout(4, 4, {})
        if kind in self.declared.structures:
            return self._structure(self.declared.structures[kind])
        if kind in self.declared.unions:
            return self._union(self.declared.unions[kind])
        if kind in self.declared.aliases:
            return self.of(self.declared.aliases[kind])
        # i386 aligns members of eight bytes to four bytes.
        return Layout(_SIZES[kind], min(_SIZES[kind], self.word), {})

    def _structure(self, members: list[Member]) -> Layout:
        offset, alignment, offsets = 0, 1, {}
        for name, kind in members:
            inner = self.of(kind)
            offset = _up(offset, inner.alignment)
            offsets[name] = offset
            offset += inner.size
            alignment = max(alignment, inner.alignment)
        return Layout(_up(offset, alignment), alignment, offsets)

    def _union(self, members: list[Member]) -> Layout:
        inner = [self.of(kind) for _, kind in members]
        alignment = max(each.alignment for each in inner)
        size = _up(max(each.size for each in inner), alignment)
        return Layout(size, alignment, {name: 0 for name, _ in members})


def _up(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment


def assertions(header: str) -> str:
    """Return the text of the file of assertions on *header*, one of :data:`FILES`."""
    if header == "ompt.h":
        held, data = held_2015(report.load()), report.DATA
    else:
        held, data = held_5(openmp_5.load()), openmp_5.DATA
    return "\n".join([_HEAD.format(header=header, data=data.name), *_lines(held), ""])


def _lines(held: Declarations) -> Iterator[str]:
    for name, numbers in held.enumerations.items():
        yield f"/* {name or 'numbers without a type'} */"
        yield from (f"NUMBER({each}, {number:#x});" for each, number in numbers.items())
        if name:
            yield f"SIZE({name}, 4, 4);"
        yield ""
    for name, kind in held.aliases.items():
        yield f"SAME({name}, {kind});"
    wide, narrow = Layouts(held, 64), Layouts(held, 32)
    for name, members in (*held.unions.items(), *held.structures.items()):
        layouts = wide.of(name), narrow.of(name)
        yield f"\nSIZE({name}, {layouts[0].size}, {layouts[1].size});"
        for member, kind in members:
            yield f"OFFSET({name}, {member}, {layouts[0].offsets[member]}, {layouts[1].offsets[member]});"
            if isinstance(kind, list):
                yield from (f"TYPE({name}, {member}.{inner}, {inner_kind});" for inner, inner_kind in kind)
            else:
                yield f"TYPE({name}, {member}, {kind});"
    yield ""
    for name, signature in held.functions.items():
        macro = "FUNCTION" if name.endswith("_t") else "GLOBAL"
        yield f"{macro}({name}, {signature.returns}, {', '.join(signature.parameters) or 'void'});"
    for name, text in held.constants.items():
        if not text.startswith("{"):
            yield f'_Static_assert({name} == {text} && sizeof({name}) == sizeof({text}), "{name}");'


if __name__ == "__main__":
    for each, path in FILES.items():
        path.write_text(assertions(each))
