"""Layouts that the runtime itself publishes: the ``ompd_access__T__m`` constants of LLVM's and Intel's libomp.

The runtime fills 8-byte globals when it initialises (``ompd-specific.cpp``, ``ompd_init``). ``ompd_access__T__m`` is
the offset of member m of T, ``ompd_sizeof__T__m`` is the member's size, ``ompd_sizeof__T`` is the size of T or of a
global, and ``ompd_bitfield__T__m`` is a mask. Releases differ in the constants they have. Constants are found by name,
so any release can be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from ompd.contract.memory import Field, StructLayout, read_unsigned
from ompd.contract.process import Module, Process
from ompd.errors import LayoutUnavailable
from ompd.runtimes.layout.alignment import is_aligned

SOURCE = "published"

_CONSTANT_SIZE = 8
# Far above the size of any structure in a runtime. A larger number is not a size.
_MAX_SIZE = 1 << 20


def load(process: Process, module: Module, wanted: Mapping[str, Sequence[str]]) -> dict[str, StructLayout]:
    """Return the layouts of the structures and members *wanted* that the runtime in *module* publishes.

    A member whose place is not published is absent from the layout. A member with an impossible place (outside of the
    structure, not aligned, or overlapping another member) is among the layout's faults. A name with a leading ``:``
    requests a bit field.

    :raises LayoutUnavailable: if the runtime publishes none of the wanted layouts, for example because it is stripped
    """
    names = [
        f"ompd_{kind}__{struct}" + (f"__{member}" if member else "")
        for struct, members in wanted.items()
        for kind, member in _constants(members)
    ]
    addresses = process.symbols_in(module, names)
    if not addresses:
        raise LayoutUnavailable(
            f"{module.name} publishes no layout: it has no ompd_access__ symbols",
            hint="use a runtime that was not stripped, or install its debug symbols",
        )
    values = {name: read_unsigned(process, address, _CONSTANT_SIZE) for name, address in addresses.items()}
    return {struct: _layout(struct, members, values, addresses) for struct, members in wanted.items()}


def _constants(members: Sequence[str]) -> list[tuple[str, str]]:
    constants = [("sizeof", "")]
    for member in members:
        if member.startswith(":"):
            constants.append(("bitfield", member[1:]))
        else:
            constants += [("access", member), ("sizeof", member)]
    return constants


def _layout(
    struct: str, members: Sequence[str], values: Mapping[str, int], addresses: Mapping[str, int]
) -> StructLayout:
    size = values.get(f"ompd_sizeof__{struct}")
    fields: dict[str, Field] = {}
    masks: dict[str, int] = {}
    faults: dict[str, tuple[int, str]] = {}
    for member in members:
        if member.startswith(":"):
            mask = values.get(f"ompd_bitfield__{struct}__{member[1:]}")
            if mask:
                masks[member[1:]] = mask
            continue
        access = f"ompd_access__{struct}__{member}"
        offset, length = values.get(access), values.get(f"ompd_sizeof__{struct}__{member}")
        if offset is None or length is None:
            continue
        # Offset 0 is valid. Size 0 is not, and shows that the constants were not filled in or were overwritten.
        if not 0 < length <= _MAX_SIZE or offset + length > (size or _MAX_SIZE) or not is_aligned(offset, length):
            faults[member] = addresses[access], f"{struct}.{member} is published as {length} bytes at offset {offset}"
        else:
            fields[member] = Field(offset, length)
    for member, other in _overlapping(fields):
        # Lost constants read as zeros. Offset 0 is valid for only one member, and it is unknown for which.
        for each in (member, other):
            text = f"{struct}.{member} and {struct}.{other} overlap"
            faults[each] = addresses[f"ompd_access__{struct}__{each}"], text
            fields.pop(each, None)
    return StructLayout(struct, size, fields, SOURCE, masks, faults)


def _overlapping(fields: Mapping[str, Field]) -> list[tuple[str, str]]:
    placed = sorted((field.offset, field.size, member) for member, field in fields.items())
    return [
        (member, other)
        for (offset, size, member), (following, _, other) in pairwise(placed)
        if offset + size > following
    ]
