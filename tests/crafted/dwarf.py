"""Debug information: units, abbreviations, entries, lines, ranges, lists of locations, types, indexes."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from tests.crafted.cases import MB, Folder, crafted
from tests.crafted.cores import NO_RUNTIME
from tests.crafted.elf import SHF_COMPRESSED, TEXT, Section, module
from tests.crafted.modules import compressed, run_of

COMMANDS = ("stack --raw", "var counter", "stack --locals", "snapshot")
BY_NAME = ("var counter", "stack --raw", "stack --locals", "snapshot")
UNIT, FUNCTION, VARIABLE, BASE_TYPE, IMPORTED_UNIT, PARTIAL_UNIT = 0x11, 0x2E, 0x34, 0x24, 0x3D, 0x3C
NAME, STMT_LIST, LOW_PC, HIGH_PC, LOCATION, BYTE_SIZE = 0x03, 0x10, 0x11, 0x12, 0x02, 0x0B
TYPE, ORIGIN, SPECIFICATION, SIBLING, IMPORT, RANGES, UPPER, EXTERNAL = 0x49, 0x31, 0x47, 0x01, 0x18, 0x55, 0x2F, 0x3F
ADDR, DATA1, DATA2, DATA4, DATA8, STRING, STRP, REF4, SEC_OFFSET = 0x01, 0x0B, 0x05, 0x06, 0x07, 0x08, 0x0E, 0x13, 0x17
EXPRLOC, FLAG, INDIRECT, UDATA, REF_ADDR, BLOCK4 = 0x18, 0x19, 0x16, 0x0F, 0x10, 0x04
HEADER = 11
"""The number of bytes of a version 4 unit before its first entry."""


def uleb(value: int) -> bytes:
    """Return an unsigned LEB128 number."""
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def abbreviation(code: int, tag: int, children: bool, *pairs: tuple[int, int]) -> bytes:
    """Return one abbreviation."""
    return (
        uleb(code)
        + uleb(tag)
        + bytes([children])
        + b"".join(uleb(attribute) + uleb(form) for attribute, form in pairs)
        + b"\0\0"
    )


def unit(entries: bytes, *, version: int = 4, abbrev: int = 0, length: int | None = None) -> bytes:
    """Return a unit that claims *length* bytes."""
    head = struct.pack("<HIB", version, abbrev, 8) if version < 5 else struct.pack("<HBBI", 5, 1, 8, abbrev)
    size = len(head) + len(entries)
    return struct.pack("<I", size if length is None else length) + head + entries


ABBREVIATIONS = b"".join(
    (
        abbreviation(1, UNIT, True, (NAME, STRING), (STMT_LIST, SEC_OFFSET), (LOW_PC, ADDR), (HIGH_PC, DATA4)),
        abbreviation(2, FUNCTION, True, (NAME, STRING), (LOW_PC, ADDR), (HIGH_PC, DATA4)),
        abbreviation(3, VARIABLE, False, (NAME, STRING), (TYPE, REF4), (LOCATION, EXPRLOC)),
        abbreviation(4, BASE_TYPE, False, (NAME, STRING), (0x3E, DATA1), (BYTE_SIZE, DATA1)),
        abbreviation(5, VARIABLE, False, (NAME, STRP), (TYPE, REF4), (LOCATION, EXPRLOC)),
        abbreviation(6, FUNCTION, False, (ORIGIN, REF4), (LOW_PC, ADDR), (HIGH_PC, DATA4)),
        abbreviation(7, 0x16, False, (NAME, STRING), (TYPE, REF4)),
        abbreviation(8, 0x26, False, (TYPE, REF4)),
        abbreviation(9, 0x0F, False, (TYPE, REF4), (BYTE_SIZE, DATA1)),
        abbreviation(10, 0x01, True, (TYPE, REF4)),
        abbreviation(11, 0x21, False, (UPPER, UDATA)),
        abbreviation(12, 0x13, True, (NAME, STRING), (BYTE_SIZE, DATA4)),
        abbreviation(13, 0x0D, False, (NAME, STRING), (TYPE, REF4), (0x38, DATA1)),
        abbreviation(14, IMPORTED_UNIT, False, (IMPORT, REF_ADDR)),
        abbreviation(15, FUNCTION, True, (SIBLING, REF4), (NAME, STRING)),
        abbreviation(16, 0x1D, True, (ORIGIN, REF4), (LOW_PC, ADDR), (HIGH_PC, DATA4)),
        abbreviation(17, FUNCTION, True, (NAME, STRING), (RANGES, SEC_OFFSET)),
        abbreviation(18, VARIABLE, False, (NAME, STRING), (TYPE, REF4), (LOCATION, SEC_OFFSET)),
        abbreviation(19, 0x0B, True),
        abbreviation(20, VARIABLE, False, (SPECIFICATION, REF4), (LOCATION, EXPRLOC)),
        abbreviation(21, VARIABLE, False, (NAME, INDIRECT)),
        abbreviation(22, VARIABLE, False, (NAME, STRING), (0x1C, BLOCK4)),
        abbreviation(23, 0x39, True, (NAME, STRING)),
        abbreviation(24, 0x0D, False, (TYPE, REF4), (0x38, DATA1)),
        b"\0",
    )
)


def unit_entry(name: bytes = b"crafted.c", size: int = 0x400) -> bytes:
    """Return the entry of a unit that covers all the code."""
    return uleb(1) + name + b"\0" + struct.pack("<IQI", 0, TEXT, size)


def function(name: bytes = b"stands_here", size: int = 0x400) -> bytes:
    """Return the entry of the function in which the thread is; its children follow."""
    return uleb(2) + name + b"\0" + struct.pack("<QI", TEXT, size)


def base_type(name: bytes = b"int", size: int = 4) -> bytes:
    """Return the entry of an integer type."""
    return uleb(4) + name + b"\0" + bytes([5, size])


def static(name: bytes, kind: int, expression: bytes = b"\x03" + struct.pack("<Q", TEXT)) -> bytes:
    """Return the entry of a variable of the type at *kind* in its unit."""
    return uleb(3) + name + b"\0" + struct.pack("<I", kind) + uleb(len(expression)) + expression


def line_program(
    program: bytes = b"",
    *,
    version: int = 4,
    base: int = 13,
    width: int = 14,
    smallest: int = 1,
    length: int | None = None,
    header: int | None = None,
    files: bytes = b"crafted.c\0\0\0\0\0",
) -> bytes:
    """Return a line table whose fields may be wrong."""
    lengths = bytes([0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1])[: max(base - 1, 0)].ljust(max(base - 1, 0), b"\0")
    rest = struct.pack("<BBBbBB", smallest, 1, 1, -5, width, base)
    if version < 4:
        rest = rest[:1] + rest[2:]
    rest += lengths + (b"\0" + files if version < 5 else files)
    after = struct.pack("<I", len(rest) if header is None else header) + rest + program
    sizes = b"\x08\0" if version >= 5 else b""
    body = struct.pack("<H", version) + sizes + after
    return struct.pack("<I", len(body) if length is None else length) + body


SET = b"\0\x09\x02" + struct.pack("<Q", TEXT)
END = b"\0\x01\x01"
COVER = b"\x14\x02" + uleb(0x400) + END
"""A row that covers all the code, and its end."""


def debugged(info: bytes, *, abbrev: bytes = ABBREVIATIONS, line: bytes | None = None, **more: bytes) -> list[Section]:
    """Return sections of debug information."""
    parts = {"info": info, "abbrev": abbrev, "line": line_program(SET + COVER) if line is None else line}
    return [Section(b".debug_" + name.encode(), data) for name, data in {**parts, **more}.items()]


def debug(at: Folder, info: bytes, **options: Any) -> None:
    """Write a program with debug information and a core of it."""
    run_of(at, module(debugged(info, **options)))


def whole(children: bytes = b"", variables: bytes = b"") -> bytes:
    """Return one unit with a function that has *children* and with *variables*."""
    return unit(unit_entry() + base_type() + function() + children + b"\0" + variables + b"\0")


INT = HEADER + len(unit_entry())
"""The offset of the type int in such a unit."""


@crafted(asked=COMMANDS, code=3, says="stands_here.*crafted.c")
def what_the_others_are_made_of(at: Folder) -> None:
    """Sound debug information."""
    debug(at, whole(variables=static(b"counter", INT)))


@crafted(
    asked=COMMANDS,
    each={
        "0": 0,
        "1": 1,
        "6": 6,
        "too-long": 1 << 20,
        "2^32-16": 0xFFFF_FFF0,
        "2^32-17": 0xFFFF_FFEF,
        "64-bit": 0xFFFF_FFFF,
    },
    code=3,
    says="program",
)
def a_unit_of_an_odd_length(at: Folder, how: int) -> None:
    """A unit that is longer than its section, or shorter than its header."""
    debug(at, unit(unit_entry() + b"\0", length=how) + whole())


@crafted(asked=COMMANDS, code=3, says="program")
def units_without_bytes(at: Folder) -> None:
    """250,000 units of no bytes."""
    debug(at, bytes(MB) + whole())


@crafted(asked=COMMANDS, code=3, says="program", cpu=10)
def units_without_number(at: Folder) -> None:
    """60,000 units of one entry each that all claim the same code."""
    debug(at, unit(unit_entry(b"x") + b"\0") * 60_000)


@crafted(asked=COMMANDS, code=3, says="program", cpu=10)
def units_that_share_abbreviations(at: Folder) -> None:
    """20,000 units that use one table of abbreviations of 1 MB, each from a different offset."""
    table = b"".join(abbreviation(100 + n, VARIABLE, False, (NAME, STRING)) for n in range(100_000))
    at_places = [(n * 8) % len(table) for n in range(20_000)]
    debug(at, b"".join(unit(unit_entry() + b"\0", abbrev=place) for place in at_places), abbrev=table + ABBREVIATIONS)


@crafted(asked=COMMANDS, each={"outside": 1 << 30, "end": len(ABBREVIATIONS)}, code=3, says="program")
def abbreviations_elsewhere(at: Folder, how: int) -> None:
    """A unit whose abbreviations do not exist."""
    debug(at, unit(unit_entry() + b"\0", abbrev=how))


@crafted(asked=COMMANDS, code=3, says="program")
def an_abbreviation_of_a_million_attributes(at: Folder) -> None:
    """One entry with 300,000 attributes."""
    table = abbreviation(1, UNIT, True, (NAME, STRING), *[(0x2000, FLAG)] * 300_000) + b"\0"
    debug(at, unit(uleb(1) + b"x\0" + b"\0" * 300_000), abbrev=table)


@crafted(asked=BY_NAME, code=(0, 1, 3), says="")
def attributes_without_bytes(at: Folder) -> None:
    """An entry with 20,000 attributes that take no bytes, 50,000 times."""
    table = (
        ABBREVIATIONS[:-1]
        + abbreviation(99, VARIABLE, False, *[(0x2000, FLAG)] * 0, *[(0x2000, 0x19)] * 20_000)
        + b"\0"
    )
    debug(at, unit(unit_entry() + uleb(99) * 50_000 + b"\0"), abbrev=table)


@crafted(asked=COMMANDS, each={"blocks": 19, "functions": 2, "namespaces": 23}, code=3, says="program")
def a_nest_without_end(at: Folder, how: int) -> None:
    """200,000 entries, each nested in the one before."""
    inner = {19: uleb(19), 2: function(b"f"), 23: uleb(23) + b"n\0"}[how]
    debug(at, unit(unit_entry() + inner * 200_000))


@crafted(asked=COMMANDS, each={"itself": 0, "back": -9, "outside": 1 << 20, "first": None}, code=3, says="program")
def a_sibling_that_lies(at: Folder, how: int | None) -> None:
    """A DW_AT_sibling that points to itself, back, or out of the unit."""
    here = HEADER + len(unit_entry())
    place = HEADER if how is None else here + how
    debug(at, unit(unit_entry() + uleb(15) + struct.pack("<I", place & 0xFFFF_FFFF) + b"f\0\0\0"))


@crafted(asked=BY_NAME, each={"typedef": 7, "const": 8, "pointer": 9, "array": 10}, code=(0, 1, 3), says="")
def a_type_that_is_its_own(at: Folder, how: int) -> None:
    """A type that refers to itself."""
    here = struct.pack("<I", INT)
    kind = {7: uleb(7) + b"t\0" + here, 8: uleb(8) + here, 9: uleb(9) + here + b"\x08", 10: uleb(10) + here + b"\0"}[
        how
    ]
    debug(at, unit(unit_entry() + kind + static(b"counter", INT) + b"\0"))


@crafted(asked=BY_NAME, code=(0, 1, 3), says="")
def a_structure_inside_of_itself(at: Folder) -> None:
    """A structure with ten members of its own type."""
    member = uleb(13) + b"m\0" + struct.pack("<IB", INT, 0)
    kind = uleb(12) + b"S\0" + struct.pack("<I", 64) + member * 10 + b"\0"
    debug(at, unit(unit_entry() + kind + static(b"counter", INT) + b"\0"))


@crafted(asked=BY_NAME, code=(0, 1, 3), says="")
def structures_that_double(at: Folder) -> None:
    """40 structures, each with two members of the one before: 2^40 members."""
    kinds, place = base_type(), INT
    last, at_next = place, place + len(base_type())
    for _ in range(40):
        members = b"".join(uleb(13) + b"m\0" + struct.pack("<IB", last, 0) for _ in range(2))
        kind = uleb(12) + b"S\0" + struct.pack("<I", 64) + members + b"\0"
        kinds += kind
        last, at_next = at_next, at_next + len(kind)
    debug(at, unit(unit_entry() + kinds + static(b"counter", last) + b"\0"))


@crafted(asked=BY_NAME, each={"2^31": 1 << 31, "2^62": 1 << 62, "2^64-2": (1 << 64) - 2}, code=(0, 1, 3), says="")
def an_array_without_end(at: Folder, how: int) -> None:
    """A variable that is an array with more elements than fit in memory."""
    kind = uleb(10) + struct.pack("<I", INT) + uleb(11) + uleb(how) + b"\0"
    place = INT + len(base_type())
    debug(at, unit(unit_entry() + base_type() + kind + static(b"counter", place) + b"\0"))


@crafted(asked=BY_NAME, code=(0, 1, 3), says="")
def an_array_of_many_dimensions(at: Folder) -> None:
    """An array with 100,000 dimensions of 2 elements."""
    kind = uleb(10) + struct.pack("<I", INT) + (uleb(11) + uleb(1)) * 100_000 + b"\0"
    place = INT + len(base_type())
    debug(at, unit(unit_entry() + base_type() + kind + static(b"counter", place) + b"\0"))


@crafted(asked=COMMANDS, each={"origin": 6, "specification": 20}, code=3, says="program")
def an_origin_that_is_its_own(at: Folder, how: int) -> None:
    """DW_AT_abstract_origin and DW_AT_specification that refer to their own entry."""
    here = struct.pack("<I", INT)
    entry = uleb(6) + here + struct.pack("<QI", TEXT, 0x400) if how == 6 else uleb(20) + here + b"\x01\x9c"
    debug(at, unit(unit_entry() + entry + b"\0"))


@crafted(asked=COMMANDS, code=3, says="program")
def a_chain_of_origins(at: Folder) -> None:
    """50,000 entries, each the origin of the one before."""
    size = len(uleb(6)) + 4 + 12
    entries = b"".join(uleb(6) + struct.pack("<IQI", INT + size * (n + 1), TEXT, 0x400) for n in range(50_000))
    debug(at, unit(unit_entry() + entries + function(b"last") + b"\0\0"))


@crafted(asked=BY_NAME, code=(0, 1, 3), says="")
def units_that_import_each_other(at: Folder) -> None:
    """Two units that import each other 1,000 times each."""
    one = unit(unit_entry() + (uleb(14) + struct.pack("<I", 0)) * 1000 + b"\0")
    first = unit(unit_entry() + (uleb(14) + struct.pack("<I", len(one) + HEADER)) * 1000 + b"\0")
    second = unit(unit_entry() + (uleb(14) + struct.pack("<I", HEADER)) * 1000 + b"\0")
    debug(at, first + second)


@crafted(asked=BY_NAME, code=(0, 1, 3), says="")
def a_form_that_says_another_form_follows(at: Folder) -> None:
    """DW_FORM_indirect a million times in a row."""
    debug(at, unit(unit_entry() + uleb(21) + uleb(INDIRECT) * MB + uleb(STRING) + b"counter\0\0"))


@crafted(asked=BY_NAME, code=(0, 1, 3), says="")
def names_that_share_a_megabyte(at: Folder) -> None:
    """100,000 variables that share one name of 1 MB."""
    variable = uleb(5) + struct.pack("<II", 1, INT) + b"\x09\x03" + struct.pack("<Q", TEXT)
    debug(at, unit(unit_entry() + base_type() + variable * 100_000 + b"\0"), str=b"\0" + b"n" * MB + b"\0")


@crafted(asked=BY_NAME, code=(0, 1, 3), says="", memory=128 * MB, cpu=10)
def one_name_100000_times(at: Folder) -> None:
    """100,000 variables that are all called counter."""
    debug(at, unit(unit_entry() + base_type() + static(b"counter", INT) * 100_000 + b"\0"))


@crafted(asked=BY_NAME, each={"outside": 1 << 30, "no-end": 0}, code=(0, 1, 3), says="")
def a_name_that_is_not_there(at: Folder, how: int) -> None:
    """A DW_FORM_strp that points behind the strings, and a string without end."""
    variable = uleb(5) + struct.pack("<II", how, INT) + b"\x09\x03" + struct.pack("<Q", TEXT)
    debug(at, unit(unit_entry() + base_type() + variable + b"\0"), str=b"n" * MB)


_LOOPS = {
    "skip": b"\x30\x2f" + struct.pack("<h", -4),
    "bra": b"\x31\x31\x28" + struct.pack("<h", -5),
    "deref": b"\x03" + struct.pack("<Q", TEXT) + b"\x06" * 60_000,
    "push": b"\x30" * 200_000,
    "dup": b"\x31" + b"\x12\x1e" * 60_000,
    "shift": b"\x31\x0f" + b"\xff" * 8 + b"\x24",
    "divide": b"\x31\x30\x1b",
    "pieces": b"\x50\x93\x01" * 60_000,
    "entry-value": b"\xa3\x7f" * 20_000,
    "call": b"\x99\x0b\0\0\0",
    "implicit-pointer": b"\xa0" + struct.pack("<I", INT) + b"\0",
    "unknown": b"\xe5\xff\xff",
    "pick": b"\x31\x15\xff",
    "tls": b"\x31\x9b",
    "block": b"\x9e" + uleb(1 << 40),
}


@crafted(asked=BY_NAME, each=_LOOPS, code=(0, 1, 3), says="")
def an_expression_that_does_not_end(at: Folder, how: bytes) -> None:
    """An odd location expression for a variable of a function and for a global one."""
    debug(at, whole(static(b"inner", INT, how), static(b"counter", INT, how)))


@crafted(asked=COMMANDS, code=3, says="program")
def ranges_that_are_shared(at: Folder) -> None:
    """5,000 functions that share one list of 100,000 ranges."""
    ranges = b"".join(struct.pack("<QQ", TEXT + 0x200 + n % 3, TEXT + 0x201 + n % 3) for n in range(100_000)) + bytes(
        16
    )
    functions = (uleb(17) + b"f\0" + struct.pack("<I", 0) + b"\0") * 5_000
    debug(at, unit(unit_entry() + functions + b"\0"), ranges=ranges)


@crafted(asked=COMMANDS, each={"no-end": 0, "outside": 1 << 30, "base": 2}, code=3, says="program")
def ranges_that_lie(at: Folder, how: int) -> None:
    """A list of ranges that has no end, does not exist, or consists of base addresses."""
    ranges = struct.pack("<QQ", (1 << 64) - 1, TEXT) * 50_000 if how == 2 else struct.pack("<QQ", 1, 2) * 50_000
    debug(at, unit(unit_entry() + uleb(17) + b"f\0" + struct.pack("<I", how & ~2) + b"\0\0"), ranges=ranges)


@crafted(asked=("stack --locals", "var counter", "stack --raw"), code=3, says="")
def lists_of_locations_that_are_shared(at: Folder) -> None:
    """3,000 variables that share one list of 100,000 locations."""
    one = struct.pack("<QQH", 0x900, 0x901, 1) + b"\x50"
    variables = (uleb(18) + b"v\0" + struct.pack("<II", INT, 0)) * 3_000
    debug(at, whole(variables), loc=one * 100_000 + bytes(16))


@crafted(asked=COMMANDS, code=3, says="program")
def functions_inlined_into_one_another(at: Folder) -> None:
    """50,000 functions, each inlined into the one before."""
    entry = uleb(16) + struct.pack("<IQI", INT + len(base_type()), TEXT, 0x400)
    debug(at, unit(unit_entry() + base_type() + function(b"f") + entry * 50_000 + bytes(50_002)))


@crafted(
    asked=COMMANDS,
    each={
        name: (name, data)
        for name, data in {
            "aranges-no-end": struct.pack("<IHIBB", 0xFFFF_FFF0, 2, 0, 8, 0) + bytes(4),
            "aranges-outside": struct.pack("<IHIBB", 44, 2, 1 << 30, 8, 0)
            + bytes(4)
            + struct.pack("<QQQQ", TEXT, 4096, 0, 0),
            "aranges-many": (struct.pack("<IHIBB", 44, 2, 0, 8, 0) + bytes(4) + struct.pack("<QQQQ", TEXT, 4096, 0, 0))
            * 50_000,
            "names-counts": struct.pack("<IHHIIIIIII", 0xFFFF_FF00, 5, 0, 1 << 31, 0, 0, 1 << 31, 1 << 31, 1 << 31, 8)
            + bytes(64),
            "names-buckets": struct.pack("<IHHIIIIIII", 200, 5, 0, 1, 0, 0, 0, 1 << 30, 8, 8) + bytes(164),
            "str_offsets": struct.pack("<IHH", 0xFFFF_FFF0, 5, 0),
            "addr": struct.pack("<IHBB", 0xFFFF_FFF0, 5, 8, 0),
            "rnglists": struct.pack("<IHBBI", 0xFFFF_FFF0, 5, 8, 0, 0xFFFF_FFFF),
            "loclists": struct.pack("<IHBBI", 0xFFFF_FFF0, 5, 8, 0, 0xFFFF_FFFF),
            "types": struct.pack("<IHIBQI", 0xFFFF_FFF0, 4, 0, 8, 1, 1),
            "line_str": b"x" * 4096,
            "macro": b"\xff" * 4096,
        }.items()
    },
    code=3,
    says="program",
)
def an_index_that_lies(at: Folder, how: tuple[str, bytes]) -> None:
    """One further section of debug information with odd contents, such as wrong lengths and counts."""
    name, data = how
    debug(at, whole(variables=static(b"counter", INT)), **{name.partition("-")[0]: data})


@crafted(asked=COMMANDS, code=3, says="program")
def a_gdb_index_that_lies(at: Folder) -> None:
    """A .gdb_index whose tables overlap."""
    index = struct.pack("<IIIIII", 8, 0, 0, 0, 0, 0xFFFF_FFFF) + bytes(4096)
    run_of(at, module([*debugged(whole()), Section(b".gdb_index", index)]))


# Lines


@crafted(asked=COMMANDS, each={"10M": 10_000_000, "60M": 60_000_000}, code=3, says="program", memory=160 * MB, cpu=10)
def rows_without_number(at: Folder, how: int) -> None:
    """A compressed line table of millions of rows that cover the thread's place."""
    deflating = zlib.compressobj(9)
    table = line_program(SET + b"\x0d" * how + COVER)
    packed = deflating.compress(table) + deflating.flush()
    sections = [s for s in debugged(whole()) if s.name != b".debug_line"]
    line = Section(b".debug_line", compressed(packed, len(table)), flags=SHF_COMPRESSED)
    run_of(at, module([*sections, line]))


@crafted(asked=COMMANDS, code=3, says="program", cpu=10)
def units_that_share_a_line_table(at: Folder) -> None:
    """5,000 units of the same code that share one line table of 100,000 rows."""
    debug(at, unit(unit_entry() + b"\0") * 5_000, line=line_program(SET + b"\x0d" * 100_000 + COVER))


_LINES: dict[str, bytes] = {
    "range-0": line_program(SET + b"\x20" * 100 + END, width=0),
    "base-0": line_program(SET + END, base=0),
    "base-1": line_program(SET + b"\x01" * 100 + END, base=1),
    "base-255": line_program(SET + END, base=255),
    "smallest-0": line_program(SET + b"\x20" * 100_000 + END, smallest=0),
    "length-2^32": line_program(SET + END, length=0xFFFF_FFF0),
    "header-2^32": line_program(SET + END, header=0xFFFF_FFFF),
    "header-0": line_program(SET + END, header=0),
    "version-9": line_program(SET + END, version=9),
    "version-5-files": line_program(SET + END, version=5, files=b"\0" + uleb(1 << 62) + b"\0" + uleb(1 << 62)),
    "version-5-folders": line_program(SET + END, version=5, files=b"\1\1\x08" + uleb(1 << 62) + b"x\0" * 50_000),
    "version-5-forms": line_program(SET + END, version=5, files=b"\xff" + b"\1\x2c" * 255 + uleb(1 << 40)),
    "files-no-end": line_program(SET + END, files=b"x\0\0\0\0" * 100_000),
    "advance": line_program(SET + (b"\x02" + uleb((1 << 64) - 1)) * 50_000 + END),
    "extended-2^63": line_program(b"\0" + uleb(1 << 63) + b"\x02" + END),
    "sequences": line_program((SET + COVER) * 50_000),
    "backwards": line_program(
        b"".join(b"\0\x09\x02" + struct.pack("<Q", TEXT + 500 - n % 500) + b"\x20" for n in range(20_000))
    ),
    "define-files": line_program((b"\0\x06\x03x\0\0\0\0") * 50_000 + SET + COVER),
    "line-minus": line_program(SET + b"\x03" + uleb((1 << 63) - 1) + COVER),
    "name-escape": line_program(SET + COVER, files=b"\x1b[2Ja\xe2\x80\xaeb\n\r.c\0\0\0\0\0"),
    "name-1M": line_program(SET + COVER, files=b"n" * MB + b"\0\0\0\0\0"),
}


@crafted(asked=COMMANDS, each=_LINES, code=3, says="program")
def a_line_table_that_lies(at: Folder, how: bytes) -> None:
    """A line table with one odd field."""
    debug(at, whole(), line=how)


@crafted(
    asked=COMMANDS,
    each={"escape": b"\x1b[31m\x1b]0;x\x07", "bidi": "\u202egnp.\u2066\u200f".encode(), "lines": b"a\nompd: well\r"},
    code=3,
    says="program",
)
def names_that_escape(at: Folder, how: bytes) -> None:
    """Names of functions, files, variables and types with characters that control a terminal."""
    entries = unit_entry(how) + base_type(how) + function(how) + b"\0"
    place = HEADER + len(unit_entry(how))
    debug(at, unit(entries + static(b"counter", place) + b"\0"))


def _split(at: Folder, name: bytes) -> bytes:
    table = abbreviation(
        1, UNIT, False, (0x2130, STRING), (0x1B, STRING), (0x2131, DATA8), (LOW_PC, ADDR), (HIGH_PC, DATA4)
    )
    entry = uleb(1) + name + b"\0" + bytes(at.path) + b"\0" + struct.pack("<QQI", 7, TEXT, 0x400)
    return module(debugged(unit(entry), abbrev=table + b"\0"))


_SPLIT: dict[str, Callable[[Folder], object]] = {
    "itself": lambda at: (at.path / "split.dwo").symlink_to("program"),
    "fifo": lambda at: __import__("os").mkfifo(at.path / "split.dwo"),
    "device": lambda at: (at.path / "split.dwo").symlink_to("/dev/ptmx"),
    "hole": lambda at: at.sparse("split.dwo", 60 << 30, {0: module()}),
    "loop": lambda at: (at.path / "split.dwo").symlink_to("split.dwo"),
    "folder": lambda at: (at.path / "split.dwo").mkdir(),
}


@crafted(asked=COMMANDS, each=_SPLIT, code=3, says="program")
def a_split_file_that_is_none(at: Folder, how: Callable[[Folder], object]) -> None:
    """A DW_AT_dwo_name that names a file that must not be opened."""
    how(at)
    run_of(at, _split(at, b"split.dwo"))


@crafted(asked=COMMANDS, code=3, says="program", cpu=10)
def split_files_without_number(at: Folder) -> None:
    """5,000 units that each name a different split file."""
    table = abbreviation(
        1, UNIT, False, (0x2130, STRING), (0x1B, STRING), (0x2131, DATA8), (LOW_PC, ADDR), (HIGH_PC, DATA4)
    )
    units = (unit(uleb(1) + b"%d.dwo\0/no\0" % n + struct.pack("<QQI", n, TEXT, 0x400)) for n in range(5_000))
    run_of(at, module(debugged(b"".join(units), abbrev=table + b"\0")))


def sections_of(names: Sequence[str], data: bytes) -> list[Section]:
    """Return sections of debug information that all hold the same bytes."""
    return [Section(b".debug_" + name.encode(), data) for name in names]


@crafted(
    asked=COMMANDS, each={"ones": b"\xff", "zeros": b"\0", "lebs": b"\x80", "text": b"abc\0"}, code=3, says=NO_RUNTIME
)
def sections_of_one_byte(at: Folder, how: bytes) -> None:
    """Every section holds one or a few bytes again and again, 256 KB of them."""
    names = ("info", "abbrev", "line", "str", "ranges", "rnglists", "loc", "loclists", "addr", "aranges", "frame")
    run_of(at, module(sections_of(names, how * (MB // 4 // len(how)))))
