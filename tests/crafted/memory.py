"""Odd contents of a core's memory: the loader's list, the vDSO, structures of real runtimes."""

from __future__ import annotations

import shutil
import struct
from array import array
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tests.crafted.cases import MB, Folder, crafted
from tests.crafted.elf import (
    BASE,
    EHDR,
    PT_DYNAMIC,
    SHF_ALLOC,
    STACK,
    TEXT,
    Section,
    Segment,
    auxv,
    core,
    module,
    process,
    prpsinfo,
    prstatus,
    stack_of,
)
from tests.crafted.unwinding import usual
from tests.support import INTEL, stopped
from tests.support.damage import loads_of
from tests.support.hostile import DAMAGES, Victim

COMMANDS = ("runtimes", "threads", "stack --raw", "var counter", "snapshot")
ASKED = ("threads", "parallel", "tasks", "stack", "icvs", "stack --locals", "var truth_held", "snapshot")
LIST = 0x6000_0000_0000
_DT_DEBUG = 21

# The loader's list


def with_list(at: Folder, memory: bytes, *, named: bool = True, extra: Sequence[tuple[int, bytes]] = ()) -> None:
    """Write the core of a process whose loader's list begins at ``LIST``.

    :param named: whether a note names the process's files; else only the list does
    """
    table = struct.pack("<QQ", _DT_DEBUG, LIST) + bytes(16)
    raw = module(
        [Section(b".dynamic", table, 6, flags=SHF_ALLOC)],
        segments=lambda spans: [Segment(PT_DYNAMIC, *spans[b".dynamic"], spans[b".dynamic"][0])],
    )
    path = at.write("program", raw)
    loads = [(BASE + 4096, raw[4096:].ljust(8192, b"\0")[:8192]), (LIST, memory), *extra]
    if named:
        at.write("core", process(path, raw, loads=loads))
        return
    vector = auxv(a3=BASE + 64, a4=56, a5=EHDR.unpack_from(raw)[10], a9=BASE + TEXT, a31=STACK + 0x2000)
    stack = bytearray(stack_of(BASE + TEXT + 20))
    stack[0x2000 : 0x2000 + len(bytes(path)) + 1] = bytes(path) + b"\0"
    notes = prpsinfo(bytes(path)) + vector + prstatus(1000)
    at.write("core", core(notes, [(BASE, raw[:4096]), *loads, (STACK, bytes(stack))]))


def link_map(following: int, name: int = LIST + 8, dynamic: int = 0, address: int = 0) -> bytes:
    """Return a ``struct link_map``."""
    return struct.pack("<QQQQQ", address, name, dynamic, following, 0)


def debug_header(first: int, version: int = 1, following: int = 0) -> bytes:
    """Return a ``struct r_debug``."""
    return struct.pack("<IIQQIIQQ", version, 0, first, 0, 0, 0, 0, following).ljust(64, b"\0")


_LISTS: dict[str, Callable[[], bytes]] = {
    "itself": lambda: debug_header(LIST + 64) + link_map(LIST + 64),
    "ring": lambda: debug_header(LIST + 64) + link_map(LIST + 104) + link_map(LIST + 64),
    "long": lambda: debug_header(LIST + 64) + b"".join(link_map(LIST + 64 + 40 * (n + 1)) for n in range(80_000)),
    "nowhere": lambda: debug_header(8),
    "high": lambda: debug_header((1 << 64) - 8),
    "overlapping": lambda: debug_header(LIST + 64) + struct.pack("<Q", LIST + 64 + 8) * 4096,
    "namespaces": lambda: b"".join(debug_header(0, 2, LIST + 64 * (n + 1)) for n in range(50_000)),
    "namespace-itself": lambda: debug_header(LIST + 64, 2, LIST) + link_map(0),
    "name-high": lambda: debug_header(LIST + 64) + link_map(0, (1 << 64) - 4),
    "names-1M": lambda: (
        debug_header(LIST + 64)
        + b"".join(link_map(LIST + 64 + 40 * (n + 1), LIST + 64 + 40 * 5000) for n in range(4999))
        + link_map(0)
        + b"n" * MB
    ),
    "dynamic-high": lambda: debug_header(LIST + 64) + link_map(0, dynamic=(1 << 64) - 8, address=(1 << 64) - 1),
    "version": lambda: debug_header(LIST + 64, 0xFFFF_FFFF, 8) + link_map(0),
}


@crafted(asked=COMMANDS, each=_LISTS, code=(0, 1, 3), says="")
def a_list_of_modules_that_lies(at: Folder, how: Callable[[], bytes]) -> None:
    """``struct link_map`` that points to itself, points nowhere, or never ends. A note also names the core's files."""
    with_list(at, how())


@crafted(asked=COMMANDS, each=_LISTS, code=(0, 1, 3), says="")
def a_list_of_modules_alone_that_lies(at: Folder, how: Callable[[], bytes]) -> None:
    """The same lists in a core that does not name its files."""
    with_list(at, how(), named=False)


@crafted(asked=COMMANDS, code=(0, 1, 3), says="", cpu=10, memory=128 * MB)
def images_without_number(at: Folder) -> None:
    """10,000 segments of memory that all begin with the same image."""
    raw = module()
    rows = [Segment(1, 0, 4096, 0x10_0000_0000 + number * 65536) for number in range(10_000)]
    notes = prpsinfo() + auxv(a3=BASE + 64) + prstatus(1000)
    size = len(core(notes, [(BASE, raw[:4096])], more=lambda end: rows))
    whole = core(notes, [(BASE, raw[:4096])], more=lambda end: [row._replace(p_offset=size) for row in rows], tail=raw)
    at.write("core", whole)


# The vDSO

_VDSO = 0x7FFF_1000_0000


def vdso(**patches: tuple[str, int, int]) -> bytes:
    """Return an image of a vDSO with some fields of its header changed."""
    raw = bytearray(module([Section(b".eh_frame", usual() + bytes(4), flags=SHF_ALLOC)]))
    for layout, place, value in patches.values():
        struct.pack_into(layout, raw, place, value)
    return bytes(raw).ljust(16384, b"\0")


@crafted(
    asked=("stack --raw", "threads", "runtimes", "snapshot"),
    each={
        "sound": {},
        "phnum": {"a": ("<H", 56, 0xFFFF)},
        "phoff": {"a": ("<Q", 32, 1 << 40)},
        "shoff": {"a": ("<Q", 40, (1 << 64) - 64)},
        "shnum": {"a": ("<H", 60, 0xFFFF), "b": ("<Q", 40, 64)},
        "filesz": {"a": ("<Q", 64 + 32, 1 << 62)},
        "offset": {"a": ("<Q", 64 + 8, (1 << 64) - 1)},
        "address": {"a": ("<Q", 64 + 16, 1 << 63)},
        "class": {"a": ("<B", 4, 7)},
    },
    code=(0, 3),
    says="program",
)
def a_vdso_that_lies(at: Folder, how: dict[str, tuple[str, int, int]]) -> None:
    """AT_SYSINFO_EHDR points to an image with odd headers. The thread is in this image."""
    raw = module([Section(b".eh_frame", usual() + bytes(4), flags=SHF_ALLOC)])
    path = at.write("program", raw)
    stack = stack_of(*[_VDSO + TEXT + 20, BASE + TEXT + 20] * 10)
    options: dict[str, Any] = {"vector": {"a33": _VDSO}, "registers": {"rip": _VDSO + TEXT + 4}}
    at.write("core", process(path, raw, stack=stack, loads=[(_VDSO, vdso(**how))], **options))


# Structures of runtimes


@cache
def _victim(program: str) -> Victim:
    return Victim(program)


def _real(at: Folder, original: Any) -> None:
    shutil.copyfile(original.core, at.core)
    at.uses(original.executable)


@crafted(asked=ASKED[:4], each=DAMAGES, code=(0, 1, 3), says="")
def a_structure_of_libomp_that_lies(at: Folder, how: Callable[[Victim], None]) -> None:
    """A field of a runtime's structure forms a ring, points nowhere, or has an absurd count."""
    victim = _victim("nested")
    victim.target.overlay.clear()
    how(victim)
    _real(at, victim.stopped)
    loads = loads_of(at.core)
    with at.core.open("r+b") as file:
        for address, patch in victim.target.overlay.items():
            load = next((s for s in loads if s.p_vaddr <= address < s.p_vaddr + s.p_filesz), None)
            if load is not None:
                file.seek(load.p_offset + address - load.p_vaddr)
                file.write(patch)


def _pointers(words: array[int], low: int, high: int, change: Callable[[int, int], int]) -> None:
    for index, word in enumerate(words):
        if low <= word < high:
            words[index] = change(index, word)


def _all_the_first(words: array[int], start: int, end: int) -> None:
    first: list[int] = []

    def change(_index: int, word: int) -> int:
        first.append(word) if not first else None
        return first[0]

    _pointers(words, start, end, change)


_CHANGES: dict[str, Callable[[Any, int, int], None]] = {
    "pointers-to-themselves": lambda words, low, high: _pointers(words, low, high, lambda n, _: low + 8 * n),
    "pointers-all-the-first": _all_the_first,
    "pointers-to-the-next": lambda words, low, high: _pointers(
        words, low, high, lambda n, _: min(low + 8 * n + 8, high)
    ),
    "pointers-one-off": lambda words, low, high: _pointers(words, low, high, lambda _, word: word + 1),
    "pointers-back": lambda words, low, high: _pointers(words, low, high, lambda n, word: max(low, word - 64)),
    "small-numbers-large": lambda words, low, high: _pointers(words, 1, 65, lambda *_: 0x7FFF_FFFF),
    "small-numbers-minus": lambda words, low, high: _pointers(words, 1, 65, lambda *_: 0xFFFF_FFFF_FFFF_FFFF),
}
_PROGRAMS = {
    "nested": INTEL,
    "task_tree": INTEL,
    "deadlock": INTEL,
    "nested-libgomp": "libgomp",
    "barrier-libgomp": "libgomp",
}


@crafted(
    asked=ASKED,
    each={f"{program}-{change}": (program, change) for program in _PROGRAMS for change in _CHANGES},
    code=(0, 1, 3),
    says="",
    memory=200 * MB,
    cpu=20,
    reads=512 * MB,
)
def a_heap_that_lies(at: Folder, how: tuple[str, str]) -> None:
    """Writable segments in which every pointer into the segment itself, or every small number, is changed."""
    program, change = how
    runtime = _PROGRAMS[program]
    mode = "debug" if runtime == INTEL else "neither"
    original = stopped(program.partition("-")[0], runtime=runtime, mode=mode)
    _real(at, original)
    # The highest segments, with the stack and the loader's own data, stay: without them ompd would find nothing.
    loads = [load for load in loads_of(at.core) if load.p_flags & 2 and load.p_filesz <= 8 * MB][:-3]
    with at.core.open("r+b") as file:
        for load in loads[2:]:
            file.seek(load.p_offset)
            words = array("Q", file.read(load.p_filesz // 8 * 8))
            _CHANGES[change](words, load.p_vaddr, load.p_vaddr + load.p_filesz)
            file.seek(load.p_offset)
            file.write(words.tobytes())


def resectioned(original: Path, sections: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Return a real program with other debug information. Its segments and its build-id stay."""
    raw = bytearray(original.read_bytes())
    raw += bytes(-len(raw) % 16)
    names, rows = b"\0", [bytes(64)]
    for name, data in sections:
        rows.append(struct.pack("<IIQQQQIIQQ", len(names), 1, 0, 0, len(raw), len(data), 0, 0, 1, 0))
        names += name + b"\0"
        raw += data
    rows.append(struct.pack("<IIQQQQIIQQ", len(names), 3, 0, 0, len(raw), len(names) + 10, 0, 0, 1, 0))
    raw += names + b".shstrtab\0"
    raw += bytes(-len(raw) % 16)
    struct.pack_into("<Q", raw, 40, len(raw))
    struct.pack_into("<HHH", raw, 58, 64, len(rows), len(rows) - 1)
    return bytes(raw) + b"".join(rows)


def _odd_sections() -> dict[str, Sequence[tuple[bytes, bytes]]]:
    from tests.crafted.dwarf import ABBREVIATIONS, uleb, unit, unit_entry

    nest = unit(unit_entry(size=1 << 30) + uleb(19) * 100_000)
    return {
        "ones": [(b".debug_" + name, b"\xff" * 50_000) for name in (b"info", b"abbrev", b"line", b"str", b"ranges")],
        "nest": [(b".debug_info", nest), (b".debug_abbrev", ABBREVIATIONS), (b".debug_line", b"\0" * 9)],
        "units": [(b".debug_info", unit(unit_entry(size=1 << 30) + b"\0") * 20_000), (b".debug_abbrev", ABBREVIATIONS)],
    }


@crafted(asked=ASKED, each=_odd_sections(), code=(0, 1, 3), says="", memory=200 * MB, cpu=20)
def a_real_program_with_debug_information_that_lies(at: Folder, how: Sequence[tuple[bytes, bytes]]) -> None:
    """The program of a real core, with the right build-id but odd debug information."""
    original = stopped("deadlock")
    _real(at, original)
    at.write("program", resectioned(original.executable, how))
    at.arguments += ["--exe", str(at.path / "program")]
