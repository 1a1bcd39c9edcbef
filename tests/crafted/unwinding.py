"""Call frame information, and stacks that are unwound with it."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from tests.crafted.cases import MB, Folder, crafted
from tests.crafted.dwarf import uleb
from tests.crafted.elf import (
    BASE,
    PT_EH_FRAME,
    SHF_ALLOC,
    STACK,
    TEXT,
    Section,
    Segment,
    module,
    process,
    stack_of,
)
from tests.crafted.modules import run_of

COMMANDS = ("stack --raw", "stack", "stack --locals", "threads", "snapshot")
USUAL = b"\x0c\x07\x08\x90\x01"
"""The frame's address is the stack pointer plus 8, the return address is below it."""


def cie(program: bytes = USUAL, augmentation: bytes = b"zR", data: bytes = b"\x0c", version: int = 1) -> bytes:
    """Return a CIE with absolute addresses of 8 bytes."""
    body = struct.pack("<IB", 0, version) + augmentation + b"\0" + b"\x01\x78\x10"
    body += (uleb(len(data)) + data if augmentation.startswith(b"z") else b"") + program
    body += bytes(-len(body) % 8 + 4)
    return struct.pack("<I", len(body)) + body


def fde(at: int, program: bytes = b"", start: int = TEXT, size: int = 0x400, back: int | None = None) -> bytes:
    """Return an FDE that is *at* bytes behind its CIE."""
    body = struct.pack("<IQQ", at + 4 if back is None else back, start, size) + b"\0" + program
    body += bytes(-len(body) % 8 + 4)
    return struct.pack("<I", len(body)) + body


def framed(at: Folder, frame: bytes, *, hdr: bytes | None = None, debug: bool = False, **options: object) -> None:
    """Write a program with these entries, and a core of it."""
    if debug:
        run_of(at, module([Section(b".debug_frame", frame)]), **options)
        return
    parts = [Section(b".eh_frame", frame + bytes(4), flags=SHF_ALLOC)]
    if hdr is not None:
        parts.append(Section(b".eh_frame_hdr", hdr, flags=SHF_ALLOC))

    def segments(spans: object) -> Sequence[Segment]:
        place, size = spans[b".eh_frame_hdr"]  # type: ignore[index]
        return [Segment(PT_EH_FRAME, place, size, place)]

    run_of(at, module(parts, segments=segments) if hdr is not None else module(parts), **options)


def usual(program: bytes = b"", common: bytes | None = None) -> bytes:
    """Return entries that cover all the code."""
    first = cie() if common is None else common
    return first + fde(len(first), program)


@crafted(asked=COMMANDS, code=(0, 3), says="program")
def frames_that_are_sound(at: Folder) -> None:
    """The sound stack from which the others are made: one frame after the other up to its end."""
    framed(at, usual(), stack=stack_of(*[BASE + TEXT + 20] * 20))


@crafted(asked=COMMANDS, code=(0, 3), says="program", memory=200 * MB, cpu=20)
def a_stack_without_end(at: Folder) -> None:
    """A million frames."""
    raw = module([Section(b".eh_frame", usual() + bytes(4), flags=SHF_ALLOC)])
    stack = bytes(256) + struct.pack("<Q", BASE + TEXT + 20) * MB
    at.write("core", process(at.write("program", raw), raw, stack=stack))


@crafted(asked=COMMANDS, code=(0, 3), says="program", memory=300 * MB, cpu=20)
def stacks_without_end_of_many_threads(at: Folder) -> None:
    """500 threads with the same stack of 10,000 frames."""
    raw = module([Section(b".eh_frame", usual() + bytes(4), flags=SHF_ALLOC)])
    stack = bytes(256) + struct.pack("<Q", BASE + TEXT + 20) * 10_000
    at.write("core", process(at.write("program", raw), raw, stack=stack, threads=500))


_STEPS = {
    "itself": b"\x0e\x00\x80\x00",
    "back": b"\x12\x07" + uleb(1),
    "cfa-expression": b"\x0f\x03\x77\x00\x06",
    "cfa-loop": b"\x0f\x04\x30\x2f" + struct.pack("<h", -4),
    "cfa-high": b"\x0c\x07" + uleb((1 << 64) - 1),
    "return-is-pc": b"\x07\x10",
    "register-high": b"\x05" + uleb(1 << 63) + uleb(1),
    "remember": b"\x0a" * 100_000,
    "restore": b"\x0b" * 100_000,
    "advance": b"\x41" * 100_000,
    "advance-4": (b"\x04" + struct.pack("<I", 0xFFFF_FFFF)) * 20_000,
    "rules": b"".join(b"\x05" + uleb(n) + uleb(n) for n in range(50_000)),
    "expressions": (b"\x10\x10" + uleb(30_000) + b"\x30" * 30_000) * 3,
    "unknown": b"\x3f\x3e\x3d",
    "args-size": b"\x2e" + b"\xff" * 100_000,
    "set-loc": b"\x01" + struct.pack("<Q", TEXT) * 2,
}


@crafted(asked=COMMANDS, each=_STEPS, code=(0, 3), says="program")
def instructions_that_lie(at: Folder, how: bytes) -> None:
    """A table of rows that does not end, and frames that do not advance."""
    framed(at, usual(how), stack=stack_of(*[BASE + TEXT + 20] * 50))


@crafted(
    asked=COMMANDS, each={"cfa-loop": _STEPS["cfa-loop"], "advance": _STEPS["advance"]}, code=(0, 3), says="program"
)
def instructions_of_debug_frame_that_lie(at: Folder, how: bytes) -> None:
    """The same rows in .debug_frame."""
    body = b"\xff\xff\xff\xff\x01\0\x01\x78\x10" + USUAL + bytes(6)
    common = struct.pack("<I", len(body)) + body
    entry = struct.pack("<IQQ", 0, TEXT, 0x400) + how + bytes(-len(how) % 8 + 4)
    framed(at, common + struct.pack("<I", len(entry)) + entry, debug=True, stack=stack_of(*[BASE + TEXT + 20] * 50))


_COMMON = {
    "itself": fde(0, back=4),
    "outside": cie() + fde(1 << 30),
    "length-0": bytes(4) + usual(),
    "length-2^32-16": struct.pack("<I", 0xFFFF_FFF0) + bytes(64),
    "length-64": struct.pack("<IQ", 0xFFFF_FFFF, (1 << 64) - 1) + bytes(64),
    "augmentation": cie(augmentation=b"z" + b"R" * 100_000),
    "augmentation-length": cie(data=b"\x0c" + b"\xff" * 100_000),
    "encoding-ff": usual(common=cie(data=b"\xff")),
    "encoding-indirect": usual(common=cie(data=b"\x9b")),
    "encoding-leb": usual(common=cie(data=b"\x01")),
    "version-99": usual(common=cie(version=99)),
    "no-end": cie()[:12],
}


@crafted(asked=COMMANDS, each=_COMMON, code=(0, 3), says="program")
def entries_that_lie(at: Folder, how: bytes) -> None:
    """CIEs that do not exist, have a wrong length, or have odd encodings."""
    framed(at, how, stack=stack_of(*[BASE + TEXT + 20] * 50))


@crafted(asked=COMMANDS, code=(0, 3), says="program", cpu=10)
def entries_without_number(at: Folder) -> None:
    """100,000 entries that all cover the same code."""
    common = cie()
    size = len(fde(0))
    entries = b"".join(fde(len(common) + n * size) for n in range(100_000))
    framed(at, common + entries, stack=stack_of(*[BASE + TEXT + 20] * 50))


@crafted(asked=COMMANDS, code=(0, 3), says="program")
def entries_without_bytes(at: Folder) -> None:
    """A million empty entries in .debug_frame."""
    framed(at, bytes(4 * MB), debug=True)


_SEARCH = {
    "count-2^32": struct.pack("<BBBBII", 1, 0x1B, 0x03, 0x3B, 0, 0xFFFF_FFFF) + bytes(64),
    "count-2^64": struct.pack("<BBBBIQ", 1, 0x1B, 0x04, 0x3B, 0, (1 << 64) - 1) + bytes(64),
    "omitted": struct.pack("<BBBB", 1, 0xFF, 0xFF, 0xFF) + bytes(64),
    "version-0": bytes(64),
    "empty": b"",
    "unsorted": struct.pack("<BBBBII", 1, 0x1B, 0x03, 0x3B, 0, 8) + struct.pack("<iI", 5, 0x7FFF_FFFF) * 8,
    "leb": struct.pack("<BBBB", 1, 0x01, 0x01, 0x01) + b"\xff" * 4096,
    "indirect": struct.pack("<BBBBQI", 1, 0x9C, 0x03, 0x9C, (1 << 64) - 8, 4) + b"\xff" * 64,
}


@crafted(asked=COMMANDS, each=_SEARCH, code=(0, 3), says="program")
def a_search_table_that_lies(at: Folder, how: bytes) -> None:
    """.eh_frame_hdr whose rows point elsewhere."""
    framed(at, usual(), hdr=how, stack=stack_of(*[BASE + TEXT + 20] * 50))


@crafted(asked=("snapshot", *COMMANDS[:-1]), each={"1G": 1 << 30}, code=(0, 3), says="program")
def entries_over_a_hole(at: Folder, how: int) -> None:
    """.eh_frame over 1 GB of hole."""
    raw = module([Section(b".eh_frame", b"", flags=SHF_ALLOC, span=(8 * MB, how))])
    at.sparse("program", 2 << 30, {0: raw})
    at.write("core", process(at.path / "program", raw))


@crafted(
    asked=COMMANDS,
    each={
        "all-ones": {"rsp": (1 << 64) - 1, "rbp": (1 << 64) - 1, "rip": (1 << 64) - 1},
        "stack-in-code": {"rsp": BASE + 8},
        "unaligned": {"rsp": STACK + 257},
        "at-its-end": {"rsp": STACK + (1 << 14) - 4},
        "not-canonical": {"rip": 1 << 63},
        "fs-high": {"fs_base": (1 << 64) - 8},
    },
    code=(0, 1, 3),
    says="",
)
def registers_that_lie(at: Folder, how: dict[str, int]) -> None:
    """Registers with odd addresses."""
    raw = module([Section(b".eh_frame", usual() + bytes(4), flags=SHF_ALLOC)])
    at.write("core", process(at.write("program", raw), raw, registers=how))


@crafted(asked=COMMANDS, code=(0, 3), says="program", cpu=10)
def a_stack_that_is_all_return_addresses(at: Folder) -> None:
    """No unwind data, and for 50 threads 1 MB of words that could all be return addresses."""
    raw = module(text=b"\xe8\0\0\0\0" * 200)
    stack = bytes(256) + struct.pack("<Q", BASE + TEXT + 20) * (MB // 8)
    at.write("core", process(at.write("program", raw), raw, stack=stack, threads=50))
