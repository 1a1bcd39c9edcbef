"""Frames of 32-bit programs, stopped anywhere, compared with gdb's frames or with the program's own notes."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from ompd.debugger.process import StoppedProcess
from ompd.errors import MemoryFault
from ompd.isa.x86.architectures import I386
from tests.i386.programs import compiled, process_of
from tests.stacks import (
    GDB_SCRIPT,
    NO_TABLES,
    GdbFrame,
    Kind,
    comparing,
    gdb_stacks,
    gdb_steps,
    stopped_at_work,
    take_core,
)
from tests.stacks import SOURCES as STACKS
from tests.support import clean_environment
from tests.support.cache import entry, key_of
from tests.support.m32 import m32_flags
from tests.support.unwinding import stack_of, unwinder_of

# Stacks of threads stopped anywhere


def work(flags: Sequence[str]) -> Kind:
    m32 = m32_flags()
    every = ("-g", *flags, "-pthread", "-lm", *m32.compile, *m32.link, "-lm")
    return Kind("m32", "work.c", "gcc", every)


@pytest.mark.parametrize(
    "flags",
    [("-O2",), ("-O1", "-fno-omit-frame-pointer", "-Wl,-z,lazy"), ("-O2", NO_TABLES, "-no-pie")],
    ids=" ".join,
)
@pytest.mark.quick("-O2", "-O1 -fno-omit-frame-pointer -Wl,-z,lazy")
def test_every_frame_of_threads_at_work_is_the_one_that_gdb_shows(flags: tuple[str, ...]) -> None:
    kind, tally = work(flags), comparing.Tally()
    for number in range(8):  # threads are stopped at random places
        check_threads_at_work(kind, number, tally)
        if len(tally.places) >= 10:
            return
    pytest.fail("too few stacks differ")


def check_threads_at_work(kind: Kind, number: int, tally: comparing.Tally) -> None:
    core = stopped_at_work(kind, number)
    stacks = gdb_stacks(comparing.program_of(kind), core)
    with process_of(core) as process:
        assert stacks.keys() == set(process.threads.ids()) and len(stacks) >= kind.threads
        astray = 0
        for thread, frames in stacks.items():
            ours = process.stacks.stack(thread)
            if ours.stopped is not None and process.symbols.module_at(ours.frames[-1].pc) is None:
                # Some unwind data of glibc's assembly routines are wrong: the stack ends at an address without code.
                theirs = [frame.pc for frame in frames if frame.kind != "inlined"]
                assert [frame.pc for frame in ours.frames] == theirs[: len(ours.frames)]
                astray += 1
                continue
            # At a thread's beginning gdb shows one more frame, at 0.
            begins = frames[-1].pc == 0 and frames[-1].kind != "unreadable"
            comparing.check(process, thread, frames[: -1 if begins else None], tally)
    assert astray <= len(stacks) // 10


def test_where_the_c_library_makes_threads() -> None:
    assert I386.system_calls is not None
    library = m32_flags().libraries[0] / "libc.so.6"
    assert comparing.uncovered_clones(library, I386) == set(I386.system_calls.clones)


STEPS_32 = (
    ("long answer = 62;", "long answer = 37;"),
    (
        '"syscall" : "+a"(answer) : "D"(number_of_process), "S"((long)SIGUSR1) : "rcx", "r11", "memory"',
        '"int $0x80" : "+a"(answer) : "b"(number_of_process), "c"((long)SIGUSR1) : "memory"',
    ),
)


def changed(path: Path, changes: Sequence[tuple[str, str]]) -> str:
    """Return a source, with its machine code replaced by that of 32 bits."""
    text = path.read_text()
    for before, after in changes:
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    return text


@pytest.mark.parametrize("flags", [("-O2",), ("-O1", "-fno-omit-frame-pointer"), ("-O2", NO_TABLES)], ids=" ".join)
@pytest.mark.quick("-O2")
def test_frames_at_each_instruction_are_those_that_gdb_shows(flags: tuple[str, ...]) -> None:
    m32 = m32_flags()
    source = {"steps.c": changed(STACKS / "steps.c", STEPS_32)}
    options = ["-w", "-Wl,-z,lazy", "-fPIE", "-pie", *flags, *m32.compile]
    program = compiled("gcc", options, source, ["steps.c", *m32.link], "program") / "program"
    script = comparing.STEP_SCRIPT % (comparing.MAX_STEPS, comparing.STEPS)
    script = re.sub(r'NAMES = ".*"', 'NAMES = "eax ecx edx ebx esp ebp esi edi eip"', script)
    script = script.replace("(1 << 64)", "(1 << 32)").replace('registers["rsp"]', 'registers["esp"]')
    shown: dict[int, list[GdbFrame]] = {}
    stops: dict[int, tuple[dict[str, int], int, bytes]] = {}
    tables: list[tuple[int, int, Path]] = []
    for line in stepped(program, GDB_SCRIPT + script):
        kind, _, rest = line.partition(" ")
        words = rest.split(maxsplit=1 if kind == "STOP" else 3)
        if kind == "MAPPED" and words[3].startswith("/"):
            tables.append((int(words[0], 16), int(words[1], 16), Path(words[3])))
        elif kind == "STOP":
            registers, low, stack = json.loads(words[1])
            stops[int(words[0])] = registers, low, bytes.fromhex(stack)
        elif kind == "FRAME":
            shown.setdefault(int(words[0]), []).append(GdbFrame(int(words[1], 16), int(words[2], 16), words[3]))
    found = comparing.Mapped(tables)
    compared = 0
    thunks: set[int] = set()
    for number, (registers, low, memory) in stops.items():

        def read(address: int, size: int, low: int = low, memory: bytes = memory) -> bytes:
            if not low <= address <= low + len(memory) - size:
                raise MemoryFault(address, size)
            return memory[address - low : address - low + size]

        theirs = [frame for frame in shown[number] if frame.kind in ("normal", "signal")]
        if any(found.table_for(frame.pc) is None for frame in theirs):
            continue  # the vDSO is no file, though cores have it
        stack = stack_of(unwinder_of(read, I386, found.table_for), registers)
        if stack.stopped == f"{comparing.UNCOVERED}{theirs[0].pc:#x}":
            thunks.add(theirs[0].pc)
            continue
        assert [(f.pc, f.is_signal_frame) for f in stack.frames] == [(f.pc, f.kind == "signal") for f in theirs]
        assert [f.cfa for f in stack.frames[:-1]] == [f.cfa for f in theirs[:-1]]
        assert stack.stopped is None, stack.stopped
        compared += 1
    assert compared >= 200
    # Two-instruction routines of gcc's start files, which return their own address, have no unwind data.
    assert len(thunks) <= 2


def stepped(program: Path, script: str) -> list[str]:
    """Return gdb's output while it runs *program* instruction by instruction."""
    return gdb_steps("i386-steps", program, script)


# Frames without unwind data

BLIND_32 = (
    ("mov $15, %eax\\n\\tsyscall", "mov $173, %eax\\n\\tint $0x80"),
    ("0x7654321000", "0x54321000"),
)
GONE = 0x54321000


@contextmanager
def blind(build: str, end: str) -> Iterator[tuple[StoppedProcess, comparing.Noted]]:
    name, flags = comparing.BUILDS[build]
    m32 = m32_flags()
    source = {"blind.c": changed(STACKS / "blind.c", BLIND_32)}
    # Prologues that align the stack have no frame record at the usual place.
    options = ["-w", "-g0", *flags, "-mpreferred-stack-boundary=2", *m32.compile]
    if name == "clang":
        options = ["-w", "-g0", *flags, "-mstack-alignment=4", *m32.compile]
    program = compiled(name, options, source, ["blind.c", *m32.link], "program") / "program"
    key = key_of(program.parent.name, end)
    folder = entry("i386-cores", key, lambda f: take_core(f, [str(program), end], clean_environment(), is_ready=False))
    with process_of(folder / "core.kernel") as process:
        count = int.from_bytes(process.memory.read(process.symbols.find_symbol("note_count"), 4), "little")
        words = struct.unpack(f"<{2 * count}I", process.memory.read(process.symbols.find_symbol("notes"), 8 * count))
        registers = struct.unpack("<19I", process.memory.read(process.symbols.find_symbol("interrupted"), 4 * 19))
        yield process, comparing.Noted([*zip(words[::2], words[1::2], strict=True)][::-1], registers)


@pytest.mark.parametrize("end", comparing.ENDS)
@pytest.mark.parametrize("build", comparing.BUILDS)
def test_frames_without_unwind_data_are_those_that_the_program_noted(build: str, end: str) -> None:
    with blind(build, end) as (process, noted):
        thread = process.threads.ids()[0]
        certain, guessed = process.stacks.stack(thread), process.stacks.stack(thread, guess=True)
    assert len(noted.frames) == 9 if end == "signal" else 8
    assert certain.stopped is not None and certain.stopped.startswith(comparing.UNCOVERED)
    last = len(certain.frames) - 1
    assert guessed.stopped is None
    assert all(frame.guessed for frame in guessed.frames[last + 1 :])
    found = {frame.cfa: outer.pc for frame, outer in zip(guessed.frames, guessed.frames[1:], strict=False)}
    assert [(cfa, found.get(cfa)) for cfa, _ in noted.frames] == noted.frames
    if end in ("null", "gone"):
        assert certain.frames[0].pc == (0 if end == "null" else GONE) and last == 0
        assert guessed.frames[0].cfa == guessed.frames[0].sp + 4


@pytest.mark.parametrize("build", ["frame-pointer", "none"])
def test_a_return_from_a_handler_without_unwind_data_restores_all_registers(build: str) -> None:
    with blind(build, "signal") as (process, noted):
        frames = process.stacks.stack(process.threads.ids()[0], guess=True).frames
        names = {number: process.places.locate(frame.call_site).symbol for number, frame in enumerate(frames)}
    at = next(number for number, frame in enumerate(frames) if frame.is_signal_frame)
    assert names[at - 1] == "handler"
    # REG_GS, REG_FS, REG_ES, REG_DS, then REG_EDI … REG_EAX, REG_TRAPNO, REG_ERR, REG_EIP, by their DWARF numbers
    expected = dict(zip((7, 6, 5, 4, 3, 2, 1, 0), noted.interrupted[4:12], strict=True)) | {8: noted.interrupted[14]}
    assert frames[at + 1].registers == expected
    assert frames[at].cfa == noted.interrupted[7] and frames[at + 1].call_site == frames[at + 1].pc
