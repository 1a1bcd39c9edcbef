"""Cores with a changed or lost value, and the proofs that appear only for these."""

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
ODD = 0x4141414141414140  # not a valid address in any process
# Causes that a proof may name if the cause of a proven verdict on the whole core is not proven.
INSTEAD = {"barrier_mismatch", "barrier_absent", "lock_cycle", "lock_abandoned", "external_wait", "laggard"}


class Damaged(CoreTarget):
    """A core with a flipped bit, a lost page or replaced bytes. ``flip`` is the bit's address and number."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self.flip: tuple[int, int] | None = None
        self.lost: int | None = None
        self.words: dict[int, bytes] = {}  # replaced bytes by address

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
            session.process.close()  # the target stays open for the next session

    def idle(self) -> tuple[set[int | None], Sequence[str]]:
        """Return the idle threads, and the warnings of an incomplete answer."""
        with self.session() as session:
            answer = threads.ask(session)
        return {row.native_thread_id for row in answer.rows if row.state == "idle"}, (
            () if answer.complete else answer.warnings
        )


def proofs(answer: WhyAnswer) -> list[VerdictRecord]:
    return [row for row in answer.rows if row.stuck == "proven"]


def wrong(answer: WhyAnswer, whole: WhyAnswer) -> Iterator[VerdictRecord]:
    """Yield the proven verdicts that the whole core does not support: with other threads or another cause."""
    stuck = {node.thread for node in whole.graph.nodes if node.stuck == "proven"}  # includes idle threads
    kinds = {row.kind for row in proofs(whole)}
    if any(row.confidence != "proven" for row in proofs(whole)):
        kinds |= INSTEAD
    for row in proofs(answer):
        if not set(row.explains) <= stuck or (row.confidence == "proven" and row.kind not in kinds):
            yield row
