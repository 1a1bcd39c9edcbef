"""Builders of files like ELF and DWARF, with wrong values in any field, and the readers that must survive the files.

A builder takes a source of random numbers: that of hypothesis, which can then make an example smaller, one guided by
coverage, or a seeded one.
"""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ompd.binary.cfi.tables import UnwindTable
from ompd.binary.core import notes
from ompd.binary.cursor import Cursor
from ompd.binary.demangle import demangle
from ompd.binary.dwarf.expression import evaluate
from ompd.binary.dwarf.forms import Value
from ompd.binary.dwarf.index import EntryRef
from ompd.binary.dwarf.lines import LineInfo
from ompd.binary.dwarf.lists import location_at
from ompd.binary.dwarf.location import (
    FrameContext,
    derefs_through,
    find_pieces,
    read_pieces,
)
from ompd.binary.dwarf.sections import Sections
from ompd.binary.dwarf.units import Unit
from ompd.binary.elf.elf import ElfFile, iter_notes
from ompd.binary.elf.symbols import SymbolTable
from ompd.binary.types.formatter import ValueFormatter
from ompd.binary.types.layouts import TypeReader
from ompd.binary.types.locals import declared_in, find_around, find_scopes
from ompd.binary.types.parts import PartFinder, parse_steps
from ompd.binary.types.shown import Options
from ompd.binary.types.static import find_common, find_named, find_variables
from ompd.binary.types.type_names import type_name
from ompd.binary.types.types import TypeInfo
from ompd.debugger.targets.core import CoreTarget
from ompd.errors import MalformedFile, MemoryFault, OmpdError
from ompd.isa.x86.architectures import X86_64
from tests.fuzz.parses import Memory
from tests.support.unwinding import stack_of, unwinder_of

_ABSURD = (0, 1, 2, 3, 7, 8, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFF0)
_ABSURD += (0xFFFFFFFF, 1 << 32, 1 << 40, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
_ADDRESS = 0x1000  # the address of the code in these files


@dataclass
class Form:
    """The class, the byte order, and the share of fields with wrong values."""

    numbers: random.Random
    bits: int = 64
    order: str = "<"
    lies: float = 0.02
    entries: list[int] = field(default_factory=list)  # the offsets of DWARF entries in their unit

    @property
    def word(self) -> str:
        return "Q" if self.bits == 64 else "I"

    @property
    def size(self) -> int:
        return self.bits // 8

    def lie(self, value: int) -> int:
        """Return *value*, or, now and then, a wrong one."""
        if self.numbers.random() >= self.lies:
            return value
        way = self.numbers.randrange(3)
        return (self.numbers.choice(_ABSURD), value + 1, value - 1)[way]

    def odd(self) -> bool:
        """Return whether the next item shall make no sense."""
        return self.numbers.random() < 3 * self.lies

    def pack(self, layout: str, *values: int) -> bytes:
        """Pack integers, some with wrong values; each is cut to its size."""
        out = b""
        for letter, value in zip(layout, values, strict=True):
            size = struct.calcsize("=" + letter)
            out += (self.lie(value) & (1 << 8 * size) - 1).to_bytes(size, "little" if self.order == "<" else "big")
        return out

    def uleb(self, value: int) -> bytes:
        """Return an unsigned LEB128 number."""
        value = self.lie(value) & (1 << 64) - 1
        out = b""
        while value >= 0x80:
            out += bytes([value & 0x7F | 0x80])
            value >>= 7
        return out + bytes([value])

    def sleb(self, value: int) -> bytes:
        """Return a signed LEB128 number."""
        value = self.lie(value)
        out = b""
        while not -64 <= value < 64:
            out += bytes([value & 0x7F | 0x80])
            value >>= 7
        return out + bytes([value & 0x7F])

    def below(self, limit: int) -> int:
        """Return a number in [0, *limit*)."""
        return self.numbers.randrange(max(limit, 1))

    def some(self, most: int) -> range:
        """Return the range for a random number of repetitions, at most *most*."""
        return range(self.below(most + 1))


# Notes and symbols


def notes_of(form: Form, kinds: Sequence[tuple[bytes, int, bytes]]) -> bytes:
    """Return a table of notes."""
    out = b""
    for owner, kind, desc in kinds:
        name = owner + b"\0"
        out += form.pack("III", len(name), len(desc), kind) + _padded(name, 4) + _padded(desc, 4)
    return out


def _padded(raw: bytes, align: int) -> bytes:
    return raw + bytes(-len(raw) % align)


_NAMES = (b"main", b"f", b"recurse", b"ompd_dll_locations", b".gomp_critical_user_x.var", b"main._omp_fn.0", b"a@@V1")
_NAMES += (b".omp_outlined.", b"f.isra.0.cold", b"$x", b"", b"omp_lock_t", b"S", b"\xff\x1b[2J", b".isra.1" * 40)


def strings(form: Form) -> tuple[bytes, list[int]]:
    """Return a table of strings, and the offsets of the strings."""
    table, places = b"\0", [0]
    for _ in form.some(8):
        places.append(len(table))
        table += form.numbers.choice(_NAMES) + (b"\0" if form.numbers.random() > form.lies else b"")
    return table, places


def symbols(form: Form) -> tuple[bytes, bytes]:
    """Return a table of symbols and its strings."""
    table, places = strings(form)
    rows = b""
    for number in form.some(12):
        name, info, section = form.numbers.choice(places), form.numbers.choice((0x12, 0x11, 0x02, 0x22, 0x16, 3)), 1
        value, size = _ADDRESS + 16 * form.below(number + 1), form.numbers.choice((0, 1, 16, 64, 4096))
        if form.bits == 64:
            rows += form.pack("IBBHQQ", name, info, 0, section, value, size)
        else:
            rows += form.pack("IIIBBH", name, value, size, info, 0, section)
    return rows, table


# Expressions and call frame information


def expression(form: Form) -> bytes:
    """Return a DWARF expression."""
    out = b""
    for _ in form.some(10):
        usual = (*range(0x08, 0x14), 0x16, 0x19, 0x1A, *range(0x1C, 0x28), *range(0x29, 0x33), 0x76, 0x77, 0x96, 0x23)
        odd = (*range(0x03, 0x30), 0x4F, 0x50, 0x8F, 0x90, 0x92, 0x94, 0x9C, 0xA1)
        op = form.numbers.choice(odd if form.odd() else usual)
        out += bytes([op])
        if op in (0x10, 0x23, 0x90, 0xA1):
            out += form.uleb(form.below(300))
        elif op in (0x11, 0x91) or 0x70 <= op <= 0x8F:
            out += form.sleb(form.below(300) - 150)
        elif op == 0x92:
            out += form.uleb(form.below(20)) + form.sleb(8)
        elif op in (0x08, 0x09, 0x15, 0x94):
            out += form.pack("B", form.below(9))
        elif op in (0x0A, 0x0B, 0x28, 0x2F):
            out += form.pack("H", form.numbers.choice((0, 1, 0xFFFD, 0xFFFE, 0xFFF0, 5)))
        elif op in (0x0C, 0x0D):
            out += form.pack("I", form.below(1 << 16))
        elif op in (0x0E, 0x0F, 0x03):
            out += form.pack("Q" if op != 0x03 else form.word, _ADDRESS + form.below(256))
    return out


def instructions(form: Form) -> bytes:
    """Return call frame instructions."""
    out = b""
    for _ in form.some(14):
        usual = (*range(2, 10), *range(0x0C, 0x17), 0x2E, 0x2F, 0x41, 0x48, 0x86, 0x90, 0xC6)
        op = form.numbers.choice((*usual, 0x01, 0x0A, 0x0B, 0x2D, 0x3F, 0x7F) if form.odd() else usual)
        out += bytes([op])
        if op == 0x01:
            out += form.pack(form.word, _ADDRESS + form.below(64))
        elif op in (0x02, 0x03, 0x04):
            out += form.pack({2: "B", 3: "H", 4: "I"}[op], form.below(32))
        elif op in (0x06, 0x07, 0x08, 0x0D, 0x0E, 0x2E) or 0x80 <= op < 0xC0:
            out += form.uleb(form.below(40))
        elif op in (0x05, 0x09, 0x0C, 0x14, 0x2F):
            out += form.uleb(form.below(20)) + form.uleb(form.below(40))
        elif op in (0x11, 0x12, 0x15):
            out += form.uleb(form.below(20)) + form.sleb(form.below(40) - 20)
        elif op == 0x13:
            out += form.sleb(form.below(40) - 20)
        elif op in (0x0F, 0x10, 0x16):
            code = expression(form)
            out += (form.uleb(form.below(20)) if op != 0x0F else b"") + form.uleb(len(code)) + code
    return out


def eh_frame(form: Form, address: int) -> tuple[bytes, bytes]:
    """Return ``.eh_frame`` for *address*, and its search table for *address* - 256."""
    out = b""
    cie = 0
    table: list[tuple[int, int]] = []
    for number in range(1 + form.below(6)):
        start = len(out)
        if number == 0 or form.numbers.random() < 0.2:
            cie = start
            odd = (b"", b"z", b"eh", b"zB", b"zQ") if form.odd() else ()
            augmentation = form.numbers.choice((b"zR", b"zRS", b"zPLR", *odd))
            version = form.numbers.choice((1, 3, 4))
            body = form.pack("I", 0) + form.pack("B", version) + augmentation + b"\0"
            body += (
                (form.pack("BB", form.size, 0) if version == 4 else b"") + form.uleb(1) + form.sleb(-8) + form.uleb(16)
            )
            encoding = form.numbers.choice((0x00, 0x03, 0x0C, 0x01, 0x09, 0x9B, 0x3B, 0xFF)) if form.odd() else 0x1B
            data = b"".join(
                {
                    "R": bytes([encoding]),
                    "L": b"\x1b",
                    "P": b"\x1b" + bytes(4),
                }.get(chr(letter), b"")
                for letter in augmentation[1:]
            )
            body += (form.uleb(len(data)) + data if augmentation.startswith(b"z") else b"") + instructions(form)
        else:
            code = _ADDRESS + 32 * number
            table.append((code, address + start))
            body = form.pack("I", start + 4 - cie)
            place = address + start + 8
            body += form.pack("II", code - place & 0xFFFFFFFF, 32)
            body += form.uleb(0) + instructions(form)
        body = _padded(body, 4)
        out += form.pack("I", len(body)) + body
    out += bytes(4) if form.numbers.random() > form.lies else b""
    here = address - 256
    hdr = form.pack("BBBB", 1, 0x1B, 0x03, 0x3B) + form.pack("II", address - here - 4, len(table))
    for code, entry in sorted(table):
        hdr += form.pack("II", code - here & 0xFFFFFFFF, entry - here & 0xFFFFFFFF)
    return out, hdr


def debug_frame(form: Form) -> bytes:
    """Return ``.debug_frame``; some entries are 64-bit."""
    out = b""
    cie, cie_wide = 0, False
    for number in range(1 + form.below(6)):
        if number == 0 or form.numbers.random() < 0.3:
            cie, cie_wide = len(out), form.numbers.random() < 0.3
            version = form.numbers.choice((1, 3, 4))
            augmentation = form.numbers.choice((b"zR", b"zS", b"eh", b"armcc+")) if form.odd() else b""
            body = form.pack("Q" if cie_wide else "I", (1 << 64) - 1 if cie_wide else 0xFFFFFFFF)
            body += form.pack("B", version) + augmentation + b"\0"
            body += form.pack("BB", form.size, 0) if version == 4 else b""
            body += form.uleb(1) + form.sleb(-8) + form.uleb(16)
            body += form.uleb(1) + b"\x1b" if augmentation.startswith(b"z") else b""
            wide = cie_wide
        else:
            wide = cie_wide if not form.odd() else not cie_wide
            body = form.pack(("Q" if wide else "I") + 2 * form.word, cie, _ADDRESS + 32 * number, 32)
        body = _padded(body + instructions(form), form.size)
        out += (form.pack("IQ", 0xFFFFFFFF, len(body)) if wide else form.pack("I", len(body))) + body
    return out


# DWARF

_FORMS = (0x08, 0x0B, 0x05, 0x06, 0x07, 0x0A, 0x0C, 0x0D, 0x0E, 0x0F, 0x13, 0x17, 0x18, 0x19, 0x1E, 0x21, 0x25)
_ODD_FORMS = (*range(0x01, 0x2D), 0x1F20, 0x1F21)
_TAGS = (0x11, 0x2E, 0x1D, 0x34, 0x13, 0x16, 0x01, 0x21, 0x0D, 0x0F, 0x24, 0x26, 0x39, 0x0B, 0x1C, 0x17, 0x41, 0x4A)
_TAGS += (0x04, 0x28, 0x0F, 0x10, 0x12, 0x1A, 0x1F, 0x42)
_ATTRIBUTES = (0x03, 0x02, 0x0B, 0x10, 0x11, 0x12, 0x1B, 0x22, 0x2F, 0x31, 0x38, 0x3A, 0x3B, 0x3C, 0x47, 0x49, 0x55)
_ATTRIBUTES += (0x13, 0x37, 0x51, 0x69, 0x6B, 0x6E, 0x72, 0x73, 0x74, 0x8C, 0x2007, 0x58, 0x59, 0x01, 0x2132, 0x2133)
_ATTRIBUTES += (0x0D, 0x19, 0x1C, 0x3E, 0x4E, 0x4F, 0x50, 0x65, 0x6D)
_DWO_ID = 0x11223344  # of all split units, so that each may be the other half of any
# The usual forms of an attribute that does not take an arbitrary form.
_LIKELY = {
    0x03: (0x08, 0x0E, 0x1F21, 0x1D), 0x02: (0x18, 0x0A), 0x0B: (0x0B,), 0x10: (0x17, 0x06), 0x11: (0x01,),
    0x12: (0x07, 0x01, 0x06),
    0x31: (0x13, 0x11, 0x10, 0x1F20, 0x1C), 0x47: (0x13, 0x1F20), 0x49: (0x13, 0x11, 0x15, 0x20),
    0x58: (0x0B,), 0x59: (0x0B,), 0x01: (0x13,), 0x55: (0x17, 0x23), 0x38: (0x0B, 0x18),
    0x19: (0x18,), 0x1C: (0x0B, 0x0A), 0x3E: (0x0B,), 0x4E: (0x18, 0x0B), 0x50: (0x18,),
    0x3A: (0x0B,), 0x3B: (0x0B,), 0x2F: (0x0B, 0x0F), 0x22: (0x0B,), 0x37: (0x0B,),
}  # fmt: skip


def dwarf(form: Form) -> dict[str, bytes]:
    """Return sections of debug information."""
    table, places = strings(form)
    info = abbrev = line = b""
    for _ in range(1 + form.below(3)):
        version = form.numbers.choice((2, 3, 4, 5, 5, 4))
        offset = len(abbrev)
        known: list[tuple[int, bool, list[tuple[int, int]]]] = []
        for code in range(1, 2 + form.below(6)):
            tag = 0x11 if code == 1 else form.numbers.choice(_TAGS)
            children = code == 1 or form.numbers.random() < 0.5
            pairs: list[tuple[int, int]] = []
            if code == 1:
                pairs = [(0x03, 0x08), (0x10, 0x17 if version > 3 else 0x06), (0x11, 0x01), (0x12, 0x07)]
                if version >= 4 and form.below(2):  # a skeleton, or the unit that it stands for
                    pairs += [(0x76, 0x08)] if version >= 5 else [(0x2130, 0x08), (0x2131, 0x07)]
            elif form.numbers.random() < 0.7:
                pairs = [(0x03, form.numbers.choice((0x08, 0x0E)))]
                if tag in (0x2E, 0x1D):
                    pairs += [(0x11, 0x01), (0x12, 0x07)]
                else:
                    pairs += [(0x0B, 0x0B), (0x38, 0x0B)] if tag in (0x13, 0x16, 0x24) else [(0x49, 0x13), (0x38, 0x0B)]
                pairs += [(0x02, 0x18 if version > 3 else 0x0A)] if tag == 0x34 else []
            for _ in form.some(6):
                attribute = form.numbers.choice(_ATTRIBUTES)
                forms = _ODD_FORMS if form.odd() else _LIKELY.get(attribute, _FORMS)
                if attribute not in (known_attribute for known_attribute, _ in pairs):
                    pairs.append((attribute, form.numbers.choice(forms)))
            known.append((tag, children, pairs))
            abbrev += form.uleb(code) + form.uleb(tag) + bytes([children])
            for attribute, kind in pairs:
                abbrev += form.uleb(attribute) + form.uleb(kind) + (form.sleb(5) if kind == 0x21 else b"")
            abbrev += b"\0\0"
        abbrev += b"\0"
        start = len(info)
        unit_type = form.numbers.choice((1, 1, 1, 4, 5) if not form.odd() else (2, 3, 6))
        before = 11 if version < 5 else 20 if unit_type in (4, 5) else 12
        form.entries = [before]
        entries, depth = _entry(form, 1, known[0], places, len(line)), 1
        for _ in form.some(14):
            if depth > 1 and form.numbers.random() < 0.3:
                entries += b"\0"
                depth -= 1
                continue
            code = 1 + form.below(len(known))
            form.entries.append(before + len(entries))
            entries += _entry(form, code, known[code - 1], places, len(line))
            depth += known[code - 1][1]
        entries += bytes(depth)
        header = form.pack("H", version)
        if version >= 5:
            header += form.pack("BBI", unit_type, form.size, offset)
            header += form.pack("Q", _DWO_ID) if unit_type in (4, 5) else b""
        else:
            header += form.pack("IB", offset, form.size)
        info += form.pack("I", len(header) + len(entries)) + header + entries
        line += lines(form, version)
        if form.odd():
            info = info[:start] + info[start:][: form.below(len(info) - start + 1)]
    found = {".debug_info": info, ".debug_abbrev": abbrev, ".debug_line": line, ".debug_str": table}
    found[".debug_line_str"] = table
    found[".debug_ranges"] = form.pack(form.word * 4, _ADDRESS, _ADDRESS + 64, 0, 0)
    body = form.pack("HBBI", 5, form.size, 0, 1) + form.pack("I", 4)
    for _ in form.some(5):
        kind = form.below(9) if form.odd() else 4
        body += bytes([kind]) + (form.uleb(form.below(64)) + form.uleb(form.below(64)) if kind == 4 else b"")
    body += b"\0"
    found[".debug_rnglists"] = form.pack("I", len(body)) + body
    body = form.pack("HBB", 5, form.size, 0) + form.pack(form.word * 3, _ADDRESS, _ADDRESS + 32, _ADDRESS + 64)
    found[".debug_addr"] = form.pack("I", len(body)) + body
    body = form.pack("HH", 5, 0) + b"".join(form.pack("I", form.numbers.choice(places)) for _ in range(4))
    found[".debug_str_offsets"] = form.pack("I", len(body)) + body
    if form.numbers.random() < 0.5:
        body = form.pack("HIBB", 2, 0, form.size, 0)
        body += bytes(-(len(body) + 4) % (2 * form.size)) + form.pack(form.word * 4, _ADDRESS, 256, 0, 0)
        found[".debug_aranges"] = form.pack("I", len(body)) + body
    return {name: raw for name, raw in found.items() if form.numbers.random() > form.lies}


def package_index(form: Form) -> bytes:
    """Return the index of a package whose units begin at the start of their sections."""
    slots, rows = form.numbers.choice((1, 2, 4, 8)), 1 + form.below(2)
    columns = form.numbers.choice(((1, 3), (1, 3, 6), (1, 3, 6, 8)))
    out = form.pack("I", 2) if form.below(2) else form.pack("HH", 5, 0)
    out += form.pack("III", len(columns), rows, slots)
    out += b"".join(form.pack("Q", form.numbers.choice((0, _DWO_ID, _DWO_ID + slots))) for _ in range(slots))
    out += b"".join(form.pack("I", form.below(rows + 1)) for _ in range(slots))
    out += form.pack("I" * len(columns), *columns)
    return out + b"".join(form.pack("I", form.numbers.choice((0, 0, 16))) for _ in range(2 * rows * len(columns)))


def _entry(
    form: Form, code: int, known: tuple[int, bool, list[tuple[int, int]]], places: Sequence[int], line: int
) -> bytes:
    out = form.uleb(code)
    for attribute, kind in known[2]:
        out += _value(form, attribute, kind, places, line)
    return out


def _value(form: Form, attribute: int, kind: int, places: Sequence[int], line: int, depth: int = 0) -> bytes:
    number = line if attribute == 0x10 else form.numbers.choice((0, 1, 2, 11, 12, 30, 64, form.below(200)))
    if attribute == 0x2131:
        number = _DWO_ID
    if attribute in (0x11, 0x12) and kind == 0x01:
        number = _ADDRESS + form.below(16)
    elif attribute == 0x12:
        number = 256 - form.below(64)
    elif attribute == 0x55:
        number = 12 if kind == 0x17 else 0
    if 0x10 <= kind <= 0x15 and not form.odd():
        number = form.numbers.choice(form.entries)
    if kind in (0x0E, 0x1F):
        number = form.numbers.choice(places)
    sizes = {0x05: "H", 0x06: "I", 0x07: "Q", 0x0B: "B", 0x0C: "B", 0x0E: "I", 0x10: "I", 0x11: "B", 0x12: "H"}
    sizes |= {0x13: "I", 0x14: "Q", 0x17: "I", 0x1C: "I", 0x1D: "I", 0x1F: "I", 0x20: "Q", 0x24: "Q", 0x25: "B"}
    sizes |= {0x26: "H", 0x28: "I", 0x29: "B", 0x2A: "H", 0x2C: "I", 0x1F20: "I", 0x1F21: "I", 0x01: form.word}
    if kind in sizes:
        return form.pack(sizes[kind], number)
    if kind in (0x0F, 0x15, 0x1A, 0x1B, 0x22, 0x23):
        return form.uleb(number)
    if kind == 0x0D:
        return form.sleb(number)
    if kind == 0x08:
        return form.numbers.choice(_NAMES) + b"\0"
    if kind in (0x18, 0x09, 0x0A, 0x03, 0x04):
        code = b"\x03" + form.pack(form.word, _ADDRESS) if form.below(2) else expression(form)
        length = {0x0A: "B", 0x03: "H", 0x04: "I"}.get(kind)
        return (form.pack(length, len(code)) if length is not None else form.uleb(len(code))) + code
    if kind == 0x16 and depth < 5:
        inner = form.numbers.choice(_FORMS)
        return form.uleb(inner) + _value(form, attribute, inner, places, line, depth + 1)
    return {0x1E: bytes(16), 0x27: bytes(3), 0x2B: bytes(3)}.get(kind, b"")


def lines(form: Form, version: int) -> bytes:
    """Return a line table."""
    base, span = 0x100 - form.below(10), form.numbers.choice((14, 12, 1, 255))
    header = form.pack("B", 1) + (form.pack("B", 1) if version >= 4 else b"")
    header += form.pack("BBBB", 1, base, span, 13) + bytes((0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1))
    if version >= 5:
        header += form.pack("B", 1) + form.uleb(1) + form.uleb(0x08) + form.uleb(1) + b"/src\0"
        header += form.pack("B", 2) + form.uleb(1) + form.uleb(0x08) + form.uleb(2) + form.uleb(0x0B)
        header += form.uleb(2) + b"a.c\0\0b.c\0\0"
    else:
        header += b"/src\0\0a.c\0" + form.uleb(1) + form.uleb(0) + form.uleb(0) + b"\0"
    program = b"\0" + form.uleb(1 + form.size) + b"\x02" + form.pack(form.word, _ADDRESS)
    for _ in form.some(20):
        op = form.numbers.choice((0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 20, 60, 255))
        program += bytes([op])
        if op == 0:
            kind = form.numbers.choice((1, 2, 3, 4, 0x80))
            body = bytes([kind]) + {2: form.pack(form.word, _ADDRESS + 32), 3: b"c.c\0\1\0\0", 4: form.uleb(1)}.get(
                kind, b""
            )
            program += form.uleb(len(body)) + body
        elif op in (2, 4, 5, 12):
            program += form.uleb(form.below(20))
        elif op == 3:
            program += form.sleb(form.below(40) - 10)
        elif op == 9:
            program += form.pack("H", form.below(64))
    program += b"\0\x01\x01" if form.numbers.random() > form.lies else b""
    rest = form.pack("I", len(header)) + header + program
    start = form.pack("H", version) + (form.pack("BB", form.size, 0) if version >= 5 else b"")
    return form.pack("I", len(start) + len(rest)) + start + rest


# Whole files


def elf_file(form: Form) -> bytes:
    """Return an ELF file with symbols, unwind tables, notes and debug information."""
    rows, table = symbols(form)
    frames, hdr = eh_frame(form, 0x2100)
    build_id = notes_of(form, [(b"GNU", 3, bytes(form.below(21)))])
    sections: list[tuple[str, int, int, int, bytes]] = [
        (".text", 1, 6, _ADDRESS, bytes(256)),
        (".symtab", 2, 0, 0, rows),
        (".strtab", 3, 0, 0, table),
        (".eh_frame_hdr", 1, 2, 0x2000, hdr),
        (".eh_frame", 1, 2, 0x2100, frames),
        (".debug_frame", 1, 0, 0, debug_frame(form)),
        (".note.gnu.build-id", 7, 2, 0x3000, build_id),
        (".gnu_debuglink", 1, 0, 0, form.numbers.choice((b"x.debug\0abcd", b"../x\0abcd", b"\0", b"xyz"))),
    ]
    debug = dwarf(form)
    if form.below(2):
        debug |= {name + ".dwo": raw for name, raw in debug.items()}
        if form.below(2):
            debug[".debug_cu_index"] = package_index(form)
    if form.below(4) == 0:
        debug[".gnu_debugaltlink"] = b"other.debug\0" + bytes(form.below(21))
    if form.below(8) == 0:
        debug[".debug_sup"] = form.pack("HB", 5, form.below(2)) + b"other.debug\0" + form.uleb(4) + b"abcd"
    for name, raw in debug.items():
        flags = 0
        if form.numbers.random() < 0.08:
            flags, raw = 0x800, _compressed(form, raw)
        sections.append((name, 1, flags, 0, raw))
    return _assembled(form, 3, sections, {0x3000: 4, 0x2000: 0x6474E550})


def _compressed(form: Form, raw: bytes) -> bytes:
    kind, size = form.numbers.choice((1, 2, 9)) if form.odd() else 1, len(raw)
    if form.odd():
        size = form.numbers.choice((0, 1 << 20, 1 << 30, 1 << 40, (1 << 64) - 1))
    header = form.pack("IIQQ", kind, 0, size, 1) if form.bits == 64 else form.pack("III", kind, size & 0xFFFFFFFF, 1)
    return header + zlib.compress(bytes(100_000) if form.odd() else raw)


def _assembled(
    form: Form, e_type: int, sections: Sequence[tuple[str, int, int, int, bytes]], segments: Mapping[int, int]
) -> bytes:
    # File header, program headers, then each section's bytes, then the section headers.
    ehsize, phsize, shsize = (64, 56, 64) if form.bits == 64 else (52, 32, 40)
    names = b"\0"
    body = b""
    headers = [form.pack("IIQQQQIIQQ" if form.bits == 64 else "IIIIIIIIII", *([0] * 10))]
    programs = []
    start = ehsize + phsize * (len(segments) + 1)
    index = {name: number for number, (name, *_) in enumerate(sections, 1)}
    for name, kind, flags, address, raw in [*sections, (".shstrtab", 3, 0, 0, b"")]:
        at = len(names)
        names += name.encode() + b"\0"
        if name == ".shstrtab":
            raw = names
        body += bytes(-len(body) % 8)
        offset = start + len(body)
        body += raw
        link = index.get(".strtab", 0) if kind in (2, 11) else 0
        entry = (24 if form.bits == 64 else 16) if kind in (2, 11) else 0
        word = form.word
        headers.append(
            form.pack(
                f"II{word}{word}{word}{word}II{word}{word}",
                at,
                kind,
                flags,
                address,
                offset,
                len(raw),
                link,
                0,
                1,
                entry,
            )
        )
        if address in segments and name != ".text":
            programs.append((segments[address], offset, address, len(raw)))
    programs.append((1, 0, 0, start + len(body)))
    table = b""
    for kind, offset, address, size in programs:
        if form.bits == 64:
            table += form.pack("IIQQQQQQ", kind, 5, offset, address, address, size, size, 4)
        else:
            table += form.pack("IIIIIIII", kind, offset, address, address, size, size, 5, 4)
    body += bytes(-len(body) % 8)
    word = form.word
    ident = b"\x7fELF" + bytes([2 if form.bits == 64 else 1, 1 if form.order == "<" else 2, 1]) + bytes(9)
    header = form.pack(
        f"HHI{word}{word}{word}IHHHHHH",
        *(e_type, 62, 1, _ADDRESS, ehsize, start + len(body), 0, ehsize, phsize, len(programs), shsize),
        *(len(headers), len(headers) - 1),
    )
    return ident + header + table.ljust(start - ehsize, b"\0") + body + b"".join(headers)


def core_file(form: Form) -> bytes:
    """Return an ELF core with threads, files, an auxiliary vector and some memory."""
    kinds: list[tuple[bytes, int, bytes]] = []
    for thread in range(form.below(4)):
        registers = b"".join(form.pack("Q", form.below(1 << 32)) for _ in range(27))
        kinds.append((b"CORE", 1, bytes(32) + form.pack("I", 100 + thread) + bytes(76) + registers + bytes(8)))
    kinds.append(
        (b"CORE", 3, bytes(24) + form.pack("I", 100) + bytes(12) + b"name".ljust(16, b"\0") + b"arguments".ljust(80))
    )
    kinds.append((b"CORE", notes.NT_AUXV, form.pack("QQQQQQ", 3, 0x400040, 33, 0x7FFF0000, 0, 0)))
    mapped = b"".join(form.pack("QQQ", 0x400000 + 0x1000 * n, 0x401000 + 0x1000 * n, n) for n in range(3))
    kinds.append((b"CORE", notes.NT_FILE, form.pack("QQ", 3, 4096) + mapped + b"/bin/none\0" * 3))
    kinds.append((b"CORE", notes.NT_SIGINFO, form.pack("I", 11) + bytes(124)))
    form.numbers.shuffle(kinds)
    raw = notes_of(form, kinds)
    memory = form.numbers.choice((bytes(64), b"\x7fELF" + bytes(60), raw[:64]))
    table = form.pack("IIQQQQQQ", 4, 0, 64 + 112, 0, 0, len(raw), 0, 4)
    table += form.pack("IIQQQQQQ", 1, 6, 64 + 112 + len(raw), 0x400000, 0, len(memory), 4096, 4096)
    header = form.pack("HHIQQQIHHHHHH", 4, 62, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    return b"\x7fELF\x02\x01\x01" + bytes(9) + header + table + raw + memory


# Readers. On any bytes, each may raise only OmpdError.


def _try(ask: Callable[[], object]) -> None:
    try:
        ask()
    except OmpdError as error:
        assert str(error)


_PLACES = (
    0,
    1,
    _ADDRESS - 1,
    _ADDRESS,
    _ADDRESS + 1,
    _ADDRESS + 33,
    _ADDRESS + 64,
    _ADDRESS + 200,
    1 << 63,
    (1 << 64) - 1,
)


def read_elf(data: bytes) -> None:
    """Ask everything of an ELF file's headers and symbols."""
    elf = ElfFile(data, "file")
    for ask in (elf.build_id, elf.dynamic, elf.soname, elf.debuglink, lambda: elf.sections):
        _try(ask)
    try:
        for section in elf.sections[:200]:
            _try(lambda section=section: elf.section_data(section))
    except OmpdError:
        pass
    table = SymbolTable(elf)
    _try(lambda: table.find_many([name.decode("latin-1") for name in _NAMES]))
    for name in _NAMES:
        _try(lambda name=name: table.find(name.decode("latin-1")))
    _try(lambda: table.find_prefix(".gomp_critical"))
    for place in _PLACES:
        _try(lambda place=place: table.at(place))


def read_unwinding(data: bytes) -> None:
    """Ask for rows of both unwind tables."""
    elf = ElfFile(data, "file")
    for load in (UnwindTable.from_elf, UnwindTable.from_debug_frame):
        try:
            table = load(elf)
        except OmpdError:
            continue
        if table is not None:
            for place in (*_PLACES, *range(_ADDRESS, _ADDRESS + 256, 24)):
                _try(lambda table=table, place=place: table.row(place))
            _try(lambda table=table: list(table._heads()))


class Itself:
    """A finder that returns the file itself for any file that it refers to: the worst possible reference."""

    def __init__(self, elf: ElfFile) -> None:
        self._elf = elf

    def supplementary(self, name: str, is_proven: Callable[[ElfFile], bool], build_id: bytes | None) -> ElfFile | None:
        """Return the file."""
        _try(lambda: is_proven(self._elf))
        return self._elf

    def split(self, folder: str, name: str) -> Iterator[ElfFile]:
        """Yield the file."""
        yield self._elf

    def packages(self) -> Iterator[ElfFile]:
        """Yield the file."""
        yield self._elf


def read_debug_information(data: bytes) -> None:
    """Ask for lines, functions, types and variables."""
    elf = ElfFile(data, "file")
    for others in (None, Itself(elf)):
        _read_debug_information(elf, others)


def _read_debug_information(elf: ElfFile, others: Itself | None) -> None:
    found = LineInfo(elf, others)
    for place in _PLACES:
        for ask in (found.locate, found.functions):
            _try(lambda ask=ask, place=place: ask(place))
    info = TypeInfo(elf, others)
    for name in ("S", "omp_lock_t", "f", "main"):
        _try(lambda name=name: _layout(info, name))
    _try(lambda: find_variables(info, ("omp_lock_t", "S", "f")))
    for place in _PLACES:
        _try(lambda place=place: _locals(info, EntryRef(*(found.function_entry(place) or _at(info, 11))), place))
    for offset in range(11, 160, 7):
        _try(lambda offset=offset: _locals(info, _at(info, offset), _ADDRESS + 8))


def _at(info: TypeInfo, offset: int) -> EntryRef:
    return EntryRef(*info.index.files.entry_at(info.index.files.main, offset))


def _locals(info: TypeInfo, function: EntryRef, address: int) -> None:
    _try(lambda: declared_in(info, function))
    _try(lambda: find_around(info.index.files, function))
    for scope in find_scopes(info, function, address):
        assert len(scope.variables) <= 1 << 13
        for variable in scope.variables:
            if variable.location is not None:
                _try(lambda variable=variable: _place(variable.unit, variable.location, address))


def _place(unit: Unit, location: Value, address: int) -> None:
    found = location_at(unit, location, address)
    if found:
        _pieces(unit, found)


def _pieces(unit: Unit, expression: bytes) -> None:
    frame = FrameContext(
        registers={7: 0x5000, 6: 1},
        read=_ramp,
        cfa=0x6000,
        bias=0x10000,
        pointer_size=unit.address_size,
        byte_order=unit.sections.byte_order,
        thread_local=lambda offset: 0x7000 + offset,
        frame_base=b"\x9c",
    )
    pieces = find_pieces(unit, expression, frame)
    for size in (0, 1, 4, 8, 40):
        _try(lambda size=size: read_pieces(pieces, size, _ramp, "little"))


def _ramp(address: int, size: int) -> bytes:
    assert size <= 1 << 20
    if address < 4096:
        raise MemoryFault(address, size)
    return bytes([address & 0xFF]) * size


def location(form: Form) -> bytes:
    """Return the expression of a variable's location."""
    out = expression(form)
    for _ in form.some(6):
        op = form.numbers.choice(
            (0x91, 0x91, 0x9C, 0x93, 0x93, 0x50, 0x56, 0x57, 0x9F, 0x9E, 0x9D, 0xA3, 0xA0, 0x9B, 0x97)
        )
        out += bytes([op])
        if op == 0x91:
            out += form.sleb(form.below(300) - 150)
        elif op == 0x93:
            out += form.uleb(form.below(20))
        elif op == 0x9D:
            out += form.uleb(8 * form.below(5)) + form.uleb(form.below(2))
        elif op in (0x9E, 0xA3):
            block = expression(form)[:40]
            out += form.uleb(len(block)) + block
    return out


def read_location(data: bytes) -> None:
    """Evaluate a variable's location, in a unit with only a header."""
    header = struct.pack("<IHBBI", 8 + 8, 5, 1, 8, 0) + b"\1" + bytes(7)
    unit = Unit(_HeaderOnly(header), 0)
    assert derefs_through(data[:3], data, "little") is None or data
    _pieces(unit, data)


class _HeaderOnly(Sections):
    # One unit, and no other section.

    def __init__(self, info: bytes) -> None:
        self._info = info
        self.byte_order = "little"
        self.split, self.tag, self.supplementary = False, "", None
        self._read = {}

    def span(self, name: str) -> tuple[bytes, int, int] | None:
        """Return the unit's section, None for any other."""
        return (self._info, 0, len(self._info)) if name == ".debug_info" else None

    def cursor(self, name: str, offset: int = 0, end: int | None = None) -> Cursor:
        """Return a cursor in the unit's section."""
        if name != ".debug_info":
            raise MalformedFile(f"no {name}")
        return Cursor(self._info, "little", position=offset, end=end)


def read_values(data: bytes) -> None:
    """Show values of all possible types, from bytes and from memory, and look variables up by their names."""
    elf = ElfFile(data, "file")
    info = TypeInfo(elf)
    reads = 0

    def read(address: int, size: int) -> bytes:
        nonlocal reads
        reads += 1
        if not 0x1000 <= address < 1 << 40 or not 0 <= size <= 1 << 24:
            raise MemoryFault(address, size)
        return (struct.pack("<Q", address & 0xFFF0 | 0x4000) * (size // 8 + 2))[address % 8 :][:size]

    for name in _NAMES:
        _try(lambda name=name: find_named(info, name.decode("latin-1")))
        _try(lambda name=name: find_common(info, name.decode("latin-1")))
    formatters = [ValueFormatter(TypeReader(info, read), Options(letter=letter)) for letter in ("", "x", "c", "f")]
    for start in (0, 40):
        for offset in range(11, 160, 3):
            try:
                place = _at(info, start + offset)
            except OmpdError:
                break
            _try(lambda place=place: _bounded(type_name(info, place)))
            _try(
                lambda place=place: PartFinder(TypeReader(info, read)).select(place, 0x2000, parse_steps(".f[1].main"))
            )
            for formatter in formatters:
                for source in (0x2000, bytes(range(64))):
                    _try(lambda f=formatter, place=place, source=source: _bounded(f.show(place, source).text))
    assert reads < 1 << 20


def _bounded(text: str) -> None:
    assert len(text) < 1 << 20


def _layout(info: TypeInfo, name: str) -> None:
    found = info.find(name)
    if found is not None:
        assert found.size >= 0
        for member in ("f", "main", "f.f"):
            _try(lambda member=member: found.member(member))


def read_expression(data: bytes) -> None:
    """Evaluate an expression over memory that is unreadable below 4096."""

    def read(address: int, size: int) -> bytes:
        if address < 4096:
            raise MemoryFault(address, size)
        return bytes([address & 0xFF]) * size

    value = evaluate(data, {7: 0x5000, 16: 0x1000, 6: 1}, read, initial=(0x6000,))
    assert 0 <= value < 1 << 64


_CODE, _BLIND, _STACK = 0x40_0000, 0x50_0000, 0x7000


def stack_bytes(form: Form) -> bytes:
    """Return the call frame instructions of all functions of a program, after their length, then a stack."""
    code = instructions(form)[:255] if form.odd() else b"\x0e\x10\x83\x02"
    places = (0, _CODE + 8, _CODE + 9, _BLIND + 8, _BLIND + 9, _STACK + 64, _STACK + 256, _STACK, _STACK + 8)
    words = form.pack("Q" * 128, *(form.numbers.choice(places) for _ in range(128)))
    return bytes((len(code),)) + code + words


def read_stack(data: bytes) -> None:
    """Unwind a stack, with and without guesses."""
    code, memory = data[1 : 1 + data[0]] if data else b"", data[1 + data[0] :] if data else b""
    augmented = struct.pack("<I", 0) + b"\x01zR\0\x01\x78\x10\x01\0\x0c\x07\x08\x90\x01"
    head = struct.pack("<I", len(augmented)) + augmented
    body = struct.pack("<IQQ", len(head) + 4, _CODE, 0x1000) + b"\0" + code
    table = UnwindTable(b"", 0, head + struct.pack("<I", len(body)) + body, 0x8000)
    reads = 0

    def read(address: int, size: int) -> bytes:
        nonlocal reads
        reads += 1
        if _STACK <= address <= _STACK + len(memory) - size:
            return memory[address - _STACK : address - _STACK + size]
        if address >> 12 in (_CODE >> 12, _BLIND >> 12) and 0 <= size <= 4096:
            # Every ninth address follows a call, and is where a signal handler returns to.
            around = (b"\xb8\x0f\0\0\0\x0f\x05\xff\xd0" * 460)[address % 9 :]
            return around[:size]
        raise MemoryFault(address, size)

    unwinder = unwinder_of(
        read,
        X86_64,
        lambda pc: (table, 0) if _CODE <= pc < _CODE + 0x1000 else None,
        is_code=lambda address: address >> 12 in (_CODE >> 12, _BLIND >> 12),
        stack_end=lambda address: _STACK + len(memory) if _STACK <= address < _STACK + len(memory) else None,
    )
    for pc in (0, _CODE + 1, _BLIND, _BLIND + 9):
        for guess in (False, True):
            registers = {"rip": pc, "rsp": _STACK, "rbp": _STACK + 64, "rbx": 1}
            stack = stack_of(unwinder, registers, guess=guess)
            assert stack.frames and all(frame.guessed <= guess for frame in stack.frames)
    assert reads < 250_000


def read_notes(data: bytes) -> None:
    """Walk notes, and parse each as every known kind."""
    for _, _, desc in iter_notes(data, "little"):
        raw = bytes(desc)
        for parse in (lambda raw=raw: notes.parse_files(raw, 8, "little"), lambda raw=raw: notes.parse_command(raw)):
            _try(parse)
        _try(lambda raw=raw: notes.parse_auxv(raw, 8, "little"))
        _try(lambda raw=raw: notes.parse_siginfo(raw, 8, "little"))


def read_core(data: bytes) -> None:
    """Open a core and read its memory, mappings and registers."""
    memory: Any = Memory(-1, max(len(data), 1))
    memory[: len(data)] = data
    target = CoreTarget("core", memory)
    for address in (0, 0x400000, 0x400010, 0x400FFF, (1 << 64) - 8):
        for size in (0, 1, 8, 4096, 1 << 40):
            _try(lambda address=address, size=size: target.read(address, size))
    for thread in target.thread_ids():
        target.registers(thread)
    target.mappings(), target.auxiliary_vector()
    target.close()


_PIECES = (b"_Z", b"N", b"E", b"I", b"Z", b"S_", b"S0_", b"S1_", b"St", b"Ss", b"P", b"R", b"K", b"F", b"M", b"A3_")
_PIECES += (
    b"1a",
    b"2bc",
    b"Ul",
    b"Ut_",
    b"_",
    b"i",
    b"v",
    b"Li5E",
    b"J",
    b"Dp",
    b"T_",
    b"C1",
    b"D2",
    b"cv",
    b"cl",
    b"X",
)
_PIECES += (b"DT", b"B1x", b"GV", b"Th4_", b"d_", b"s", b".x", b".0", b"99999999", b"\xff", b"_GLOBAL__N_1", b"L_Z1aE")


def mangled(form: Form) -> bytes:
    """Return a mangled C++ name."""
    return b"_Z" + b"".join(form.numbers.choice(_PIECES) for _ in form.some(form.numbers.choice((12, 12, 80, 900))))


def read_name(data: bytes) -> None:
    """Demangle a C++ name."""
    found = demangle(data.decode("utf-8", "replace"))
    assert found is None or 0 <= len(found) < 1 << 16


KINDS: Mapping[str, tuple[Callable[[Form], bytes], Callable[[bytes], None]]] = {
    "elf": (elf_file, read_elf),
    "unwinding": (elf_file, read_unwinding),
    "debug_information": (elf_file, read_debug_information),
    "values": (elf_file, read_values),
    "expression": (expression, read_expression),
    "location": (location, read_location),
    "stack": (stack_bytes, read_stack),
    "notes": (
        lambda form: notes_of(form, [(b"CORE", 1, form.numbers.choice(_NAMES) * 20) for _ in form.some(4)]),
        read_notes,
    ),
    "core": (core_file, read_core),
    "name": (mangled, read_name),
}


def built(kind: str, numbers: random.Random) -> bytes:
    """Return a file of a kind that *numbers* determine: sound, with wrong fields, or damaged besides."""
    form = Form(numbers, lies=numbers.choice((0.0, 0.005, 0.02, 0.1)))
    if kind not in ("core", "notes", "expression", "location", "name", "stack"):
        form.bits, form.order = numbers.choice((64, 64, 64, 32)), numbers.choice("<<<>")
    data = bytearray(KINDS[kind][0](form))
    for _ in range(numbers.choice((0, 0, 0, 1, 4)) if data else 0):
        data[numbers.randrange(len(data))] = numbers.choice((0, 1, 0x7F, 0x80, 0xFF, numbers.randrange(256)))
    if data and numbers.randrange(20) == 0:
        del data[numbers.randrange(len(data)) :]
    return bytes(data)


def survive(kind: str, data: bytes) -> None:
    """Read *data* as a file of *kind*: only :class:`OmpdError` may be raised."""
    _try(lambda: KINDS[kind][1](data))
