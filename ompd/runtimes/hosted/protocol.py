"""The messages between the debugger and a library's process, over one stream socket.

docs/dev/hosted-protocol.md describes them for other programs. All numbers are little-endian, and structures are packed.
A message consists of a header, :data:`HEADER`, and a body. All interfaces have the same kinds of messages, and the same
bodies of READY and WARNING. The other bodies are defined here for OMPD, in ``dmpl/protocol.py`` for DMPL, and in
``trial/worker.py`` for a trial.

OMPD's bodies are arrays of C structures. Texts and bytes are in a blob at the end of a message. A word that refers to
them has their offset in the blob in its upper 32 bits, and their size in its lower 32 bits.
"""

from __future__ import annotations

from struct import Struct

TYPE_CHECKING = False  # not from `typing`, whose import takes longer than this whole module

if TYPE_CHECKING:
    from collections.abc import Iterable

VERSION = 2
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

LOAD = 38
"""A function number that stands for loading the library, during which the library's initialisers run."""

READY, BATCH, RESULTS, CALLBACK, ANSWER, WARNING, FINISH, FINISHED = range(1, 9)

READY_HEAD = Struct("<IIiIq")
"""READY, from the worker, once it has loaded the library and, for OMPD, initialised it: the protocol's version,
outcome, return code, number of rows that follow, the library's version of the interface. Rows: the library's own
version, then the functions that the library has.
"""

BATCH_HEAD = Struct("<IIII")
"""BATCH, from the host: the numbers of handles to release, contexts to forget, contexts to add, and calls to make,
which follow in this order. Handles and contexts are numbers of 32 bits. An added context is followed by the number of
bytes that may be read ahead of a callback's request.
"""

NUMBER = Struct("<I")
CALL = Struct("<HHI5Q")
"""A call: the function's number, the number of arguments, the number of the handle that the call makes or 0, and the
arguments. A handle is passed as its number, a signed number as its two's complement, and bytes in the blob.
"""

RESULTS_HEAD = Struct("<III")
"""RESULTS, from the worker: the number of results that follow, the number of blocks that the library has allocated and
not freed, and the size of these blocks in units of 1024 bytes.
"""

RESULT = Struct("<iIII4Q")
"""A result: return code, outcome, number of rows, number of functions called so far (:data:`PROGRESS`), words. If there
are rows, word 0 is their place in the blob.
"""

ROW = Struct("<QQI")
"""A row: two words, and the size of the text that follows."""

CALLBACK_HEAD = Struct("<IIQQQQ")
"""CALLBACK, from the worker: the callback's number, the context, the context of the thread or 0, and three words. Bytes
follow.
"""

ANSWER_HEAD = Struct("<iI")
"""ANSWER, from the host: return code, and the number of entries that follow."""

ENTRY = Struct("<IIQQI")
"""An entry of an answer: its kind, the context, two words, and the size of the bytes that follow. The worker caches
entries. The host may send more entries than requested.
"""

# Outcomes of a call, in addition to the library's return code
CALLED, ABSENT, NOT_CALLED, NO_HANDLE, BAD_HANDLE, BAD_TEXT, ENDLESS, BAD_CODE, BAD_SIZE, UNLOADED = range(10)

# Callbacks
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


def message(kind: int, *parts: bytes) -> bytes:
    """Return a message."""
    body = b"".join(parts)
    return HEADER.pack(len(body), kind) + body


def packed_rows(texts: Iterable[tuple[int, int, bytes]]) -> bytes:
    """Return the bytes of rows in a message."""
    return b"".join(ROW.pack(first, second, len(text)) + text for first, second, text in texts)


def entry(what: int, context: int, first: int, second: int, raw: bytes) -> bytes:
    """Return an entry of an answer."""
    return ENTRY.pack(what, context, first, second, len(raw)) + raw
