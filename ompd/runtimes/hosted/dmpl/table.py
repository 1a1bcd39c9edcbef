"""DMPL's callback table for C, in the library's process."""

from __future__ import annotations

import ctypes
import mmap
from _thread import get_ident
from typing import Any, ClassVar

from ompd.runtimes.hosted.dmpl.protocol import MAX_DATA, MAX_NAME, Callback
from ompd.runtimes.hosted.protocol import signed
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
    _fields_: ClassVar = [(f"callback_{place}", kind) for place, kind in enumerate(_KINDS[:_EXTENSION])]


class _Extension(ctypes.Structure):
    _fields_: ClassVar = [(f"callback_{place}", kind) for place, kind in enumerate(_KINDS[_EXTENSION:])]


class Table:
    """The callbacks for C. The debugger answers each of them."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._owner = get_ident()
        self._texts: dict[int, ctypes.Array[ctypes.c_char]] = {}  # kept because a library may still read them
        self._storage: dict[int, ctypes.Array[ctypes.c_char]] = {}
        functions = [getattr(self, f"_{callback.name.lower()}") for callback in Callback]
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

    def _ask(self, which: Callback, *words: int | None, raw: bytes = b"") -> tuple[int, int, bytes]:
        # The code, the word and the bytes of the debugger's answer. ctypes passes None for a null pointer.
        if get_ident() != self._owner:
            stop(b"the library called back from a thread of its own")
        return self._channel.ask_single(which, words=[word or 0 for word in words], raw=raw)

    def _number(self, which: Callback, *words: int | None, raw: bytes = b"") -> int:
        code, number, _ = self._ask(which, *words, raw=raw)
        return 0 if code else number

    # The callbacks, in the order of DMPL's table

    def _put_process_info(self, process: int | None, info: int | None) -> None:
        self._ask(Callback.PUT_PROCESS_INFO, process, info)

    def _get_process_info(self, process: int | None) -> int:
        return self._number(Callback.GET_PROCESS_INFO, process)

    def _put_thread_info(self, thread: int | None, info: int | None) -> None:
        self._ask(Callback.PUT_THREAD_INFO, thread, info)

    def _get_thread_info(self, thread: int | None) -> int:
        return self._number(Callback.GET_THREAD_INFO, thread)

    def _get_process(self, thread: int | None) -> int:
        return self._number(Callback.GET_PROCESS, thread)

    def _get_type_sizes(self, process: int | None, sizes: Any) -> int:
        code, _, raw = self._ask(Callback.GET_TYPE_SIZES, process)
        if code == 0 and sizes:
            for (name, _), size in zip(sizes.contents._fields_, raw, strict=True):
                setattr(sizes.contents, name, size)
        return code

    def _find_symbol(self, process: int | None, name: bytes | None, address: Any) -> int:
        code, symbol_address, _ = self._ask(Callback.FIND_SYMBOL, process, raw=short(name))
        if code == 0 and address:
            address[0] = symbol_address
        return code

    def _find_type(self, process: int | None, name: bytes | None, language: int) -> int:
        return self._number(Callback.FIND_TYPE, process, language, raw=short(name))

    def _get_data(self, thread: int | None, address: int, buffer: int | None, size: int) -> int:
        code, _, data = self._ask(Callback.GET_DATA, thread, address, size)
        if code == 0 and buffer:
            ctypes.memmove(buffer, data, min(len(data), size))
        return code

    def _get_pthread_key(self, thread: int | None, key: int, value: Any) -> int:
        code, key_value, _ = self._ask(Callback.GET_PTHREAD_KEY, thread, key)
        if code == 0 and value:
            value[0] = key_value
        return code

    def _target_to_host(self, thread: int | None, data: int | None, result: int | None, size: int) -> None:
        if data and result and 0 < size <= MAX_DATA:
            _, _, swapped = self._ask(Callback.TARGET_TO_HOST, thread, raw=ctypes.string_at(data, size))
            ctypes.memmove(result, swapped, min(len(swapped), size))

    def _malloc(self, size: int) -> int:
        if size > MAX_DATA:
            return self._number(Callback.MALLOC, size, 0)
        storage = ctypes.create_string_buffer(max(size, 1))
        address = ctypes.addressof(storage)
        if not self._number(Callback.MALLOC, size, address):
            return 0
        self._storage[address] = storage
        return address

    def _free(self, address: int | None) -> None:
        if address and self._number(Callback.FREE, address):
            self._storage.pop(address, None)

    def _error_string(self, code: int) -> int:
        _, _, text = self._ask(Callback.ERROR_STRING, code)
        kept = self._texts.get(code)
        if kept is None or kept.value != text:
            kept = self._texts[code] = ctypes.create_string_buffer(text)
        return ctypes.addressof(kept)

    def _prints(self, text: bytes | None) -> None:
        self._ask(Callback.PRINTS, raw=short(text))

    def _sizeof(self, type_: int | None) -> int:
        code, size, _ = self._ask(Callback.SIZEOF, type_)
        return -1 if code else signed(size)

    def _field_offset(self, type_: int | None, name: bytes | None) -> int:
        code, offset, _ = self._ask(Callback.FIELD_OFFSET, type_, raw=short(name))
        return -1 if code else signed(offset)

    def _source_of(self, mangled: bytes | None, length: Any, name: int | None, room: int, line: Any) -> int:
        code, number, source_name = self._ask(Callback.SOURCE_OF, raw=short(mangled))
        if line:
            line[0] = signed(number)
        if code:
            return 3  # DMPL_name_unchanged
        fits = len(source_name) < room
        if length:
            length[0] = len(source_name) + (not fits)
        if fits and name:
            ctypes.memmove(name, source_name + b"\0", len(source_name) + 1)
        return 0 if fits else 2  # DMPL_name_too_long


def short(text: bytes | None) -> bytes:
    """Return a text from the library, cut off if it is long."""
    return (text or b"")[:MAX_NAME]
