"""Thousands of damaged cores and files: only errors of ompd occur, and only facts that were read are given.

The cases are the same each time; ``OMPD_FUZZ_SEED`` makes others, ``OMPD_FUZZ_CASES`` more. `make fuzz` continues from
here, guided by the code that cases reach.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ompd.binary.cfi.tables import UnwindTable
from ompd.binary.dwarf.files import DebugFiles
from ompd.binary.dwarf.lines import LineInfo
from ompd.binary.elf.elf import ElfFile
from ompd.binary.types.types import TypeInfo
from ompd.contract import memory
from ompd.contract.memory import StructView
from ompd.errors import MemoryFault, OmpdError
from ompd.questions import tasks
from ompd.questions.facts.gathering import Problems
from ompd.runtimes.libomp.handles import Thread
from tests.fuzz import crafted, formats, run
from tests.fuzz.__main__ import Drawn
from tests.fuzz.damage import Case
from tests.fuzz.oracle import ORDERS, Find
from tests.fuzz.parses import parsed_once
from tests.support import FULL

SEED = os.environ.get("OMPD_FUZZ_SEED", "ompd")
CASES = int(os.environ.get("OMPD_FUZZ_CASES", "2000" if FULL else "200"))
MEMORY = 500 << 20


@pytest.fixture(scope="module", autouse=True)
def _parsed_once() -> Iterator[None]:
    with parsed_once():
        yield


def peak() -> int:
    """Return the peak of this process's memory since :func:`forget_peak`, in bytes."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) << 10


def forget_peak() -> int:
    """Reset the peak. Return the memory in use."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", run.VICTIMS)
@pytest.mark.quick("deadlock")
def test_a_damaged_core_tells_nothing_that_was_not_read(name: str) -> None:
    run.damager(name)
    before = forget_peak()
    outcomes: Counter[str] = Counter()
    # A case's effect depends on the layout of this core, so a rare outcome may need more cases than the others. If one
    # of the three outcomes is missing, the cases miss the bytes that are read, or leave nothing to compare.
    for number in range(-(-CASES // len(run.VICTIMS)) + 2000):
        enough = outcomes["equal"] and outcomes["other"] and outcomes["error"] + outcomes["refused"]
        if enough and number >= -(-CASES // len(run.VICTIMS)):
            break
        outcomes.update(run.run_seeded(name, SEED, number, 1))
    else:
        pytest.fail(f"of one outcome there is none: {outcomes}")
    assert peak() - before < MEMORY


# The oracle must find each of these faults in a plugin


def _swallowed(original: Callable[..., int]) -> Callable[..., int]:
    def unsigned(self: StructView, name: str) -> int:
        try:
            return original(self, name)
        except MemoryFault:
            return 0

    return unsigned


def _a_session_late(original: Callable[..., int]) -> Callable[..., int]:
    known: dict[tuple[int, str], int] = {}

    def unsigned(self: StructView, name: str) -> int:
        key, now = (self.address, name), original(self, name)
        before, known[key] = known.get(key, now), now
        return before

    return unsigned


def _neighbour(original: Callable[[Thread], tuple[int, int]]) -> Callable[[Thread], tuple[int, int]]:
    def kept_state(self: Thread) -> tuple[int, int]:
        state, wait_id = original(self)
        beside = memory.read_unsigned(self.runtime.process, self._view.address_of("thread_data"), 8)
        return state, wait_id and beside

    return kept_state


def _foreign(original: Callable[..., int | None]) -> Callable[..., int | None]:
    def pointer(self: StructView, name: str) -> int | None:
        value = original(self, name)
        if value is not None and value >> 48:
            raise KeyError(value)
        return value

    return pointer


def _in_silence(original: Callable[..., Any]) -> Callable[..., Any]:
    def answer(session: Any, rows: Any, runtimes: Any, problems: Problems) -> Any:
        return replace(original(session, rows, runtimes, problems), complete=True)

    return answer


def _of_all(original: Callable[[Thread], Any]) -> Callable[[Thread], Any]:
    def tool_data(self: Thread) -> Any:
        return [original(thread) for thread in self.runtime.threads() if thread.team is not None] and original(self)

    return tool_data


MUTANTS: dict[str, tuple[str, Any, str, Callable[[Any], Any]]] = {
    "an unreadable field is 0": ("nested", StructView, "unsigned", _swallowed),
    "a neighbouring field is read": ("deadlock", Thread, "kept_state", _neighbour),
    "a field is that of the last session": ("task_tree", StructView, "unsigned", _a_session_late),
    "a pointer to nowhere raises KeyError": ("nested", StructView, "pointer", _foreign),
    "a question is given up in silence": ("deadlock", tasks, "answer", _in_silence),
    "every thread's fact needs every thread": ("nested", Thread, "tool_data", _of_all),
}


@pytest.mark.parametrize("mutant", MUTANTS)
@pytest.mark.quick("every thread's fact needs every thread", "a neighbouring field is read")
def test_the_oracle_finds(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, owner, attribute, make = MUTANTS[mutant]
    run.damager(name)  # the answers about the intact core come from the sound plugin
    monkeypatch.setattr(owner, attribute, make(getattr(owner, attribute)))
    with pytest.raises(Find):
        if attribute == "answer":  # few seeded cases give a question up, so these are made here
            for order, reads in product(range(len(ORDERS)), (30, 80, 120, 300, 700)):
                run.check(run.damager(name).victim, Case("reads", order=order, reads=reads))
        list(run.run_seeded(name, "mutants", 0, 1000))


def test_the_oracle_lets_a_sound_plugin_pass() -> None:
    assert Counter(run.run_seeded("nested", "mutants", 0, 40)).total() == 40


# Files


# A source of numbers that hypothesis makes smaller when an example fails.
NUMBERS = st.randoms(use_true_random=False)


@pytest.mark.parametrize("kind", formats.KINDS)
@pytest.mark.quick("debug_information", "location", "stack")
def test_files_of_lies_are_refused_or_read(kind: str) -> None:
    large, most = [HealthCheck.data_too_large], 100 if FULL else 5  # each file takes many random numbers

    @settings(max_examples=most, deadline=None, derandomize=True, database=None, suppress_health_check=large)
    @given(numbers=NUMBERS)
    def read(numbers: random.Random) -> None:
        formats.survive(kind, formats.built(kind, numbers))

    read()


@pytest.mark.parametrize("kind", formats.KINDS)
def test_many_files_of_lies(kind: str) -> None:
    before = forget_peak()
    for number in range(300 if FULL else 100):
        data = formats.built(kind, random.Random(f"{SEED}/{kind}/{number}"))
        try:
            formats.survive(kind, data)
        except Exception as error:
            raise AssertionError(f"{kind}: file {number} of OMPD_FUZZ_SEED={SEED}: {error!r}") from error
    assert peak() - before < MEMORY


def test_files_without_lies_are_understood() -> None:
    # Without this, files with wrong fields would test nothing.
    told: Counter[str] = Counter()
    for number in range(120):
        elf = ElfFile(formats.elf_file(formats.Form(random.Random(number), lies=0.0)), "file")
        table, lines, types = UnwindTable.from_elf(elf), LineInfo(elf), TypeInfo(elf)
        frames = UnwindTable.from_debug_frame(elf)
        for address in range(0x1000, 0x1100, 16):
            told["rows"] += table is not None and _told(table.row, address) is not None
            told["rows of .debug_frame"] += frames is not None and _told(frames.row, address) is not None
            told["lines"] += _told(lines.locate, address) is not None
            told["functions"] += bool(_told(lines.functions, address))
        files = DebugFiles(elf, formats.Itself(elf))
        for unit in _told(lambda files: list(files.units(files.main, ".debug_info")), files) or ():
            told["split units"] += _told(files.whole, unit) not in (None, unit)
        told["types"] += any(_told(types.find, name) is not None for name in ("S", "f", "omp_lock_t"))
    kinds = ("rows", "rows of .debug_frame", "lines", "functions", "types", "split units")
    assert all(told[what] > 5 for what in kinds), told


def _told(ask: Callable[[Any], Any], about: Any) -> Any:
    try:
        return ask(about)
    except OmpdError:
        return None


@pytest.mark.parametrize("find", sorted(run.FINDS.glob("*.bin")), ids=lambda find: find.stem)
def test_what_was_found_is_refused_or_read(find: Path) -> None:
    if find.name.startswith("crafted-"):
        crafted.run(find.read_bytes())
        return
    kind = next(kind for kind in formats.KINDS if find.name.startswith(f"{kind}-"))
    started = time.process_time()
    formats.survive(kind, find.read_bytes())
    assert time.process_time() - started < 5


# Skipped while there are no finds.
@pytest.mark.parametrize("find", sorted(run.FINDS.glob("core-*.json")), ids=lambda find: find.stem)
def test_what_was_found_in_cores_is_not_found_again(find: Path) -> None:
    kept = json.loads(find.read_text())
    run.run(kept["victim"], Drawn(bytes.fromhex(kept["recipe"])[1:]))


def test_crafted_files_that_are_damaged_further() -> None:
    numbers = random.Random(SEED)
    before = forget_peak()
    for _ in range(CASES // 50):
        crafted.run(numbers.randbytes(64))
    assert peak() - before < MEMORY
