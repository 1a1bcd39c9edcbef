"""Cores: their headers, segments and notes."""

from __future__ import annotations

import struct
from typing import Any

from tests.crafted.cases import MB, Folder, crafted
from tests.crafted.elf import (
    BASE,
    EHDR,
    NT_AUXV,
    NT_FILE,
    NT_PRSTATUS,
    PHDR,
    PT_LOAD,
    PT_NOTE,
    STACK,
    TEXT,
    Segment,
    auxv,
    core,
    files,
    mapping_of,
    module,
    note,
    process,
    prpsinfo,
    prstatus,
    stack_of,
)

COMMANDS = ("threads", "stack --raw", "runtimes", "snapshot")
NO_RUNTIME = "no OpenMP runtime among"


def small(at: Folder) -> tuple[bytes, bytes]:
    """Write a program. Return its bytes and those of its core, which is not written."""
    raw = module()
    return raw, process(at.write("program", raw), raw)


@crafted(asked=COMMANDS, says=NO_RUNTIME)
def nothing_odd(at: Folder) -> None:
    """The sound core from which the others are made."""
    at.write("core", small(at)[1])


@crafted(asked=COMMANDS, says="is a damaged core file|no OpenMP runtime|names no")
def notes_that_share_a_megabyte(at: Folder) -> None:
    """60,000 segments of notes, all over the same megabyte."""
    inner = note(b"CORE", 77, bytes(1000)) * 1000
    at.write("core", core(prstatus(1), more=lambda end: [Segment(PT_NOTE, end, len(inner))] * 60_000, tail=inner))


@crafted(asked=COMMANDS, says="")
def a_note_over_a_hole(at: Folder) -> None:
    """A note that claims 2 GB, over a hole."""
    size = 2 << 30
    head = core(prstatus(1), more=lambda end: [Segment(PT_NOTE, end, size + 20)])
    at.sparse("core", len(head) + size + 20, {0: head, len(head): struct.pack("<III", 5, size, 77) + b"CORE\0\0\0\0"})


@crafted(asked=COMMANDS, says="")
def a_file_note_over_a_hole(at: Folder) -> None:
    """A note of mapped files over a 2 GB hole, with the largest number of files that fits."""
    size = 2 << 30
    head = core(prstatus(1), more=lambda end: [Segment(PT_NOTE, end, size + 20)])
    files_head = struct.pack("<III", 5, size, NT_FILE) + b"CORE\0\0\0\0" + struct.pack("<QQ", size // 32, 4096)
    at.sparse("core", len(head) + size + 20, {0: head, len(head): files_head})


@crafted(asked=COMMANDS, each={"2^31": 1 << 31, "2^63": 1 << 63, "2^64-1": (1 << 64) - 1}, code=1, says="core")
def a_note_segment_that_lies(at: Folder, how: int) -> None:
    """A segment of notes that is longer than any file."""
    at.write("core", core(prstatus(1), more=lambda end: [Segment(PT_NOTE, end, how)]))


@crafted(asked=COMMANDS, each={"n_namesz": 0, "n_descsz": 4}, code=1, says="core")
def a_note_that_lies(at: Folder, how: int) -> None:
    """A note whose name or descriptor claims 4 GB."""

    def patch(data: bytearray) -> None:
        struct.pack_into("<I", data, EHDR.size + PHDR.size + how, 0xFFFF_FFFF)

    at.write("core", core(prstatus(1) + prpsinfo(), patch=patch))


@crafted(
    asked=COMMANDS,
    each={"p_memsz-2^64": (1 << 64) - 1, "p_memsz-2^47": 1 << 47, "p_memsz-2^40": 1 << 40},
    code=1,
    says=NO_RUNTIME,
)
def memory_that_is_not_there(at: Folder, how: int) -> None:
    """A segment of memory that claims more bytes than it holds."""
    raw = module()
    path = at.write("program", raw)
    notes = prpsinfo() + auxv(a3=BASE + 64) + files([mapping_of(path, len(raw))]) + prstatus(1)
    loads = [(BASE, raw[:4096]), (STACK, stack_of(BASE + TEXT))]
    at.write("core", core(notes, loads, more=lambda end: [Segment(PT_LOAD, end, 0, 1 << 20, how)]))


@crafted(
    asked=COMMANDS,
    each={
        "p_filesz-2^63": (1 << 63, 16),
        "p_filesz-above-memsz": (1 << 40, 16),
        "past-2^64": (1 << 20, (1 << 64) - 16),
    },
    code=1,
    says="core|no OpenMP",
)
def a_load_that_lies(at: Folder, how: tuple[int, int]) -> None:
    """A segment of memory that lies outside of the file."""
    raw = module()
    path = at.write("program", raw)
    notes = prpsinfo() + files([mapping_of(path, len(raw))]) + prstatus(1)
    size, address = how
    at.write("core", core(notes, [(BASE, raw[:4096])], more=lambda end: [Segment(PT_LOAD, end, size, address)]))


@crafted(asked=COMMANDS, says=NO_RUNTIME)
def loads_that_share_their_bytes(at: Folder) -> None:
    """60,000 segments of memory of 1 MB each, all over the same megabyte of the file."""
    raw = module()
    path = at.write("program", raw)
    notes = prpsinfo() + files([mapping_of(path, len(raw))]) + prstatus(1)
    rows = [Segment(PT_LOAD, 0, MB, 0x10_0000_0000 + number * MB) for number in range(60_000)]
    at.write("core", core(notes, [(BASE, raw[:4096]), (STACK, stack_of())], more=lambda end: rows, tail=b"\x55" * MB))


@crafted(asked=COMMANDS, says="no OpenMP runtime")
def loads_that_overlap(at: Folder) -> None:
    """30,000 segments of memory that begin at the same place."""
    raw = module()
    path = at.write("program", raw)
    notes = prpsinfo() + files([mapping_of(path, len(raw))]) + prstatus(1)
    rows = [Segment(PT_LOAD, 0, 4096 * (number + 1), 0x10_0000_0000) for number in range(30_000)]
    at.write("core", core(notes, [(BASE, raw[:4096]), (STACK, stack_of())], more=lambda end: rows, tail=bytes(MB)))


@crafted(asked=COMMANDS, code=1, says="core")
def as_many_segments_as_a_word_holds(at: Folder) -> None:
    """PN_XNUM, and 4,294,967,295 segments in section 0."""

    def patch(data: bytearray) -> None:
        struct.pack_into("<Q", data, 40, len(data))
        struct.pack_into("<HHHH", data, 56, 0xFFFF, 64, 1, 0)
        data += struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, 1, 0, 0xFFFF_FFFF, 0, 0)

    at.write("core", core(prstatus(1), patch=patch))


@crafted(asked=COMMANDS, code=1, says="core|notes")
def segments_over_a_hole(at: Folder) -> None:
    """A million program headers in a hole."""
    head = bytearray(core(prstatus(1)))
    struct.pack_into("<Q", head, 32, 1 << 20)
    struct.pack_into("<Q", head, 40, len(head))
    struct.pack_into("<HHHH", head, 56, 0xFFFF, 64, 1, 0)
    head += struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, 1, 0, 1 << 20, 0, 0)
    at.sparse("core", 1 << 32, {0: bytes(head)})


@crafted(asked=COMMANDS, each={"inside-itself": 0, "at-the-header": 16, "2^64-8": (1 << 64) - 8}, code=1, says="core")
def program_headers_elsewhere(at: Folder, how: int) -> None:
    """e_phoff points into the file header, or behind all bytes."""
    at.write("core", core(prstatus(1), patch=lambda data: struct.pack_into("<Q", data, 32, how)))


@crafted(asked=COMMANDS, each={"0": 0, "1": 1, "55": 55, "65535": 0xFFFF}, code=1, says="core")
def program_headers_of_an_odd_size(at: Folder, how: int) -> None:
    """e_phentsize has an invalid value."""
    at.write("core", core(prstatus(1), patch=lambda data: struct.pack_into("<H", data, 54, how)))


@crafted(asked=COMMANDS, code=1, says="two NT_PRSTATUS notes for thread 1")
def one_thread_a_hundred_thousand_times(at: Folder) -> None:
    """Notes of the same thread."""
    at.write("core", core(prstatus(1) * 20_000))


@crafted(asked=COMMANDS, says="none of the program|no OpenMP runtime", memory=200 * MB, cpu=40, often=8)
def threads_without_number(at: Folder) -> None:
    """20,000 threads, as a real core may have."""
    raw = module()
    at.write("core", process(at.write("program", raw), raw, threads=20_000))


@crafted(asked=COMMANDS, each={"0": 0, "15": 15, "111": 111, "335": 335}, code=1, says="core")
def a_thread_of_few_bytes(at: Folder, how: int) -> None:
    """An NT_PRSTATUS that is too short for its registers."""
    at.write("core", core(note(b"CORE", NT_PRSTATUS, prstatus(1)[20 : 20 + how]) + prpsinfo()))


@crafted(
    asked=COMMANDS,
    each={"2^32": 1 << 32, "2^60": 1 << 60, "2^64-1": (1 << 64) - 1, "one-more": 3},
    code=1,
    says="NT_FILE|core",
)
def more_files_than_there_are(at: Folder, how: int) -> None:
    """An NT_FILE that claims more files than its bytes hold."""
    at.write("core", core(prstatus(1) + files([(BASE, BASE + 4096, 0, b"/bin/none")] * 2, count=how)))


@crafted(asked=COMMANDS, each={"0": 0, "1": 1, "2^63": 1 << 63, "2^64-1": (1 << 64) - 1}, says="")
def pages_of_an_odd_size(at: Folder, how: int) -> None:
    """An NT_FILE whose page size makes offsets meaningless."""
    raw = module()
    path = at.write("program", raw)
    rows = [mapping_of(path, len(raw)), (BASE + (1 << 20), BASE + (1 << 21), 7, bytes(path))]
    at.write("core", core(prpsinfo() + files(rows, page=how) + prstatus(1), [(BASE, raw[:4096])]))


@crafted(asked=COMMANDS, says="", memory=200 * MB, cpu=20)
def files_that_overlap(at: Folder) -> None:
    """30,000 mappings of 2 files that all overlap."""
    raw = module()
    path, other = at.write("program", raw), at.write("other", raw)
    rows = [(BASE, BASE + 4096 * (number + 1), 0, bytes((path, other)[number % 2])) for number in range(30_000)]
    at.write("core", core(prpsinfo() + files(rows) + prstatus(1), [(BASE, raw[:4096]), (STACK, stack_of())]))


@crafted(asked=COMMANDS, says="", memory=200 * MB, cpu=20)
def files_without_number(at: Folder) -> None:
    """40,000 files that do not exist."""
    rows = [(BASE + (number << 16), BASE + (number << 16) + 4096, 0, b"/no/%d" % number) for number in range(40_000)]
    at.write("core", core(prpsinfo() + files(rows) + prstatus(1), [(STACK, stack_of(BASE))]))


@crafted(asked=COMMANDS, says="", memory=100 * MB)
def a_file_called_by_a_megabyte(at: Folder) -> None:
    """Files with names of 1 MB."""
    rows = [(BASE + (n << 16), BASE + (n << 16) + 4096, 0, b"/" + b"%d" % n + b"x" * MB) for n in range(4)]
    at.write("core", core(prpsinfo() + files(rows) + prstatus(1), [(STACK, stack_of(BASE))]))


@crafted(asked=COMMANDS, each={"backwards": (8192, 4096), "empty": (4096, 4096), "all": (0, (1 << 64) - 1)}, says="")
def a_mapping_that_is_none(at: Folder, how: tuple[int, int]) -> None:
    """A mapping that ends before its start, ends at its start, or lies nowhere."""
    raw = module()
    path = at.write("program", raw)
    rows = [(how[0], how[1], 0, bytes(path)), mapping_of(path, len(raw))]
    at.write("core", core(prpsinfo() + files(rows) + prstatus(1), [(BASE, raw[:4096]), (STACK, stack_of())]))


@crafted(asked=COMMANDS, says="", memory=100 * MB)
def an_auxiliary_vector_without_end(at: Folder) -> None:
    """An auxiliary vector of 1 MB, of all kinds."""
    rows = b"".join(struct.pack("<QQ", number, number) for number in range(1, 65_000))
    raw = module()
    at.write("core", process(at.write("program", raw), raw, notes=note(b"CORE", NT_AUXV, rows)))


@crafted(
    asked=COMMANDS,
    each={
        "phdr": {"a3": 8},
        "phdr-high": {"a3": (1 << 64) - 8},
        "phnum": {"a5": (1 << 64) - 1},
        "entry": {"a9": (1 << 64) - 1},
        "vdso": {"a33": BASE},
        "vdso-high": {"a33": (1 << 64) - 4096},
        "page": {"a6": 0},
        "random": {"a25": 1},
        "execfn": {"a31": (1 << 64) - 1},
        "base": {"a7": (1 << 64) - 1},
    },
    says="",
)
def an_auxiliary_vector_that_lies(at: Folder, how: dict[str, int]) -> None:
    """An auxiliary vector with one wrong value."""
    raw = module()
    at.write("core", process(at.write("program", raw), raw, vector=how))


@crafted(asked=COMMANDS, each={str(number): number for number in (0, 4, 40, 128)}, says="")
def a_signal_of_few_bytes(at: Folder, how: int) -> None:
    """An NT_SIGINFO that is too short, or all ones."""
    raw = module()
    at.write("core", process(at.write("program", raw), raw, notes=note(b"CORE", 0x53494749, b"\xff" * how)))


@crafted(
    asked=COMMANDS,
    each={"no-type": (16, 0xFFFF), "arm": (18, 40), "other-class": (4, 1), "other-order": (5, 2), "no-class": (4, 9)},
    code=1,
    says="core",
)
def another_machine(at: Folder, how: Any) -> None:
    """A byte or two of the file header have another machine's value."""
    place, value = how
    layout = "<B" if place < 16 else "<H"
    at.write("core", core(prstatus(1), patch=lambda data: struct.pack_into(layout, data, place, value)))
