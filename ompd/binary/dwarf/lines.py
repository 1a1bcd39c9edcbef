"""Source file, line and functions, including inlined ones, of addresses in one file, by DWARF 2 to 5.

This module does not use pyelftools, because importing it takes longer than a debugger may take to answer. All addresses
are link-time addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import starmap
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from ompd.binary.dwarf import constants as dw
from ompd.binary.dwarf.files import DebugFiles, OtherFiles
from ompd.binary.dwarf.forms import Value
from ompd.binary.dwarf.functions import FunctionFinder
from ompd.binary.dwarf.line_table import LineTable, Rows
from ompd.binary.dwarf.names import Names, has_no_scopes, text_of
from ompd.binary.dwarf.units import Unit
from ompd.binary.dwarf.walk import iter_entries
from ompd.binary.elf.elf import ElfFile

if TYPE_CHECKING:
    from ompd.binary.dwarf.calls import Call

_MAX_PARAMETERS = 64
_MAX_FIRST_ROWS = 8


class Function(NamedTuple):
    """A function at an address. ``name`` is None if it is unknown.

    ``call`` is the file and line of the call of an inlined function, None if unknown, and for the outermost function.
    """

    name: str | None
    is_inlined: bool
    call: tuple[str, int] | None


class LineInfo:
    """The line tables and functions of one file: a module, or its separate debug file, and the files it refers to.

    A lookup reads only the parts it needs, and caches them.

    :param others: finds split and supplementary files, None without any
    :param files: the file's debug information, if it is shared with other readers
    :param is_outlined: returns whether a compiler outlined the function with that name from a construct
    """

    def __init__(
        self,
        elf: ElfFile,
        others: OtherFiles | None = None,
        files: DebugFiles | None = None,
        is_outlined: Callable[[str], bool] = lambda name: False,
    ) -> None:
        self._files = files if files is not None else DebugFiles(elf, others)
        self._is_outlined = is_outlined
        self._names = Names(self._files, is_outlined)
        self._functions = FunctionFinder(self._files)
        self._tables: dict[int, LineTable] = {}
        self._rows = Rows(elf.disk_size)
        self._declarations: dict[tuple[str, int], list[tuple[str | None, int, str, str | None]]] = {}
        self._calls: dict[tuple[str, int, int], list[Call]] = {}

    @property
    def is_whole(self) -> bool:
        """Whether all files that lookups have needed so far were available."""
        return self._files.is_whole

    def locate(self, link_address: int, *, entry: bool = False) -> tuple[str, int] | None:
        """Return file and line of the code at *link_address*, None if the line tables have none.

        The file is the table's path, made absolute by the unit's compilation directory if that is known. The line is
        the one that gdb shows: the line of the last row at or before the address in its sequence.

        :param entry: take the first row at the address, which has the function's own line if a function begins there.
            In optimised code, the first statement may have the same address
        :raises MalformedFile: if the tables are malformed
        """
        unit = self._functions.unit_at(link_address)
        table = None if unit is None else self._table(unit)
        if table is None:
            return None
        row = table.row_at(link_address, entry)
        if row is None:
            return None
        file, line, _ = row
        return (table.path(file), line) if line > 0 else None

    def digest(self, link_address: int, file: str) -> bytes | None:
        """Return the MD5 of the source *file* at compile time, None if the line table at *link_address* does not have
        it.

        :raises MalformedFile: if the tables are malformed
        """
        unit = self._functions.unit_at(link_address)
        table = None if unit is None else self._table(unit)
        return table.digest(file) if table is not None else None

    def construct(self, link_address: int) -> tuple[str, int] | None:
        """Return file and line of the construct whose outlined function begins at *link_address*, None if unknown.

        clang declares an outlined function at the construct; its first row may belong to an inlined function. With gcc,
        the first row has the construct's line. Before gcc 12, the first row of a taskloop has the last line of another
        function, and the next row has the construct's line.

        :raises MalformedFile: if the entries or tables are malformed
        """
        entry = self.function_entry(link_address)
        name = self._names.function(*entry) if entry is not None else None
        if entry is None or name is None:
            return self.locate(link_address, entry=True)
        unit, offset = entry
        file, line = self._declared(unit, offset)
        if file is not None and line and self._is_outlined(name):
            return file, line
        table = self._table(unit.skeleton or unit)
        if not self._is_outlined(name) or table is None:
            return self.locate(link_address, entry=True)
        around = name.partition(".")[0]
        rows = table.first_rows(link_address, _MAX_FIRST_ROWS)
        if not rows:
            return None
        row = rows[0]
        other = next((other for other in rows if other[1] != row[1]), None)
        # Finding the function of a line takes long in a large C++ unit. So in a language with scopes this is only done
        # if the other row has a smaller line.
        if other is not None and other[0] == row[0] and (has_no_scopes(unit) or other[1] < row[1]):
            file = table.path(row[0])
            if not self._is_in(unit, around, file, row[1]) and self._is_in(unit, around, file, other[1]):
                row = other
        return (table.path(row[0]), row[1]) if row[1] > 0 else None

    def _is_in(self, unit: Unit, name: str, file: str, line: int) -> bool:
        function = self._function_with_line(unit, file, line)
        return function is not None and name in function[1:]

    def functions(self, link_address: int) -> list[Function]:
        """Return the functions at *link_address*, innermost first: the inlined functions, then the function that
        contains them. Empty without debug information.

        :raises MalformedFile: if the entries are malformed
        """
        return [
            Function(self._names.function(unit, offset), call is not None, self._call(unit, call) if call else None)
            for unit, offset, call in self._functions.entries_at(link_address)
        ]

    def has_parameter(self, link_address: int, name: str) -> bool:
        """Return whether the function at *link_address*, or a function inlined there, has a parameter called *name*.

        :raises MalformedFile: if the entries are malformed
        """
        for function in self._functions.entries_at(link_address):
            # An inlined copy may lack parameters that have no location.
            _, unit, offset = self._names.described(*function[:2])
            for count, entry in enumerate(iter_entries(unit, dw.DW_TAG_FORMAL_PARAMETER, below=offset, only=())):
                if count >= _MAX_PARAMETERS:
                    break
                if text_of(self._names.described(unit, entry.offset)[0], dw.DW_AT_NAME) == name:
                    return True
        return False

    def declared_inside(self, link_address: int) -> str | None:
        """Return the name of the source function that contains the construct of the outlined function at
        *link_address*, found by the line at which the outlined function is declared.

        None if there is no outlined function, if the line is unknown, and for languages with nested functions.

        :raises MalformedFile: if the entries are malformed
        """
        entries = [(unit, offset) for unit, offset, _ in self._functions.entries_at(link_address)]
        # clang 19 and later declare a task's code at the line of the function around the task, not at the task.
        outlined = [entry for entry in entries if self._is_outlined(self._names.function(*entry) or "")]
        if not outlined or not has_no_scopes(outlined[0][0]):
            return None
        file, line = next((place for place in starmap(self._declared, outlined) if place[1] is not None), (None, None))
        if line is None:
            return None
        function = self._function_with_line(outlined[0][0], file, line)
        return function[1] if function is not None else None

    def function_around(self, link_address: int, linkage: str) -> str | None:
        """Return the source name of the function with the symbol *linkage*, which contains the construct of the
        outlined function at *link_address*. None if it is unknown.

        gcc nests the entries of the two functions; clang puts them into one unit.

        :raises MalformedFile: if the entries are malformed
        """
        entry = self.function_entry(link_address)
        if entry is None:
            return None
        around = self._names.function_around(*entry)
        if around is not None and around[1] in (None, linkage) and not self._is_outlined(around[0]):
            return around[0]
        unit = entry[0]
        for offset, attributes in iter_entries(unit, dw.DW_TAG_SUBPROGRAM, only=(dw.DW_AT_LINKAGE_NAME,)):
            value = attributes.get(dw.DW_AT_LINKAGE_NAME)
            if value is not None and unit.string(value) == linkage:
                return self._names.function(unit, offset)
        return None

    def _function_with_line(self, unit: Unit, file: str | None, line: int) -> tuple[int, str, str | None] | None:
        # Line and names of the last source function that begins at or before a line. If the language has no nested
        # functions, that function contains the line.
        key = unit.section, unit.offset
        if key not in self._declarations:
            self._declarations[key] = list(self._iter_declarations(unit))
        rows = [row[1:] for row in self._declarations[key] if row[0] == file and row[1] <= line]
        return max(rows, key=itemgetter(0), default=None)

    def _iter_declarations(self, unit: Unit) -> Iterator[tuple[str | None, int, str, str | None]]:
        for offset, attributes in iter_entries(unit, dw.DW_TAG_SUBPROGRAM, only=(dw.DW_AT_DECLARATION,)):
            if dw.DW_AT_DECLARATION in attributes:
                continue
            file, line = self._declared(unit, offset)
            name = self._names.function(unit, offset)
            # Names of outlined functions begin with a dot.
            if line is not None and name is not None and not name.startswith(".") and not self._is_outlined(name):
                yield file, line, name, text_of(self._names.described(unit, offset)[0], dw.DW_AT_LINKAGE_NAME)

    def _declared(self, unit: Unit, offset: int) -> tuple[str | None, int | None]:
        described, _, _ = self._names.described(unit, offset)
        file, line = described.get(dw.DW_AT_DECL_FILE), described.get(dw.DW_AT_DECL_LINE)
        number = line[0].number(line[1]) if line is not None else None
        return self._file(file[0], file[0].number(file[1])) if file is not None else None, number

    def function_entry(self, link_address: int) -> tuple[Unit, int] | None:
        """Return unit and offset of the entry of the function at *link_address*, None without debug information."""
        return self._functions.entry_at(link_address)

    def _call(self, unit: Unit, attributes: Mapping[int, Value]) -> tuple[str, int] | None:
        line, number = unit.number(attributes.get(dw.DW_AT_CALL_LINE)), unit.number(attributes.get(dw.DW_AT_CALL_FILE))
        file = self._file(unit, number)
        return (file, line) if line and file is not None else None

    def _file(self, unit: Unit, number: int | None) -> str | None:
        # The files of a split unit are in the table of its skeleton.
        table = self._table(unit.skeleton or unit) if number is not None else None
        # Before DWARF 5, files are counted from 1, and 0 means no file.
        if number is None or table is None or (number == 0 and table.version < 5):
            return None
        return table.path(number)

    def calls(self, link_address: int) -> list[Call]:
        """Return the calls in the function at *link_address*, empty without debug information.

        :raises MalformedFile: if the entries are malformed
        """
        entry = self.function_entry(link_address)
        if entry is None:
            return []
        unit, offset = entry
        key = unit.section, unit.offset, offset
        if key not in self._calls:
            from ompd.binary.dwarf.calls import read_calls

            self._calls[key] = read_calls(self._files, self._names, unit, offset)
        return self._calls[key]

    def passed(self, inside: int) -> list[int]:
        """Return the addresses of functions and variables that a call passes as arguments.

        :param inside: the call's :attr:`Call.inside`
        :raises MalformedFile: if the entries are malformed
        """
        call = next((call for call in self.calls(inside) if call.inside == inside), None)
        entry = self.function_entry(inside) if call is not None else None
        if call is None or entry is None:
            return []
        from ompd.binary.dwarf.calls import read_passed

        return read_passed(entry[0], call)

    def _table(self, unit: Unit) -> LineTable | None:
        offset = unit.number(unit.top.get(dw.DW_AT_STMT_LIST))
        if offset is None or unit.sections is not self._files.main:
            return None
        if offset not in self._tables:
            self._tables[offset] = LineTable(unit, offset, self._rows)
        return self._tables[offset]
