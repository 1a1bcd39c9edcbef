"""Line tables of DWARF 2 to 5: the file and line of each address of one unit's code. DWARF 5, 6.2.

All addresses are link-time addresses.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from operator import gt
from typing import Any, NamedTuple

from ompd.binary.cursor import Cursor
from ompd.binary.dwarf import constants as dw
from ompd.binary.dwarf.forms import Value, forms_of
from ompd.binary.dwarf.units import Unit, read_length
from ompd.errors import MalformedFile
from ompd.safety import limits

# Numbers of rows: of a chunk, which is read as a whole; of all chunks of a file that are kept in memory; and of a
# sequence whose rows are not sorted by address, which no compiler writes.
_CHUNK, _MAX_KEPT, _MAX_UNORDERED = 512, 1 << 18, 1 << 18
_SEQUENCE_COST = 32  # a sequence takes as much memory as this number of rows
_CHUNK_COST = 16  # a chunk without its rows takes as much memory as this number of rows

# A path, already read or still in its section.
_Path = Value | bytes | None
# File number, line, is_stmt. A plain tuple, because there are millions of rows.
Row = tuple[int, int, bool]


# The addresses of consecutive rows, and the rows.
_Chunk = tuple[list[int], list[Row]]
# The state of the line number program before a row: position in the buffer, address, file, line, is_stmt.
_State = tuple[int, int, int, int, bool]


class _Sequence(NamedTuple):
    # A sequence of rows: for each chunk the address of its first row, and the state from which the chunk can be read
    # again.

    start: int
    end: int  # the first address after the sequence
    firsts: list[int]
    states: list[_State]
    is_ordered: bool


class Rows:
    # The rows of all tables of a file that are kept in memory, and the number of bytes of tables that may still be
    # read.

    def __init__(self, size: int) -> None:
        self.left = limits.Budget(limits.line_bytes(size), ".debug_line: has more rows than its file justifies")
        self.sequences = limits.Budget(
            limits.MAX_SEQUENCES, f".debug_line: more than {limits.MAX_SEQUENCES} sequences are not read"
        )
        self._kept: dict[tuple[int, int], _Chunk] = {}
        self._count = 0

    def get(self, table: int, position: int) -> _Chunk | None:
        return self._kept.get((table, position))

    def keep(self, table: int, position: int, chunk: _Chunk) -> None:
        if self._count > _MAX_KEPT:
            # Remove all at once: removing the oldest of very many keys is slow, because Python then skips every removed
            # key.
            self._kept.clear()
            self._count = 0
        self._kept[table, position] = chunk
        self._count += len(chunk[1]) + _CHUNK_COST


class LineTable:
    # The line number program at one offset of .debug_line (6.2), and its lists of folders and files.

    def __init__(self, unit: Unit, offset: int, kept: Rows) -> None:
        self._unit = unit
        self._kept = kept
        self._offset = offset
        # Paths are read on request, because many may share their bytes.
        self._directories: list[_Path] = []
        self._files: list[tuple[_Path, int]] = []  # path, and number of its folder
        self._digests: list[int | None] = []
        cursor = unit.sections.cursor(".debug_line", offset)
        self._offset_size, length = read_length(cursor)
        if length > cursor.end - cursor.position:
            cursor.fail("a line table does not fit")
        cursor.end = cursor.position + length
        copy = unit.sections.copied(cursor.data, cursor.position, length)
        if copy is not None:
            base = cursor.base + cursor.position
            cursor = Cursor(copy, cursor.byte_order, what=cursor.what, base=base)
        self.version = cursor.unsigned(2)
        if not 2 <= self.version <= 5:
            cursor.fail(f"a line table of unknown version {self.version}")
        if self.version >= 5:
            cursor.take(2)  # sizes of addresses and segment selectors, not needed
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
        self._directories = [entry.get(dw.DW_LNCT_PATH) for entry in self._read_list(cursor)]
        number = self._unit.number
        for entry in self._read_list(cursor):
            self._files.append((entry.get(dw.DW_LNCT_PATH), number(entry.get(dw.DW_LNCT_DIRECTORY_INDEX)) or 0))
            self._digests.append(number(entry.get(dw.DW_LNCT_MD5)))

    def _read_list(self, cursor: Cursor) -> list[dict[int, Value]]:
        # 6.2.4.1: a format, then entries that follow it.
        unit = self._unit
        # The assembler may have chosen another format (32 or 64 bits) for this table than for the unit.
        forms = forms_of(unit.version, self._offset_size, unit.address_size)
        formats = [(cursor.uleb(), cursor.uleb()) for _ in range(cursor.byte())]
        count = cursor.uleb()
        if count > min(cursor.end - cursor.position, limits.MAX_LINE_FILES):
            cursor.fail(f"a list of {count} files does not fit")
        return [{kind: forms.read(cursor, form) for kind, form in formats} for _ in range(count)]

    def _read_old_lists(self, cursor: Cursor) -> None:
        # DWARF 4, 6.2.4: strings up to an empty one; folder 0 is the compilation directory, and there is no file 0.
        self._directories = [b""]
        while directory := cursor.string():
            self._directories.append(directory)
            self._check_count(cursor, self._directories)
        self._files = [(b"", 0)]
        while path := cursor.string():
            self._define_file(cursor, path)

    def _define_file(self, cursor: Cursor, path: bytes) -> None:
        directory, _time, _size = cursor.uleb(), cursor.uleb(), cursor.uleb()
        self._files.append((path, directory))
        self._check_count(cursor, self._files)

    def _check_count(self, cursor: Cursor, names: list[Any]) -> None:
        if len(names) > limits.MAX_LINE_FILES:
            cursor.fail(f"a line table of more than {limits.MAX_LINE_FILES} files")

    def _text(self, path: _Path) -> str:
        if isinstance(path, bytes):
            text = path[: limits.MAX_PATH + 1].decode("utf-8", "replace")
        else:
            text = self._unit.string(path) or ""
        return text if len(text) <= limits.MAX_PATH else f"{text[: limits.MAX_PATH]}…"

    def path(self, number: int) -> str:
        """The path of a file, absolute if the compilation directory is known."""
        if not 0 <= number < len(self._files):
            raise MalformedFile(f".debug_line: no file {number}")
        path, directory = self._files[number]
        name = self._text(path)
        if not name or not 0 <= directory < len(self._directories):
            raise MalformedFile(f".debug_line: file {number} has no name or no folder")
        compilation = self._text(self._unit.top.get(dw.DW_AT_COMP_DIR))
        return _join(compilation, _join(self._text(self._directories[directory]), name))

    def digest(self, path: str) -> bytes | None:
        """Return the MD5 of the file *path*, None if the table has none. Only tables of DWARF 5 can have it, and clang
        writes it.
        """
        for number, digest in enumerate(self._digests):
            if digest is not None and self.path(number) == path:
                return digest.to_bytes(16, self._cursor.byte_order)
        return None

    # Rows

    def row_at(self, address: int, entry: bool = False) -> Row | None:
        last = self._last_at(address)
        if last is None:
            return None
        if entry:
            sequence, number, index = self._first_of_function(*last)
            return self._chunk(sequence, number)[1][index]
        # Like gdb, take the last row at the address that begins a statement, else the last row.
        statements = (row for _, _, row in self._at_same_address(*last) if row[2])
        sequence, number, index = last
        return next(statements, self._chunk(sequence, number)[1][index])

    def first_rows(self, address: int, most: int) -> list[Row]:
        """Return up to *most* rows, starting with the first row at *address*. Empty if no sequence covers the
        address.
        """
        last = self._last_at(address)
        if last is None:
            return []
        sequence, number, index = self._first_of_function(*last)
        rows = self._chunk(sequence, number)[1][index : index + most]
        while len(rows) < most and number + 1 < len(sequence.firsts):
            number += 1
            rows += self._chunk(sequence, number)[1][: most - len(rows)]
        return rows

    def _last_at(self, address: int) -> tuple[_Sequence, int, int] | None:
        # The last row at or before an address, as its sequence, the number of its chunk, and its index there.
        sequences = self._sequences
        index = bisect_right(sequences, address, key=lambda sequence: sequence.start) - 1
        if index < 0 or address >= sequences[index].end:
            return None
        sequence = sequences[index]
        number = bisect_right(sequence.firsts, address) - 1
        return sequence, number, bisect_right(self._chunk(sequence, number)[0], address) - 1

    def _at_same_address(self, sequence: _Sequence, number: int, index: int) -> Iterator[tuple[int, int, Row]]:
        # The rows with the same address as the given row, backwards from that row, each with its position.
        addresses, rows = self._chunk(sequence, number)
        address = addresses[index]
        while True:
            for row_index in range(index, -1, -1):
                if addresses[row_index] != address:
                    return
                yield number, row_index, rows[row_index]
            number -= 1
            if number < 0:
                return
            addresses, rows = self._chunk(sequence, number)
            index = len(rows) - 1

    def _first_of_function(self, sequence: _Sequence, number: int, index: int) -> tuple[_Sequence, int, int]:
        # The first row of a function, given the last row at its address. If a function ends in a jump, gcc adds a row
        # at the next address, where another function may begin. That row begins no statement.
        first, statement = (number, index), None
        for chunk_number, row_index, row in self._at_same_address(sequence, number, index):
            first = chunk_number, row_index
            statement = first if row[2] else statement
        return sequence, *(statement or first)

    @cached_property
    def _sequences(self) -> list[_Sequence]:
        cursor = self._cursor
        cursor.position = self._program
        sequences = []
        while not cursor.at_end:
            sequence = self._read_sequence(cursor)
            if sequence is not None and 0 < sequence.start < sequence.end:  # the linker puts dropped code at 0
                sequences.append(sequence)
        sequences.sort(key=lambda sequence: sequence.start)
        return sequences

    def _read_sequence(self, cursor: Cursor) -> _Sequence | None:
        # Returns None for a sequence without rows, and for one in which the line number program ends.
        state: _State | None = (cursor.position, 0, 1, 1, self._default_is_stmt)
        end: int | None = None
        firsts: list[int] = []
        states: list[_State] = []
        lowest, last, is_ordered = 1 << 64, 0, True
        self._kept.left.spend(_SEQUENCE_COST)
        self._kept.sequences.spend(1)
        while state is not None:
            chunk_state = state
            addresses: list[int] = []
            rows: list[Row] = []
            state, end = self._run(cursor, chunk_state, addresses, rows, define=True)
            if addresses:
                firsts.append(addresses[0])
                states.append(chunk_state)
                self._kept.keep(self._offset, chunk_state[0], (addresses, rows))
                if addresses[0] < last or any(map(gt, addresses, addresses[1:])):
                    is_ordered = False
                lowest, last = min(lowest, addresses[0] if is_ordered else min(addresses)), addresses[-1]
        if end is None or not firsts:
            return None
        return _Sequence(lowest, end, firsts if is_ordered else [lowest], states, is_ordered)

    def _chunk(self, sequence: _Sequence, number: int) -> _Chunk:
        # The rows of a chunk. An unsorted sequence is a single chunk, which is sorted here.
        state = sequence.states[number]
        if sequence.is_ordered:
            return self._kept.get(self._offset, state[0]) or self._read_again(state)
        key = -1 - state[0]
        chunk_of_all = self._kept.get(self._offset, key)
        if chunk_of_all is None:
            if len(sequence.states) * _CHUNK > _MAX_UNORDERED:
                raise MalformedFile(".debug_line: too many rows that are not in the order of their addresses")
            addresses: list[int] = []
            rows: list[Row] = []
            for chunk_state in sequence.states:
                chunk = self._kept.get(self._offset, chunk_state[0]) or self._read_again(chunk_state)
                addresses += chunk[0]
                rows += chunk[1]
            order = sorted(range(len(rows)), key=addresses.__getitem__)
            chunk_of_all = [addresses[i] for i in order], [rows[i] for i in order]
            self._kept.keep(self._offset, key, chunk_of_all)
        return chunk_of_all

    def _read_again(self, state: _State) -> _Chunk:
        addresses: list[int] = []
        rows: list[Row] = []
        self._cursor.position = state[0]
        self._run(self._cursor, state, addresses, rows, define=False)
        self._kept.keep(self._offset, state[0], (addresses, rows))
        return addresses, rows

    def _run(
        self, cursor: Cursor, state: _State, addresses: list[int], rows: list[Row], *, define: bool
    ) -> tuple[_State | None, int | None]:
        # Add a chunk of rows of one sequence, and return the state before the next chunk. After the last chunk, return
        # the end of the sequence, None if the line number program ends within the sequence. This is one long function,
        # because lookups spend nearly all their time here. Like gdb, skip rows of line 0, which stand for code without
        # a source line.
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
            elif opcode == dw.DW_LNS_SET_COLUMN:
                cursor.uleb()
            elif opcode == dw.DW_LNS_ADVANCE_LINE:
                line += cursor.sleb()
            elif opcode == dw.DW_LNS_COPY and line:
                addresses.append(address)
                rows.append((file, line, is_stmt))
                if len(rows) >= _CHUNK:
                    following_state = cursor.position, address, file, line, is_stmt
                    break
            elif opcode == dw.DW_LNS_NEGATE_STMT:
                is_stmt = not is_stmt
            elif opcode == dw.DW_LNS_ADVANCE_PC:
                address += cursor.uleb() * scale
            elif opcode == dw.DW_LNS_SET_FILE:
                file = cursor.uleb()
            elif opcode == dw.DW_LNS_CONST_ADD_PC:
                address += (255 - opcode_base) // line_range * scale
            elif opcode == dw.DW_LNS_FIXED_ADVANCE_PC:
                address += cursor.unsigned(2)
            elif opcode > dw.DW_LNS_COPY:
                for _ in range(self._lengths[opcode - 1]):
                    cursor.uleb()
            elif opcode == 0:
                size = cursor.uleb()
                following = cursor.position + size
                extended = cursor.byte() if size else 0
                if extended == dw.DW_LNE_END_SEQUENCE:
                    cursor.position = following
                    end = address
                    break
                if extended == dw.DW_LNE_SET_ADDRESS:
                    address = cursor.unsigned(size - 1)
                elif extended == dw.DW_LNE_DEFINE_FILE and define:
                    self._define_file(cursor, cursor.string())
                if following > cursor.end:
                    cursor.fail("an instruction of a line table does not fit")
                cursor.position = following
        self._kept.left.spend(max(cursor.position - begin, 0))
        return following_state, end


def _join(folder: str, path: str) -> str:
    return path if path.startswith("/") or not folder else f"{folder}/{path}"
