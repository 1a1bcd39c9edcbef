"""DMPL in a worker: calls the library's functions for the host."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from ompd.runtimes.hosted.dmpl.protocol import FUNCTIONS, INITIALISE, MAX_NAME, Call
from ompd.runtimes.hosted.dmpl.table import Table, short
from ompd.runtimes.hosted.protocol import ABSENT, CALLED, in_blob, packed_rows, signed
from ompd.runtimes.hosted.worker.channel import Channel, Result, refused, started, stop

_REF, _INT, _WORD = ctypes.c_void_p, ctypes.c_int, ctypes.c_ulonglong
_TO_INT = ctypes.POINTER(_INT)
_BEHIND = b"\xa5" * 64  # placed after a buffer; a library must not change these bytes
# The types of each function's result and arguments
_KINDS: dict[Call, tuple[Any, tuple[Any, ...]]] = {
    Call.INITIALISE: (_INT, (_REF,)),
    Call.VERSION_COMPATIBILITY: (_INT, ()),
    Call.VERSION_STRING: (ctypes.c_char_p, ()),
    Call.ERROR_STRING: (ctypes.c_char_p, (_INT,)),
    Call.DESTROY_PROCESS_INFO: (_INT, (_REF,)),
    Call.DESTROY_THREAD_INFO: (_INT, (_REF,)),
    Call.DEMANGLE_NAME: (_INT, (ctypes.c_char_p, _TO_INT, _REF, _INT, _TO_INT, _TO_INT)),
    Call.GET_TLS_ADDRESS: (_INT, (_REF, _WORD, ctypes.POINTER(_WORD))),
    Call.GET_RTL_NAMES: (ctypes.POINTER(ctypes.c_char_p), (_INT,)),
    Call.EXTEND: (_INT, (_REF,)),
}


class DmplLibrary:
    """The functions of the library, called as in C.

    :param extends: whether to pass the extension to the library, if it accepts one
    """

    allocated = 0  # the library's storage belongs to the debugger

    def __init__(self, channel: Channel, *, extends: bool) -> None:
        self._channel, self._extends = channel, extends
        self._table = Table(channel)
        self._functions: dict[Call, Any] = {}

    def start(self, loaded: ctypes.CDLL) -> Result:
        """Find the library's functions, and return the result of its start."""
        missing = []
        for call, name in FUNCTIONS.items():
            spellings = INITIALISE if call == Call.INITIALISE else (name,)
            exported = next((spelling for spelling in spellings if hasattr(loaded, spelling)), None)
            if exported is None:
                if call != Call.EXTEND:
                    missing.append(name)
                continue
            function = self._functions[call] = getattr(loaded, exported)
            function.restype, function.argtypes = _KINDS[call]
        if missing:
            return refused(ABSENT, 0, " ".join(missing))
        version = self._call(Call.VERSION_COMPATIBILITY)
        text = short(self._call(Call.VERSION_STRING))
        return started(version, text, [(call, FUNCTIONS[call]) for call in self._functions])

    def perform(self, number: int, words: Sequence[int], makes: int, blob: memoryview) -> Result:
        """Make a call that the host has requested, and return its result."""
        if number == Call.INITIALISE:
            return Result(self._initialise())
        if number == Call.DEMANGLE_NAME:
            return self._demangle_name(in_blob(blob, words[0]), signed(words[1]))
        if number == Call.GET_TLS_ADDRESS:
            copy = ctypes.c_ulonglong()
            return Result(self._call(Call.GET_TLS_ADDRESS, *words, ctypes.byref(copy)), CALLED, (copy.value,))
        if number == Call.GET_RTL_NAMES:
            names = self._call(Call.GET_RTL_NAMES, *words)
            return _texts(0, (), short(names[0]), short(names[1])) if names else Result(0)
        if number == Call.ERROR_STRING:
            return _texts(0, (), short(self._call(Call.ERROR_STRING, *words)))
        return Result(self._call(Call(number), *words))

    def _call(self, call: Call, *arguments: Any) -> Any:
        self._channel.begin(call)
        result = self._functions[call](*arguments)
        self._channel.end()
        return result

    def _initialise(self) -> int:
        code = self._call(Call.INITIALISE, ctypes.addressof(self._table.structure))
        if code == 0 and self._extends and Call.EXTEND in self._functions:
            code = self._call(Call.EXTEND, ctypes.addressof(self._table.extension))
        return int(code)

    def _demangle_name(self, mangled: bytes, room: int) -> Result:
        room = max(0, min(room, MAX_NAME))
        buffer = ctypes.create_string_buffer(bytes(room) + _BEHIND, room + len(_BEHIND))
        length, flags, line = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        code = self._call(
            *(Call.DEMANGLE_NAME, mangled, ctypes.byref(length), buffer, room, ctypes.byref(flags), ctypes.byref(line))
        )
        if buffer.raw[room:] != _BEHIND:
            stop(b"the library wrote behind the buffer for a name")
        return _texts(code, (length.value, flags.value, line.value), buffer.raw[:room].partition(b"\0")[0])


def _texts(code: int, words: Sequence[int], *texts: bytes) -> Result:
    return Result(code, CALLED, (0, *words), packed_rows((0, 0, text) for text in texts), len(texts))
