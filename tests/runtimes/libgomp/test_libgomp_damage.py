"""libgomp: targets in LLDB, snapshots, and damaged targets."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from ompd.binary.elf.elf import PF_W
from ompd.debugger.targets.core import CoreTarget
from tests.support import FULL, running
from tests.support.cutting import PAGE, Holes, check_cut, intact_of, places_to_cut, wrong
from tests.support.damage import ask_all, cut
from tests.support.libgomp import FACTS, on_libgomp
from tests.support.lldb import LldbHost
from tests.support.snapshots import answers, snapshot, without_files

# Targets


@pytest.mark.xdist_group("lldb")
@pytest.mark.parametrize(
    ("version", "program"),
    [(22, "task_tree"), (19, "nested"), (14, "nested"), *([(22, "nested"), (22, "lock")] * FULL)],
)
@pytest.mark.quick()
def test_of_cores_in_lldb(version: int, program: str) -> None:
    core = on_libgomp(program)
    host = LldbHost(version)
    try:
        answer = host.compare_core(core)
    finally:
        host.close()
    assert answer["differences"] == []
    assert dict(sorted(answer["equal"].items())) == json.loads(FACTS.read_text())[program]


@pytest.mark.xdist_group("lldb")
def test_of_a_process_in_lldb(tmp_path: Path) -> None:
    host = LldbHost(22)
    try:
        with running("nested", mode="neither", runtime="libgomp", folder=tmp_path) as alive:
            assert host.compare_live(alive)["differences"] == []
    finally:
        host.close()


@pytest.mark.parametrize("program", ["nested", "task_tree", "lock", "between"])
@pytest.mark.quick("nested", "lock", "between")
def test_snapshots(program: str, tmp_path: Path) -> None:
    core = on_libgomp(program).core
    assert without_files(snapshot(core, tmp_path)) == answers(core)


# Damage


@pytest.mark.parametrize("program", ["nested", "task_tree", "between", "nest_lock"])
@pytest.mark.quick("nest_lock")
def test_no_fact_is_wrong_whatever_page_is_lost(program: str) -> None:
    target = Holes(str(on_libgomp(program).core))
    intact = target.ask_all()
    assert len(target.pages) > 20
    for page in sorted(target.pages)[:: 1 if FULL else 3]:
        target.hole = page
        assert wrong(target.ask_all(), intact) == [], f"page at {page * PAGE:#x}"


@pytest.mark.parametrize("kind", ["kernel", "gcore"])
@pytest.mark.quick("kernel")
def test_no_fact_is_wrong_wherever_a_core_is_cut(kind: str, tmp_path: Path) -> None:
    core = on_libgomp("nested", kind=kind)
    intact = intact_of(core)
    for size in sorted(places_to_cut(core.core), reverse=True):
        check_cut(ask_all(cut(core.core, tmp_path / "core", size)), intact, size, core.core)


@pytest.mark.parametrize("program", ["nested", "task_tree", "nest_lock"])
@pytest.mark.quick("task_tree")
def test_structures_of_lies_end_in_words(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Words of the pages that ompd reads point elsewhere, or hold wrong counts.
    core = on_libgomp(program)
    target = Holes(str(core.core))
    intact = target.ask_all()
    writable = [page for page in target.pages if is_data(target, page)]
    chance = random.Random(program)
    honest = CoreTarget.read
    lies: dict[int, bytes] = {}

    def read(self: CoreTarget, address: int, size: int) -> bytes:
        data = bytearray(honest(self, address, size))
        for at, word in lies.items():
            if address < at + 8 and at < address + size:
                for place in range(8):
                    if 0 <= at + place - address < size:
                        data[at + place - address] = word[place]
        return bytes(data)

    monkeypatch.setattr(CoreTarget, "read", read)
    for _ in range(600 if FULL else 25):
        lies.clear()
        for _ in range(chance.randrange(1, 6)):
            at = chance.choice(writable) * PAGE + 8 * chance.randrange(PAGE // 8)
            other = chance.choice(writable) * PAGE + 8 * chance.randrange(PAGE // 8)
            value = chance.choice([0, 1, 2, 0xFFFF, (1 << 64) - 1, other, other, at, at - 8, 0x0123456789ABCDEF])
            lies[at] = value.to_bytes(8, "little")
        target.hole = None
        told = target.ask_all()
        assert told.answers.keys() | told.errors.keys() == intact.answers.keys() and all(map(str, told.errors.values()))


def is_data(target: Holes, page: int) -> bool:
    region = next((m for m in target.regions() if m.start <= page * PAGE < m.end), None)
    return region is not None and bool(region.flags & PF_W)
