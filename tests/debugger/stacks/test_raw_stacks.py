"""Raw stacks of threads stopped anywhere, compared with gdb's; and guesses, compared with the programs' notes."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from ompd.debugger import snapshot
from ompd.debugger.files import finder as files
from ompd.debugger.process import StoppedProcess
from ompd.errors import MemoryFault
from ompd.inspection import Inspection
from ompd.isa.x86.architectures import X86_64
from tests.stacks import (
    GDB_SCRIPT,
    KINDS,
    NO_TABLES,
    GdbFrame,
    Kind,
    built,
    gdb_stacks,
    gdb_steps,
    stopped_at_work,
    take_core,
)
from tests.stacks.comparing import (
    BUILDS,
    ENDS,
    MAX_STEPS,
    STEP_SCRIPT,
    STEPS,
    UNCOVERED,
    Mapped,
    Noted,
    Tally,
    check,
    program_of,
    uncovered_clones,
)
from tests.support import FULL, clean_environment
from tests.support.cache import entry, key_of
from tests.support.products import in_turn
from tests.support.unwinding import stack_of, unwinder_of

MORE_KINDS = (
    Kind("c++-O0", "work.cpp", "g++", ("-g", "-O0", "-pthread")),
    Kind("c++-clang", "work.cpp", "clang++", ("-g", "-O2", "-pthread")),
    Kind("c++-frame-pointer", "work.cpp", "g++", ("-g", "-O3", "-fno-omit-frame-pointer", "-pthread")),
    Kind("c-O0-debug-frame", "work.c", "gcc", ("-gdwarf-3", "-O0", NO_TABLES, "-pthread", "-lm", "-Wl,-z,lazy")),
    Kind("fortran-O3", "work.f90", "gfortran", ("-g", "-O3", "-fopenmp"), 24),
)
CASES = [(kind, number) for kind in KINDS + (MORE_KINDS if FULL else ()) for number in range(6 if FULL else 1)]
NO_DEBUG_FILES = ("-iex", "set debug-file-directory /nonexistent")


@dataclass(frozen=True)
class Sorts:
    """The least number of different stacks of a program that must be compared: all, those with a signal, those with
    inlined functions.
    """

    places: int = 20
    with_signal: int = 0
    with_inlined: int = 0


SORTS = {
    "c": Sorts(30, with_signal=5),
    "c-debug-frame": Sorts(30, with_signal=5, with_inlined=5),
    "c-clang-debug-frame": Sorts(30, with_signal=5),
    "c++": Sorts(25, with_signal=1, with_inlined=5),
    "fortran": Sorts(12, with_inlined=5),
}


@contextmanager
def opened(core: Path) -> Iterator[StoppedProcess]:
    with Inspection.open_core(str(core)) as session:
        yield session.process


@cache
def compared(kind: Kind, number: int, *options: str) -> Tally:
    core = stopped_at_work(kind, number)
    stacks = gdb_stacks(program_of(kind), core, *options)
    tally = Tally()
    with opened(core) as process:
        assert stacks.keys() == set(process.threads.ids())
        assert len(stacks) >= kind.threads
        for thread in process.threads.ids():
            check(process, thread, stacks[thread], tally)
    return tally


@pytest.mark.xdist_group("raw_stacks")
@pytest.mark.parametrize(("kind", "number"), CASES, ids=[f"{kind.name}-{number}" for kind, number in CASES])
@pytest.mark.quick("c-debug-frame-0")
def test_every_frame_is_the_one_that_gdb_shows(kind: Kind, number: int) -> None:
    compared(kind, number)


@pytest.mark.xdist_group("raw_stacks")
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.compiler], ids=lambda kind: kind.name)
@pytest.mark.quick("c-debug-frame", "c-clang-debug-frame")
def test_stacks_of_all_sorts_were_compared(kind: Kind) -> None:
    # Threads are stopped at random places. Look at more cores until there are enough stacks of each sort.
    wanted = SORTS.get(kind.name, Sorts())
    seen = Tally()
    for number in range(12):
        for name, found in vars(compared(kind, number)).items():
            getattr(seen, name).update(found)
        if all(len(getattr(seen, name)) >= least for name, least in vars(wanted).items()):
            return
    pytest.fail(f"too few stacks of a sort: { ({name: len(found) for name, found in vars(seen).items()}) }")


@pytest.mark.xdist_group("raw_stacks")
@pytest.mark.parametrize("kind", [KINDS[0], KINDS[3]], ids=lambda kind: kind.name)
@pytest.mark.quick("c++")
def test_glibc_is_unwound_without_its_debug_file(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "SYSTEM_DEBUG_DIR", "/nonexistent")
    compared.cache_clear()
    assert compared(kind, 0, *NO_DEBUG_FILES).places


@pytest.mark.xdist_group("raw_stacks")
def test_where_the_c_library_makes_threads() -> None:
    with opened(stopped_at_work(KINDS[0])) as process:
        (library,) = (m.path for m in process.symbols.modules() if Path(m.name).name == "libc.so.6")
    assert library is not None and X86_64.system_calls is not None
    assert uncovered_clones(Path(library), X86_64) == set(X86_64.system_calls.clones)


@pytest.mark.xdist_group("raw_stacks")
@pytest.mark.quick()
def test_a_process_of_200_modules_is_unwound_by_few_of_their_files() -> None:
    with opened(stopped_at_work(KINDS[-1])) as process:
        assert len(process.symbols.modules()) >= 200
        stacks = [process.stacks.stack(thread) for thread in process.threads.ids()]
        met = {
            module.name
            for stack in stacks
            for f in stack.frames
            if (module := process.symbols.module_at(f.pc)) is not None
        }
        asked = {module.name for module in process.modules if "unwind_table" in module.__dict__}
    assert asked <= met and len(met) < 60


# Guesses


@contextmanager
def blind(build: str, end: str) -> Iterator[tuple[StoppedProcess, Noted]]:
    compiler, flags = BUILDS[build]
    program = built("blind.c", compiler, flags)
    key = key_of(program.parent.name, end)
    core = entry("stacks", key, lambda f: take_core(f, [str(program), end], clean_environment(), is_ready=False))
    with opened(core / "core.kernel") as process:
        count = int.from_bytes(process.memory.read(process.symbols.find_symbol("note_count"), 8), "little")
        words = struct.unpack(f"<{2 * count}Q", process.memory.read(process.symbols.find_symbol("notes"), 16 * count))
        registers = struct.unpack("<23Q", process.memory.read(process.symbols.find_symbol("interrupted"), 8 * 23))
        yield process, Noted([*zip(words[::2], words[1::2], strict=True)][::-1], registers)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("build", BUILDS)
def test_frames_without_unwind_data_are_those_that_the_program_noted(build: str, end: str) -> None:
    with blind(build, end) as (process, noted):
        thread = process.threads.ids()[0]
        certain, guessed = process.stacks.stack(thread), process.stacks.stack(thread, guess=True)
    assert len(noted.frames) == 9 if end == "signal" else 8
    # Without guesses the stack ends, with a reason, in the first function that has no unwind data.
    assert certain.stopped is not None and certain.stopped.startswith(UNCOVERED)
    assert certain.frames[-1].cfa is None and not any(frame.guessed for frame in certain.frames)
    last = len(certain.frames) - 1
    assert [f[:1] + f[2:] for f in guessed.frames[: last + 1]] == [f[:1] + f[2:] for f in certain.frames]
    # With guesses the stack is whole, and each frame outside of that function is marked as a guess.
    assert guessed.stopped is None
    assert all(frame.guessed for frame in guessed.frames[last + 1 :])
    found = {frame.cfa: outer.pc for frame, outer in zip(guessed.frames, guessed.frames[1:], strict=False)}
    assert [(cfa, found.get(cfa)) for cfa, _ in noted.frames] == noted.frames
    ways = {frame.how for frame in guessed.frames[last + 1 :]}
    assert ways & {"frame-pointer", "scan"} and ways <= {"frame-pointer", "scan", "cfi"}
    assert ("frame-pointer" in ways) == (build != "none")
    if end in ("null", "gone"):
        assert certain.frames[0].pc == (0 if end == "null" else 0x7654321000) and last == 0
        assert guessed.frames[0].cfa == guessed.frames[0].sp + 8


@pytest.mark.parametrize("build", ["frame-pointer", "none"])
def test_a_return_from_a_handler_without_unwind_data_restores_all_registers(build: str) -> None:
    with blind(build, "signal") as (process, noted):
        frames = process.stacks.stack(process.threads.ids()[0], guess=True).frames
        names = {number: process.places.locate(frame.call_site).symbol for number, frame in enumerate(frames)}
    at = next(number for number, frame in enumerate(frames) if frame.is_signal_frame)
    assert names[at - 1] == "handler" and names[at + 1] == "kill"
    # REG_R8 … REG_RIP of <sys/ucontext.h>, by their DWARF numbers
    numbers = (8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16)
    assert frames[at + 1].registers == dict(zip(numbers, noted.interrupted[:17], strict=True))
    assert frames[at].cfa == noted.interrupted[15] and frames[at + 1].call_site == frames[at + 1].pc


@pytest.mark.parametrize("build", ["frame-pointer", "none"])
def test_a_snapshot_holds_what_guesses_need(build: str, tmp_path: Path) -> None:
    with blind(build, "abort") as (process, _):
        thread = process.threads.ids()[0]
        pages = process.memory.note_reads()
        taken = snapshot.take(process, pages, data_limit=0, keep_environment=True, kept_variables=())
        with (tmp_path / "snapshot").open("wb") as file:
            taken.write(file)
        with opened(tmp_path / "snapshot") as other:
            assert other.stacks.stack(thread, guess=True) == process.stacks.stack(thread, guess=True)


def test_a_whole_stack_has_no_guesses() -> None:
    with opened(stopped_at_work(KINDS[4])) as process:
        whole = {
            thread: stack for thread in process.threads.ids() if (stack := process.stacks.stack(thread)).stopped is None
        }
        assert whole
        for thread, stack in whole.items():
            assert process.stacks.stack(thread, guess=True) is stack


# Instruction by instruction


def stepped(program: Path) -> list[str]:
    """Return gdb's output while it runs *program* instruction by instruction."""
    script = GDB_SCRIPT + STEP_SCRIPT % (MAX_STEPS, STEPS)
    return gdb_steps("stacks", program, script)


@in_turn("flags", [("-O2",), ("-O1", "-fno-omit-frame-pointer"), ("-O2", NO_TABLES)])
def test_frames_at_each_instruction_are_those_that_gdb_shows(flags: tuple[str, ...]) -> None:
    program = built("steps.c", "gcc", ("-g", "-Wl,-z,lazy", *flags))
    shown: dict[int, list[GdbFrame]] = {}
    stops: dict[int, tuple[dict[str, int], int, bytes]] = {}
    tables: list[tuple[int, int, Path]] = []
    for line in stepped(program):
        kind, _, rest = line.partition(" ")
        words = rest.split(maxsplit=1 if kind == "STOP" else 3)
        if kind == "MAPPED" and words[3].startswith("/"):
            tables.append((int(words[0], 16), int(words[1], 16), Path(words[3])))
        elif kind == "STOP":
            registers, low, stack = json.loads(words[1])
            stops[int(words[0])] = registers, low, bytes.fromhex(stack)
        elif kind == "FRAME":
            shown.setdefault(int(words[0]), []).append(GdbFrame(int(words[1], 16), int(words[2], 16), words[3]))
    found = Mapped(tables)
    for number, (registers, low, memory) in stops.items():

        def read(address: int, size: int, low: int = low, memory: bytes = memory) -> bytes:
            if not low <= address <= low + len(memory) - size:
                raise MemoryFault(address, size)
            return memory[address - low : address - low + size]

        stack = stack_of(unwinder_of(read, X86_64, found.table_for), registers)
        theirs = [frame for frame in shown[number] if frame.kind in ("normal", "signal")]
        assert [(f.pc, f.is_signal_frame) for f in stack.frames] == [(f.pc, f.kind == "signal") for f in theirs]
        assert [f.cfa for f in stack.frames[:-1]] == [f.cfa for f in theirs[:-1]]
        assert stack.stopped is None
    assert len(stops) >= 300
    assert any(frame.kind == "signal" for frames in shown.values() for frame in frames)
