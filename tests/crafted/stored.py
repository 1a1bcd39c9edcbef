"""Files of ompd's own formats: snapshots, tables of layouts, entries of the cache."""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ompd.debugger.modules import kept_places
from tests.crafted.cases import MB, Folder, crafted
from tests.crafted.cores import small
from tests.crafted.dwarf import debugged, line_program, whole
from tests.crafted.elf import BASE, SHF_COMPRESSED, Section, module, note, process
from tests.crafted.modules import bomb, compressed, run_of, symbol_sections

COMMANDS = ("stack --raw", "threads", "runtimes", "var counter", "snapshot")
_FILE, _DEBUG_FILE = 0x4F4D5001, 0x4F4D5002

# Snapshots


def extract(raw: bytes, kind: int = _FILE, start: int = BASE) -> bytes:
    """Return the note that holds a module's file."""
    return note(b"OMPD", kind, struct.pack("<Q", start) + raw)


_EXTRACTS: dict[str, Callable[[], bytes]] = {
    "short": lambda: note(b"OMPD", _FILE, b"\1\2\3"),
    "empty": lambda: extract(b""),
    "text": lambda: extract(b"no file" * 100),
    "cut": lambda: extract(module(debugged(whole()))[:5000]),
    "10000-of-one": lambda: extract(module()) * 1000,
    "10000-of-nothing": lambda: b"".join(extract(b"x", start=n) for n in range(10_000)),
    "both": lambda: extract(module()) + extract(module(debugged(whole())), _DEBUG_FILE),
    "itself": lambda: extract(extract(extract(module()))),
    "other-build": lambda: extract(module(build_id=b"another build, another")),
    "bomb": lambda: extract(
        module([Section(b".debug_info", compressed(bomb(256 * MB), 256 * MB), flags=SHF_COMPRESSED)])
    ),
    "lines": lambda: extract(module(debugged(whole(), line=line_program(b"\x0d" * MB)))),
    "kind": lambda: note(b"OMPD", 0xFFFF_FFFF, bytes(64)),
    "names": lambda: extract(module(symbol_sections(b"\0" + b"s" * MB + b"\0", [(1, 4096, 64)] * 20_000))),
}


@crafted(asked=COMMANDS, each=_EXTRACTS, code=(0, 1, 3), says="")
def a_snapshot_that_lies(at: Folder, how: Callable[[], bytes]) -> None:
    """A core that claims to contain the files of its modules."""
    raw = module()
    at.write("core", process(at.write("program", raw), raw, notes=how()))


# Tables of layouts

_TABLE: dict[str, Any] = {
    "format": 1,
    "runtime": "libgomp",
    "releases": ["GCC 99"],
    "architectures": ["x86_64"],
    "provenance": "crafted",
    "build_ids": {"00" * 20: "crafted"},
    "structs": {"gomp_thread": {"size": 120, "fields": {"fn": [0, 8]}}},
}


def table(**changed: Any) -> bytes:
    """Return a table with some members changed."""
    return json.dumps({**_TABLE, **changed}).encode()


def _structs(**members: Any) -> bytes:
    return table(structs={"gomp_thread": {"size": 120, **members}})


_TABLES: dict[str, Callable[[], bytes]] = {
    "sound": table,
    "empty": lambda: b"",
    "deep": lambda: b"[" * 200_000 + b"]" * 200_000,
    "deep-objects": lambda: b'{"a":' * 100_000,
    "number": lambda: b"9" * 100_000,
    "exponent": lambda: table(format=0).replace(b'"format": 0', b'"format": 1e400'),
    "nan": lambda: b"NaN",
    "list": lambda: b"[1, 2, 3]",
    "no-utf8": lambda: b"\xff\xfe" + table(),
    "surrogate": lambda: b'{"runtime": "\\ud800"}',
    "size-minus": lambda: _structs(size=-1),
    "size-2^80": lambda: _structs(size=1 << 80),
    "field-outside": lambda: _structs(fields={"fn": [1 << 40, 8]}),
    "field-minus": lambda: _structs(fields={"fn": [-8, 8]}),
    "field-text": lambda: _structs(fields={"fn": ["0", "8"]}),
    "field-none": lambda: _structs(fields=None),
    "fields-100000": lambda: _structs(fields={f"f{n}": [0, 8] for n in range(100_000)}),
    "structs-50000": lambda: table(structs={f"s{n}": {"size": 8, "fields": {"f": [0, 8]}} for n in range(50_000)}),
    "names-1M": lambda: table(releases=["r" * MB], architectures=["a" * MB]),
    "escape": lambda: table(releases=["\x1b[2J\u202e\n"], provenance="\x1b]0;x\x07", runtime="libgomp"),
    "runtime": lambda: table(runtime="../../../etc/passwd"),
    "build-ids": lambda: table(build_ids={"zz" * 200: 1, "": None}),
    "masks": lambda: _structs(masks={"fn": [1 << 70, -1]}),
    "twice": lambda: table()[:-1] + b", " + table()[1:],
    "20M": lambda: table(provenance="p" * (20 * MB)),
    "true": lambda: table(format=True),
}


@crafted(
    asked=("layout show", "layout show crafted", "layout show --json"),
    each=_TABLES,
    code=(0, 1, 3),
    says="libgomp|crafted",
)
def a_table_that_lies(at: Folder, how: Callable[[], bytes]) -> None:
    """A table of layouts in the user's folder."""
    at.write("data/ompd/layouts/crafted.json", how())
    at.environment["XDG_DATA_HOME"] = str(at.path / "data")


_NO_TABLES: dict[str, Callable[[Path], object]] = {
    "fifo": os.mkfifo,
    "loop": lambda path: path.symlink_to(path.name),
    "device": lambda path: path.symlink_to("/dev/ptmx"),
    "folder": Path.mkdir,
    "zero": lambda path: path.symlink_to("/dev/zero"),
    "hole": lambda path: (path.touch(), os.truncate(path, 60 << 30)),
}


@crafted(asked=("layout show", "layout show crafted"), each=_NO_TABLES, code=(0, 1, 3), says="libgomp|crafted")
def a_table_that_is_no_file(at: Folder, how: Callable[[Path], object]) -> None:
    """A file that must not be opened, in the user's folder of tables."""
    path = at.path / "data" / "ompd" / "layouts" / "crafted.json"
    path.parent.mkdir(parents=True)
    how(path)
    at.environment["XDG_DATA_HOME"] = str(at.path / "data")


@crafted(asked=("layout show",), code=(0, 3), says="libgomp", cpu=10)
def tables_without_number(at: Folder) -> None:
    """3,000 tables of layouts."""
    for number in range(3_000):
        at.write(f"data/ompd/layouts/{number}.json", table())
    at.environment["XDG_DATA_HOME"] = str(at.path / "data")


_RUNTIMES: dict[str, Callable[[], bytes]] = {
    "sound": lambda: module(debugged(whole())),
    "core": lambda: b"",
    "text": lambda: b"text",
    "bomb": lambda: module([Section(b".debug_info", compressed(bomb(256 * MB), 256 * MB), flags=SHF_COMPRESSED)]),
    "ones": lambda: module([Section(b".debug_" + n, b"\xff" * MB) for n in (b"info", b"abbrev", b"str", b"line")]),
}


@crafted(asked=("layout add {folder}/runtime",), each=_RUNTIMES, code=1, says="runtime")
def a_table_of_a_runtime_that_lies(at: Folder, how: Callable[[], bytes]) -> None:
    """``layout add`` with a crafted file."""
    at.write("runtime", how() or small(at)[1])
    at.environment["XDG_DATA_HOME"] = str(at.path / "data")


# The cache


def entry(key: bytes, payload: bytes) -> bytes:
    """Return an entry of the cache, complete and with the right sums."""
    rest = key + payload
    return struct.pack("<13sIIQ", b"ompd cache 1\n", zlib.crc32(payload), zlib.adler32(rest), len(key)) + rest


_PAYLOADS: dict[str, Callable[[], bytes]] = {
    "empty": lambda: b"",
    "ones": lambda: b"\xff" * 100_000,
    "little": lambda: b"little" + b"\xff" * 80_000,
    "zeros": lambda: b"little" + bytes(80_000),
    "json": lambda: b'{"0": ["x"], "1": null, "-1": {}}',
    "deep": lambda: b"[" * 100_000,
    "rows": lambda: json.dumps({str(n): ["\x1b[2J", -n, None] for n in range(10_000)}).encode(),
    "list": lambda: b"[[[]]]",
    "15M": lambda: bytes(15 * MB),
}


@crafted(asked=("stack --raw", "var counter", "runtimes"), each=_PAYLOADS, code=(0, 1, 3), says="program|counter")
def an_entry_of_the_cache_that_lies(at: Folder, how: Callable[[], bytes]) -> None:
    """Entries with right sums and of every name that exists, for the file of the program."""
    at.is_ours = True  # ompd ignores a cache that another user could have written
    strings = b"\0stands_here\0counter\0"
    rows = [(1, 0x1000 + n % 300, 4) for n in range(6_000)]
    run_of(at, module([*debugged(whole()), *symbol_sections(strings, rows)]))
    cache = at.path / "cache" / "ompd"
    cache.mkdir(parents=True)
    program = at.path / "program"
    old = program.stat().st_mtime - 1000
    os.utime(program, (old, old))
    status = program.stat()
    identity = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    start = "-".join(f"{number:x}" for number in identity)
    for what in _kept_names():
        name = f"{start}-{what}"
        (cache / name).write_bytes(entry(name.encode(), how()))
    for path in (cache, *cache.iterdir()):
        path.chmod(0o700)
    at.environment.update({"OMPD_CACHE": "on", "XDG_CACHE_HOME": str(at.path / "cache")})


def _kept_names() -> tuple[str, ...]:
    return kept_places._WHAT, "symbols.symtab", "symbols.dynsym"
