"""The files of one module's debug information, and references between their entries.

These are the module's file or its debug file, the split files that its skeleton units name (``.dwo``, or a package
``.dwp`` of them), and the supplementary file that several modules share (dwz's). Other files are opened at the first
reference, and accepted only if proven: a split unit by its ``dwo_id``, a supplementary file by its build-id or
checksum. Section numbers in comments are those of DWARF 5.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Protocol

from ompd.binary.dwarf import constants as dw
from ompd.binary.dwarf.forms import STRING_INDEXES, SUPPLEMENTARY_REFERENCES, UNIT_REFERENCES, Value
from ompd.binary.dwarf.sections import WHOLE, Contribution, Sections, read_supplementary
from ompd.binary.dwarf.sections import supplementary_checksum as checksum_of
from ompd.binary.dwarf.units import Unit, read_length
from ompd.binary.dwarf.walk import Nesting
from ompd.binary.elf.elf import ElfFile
from ompd.errors import MalformedFile, Unsupported
from ompd.safety import limits

INFO, TYPES = ".debug_info", ".debug_types"
_MAX_UNITS = 1 << 20
# A large program has thousands of split files. Only a search for types opens all of them.
_MAX_SPLIT_FILES = 1 << 12
# Bytes of an abbreviation: DW_AT_dwo_name with each form of a string, DW_AT_GNU_dwo_name with any form
_STRING_FORMS = (dw.DW_FORM_STRING, dw.DW_FORM_STRP, dw.DW_FORM_LINE_STRP, *(STRING_INDEXES & set(range(0x80))))
_NAMES_SPLIT_FILE = (*(bytes((dw.DW_AT_DWO_NAME, form)) for form in _STRING_FORMS), b"\xb0\x42")


class OtherFiles(Protocol):
    """Finds the files that a module's debug information refers to."""

    def supplementary(self, name: str, is_proven: Callable[[ElfFile], bool], build_id: bytes | None) -> ElfFile | None:
        """Return the first proven file that *name* may refer to, None if there is none."""

    def split(self, folder: str, name: str) -> Iterator[ElfFile]:
        """Yield candidates for the split file *name*, which a compiler wrote in *folder*."""

    def packages(self) -> Iterator[ElfFile]:
        """Yield candidates for the package of the module's split files."""


class DebugFiles:
    """The debug information of one module, in all its files.

    :param elf: the module's file or its separate debug file
    :param others: finds the other files, None if there are none
    """

    def __init__(self, elf: ElfFile, others: OtherFiles | None = None) -> None:
        self.name = elf.name
        self.is_whole = True
        """Whether every file needed so far was found."""
        self._elf = elf
        self._others = others
        self.main = Sections(elf)
        self.main.supplementary = lambda: self.supplementary
        self._sections = {"": self.main}
        self._count = 0
        self._lacks_split = False
        self._starts: dict[str, list[int]] = {}
        self._wide: set[str] = set()  # sections with units of the 64-bit format
        self._too_many: set[str] = set()  # sections that claim more units than can be real
        self._units: dict[tuple[str, int], Unit] = {}
        self._whole: dict[int, Unit] = {}  # split units by the offsets of their skeletons
        self._signatures: dict[str, dict[int, Unit]] = {}
        self._contributions: dict[str, dict[int, Contribution]] = {}
        self._nesting: dict[tuple[str, int], Nesting] = {}

    # Files

    @cached_property
    def supplementary(self) -> Sections | None:
        """The supplementary file's sections, None if there is none or it is not proven."""
        name_and_checksum = read_supplementary(self._elf)
        if name_and_checksum is None:
            return None
        self.is_whole = False
        if self._others is None:
            return None

        def is_proven(elf: ElfFile) -> bool:
            return (elf.build_id() if name_and_checksum.is_build_id else checksum_of(elf)) == name_and_checksum.proof

        elf = self._others.supplementary(
            name_and_checksum.name, is_proven, name_and_checksum.proof if name_and_checksum.is_build_id else None
        )
        if elf is None or not self._is_of_this_machine(elf):
            return None
        self.is_whole = not self._lacks_split
        return self._added(elf, split=False)

    def _is_of_this_machine(self, elf: ElfFile) -> bool:
        return (elf.byte_order, elf.ident_class) == (self._elf.byte_order, self._elf.ident_class)

    def _added(self, elf: ElfFile, *, split: bool) -> Sections:
        self._count += 1
        tag = f"#{self._count}"
        self._sections[tag] = Sections(elf, split=split, tag=tag)
        return self._sections[tag]

    @cached_property
    def _packages(self) -> list[Sections]:
        packages = []
        for elf in self._others.packages() if self._others is not None else ():
            if not self._is_of_this_machine(elf):
                continue
            try:
                sections = self._added(elf, split=True)
                if sections.package("cu") is not None:
                    packages.append(sections)
            except MalformedFile:
                continue
        return packages

    def whole(self, unit: Unit) -> Unit:
        """Return the split unit of the skeleton *unit*; *unit* itself if it is not a skeleton or the file is
        missing.
        """
        if unit.sections is not self.main or not unit.has_code:
            return unit
        if unit.offset not in self._whole:
            split_unit = self._split_unit(unit)
            if split_unit is None and unit.split_name:
                self._lacks_split, self.is_whole = True, False
            self._whole[unit.offset] = split_unit or unit
        return self._whole[unit.offset]

    def _split_unit(self, skeleton: Unit) -> Unit | None:
        name, dwo_id = skeleton.split_name, skeleton.dwo_id
        if not name or dwo_id is None or self._others is None:
            return None
        for sections in self._packages:
            try:
                index = sections.package("cu")
                contribution = index.find(dwo_id) if index is not None else None
                if contribution is not None and INFO in contribution:
                    unit = self._split_unit_at(sections, contribution[INFO], skeleton, contribution)
                    if unit is not None:
                        return unit
            except MalformedFile:
                continue  # the package is damaged; try the split file
        folder = skeleton.string(skeleton.top.get(dw.DW_AT_COMP_DIR)) or ""
        for elf in self._others.split(folder, name):
            if not self._is_of_this_machine(elf):
                continue
            try:
                sections = self._added(elf, split=True)
                for offset in self.starts(sections, INFO):
                    unit = self._split_unit_at(sections, offset, skeleton, WHOLE)
                    if unit is not None:
                        return unit
            except MalformedFile:
                continue
            self._sections.pop(sections.tag)
        return None

    def _split_unit_at(
        self, sections: Sections, offset: int, skeleton: Unit, contribution: Contribution
    ) -> Unit | None:
        # The split unit at *offset*, None if it does not belong to the skeleton.
        unit = Unit(sections, offset, skeleton=skeleton, contribution=contribution)
        if not unit.has_code or unit.dwo_id != skeleton.dwo_id or unit.address_size != skeleton.address_size:
            return None
        return self._units.setdefault((unit.section, offset), unit)

    def open_all(self) -> None:
        """Open every file of the module's debug information.

        :raises Unsupported: if there are too many files
        """
        _ = self.supplementary
        if not self._may_be_split:
            return
        for unit in self.units(self.main, INFO):
            self.whole(unit)
            if len(self._sections) > _MAX_SPLIT_FILES:
                raise Unsupported(f"{self.name}: more than {_MAX_SPLIT_FILES} files of debug information")

    @property
    def _may_be_split(self) -> bool:
        # Whether an abbreviation may have the attribute that names a split file.
        span = self.main.span(".debug_abbrev")
        if span is None:
            return False
        data, start, end = span
        return any(data.find(mark, start, end) >= 0 for mark in _NAMES_SPLIT_FILE)

    @property
    def files(self) -> list[Sections]:
        """All files opened so far, the module's own first."""
        return list(self._sections.values())

    # Units

    def starts(self, sections: Sections, section: str) -> list[int]:
        """Return the offsets of a section's units. Only the units' lengths are read.

        :raises MalformedFile: if a length is malformed
        """
        key = section + sections.tag
        if key in self._too_many:
            raise MalformedFile(f"{section}: too many units")
        if key not in self._starts:
            starts: list[int] = []
            offset, size = 0, sections.size(section)
            most = min(_MAX_UNITS, limits.FREE_UNITS + size // limits.UNIT_HEADER)
            while offset < size:
                if len(starts) >= most:
                    self._too_many.add(key)
                    raise MalformedFile(f"{section}: too many units")
                starts.append(offset)
                cursor = sections.cursor(section, offset)
                before = cursor.position
                offset_size, length = read_length(cursor)
                if offset_size == 8:
                    self._wide.add(key)
                offset += cursor.position - before + length
            self._starts[key] = starts
        return self._starts[key]

    def offset_sizes(self, sections: Sections, section: str) -> tuple[int, ...]:
        """Return the sizes in bytes that offsets have in a section's units.

        :raises MalformedFile: if a unit of the section is malformed
        """
        self.starts(sections, section)
        return (4, 8) if section + sections.tag in self._wide else (4,)

    def unit(self, sections: Sections, offset: int, section: str = INFO) -> Unit:
        """Return the unit at *offset*.

        :raises MalformedFile: if there is none
        """
        key = section + sections.tag, offset
        if key not in self._units:
            contribution = WHOLE
            if sections.split and sections.package("cu") is not None:
                if key[0] not in self._contributions:
                    rows: dict[int, Contribution] = {}
                    for index in (sections.package("tu"), sections.package("cu")):
                        rows |= index.by_offset(section) if index is not None else {}
                    self._contributions[key[0]] = rows
                contribution = self._contributions[key[0]].get(offset, WHOLE)
            self._units[key] = Unit(sections, offset, section, contribution=contribution)
        return self._units[key]

    def units(self, sections: Sections, section: str) -> Iterator[Unit]:
        """Yield the units of a section, in its order.

        :raises MalformedFile: at a malformed unit
        """
        for offset in self.starts(sections, section):
            yield self.unit(sections, offset, section)

    def around(self, unit: Unit, offset: int) -> int | None:
        """Return the offset of the parent of the entry at *offset* of *unit*, None for the unit's own entry.

        :raises MalformedFile: if entries on the way are malformed, or nested too deep
        """
        key = unit.section, unit.offset
        if key not in self._nesting:
            self._nesting[key] = Nesting(unit)
        return self._nesting[key].around(offset)

    # References

    def target(self, unit: Unit, value: Value) -> tuple[Unit, int]:
        """Return unit and offset of the entry that *value*, a reference in *unit*, refers to.

        :raises MalformedFile: if the reference is to no entry
        :raises Unsupported: if the entry is in a file that is not available
        """
        form, raw = value
        if not isinstance(raw, int):
            raise MalformedFile(f"{self.name}: a reference of form {form:#x}")
        if form in UNIT_REFERENCES:
            return unit, raw
        if form == dw.DW_FORM_REF_ADDR:
            return self.entry_at(unit.sections, unit.section_base + raw)
        if form == dw.DW_FORM_REF_SIG8:
            type_unit = self.unit_of_signature(unit.sections, raw)
            if type_unit is None:
                raise Unsupported(f"{self.name}: a type with signature {raw:#x} is in another file")
            return type_unit, type_unit.type_offset or 0
        if form in SUPPLEMENTARY_REFERENCES:
            sections = self.supplementary if unit.sections is self.main else None
            if sections is None:
                raise Unsupported(f"{self.name}: an entry is in a supplementary file (dwz's), which was not found")
            return self.entry_at(sections, raw)
        raise MalformedFile(f"{self.name}: a reference of form {form:#x}")

    def entry_at(self, sections: Sections, offset: int) -> tuple[Unit, int]:
        """Return the unit that contains *offset* of ``.debug_info``, and the offset in that unit.

        :raises MalformedFile: if there is none
        """
        starts = self.starts(sections, INFO)
        index = bisect_right(starts, offset) - 1
        if index >= 0:
            unit = self.unit(sections, starts[index])
            if offset < unit.next_offset:
                return unit, offset - unit.offset
        raise MalformedFile(f".debug_info: no entry at {offset:#x}")

    def unit_of_signature(self, sections: Sections, signature: int) -> Unit | None:
        """Return the type unit with *signature*, None if the file has no such unit.

        :raises MalformedFile: if a unit of the file is malformed
        """
        if sections.tag not in self._signatures:
            units = (unit for section in (INFO, TYPES) for unit in self.units(sections, section))
            by_signature = self._signatures[sections.tag] = {}
            for unit in units:
                if unit.signature is not None:
                    by_signature.setdefault(unit.signature, unit)
        return self._signatures[sections.tag].get(signature)
