"""The emulator itself: pages, its limits, the library that it needs, and random code."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

import ompd.debugger.emulation.emulate as emulate
from ompd.binary.elf.dynamic import DynamicLinking, Wanted
from ompd.binary.elf.elf import ElfFile
from ompd.debugger.emulation.emulate import Emulator
from ompd.debugger.targets.core import CoreTarget
from ompd.errors import MalformedFile, MemoryFault, OmpdError, Unavailable
from ompd.isa.x86.architectures import X86_64
from tests.support.emulating import (
    answer,
    changed,
    compared,
    opened,
    sample,
)
from tests.support.machine import require_module

unicorn = require_module("unicorn")


# The emulator


def test_pages_are_read_once_and_for_each_stop_anew() -> None:
    taken = sample("lazy")
    with opened(taken) as process:
        compared(process, taken.threads)
        left = process.memory.reads_left
        compared(process, taken.threads)
        assert process.memory.reads_left == left
        other = process.at_another_stop(CoreTarget(str(taken.core)))
        other_left = other.memory.reads_left
        compared(other, taken.threads)
        assert other.memory.reads_left < other_left and other.routines.emulator() is not process.routines.emulator()
        other.routines.close()
        assert compared(other, taken.threads[:1])[1] == []


def test_an_emulator_that_is_full_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = sample("lazy")
    monkeypatch.setattr(emulate, "_MAX_KEPT", emulate._MAX_PAGES + 4)
    with opened(taken) as process:
        assert compared(process, taken.threads) == (6 * 25, [])
        assert len(process.routines.emulator().owners) <= emulate._MAX_KEPT


def test_what_lies_where_the_stack_would_be_is_left_alone() -> None:
    taken = sample("lazy")
    with opened(taken) as process:
        place = process.routines.emulator().start
        regions = process.target.regions()
    for occupied in (place, place + emulate._ROOM - 4096, place + emulate._GAP):
        more = [*regions, replace(regions[0], start=occupied, end=occupied + 4096)]
        with changed(taken, regions=lambda more=more: more) as process:
            assert process.routines.emulator().start != place
            assert answer(process, "omp_get_level", taken.thread("inner")).as_int == 2
    everything = [replace(regions[0], start=0, end=1 << 47)]
    with changed(taken, regions=lambda: everything) as process, pytest.raises(Unavailable, match="no room"):
        answer(process, "omp_get_level", taken.thread("inner"))


def test_another_processor_is_not_emulated() -> None:
    taken = sample("lazy")
    architecture = replace(X86_64, name="aarch64", e_machine=183)
    with opened(taken) as process, pytest.raises(Unavailable, match=r"not emulated on this architecture \(aarch64\)"):
        Emulator(process.routines.code, architecture, process.routines.linkage, process.regions.is_free, ())


WITHOUT = """
import sys
sys.modules["unicorn"] = None
from ompd.debugger.files.finder import FileFinder
from ompd.debugger.process import StoppedProcess
from ompd.debugger.targets.core import CoreTarget
from ompd.errors import Unavailable
process = StoppedProcess(CoreTarget(sys.argv[1]), FileFinder())
try:
    process.routines.call(process.symbols.find_symbol("negative"), process.threads.ids()[0])
except Unavailable as error:
    print(error.hint)
"""
AT_FIRST = """
import sys
from ompd.debugger.files.finder import FileFinder
from ompd.debugger.process import StoppedProcess
from ompd.debugger.targets.core import CoreTarget
process = StoppedProcess(CoreTarget(sys.argv[1]), FileFinder())
routine = process.symbols.find_symbol("negative")
thread = process.threads.ids()[0]
print("unicorn" in sys.modules, process.routines.call(routine, thread).as_int, "unicorn" in sys.modules)
"""


def test_a_unicorn_that_is_too_old_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unicorn, "uc_version", lambda: (2, 1, 0x020101FF))
    taken = sample("lazy")
    with opened(taken) as process, pytest.raises(Unavailable, match=r"by unicorn 2\.1\.1") as raised:
        answer(process, "omp_get_level", taken.thread("inner"))
    assert "ompd[emulate]" in raised.value.hint


@pytest.mark.parametrize(("code", "said"), [(WITHOUT, "pip install 'ompd[emulate]'"), (AT_FIRST, "False -5 True")])
def test_unicorn_is_asked_for_at_the_first_call(code: str, said: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", code, str(sample("lazy").core)], capture_output=True, text=True, check=True
    )
    assert run.stdout.startswith(said)


# Random code, without a target


class Noise:
    """The parts of a process that the emulator uses: pages of random bytes, some of them code."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def storage_of(self, thread: int) -> int:
        return 0x5000_0000_0800

    def fault(self, page: int) -> str | None:
        return None if page >> 40 in (0x30, 0x40) else f"comes to {page:#x}, where no code is"

    def name(self, address: int) -> str:
        return f"{address:#x}"

    def symbolize(self, address: int) -> None:
        return None

    def load(self, address: int, size: int) -> bytes:
        if address >> 40 not in (0x30, 0x40, 0x50):
            raise MemoryFault(address, size)
        return random.Random(address + self._seed).randbytes(size)


def test_random_code_ends_in_an_answer_or_a_reason() -> None:
    noise: Any = Noise(1)
    linkage: Any = SimpleNamespace(is_binder=lambda *given: given[0] % 16 == 0, bind=lambda *given: given[1])
    loader = [(0x4000_0000_0000, 0x4000_0000_1000)]
    emulator = Emulator(noise, X86_64, lambda kind: linkage, lambda *span: True, loader)
    answered = 0
    for number in range(3000):
        try:
            emulator.call(0x3000_0000_0000 + number * 977, 1, [0x4000_0000_0000, 0x5000_0000_0000, number])
            answered += 1
        except OmpdError as error:
            assert type(error) is Unavailable
    assert 0 < answered < 300
    emulator.close()


@pytest.mark.parametrize("library", ["libasking.so", "libversions.so", "program"])
def test_damaged_tables_of_a_file_are_told(library: str) -> None:
    intact = (sample("lazy").program.parent / library).read_bytes()
    chance = random.Random(library)
    told = 0
    for _ in range(400):
        data = bytearray(intact)
        for _ in range(chance.choice((3, 30, 300))):
            data[chance.randrange(0x40, len(data) // 2)] = chance.choice((0, 1, 0xFF, chance.randrange(256)))
        try:
            dynamic = DynamicLinking(ElfFile(bytes(data), library))
            for index in range(4):
                wanted = dynamic.wanted(index, 7)
                told += dynamic.find(wanted) is None
            for name in ("chosen", "asks_level", ""):
                dynamic.find(Wanted(name, None, None, 0))
            assert len(dynamic.needed) < 100 and dynamic.soname is None
        except MalformedFile:
            told += 1
    assert told > 100
