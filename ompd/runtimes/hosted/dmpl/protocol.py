"""The messages between a debugger and the process of a DMPL library. Their frames are those of ``hosted/protocol.py``.

The kinds of messages are BATCH for a call, RESULTS for its result, CALLBACK and ANSWER. Calls and callbacks begin with
their number (32 bits). The number determines the fields that follow in the body. A field is a signed number of 64 bits,
or bytes after their count (32 bits). Before the result of a call, there may be any number of callbacks, each answered
before the next.

Processes, threads and types are identified by the debugger's numbers, below 2**31 and never 0. A library's storage is
identified by its address in the library's process.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from ompd.runtimes.hosted.protocol import LOAD, NUMBER
from ompd.runtimes.hosted.results import Malformed

Field = int | bytes

MAX_DATA = 1 << 20
"""The most bytes that a callback may read, convert or allocate at once."""
MAX_NAME = 1 << 17
"""The longest name in a call or a callback, in bytes."""

_WORD = struct.Struct("<q")


class Call(IntEnum):
    """The calls, by number. Calls that :data:`CALLS` leaves out are made by the worker itself."""

    INITIALISE = 1
    VERSION_COMPATIBILITY = 2
    VERSION_STRING = 3
    ERROR_STRING = 4
    DESTROY_PROCESS_INFO = 5
    DESTROY_THREAD_INFO = 6
    DEMANGLE_NAME = 7
    GET_TLS_ADDRESS = 8
    GET_RTL_NAMES = 9
    EXTEND = 10


class Callback(IntEnum):
    """The callbacks, by number, in the order of DMPL's callback table."""

    PUT_PROCESS_INFO = 1
    GET_PROCESS_INFO = 2
    PUT_THREAD_INFO = 3
    GET_THREAD_INFO = 4
    GET_PROCESS = 5
    GET_TYPE_SIZES = 6
    FIND_SYMBOL = 7
    FIND_TYPE = 8
    GET_DATA = 9
    GET_PTHREAD_KEY = 10
    TARGET_TO_HOST = 11
    MALLOC = 12
    FREE = 13
    ERROR_STRING = 14
    PRINTS = 15
    SIZEOF = 16
    FIELD_OFFSET = 17
    SOURCE_OF = 18


# The fields of each call or callback, then those of its answer. A letter is a field: n for a number, b for bytes.
CALLS = {
    Call.INITIALISE: ("", "n"),
    Call.ERROR_STRING: ("n", "b"),
    Call.DESTROY_PROCESS_INFO: ("n", "n"),
    Call.DESTROY_THREAD_INFO: ("n", "n"),
    Call.DEMANGLE_NAME: ("bn", "nnbnn"),
    Call.GET_TLS_ADDRESS: ("nn", "nn"),
    Call.GET_RTL_NAMES: ("n", "nbb"),
}
CALLBACKS = {
    Callback.PUT_PROCESS_INFO: ("nn", ""),
    Callback.GET_PROCESS_INFO: ("n", "n"),
    Callback.PUT_THREAD_INFO: ("nn", ""),
    Callback.GET_THREAD_INFO: ("n", "n"),
    Callback.GET_PROCESS: ("n", "n"),
    Callback.GET_TYPE_SIZES: ("n", "nnnnnn"),
    Callback.FIND_SYMBOL: ("nb", "nn"),
    Callback.FIND_TYPE: ("nbn", "n"),
    Callback.GET_DATA: ("nnn", "nb"),
    Callback.GET_PTHREAD_KEY: ("nn", "nn"),
    Callback.TARGET_TO_HOST: ("nb", "b"),
    Callback.MALLOC: ("nn", "n"),  # size, and address (0 if too large); whether it is granted
    Callback.FREE: ("n", "n"),  # whether it was the debugger's storage
    Callback.ERROR_STRING: ("n", "b"),
    Callback.PRINTS: ("b", ""),
    Callback.SIZEOF: ("n", "n"),
    Callback.FIELD_OFFSET: ("nb", "n"),
    Callback.SOURCE_OF: ("b", "nbn"),  # whether the function is known, its name, the line
}
INITIALISE = ("DMPL_initialise", "DMPL_initialize")
"""The two spellings of the same function."""
FUNCTIONS = {call: f"DMPL_{call.name.lower()}" for call in Call}
"""The functions of a library; ``DMPL_extend`` may be missing."""
NAMES = {**{int(call): name for call, name in FUNCTIONS.items()}, LOAD: "the library's own start"}


def packed(fields: Sequence[Field]) -> bytes:
    """Return the bytes that encode *fields* in a message."""
    parts = []
    for field in fields:
        if isinstance(field, int):
            parts.append(_WORD.pack((field + (1 << 63)) % (1 << 64) - (1 << 63)))
        else:
            parts += (NUMBER.pack(len(field)), field)
    return b"".join(parts)


def unpacked(body: bytes, kinds: str, start: int = 0) -> list[Any]:
    """Return the fields of a message.

    :param start: the index at which the fields begin
    :raises Malformed: if the fields do not fit *kinds*
    """
    fields: list[Any] = []
    at = start
    try:
        for kind in kinds:
            if kind == "n":
                fields.append(_WORD.unpack_from(body, at)[0])
                at += _WORD.size
            else:
                (size,) = NUMBER.unpack_from(body, at)
                at += NUMBER.size
                fields.append(body[at : at + size])
                at += size
    except struct.error as error:
        raise Malformed(f"a message of {len(body)} bytes is too short") from error
    if at != len(body):
        raise Malformed(f"a message has {len(body)} bytes, and its fields {at}")
    return fields
