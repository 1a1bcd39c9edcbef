"""The messages between the debugger and a library's process, over one stream socket.

docs/dev/hosted-protocol.md describes them for other programs. All numbers are little-endian, structures are packed. A
message is a header, :data:`HEADER`, and a body. The kinds of messages are the same for all interfaces, and so are READY
and WARNING. The bodies of the others are OMPD's here, DMPL's in ``dmpl/protocol.py``, and a trial's in
``trial/worker.py``.

OMPD's bodies are arrays of C structures. Texts and bytes are in a blob at the end of a message. A word for some of them
has their offset in the blob in its upper 32 bits, and their size in the lower ones.
"""

from __future__ import annotations

from struct import Struct

TYPE_CHECKING = False  # as that of `typing`, whose import takes longer than all that is here

if TYPE_CHECKING:
    from collections.abc import Iterable

VERSION = 2
"""The version of the protocol, in the worker's first message."""

OMPD, DMPL, PAPER, TRIAL = "ompd", "dmpl", "paper", "trial"
"""The interfaces, DMPL without its extension, and single calls of OMPD: a worker's first argument."""

OWN_FAULT = 70
"""The status of a worker that is at fault itself, or that the library has damaged."""

HEADER = Struct("<II")
"""The number of bytes that follow, and the kind of message: one of the numbers below."""

MAX_MESSAGE = 32 << 20
"""Bytes of a body. ``runtime_stub/host/host.h`` has this and :data:`MAX_PAGES`, too."""

MAX_PAGES = 1 << 14
"""Pages of a process that a worker keeps at most. With one more it forgets all others."""

LOAD = 38
"""The number of a function that stands for the loading of the library, whose initialisers run meanwhile."""

READY, BATCH, RESULTS, CALLBACK, ANSWER, WARNING, FINISH, FINISHED = range(1, 9)

READY_HEAD = Struct("<IIiIq")
"""READY, of the worker, once it has loaded the library, and initialised one of OMPD: the protocol's version, outcome,
return code, how many rows follow, the library's version of the interface. Rows: the library's own version, then the
functions that it has.
"""

BATCH_HEAD = Struct("<IIII")
"""BATCH, of the host: how many handles are to be released, contexts to be forgotten, contexts to be added, and calls to
be made, in this order. Handles and contexts are numbers of 32 bits; an added context is followed by how many bytes may
be read beyond what a callback wants.
"""

NUMBER = Struct("<I")
CALL = Struct("<HHI5Q")
"""A call: the function's number, how many arguments it has, the number of the handle that it makes or 0, arguments. An
argument that is a handle is its number, a signed one is its two's complement, bytes are in the blob.
"""

RESULTS_HEAD = Struct("<III")
"""RESULTS, of the worker: how many results follow, how many blocks the library has allocated and not freed, and how
many bytes these have, in units of 1024.
"""

RESULT = Struct("<iIII4Q")
"""A result: return code, outcome, how many rows, how many functions have been called in all (:data:`PROGRESS`), words.
If there are rows, word 0 says where they are in the blob.
"""

ROW = Struct("<QQI")
"""A row: two words, and the size of the text that follows."""

CALLBACK_HEAD = Struct("<IIQQQQ")
"""CALLBACK, of the worker: which, the context, the context of the thread or 0, and three words. Bytes follow."""

ANSWER_HEAD = Struct("<iI")
"""ANSWER, of the host: return code, and how many entries follow."""

ENTRY = Struct("<IIQQI")
"""An entry of an answer: its kind, the context, two words, and the size of the bytes that follow. The worker keeps it.
The host may send more entries than needed.
"""

# Outcomes of a call, beside the library's return code
CALLED, ABSENT, NOT_CALLED, NO_HANDLE, BAD_HANDLE, BAD_TEXT, ENDLESS, BAD_CODE, BAD_SIZE, UNLOADED = range(10)

# Callbacks
ASK_SIZES, ASK_SYMBOL, ASK_MEMORY, ASK_STRING, ASK_THREAD = range(1, 6)

# Entries: of :data:`ENTRY`'s two words
SIZES = 1
"""Six bytes, ``ompd_device_type_sizes_t``. Words: 1 if the target has the other byte order; 0."""
SYMBOL = 2
"""A symbol's name. Words: the context of the thread or 0; the address."""
PAGES = 3
"""Whole pages, to be kept. Words: their address; 0."""
BYTES = 4
"""Exactly the bytes that are wanted, not to be kept. Words: their address; 0."""
THREAD = 5
"""A native identifier. Words: its kind; the context of the thread."""

PAGE = 4096

# The page of memory that both share: how many calls have been begun, and the number of the function that runs, or 0
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
