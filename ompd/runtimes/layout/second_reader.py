"""A second reader of a runtime's debug information, which uses pyelftools and shares no code with ompd's own reader.

A table of layouts outlives its source file, so a table is written only if both readers agree. pyelftools does not guard
against endless references in a file, so it runs in a child process with limits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from ompd.runtimes.layout.generate import Shape
from ompd.safety import child
from ompd.safety.reading import open_regular

if TYPE_CHECKING:
    from elftools.dwarf.die import DIE

# Reading Intel's runtime takes 4 s and 300 MB.
SECONDS = 60
MEMORY = 1 << 30
_STRUCTURES = ("DW_TAG_structure_type", "DW_TAG_class_type", "DW_TAG_union_type")
_TYPES = (*_STRUCTURES, "DW_TAG_enumeration_type", "DW_TAG_typedef")
_THROUGH = {f"DW_TAG_{name}_type" for name in ("const", "volatile", "restrict", "atomic")} | {"DW_TAG_typedef"}
_POINTERS = {f"DW_TAG_{name}_type" for name in ("pointer", "reference", "rvalue_reference")}
# Older releases of GCC write -1 as the last index of an empty array.
_NO_INDEX = (-1, (1 << 32) - 1, (1 << 64) - 1)
_DW_OP_PLUS_UCONST = 0x23
_MAX_DEPTH = 32


class _Odd(Exception):
    """A member or size that cannot be in a table."""


def read(
    path: str, wanted: Mapping[str, Sequence[str]], is_wanted: Callable[[str], bool]
) -> tuple[str, dict[str, list[Shape]]]:
    """Return the version of pyelftools, and the layouts that it reads for each type in the file at *path*. A type has
    one layout for each different definition, and none without a definition.

    :param wanted: for each type, its possible names in the order of search
    :param is_wanted: called with the path of each member; members inside of an unwanted member are left out, too
    :raises GivenUp: if pyelftools is not installed, cannot read the file, or takes too much time or memory
    """

    def work() -> object:
        try:
            import elftools
            from elftools.elf.elffile import ELFFile
        except ImportError:
            raise child.GivenUp("pyelftools is not installed") from None
        descriptor, _ = open_regular(path)
        with open(descriptor, "rb") as stream:  # noqa: PTH123
            types = _Types(ELFFile(stream))
            return elftools.__version__, {name: types.shapes(names, is_wanted) for name, names in wanted.items()}

    reply: Any = child.run(work, seconds=SECONDS, memory=MEMORY)
    version, found = reply
    return version, {name: [(size, fields) for size, fields in shapes] for name, shapes in found.items()}


class _Types:
    """The named types of a file. For each name, types outside of all scopes are preferred to types in namespaces."""

    def __init__(self, elf: Any) -> None:
        if any(elf.get_section_by_name(name) is not None for name in (".gnu_debugaltlink", ".debug_sup")):
            raise child.GivenUp("a part of it is in another file")
        info = elf.get_dwarf_info(follow_links=False)
        self._named: dict[str, list[DIE]] = {}
        self._scoped: dict[str, list[DIE]] = {}
        for unit in chain(info.iter_CUs(), info.iter_TUs() if info.has_debug_types() else ()):
            top = unit.get_top_DIE()
            if not top.attributes.keys().isdisjoint(("DW_AT_dwo_name", "DW_AT_GNU_dwo_name")):
                raise child.GivenUp("a part of it is in another file")
            self._keep(top, self._named)

    def _keep(self, outer: DIE, found: dict[str, list[DIE]]) -> None:
        for die in outer.iter_children():
            if die.tag in _TYPES and "DW_AT_name" in die.attributes and "DW_AT_declaration" not in die.attributes:
                found.setdefault(_name(die), []).append(die)
            elif die.tag == "DW_TAG_namespace":
                self._keep(die, self._scoped)

    def _all(self, name: str) -> list[DIE]:
        return self._named.get(name) or self._scoped.get(name) or []

    def shapes(self, names: Sequence[str], is_wanted: Callable[[str], bool]) -> list[Shape]:
        """Return the layouts of the type with the first defined name among *names*."""
        defined = next((dies for name in names if (dies := self._all(name))), [])
        # If a typedef and a tag have the same name, the name means the typedef.
        chosen = [die for die in defined if die.tag == "DW_TAG_typedef"] or defined
        found: list[Shape] = []
        for die in map(self._definition, chosen):
            members: dict[str, Sequence[int]] = {}
            self._enter(die, "", 0, 0, members, is_wanted)
            shape = self._size(die), members
            if shape not in found:
                found.append(shape)
        return found

    def _definition(self, die: DIE) -> DIE:
        while True:  # an endless chain ends at the limits of this child process
            if die.tag in _THROUGH:
                if "DW_AT_type" not in die.attributes:
                    raise _Odd("void")
                die = die.get_DIE_from_attribute("DW_AT_type")
            elif "DW_AT_signature" in die.attributes:
                die = die.get_DIE_from_attribute("DW_AT_signature")
            elif "DW_AT_declaration" in die.attributes:
                tag = die.tag
                die = next((other for other in self._all(_name(die)) if other.tag == tag), die)
                if "DW_AT_declaration" in die.attributes:
                    raise _Odd("only declared")
            else:
                return die

    def _size(self, die: DIE) -> int:
        die = self._definition(die)
        size = _number(die, "DW_AT_byte_size")
        if size is not None:
            return size
        if die.tag in _POINTERS:
            return int(die.cu["address_size"])
        if die.tag not in ("DW_TAG_array_type", "DW_TAG_enumeration_type") or "DW_AT_byte_stride" in die.attributes:
            raise _Odd(die.tag)
        size = self._size(die.get_DIE_from_attribute("DW_AT_type"))
        if die.tag == "DW_TAG_array_type":
            for bound in die.iter_children():
                size *= _count(bound)
        return size

    def _enter(
        self,
        die: DIE,
        prefix: str,
        base: int,
        depth: int,
        found: dict[str, Sequence[int]],
        is_wanted: Callable[[str], bool],
    ) -> None:
        if depth > _MAX_DEPTH:
            raise child.GivenUp("a structure contains itself")
        without_name: list[tuple[DIE, int]] = []
        for member, offset, inner, size, bits in self._members(die):
            name = _name(member).partition(".")[0].partition("$")[0]  # _vptr.Class, _vptr$Class
            path = prefix + name
            if member.tag == "DW_TAG_inheritance" or not name:
                if bits is None:
                    without_name.append((inner, base + offset // 8))
            elif path not in found and is_wanted(path):
                start = 8 * base + offset
                found[path] = [start // 8, size, *(() if bits is None else (start % 8, bits))]
                if bits is None and inner.tag in _STRUCTURES:
                    self._enter(inner, f"{path}.", base + offset // 8, depth + 1, found, is_wanted)
        for inner, offset in without_name:
            if inner.tag in _STRUCTURES:
                self._enter(inner, prefix, offset, depth + 1, found, is_wanted)

    def _members(self, die: DIE) -> Iterator[tuple[DIE, int, DIE, int, int | None]]:
        # Yield each member or base class: its first bit in the structure, its type, the type's size in bytes, its bits.
        for member in die.iter_children():
            if member.tag not in ("DW_TAG_member", "DW_TAG_inheritance") or "DW_AT_external" in member.attributes:
                continue
            try:
                inner = self._definition(member.get_DIE_from_attribute("DW_AT_type"))
                size = self._size(inner)
                bits = _number(member, "DW_AT_bit_size")
                start = _number(member, "DW_AT_data_bit_offset")
                if start is None:
                    start = 8 * _offset(member)
                    if bits is not None:  # counted from the most significant bit of the storage unit
                        whole = _number(member, "DW_AT_byte_size")
                        whole = size if whole is None else whole
                        start += 8 * whole - (_number(member, "DW_AT_bit_offset") or 0) - bits
            except (_Odd, KeyError):
                continue
            yield member, start, inner, size, bits


def _name(die: DIE) -> str:
    value = die.attributes.get("DW_AT_name")
    return value.value.decode("utf-8", "replace") if value is not None else ""


def _number(die: DIE, attribute: str) -> int | None:
    value = die.attributes.get(attribute)
    if value is not None and not isinstance(value.value, int):
        raise _Odd("computed when the program runs")
    return None if value is None else value.value


def _count(bound: DIE) -> int:
    # Return the number of elements in one dimension of an array, 0 without a bound.
    count, upper = _number(bound, "DW_AT_count"), _number(bound, "DW_AT_upper_bound")
    if count is not None or upper is None:
        return count or 0
    return 0 if upper in _NO_INDEX else upper - (_number(bound, "DW_AT_lower_bound") or 0) + 1


def _offset(member: DIE) -> int:
    value = member.attributes.get("DW_AT_data_member_location")
    if value is None:
        return 0
    if isinstance(value.value, int):
        return value.value
    operation, *rest = value.value
    if operation != _DW_OP_PLUS_UCONST or not rest or rest[-1] & 0x80 or any(not byte & 0x80 for byte in rest[:-1]):
        raise _Odd("computed when the program runs")
    return sum((byte & 0x7F) << 7 * place for place, byte in enumerate(rest))
