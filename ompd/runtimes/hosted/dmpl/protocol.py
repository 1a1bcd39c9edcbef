"""The protocol between a debugger and the process that hosts a DMPL library: ``worker``, or
``runtime_stub/host/dmpl_host.c``.

Messages go both ways through one socket: the size of what follows (32 bits), a number that says what it is (32 bits),
and fields, which the number determines. A field is a signed number of 64 bits, or bytes behind their number (32 bits).
All are in the byte order of this machine. The debugger sends a call, gets any number of callbacks, each of which it
answers before the next, and the call's result.

Processes, threads and types are the debugger's numbers, below 2**31 and never 0; what a library keeps with them is
named by its address in that process.

Standard input of the process is a pipe to which nothing is written: it ends when the debugger's end is closed.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any

Field = int | bytes

MAX_MESSAGE = 2 << 20
MAX_NAME = 1 << 17
"""Longest name that a call or a callback may have, in bytes."""

_HEAD = struct.Struct("=II")
_NUMBER = struct.Struct("=q")
_SIZE = struct.Struct("=I")
RESULT = 0


class Call(IntEnum):
    """What the debugger asks for, by the numbers of messages."""

    HELLO = 1
    INITIALISE = 2
    ERROR_STRING = 3
    DESTROY_PROCESS_INFO = 4
    DESTROY_THREAD_INFO = 5
    DEMANGLE_NAME = 6
    GET_TLS_ADDRESS = 7
    GET_RTL_NAMES = 8


class Callback(IntEnum):
    """What the library asks the debugger for, by the numbers of messages; in the order of the table."""

    PUT_PROCESS_INFO = 101
    GET_PROCESS_INFO = 102
    PUT_THREAD_INFO = 103
    GET_THREAD_INFO = 104
    GET_PROCESS = 105
    GET_TYPE_SIZES = 106
    FIND_SYMBOL = 107
    FIND_TYPE = 108
    GET_DATA = 109
    GET_PTHREAD_KEY = 110
    TARGET_TO_HOST = 111
    MALLOC = 112
    FREE = 113
    ERROR_STRING = 114
    PRINTS = 115
    SIZEOF = 116
    FIELD_OFFSET = 117
    SOURCE_OF = 118


# The fields of each message and of its answer: n for a number, b for bytes.
CALLS = {
    # whether the library is loaded, why not, functions that it does not have; its version, as number and text
    Call.HELLO: ("", "nbbnb"),
    Call.INITIALISE: ("n", "n"),  # whether it is given the extended table
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
    Callback.MALLOC: ("nn", "n"),  # size, and the address of the storage if it may have it
    Callback.FREE: ("n", "n"),  # whether it was the debugger's storage
    Callback.ERROR_STRING: ("n", "b"),
    Callback.PRINTS: ("b", ""),
    Callback.SIZEOF: ("n", "n"),
    Callback.FIELD_OFFSET: ("nb", "n"),
    Callback.SOURCE_OF: ("b", "nbn"),  # whether the function is known, its name, the line
}
FUNCTIONS = (
    *("DMPL_version_compatibility", "DMPL_version_string", "DMPL_error_string", "DMPL_destroy_process_info"),
    *("DMPL_destroy_thread_info", "DMPL_demangle_name", "DMPL_get_tls_address", "DMPL_get_rtl_names"),
)
INITIALISE = ("DMPL_initialise", "DMPL_initialize")
"""The two spellings of one function."""


class Garbage(Exception):
    """A message is not as it should be."""


def packed(number: int, fields: Sequence[Field]) -> bytes:
    """Return a message."""
    parts = []
    for field in fields:
        if isinstance(field, int):
            parts.append(_NUMBER.pack((field + (1 << 63)) % (1 << 64) - (1 << 63)))
        else:
            parts += (_SIZE.pack(len(field)), field)
    body = b"".join(parts)
    return _HEAD.pack(4 + len(body), number) + body


def unpacked(body: bytes, kinds: str) -> list[Any]:
    """Return the fields of a message.

    :raises Garbage: if they are others than *kinds* says
    """
    fields: list[Any] = []
    at = 0
    try:
        for kind in kinds:
            if kind == "n":
                fields.append(_NUMBER.unpack_from(body, at)[0])
                at += _NUMBER.size
            else:
                (size,) = _SIZE.unpack_from(body, at)
                at += _SIZE.size
                fields.append(body[at : at + size])
                at += size
    except struct.error as error:
        raise Garbage(f"a message of {len(body)} bytes is too short") from error
    if at != len(body):
        raise Garbage(f"a message has {len(body)} bytes, and its fields {at}")
    return fields


class Stream:
    """Messages of one end of a socket.

    :param wait: is called before each read; may raise
    """

    def __init__(self, end: socket.socket, wait: Callable[[], None] = lambda: None) -> None:
        self._end = end
        self._wait = wait

    def send(self, number: int, fields: Sequence[Field]) -> None:
        """Send a message."""
        self._end.sendall(packed(number, fields))

    def receive(self) -> tuple[int, bytes]:
        """Return the number of the next message, and its fields as they are.

        :raises EOFError: if the other end is closed
        :raises Garbage: if it is too large
        """
        size, number = _HEAD.unpack(self._exactly(_HEAD.size))
        if not _SIZE.size <= size <= MAX_MESSAGE:
            raise Garbage(f"a message says that it has {size} bytes")
        return number, self._exactly(size - _SIZE.size)

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            self._wait()
            part = self._end.recv(size - len(parts))
            if not part:
                raise EOFError
            parts += part
        return bytes(parts)
