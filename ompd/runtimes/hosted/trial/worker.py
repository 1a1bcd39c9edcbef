"""A trial in a worker: performs the host's steps one by one, and answers each step before it reads the next.

A step and its answer are JSON objects. ``do`` is one of:

- ``call``: call ``function`` with ``arguments``. An argument is a pair: ``n`` and a number; ``at`` and the number of a
  cell whose address is passed; ``in`` and the number of a cell whose first word is passed; ``raw`` and bytes in
  hexadecimal whose address is passed; ``table`` and 0 for the callbacks, or 1 for a table of null pointers. With
  ``if_ok`` the call is left out if the previous call failed. The answer has ``code``; the ``cells`` whose addresses
  were passed; ``fired``, whether the requested fault has occurred; and ``called``, the number of calls of each
  callback.
- ``fill``: fill a cell with a byte. ``fault``: from now on, the ``nth`` call of callback ``which`` (-1: of any) returns
  ``code``, and with ``gives`` delivers half of its result first. ``poison``: set the byte that fills allocated memory.
- ``text``: return the text at a cell's word, and whether it is in memory that the tool allocated. ``texts``: the same
  for the texts of a vector. ``free``: free, as the tool, the block at a cell's word. ``words``: return the given number
  of words at a cell's word.
- ``blocks``: return the number of allocated blocks, and the number of frees without a block.

Freed blocks stay mapped, filled with a pattern. A library that reads a freed block reads the pattern, and the process
does not crash.
"""

from __future__ import annotations

import ctypes
import json
from _thread import get_ident

from ompd.runtimes.hosted.protocol import (
    ASK_MEMORY,
    ASK_SIZES,
    ASK_STRING,
    ASK_SYMBOL,
    ASK_THREAD,
    BATCH,
    RESULTS,
)
from ompd.runtimes.hosted.signatures import SIGNATURES
from ompd.runtimes.hosted.worker.callbacks import CallbackTable
from ompd.runtimes.hosted.worker.channel import Channel
from ompd.runtimes.hosted.worker.raw import POINTER, Blocks, RawMemory

TYPE_CHECKING = False  # not from `typing`, whose import takes longer than this whole module

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

CELLS, CELL = 64, 64
_OK, _STALE_HANDLE, _BAD_INPUT, _WRITE_ERROR, _NOMEM, _CALLBACK_ERROR = 0, 2, 3, 9, 10, 12
_FREED = 0xDD
_MAX_READ, _MAX_VECTOR = 1 << 24, 4096
_NUMBERS = {signature.name: number for number, signature in SIGNATURES.items()}


def serve(channel: Channel) -> Callable[[ctypes.CDLL], None]:
    """Return the function that serves the host with a library. That function opens no files, because the process is
    then confined.
    """
    return _Trial(channel).run


class _Memory:
    # The blocks that the library has allocated. Freed blocks are kept, so that their addresses are never reused.
    def __init__(self, memory: RawMemory) -> None:
        self._memory, self._blocks = memory, Blocks()
        self.live: dict[int, int] = {}
        self.wrong = 0
        self.poison = 0

    def allocate(self, size: int) -> int:
        address = self._blocks.allocate(size)
        if address:
            self.live[address] = size
            self._memory.view[address : address + size] = bytes([self.poison]) * size
        return address

    def free(self, address: int) -> bool:
        size = self.live.pop(address, None)
        if size is None:
            self.wrong += 1
            return False
        self._memory.view[address : address + size] = bytes([_FREED]) * size
        return True


class _Callbacks:
    # ompd_callbacks_t, with a fault in one call on request.
    def __init__(self, channel: Channel, memory: RawMemory, blocks: _Memory) -> None:
        self._channel, self._memory, self._blocks = channel, memory, blocks
        self._view = memory.view
        self._found: bytes = b""
        self._word = 0
        self._owner = get_ident()
        self.called = [0] * 11
        self.fired = False
        self._fault: tuple[int, int, int, bool] | None = None
        served = (
            *(self._alloc, self._free, self._print, self._sizeof, self._symbol, self._read, self._write),
            *(self._read_string, self._convert, self._convert, self._context),
        )
        kinds: list[Any] = [kind for _, kind in CallbackTable._fields_]
        functions: tuple[Callable[..., int], ...] = served
        self._functions = [
            kind(self._guarded(which, function))
            for which, (kind, function) in enumerate(zip(kinds, functions, strict=True))
        ]
        self.table = CallbackTable(*self._functions)
        self.empty = CallbackTable()

    def set_fault(self, which: int, nth: int, code: int, gives: bool) -> None:
        self._fault, self.fired = (which, nth, code, gives) if nth else None, False

    def _guarded(self, which: int, function: Callable[..., int]) -> Callable[..., int]:
        def callback(*arguments: Any) -> int:
            if get_ident() != self._owner:
                return _CALLBACK_ERROR
            try:
                self.called[which] += 1
                return self._failing(which, function, arguments)
            except BaseException:  # noqa: BLE001  no exception may pass through C
                return _CALLBACK_ERROR

        return callback

    def _failing(self, which: int, function: Callable[..., int], arguments: Sequence[Any]) -> int:
        if self._fault is not None and self._fault[0] in (-1, which):
            _, nth, code, gives = self._fault
            if nth == 1:
                self._fault, self.fired = None, True
                if gives and which == 5:
                    context, thread, where, size, buffer = arguments
                    function(context, thread, where, size // 2, buffer)
                return code
            self._fault = (self._fault[0], nth - 1, code, gives)
        return function(*arguments)

    def _keep(self, what: int, context: int, first: int, second: int, raw: bytes) -> None:
        self._found, self._word = raw, second

    def _ask(self, which: int, context: int, thread: int = 0, words: tuple[int, int] = (0, 0), raw: bytes = b"") -> int:
        if not 0 < context < 1 << 32:
            return _STALE_HANDLE
        return self._channel.ask(which, context, self._keep, thread=thread, words=words, raw=raw)

    # In the table's order

    def _alloc(self, size: int, where: int) -> int:
        if not where:
            return _BAD_INPUT
        address = self._blocks.allocate(size)
        self._view[where : where + 8] = POINTER.pack(address)
        return _OK if address else _NOMEM

    def _free(self, address: int) -> int:
        return _OK if not address or self._blocks.free(address) else _BAD_INPUT

    def _print(self, text: int, category: int) -> int:
        return _OK

    def _sizeof(self, context: int, where: int) -> int:
        if not where:
            return _BAD_INPUT
        code = self._ask(ASK_SIZES, context)
        if not code:
            self._view[where : where + 6] = self._found[:6]
        return code

    def _symbol(self, context: int, thread: int, name: bytes | None, where: int, file: int) -> int:
        if not name or not where:
            return _BAD_INPUT
        code = self._ask(ASK_SYMBOL, context, thread, raw=name)
        if not code:
            self._view[where : where + 16] = POINTER.pack(0) + POINTER.pack(self._word)
        return code

    def _read(self, context: int, thread: int, where: int, size: int, buffer: int) -> int:
        return self._bytes(ASK_MEMORY, context, where, size, buffer)

    def _read_string(self, context: int, thread: int, where: int, size: int, buffer: int) -> int:
        return self._bytes(ASK_STRING, context, where, size, buffer)

    def _bytes(self, which: int, context: int, where: int, size: int, buffer: int) -> int:
        if not where or not buffer or size > _MAX_READ:
            return _BAD_INPUT
        if not size:
            return _OK
        (address,) = POINTER.unpack_from(self._view, where + 8)
        code = self._ask(which, context, words=(address, size))
        if not code:
            self._view[buffer : buffer + len(self._found)] = self._found
        return code

    def _write(self, context: int, thread: int, where: int, size: int, buffer: int) -> int:
        return _WRITE_ERROR

    def _convert(self, context: int, source: int, unit: int, count: int, target: int) -> int:
        size = unit * count
        if not source or not target or size > _MAX_READ:
            return _BAD_INPUT
        self._view[target : target + size] = bytes(self._view[source : source + size])
        return _OK

    def _context(self, context: int, kind: int, size: int, identifier: int, where: int) -> int:
        if not where or not identifier or size > CELL:
            return _BAD_INPUT
        raw = bytes(self._view[identifier : identifier + size])
        code = self._ask(ASK_THREAD, context, words=(kind, 0), raw=raw)
        if not code:
            self._view[where : where + 8] = POINTER.pack(self._word)
        return code


class _Trial:
    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._memory = RawMemory()
        self._blocks = _Memory(self._memory)
        self._callbacks = _Callbacks(channel, self._memory, self._blocks)
        self._cells = (ctypes.c_ubyte * (CELL * CELLS))()
        self._start = ctypes.addressof(self._cells)
        self._view = memoryview(self._cells).cast("B")
        self._kept: list[Any] = []
        self._code = 0

    def run(self, loaded: ctypes.CDLL) -> None:
        functions = [(number, name) for name, number in _NUMBERS.items() if hasattr(loaded, name)]
        self._channel.ready(0, b"", functions)
        steps: dict[str, Callable[..., dict[str, Any]]] = {
            "call": lambda **step: self._call(loaded, **step),
            "fill": self._fill,
            "fault": self._fault,
            "poison": self._poison,
            "text": self._text,
            "texts": self._texts,
            "free": self._free,
            "words": self._words,
            "blocks": self._count,
        }
        while True:
            kind, body = self._channel.receive()
            if kind != BATCH:
                return
            step = json.loads(body)
            found = steps[step.pop("do")](**step)
            self._channel.send(RESULTS, json.dumps(found).encode())

    def _word(self, cell: int) -> int:
        return int(POINTER.unpack_from(self._view, cell * CELL)[0])

    def _call(
        self, loaded: ctypes.CDLL, function: str, arguments: Sequence[Sequence[Any]], if_ok: bool = False
    ) -> dict[str, Any]:
        if if_ok and self._code:
            return {"skipped": True}
        call = getattr(loaded, function, None)
        if call is None:
            return {"absent": True}
        call.restype = ctypes.c_int
        words = [ctypes.c_uint64(self._argument(*argument)) for argument in arguments]
        self._callbacks.called[:] = [0] * 11
        self._channel.begin(_NUMBERS[function])
        code = call(*words)
        self._channel.end()
        self._code = code
        cells = [argument[1] for argument in arguments if argument[0] == "at"]
        return {
            "code": code,
            "cells": {str(cell): bytes(self._view[cell * CELL : cell * CELL + CELL]).hex() for cell in cells},
            "called": list(self._callbacks.called),
            "fired": self._callbacks.fired,
        }

    def _argument(self, kind: str, value: Any) -> int:
        if kind == "at":
            return self._start + int(value) * CELL
        if kind == "in":
            return self._word(value)
        if kind == "raw":
            buffer = ctypes.create_string_buffer(bytes.fromhex(value))
            self._kept.append(buffer)
            return ctypes.addressof(buffer)
        if kind == "table":
            return ctypes.addressof(self._callbacks.empty if value else self._callbacks.table)
        return int(value) & 0xFFFFFFFFFFFFFFFF

    def _fill(self, cell: int, byte: int) -> dict[str, Any]:
        self._view[cell * CELL : cell * CELL + CELL] = bytes([byte]) * CELL
        return {}

    def _fault(self, which: int, nth: int, code: int, gives: bool = False) -> dict[str, Any]:
        self._callbacks.set_fault(which, nth, code, gives)
        return {}

    def _poison(self, byte: int) -> dict[str, Any]:
        self._blocks.poison = byte
        return {}

    def _text(self, cell: int) -> dict[str, Any]:
        return self._text_at(self._word(cell))

    def _text_at(self, address: int) -> dict[str, Any]:
        text = self._memory.text(address)
        is_owned = any(start <= address < start + size for start, size in self._blocks.live.items())
        return {"text": None if text is None else text[:4096].hex(), "owned": is_owned}

    def _texts(self, cell: int) -> dict[str, Any]:
        pointers = self._memory.words(self._word(cell), _MAX_VECTOR)
        return {"texts": None if pointers is None else [self._text_at(pointer) for pointer in pointers]}

    def _free(self, cell: int) -> dict[str, Any]:
        return {"freed": self._blocks.free(self._word(cell))}

    def _words(self, cell: int, count: int) -> dict[str, Any]:
        raw = self._memory.read(self._word(cell), 8 * count)
        return {"words": None if raw is None else [POINTER.unpack_from(raw, 8 * at)[0] for at in range(count)]}

    def _count(self) -> dict[str, Any]:
        return {"live": len(self._blocks.live), "wrong": self._blocks.wrong}
