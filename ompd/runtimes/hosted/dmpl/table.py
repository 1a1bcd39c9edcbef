"""DMPL's callback table for C, in the library's process."""

from __future__ import annotations

import ctypes
import mmap
from _thread import get_ident
from collections.abc import Callable
from typing import Any, ClassVar

from ompd.runtimes.hosted.dmpl.protocol import CALLBACKS, MAX_DATA, MAX_NAME, Callback, Field, packed, unpacked
from ompd.runtimes.hosted.protocol import ANSWER, CALLBACK, NUMBER
from ompd.runtimes.hosted.results import Malformed
from ompd.runtimes.hosted.worker.channel import Channel, stop


class _Sizes(ctypes.Structure):
    _fields_: ClassVar = [
        (name, ctypes.c_int) for name in ("short_size", "int_size", "long_size", "long_long_size", "pointer_size")
    ]


_REF, _TEXT, _INT = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
_ADDRESS, _WORD = ctypes.c_ulonglong, ctypes.c_longlong
_TO_ADDRESS, _TO_INT = ctypes.POINTER(_ADDRESS), ctypes.POINTER(_INT)
# Result and arguments of each callback: those of the table, in its order, then those of DMPL_extension_t.
_KINDS = [
    ctypes.CFUNCTYPE(*types)
    for types in (
        (None, _REF, _REF),
        (_REF, _REF),
        (None, _REF, _REF),
        (_REF, _REF),
        (_REF, _REF),
        (_INT, _REF, ctypes.POINTER(_Sizes)),
        (_INT, _REF, _TEXT, _TO_ADDRESS),
        (_REF, _REF, _TEXT, _INT),
        (_INT, _REF, _ADDRESS, _REF, _INT),
        (_INT, _REF, _WORD, _TO_ADDRESS),
        (None, _REF, _REF, _REF, _INT),
        (_REF, ctypes.c_size_t),
        (None, _REF),
        (_REF, _INT),
        (None, _TEXT),
        (_INT, _REF),
        (_INT, _REF, _TEXT),
        (_INT, _TEXT, _TO_INT, _REF, _INT, _TO_INT),
    )
]


_EXTENSION = 15  # the index of the extension's first callback


class _Table(ctypes.Structure):
    _fields_: ClassVar = [(f"callback_{at}", kind) for at, kind in enumerate(_KINDS[:_EXTENSION])]


class _Extension(ctypes.Structure):
    _fields_: ClassVar = [(f"callback_{at}", kind) for at, kind in enumerate(_KINDS[_EXTENSION:])]


class Table:
    """The callbacks for C. The debugger answers each of them."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._owner = get_ident()
        self._texts: dict[int, ctypes.Array[ctypes.c_char]] = {}  # kept because a library may still read them
        self._storage: dict[int, ctypes.Array[ctypes.c_char]] = {}
        functions: tuple[Callable[..., Any], ...] = (
            *(self._put_process_info, self._get_process_info, self._put_thread_info, self._get_thread_info),
            *(self._get_process, self._get_type_sizes, self._find_symbol, self._find_type, self._get_data),
            *(self._get_pthread_key, self._target_to_host, self._malloc, self._free, self._error_string),
            *(self._prints, self._sizeof, self._field_offset, self._source_of),
        )
        pointers = [kind(function) for kind, function in zip(_KINDS, functions, strict=True)]
        # The table ends at the end of its page, and the next page is not readable, so a library that reads past the
        # table crashes.
        self._pages = mmap.mmap(-1, 2 * mmap.PAGESIZE)
        self.structure = _Table.from_buffer(self._pages, mmap.PAGESIZE - ctypes.sizeof(_Table))
        for field, pointer in zip(_Table._fields_, pointers, strict=False):
            setattr(self.structure, field[0], pointer)
        end = ctypes.addressof(self.structure) + ctypes.sizeof(_Table)
        ctypes.CDLL(None).mprotect(ctypes.c_void_p(end), ctypes.c_size_t(mmap.PAGESIZE), 0)
        self.extension = _Extension(*pointers[_EXTENSION:])

    def ask(self, what: Callback, *fields: Field) -> list[Any]:
        """Send a callback to the debugger, and return the fields of its answer. End the process without an answer."""
        if get_ident() != self._owner:
            stop(b"the library called back from a thread of its own")
        self._channel.send(CALLBACK, NUMBER.pack(what), packed(fields))
        kind, body = self._channel.receive()
        if kind != ANSWER:
            stop(b"no answer")
        try:
            return unpacked(body, CALLBACKS[what][1])
        except Malformed as error:
            stop(str(error).encode())

    # The callbacks, in the order of DMPL's table. ctypes passes None for a null pointer.

    def _put_process_info(self, process: int | None, info: int | None) -> None:
        self.ask(Callback.PUT_PROCESS_INFO, process or 0, info or 0)

    def _get_process_info(self, process: int | None) -> int:
        return int(self.ask(Callback.GET_PROCESS_INFO, process or 0)[0])

    def _put_thread_info(self, thread: int | None, info: int | None) -> None:
        self.ask(Callback.PUT_THREAD_INFO, thread or 0, info or 0)

    def _get_thread_info(self, thread: int | None) -> int:
        return int(self.ask(Callback.GET_THREAD_INFO, thread or 0)[0])

    def _get_process(self, thread: int | None) -> int:
        return int(self.ask(Callback.GET_PROCESS, thread or 0)[0])

    def _get_type_sizes(self, process: int | None, sizes: Any) -> int:
        code, *found = self.ask(Callback.GET_TYPE_SIZES, process or 0)
        if code == 0 and sizes:
            for (name, _), size in zip(sizes.contents._fields_, found, strict=True):
                setattr(sizes.contents, name, size)
        return int(code)

    def _find_symbol(self, process: int | None, name: bytes | None, address: Any) -> int:
        code, found = self.ask(Callback.FIND_SYMBOL, process or 0, short(name))
        if code == 0 and address:
            address[0] = found % (1 << 64)
        return int(code)

    def _find_type(self, process: int | None, name: bytes | None, language: int) -> int:
        return int(self.ask(Callback.FIND_TYPE, process or 0, short(name), language)[0])

    def _get_data(self, thread: int | None, address: int, buffer: int | None, size: int) -> int:
        code, data = self.ask(Callback.GET_DATA, thread or 0, address, size)
        if code == 0 and buffer:
            ctypes.memmove(buffer, data, min(len(data), size))
        return int(code)

    def _get_pthread_key(self, thread: int | None, key: int, value: Any) -> int:
        code, found = self.ask(Callback.GET_PTHREAD_KEY, thread or 0, key)
        if code == 0 and value:
            value[0] = found % (1 << 64)
        return int(code)

    def _target_to_host(self, thread: int | None, data: int | None, result: int | None, size: int) -> None:
        if data and result and 0 < size <= MAX_DATA:
            (swapped,) = self.ask(Callback.TARGET_TO_HOST, thread or 0, ctypes.string_at(data, size))
            ctypes.memmove(result, swapped, min(len(swapped), size))

    def _malloc(self, size: int) -> int:
        if size > MAX_DATA:
            return int(self.ask(Callback.MALLOC, size, 0)[0])
        storage = ctypes.create_string_buffer(max(size, 1))
        address = ctypes.addressof(storage)
        if not self.ask(Callback.MALLOC, size, address)[0]:
            return 0
        self._storage[address] = storage
        return address

    def _free(self, address: int | None) -> None:
        if address and self.ask(Callback.FREE, address)[0]:
            self._storage.pop(address, None)

    def _error_string(self, code: int) -> int:
        (text,) = self.ask(Callback.ERROR_STRING, code)
        kept = self._texts.get(code)
        if kept is None or kept.value != text:
            kept = self._texts[code] = ctypes.create_string_buffer(text)
        return ctypes.addressof(kept)

    def _prints(self, text: bytes | None) -> None:
        self.ask(Callback.PRINTS, short(text))

    def _sizeof(self, type_: int | None) -> int:
        return int(self.ask(Callback.SIZEOF, type_ or 0)[0])

    def _field_offset(self, type_: int | None, name: bytes | None) -> int:
        return int(self.ask(Callback.FIELD_OFFSET, type_ or 0, short(name))[0])

    def _source_of(self, mangled: bytes | None, length: Any, name: int | None, room: int, line: Any) -> int:
        is_known, found, number = self.ask(Callback.SOURCE_OF, short(mangled))
        if line:
            line[0] = number
        if not is_known:
            return 3  # DMPL_name_unchanged
        fits = len(found) < room
        if length:
            length[0] = len(found) + (not fits)
        if fits and name:
            ctypes.memmove(name, found + b"\0", len(found) + 1)
        return 0 if fits else 2  # DMPL_name_too_long


def short(text: bytes | None) -> bytes:
    """Return a text from the library, cut off if it is long."""
    return (text or b"")[:MAX_NAME]
