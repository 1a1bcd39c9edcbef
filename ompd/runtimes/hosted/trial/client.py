"""The debugger's side of a trial: sends one step at a time to the library's process, and answers callbacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ompd.contract.callbacks import Callbacks
from ompd.errors import LibraryError, Rc
from ompd.records import record
from ompd.runtimes.hosted import messages, protocol
from ompd.runtimes.hosted.connection import Connection
from ompd.runtimes.hosted.process import Interface, Limits, Loads
from ompd.runtimes.hosted.protocol import ANSWER_HEAD, packed_rows, single_answer
from ompd.runtimes.hosted.serving import Server
from ompd.runtimes.hosted.signatures import SIGNATURES

Step = Mapping[str, Any]
"""A step. ``do`` is ``call``, with ``function``, ``arguments`` and perhaps ``if_ok``; or a key of :data:`_FUNCTIONS`,
with the keys that are listed there. An argument is a key of :data:`_KINDS` and a value. ``worker`` documents their
meanings.
"""

Question = tuple[int, int, int, int, bytes]
"""A callback: its number, the thread's context or 0, two words, bytes."""

_FUNCTIONS: Mapping[str, tuple[int, tuple[str, ...]]] = {
    "fill": (protocol.FILL, ("cell", "byte")),
    "fault": (protocol.FAULT, ("which", "nth", "code", "gives")),
    "poison": (protocol.POISON, ("byte",)),
    "text": (protocol.TEXT, ("cell",)),
    "texts": (protocol.TEXTS, ("cell",)),
    "free": (protocol.FREE, ("cell",)),
    "blocks": (protocol.BLOCKS, ()),
    "called_back": (protocol.CALLED_BACK, ()),
}
_KINDS = {"n": protocol.NUMBER, "at": protocol.AT, "in": protocol.IN, "raw": protocol.RAW, "table": protocol.TABLE}
_NUMBERS = {signature.name: number for number, signature in SIGNATURES.items()}
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
            answer = self._new_answer(question)
            self._left -= _QUESTION + len(question[-1]) + len(answer[-1])
            if self._left < 0:
                return int(Rc.ERROR), 0, b""
            self.kept[question] = answer
        return answer

    def _new_answer(self, question: Question) -> tuple[int, int, bytes]:
        which, thread, first, second, raw = question
        server = Server(1, self._callbacks, 1)
        body, _ = server.answer(which, thread, first, second, raw)
        code, count = ANSWER_HEAD.unpack_from(body)
        if code or not count:
            # The standard allows callbacks to return an error for memory that does not exist.
            return int(Rc.ERROR if code == Rc.DEVICE_READ_ERROR else code), 0, b""
        entry_kind, _, start, word, size = protocol.ENTRY.unpack_from(body, ANSWER_HEAD.size)
        data = body[ANSWER_HEAD.size + protocol.ENTRY.size :][:size]
        if entry_kind == protocol.PAGES:
            data = data[first - start : first - start + second]
        return 0, int(word), bytes(data)


class Text(NamedTuple):
    """A text of the library, None if there is no text; and whether it is in memory that the tool allocated."""

    raw: bytes | None
    is_owned: bool


@record
class Reply:
    """The reply to a step. ``ended`` is the reason why the process ended during the step, ``""`` if it did not end."""

    code: int | None = None
    """The return code of a call, None if the call did not return, or if the library does not have the function."""
    is_skipped: bool = False
    """Whether the call was left out because the previous call had failed."""
    is_faulty: bool = False
    """Whether the requested fault occurred in a callback."""
    cells: tuple[tuple[int, bytes], ...] = ()
    """The numbers and bytes of the cells whose addresses were passed."""
    texts: tuple[Text, ...] | None = ()
    """The texts of a step that reads texts, None if there is no vector of texts."""
    blocks: int | None = None
    """The number of blocks that the library has allocated, None for a step that does not count them."""
    called_back: tuple[int, ...] = ()
    """The number of calls of each callback, if the step counts them."""
    ended: str = ""

    @property
    def text(self) -> Text | None:
        """The first text."""
        return self.texts[0] if self.texts else None

    def word(self, cell: int) -> int:
        """The first word of a cell."""
        return self.words(cell, 1)[0]

    def words(self, cell: int, count: int) -> Sequence[int]:
        """The first words of a cell."""
        raw = self.raw(cell)
        return [int.from_bytes(raw[start : start + 8], "little") for start in range(0, 8 * count, 8)]

    def raw(self, cell: int) -> bytes:
        """The bytes of a cell."""
        return next((raw for number, raw in self.cells if number == cell), b"").ljust(64, b"\0")


class Trial(Connection):
    """A library's process, which performs steps until one of them ends the process.

    :param answers: the answers for each context that the tool passes, by the context's number
    :raises LibraryError: if the process cannot be started, or the library cannot be loaded
    """

    def __init__(self, library: Loads, answers: Mapping[int, Answers]) -> None:
        self._answers = answers
        self.questions: dict[tuple[int, Question], None] = {}
        """The callbacks that were answered, with their contexts."""
        super().__init__(library, _INTERFACE, limits=_LIMITS)
        self.wait()

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
            (result,) = self.make([_call(step)])
        except LibraryError as error:
            return Reply(ended=error.fault)
        return _reply(step["do"], result)

    def answer(self, callback: messages.Callback) -> bytes:
        answers = self._answers.get(callback.context)
        if answers is None:
            return single_answer(Rc.STALE_HANDLE)
        first, second, _ = callback.words
        question = (callback.which, callback.thread, first, second, callback.raw)
        code, word, raw = answers.of(question)
        if question in answers.kept:
            self.questions[callback.context, question] = None
        return single_answer(code, word, raw)

    def close(self) -> None:
        """End the process."""
        self.fail("has been tried")


def _call(step: Step) -> messages.Call:
    if step["do"] != "call":
        function, names = _FUNCTIONS[step["do"]]
        return messages.Call(function, [int(step.get(name, 0)) for name in names])
    rows = []
    for kind, value in step["arguments"]:
        is_raw = kind == "raw"
        rows.append((_KINDS[kind], 0 if is_raw else value % (1 << 64), bytes.fromhex(value) if is_raw else b""))
    return messages.Call(_NUMBERS[step["function"]], (packed_rows(rows), int(step.get("if_ok", False))))


def _reply(do: str, result: messages.Reply) -> Reply:
    if do == "call":
        if result.outcome:
            return Reply(is_skipped=result.outcome == protocol.NOT_CALLED)
        cells = tuple((row.first, row.raw[:64]) for row in result.rows)
        return Reply(result.code, is_faulty=result.words[1] != 0, cells=cells)
    if do in ("text", "texts"):
        texts = tuple(Text(row.raw if row.first else None, row.second != 0) for row in result.rows)
        return Reply(texts=None if result.outcome else texts)
    if do == "blocks":
        return Reply(blocks=result.words[0])
    return Reply(called_back=tuple(row.second for row in result.rows))
