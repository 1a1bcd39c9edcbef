"""DMPL in a worker: calls the library's functions for the host."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from ompd.runtimes.hosted.dmpl.protocol import CALLS, FUNCTIONS, INITIALISE, MAX_NAME, Call, Field, packed, unpacked
from ompd.runtimes.hosted.dmpl.table import Table, short
from ompd.runtimes.hosted.protocol import ABSENT, BATCH, NUMBER, RESULTS
from ompd.runtimes.hosted.worker.channel import Channel, stop

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


def serve(channel: Channel) -> Callable[[ctypes.CDLL], None]:
    """Return the function that serves the host's calls of a library."""
    return _Worker(channel, extends=True).run


def serve_paper(channel: Channel) -> Callable[[ctypes.CDLL], None]:
    """Return the function that serves the host's calls of a library, without the extension."""
    return _Worker(channel, extends=False).run


class _Worker:
    def __init__(self, channel: Channel, *, extends: bool) -> None:
        self._channel, self._extends = channel, extends
        self._table = Table(channel)
        self._functions: dict[Call, Any] = {}

    def run(self, loaded: ctypes.CDLL) -> None:
        missing = []
        for call, name in FUNCTIONS.items():
            spellings = INITIALISE if call == Call.INITIALISE else (name,)
            found = next((one for one in spellings if hasattr(loaded, one)), None)
            if found is None:
                if call != Call.EXTEND:
                    missing.append(name)
                continue
            function = self._functions[call] = getattr(loaded, found)
            function.restype, function.argtypes = _KINDS[call]
        if missing:
            self._channel.refuse(ABSENT, 0, " ".join(missing))
            return
        version = self._call(Call.VERSION_COMPATIBILITY)
        text = short(self._call(Call.VERSION_STRING))
        self._channel.ready(version, text, [(call, FUNCTIONS[call]) for call in self._functions])
        calls: dict[int, Callable[..., Sequence[Field]]] = {
            Call.INITIALISE: self._initialise,
            Call.ERROR_STRING: self._error_string,
            Call.DESTROY_PROCESS_INFO: self._destroy_process_info,
            Call.DESTROY_THREAD_INFO: self._destroy_thread_info,
            Call.DEMANGLE_NAME: self._demangle_name,
            Call.GET_TLS_ADDRESS: self._get_tls_address,
            Call.GET_RTL_NAMES: self._get_rtl_names,
        }
        while True:
            kind, body = self._channel.receive()
            if kind != BATCH:
                return
            (number,) = NUMBER.unpack_from(body)
            fields = unpacked(body, CALLS[Call(number)][0], NUMBER.size)
            self._channel.send(RESULTS, packed(calls[number](*fields)))

    def _call(self, call: Call, *arguments: Any) -> Any:
        self._channel.begin(call)
        result = self._functions[call](*arguments)
        self._channel.end()
        return result

    def _initialise(self) -> Sequence[Field]:
        code = self._call(Call.INITIALISE, ctypes.addressof(self._table.structure))
        if code == 0 and self._extends and Call.EXTEND in self._functions:
            code = self._call(Call.EXTEND, ctypes.addressof(self._table.extension))
        return (code,)

    def _error_string(self, code: int) -> Sequence[Field]:
        return (short(self._call(Call.ERROR_STRING, code)),)

    def _destroy_process_info(self, info: int) -> Sequence[Field]:
        return (self._call(Call.DESTROY_PROCESS_INFO, info),)

    def _destroy_thread_info(self, info: int) -> Sequence[Field]:
        return (self._call(Call.DESTROY_THREAD_INFO, info),)

    def _demangle_name(self, mangled: bytes, room: int) -> Sequence[Field]:
        room = max(0, min(room, MAX_NAME))
        buffer = ctypes.create_string_buffer(bytes(room) + _BEHIND, room + len(_BEHIND))
        length, flags, line = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        code = self._call(
            *(Call.DEMANGLE_NAME, mangled, ctypes.byref(length), buffer, room, ctypes.byref(flags), ctypes.byref(line))
        )
        if buffer.raw[room:] != _BEHIND:
            stop(b"the library wrote behind the buffer for a name")
        return code, length.value, buffer.raw[:room].partition(b"\0")[0], flags.value, line.value

    def _get_tls_address(self, thread: int, address: int) -> Sequence[Field]:
        copy = ctypes.c_ulonglong()
        code = self._call(Call.GET_TLS_ADDRESS, thread, address % (1 << 64), ctypes.byref(copy))
        return code, copy.value

    def _get_rtl_names(self, language: int) -> Sequence[Field]:
        names = self._call(Call.GET_RTL_NAMES, language)
        return (1, short(names[0]), short(names[1])) if names else (0, b"", b"")
