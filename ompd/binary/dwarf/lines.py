"""Source lines of addresses, by the line tables of DWARF 2 to 5, and the functions that were inlined there.

Our own reader, since the library that reads all of DWARF takes longer to import than a debugger may take to answer. All
addresses are link-time addresses. Section numbers in comments are those of DWARF 5.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import starmap
from operator import gt, itemgetter
from typing import TYPE_CHECKING, NamedTuple

from ompd.binary.cursor import Cursor
from ompd.binary.dwarf.files import INFO, DebugFiles, OtherFiles
from ompd.binary.dwarf.names import Names, has_no_scopes, text_of
from ompd.binary.dwarf.units import (
    DW_AT_CALL_FILE,
    DW_AT_CALL_LINE,
    DW_AT_COMP_DIR,
    DW_AT_LINKAGE_NAME,
    DW_AT_NAME,
    DW_AT_STMT_LIST,
    DW_TAG_INLINED_SUBROUTINE,
    DW_TAG_SUBPROGRAM,
    OF_RANGES,
    Entry,
    Unit,
    Value,
    read_aranges,
    read_length,
)
from ompd.binary.elf.elf import ElfFile
from ompd.errors import MalformedFile
from ompd.naming import is_construct
from ompd.safety import limits

if TYPE_CHECKING:
    from ompd.binary.dwarf.calls import Call

_MAX_RANGES = 1 << 21
# Rows that are read at once and remembered by where they begin; how many rows are kept of all tables of a file; how
# many a run of code may have whose rows are not in the order of their addresses, which no compiler writes.
_CHUNK, _MAX_KEPT, _MAX_UNORDERED = 512, 1 << 18, 1 << 18
_SEQUENCE_COST = 32  # what is remembered of one is worth some rows
_MAX_DEPTH = 1 << 10
_MAX_INLINED = 1 << 16
_MAX_PARAMETERS = 64
_MAX_FIRST_ROWS = 8
# How gcc calls the functions that it makes of constructs.
_OF_GCC = "._omp_fn."

_DW_TAG_FORMAL_PARAMETER = 0x05
_DW_AT_DECL_FILE, _DW_AT_DECL_LINE, _DW_AT_DECLARATION = 0x3A, 0x3B, 0x3C

# 6.2.5.2: standard opcodes. 6.2.5.3: extended ones. 6.2.4.1: what an entry of a table of files holds.
_LNS_COPY, _LNS_ADVANCE_PC, _LNS_ADVANCE_LINE, _LNS_SET_FILE, _LNS_SET_COLUMN, _LNS_NEGATE_STMT = range(1, 7)
_LNS_CONST_ADD_PC, _LNS_FIXED_ADVANCE_PC = 8, 9
_LNE_END_SEQUENCE, _LNE_SET_ADDRESS, _LNE_DEFINE_FILE = 1, 2, 3
_LNCT_PATH, _LNCT_DIRECTORY_INDEX = 1, 2


# A path that is somewhere, or its bytes.
_Path = Value | bytes | None
# Number of the file in its table, line, is_stmt. No class of its own: there are very many.
_Row = tuple[int, int, bool]


# Addresses of some rows that follow one another, and the rows.
_Chunk = tuple[list[int], list[_Row]]
# Where the program goes on with the next row: place in the buffer, then the registers address, file, line, is_stmt.
_State = tuple[int, int, int, int, bool]


class _Sequence(NamedTuple):
    # One run of code: where its rows are read again, chunk by chunk, and the address of each chunk's first.

    start: int
    end: int  # the first address behind it
    firsts: list[int]
    states: list[_State]
    is_ordered: bool


class _Rows:
    # The rows that were read last, of all tables of a file, and how many bytes of tables may still be read.

    def __init__(self, size: int) -> None:
        self.left = limits.Budget(limits.line_bytes(size), ".debug_line: has more rows than its file justifies")
        self._kept: dict[tuple[int, int], _Chunk] = {}
        self._count = 0

    def get(self, table: int, position: int) -> _Chunk | None:
        return self._kept.get((table, position))

    def keep(self, table: int, position: int, chunk: _Chunk) -> None:
        self._kept[table, position] = chunk
        self._count += len(chunk[1])
        while self._count > _MAX_KEPT and len(self._kept) > 1:
            self._count -= len(self._kept.pop(next(iter(self._kept)))[1])


class _Functions(NamedTuple):
    # The functions of a unit, as far as they were requested, and the walk that finds the others.

    known: list[tuple[int, int, int]]  # start, end, offset of the entry
    others: Iterator[Entry]


class _Inlined(NamedTuple):
    # A function that was inlined: how many others it was inlined into.

    depth: int
    outer: _Inlined | None
    offset: int
    attributes: Mapping[int, Value]


class Function(NamedTuple):
    """A function that the source has at an address. ``name`` is None where only its place is known.

    ``call`` is file and line where it was inlined, None of the function that the others were inlined into, and of one
    whose place is unknown.
    """

    name: str | None
    is_inlined: bool
    call: tuple[str, int] | None


class LineInfo:
    """The line tables and functions of one file: a module, or its separate debug file, and the files it refers to.

    What a lookup needs is read at the first one and kept.

    :param others: finds split and supplementary files, None: there are none
    :param files: the file's debug information, if others read it too
    """

    def __init__(self, elf: ElfFile, others: OtherFiles | None = None, files: DebugFiles | None = None) -> None:
        self._files = files if files is not None else DebugFiles(elf, others)
        self._names = Names(self._files)
        self._tables: dict[int, _LineTable] = {}
        self._rows = _Rows(elf.disk_size)
        self._functions: dict[tuple[str, int, bool], _Functions] = {}
        self._declarations: dict[tuple[str, int], list[tuple[str | None, int, str, str | None]]] = {}
        self._calls: dict[tuple[str, int, int], list[Call]] = {}
        self._inlined: dict[tuple[str, int, int], list[tuple[int, int, _Inlined]]] = {}

    @property
    def is_whole(self) -> bool:
        """Whether every file was there that was needed for what was found so far."""
        return self._files.is_whole

    def locate(self, link_address: int, *, entry: bool = False) -> tuple[str, int] | None:
        """Return file and line of the code at *link_address*, None if the tables have none for it.

        The file is the table's path, made absolute by the unit's compilation directory where that is known. The line is
        the one that gdb shows: of the last row at or before the address, in the sequence that holds it.

        :param entry: take the first row at the address instead, the function's own line where one begins there:
            optimisers
            put the first statement's at the same place
        :raises MalformedFile: if the tables that lead there are malformed
        """
        unit = self._unit_at(link_address)
        table = None if unit is None else self._table(unit)
        if table is None:
            return None
        row = table.row_at(link_address, entry)
        if row is None:
            return None
        file, line, _ = row
        return (table.path(file), line) if line > 0 else None

    def construct(self, link_address: int) -> tuple[str, int] | None:
        """Return file and line of the construct of which a compiler made the function that begins at *link_address*,
        None if that is unknown.

        clang declares such a function there; what is optimised begins with the lines of what was inlined into it. gcc
        says by the first row of its lines. For a loop of tasks releases before 12 put the last line of another
        function into that row, and the construct's into the next.

        :raises MalformedFile: if the entries or tables that lead there are malformed
        """
        entry = self.function_entry(link_address)
        name = self._names.function(*entry) if entry is not None else None
        if entry is None or name is None:
            return self.locate(link_address, entry=True)
        unit, offset = entry
        file, line = self._declared(unit, offset)
        if file is not None and line and is_construct(name):
            return file, line
        around, mark, _ = name.partition(_OF_GCC)
        table = self._table(unit.skeleton or unit)
        if not mark or table is None:
            return self.locate(link_address, entry=True)
        rows = table.first_rows(link_address, _MAX_FIRST_ROWS)
        if not rows:
            return None
        row = rows[0]
        other = next((other for other in rows if other[1] != row[1]), None)
        # In a large unit of C++ it takes long to find out which function has a line.
        if other is not None and other[0] == row[0] and (has_no_scopes(unit) or other[1] < row[1]):
            file = table.path(row[0])
            if not self._is_in(unit, around, file, row[1]) and self._is_in(unit, around, file, other[1]):
                row = other
        return (table.path(row[0]), row[1]) if row[1] > 0 else None

    def _is_in(self, unit: Unit, name: str, file: str, line: int) -> bool:
        found = self._function_with_line(unit, file, line)
        return found is not None and name in found[1:]

    def functions(self, link_address: int) -> list[Function]:
        """Return the functions that the source has at *link_address*, innermost first: those that were inlined, and
        the one that they were inlined into. Empty where the debug information has none.

        :raises MalformedFile: if the entries that lead there are malformed
        """
        return [
            Function(self._names.function(unit, offset), call is not None, self._call(unit, call) if call else None)
            for unit, offset, call in self._entries_at(link_address)
        ]

    def _entries_at(self, link_address: int) -> list[tuple[Unit, int, Mapping[int, Value] | None]]:
        # The entries of functions at an address, innermost first, with the attributes of those that were inlined.
        entry = self.function_entry(link_address)
        if entry is None:
            return []
        unit, offset = entry
        covering = [row[2] for row in self._inlined_in(unit, offset) if row[0] <= link_address < row[1]]
        found: list[tuple[Unit, int, Mapping[int, Value] | None]] = []
        inlined = max(covering, key=lambda inlined: inlined.depth, default=None)
        while inlined is not None:
            found.append((unit, inlined.offset, inlined.attributes))
            inlined = inlined.outer
        return [*found, (unit, offset, None)]

    def has_parameter(self, link_address: int, name: str) -> bool:
        """Return whether the function at *link_address*, or one that is inlined there, has a parameter called *name*.

        :raises MalformedFile: if the entries that lead there are malformed
        """
        for function in self._entries_at(link_address):
            # Where it is inlined, parameters without a place may be left out.
            _, unit, offset = self._names.described(*function[:2])
            for count, entry in enumerate(unit.iter_entries(_DW_TAG_FORMAL_PARAMETER, below=offset)):
                if count >= _MAX_PARAMETERS:
                    break
                if text_of(self._names.described(unit, entry.offset)[0], DW_AT_NAME) == name:
                    return True
        return False

    def declared_inside(self, link_address: int) -> str | None:
        """Return the name of the function in whose lines the construct is of which a compiler made the function at
        *link_address*, or one that is inlined there: it is declared where the construct is. None if that is unknown,
        where there is none, and for languages whose functions may be in each other.

        :raises MalformedFile: if the entries that lead there are malformed
        """
        entries = [(unit, offset) for unit, offset, _ in self._entries_at(link_address)]
        # clang from 19 on does not say where the code of a task is declared, but where the function around it is.
        made = [entry for entry in entries if is_construct(self._names.function(*entry) or "")]
        if not made or not has_no_scopes(made[0][0]):
            return None
        file, line = next((place for place in starmap(self._declared, made) if place[1] is not None), (None, None))
        if line is None:
            return None
        found = self._function_with_line(made[0][0], file, line)
        return found[1] if found is not None else None

    def function_around(self, link_address: int, linkage: str) -> str | None:
        """Return the name of the function *linkage* of which a compiler made the one at *link_address*, by a construct
        in it. None where it is unknown: gcc has the entry of the one in that of the other, clang in the same unit.

        :raises MalformedFile: if the entries that lead there are malformed
        """
        entry = self.function_entry(link_address)
        if entry is None:
            return None
        around = self._names.function_around(*entry)
        if around is not None and around[1] in (None, linkage) and not is_construct(around[0]):
            return around[0]
        unit = entry[0]
        for *_, offset, attributes in unit.iter_entries(DW_TAG_SUBPROGRAM, only=(DW_AT_LINKAGE_NAME,)):
            value = attributes.get(DW_AT_LINKAGE_NAME)
            if value is not None and unit.string(value) == linkage:
                return self._names.function(unit, offset)
        return None

    def _function_with_line(self, unit: Unit, file: str | None, line: int) -> tuple[int, str, str | None] | None:
        # Line and names of the function of the source that begins last before a line: in languages whose functions are
        # not in each other the line is its own.
        key = unit.section, unit.offset
        if key not in self._declarations:
            self._declarations[key] = list(self._iter_declarations(unit))
        rows = [row[1:] for row in self._declarations[key] if row[0] == file and row[1] <= line]
        return max(rows, key=itemgetter(0), default=None)

    def _iter_declarations(self, unit: Unit) -> Iterator[tuple[str | None, int, str, str | None]]:
        for *_, offset, attributes in unit.iter_entries(DW_TAG_SUBPROGRAM):
            if _DW_AT_DECLARATION in attributes:
                continue
            file, line = self._declared(unit, offset)
            name = self._names.function(unit, offset)
            if line is not None and name is not None and ".omp" not in name and not is_construct(name):
                yield file, line, name, text_of(self._names.described(unit, offset)[0], DW_AT_LINKAGE_NAME)

    def _declared(self, unit: Unit, offset: int) -> tuple[str | None, int | None]:
        known, _, _ = self._names.described(unit, offset)
        file, line = known.get(_DW_AT_DECL_FILE), known.get(_DW_AT_DECL_LINE)
        number = line[0].number(line[1]) if line is not None else None
        return self._file(file[0], file[0].number(file[1])) if file is not None else None, number

    def function_entry(self, link_address: int) -> tuple[Unit, int] | None:
        """Return unit, and offset in it, of the entry of the function whose code is at *link_address*, None where the
        debug information has none.

        :raises MalformedFile: if the entries that lead there are malformed
        """
        skeleton = self._unit_at(link_address)
        unit = None if skeleton is None else self._files.whole(skeleton)
        offset = None if unit is None else self._function_at(unit, link_address)
        return None if unit is None or offset is None else (unit, offset)

    def _call(self, unit: Unit, attributes: Mapping[int, Value]) -> tuple[str, int] | None:
        line, number = unit.number(attributes.get(DW_AT_CALL_LINE)), unit.number(attributes.get(DW_AT_CALL_FILE))
        file = self._file(unit, number)
        return (file, line) if line and file is not None else None

    def _file(self, unit: Unit, number: int | None) -> str | None:
        # Split units have their files in the skeleton's table.
        table = self._table(unit.skeleton or unit) if number is not None else None
        # Before DWARF 5 files were counted from 1, and 0 stood for none.
        if number is None or table is None or (number == 0 and table.version < 5):
            return None
        return table.path(number)

    def calls(self, link_address: int) -> list[Call]:
        """Return the calls that are described of the function at *link_address*, none where nothing describes it.

        :raises MalformedFile: if the entries that lead there are malformed
        """
        entry = self.function_entry(link_address)
        if entry is None:
            return []
        unit, offset = entry
        key = unit.section, unit.offset, offset
        if key not in self._calls:
            from ompd.binary.dwarf.calls import read_calls  # noqa: PLC0415  for one question alone

            self._calls[key] = read_calls(self._files, self._names, unit, offset)
        return self._calls[key]

    def passed(self, inside: int) -> list[int]:
        """Return the functions and variables, by their addresses, that a call passes as arguments.

        :param inside: :attr:`Call.inside` of it
        :raises MalformedFile: if the entries that lead there are malformed
        """
        call = next((call for call in self.calls(inside) if call.inside == inside), None)
        entry = self.function_entry(inside) if call is not None else None
        if call is None or entry is None:
            return []
        from ompd.binary.dwarf.calls import read_passed  # noqa: PLC0415  for one question alone

        return read_passed(entry[0], call)

    # Units

    @cached_property
    def _aranges(self) -> list[tuple[int, int, int]]:
        return read_aranges(self._files.main)

    @cached_property
    def _unit_ranges(self) -> list[tuple[int, int, int]]:
        # Like _aranges, of the units that are not there: clang writes none.
        known = {offset for _, _, offset in self._aranges}
        rows = []
        for unit in self._files.units(self._files.main, INFO):
            if unit.has_code and unit.offset not in known:
                rows += [(start, end, unit.offset) for start, end in unit.ranges(unit.top)]
                if len(rows) > _MAX_RANGES:
                    raise MalformedFile(".debug_info: units have too many ranges")
        rows.sort()
        return rows

    def _unit_at(self, address: int) -> Unit | None:
        for ranges in ("_aranges", "_unit_ranges"):
            rows: list[tuple[int, int, int]] = getattr(self, ranges)
            index = bisect_right(rows, address, key=lambda row: row[0]) - 1
            if index >= 0 and address < rows[index][1]:
                return self._files.unit(self._files.main, rows[index][2])
        return None

    def _table(self, unit: Unit) -> _LineTable | None:
        offset = unit.number(unit.top.get(DW_AT_STMT_LIST))
        if offset is None or unit.sections is not self._files.main:
            return None
        if offset not in self._tables:
            self._tables[offset] = _LineTable(unit, offset, self._rows)
        return self._tables[offset]

    # Functions

    def _function_at(self, unit: Unit, address: int) -> int | None:
        # Offset of the entry of the function at an address. In a large unit the walk to it is what takes time, so it
        # goes no further than it has to, and into functions (Fortran has them in others) only at the second try.
        for outer in (True, False):
            key = unit.section, unit.offset, outer
            if key not in self._functions:
                self._functions[key] = _Functions([], unit.iter_entries(DW_TAG_SUBPROGRAM, outer=outer, only=OF_RANGES))
            known, others = self._functions[key]
            for start, end, offset in known:
                if start <= address < end:
                    return offset
            for *_, offset, attributes in others:
                ranges = unit.ranges(attributes)
                known += [(start, end, offset) for start, end in ranges]
                if any(start <= address < end for start, end in ranges):
                    return offset
        return None

    def _inlined_in(self, unit: Unit, offset: int) -> list[tuple[int, int, _Inlined]]:
        # Start and end of the code of what is inlined in one function.
        key = unit.section, unit.offset, offset
        if key not in self._inlined:
            rows: list[tuple[int, int, _Inlined]] = []
            around: list[tuple[int, _Inlined]] = []
            for count, entry in enumerate(unit.iter_entries(DW_TAG_INLINED_SUBROUTINE, below=offset)):
                if count >= _MAX_INLINED or entry.depth > _MAX_DEPTH:
                    raise MalformedFile(".debug_info: too many functions are inlined into one", offset=offset)
                while around and around[-1][0] >= entry.shared:
                    around.pop()
                outer = around[-1][1] if around else None
                inlined = _Inlined(len(around), outer, entry.offset, entry.attributes)
                around.append((entry.depth, inlined))
                rows += [(start, end, inlined) for start, end in unit.ranges(entry.attributes)]
            self._inlined[key] = rows
        return self._inlined[key]


class _LineTable:
    # The line number program at one offset of .debug_line (6.2), and its lists of folders and files.

    def __init__(self, unit: Unit, offset: int, kept: _Rows) -> None:
        self._unit = unit
        self._kept = kept
        self._offset = offset
        # Paths are where they are until one is requested: many may share their bytes.
        self._directories: list[_Path] = []
        self._files: list[tuple[_Path, int]] = []  # path, and number of its folder
        cursor = unit.sections.cursor(".debug_line", offset)
        self._offset_size, length = read_length(cursor)
        if length > cursor.end - cursor.position:
            cursor.fail("a line table does not fit")
        cursor.end = cursor.position + length
        self.version = cursor.unsigned(2)
        if not 2 <= self.version <= 5:
            cursor.fail(f"a line table of unknown version {self.version}")
        if self.version >= 5:
            cursor.take(2)  # sizes of addresses, which each instruction says too, and of segments, which no one has
        header_length = cursor.unsigned(self._offset_size)
        self._program = cursor.position + header_length
        self._minimum_length = cursor.byte()
        if self.version >= 4 and cursor.byte() != 1:
            cursor.fail("a line table of a machine with several operations in one instruction")
        self._default_is_stmt = bool(cursor.byte())
        self._line_base, self._line_range, self._opcode_base = cursor.signed(1), cursor.byte(), cursor.byte()
        self._lengths = cursor.take(max(self._opcode_base - 1, 0))
        if self._opcode_base == 0 or self._line_range == 0:
            cursor.fail("a line table without a range of lines")
        if self.version >= 5:
            self._read_lists(cursor)
        else:
            self._read_old_lists(cursor)
        if not cursor.position <= self._program <= cursor.end:
            cursor.fail("a line table's header is longer than it says")
        self._cursor = cursor

    # Files

    def _read_lists(self, cursor: Cursor) -> None:
        self._directories = [path for path, _ in self._read_list(cursor)]
        self._files = self._read_list(cursor)

    def _read_list(self, cursor: Cursor) -> list[tuple[_Path, int]]:
        # 6.2.4.1: a format, then entries that follow it.
        unit = self._unit
        formats = [(cursor.uleb(), cursor.uleb()) for _ in range(cursor.byte())]
        count = cursor.uleb()
        if count > cursor.end - cursor.position:
            cursor.fail(f"a list of {count} files does not fit")
        entries: list[tuple[_Path, int]] = []
        for _ in range(count):
            # The assembler that made this table need not have chosen the unit's format of 32 or 64 bits.
            entry = {kind: unit.read_form(cursor, form, offset_size=self._offset_size) for kind, form in formats}
            entries.append((entry.get(_LNCT_PATH), unit.number(entry.get(_LNCT_DIRECTORY_INDEX)) or 0))
        return entries

    def _read_old_lists(self, cursor: Cursor) -> None:
        # DWARF 4, 6.2.4: strings up to an empty one; folder 0 is the compilation directory, and there is no file 0.
        self._directories = [b""]
        while directory := cursor.string():
            self._directories.append(directory)
        self._files = [(b"", 0)]
        while path := cursor.string():
            self._define_file(cursor, path)

    def _define_file(self, cursor: Cursor, path: bytes) -> None:
        directory, _time, _size = cursor.uleb(), cursor.uleb(), cursor.uleb()
        self._files.append((path, directory))

    def _text(self, path: _Path) -> str:
        if isinstance(path, bytes):
            found = path[: limits.MAX_PATH + 1].decode("utf-8", "replace")
        else:
            found = self._unit.string(path) or ""
        return found if len(found) <= limits.MAX_PATH else f"{found[: limits.MAX_PATH]}…"

    def path(self, number: int) -> str:
        """The path of a file, absolute where the compilation directory is known."""
        if not 0 <= number < len(self._files):
            raise MalformedFile(f".debug_line: no file {number}")
        path, directory = self._files[number]
        name = self._text(path)
        if not name or not 0 <= directory < len(self._directories):
            raise MalformedFile(f".debug_line: file {number} has no name or no folder")
        compilation = self._text(self._unit.top.get(DW_AT_COMP_DIR))
        return _join(compilation, _join(self._text(self._directories[directory]), name))

    # Rows

    def row_at(self, address: int, entry: bool = False) -> _Row | None:
        found = self._last_at(address)
        if found is None:
            return None
        if entry:
            sequence, number, index = self._first_of_function(*found)
            return self._chunk(sequence, number)[1][index]
        # As gdb does: of the rows at one address the last, but one that begins a statement before one that does not.
        statements = (row for _, _, row in self._at_same_address(*found) if row[2])
        sequence, number, index = found
        return next(statements, self._chunk(sequence, number)[1][index])

    def first_rows(self, address: int, most: int) -> list[_Row]:
        """Return some rows from the first one at *address* on, none where a sequence has none there."""
        found = self._last_at(address)
        if found is None:
            return []
        sequence, number, index = self._first_of_function(*found)
        rows = self._chunk(sequence, number)[1][index : index + most]
        while len(rows) < most and number + 1 < len(sequence.firsts):
            number += 1
            rows += self._chunk(sequence, number)[1][: most - len(rows)]
        return rows

    def _last_at(self, address: int) -> tuple[_Sequence, int, int] | None:
        # The last row at or before an address: its sequence, the number of its chunk, its index there.
        sequences = self._sequences
        index = bisect_right(sequences, address, key=lambda sequence: sequence.start) - 1
        if index < 0 or address >= sequences[index].end:
            return None
        sequence = sequences[index]
        number = bisect_right(sequence.firsts, address) - 1
        return sequence, number, bisect_right(self._chunk(sequence, number)[0], address) - 1

    def _at_same_address(self, sequence: _Sequence, number: int, index: int) -> Iterator[tuple[int, int, _Row]]:
        # The rows at the address of one, from that one backwards, each with its place.
        addresses, rows = self._chunk(sequence, number)
        address = addresses[index]
        while True:
            for at in range(index, -1, -1):
                if addresses[at] != address:
                    return
                yield number, at, rows[at]
            number -= 1
            if number < 0:
                return
            addresses, rows = self._chunk(sequence, number)
            index = len(rows) - 1

    def _first_of_function(self, sequence: _Sequence, number: int, index: int) -> tuple[_Sequence, int, int]:
        # The row with which a function begins, from the last one at its address. gcc closes a function that ends by a
        # jump with a row at the address behind it, where another may begin; that row begins no statement.
        first, statement = (number, index), None
        for at_number, at, row in self._at_same_address(sequence, number, index):
            first = at_number, at
            statement = first if row[2] else statement
        return sequence, *(statement or first)

    @cached_property
    def _sequences(self) -> list[_Sequence]:
        cursor = self._cursor
        cursor.position = self._program
        sequences = []
        while not cursor.at_end:
            found = self._read_sequence(cursor)
            if found is not None and 0 < found.start < found.end:  # at 0 is what the linker dropped
                sequences.append(found)
        sequences.sort(key=lambda sequence: sequence.start)
        return sequences

    def _read_sequence(self, cursor: Cursor) -> _Sequence | None:
        # None of one without rows, and where the program ends before it.
        state: _State | None = (cursor.position, 0, 1, 1, self._default_is_stmt)
        end: int | None = None
        firsts: list[int] = []
        states: list[_State] = []
        lowest, last, is_ordered = 1 << 64, 0, True
        self._kept.left.spend(_SEQUENCE_COST)
        while state is not None:
            here = state
            addresses: list[int] = []
            rows: list[_Row] = []
            state, end = self._run(cursor, here, addresses, rows, define=True)
            if addresses:
                firsts.append(addresses[0])
                states.append(here)
                self._kept.keep(self._offset, here[0], (addresses, rows))
                if addresses[0] < last or any(map(gt, addresses, addresses[1:])):
                    is_ordered = False
                lowest, last = min(lowest, addresses[0] if is_ordered else min(addresses)), addresses[-1]
        if end is None or not firsts:
            return None
        return _Sequence(lowest, end, firsts if is_ordered else [lowest], states, is_ordered)

    def _chunk(self, sequence: _Sequence, number: int) -> _Chunk:
        # The rows of a chunk; all rows, in order, of a sequence that is not.
        state = sequence.states[number]
        if sequence.is_ordered:
            return self._kept.get(self._offset, state[0]) or self._read_again(state)
        key = -1 - state[0]
        found = self._kept.get(self._offset, key)
        if found is None:
            if len(sequence.states) * _CHUNK > _MAX_UNORDERED:
                raise MalformedFile(".debug_line: too many rows that are not in the order of their addresses")
            addresses: list[int] = []
            rows: list[_Row] = []
            for each in sequence.states:
                chunk = self._kept.get(self._offset, each[0]) or self._read_again(each)
                addresses += chunk[0]
                rows += chunk[1]
            order = sorted(range(len(rows)), key=addresses.__getitem__)
            found = [addresses[i] for i in order], [rows[i] for i in order]
            self._kept.keep(self._offset, key, found)
        return found

    def _read_again(self, state: _State) -> _Chunk:
        addresses: list[int] = []
        rows: list[_Row] = []
        self._cursor.position = state[0]
        self._run(self._cursor, state, addresses, rows, define=False)
        self._kept.keep(self._offset, state[0], (addresses, rows))
        return addresses, rows

    def _run(
        self, cursor: Cursor, state: _State, addresses: list[int], rows: list[_Row], *, define: bool
    ) -> tuple[_State | None, int | None]:
        # Some rows of one sequence: they are added, and where the next ones begin is returned. If there are none, where
        # the sequence ends, None if the program ends before. One long function, because this is where all the time of a
        # lookup goes. As in gdb, a row of line 0 (nothing in the source stands for this instruction) is as if it were
        # not there: the line before it goes on.
        begin, address, file, line, is_stmt = state
        opcode_base, line_base, line_range = self._opcode_base, self._line_base, self._line_range
        scale = self._minimum_length
        data = cursor.data
        limit = min(cursor.end, begin + self._kept.left.left + 1)
        end: int | None = None
        following_state: _State | None = None
        while cursor.position < limit:
            opcode = data[cursor.position]
            cursor.position += 1
            if opcode >= opcode_base:
                steps, delta = divmod(opcode - opcode_base, line_range)
                address += steps * scale
                line += line_base + delta
                if line == 0:
                    continue
                addresses.append(address)
                rows.append((file, line, is_stmt))
                if len(rows) >= _CHUNK:
                    following_state = cursor.position, address, file, line, is_stmt
                    break
            elif opcode == _LNS_SET_COLUMN:
                cursor.uleb()
            elif opcode == _LNS_ADVANCE_LINE:
                line += cursor.sleb()
            elif opcode == _LNS_COPY and line:
                addresses.append(address)
                rows.append((file, line, is_stmt))
                if len(rows) >= _CHUNK:
                    following_state = cursor.position, address, file, line, is_stmt
                    break
            elif opcode == _LNS_NEGATE_STMT:
                is_stmt = not is_stmt
            elif opcode == _LNS_ADVANCE_PC:
                address += cursor.uleb() * scale
            elif opcode == _LNS_SET_FILE:
                file = cursor.uleb()
            elif opcode == _LNS_CONST_ADD_PC:
                address += (255 - opcode_base) // line_range * scale
            elif opcode == _LNS_FIXED_ADVANCE_PC:
                address += cursor.unsigned(2)
            elif opcode > _LNS_COPY:
                for _ in range(self._lengths[opcode - 1]):
                    cursor.uleb()
            elif opcode == 0:
                size = cursor.uleb()
                following = cursor.position + size
                extended = cursor.byte() if size else 0
                if extended == _LNE_END_SEQUENCE:
                    cursor.position = following
                    end = address
                    break
                if extended == _LNE_SET_ADDRESS:
                    address = cursor.unsigned(size - 1)
                elif extended == _LNE_DEFINE_FILE and define:
                    self._define_file(cursor, cursor.string())
                if following > cursor.end:
                    cursor.fail("an instruction of a line table does not fit")
                cursor.position = following
        self._kept.left.spend(max(cursor.position - begin, 0))
        return following_state, end


def _join(folder: str, path: str) -> str:
    return path if path.startswith("/") or not folder else f"{folder}/{path}"
