"""Memory of a stopped process: its budget, and reads of pages that the target omits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ompd.binary.core.notes import AT_PAGESZ
from ompd.debugger.memory import PAGE, TargetMemory
from ompd.debugger.targets.base import PageOmitted, page_size
from ompd.errors import CorruptState, MemoryFault, TooMuch
from ompd.isa.x86.architectures import X86_64
from tests.support.garbage import uncollected

HELD, OMITTED, LOST = 0x1000, 0x2000, 0x3000


class Page:
    """A target with one page. A second page is omitted but in a file; a third is in no file."""

    architecture, loss, kind = X86_64, None, "core"

    def thread_ids(self) -> list[int]:
        return [1]

    def read(self, address: int, size: int) -> bytes:
        if address >= HELD and address + size <= HELD + PAGE:
            return (b"text\0" + bytes(PAGE))[address - HELD : address - HELD + size]
        raise PageOmitted(address, size) if address < LOST else MemoryFault(address, size)


class Modules:
    """One module, mapped at the page that the target omits."""

    def at(self, address: int) -> Any:
        file = SimpleNamespace(read_file=lambda at, size: b"f" * size, record=None, damaged_bytes=0)
        return file if OMITTED <= address < LOST else None


def memory() -> TargetMemory:
    target: Any = Page()
    modules: Any = Modules()
    return TargetMemory(target, modules)


def test_a_page_that_is_left_out_is_read_from_its_file() -> None:
    read = memory().read
    assert read(HELD, 4) == b"text"
    assert read(OMITTED, 3) == b"fff"
    with pytest.raises(MemoryFault):
        read(LOST, 1)


@pytest.mark.parametrize("fault", [None, "its file is another one"])
def test_reads_that_fail_leave_nothing_for_the_collector(fault: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    # The garbage collector does not run in the command.
    module = SimpleNamespace(read_file=lambda at, size: None, record=SimpleNamespace(fault=fault))
    monkeypatch.setattr(Modules, "at", lambda self, address: module)
    read = memory().read
    with uncollected() as left:
        for _ in range(100):
            with pytest.raises(MemoryFault, match=fault):
                read(OMITTED, 1)
    assert len(left) < 100


def test_a_query_ends_when_its_budget_is_spent() -> None:
    bounded = memory()
    bounded.limit_reads(2)
    assert bounded.spent is None
    bounded.read(HELD, 1)
    bounded.read(HELD, 1)
    with pytest.raises(TooMuch):
        bounded.read(HELD, 1)
    assert bounded.spent is not None
    bounded.begin_question()
    assert bounded.read(HELD, 1) == b"t" and bounded.spent is None
    bounded.bytes_left = 0
    bounded.read(HELD, 8)
    with pytest.raises(TooMuch):
        bounded.read(HELD, 8)


def test_pages_that_are_read_are_noted() -> None:
    noting = memory()
    pages = noting.note_reads()
    noting.read(HELD + PAGE - 4, 4)
    noting.read(OMITTED, 8)
    assert pages == {HELD // PAGE, OMITTED // PAGE}
    assert noting.read_code(OMITTED, 2) == b"ff"


def test_a_string_ends_with_its_nul() -> None:
    assert memory().read_string(HELD) == b"text"
    with pytest.raises(CorruptState):
        memory().read_string(OMITTED, 64)


@pytest.mark.parametrize(
    ("vector", "size"),
    [({}, 4096), ({AT_PAGESZ: 65536}, 65536), ({AT_PAGESZ: 5000}, 4096), ({AT_PAGESZ: 1 << 40}, 4096)],
)
def test_the_size_of_a_page_is_the_targets_if_it_can_be_one(vector: dict[int, int], size: int) -> None:
    target: Any = SimpleNamespace(auxiliary_vector=lambda: vector)
    assert page_size(target) == size
