"""Programs and libraries: section headers, names, symbols, notes, compressed sections, links to other files."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from tests.crafted.cases import MB, Folder, crafted
from tests.crafted.cores import NO_RUNTIME
from tests.crafted.elf import (
    BASE,
    PT_DYNAMIC,
    PT_NOTE,
    SHDR,
    SHF_ALLOC,
    SHF_COMPRESSED,
    SHT_DYNSYM,
    SHT_NOBITS,
    SHT_NOTE,
    SHT_STRTAB,
    SHT_SYMTAB,
    TEXT,
    Section,
    Segment,
    module,
    note,
    process,
    section_headers,
    symbols,
)

COMMANDS = ("stack --raw", "threads", "runtimes", "var counter", "snapshot")


def run_of(at: Folder, raw: bytes, **options: Any) -> None:
    """Write a program and the core of a process that runs it."""
    at.write("core", process(at.write("program", raw), raw, **options))


def symbol_sections(strings: bytes, rows: Sequence[tuple[int, int, int]], info: int = 0x12) -> list[Section]:
    """Return a symbol table and its strings."""
    table = symbols(rows, info)
    return [
        Section(b".symtab", table, SHT_SYMTAB, link=b".strtab", entry=24),
        Section(b".strtab", strings, SHT_STRTAB),
    ]


def many_headers(raw: bytes, rows: bytes) -> bytes:
    """Return the file *raw* with further section headers."""
    at, usual = section_headers(raw)
    count = len(rows) // SHDR.size
    data = bytearray(raw + rows)
    struct.pack_into("<H", data, 60, 0)
    zero = list(SHDR.unpack_from(data, at))
    zero[5] = usual + count
    SHDR.pack_into(data, at, *zero)
    return bytes(data)


@crafted(asked=COMMANDS, code=3, says=NO_RUNTIME)
def one_name_for_20000_sections(at: Folder) -> None:
    """20,000 sections that share a name of 1 MB."""
    raw = module([Section(b".shstrtab", b"\0" + b"n" * MB + b"\0.text\0", SHT_STRTAB)])
    run_of(at, many_headers(raw, SHDR.pack(1, 1, 0, 0, 0, 16, 0, 0, 1, 0) * 20_000))


@crafted(asked=COMMANDS, code=3, says=NO_RUNTIME)
def names_that_share_their_ends(at: Folder) -> None:
    """50,000 sections whose names are ever shorter ends of one name."""
    raw = module([Section(b".shstrtab", b"\0" + b"n" * 60_000 + b"\0", SHT_STRTAB)])
    rows = b"".join(SHDR.pack(1 + n, 1, 0, 0, 0, 16, 0, 0, 1, 0) for n in range(50_000))
    run_of(at, many_headers(raw, rows))


@crafted(asked=COMMANDS, each={"2^20": 1 << 20, "2^32": 1 << 32, "2^64-1": (1 << 64) - 1}, code=3, says=NO_RUNTIME)
def more_sections_than_there_are(at: Folder, how: int) -> None:
    """A number of sections in section 0 that the file does not hold."""

    def patch(data: bytearray) -> None:
        struct.pack_into("<H", data, 60, 0)

    raw = bytearray(module(patch=patch))
    zero = list(SHDR.unpack_from(raw, section_headers(raw)[0]))
    zero[5] = how
    struct.pack_into("<H", raw, 60, 0)
    SHDR.pack_into(raw, section_headers(raw)[0], *zero)
    run_of(at, bytes(raw))


@crafted(asked=COMMANDS, code=3, says=NO_RUNTIME)
def sections_over_a_hole(at: Folder) -> None:
    """131,072 section headers in a hole."""
    raw = bytearray(module())
    struct.pack_into("<Q", raw, 40, 16 * MB)
    struct.pack_into("<H", raw, 60, 0)
    zero = SHDR.pack(0, 0, 0, 0, 0, 131_072, 0, 0, 0, 0)
    path = at.sparse("program", 1 << 30, {0: bytes(raw), 16 * MB: zero})
    at.write("core", process(path, bytes(raw)))


@crafted(
    asked=COMMANDS, each={"names-2^40": (1 << 20, 1 << 40), "names-hole": (1 << 20, 2 << 30)}, code=3, says=NO_RUNTIME
)
def section_names_of_an_odd_size(at: Folder, how: tuple[int, int]) -> None:
    """A table of section names over a hole, or larger than the file."""
    raw = bytearray(module())
    start, count = section_headers(raw)
    last = list(SHDR.unpack_from(raw, start + 64 * (count - 1)))
    last[4:6] = how
    SHDR.pack_into(raw, start + 64 * (count - 1), *last)
    path = at.sparse("program", 3 << 30, {0: bytes(raw)})
    at.write("core", process(path, bytes(raw)))


@crafted(asked=("var counter", "stack --raw", "threads", "snapshot"), code=(0, 1, 3), says="")
def names_of_symbols_that_share_a_megabyte(at: Folder) -> None:
    """200,000 symbols that share a name of 1 MB."""
    run_of(at, module(symbol_sections(b"\0" + b"s" * MB + b"\0", [(1, TEXT, 16)] * 200_000)), stack=None)


@crafted(asked=("var counter", "stack --raw", "threads", "snapshot"), code=(0, 1, 3), says="")
def variables_that_share_their_ends(at: Folder) -> None:
    """100,000 variables whose names are ever shorter ends of one name."""
    strings = b"\0" + b"c" * 100_000 + b"counter\0"
    run_of(at, module(symbol_sections(strings, [(1 + n, TEXT + n, 1) for n in range(100_000)], info=0x11)))


@crafted(asked=COMMANDS, code=3, says="", memory=100 * MB)
def symbols_that_all_overlap(at: Folder) -> None:
    """200,000 functions that all cover the thread's place."""
    run_of(at, module(symbol_sections(b"\0function\0", [(1, TEXT + n % 16, 1 << 20) for n in range(200_000)])))


@crafted(asked=("threads", "stack --raw", "var counter"), code=1, says="", memory=100 * MB)
def symbols_of_a_runtime_100000_times(at: Folder) -> None:
    """A runtime whose names each have 50,000 symbols."""
    names = b"\0GOMP_parallel\0gomp_thread\0gomp_tls_data\0.gomp_critical_user_x.var\0"
    rows = [(at_name, TEXT + n % 200, 8) for n in range(50_000) for at_name in (1, 15, 27, 41)]
    run_of(at, module(symbol_sections(names, rows)))


@crafted(asked=COMMANDS, each={"16": 16, "0": 0, "2^64-1": (1 << 64) - 1}, code=3, says=NO_RUNTIME)
def symbols_of_an_odd_size(at: Folder, how: int) -> None:
    """sh_entsize of the symbols has an invalid value."""
    run_of(at, module([Section(b".symtab", bytes(480), SHT_SYMTAB, link=b".strtab", entry=how)]))


@crafted(asked=COMMANDS, code=3, says=NO_RUNTIME)
def strings_without_end(at: Folder) -> None:
    """Symbols whose names are behind their table, and a table that does not end with a zero."""
    rows = [(1, TEXT, 64), (1 << 31, TEXT + 8, 8), (0xFFFF_FFFF, TEXT, 99)]
    run_of(at, module(symbol_sections(b"\0f" + b"x" * 100_000, rows)))


@crafted(asked=COMMANDS, code=3, says=NO_RUNTIME)
def symbols_over_a_hole(at: Folder) -> None:
    """Symbols and strings of 1 GB each, in a hole."""
    sections = [
        Section(b".symtab", b"", SHT_SYMTAB, link=b".strtab", entry=24, span=(8 * MB, 40_000_000 * 24)),
        Section(b".strtab", b"", SHT_STRTAB, span=(8 * MB, 1 << 30)),
    ]
    raw = module(sections)
    at.sparse("program", 2 << 30, {0: raw})
    at.write("core", process(at.path / "program", raw))


@crafted(asked=COMMANDS, each={"symtab": SHT_SYMTAB, "dynsym": SHT_DYNSYM}, code=3, says=NO_RUNTIME)
def a_symbol_table_that_is_its_own_strings(at: Folder, how: int) -> None:
    """sh_link refers to the table itself."""
    run_of(at, module([Section(b".symtab", symbols([(1, TEXT, 64)] * 100), how, link=b".symtab", entry=24)]))


@crafted(asked=COMMANDS, code=3, says=NO_RUNTIME)
def build_ids_60000_times(at: Folder) -> None:
    """60,000 sections of notes over the same megabyte, which has no build-id."""
    inner = note(b"XYZ", 3, bytes(1000)) * 1000
    raw = module([Section(b".note", inner, SHT_NOTE)], build_id=b"")
    place = raw.index(inner)
    run_of(at, many_headers(raw, SHDR.pack(1, SHT_NOTE, 0, 0, place, len(inner), 0, 0, 4, 0) * 60_000))


@crafted(asked=COMMANDS, code=3, says=NO_RUNTIME)
def note_segments_60000_times(at: Folder) -> None:
    """60,000 program headers of notes over the same megabyte."""
    inner = note(b"XYZ", 3, bytes(1000)) * 1000
    raw = bytearray(module(build_id=b""))
    table, place = 8 * MB, 2 * MB
    row = Segment(PT_NOTE, place, len(inner), place, p_align=4).packed()
    load = bytes(raw[64:120])
    struct.pack_into("<Q", raw, 32, table)
    struct.pack_into("<H", raw, 56, 60_001)
    path = at.sparse("program", table + 56 * 60_001, {0: bytes(raw), place: inner, table: load + row * 60_000})
    at.write("core", process(path, bytes(raw)))


@crafted(asked=COMMANDS, each={"64K": 1 << 16, "8M": 8 << 20}, code=3, says=NO_RUNTIME)
def a_build_id_of_many_bytes(at: Folder, how: int) -> None:
    """A build-id of 64 KB or 8 MB."""
    raw = module([Section(b".note", note(b"GNU", 3, b"b" * how), SHT_NOTE)], build_id=b"")
    run_of(at, raw)


@crafted(asked=COMMANDS, code=3, says=NO_RUNTIME)
def no_build_id_and_pages_that_differ(at: Folder) -> None:
    """A file whose first page equals the core's. To compare them all, 1 GB of hole would have to be read."""
    raw = bytearray(module(build_id=b""))
    load = Segment(1, 0, 1 << 30, p_flags=5).packed()
    raw[64 : 64 + 56] = load
    path = at.sparse("program", (1 << 30) + 4096, {0: bytes(raw)})
    many = [(BASE + 4096 * n, b"\0" * 4096) for n in range(1, 200)]
    at.write("core", process(path, bytes(raw), loads=many))


# Compressed sections


def compressed(data: bytes, size: int | None = None, kind: int = 1) -> bytes:
    """Return a compressed section that claims *size* bytes."""
    return struct.pack("<IIQQ", kind, 0, len(data) if size is None else size, 1) + data


def bomb(size: int) -> bytes:
    """Return *size* zeros, deflated: the same megabyte again and again."""
    deflating = zlib.compressobj(9, wbits=-15)
    piece = deflating.compress(bytes(MB)) + deflating.flush(zlib.Z_FULL_FLUSH)
    # RFC 1950: two bytes, an empty last block, the Adler-32 of zeros
    return b"\x78\x9c" + piece * (size // MB) + b"\x03\0" + struct.pack(">I", size % 65521 << 16 | 1)


@crafted(
    asked=("stack --raw", "var counter", "threads", "snapshot"),
    each={
        f"{kind}-{size >> 20}M": (kind, size)
        for kind in ("info", "line", "frame", "str")
        for size in (1 << 28, 1 << 30)
    },
    code=3,
    says=NO_RUNTIME,
)
def a_section_that_inflates(at: Folder, how: tuple[str, int]) -> None:
    """A section of debug information that inflates to a thousand times its size."""
    kind, size = how
    raw = compressed(bomb(size), size)
    sections = [Section(b".debug_" + kind.encode(), raw, flags=SHF_COMPRESSED)]
    others = [name for name in ("info", "abbrev", "line", "frame", "str") if name != kind]
    run_of(at, module([*sections, *(Section(b".debug_" + name.encode(), bytes(64)) for name in others)]))


@crafted(asked=("stack --raw", "var counter", "threads", "snapshot"), code=3, says=NO_RUNTIME)
def one_bomb_in_a_hundred_sections(at: Folder) -> None:
    """Sections of all names that share one compressed block, which inflates to 200 MB."""
    raw = compressed(bomb(200 * MB), 200 * MB)
    first = Section(b".debug_info", raw, flags=SHF_COMPRESSED)
    place = module([first]).index(raw)
    names = ("abbrev", "line", "frame", "str", "ranges", "rnglists", "loc", "loclists", "types", "addr", "aranges")
    rest = [Section(b".debug_" + n.encode(), flags=SHF_COMPRESSED, span=(place, len(raw))) for n in names]
    run_of(at, module([first, *rest]))


@crafted(
    asked=("stack --raw", "var counter", "snapshot"),
    each={
        "method-9": compressed(zlib.compress(bytes(99)), 99, 9),
        "no-header": b"\1\0\0",
        "other-size": compressed(zlib.compress(bytes(99)), 1 << 30),
        "noise": compressed(bytes(range(256)) * 9, 1 << 16),
        "zstd-noise": compressed(b"\x28\xb5\x2f\xfd" + bytes(range(200)), 1 << 16, 2),
        "zstd-window": compressed(b"\x28\xb5\x2f\xfd\x00\xff" + bytes(200), 1 << 16, 2),
        "old": b"ZLIB" + (1 << 40).to_bytes(8, "big") + zlib.compress(bytes(99)),
    },
    code=3,
    says=NO_RUNTIME,
)
def a_section_that_does_not_inflate(at: Folder, how: bytes) -> None:
    """A compressed section with damage of one of many kinds."""
    old = how.startswith(b"ZLIB")
    name = b".zdebug_" if old else b".debug_"
    rest = [Section(name + part, how, flags=0 if old else SHF_COMPRESSED) for part in (b"info", b"abbrev", b"line")]
    run_of(at, module(rest))


# Other files that a module names


def linked(name: bytes, crc: int = 0) -> Section:
    """Return the section that names a separate debug file."""
    raw = name + b"\0"
    return Section(b".gnu_debuglink", raw + bytes(-len(raw) % 4) + struct.pack("<I", crc))


@crafted(asked=COMMANDS, code=3, says=NO_RUNTIME)
def a_debug_file_of_60_gigabytes(at: Folder) -> None:
    """.gnu_debuglink names a file that is all hole."""
    at.sparse("program.debug", 60 << 30, {0: module()[:4096]})
    run_of(at, module([linked(b"program.debug", 0x12345678)], build_id=b""))


@crafted(asked=COMMANDS, code=3, says=NO_RUNTIME)
def a_debug_file_that_names_itself(at: Folder) -> None:
    """.gnu_debuglink names a twin of the program, which links back."""
    raw = module([linked(b"twin", 1)], build_id=b"")
    twin = module([linked(b"program", 1)], build_id=b"")
    at.write("twin", twin)
    run_of(at, raw)


def _device(at: Folder) -> None:
    if os.geteuid() != 0:
        (at.path / "program.debug").symlink_to("/dev/full")
        return
    os.mknod(at.path / "program.debug", 0o666 | 0o020000, os.makedev(1, 7))  # /dev/full


_OTHERS: dict[str, Callable[[Folder], None]] = {
    "fifo": lambda at: os.mkfifo(at.path / "program.debug"),
    "device": _device,
    "loop": lambda at: (at.path / "program.debug").symlink_to("program.debug"),
    "null": lambda at: (at.path / "program.debug").symlink_to("/dev/null"),
    "tty": lambda at: (at.path / "program.debug").symlink_to("/dev/ptmx"),
    "mem": lambda at: (at.path / "program.debug").symlink_to("/proc/self/mem"),
    "kmsg": lambda at: (at.path / "program.debug").symlink_to("/proc/kmsg"),
    "folder": lambda at: (at.path / "program.debug").mkdir(),
    "zero": lambda at: (at.path / "program.debug").symlink_to("/dev/zero"),
    "core": lambda at: (at.path / "program.debug").symlink_to("core"),
}


@crafted(asked=COMMANDS, each=_OTHERS, code=3, says=NO_RUNTIME)
def a_debug_file_that_is_none(at: Folder, how: Callable[[Folder], None]) -> None:
    """.gnu_debuglink names a device, a pipe, a file of /proc, a folder, a core, or a link to itself."""
    how(at)
    run_of(at, module([linked(b"program.debug", 7)], build_id=b""))


@crafted(asked=COMMANDS, each=_OTHERS, code=3, says=NO_RUNTIME)
def a_supplementary_file_that_is_none(at: Folder, how: Callable[[Folder], None]) -> None:
    """.gnu_debugaltlink names one of these files, too."""
    how(at)
    name = bytes(at.path / "program.debug")
    link = Section(b".gnu_debugaltlink", name + b"\0" + b"b" * 20)
    debug = [Section(b".debug_" + part, bytes(64)) for part in (b"info", b"abbrev", b"line", b"str")]
    run_of(at, module([link, *debug]))


@crafted(
    asked=COMMANDS,
    each={
        "1M": b"n" * MB,
        "up": b"../../../../../../etc/shadow",
        "absolute": b"/etc/shadow",
        "empty": b"",
        "escape": b"\x1b[2J\x1b]0;x\x07\xe2\x80\xae",
        "no-end": None,
    },
    code=3,
    says=NO_RUNTIME,
)
def a_debug_file_by_an_odd_name(at: Folder, how: bytes | None) -> None:
    """.gnu_debuglink whose name is long, is in another folder, is empty, has no end, or escapes."""
    section = linked(how, 7) if how is not None else Section(b".gnu_debuglink", b"x" * 64)
    run_of(at, module([section], build_id=b""))


_NAMED_FILES: dict[str, Callable[[Folder], None]] = {
    "fifo": lambda at: os.mkfifo(at.path / "library"),
    "loop": lambda at: (at.path / "library").symlink_to("library"),
    "watchdog": lambda at: (at.path / "library").symlink_to("/dev/watchdog"),
    "tty": lambda at: (at.path / "library").symlink_to("/dev/ptmx"),
    "mem": lambda at: (at.path / "library").symlink_to("/proc/self/mem"),
    "folder": lambda at: (at.path / "library").mkdir(),
    "core": lambda at: (at.path / "library").symlink_to("core"),
    "empty": lambda at: (at.path / "library").touch(),
    "hole": lambda at: at.sparse("library", 1 << 40, {}) and None,
}


@crafted(asked=COMMANDS, each=_NAMED_FILES, code=3, says=NO_RUNTIME)
def a_library_that_is_none(at: Folder, how: Callable[[Folder], None]) -> None:
    """A core that has a device, a pipe, a folder or a hole mapped."""
    how(at)
    run_of(at, module(), others=[(at.path / "library", module(build_id=b"another build, another"))])


# The dynamic section

_DYNAMIC = ("threads", "stack --raw", "runtimes", "var counter", "snapshot")


def dynamic(
    rows: Sequence[tuple[int, int]],
    tables: Sequence[Section] = (),
    **options: Any,
) -> bytes:
    """Return a library with a dynamic section."""
    data = b"".join(struct.pack("<QQ", tag & (1 << 64) - 1, value & (1 << 64) - 1) for tag, value in rows)
    sections = [*tables, Section(b".dynamic", data, 6, loaded=True, flags=SHF_ALLOC)]
    return module(
        sections, segments=lambda spans: [Segment(PT_DYNAMIC, *spans[b".dynamic"], spans[b".dynamic"][0])], **options
    )


@crafted(
    asked=_DYNAMIC,
    each={
        "no-end": [(1, 1)] * 5000,
        "strings-2^63": [(5, 1 << 63), (10, 1 << 62), (14, 5), (0, 0)],
        "strings-itself": [(5, TEXT), (10, 1 << 40), (14, 1), (0, 0)],
        "hash-of-nothing": [(5, TEXT), (6, TEXT), (10, 200), (4, TEXT), (0x6FFFFEF5, TEXT), (0, 0)],
        "hash-high": [(5, TEXT), (6, -8), (10, 200), (4, -8), (0x6FFFFEF5, -16), (0, 0)],
        "versions": [(0x6FFFFFFC, TEXT), (0x6FFFFFFD, 1 << 62), (0x6FFFFFFE, TEXT), (0x6FFFFFFF, 1 << 62), (0, 0)],
        "relocations": [(7, TEXT), (8, 1 << 62), (9, 0), (23, TEXT), (2, -1), (20, 7), (0, 0)],
        "needs-much": [(5, TEXT), (10, 200), *[(1, 1)] * 60_000, (0, 0)],
    },
    says="no OpenMP runtime|not",
)
def a_dynamic_section_that_lies(at: Folder, how: list[tuple[int, int]]) -> None:
    """Dynamic tables that have other places or sizes than claimed."""
    run_of(at, dynamic(how))


@crafted(asked=_DYNAMIC, says="")
def a_hash_table_of_one_chain(at: Folder) -> None:
    """DT_HASH and DT_GNU_HASH whose chains refer to themselves; the module has an entry point of a runtime."""
    names = b"\0GOMP_parallel\0__kmpc_fork_call\0"
    count = 1000
    chain = struct.pack("<II", 1, count) + struct.pack("<I", 1) + struct.pack("<I", 1) * count
    gnu = struct.pack("<IIII", 1, 1, 1, 6) + b"\xff" * 8 + struct.pack("<I", 1) + struct.pack("<I", 2) * count
    tables = [
        Section(b".dynsym", symbols([(1, TEXT, 16)] * count), SHT_DYNSYM, link=b".dynstr", entry=24, flags=SHF_ALLOC),
        Section(b".dynstr", names, SHT_STRTAB, flags=SHF_ALLOC),
        Section(b".hash", chain, 5, flags=SHF_ALLOC),
        Section(b".gnu.hash", gnu, 0x6FFFFFF6, flags=SHF_ALLOC),
    ]
    first = dynamic([(0, 0)], tables)
    places = {part: first.index(data.data) for part, data in zip("sthg", tables, strict=True)}
    rows = [(6, places["s"]), (5, places["t"]), (10, len(names)), (4, places["h"]), (0x6FFFFEF5, places["g"]), (0, 0)]
    run_of(at, dynamic(rows + [(0, 0)] * 0, tables))


@crafted(asked=_DYNAMIC, code=1, says=NO_RUNTIME)
def a_dynamic_section_over_a_hole(at: Folder) -> None:
    """PT_DYNAMIC over 1 GB of hole."""
    raw = bytearray(module(segments=lambda spans: [Segment(PT_DYNAMIC, 2 * MB, 1 << 30, 2 * MB)]))
    at.sparse("program", 2 << 30, {0: bytes(raw), 2 * MB: struct.pack("<QQ", 1, 1) * 1000})
    at.write("core", process(at.path / "program", bytes(raw)))


# Bytes outside of the file


@crafted(asked=COMMANDS, code=3, says=NO_RUNTIME)
def sections_without_bytes(at: Folder) -> None:
    """Every section of debug information as SHT_NOBITS of 4 GB."""
    names = ("info", "abbrev", "line", "frame", "str", "ranges", "loc")
    rows = [Section(b".debug_" + n.encode(), b"", SHT_NOBITS, span=(0, 4 << 30)) for n in names]
    run_of(at, module([*rows, Section(b".symtab", b"", SHT_NOBITS, link=b".symtab", entry=24, span=(0, 4 << 30))]))


@crafted(asked=COMMANDS, each={"2^40": 1 << 40, "2^63": 1 << 63, "wraps": (1 << 64) - 4096}, code=3, says=NO_RUNTIME)
def sections_behind_the_end(at: Folder, how: int) -> None:
    """Every section is outside of the file."""
    names = ("info", "abbrev", "line", "frame", "str", "ranges", "loc")
    rows = [Section(b".debug_" + n.encode(), b"", span=(how, 8192)) for n in names]
    symtab = Section(b".symtab", b"", SHT_SYMTAB, link=b".strtab", entry=24, span=(how, 2400))
    run_of(at, module([*rows, symtab, Section(b".strtab", b"", SHT_STRTAB, span=(how, 100))]))


@crafted(asked=COMMANDS, code=3, says=NO_RUNTIME)
def a_minidebuginfo_bomb(at: Folder) -> None:
    """.gnu_debugdata, an .xz, that inflates to 320 MB."""
    import lzma

    packing = lzma.LZMACompressor(lzma.FORMAT_XZ, preset=0)
    pieces = [packing.compress(bytes(MB)) for _ in range(320)]
    run_of(at, module([Section(b".gnu_debugdata", b"".join(pieces) + packing.flush())]))
