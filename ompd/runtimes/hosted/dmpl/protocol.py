"""The numbers of DMPL's functions and callbacks in messages, and their arguments.

The arguments of a call are numbers, and bytes in the blob. The words of a callback are its arguments in C's order,
without places for results. Processes, threads and types are identified by the debugger's numbers, below 2**31 and never
0. A library's storage is identified by its address in the library's process.
"""

from __future__ import annotations

from enum import IntEnum

from ompd.runtimes.hosted.protocol import LOAD

MAX_DATA = 1 << 20
"""The most bytes that a callback may read, convert or allocate at once."""
MAX_NAME = 1 << 17
"""The longest name in a call or a callback, in bytes."""


class Call(IntEnum):
    """The functions, by number. The host does not call the versions and EXTEND: the worker itself calls them."""

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
    """The callbacks, by number, in the order of DMPL's callback table.

    :data:`ARGUMENTS` has their arguments. An answer has a code, a word and bytes. If a callback's function in C returns
    no code, a code other than 0 says that the debugger has no answer.
    """

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


ARGUMENTS = {
    Callback.PUT_PROCESS_INFO: "uu",
    Callback.GET_PROCESS_INFO: "u",
    Callback.PUT_THREAD_INFO: "uu",
    Callback.GET_THREAD_INFO: "u",
    Callback.GET_PROCESS: "u",
    Callback.GET_TYPE_SIZES: "u",  # gives the sizes in bytes, five bytes
    Callback.FIND_SYMBOL: "ub",
    Callback.FIND_TYPE: "uib",
    Callback.GET_DATA: "uui",
    Callback.GET_PTHREAD_KEY: "ui",
    Callback.TARGET_TO_HOST: "ub",
    Callback.MALLOC: "uu",  # size, and address (0 if too large); gives whether it is granted
    Callback.FREE: "u",  # gives whether it was the debugger's storage
    Callback.ERROR_STRING: "i",
    Callback.PRINTS: "b",
    Callback.SIZEOF: "u",
    Callback.FIELD_OFFSET: "ub",
    Callback.SOURCE_OF: "b",  # gives the line and the name
}
"""The arguments of callbacks: u and i for words, of which i is signed, and b for the bytes."""
INITIALISE = ("DMPL_initialise", "DMPL_initialize")
"""The two spellings of the same function."""
FUNCTIONS = {call: f"DMPL_{call.name.lower()}" for call in Call}
"""The functions of a library; ``DMPL_extend`` may be missing."""
NAMES = {**{int(call): name for call, name in FUNCTIONS.items()}, LOAD: "the library's own start"}
