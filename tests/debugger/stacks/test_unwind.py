"""Stacks, compared with gdb on cores of real programs, and stacks in damaged or invented memory."""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from ompd.binary.cfi.tables import UnwindTable
from ompd.binary.elf.elf import ET_DYN, PT_LOAD, PT_NOTE, ElfFile, iter_notes
from ompd.debugger.stacks.frames import Frame
from ompd.debugger.stacks.steps import Steps
from ompd.debugger.stacks.unwind import MAX_FRAMES, Unwinder
from ompd.errors import MalformedFile, MemoryFault
from ompd.isa.x86.architectures import X86_64
from tests.support import require
from tests.support.made_unwinding import cie, entry
from tests.support.samples import compiled, crashed, mapped, run, survives
from tests.support.unwinding import Stack, stack_of, unwinder_of

NT_PRSTATUS, NT_FILE = 1, 0x46494C45

GDB_SCRIPT = """
import gdb
for thread in gdb.selected_inferior().threads():
    thread.switch()
    frame = gdb.newest_frame()
    while frame is not None:
        frame.select()
        words = gdb.execute("info frame", to_string=True).split("frame at ")[1].split()
        if frame.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME):  # these have no frame on the stack
            kind = "signal" if frame.type() == gdb.SIGTRAMP_FRAME else "normal"
            print("FRAME", thread.ptid[1], hex(frame.pc()), words[0].rstrip(":,"), kind)
        frame = frame.older()
"""


class Core:
    """The parts of a core that unwinding needs, read without the package's own target."""

    def __init__(self, elf: ElfFile) -> None:
        self.data = elf.data
        self.loads = sorted((s.p_vaddr, s.p_filesz, s.p_offset) for s in elf.segments if s.p_type == PT_LOAD)
        self.threads: dict[int, dict[str, int]] = {}
        self.files: list[tuple[int, int, Path]] = []
        self.tables: dict[Path, tuple[UnwindTable, int] | None] = {}
        for segment in elf.segments:
            if segment.p_type == PT_NOTE:
                for _, n_type, data in iter_notes(elf.segment_data(segment), "little"):
                    self.add(n_type, bytes(data))

    def add(self, n_type: int, data: bytes) -> None:
        if n_type == NT_PRSTATUS:
            (thread,) = struct.unpack_from("<I", data, 32)
            self.threads[thread] = dict(zip(X86_64.registers, struct.unpack_from("<27Q", data, 112), strict=True))
        elif n_type == NT_FILE:
            (count,) = struct.unpack_from("<Q", data)
            names = data[16 + 24 * count :].split(b"\0")
            for index in range(count):
                start, end, _ = struct.unpack_from("<QQQ", data, 16 + 24 * index)
                self.files.append((start, end, Path(names[index].decode())))

    def read(self, address: int, size: int) -> bytes:
        index = bisect_right(self.loads, (address, 1 << 64)) - 1
        if index >= 0:
            start, length, offset = self.loads[index]
            if address + size <= start + length:
                return bytes(self.data[offset + address - start : offset + address - start + size])
        raise MemoryFault(address, size)

    def table_for(self, pc: int) -> tuple[UnwindTable, int] | None:
        path = next((path for start, end, path in self.files if start <= pc < end), None)
        if path is not None and path not in self.tables:
            elf = mapped(path)
            table = UnwindTable.from_elf(elf)
            base = min(start for start, _, other in self.files if other == path)
            self.tables[path] = None if table is None else (table, base if elf.e_type == ET_DYN else 0)
        return None if path is None else self.tables[path]

    def unwinder(self) -> Unwinder:
        return unwinder_of(self.read, X86_64, self.table_for)


@cache
def gdb_stacks(program: Path, core: Path) -> Mapping[int, list[tuple[int, int, bool]]]:
    """Return the frames of all threads as gdb has them: pc, CFA (0 if gdb has none), whether it is a signal frame."""
    script = core.with_name("frames.py")
    script.write_text(GDB_SCRIPT)
    options = ["-iex", "set auto-load no", "-ex", "set backtrace past-main on", "-ex", "set backtrace past-entry on"]
    stacks: dict[int, list[tuple[int, int, bool]]] = {}
    for line in run(require("gdb"), "-nx", "-batch", *options, "-x", script, program, core).splitlines():
        if line.startswith("FRAME "):
            _, thread, pc, cfa, kind = line.split()
            stacks.setdefault(int(thread), []).append((int(pc, 16), int(cfa, 16), kind == "signal"))
    return stacks


@pytest.mark.parametrize(
    "flags", [(), ("-fomit-frame-pointer", "-no-pie", "-fno-pie"), ("-O0",)], ids=["O2", "no-pie", "O0"]
)
@pytest.mark.parametrize("runtime", ["gomp", "iomp"])
@pytest.mark.quick("gomp-O0", "iomp-no-pie")
def test_every_frame_is_the_one_that_gdb_shows(runtime: str, flags: tuple[str, ...]) -> None:
    program = compiled("gcc", *flags, runtime=runtime)
    path = crashed(program)
    core, expected = Core(mapped(path)), gdb_stacks(program, path)
    assert core.threads.keys() == expected.keys() and len(expected) >= 4
    unwinder = core.unwinder()
    signal_frames = 0
    for thread, registers in core.threads.items():
        stack = stack_of(unwinder, registers)
        assert stack.complete, stack.stopped
        assert [(f.pc, f.is_signal_frame) for f in stack.frames] == [(pc, signal) for pc, _, signal in expected[thread]]
        for frame, (_, cfa, _) in zip(stack.frames, expected[thread], strict=True):
            # gdb shows no CFA for the outermost frame.
            assert frame.cfa == cfa or (cfa == 0 and frame is stack.frames[-1])
            assert frame.registers[X86_64.dwarf_registers["rsp"]] == frame.sp
        signal_frames += sum(f.is_signal_frame for f in stack.frames)
    assert signal_frames == 1


@cache
def crashed_thread() -> tuple[Core, Stack]:
    core = Core(mapped(crashed(compiled())))
    unwinder = core.unwinder()
    stacks = [stack_of(unwinder, registers) for registers in core.threads.values()]
    return core, next(s for s in stacks if any(f.is_signal_frame for f in s.frames))


def test_call_sites_lie_in_the_call_but_where_a_signal_came() -> None:
    frames = crashed_thread()[1].frames
    at = next(i for i, frame in enumerate(frames) if frame.is_signal_frame)
    exact = {0, at, at + 1}
    assert [frame.pc - frame.call_site for frame in frames] == [0 if i in exact else 1 for i in range(len(frames))]
    assert [frame.how for frame in frames] == ["innermost"] + ["cfi"] * (len(frames) - 1)
    assert frames[at + 1].interrupted and not frames[at + 1].is_signal_frame
    # A signal may come anywhere, so that all registers are known there. Other frames know only those that calls keep.
    assert len(frames[at + 1].registers) == 17
    assert 1 < len(frames[-2].registers) < 10


def test_frames_tell_where_their_function_begins() -> None:
    core, stack = crashed_thread()
    program = mapped(compiled())
    from_readelf = {
        name: int(words[1], 16)
        for words in (line.split() for line in run(require("readelf"), "-sW", compiled()).splitlines())
        if len(words) == 8 and (name := words[7]) in ("recurse", "compare")
    }
    bias = min(start for start, _, path in core.files if path.samefile(compiled()))
    starts = {frame.function_start for frame in stack.frames}
    assert {bias + address for address in from_readelf.values()} <= starts
    assert program.e_type == ET_DYN


def test_frames_come_as_they_are_asked_for() -> None:
    core, stack = crashed_thread()
    reads: list[int] = []

    def read(address: int, size: int) -> bytes:
        reads.append(address)
        return core.read(address, size)

    registers = next(
        r for r in core.threads.values() if r["rip"] == stack.frames[0].pc and r["rsp"] == stack.frames[0].sp
    )
    walk = unwinder_of(read, X86_64, core.table_for).unwind(registers)
    assert reads == []
    assert next(walk) == stack.frames[0] and reads == []
    assert next(walk) == stack.frames[1] and len(reads) == 1
    assert list(walk) == stack.frames[2:] and walk.stopped is None


def test_a_stack_is_read_in_blocks() -> None:
    core, stack = crashed_thread()
    reads: list[int] = []

    def read(address: int, size: int) -> bytes:
        reads.append(address)
        return core.read(address, size)

    registers = next(r for r in core.threads.values() if r["rsp"] == stack.frames[0].sp)
    stack_of(unwinder_of(read, X86_64, core.table_for), registers)
    extent = (stack.frames[-1].sp - stack.frames[0].sp) // 4096 + 2
    restored = 17 + 1  # expressions locate the signal frame's registers and CFA, one by one
    assert len(reads) <= extent + restored + 2


# Invented stacks with one function: the CFA is rsp + 16, the return address at CFA - 8, rbx at CFA - 16.

FUNCTION = 0x40_0000
FRAME_SIZE = 16


def invented_table(instructions: bytes = b"\x0e\x10\x83\x02", augmentation: bytes = b"zR") -> UnwindTable:
    head = cie(augmentation)
    body = struct.pack("<IQQ", len(head) + 4, FUNCTION, 0x1000) + b"\0" + instructions
    return UnwindTable(b"", 0, head + entry(body) + bytes(4), 0x8000)


def walk_of(
    memory: Mapping[int, int], instructions: bytes = b"\x0e\x10\x83\x02", rsp: int = 0x7000, pc: int = FUNCTION
) -> Stack:
    """Return the stack over *memory*, which holds words by address and nothing else."""

    def read(address: int, size: int) -> bytes:
        words = [memory.get(address + offset) for offset in range(0, size, 8)]
        if None in words or size % 8:
            raise MemoryFault(address, size)
        return b"".join(struct.pack("<Q", word) for word in words if word is not None)

    table = invented_table(instructions)
    unwinder = unwinder_of(read, X86_64, lambda pc: (table, 0) if FUNCTION <= pc < FUNCTION + 0x1000 else None)
    return stack_of(unwinder, {"rip": pc, "rsp": rsp, "rbx": 3, "rax": 1})


def frames_at(count: int, start: int = 0x7000) -> Iterator[tuple[int, int]]:
    for index in range(count):
        yield start + FRAME_SIZE * index, index  # rbx
        yield start + FRAME_SIZE * index + 8, FUNCTION + 0x10


def test_a_return_address_of_0_ends_a_whole_stack() -> None:
    memory = {**dict(frames_at(3)), 0x7000 + 2 * FRAME_SIZE + 8: 0}
    stack = walk_of(memory)
    assert stack.complete and len(stack.frames) == 3
    assert [f.registers[3] for f in stack.frames] == [3, 0, 1]
    assert 0 in stack.frames[0].registers and 0 not in stack.frames[1].registers  # calls do not keep rax
    assert stack.frames[1].function_start == FUNCTION


def test_an_undefined_return_address_ends_a_whole_stack() -> None:
    stack = walk_of({}, b"\x07\x10")
    assert stack.complete and len(stack.frames) == 1 and stack.frames[0].cfa == 0x7008


def test_memory_that_is_missing_ends_the_stack_with_the_good_frames_kept() -> None:
    stack = walk_of(dict(frames_at(2)))
    assert len(stack.frames) == 3 and not stack.complete
    assert stack.stopped is not None and "0x7020" in stack.stopped


def test_code_without_unwind_data_ends_the_stack_with_that_frame() -> None:
    stack = walk_of({**dict(frames_at(1)), 0x7008: 0x1234})
    assert [f.pc for f in stack.frames] == [FUNCTION, 0x1234]
    assert stack.frames[1].cfa is None and stack.frames[1].function_start is None
    assert stack.stopped == "no unwind data covers 0x1233"
    nowhere = walk_of({}, pc=0)
    assert [f.pc for f in nowhere.frames] == [0] and nowhere.stopped == "no unwind data covers 0x0"


def test_a_stack_that_does_not_grow_ends() -> None:
    cycle = walk_of(dict(frames_at(4)), b"\x0c\x03\x10")  # the CFA depends on rbx, which never changes
    assert len(cycle.frames) == 1 and cycle.stopped is not None
    # rsp is restored to its earlier value: each caller has the same CFA.
    fixed = b"\x0e\x10\x87\x02"
    same = walk_of({0x7000: 0x7000, 0x7008: FUNCTION + 1}, fixed)
    assert len(same.frames) == 2 and same.stopped is not None and "is not outside of" in same.stopped


def test_a_stack_without_end_ends() -> None:
    stack = walk_of(dict(frames_at(MAX_FRAMES + 10)))
    assert len(stack.frames) == MAX_FRAMES and stack.stopped == f"more than {MAX_FRAMES} frames"


def test_registers_that_are_missing_are_named() -> None:
    stack = walk_of(dict(frames_at(4)), b"\x0c\x09\x10")  # the CFA depends on r9, which is unknown
    assert len(stack.frames) == 1 and stack.stopped is not None and "register 9" in stack.stopped
    table = invented_table()
    nothing = stack_of(unwinder_of(lambda a, n: bytes(n), X86_64, lambda pc: (table, 0)), {"rax": 1})
    assert nothing.frames == [] and nothing.stopped is not None


def test_a_return_address_may_be_in_a_register_that_calls_do_not_keep() -> None:
    stack = walk_of({}, b"\x09\x10\x00")  # in rax, as around vfork
    assert [f.pc for f in stack.frames] == [FUNCTION, 1]


def test_a_stack_pointer_that_was_not_kept_ends_the_stack() -> None:
    stack = walk_of(dict(frames_at(4)), b"\x0e\x10\x83\x02\x07\x07")
    assert len(stack.frames) == 1
    assert stack.stopped == f"the caller of {FUNCTION:#x} is unknown: its stack pointer was not kept"


def test_damaged_unwind_data_ends_the_stack() -> None:
    stack = walk_of({}, b"\x3f")
    assert len(stack.frames) == 1 and stack.stopped is not None and "damaged" in stack.stopped

    def damaged(pc: int) -> tuple[UnwindTable, int] | None:
        raise MalformedFile("no table")

    stack = stack_of(unwinder_of(lambda a, n: bytes(n), X86_64, damaged), {"rip": 1, "rsp": 1})
    assert len(stack.frames) == 1 and stack.stopped == "unwind data at 0x1 is damaged: no table"


def test_a_handler_may_run_on_a_stack_above_the_interrupted_one() -> None:
    # There are two functions. The second is the kernel's signal frame, and its CFA is the word at rsp.
    normal, signal = invented_table(), invented_table(b"\x0f\x03\x77\x00\x06\x90\x02", b"zRS")
    stack = {0x9000: 4, 0x9008: 0x50_0001, 0x9010: 0x7000, 0x7000: 5, 0x7008: 0, 0x6FF0: FUNCTION + 0x20}

    def read(address: int, size: int) -> bytes:
        if address not in stack or size > 16:
            raise MemoryFault(address, size)
        return struct.pack("<2Q", stack[address], stack.get(address + 8, 0))[:size]

    def table_for(pc: int) -> tuple[UnwindTable, int] | None:
        return (signal, 0x10_0000) if pc >= 0x50_0000 else (normal, 0)

    found = stack_of(unwinder_of(read, X86_64, table_for), {"rip": FUNCTION, "rsp": 0x9000, "rbx": 3})
    assert [(f.pc, f.cfa, f.is_signal_frame) for f in found.frames[:2]] == [
        (FUNCTION, 0x9010, False),
        (0x50_0001, 0x7000, True),
    ]
    assert [(f.pc, f.cfa, f.interrupted) for f in found.frames[2:]] == [(FUNCTION + 0x20, 0x7010, True)]


# Guesses over invented memory: code from FUNCTION on has unwind data, code from BLIND on has none.

BLIND, STACK, TOP = 0x60_0000, 0x7000, 0x9000
CALL = b"\xff\xd0"  # call *%rax


class Invented:
    """A process with one stack, and code with and without unwind data. ``reads`` counts reads."""

    def __init__(self, words: Mapping[int, int], code: Mapping[int, bytes] | None = None) -> None:
        self.memory = bytearray(TOP - STACK)
        for address, word in words.items():
            struct.pack_into("<Q", self.memory, address - STACK, word)
        self.code = {0x1000 * page: bytearray(0x1000) for page in (FUNCTION >> 12, BLIND >> 12)}
        for address, raw in (code or {}).items():
            at = address % 0x1000
            self.code[address - at][at : at + len(raw)] = raw
        self.reads = 0
        self.table = invented_table()

    def read(self, address: int, size: int) -> bytes:
        self.reads += 1
        page = address // 0x1000 * 0x1000
        if page in self.code and address + size <= page + 0x1000:
            return bytes(self.code[page][address - page : address - page + size])
        if STACK <= address <= TOP - size:
            return bytes(self.memory[address - STACK : address - STACK + size])
        raise MemoryFault(address, size)

    def stack(self, pc: int, sp: int = STACK, *, symbols: Mapping[int, int] | None = None, **registers: int) -> Stack:
        unwinder = unwinder_of(
            self.read,
            X86_64,
            lambda at: (self.table, 0) if FUNCTION <= at < FUNCTION + 0x1000 else None,
            is_code=lambda at: at // 0x1000 * 0x1000 in self.code,
            stack_end=lambda at: TOP if STACK <= at < TOP else None,
            function_start=lambda at: (symbols or {}).get(at),
        )
        return stack_of(unwinder, {"rip": pc, "rsp": sp, **registers}, guess=True)


def returning(*addresses: int) -> dict[int, bytes]:
    """Return code in which each of *addresses* follows a call."""
    return {address - len(CALL): CALL for address in addresses}


@pytest.mark.parametrize(
    ("at", "code", "is_known"),
    [
        (-4, b"\xf3\x0f\x1e\xfa", True),  # endbr64
        (-4, b"\xf3\x0f\x1e\xfb", False),  # endbr32
        (-8, b"\xf3\x0f\x1e\xfa\x0f\x1f\x40\x00", False),  # the code behind it has no unwind data, either
        (-4, b"", False),  # cannot be read
    ],
)
def test_a_function_whose_unwind_data_begin_behind_its_landing_pad(at: int, code: bytes, is_known: bool) -> None:
    words = {STACK: FUNCTION + 0x10}

    def read(address: int, size: int) -> bytes:
        if address == FUNCTION + at and code:
            return code[:size]
        if address in words and size == 8:
            return struct.pack("<Q", words[address])
        raise MemoryFault(address, size)

    table = invented_table(b"")
    unwinder = unwinder_of(read, X86_64, lambda pc: (table, 0) if FUNCTION - 16 <= pc < FUNCTION + 0x1000 else None)
    frames = stack_of(unwinder, {"rip": FUNCTION + at, "rsp": STACK}).frames
    assert (frames[0].cfa, frames[0].function_start) == ((STACK + 8, FUNCTION + at) if is_known else (None, None))
    assert [frame.pc for frame in frames[1:]] == ([FUNCTION + 0x10] if is_known else [])


def test_a_landing_pad_that_could_not_be_read_is_looked_at_again_at_the_next_stop() -> None:
    readable: dict[int, bytes] = {}

    def read(address: int, size: int) -> bytes:
        if address not in readable:
            raise MemoryFault(address, size)
        return readable[address][:size]

    steps: Steps = {}
    table = invented_table(b"")

    def cfa() -> int | None:
        unwinder = unwinder_of(read, X86_64, lambda pc: (table, 0) if pc >= FUNCTION - 16 else None, steps)
        assert (unwinder.steps.at(FUNCTION - 4) is not None) == bool(readable)
        return stack_of(unwinder, {"rip": FUNCTION - 4, "rsp": STACK}).frames[0].cfa

    assert cfa() is None
    readable[FUNCTION - 4] = b"\xf3\x0f\x1e\xfa"
    assert cfa() == STACK + 8
    readable.clear()
    assert cfa() is None  # the code is read each time, so that a snapshot contains it


@pytest.mark.parametrize("number", [b"\x38\0\0\0", b"\xb3\x01\0\0"])
def test_a_thread_that_was_only_made_has_no_callers(number: bytes) -> None:
    begin = BLIND + 0x107
    made = Invented({}, {begin - 7: b"\xb8" + number + b"\x0f\x05"})
    assert [frame.pc for frame in made.stack(begin, rax=0).frames] == [begin]
    assert made.stack(begin, rax=0).stopped is None
    # The thread that called clone has callers, and so has code behind another system call.
    assert made.stack(begin, rax=4711).stopped is not None
    made.code[BLIND][0x101] += 1
    assert made.stack(begin, rax=0).stopped is not None


def test_the_maker_of_a_thread_has_the_frame_that_it_had_before() -> None:
    end = FUNCTION + 0x1000  # end of the code with unwind data
    code = {FUNCTION + 0xFF9: b"\xb8\xb3\x01\0\0\x0f\x05"}
    maker = Invented({STACK + 8: FUNCTION + 0x10}, code)
    (inner, outer, *_) = maker.stack(end, rax=4711).frames
    assert (inner.pc, inner.cfa, inner.guessed) == (end, STACK + 16, False)
    assert (outer.pc, outer.guessed) == (FUNCTION + 0x10, False)
    assert [frame.cfa for frame in maker.stack(end, rax=0).frames] == [None]


def test_a_frame_pointer_leads_to_the_caller() -> None:
    process = Invented(
        {0x7100: 0x7200, 0x7108: BLIND + 0x40, 0x7200: 0, 0x7208: FUNCTION + 0x40, 0x7210: 9, 0x7218: 0},
        returning(BLIND + 0x40, FUNCTION + 0x40),
    )
    stack = process.stack(BLIND + 0x10, rbp=0x7100)
    assert [(f.pc, f.cfa, f.how, f.guessed) for f in stack.frames] == [
        (BLIND + 0x10, 0x7110, "innermost", False),
        (BLIND + 0x40, 0x7210, "frame-pointer", True),
        (FUNCTION + 0x40, 0x7220, "frame-pointer", True),
    ]
    assert stack.complete
    assert stack.frames[1].registers == {6: 0x7200, 7: 0x7110, 16: BLIND + 0x40}


@pytest.mark.parametrize("rbp", [0x6FF8, 0x7101, 0x8FF8, 0x7110, 1 << 63])
def test_a_frame_pointer_that_cannot_be_one_is_not_followed(rbp: int) -> None:
    # Below the stack pointer; not aligned; at the stack's end; a return address that follows no call; nowhere.
    process = Invented({0x7118: BLIND + 0x99}, returning(BLIND + 0x40))
    stack = process.stack(BLIND + 0x10, rbp=rbp)
    assert len(stack.frames) == 1 and stack.stopped is not None
    assert (
        stack.stopped
        == f"no unwind data covers {BLIND + 0x10:#x}, and no return address is found on the stack behind 0x7000"
    )


def test_a_return_address_on_the_stack_is_believed_if_more_follow() -> None:
    words = {
        0x7010: BLIND + 0x40,  # follows a call, in code without unwind data
        0x7020: FUNCTION + 0x41,  # follows no call
        0x7040: FUNCTION + 0x40,  # follows a call, but no other frame follows
        0x7080: FUNCTION + 0x60,
        0x7090: FUNCTION + 0x80,
        0x70A0: 0,
    }
    process = Invented(words, returning(BLIND + 0x40, FUNCTION + 0x40, FUNCTION + 0x60, FUNCTION + 0x80))
    stack = process.stack(BLIND + 0x10)
    assert [(f.pc, f.how, f.guessed) for f in stack.frames] == [
        (BLIND + 0x10, "innermost", False),
        (FUNCTION + 0x60, "scan", True),
        (FUNCTION + 0x80, "cfi", True),
    ]
    assert stack.complete


def test_a_call_of_the_very_function_is_the_best_sign() -> None:
    code = returning(FUNCTION + 0x60)
    code[BLIND + 0x3B] = b"\xe8" + struct.pack("<i", -0x40)  # call of BLIND
    words = {0x7010: FUNCTION + 0x60, 0x7020: 0, 0x7030: BLIND + 0x40, 0x7100: 0, 0x7108: FUNCTION + 0x60, 0x7118: 0}
    symbols = {BLIND + 0x10: BLIND, BLIND + 0x3F: BLIND + 0x30}
    frames = Invented(words, code).stack(BLIND + 0x10, symbols=symbols).frames
    assert [(f.pc, f.how) for f in frames[:2]] == [(BLIND + 0x10, "innermost"), (BLIND + 0x40, "scan")]
    # The frame pointer belongs to the caller's caller. It does not make the search skip the caller.
    frames = Invented(words, code).stack(BLIND + 0x10, symbols=symbols, rbp=0x7100).frames
    assert [(f.pc, f.how) for f in frames] == [
        *((BLIND + 0x10, "innermost"), (BLIND + 0x40, "scan"), (FUNCTION + 0x60, "frame-pointer"))
    ]
    # Without symbols, BLIND is the nearest address that is called.
    frames = Invented(words, code).stack(BLIND + 0x10, rbp=0x7100).frames
    assert frames[1].pc == BLIND + 0x40


@pytest.mark.parametrize(
    ("at", "code", "offset"),
    [
        (0x10, {0x10: b"\x55\x48\x89\xe5"}, 0),
        (0x10, {0x10: b"\xf3\x0f\x1e\xfa\x55\x48\x89\xe5"}, 0),
        (0x11, {0x10: b"\x55\x48\x89\xe5"}, 8),
        (0x11, {0x10: b"\x5d\xc3"}, 0),
        (0x10, {0x10: b"\x5d\xc3"}, 8),
        (0x10, {0x10: b"\xff\x25\0\0\0\0"}, 0),
        (0x10, {0x10: b"\xf3\x0f\x1e\xfa\xf2\xff\x25\0\0\0\0"}, 0),
        (0x16, {0x10: b"\xff\x25\0\0\0\0\x68\1\0\0\0\xe9\0\0\0\0"}, 0),
        (0x1B, {0x10: b"\xff\x25\0\0\0\0\x68\1\0\0\0\xe9\0\0\0\0"}, 8),
        (0x10, {0x10: b"\xff\x35\0\0\0\0\xff\x25\0\0\0\0"}, 8),
        (0x16, {0x10: b"\xff\x35\0\0\0\0\xff\x25\0\0\0\0"}, 16),
        (0x10, {0x10: b"\x41\xbb\0\0\0\0\x49\xba" + bytes(8) + b"\x49\xff\xe3"}, 0),
        (0x16, {0x10: b"\x41\xbb\0\0\0\0\x49\xba" + bytes(8) + b"\x49\xff\xe3"}, 0),
        (0x20, {0x10: b"\x41\xbb\0\0\0\0\x49\xba" + bytes(8) + b"\x49\xff\xe3"}, 0),
    ],
)
def test_where_a_function_begins_or_ends_the_return_address_is_near(
    at: int, code: dict[int, bytes], offset: int
) -> None:
    # The caller's frame pointer would skip the caller.
    words = {STACK + offset: BLIND + 0x80, 0x7100: 0, 0x7108: FUNCTION + 0x60, 0x7118: 0}
    process = Invented(
        words, {**returning(BLIND + 0x80, FUNCTION + 0x60), **{BLIND + place: raw for place, raw in code.items()}}
    )
    stack = process.stack(BLIND + at, rbp=0x7100, rbx=5)
    assert [(f.pc, f.cfa) for f in stack.frames] == [
        (BLIND + at, STACK + offset + 8),
        (BLIND + 0x80, 0x7110),
        (FUNCTION + 0x60, 0x7120),
    ]
    assert stack.frames[1].registers == {3: 5, 6: 0x7100, 7: STACK + offset + 8, 16: BLIND + 0x80}


@pytest.mark.parametrize("pc", [0, 0x1234_5678_0000, (1 << 64) - 1])
def test_a_call_to_where_no_code_is_left_its_return_address_on_the_stack(pc: int) -> None:
    process = Invented({STACK: FUNCTION + 0x40, 0x7010: 0}, returning(FUNCTION + 0x40))
    stack = process.stack(pc, rbx=7)
    assert [(f.pc, f.cfa, f.how) for f in stack.frames] == [
        (pc, STACK + 8, "innermost"),
        (FUNCTION + 0x40, STACK + 24, "scan"),
    ]
    assert stack.complete and stack.frames[1].registers[3] == 7
    assert process.stack(0, sp=0x10).stopped == "no unwind data covers 0x0, and the stack pointer 0x10 is in no memory"


def test_each_form_of_call_is_one() -> None:
    forms = (
        *("e800000000", "ffd0", "41ffd3", "ff10", "ff1425 00000000", "ff14c5 00000000", "ff1408", "ff1500000000"),
        *("ff5008", "41ff542408", "ff9000010000", "ff942400010000", "49ff5708", "66ff1500000000", "6766e800000000"),
    )
    others = ("e900000000", "ffe0", "ff2500000000", "ff6008", "0f1f440000", "c3", "ff50", "ff1425 0000", "ff30", "")
    for form, is_call in (*((f, True) for f in forms), *((f, False) for f in others)):
        raw = bytes.fromhex(form)
        process = Invented({STACK: FUNCTION + 0x40, 0x7010: 0}, {FUNCTION + 0x40 - len(raw): raw})
        assert (len(process.stack(0).frames) == 2) == is_call, form


def context_at(sp: int, values: Mapping[str, int]) -> dict[int, int]:
    # struct ucontext of x86-64: uc_mcontext at 40
    order = [*(f"r{number}" for number in range(8, 16)), "rdi", "rsi", "rbp", "rbx", "rdx", "rax", "rcx", "rsp", "rip"]
    return {sp + 40 + 8 * order.index(name): value for name, value in values.items()}


@pytest.mark.parametrize(
    ("within", "code"), [(0, "48c7c00f000000 0f05"), (7, "48c7c00f000000 0f05"), (5, "b80f000000 0f05")]
)
def test_a_return_from_a_handler_is_known_by_its_code(within: int, code: str) -> None:
    values = {"rip": FUNCTION + 0x20, "rsp": 0x7800, "rbx": 77, "r15": 15, "rax": 4}
    process = Invented({**context_at(STACK, values), 0x7808: 0}, {BLIND: bytes.fromhex(code)})
    unwinder = unwinder_of(
        process.read, X86_64, lambda pc: (process.table, 0) if pc // 4096 * 4096 == FUNCTION else None
    )
    stack = stack_of(unwinder, {"rip": BLIND + within, "rsp": STACK})
    assert stack.complete
    assert [(f.pc, f.cfa, f.is_signal_frame, f.interrupted, f.guessed) for f in stack.frames] == [
        (BLIND + within, 0x7800, True, False, False),
        (FUNCTION + 0x20, 0x7810, False, True, False),
    ]
    registers = stack.frames[1].registers
    assert (registers[3], registers[15], registers[0], registers[7], len(registers)) == (77, 15, 4, 0x7800, 17)
    # The handler returns to the first byte of this code. The byte before it may belong to other code.
    process = Invented({STACK + 8: FUNCTION + 0x1000, **context_at(STACK + 16, values), 0x7808: 0}, {FUNCTION: b"\x90"})
    process.code[FUNCTION + 0x1000] = bytearray(bytes.fromhex("b80f0000000f05") + bytes(0xFF9))
    unwinder = unwinder_of(
        process.read, X86_64, lambda pc: (process.table, 0) if pc // 4096 * 4096 == FUNCTION else None
    )
    assert [f.pc for f in stack_of(unwinder, {"rip": FUNCTION, "rsp": STACK}).frames] == [
        *(FUNCTION, FUNCTION + 0x1000, FUNCTION + 0x20)
    ]


def test_a_signal_frame_that_leads_back_to_itself_ends() -> None:
    values = {"rip": BLIND, "rsp": STACK}
    process = Invented(context_at(STACK, values), {BLIND: bytes.fromhex("b80f0000000f05")})
    stack = process.stack(BLIND)
    assert len(stack.frames) == MAX_FRAMES and stack.stopped == f"more than {MAX_FRAMES} frames"


def test_guesses_are_bounded() -> None:
    # Each word of the stack looks like a return address, but no other frame follows.
    words = dict.fromkeys(range(STACK, TOP, 8), FUNCTION + 0x40)
    process = Invented(words, returning(FUNCTION + 0x40))
    stack = process.stack(BLIND)
    assert len(stack.frames) < 1000 and process.reads < 10_000
    # A frame pointer that points to itself.
    process = Invented({0x7100: 0x7100, 0x7108: BLIND + 0x40}, returning(BLIND + 0x40))
    stack = process.stack(BLIND, rbp=0x7100)
    assert len(stack.frames) == 2 and stack.stopped is not None
    # Each frame needs a search.
    words = dict.fromkeys(range(STACK + 16, TOP, 64), BLIND + 0x40)
    code = {BLIND + 0x3B: b"\xe8" + struct.pack("<i", -0x40)}
    stack = Invented(words, code).stack(BLIND + 0x10, symbols={BLIND + 0x10: BLIND, BLIND + 0x3F: BLIND})
    assert len(stack.frames) == 65 and stack.stopped is not None
    assert stack.stopped.endswith("more than 64 return addresses would have to be looked for")


def test_any_stack_ends_with_guesses() -> None:
    words = {STACK + 8 * i: word for i, word in enumerate((0x7100, BLIND + 0x40, FUNCTION + 0x40, 0, 0x7010) * 12)}
    code = returning(BLIND + 0x40, FUNCTION + 0x40)

    def use(data: bytes) -> None:
        process = Invented(words, code)
        process.memory[: len(data)] = data[: len(process.memory)]
        for registers in ({"rbp": STACK + 64}, {"rbp": 0}, {}):
            for pc in (BLIND, FUNCTION, 0):
                stack = process.stack(pc, **registers)
                assert stack.frames and [f.guessed for f in stack.frames] == sorted(f.guessed for f in stack.frames)
                assert all(f.guessed for f in stack.frames if f.how in ("frame-pointer", "scan"))

    survives(bytes(Invented(words, code).memory[:480]), use, examples=200)


def test_any_stack_and_any_instructions_end() -> None:
    body = b"\x0e\x10\x83\x02\x41\x0c\x06\x10\x10\x03\x03\x77\x08\x06\x16\x06\x02\x77\x00\x0a\x0b\x87\x03"
    words = struct.pack("<32Q", *(word for _, word in frames_at(16)))

    def use(data: bytes) -> None:
        instructions, memory = data[: len(body)], data[len(body) :]

        def read(address: int, size: int) -> bytes:
            start = address - 0x7000
            if not 0 <= start <= len(memory) - size:
                raise MemoryFault(address, size)
            return memory[start : start + size]

        table = invented_table(instructions)
        unwinder = unwinder_of(read, X86_64, lambda pc: (table, 0))
        stack = stack_of(unwinder, {"rip": FUNCTION + 1, "rsp": 0x7000, "rbp": 0x7010, "rbx": 0x7020})
        assert stack.frames and all(isinstance(frame, Frame) for frame in stack.frames)

    survives(body + words, use, examples=300)
