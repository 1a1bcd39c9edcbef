"""Stacks by their shape: facts from a shape, without frames, equal the facts from the frames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ompd.binary.elf import symbols
from ompd.binary.elf.elf import ElfFile
from ompd.binary.elf.symbols import SymbolTable
from ompd.contract.process import Frame, Stack, shape_of
from ompd.inspection import Inspection
from ompd.safety.reading import open_paged
from tests.support import stopped

THREADS = 64


@pytest.mark.parametrize("runtime", ["intel", "libgomp"])
def test_a_stack_has_the_shape_of_its_frames(runtime: str) -> None:
    core = stopped("many", mode="neither", threads=THREADS, runtime=runtime)
    with Inspection.open_core(core.core) as session:
        process = session.process
        stacks = [process.stacks.stack(thread) for thread in process.threads.ids()]
        unwinder = process.stacks.unwinder
        for thread, stack in zip(process.threads.ids(), stacks, strict=True):
            frames = list(unwinder.unwind(process.threads.registers(thread)))
            assert stack.stopped is None and stack.shape == shape_of(tuple(frames))
            assert stack.innermost == frames[0]
            assert stack.frames == tuple(frames)
        # Most threads of the team wait at one place, so they share a shape.
        assert len({id(stack.shape) for stack in stacks}) < len(stacks) / 4


def test_an_answer_about_many_threads_looks_at_the_frames_of_few(monkeypatch: pytest.MonkeyPatch) -> None:
    core = stopped("many", mode="neither", threads=THREADS, runtime="intel")
    looked_at: set[int] = set()
    frames: Any = Stack.__dict__["frames"]

    def noting(stack: Stack) -> tuple[Frame, ...]:
        looked_at.add(id(stack))
        return frames.__get__(stack)  # type: ignore[no-any-return]

    monkeypatch.setattr(Stack, "frames", property(noting, frames.__set__))
    with Inspection.open_core(core.core) as session:
        answer = session.ask_threads()
        assert answer.complete and len(answer.rows) >= THREADS
        assert 0 < len(looked_at) < THREADS / 4


def test_a_stack_without_frames_has_no_innermost_one() -> None:
    assert Stack((), None).innermost is None


class Kept:
    """A cache in memory, in place of one on a disk."""

    def __init__(self) -> None:
        self.entries: dict[str, bytes] = {}

    def get(self, what: str) -> bytes | None:
        return self.entries.get(what)

    def put(self, what: str, payload: bytes) -> None:
        self.entries[what] = payload


def test_a_name_that_a_large_table_does_not_have_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    core = stopped("many", mode="neither", threads=THREADS, runtime="intel")
    monkeypatch.setattr(symbols, "_MIN_STRINGS", 0)
    kept = Kept()

    def table() -> SymbolTable:
        return SymbolTable(_elf(core.executable), None, lambda elf: kept)

    def forbidden(self: object, name: str) -> list[symbols.Symbol]:
        raise AssertionError(name)

    assert table().find("no_such_name") is None and table().find("main") is not None
    assert kept.entries and all(b"no_such_name" in payload.split() for payload in kept.entries.values())
    assert table().find("main") is not None
    monkeypatch.setattr(symbols.SymbolSection, "find", forbidden)
    assert table().find("no_such_name") is None
    with pytest.raises(AssertionError):
        table().find("main")


def _elf(path: Path) -> ElfFile:
    return ElfFile(open_paged(str(path)), str(path))
