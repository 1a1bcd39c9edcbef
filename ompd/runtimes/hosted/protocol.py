"""The messages between the debugger and a library's process, over one stream socket.

docs/dev/hosted-protocol.md describes them for other programs. All numbers are little-endian, and structures are packed.
A message consists of a header, :data:`HEADER`, and a body. OMPD, DMPL and trials have the same messages: the host sends
calls, the worker sends their results. Meanwhile the worker may send callbacks, each of which the host answers. The
numbers of functions and of callbacks are OMPD's in ``signatures.py`` and here, DMPL's in ``dmpl/protocol.py``.

Texts and bytes are in a blob at the end of a message. A word that refers to them has their offset in the blob in its
upper 32 bits, and their size in its lower 32 bits.
"""

from __future__ import annotations

from struct import Struct

TYPE_CHECKING = False  # not from `typing`, whose import takes longer than this whole module

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

VERSION = 3
"""The version of the protocol, which is in the worker's first message."""

OMPD, DMPL, PAPER, TRIAL = "ompd", "dmpl", "paper", "trial"
"""A worker's first argument: OMPD, DMPL, DMPL without its extension, or single calls of OMPD."""

OWN_FAULT = 70
"""The exit status of a worker that has itself failed, or that the library has damaged."""

HEADER = Struct("<II")
"""The number of bytes that follow, and the kind of message, one of the numbers below."""

MAX_MESSAGE = 32 << 20
"""The most bytes in a body. ``runtime_stub/host/host.h`` also has this constant and :data:`MAX_PAGES`."""

MAX_PAGES = 1 << 14
"""The most pages of a process that a worker caches. To cache one more, it drops all others."""

BATCH, RESULTS, CALLBACK, ANSWER, WARNING = range(1, 6)
"""The kinds of messages. The host sends BATCH and ANSWER."""

COUNT = Struct("<I")
"""BATCH: the number of calls, then the calls, then the blob. :data:`RELEASE` and :data:`FORGET` take such numbers."""

CALL = Struct("<HHI5Q")
"""A call: the function's number, the number of arguments, the number of the handle that the call makes or 0, and the
arguments. A handle is passed as its number, a signed number as its two's complement, and bytes in the blob.
"""

RESULTS_HEAD = Struct("<II")
"""RESULTS: the number of results that follow, and the number of blocks that the library has allocated and not freed.
The blob comes last.

The worker's first message has one result, that of the library's start. Its words are the place of its rows, the
version of the protocol, and the library's version of the interface. Its rows are the library's own version, then the
functions that the library has.
"""

RESULT = Struct("<iIII4Q")
"""A result: return code, outcome, number of rows, number of functions called so far (:data:`PROGRESS`), words. If there
are rows, word 0 is their place in the blob.
"""

ROW = Struct("<QQI")
"""A row: two words, and the size of the text that follows."""

CALLBACK_HEAD = Struct("<IIQQQQ")
"""CALLBACK: the callback's number, the context or 0, the thread's context or 0, and three words. Bytes follow."""

ANSWER_HEAD = Struct("<iI")
"""ANSWER: return code, and the number of entries that follow."""

ENTRY = Struct("<IIQQI")
"""An entry of an answer: its kind, the context, two words, and the size of the bytes that follow. OMPD's worker caches
entries. The host may send it more entries than requested. In DMPL and trials an answer has at most one entry.
"""

# Outcomes of a call, in addition to the library's return code
CALLED, ABSENT, NOT_CALLED, NO_HANDLE, BAD_HANDLE, BAD_TEXT, ENDLESS, BAD_CODE, BAD_SIZE, UNLOADED = range(10)

# Functions of OMPD's worker, beside those of the library in ``signatures.py``
LOAD = 38
"""The library's own start, during which its initialisers run. The host never calls it."""
RELEASE = 39
"""Release handles, whose numbers are passed as bytes."""
FORGET = 40
"""Release everything that belongs to contexts, whose numbers are passed as bytes."""
ADD = 41
"""Add a context: its number, and the number of bytes that may be read ahead of a callback's request."""

# Functions of a trial's worker, beside those of the library
FILL, FAULT, POISON, TEXT, TEXTS, FREE, BLOCKS, CALLED_BACK = range(42, 50)

# Kinds of arguments in a trial
NUMBER, AT, IN, RAW, TABLE = range(5)

# Callbacks of OMPD
ASK_SIZES, ASK_SYMBOL, ASK_MEMORY, ASK_STRING, ASK_THREAD = range(1, 6)

# Kinds of entries, and the meaning of the two words in :data:`ENTRY`
SIZES = 1
"""Six bytes, ``ompd_device_type_sizes_t``. Words: 1 if the target has the other byte order, else 0; 0."""
SYMBOL = 2
"""A symbol's name. Words: the context of the thread or 0; the address."""
PAGES = 3
"""Whole pages, which are cached. Words: their address; 0."""
BYTES = 4
"""Exactly the requested bytes, which are not cached. Words: their address; 0."""
THREAD = 5
"""A native identifier. Words: its kind; the context of the thread."""

PAGE = 4096

# The shared page of memory: the number of calls begun so far, and the number of the function that is running, or 0
PROGRESS = Struct("<QQ")

_SIGN, _MASK = 1 << 63, (1 << 64) - 1
_NO_WORDS = (0, 0, 0)


def message(kind: int, *parts: bytes) -> bytes:
    """Return a message."""
    body = b"".join(parts)
    return HEADER.pack(len(body), kind) + body


def packed_rows(texts: Iterable[tuple[int, int, bytes]]) -> bytes:
    """Return the bytes of rows in a message."""
    return b"".join(ROW.pack(first, second, len(text)) + text for first, second, text in texts)


def packed_callback(which: int, context: int, thread: int, words: Sequence[int], raw: bytes) -> bytes:
    """Return the body of a callback.

    :param words: at most three; a signed number is sent as its two's complement
    """
    padding = _NO_WORDS[len(words) :]
    return CALLBACK_HEAD.pack(which, context, thread, *[word & _MASK for word in words], *padding) + raw


def entry(kind: int, context: int, first: int, second: int, raw: bytes) -> bytes:
    """Return an entry of an answer."""
    return ENTRY.pack(kind, context, first, second, len(raw)) + raw


def single_answer(code: int, word: int = 0, raw: bytes = b"") -> bytes:
    """Return the body of an answer with a word and bytes, in one entry."""
    return ANSWER_HEAD.pack(code, 1) + entry(BYTES, 0, word & _MASK, 0, raw)


def in_blob(blob: memoryview, place: int) -> bytes:
    """Return the bytes to which a word refers."""
    offset = place >> 32
    return bytes(blob[offset : offset + (place & 0xFFFFFFFF)])


def signed(word: int) -> int:
    """Return the signed number whose two's complement is *word*."""
    return word - (1 << 64) if word & _SIGN else word
