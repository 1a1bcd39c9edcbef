"""Cores with a changed or lost value, and the proofs that only they have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ompd.debugger.files.finder import FileFinder
from ompd.debugger.targets.core import CoreTarget
from ompd.errors import MemoryFault
from ompd.model import VerdictRecord, WhyAnswer
from ompd.questions import threads
from ompd.questions import why as question
from ompd.session import Session

PAGE = 4096
ODD = 0x4141414141414140  # an address that no process has
# What reasoning makes of a verdict, which is right without it, too.
INSTEAD = {"barrier_mismatch", "barrier_absent", "lock_cycle", "lock_abandoned", "external_wait", "laggard"}


class Damaged(CoreTarget):
    """A core with a flipped bit, or without a page: ``flip`` is the bit's address and number."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self.flip: tuple[int, int] | None = None
        self.lost: int | None = None
        self.words: dict[int, bytes] = {}  # that are others

    def read(self, address: int, size: int) -> bytes:
        data = super().read(address, size)
        if self.lost is not None and address < self.lost + PAGE and self.lost < address + size:
            raise MemoryFault(max(address, self.lost), size)
        if self.flip is not None and address <= self.flip[0] < address + size:
            at = self.flip[0] - address
            data = data[:at] + bytes((data[at] ^ 1 << self.flip[1],)) + data[at + 1 :]
        for at, word in self.words.items():
            first, end = max(at, address), min(at + len(word), address + size)
            if first < end:
                data = data[: first - address] + word[first - at : end - at] + data[end - address :]
        return data

    def answer(self) -> WhyAnswer:
        with self.session() as session:
            return question.ask(session)

    @contextmanager
    def session(self) -> Iterator[Session]:
        session = Session(self, FileFinder())
        try:
            yield session
        finally:
            session.process.close()  # and not the target, of which more is asked

    def idle(self) -> tuple[set[int | None], Sequence[str]]:
        """Return the threads that are idle, and the warnings of the answer if it is not complete."""
        with self.session() as session:
            answer = threads.ask(session)
        return {row.native_thread_id for row in answer.rows if row.state == "idle"}, (
            () if answer.complete else answer.warnings
        )


def proofs(answer: WhyAnswer) -> list[VerdictRecord]:
    return [row for row in answer.rows if row.stuck == "proven"]


def wrong(answer: WhyAnswer, whole: WhyAnswer) -> Iterator[VerdictRecord]:
    """Yield what is proven, and not of the whole core: other threads, or another cause."""
    stuck = {node.thread for node in whole.graph.nodes if node.stuck == "proven"}  # those that are idle, too
    kinds = {row.kind for row in proofs(whole)}
    if any(row.confidence != "proven" for row in proofs(whole)):
        kinds |= INSTEAD
    for row in proofs(answer):
        if not set(row.explains) <= stuck or (row.confidence == "proven" and row.kind not in kinds):
            yield row
