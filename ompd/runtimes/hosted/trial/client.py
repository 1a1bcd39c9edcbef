"""The host of a library on trial: the library's process, which performs one step at a time, and the answers to
callbacks.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ompd.contract.callbacks import Callbacks
from ompd.errors import LibraryError, Rc
from ompd.records import record
from ompd.runtimes.hosted import protocol
from ompd.runtimes.hosted.connection import Connection
from ompd.runtimes.hosted.process import Interface, Limits, Loads
from ompd.runtimes.hosted.protocol import (
    ANSWER_HEAD,
    BATCH,
    BYTES,
    CALLBACK_HEAD,
    RESULTS,
    entry,
)
from ompd.runtimes.hosted.results import Malformed
from ompd.runtimes.hosted.serving import Server
from ompd.runtimes.hosted.signatures import SIGNATURES

Step = Mapping[str, Any]
"""A step, in the form that ``worker`` documents."""

Question = tuple[int, int, int, int, bytes]
"""A callback: its number, the thread's context or 0, two words, bytes."""

_INTERFACE = Interface(
    protocol.TRIAL, "an OMPD library", {number: signature.name for number, signature in SIGNATURES.items()}
)
SECONDS = 10.0
"""The time limit for a step, in seconds."""
_LIMITS = Limits(seconds=SECONDS, memory=1 << 29)
_MAX_KEPT, _QUESTION = 1 << 26, 1 << 9  # bytes of all questions and answers; the least for one question


class Answers:
    """The answers to the callbacks of one target. Answers are kept, so that every run of a case gets the same ones.
    Once the memory for answers is used up, further callbacks fail.
    """

    def __init__(self, callbacks: Callbacks) -> None:
        self._callbacks = callbacks
        self.kept: dict[Question, tuple[int, int, bytes]] = {}
        self._left = _MAX_KEPT

    def of(self, question: Question) -> tuple[int, int, bytes]:
        """Return the answer to a callback: the return code, a word, and bytes."""
        answer = self.kept.get(question)
        if answer is None:
            answer = self._asked(question)
            self._left -= _QUESTION + len(question[-1]) + len(answer[-1])
            if self._left < 0:
                return int(Rc.ERROR), 0, b""
            self.kept[question] = answer
        return answer

    def _asked(self, question: Question) -> tuple[int, int, bytes]:
        which, thread, first, second, raw = question
        server = Server(1, self._callbacks, 1)
        body, _ = server.answer(which, thread, first, second, raw)
        code, count = ANSWER_HEAD.unpack_from(body)
        if code or not count:
            # The standard allows callbacks to return an error for memory that does not exist.
            return int(Rc.ERROR if code == Rc.DEVICE_READ_ERROR else code), 0, b""
        what, _, start, word, size = protocol.ENTRY.unpack_from(body, ANSWER_HEAD.size)
        data = body[ANSWER_HEAD.size + protocol.ENTRY.size :][:size]
        if what == protocol.PAGES:
            data = data[first - start : first - start + second]
        return 0, int(word), bytes(data)


@record
class Reply:
    """The reply to a step. ``ended`` is the reason why the process ended during the step, ``""`` if it did not end."""

    found: Mapping[str, Any]
    ended: str = ""

    @property
    def code(self) -> int | None:
        """The return code of a call, None if the call did not return, or if the library does not have the function."""
        code = self.found.get("code")
        return code if isinstance(code, int) else None

    def word(self, cell: int) -> int:
        """The first word of a cell."""
        return self.words(cell, 1)[0]

    def words(self, cell: int, count: int) -> Sequence[int]:
        """The first words of a cell."""
        raw = self.raw(cell)
        return [int.from_bytes(raw[8 * at : 8 * at + 8], "little") for at in range(count)]

    def raw(self, cell: int) -> bytes:
        """The bytes of a cell."""
        try:
            return bytes.fromhex(self.found["cells"][str(cell)]).ljust(64, b"\0")
        except (KeyError, TypeError, ValueError, AttributeError):
            return bytes(64)


class Trial:
    """A library's process, which performs steps until one of them ends the process.

    :param answers: the answers for each context that the tool passes, by the context's number
    :raises LibraryError: if the process cannot be started, or the library cannot be loaded
    """

    def __init__(self, library: Loads, answers: Mapping[int, Answers]) -> None:
        self._answers = answers
        self.asked: dict[tuple[int, Question], None] = {}
        """The callbacks that were answered, with their contexts."""
        self._connection = Connection(library, _INTERFACE, self._answer, limits=_LIMITS, warn=_ignore, program=None)
        self.functions = self._connection.wait().functions

    def play(self, steps: Iterable[Step]) -> list[Reply]:
        """Perform steps until one ends the process, and return the replies to the performed steps. The last reply may
        report that the process ended.
        """
        replies: list[Reply] = []
        for step in steps:
            replies.append(self._perform(step))
            if replies[-1].ended:
                break
        return replies

    def _perform(self, step: Step) -> Reply:
        try:
            return Reply(self._connection.exchange(BATCH, (json.dumps(step).encode(),), RESULTS, _unpacked))
        except LibraryError as error:
            return Reply({}, error.fault)

    def _answer(self, body: bytes) -> bytes:
        which, context, thread, first, second, _ = CALLBACK_HEAD.unpack_from(body)
        answers = self._answers.get(context)
        if answers is None:
            return ANSWER_HEAD.pack(Rc.STALE_HANDLE, 0)
        question = (which, thread, first, second, body[CALLBACK_HEAD.size :])
        code, word, raw = answers.of(question)
        if question in answers.kept:
            self.asked[context, question] = None
        if code:
            return ANSWER_HEAD.pack(code, 0)
        return ANSWER_HEAD.pack(0, 1) + entry(BYTES, context, first, word, raw)

    def close(self) -> None:
        """End the process."""
        self._connection.fail("has been tried")

    def __enter__(self) -> Trial:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _unpacked(body: bytes) -> dict[str, Any]:
    try:
        reply = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Malformed("a reply that is no JSON") from error
    if not isinstance(reply, dict):
        raise Malformed("a reply that is no object")
    return reply


def _ignore(_text: str) -> None:
    pass  # output of a library on trial is not shown
