"""Compare stacks with gdb's, and with the notes of functions without unwind data on their own frames."""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from elftools.elf.elffile import ELFFile

from ompd.binary.cfi.tables import Row, UnwindTable
from ompd.debugger.process import StoppedProcess
from ompd.isa.architecture import Architecture
from tests.stacks import NO_TABLES, GdbFrame, Kind, built
from tests.support import require
from tests.support.samples import mapped, run

UNCOVERED = "no unwind data covers "


@dataclass
class Tally:
    """Stacks that equal gdb's, each as the modules and offsets of its pcs."""

    places: set[tuple[tuple[str, int], ...]] = field(default_factory=set)
    with_signal: set[tuple[tuple[str, int], ...]] = field(default_factory=set)
    with_inlined: set[tuple[tuple[str, int], ...]] = field(default_factory=set)


def program_of(kind: Kind) -> Path:
    return Path(sys.executable).resolve() if not kind.compiler else built(kind.source, kind.compiler, kind.flags)


@cache
def covered_by_readelf(path: str) -> list[tuple[int, int]]:
    """Return the address ranges that the unwind data of a file covers, in order."""
    printed = run(require("readelf"), "--debug-dump=frames", path)
    return sorted((int(low, 16), int(high, 16)) for low, high in re.findall(r"FDE .*pc=(\w+)\.\.(\w+)", printed))


def is_covered(process: StoppedProcess, address: int) -> bool:
    module = process.symbols.module_at(address)
    if module is None or module.path is None:
        return False  # code on the stack
    spans = covered_by_readelf(module.path)
    index = bisect_right(spans, (address - module.bias, 1 << 64)) - 1
    return index >= 0 and address - module.bias < spans[index][1]


def check(process: StoppedProcess, thread: int, shown: Sequence[GdbFrame], tally: Tally) -> None:
    """Check that our stack of *thread* equals gdb's."""
    stack = process.stacks.stack(thread)
    theirs = [frame for frame in shown if frame.kind in ("normal", "signal")]
    if len(theirs) == 2 and not theirs[-1].pc:
        theirs.pop()  # gdb shows a caller of the innermost frame even if it is 0
    ours = [(frame.pc, frame.is_signal_frame) for frame in stack.frames]
    outermost = stack.frames[-1]
    if len(theirs) == len(ours) + 1 and not theirs[-1].pc and theirs[-2].kind == "normal" and outermost.cfa is not None:
        # gdb shows a return address of 0 as one more frame. Wrong unwind data can produce this address. An example is
        # the last instruction of libgcc's _Unwind_Resume(), a jump to a landing pad whose stack pointer is already set.
        assert stack.stopped is None and theirs[-2].pc == outermost.pc
        assert not any(process.memory.read(outermost.cfa - process.memory.pointer_size, process.memory.pointer_size))
        theirs.pop()
    if shown[-1].kind == "unreadable":
        # Unwind data, or without unwind data (as in the vDSO) a guess, has led gdb to an address without memory.
        if stack.stopped is not None and stack.stopped.startswith(UNCOVERED):
            theirs = theirs[: len(ours)]
        assert ours[: len(theirs)] == [(frame.pc, frame.kind == "signal") for frame in theirs]
        return
    assert [(frame.pc, frame.kind == "signal") for frame in theirs[: len(ours)]] == ours
    if len(ours) == 1 and stack.stopped is None and stack.frames[0].cfa is None:
        assert not is_covered(process, ours[0][0]) and stack.frames[0].registers[0] == 0
        return  # a thread that has just been created; gdb guesses callers
    assert not any(frame.guessed for frame in stack.frames)
    for frame, their in zip(stack.frames, theirs, strict=False):
        # gdb may not know the CFA of the outermost frame.
        assert frame.cfa == their.cfa or their is theirs[-1] or frame.cfa is None
    if stack.stopped is not None and stack.stopped.startswith(UNCOVERED):
        # gdb guesses further frames from the code: at the start of a coroutine, during the creation of a thread, and in
        # code on the stack that calls a nested function.
        assert not is_covered(process, int(stack.stopped.removeprefix(UNCOVERED), 16))
        assert stack.frames[-1].cfa is None
        if process.symbols.module_at(stack.frames[-1].pc) is None:
            guessed = process.stacks.stack(thread, guess=True)
            if not all(process.symbols.module_at(frame.pc) for frame in theirs[len(ours) :]):
                return  # gdb has guessed callers in memory without code
            assert [frame.pc for frame in guessed.frames] == [frame.pc for frame in theirs], guessed.stopped
        return
    assert len(ours) == len(theirs), stack.stopped
    places = []
    for pc, _ in ours:
        module = process.symbols.module_at(pc)
        places.append((module.name, pc - module.bias) if module is not None else ("", pc))
    tally.places.add(tuple(places))
    if any(is_signal for _, is_signal in ours):
        tally.with_signal.add(tuple(places))
    if any(frame.kind == "inlined" for frame in shown):
        tally.with_inlined.add(tuple(places))


def uncovered_clones(library: Path, architecture: Architecture) -> set[bytes]:
    """Return those of an architecture's ``clones`` after which a C library has code that its unwind data does not
    cover.
    """
    calls = architecture.system_calls
    assert calls is not None
    spans = covered_by_readelf(str(library))
    found = set()
    with library.open("rb") as file:
        for segment in ELFFile(file).iter_segments("PT_LOAD"):
            data, start = segment.data(), segment["p_vaddr"]
            for code in calls.clones:
                for match in re.finditer(re.escape(code), data):
                    if not any(low <= start + match.end() < high for low, high in spans):
                        found.add(code)
    return found


BLIND = (NO_TABLES, "-fno-unwind-tables", "-O1", "-fno-optimize-sibling-calls")
BUILDS = {
    "frame-pointer": ("gcc", (*BLIND, "-fno-omit-frame-pointer")),
    "none": ("gcc", (*BLIND, "-fomit-frame-pointer")),
    "clang": ("clang", BLIND),
    "stripped": ("gcc", (*BLIND, "-fno-omit-frame-pointer", "-rdynamic", "-s")),
}


ENDS = ("abort", "signal", "null", "gone")


@dataclass(frozen=True)
class Noted:
    """The frames that functions without unwind data noted, innermost first: CFA and return address."""

    frames: Sequence[tuple[int, int]]
    interrupted: Sequence[int]


STEPS, MAX_STEPS = 600, 6000


STEP_SCRIPT = """
import json
gdb.execute("set disable-randomization on")
gdb.execute("handle SIGUSR1 nostop noprint pass")
gdb.execute("break handler")  # it would be stepped over
gdb.execute("break begin")
gdb.execute("run")
NAMES = "rax rdx rcx rbx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15 rip".split()
mask = (1 << 64) - 1
mappings = [line.split(maxsplit=5) for line in gdb.execute("info proc mappings", to_string=True).splitlines()]
top = next(int(words[1], 16) for words in mappings if words[-1:] == ["[stack]"])
for words in mappings:
    if len(words) == 6 and words[0].startswith("0x"):
        print("MAPPED", words[0], words[1], words[3], words[5])
seen = set()
for _ in range(%d):
    gdb.execute("stepi", to_string=True)
    frame = older = gdb.newest_frame()
    if frame.name() == "end" or len(seen) == %d:
        break
    pcs = []
    while older is not None:
        pcs.append(older.pc())
        older = older.older()
    if tuple(pcs) not in seen:
        registers = {name: int(frame.read_register(name)) & mask for name in NAMES}
        low = registers["rsp"] - 128
        memory = gdb.selected_inferior().read_memory(low, min(8192, top - low))
        print("STOP", len(seen), json.dumps([registers, low, bytes(memory).hex()]))
        show(len(seen))
        seen.add(tuple(pcs))
gdb.execute("kill")
"""


class Mapped:
    """Unwind tables of files by their mapped addresses."""

    def __init__(self, mappings: Sequence[tuple[int, int, Path]]) -> None:
        self._mappings = mappings
        self._tables: dict[Path, tuple[LoadedTables, int]] = {}

    def table_for(self, pc: int) -> tuple[LoadedTables, int] | None:
        path = next((path for start, end, path in self._mappings if start <= pc < end), None)
        if path is None:
            return None
        if path not in self._tables:
            base = min(start for start, _, other in self._mappings if other == path)
            self._tables[path] = (LoadedTables(path), base)
        return self._tables[path]


class LoadedTables:
    """Both unwind tables of a file."""

    def __init__(self, path: Path) -> None:
        elf = mapped(path)
        self._tables = [t for t in (UnwindTable.from_elf(elf), UnwindTable.from_debug_frame(elf)) if t is not None]

    def row(self, pc: int) -> Row | None:
        return next((row for table in self._tables if (row := table.row(pc)) is not None), None)
