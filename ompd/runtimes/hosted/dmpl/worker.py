"""The process that hosts a DMPL library: a Python of its own, in which nothing else runs."""

from __future__ import annotations

import contextlib
import ctypes
import socket
from collections.abc import Callable, Sequence
from typing import Any

from ompd.runtimes.hosted.dmpl.protocol import (
    CALLS,
    FUNCTIONS,
    INITIALISE,
    MAX_NAME,
    RESULT,
    Call,
    Field,
    Garbage,
    Stream,
    unpacked,
)
from ompd.runtimes.hosted.dmpl.table import Table, short
from ompd.runtimes.hosted.loading.loader import load
from ompd.runtimes.hosted.loading.sandbox import confine
from ompd.runtimes.hosted.worker.lifeline import end_with

_LIFELINE = 0  # standard input


class _Worker:
    # Serves the debugger's calls.

    def __init__(self, stream: Stream, load: Callable[[], ctypes.CDLL]) -> None:
        self._stream = stream
        self._load = load
        self._library: Any = None
        self._table: Table | None = None

    def serve(self) -> None:
        calls: dict[int, Callable[..., Sequence[Field]]] = {
            Call.HELLO: self._hello,
            Call.INITIALISE: self._initialise,
            Call.ERROR_STRING: self._error_string,
            Call.DESTROY_PROCESS_INFO: lambda info: (self._library.DMPL_destroy_process_info(info),),
            Call.DESTROY_THREAD_INFO: lambda info: (self._library.DMPL_destroy_thread_info(info),),
            Call.DEMANGLE_NAME: self._demangle_name,
            Call.GET_TLS_ADDRESS: self._get_tls_address,
            Call.GET_RTL_NAMES: self._get_rtl_names,
        }
        while True:
            number, body = self._stream.receive()
            self._stream.send(RESULT, calls[number](*unpacked(body, CALLS[Call(number)][0])))

    def _hello(self) -> Sequence[Field]:
        try:
            library = self._library = self._load()
        except OSError as error:
            return 0, str(error).encode("utf-8", "surrogateescape")[:MAX_NAME], b"", 0, b""
        missing = [name for name in FUNCTIONS if not hasattr(library, name)]
        if not any(hasattr(library, name) for name in INITIALISE):
            missing.insert(0, INITIALISE[0])
        if missing:
            return 1, b"", " ".join(missing).encode(), 0, b""
        ref, number = ctypes.c_void_p, ctypes.c_int
        word = ctypes.c_ulonglong
        to_number = ctypes.POINTER(number)
        for name, result, arguments in (
            ("DMPL_version_compatibility", number, ()),
            ("DMPL_version_string", ctypes.c_char_p, ()),
            ("DMPL_error_string", ctypes.c_char_p, (number,)),
            ("DMPL_destroy_process_info", number, (ref,)),
            ("DMPL_destroy_thread_info", number, (ref,)),
            ("DMPL_demangle_name", number, (ctypes.c_char_p, to_number, ref, number, to_number, to_number)),
            ("DMPL_get_tls_address", number, (ref, word, ctypes.POINTER(word))),
            ("DMPL_get_rtl_names", ctypes.POINTER(ctypes.c_char_p), (number,)),
        ):
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
        version = library.DMPL_version_compatibility()
        return 1, b"", b"", version, short(library.DMPL_version_string())

    def _initialise(self, is_extended: int) -> Sequence[Field]:
        del is_extended  # the table begins alike
        self._table = Table(self._stream)
        name = next(name for name in INITIALISE if hasattr(self._library, name))
        function = getattr(self._library, name)
        function.restype, function.argtypes = ctypes.c_int, (ctypes.c_void_p,)
        return (function(ctypes.addressof(self._table.structure)),)

    def _error_string(self, code: int) -> Sequence[Field]:
        return (short(self._library.DMPL_error_string(code)),)

    def _demangle_name(self, mangled: bytes, room: int) -> Sequence[Field]:
        room = max(0, min(room, MAX_NAME))
        buffer = ctypes.create_string_buffer(room + 1)
        length, flags, line = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        code = self._library.DMPL_demangle_name(
            mangled, ctypes.byref(length), buffer, room, ctypes.byref(flags), ctypes.byref(line)
        )
        return code, length.value, buffer.value, flags.value, line.value

    def _get_tls_address(self, thread: int, address: int) -> Sequence[Field]:
        found = ctypes.c_ulonglong()
        code = self._library.DMPL_get_tls_address(thread, address % (1 << 64), ctypes.byref(found))
        return code, found.value

    def _get_rtl_names(self, language: int) -> Sequence[Field]:
        names = self._library.DMPL_get_rtl_names(language)
        return (1, short(names[0]), short(names[1])) if names else (0, b"", b"")


def main(arguments: Sequence[str]) -> None:
    """Serve: *arguments* are the descriptor of the socket, how many bytes this process may have, and what to load: for
    each file its name, its descriptor, and 1 if its symbols are for all.
    """
    end = socket.socket(fileno=int(arguments[0]))
    rest = arguments[2:]
    steps = [(name, int(at), is_global == "1") for name, at, is_global in zip(*[iter(rest)] * 3, strict=True)]
    end_with(_LIFELINE)
    confine(int(arguments[1]))

    with contextlib.suppress(EOFError, Garbage, OSError):  # nobody is there any more
        _Worker(Stream(end), lambda: load(steps)).serve()
